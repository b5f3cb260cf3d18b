"""Training an encoder on pairs of views: mini-batches, AdamW, one cycle of the learning rate.

A step takes a random batch of samples, gives every sample a partner (itself, or a neighbour that
the closed form has found), makes a view of each, and lowers the weighted sum of the losses. Nothing
in a step waits for the device. Where samples are divided among processes, every one encodes its own
part of each batch; features are then exchanged, and every process computes the loss of all of it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dcfsc import distributed

from .checkpoint import Checkpoint
from .chunked import Inputs, chunk_slices, evaluation_chunk
from .history import History
from .loop import check_finite, guarded
from .norms import sum_gradients
from .precision import network_context, repeatable_convolutions
from .view_lessons import Lessons
from .view_losses import Batch, weighted_terms
from .views import Views

WARM_UP = 0.15  # share of the steps in which the learning rate rises
WEIGHT_DECAY = 1e-4
REPORT_EVERY = 25  # steps on a GPU between two looks at the losses, each of which waits for it


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train."""

    steps: int
    batch_size: int = 1024
    learning_rate: float = 3e-3

    def rate(self, step: int) -> float:
        """One cycle: up to ``learning_rate`` along a cosine, then down to zero along another."""
        rising = WARM_UP * self.steps
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
    lessons: Lessons,
    *,
    n_clusters: int,
    generator: torch.Generator,
    history: History,
    lessons_at: Mapping[int, Callable[[], None]] | None = None,
    precision: str = "float32",
    compiled: bool = False,
    checkpoint: Checkpoint | None = None,
) -> None:
    """Train ``network`` in place.

    Parameters
    ----------
    X : the samples; where they are divided among processes, all of them.
    weights : of the losses, by name.
    lessons : where partners and targets come from.
    lessons_at : by step, what to call before it; it may change the lessons.
    generator : on the device of X; the same in every process.
    """
    device = X.device
    optimizer = torch.optim.AdamW(
        network.parameters(),
        lr=schedule.learning_rate,
        weight_decay=WEIGHT_DECAY,
        fused=device.type == "cuda",
    )
    state = nn.ModuleDict({"network": network, "lessons": lessons})
    done = 0
    if checkpoint is not None:
        done = checkpoint.resume("train", state, optimizer, history, generator=generator)
    if device.type == "cuda":
        network.to(memory_format=torch.channels_last)
    forward = torch.compile(network) if compiled else network
    step_of = _Step(forward, X, views, weights, lessons, n_clusters, precision)
    batch_size = min(schedule.batch_size, len(X))
    every = REPORT_EVERY if device.type == "cuda" else 1
    unseen: list[dict[str, Tensor]] = []
    with guarded(checkpoint), repeatable_convolutions():
        start = time.perf_counter()
        network.train()
        for step in range(done + 1, schedule.steps + 1):
            if lessons_at is not None and step in lessons_at:
                lessons_at[step]()
                network.train()
            for group in optimizer.param_groups:
                group["lr"] = schedule.rate(step - 1)
            optimizer.zero_grad(set_to_none=True)
            unseen.append(step_of(batch_size, generator))
            if distributed.active():
                sum_gradients(network)
            optimizer.step()
            if step % every and step != schedule.steps:
                continue
            seconds = (time.perf_counter() - start) / len(unseen)
            _record(unseen, step, seconds, schedule.learning_rate, history)
            unseen.clear()
            if checkpoint is not None:
                checkpoint.after_step("train", step, state, optimizer, history, generator=generator)
            start = time.perf_counter()
    network.eval()


def _record(
    parts: Sequence[dict[str, Tensor]], last: int, seconds: float, rate: float, history: History
) -> None:
    """Rows of the history for the steps up to ``last``; the only wait for the device."""
    values = torch.stack([torch.stack(list(row.values())) for row in parts]).tolist()
    for step, row in enumerate(values, last - len(parts) + 1):
        named = dict(zip(parts[0], row, strict=True))
        loss = sum(row)
        check_finite(loss, "training", step, rate)
        history.record(phase="train", step=step, loss=loss, seconds=seconds, **named)


class _Step:
    """One step's gradient, left in the parameters; gives the losses, still on the device."""

    def __init__(
        self,
        network: Any,
        X: Inputs,
        views: Views,
        weights: Mapping[str, float],
        lessons: Lessons,
        n_clusters: int,
        precision: str,
    ):
        self.network, self.X, self.views, self.weights = network, X, views, weights
        self.lessons, self.n_clusters, self.precision = lessons, n_clusters, precision

    def __call__(self, batch_size: int, generator: torch.Generator) -> dict[str, Tensor]:
        n, device = len(self.X), generator.device
        rows = torch.randperm(n, generator=generator, device=device)[:batch_size]
        uniform = torch.rand(batch_size, generator=generator, device=device)
        pairs = torch.cat((rows, self.lessons.partner_of(rows, uniform)))  # (2 n,)
        drawn = self.views.draw(len(pairs), generator)
        own = distributed.shard(len(pairs), distributed.rank(), distributed.size())
        x = self.views.apply(self.X[pairs[own]], drawn.rows(own))
        with network_context(self.precision, device):
            outputs = self.network(_channels_last(x))
        features, projections, logits = (_halves(_whole(o, own, len(pairs))) for o in outputs)
        targets = _halves(self.lessons.targets[pairs])
        batch = Batch(features, projections, logits, targets, self.n_clusters)
        with distributed.alone():
            parts = weighted_terms(batch, self.weights)
        # Every process has the whole loss, and gradients are summed over them.
        (torch.stack(list(parts.values())).sum() / distributed.size()).backward()
        return {name: value.detach() for name, value in parts.items()}


def _halves(rows: Tensor) -> tuple[Tensor, Tensor]:
    first, second = rows.tensor_split(2)
    return first, second


def _whole(output: Tensor, own: slice, n: int) -> Tensor:
    """Every process's rows of a batch as one matrix, with gradients."""
    if not distributed.active():
        return output
    if output.dtype != torch.float64:
        output = output.float()
    padded = F.pad(output, (0, 0, own.start, n - own.stop))
    return distributed.differentiable_total(padded)


@torch.no_grad()
def view_features(network: Any, X: Inputs, precision: str = "float32") -> Tensor:
    """Features (N, d) of the samples themselves, at unit length."""
    network.eval()
    out = torch.empty(len(X), network.latent_dim, device=X.device)
    for rows in chunk_slices(len(X), evaluation_chunk(X)):
        x = X[rows]
        with network_context(precision, x.device):
            features = network.encoder(_channels_last(x))
        out[rows] = F.normalize(features.float(), dim=1)
    return out


def _channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last) if x.is_cuda and x.ndim == 4 else x
