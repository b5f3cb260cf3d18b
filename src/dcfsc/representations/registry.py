"""Representations by name."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from dcfsc.errors import InputError, unknown_name
from dcfsc.parameters import Kind
from dcfsc.pipeline import Recipe

from .affine import AffineSubspaces
from .base import Representation
from .clouds import Columns, Cosine, Joined, Ranks
from .counts import Counts
from .given import Given
from .neighbor_metric import NeighborMetric, NeighborMetricTwice
from .scattering import ScatteringMetric

# In the order of preference: the first that may be considered is taken, unless another one is more
# stable by a margin.
REPRESENTATIONS: tuple[type[Representation], ...] = (
    ScatteringMetric,
    Counts,
    Ranks,
    Joined,
    Given,
    Cosine,
    Columns,
    NeighborMetric,
    NeighborMetricTwice,
    AffineSubspaces,
)
_BY_NAME = {cls.name: cls for cls in REPRESENTATIONS}


def names() -> list[str]:
    """The names that ``representation=`` takes."""
    return ["auto", *_BY_NAME]


def _known(name: Any) -> bool:
    if not isinstance(name, str) or name not in ("auto", *_BY_NAME):
        raise unknown_name("representation", name, names())
    return True


NAME = Kind(_known, "a representation")  # a parameter


def create(name: str, recipe: Recipe) -> list[Representation]:
    """The candidates for a name: the named one, or for "auto" all that suit the samples."""
    if name == "auto":
        return [c(recipe) for c in REPRESENTATIONS if c.considered(recipe)]
    obstacle = _BY_NAME[name].obstacle(recipe)
    if obstacle is not None:
        raise InputError(f"{obstacle}.")
    return [_BY_NAME[name](recipe)]


def restore(
    name: Any, recipe: Recipe, tensors: dict[str, Tensor], values: dict[str, Any], device: Any
) -> Representation:
    """Restore a representation from what :meth:`Representation.state` returned."""
    if name not in _BY_NAME:
        raise unknown_name("representation", name, _BY_NAME)
    representation = _BY_NAME[name](recipe)
    representation.restore(tensors, values, device)
    return representation
