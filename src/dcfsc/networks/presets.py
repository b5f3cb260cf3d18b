"""Networks by name, and a sensible one for any sample shape."""

from __future__ import annotations

import torch

from dcfsc.errors import InputError, unknown_name
from dcfsc.networks.autoencoders import ConvAutoencoder
from dcfsc.networks.specs import ConvSpec, MLPSpec

_EYALEB = ConvSpec((1, 48, 42), (10, 20, 30), (5, 3, 3), (2, 2, 2))

PRESETS: dict[str, ConvSpec] = {
    # The paper's tables. Its ORL shape differs from the weights published with DSC, and it does
    # not say how COIL-100's pixels were scaled: 0..1 and linear ends are this library's choice.
    "orl": ConvSpec((1, 32, 32), (5, 3, 3), (5, 3, 3), (2, 2, 2)),
    "eyaleb": _EYALEB,
    "coil100": ConvSpec(
        (1, 32, 32),
        (24, 24, 48, 48, 72),
        (5, 3, 3, 3, 1),
        (1, 2, 1, 2, 1),
        batch_norm=True,
        input_scale=1 / 255,
        latent_relu=False,
        output_relu=False,
    ),
    # The shapes of the published weights; ORL's and COIL-100's were trained on transposed images.
    "dsc-orl": ConvSpec((1, 32, 32), (3, 3, 5), (3, 3, 3), (2, 2, 2), transposed=True),
    "dsc-eyaleb": _EYALEB,
    "dsc-coil100": ConvSpec((1, 32, 32), (50,), (5,), (2,), transposed=True),
}


def preset_spec(name: str) -> ConvSpec:
    """The spec behind ``preset(name)``."""
    if name not in PRESETS:
        raise unknown_name("network", name, PRESETS)
    return PRESETS[name]


def preset(name: str, generator: torch.Generator | None = None) -> ConvAutoencoder:
    """The paper's "orl", "eyaleb", "coil100", or DSC's "dsc-orl", "dsc-eyaleb", "dsc-coil100".

    Weights are Glorot uniform from ``generator`` (default: seed 0).
    """
    return ConvAutoencoder(preset_spec(name), generator)


def architecture_for(shape: tuple[int, ...]) -> ConvSpec | MLPSpec:
    """A network for samples of ``shape``: (features,), (h, w) or (c, h, w).

    Images: stride-2 convolutions until the map is at most 8 wide, with 10, 20, 30, ... channels
    (the shape of the paper's Extended Yale B network). Vectors: one hidden layer, and as many
    latents as features up to 128. Latents and output are linear, so that data of any sign and
    scale can be reconstructed.
    """
    shape = tuple(int(size) for size in shape)
    if len(shape) not in (1, 2, 3) or min(shape) < 1:
        raise InputError(
            f"samples must be (features,), (h, w) or (c, h, w) with no empty side, got {shape}."
        )
    if len(shape) == 1:
        (features,) = shape
        return MLPSpec(features, (min(max(2 * features, 32), 512),), min(features, 128))
    c, height, width = shape if len(shape) == 3 else (1, *shape)
    h, w = height, width
    first_kernel = 5 if min(h, w) >= 16 else 3
    strides: list[int] = []
    while not strides or max(h, w) > 8:
        strides.append(2 if max(h, w) >= 4 else 1)
        h, w = -(-h // strides[-1]), -(-w // strides[-1])
    depth = len(strides)
    return ConvSpec(
        (c, height, width),
        tuple(10 * (i + 1) for i in range(depth)),
        (first_kernel, *[3] * (depth - 1)),
        tuple(strides),
        latent_relu=False,
        output_relu=False,
    )
