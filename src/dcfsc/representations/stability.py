"""How stable partitions are: the choice of a representation uses the data only, never labels.

A representation that fits the samples gives nearly the same partition when some of them are taken
away. So each candidate clusters random parts of a sample of the data, four fifths of it each, in
the metric and by the neighbors of the part. Its stability is how well these partitions agree with
each other where the parts overlap, by the adjusted Rand index. (A metric kept from all samples
would make partitions agree by what the samples left out have said.)

Coarse cuts agree more easily. So candidates are compared by the information that one partition has
of another beyond chance, as a share of log K: a coarse cut has little to tell. This is a noisy
measure. So the candidates come in an order of preference, and the first one is taken unless another
leads by a margin. Parts are clustered only until that is decided. What is known of the samples may
change the margin (:meth:`~.base.Representation.head_start`).

References
----------
A. Ben-Hur, A. Elisseeff, I. Guyon. A stability based method for discovering structure in clustered
data. Pacific Symposium on Biocomputing 7, 2002.
O. Maron, A. W. Moore. Hoeffding races: accelerating model selection search for classification and
function approximation. NIPS 6, 1993.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dcfsc import metrics, processes, spectral
from dcfsc.affinity import TopK
from dcfsc.machine import leaves_a_core_idle, one_a_core
from dcfsc.progress import stage
from dcfsc.self_expression.gram import outer_gram

from .base import Part, Representation, Setting

MOST_SAMPLES = 3000  # that a representation is fitted on
FEWEST_JUDGED, JUDGED_PER_CLUSTER = 1000, 60  # samples that the candidates are compared on
LEAST_PARTS, PARTS, SHARE = 3, 4, 0.8
MARGIN = 0.05  # by which a candidate must lead, unless the preferred one says another
CERTAIN, NOISE = 2.0, 0.02  # a lead is known to so many standard errors, each so much larger
TOPK, ASSIGN = TopK(), "filtered"  # how the default clusters
STARTS = 3  # of k-means, each improved: a part's partition is only compared
ROOM = 3  # a part has more than so many times k samples


def common_sample(Z: Tensor) -> Tensor:
    """At most ``MOST_SAMPLES`` rows of all processes' Z, the same on each."""
    N = processes.total_count(len(Z))
    if N <= MOST_SAMPLES:
        return processes.gather_rows(Z)
    chosen = sampled_rows(N)
    counts = processes.row_counts(len(Z), Z.device)
    first = sum(counts[: processes.rank()])
    own = chosen[(chosen >= first) & (chosen < first + len(Z))] - first
    return processes.gather_rows(Z[torch.from_numpy(own).to(Z.device)])


def sampled_rows(n: int) -> np.ndarray:
    """Sorted indices of the ``MOST_SAMPLES`` of n > MOST_SAMPLES rows that are a common sample."""
    return np.sort(np.random.RandomState(0).permutation(n)[:MOST_SAMPLES])


def enough_samples(n: int, n_clusters: int) -> bool:
    """Whether parts of n samples have room for the clusters and for every sample's neighbors."""
    return n > max(2 * n_clusters, ROOM * TOPK.k) / SHARE


def race(
    candidates: Sequence[Representation],
    Z: Tensor,
    setting: Setting,
    margin: float = MARGIN,
    affinity: TopK = TOPK,
) -> tuple[Representation, dict[str, float]]:
    """The candidate to take for samples like Z (n, d), and the stability of each, by name.

    The first candidate is preferred. Another one leaves the race where it can no longer lead by the
    margin; the race ends where all others have left, or the best of those that lead is known.
    """
    favorite, others = candidates[0], list(candidates[1:])
    judged = judged_rows(len(Z), setting.n_clusters)
    for candidate in candidates:
        stage("preparing the representation %s", candidate.name)
        candidate.prepare(Z)
    agreements = {c.name: Agreements(setting.n_clusters) for c in candidates}
    leads: dict[str, Lead] = {}
    parts = [torch.from_numpy(among).to(Z.device) for among in random_parts(len(judged))]
    part_of = _parts(candidates, Z, torch.from_numpy(judged).to(Z.device), setting)
    for number in range(LEAST_PARTS, PARTS + 1):
        stage("comparing %d representations: part %d of %d", 1 + len(others), number, PARTS)
        new = parts[:number] if number == LEAST_PARTS else parts[number - 1 : number]
        shown = [part_of(among) for among in new]
        # Who is alone is taken: where a core would have nothing to do, it is fitted meanwhile.
        alone = len(candidates) == 1 and leaves_a_core_idle(len(shown), Z.device)
        fits = [partial(favorite.fit, Z)] if alone else []
        _compare([favorite, *others], Z, shown, setting, affinity, agreements, fits)
        reference = agreements[favorite.name]
        leads = {c.name: Lead.of(agreements[c.name], reference) for c in others}
        others = [c for c in others if leads[c.name].highest > margin]
        if decided([leads[c.name] for c in others], margin):
            break
    ahead = [c for c in others if leads[c.name].mean > margin]
    chosen = max(ahead, key=lambda c: leads[c.name].mean, default=favorite)
    return chosen, {name: found.mean for name, found in agreements.items()}


def _compare(
    candidates: Sequence[Representation],
    Z: Tensor,
    parts: Sequence[Part],
    setting: Setting,
    affinity: TopK,
    agreements: dict[str, Agreements],
    first: Sequence[Callable[[], None]] = (),
) -> None:
    """Add the candidates' partitions of some parts of Z to their agreements.

    ``first`` is other work, which begins before them.
    """
    # All parts by a candidate, then by the next: what they share is there when it is needed.
    work = [(candidate, part) for candidate in candidates for part in parts]
    tasks: list[Callable[[], Any]] = [*first]
    tasks += [partial(clustered, *pair, setting, affinity) for pair in work]
    found = one_a_core(lambda task: task(), tasks, Z.device)[len(first) :]
    for (candidate, part), labels in zip(work, found, strict=True):
        everywhere = np.full(len(Z), -1)
        everywhere[part.index.cpu().numpy()] = labels
        agreements[candidate.name].add(everywhere)


def _parts(
    candidates: Sequence[Representation], Z: Tensor, judged: Tensor, setting: Setting
) -> Callable[[Tensor], Part]:
    """Parts of the rows ``judged`` of Z (n, d), by their places among these.

    Parts have most rows in common. So where several candidates are compared, and parts have no more
    rows than columns, all share the products of rows Z Z'.
    """
    shared = len(candidates) > 1 and int(SHARE * len(judged)) <= Z.shape[1]
    products = outer_gram(Z[judged]) if shared else None
    if products is not None and len(judged) == len(Z):
        for candidate in candidates:
            candidate.share(Z, products)

    def part_of(among: Tensor) -> Part:
        gram = None if products is None else products[among[:, None], among]
        return Part(Z, judged[among], setting, gram)

    return part_of


def clustered(
    candidate: Representation, part: Part, setting: Setting, affinity: TopK
) -> np.ndarray:
    """The candidate's partition of a part: labels of its samples."""
    device = part.Z.device
    graph = affinity(candidate.solve_part(part), setting.n_clusters)
    return spectral.cluster(
        graph,
        setting.n_clusters,
        assign=ASSIGN,
        random_state=0,
        n_init=STARTS,
        device=spectral.place_for(graph, device),
        assign_device=spectral.place_for_rows(device),
    ).labels


def judged_rows(n: int, n_clusters: int) -> np.ndarray:
    """Sorted indices of as many of n samples as it takes to compare partitions into K clusters."""
    most = max(FEWEST_JUDGED, JUDGED_PER_CLUSTER * n_clusters)
    return np.sort(np.random.RandomState(0).permutation(n)[:most])


class Agreements:
    """How well each two of some partitions of parts of the samples into K clusters agree.

    ``pairs`` has the adjusted Rand index, ``information`` what one tells of the other beyond
    chance, as a share of log K.
    """

    def __init__(self, n_clusters: int) -> None:
        self.largest = math.log(max(n_clusters, 2))
        self.partitions: list[np.ndarray] = []
        self.pairs: dict[tuple[int, int], float] = {}
        self.information: dict[tuple[int, int], float] = {}

    def add(self, labels: np.ndarray) -> None:
        """Compare a partition, -1 outside its part, with those before where both parts are."""
        for i, other in enumerate(self.partitions):
            both = (labels >= 0) & (other >= 0)
            pair, ours, theirs = (i, len(self.partitions)), labels[both], other[both]
            self.pairs[pair] = metrics.ari(ours, theirs)
            self.information[pair] = metrics.shared_information(ours, theirs) / self.largest
        self.partitions.append(labels)

    @property
    def mean(self) -> float:
        return sum(self.pairs.values()) / len(self.pairs)


@dataclass(frozen=True)
class Lead:
    """By how much more partitions tell of each other than others of the parts, and how surely."""

    mean: float
    doubt: float

    @classmethod
    def of(cls, ours: Agreements, theirs: Agreements) -> Lead:
        count = len(ours.partitions)
        apart = np.zeros((count, count))
        for (i, j), information in ours.information.items():
            apart[i, j] = apart[j, i] = information - theirs.information[i, j]
        by_part = apart.sum(axis=1) / (count - 1)
        error = by_part.std(ddof=1) / np.sqrt(count)
        return cls(float(by_part.mean()), CERTAIN * (float(error) + NOISE))

    @property
    def highest(self) -> float:
        return self.mean + self.doubt


def decided(leads: Sequence[Lead], margin: float = MARGIN) -> bool:
    """Whether one of the leads, or none, is surely above the margin and above the others."""
    if not leads:
        return True
    best = max(leads, key=lambda lead: lead.mean)
    if best.mean - best.doubt <= margin:
        return False
    return all(lead is best or lead.highest < best.mean for lead in leads)


def random_parts(n: int) -> Iterator[np.ndarray]:
    """Sorted indices of ``PARTS`` random parts of n samples."""
    random = np.random.RandomState(0)
    for _ in range(PARTS):
        yield np.sort(random.permutation(n)[: int(SHARE * n)])
