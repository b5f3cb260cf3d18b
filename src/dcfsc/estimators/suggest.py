"""How many clusters? What people call; :mod:`dcfsc.selection.number_of_clusters` does the work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from torch import Tensor

from dcfsc import affinity as affinities
from dcfsc import processes
from dcfsc.errors import InputError
from dcfsc.io.image_stream import StreamedImages
from dcfsc.machine import resolve_device
from dcfsc.neighbors import unit_rows
from dcfsc.parameters import CALLABLE, NONE, SEED, check_call, one_of, table, whole
from dcfsc.pipeline import MOST_SAMPLES, Recipe
from dcfsc.pipeline.samples import Samples
from dcfsc.selection import Suggestion
from dcfsc.selection.number_of_clusters import largest_candidate, middle, suggest

from .base import DEVICE
from .deep import AutoencoderFeatures
from .validation import GRAPH, SUBSPACE_DIM, check_array, check_n_clusters, fixed_lam

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
    X = drawn(check_array(BaseEstimator(), X, reset=True, least_samples=4), max_samples, rng)
    largest = largest_candidate(max_k, len(X))
    seed = int(rng.randint(2**31 - 1))
    place = resolve_device(device)
    if method == "dcfsc":
        encoder = AutoencoderFeatures(device=device, random_state=seed, **network)
        samples = Samples.of(encoder.fit_transform(X), None)
        normalize, representation = False, "given"
    else:
        samples = Samples.of(X, working_size)
    Z = samples.rows(place)
    _refuse_one_point(unit_rows(Z) if normalize else Z, normalize)
    recipe = Recipe(
        samples.working_shape,
        middle(largest),
        lam=fixed_lam(lam),
        subspace_dim=subspace_dim,
        unit_length=normalize,
        affinity=affinities.get(affinity, largest),
    )
    return replace(suggest(Z, recipe, representation, largest, seed), method=method)


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


def _refuse_one_point(Z: Tensor, scaled: bool) -> None:
    """Samples that are all the same but for rounding have no graph to look at."""
    if (Z - Z[0]).abs().max() <= 8 * torch.finfo(Z.dtype).eps * Z.abs().max():
        but = " but for their length" if scaled else ""
        raise InputError(f"all {len(Z)} samples are the same{but}: they are one cluster, K = 1.")


def drawn(X: Any, most: int, rng: np.random.RandomState) -> Any:
    """At most ``most`` rows of X, in their order; in memory, unless they are image files."""
    if len(X) <= most:
        return X
    rows = np.sort(rng.choice(len(X), int(most), replace=False))
    return X.take(rows) if isinstance(X, StreamedImages) else X[rows]
