"""The samples as they are given, expressed by the closed form with a ridge."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from dcfsc.affinity import TopK
from dcfsc.pipeline import Recipe
from dcfsc.self_expression import ClosedForm, Operator, choose_lam, solve, solve_for_dof

from .base import Part, Representation

LOOKED_AT = 1000  # rows that say whether signs mean something
OPPOSITES = 0.4  # half of the neighbors in subspaces through the origin, at most 0.3 in others
FEWEST, FEWEST_COLUMNS = 50, 6  # of rows and columns: with fewer it is chance


def holds_opposites(Z: Tensor, recipe: Recipe) -> bool:
    """Whether rows Z (n, d) have opposites for neighbors: subspaces hold z and -z alike."""
    Z = Z[:LOOKED_AT]
    if len(Z) < FEWEST or Z.shape[1] < FEWEST_COLUMNS:
        return False
    cosines = solve_for_dof(Z, recipe.dof).topk_cosine(TopK().k)[0]
    return float((cosines < 0).double().mean()) >= OPPOSITES


class Given(Representation):
    """Rows as they are; lam is the user's, or that of K m effective degrees of freedom.

    Attributes
    ----------
    lam : float or None
        The ridge parameter, once :meth:`solve` or :meth:`restore` was called.
    """

    name = "given"
    has_ridge = True

    def __init__(self, recipe: Recipe):
        super().__init__(recipe)
        self.lam = recipe.lam

    @classmethod
    def considered(cls, recipe: Recipe) -> bool:
        return True

    def head_start(self, Z: Tensor) -> float | None:
        """Infinite for subspaces through the origin: the others see no more than lines there."""
        return math.inf if holds_opposites(Z, self.recipe) else None

    def solve_part(self, part: Part) -> Operator:
        return part.closed_form

    def transform(self, Z: Tensor) -> Tensor:
        return Z

    def solve(self, R: Tensor) -> ClosedForm:
        if self.lam is None and self.recipe.form == "auto":
            operator = solve_for_dof(R, self.recipe.dof)
            self.lam = operator.lam
            return operator
        if self.lam is None:
            self.lam = choose_lam(R, self.recipe.dof)
        return solve(R, self.lam, form=self.recipe.form)  # type: ignore[arg-type]

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {}, {"lam": self.lam}

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any], device: Any) -> None:
        self.lam = float(values["lam"])
