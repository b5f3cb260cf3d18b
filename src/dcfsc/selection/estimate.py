"""How long a fit of the closed form takes, and how much memory, before it begins.

Every representation says how many operations it needs
(:meth:`dcfsc.representations.Representation.flops`); here are the scan for neighbors and the cut of
the graph. All are counted in operations of a large matrix product, whose rate on this machine is
measured in a few milliseconds: what runs slower, such as an eigenvalue problem, counts for more.
Expect the order of magnitude: a factor of three.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

import torch

from dcfsc.machine import available_cpus
from dcfsc.pipeline import MOST_SAMPLES
from dcfsc.progress import announce
from dcfsc.representations import Representation
from dcfsc.representations.base import scan_flops

from .stability import LEAST_PARTS, SHARE, judged_rows

LONG = 5.0  # seconds; nothing is said of shorter work
SIDE = 768  # of the matrices whose product is timed
LINK_BYTES = 1024  # of a sample's lists of neighbors and its share of the graph
WORKSPACE = 1e8  # bytes of blocks of rows and of the libraries' own
EIGENVECTOR, KMEANS = 1e5, 800.0  # operations for a sample's entry of an embedding, and its square


class Estimate(NamedTuple):
    """Operations in matrix products, and bytes besides the samples themselves."""

    flops: float
    bytes: float


def estimate(N: int, n_clusters: int, candidates: Sequence[Representation]) -> Estimate:
    """For N samples; the first candidate is taken for the one that is chosen."""
    taken, n = candidates[0], min(N, MOST_SAMPLES)
    flops = taken.flops(n, N) + cut_flops(N, n_clusters)
    flops += taken.scans * scan_flops(N, taken.row_width)
    if len(candidates) > 1:
        part = int(SHARE * len(judged_rows(n, n_clusters)))
        for candidate in candidates:
            shared = candidate.flops(part, part) + candidate.scans * scan_flops(
                part, candidate.row_width
            )
            flops += LEAST_PARTS * (shared + cut_flops(part, n_clusters))
    rows = 8.0 * taken.row_width * (1 + (taken.scans > 1))  # float32, before and after a transform
    kept = N * (rows + LINK_BYTES * taken.scans + 48.0 * n_clusters)
    return Estimate(flops, WORKSPACE + kept + max(c.bytes(n) for c in candidates))


def cut_flops(n: int, n_clusters: int) -> float:
    """For eigenvectors of a sparse graph of n samples, twice as many as clusters, and k-means."""
    return n * n_clusters * (EIGENVECTOR + KMEANS * n_clusters)


def rate(device: torch.device) -> float:
    """Operations per second of a matrix product in float32 on the device, the best of three."""
    A = torch.ones(SIDE, SIDE, device=device)
    best = float("inf")
    for _ in range(3):
        begin = time.perf_counter()
        float((A @ A)[0, 0])  # waits for the device
        best = min(best, time.perf_counter() - begin)
    return 2.0 * SIDE**3 / best


def announce_long_work(
    shape: Sequence[int],
    n_clusters: int,
    candidates: Sequence[Representation],
    device: torch.device,
) -> None:
    """Say how long a fit of samples of this shape takes, if it is long."""
    expected = estimate(shape[0], n_clusters, candidates)
    seconds = expected.flops / rate(device)
    if seconds > LONG:
        cores = min(available_cpus(), torch.get_num_threads())
        place = f"{cores} cores" if device.type == "cpu" else str(device)
        size = " x ".join(f"{side:,}" for side in shape)
        announce("about %s on %s (%s), %.1f GB", spoken(seconds), place, size, expected.bytes / 1e9)


def spoken(seconds: float) -> str:
    """Two digits of it: 40 s, 12 min, 3.5 h."""
    for unit, length in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{_two_digits(seconds / length)} {unit}"
    return f"{_two_digits(seconds)} s"


def _two_digits(value: float) -> str:
    return f"{float(f'{value:.2g}'):g}"
