"""What a network is, in plain numbers: frozen, comparable, and JSON in a saved model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Self

from dcfsc.errors import InputError, unknown_name
from dcfsc.networks.convolution import SameGeometry

ACTIVATIONS = ("relu", "tanh", "elu", "gelu")


@dataclass(frozen=True)
class _Described:
    """A spec as a dictionary of plain values, and back."""

    kind: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        values = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        return {"kind": self.kind, **values}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        arguments = dict(values)
        if arguments.pop("kind", cls.kind) != cls.kind:
            raise InputError(f"expected a network of kind {cls.kind!r}, got {values['kind']!r}.")
        known = [field.name for field in fields(cls)]
        for name in arguments:
            if name not in known:
                raise unknown_name(f"entry of a {cls.kind} network", name, known)
        try:
            return cls(**arguments)
        except TypeError as error:
            raise InputError(
                f"this {cls.kind} network's description is incomplete: {error}."
            ) from error


@dataclass(frozen=True)
class ConvSpec(_Described):
    """A convolutional auto-encoder; the decoder mirrors the encoder layer by layer.

    Attributes
    ----------
    input_shape : (channels, height, width) of one upright image.
    channels, kernels, strides : one entry for each encoder layer; SAME padding everywhere.
    batch_norm : batch norm (and no bias) after every layer but the encoder's and decoder's last.
    transposed : the network works on transposed images, as some published weights do. Images go
        in and come out upright all the same.
    input_scale : what the pixels are multiplied by before the first layer; undone on the output.
        1 for networks that take pixels 0..255 as they are.
    latent_relu, output_relu : whether ReLU also follows the last layer of the encoder, of the
        decoder. It follows every other layer (after the batch norm).
    """

    kind: ClassVar[str] = "conv"
    input_shape: tuple[int, int, int]
    channels: tuple[int, ...]
    kernels: tuple[int, ...]
    strides: tuple[int, ...]
    batch_norm: bool = False
    transposed: bool = False
    input_scale: float = 1.0
    latent_relu: bool = True
    output_relu: bool = True

    def __post_init__(self) -> None:
        for name in ("input_shape", "channels", "kernels", "strides"):
            object.__setattr__(self, name, _positive_integers(name, getattr(self, name)))
        _check_scale(self)
        if len(self.input_shape) != 3:
            raise InputError(
                f"input_shape must be (channels, height, width), got {self.input_shape}."
            )
        lengths = {len(self.channels), len(self.kernels), len(self.strides)}
        if lengths == {0} or len(lengths) != 1:
            raise InputError(
                "channels, kernels and strides need one entry for each encoder layer, got "
                f"{len(self.channels)}, {len(self.kernels)} and {len(self.strides)} entries."
            )

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return self.input_shape

    @property
    def geometries(self) -> tuple[SameGeometry, ...]:
        """Each encoder layer's sizes, as the (perhaps transposed) network sees them."""
        _, height, width = self.input_shape
        if self.transposed:
            height, width = width, height
        layers = []
        for kernel, stride in zip(self.kernels, self.strides, strict=True):
            layers.append(SameGeometry(height, width, kernel, stride))
            height, width = layers[-1].out_height, layers[-1].out_width
        return tuple(layers)

    @property
    def latent_shape(self) -> tuple[int, int, int]:
        last = self.geometries[-1]
        return self.channels[-1], last.out_height, last.out_width

    @property
    def latent_dim(self) -> int:
        return math.prod(self.latent_shape)


@dataclass(frozen=True)
class MLPSpec(_Described):
    """A fully connected auto-encoder for feature vectors, with linear latents and output.

    Attributes
    ----------
    input_dim : number of features.
    hidden : units of the encoder's hidden layers; the decoder has them in reverse.
    latent_dim : number of latent features.
    activation : "relu", "tanh", "elu" or "gelu", after every hidden layer.
    input_scale : what the features are multiplied by on the way in; undone on the output.
    """

    kind: ClassVar[str] = "mlp"
    input_dim: int
    hidden: tuple[int, ...]
    latent_dim: int
    activation: str = "relu"
    input_scale: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "hidden", _positive_integers("hidden", self.hidden))
        for name in ("input_dim", "latent_dim"):
            (value,) = _positive_integers(name, (getattr(self, name),))
            object.__setattr__(self, name, value)
        _check_scale(self)
        if self.activation not in ACTIVATIONS:
            raise unknown_name("activation", self.activation, ACTIVATIONS)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return (self.input_dim,)


Spec = ConvSpec | MLPSpec


def from_dict(values: Mapping[str, Any]) -> Spec:
    """The spec that ``to_dict`` wrote, of either kind."""
    for cls in (ConvSpec, MLPSpec):
        if values.get("kind") == cls.kind:
            return cls.from_dict(values)
    raise unknown_name("kind of network", values.get("kind"), (ConvSpec.kind, MLPSpec.kind))


def _positive_integers(name: str, values: Any) -> tuple[int, ...]:
    try:
        integers = tuple(int(v) for v in values)
        whole = all(i == v for i, v in zip(integers, values, strict=True))
    except (TypeError, ValueError):
        whole, integers = False, ()
    if not whole or any(i < 1 for i in integers):
        raise InputError(f"{name} must be whole numbers of at least 1, got {values!r}.")
    return integers


def _check_scale(spec: Spec) -> None:
    try:
        scale = float(spec.input_scale)
    except (TypeError, ValueError):
        scale = math.nan
    if not (math.isfinite(scale) and scale > 0):
        raise InputError(f"input_scale must be a positive number, got {spec.input_scale!r}.")
    object.__setattr__(spec, "input_scale", scale)
