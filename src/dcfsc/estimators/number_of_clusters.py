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
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from torch import Tensor

from dcfsc import affinity as affinities
from dcfsc import processes, spectral
from dcfsc.errors import InputError
from dcfsc.io import Streamed
from dcfsc.machine import one_a_core, resolve_device
from dcfsc.metrics.cluster_counts import evenness, separation, slopes, unevenness
from dcfsc.neighbors import unit_rows
from dcfsc.parameters import CALLABLE, NONE, SEED, check_call, one_of, table, whole
from dcfsc.progress import stage
from dcfsc.representations import Part, Representation, choose, create
from dcfsc.representations.base import Setting
from dcfsc.representations.stability import ASSIGN, MOST_SAMPLES, STARTS
from dcfsc.self_expression import Operator
from dcfsc.spectral.assignment import assign
from dcfsc.spectral.clustering import default_components
from dcfsc.spectral.coupling import coupling, halves

from .base import DEVICE
from .deep import AutoencoderFeatures
from .validation import (
    GRAPH,
    SUBSPACE_DIM,
    as_float,
    check_array,
    check_n_clusters,
    compared_shape,
    fixed_lam,
)

TABLE = table(
    **{name: kind.needs("method", "closed-form") for name, kind in GRAPH.items()},
    method=one_of("closed-form", "dcfsc"),
    max_k=whole(2) | NONE,
    subspace_dim=SUBSPACE_DIM,
    affinity=one_of(*affinities.names()) | CALLABLE,
    max_samples=whole(4),
    device=DEVICE,
    random_state=SEED,
)
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


def suggest_k(
    X: Any,
    max_k: int | None = None,
    *,
    method: str = "closed-form",
    lam: float | str = "auto",
    subspace_dim: float | None = None,
    normalize: bool = True,
    representation: str = "auto",
    working_size: Any = "auto",
    affinity: Any = "topk",
    max_samples: int = MOST_SAMPLES,
    device: Any = "auto",
    random_state: Any = None,
    **network: Any,
) -> Suggestion:
    """Suggest numbers of clusters for X, the best first, without labels.

    It looks for a drop after the K-th eigenvalue in graphs like those of a fit, and compares the
    partitions of the leading candidates; see the module. K = 1 is not among the candidates.

    Parameters
    ----------
    X : array (n, features), (n, h, w) or (n, c, h, w)
    max_k : int or None
        The largest candidate; None is 50, or n / 5 if that is less.
    method : "closed-form" or "dcfsc"
        Graphs of the samples, or of the latents of the auto-encoder that `DCFSC` would start from
        (trained for reconstruction alone, which needs no K).
    subspace_dim : float or None
        The m of tr H = K m, as in the estimators.
    lam, normalize, representation, working_size
        As in `ClosedFormSubspaceClustering` ("closed-form" only).
    affinity : str or callable
        As in the estimators.
    max_samples : int
        If there are more samples, so many are drawn at random. Gaps show in a part of the samples
        as they do in all of them, as long as every cluster keeps about ten.
    device, random_state : as in the estimators
    **network : options of `AutoencoderFeatures` for "dcfsc", such as ``weights``

    Returns
    -------
    Suggestion
        A sequence of `Candidate`, the best first, with ``k`` for the first one's K.

    Examples
    --------
    >>> from dcfsc import suggest_k
    >>> from dcfsc.io import synthetic
    >>> suggest_k(synthetic(240, 4, 3, 40, random_state=0).X, random_state=0).k
    4
    """
    check_call(suggest_k, TABLE, locals().__getitem__)
    if network and method != "dcfsc":
        raise InputError(f"the options {', '.join(network)} need method='dcfsc'.")
    rng = check_random_state(random_state)
    X = _drawn(check_array(BaseEstimator(), X, reset=True, least_samples=4), max_samples, rng)
    largest = _largest(max_k, len(X))
    affinity = affinities.get(affinity, largest)
    seed = int(rng.randint(2**31 - 1))
    place = resolve_device(device)
    if method == "dcfsc":
        encoder = AutoencoderFeatures(device=device, random_state=seed, **network)
        Z = as_float(encoder.fit_transform(X), place)
        shape, normalize, representation = tuple(Z.shape[1:]), False, "given"
    else:
        shape = compared_shape(tuple(X.shape[1:]), working_size)
        Z = as_float(X, place, shape).reshape(len(X), -1)
    _refuse_one_point(unit_rows(Z) if normalize else Z, normalize)
    setting = Setting(
        sample_shape=shape,
        n_clusters=round(math.sqrt(2 * largest)),
        lam=fixed_lam(lam),
        subspace_dim=subspace_dim,
        unit_length=normalize,
        **graph_of(affinity),
    )
    chosen, rows, _ = choose(create(representation, setting), Z, setting)
    graphs = _graphs(chosen, rows, largest, affinity, seed)
    candidates = _ranked(graphs, seed)
    eigenvalues = _nearest(graphs, candidates[0].k).values
    return Suggestion(candidates, eigenvalues, len(X), method, chosen.name)


def number_for(estimator: Any, X: Any) -> int:
    """The estimator's number of clusters for X, checked; "auto" is that of :func:`suggest_k`."""
    n_clusters = estimator.n_clusters
    if not isinstance(n_clusters, str):
        return check_n_clusters(n_clusters, processes.total_count(X.shape[0]))
    if processes.active():
        raise InputError('n_clusters="auto" needs all samples in one process; give a number.')
    try:
        return suggest_k(X, **options_for(estimator)).k
    except InputError as error:
        raise InputError(f'n_clusters="auto" finds no number of clusters: {error}') from error


def options_for(estimator: Any) -> dict[str, Any]:
    """The options with which :func:`suggest_k` looks at graphs like those of an estimator's fit."""
    names = ["subspace_dim", "device", "random_state"]
    names += [*GRAPH, "affinity"] if hasattr(estimator, "representation") else []
    return {name: getattr(estimator, name) for name in names if hasattr(estimator, name)}


def graph_of(affinity: Any) -> dict[str, Any]:
    """What a representation needs to know of the affinity."""
    if not isinstance(affinity, affinities.TopK):
        return {"sparse_exact": False}
    return {"sparse_exact": affinity.search == "exact", "signs": affinity.signs}


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph made for a number of clusters, with its leading eigenvectors.

    ``own`` says whether its neighborhoods have the affinity's own size, as those of a fit.
    """

    made_for: int
    own: bool
    affinity: Any
    embedding: spectral.Embedding

    @property
    def values(self) -> np.ndarray:
        """Eigenvalues (max_k + 1,), descending."""
        return np.sort(self.embedding.values)[::-1]

    def cut(self, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """The graph's clusters: sizes (k,), coupling (k, k) with that of halves on the diagonal."""
        count = min(default_components(ASSIGN, k, len(self.embedding.vectors)), len(self.values))
        leading = replace(
            self.embedding,
            vectors=self.embedding.vectors[:, :count],
            values=self.embedding.values[:count],
        )
        labels = assign(leading, k, method=ASSIGN, random_state=seed, n_init=STARTS)
        found = coupling(self.affinity, labels, halves(leading, labels, k, ASSIGN), k)
        return np.bincount(labels, minlength=k), found


def _graphs(
    representation: Representation, rows: Tensor, largest: int, affinity: Any, seed: int
) -> list[Graph]:
    """Graphs of the rows for several numbers of clusters and sizes of neighborhoods."""
    if len(rows) > MOST_SAMPLES:  # it was prepared for a sample of them
        representation.prepare(rows)
    everything = torch.arange(len(rows), device=rows.device)

    def solved(k: int) -> Operator:
        own = copy.copy(representation)
        own.setting = replace(representation.setting, n_clusters=k)
        return own.solve_part(Part(rows, everything, own.setting))

    counts = np.unique(np.geomspace(2, largest, MADE_FOR).round().astype(int)).tolist()
    operators = [(k, solved(k)) for k in counts]
    sizes = NEIGHBORHOODS if isinstance(affinity, affinities.TopK) else (1.0,)

    def make(item: tuple[int, Operator, float]) -> Graph:
        k, operator, size = item
        sized = affinity
        if isinstance(affinity, affinities.TopK):  # many pieces are no fault here
            sized = replace(affinity, k=max(1, round(size * affinity.k)), grow=False)
        A = sized(operator, k)
        embedding = spectral.embed(
            A,
            largest + 1,
            random_state=seed,
            tol=TOLERANCE,
            device=spectral.place_for(A, rows.device),
        )
        return Graph(k, size == 1.0, A.cpu().numpy() if isinstance(A, Tensor) else A, embedding)

    stage("looking at %d graphs", len(operators) * len(sizes))
    items = [(k, operator, size) for k, operator in operators for size in sizes]
    return one_a_core(make, items, rows.device)


def _nearest(graphs: Sequence[Graph], k: int) -> Graph:
    """The graph like a fit's that was made for the number nearest to k."""
    return min((g for g in graphs if g.own), key=lambda g: abs(math.log(g.made_for / k)))


def _ranked(graphs: Sequence[Graph], seed: int) -> tuple[Candidate, ...]:
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


def _refuse_one_point(Z: Tensor, scaled: bool) -> None:
    """Samples that are all the same but for rounding have no graph to look at."""
    if (Z - Z[0]).abs().max() <= 8 * torch.finfo(Z.dtype).eps * Z.abs().max():
        but = " but for their length" if scaled else ""
        raise InputError(f"all {len(Z)} samples are the same{but}: they are one cluster, K = 1.")


def _largest(max_k: int | None, n: int) -> int:
    if max_k is None:
        return max(2, min(LARGEST, n // SAMPLES_EACH))
    if max_k > n - 2:
        raise InputError(f"max_k={max_k} is not allowed: at most {n - 2} of {n} samples.")
    return int(max_k)


def _drawn(X: Any, most: int, rng: np.random.RandomState) -> Any:
    """At most ``most`` rows of X, in their order."""
    if len(X) <= most:
        return X
    rows = np.sort(rng.choice(len(X), int(most), replace=False))
    return np.stack([X[int(i)] for i in rows]) if isinstance(X, Streamed) else X[rows]
