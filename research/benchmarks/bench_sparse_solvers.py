"""Sparse self-expression: speed against a peer in the same run.

    python -m research.benchmarks.bench_sparse_solvers [--only omp ssc] [--json FILE]

omp     SSC-OMP on 10,000 x 500 against a loop of scikit-learn's ``orthogonal_mp``, one call per
        sample over the others. The loop is timed on a random subset of samples and scaled; the
        supports are compared on the same samples.
ssc     The outlier program on Extended Yale B (the images themselves if ``$DCFSC_DATA`` is set,
        else random data of the same 2,432 x 2,016), against ADMM as it is usually written: a dense
        inverse of order N + d and every multiplier explicit, timed for a few steps.

bench_memory.py compares their memory with the estimates.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dcfsc.self_expression import orthogonal_matching_pursuit, sparse_self_expression

from .measure import finish, interleaved, parser, timed


def noisy_subspaces(n: int, d: int, k: int = 10, dim: int = 5, noise: float = 0.1) -> torch.Tensor:
    """n unit samples near k random subspaces of dimension ``dim`` in d dimensions, float32."""
    rng = np.random.default_rng(0)
    bases = rng.standard_normal((k, dim, d)) / np.sqrt(d)
    labels = np.arange(n) % k
    Z = np.einsum("ni,nid->nd", rng.standard_normal((n, dim)), bases[labels], optimize=True)
    Z += noise * np.sqrt(dim / d) * rng.standard_normal((n, d))
    return torch.nn.functional.normalize(torch.from_numpy(Z), dim=1).float()


def bench_omp(n: int, d: int, k: int, repeats: int, loop_samples: int) -> dict:
    from sklearn.linear_model import orthogonal_mp

    Z = noisy_subspaces(n, d)
    X = Z.numpy()
    ways = {"gram": True, "residual_scan": False}
    runs = {name: partial(orthogonal_matching_pursuit, Z, k, gram=g) for name, g in ways.items()}
    times = interleaved(runs, repeats)
    code: Any = orthogonal_matching_pursuit(Z, k).coefficients
    chosen = np.random.default_rng(1).permutation(n)[:loop_samples]
    supports = []

    def loop() -> None:
        for i in chosen:
            others = np.delete(np.arange(n), i)
            c = orthogonal_mp(X[others].T, X[i], n_nonzero_coefs=k)
            supports.append(set(others[np.flatnonzero(c)].tolist()))

    took = timed(loop)[0] * n / len(chosen)
    ours = [set(code[i].indices.tolist()) for i in chosen]
    return {
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


def faces() -> tuple[torch.Tensor, str]:
    """Extended Yale B as (2432, 2016) float32, or random data of that shape."""
    path = Path(os.environ.get("DCFSC_DATA", os.devnull)) / "eyaleb_48x42.npz"
    if path.exists():
        images = np.load(path)["images"]
        return torch.from_numpy(images.reshape(len(images), -1)).float(), "Extended Yale B"
    return 100 * noisy_subspaces(2432, 2016, 38, 9), "random, Extended Yale B's shape"


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


def bench_ssc(max_iter: int, peer_steps: int) -> dict:
    Z, name = faces()
    row: dict = {"data": name, "N": Z.shape[0], "d": Z.shape[1], "max_iter": max_iter}
    took, code = timed(lambda: sparse_self_expression(Z, 20.0, max_iter=max_iter))
    row |= {"total_s": took, "n_iter": code.n_iter, "residual": code.residual}
    row["density"] = float((code.coefficients != 0).double().mean())
    row["seconds_per_step"] = took / row["n_iter"]
    row["textbook_steps"] = peer_steps
    row["textbook_seconds_per_step"] = textbook_admm(Z, 20.0, peer_steps)
    row["speedup_per_step"] = row["textbook_seconds_per_step"] / row["seconds_per_step"]
    return row


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", choices=["omp", "ssc"])
    options.add_argument("--n", type=int, default=10_000, help="samples for omp")
    options.add_argument("--max-iter", type=int, default=150, help="steps of ssc")
    args = options.parse_args()
    # A load above the number of threads in use: other work shares the machine.
    figures: dict = {"load_before": os.getloadavg()[0]}
    runs = {
        "omp": lambda: bench_omp(args.n, 500, 5, args.repeats, loop_samples=50),
        "ssc": lambda: bench_ssc(args.max_iter, peer_steps=2),
    }
    figures |= {part: run() for part, run in runs.items() if part in (args.only or runs)}
    figures["load_after"] = os.getloadavg()[0]
    finish(args, "sparse_solvers", figures)


if __name__ == "__main__":
    main()
