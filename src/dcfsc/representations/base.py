"""What a representation is: fitted on a sample of the data, it says how all of them are seen."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor

from dcfsc.errors import InputError
from dcfsc.pipeline import Recipe
from dcfsc.self_expression import ClosedForm, Operator, smaller_gram, solve, solve_for_dof


class Part:
    """A random part of the samples, which is clustered to measure stability."""

    # No cached_property: in Python 3.11 it has one lock for all parts, which threads wait for.
    _closed_form: ClosedForm | None = None

    def __init__(self, X: Tensor, index: Tensor, recipe: Recipe, gram: Tensor | None = None):
        """``X`` are all samples as given; ``gram`` is what :attr:`gram` says, if it is known."""
        self.index, self.recipe, self._gram = index, recipe, gram
        self.X = X[index]
        self.Z = recipe.scaled(self.X)

    @property
    def gram(self) -> Tensor:
        """Z Z' or Z'Z, whichever is smaller."""
        if self._gram is None:
            self._gram = smaller_gram(self.Z)
        return self._gram

    @property
    def closed_form(self) -> ClosedForm:
        """The closed form of the rows as they are, which several representations start from."""
        if self._closed_form is None and self.recipe.lam is not None:
            self._closed_form = solve(self.Z, self.recipe.lam)
        if self._closed_form is None:
            self._closed_form = solve_for_dof(self.Z, self.recipe.dof, self.gram.clone())
        return self._closed_form


class Representation(ABC):
    """A way to compare samples.

    The samples come as rows Z (N, d), flat and, unless the user wished otherwise or it keeps
    lengths, of unit length.
    :meth:`fit_transform` learns from a sample of them and gives what is kept of it,
    :meth:`transform` what is kept of others, :meth:`solve` the operator on that, and
    :meth:`transform_unseen` the rows whose codes the operator can give.

    Attributes
    ----------
    name : str
        What users call it.
    has_ridge : bool
        Whether its operator has a ridge, and with it ``lam`` and effective degrees of freedom.
    learns : bool
        Whether it learns from a sample; then it has tensors in its state.
    keeps_lengths : bool
        Whether it takes rows as they are given, where others take them at unit length.
    """

    name: ClassVar[str]
    has_ridge: ClassVar[bool]
    learns: ClassVar[bool] = False
    keeps_lengths: ClassVar[bool] = False

    def __init__(self, recipe: Recipe):
        self.recipe = recipe

    @classmethod
    def obstacle(cls, recipe: Recipe) -> str | None:
        """Why this representation is not for such samples or options, or None if it is."""
        return None

    @classmethod
    def considered(cls, recipe: Recipe) -> bool:
        """Whether ``representation="auto"`` takes it for a candidate."""
        return False

    def suits(self, X: Tensor) -> bool | None:
        """Whether "auto" takes it for samples X (n, d) as given; None lets stability decide."""
        return None

    def head_start(self, Z: Tensor) -> float | None:
        """By how much others must be more stable, if it is preferred for rows Z (n, d).

        Infinite where it needs no comparison, None where nothing speaks for or against it.
        """
        return None

    def rows(self, X: Tensor) -> Tensor:
        """The rows Z that it takes of samples X (n, d) as given."""
        return X if self.keeps_lengths else self.recipe.scaled(X)

    def prepare(self, Z: Tensor) -> None:  # noqa: B027
        """Find in the sample Z (n, d) what its parts share; :meth:`fit_transform` takes it next."""

    @abstractmethod
    def solve_part(self, part: Part) -> Operator:
        """The operator of a part of the sample, seen as if there were no other samples."""

    def fit_transform(self, Z: Tensor) -> Tensor:
        """Learn from the sample Z (n, d); what is kept of it, as by :meth:`transform`."""
        return self.transform(Z)

    @abstractmethod
    def transform(self, Z: Tensor) -> Tensor:
        """What is kept of the training samples Z (N, d): (N, ...)."""

    def transform_unseen(self, Z: Tensor) -> Tensor:
        """Rows (n, d') of unseen samples Z (n, d), as the operator's codes take them."""
        return self.transform(Z)

    @property
    def row_shape(self) -> tuple[int, ...]:
        """The shape of what :meth:`transform` keeps of a sample; as wide as it, unless said."""
        return (math.prod(self.recipe.sample_shape),)

    @property
    def row_width(self) -> int:
        """Features of a row that is compared, before anything is learned: an upper bound."""
        return math.prod(self.recipe.sample_shape)

    @property
    def scans(self) -> int:
        """How often all pairs of samples are compared to find neighbors."""
        return 1

    def flops(self, n: int, N: int) -> float:
        """Operations, in matrix products, to learn from n samples and to solve N of them."""
        return learning_flops(N, self.row_width)

    def bytes(self, n: int) -> float:
        """Memory to learn from n samples."""
        return learning_bytes(n, self.row_width) if self.learns else 0.0

    @abstractmethod
    def solve(self, R: Tensor) -> Operator:
        """The operator of the samples whose transform is R (N, ...)."""

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and JSON values that :meth:`restore` needs, besides the recipe."""
        return {}, {}

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any], device: Any) -> None:  # noqa: B027
        """The inverse of :meth:`state`."""


def is_image(sample_shape: Sequence[int]) -> bool:
    return len(sample_shape) in (2, 3)


# What is slower than a large matrix product in float32 counts for more operations.
DOUBLE = 2.0  # a product in float64
EIGENVALUES, EIGENVECTORS, FACTOR = 4.0, 18.0, 4.0  # times the cube of the size
PAIR = 100.0  # to keep a pair of samples if it is among the nearest


def learning_flops(n: int, d: int) -> float:
    """Operations for the closed form of n samples of d features, with its ridge."""
    return 2.0 * DOUBLE * n * d * min(n, d) + (EIGENVALUES + FACTOR) * float(min(n, d)) ** 3


def learning_bytes(n: int, d: int) -> float:
    """Memory for n samples of d features in float64, a copy, and matrices of the smaller size."""
    return 8.0 * (2.0 * n * d + 3.0 * min(n, d) ** 2)


def scan_flops(n: int, d: int) -> float:
    """Operations to find the nearest of n samples of d features by comparing all pairs."""
    return n**2 * (2.0 * d + PAIR)


def need_unit_length_without_ridge(name: str, recipe: Recipe) -> str | None:
    """Why a representation without a ridge is not for these options, if it is not."""
    if recipe.ridge_given:
        return (
            f"representation={name!r} has no ridge and takes rows of unit length; leave lam, "
            "subspace_dim, form and normalize at their defaults, or take representation='given'"
        )
    return None


def restored(
    tensors: dict[str, Tensor], name: str, shape: tuple[int | None, ...], device: Any
) -> Tensor:
    """A tensor of a saved state on the device, if it is there and has the shape; None is any."""
    tensor = tensors.get(name)
    if tensor is None or tensor.ndim != len(shape):
        raise InputError(f"its representation has no {name}; fit and save it again.")
    if any(want not in (None, have) for want, have in zip(shape, tensor.shape, strict=True)):
        raise InputError(
            f"its {name} has the shape {tuple(tensor.shape)}, which does not fit the rest; fit and "
            "save it again."
        )
    return tensor.to(device)
