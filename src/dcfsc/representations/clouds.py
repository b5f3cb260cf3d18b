"""Vectors in clouds: embeddings of photographs and texts, features, tables.

Clusters of such vectors lie around different means. Their common mean and the few directions in
which all of them vary say nothing of the clusters, but fill most of a cosine. So neighbors are
looked for in rows that leave these out:

    half-whitened    the leading 2 K principal components of the centered unit rows, each scaled by
                     (variance)^(-1/4), at unit length
    columns          every column less its mean, over its deviation, at unit length

"joined" takes the nearest by the closed form as candidates, looks among them for the nearest in
both kinds of rows, and adds the three graphs: an edge that only one of them has counts little.
"cosine" and "columns" are the plain graphs of the unit rows and of the second kind alone.
Distances are scaled locally (:func:`dcfsc.affinity.topk.locally_scaled`).

The few columns of a table have units of their own, and without its length a row of few numbers
loses much of what it says. "ranks" replaces every number by its rank in its column, as a quantile
of the normal distribution, and compares rows with a constant appended: neither units nor a
logarithm make a difference.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from dcfsc.neighbors import unit_rows
from dcfsc.pipeline import Recipe
from dcfsc.self_expression import (
    ClosedForm,
    NearestForm,
    Operator,
    RankedByCosine,
    RerankedForm,
    smaller_gram,
    solve_for_dof,
)

from .base import Part, Representation, is_image, need_unit_length_without_ridge, restored
from .given import holds_opposites

FEW_COLUMNS = 20  # of a table
UNITS = 100.0  # between the sizes of its columns, where they are units
TINY = torch.finfo(torch.float32).tiny
COMPONENTS = 2  # principal components a cluster
MARGIN = 0.05  # by which others must be more stable; chosen with the labels of the first half


class Clouds(Representation):
    """What the representations of clouds share."""

    has_ridge = False
    learns = True
    keeps_lengths = True
    few: ClassVar[bool | None] = False  # whether "auto" considers it for few columns; None is both

    @classmethod
    def obstacle(cls, recipe: Recipe) -> str | None:
        if not recipe.sparse_exact:
            return (
                f"representation={cls.name!r} needs the affinity 'topk' with its exact search; "
                "take representation='given'"
            )
        return need_unit_length_without_ridge(cls.name, recipe)

    @classmethod
    def considered(cls, recipe: Recipe) -> bool:
        few = math.prod(recipe.sample_shape) <= FEW_COLUMNS
        vectors = not is_image(recipe.sample_shape) and cls.few in (few, None)
        return vectors and cls.obstacle(recipe) is None

    def suits(self, X: Tensor) -> bool | None:
        """False for subspaces through the origin, which hold a sample and its opposite alike."""
        return False if holds_opposites(unit_rows(X), self.recipe) else None

    def head_start(self, Z: Tensor) -> float:
        return MARGIN

    def solve_part(self, part: Part) -> Operator:
        alone = type(self)(self.recipe)
        return alone.solve(alone.fit_transform(part.X))


class Nearest(Clouds):
    """Rows that are compared by the cosine alone."""

    def solve(self, R: Tensor) -> NearestForm:
        return NearestForm(R)


class Cosine(Nearest):
    """The cosine of the samples as they are."""

    name = "cosine"
    learns = False
    few: ClassVar[bool | None] = None

    def suits(self, X: Tensor) -> bool | None:
        """False for a table whose columns have units of their own, where one may hide the rest."""
        if X.shape[1] > FEW_COLUMNS:
            return None
        sizes = (X.double() / X.abs().max().clamp_min(TINY)).square().mean(dim=0).sqrt()
        sizes = sizes[sizes > 0]
        return False if len(sizes) > 1 and float(sizes.max() / sizes.min()) > UNITS else None

    def transform(self, Z: Tensor) -> Tensor:
        return lifted(unit_rows(Z))

    @property
    def row_shape(self) -> tuple[int, ...]:
        return (math.prod(self.recipe.sample_shape) + 1,)


class Columns(Cosine):
    """The cosine of samples whose columns are centered and have one deviation."""

    name = "columns"
    learns = True
    few = False
    mean: Tensor
    scale: Tensor

    def fit_transform(self, Z: Tensor) -> Tensor:
        self.mean, self.scale = column_scales(Z)
        return self.transform(Z)

    def transform(self, Z: Tensor) -> Tensor:
        return lifted(unit_rows((Z - self.mean) * self.scale))

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {"mean": self.mean, "scale": self.scale}, {}

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any], device: Any) -> None:
        width = (math.prod(self.recipe.sample_shape),)
        self.mean = restored(tensors, "mean", width, device)
        self.scale = restored(tensors, "scale", width, device)


class Ranks(Nearest):
    """The cosine of the normal scores of ranks, column by column, with a constant appended."""

    name = "ranks"
    learns = True
    few = True
    ascending: Tensor  # the sample's columns, each in ascending order: (d, n)

    def fit_transform(self, Z: Tensor) -> Tensor:
        self.ascending = Z.mT.sort(dim=1).values.contiguous()
        return self.transform(Z)

    def transform(self, Z: Tensor) -> Tensor:
        columns, n = Z.mT.contiguous(), self.ascending.shape[1]
        below = torch.searchsorted(self.ascending, columns)
        ranks = (below + torch.searchsorted(self.ascending, columns, right=True)) / 2.0  # of ties
        scores = torch.special.ndtri((ranks.double() / n).clamp(0.5 / n, 1.0 - 0.5 / n))
        scores = scores * (self.ascending[:, :1] < self.ascending[:, -1:])  # constants say nothing
        rows = torch.cat([scores, scores.new_ones(1, scores.shape[1]) * math.sqrt(len(scores))])
        return lifted(unit_rows(rows.mT.to(Z.dtype).contiguous()))

    @property
    def row_shape(self) -> tuple[int, ...]:
        return (math.prod(self.recipe.sample_shape) + 2,)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {"ascending": self.ascending}, {}

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any], device: Any) -> None:
        width = math.prod(self.recipe.sample_shape)
        self.ascending = restored(tensors, "ascending", (width, None), device)


class Joined(Clouds):
    """The closed form's neighbors, and the nearest of them in half-whitened rows and columns.

    A row that is kept holds the sample at unit length, then its half-whitened components, then its
    columns on one scale.
    """

    name = "joined"
    center: Tensor
    directions: Tensor
    mean: Tensor
    scale: Tensor

    def solve_part(self, part: Part) -> Operator:
        alone = Joined(self.recipe)
        return alone._solved(alone.fit_transform(part.X), part.closed_form)

    def fit_transform(self, Z: Tensor) -> Tensor:
        self._learn(Z)
        return self.transform(Z)

    def _learn(self, Z: Tensor) -> None:
        self.mean, self.scale = column_scales(Z)
        count = COMPONENTS * self.recipe.n_clusters
        self.center, self.directions = half_whitening(unit_rows(Z), count)

    def transform(self, Z: Tensor) -> Tensor:
        U = unit_rows(Z)
        half = unit_rows((U - self.center) @ self.directions)
        return torch.cat([U, half, unit_rows((Z - self.mean) * self.scale)], dim=1)

    @property
    def row_shape(self) -> tuple[int, ...]:
        return (2 * math.prod(self.recipe.sample_shape) + self.directions.shape[1],)

    def solve(self, R: Tensor) -> RankedByCosine:
        width = math.prod(self.recipe.sample_shape)
        return self._solved(R, solve_for_dof(R[:, :width], self.recipe.dof))

    def _solved(self, R: Tensor, closed_form: ClosedForm) -> RerankedForm:
        width = math.prod(self.recipe.sample_shape)
        return RerankedForm(closed_form, [R[:, width:-width], R[:, -width:]])

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        names = ("center", "directions", "mean", "scale")
        return {name: getattr(self, name) for name in names}, {}

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any], device: Any) -> None:
        width = math.prod(self.recipe.sample_shape)
        for name in ("center", "mean", "scale"):
            setattr(self, name, restored(tensors, name, (width,), device))
        self.directions = restored(tensors, "directions", (width, None), device)


def lifted(R: Tensor) -> Tensor:
    """Rows (N, d + 1) of unit length whose products are (1 + r_i . r_j) / 2.

    So the largest magnitudes are the largest cosines: opposites are not neighbors.
    """
    return torch.cat([R, R.new_ones(len(R), 1)], dim=1) * math.sqrt(0.5)


def column_scales(Z: Tensor) -> tuple[Tensor, Tensor]:
    """The mean of each column of Z (n, d), and one over its deviation; 0 for constant columns."""
    X = Z.double()
    deviation = X.std(dim=0, correction=0)
    constant = deviation <= X.abs().amax(dim=0) * torch.finfo(Z.dtype).eps
    scale = torch.where(constant, 0.0, 1.0 / torch.where(constant, 1.0, deviation))
    return X.mean(dim=0).to(Z.dtype), scale.to(Z.dtype)


def half_whitening(U: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The mean (d,) of rows U (n, d), and their leading principal directions (d, <= count).

    Each direction is scaled by (variance)^(-1/4).
    """
    center = U.double().mean(dim=0)
    X = U.double() - center
    n, d = X.shape
    variances, vectors = torch.linalg.eigh(smaller_gram(X) / n)
    leading = torch.arange(len(variances) - 1, -1, -1, device=U.device)[:count]
    variances, vectors = variances[leading], vectors[:, leading]
    rounding = max(torch.finfo(U.dtype).eps, len(X) * torch.finfo(X.dtype).eps)
    there = variances > max(float(variances[0]) * rounding, 0.0)
    variances, vectors = variances[there], vectors[:, there]
    if d > n:
        vectors = X.mT @ (vectors / (n * variances).sqrt())
    return center.to(U.dtype), (vectors * variances**-0.25).to(U.dtype)
