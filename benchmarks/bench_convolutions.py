"""One training step of the auto-encoders on a CPU: patches against PyTorch's convolutions.

    python benchmarks/bench_convolutions.py [--threads 2] [--rounds 9] [--json FILE] [--memory]

Each case is forward, backward and an Adam step on the whole batch. The peers take turns in one
process, so that a busy machine hurts all of them, and the table gives medians, minima and the ratio
of the medians. "plain" is nn.Conv2d and nn.ConvTranspose2d with explicit SAME padding; "plain, no
oneDNN" is the same with PyTorch's other CPU back end, which is faster for some batch sizes. All
start from the same weights, and their losses must agree to 1e-5.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dcfsc.files import write_json
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


def run_case(case: str, rounds: int) -> dict[str, Any]:
    steps = {peer: make_step(peer, *CASES[case]) for peer in PEERS}
    losses: dict[str, list[float]] = {peer: [] for peer in PEERS}
    seconds: dict[str, list[float]] = {peer: [] for peer in PEERS}
    for _ in range(rounds + 1):
        for peer, step in steps.items():
            start = time.perf_counter()
            losses[peer].append(step())
            seconds[peer].append(time.perf_counter() - start)
    # Under batch norm some exact gradients are zero, and Adam makes full steps of their rounding:
    # there only the loss before the first step compares the convolutions.
    compared = 1 if preset_spec(CASES[case][0]).batch_norm else rounds + 1
    gap = max(
        abs(a - b) / abs(b)
        for peer in PEERS[1:]
        for a, b in zip(losses["patches"][:compared], losses[peer][:compared], strict=True)
    )
    # The first round allocates and chooses kernels.
    result: dict[str, Any] = {
        peer: {
            "median_ms": 1e3 * statistics.median(times[1:]),
            "min_ms": 1e3 * min(times[1:]),
        }
        for peer, times in seconds.items()
    }
    medians = {peer: result[peer]["median_ms"] for peer in PEERS}
    return {
        "case": case,
        "peers": result,
        "speedup_over_plain": medians["plain"] / medians["patches"],
        "speedup_over_plain_min": result["plain"]["min_ms"] / result["patches"]["min_ms"],
        "speedup_over_faster_plain": min(medians["plain"], medians["plain, no oneDNN"])
        / medians["patches"],
        "largest_loss_gap": gap,
        "losses_agree": gap <= LOSS_TOLERANCE,
    }


def peak_memory_mib(case: str, peer: str, threads: int) -> float:
    """Peak memory of three steps in a fresh process, less what it holds before the first."""
    command = [sys.executable, __file__, "--peak-of", case, peer, "--threads", str(threads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)


def print_peak(case: str, peer: str) -> None:
    step = make_step(peer, *CASES[case])
    # Linux counts in KiB, macOS in bytes.
    unit = 2**20 if sys.platform == "darwin" else 2**10
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(3):
        step()
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / unit)


def machine(threads: int) -> dict[str, Any]:
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "threads": threads,
        "load_average": os.getloadavg()[0],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=DEFAULT_CASES)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--memory", action="store_true", help="also measure peak memory")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--peak-of", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    warnings.filterwarnings("ignore", message=".*TF32 acceleration.*")
    if arguments.peak_of:
        print_peak(*arguments.peak_of)
        return 0
    report: dict[str, Any] = {"machine": machine(arguments.threads), "cases": []}
    print(f"{'step, ms: median (min)':22}" + "".join(f"{p:>22}" for p in PEERS) + "   ratio   gap")
    for case in arguments.cases:
        result = run_case(case, arguments.rounds)
        if arguments.memory:
            for peer in PEERS:
                peak = peak_memory_mib(case, peer, arguments.threads)
                result["peers"][peer]["peak_mib"] = peak
        report["cases"].append(result)
        peers = result["peers"].values()
        cells = "".join(f"{v['median_ms']:12.1f} ({v['min_ms']:7.1f})" for v in peers)
        ratio, gap = result["speedup_over_plain"], result["largest_loss_gap"]
        print(f"{case:22}{cells} {ratio:6.1f}x {gap:.0e}", flush=True)
        if arguments.memory:
            peaks = "".join(f"{v['peak_mib']:>18.0f} MiB" for v in peers)
            print(f"{'  peak memory':22}{peaks}", flush=True)
    if arguments.json:
        write_json(arguments.json, report)
    return 0 if all(c["losses_agree"] for c in report["cases"]) else 1


if __name__ == "__main__":
    raise SystemExit(main())
