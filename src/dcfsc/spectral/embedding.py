"""Spectral embedding: the leading eigenvectors of the normalized, regularized affinity."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from dcfsc.errors import InputError, unknown_name
from dcfsc.graphs import Affinity, Graph, NormalizedAffinity, read_affinity
from dcfsc.graphs.graph import check_range
from dcfsc.parameters import real, whole
from dcfsc.spectral.eigensolvers import DENSE_LIMIT, SOLVERS, components, residuals

logger = logging.getLogger("dcfsc")

Seed = int | np.random.RandomState | np.random.Generator | None

# tau as a share of the mean degree where "auto" regularizes. With planted clusters beside weakly
# linked fragments, shares up to 0.3 let the fragments win where 1 did not. No share helps against
# fragments as densely linked as the clusters, which is why strays are set aside first.
AUTO_SHARE = 1.0
# A connected component smaller than 1/STRAY of the mean cluster size N/K is no cluster; where
# there are more components than clusters some must give way, and the bound is higher.
STRAY, STRAY_CROWDED = 10, 5
# But where just K components are so large that no few near copies explain them (a point has at most
# 64 neighbors in a sparse graph), these are the clusters, however unequal.
POPULATION = 200
# Up to this size one dense factorization is at once the fastest and the most accurate.
SMALL, SMALL_ON_GPU = 500, 2000
# From so many eigenvectors on, blocks of them are quicker than Lanczos vectors one by one.
MANY = 30
# The residual asked for by tol="auto". With a gap g to the next eigenvalue a residual r turns the
# eigenvectors by r / g at most, which moves the rows of the embedding by that share of their length
# (root mean square), so that only points so near to the border of two clusters can change sides: of
# order r / g of them, one in 10,000 for r = 1e-6 and g = 0.01.
AUTO_TOL, AUTO_TOL_LARGE, LARGE = 1e-8, 1e-6, 50_000
# Beyond 50,000 points that of eigenvectors beyond the K-th. Those of one cluster's inner structure
# lie close together, so that which of them are mixed, or left out at the end, is arbitrary anyway,
# while the direction of a group that was displaced stands apart by far more than this.
BEYOND_TOL = 1e-2
# What a backward stable solver reaches whatever tolerance was asked for.
ATTAINABLE = 1e-12


@dataclass(frozen=True)
class Embedding:
    """The k leading eigenpairs of  S = D_t^-1/2 (A + tau/n 11') D_t^-1/2,  D_t = diag(d + tau).

    ``vectors`` (N, k), in the precision of the solver, has orthonormal columns and zero rows at the
    points ``set_aside`` (but where fewer than k points are kept, indicators of points set aside
    fill the missing columns);
    ``values`` (k,) descend; ``degrees`` (N,) are d, without self-loops; ``isolated`` (N,) marks
    d = 0; ``set_aside`` (N,) marks the points left out of the eigenproblem (isolated ones and,
    under automatic regularization, those of stray components); ``n_connected`` counts connected
    components, each isolated point being one; ``residual`` is max_j |S v_j - w_j v_j|, of the first
    ``n_clusters`` alone where the tolerance of the others is wider; ``solver`` names the solver
    that gave the result; ``regularization`` is tau as a share of the mean degree
    and ``tau`` its absolute value.
    """

    vectors: np.ndarray
    values: np.ndarray
    degrees: np.ndarray
    isolated: np.ndarray
    set_aside: np.ndarray
    n_connected: int
    residual: float
    solver: str
    regularization: float
    tau: float

    def leading(self, k: int) -> Embedding:
        """The same with its first k eigenpairs."""
        return replace(self, vectors=self.vectors[:, :k], values=self.values[:k])

    def reordered(self, order: np.ndarray) -> Embedding:
        """The same of the points in another order."""
        by_point = ("vectors", "degrees", "isolated", "set_aside")
        return replace(self, **{name: getattr(self, name)[order] for name in by_point})

    def random_walk_vectors(self) -> np.ndarray:
        """D_t^-1/2 V (N, k): right eigenvectors of the random walk D_t^-1 (A + tau/n 11')."""
        root = np.sqrt(self.degrees + self.tau)
        inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)
        return self.vectors * inverse[:, None]


def embed(
    affinity: Affinity | Graph,
    n_components: int,
    *,
    n_clusters: int | None = None,
    solver: str = "auto",
    regularization: float | Literal["auto"] = "auto",
    random_state: Seed = None,
    tol: float | Literal["auto"] = "auto",
    device: str | torch.device | None = None,
    shared: Callable[[NormalizedAffinity], NormalizedAffinity] | None = None,
) -> Embedding:
    """Eigenvectors of D^-1/2 A D^-1/2 for the ``n_components`` largest eigenvalues.

    ``affinity`` (N x N, non-negative, symmetric) is a NumPy array, a torch tensor (dense or
    sparse; the eigenproblem is solved on its device, or on ``device``), a SciPy sparse matrix, or
    a graph that was read from one. Its diagonal is ignored, as in Ng, Jordan and Weiss (2001) and
    in scikit-learn.

    ``solver``: "eigh" (dense), "arpack" (Lanczos), "block" (block Chebyshev-Davidson, in torch),
    "subspace" (Chebyshev-filtered subspace iteration, in torch and float32: sparse affinities, and
    tolerances from 1e-6 on) or "auto": "eigh" for up to 500 points or a quarter of the spectrum,
    else "subspace" for more than 50,000 points, else "arpack" for a connected graph on the CPU,
    else "block"; and where the graph has as many connected components as there are eigenvectors
    asked for, these are written down ("components"). A result whose residual exceeds ``tol`` goes
    to the next solver; if none succeeds the best one is returned with a warning. ``tol="auto"`` is
    1e-8 for up to 50,000 points; beyond, 1e-6 for the first ``n_clusters`` eigenvectors and 1e-2
    for others.

    ``regularization``: a number sets tau as that share of the mean degree (Amini, Chen, Bickel
    and Levina 2013; Joseph and Yu 2016); 0 gives the plain problem. Isolated points (no affinity
    with any other) are left out of the problem and have zero rows. "auto" also leaves out stray
    components, those of fewer than N/(10 n_clusters) points, or N/(5 n_clusters) when there are
    more components than ``n_clusters``, which would otherwise take an eigenvector each; tau is
    then 0 unless more than ``n_clusters`` components are left, and the mean degree if so. Nothing
    but isolated points is left out where strays hold half of the points or more. If exactly
    ``n_clusters`` components have 200 points or more, none of these is a stray. ``n_clusters`` is
    ``n_components`` unless given.

    ``random_state`` fixes the solvers' starting vectors; global random state is never touched.
    ``shared`` replaces the normalized affinity by one whose products several processes compute.
    """
    if solver != "auto" and solver not in SOLVERS:
        raise unknown_name("solver", solver, ["auto", *SOLVERS])
    if regularization != "auto":
        real(0.0).check("regularization", regularization)
    graph = read_affinity(affinity, device)
    check_range(0.0, float(graph.degrees.max()))
    whole(1, graph.n).check("n_components", n_components)
    k = int(n_components)
    tolerances = _tolerances(tol, graph.n, k, n_clusters or k)
    # Drawn before anything else, so that a seed leaves the stream at the same place whatever
    # solver runs: what is drawn next (the assignment's start) does not depend on the solver.
    start = random_from(random_state).uniform(-1.0, 1.0, graph.n)

    isolated = graph.degrees == 0
    component = graph.components
    given = None if regularization == "auto" else float(regularization)
    keep, share, left = _regularize(component, isolated, n_clusters or k, given)
    kept = graph.subgraph(keep)
    tau = share * float(kept.degrees.mean())
    S = kept.normalized(tau)
    if solver == "auto" and left == k and tau == 0:
        values, vectors = components(component[keep], kept.degrees)
        on_device = torch.from_numpy(values).to(S.device), torch.from_numpy(vectors).to(S.device)
        worst, used = float(residuals(S, *on_device).max()), "components"
    else:
        order = _preference(S, k, solver, multiple=left > 1 and tau == 0)
        products = S if shared is None else shared(S)
        values, vectors, worst, used = _solve(products, order, tolerances, start[keep])
    values, vectors = _at_all_points(values, vectors, keep, k)
    return Embedding(
        vectors=vectors,
        values=values,
        degrees=graph.degrees * graph.scale,
        isolated=isolated,
        set_aside=~keep,
        n_connected=int(component.max()) + 1,
        residual=worst,
        solver=used,
        regularization=share,
        tau=tau * graph.scale,
    )


def eigengap(values: np.ndarray, minimum: int = 2) -> list[tuple[int, float]]:
    """Candidates for the number of clusters: (K, w_K - w_{K+1}) with the largest gap first.

    ``values`` are eigenvalues in descending order, as in `Embedding`; K runs from ``minimum`` to
    len(values) - 1. Ties keep the smaller K first.
    """
    w = np.asarray(values, dtype=np.float64).ravel()
    if not np.isfinite(w).all() or (np.diff(w) > 1e-8).any():
        raise InputError("eigengap needs finite eigenvalues in descending order.")
    if len(w) <= max(minimum, 1):
        raise InputError(
            f"eigengap got {len(w)} eigenvalues; at least {max(minimum, 1) + 1} are needed."
        )
    gaps = [(K, float(w[K - 1] - w[K])) for K in range(max(minimum, 1), len(w))]
    return sorted(gaps, key=lambda pair: -pair[1])


def random_from(random_state: Seed) -> np.random.RandomState:
    """A RandomState for any seed; None gives fresh entropy, never NumPy's global state."""
    if random_state is None:
        return np.random.RandomState()
    if isinstance(random_state, np.random.Generator):
        return np.random.RandomState(int(random_state.integers(2**32)))
    try:
        return check_random_state(random_state)
    except ValueError:
        raise InputError(
            f"random_state is {random_state!r}; give None, a non-negative integer, a RandomState "
            "or a Generator."
        ) from None


def _tolerances(tol: float | Literal["auto"], n: int, k: int, n_clusters: int) -> Tensor:
    """The residuals allowed (k,)."""
    allowed = beyond = AUTO_TOL
    if tol != "auto":
        real(0.0, 0.99).check("tol", tol)
        allowed = beyond = max(float(tol), ATTAINABLE)
    elif n > LARGE:
        allowed, beyond = AUTO_TOL_LARGE, BEYOND_TOL
        logger.info("eigenvectors of %d points to a residual of %.0e", n, allowed)
    tolerances = torch.full((k,), beyond, dtype=torch.float64)
    tolerances[:n_clusters] = allowed
    return tolerances


def _regularize(
    component: np.ndarray, isolated: np.ndarray, k: int, share: float | None
) -> tuple[np.ndarray, float, int]:
    """The points to keep (N,), the share of the mean degree, the components kept; see `embed`."""
    keep = ~isolated if share is not None else ~isolated & ~_stray(component, isolated, k)
    left = len(np.unique(component[keep]))
    if share is None:
        share = AUTO_SHARE if left > k else 0.0
    return keep, share, left


def _stray(component: np.ndarray, isolated: np.ndarray, k: int) -> np.ndarray:
    """The points (N,) of components too small to be one of k clusters; see `embed`."""
    size = np.bincount(component)[component]
    crowded = len(np.unique(component[~isolated])) > k
    stray = size * (STRAY_CROWDED if crowded else STRAY) * k < len(component)
    if len(np.unique(component[size >= POPULATION])) == k:
        stray &= size < POPULATION
    left = (~stray & ~isolated).sum()
    if left < k or 2 * left <= (~isolated).sum():
        return np.zeros_like(stray)
    return stray


def _preference(S: NormalizedAffinity, k: int, solver: str, multiple: bool) -> list[str]:
    """Solver names in the order in which to try them; ``multiple``: 1 is a multiple eigenvalue,
    whose copies one Lanczos vector is apt to miss."""
    order = ["block", "eigh", "arpack"]
    if S.device.type == "cpu":
        order = ["arpack", "block", "eigh"]
        if multiple or S.n > LARGE or k >= MANY:
            order = ["block", "arpack", "eigh"]
    if S.n > LARGE:
        order.insert(0, "subspace")
    small = SMALL if S.device.type == "cpu" else SMALL_ON_GPU
    if solver == "auto" and (S.n <= small or (4 * k >= S.n and S.n <= DENSE_LIMIT)):
        solver = "eigh"
    if solver != "auto":
        order = [solver, *(name for name in order if name != solver)]
    return order


def _solve(
    S: NormalizedAffinity, order: list[str], tol: Tensor, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float, str]:
    """Eigenpairs by the first solver that reaches ``tol``, else the best of all, with a warning."""
    k = min(len(tol), S.n)
    tol = tol[:k].to(S.device)
    strictest = tol == tol.min()
    best: tuple[np.ndarray, np.ndarray, float, str] | None = None
    least = np.inf
    for name in order:
        pairs = SOLVERS[name](S, k, tol, start)
        if pairs is None:
            logger.info("the eigensolver %s does not apply or broke down", name)
            continue
        found = residuals(S, *pairs)
        worst, excess = float(found[strictest].max()), float((found / tol).max())
        if best is None or excess < least:
            least = excess
            best = (pairs[0].cpu().numpy(), _signed(pairs[1]).cpu().numpy(), worst, name)
        if excess <= 1.0:
            return best
        logger.info("the eigensolver %s stopped at %.1e times the tolerance", name, excess)
    if best is None:
        raise InputError(
            f"no eigensolver could solve the affinity of {S.n} points with {k} components; "
            "check its scale, or ask for fewer components."
        )
    warnings.warn(
        f"no eigensolver reached tol={float(tol.min()):.1e}; the best, {best[3]}, has residual "
        f"{best[2]:.1e}.",
        RuntimeWarning,
        stacklevel=3,
    )
    return best


def _signed(vectors: Tensor) -> Tensor:
    """Vectors (n, k) with the entry of largest magnitude positive, in place: it repeats."""
    for part in vectors.split(16, dim=1):
        peak = part.gather(0, part.abs().argmax(0, keepdim=True))
        part *= torch.where(peak < 0, -1.0, 1.0)
    return vectors


def _at_all_points(
    values: np.ndarray, vectors: np.ndarray, keep: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Vectors of the kept points as rows among all N.

    Where fewer than k points were kept, the columns missing are indicators of points set aside,
    which are eigenvectors of the whole matrix for the value 0.
    """
    if keep.all() and vectors.shape[1] == k:
        return values, vectors
    full = np.zeros((len(keep), k), vectors.dtype)
    full[keep, : vectors.shape[1]] = vectors
    missing = k - vectors.shape[1]
    if missing:
        full[np.flatnonzero(~keep)[:missing], np.arange(vectors.shape[1], k)] = 1.0
        values = np.concatenate([values, np.zeros(missing)])
        order = np.argsort(-values, kind="stable")
        values, full = values[order], full[:, order]
    return values, full
