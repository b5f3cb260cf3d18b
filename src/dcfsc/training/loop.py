"""Training: reconstruction first, then Algorithm 2, full batch, Adam."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from dcfsc import processes
from dcfsc.errors import DivergenceError
from dcfsc.self_expression import ClosedForm, solve

from .checkpoint import Checkpoint, State
from .chunked import ChunkedStep, Inputs
from .history import History
from .loss import Figures, LamRule, LossTerm, Pass, reconstruction_error
from .norms import ExactNorms, sum_gradients
from .precision import (
    Compiled,
    check_compilable,
    check_precision,
    convolutions,
    network_context,
    prepare,
)


def forward(
    network: Any, X: Tensor, lam: LamRule | None, precision: str = "float32"
) -> tuple[Pass, ClosedForm | None]:
    """Algorithm 2, lines 4-9: encode, solve, express with B held constant, decode.

    Without ``lam`` it is the plain auto-encoder. ``precision`` is the network's; the latents are
    brought back to that of X before they are solved.
    """
    with network_context(precision, X.device):
        latent = network.encoder(X)
    latent = latent.to(X.dtype)
    operator = None if lam is None else solve(latent, lam(latent))
    half = precision == "bfloat16"  # then gradients have no more than that either
    expressed = latent if operator is None else operator.apply(latent, rounded=half)
    with network_context(precision, X.device):
        reconstruction = network.decoder(expressed)
    return Pass(X, latent, expressed, reconstruction.to(X.dtype)), operator


NAMES = {"pretrain": "pre-training", "train": "training"}  # of the phases
Step = Callable[[], tuple[float, dict[str, float]]]  # takes a step, gives its loss and figures


def run_steps(
    phase: str,
    steps: int,
    step: Step,
    state: State,
    checkpoint: Checkpoint | None = None,
) -> None:
    """Take the steps of a phase that the checkpoint does not have, and record each."""
    done = 0
    state.network.train()
    if checkpoint is not None:
        done = checkpoint.resume(phase, state)
    with nullcontext() if checkpoint is None else checkpoint.deferring_interrupts():
        for number in range(done + 1, steps + 1):
            start = time.perf_counter()
            loss, figures = step()
            check_finite(loss, NAMES[phase], number, state.optimizer.defaults["lr"])
            seconds = time.perf_counter() - start
            state.history.record(phase=phase, step=number, loss=loss, seconds=seconds, **figures)
            if checkpoint is not None:
                checkpoint.after_step(phase, number, state)


def pretrain(
    network: nn.Module,
    X: Inputs,
    *,
    epochs: int,
    batch_size: int,
    learning_rate: float,
    generator: torch.Generator,
    history: History,
    checkpoint: Checkpoint | None = None,
) -> None:
    """Minimize |X - Dec(Enc(X))|^2 over shuffled mini-batches; no self-expression.

    The loss of a row in the history is the epoch's sum over the samples. Where samples are divided
    among processes, a mini-batch is drawn from all of them.
    """
    if checkpoint is not None and checkpoint.finished("pretrain"):
        return
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate)
    batches = _Batches(len(X), batch_size, X.device)

    def epoch() -> tuple[float, dict[str, float]]:
        loss = 0.0
        for batch in batches.shuffled(generator):
            optimizer.zero_grad(set_to_none=True)
            loss += reconstruction_gradient(network, X[batch])
            optimizer.step()
        return processes.total_number(loss), {}

    state = State(network, optimizer, history, generator)
    run_steps("pretrain", epochs, epoch, state, checkpoint)


class _Batches:
    """Mini-batches of all processes' samples; each process sees its own part of them."""

    def __init__(self, n: int, batch_size: int, device: torch.device):
        counts = processes.row_counts(n, device)
        self._first = sum(counts[: processes.rank()])
        self._n, self._total, self._device = n, sum(counts), device
        # Batches of nearly equal size: a last batch of one sample would break batch norm.
        self._count = max(1, round(self._total / batch_size))

    def shuffled(self, generator: torch.Generator) -> Iterator[Tensor]:
        order = torch.randperm(self._total, generator=generator, device=generator.device)
        for batch in order.to(self._device).tensor_split(self._count):
            own = batch - self._first
            yield own[(own >= 0) & (own < self._n)]


def reconstruction_gradient(network: nn.Module, X: Tensor) -> float:
    """Leave the gradient of |X - Dec(Enc(X))|^2 in the parameters and return this part's loss.

    X is this process's part of a mini-batch; the gradient is that of the whole of it.
    """

    def objective(x: Tensor) -> Tensor:
        return reconstruction_error(forward(network, x, None)[0])

    if not processes.active():
        loss = objective(X)
        loss.backward()
        return float(loss.detach())
    norms, value = ExactNorms(network), 0.0
    chunks = [X] if len(X) else []
    with norms.installed():
        norms.measure(chunks, network)
        norms.differentiate(chunks, objective)
        for chunk in chunks:
            loss = objective(chunk)
            norms.with_statistics(loss).backward()
            value += float(loss.detach())
    sum_gradients(network)
    return value


def train(
    network: nn.Module,
    X: Inputs,
    *,
    steps: int,
    lam: LamRule,
    learning_rate: float,
    history: History,
    terms: Sequence[LossTerm] = (),
    precision: str = "float32",
    batch_size: int | None = None,
    compiled: bool = False,
    checkpoint: Checkpoint | None = None,
) -> None:
    """Algorithm 2: ``steps`` full-batch Adam steps on equation 1 plus ``terms``.

    With ``batch_size`` the same steps are taken with the activations of that many samples at a
    time (:mod:`.chunked`); ``terms`` must then be sums over samples. ``compiled`` has PyTorch's
    compiler build the network's kernels first.
    """
    check_precision(precision, X.device)
    if compiled:
        check_compilable(X.device, batch_size)
    optimizer = torch.optim.Adam(network.parameters(), lr=learning_rate, fused=compiled or None)
    gradient: _WholeBatch | ChunkedStep
    if batch_size is None and not processes.active():
        gradient = _WholeBatch(network, X, terms, precision, compiled)
    else:
        gradient = ChunkedStep(network, X, batch_size, terms, precision)

    def step() -> tuple[float, dict[str, float]]:
        optimizer.zero_grad(set_to_none=True)
        figures = gradient(lam)
        optimizer.step()
        parts, ridge = figures()  # waits for the device, where the step is under way
        return sum(parts.values()), ridge | (parts if terms else {})

    with convolutions(fastest=True) if compiled else nullcontext():
        run_steps("train", steps, step, State(network, optimizer, history), checkpoint)


class _WholeBatch:
    """The step with the activations of all samples at once."""

    def __init__(
        self,
        network: Any,
        X: Inputs,
        terms: Sequence[LossTerm],
        precision: str = "float32",
        compiled: bool = False,
    ):
        self.network, self.terms, self.precision = network, terms, precision
        self.X = prepare(network, X[:])
        if compiled:
            self.network = Compiled(network)

    def __call__(self, lam: LamRule) -> Figures:
        state, operator = forward(self.network, self.X, lam, self.precision)
        assert operator is not None
        ridge, dof = operator.lam, operator.leverage.sum()  # all samples are here
        del operator  # back-propagation keeps what it needs
        parts = {"reconstruction": reconstruction_error(state)}
        parts |= {term.name: term(state) for term in self.terms}
        losses = torch.stack(list(parts.values()))
        losses.sum().backward()
        # What is read later must not hold the graph, which would stay through the next step.
        names, seen = tuple(parts), torch.cat((losses.detach().double(), dof[None]))

        def read() -> tuple[dict[str, float], dict[str, float]]:
            *values, effective_dof = seen.tolist()
            figures = {"lam": ridge, "effective_dof": effective_dof}
            return dict(zip(names, values, strict=True)), figures

        return read


def check_finite(loss: float, phase: str, step: int, learning_rate: float) -> None:
    if not abs(loss) < float("inf"):
        raise DivergenceError(
            f"the loss became {loss} at {phase} step {step}; "
            f"lower the learning rate (now {learning_rate:g}) or rescale the data."
        )
