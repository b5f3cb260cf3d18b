"""The samples as they are given, expressed by the closed form with a ridge."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from dcfsc.self_expression import ClosedForm, Operator, choose_lam, solve, solve_for_dof, target_dof
from dcfsc.self_expression.gram import fewer_samples

from .base import SUBSPACE_DIM, Part, Representation, Setting


class Given(Representation):
    """Rows as they are; lam is the user's, or that of K m effective degrees of freedom.

    Attributes
    ----------
    lam : float or None
        The ridge parameter, once :meth:`solve` or :meth:`restore` was called.
    """

    name = "given"
    has_ridge = True
    _products: tuple[Tensor, Tensor] | None = None  # all rows Z, and Z Z'

    def __init__(self, setting: Setting):
        super().__init__(setting)
        self.lam = setting.lam

    @classmethod
    def considered(cls, setting: Setting) -> bool:
        return True

    def share(self, Z: Tensor, products: Tensor) -> None:
        self._products = Z, products

    def solve_part(self, part: Part) -> Operator:
        return part.closed_form

    def transform(self, Z: Tensor) -> Tensor:
        return Z

    def solve(self, R: Tensor) -> ClosedForm:
        if self.lam is None:
            m = self.setting.subspace_dim
            dof = target_dof(self.setting.n_clusters, SUBSPACE_DIM if m is None else m)
            if self.setting.form == "auto":
                operator = solve_for_dof(R, dof, self._known_products(R))
                self.lam = operator.lam
                return operator
            self.lam = choose_lam(R, dof)
        return solve(R, self.lam, form=self.setting.form)  # type: ignore[arg-type]

    def _known_products(self, R: Tensor) -> Tensor | None:
        """R R' if it was shared, and is what the closed form starts from; not kept."""
        shared, self._products = self._products, None
        if shared is None or shared[0] is not R or not fewer_samples(R):
            return None
        return shared[1]

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {}, {"lam": self.lam}

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any], device: Any) -> None:
        self.lam = float(values["lam"])
