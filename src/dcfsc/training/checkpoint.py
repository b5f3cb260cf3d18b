"""Where training stands, on disk: written whole or not at all, and gone on from to the same end."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from dcfsc import distributed
from dcfsc.errors import InputError
from dcfsc.files import atomic_path

from .history import History, Plateau

FORMAT = 1
PHASES = ("pretrain", "train")
EVERY_SECONDS = 30.0


class Checkpoint:
    """Weights, optimiser, random generator and history after a step, in one safetensors file.

    Parameters
    ----------
    path : the file; if it is there, training goes on from it.
    identity : what the run is. A file of another run is refused, never continued.
    every : seconds between two writings; 0 writes after every step.

    Attributes
    ----------
    notes : whatever else must be the same after a restart; saved along.

    Where samples are divided among processes all read the file and the first one writes it.
    """

    def __init__(self, path: str | Path, identity: str, every: float = EVERY_SECONDS):
        self.path, self.identity, self.every = Path(path), identity, every
        self.notes: dict[str, Any] = {}
        self._tensors: dict[str, Tensor] = {}
        self._saved: dict[str, Any] | None = None
        self._written = time.monotonic()
        self._interrupted = False
        if self.path.exists():
            self._read()

    @property
    def resumed(self) -> bool:
        """Whether there was a file to go on from."""
        return self._saved is not None

    def finished(self, phase: str) -> bool:
        """Whether the file was written in a later phase."""
        return self._saved is not None and PHASES.index(self._saved["phase"]) > PHASES.index(phase)

    def resume(
        self,
        phase: str,
        network: nn.Module,
        optimizer: torch.optim.Optimizer,
        history: History,
        *,
        generator: torch.Generator | None = None,
        plateau: Plateau | None = None,
    ) -> int:
        """Put everything back as it was and return the last step done in ``phase``, or 0."""
        if self._saved is None or self._saved["phase"] != phase:
            return 0
        network.load_state_dict(self._part("network."))
        _restore_optimizer(optimizer, self._part("optimizer."))
        if generator is not None and "generator" in self._tensors:
            generator.set_state(self._tensors["generator"])
        if plateau is not None:
            plateau.state = tuple(self._saved["plateau"])
        history[:] = self._saved["history"]
        self._tensors = {}
        return int(self._saved["step"])

    def after_step(
        self,
        phase: str,
        step: int,
        network: nn.Module,
        optimizer: torch.optim.Optimizer,
        history: History,
        *,
        generator: torch.Generator | None = None,
        plateau: Plateau | None = None,
    ) -> None:
        """Save if it is time; stop here if the person or the system asked for it meanwhile."""
        due = time.monotonic() - self._written >= self.every or self._interrupted
        if due and distributed.rank() == 0:
            tensors = {f"network.{k}": v for k, v in network.state_dict().items()}
            for i, state in optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer.{i}.{k}": torch.as_tensor(v) for k, v in state.items()}
            if generator is not None:
                tensors["generator"] = generator.get_state()
            values = {
                "format": FORMAT,
                "identity": self.identity,
                "phase": phase,
                "step": step,
                "history": list(history),
                "plateau": None if plateau is None else plateau.state,
                "notes": self.notes,
            }
            with atomic_path(self.path) as part:
                contiguous = {k: v.detach().cpu().contiguous() for k, v in tensors.items()}
                save_file(contiguous, part, metadata={"dcfsc": json.dumps(values)})
        if due:
            self._written = time.monotonic()
        if self._interrupted:
            raise KeyboardInterrupt

    @contextmanager
    def deferring_interrupts(self) -> Iterator[None]:
        """Let Ctrl-C and a polite kill wait for the end of the step; a second Ctrl-C does not."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def ask(number: int, frame: FrameType | None) -> None:
            if self._interrupted:
                raise KeyboardInterrupt
            self._interrupted = True

        before = {s: signal.signal(s, ask) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def remove(self) -> None:
        """The run is whole: what was kept for a restart goes."""
        if distributed.rank() == 0:
            self.path.unlink(missing_ok=True)

    def _part(self, prefix: str) -> dict[str, Tensor]:
        return {k.removeprefix(prefix): v for k, v in self._tensors.items() if k.startswith(prefix)}

    def _read(self) -> None:
        damaged = InputError(
            f"the checkpoint {self.path} is damaged or not written by dcfsc; delete it to start "
            "anew."
        )
        try:
            with safe_open(self.path, framework="pt") as file:
                values = json.loads((file.metadata() or {})["dcfsc"])
                self._tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            known = values["format"] == FORMAT and values["phase"] in PHASES
        except (SafetensorError, OSError, KeyError, TypeError, ValueError):
            raise damaged from None
        if not known:
            raise damaged
        if values["identity"] != self.identity:
            raise InputError(
                f"the checkpoint {self.path} belongs to a run with other data or parameters; give "
                "the same ones to go on with it, or delete it to start anew."
            )
        self._saved, self.notes = values, values["notes"]


def _restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
