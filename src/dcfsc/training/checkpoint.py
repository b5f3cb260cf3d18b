"""Where training stands, on disk: written whole or not at all, and gone on from to the same end."""

from __future__ import annotations

import hashlib
import json
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save_file
from torch import Tensor, nn

from dcfsc import processes
from dcfsc.errors import InputError
from dcfsc.files import atomic_path

from .history import History

FORMAT = 1
PHASES = ("pretrain", "train")
EVERY_SECONDS = 30.0


@dataclass
class State:
    """What a step of a training changes."""

    network: nn.Module
    optimizer: torch.optim.Optimizer
    history: History
    generator: torch.Generator | None = None


class Checkpoint:
    """Weights, optimizer, random generator and history after a step, in one safetensors file.

    Parameters
    ----------
    path : the file; if it is there, training goes on from it.
    identity : what the run is. A file of another run is refused, never continued.
    every : seconds between two writings; 0 writes after every step.

    Attributes
    ----------
    notes : whatever else must be the same after a restart; saved along.

    Where samples are divided among processes, the first one alone reads and writes the file, and
    an interrupt of one stops all of them after the same step.
    """

    def __init__(self, path: str | Path, identity: str, every: float = EVERY_SECONDS):
        self.path, self.identity, self.every = Path(path), identity, every
        self.notes: dict[str, Any] = {}
        self._tensors: dict[str, Tensor] = {}
        self._saved: dict[str, Any] | None = None
        self._written = time.monotonic()
        self._interrupted = False
        self._last: int | None = None  # step that the file is of
        self._failing = False
        content = None
        if processes.rank() == 0 and self.path.exists():
            with suppress(OSError):  # what cannot be read is as damaged as an empty file
                content = self.path.read_bytes()
            content = content or b""
        content = processes.broadcast_bytes(content)
        if content is not None:
            self._read(content)

    @property
    def resumed(self) -> bool:
        """Whether there was a file to go on from."""
        return self._saved is not None

    def finished(self, phase: str) -> bool:
        """Whether the file was written in a later phase."""
        return self._saved is not None and PHASES.index(self._saved["phase"]) > PHASES.index(phase)

    def resume(self, phase: str, state: State) -> int:
        """Put everything back as it was and return the last step done in ``phase``, or 0."""
        if self._saved is None or self._saved["phase"] != phase:
            return 0
        try:
            state.network.load_state_dict(self._part("network."))
            _restore_optimizer(state.optimizer, self._part("optimizer."))
            if state.generator is not None and "generator" in self._tensors:
                state.generator.set_state(self._tensors["generator"])
            state.history[:] = self._saved["history"]
            step = self._last = int(self._saved["step"])
        except (KeyError, TypeError, ValueError, RuntimeError):
            raise self._damaged() from None
        self._tensors = {}
        return step

    def after_step(self, phase: str, step: int, state: State) -> None:
        """Save if it is time; stop here if the person or the system asked for it meanwhile."""
        self._interrupted = processes.total_number(self._interrupted) > 0
        due = time.monotonic() - self._written >= self.every or self._interrupted
        if due and processes.rank() == 0:
            tensors = {f"network.{k}": v for k, v in state.network.state_dict().items()}
            for i, moments in state.optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer.{i}.{k}": torch.as_tensor(v) for k, v in moments.items()}
            if state.generator is not None:
                tensors["generator"] = state.generator.get_state()
            values = {
                "format": FORMAT,
                "identity": self.identity,
                "phase": phase,
                "step": step,
                "history": list(state.history),
                "notes": self.notes,
            }
            contiguous = {k: v.detach().cpu().contiguous() for k, v in tensors.items()}
            values["sha256"] = fingerprint(values, contiguous)
            try:
                with atomic_path(self.path) as part:
                    save_file(contiguous, part, metadata={"dcfsc": json.dumps(values)})
                self._last, self._failing = step, False
            except (OSError, SafetensorError) as error:
                self._tell_failure(error)
        if due:
            self._written = time.monotonic()
        if self._interrupted:
            raise KeyboardInterrupt

    def _tell_failure(self, error: Exception) -> None:
        """Training goes on where its state cannot be saved: that is said once, and tried again."""
        if self._failing:
            return
        self._failing = True
        reason = getattr(error, "strerror", None) or error
        kept = "there is none yet" if self._last is None else f"the one of step {self._last} stays"
        warnings.warn(
            f"cannot write the checkpoint {self.path}: {reason}; {kept}. Training continues and "
            "tries again.",
            RuntimeWarning,
            stacklevel=3,
        )

    @contextmanager
    def deferring_interrupts(self) -> Iterator[None]:
        """Let Ctrl-C and a polite kill wait for the end of the step; a second Ctrl-C does not."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        def ask(number: int, frame: FrameType | None) -> None:
            # A launcher may repeat itself; only a person who does so is impatient.
            if self._interrupted and not processes.active():
                raise KeyboardInterrupt
            self._interrupted = True

        before = {s: signal.signal(s, ask) for s in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def noted(self, name: str) -> float:
        """A number among the notes of the file."""
        try:
            return float(self.notes[name])
        except (KeyError, TypeError, ValueError):
            raise self._damaged() from None

    def _part(self, prefix: str) -> dict[str, Tensor]:
        return {k.removeprefix(prefix): v for k, v in self._tensors.items() if k.startswith(prefix)}

    def _damaged(self) -> InputError:
        return InputError(
            f"the checkpoint {self.path} is damaged or not written by dcfsc; delete it to start "
            "again."
        )

    def _read(self, content: bytes) -> None:
        try:
            self._tensors = load(content)
            header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
            values = json.loads(header["__metadata__"]["dcfsc"])
            whole = values.pop("sha256") == fingerprint(values, self._tensors)
            known = values["format"] == FORMAT and values["phase"] in PHASES
            known &= {"identity", "notes", "step", "history"} <= values.keys()
        except (SafetensorError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
            raise self._damaged() from None
        if not (whole and known):
            raise self._damaged()
        if values["identity"] != self.identity:
            raise InputError(
                f"the checkpoint {self.path} belongs to a run with other data or parameters; give "
                "the same ones to resume it, or delete it to start again."
            )
        self._saved, self.notes = values, values["notes"]


def fingerprint(values: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    """SHA-256 of JSON values and tensors: a bit that flipped on the disk would go unnoticed."""
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"{name} {value.dtype} {tuple(value.shape)};".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
