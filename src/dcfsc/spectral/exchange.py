"""Out of the local minima of k-means: split one cluster and join two, as long as that pays.

Lloyd's descent ends where a cluster has two centers and two others share one, and from there no
center finds the way. Splitting a cluster of n points in parts of n_1 and n_2 whose centers are d
apart lowers the sum of squares by n_1 n_2 / n |d|^2, and joining two clusters raises it by the same
expression (Ward 1963): both are known before anything is moved. So the exchanges that promise most
are tried. A descent follows each, of the three clusters and their neighbors only, and those of all
starts run at once. What ends lower is kept, several exchanges in a round where they touch none of
each other's clusters. When no more pays, a descent of all points follows. Three random starts
improved so end lower than the best of forty that are not (research/docs/experiments.md).

References
----------
T. Kaukoranta, P. Fränti, O. Nevalainen. Iterative split-and-merge algorithm for vector quantization
codebook generation. Optical Engineering 37(10), 1998.
N. Ueda, R. Nakano, Z. Ghahramani, G. E. Hinton. SMEM algorithm for mixture models. Neural
Computation 12(9), 2000.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dcfsc.spectral.descent import Partitions, descend, descended

TRIES = 10  # exchanges in a round, or as many as can touch clusters of their own
SPLITS, PAIRS = 10, 4  # the best so many splits, or K / 4, and joins, times K, are combined
NEAR = 10  # clusters that take part in the descent after an exchange
LEAST_GAIN = 1e-6  # of the sum of squares; less is rounding
TRIAL_ITERATIONS = 20
POWER_STEPS, SPLIT_ITERATIONS = 10, 20
_PADDED_ELEMENTS = {"cpu": 1 << 20, "cuda": 1 << 26}

Exchange = tuple[int, int, int]  # the cluster that is split, and the two that are joined


def improve(V: Tensor, starts: Partitions, allowed: float) -> Partitions:
    """The partitions of the rows of V (n, p) that exchanges lead to from ``starts``.

    ``allowed`` is the `tolerance` of descents.
    """
    S, K = starts.counts.shape
    if K < 3:
        return starts
    search = Search(V, starts, allowed)
    active = list(range(S))
    for _ in range(K):
        active = search.round(active)
        if not active:
            break
    return descended(V, search.found.centers, allowed)


class Trials(NamedTuple):
    """Descents after exchanges in the partitions ``where`` (b,), of ``rows`` (b, m)."""

    where: Tensor
    clusters: Tensor  # (b, L) that take part
    rows: Tensor
    before: Tensor  # places (b, m) in ``clusters`` before the exchange; L where there is no row
    after: Partitions


class Search:
    """Exchanges in S partitions of the rows of V (n, p) at once."""

    def __init__(self, V: Tensor, starts: Partitions, allowed: float):
        self.V, self.allowed = V, allowed
        self.total = float(V.square().sum(dtype=torch.float64))
        self.found = starts.take(torch.arange(len(starts.counts), device=V.device))  # a copy
        self.gains = torch.zeros_like(starts.counts)
        self.halves = starts.sums[:, :, None].expand(-1, -1, 2, -1).clone()
        self.stale = torch.ones_like(starts.counts, dtype=torch.bool)  # not halved as they are now
        self.tried: set[tuple[int, Exchange, str]] = set()

    def round(self, active: list[int]) -> list[int]:
        """Try exchanges in the partitions ``active``: the numbers of those where one paid."""
        groups = Groups(self.found)
        self._halve(groups)
        apart = squared_distances(self.found.centers)
        gains = self.gains.cpu().numpy()
        losses = join_losses(apart, self.found.counts).cpu().numpy()
        chosen = [(i, *e) for i in active for e in promising(gains[i], losses[i], self._new(i))]
        if not chosen:
            return []
        return self._keep_best(list(self._try(groups, np.array(chosen), apart)))

    def _new(self, i: int) -> Callable[[Exchange, float], bool]:
        """Whether an exchange of partition i that promises so much was not tried yet."""

        def new(exchange: Exchange, promise: float) -> bool:
            before = len(self.tried)
            self.tried.add((i, exchange, f"{promise:.9g}"))
            return len(self.tried) > before

        return new

    def _halve(self, groups: Groups) -> None:
        """Two centers for each of the clusters that changed, and what they gain."""
        where, cluster = self.stale.nonzero(as_tuple=True)
        for piece in pieces(groups.counts[where, cluster], self.V):
            at = where[piece], cluster[piece]
            index, place = groups.rows(at[0], at[1][:, None])
            self.gains[at], self.halves[at] = halve(self.V[index], place == 0)
        self.stale.zero_()

    def _try(self, groups: Groups, chosen: np.ndarray, apart: Tensor) -> Iterator[Trials]:
        """Descents after exchanges (B, 4): the partition, the cluster split, the two joined."""
        where, *touched = torch.from_numpy(chosen.T).to(self.V.device)
        split, first, second = touched
        # The three clusters come first, then those nearest to any of them.
        nearest = torch.stack([apart[where, k] for k in touched]).amin(0)  # (B, K)
        for rank, k in zip((-3.0, -2.0, -1.0), touched, strict=True):
            nearest.scatter_(1, k[:, None], rank)
        clusters = nearest.argsort(dim=1, stable=True)[:, :NEAR]
        centers = self.found.centers[where[:, None], clusters]
        sums, counts = self.found.sums, self.found.counts
        together = (counts[where, first] + counts[where, second]).clamp_min(1.0)
        centers[:, 0], centers[:, 2] = self.halves[where, split].unbind(1)
        centers[:, 1] = (sums[where, first] + sums[where, second]) / together[:, None]
        L = clusters.shape[1]
        for piece in pieces(groups.counts[where[:, None], clusters].sum(1), self.V):
            index, before = groups.rows(where[piece], clusters[piece])
            X = self.V[index]
            labels, _ = descend(
                X, centers[piece], self.allowed, present=before < L, max_iter=TRIAL_ITERATIONS
            )
            after = Partitions.of(X, labels, L)
            yield Trials(where[piece], clusters[piece], index, before, after)

    def _keep_best(self, trials: list[Trials]) -> list[int]:
        """Keep what ends lower, the most first, unless it shares clusters with what was kept."""
        terms = self.found.explained
        gains = [
            t.after.explained.sum(1) - terms[t.where[:, None], t.clusters].sum(1) for t in trials
        ]
        least = LEAST_GAIN * (self.total - terms.sum(1)).cpu().numpy()
        gain = torch.cat(gains).cpu().numpy()
        where = torch.cat([t.where for t in trials]).cpu().numpy()
        clusters = torch.cat([t.clusters for t in trials]).cpu().numpy()
        kept = np.zeros(len(gain), dtype=bool)
        taken = np.zeros(terms.shape, dtype=bool)
        for j in np.argsort(-gain, kind="stable"):
            i = where[j]
            if gain[j] > least[i] and not taken[i, clusters[j]].any():
                kept[j] = taken[i, clusters[j]] = True
        ends = np.cumsum([len(t.where) for t in trials])
        for t, of_these in zip(trials, np.split(kept, ends[:-1]), strict=True):
            self._keep(t, torch.from_numpy(np.flatnonzero(of_these)).to(self.V.device))
        return np.unique(where[kept]).tolist()

    def _keep(self, t: Trials, kept: Tensor) -> None:
        where, clusters, after = t.where[kept, None], t.clusters[kept], t.after.take(kept)
        row, column = (t.before[kept] != after.labels).nonzero(as_tuple=True)
        old, new = t.before[kept][row, column], after.labels[row, column]
        partition = where[row, 0]
        self.found.labels[partition, t.rows[kept][row, column]] = clusters[row, new]
        self.found.sums[where, clusters] = after.sums
        self.found.counts[where, clusters] = after.counts
        for place in (old, new):
            self.stale[partition, clusters[row, place]] = True


class Groups:
    """The rows of each cluster of S partitions."""

    def __init__(self, partitions: Partitions):
        self.order = partitions.labels.argsort(dim=1, stable=True)  # (S, n) rows, by cluster
        self.counts = partitions.counts.long()
        self.first = self.counts.cumsum(1) - self.counts

    def rows(self, where: Tensor, clusters: Tensor) -> tuple[Tensor, Tensor]:
        """Rows (B, m) of the ``clusters`` (B, L) of partitions ``where`` (B,), and whose they are.

        The second is the place (B, m) in ``clusters``, and L beyond the last row.
        """
        L = clusters.shape[1]
        counts = self.counts[where[:, None], clusters]
        ends = counts.cumsum(1)
        m = int(ends[:, -1].amax())
        number = torch.arange(m, device=where.device).expand(len(where), m).contiguous()
        place = torch.searchsorted(ends, number, right=True)
        within = place.clamp_max(L - 1)
        shift = self.first[where[:, None], clusters] - ends + counts
        at = (number + shift.gather(1, within)).clamp_max(self.order.shape[1] - 1)
        return self.order[where[:, None], at], place


def pieces(sizes: Tensor, V: Tensor) -> Iterator[Tensor]:
    """Indices of groups of rows, of like sizes, so that padded together they stay small."""
    order = sizes.argsort(descending=True, stable=True)
    most = _PADDED_ELEMENTS.get(V.device.type, 1 << 20)
    sorted_sizes = sizes[order].tolist()
    begin = 0
    while begin < len(sorted_sizes):
        rows = max(int(sorted_sizes[begin]), 1)
        end = begin + max(1, most // (rows * V.shape[1]))
        yield order[begin:end]
        begin = end


def promising(
    gains: np.ndarray, losses: np.ndarray, new: Callable[[Exchange, float], bool]
) -> list[Exchange]:
    """The exchanges to try, by the gain (K,) of each split and the loss (K, K) of each join.

    First as many as touch clusters of their own, the most promising first, then the most promising
    of all others. Only those that are ``new``.
    """
    K = len(gains)
    pairs = min(K * (K - 1) // 2, PAIRS * K)
    cheap = np.argpartition(losses, pairs - 1, axis=None)[:pairs]
    a, b = np.divmod(cheap, K)
    split = np.argsort(-gains, kind="stable")[: max(SPLITS, K // 4)]
    loss, gain = losses[a, b], gains[split, None]
    # A descent gains more than its start promises: up to twice the gain may be lost.
    barred = (split[:, None] == a) | (split[:, None] == b) | (loss >= 2.0 * gain)
    promise = np.where(barred, -np.inf, gain - loss)
    found: list[Exchange] = []
    touched = np.zeros(K, dtype=bool)
    for apart, most in ((True, max(TRIES, K // 8)), (False, TRIES)):
        left = promise.copy()
        while len(found) < most:
            i, j = np.unravel_index(left.argmax(), left.shape)
            if left[i, j] == -np.inf:
                break
            exchange = int(split[i]), int(a[j]), int(b[j])
            promised = float(promise[i, j])
            left[i, j] = promise[i, j] = -np.inf
            if not new(exchange, promised):
                continue
            found.append(exchange)
            if apart:
                touched[list(exchange)] = True
                left[touched[split]] = left[:, touched[a] | touched[b]] = -np.inf
    return found


def squared_distances(centers: Tensor) -> Tensor:
    """|c_a - c_b|^2 (S, K, K) of centers (S, K, p)."""
    squares = centers.square().sum(2)
    return (squares[:, :, None] + squares[:, None] - 2.0 * centers @ centers.mT).clamp_min_(0.0)


def join_losses(apart: Tensor, counts: Tensor) -> Tensor:
    """By how much the sum of squares grows where clusters a < b are joined, (S, K, K), else inf."""
    n, m = counts[:, :, None], counts[:, None]
    losses = n * m / (n + m).clamp_min(1.0) * apart
    upper = torch.ones_like(losses, dtype=torch.bool).triu(1)
    return losses.masked_fill_(~upper, float("inf"))


def halve(X: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
    """2-means of C groups of rows X (C, m, p), where ``present`` (C, m), from their principal axes.

    What is gained by two centers instead of one (C,), and the centers (C, 2, p); 0 and the mean
    where a group cannot be divided.
    """
    inside = present.to(X.dtype)
    n = inside.sum(1, keepdim=True)
    mean = (inside[:, None] @ X) / n.clamp_min(1.0)[..., None]  # (C, 1, p)
    Q = (X - mean) * inside[..., None]
    first = principal_scores(Q) > 0.0
    for _ in range(SPLIT_ITERATIONS):
        n_first = (first & present).sum(1, keepdim=True).to(X.dtype)
        n_second = n - n_first
        first_sum = (first.to(X.dtype)[:, None] @ Q)[:, 0]  # the rows of Q sum to 0
        one = first_sum / n_first.clamp_min(1.0)
        two = -first_sum / n_second.clamp_min(1.0)
        middle = 0.5 * (one.square() - two.square()).sum(1, keepdim=True)
        nearer = (Q @ (one - two)[..., None])[..., 0] > middle
        if torch.equal(nearer, first):
            break
        first = nearer
    gain = n[:, 0] * first_sum.double().square().sum(1)
    gain = gain / (n_first * n_second)[:, 0].clamp_min(1.0)
    gain = torch.where((n_first * n_second)[:, 0] > 0, gain, 0.0)
    return gain, (mean + torch.stack((one, two), dim=1)).double()


def principal_scores(Q: Tensor) -> Tensor:
    """Q (C, m, p) times about its leading right singular vectors, by power steps.

    They start from the longest row of each.
    """
    longest = Q.square().sum(2).argmax(1)
    direction = Q[torch.arange(len(Q), device=Q.device), longest][..., None]  # (C, p, 1)
    for _ in range(POWER_STEPS):
        direction = Q.mT @ (Q @ direction)
        direction = direction / direction.norm(dim=1, keepdim=True).clamp_min(1e-30)
    return (Q @ direction)[..., 0]
