"""What a network is, in plain numbers: frozen, comparable, and JSON in a saved model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any, ClassVar, Self

from dcfsc.errors import InputError, unknown_name
from dcfsc.networks.convolution import SameGeometry

MOST_BLOCKS = 100  # in a stage of a residual network
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
    def layer_sizes(self) -> list[int]:
        """The number of weights of each encoder layer, without biases."""
        widths = (self.input_shape[0], *self.channels)
        return [a * b * k**2 for (a, b), k in zip(pairwise(widths), self.kernels, strict=True)]

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
        _set_positive_integers(self, "input_dim", "latent_dim")
        _check_scale(self)
        if self.activation not in ACTIVATIONS:
            raise unknown_name("activation", self.activation, ACTIVATIONS)

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return (self.input_dim,)

    @property
    def layer_sizes(self) -> list[int]:
        """The number of weights of each encoder layer, without biases."""
        return [a * b for a, b in pairwise((self.input_dim, *self.hidden, self.latent_dim))]


@dataclass(frozen=True)
class ResidualSpec(_Described):
    """A residual encoder of images that learns from views; it has no decoder.

    Attributes
    ----------
    input_shape : (channels, height, width) of one image.
    channels : of each stage; every stage after the first halves the resolution.
    blocks : residual blocks in a stage.
    stem_stride : stride of the first convolution.
    hidden, projection : units of the projector's hidden layers, and of its output.
    n_clusters : units of the classifier.
    predictor : units of the predictor's hidden layer; 0 for no predictor.
    head : features that a head makes of the encoder's; 0 for no head.
    """

    kind: ClassVar[str] = "residual"
    input_shape: tuple[int, int, int]
    channels: tuple[int, ...] = (64, 128, 256)
    blocks: int = 2
    stem_stride: int = 1
    hidden: int = 512
    projection: int = 128
    n_clusters: int = 1
    predictor: int = 0
    head: int = 0

    def __post_init__(self) -> None:
        for name in ("input_shape", "channels"):
            object.__setattr__(self, name, _positive_integers(name, getattr(self, name)))
        _set_positive_integers(self, "blocks", "stem_stride", "hidden", "projection", "n_clusters")
        _set_if_any(self, "predictor", "head")
        if self.blocks > MOST_BLOCKS:
            raise InputError(f"a stage has at most {MOST_BLOCKS} blocks; got {self.blocks}.")
        if len(self.input_shape) != 3 or not self.channels:
            raise InputError(
                "a residual network needs input_shape (channels, height, width) and one entry of "
                f"channels for each stage; got {self.input_shape} and {self.channels}."
            )

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return self.input_shape

    @property
    def encoded(self) -> int:
        """The number of the encoder's own features, which the projector and classifier read."""
        return self.channels[-1]

    @property
    def latent_dim(self) -> int:
        return self.head or self.encoded

    @property
    def strides(self) -> tuple[int, ...]:
        return (self.stem_stride,)

    @property
    def layer_sizes(self) -> list[int]:
        """The number of weights of the first layer of each stage and of the dense layers."""
        first, *others = pairwise((self.input_shape[0], *self.channels))
        stages = [math.prod(first) * (2 * self.stem_stride + 1) ** 2]
        head = [2 * self.encoded * self.head, 2 * self.head**2] if self.head else []
        return stages + [9 * a * b for a, b in others] + _dense_sizes(self) + head


@dataclass(frozen=True)
class HeadSpec(_Described):
    """An MLP with a linear shortcut on fixed feature vectors; it has no decoder.

    Attributes
    ----------
    input_dim, latent_dim : number of features that go in, and that come out.
    hidden, projection : units of the hidden layers, of the head and of its projector, and of the
        projector's output.
    n_clusters : units of the classifier.
    predictor : units of the predictor's hidden layer; 0 for no predictor.
    """

    kind: ClassVar[str] = "head"
    input_dim: int
    latent_dim: int = 256
    hidden: int = 1024
    projection: int = 128
    n_clusters: int = 1
    predictor: int = 0

    def __post_init__(self) -> None:
        _set_positive_integers(
            self, "input_dim", "latent_dim", "hidden", "projection", "n_clusters"
        )
        _set_if_any(self, "predictor")

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return (self.input_dim,)

    @property
    def encoded(self) -> int:
        """The number of features that the projector and classifier read."""
        return self.latent_dim

    @property
    def layer_sizes(self) -> list[int]:
        """The number of weights of each layer, without biases."""
        return [self.input_dim * self.hidden, self.hidden * self.latent_dim, *_dense_sizes(self)]


def _dense_sizes(spec: ResidualSpec | HeadSpec) -> list[int]:
    """The weights of the projector's and predictor's layers and of the classifier."""
    sizes = [
        spec.encoded * spec.hidden,
        spec.hidden * spec.projection,
        spec.encoded * spec.n_clusters,
    ]
    return [*sizes, spec.hidden**2, spec.projection * spec.predictor] if spec.predictor else sizes


Spec = ConvSpec | MLPSpec | ResidualSpec | HeadSpec
_KINDS = {cls.kind: cls for cls in (ConvSpec, MLPSpec, ResidualSpec, HeadSpec)}


def from_dict(values: Mapping[str, Any]) -> Spec:
    """The spec that ``to_dict`` wrote, of any kind."""
    kind = values.get("kind")
    if kind not in _KINDS:
        raise unknown_name("kind of network", kind, _KINDS)
    return _KINDS[kind].from_dict(values)


def _set_positive_integers(spec: Any, *names: str) -> None:
    for name in names:
        (value,) = _positive_integers(name, (getattr(spec, name),))
        object.__setattr__(spec, name, value)


def _set_if_any(spec: ResidualSpec | HeadSpec, *names: str) -> None:
    _set_positive_integers(spec, *(name for name in names if getattr(spec, name) != 0))


def _positive_integers(name: str, values: Any) -> tuple[int, ...]:
    try:
        integers = tuple(int(v) for v in values)
        whole = all(i == v for i, v in zip(integers, values, strict=True))
    except (TypeError, ValueError):
        whole, integers = False, ()
    if not whole or any(i < 1 for i in integers):
        raise InputError(f"{name} must be whole numbers of at least 1, got {values!r}.")
    return integers


def _check_scale(spec: ConvSpec | MLPSpec) -> None:
    try:
        scale = float(spec.input_scale)
    except (TypeError, ValueError):
        scale = math.nan
    if not (math.isfinite(scale) and scale > 0):
        raise InputError(f"input_scale must be a positive number, got {spec.input_scale!r}.")
    object.__setattr__(spec, "input_scale", scale)
