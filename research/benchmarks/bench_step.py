"""A whole training step of DCFSC on a CPU: ours against the straightforward implementation.

    python -m research.benchmarks.bench_step --json results/benchmarks/step_cpu.json

Encode, solve, express, decode, backward, Adam; with ``--autoencoder`` nothing is solved, as in
pretraining. The peer is written as the paper prints it: nn.Conv2d and nn.ConvTranspose2d with
explicit SAME padding, the N x N inverse in float32; it runs with PyTorch's default back end and
without oneDNN, which is faster for some sizes, and the ratio is taken to the faster of the two. All
start from the same weights, and the losses must agree to 1e-5. Inputs are random images in pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dcfsc.networks import ConvAutoencoder, preset, preset_spec
from dcfsc.training import Absolute, forward, reconstruction_error

from .measure import finish, interleaved, parser

CASES = {"dsc-orl": 400, "orl": 400, "eyaleb": 2432}
LAM = 5e5
LOSS_TOLERANCE = 1e-5


class Plain(nn.Module):
    """The auto-encoder, without batch norm, as one would write it with PyTorch's layers."""

    def __init__(self, net: ConvAutoencoder) -> None:
        super().__init__()
        self.spec = net.spec
        channels = (net.spec.input_shape[0], *net.spec.channels)
        shapes = list(zip(channels, channels[1:], net.spec.kernels, net.spec.strides, strict=False))
        self.down = nn.ModuleList(nn.Conv2d(a, b, k, s) for a, b, k, s in shapes)
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, k, s) for a, b, k, s in shapes[::-1])
        for layer, source in zip([*self.down, *self.up], [*net.encoder, *net.decoder], strict=True):
            layer.weight.data.copy_(source.weight.data)
            layer.bias.data.copy_(source.bias.data)

    def encode(self, x: Tensor) -> Tensor:
        x = (x.transpose(2, 3) if self.spec.transposed else x) * self.spec.input_scale
        for layer, g in zip(self.down, self.spec.geometries, strict=True):
            x = F.relu(layer(F.pad(x, (*g.columns, *g.rows))))
        return x

    def decode(self, x: Tensor) -> Tensor:
        for layer, g in zip(self.up, self.spec.geometries[::-1], strict=True):
            x = F.relu(layer(x)[:, :, g.rows[0] :, g.columns[0] :][:, :, : g.height, : g.width])
        return (x.transpose(2, 3) if self.spec.transposed else x) / self.spec.input_scale


def ours(net: ConvAutoencoder, X: Tensor, solved: bool) -> Tensor:
    if not solved:
        return (net(X) - X).square().sum()
    return reconstruction_error(forward(net, X, Absolute(LAM))[0])


def plain(net: Plain, X: Tensor, solved: bool) -> Tensor:
    maps = net.encode(X)
    if solved:
        Z = maps.flatten(1)
        with torch.no_grad():
            P = torch.linalg.inv(Z @ Z.T + LAM * torch.eye(len(X)))
            B = (P / -P.diagonal()[:, None]).fill_diagonal_(0.0)
        maps = (B @ Z).view(maps.shape)
    return (net.decode(maps) - X).square().sum()


def stepper(net: nn.Module, loss_of: Callable[[], Tensor], onednn: bool = True) -> Callable:
    """A function that does one Adam step and returns the loss before it."""
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def step() -> float:
        with nullcontext() if onednn else torch.backends.mkldnn.flags(enabled=False):
            loss = loss_of()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        return float(loss.detach())

    return step


def case(name: str, n: int, repeats: int, solved: bool) -> dict[str, object]:
    generator = torch.Generator().manual_seed(0)
    X = 255 * torch.rand(n, *preset_spec(name).input_shape, generator=generator)
    net, default, other = preset(name), Plain(preset(name)), Plain(preset(name))
    steps = {
        "ours": stepper(net, lambda: ours(net, X, solved)),
        "plain": stepper(default, lambda: plain(default, X, solved)),
        "plain, no oneDNN": stepper(other, lambda: plain(other, X, solved), onednn=False),
    }
    first, *others = (step() for step in steps.values())
    gap = max(abs(first / loss - 1) for loss in others)
    if gap > LOSS_TOLERANCE:
        raise SystemExit(f"the losses differ by {gap:.1e}")
    seconds = interleaved(steps, repeats)
    mine, *theirs = (figures["median"] for figures in seconds.values())
    return {
        "network": name,
        "N": n,
        "loss_gap": gap,
        "seconds": seconds,
        "speedup": theirs[0] / mine,
        "speedup_to_the_faster_back_end": min(theirs) / mine,
    }


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--only", nargs="+", choices=CASES, default=CASES, help="networks")
    options.add_argument("--autoencoder", action="store_true", help="without the layer")
    args = options.parse_args()
    runs = [case(name, CASES[name], args.repeats, not args.autoencoder) for name in args.only]
    finish(args, "step", runs)


if __name__ == "__main__":
    main()
