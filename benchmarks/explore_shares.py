"""How large and how many the parts are whose partitions are compared, measured with labels.

    export DCFSC_ELSEWHERE=...
    python benchmarks/explore_shares.py --json results/experiments/shares.json

The most stable way to see the samples is taken (dcfsc.representations.stability): here with six parts of
a half to nine tenths of them, and with 12 and 24 parts of four fifths, on the problems of
elsewhere.py, at most 1,500 samples of each. The ways are the default's: as they are, in the metric
of neighbours after two rounds, and pictures by their scattering coefficients. "summary": the mean
error over families of what is chosen, of the best way each time, and how often these are the same.
``--shard I/N`` takes every N-th problem, ``--merge`` puts files together; ``--only`` also takes the
sets of bench_defaults.py, which the summary leaves out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from earlier import agreement
from elsewhere import family
from over_problems import default_ways, run

from dcfsc import spectral
from dcfsc.representations.stability import ASSIGN, TOPK, enough_samples
from dcfsc.metrics import clustering_error

# share of the samples, number of parts
RULES = {"0.5": (0.5, 6), "0.65": (0.65, 6), "0.8": (0.8, 6), "0.9": (0.9, 6)} | {
    "0.8 x 12": (0.8, 12),
    "0.8 x 24": (0.8, 24),
}


def measure(X: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    K = int(y.max()) + 1
    found = {}
    for name, operator in default_ways(X, K):
        labels = spectral.cluster(TOPK(operator, K), K, assign=ASSIGN, random_state=0).labels
        found[name] = {"error": clustering_error(y, labels)}
        if enough_samples(len(X), K):
            for rule, (share, parts) in RULES.items():
                found[name][rule] = agreement(operator, K, share=share, parts=parts)
    return found


def summary(figures: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for share in (*RULES, "best"):
        families: dict[str, list[tuple[float, bool]]] = {}
        for name, record in figures.items():
            candidates = list(record.values())
            least = min(way["error"] for way in candidates)
            if share != "best" and all(share in way for way in candidates):
                error = max(candidates, key=lambda way: way[share])["error"]
            else:
                error = least if share == "best" else record["none"]["error"]
            families.setdefault(family(name), []).append((error, error == least))
        means = [np.mean(rows, axis=0) for rows in families.values()]
        right = sum(r for rows in families.values() for _, r in rows)
        found[share] = {"error": float(np.mean(means, axis=0)[0]), "right": int(right)}
    return found


if __name__ == "__main__":
    run("shares", __doc__, measure, summary)
