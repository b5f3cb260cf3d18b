"""Three refinements of the default that need no labels, measured with labels.

    export DCFSC_DATA=... DCFSC_ELSEWHERE=...
    python benchmarks/explore_refinements.py reassign --json results/experiments/reassign.json
    python benchmarks/explore_refinements.py metric --json results/experiments/metric.json
    python benchmarks/explore_refinements.py settings --json results/experiments/settings.json

``reassign``: after the default's fit every sample goes to the cluster whose ridge subspace, of m
degrees of freedom, leaves it the least residual (its own cluster's without the sample), once or in
five rounds. ``metric``: the scatter of the differences of neighbours in the default's graph is
taken for noise and whitened away; then neighbours by the plain cosine, and by the closed form. With
it, how stable the partitions of random parts are before and by the cosine.
``settings``: m and k are those with the most stable partitions of random parts of the samples.
Its graphs have both signs and a fixed k, as those of parts have; the default's own may differ.
Views: samples as they are (n), and images with their shifts and mirror images (sf).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import bench_defaults
import earlier
import elsewhere
import numpy as np
import scipy.sparse as sp
import torch
from measure import finish, parser
from torch import Tensor

from dcfsc import ClosedFormSubspaceClustering, spectral
from dcfsc.affinity import TopK
from dcfsc.affinity.topk import sparse_symmetric
from dcfsc.errors import InputError
from dcfsc.representations.stability import SHARE
from dcfsc.representations.orbits import ALL, views_of
from dcfsc.estimators.validation import as_float, unit_rows
from dcfsc.metrics import ari, clustering_error
from dcfsc.self_expression import RidgeFactor, add_gram, gram, lam_for_dof
from dcfsc.self_expression.feature_form import unit_length
from dcfsc.self_expression.orbit import OrbitForm, View, orbit_gram

MOST_SAMPLES = 3000  # of a set

Samples = tuple[np.ndarray, np.ndarray]
TUNED = ("orl", "digits", "eyaleb-10", "coil100-20")  # the defaults were chosen on these
ELSEWHERE = (
    *("turntable", "lambertian-alike", "japanesevowels", "movement-libras"),
    *("motion-5", "unions-hard", "arrowhead", "acsf1"),
)
TABLES = (
    *("texture", "satimage", "segment", "letter", "vehicle", "penbased", "leukaemia"),
    *("indian-pines-patches", "motion-3", "glyphs", "fashion-4"),
)
REASSIGNED = (*TUNED, "turntable", "japanesevowels", "motion-5", "unions-hard")

CLUSTER_DIMENSIONS, ROUNDS = (3, 8), (1, 5)
SHRINKAGE = 1.0  # of the scatter towards a multiple of the identity
DIMENSIONS, NEIGHBOURS = (1.0, 1.5, 2.0, 3.0, 4.0), (4, 6, 8, 12)
PARTS, PARTS_SEED = 5, 1


def sets() -> dict[str, Callable[[], Samples]]:
    tuned = {name: bench_defaults.PROBLEMS[name] for name in TUNED}
    return tuned | {name: elsewhere.PROBLEMS[name].load for name in (*ELSEWHERE, *TABLES)}


def features(X: np.ndarray) -> Tensor:
    """Samples as rows of unit length, (N, d)."""
    return unit_rows(as_float(X, torch.device("cpu")).reshape(len(X), -1))


def ways(X: np.ndarray) -> dict[str, list[View]]:
    """How the samples are seen: as they are and, where they are images, with changes."""
    names = {"n": "none", "sf": ALL} if X.ndim > 2 else {"n": "none"}
    return {key: views_of(name, features(X), X.shape[1:]) for key, name in names.items()}


def squares_of(G: Tensor) -> Tensor:
    return torch.linalg.eigvalsh(G).clamp_min(0.0)


def residuals(Z: Tensor, labels: Tensor, K: int, m: float) -> Tensor:
    """|z_i - Z_c' b|^2 for the ridge code b of sample i over the samples Z_c of cluster c, (N, K).

    With Z_c = U s V', the ridge's lam set to m degrees of freedom, and f = s^2 / (s^2 + lam):

        |z|^2 - sum_k (2 f_k - f_k^2) (V'z)_k^2,

    and for a cluster's own samples, by their leverages h, that over (1 - h)^2: the residual that
    is left when the sample itself is left out.
    """
    lengths = Z.square().sum(1)
    found = lengths[:, None].repeat(1, K)  # what a cluster without samples leaves
    for c in range(K):
        members = torch.nonzero(labels == c)[:, 0]
        if len(members) == 0:
            continue
        _, s, Vh = torch.linalg.svd(Z[members], full_matrices=False)
        squares = s.square()
        rank = int((squares > 1e-9 * squares[0]).sum())
        # Nothing is regularised in a cluster of hardly more samples than degrees of freedom.
        lam = lam_for_dof(squares, min(m, 0.9 * rank))
        P = (Z @ Vh.mT).square()
        f = squares / (squares + lam)
        found[:, c] -= P @ (2.0 * f - f.square())
        leverage = P[members] @ (1.0 / (squares + lam))
        found[members, c] /= (1.0 - leverage).clamp_min(1e-3).square()
    return found


def reassign(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    K = int(y.max()) + 1
    model = ClosedFormSubspaceClustering(K, device="cpu", random_state=0).fit(X)
    record: dict[str, Any] = {
        "transformations": model.transformations_,
        "before": clustering_error(y, model.labels_),
    }
    Z = features(X).to(torch.float64)
    for m in CLUSTER_DIMENSIONS:
        labels = torch.from_numpy(model.labels_).to(torch.int64)
        after = []
        for _ in range(max(ROUNDS)):
            labels = residuals(Z, labels, K, m).argmin(1)
            after.append(clustering_error(y, labels.numpy()))
        record[f"m={m}"] = {str(rounds): after[rounds - 1] for rounds in ROUNDS}
    return record


@dataclass(frozen=True)
class BestCosines:
    """For samples i and j the cosine of i and that view a of j for which it is the largest.

    ``cosine`` (N, N) is signed, with a diagonal of zeros; ``view`` (N, N) has the a.
    """

    cosine: Tensor
    view: Tensor

    @classmethod
    def of(cls, rows: list[Tensor]) -> BestCosines:
        Y = [unit_length(r) for r in rows]
        cosine = Y[0] @ Y[0].mT
        view = torch.zeros(cosine.shape, dtype=torch.int64)
        for a in range(1, len(Y)):
            changed = Y[0] @ Y[a].mT
            better = changed.abs() > cosine.abs()
            cosine = torch.where(better, changed, cosine)
            view[better] = a
        return cls(cosine.fill_diagonal_(0.0), view)

    @property
    def n(self) -> int:
        return len(self.cosine)

    def topk_cosine(self, k: int) -> tuple[Tensor, Tensor]:
        columns = self.cosine.abs().topk(k, dim=1).indices
        return self.cosine.gather(1, columns), columns

    def graph(self, K: int, n_views: int) -> sp.csr_array:
        """The default's graph, which heeds signs only for samples as they are."""
        topk = TopK(signs="auto" if n_views == 1 else "both")
        return topk(self, K)  # type: ignore[arg-type]  # it asks for cosines alone


def whitened(rows: list[Tensor], G: Tensor, lam: float) -> list[Tensor]:
    """(G + lam I)^-1/2 z of all rows, up to a rotation; G is overwritten."""
    factor = RidgeFactor(G, lam)
    return [factor.whiten(r).to(r.dtype) for r in rows]


def closed_form(rows: list[Tensor], dof: float) -> BestCosines:
    G = gram(rows[0])
    for r in rows[1:]:
        add_gram(G, r)
    return BestCosines.of(whitened(rows, G, lam_for_dof(squares_of(G), dof)))


def scatter(rows: list[Tensor], found: BestCosines, A: sp.csr_array) -> Tensor:
    """S = sum_ij A_ij e e' / sum_ij A_ij with e = z_i - sign(cosine_ij) z_ja, (d, d) float64."""
    edges = A.tocoo()
    i, j = (torch.from_numpy(index.astype(np.int64)) for index in edges.coords)
    weights = torch.from_numpy(edges.data)
    changed = torch.stack(rows)[found.view[i, j], j]
    e = (rows[0][i] - found.cosine[i, j].sign()[:, None] * changed).to(torch.float64)
    return e.mT @ (weights[:, None] * e) / weights.sum()


def metric(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    K = int(y.max()) + 1

    def error(A: sp.csr_array) -> float:
        return clustering_error(y, spectral.cluster(A, K, random_state=0).labels)

    record: dict[str, Any] = {}
    for key, views in ways(X).items():
        rows = [view() for view in views]
        dof = earlier.subspace_dim(views) * K
        before = closed_form(rows, dof)
        A = before.graph(K, len(views))
        S = scatter(rows, before, A)
        less_noise = whitened(rows, S, SHRINKAGE * float(S.trace()) / len(S))
        rows = [unit_length(r) for r in less_noise]
        after = BestCosines.of(rows)
        record[key] = {
            "before": error(A),
            "cosine": error(after.graph(K, len(views))),
            "closed form": error(closed_form(rows, dof).graph(K, len(views))),
            "stability before": stability_of(before, K),
            "stability cosine": stability_of(after, K),
        }
    return record


def random_parts(n: int) -> list[np.ndarray]:
    random = np.random.RandomState(PARTS_SEED)
    return [np.sort(random.permutation(n)[: int(SHARE * n)]) for _ in range(PARTS)]


def stability_of(found: BestCosines, K: int) -> float:
    values, columns = found.topk_cosine(min(earlier.SPARE * TopK.k, found.n - 1))
    weights = values.to(torch.float64).abs().clamp_max(1.0).numpy() ** TopK.power
    return stability(weights, columns.numpy(), random_parts(found.n), TopK.k, K)


def stability(
    weights: np.ndarray, columns: np.ndarray, parts: list[np.ndarray], k: int, K: int
) -> float:
    """The mean adjusted Rand index between partitions of the parts, where they overlap."""
    partitions = []
    for part in parts:
        A = earlier.graph_of_part(weights, columns, part, k)
        labels = np.full(len(columns), -1)
        labels[part] = spectral.cluster(A, K, random_state=0).labels
        partitions.append(labels)
    agreements = []
    for a, b in combinations(partitions, 2):
        both = (a >= 0) & (b >= 0)
        agreements.append(ari(a[both], b[both]))
    return statistics.fmean(agreements)


def judge(views: list[View], y: np.ndarray) -> dict[str, Any]:
    """Errors and stabilities (m, k), and what choosing by stability comes to."""
    n, K = len(y), int(y.max()) + 1
    G = orbit_gram(views)
    squares = squares_of(G)
    parts = random_parts(n)
    errors, stable = np.empty((2, len(DIMENSIONS), len(NEIGHBOURS)))
    for a, m in enumerate(DIMENSIONS):
        operator = OrbitForm(views, lam_for_dof(squares, m * K), G.clone())
        values, indices = operator.topk_cosine(earlier.SPARE * max(NEIGHBOURS))
        weights = values.to(torch.float64).abs().clamp_max(1.0) ** TopK.power
        for b, k in enumerate(NEIGHBOURS):
            A = sparse_symmetric(weights[:, :k], indices[:, :k], n)
            errors[a, b] = clustering_error(y, spectral.cluster(A, K, random_state=0).labels)
            stable[a, b] = stability(weights.numpy(), indices.numpy(), parts, k, K)
    chosen = np.unravel_index(int(stable.argmax()), stable.shape)
    default = DIMENSIONS.index(earlier.subspace_dim(views)), NEIGHBOURS.index(TopK.k)
    return {
        "most stable": {
            "m": DIMENSIONS[chosen[0]],
            "k": NEIGHBOURS[chosen[1]],
            "stability": stable[chosen],
            "error": errors[chosen],
        },
        "default": {"stability": stable[default], "error": errors[default]},
        "least": errors.min(),
        "median": float(np.median(errors)),
        "correlation": float(np.corrcoef(errors.ravel(), stable.ravel())[0, 1]),
        "errors": errors.round(4).tolist(),
        "stabilities": stable.round(4).tolist(),
    }


def settings(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    return {key: judge(views, y) for key, views in ways(X).items()}


EXPERIMENTS: dict[str, tuple[Callable[[np.ndarray, np.ndarray], dict[str, Any]], str]] = {
    "reassign": (reassign, "samples given to the nearest ridge subspace"),
    "metric": (metric, "a metric from the differences of neighbours"),
    "settings": (settings, "degrees of freedom and neighbours by stability"),
}


def main() -> None:
    options = parser(__doc__)
    options.add_argument("what", choices=tuple(EXPERIMENTS))
    options.add_argument("--only", help="some of the sets, separated by semicolons")
    args = options.parse_args()
    measure, title = EXPERIMENTS[args.what]
    names = REASSIGNED if args.what == "reassign" else (*TUNED, *ELSEWHERE)
    names = (*names, *TABLES) if args.what == "metric" else names
    figures: dict[str, Any] = {}
    for name in names:
        if args.only and name not in args.only.split(";"):
            continue
        try:
            X, y = elsewhere.part(*sets()[name](), MOST_SAMPLES)
        except InputError as error:
            print(f"{name} is left out: {error}")
            continue
        figures[name] = {"N": len(X), "K": int(y.max()) + 1, **measure(X, y)}
        finish(args, title, figures)


if __name__ == "__main__":
    main()
