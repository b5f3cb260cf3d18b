"""Auto-encoders: an encoder to flat latents, a decoder back, one interface for images and vectors.

z = encoder(x),  x~ = decoder(z):   x (n, *sample_shape) -> z (n, latent_dim) -> x~ like x
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from dcfsc.errors import InputError
from dcfsc.networks.layers import ConvDecoder, ConvEncoder, ConvLayer
from dcfsc.networks.specs import ACTIVATIONS, ConvSpec, MLPSpec


class Autoencoder(nn.Module):
    """The interface that training needs: ``encoder``, ``decoder``, ``latent_dim``, ``spec``."""

    encoder: nn.Module
    decoder: nn.Module
    spec: ConvSpec | MLPSpec

    @property
    def latent_dim(self) -> int:
        return self.spec.latent_dim

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.encoder(x))

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator) -> None:
        """Glorot uniform weights drawn from ``generator``, zero biases, fresh batch norms."""
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.reset_parameters()
            elif isinstance(module, ConvLayer | nn.Linear):
                _glorot_uniform(module.weight, generator)
                if module.bias is not None:
                    module.bias.zero_()


class ConvAutoencoder(Autoencoder):
    """Convolutions down, their mirror image up; x (n, c, h, w), latents (n, latent_dim)."""

    spec: ConvSpec

    def __init__(self, spec: ConvSpec, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.spec = spec
        self.encoder: ConvEncoder = ConvEncoder(spec)
        self.decoder: ConvDecoder = ConvDecoder(spec)
        self.reset_parameters(_seeded(generator))


class MLPAutoencoder(Autoencoder):
    """Fully connected layers for feature vectors; x (n, input_dim), latents (n, latent_dim)."""

    spec: MLPSpec

    def __init__(self, spec: MLPSpec, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.spec = spec
        sizes = (spec.input_dim, *spec.hidden, spec.latent_dim)
        self.encoder = _Scaled(sizes, spec.activation, before=spec.input_scale)
        self.decoder = _Scaled(sizes[::-1], spec.activation, after=1.0 / spec.input_scale)
        self.reset_parameters(_seeded(generator))


class _Scaled(nn.Sequential):
    """Linear layers with an activation between them, and a constant factor at one end."""

    def __init__(
        self, sizes: tuple[int, ...], activation: str, before: float = 1.0, after: float = 1.0
    ) -> None:
        layers: list[nn.Module] = []
        for i, (inputs, outputs) in enumerate(pairwise(sizes)):
            if i:
                layers.append(ACTIVATIONS[activation]())
            # nn.Linear initializes itself from the global generator unless this is skipped.
            layers.append(nn.utils.skip_init(nn.Linear, inputs, outputs))
        super().__init__(*layers)
        self.before, self.after, self.inputs = before, after, sizes[0]

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim != 2 or x.shape[1] != self.inputs:
            raise InputError(
                f"the network takes (n, {self.inputs}) features, got shape {tuple(x.shape)}."
            )
        x = x.to(next(self.parameters()).dtype)
        x = super().forward(x * self.before if self.before != 1 else x)
        return x * self.after if self.after != 1 else x


def build(
    spec: ConvSpec | MLPSpec, generator: torch.Generator | None = None
) -> ConvAutoencoder | MLPAutoencoder:
    """The auto-encoder a spec describes; weights from ``generator`` (default: seed 0)."""
    if isinstance(spec, ConvSpec):
        return ConvAutoencoder(spec, generator)
    if isinstance(spec, MLPSpec):
        return MLPAutoencoder(spec, generator)
    raise InputError(f"build takes a ConvSpec or an MLPSpec, got {type(spec).__name__}.")


def _seeded(generator: torch.Generator | None) -> torch.Generator:
    return torch.Generator().manual_seed(0) if generator is None else generator


def _glorot_uniform(weight: Tensor, generator: torch.Generator) -> None:
    """U(-b, b) with b = sqrt(6 / (fan in + fan out)); drawn on the generator's own device, so the
    numbers do not depend on where the network lives."""
    fans = (weight.shape[0] + weight.shape[1]) * math.prod(weight.shape[2:])
    bound = math.sqrt(6.0 / fans)
    draw = torch.empty(weight.shape, dtype=weight.dtype, device=generator.device)
    weight.copy_(draw.uniform_(-bound, bound, generator=generator))
