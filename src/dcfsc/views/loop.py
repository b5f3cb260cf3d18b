"""Training an encoder on views: mini-batches, one cycle of the learning rate.

A step takes a random batch of samples, gives every sample one or several positives (itself, or a
neighbor by the closed form), makes a view of each, and lowers the weighted sum of the losses.
Nothing in a step waits for the device; what is compiled is launched as a whole. Where samples are
divided among processes, every one encodes its own part of each batch; features are then exchanged,
and every process computes the loss of all of it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dcfsc import processes
from dcfsc.training.checkpoint import Checkpoint, State
from dcfsc.training.chunked import Inputs, chunk_slices, evaluation_chunk
from dcfsc.training.history import History
from dcfsc.training.loop import check_finite
from dcfsc.training.norms import sum_gradients
from dcfsc.training.precision import convolutions, network_context

from .augmentations import Drawn, Views
from .losses import Batch, weighted_terms
from .pseudo_labels import PseudoLabels

WARM_UP, WARM_UP_SGD = 0.15, 0.02  # share of the steps in which the learning rate rises
WEIGHT_DECAY, WEIGHT_DECAY_SGD, MOMENTUM = 1e-4, 5e-4, 0.9
REPORT_EVERY = 25  # steps on a GPU between two looks at the losses, each of which waits for it
MANY_STEPS = 20_000  # a longer history has a row for each look, with the means of its steps


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train, on how many views of a sample; by AdamW or plain SGD."""

    steps: int
    batch_size: int = 1024
    learning_rate: float = 3e-3
    views: int = 2
    sgd: bool = False

    def rate(self, step: int) -> float:
        """One cycle: up to ``learning_rate`` along a cosine, then down to zero along another."""
        rising = (WARM_UP_SGD if self.sgd else WARM_UP) * self.steps
        if step < rising:
            return self.learning_rate * 0.5 * (1 - math.cos(math.pi * (step + 1) / (rising + 1)))
        share = (step - rising) / max(1.0, self.steps - rising)
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * share))


def train_views(
    network: Any,
    X: Inputs,
    views: Views,
    weights: Mapping[str, float],
    schedule: Schedule,
    pseudo_labels: PseudoLabels,
    *,
    n_clusters: int,
    generator: torch.Generator,
    history: History,
    before_step: Mapping[int, Callable[[], None]] | None = None,
    precision: str = "float32",
    compiled: bool = False,
    checkpoint: Checkpoint | None = None,
) -> None:
    """Train ``network`` in place.

    Parameters
    ----------
    X : the samples; where they are divided among processes, all of them.
    weights : of the losses, by name.
    pseudo_labels : the positives and targets of the samples.
    before_step : what to call before a step, by its number; it may change the pseudo-labels.
    generator : on the device of X; the same in every process.
    """
    device = X.device
    optimizer = _optimizer(network, schedule, device)
    both = nn.ModuleDict({"network": network, "pseudo_labels": pseudo_labels})
    state = State(both, optimizer, history, generator)
    done = 0
    if checkpoint is not None:
        done = checkpoint.resume("train", state)
    if device.type == "cuda":
        network.to(memory_format=torch.channels_last)
    # A small network's many kernels cost more to launch than to run: they are launched as a whole.
    forward = torch.compile(network, mode="reduce-overhead") if compiled else network
    step_of = _Step(
        forward, X, views, weights, pseudo_labels, n_clusters, precision, schedule.views
    )
    batch_size = min(schedule.batch_size, len(X))
    every = look_every(device)
    pending: list[dict[str, Tensor]] = []
    guard = nullcontext() if checkpoint is None else checkpoint.deferring_interrupts()
    with guard, convolutions(fastest=False):
        start = time.perf_counter()
        network.train()
        for step in range(done + 1, schedule.steps + 1):
            if before_step is not None and step in before_step:
                before_step[step]()
                network.train()
            for group in optimizer.param_groups:
                group["lr"] = schedule.rate(step - 1)
            pending.append(step_of(batch_size, generator))
            if processes.active():
                sum_gradients(network)
            optimizer.step()
            if step % every and step != schedule.steps:
                continue
            _record(pending, step, start, schedule, history)
            pending.clear()
            if checkpoint is not None:
                checkpoint.after_step("train", step, state)
            start = time.perf_counter()
    network.eval()


def look_every(device: torch.device) -> int:
    """How many steps lie between two looks at the losses."""
    return REPORT_EVERY if device.type == "cuda" else 1


def _optimizer(network: Any, schedule: Schedule, device: torch.device) -> torch.optim.Optimizer:
    common: dict[str, Any] = {"lr": schedule.learning_rate, "fused": device.type == "cuda"}
    if schedule.sgd:
        return torch.optim.SGD(
            network.parameters(), momentum=MOMENTUM, weight_decay=WEIGHT_DECAY_SGD, **common
        )
    return torch.optim.AdamW(network.parameters(), weight_decay=WEIGHT_DECAY, **common)


def _record(
    parts: Sequence[dict[str, Tensor]],
    last: int,
    start: float,
    schedule: Schedule,
    history: History,
) -> None:
    """Rows of the history for the steps up to ``last``; the only wait for the device."""
    values = torch.stack([torch.stack(list(row.values())) for row in parts])
    if schedule.steps > MANY_STEPS:
        values = values.mean(0, keepdim=True)
    rows = values.tolist()
    seconds = (time.perf_counter() - start) / len(parts)
    for step, row in enumerate(rows, last - len(rows) + 1):
        named = dict(zip(parts[0], row, strict=True))
        loss = sum(row)
        check_finite(loss, "training", step, schedule.learning_rate)
        history.record(phase="train", step=step, loss=loss, seconds=seconds, **named)


@dataclass
class _Step:
    """One step's gradient, left in the parameters; gives the losses, still on the device."""

    network: Any
    X: Inputs
    views: Views
    weights: Mapping[str, float]
    pseudo_labels: PseudoLabels
    n_clusters: int
    precision: str
    n_views: int = 2

    def __call__(self, batch_size: int, generator: torch.Generator) -> dict[str, Tensor]:
        device, others = generator.device, self.n_views - 1
        rows = torch.randperm(len(self.X), generator=generator, device=device)[:batch_size]
        uniform = torch.rand(others * batch_size, generator=generator, device=device)
        drawn = self.views.draw(self.n_views * batch_size, generator)
        return self.gradient(rows, uniform, drawn)

    def gradient(self, rows: Tensor, uniform: Tensor, drawn: Drawn) -> dict[str, Tensor]:
        """The gradient of the loss of a batch, given what is random about positives and views."""
        others = self.pseudo_labels.positive_of(rows.repeat(self.n_views - 1), uniform)
        samples = torch.cat((rows, others))  # (n_views n,)
        own = processes.shard(len(samples), processes.rank(), processes.size())
        x = self.views.apply(self.X[samples[own]], drawn.rows(own))
        self.network.zero_grad(set_to_none=True)
        with network_context(self.precision, x.device):
            outputs = self.network(_channels_last(x))
        parts = [_whole(o, own, len(samples)) for o in outputs]
        features, projections, logits, *predictions = (p.chunk(self.n_views) for p in parts)
        targets = self.pseudo_labels.targets[samples].chunk(self.n_views)
        batch = Batch(features, projections, logits, targets, self.n_clusters, *predictions)
        with processes.alone():
            terms = weighted_terms(batch, self.weights)
        # Every process has the whole loss, and gradients are summed over them.
        (torch.stack(list(terms.values())).sum() / processes.size()).backward()
        return {name: value.detach() for name, value in terms.items()}


def _whole(output: Tensor, own: slice, n: int) -> Tensor:
    """Every process's rows of a batch as one matrix, with gradients."""
    if not processes.active():
        return output
    if output.dtype != torch.float64:
        output = output.float()
    padded = F.pad(output, (0, 0, own.start, n - own.stop))
    return processes.differentiable_total(padded)


@torch.no_grad()
def view_features(network: Any, X: Inputs, precision: str = "float32") -> Tensor:
    """Features (N, d) of the samples themselves, at unit length."""
    network.eval()
    out = torch.empty(len(X), network.latent_dim, device=X.device)
    for rows in chunk_slices(len(X), evaluation_chunk(X)):
        x = X[rows]
        with network_context(precision, x.device):
            features = network.features(_channels_last(x))
        out[rows] = F.normalize(features.float(), dim=1)
    return out


def _channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last) if x.is_cuda and x.ndim == 4 else x
