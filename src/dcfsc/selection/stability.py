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
change the margin (:meth:`dcfsc.representations.Representation.head_start`). If it stays undecided,
a :class:`Rival` has the partition that may as well have been taken.

References
----------
A. Ben-Hur, A. Elisseeff, I. Guyon. A stability based method for discovering structure in clustered
data. Pacific Symposium on Biocomputing 7, 2002.
O. Maron, A. W. Moore. Hoeffding races: accelerating model selection search for classification and
function approximation. NIPS 6, 1993.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dcfsc import metrics
from dcfsc.machine import one_a_core
from dcfsc.pipeline import Recipe, graph_of, labels_of
from dcfsc.progress import stage
from dcfsc.representations import Part, Representation
from dcfsc.representations.base import is_image
from dcfsc.self_expression.gram import outer_gram

FEWEST_JUDGED, JUDGED_PER_CLUSTER = 1000, 60  # samples that the candidates are compared on
SHARE = 0.8
LEAST_PARTS, PARTS = 3, 4
# Candidates for few vectors are often near each other, and one sample more changes their order.
# With so many parts another draw of them seldom does, on the first half of the vector problems. It
# is quick where all samples are judged.
LEAST_OF_FEW, PARTS_OF_FEW = 6, 12
MARGIN = 0.05  # by which a candidate must lead, unless the preferred one says another
CERTAIN, NOISE = 2.0, 0.02  # a lead is known to so many standard errors, each so much larger
STARTS = 3  # of k-means, each improved: a part's partition is only compared
ROOM = 24  # a part has more samples
WHOLE = 2.0 / 3.0  # a cluster is not split where another partition has so much of it together


def enough_samples(n: int, n_clusters: int) -> bool:
    """Whether parts of n samples have room for the clusters and for every sample's neighbors."""
    return n > max(2 * n_clusters, ROOM) / SHARE


def stability_of(candidate: Representation, X: Tensor, recipe: Recipe) -> float:
    """How well partitions of random parts of the samples X (n, d) agree."""
    candidate.prepare(candidate.rows(X))
    agreements = {candidate.name: Agreements(recipe.n_clusters)}
    parts = list(islice(_parts(X, recipe, 1), LEAST_PARTS))
    _compare([candidate], parts, len(X), agreements)
    return agreements[candidate.name].mean


def race(
    candidates: Sequence[Representation], X: Tensor, recipe: Recipe, margin: float = MARGIN
) -> tuple[Representation, dict[str, float], Rival | None]:
    """The candidate to take for samples like X (n, d), the stability of each by name, a rival.

    The first candidate is preferred. Another one leaves the race where it can no longer lead by the
    margin; the race ends where all others have left, or the best of those that lead is known.
    """
    favorite, others = candidates[0], list(candidates[1:])
    for candidate in candidates:
        stage("preparing the representation %s", candidate.name)
        candidate.prepare(candidate.rows(X))
    agreements = {c.name: Agreements(recipe.n_clusters) for c in candidates}
    leads: dict[str, Lead] = {}
    parts = _parts(X, recipe, len(candidates))
    least, most = LEAST_PARTS, PARTS
    if not is_image(recipe.sample_shape) and len(X) <= most_judged(recipe.n_clusters):
        least, most = LEAST_OF_FEW, PARTS_OF_FEW
    for number in range(least, most + 1):
        stage("comparing %d representations: part %d of %d", 1 + len(others), number, most)
        new = list(islice(parts, least if number == least else 1))
        _compare([favorite, *others], new, len(X), agreements)
        reference = agreements[favorite.name]
        leads = {c.name: Lead.of(agreements[c.name], reference) for c in others}
        others = [c for c in others if leads[c.name].highest > margin]
        if decided([leads[c.name] for c in others], margin):
            break
    ahead = [c for c in others if leads[c.name].mean > margin]
    chosen = max(ahead, key=lambda c: leads[c.name].mean, default=favorite)
    scores = {name: agreement.mean for name, agreement in agreements.items()}
    near = {c.name for c in others if c is not chosen}
    if chosen is not favorite:  # then those that may lead by more, and the first if it may win
        lead = leads[chosen.name]
        near = {name for name in near if leads[name].highest >= lead.mean}
        near |= {favorite.name} if lead.lowest <= margin else set()
    return chosen, scores, rival_of(chosen.name, near, agreements)


@dataclass(frozen=True, eq=False)
class Rival:
    """A partition that was nearly as stable, by another representation.

    ``labels`` (m,) are those of the samples ``index`` (m,).
    """

    representation: str
    index: np.ndarray
    labels: np.ndarray

    def difference(self, labels: np.ndarray) -> dict[str, Any]:
        """How it differs from the labels (N,) of all samples, as plain values.

        ``changed`` is the share of the samples that are in other clusters. Of the labels' clusters,
        it has those in ``joins`` mostly in one cluster, and those in ``splits`` in several.
        """
        own = labels[self.index]
        table = metrics.confusion(own, self.labels)
        present = np.unique(own)
        shares = np.sort(table / table.sum(axis=1, keepdims=True), axis=1)
        main = table.argmax(axis=1)
        whole = shares[:, -1] >= WHOLE
        joins = [present[whole & (main == c)].tolist() for c in np.unique(main[whole])]
        return {
            "representation": self.representation,
            "changed": metrics.clustering_error(own, self.labels) / 100.0,
            "joins": [clusters for clusters in joins if len(clusters) > 1],
            "splits": present[~whole].tolist(),
        }


def rival_of(
    chosen: str, near: Iterable[str], agreements: Mapping[str, Agreements]
) -> Rival | None:
    """Of candidates near the chosen one that whose partition of the first part differs most."""
    (labels, *_) = agreements[chosen].partitions
    inside = np.flatnonzero(labels >= 0)
    others = {name: agreements[name].partitions[0][inside] for name in sorted(near)}
    if not others:
        return None
    own = labels[inside]
    name = max(others, key=lambda name: metrics.clustering_error(own, others[name]))
    return Rival(name, inside, others[name])


def _compare(
    candidates: Sequence[Representation],
    parts: Sequence[Part],
    n: int,
    agreements: dict[str, Agreements],
) -> None:
    """Add the candidates' partitions of some parts of n samples to their agreements."""
    # All parts by a candidate, then by the next: what they share is there when it is needed.
    work = [(candidate, part) for candidate in candidates for part in parts]
    partitions = one_a_core(lambda pair: clustered(*pair), work, parts[0].Z.device)
    for (candidate, part), labels in zip(work, partitions, strict=True):
        everywhere = np.full(n, -1)
        everywhere[part.index.cpu().numpy()] = labels
        agreements[candidate.name].add(everywhere)


def _parts(X: Tensor, recipe: Recipe, candidates: int) -> Iterator[Part]:
    """Random parts of as many samples of X (n, d) as are judged.

    Parts have most rows in common. So where several candidates are compared, and parts have no more
    rows than columns, all share the products of rows Z Z'.
    """
    judged = torch.from_numpy(judged_rows(len(X), recipe.n_clusters)).to(X.device)
    shared = candidates > 1 and int(SHARE * len(judged)) <= X.shape[1]
    products = outer_gram(recipe.scaled(X[judged])) if shared else None
    for among in random_parts(len(judged)):
        a = torch.from_numpy(among).to(X.device)
        yield Part(X, judged[a], recipe, None if products is None else products[a[:, None], a])


def clustered(candidate: Representation, part: Part) -> np.ndarray:
    """The candidate's partition of a part: labels of its samples."""
    graph = graph_of(candidate.solve_part(part), part.recipe)
    return labels_of(graph, part.recipe, np.random.RandomState(0), STARTS)


def judged_rows(n: int, n_clusters: int) -> np.ndarray:
    """Sorted indices of as many of n samples as it takes to compare partitions into K clusters."""
    return np.sort(np.random.RandomState(0).permutation(n)[: most_judged(n_clusters)])


def most_judged(n_clusters: int) -> int:
    return max(FEWEST_JUDGED, JUDGED_PER_CLUSTER * n_clusters)


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

    @property
    def lowest(self) -> float:
        return self.mean - self.doubt


def decided(leads: Sequence[Lead], margin: float = MARGIN) -> bool:
    """Whether one of the leads, or none, is surely above the margin and above the others."""
    if not leads:
        return True
    best = max(leads, key=lambda lead: lead.mean)
    if best.lowest <= margin:
        return False
    return all(lead is best or lead.highest < best.mean for lead in leads)


def random_parts(n: int) -> Iterator[np.ndarray]:
    """Sorted indices of random parts of n samples, without end."""
    random = np.random.RandomState(0)
    while True:
        yield np.sort(random.permutation(n)[: int(SHARE * n)])
