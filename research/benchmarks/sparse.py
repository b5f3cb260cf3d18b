"""Sparse self-expression: speed against a peer in the same run."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import orthogonal_mp
from sklearn.preprocessing import normalize

from dcfsc.io import synthetic
from dcfsc.self_expression import orthogonal_matching_pursuit, sparse_self_expression
from research.data import load

from .measure import Figures, benchmark, interleaved, timed

LOOP_SAMPLES = 50
ALPHA = 20.0


@benchmark
def omp(n: int = 10_000, d: int = 500, k: int = 5, repeats: int = 5) -> Figures:
    """SSC-OMP against a loop of scikit-learn's ``orthogonal_mp``, one call per sample.

    The loop is timed on a random subset of samples and scaled; the supports are compared on the
    same samples.
    """
    X = normalize(synthetic(n, 10, 5, d, noise=0.1, random_state=0).X).astype(np.float32)
    Z = torch.from_numpy(X)
    ways = {"gram": True, "residual_scan": False}
    runs = {name: partial(orthogonal_matching_pursuit, Z, k, gram=g) for name, g in ways.items()}
    times = interleaved(runs, repeats)
    code: Any = orthogonal_matching_pursuit(Z, k).coefficients
    chosen = np.random.default_rng(1).permutation(n)[:LOOP_SAMPLES]
    supports = []

    def loop() -> None:
        for i in chosen:
            others = np.delete(np.arange(n), i)
            c = orthogonal_mp(X[others].T, X[i], n_nonzero_coefs=k)
            supports.append(set(others[np.flatnonzero(c)].tolist()))

    took = timed(loop)[0] * n / len(chosen)
    ours = [set(code[[i]].indices.tolist()) for i in chosen]
    figures = {
        "N": n,
        "d": d,
        "k": k,
        "seconds": times,
        "loop_samples": len(chosen),
        "loop_s": took,
        "loop_scaled_from_subset": len(chosen) < n,
        "same_supports": float(np.mean([a == b for a, b in zip(ours, supports, strict=True)])),
        "speedup": {name: took / times[name]["median"] for name in times},
    }
    return {"omp": figures}


@benchmark
def ssc(max_iter: int = 150, peer_steps: int = 2) -> Figures:
    """SSC's outlier program on Extended Yale B, against ADMM as it is usually written.

    The peer has a dense inverse of order N + d and every multiplier explicit, timed for a few
    steps.
    """
    images = load("eyaleb").X
    Z = torch.from_numpy(images.reshape(len(images), -1)).float()
    row: Figures = {
        "data": "Extended Yale B",
        "N": Z.shape[0],
        "d": Z.shape[1],
        "max_iter": max_iter,
    }
    took, code = timed(lambda: sparse_self_expression(Z, ALPHA, max_iter=max_iter))
    row |= {"total_s": took, "n_iter": code.n_iter, "residual": code.residual}
    row["density"] = float((code.coefficients != 0).double().mean())
    row["seconds_per_step"] = took / row["n_iter"]
    row["textbook_steps"] = peer_steps
    row["textbook_seconds_per_step"] = textbook_admm(Z, ALPHA, peer_steps)
    row["speedup_per_step"] = row["textbook_seconds_per_step"] / row["seconds_per_step"]
    return {"ssc": row}


def textbook_admm(Z: torch.Tensor, alpha: float, steps: int) -> float:
    """Seconds per step of the outlier program's ADMM with a dense inverse (not counted)."""
    n, d = Z.shape
    gamma = alpha / float(Z.abs().sum(1).max())
    Q = torch.cat([Z, torch.eye(d) / gamma])
    weight = alpha / float(Z.square().sum(1).median())
    inverse = torch.linalg.inv(weight * (Q @ Q.T) + alpha * torch.eye(n + d))
    C, U, Y = Q.new_zeros(n, n + d), Q.new_zeros(n, n + d), torch.zeros_like(Z)

    def run() -> None:
        nonlocal C, U, Y
        for _ in range(steps):
            A = ((weight * Z + Y) @ Q.T + alpha * C - U) @ inverse
            A[:, :n].fill_diagonal_(0)
            S = A + U / alpha
            C = S.sign() * (S.abs() - 1 / alpha).clamp(min=0)
            C[:, :n].fill_diagonal_(0)
            Y = Y + weight * (Z - A @ Q)
            U = U + alpha * (A - C)
            (A - C).abs().max()

    return timed(run)[0] / steps
