"""Counts of many rare things, such as the words of texts: logarithms, weighted by rarity.

A text is long or short and repeats its words, and most of the length of its vector of counts is
in words that all texts share. So the largest cosines join texts that share a frequent word, and a
cut separates a few odd ones from all others. Texts are therefore compared by

    z_j = log(1 + x_j) log((1 + N) / (1 + N_j)),    N_j the number of texts with word j,

at unit length (Salton and Buckley, 1988), as clouds are (:mod:`.clouds`).
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
from .clouds import Joined

FEWEST_FEATURES = 100
MOST_NONZERO = 0.1  # images of digits have twice as much ink


class Counts(Joined):
    """Counts by their logarithms, each feature weighted by how rare it is; compared as clouds."""

    name = "counts"
    weights: Tensor
    _plain = False  # as models of versions before 2.0 are, which compare by the plain cosine

    @classmethod
    def considered(cls, recipe: Recipe) -> bool:
        many = math.prod(recipe.sample_shape) >= FEWEST_FEATURES
        return many and not is_image(recipe.sample_shape) and cls.obstacle(recipe) is None

    def suits(self, X: Tensor) -> bool:
        """Whether samples hold whole numbers, none negative, some above one, and mostly zero."""
        if float(X.min()) < 0 or float(X.max()) <= 1:
            return False
        return float((X != 0).double().mean()) <= MOST_NONZERO and bool((X.round() == X).all())

    def solve_part(self, part: Part) -> Operator:
        alone = Counts(self.recipe)
        return alone.solve(alone.fit_transform(part.X))

    def fit_transform(self, Z: Tensor) -> Tensor:
        self.weights = torch.log((1.0 + len(Z)) / (1.0 + (Z != 0).sum(dim=0, dtype=Z.dtype)))
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
        return unit_rows(Z.sign() * Z.abs().log1p() * self.weights)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, values = ({}, {}) if self._plain else super().state()
        return tensors | {"weights": self.weights}, values

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any], device: Any) -> None:
        width = (math.prod(self.recipe.sample_shape),)
        self.weights = restored(tensors, "weights", width, device)
        self._plain = "center" not in tensors
        if not self._plain:
            super().restore(tensors, values, device)
