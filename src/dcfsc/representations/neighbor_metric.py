"""A metric in which neighbors are close: what they differ by is taken for noise.

The closed form finds every sample's neighbors. The scatter of their differences,

    S = sum_ij A_ij e_ij e_ij' / sum_ij A_ij,    e_ij = z_i - sign(z_i . z_j) z_j,

over the edges A of its graph, says how samples of the same kind vary, and

    z -> T' z / |T' z|,    T T' = (S + tr(S)/d I)^-1

shrinks just these directions. Neighbors are then ranked by the plain cosine, which is the closed
form's own ranking as lam goes to infinity. It suits clusters that vary alike, and not subspaces
that cross: there what is noise in one is what tells the points of another apart. Compare relevant
component analysis (Bar-Hillel et al., 2003), where the pairs are given.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dcfsc.affinity import TopK
from dcfsc.neighbors import unit_rows
from dcfsc.pipeline import SUBSPACE_DIM, Recipe
from dcfsc.self_expression import CosineForm, Operator, RidgeFactor, solve_for_dof, target_dof
from dcfsc.self_expression.gram import row_chunks

from .base import (
    DOUBLE,
    FACTOR,
    Part,
    Representation,
    learning_flops,
    need_unit_length_without_ridge,
    restored,
    scan_flops,
)
from .clouds import Cosine

TOPK = TopK()
MOST_FEATURES = 4096  # a d x d factor of more costs minutes and gigabytes
NEAR = 1e-6  # a mean squared difference of neighbors, at unit length, that is lost in rounding


class NeighborMetric(Representation):
    """Rows in the metric of the neighbors that the closed form finds, ranked by the cosine."""

    name = "metric"
    has_ridge = False
    learns = True
    rounds: ClassVar[int] = 1
    T: Tensor

    @classmethod
    def obstacle(cls, recipe: Recipe) -> str | None:
        return need_unit_length_without_ridge(cls.name, recipe)

    def solve_part(self, part: Part) -> Operator:
        Z, d = in_span(part.Z, part.gram), part.Z.shape[1]
        T = neighbor_metric(Z, self.recipe.n_clusters, self.rounds, part.closed_form, d)
        return CosineForm(in_metric(Z, T))

    def fit_transform(self, Z: Tensor) -> Tensor:
        self.T = neighbor_metric(Z, self.recipe.n_clusters, self.rounds)
        return self.transform(Z)

    def transform(self, Z: Tensor) -> Tensor:
        return in_metric(Z, self.T)

    def flops(self, n: int, N: int) -> float:
        d = self.row_width
        return metric_flops(n, d, self.rounds) + 2.0 * N * d**2

    def solve(self, R: Tensor) -> CosineForm:
        return CosineForm(R)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {"metric": self.T}, {}

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any], device: Any) -> None:
        (d,) = self.row_shape
        self.T = restored(tensors, "metric", (d, d), device)


class NeighborMetricTwice(NeighborMetric):
    """The same in a second metric, of the neighbors that the first one finds."""

    name = "metric-twice"
    rounds = 2

    @classmethod
    def considered(cls, recipe: Recipe) -> bool:
        few = int(np.prod(recipe.sample_shape)) <= MOST_FEATURES
        few = few and not Cosine.considered(recipe)  # which fits most vectors better
        return few and cls.obstacle(recipe) is None


def metric_flops(n: int, d: int, rounds: int) -> float:
    """Operations for the metric of n samples of d features after some rounds."""
    each = scan_flops(n, d) + 2.0 * DOUBLE * n * d**2 + FACTOR * float(d) ** 3
    return learning_flops(n, d) + rounds * each


def in_metric(Z: Tensor, T: Tensor) -> Tensor:
    """The rows of Z T at unit length, (N, d)."""
    R = torch.empty_like(Z)
    for rows in row_chunks(Z.shape[0], Z.shape[1], Z.device):
        R[rows] = unit_rows(Z[rows] @ T)
    return R


def in_span(Z: Tensor, products: Tensor) -> Tensor:
    """Z (n, d), or for fewer rows than columns L (n, n) with the same ``products`` L L' = Z Z'."""
    n, d = Z.shape
    if n >= d:
        return Z
    L, singular = torch.linalg.cholesky_ex(products)
    if singular:
        L = torch.linalg.qr(Z.double().mT, mode="r").R.mT
    return L.to(Z.dtype)


def neighbor_metric(
    Z: Tensor,
    n_clusters: int,
    rounds: int = 1,
    first: Operator | None = None,
    width: int | None = None,
) -> Tensor:
    """T (d, d) for rows Z (N, d) of unit length, from the graph of the closed form."""
    return next(islice(metric_rounds(Z, n_clusters, first, width=width), rounds - 1, None))


def metric_rounds(
    Z: Tensor,
    n_clusters: int,
    first: Operator | None = None,
    affinity: TopK = TOPK,
    width: int | None = None,
) -> Iterator[Tensor]:
    """T (d, d) after one round, two, ... for rows Z (N, d).

    ``first`` is the closed form of Z itself, that of lam="auto" unless given. In the metric there
    are other neighbors, nearer to the truth where it is any good: the next round takes the metric
    from those. ``width`` is the number of columns of what Z stands for (:func:`in_span`).
    """
    operator = first or solve_for_dof(Z, target_dof(n_clusters, SUBSPACE_DIM))
    while True:
        T = metric_of(Z, affinity(operator, n_clusters), width)
        yield T
        operator = CosineForm(in_metric(Z, T))


def metric_of(Z: Tensor, graph: sp.csr_array, width: int | None = None) -> Tensor:
    """T (d, d) that whitens what neighbors in the graph (N, N), symmetric, differ by."""
    total = max(float(graph.sum()), torch.finfo(torch.float64).tiny)
    S = scatter_of_edges(Z, graph) / total
    if float(S.trace()) < NEAR:
        S = scatter_of_edges(Z, graph, one_by_one=True) / total
    identity = torch.eye(len(S), dtype=torch.float64, device=Z.device)
    spread = float(S.trace()) / (width or len(S))
    if spread == 0.0:  # copies alone, or no neighbors: nothing varies
        return identity.to(Z.dtype)
    return RidgeFactor(S, spread).whiten(identity).to(Z.dtype)


def scatter_of_edges(Z: Tensor, graph: sp.csr_array, one_by_one: bool = False) -> Tensor:
    """sum_ij A_ij e_ij e_ij', (d, d) in float64, e_ij = z_i - s_ij z_j, s_ij = sign(z_i . z_j).

    A is symmetric, so this is 2 Z' (D - A o s) Z with the degrees D: N d^2 operations in place of
    d^2 for every edge. The difference loses digits where neighbors are nearly the same; then
    ``one_by_one`` adds the edges' own.
    """
    edges_of = graph.tocoo()
    i, j = (torch.from_numpy(index.astype(np.int64)).to(Z.device) for index in edges_of.coords)
    signs = edge_signs(Z, graph)
    if one_by_one:
        weights = torch.from_numpy(edges_of.data).to(Z.device)
        S = torch.zeros(Z.shape[1], Z.shape[1], dtype=torch.float64, device=Z.device)
        for edges in row_chunks(len(i), Z.shape[1], Z.device):
            e = Z[i[edges]].double() - signs[edges, None] * Z[j[edges]].double()
            S.addmm_(e.mT, weights[edges, None] * e)
        return S
    signed = sp.csr_array((edges_of.data * signs.cpu().numpy(), edges_of.coords), graph.shape)
    degrees = np.asarray(graph.sum(axis=1)).reshape(-1)
    laplacian = sp.csr_array(sp.diags_array(degrees) - signed)
    Z = Z.to(torch.float64)
    differences = torch.from_numpy(laplacian @ Z.cpu().numpy()).to(Z.device)
    S = 2.0 * (Z.mT @ differences)
    return 0.5 * (S + S.mT)


def edge_signs(Z: Tensor, graph: sp.csr_array) -> Tensor:
    """sign(z_i . z_j) of the edges of a graph (N, N), row by row, in float64.

    All products of some rows at a time: for the few thousand samples that a metric is learned from
    that is quicker than to collect both ends of every edge.
    """
    first = graph.indptr.tolist()
    columns = torch.from_numpy(graph.indices.astype(np.int64)).to(Z.device)
    rows_of = torch.from_numpy(np.repeat(np.arange(len(Z)), np.diff(graph.indptr))).to(Z.device)
    signs = torch.empty(len(columns), dtype=torch.float64, device=Z.device)
    for rows in row_chunks(len(Z), len(Z), Z.device):
        edges = slice(first[rows.start], first[rows.stop])
        products = Z[rows] @ Z.mT
        signs[edges] = products[rows_of[edges] - rows.start, columns[edges]].sign().double()
    return signs
