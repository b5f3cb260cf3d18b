"""Seconds of a fit, of the self-expressive layer and of a training step."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.cluster import SpectralClustering
from torch import Tensor, nn

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.machine import resolve_device
from dcfsc.metrics import clustering_error
from dcfsc.networks import ConvAutoencoder, preset, preset_spec
from dcfsc.pipeline import Recipe
from dcfsc.representations import create
from dcfsc.selection.estimate import estimate, rate
from dcfsc.self_expression import solve
from dcfsc.training import Absolute, forward, reconstruction_error
from research.experiments.step_memory import compute_b, compute_p

from . import samples
from .measure import Figures, Rows, benchmark, interleaved

FIT_SETS = (
    *("digits", "orl", "photographs", "mnist-5000", "eyaleb", "coil100"),
    *("unequal-20000", "unequal-100000", "unequal-1000000"),
)
FAST: Figures = {"representation": "given", "assign": "kmeans"}
PEER_SAMPLES = 10_000  # scikit-learn takes minutes beyond


@benchmark
def seconds(device: str = "cpu", repeats: int = 5, data: tuple[str, ...] = FIT_SETS) -> Rows:
    """How long a fit with only K given takes, beside scikit-learn's spectral clustering.

    "fast" is ``dcfsc fit --fast``: the samples as they are, and plain k-means. Medians of
    ``--repeats``. "expected" is what the estimate says before a fit on this machine.
    """
    for name, (X, y) in samples.load(data):
        n_clusters = int(y.max()) + 1
        closed = partial(ClosedFormSubspaceClustering, n_clusters, device=device, random_state=0)
        closed().fit(X[:: max(1, len(X) // 1000)])  # warm up
        expected = estimate(len(X), n_clusters, create("auto", Recipe(X.shape[1:], n_clusters)))
        record = {
            "N": len(X),
            "K": n_clusters,
            "expected": {
                "seconds": expected.flops / rate(resolve_device(device)),
                "bytes": expected.bytes,
            },
            "default": fits(closed(), X, y, repeats),
            "fast": fits(closed(**FAST), X, y, repeats),
        }
        if len(X) <= PEER_SAMPLES:
            near = SpectralClustering(n_clusters, affinity="nearest_neighbors", random_state=0)
            record["scikit-learn"] = fits(near, X.reshape(len(X), -1), y, repeats)
        yield name, record


def fits(model: Any, X: np.ndarray, y: np.ndarray, repeats: int) -> Figures:
    taken, processor = [], []
    for _ in range(repeats):
        begin, used = time.perf_counter(), time.process_time()
        model.fit(X)
        taken.append(time.perf_counter() - begin)
        processor.append(time.process_time() - used)
    return {
        "seconds": statistics.median(taken),
        "cpu_seconds": statistics.median(processor),
        "error": clustering_error(y, model.labels_),
    }


# The layer ----------------------------------------------------------------------------------


@benchmark
def layer(device: str = "cpu", repeats: int = 5) -> list[Figures]:
    """The self-expressive layer, forward and backward: ours against the paper's listing.

    The peer is what the paper prints: the explicit N x N inverse in the precision of the data. At
    N = 20,000 it needs three N x N matrices (4.8 GB) and minutes, so it runs once.
    """
    sizes = [(400, 80), (2432, 1080), (7168, 4608), (20_000, 500)]
    if device == "cpu":
        sizes.remove((7168, 4608))
    return [layer_at(n, d, device, repeats) for n, d in sizes]


def layer_at(n: int, d: int, device: str, repeats: int) -> Figures:
    generator = torch.Generator().manual_seed(0)
    Z = torch.rand(n, d, generator=generator).to(device)
    g = torch.randn(n, d, generator=generator).to(device)
    lam = 1e-3 * float(Z.square().sum(1).mean())
    ways = {"listing": partial(layer_as_listed, Z, g, lam), "ours": partial(our_layer, Z, g, lam)}
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


def layer_as_listed(Z: Tensor, g: Tensor, lam: float) -> tuple[Tensor, Tensor]:
    """B as the paper prints it, then B Z and B' g."""
    B = compute_b(compute_p(Z, lam))
    return B @ Z, B.T @ g


def our_layer(Z: Tensor, g: Tensor, lam: float) -> tuple[Tensor, Tensor]:
    operator = solve(Z, lam)
    return operator.matmul(Z), operator.rmatmul(g)


# A training step ----------------------------------------------------------------------------

NETWORKS = {"dsc-orl": 400, "orl": 400, "eyaleb": 2432}
LAM = 5e5
LOSS_TOLERANCE = 1e-5


@benchmark
def step(repeats: int = 5, networks: tuple[str, ...] = tuple(NETWORKS)) -> list[Figures]:
    """A whole training step of DCFSC on a CPU: ours against the straightforward implementation.

    Encode, solve, express, decode, backward, Adam. The peer is what the paper prints: PyTorch's own
    convolutions, and the N x N inverse in float32; it runs with PyTorch's default back end and
    without oneDNN, which is faster for some sizes, and the ratio is taken to the faster of the two.
    All start from the same weights, and the losses must agree to 1e-5. Inputs are random images in
    pixels.
    """
    return [step_of(name, NETWORKS[name], repeats) for name in networks]


def step_of(name: str, n: int, repeats: int) -> Figures:
    generator = torch.Generator().manual_seed(0)
    X = 255 * torch.rand(n, *preset_spec(name).input_shape, generator=generator)
    net, default, other = (preset(name) for _ in range(3))
    for peer in (default, other):
        peer.encoder.plain = peer.decoder.plain = True
    steps = {
        "ours": stepper(net, lambda: our_loss(net, X)),
        "plain": stepper(default, lambda: listed_loss(default, X)),
        "plain, no oneDNN": stepper(other, lambda: listed_loss(other, X), onednn=False),
    }
    first, *others = (take() for take in steps.values())
    gap = max(abs(first / loss - 1) for loss in others)
    if gap > LOSS_TOLERANCE:
        raise SystemExit(f"the losses differ by {gap:.1e}")
    times = interleaved(steps, repeats)
    ours, *theirs = (figures["median"] for figures in times.values())
    return {
        "network": name,
        "N": n,
        "loss_gap": gap,
        "seconds": times,
        "speedup": theirs[0] / ours,
        "speedup_to_the_faster_back_end": min(theirs) / ours,
    }


def listed_loss(net: ConvAutoencoder, X: Tensor) -> Tensor:
    """The loss as the paper's listing has it, on a network with PyTorch's own convolutions."""
    Z = net.encoder(X)
    with torch.no_grad():
        B = compute_b(compute_p(Z, LAM))
    return (net.decoder(B @ Z) - X).square().sum()


def our_loss(net: ConvAutoencoder, X: Tensor) -> Tensor:
    return reconstruction_error(forward(net, X, Absolute(LAM))[0])


def stepper(net: nn.Module, loss_of: Callable[[], Tensor], onednn: bool = True) -> Callable:
    """A function that does one Adam step and returns the loss before it."""
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)

    def take() -> float:
        with nullcontext() if onednn else torch.backends.mkldnn.flags(enabled=False):
            loss = loss_of()
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        return float(loss.detach())

    return take
