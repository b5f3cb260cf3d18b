"""A sparse graph: each sample keeps its k largest coefficients."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dcfsc.errors import InputError
from dcfsc.graphs import Graph, trusted
from dcfsc.parameters import FLAG, Checked, one_of, real, table, whole

from .base import RanksByCosine, SearchesApproximately

if TYPE_CHECKING:
    from dcfsc.self_expression import Operator

logger = logging.getLogger("dcfsc")

LARGEST_K = 64
SCALE = 6  # the nearest other, in number, whose distance is a sample's scale
FEW_OPPOSITES = 0.25  # half way between none and the half that subspaces through the origin have


@dataclass(frozen=True)
class TopK(Checked):
    """W_ij = w_ij ** power for the k largest w_ij of each row, A = W + W', sparse.

    ``scale="cosine"``: w_ij = |H_ij| / sqrt(h_i h_j), the cosine of the whitened samples, which has
    the same meaning for every pair; only the closed form, which knows its leverages h, has it.
    ``scale="maximum"``: w_ij = |C_ij| / max_k |C_ik|. "auto" takes the cosine where it can,
    "none" leaves the magnitudes as they are. (An approximate search ranks by |C_ij| in any case.)

    ``signs``: a subspace through the origin holds z and -z alike, and half of a sample's nearest
    then have a negative coefficient. Where much fewer have one, signs mean something (clusters lie
    on one side of the origin), and a negative coefficient joins opposites that have nothing to do
    with each other. "auto" leaves negative ones out where they are fewer than a quarter of the k
    nearest by cosine, "both" never does, "positive" always.

    A graph in more pieces than there are clusters cannot be cut into clusters: with ``grow``, k is
    doubled (up to ``LARGEST_K``) until at most ``n_clusters`` connected components are left.

    ``search="approximate"`` takes nearly the largest, from a search that looks at a small share of
    the pairs and measures what it misses. It is never chosen unless asked for.

    An operator with several neighbor lists has the sum of their graphs. Lists that an operator
    calls ``locally_scaled`` have the weights of :func:`locally_scaled`, and are added after each
    graph is scaled by its degrees.

    Memory N k: the N x N matrix never exists where the operator finds its top k without
    it, as the closed form does. The graph is put together where the coefficients live.
    """

    k: int = 8
    power: float = 4.0
    scale: Literal["auto", "cosine", "maximum", "none"] = "auto"
    grow: bool = True
    search: Literal["exact", "approximate"] = "exact"
    signs: Literal["auto", "both", "positive"] = "auto"

    _table = table(
        k=whole(1),
        power=real(0.01, 100),
        scale=one_of("auto", "cosine", "maximum", "none"),
        grow=FLAG,
        search=one_of("exact", "approximate"),
        signs=one_of("auto", "both", "positive"),
    )

    def __call__(self, operator: Operator, n_clusters: int) -> sp.csr_array:
        return self.graph(operator, n_clusters).matrix

    def on_part(self) -> TopK:
        """The same for a part of the samples."""
        return self

    def graph(self, operator: Operator, n_clusters: int) -> Graph:
        """The affinity with its degrees and components."""
        k, largest = self.k, min(LARGEST_K, operator.n - 1)
        # A scan costs nearly the same for twice as many neighbors, a second scan costs twice.
        more = self.grow or self.signs != "both" or operator.locally_scaled
        spare = more and k < largest
        lists = self._neighbors(operator, 2 * k if spare else k)
        graph = self._graph(operator, lists, k)
        while self.grow and k < largest:
            pieces = graph.n_components
            if pieces <= n_clusters:
                break
            k *= 2
            logger.info("the graph has %d pieces, more than clusters: k grows to %d", pieces, k)
            magnitudes, _ = lists[0]
            if k > magnitudes.shape[1]:
                lists = self._neighbors(operator, 2 * k if k < largest else k)
            graph = self._graph(operator, lists, k)
        return graph

    def _graph(self, operator: Operator, lists: Sequence[tuple[Tensor, Tensor]], k: int) -> Graph:
        """The graph of the k nearest of each list; the sum of the graphs of several."""
        local = operator.locally_scaled if self._by_cosine(operator) else ()
        matrices = [
            self._matrix(operator, neighbors, k, place in local)
            for place, neighbors in enumerate(lists)
        ]
        if local and len(matrices) > 1:  # weights of different kinds
            matrices = [by_degrees(A) for A in matrices]
        return trusted(sum(matrices[1:], start=matrices[0]), operator.device)

    def _neighbors(self, operator: Operator, k: int) -> list[tuple[Tensor, Tensor]]:
        """Lists of magnitudes, in descending order, and columns (N, k)."""
        by_cosine = self._by_cosine(operator)
        if self.search == "exact":
            lists = operator.neighbors(k, by_cosine)
        elif isinstance(operator, SearchesApproximately):
            lists = [operator.approximate_topk(k)]
        else:
            raise InputError(
                "an approximate search needs the closed form with more samples than features "
                f"(form='features'); got {type(operator).__name__}. Use search='exact'."
            )
        return [self._descending(*neighbors, by_cosine) for neighbors in lists]

    def _descending(
        self, values: Tensor, indices: Tensor, by_cosine: bool
    ) -> tuple[Tensor, Tensor]:
        if values.device.type not in ("cpu", "cuda"):  # Metal has no float64
            values, indices = values.cpu(), indices.cpu()
        magnitude = values.detach().abs().to(torch.float64)
        magnitude, order = magnitude.sort(stable=True, dim=1, descending=True)
        negative = values.detach().lt(0).gather(1, order)
        if self._leaves_out(negative, by_cosine):
            # A sample that has no other neighbors keeps them: alone it would be a cluster.
            opposite = negative & ~negative.all(dim=1, keepdim=True)
            magnitude, again = magnitude.masked_fill_(opposite, 0.0).sort(
                stable=True, dim=1, descending=True
            )
            order = order.gather(1, again)
        return magnitude, indices.gather(1, order)

    def _leaves_out(self, negative: Tensor, by_cosine: bool) -> bool:
        """Whether neighbors of negative sign, (N, k) and nearest first, are left out."""
        if self.signs != "auto" or not by_cosine:
            return self.signs == "positive"
        share = float(negative[:, : self.k].double().mean())
        if 0.0 < share < FEW_OPPOSITES:
            logger.info("neighbors of negative sign, %.2g%%, are left out", 100 * share)
        return 0.0 < share < FEW_OPPOSITES

    def _by_cosine(self, operator: Operator) -> bool:
        """Whether neighbors are ranked, and not only weighted, by the cosine."""
        return self.search == "exact" and self._has_cosines(operator)

    def _has_cosines(self, operator: Operator) -> bool:
        return self.scale in ("auto", "cosine") and isinstance(operator, RanksByCosine)

    def _matrix(
        self, operator: Operator, neighbors: tuple[Tensor, Tensor], k: int, local: bool
    ) -> sp.csr_array:
        if local:
            k = min(k + k // 4, neighbors[1].shape[1])
        weights, columns = neighbors[0][:, :k], neighbors[1][:, :k]
        if local:
            return sparse_symmetric(locally_scaled(weights, columns), columns, operator.n)
        weights = self._scaled(operator, weights, columns)
        return sparse_symmetric(weights**self.power, columns, operator.n)

    def _scaled(self, operator: Operator, weights: Tensor, columns: Tensor) -> Tensor:
        """w_ij (N, k) of the magnitudes |C_ij|, as ``scale`` says."""
        if self._by_cosine(operator):
            return weights.clamp_max(1.0)
        if self._has_cosines(operator):
            if operator.leverage is None:  # the coefficients are cosines themselves
                return weights.clamp_max(1.0)
            h = operator.leverage.to(weights)
            # C_ij = H_ij / (1 - h_i); a zero row has no leverage and no direction.
            length = h.clamp_min(torch.finfo(torch.float64).tiny).sqrt()
            weights = weights * ((1.0 - h) / length)[:, None] / length[columns]
            return weights.clamp_max_(1.0)
        if self.scale == "cosine":
            raise InputError("scale='cosine' needs the closed form; use 'maximum' here.")
        if self.scale == "none":
            return weights
        largest = weights[:, :1]
        return weights / largest.masked_fill(largest == 0, 1.0)


def locally_scaled(cosines: Tensor, columns: Tensor) -> Tensor:
    """exp(-d_ij^2 / (s_i s_j)) (N, k), d^2 = 1 - cosine, s_i = d of the ``SCALE``-th nearest.

    A distance counts by those of the two samples' other neighbors (Zelnik-Manor and Perona, 2004).
    Where copies of a sample are its nearest, s_i is a tenth of the mean.
    """
    squares = (1.0 - cosines).clamp_min(0.0)
    scales = squares[:, min(SCALE, squares.shape[1]) - 1].sqrt()
    least = torch.finfo(scales.dtype).tiny ** 0.5  # its square is not zero
    scales = scales.clamp_min(max(0.1 * float(scales.mean()), least))
    weights = torch.exp(-squares / (scales[:, None] * scales[columns]))
    return weights.masked_fill_(cosines <= 0.0, 0.0)  # opposites, which lists are filled up with


def by_degrees(A: sp.csr_array) -> sp.csr_array:
    """D^-1/2 A D^-1/2 with the degrees D of A; a sample without neighbors stays without."""
    degrees = np.asarray(A.sum(axis=1)).ravel()
    scale = np.zeros_like(degrees)
    np.divide(1.0, np.sqrt(degrees), out=scale, where=degrees > 0)
    D = sp.diags_array(scale)
    return sp.csr_array(D @ A @ D)


def sparse_symmetric(weights: Tensor, columns: Tensor, n: int) -> sp.csr_array:
    """W + W' as CSR from k float64 weights and distinct columns a row, both (N, k)."""
    if weights.device.type != "cpu":
        return _sparse_symmetric_by_sorting(weights, columns, n)
    k = columns.shape[1]
    kind = sp.get_index_dtype(maxval=n * k)
    pointers = np.arange(0, n * k + 1, k, dtype=kind)
    data = weights.numpy().ravel()
    W = sp.csr_array((data, columns.numpy().ravel().astype(kind), pointers), shape=(n, n))
    A = sp.csr_array(W + W.T)  # a sum has no entries that are zero
    A.sort_indices()
    return A


def _sparse_symmetric_by_sorting(weights: Tensor, columns: Tensor, n: int) -> sp.csr_array:
    """The same on a device: both directions of every edge, sorted by place, equal places added."""
    rows = torch.arange(n, device=columns.device)[:, None].expand_as(columns)
    place = torch.cat([(rows * n + columns).flatten(), (columns * n + rows).flatten()])
    place, order = place.sort()
    place, slot = torch.unique_consecutive(place, return_inverse=True)
    # No place has more than two terms, so the order of the additions does not matter.
    values = weights.new_zeros(len(place)).index_add_(0, slot, weights.flatten().repeat(2)[order])
    place, values = place[values > 0], values[values > 0]
    pointers = torch.searchsorted(place, torch.arange(n + 1, device=place.device) * n)
    kind = sp.get_index_dtype(maxval=max(n, len(place)))
    A = sp.csr_array(
        (
            values.cpu().numpy(),
            (place % n).cpu().numpy().astype(kind),
            pointers.cpu().numpy().astype(kind),
        ),
        shape=(n, n),
    )
    A.has_sorted_indices = A.has_canonical_format = True
    return A
