"""A whole training step of DCFSC on a CPU: ours against the straightforward implementation.

    python benchmarks/bench_step.py --json results/benchmarks/step_cpu.json

Encode, solve, express, decode, backward, Adam. The peer is written as the paper prints it:
nn.Conv2d and nn.ConvTranspose2d with explicit SAME padding, the N x N inverse in float32; it runs
with PyTorch's default back end and without oneDNN, which is faster for some sizes, and the ratio
is taken to the faster of the two. All start from the same weights, and the losses must agree to
1e-5. Inputs are random images in pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import torch
from bench_convolutions import Plain, compared
from measure import finish, parser
from torch import Tensor

from dcfsc.networks import preset, preset_spec
from dcfsc.training import Absolute, forward, reconstruction_error

CASES = {
    "dsc-orl": (400, 5e5),
    "orl": (400, 5e5),
    "eyaleb": (2432, 5e5),
}


def ours(name: str, X: Tensor, lam: float) -> Callable[[], float]:
    net = preset(name)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def step() -> float:
        state, _ = forward(net, X, Absolute(lam))
        loss = reconstruction_error(state)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def plain(name: str, X: Tensor, lam: float, onednn: bool) -> Callable[[], float]:
    net = Plain(preset_spec(name))
    net.copy_weights(preset(name))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    eye = torch.eye(len(X))

    def step() -> float:
        with nullcontext() if onednn else torch.backends.mkldnn.flags(enabled=False):
            maps = net.encode(X)
            Z = maps.flatten(1)
            with torch.no_grad():
                P = torch.linalg.inv(Z @ Z.T + lam * eye)
                B = (P / -P.diagonal()[:, None]).fill_diagonal_(0.0)
            loss = (net.decode((B @ Z).view(maps.shape)) - X).square().sum()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        return float(loss.detach())

    return step


def case(name: str, n: int, lam: float, repeats: int) -> dict[str, object]:
    generator = torch.Generator().manual_seed(0)
    X = 255 * torch.rand(n, *preset_spec(name).input_shape, generator=generator)
    variants = {
        "ours": ours(name, X, lam),
        "plain": plain(name, X, lam, True),
        "plain, no oneDNN": plain(name, X, lam, False),
    }
    return {"network": name, "N": n, **compared(variants, repeats, checked=1)}


def main() -> None:
    args = parser(__doc__ or "").parse_args()
    finish(args, "step", [case(k, n, lam, args.repeats) for k, (n, lam) in CASES.items()])


if __name__ == "__main__":
    main()
