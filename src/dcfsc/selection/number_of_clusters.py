"""How many clusters? Candidates from the graphs that a fit would cut.

A fit's graph depends on K, as lam does: tr H = K m. And a neighborhood that is small for large
clusters joins small ones. So graphs are made in the representation that the fit would choose, for
three K and with half, once and twice the neighbors, and the slopes of their eigenvalues are
averaged: what is there shows in most graphs, what one of them makes of noise does not.

The leading candidates and their neighbors K - 1 and K + 1 are looked at again, by their
partitions. The sum slope + separation + evenness (:mod:`dcfsc.metrics.cluster_counts`) decides
among them.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dcfsc import spectral
from dcfsc.affinity import TopK
from dcfsc.errors import InputError
from dcfsc.machine import one_a_core
from dcfsc.metrics.cluster_counts import evenness, separation, slopes, unevenness
from dcfsc.pipeline import MOST_SAMPLES, Recipe, common_sample, distinct, graph_of
from dcfsc.progress import stage
from dcfsc.representations import Part, Representation, create
from dcfsc.spectral.coupling import coupling, halves

from .choice import choose
from .stability import STARTS

MADE_FOR = 3  # numbers of clusters that graphs are made for, from 2 to the largest
NEIGHBORHOODS = (1.0, 0.5, 2.0)  # times the affinity's own
LARGEST, SAMPLES_EACH = 50, 5  # max_k unless given: at most 50, and five samples a cluster
LEADING = 3  # a graph is for its so many candidates of largest slope
AGAIN = 5  # candidates of largest mean slope that are looked at again, each with its neighbors
TOLERANCE = 1e-5  # of the eigenvectors; the eigenvalues' errors are far below the slopes' floor


@dataclass(frozen=True)
class Candidate:
    """A number of clusters ``k`` and the evidence for it.

    ``slope`` is K ln(mu_{K+1} / mu_K), the mean over the graphs. ``separation`` says the same of a
    partition into K clusters, and ``evenness`` is above 0 where their sizes are more alike than
    those for the K beside it; None where there was no partition, since other candidates have larger
    slopes. Candidates with a partition come first, ranked by the sum of the three, then the others
    by their slope. ``agreement`` is the share of the graphs that have K among their three of
    largest slope. ``gap`` is the eigengap w_K - w_{K+1} of the graph made for the number nearest
    to K.
    """

    k: int
    slope: float
    separation: float | None
    evenness: float | None
    agreement: float
    gap: float

    @property
    def score(self) -> float:
        """slope + separation + evenness, or the slope alone."""
        return self.slope + (self.separation or 0.0) + (self.evenness or 0.0)


@dataclass(frozen=True, eq=False, repr=False)
class Suggestion(Sequence[Candidate]):
    """Candidates for the number of clusters, the best first.

    ``eigenvalues`` (max_k + 1,) are those of the graph made for the number nearest to the best K;
    ``n_samples`` are the samples looked at; ``representation`` is that of the graphs.
    """

    candidates: tuple[Candidate, ...]
    eigenvalues: np.ndarray
    n_samples: int
    method: str
    representation: str

    @property
    def k(self) -> int:
        """The first candidate's K."""
        return self.candidates[0].k

    def __len__(self) -> int:
        return len(self.candidates)

    def __getitem__(self, index: Any) -> Any:
        return self.candidates[index]

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.candidates)

    def to_dict(self, most: int | None = None) -> dict[str, Any]:
        """Plain numbers, for JSON; at most ``most`` candidates."""
        return {
            "k": self.k,
            "method": self.method,
            "n_samples": self.n_samples,
            "candidates": [{**asdict(c), "score": c.score} for c in self.candidates[:most]],
            "eigenvalues": self.eigenvalues.tolist(),
            "representation": self.representation,
        }

    def __repr__(self) -> str:
        first = ", ".join(f"{c.k} ({c.score:.2f})" for c in self.candidates[:5])
        return f"Suggestion(k={self.k}; K (score): {first}, ...)"

    def _repr_html_(self) -> str:
        lines = "".join(
            f"<tr><td>{c.k}</td><td>{c.slope:.2f}</td>"
            f"<td>{'' if c.separation is None else f'{c.separation:.2f}'}</td>"
            f"<td>{'' if c.evenness is None else f'{c.evenness:.2f}'}</td>"
            f"<td>{c.agreement:.0%}</td><td>{c.gap:.4f}</td></tr>"
            for c in self.candidates[:10]
        )
        names = ("K", "slope", "separation", "evenness", "agreement", "gap")
        head = f"<tr>{''.join(f'<th>{name}</th>' for name in names)}</tr>"
        return f"<table><thead>{head}</thead><tbody>{lines}</tbody></table>"


def suggest(Z: Tensor, recipe: Recipe, name: str, largest: int, seed: int) -> Suggestion:
    """Candidates 2, ..., ``largest`` for rows Z (n, d), in the representation of that name."""
    n, (Z, order, _) = len(Z), distinct(Z, replace(recipe, n_clusters=largest + 1))
    chosen, compared, _ = choose(create(name, recipe), common_sample(Z, order), recipe)
    rows = chosen.rows(Z)
    if not compared or len(Z) > MOST_SAMPLES:
        chosen.prepare(rows)
    graphs = _graphs(chosen, Z, largest, seed)
    candidates = _ranked(graphs, seed)
    eigenvalues = _nearest(graphs, candidates[0].k).values
    return Suggestion(candidates, eigenvalues, n, "closed-form", chosen.name)


def middle(largest: int) -> int:
    """The number of clusters that the representation is chosen for."""
    return round(math.sqrt(2 * largest))


def largest_candidate(max_k: int | None, n: int) -> int:
    if max_k is None:
        return max(2, min(LARGEST, n // SAMPLES_EACH))
    if max_k > n - 2:
        raise InputError(f"max_k={max_k} is not allowed: at most {n - 2} of {n} samples.")
    return int(max_k)


@dataclass(frozen=True, eq=False)
class TrialGraph:
    """A graph made for a number of clusters, with its leading eigenvectors.

    ``own`` says whether its neighborhoods have the affinity's own size, as those of a fit.
    """

    made_for: int
    own: bool
    assign: str
    affinity: Any
    embedding: spectral.Embedding

    @property
    def values(self) -> np.ndarray:
        """Eigenvalues (max_k + 1,), descending."""
        return np.sort(self.embedding.values)[::-1]

    def cut(self, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """The graph's clusters: sizes (k,), coupling (k, k) with that of halves on the diagonal."""
        count = spectral.default_components(self.assign, k, len(self.embedding.vectors))
        leading = self.embedding.leading(min(count, len(self.values)))
        labels = spectral.assign(leading, k, method=self.assign, random_state=seed, n_init=STARTS)
        parts = halves(leading, labels, k, self.assign)
        return np.bincount(labels, minlength=k), coupling(self.affinity, labels, parts, k)


def _graphs(representation: Representation, Z: Tensor, largest: int, seed: int) -> list[TrialGraph]:
    """Graphs of the samples Z for several numbers of clusters and sizes of neighborhoods."""
    everything = torch.arange(len(Z), device=Z.device)
    recipe = representation.recipe
    counts = np.unique(np.geomspace(2, largest, MADE_FOR).round().astype(int)).tolist()
    sizes = NEIGHBORHOODS if isinstance(recipe.affinity, TopK) else (1.0,)

    def solved(k: int) -> Any:
        own = copy.copy(representation)
        own.recipe = replace(recipe, n_clusters=k)
        return own.solve_part(Part(Z, everything, own.recipe))

    def make(item: tuple[int, Any, float]) -> TrialGraph:
        k, operator, size = item
        affinity = recipe.affinity
        if isinstance(affinity, TopK):  # many pieces are no fault here
            affinity = replace(affinity, k=max(1, round(size * affinity.k)), grow=False)
        graph = graph_of(operator, replace(recipe, n_clusters=k, affinity=affinity))
        embedding = spectral.embed(graph, largest + 1, random_state=seed, tol=TOLERANCE)
        return TrialGraph(k, size == 1.0, recipe.assign, graph.on_host, embedding)

    operators = [(k, solved(k)) for k in counts]
    items = [(k, o, size) for k, o in operators for size in sizes]
    stage("looking at %d graphs", len(items))
    return one_a_core(make, items, Z.device)


def _nearest(graphs: Sequence[TrialGraph], k: int) -> TrialGraph:
    """The graph like a fit's that was made for the number nearest to k."""
    return min((g for g in graphs if g.own), key=lambda g: abs(math.log(g.made_for / k)))


def _ranked(graphs: Sequence[TrialGraph], seed: int) -> tuple[Candidate, ...]:
    """Candidates 2, ..., max_k: the leading ones, looked at again, then the others by slope."""
    table = np.array([slopes(graph.values) for graph in graphs])[:, 1:]  # (G, max_k - 1)
    mean = table.mean(axis=0)
    place = np.argsort(np.argsort(-table, axis=1, kind="stable"), axis=1)
    agreement = (place < LEADING).mean(axis=0)
    order = np.argsort(-mean, kind="stable")
    near = {int(i) + 2 + step for i in order[:AGAIN] for step in (-1, 0, 1)}
    again = sorted(near & set(range(2, len(mean) + 2)))
    stage("looking at partitions into %s clusters", ", ".join(map(str, again)))
    cuts = one_a_core(lambda k: _nearest(graphs, k).cut(k, seed), again, torch.device("cpu"))
    separations = {k: separation(found) for k, (_, found) in zip(again, cuts, strict=True)}
    even = evenness({k: unevenness(sizes) for k, (sizes, _) in zip(again, cuts, strict=True)})
    candidates = [
        Candidate(
            k=k,
            slope=float(mean[k - 2]),
            separation=separations.get(k),
            evenness=even.get(k),
            agreement=float(agreement[k - 2]),
            gap=dict(spectral.eigengap(_nearest(graphs, k).values))[k],
        )
        for k in (order + 2).tolist()
    ]
    return tuple(sorted(candidates, key=lambda c: (c.separation is None, -c.score)))
