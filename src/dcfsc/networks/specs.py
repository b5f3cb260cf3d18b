"""Specifications of networks: frozen, comparable, and JSON in a saved model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import Field, asdict, dataclass, fields
from itertools import pairwise
from typing import Any, ClassVar

from torch import nn

from dcfsc.errors import InputError, unknown_name
from dcfsc.networks.convolution import SameGeometry

MOST_BLOCKS = 100  # in a stage of a residual network
ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
    "elu": nn.ELU,
    "gelu": nn.GELU,
}


@dataclass(frozen=True)
class _Spec:
    """A spec whose fields are checked, and converted to plain numbers, by their types."""

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, _checked(field, getattr(self, field.name)))

    def to_dict(self) -> dict[str, Any]:
        values = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
        return {"kind": self.kind, **values}

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        values = vars(self)
        return values["input_shape"] if "input_shape" in values else (values["input_dim"],)


def _checked(field: Field[Any], value: Any) -> Any:
    """Sizes as integers (0 only where it is the default), factors as positive numbers."""
    kind, wanted = str(field.type), "whole numbers of at least 1"
    if kind != "float" and "int" not in kind:
        return value
    with suppress(TypeError, ValueError, OverflowError):
        if kind == "float":
            wanted = "a positive number"
            if 0 < float(value) < math.inf:
                return float(value)
        else:
            given = (value,) if kind == "int" else tuple(value)
            sizes = tuple(int(size) for size in given)
            least = 0 if field.default == 0 else 1
            if kind == "tuple[int, int, int]" and len(sizes) != 3:
                wanted = "(channels, height, width)"
            elif sizes == given and min(sizes, default=least) >= least:
                return sizes[0] if kind == "int" else sizes
    raise InputError(f"{field.name} must be {wanted}, got {value!r}.")


@dataclass(frozen=True)
class ConvSpec(_Spec):
    """A convolutional auto-encoder; the decoder mirrors the encoder layer by layer.

    Attributes
    ----------
    input_shape : (channels, height, width) of one upright image.
    channels, kernels, strides : one entry for each encoder layer; SAME padding everywhere.
    batch_norm : batch norm (and no bias) after every layer but the encoder's and decoder's last.
    transposed : the network works on transposed images, as some published weights do. Images go
        in and come out upright all the same.
    input_scale : factor on the pixels before the first layer; undone on the output.
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
        super().__post_init__()
        lengths = {len(self.channels), len(self.kernels), len(self.strides)}
        if lengths == {0} or len(lengths) != 1:
            raise InputError(
                "channels, kernels and strides need one entry for each encoder layer, got "
                f"{len(self.channels)}, {len(self.kernels)} and {len(self.strides)} entries."
            )

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
class MLPSpec(_Spec):
    """A fully connected auto-encoder for feature vectors, with linear latents and output.

    Attributes
    ----------
    input_dim : number of features.
    hidden : units of the encoder's hidden layers; the decoder has them in reverse.
    latent_dim : number of latent features.
    activation : "relu", "tanh", "elu" or "gelu", after every hidden layer.
    input_scale : factor on the features before the first layer; undone on the output.
    """

    kind: ClassVar[str] = "mlp"
    input_dim: int
    hidden: tuple[int, ...]
    latent_dim: int
    activation: str = "relu"
    input_scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.activation not in ACTIVATIONS:
            raise unknown_name("activation", self.activation, ACTIVATIONS)

    @property
    def layer_sizes(self) -> list[int]:
        """The number of weights of each encoder layer, without biases."""
        return [a * b for a, b in pairwise((self.input_dim, *self.hidden, self.latent_dim))]


@dataclass(frozen=True)
class ResidualSpec(_Spec):
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
        super().__post_init__()
        if self.blocks > MOST_BLOCKS:
            raise InputError(f"a stage has at most {MOST_BLOCKS} blocks; got {self.blocks}.")
        if not self.channels:
            raise InputError("channels needs one entry for each stage; there is none.")

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
        first, *later = pairwise((self.input_shape[0], *self.channels))
        stages = [math.prod(first) * (2 * self.stem_stride + 1) ** 2]
        head = [2 * self.encoded * self.head, 2 * self.head**2] if self.head else []
        return stages + [9 * a * b for a, b in later] + _dense_sizes(self) + head


@dataclass(frozen=True)
class HeadSpec(_Spec):
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
    arguments = dict(values)
    kind = arguments.pop("kind", None)
    if kind not in _KINDS:
        raise unknown_name("kind of network", kind, _KINDS)
    known = [field.name for field in fields(_KINDS[kind])]
    for name in arguments:
        if name not in known:
            raise unknown_name(f"entry of a {kind} network", name, known)
    try:
        return _KINDS[kind](**arguments)
    except TypeError as error:
        raise InputError(f"this {kind} network's description is incomplete: {error}.") from error
