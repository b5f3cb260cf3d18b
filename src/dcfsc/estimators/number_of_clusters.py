"""How many clusters? Candidates from the spectra of graphs over a range of lam.

With the eigenvalues w_1 >= w_2 >= ... of a graph's normalised affinity, mu_K = 1 - w_K are those of
its Laplacian. K clusters leave K small ones: the eigengap w_K - w_{K+1} is large. But two things
stand between the gap and K.

*The scale.* Without clusters the mu_K of points on a d-dimensional set grow as K^(2/d) (Weyl's
law), so gaps grow or fall along K and the largest says little. The slope in logarithms,

    slope(K) = K ln(mu_{K+1} / mu_K),

is about 2/d for every K where there is nothing to see, and large where K clusters end.

*The circle.* lam="auto" makes a graph for a given K: tr H = K m. So graphs are made for several K
from 2 to the largest, the same graphs that ``fit`` would make, and the slopes are averaged: what
is there shows at most lam, what one lam makes of noise does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from numbers import Integral
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from torch import Tensor

from dcfsc import affinity as affinities
from dcfsc import distributed, spectral
from dcfsc.datasets import Streamed
from dcfsc.errors import InputError, unknown_name
from dcfsc.machine import resolve_device
from dcfsc.neighbours import unit_rows
from dcfsc.representations.base import SUBSPACE_DIM
from dcfsc.self_expression import lam_for_dof, solve, squared_singular_values, target_dof
from dcfsc.stages import stage

from .deep import AutoencoderFeatures
from .validation import as_float, check_array, check_n_clusters

METHODS = ("closed-form", "dcfsc")
GRAPHS = 9
LARGEST, SAMPLES_EACH = 50, 5  # max_k unless given: at most 50, and five samples a cluster
LEADING = 3  # a graph is for its three candidates of largest slope
# Eigenvalues of the Laplacian below this are no longer told apart: a connection of one part in a
# thousand is chance, and without the floor its accidents would have the largest slopes. The value
# was chosen with labels in view, see docs/choosing_k.md.
FLOOR = 1e-3
TOLERANCE = 1e-5  # of the eigenvectors; the eigenvalues' errors are smaller, and far below FLOOR


@dataclass(frozen=True)
class Candidate:
    """A number of clusters ``k`` and the evidence for it.

    ``slope`` is K ln(mu_{K+1} / mu_K), the mean over the graphs: candidates are ranked by it.
    ``agreement`` is the share of the graphs that have K among their three candidates of largest
    slope. ``gap`` is the eigengap w_K - w_{K+1} of the graph whose lam is nearest to K's own.
    """

    k: int
    slope: float
    agreement: float
    gap: float


@dataclass(frozen=True, eq=False, repr=False)
class Suggestion(Sequence[Candidate]):
    """Candidates for the number of clusters, the best first.

    ``eigenvalues`` (max_k + 1,) are those of the graph whose lam is nearest to that of the best K;
    ``n_samples`` are the samples looked at; ``effective_dof`` the tr H of the graphs.
    """

    candidates: tuple[Candidate, ...]
    eigenvalues: np.ndarray
    effective_dof: tuple[float, ...]
    n_samples: int
    method: str

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
            "candidates": [asdict(candidate) for candidate in self.candidates[:most]],
            "eigenvalues": self.eigenvalues.tolist(),
            "effective_dof": list(self.effective_dof),
        }

    def __repr__(self) -> str:
        first = ", ".join(f"{c.k} ({c.slope:.2f})" for c in self.candidates[:5])
        return f"Suggestion(k={self.k}; K (slope): {first}, ...)"

    def _repr_html_(self) -> str:
        lines = "".join(
            f"<tr><td>{c.k}</td><td>{c.slope:.2f}</td><td>{c.agreement:.0%}</td>"
            f"<td>{c.gap:.4f}</td></tr>"
            for c in self.candidates[:10]
        )
        head = "<tr><th>K</th><th>slope</th><th>agreement</th><th>gap</th></tr>"
        return f"<table><thead>{head}</thead><tbody>{lines}</tbody></table>"


def suggest_k(
    X: Any,
    max_k: int | None = None,
    *,
    method: str = "closed-form",
    subspace_dim: float | None = None,
    normalize: bool = True,
    affinity: Any = "topk",
    max_samples: int = 5000,
    device: Any = "auto",
    random_state: Any = None,
    **network: Any,
) -> Suggestion:
    """Suggest numbers of clusters for X, the best first, without labels.

    It looks for a drop after the K-th eigenvalue in graphs over a range of lam; see the module.
    K = 1 is not among the candidates.

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
    normalize : bool
        Scale every sample to unit length first ("closed-form" only).
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
    >>> from dcfsc.datasets import synthetic
    >>> suggest_k(synthetic(240, 4, 3, 40, random_state=0).X, random_state=0).k
    4
    """
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    if network and method != "dcfsc":
        raise InputError(f"the options {', '.join(network)} need method='dcfsc'.")
    rng = check_random_state(random_state)
    X = _drawn(check_array(BaseEstimator(), X, reset=True, least_samples=4), max_samples, rng)
    largest = _largest(max_k, len(X))
    seed = int(rng.randint(2**31 - 1))
    place = resolve_device(device)
    if method == "dcfsc":
        encoder = AutoencoderFeatures(device=device, random_state=seed, **network)
        Z = as_float(encoder.fit_transform(X), place)
    else:
        Z = as_float(X, place).reshape(len(X), -1)
        Z = unit_rows(Z) if normalize else Z
    _refuse_one_point(Z, normalize and method != "dcfsc")
    m = SUBSPACE_DIM if subspace_dim is None else subspace_dim
    dofs, spectra = _spectra(Z, largest, m, affinity, seed)
    return _ranked(spectra, dofs, m, len(X), method)


def number_for(estimator: Any, X: Any) -> int:
    """The estimator's number of clusters for X, checked; "auto" is that of :func:`suggest_k`."""
    n_clusters = estimator.n_clusters
    if not isinstance(n_clusters, str):
        return check_n_clusters(n_clusters, distributed.total_count(X.shape[0]))
    if n_clusters != "auto":
        raise InputError(f'n_clusters must be a whole number or "auto"; got {n_clusters!r}.')
    if distributed.active():
        raise InputError('n_clusters="auto" needs all samples in one process; give a number.')
    try:
        return suggest_k(
            X,
            subspace_dim=getattr(estimator, "subspace_dim", None),
            device=estimator.device,
            random_state=estimator.random_state,
        ).k
    except InputError as error:
        raise InputError(f'n_clusters="auto" finds no number of clusters: {error}') from error


def slopes(values: np.ndarray, floor: float = FLOOR) -> np.ndarray:
    """K ln(mu_{K+1} / mu_K) for K = 1, 2, ... from eigenvalues w (M,), mu = max(1 - w, floor)."""
    mu = np.maximum(1.0 - np.asarray(values, np.float64), floor)
    return np.arange(1, len(mu)) * np.log(mu[1:] / mu[:-1])


def _spectra(
    Z: Tensor, largest: int, subspace_dim: float, affinity: Any, seed: int
) -> tuple[list[float], np.ndarray]:
    """Degrees of freedom (G,) and descending eigenvalues (G, largest + 1) of the graphs."""
    squares = squared_singular_values(Z)
    made_for = np.unique(np.geomspace(2, largest, GRAPHS).round().astype(int)).tolist()
    dofs: list[float] = []
    spectra: list[np.ndarray] = []
    for number, k in enumerate(made_for, start=1):
        stage("looking at graph %d of %d", number, len(made_for))
        operator = solve(Z, lam_for_dof(squares, target_dof(k, subspace_dim)))
        # beyond the rank of Z the targets have no root, and all give the same graph
        if dofs and operator.effective_dof < 1.01 * dofs[-1]:
            break
        graph = affinities.get(affinity, k)(operator, k)
        embedding = spectral.embed(
            graph,
            largest + 1,
            random_state=seed,
            tol=TOLERANCE,
            device=spectral.place_for(graph, Z.device),
        )
        dofs.append(operator.effective_dof)
        spectra.append(np.sort(embedding.values)[::-1])
    return dofs, np.array(spectra)


def _ranked(
    spectra: np.ndarray,
    dofs: list[float],
    subspace_dim: float,
    n: int,
    method: str,
) -> Suggestion:
    """Candidates 2, ..., M - 1 of spectra (G, M), by their mean slope; ties keep the smaller K."""
    table = np.array([slopes(w) for w in spectra])[:, 1:]  # (G, M - 2), from K = 2
    mean = table.mean(axis=0)
    place = np.argsort(np.argsort(-table, axis=1, kind="stable"), axis=1)
    agreement = (place < LEADING).mean(axis=0)
    gaps = [dict(spectral.eigengap(w)) for w in spectra]

    def own(k: int) -> int:
        """The graph whose degrees of freedom are nearest to K m."""
        return int(np.argmin(np.abs(np.log(np.array(dofs) / target_dof(k, subspace_dim)))))

    order = np.argsort(-mean, kind="stable")
    candidates = tuple(
        Candidate(
            k=int(i) + 2,
            slope=float(mean[i]),
            agreement=float(agreement[i]),
            gap=gaps[own(int(i) + 2)][int(i) + 2],
        )
        for i in order
    )
    return Suggestion(candidates, spectra[own(candidates[0].k)], tuple(dofs), n, method)


def _refuse_one_point(Z: Tensor, scaled: bool) -> None:
    """Samples that are all the same but for rounding have no graph to look at."""
    if (Z - Z[0]).abs().max() <= 8 * torch.finfo(Z.dtype).eps * Z.abs().max():
        but = " but for their length" if scaled else ""
        raise InputError(f"all {len(Z)} samples are the same{but}: they are one cluster, K = 1.")


def _largest(max_k: int | None, n: int) -> int:
    if max_k is None:
        return max(2, min(LARGEST, n // SAMPLES_EACH))
    if not isinstance(max_k, Integral) or isinstance(max_k, bool) or not 2 <= max_k <= n - 2:
        raise InputError(
            f"max_k is {max_k!r}; give a whole number from 2 to {n - 2}, as there are {n} samples."
        )
    return int(max_k)


def _drawn(X: Any, most: int, rng: np.random.RandomState) -> Any:
    """At most ``most`` rows of X, in their order."""
    if not isinstance(most, Integral) or most < 4:
        raise InputError(f"max_samples is {most!r}; give a whole number of at least 4.")
    if len(X) <= most:
        return X
    rows = np.sort(rng.choice(len(X), int(most), replace=False))
    return np.stack([X[int(i)] for i in rows]) if isinstance(X, Streamed) else X[rows]
