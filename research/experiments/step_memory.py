"""Peak memory and seconds of one full-batch training step, each measured in a fresh process.

Ways to train: DSC (the coefficients are N^2 parameters); DCFSC with the paper's listing (an
explicit N x N inverse at each step, PyTorch's own convolutions); and DCFSC with the feature form
(nothing is N x N): as it is, with the network compiled and in bfloat16, and with the activations
of ``LOW_MEMORY_CHUNK`` samples at a time.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from dcfsc.estimators.network_choice import initial_network, network_input
from dcfsc.machine import resolve_device
from dcfsc.training import Absolute, DSCLoss, History, train, train_dsc
from research import data as datasets
from research.alone import alone
from research.machine import PeakMemory

from .cells import Cell, Problem, Record
from .pipeline import Session, select
from .protocols import PROTOCOLS, located

MOST_STEPS = 5
LOW_MEMORY_CHUNK = 512
ENOUGH_SECONDS = 60.0


# The paper's listing, kept as the peer to measure against -------------------------------------


def compute_p(encoded: Tensor, lam: float) -> Tensor:
    """P = (Z Z' + lam I)^-1, (N, N), in the precision of Z as the listing has it."""
    gram = encoded @ encoded.mT
    gram.diagonal().add_(lam)
    return torch.linalg.inv(gram)


def compute_b(P: Tensor) -> Tensor:
    """B_ij = -P_ij / P_ii off the diagonal, (N, N)."""
    return (P / -P.diagonal()[:, None]).fill_diagonal_(0.0)


def train_by_inverse(
    network: Any, X: Tensor, *, steps: int, lam: float, learning_rate: float, history: History
) -> None:
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate)
    network.train()
    for step in range(1, steps + 1):
        start = time.perf_counter()
        latent = network.encoder(X)
        with torch.no_grad():
            B = compute_b(compute_p(latent, lam))
        loss = (network.decoder(B @ latent) - X).square().sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        value = float(loss.detach())
        history.record(phase="train", step=step, loss=value, seconds=time.perf_counter() - start)


# One measurement ------------------------------------------------------------------------------


def take_steps(
    method: str, options: dict[str, Any], network: Any, X: Tensor, steps: int, history: History
) -> None:
    common: dict[str, Any] = {"steps": steps, "learning_rate": 1e-3, "history": history}
    if method == "dsc":
        weights = ("coefficient_weight", "self_expression_weight", "reconstruction_weight")
        C = torch.full((len(X), len(X)), options["initial"], device=X.device)
        train_dsc(network, X, C, DSCLoss(*(options[name] for name in weights)), **common)
        return
    lam = float(options["lam"])
    if method == "dcfsc-inverse":
        network.encoder.plain = network.decoder.plain = True
        train_by_inverse(network, X, lam=lam, **common)
        return
    fast = method == "dcfsc-fast" and X.is_cuda
    train(
        network,
        X,
        lam=Absolute(lam),
        precision="bfloat16" if fast else "float32",
        compiled=fast,
        batch_size=LOW_MEMORY_CHUNK if method == "dcfsc-low-memory" else None,
        **common,
    )


def measure_here(method: str, problem: Problem, device: torch.device) -> Record:
    """Take a few steps in this process; it should have done nothing else before."""
    data = datasets.load(problem.dataset)
    samples = select(data, problem)
    protocol = PROTOCOLS[problem.dataset]
    deep = protocol.dsc if method == "dsc" else protocol.dcfsc
    options = located(deep(problem.n_clusters))
    generator = torch.Generator().manual_seed(0)
    network, scale = initial_network(options["network"], options["weights"], samples.X, generator)
    network = network.to(device)
    X = network_input(samples.X, device, scale)
    with torch.no_grad():
        dim = network.encoder(X[:8]).shape[1]
    history = History()
    with PeakMemory(device) as memory:
        take_steps(method, options, network, X, 1, history)
        steps = steps_after(history[0]["seconds"], device)
        take_steps(method, options, network, X, steps, history)
    seconds = [row["seconds"] for row in history[1:]]
    return {
        "n": len(samples.X),
        "dim": dim,
        "steps": len(seconds),
        "seconds_a_step": statistics.median(seconds),
        "memory": memory.record(),
        "notes": samples.notes,
    }


def steps_after(first: float, device: torch.device) -> int:
    """How many steps to measure after a first one of so many seconds.

    On a GPU a step is short, and the first one may have waited for a compiler.
    """
    if device.type == "cuda":
        return MOST_STEPS
    return max(1, min(int(ENOUGH_SECONDS / max(first, 1e-9)), MOST_STEPS))


def measure_step(cell: Cell, session: Session) -> Record:
    """The record of a cell of the experiment "memory", measured in a fresh process."""
    measured = alone(measure_alone, cell.method, asdict(cell.problem), str(session.device))
    if "failed" in measured:
        raise RuntimeError(f"the measuring process ended: {measured['failed']}")
    return measured


def measure_alone(method: str, problem: dict[str, Any], device: str) -> Record:
    return measure_here(method, Problem(**problem), resolve_device(device))
