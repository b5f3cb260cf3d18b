"""A graph of the samples, held together by another one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import scipy.sparse as sp

from dcfsc.graphs import Graph, read_affinity
from dcfsc.parameters import NONE, instance_of, real, table

from .topk import TopK, by_degrees

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

    def on_part(self) -> TopK:
        return TopK(**{name: getattr(self, name) for name in vars(TopK())})

    def graph(self, operator: Operator, n_clusters: int) -> Graph:
        if self.other is None:
            return super().graph(operator, n_clusters)
        other = self.weight * by_degrees(self.other)
        alone = self.on_part()
        joined = _sum(replace(alone, grow=False)(operator, n_clusters), other, operator)
        if self.grow and joined.n_components > n_clusters:
            joined = _sum(alone(operator, n_clusters), other, operator)
        return joined


def _sum(A: sp.csr_array, other: sp.csr_array, operator: Operator) -> Graph:
    place = operator.device if operator.device.type == "cuda" else None
    return read_affinity(sp.csr_array(by_degrees(A) + other), place)
