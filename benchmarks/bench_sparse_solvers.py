"""Sparse self-expression: speed against a peer in the same run, and peak memory against N.

    python benchmarks/bench_sparse_solvers.py [--only omp ssc memory] [--json FILE]

omp     SSC-OMP on 10,000 x 500 against a loop of scikit-learn's ``orthogonal_mp``, one call per
        sample over the others. The loop is timed on a random subset of samples and scaled; the
        supports are compared on the same samples.
ssc     The outlier program on Extended Yale B (the images themselves if ``$DCFSC_DATA`` is set,
        else random data of the same 2,432 x 2,016), against ADMM as it is usually written: a dense
        inverse of order N + d and every multiplier explicit, timed for a few steps and scaled to as
        many as ours took.
memory  Peak resident memory of each solver, each in a process of its own, against the estimate of
        its ``*_memory`` function.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import finish, in_a_process, interleaved, parser

from dcfsc.self_expression.kernel import (
    kernel_matrix,
    kernel_sparse_self_expression,
    kernel_sparse_self_expression_memory,
)
from dcfsc.self_expression.matching_pursuit import (
    orthogonal_matching_pursuit,
    orthogonal_matching_pursuit_memory,
)
from dcfsc.self_expression.sparse import sparse_self_expression, sparse_self_expression_memory


def noisy_subspaces(n: int, d: int, k: int = 10, dim: int = 5, noise: float = 0.1) -> torch.Tensor:
    """n unit samples near k random subspaces of dimension ``dim`` in d dimensions, float32."""
    rng = np.random.default_rng(0)
    bases = rng.standard_normal((k, dim, d)) / np.sqrt(d)
    labels = np.arange(n) % k
    Z = np.einsum("ni,nid->nd", rng.standard_normal((n, dim)), bases[labels], optimize=True)
    Z += noise * np.sqrt(dim / d) * rng.standard_normal((n, d))
    return torch.nn.functional.normalize(torch.from_numpy(Z), dim=1).float()


def seconds(run: Callable[[], object]) -> tuple[float, object]:
    start = time.perf_counter()
    value = run()
    return time.perf_counter() - start, value


def bench_omp(n: int, d: int, k: int, repeats: int, loop_samples: int) -> dict:
    from sklearn.linear_model import orthogonal_mp

    Z = noisy_subspaces(n, d)
    X = Z.numpy()
    times = interleaved(
        {
            "gram": lambda: orthogonal_matching_pursuit(Z, k, gram=True),
            "residual_scan": lambda: orthogonal_matching_pursuit(Z, k, gram=False),
        },
        repeats=repeats,
    )
    row: dict = {"N": n, "d": d, "k": k, "seconds": times}
    code = orthogonal_matching_pursuit(Z, k).coefficients
    chosen = np.random.default_rng(1).permutation(n)[:loop_samples]
    supports = []

    def loop() -> None:
        for i in chosen:
            others = np.delete(np.arange(n), i)
            c = orthogonal_mp(X[others].T, X[i], n_nonzero_coefs=k)
            supports.append(set(others[np.flatnonzero(c)].tolist()))

    took, _ = seconds(loop)
    row["loop_samples"] = len(chosen)
    row["loop_s"] = took * n / len(chosen)
    row["loop_scaled_from_subset"] = len(chosen) < n
    ours = [set(code[i].indices.tolist()) for i in chosen]
    row["same_supports"] = float(np.mean([a == b for a, b in zip(ours, supports, strict=True)]))
    row["speedup"] = {name: row["loop_s"] / times[name]["median"] for name in times}
    return row


def faces() -> tuple[torch.Tensor, str]:
    """Extended Yale B as (2432, 2016) float32, or random data of that shape."""
    path = Path(os.environ.get("DCFSC_DATA", "")) / "eyaleb_48x42.npz"
    if "DCFSC_DATA" in os.environ and path.exists():
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

    return seconds(run)[0] / steps


def bench_ssc(max_iter: int, peer_steps: int) -> dict:
    Z, name = faces()
    row: dict = {"data": name, "N": Z.shape[0], "d": Z.shape[1], "max_iter": max_iter}
    took, code = seconds(lambda: sparse_self_expression(Z, 20.0, max_iter=max_iter))
    row |= {"total_s": took, "n_iter": code.n_iter, "residual": code.residual}  # type: ignore[attr-defined]
    row["density"] = float((code.coefficients != 0).double().mean())  # type: ignore[attr-defined]
    row["seconds_per_step"] = took / row["n_iter"]
    row["textbook_steps"] = peer_steps
    row["textbook_seconds_per_step"] = textbook_admm(Z, 20.0, peer_steps)
    row["speedup_per_step"] = row["textbook_seconds_per_step"] / row["seconds_per_step"]
    return row


SSC = (sparse_self_expression, sparse_self_expression_memory)
OMP = (orthogonal_matching_pursuit, orthogonal_matching_pursuit_memory)
KERNEL_SSC = (
    kernel_sparse_self_expression,
    lambda n, d, dtype: kernel_sparse_self_expression_memory(n, dtype),
)
# Each solver, the estimate of its memory, and the options of both.
SOLVERS: dict[str, tuple[tuple[Callable[..., Any], Callable[..., int]], dict[str, Any]]] = {
    "ssc-outliers": (SSC, {}),
    "ssc-lasso": (SSC, {"outliers": False}),
    "ssc-lasso-blocks": (SSC, {"outliers": False, "block_rows": 250, "layout": "csr"}),
    "kssc": (KERNEL_SSC, {}),
    "omp-gram": (OMP, {"gram": True}),
    "omp-scan": (OMP, {"gram": False}),
}


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def measure(solver: str, n: int, d: int) -> int:
    """Peak bytes above what is resident before the solver starts; for a process of its own."""
    (solve, _), options = SOLVERS[solver]
    steps = {} if solver.startswith("omp") else {"max_iter": 15}
    run = partial(solve, **options, **steps)
    Z = noisy_subspaces(n, d)
    argument = kernel_matrix(Z, "rbf") if solver == "kssc" else Z
    run(argument[:50, :50] if solver == "kssc" else Z[:50])  # libraries load before the count
    before = resident_bytes()
    Path("/proc/self/clear_refs").write_text("5")  # resets the high-water mark
    run(argument)
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    return peak - before


def bench_memory(sizes: list[int], d: int) -> list[dict]:
    rows = []
    for solver, ((_, estimate), options) in SOLVERS.items():
        for n in sizes:
            row: dict[str, Any] = {"solver": solver, "N": n, "d": d}
            row["estimate_mib"] = estimate(n, d, torch.float32, **options) / 2**20
            row |= in_a_process(__file__, ["--measure", solver, str(n), str(d)])
            if "peak_mib" in row:
                row["estimate_over_peak"] = row["estimate_mib"] / row["peak_mib"]
            rows.append(row)
    return rows


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--only", nargs="+", choices=["omp", "ssc", "memory"])
    options.add_argument("--n", type=int, default=10_000, help="samples for omp")
    options.add_argument("--loop-samples", type=int, default=50)
    options.add_argument("--max-iter", type=int, default=150, help="steps of ssc")
    options.add_argument("--textbook-steps", type=int, default=2)
    options.add_argument("--sizes", type=int, nargs="+", default=[1000, 2000, 4000])
    options.add_argument("--dimension", type=int, default=200, help="features for memory")
    options.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    args = options.parse_args()
    if args.measure:
        solver, n, d = args.measure
        print(json.dumps({"peak_mib": measure(solver, int(n), int(d)) / 2**20}))
        return
    # A load above the number of threads in use: other work shares the machine.
    figures: dict = {"load_before": os.getloadavg()[0]}
    runs = {
        "omp": lambda: bench_omp(args.n, 500, 5, args.repeats, args.loop_samples),
        "ssc": lambda: bench_ssc(args.max_iter, args.textbook_steps),
        "memory": lambda: bench_memory(args.sizes, args.dimension),
    }
    figures |= {part: run() for part, run in runs.items() if part in (args.only or runs)}
    figures["load_after"] = os.getloadavg()[0]
    finish(args, "sparse_solvers", figures)


if __name__ == "__main__":
    main()
