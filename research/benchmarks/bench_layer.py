"""The self-expressive layer, forward and backward: ours against the paper's listing.

    python -m research.benchmarks.bench_layer --json results/benchmarks/layer_cpu.json

The peer is what the paper prints: the explicit N x N inverse in the precision of the data. At
N = 20,000 it needs three N x N matrices (4.8 GB) and minutes, so it runs once.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from dcfsc.self_expression import solve
from research.experiments.step_memory import compute_b, compute_p

from .measure import finish, interleaved, parser


def listing(Z: Tensor, g: Tensor, lam: float) -> tuple[Tensor, Tensor]:
    """B as the paper prints it, then B Z and B' g."""
    B = compute_b(compute_p(Z, lam))
    return B @ Z, B.T @ g


def ours(Z: Tensor, g: Tensor, lam: float) -> tuple[Tensor, Tensor]:
    operator = solve(Z, lam)
    return operator.matmul(Z), operator.rmatmul(g)


def case(n: int, d: int, device: str, repeats: int) -> dict[str, object]:
    generator = torch.Generator().manual_seed(0)
    Z = torch.rand(n, d, generator=generator).to(device)
    g = torch.randn(n, d, generator=generator).to(device)
    lam = 1e-3 * float(Z.square().sum(1).mean())
    ways = {"listing": partial(listing, Z, g, lam), "ours": partial(ours, Z, g, lam)}
    once = n > 10_000 and device == "cpu"
    times = interleaved(ways, repeats=1 if once else repeats, warmup=0 if once else 1)
    if n > 10_000:
        del ways["listing"]
    exact, size = solve(Z.double(), lam).matmul(Z.double()), Z.double().norm()
    error = {name: float((run()[0] - exact).norm() / size) for name, run in ways.items()}
    return {
        "N": n,
        "d": d,
        "seconds": times,
        "speedup": times["listing"]["median"] / times["ours"]["median"],
        "forward_error_against_float64": error,
    }


def main() -> None:
    args = parser(__doc__, device="cpu").parse_args()
    sizes = [(400, 80), (2432, 1080), (7168, 4608), (20_000, 500)]
    if args.device == "cpu":
        sizes.remove((7168, 4608))
    finish(args, "layer", [case(n, d, args.device, args.repeats) for n, d in sizes])


if __name__ == "__main__":
    main()
