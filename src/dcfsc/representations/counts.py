"""Counts of many rare things, such as the words of texts: logarithms, weighted by rarity.

A text is long or short and repeats its words, and most of the length of its vector of counts is
in words that all texts share. So the largest cosines join texts that share a frequent word, and a
cut separates a few odd ones from all others. Texts are therefore compared by

    z_j = log(1 + x_j) log((1 + N) / (1 + N_j)),    N_j the number of texts with word j,

at unit length (Salton and Buckley, 1988), as clouds are (:mod:`.clouds`).

Where more than a tenth of the counts are not zero, such as those of species in samples of water or
of genes in cells, few columns hold most of the total, and the totals say how much was collected.
These rows are compared by z_j = log(1 + s x_j / sum_l x_l), where s is the median total. Whole
numbers may be something else, so other representations are taken if they are clearly more stable.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from dcfsc.neighbors import unit_rows
from dcfsc.pipeline import Recipe
from dcfsc.self_expression import CosineForm, Operator, RankedByCosine

from .base import Part, is_image, restored
from .clouds import FEW_COLUMNS, TINY, Joined

FEWEST_FEATURES = 100
MOST_NONZERO = 0.1  # images of digits have twice as much ink
# The deviation of the totals, over their mean, from which on they are those of unequal collections.
# Tables of measurements in whole numbers have half as much, most counts much more.
UNEQUAL = 0.3


class Counts(Joined):
    """Counts by their logarithms, each feature weighted by how rare it is; compared as clouds."""

    name = "counts"
    weights: Tensor
    total: Tensor | None = None  # (1,): what rows are scaled to where counts are seldom zero
    _plain = False  # as models of versions before 2.0 are, which compare by the plain cosine

    @classmethod
    def considered(cls, recipe: Recipe) -> bool:
        many = math.prod(recipe.sample_shape) > FEW_COLUMNS
        return many and not is_image(recipe.sample_shape) and cls.obstacle(recipe) is None

    def suits(self, X: Tensor) -> bool | None:
        """Whether samples hold whole numbers, none negative, some above one, and mostly zero.

        None where they are seldom zero, and their totals differ.
        """
        if float(X.min()) < 0 or float(X.max()) <= 1 or not bool((X.round() == X).all()):
            return False
        if _mostly_zero(X):
            return X.shape[1] >= FEWEST_FEATURES
        totals = X.double().sum(dim=1)
        return super().suits(X) if float(totals.std() / totals.mean()) >= UNEQUAL else False

    def solve_part(self, part: Part) -> Operator:
        alone = Counts(self.recipe)
        return alone.solve(alone.fit_transform(part.X))

    def fit_transform(self, Z: Tensor) -> Tensor:
        self.weights = torch.log((1.0 + len(Z)) / (1.0 + (Z != 0).sum(dim=0, dtype=Z.dtype)))
        self.total = None
        if not _mostly_zero(Z):
            self.weights, self.total = torch.ones_like(Z[0]), Z.sum(dim=1).median().reshape(1)
        self._learn(self._weighted(Z))
        return self.transform(Z)

    def transform(self, Z: Tensor) -> Tensor:
        return self._weighted(Z) if self._plain else super().transform(self._weighted(Z))

    @property
    def row_shape(self) -> tuple[int, ...]:
        return tuple(self.weights.shape) if self._plain else super().row_shape

    def solve(self, R: Tensor) -> RankedByCosine:
        return CosineForm(R) if self._plain else super().solve(R)

    def _weighted(self, Z: Tensor) -> Tensor:
        if self.total is not None:
            Z = Z * (self.total / Z.abs().sum(dim=1, keepdim=True).clamp_min(TINY))
        return unit_rows(Z.sign() * Z.abs().log1p() * self.weights)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, values = ({}, {}) if self._plain else super().state()
        own = {"weights": self.weights} | ({} if self.total is None else {"total": self.total})
        return tensors | own, values

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any], device: Any) -> None:
        width = (math.prod(self.recipe.sample_shape),)
        self.weights = restored(tensors, "weights", width, device)
        self.total = restored(tensors, "total", (1,), device) if "total" in tensors else None
        self._plain = "center" not in tensors
        if not self._plain:
            super().restore(tensors, values, device)


def _mostly_zero(X: Tensor) -> bool:
    return float((X != 0).double().mean()) <= MOST_NONZERO
