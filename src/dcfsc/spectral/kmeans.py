"""k-means for many points: starts on a sample, one descent over all points where they live."""

from __future__ import annotations

import logging

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor

from dcfsc.spectral.exchange import Partition, improve

logger = logging.getLogger("dcfsc")

# Beyond this many points the starts run on a sample of SAMPLE of them.
LARGE = 50_000
SAMPLE = 20_000
MAX_ITER = 300
# The descent stops where the centres' summed squared moves fall below this share of the mean
# variance of a coordinate: scikit-learn's rule and value.
TOLERANCE = 1e-4
_CHUNK_ELEMENTS = {"cpu": 1 << 20, "cuda": 1 << 25}


def kmeans(
    V: Tensor, K: int, random: np.random.RandomState, n_init: int, exchange: bool = False
) -> np.ndarray:
    """min over K centres c of sum_i min_c |v_i - c|^2 for the rows v of V (n, p): labels (n,).

    Up to 50,000 points scikit-learn does it whole. Beyond, it runs ``n_init`` starts on a random
    sample of 20,000 rows, and the best centres descend once over all rows, in float32 matrix
    products on the device of V. The same seed gives the same starts on every device. With
    ``exchange`` every start is improved by exchanges (:mod:`dcfsc.spectral.exchange`).
    """
    n = len(V)
    if n <= LARGE:
        return _best(V.cpu().numpy(), K, random, n_init, exchange).labels
    logger.info("k-means: %d starts on %d of %d rows, refined on all", n_init, SAMPLE, n)
    chosen = torch.from_numpy(random.choice(n, SAMPLE, replace=False)).to(V.device)
    centres = _best(V[chosen].cpu().numpy(), K, random, n_init, exchange).centres
    return lloyd(V, torch.from_numpy(centres).to(V.device))[0].cpu().numpy()


def _best(
    V: np.ndarray, K: int, random: np.random.RandomState, n_init: int, exchange: bool
) -> Partition:
    if not exchange:
        return Partition.of(KMeans(K, n_init=n_init, random_state=random).fit(V))
    starts = (KMeans(K, n_init=1, random_state=random).fit(V) for _ in range(n_init))
    return min((improve(V, Partition.of(start)) for start in starts), key=lambda p: p.inertia)


def lloyd(V: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """Lloyd's descent from ``centres`` (K, p): labels (n,) int64 and the centres they belong to.

    A centre that loses all its points stays where it is. Sums are products with indicator
    matrices, a chunk of rows at a time, added up in float64 in a fixed order: no atomics, so that
    runs repeat to the bit.
    """
    V = V.to(torch.float32)
    centres = centres.to(torch.float64)
    mean = V.mean(0, dtype=torch.float64)
    allowed = TOLERANCE * float((V - mean.to(V.dtype)).square_().mean(dtype=torch.float64))
    labels, sums, counts = _assign_and_sum(V, centres)
    for _ in range(MAX_ITER):
        moved = torch.where(counts[:, None] > 0, sums / counts.clamp_min(1.0)[:, None], centres)
        shift = float((moved - centres).square().sum())
        previous = labels
        centres = moved
        labels, sums, counts = _assign_and_sum(V, centres)
        if shift <= allowed or torch.equal(labels, previous):
            break
    return labels, centres


def _assign_and_sum(V: Tensor, centres: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Nearest centres (n,), and the sum (K, p) and number (K,) of each centre's points."""
    n, K = len(V), len(centres)
    c = centres.to(V.dtype)
    # |v - c|^2 = |v|^2 - 2 v.c + |c|^2, and |v|^2 does not choose.
    offset = 0.5 * c.square().sum(1)
    labels = torch.empty(n, dtype=torch.int64, device=V.device)
    sums = torch.zeros_like(centres)
    counts = torch.zeros(K, dtype=torch.float64, device=V.device)
    step = max(1, _CHUNK_ELEMENTS.get(V.device.type, 1 << 20) // K)
    numbers = torch.arange(K, device=V.device)
    for start in range(0, n, step):
        rows = V[start : start + step]
        nearest = torch.addmm(-offset, rows, c.T).argmax(1)
        labels[start : start + step] = nearest
        indicator = (nearest[:, None] == numbers).to(V.dtype)  # (b, K)
        sums += indicator.T @ rows
        counts += indicator.sum(0, dtype=torch.float64)
    return labels, sums, counts
