"""What every solver returns."""

from __future__ import annotations

from dataclasses import dataclass

import scipy.sparse as sp
from torch import Tensor

from .operator import Operator


@dataclass(frozen=True, eq=False)
class Solution:
    """Coefficients, and how their computation ended.

    Attributes
    ----------
    operator : Operator
        The coefficients C: Z ~ C Z.
    n_iter : int
        Iterations made; 0 or 1 for a closed form.
    residual : float
        What the stopping rule compared last with its tolerance.
    converged : bool
        Whether the stopping rule was met.
    objective : float or None
        The problem's value at the solution, where it is computed.
    clean, error : Tensor (N, d) or None
        Where the problem separates them: the samples that C expresses, and their gross errors.
    """

    operator: Operator
    n_iter: int = 1
    residual: float = 0.0
    converged: bool = True
    objective: float | None = None
    clean: Tensor | None = None
    error: Tensor | None = None

    @property
    def coefficients(self) -> Tensor | sp.csr_array:
        """C (N, N), as a tensor or where it is sparse as a SciPy array."""
        return self.operator.matrix()
