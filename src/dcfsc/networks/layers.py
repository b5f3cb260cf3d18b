"""The convolutional encoder and decoder: layers, batch norm, and the choice of convolution."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dcfsc.errors import InputError
from dcfsc.networks import convolution, patches
from dcfsc.networks.convolution import SameGeometry
from dcfsc.networks.specs import ConvSpec

# With fewer samples the innermost runs are too short to be worth rearranging the images.
FEWEST_SAMPLES = 16

# TensorFlow's defaults, which the paper's networks were built with: epsilon 1e-3, and a moving
# average that keeps 0.99 of the old value (PyTorch's momentum is the share of the new one).
BATCH_NORM_EPSILON = 1e-3
BATCH_NORM_MOMENTUM = 0.01


class ConvLayer(nn.Module):
    """(Transposed) convolution, then batch norm if any, then ReLU if any.

    ``weight`` is (channels of the small map, channels of the large map, k, k) in either direction;
    a layer with batch norm has no bias, which the norm would subtract again.
    """

    def __init__(
        self,
        small: int,
        large: int,
        geometry: SameGeometry,
        *,
        transposed: bool,
        batch_norm: bool,
        relu: bool,
    ) -> None:
        super().__init__()
        outputs = large if transposed else small
        self.geometry, self.transposed, self.relu = geometry, transposed, relu
        self.weight = nn.Parameter(torch.zeros(small, large, geometry.kernel, geometry.kernel))
        self.bias = None if batch_norm else nn.Parameter(torch.zeros(outputs))
        self.norm = (
            nn.BatchNorm2d(outputs, BATCH_NORM_EPSILON, BATCH_NORM_MOMENTUM) if batch_norm else None
        )

    def forward(self, x: Tensor, plain: bool = False) -> Tensor:
        """PyTorch's operators on x (n, c, h, w); on a GPU channels last, unless ``plain``."""
        apply = convolution.convolve_transposed if self.transposed else convolution.convolve
        x = apply(x, self.weight, self.bias, self.geometry)
        if x.is_cuda and not plain:  # one channel tells no order; kernels want the channels last
            x = x.contiguous(memory_format=torch.channels_last)
        if self.norm is not None:
            x = self.norm(x)
        return F.relu(x) if self.relu else x

    def samples_last(self, x: Tensor) -> Tensor:
        """The same layer, which has no batch norm, on x (c, h, w, n) by matrix products."""
        apply = patches.convolve_transposed if self.transposed else patches.convolve
        x = apply(x, self.weight, self.bias, self.geometry)
        return F.relu(x) if self.relu else x


class _ConvStack(nn.ModuleList):
    """The layers of an encoder, or in reverse those of its decoder (``transposed``).

    On a CPU, blocks of samples that stay in the cache pass all layers at once. A batch norm needs
    all samples at each layer; such networks, and a handful of samples, take PyTorch's operators.
    ``plain`` is PyTorch's operators alone.
    """

    plain = False

    def __init__(self, spec: ConvSpec, transposed: bool) -> None:
        channels, order = (spec.input_shape[0], *spec.channels), range(len(spec.channels))
        if transposed:
            order = order[::-1]
        last_relu = spec.output_relu if transposed else spec.latent_relu
        super().__init__(
            ConvLayer(
                channels[i + 1],
                channels[i],
                spec.geometries[i],
                transposed=transposed,
                batch_norm=spec.batch_norm and i != order[-1],
                relu=last_relu or i != order[-1],
            )
            for i in order
        )
        self.spec = spec

    def _uses_patches(self, x: Tensor) -> bool:
        fast = x.device.type == "cpu" and len(x) >= FEWEST_SAMPLES and not self.plain
        return fast and not self.spec.batch_norm

    def _layers(self) -> Iterator[ConvLayer]:
        return (module for module in self if isinstance(module, ConvLayer))

    def _through(self, x: Tensor) -> Tensor:
        """Maps (n, c, h, w) of the first layer -> (n, features) of the last."""
        if not self._uses_patches(x):
            for layer in self._layers():
                x = layer(x, self.plain)
            return x.flatten(1)
        size = min(patches.block_size(layer.weight, layer.geometry) for layer in self._layers())
        blocks = list(patches.samples_last(x, size))
        for i, block in enumerate(blocks):
            for layer in self._layers():
                block = layer.samples_last(block)
            blocks[i] = block
        return patches.samples_first(blocks)


class ConvEncoder(_ConvStack):
    """Upright images (n, c, h, w), in pixels -> latents (n, latent_dim)."""

    def __init__(self, spec: ConvSpec) -> None:
        super().__init__(spec, transposed=False)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim != 4 or tuple(x.shape[1:]) != self.spec.input_shape:
            expected = ", ".join(map(str, self.spec.input_shape))
            raise InputError(f"the network takes (n, {expected}) images, got {tuple(x.shape)}.")
        x = x.to(next(self.parameters()).dtype)
        if self.spec.input_scale != 1:
            x = x * self.spec.input_scale
        return self._through(x.transpose(2, 3) if self.spec.transposed else x)


class ConvDecoder(_ConvStack):
    """Latents (n, latent_dim) -> upright images (n, c, h, w), in pixels."""

    def __init__(self, spec: ConvSpec) -> None:
        super().__init__(spec, transposed=True)

    def forward(self, z: Tensor) -> Tensor:
        if z.ndim != 2 or z.shape[1] != self.spec.latent_dim:
            raise InputError(
                f"the decoder takes (n, {self.spec.latent_dim}) latents, got {tuple(z.shape)}."
            )
        first = self.spec.geometries[0]
        x = self._through(z.reshape(len(z), *self.spec.latent_shape))
        x = x.view(len(z), self.spec.input_shape[0], first.height, first.width)
        if self.spec.transposed:
            x = x.transpose(2, 3)
        return x if self.spec.input_scale == 1 else x / self.spec.input_scale
