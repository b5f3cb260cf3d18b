"""The settings of a fit: the only ones that the fit, the race and the search for K read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from dcfsc.affinity import TopK
from dcfsc.neighbors import unit_rows
from dcfsc.self_expression import target_dof

# The dimension m of a subspace where nobody gives one, chosen with labels on data that the default
# is not measured on (research/docs/experiments.md).
SUBSPACE_DIM = 3.0
AFFINITY, ASSIGN = TopK(), "filtered"  # how the default clusters


@dataclass(frozen=True)
class Recipe:
    """How samples become a partition.

    ``sample_shape`` is that of a sample before it is flattened; ``lam`` and ``subspace_dim`` are
    None where they were not given; ``unit_length`` says whether rows are scaled to it.
    """

    sample_shape: tuple[int, ...]
    n_clusters: int
    lam: float | None = None
    subspace_dim: float | None = None
    form: str = "auto"
    unit_length: bool = True
    affinity: Callable[..., Any] = AFFINITY
    assign: str = ASSIGN

    @property
    def dof(self) -> float:
        """The effective degrees of freedom tr H = K m of the closed form."""
        m = SUBSPACE_DIM if self.subspace_dim is None else self.subspace_dim
        return target_dof(self.n_clusters, m)

    def scaled(self, X: Tensor) -> Tensor:
        """Samples (n, d) as most representations take them: at unit length, unless turned off."""
        return unit_rows(X) if self.unit_length else X

    @property
    def ridge_given(self) -> bool:
        """Whether the user asked for a certain ridge, on the samples as they are."""
        given = self.lam is not None or self.subspace_dim is not None or self.form != "auto"
        return given or not self.unit_length

    @property
    def sparse_exact(self) -> bool:
        """Whether the affinity is a sparse graph found by the exact search."""
        return isinstance(self.affinity, TopK) and self.affinity.search == "exact"

    @property
    def on_part(self) -> Recipe:
        """The recipe for a part of the samples, where an affinity knows all of them."""
        if not isinstance(self.affinity, TopK):
            return self
        return replace(self, affinity=self.affinity.on_part())

    @property
    def signs(self) -> str:
        """Which neighbors the affinity keeps."""
        return self.affinity.signs if isinstance(self.affinity, TopK) else "auto"
