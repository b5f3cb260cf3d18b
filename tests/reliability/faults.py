"""Faults at every step of a command that writes, and whether what is left is as good as before.

    python tests/reliability/faults.py --commands predict,fit --json faults.json

A child process runs a command of dcfsc. Every rename, removal, new folder, write and sync that it
asks the system for is counted, and at the n-th one

- ``kill``: the process is killed, a write half done;
- ``full``: the disk is full, from here to the end of the process, a write half done;
- ``fail``: the one call fails with an input/output error;
- ``interrupt`` and ``terminate``: it gets the signal of Ctrl-C, or of a polite kill.

This is done for all n until the command ends undisturbed. After each fault what was there before
must be readable, the command must succeed when it is repeated, in the way that its message names
if it names one, and what it has written must be what it writes undisturbed, and no more.

Children are forked from a process that has imported everything, so that one takes a fraction of a
second.
"""

from __future__ import annotations

import argparse
import builtins
import errno
import io
import json
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.append(str(Path(__file__).resolve().parents[2]))  # for research

import numpy as np
import safetensors
import safetensors.torch
from typer.main import get_command

from dcfsc import cli
from dcfsc.errors import InputError
from dcfsc.estimators.registry import load_model
from dcfsc.runs.folder import read_run
from dcfsc.runs.life import MODEL, State, state_of
from research import __main__ as research

MODES = ("kill", "full", "fail", "interrupt", "terminate")
CHANGES = ("replace", "rename", "unlink", "remove", "mkdir", "rmdir", "fsync", "write", "ftruncate")
CHANGES += ("symlink", "link", "chmod", "open")
NEEDS_ROOM = ("mkdir", "write", "posix_fallocate", "open", "symlink", "link")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
MOST_POINTS = 2000
COMMAND_LINE = get_command(cli.app)  # built once, not in every child
RESEARCH = get_command(research.app)


class Faults:
    """Counts the changes that this process asks for, and disturbs the n-th of them."""

    def __init__(self, mode: str, at: int, root: Path):
        self.mode, self.at, self.root = mode, at, str(root)
        self.count, self.full = 0, False

    def install(self) -> None:
        """Stand between this process and the system, for all changes made from here on."""
        for name in CHANGES:
            setattr(os, name, self._watched(name, getattr(os, name)))
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate = self._watched("posix_fallocate", os.posix_fallocate)
        builtins.open = io.open = self._open  # type: ignore[assignment]
        safetensors.torch.serialize_file = self._serialize  # type: ignore[attr-defined]

    def _watched(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            half = (
                (lambda: call(args[0], args[1][: len(args[1]) // 2])) if name == "write" else None
            )
            said = args[:1] in ((1,), (2,))  # to the person, which is no change
            reads = name == "open" and not args[1] & WRITES
            if not (said or reads):
                self.point(name, half)
            return call(*args, **kwargs)

        return watched

    def _open(self, file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        writes = isinstance(file, str | os.PathLike) and set(mode) & set("wax+")
        elsewhere = not writes or not os.path.abspath(file).startswith(self.root)
        if elsewhere or kwargs.get("opener") is not None:
            return io._original_open(file, mode, *args, **kwargs)  # type: ignore[attr-defined]
        self.point("open")
        raw = _Watched(file, mode.replace("b", "").replace("t", ""), faults=self)
        buffered = io.BufferedWriter(raw) if "+" not in mode else io.BufferedRandom(raw)
        if "b" in mode:
            return buffered
        return io.TextIOWrapper(buffered, kwargs.get("encoding"), newline=kwargs.get("newline"))

    def _serialize(self, tensors: Any, path: Any, metadata: Any = None) -> None:
        content = safetensors.serialize(tensors, metadata=metadata)
        with self._open(path, "wb") as file:
            file.write(content)

    def point(self, name: str, half: Callable[[], Any] | None = None) -> None:
        """One change is asked for."""
        self.count += 1
        if self.full and name in NEEDS_ROOM:
            raise OSError(errno.ENOSPC, "No space left on device")
        if self.count != self.at:
            return
        if half is not None and self.mode in ("kill", "full"):
            half()
        if self.mode == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.mode == "full":
            self.full = True
            if name in NEEDS_ROOM:
                raise OSError(errno.ENOSPC, "No space left on device")
        elif self.mode == "fail":
            raise OSError(errno.EIO, "Input/output error")
        else:
            os.kill(os.getpid(), signal.SIGINT if self.mode == "interrupt" else signal.SIGTERM)


io._original_open = io.open  # type: ignore[attr-defined]


class _Watched(io.FileIO):
    """A file whose every write is a point."""

    def __init__(self, file: Any, mode: str, faults: Faults):
        super().__init__(file, mode)
        self.faults = faults

    def write(self, content: Any) -> int:
        view = memoryview(content)
        self.faults.point("write", lambda: io.FileIO.write(self, view[: len(view) // 2]))
        return io.FileIO.write(self, view)


@dataclass(frozen=True)
class Command:
    """A command line, what lies in its folder before, and how to tell that nothing was lost."""

    words: tuple[str, ...]
    prepare: tuple[tuple[str, ...], ...] = ()  # commands that run before, undisturbed
    ignored: tuple[str, ...] = ()  # files whose names differ from run to run
    modes: tuple[str, ...] = MODES
    runs: tuple[str, ...] = ("run",)  # folders of runs that it reads or writes
    again: tuple[str, ...] = ()  # what it writes when it is repeated after it has ended
    retried: bool = False  # a failure is part of the result, and tried again by the next call


FIT = ("fit", "points.npy", "-k", "3", "--device", "cpu", "--out", "run")
CLOSED = (*FIT, "--representation", "given")
PICTURES = ("fit", "pictures", *CLOSED[2:], "--no-report")
EXPORT = ("export", "run", "--to")
DEEP = (*FIT, "--method", "dcfsc", "--pretrain-epochs", "1", "--steps", "3")
PREDICT = ("predict", "run", "points.npy", "--device", "cpu")
SORT = ("predict", "run", "pictures", "--device", "cpu", "--to", "folders")
REPRODUCE = ("reproduce", "smoke", "--methods", "closed-form", "--device", "cpu", "--trials", "1")
COMMANDS = {
    "fit": Command(CLOSED),
    "fit over a run": Command(
        (*CLOSED, "--overwrite", "--no-report"), ((*CLOSED, "--no-report", "--seed", "1"),)
    ),
    "fit dcfsc": Command((*DEEP, "--no-report", "--checkpoint-every", "0")),
    "fit dcfsc over a run": Command(
        (*DEEP, "--overwrite", "--no-report", "--checkpoint-every", "0"),
        ((*CLOSED, "--seed", "1"),),
    ),
    "fit with features": Command(
        (*CLOSED, "--features", "autoencoder", "--pretrain-epochs", "1", "--no-report")
    ),
    "predict": Command(PREDICT, ((*CLOSED, "--no-report"),), again=("run/predictions-2.csv",)),
    "predict shards": Command(
        ("predict", "run", "shards", "--device", "cpu", "--out", "labeled"),
        ((*CLOSED, "--no-report"),),
    ),
    "report": Command(("report", "run"), (CLOSED,)),
    "name": Command(("name", "run", "0=zebras", "--merge", "1,2", "--split", "0"), (CLOSED,)),
    "export a table": Command((*EXPORT, "csv"), (CLOSED, ("name", "run", "0=zebras"))),
    "export links": Command((*EXPORT, "folders"), (PICTURES,)),
    "export copies over a folder": Command(
        (*EXPORT, "folders", "--copy", "--overwrite"), (PICTURES, (*EXPORT, "folders"))
    ),
    "predict to folders": Command(SORT, (PICTURES,), again=("run/predictions-2.csv",)),
    "export after new files": Command(
        (*EXPORT, "folders"), (PICTURES, SORT, ("name", "run", "0=zebras"))
    ),
    "reproduce": Command(REPRODUCE, ignored=("runs",), runs=(), retried=True),
    "reproduce in shards": Command(
        (*REPRODUCE[:2], "--methods", "closed-form,ssc-omp", *REPRODUCE[4:], "--shard", "1/2"),
        ((*REPRODUCE[:2], "--methods", "closed-form,ssc-omp", *REPRODUCE[4:], "--shard", "0/2"),),
        ignored=("runs",),
        runs=(),
        retried=True,
    ),
}


def forked(
    work: Callable[[], int | None], place: Path, said_to: Path | None = None
) -> tuple[int, str]:
    """Do the work in a child within a folder; its exit code and what it said to the error file."""
    file = said_to or Path(f"{place}.said")
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.chdir(place)
            said = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, 0)
            os.dup2(nowhere, 1)
            os.dup2(said, 2)
            code = int(work() or 0)
        except SystemExit as error:
            code = int(error.code or 0)
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code, file.read_text()


def call(words: tuple[str, ...]) -> int:
    program = RESEARCH if words[0] == "reproduce" else COMMAND_LINE
    return int(program(list(words), standalone_mode=False) or 0)


def disturbed(words: tuple[str, ...], place: Path, mode: str, at: int) -> tuple[int, str, int]:
    """Run a command with a fault at its ``at``-th change; exit code, errors, changes counted."""
    counted = Path(f"{place}.count")

    def work() -> int:
        faults = Faults(mode, at, place)
        count = io._original_open(counted, "w")  # type: ignore[attr-defined]
        faults.install()
        try:
            return call(words)
        finally:
            count.write(str(faults.count))
            count.close()

    counted.write_text(str(at))  # where a killed process cannot tell
    code, said = forked(work, place)
    return code, said, int(counted.read_text() or at)


def content(place: Path, ignored: tuple[str, ...]) -> dict[str, Any]:
    """The names of all files, with labels and predictions as they are."""
    found: dict[str, Any] = {}
    for path in sorted(place.rglob("*")):
        name = str(path.relative_to(place))
        if path.is_dir() or any(part in ignored for part in Path(name).parts[:-1]):
            continue
        found[name] = path.read_text() if path.suffix == ".csv" and "table" not in name else None
    return found


def labels_of(folder: Path) -> np.ndarray:
    """Labels of a run whose record, labels and model agree."""
    run = read_run(folder)
    model: Any = load_model(folder / MODEL, device="cpu")
    if not np.array_equal(model.labels_, run.labels) or model.random_state != run.record["seed"]:
        raise AssertionError(f"{folder.name} is a mixture of runs")
    return run.labels


def repeated(words: tuple[str, ...], place: Path, said: str) -> tuple[int, str]:
    """Do what the message says, or else repeat the command and do what it says then."""
    named = re.search(r"resume with: dcfsc (.*)$", said.strip())
    if named:
        return forked(lambda: call(tuple(shlex.split(named[1]))), place)
    if "with --resume" in said:
        words = (*words, "--resume")
    code, said = forked(lambda: call(words), place)
    added = re.search(r"add (--resume|--overwrite) ", said)
    if code == 2 and added and added[1] not in words:
        code, said = forked(lambda: call((*words, added[1])), place)
    return code, said


def walk(name: str, mode: str, root: Path, every: int = 1) -> dict[str, Any]:
    """Disturb a command at every change that it makes; counts, and what went wrong."""
    command = COMMANDS[name]
    origin = root / "origin"
    shutil.rmtree(origin, ignore_errors=True)
    origin.mkdir(parents=True)
    write_points(origin / "points.npy")
    write_pictures(origin / "pictures")
    write_shards(origin / "shards")
    for words in command.prepare:
        code, said = forked(lambda words=words: call(words), origin)  # type: ignore[misc]
        if code:
            raise RuntimeError(said)
    earlier = {run: labels_of(origin / run) for run in command.runs if (origin / run).is_dir()}
    reference = root / "reference"
    shutil.rmtree(reference, ignore_errors=True)
    shutil.copytree(origin, reference)
    code, said, changes = disturbed(command.words, reference, "none", 0)
    if code:
        raise RuntimeError(said)
    expected = content(reference, command.ignored)
    wrong: list[str] = []
    tried = 0
    for at in range(1, min(changes, MOST_POINTS) + 1, every):
        place = root / "place"
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(origin, place)
        code, said, _ = disturbed(command.words, place, mode, at)
        tried += 1
        try:
            check(command, place, (code, said), earlier, expected)
        except (AssertionError, InputError) as error:
            wrong.append(f"{name}, {mode} at {at} of {changes}: {error}")
    return {"points": changes, "tried": tried, "survived": tried - len(wrong), "wrong": wrong}


def check(
    command: Command,
    place: Path,
    ended: tuple[int, str],
    earlier: dict[str, np.ndarray],
    expected: dict[str, Any],
) -> None:
    """What was there can be read, and the command succeeds to the undisturbed end."""
    code, said = ended
    if "Traceback" in said or len(said.strip().splitlines()) > 2:
        raise AssertionError(f"it said {said.strip()[-300:]}")
    for run in earlier:
        labels = labels_of(place / run)
        if not any(np.array_equal(labels, good) for good in (earlier[run], _labels(expected, run))):
            raise AssertionError("the run holds labels of no run")
    if code != 0 or "error" in said or command.retried:
        code, said = repeated(command.words, place, said)
        if code:
            raise AssertionError(f"repeated, it ended with {code}: {said.strip()[-300:]}")
    for run in command.runs:
        if state_of(place / run) is State.WHOLE:
            read_run(place / run)  # as the next command does, where the last removal failed
    left = content(place, command.ignored)
    whole = {k: v for k, v in expected.items() if not k.endswith(("report.html", "details.npz"))}
    missing = {k for k, v in whole.items() if left.get(k, "nothing") != v}
    more = set(left) - set(expected) - set(command.again)
    if missing or more:
        raise AssertionError(f"different: {sorted(missing)}; left over: {sorted(more)}")


def _labels(expected: dict[str, Any], run: str) -> np.ndarray:
    rows = expected[f"{run}/labels.csv"].splitlines()
    column = rows[0].split(",").index("label")
    return np.array([int(row.split(",")[column]) for row in rows[1:]])


def write_points(path: Path) -> None:
    from dcfsc.io import synthetic

    np.save(path, synthetic(36, 3, 2, 8, random_state=0).X)


def write_shards(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dcfsc.io import synthetic

    folder.mkdir()
    X = synthetic(36, 3, 2, 8, random_state=0).X
    for s in range(2):
        table = {"id": [f"{s}-{i}" for i in range(18)], "emb": list(X[18 * s : 18 * s + 18])}
        pq.write_table(pa.table(table), folder / f"{s}.parquet")


def write_pictures(folder: Path) -> None:
    from PIL import Image

    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(9):
        shape = ((4, 1), (1, 4), (4, 4))[i % 3]
        pixels = np.broadcast_to(rng.integers(0, 256, shape, dtype=np.uint8), (4, 4))
        Image.fromarray(pixels.copy()).save(folder / f"{i}.png")


def import_what_commands_import(names: list[str], root: Path) -> None:
    """Let a child run the commands once and tell which modules it loaded; then load them here."""
    import importlib
    from contextlib import suppress

    place = root / "imports"
    place.mkdir(parents=True)
    write_points(place / "points.npy")
    write_pictures(place / "pictures")
    write_shards(place / "shards")

    def work() -> None:
        for name in names:
            for words in (*COMMANDS[name].prepare, COMMANDS[name].words):
                with suppress(SystemExit):
                    call((*words, "--overwrite") if words[0] == "fit" else words)
        (place / "modules").write_text("\n".join(sys.modules))

    code, said = forked(work, place)
    if code:
        raise RuntimeError(said)
    for name in (place / "modules").read_text().splitlines():
        if name not in sys.modules and not name.startswith("__"):
            with suppress(Exception):  # what is made while running cannot be imported
                importlib.import_module(name)


def measure(names: list[str], modes: list[str], every: int = 1) -> dict[str, Any]:
    """Walk each command in each mode."""
    found: dict[str, Any] = {}
    for name, mode in _walks(names, modes):
        with tempfile.TemporaryDirectory(prefix="faults-") as folder:
            begin = time.perf_counter()
            result = walk(name, mode, Path(folder), every)
            result["seconds"] = round(time.perf_counter() - begin, 1)
            found.setdefault(name, {})[mode] = result
    return found


def _walks(names: list[str], modes: list[str]) -> Iterator[tuple[str, str]]:
    return ((name, mode) for name in names for mode in modes if mode in COMMANDS[name].modes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--commands", default=",".join(COMMANDS))
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--every", type=int, default=1, help="only every so many points")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        import_what_commands_import(options.commands.split(","), Path(folder))
    found = measure(options.commands.split(","), options.modes.split(","), options.every)
    text = json.dumps(summed(found), indent=1)
    if options.json is not None:
        options.json.write_text(text + "\n")
    print(text)
    return int(any(walk["wrong"] for modes in found.values() for walk in modes.values()))


def summed(found: dict[str, Any]) -> dict[str, Any]:
    """The walks with their sums, by command and in all."""
    commands = {
        name: {
            "changes": max(walk["points"] for walk in modes.values()),
            **{key: sum(walk[key] for walk in modes.values()) for key in ("tried", "survived")},
            "modes": modes,
        }
        for name, modes in found.items()
    }
    total = {key: sum(c[key] for c in commands.values()) for key in ("tried", "survived")}
    return {"commands": commands, "total": total}


if __name__ == "__main__":
    sys.exit(main())
