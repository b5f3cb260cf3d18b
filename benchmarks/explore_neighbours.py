"""How many neighbours the default's graph has, measured with labels once more.

    export DCFSC_ELSEWHERE=...
    python benchmarks/explore_neighbours.py --json results/experiments/neighbours_anew.json

k was chosen (choose_defaults.py) when ways to see the samples were judged in another manner. Here,
on the five variants of every problem from elsewhere that explore_judges.py makes, the error of the
most stable way, each part of the samples having its own metric and neighbours, for several k.
"errors" are of three seeds. "summary": the mean error over families for each k, and by how much it
differs from the default's, with the standard error over families.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
from elsewhere import family
from explore_judges import SEEDS, VARIANTS, variant
from over_problems import run
from torch import Tensor

from dcfsc import metrics, spectral
from dcfsc.affinity import TopK
from dcfsc.representations.neighbour_metric import MOST_FEATURES, metric_rounds, plain_ridge
from dcfsc.representations.scattering import Pictures, both_in_metric, mirror_form
from dcfsc.estimators.regularisation import lam_for
from dcfsc.representations.stability import ASSIGN, enough_samples, stabilities
from dcfsc.estimators.validation import as_float, unit_rows
from dcfsc.self_expression import solve

NEIGHBOURS = (6, 8)


def ways(Z: Tensor, F: Tensor | None, K: int, affinity: TopK) -> Iterator[tuple[str, Any]]:
    """The ways to see rows Z (n, d), pictures with the coefficients F (n, 2, k)."""
    first = solve(Z, lam_for(Z, K, None))
    yield "none", first
    if Z.shape[1] <= MOST_FEATURES:
        yield "metric", next(islice(metric_rounds(Z, K, first, affinity), 1, None))[1]
    if F is not None:
        T = next(metric_rounds(F[:, 0].contiguous(), K, affinity=affinity))[0]
        yield "scattering", mirror_form(both_in_metric(F, T), plain_ridge(len(F)))


def judged(X: np.ndarray, y: np.ndarray, k: int) -> dict[str, Any]:
    K, n, affinity = int(y.max()) + 1, len(X), TopK(k)
    Z = unit_rows(as_float(X, torch.device("cpu")).reshape(n, -1))
    F = Pictures.of(Z, X.shape[1:], K).coefficients(Z) if X.ndim > 2 else None
    found: dict[str, Any] = {}
    for name, operator in ways(Z, F, K, affinity):
        A = affinity(operator, K)
        embedding = spectral.embed(A, min(2 * K, n), n_clusters=K, random_state=0)
        partitions = [
            spectral.assign(embedding, K, method=ASSIGN, random_state=seed) for seed in SEEDS
        ]
        found[name] = {"errors": [metrics.clustering_error(y, labels) for labels in partitions]}
    if not enough_samples(n, K):
        return found

    def of_part(rows: Tensor) -> Iterator[tuple[str, Any]]:
        return ways(Z[rows], None if F is None else F[rows], K, affinity)

    for name, score in stabilities(torch.arange(n), K, of_part, affinity).items():
        found[name]["stability"] = score
    return found


def measure(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    return {
        str(seed): {str(k): judged(*variant(X, y, seed), k) for k in NEIGHBOURS}
        for seed in range(VARIANTS)
    }


def summary(figures: dict[str, Any]) -> dict[str, Any]:
    families: dict[str, list[list[float]]] = {}
    for name, variants in figures.items():
        for by_k in variants.values():
            row = []
            for k in map(str, NEIGHBOURS):
                record = by_k[k]
                known = all("stability" in way for way in record.values())
                best = max(record, key=lambda w: record[w]["stability"]) if known else "none"
                row.append(float(np.mean(record[best]["errors"])))
            families.setdefault(family(name), []).append(row)
    means = np.array([np.mean(rows, axis=0) for rows in families.values()])
    apart = means - means[:, [NEIGHBOURS.index(TopK.k)]]
    spread = apart.std(axis=0, ddof=1) / len(apart) ** 0.5 if len(apart) > 1 else 0.0 * apart[0]
    return {
        str(k): {
            "error": float(means[:, i].mean()),
            "difference": float(apart[:, i].mean()),
            "standard error": float(spread[i]),
        }
        for i, k in enumerate(NEIGHBOURS)
    }


if __name__ == "__main__":
    run("neighbours", __doc__, measure, summary)
