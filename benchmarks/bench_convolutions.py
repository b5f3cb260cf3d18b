"""One training step of the auto-encoders on a CPU: patches against PyTorch's convolutions.

    python benchmarks/bench_convolutions.py [--threads 2] [--repeats 9] [--json FILE]

Each case is forward, backward and an Adam step on the whole batch. The peers take turns in one
process, so that a busy machine hurts all of them; shown are medians, minima and the ratio of the
medians. "plain" is nn.Conv2d and nn.ConvTranspose2d with explicit SAME padding; "plain, no
oneDNN" is the same with PyTorch's other CPU back end, which is faster for some batch sizes. All
start from the same weights, and their losses must agree to 1e-5.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from measure import finish, interleaved, parser
from torch import Tensor, nn

from dcfsc.networks import ConvAutoencoder, ConvSpec, preset, preset_spec

CASES = {
    "dsc-orl, 400": ("dsc-orl", 400),
    "orl, 400": ("orl", 400),
    "eyaleb, 640": ("eyaleb", 640),
    "eyaleb, 2432": ("eyaleb", 2432),
    "dsc-coil100, 1024": ("dsc-coil100", 1024),
    "coil100, 256": ("coil100", 256),
}
DEFAULT_CASES = ("dsc-orl, 400", "orl, 400", "eyaleb, 640", "eyaleb, 2432")
PEERS = ("patches", "plain", "plain, no oneDNN")
LOSS_TOLERANCE = 1e-5


class Plain(nn.Module):
    """The auto-encoder as one would write it with PyTorch's layers."""

    def __init__(self, spec: ConvSpec) -> None:
        super().__init__()
        self.spec = spec
        channels = (spec.input_shape[0], *spec.channels)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        for i, (k, s) in enumerate(zip(spec.kernels, spec.strides, strict=True)):
            normed = spec.batch_norm and i < len(spec.channels) - 1
            self.down.append(nn.Conv2d(channels[i], channels[i + 1], k, s, bias=not normed))
            normed = spec.batch_norm and i > 0
            self.up.insert(
                0, nn.ConvTranspose2d(channels[i + 1], channels[i], k, s, bias=not normed)
            )
        depth = len(spec.channels)
        norms = [*spec.channels[:-1], *spec.channels[-2::-1]] if spec.batch_norm else []
        self.norms = nn.ModuleList(nn.BatchNorm2d(c, 1e-3, 0.01) for c in norms)
        self.depth = depth

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(self.encode(x))

    def encode(self, x: Tensor) -> Tensor:
        spec, geometries = self.spec, self.spec.geometries
        x = (x.transpose(2, 3) if spec.transposed else x) * spec.input_scale
        for i, (layer, g) in enumerate(zip(self.down, geometries, strict=True)):
            x = layer(F.pad(x, (*g.columns, *g.rows)))
            x = self._after(x, i, i == self.depth - 1, spec.latent_relu)
        return x

    def decode(self, x: Tensor) -> Tensor:
        spec, geometries = self.spec, self.spec.geometries
        for i, (layer, g) in enumerate(zip(self.up, geometries[::-1], strict=True)):
            x = layer(x)[
                :, :, g.rows[0] : g.rows[0] + g.height, g.columns[0] : g.columns[0] + g.width
            ]
            x = self._after(x, self.depth - 1 + i, i == self.depth - 1, spec.output_relu)
        return (x.transpose(2, 3) if spec.transposed else x) / spec.input_scale

    def copy_weights(self, net: ConvAutoencoder) -> None:
        for layer, source in zip([*self.down, *self.up], [*net.encoder, *net.decoder], strict=True):
            layer.weight.data.copy_(source.weight.data)
            if layer.bias is not None:
                layer.bias.data.copy_(source.bias.data)

    def _after(self, x: Tensor, norm: int, last: bool, relu_if_last: bool) -> Tensor:
        if self.spec.batch_norm and not last:
            x = self.norms[norm](x)
        return F.relu(x) if relu_if_last or not last else x


def make_step(peer: str, name: str, samples: int) -> Callable[[], float]:
    """A function that does one Adam step and returns the loss before it."""
    net = preset(name)
    model: nn.Module = net
    if peer == "patches":
        net.convolution = "patches"
    else:
        model = Plain(preset_spec(name))
        model.copy_weights(net)
    generator = torch.Generator().manual_seed(0)
    x = 255 * torch.rand(samples, *net.spec.input_shape, generator=generator)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step() -> float:
        context: Any = nullcontext()
        if peer.endswith("no oneDNN"):
            context = torch.backends.mkldnn.flags(enabled=False)
        with context:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), x)
            loss.backward()
            optimizer.step()
        return loss.item()

    return step


def compared(steps: dict[str, Callable[[], float]], repeats: int, checked: int) -> dict[str, Any]:
    """Times of one training step by the first of ``steps`` and by two plain peers.

    The losses of the first ``checked`` steps must agree.
    """
    losses = {peer: [step() for _ in range(checked)] for peer, step in steps.items()}
    ours, *plain = steps
    gap = max(abs(a / b - 1) for p in plain for a, b in zip(losses[ours], losses[p], strict=True))
    if gap > LOSS_TOLERANCE:
        raise SystemExit(f"the losses differ by {gap:.1e}: {losses}")
    seconds = interleaved(steps, repeats)
    median = {peer: seconds[peer]["median"] for peer in steps}
    return {
        "loss_gap": gap,
        "seconds": seconds,
        "speedup": median["plain"] / median[ours],
        "speedup_to_the_faster_back_end": min(median[peer] for peer in plain) / median[ours],
    }


def run_case(case: str, repeats: int) -> dict[str, Any]:
    steps = {peer: make_step(peer, *CASES[case]) for peer in PEERS}
    # Under batch norm some exact gradients are zero, and Adam makes full steps of their rounding:
    # there only the loss before the first step compares the convolutions.
    checked = 1 if preset_spec(CASES[case][0]).batch_norm else 3
    return {"case": case, **compared(steps, repeats, checked)}


def main() -> None:
    options = parser(__doc__ or "")
    options.add_argument("--cases", nargs="+", choices=CASES, default=DEFAULT_CASES)
    options.add_argument("--threads", type=int, default=torch.get_num_threads())
    args = options.parse_args()
    torch.set_num_threads(args.threads)
    warnings.filterwarnings("ignore", message=".*TF32 acceleration.*")
    finish(args, "convolutions", [run_case(case, args.repeats) for case in args.cases])


if __name__ == "__main__":
    main()
