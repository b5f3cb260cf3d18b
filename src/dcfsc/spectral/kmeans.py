"""k-means: many starts at once, on a sample where there are many points, then on all of them."""

from __future__ import annotations

import logging

import numpy as np
import torch
from torch import Tensor

from dcfsc.spectral.descent import Partitions, descend, descended, tolerance
from dcfsc.spectral.exchange import improve

logger = logging.getLogger("dcfsc")

# Beyond this many points the starts run on a sample of SAMPLE of them.
LARGE = 50_000
SAMPLE = 20_000
IMPROVED = 3  # of the starts on a sample, the best, are improved by exchanges
RELOCATIONS = 3  # of centers without points; where rows are too few or the same, none helps
# Weights of seeds are whole numbers up to this: their running sums are exact on every device.
_FINEST = 2.0**40


def kmeans(
    V: Tensor, K: int, random: np.random.RandomState, n_init: int, exchange: bool = False
) -> np.ndarray:
    """min over K centers c of sum_i min_c |v_i - c|^2 for the rows v of V (n, p): labels (n,).

    ``n_init`` starts descend together on the device of V, and the lowest sum of squares wins.
    Beyond 50,000 points they run on a random sample of 20,000 rows, and the best centers descend
    once over all rows. Random numbers come from the CPU: the same seed gives the same starts on
    every device. With ``exchange`` every start, or the best three on a sample, are improved by
    exchanges (:mod:`dcfsc.spectral.exchange`). Fewer distinct rows than K give fewer clusters.
    """
    n, improved = len(V), n_init if exchange else 0
    V = centered(V)
    if n <= LARGE:
        return _merged(_best(V, K, random, n_init, improved), V).cpu().numpy()
    logger.info("k-means: %d starts on %d of %d rows, refined on all", n_init, SAMPLE, n)
    chosen = torch.from_numpy(random.choice(n, SAMPLE, replace=False)).to(V.device)
    best = _best(V[chosen], K, random, n_init, min(improved, IMPROVED))
    return lloyd(V, best.centers[0])[0].cpu().numpy()


def centered(V: Tensor) -> Tensor:
    """V (n, p) less the mean of its rows, in float32."""
    mean = V.mean(0, dtype=torch.float64)
    return torch.sub(V, mean, out=torch.empty(V.shape, dtype=torch.float32, device=V.device))


def lloyd(V: Tensor, centers: Tensor) -> tuple[Tensor, Tensor]:
    """Lloyd's descent from ``centers`` (K, p): labels (n,) int64, and the centers nearest to them.

    A center that loses all its points stays where it is.
    """
    V = V.to(torch.float32)
    labels, found = descend(V[None], centers.to(torch.float64)[None], tolerance(V))
    return labels[0], found[0]


def _best(
    V: Tensor, K: int, random: np.random.RandomState, n_init: int, improved: int
) -> Partitions:
    """The partition of lowest sum of squares, after exchanges in the best ``improved``."""
    allowed = tolerance(V)
    found = _filled(V, descended(V, V[seeds(V, K, random, n_init)].double(), allowed), allowed)
    if 0 < improved < n_init:
        found = found.take(found.explained.sum(1).argsort(descending=True, stable=True)[:improved])
    if improved:
        found = improve(V, found, allowed)
    return found.take(found.explained.sum(1).argmax()[None])


def seeds(V: Tensor, K: int, random: np.random.RandomState, n_init: int) -> Tensor:
    """Rows (n_init, K) to start from, far apart: k-means++ with the best of some draws each time.

    Reference: D. Arthur and S. Vassilvitskii, "k-means++: the advantages of careful seeding",
    SODA 2007; as many draws as scikit-learn makes.
    """
    n, draws = len(V), 2 + int(np.log(K))
    first = torch.from_numpy(random.randint(n, size=n_init)).to(V.device)
    uniform = torch.from_numpy(random.random_sample((K - 1, n_init, draws))).to(V.device)
    squares = V.square().sum(1)

    def distances(rows: Tensor) -> Tensor:
        products = torch.addmm(0.5 * squares, V[rows.flatten()], V.T, alpha=-1.0)
        apart = products.view(*rows.shape, n).mul_(2.0).add_(squares[rows][..., None])
        return apart.clamp_min_(0.0)

    chosen, nearest = [first], distances(first)
    for u in uniform:
        largest = nearest.amax(1, keepdim=True).double().clamp_min(torch.finfo(V.dtype).tiny)
        running = (nearest * (_FINEST / largest)).long().cumsum(1)
        drawn = torch.searchsorted(running, (u * running[:, -1:]).long(), right=True)
        drawn = drawn.clamp_max(n - 1)
        closer = torch.minimum(distances(drawn), nearest[:, None])
        best = closer.sum(2).argmin(1, keepdim=True)
        chosen.append(drawn.gather(1, best)[:, 0])
        nearest = closer.gather(1, best[..., None].expand(-1, -1, n))[:, 0]
    return torch.stack(chosen, dim=1)


def _filled(V: Tensor, found: Partitions, allowed: float) -> Partitions:
    """Empty clusters move to the rows farthest from their centers, and all descend again."""
    for _ in range(RELOCATIONS):
        empty = found.counts == 0
        if not bool(empty.any()):
            break
        centers = found.centers
        for b in empty.any(1).nonzero()[:, 0].tolist():
            free = empty[b].nonzero()[:, 0]
            distances = (V - centers[b, found.labels[b]]).square().sum(1)
            centers[b, free] = V[
                distances.argsort(descending=True, stable=True)[: len(free)]
            ].double()
        found = descended(V, centers, allowed)
    return found


def _merged(found: Partitions, V: Tensor) -> Tensor:
    """Labels (n,) of a batch of one, the same for clusters whose centers are the same."""
    centers = found.centers[0]
    apart = torch.cdist(centers, centers, compute_mode="donot_use_mm_for_euclid_dist")
    same = apart <= 1e-9 * V.square().sum(1, dtype=torch.float64).mean().sqrt()
    return same.to(torch.uint8).argmax(1)[found.labels[0]]
