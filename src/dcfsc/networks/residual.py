"""Encoders that learn from views: a residual network for images, a small MLP for features.

    f = encoder(x) (n, latent_dim),   p = projector(f) (n, projection),   l = clusters(f) (n, K)

The features f are clustered, or the output of a head that is trained on them later. Only losses
read p and l, and the output of the optional predictor: an estimate of other views' projections.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dcfsc.networks.shared_norm import SharedBatchNorm1d, SharedBatchNorm2d
from dcfsc.networks.specs import HeadSpec, ResidualSpec

# The largest side that the first stage sees; a stem with a stride reduces larger images to it.
LARGEST_SIDE = 36
SMALLEST_SIDE = 8  # a map with a smaller side is not reduced further


class ViewNetwork(nn.Module):
    """An encoder with a projector for views and a linear classifier of clusters; maybe a head.

    Weights are drawn from ``generator`` (default: seed 0).
    """

    def __init__(
        self, spec: ResidualSpec | HeadSpec, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        self.spec = spec
        self.encoder: nn.Module
        if isinstance(spec, ResidualSpec):
            self.encoder = ResidualEncoder(spec)
        else:
            self.encoder = FeatureHead(spec)
        self.head: nn.Module | None = None
        if isinstance(spec, ResidualSpec) and spec.head:
            self.head = FeatureHead(head_spec(spec.encoded, spec.head))
        self.predictor: nn.Module | None = None
        if spec.predictor:
            # Chen and He, "Exploring simple Siamese representation learning", 2021
            sizes = spec.encoded, spec.hidden, spec.hidden, spec.projection
            self.projector = nn.Sequential(
                *_dense(*sizes), SharedBatchNorm1d(spec.projection, affine=False)
            )
            self.predictor = _dense(spec.projection, spec.predictor, spec.projection)
        else:
            self.projector = _dense(spec.encoded, spec.hidden, spec.projection)
        self.clusters = _linear(spec.encoded, spec.n_clusters)
        self.reset_parameters(torch.Generator().manual_seed(0) if generator is None else generator)

    @property
    def latent_dim(self) -> int:
        return self.spec.latent_dim

    def features(self, x: Tensor) -> Tensor:
        """The features of x (n, *sample_shape) to cluster: the head's if there is one."""
        features = self.encoder(x)
        return features if self.head is None else self.head(features)

    def attach(self, trained: ViewNetwork) -> None:
        """Take the head of a network that was trained on this one's features."""
        assert isinstance(self.spec, ResidualSpec)
        self.head, self.spec = trained.encoder, replace(self.spec, head=trained.latent_dim)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """The encoder's features, projections and clusters' logits of x (n, *sample_shape).

        Predictions are the fourth, if the network makes them.
        """
        features = self.encoder(x)
        # The classifier reads directions, as the closed form does.
        logits = self.clusters(F.normalize(features, dim=1))
        projections = self.projector(features)
        if self.predictor is None:
            return features, projections, logits
        return features, projections, logits, self.predictor(projections)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator) -> None:
        """He's normal weights from ``generator``, zero biases, fresh batch norms."""
        for module in self.modules():
            if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                module.reset_parameters()
            elif isinstance(module, nn.Conv2d | nn.Linear):
                weight = module.weight
                spread = math.sqrt(2.0 / math.prod(weight.shape[1:]))
                draw = torch.empty(weight.shape, dtype=weight.dtype, device=generator.device)
                weight.copy_(draw.normal_(0.0, spread, generator=generator))
                if module.bias is not None:
                    module.bias.zero_()


class ResidualEncoder(nn.Module):
    """3 x 3 convolutions with shortcuts, mean pooling; x (n, c, h, w) -> (n, channels[-1]).

    Every image is first scaled to mean 0 and variance 1, so features ignore brightness and gain.
    """

    def __init__(self, spec: ResidualSpec) -> None:
        super().__init__()
        stride, first = spec.stem_stride, spec.channels[0]
        kernel = 2 * stride + 1
        layers: list[nn.Module] = [
            _convolution(spec.input_shape[0], first, kernel, stride),
            SharedBatchNorm2d(first),
            nn.ReLU(),
        ]
        inputs, side = first, -(-min(spec.input_shape[1:]) // stride)
        for stage, outputs in enumerate(spec.channels):
            for block in range(spec.blocks):
                reduce = stage > 0 and block == 0 and side >= SMALLEST_SIDE
                layers.append(ResidualBlock(inputs, outputs, 2 if reduce else 1))
                side, inputs = -(-side // 2) if reduce else side, outputs
        self.layers = nn.Sequential(*layers)
        self.sample_shape = spec.sample_shape

    def forward(self, x: Tensor) -> Tensor:
        spread, mean = torch.std_mean(x, dim=(1, 2, 3), keepdim=True)
        return self.layers((x - mean) / (spread + 1e-3)).mean(dim=(2, 3))


class ResidualBlock(nn.Module):
    """relu(shortcut(x) + bn(conv(relu(bn(conv(x))))))."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = _convolution(inputs, outputs, 3, stride)
        self.first_norm = SharedBatchNorm2d(outputs)
        self.second = _convolution(outputs, outputs, 3, 1)
        self.second_norm = SharedBatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                _convolution(inputs, outputs, 1, stride), SharedBatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.first_norm(self.first(x)), inplace=True)
        return F.relu(self.second_norm(self.second(y)) + self.shortcut(x), inplace=True)


class FeatureHead(nn.Module):
    """An MLP with a linear shortcut on vectors of unit length; (n, d) -> (n, latent_dim)."""

    def __init__(self, spec: HeadSpec) -> None:
        super().__init__()
        self.shortcut = _linear(spec.input_dim, spec.latent_dim)
        self.layers = nn.Sequential(
            _linear(spec.input_dim, spec.hidden, bias=False),
            SharedBatchNorm1d(spec.hidden),
            nn.ReLU(),
            _linear(spec.hidden, spec.latent_dim),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = F.normalize(x, dim=1) * x.shape[1] ** 0.5
        return self.shortcut(x) + self.layers(x)


def head_spec(encoded: int, latent_dim: int, n_clusters: int = 1) -> HeadSpec:
    """A small head on the features of an encoder."""
    return HeadSpec(encoded, latent_dim, hidden=2 * latent_dim, n_clusters=n_clusters)


def view_spec(
    shape: tuple[int, ...], n_clusters: int = 1, *, small: bool = False, alone: bool = False
) -> ResidualSpec | HeadSpec:
    """The encoder for samples of ``shape``: (features,), (h, w) or (c, h, w).

    ``small`` is for processors without an accelerator: a third of the channels, one block a stage
    instead of two, and half of the resolution. ``alone`` is for images that only their own views
    teach: with an accelerator they get ResNet-18's stages and a larger projector.
    """
    shape = tuple(int(size) for size in shape)
    if len(shape) == 1:
        return HeadSpec(shape[0], hidden=512 if small else 1024, n_clusters=n_clusters)
    c, height, width = shape if len(shape) == 3 else (1, *shape)
    side = max(height, width)
    stride = 1
    while side / stride > (LARGEST_SIDE / 2 if small else LARGEST_SIDE):
        stride *= 2
    channels = (24, 48, 96) if small else (64, 128, 256)
    blocks = 1 if small else 2
    spec = ResidualSpec((c, height, width), channels, blocks, stride, n_clusters=n_clusters)
    if small or not alone:
        return spec
    return replace(spec, channels=(*channels, 512), hidden=2048, projection=2048)


def _dense(*sizes: int) -> nn.Sequential:
    """Linear layers, with batch norm and ReLU between them."""
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes[:-1]):
        layers += [_linear(inputs, outputs, bias=False), SharedBatchNorm1d(outputs), nn.ReLU()]
    return nn.Sequential(*layers, _linear(sizes[-2], sizes[-1]))


def _linear(inputs: int, outputs: int, bias: bool = True) -> Any:
    # A layer initializes itself from the global generator unless this is skipped.
    return nn.utils.skip_init(nn.Linear, inputs, outputs, bias=bias)


def _convolution(inputs: int, outputs: int, kernel: int, stride: int) -> Any:
    return nn.utils.skip_init(
        nn.Conv2d, inputs, outputs, kernel, stride=stride, padding=kernel // 2, bias=False
    )
