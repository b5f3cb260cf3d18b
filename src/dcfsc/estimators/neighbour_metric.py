"""A metric in which neighbours are close: what they differ by is taken for noise.

The closed form finds every sample's neighbours. The scatter of their differences,

    S = sum_ij A_ij e_ij e_ij' / sum_ij A_ij,    e_ij = z_i - sign(z_i . z_j) z_j,

over the edges A of its graph, says how samples of the same kind vary, and

    z -> T' z / |T' z|,    T T' = (S + tr(S)/d I)^-1

shrinks just these directions. Neighbours are then ranked by the plain cosine, which is the closed
form's own ranking as lam goes to infinity. It suits clusters that vary alike, and not subspaces
that cross: there what is noise in one is what tells the points of another apart. So the data
choose: the metric is taken where partitions of random parts agree better with it than without
(:mod:`.stability`). Compare relevant component analysis (Bar-Hillel et al., 2003), where the pairs
are given.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dcfsc import distributed
from dcfsc.affinity import TopK
from dcfsc.errors import unknown_name
from dcfsc.self_expression import ClosedForm, RidgeFactor, solve
from dcfsc.self_expression.gram import row_chunks

from .regularisation import lam_for
from .stability import TOPK, common_sample, enough_samples, stabilities
from .validation import unit_rows

logger = logging.getLogger("dcfsc")

NAMES = ("auto", "none", "neighbours", "neighbours-twice")
ROUNDS = {"neighbours": 1, "neighbours-twice": 2}
CANDIDATES = ("neighbours-twice",)  # that "auto" chooses from, beside none
MOST_FEATURES = 4096  # a d x d factor of more costs minutes and gigabytes
NEAR = 1e-6  # a mean squared difference of neighbours, at unit length, that is lost in rounding
PLAIN = 1e6  # a ridge so many times larger than the samples' squares ranks by the plain cosine


def check_metric(name: Any) -> None:
    if name not in NAMES:
        raise unknown_name("metric", name, NAMES)


def plain_ridge(n: int) -> float:
    """A lam at which n rows of unit length are ranked by their plain cosine; |Z|_2^2 <= n."""
    return PLAIN * n


def in_metric(Z: Tensor, T: Tensor) -> Tensor:
    """The rows of Z T at unit length, (N, d)."""
    found = torch.empty_like(Z)
    for rows in row_chunks(Z.shape[0], Z.shape[1], Z.device):
        found[rows] = unit_rows(Z[rows] @ T)
    return found


def neighbour_metric(Z: Tensor, n_clusters: int, rounds: int = 1) -> Tensor:
    """T (d, d) for rows Z (N, d) of unit length, from the graph of the closed form."""
    return next(islice(metric_rounds(Z, n_clusters), rounds - 1, None))[0]


def metric_rounds(
    Z: Tensor, n_clusters: int, first: ClosedForm | None = None, affinity: TopK = TOPK
) -> Iterator[tuple[Tensor, ClosedForm]]:
    """T (d, d) after one round, two, ..., and the closed form of the rows Z (N, d) in each.

    ``first`` is the closed form of Z itself, that of ``lam="auto"`` unless given. In the metric
    there are other neighbours, nearer to the truth where it is any good: the next round takes the
    metric from those.
    """
    operator = first or solve(Z, lam_for(Z, n_clusters, None))
    while True:
        T = metric_of(Z, affinity(operator, n_clusters))
        operator = solve(in_metric(Z, T), plain_ridge(len(Z)))
        yield T, operator


def metric_of(Z: Tensor, graph: sp.csr_array) -> Tensor:
    """T (d, d) that whitens what neighbours in the graph (N, N), symmetric, differ by."""
    total = max(float(graph.sum()), torch.finfo(torch.float64).tiny)
    S = scatter_of_edges(Z, graph) / total
    if float(S.trace()) < NEAR:
        S = scatter_of_edges(Z, graph, one_by_one=True) / total
    identity = torch.eye(len(S), dtype=torch.float64, device=Z.device)
    spread = float(S.trace()) / len(S)
    if spread == 0.0:  # copies alone, or no neighbours: nothing varies
        return identity.to(Z.dtype)
    return RidgeFactor(S, spread).whiten(identity).to(Z.dtype)


def scatter_of_edges(Z: Tensor, graph: sp.csr_array, one_by_one: bool = False) -> Tensor:
    """sum_ij A_ij e_ij e_ij', (d, d) in float64, e_ij = z_i - s_ij z_j, s_ij = sign(z_i . z_j).

    A is symmetric, so this is 2 Z' (D - A o s) Z with the degrees D: N d^2 operations in place of
    d^2 for every edge. The difference loses digits where neighbours are nearly the same; then
    ``one_by_one`` adds the edges' own.
    """
    edges_of = graph.tocoo()
    i, j = (torch.from_numpy(index.astype(np.int64)).to(Z.device) for index in edges_of.coords)
    weights = torch.from_numpy(edges_of.data).to(Z.device)
    S = torch.zeros(Z.shape[1], Z.shape[1], dtype=torch.float64, device=Z.device)
    signs = torch.empty_like(weights)
    for edges in row_chunks(len(i), Z.shape[1], Z.device):
        z, other = Z[i[edges]].to(torch.float64), Z[j[edges]].to(torch.float64)
        signs[edges] = (z * other).sum(1).sign()
        if one_by_one:
            e = z - signs[edges, None] * other
            S.addmm_(e.mT, weights[edges, None] * e)
    if one_by_one:
        return S
    signed = sp.csr_array((edges_of.data * signs.cpu().numpy(), edges_of.coords), graph.shape)
    degrees = np.asarray(graph.sum(axis=1)).reshape(-1)
    laplacian = sp.csr_array(sp.diags_array(degrees) - signed)
    Z = Z.to(torch.float64)
    differences = torch.from_numpy(laplacian @ Z.cpu().numpy()).to(Z.device)
    S = 2.0 * (Z.mT @ differences)
    return 0.5 * (S + S.mT)


def choose_metric(
    name: str, Z: Tensor, n_clusters: int
) -> tuple[str, Tensor | None, dict[str, float]]:
    """The metric's name, T or None, and the candidates' stabilities where these decided.

    Where samples are divided among processes all of them choose by the same sample.
    """
    known: dict[str, float] = {}
    if name == "none" or (name == "auto" and Z.shape[1] > MOST_FEATURES):
        return "none", None, known
    sample = common_sample(Z)
    if name == "auto" and not enough_samples(len(sample), n_clusters):
        return "none", None, known
    with distributed.alone():
        if name == "auto":
            known = stabilities(sample, n_clusters, partial(given_ways, n_clusters=n_clusters))
            name = max(known, key=known.__getitem__)
            told = ", ".join(f"{way} {score:.3f}" for way, score in known.items())
            logger.info("metric: %s (stability: %s)", name, told)
            if name == "none":
                return name, None, known
        T = neighbour_metric(sample, n_clusters, ROUNDS[name])
    return name, distributed.broadcast(T, 0) if distributed.active() else T, known


def given_ways(Z: Tensor, n_clusters: int) -> Iterator[tuple[str, ClosedForm]]:
    """The rows Z (N, d) as they are given, and in the metrics that "auto" chooses from."""
    first = solve(Z, lam_for(Z, n_clusters, None))
    yield "none", first
    last = max(ROUNDS[name] for name in CANDIDATES)
    rounds = islice(metric_rounds(Z, n_clusters, first), last)
    for name, (_, operator) in zip(ROUNDS, rounds, strict=False):
        if name in CANDIDATES:
            yield name, operator
