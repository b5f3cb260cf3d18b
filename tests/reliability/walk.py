"""Every command that writes, at every kind of target, and killed at every change that it makes.

    python tests/reliability/walk.py --json results/benchmarks/walk.json
    python tests/reliability/walk.py --only "export links | the data folder | --overwrite"

A small world on the disk has a data folder, runs, and files of a person. A command is run on a copy
of it with a target of one kind. The walk then compares each file, folder and link that was there
with what is there now: what dcfsc did not make must be as it was, byte for byte and with its mode,
under its name or as NAME.bak. The same holds for the state that a kill leaves before each change of
the disk, and for the state after the command has then been repeated, as its message says. A command
ends with success or with one line.

The states that kills leave are copied while the command runs: no process has to be killed for them.
At some targets each of them is tried, elsewhere one in seven, at each target others.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib.metadata
import json
import os
import re
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import faults
import numpy as np
from world import (
    DEEP,
    FIT,
    GIVEN,
    MAKERS,
    PHOTOS,
    REPRODUCE,
    RUNS,
    SHARDS,
    Snapshot,
    World,
    copied,
    forked,
    give_away,
    model,
    read_only,
    removed,
    snapshot,
)

from dcfsc import machine
from dcfsc.files import is_part

PART = re.compile(r"\.dcfsc-[0-9a-z]+-[0-9a-f]{16}\.part")
WAITING = re.compile(rf"(.*{PART.pattern})/files/")
BACKUP = re.compile(r"\.bak[0-9]*(?=/|$)")


# Commands ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Command:
    """A command that writes: its words, or a function of the place where it is to write.

    ``renews`` are the files that it replaces unasked. ``place`` is where it writes without
    ``--out``; ``out`` whether it has this option.
    """

    words: tuple[str, ...] = ()
    work: Callable[[str], None] | None = None
    place: str = "target"
    out: bool = True
    asks: bool = True  # whether it has --overwrite
    in_run: bool = False
    renews: tuple[str, ...] = ()
    resumes: bool = False


def _save(features: bool) -> Callable[[str], None]:
    return lambda place: model(features).save(place)


def _cache(place: str) -> None:
    from dcfsc.io.feature_cache import FeatureCache

    FeatureCache(place, "maker").add([b"1" * 32, b"2" * 32], np.ones((2, 3), np.float32))


def _download(place: str) -> None:
    from research.data import download

    download._download = lambda url, part: part.write_bytes(b"content") and None  # type: ignore
    download.fetch("http://localhost/file", hashlib.sha256(b"content").hexdigest(), place)


EXPORT_TO = ("export", "../run", "--to")
PREDICT = ("predict", "../run", PHOTOS, "--device", "cpu")
LIST = "../run/.dcfsc.json"
EDITED = ("edits.json", "clusters.csv", "differences.csv", "report.html")
EDITS = (LIST, *(f"../run/{name}" for name in EDITED))
COMMANDS = {
    "fit": Command((*FIT, "--no-report")),
    "fit and report": Command(FIT),
    "fit --resume": Command((*DEEP, "--resume"), resumes=True),
    "predict": Command(
        PREDICT, place="../run/predictions.csv", out=False, in_run=True, renews=(LIST,)
    ),
    "predict --out": Command(PREDICT, renews=(LIST,)),
    "predict shards": Command(SHARDS),
    "predict links": Command(
        (*PREDICT, "--to", "folders"), asks=False, in_run=True, renews=(LIST,)
    ),
    "predict copies": Command(
        (*PREDICT, "--to", "folders", "--copy"), asks=False, in_run=True, renews=(LIST,)
    ),
    "report": Command(
        ("report", "../run"),
        place="../run/report.html",
        out=False,
        in_run=True,
        renews=(LIST, "../run/report.html"),
    ),
    "report --out": Command(("report", "../run"), renews=(LIST,)),
    "report --map": Command(
        ("report", "../run", "--map", "../run/map.svg"),
        place="../run/map.svg",
        out=False,
        in_run=True,
        renews=(LIST, "../run/report.html", "../run/map.svg"),
    ),
    "export links": Command((*EXPORT_TO, "folders")),
    "export copies": Command((*EXPORT_TO, "folders", "--copy")),
    "export links, beside the run": Command(
        (*EXPORT_TO, "folders"), place="../run-clusters", out=False
    ),
    "export csv": Command((*EXPORT_TO, "csv"), renews=(LIST,)),
    "export csv, in the run": Command(
        (*EXPORT_TO, "csv"), place="../run/export.csv", out=False, in_run=True, renews=(LIST,)
    ),
    "export parquet": Command((*EXPORT_TO, "parquet"), renews=(LIST,)),
    "compare --out": Command(("compare", "../run", "../other")),
    "name": Command(
        ("name", "../run", "1=lions", "--merge", "1,2", "--split", "0"),
        place="../run/edits.json",
        out=False,
        asks=False,
        in_run=True,
        renews=EDITS,
    ),
    "name --undo": Command(
        ("name", "../run", "--undo"),
        place="../run/edits.json",
        out=False,
        asks=False,
        in_run=True,
        renews=EDITS,
    ),
    "save": Command(work=_save(False), asks=False),
    "save features": Command(work=_save(True), asks=False),
    "reproduce": Command(REPRODUCE, asks=False),
    "feature cache": Command(work=_cache, asks=False),
    "download": Command(work=_download, asks=False),
}


@dataclass(frozen=True)
class Case:
    """A command, the kind of its target, and whether ``--overwrite`` is given."""

    command: str
    target: str
    overwrite: bool

    @property
    def humble(self) -> bool:
        """Whether it is tried without the rights of root."""
        return "read-only" in self.target or self.target == "the root"

    def __str__(self) -> str:
        return f"{self.command} | {self.target}{' | --overwrite' if self.overwrite else ''}"


def cases() -> Iterator[Case]:
    for name, command in COMMANDS.items():
        targets = [*MAKERS, *GIVEN] if command.out else list(MAKERS)
        targets += RUNS if command.in_run else ()
        targets += ("its checkpoint",) if command.resumes else ()
        for target in targets:
            for overwrite in (False, True) if command.asks else (False,):
                yield Case(name, target, overwrite)


def prepared(case: Case, world: World) -> str:
    """Make the target of a case; the word that says it to the command."""
    command = COMMANDS[case.command]
    word = GIVEN.get(case.target, command.place)
    place = world.desk / word
    if case.target == "its checkpoint":
        word = "../half"
    elif case.target == "a read-only place":
        read_only(place)
    elif case.target in RUNS:
        RUNS[case.target](world, world.path / "run")
    elif case.target in MAKERS:
        if os.path.lexists(place) and case.target != "nothing":
            place.unlink()  # of ours: somebody takes it away first
        MAKERS[case.target](world, place)
    return word


class Watch(faults.Faults):
    """Copies the world before each change of the disk: what a kill would leave there."""

    def __init__(self, world: World, states: Path):
        super().__init__("none", 0, world.path)
        self.world, self.states, self.busy = world, states, False

    def point(self, name: str, half: Callable[[], Any] | None = None) -> None:
        if self.busy or name == "fsync":
            return
        self.busy = True
        copied(str(self.world.path), str(self.states / f"{self.count:04d}"))
        self.count += 1
        self.busy = False


def work_of(case: Case, word: str) -> tuple[str, ...]:
    command = COMMANDS[case.command]
    more = ("--out", word) if command.out else ()
    return (*command.words, *more, *(("--overwrite",) if case.overwrite else ()))


# What must hold ---------------------------------------------------------------------------------


def lost(case: Case, word: str, world: World, before: Snapshot, after: Snapshot) -> list[str]:
    """What was there before, may not be replaced, and is not there any more."""
    command = COMMANDS[case.command]
    places = tuple(world.places(word))
    replaced = {name for renewed in command.renews for name in world.places(renewed)}
    found: dict[str, list[str]] = {}
    for name in after:
        found.setdefault(BACKUP.sub("", name), []).append(name)
    wrong = []
    for name, entry in before.items():
        inside = any(name == place or name.startswith(f"{place}/") for place in places)
        mine = world.ours.get(name) == entry
        renewed = case.command == "reproduce" or command.resumes or case.overwrite
        # an export of the same run is renewed unasked
        renewed = renewed or case.command.startswith(("save", "export links", "export copies"))
        if mine and (name in replaced or (inside and renewed)):
            continue
        if not any(after[other] == entry for other in found.get(BACKUP.sub("", name), ())):
            whose = "ours" if mine else "somebody's"
            wrong.append(
                f"{name!r} ({whose}, {entry[0]}) is {'changed' if name in after else 'gone'}"
            )
    allowed = (*places, "run", "moved") if command.in_run or word.startswith("../run") else places
    for name in after.keys() - before.keys():
        if not name.startswith(allowed) and not any(map(is_part, Path(name).parts)):
            wrong.append(f"{name!r} is new")
    return wrong


def misspoken(code: int, said: str) -> list[str]:
    """Whether the command ended otherwise than with success or one line."""
    errors = [line for line in said.splitlines() if not line.startswith("warning: ")]
    if code == 0 and not errors:
        return []
    if code in (1, 2) and len(errors) == 1 and errors[0].startswith("error: "):
        return []
    return [f"it ended with {code} and said {said.strip()[-300:]!r}"]


def walked(case: Case, world: World, every: int) -> dict[str, Any]:
    """Try one case; how it ended, how many kills were tried, and what went wrong."""
    world.reset()
    known = dict(world.ours)
    states = world.root / "states"
    removed(states)
    states.mkdir()
    begin = time.perf_counter()
    try:
        word = prepared(case, world)
        if case.humble:
            give_away(world)
        before = snapshot(world.path)
        command, words = COMMANDS[case.command], work_of(case, word)

        def watched() -> Any:
            if every:
                Watch(world, states).install()
            return faults.call(words) if command.work is None else command.work(word)

        code, said = forked(watched, world, case.humble)
        after = snapshot(world.path)
        wrong = [*misspoken(code, said), *lost(case, word, world, before, after)]
        if code == 0:
            wrong += left_behind(before, after)
        kills = 0
        for place in _distinct(states, every or 1, len(case.target)):
            kills += 1
            problems = killed(case, word, words, world, before, place, code)
            wrong += [f"killed at {place.name}: {problem}" for problem in problems]
        kinds = "refused" if code else "done"
    finally:
        world.ours = known
    seconds = round(time.perf_counter() - begin, 2)
    return {
        "case": str(case),
        "ended": kinds,
        "said": said.strip(),
        "kills": kills,
        "wrong": wrong,
        "seconds": seconds,
    }


def left_behind(before: Snapshot, after: Snapshot) -> list[str]:
    new = sorted(after.keys() - before.keys())
    return [f"{name!r} is left behind" for name in new if is_part(Path(name).name)]


def _distinct(states: Path, every: int, first: int) -> Iterator[Path]:
    """Every so many of the states that differ by more than what is half written.

    The files that wait in a stage without a plan are alike: all of them go together.
    """
    known: set[int] = set()
    for place in sorted(states.iterdir()):
        content = snapshot(place)
        planned = {name.rpartition("/")[0] for name in content if name.endswith("/plan.json")}
        waiting = {name: WAITING.match(name) for name in content}
        counts = {name for name, match in waiting.items() if not match or match[1] in planned}
        new = hash(frozenset((PART.sub("PART", name), content[name]) for name in counts))
        if new not in known:
            known.add(new)
            if (len(known) + first) % every == 0:
                yield place


def killed(
    case: Case,
    word: str,
    words: tuple[str, ...],
    world: World,
    before: Snapshot,
    place: Path,
    undisturbed: int,
) -> list[str]:
    """What is wrong with the state that a kill left, or after the command was repeated."""
    removed(world.path)
    os.replace(place, world.path)
    wrong = lost(case, word, world, before, snapshot(world.path))
    command = COMMANDS[case.command]
    if command.work is not None:
        code, said = forked(lambda: command.work(word), world, case.humble)  # type: ignore[misc]
    else:
        code, said = forked(lambda: faults.call(words), world, case.humble)
        added = re.search(r"add (--resume|--overwrite)|with (--resume)", said)
        option = added and (added[1] or added[2])
        if code == 2 and option and not undisturbed and option not in words:
            case = Case(case.command, case.target, case.overwrite or option == "--overwrite")
            code, said = forked(lambda: faults.call((*words, option)), world, case.humble)
    after = snapshot(world.path)
    wrong += misspoken(code, said)
    if code and not undisturbed and "no edit to undo" not in said:
        wrong.append(f"repeated, it ended with {code}: {said.strip()[-200:]}")
    wrong += [f"repeated: {problem}" for problem in lost(case, word, world, before, after)]
    writes = code == 0 and case.command != "download"  # what is there is not written again
    return wrong + (left_behind(before, after) if writes else [])


# All of it --------------------------------------------------------------------------------------


def warm() -> None:
    """Make in this process what every child would have to make, and spare them the drawing."""
    import jinja2
    from matplotlib.figure import Figure

    jinja2.Environment.get_template = functools.cache(jinja2.Environment.get_template)  # type: ignore
    jinja2.Environment.__hash__ = lambda self: 0  # type: ignore[method-assign]
    jinja2.Environment.__eq__ = lambda self, other: self.loader is other.loader  # type: ignore

    def savefig(self: Any, part: Any, **_: Any) -> None:
        Path(part).write_bytes(b"a drawing")

    Figure.savefig = savefig  # type: ignore[method-assign]
    # a child without rights may not be able to read where the packages are
    importlib.import_module("dcfsc.runs.compare")
    importlib.metadata.version = functools.cache(importlib.metadata.version)
    machine.versions()


def measured(chosen: list[tuple[Case, int]], jobs: int, tell: bool = False) -> list[dict[str, Any]]:
    """Walk cases, each with so many of its kills, in some processes; results in their order."""
    with tempfile.TemporaryDirectory(prefix="walk-") as folder:
        os.chmod(folder, 0o755)
        root = Path(folder)
        faults.import_what_commands_import(list(faults.COMMANDS), root)
        children = []
        for job in range(jobs):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    _worker(root / f"job{job}", chosen[job::jobs], tell)
                    code = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(code)
            children.append(child)
        for child in children:
            if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
                raise RuntimeError("a process of the walk ended early")
        parts = [json.loads((root / f"job{job}.json").read_text()) for job in range(jobs)]
    return [parts[i % jobs][i // jobs] for i in range(len(chosen))]


def _worker(place: Path, chosen: list[tuple[Case, int]], tell: bool) -> None:
    place.mkdir()
    warnings.showwarning = lambda message, *where: print(f"warning: {message}", file=sys.stderr)
    own = {f"XDG_{name}_HOME": f"{place}/{name.lower()}" for name in ("CACHE", "STATE")}
    os.environ |= {"HOME": f"{place}/world/home", **own}
    warm()
    world = World(place)
    world.build()
    results = []
    for case, every in chosen:
        results.append(walked(case, world, every))
        if tell:
            print(json.dumps(results[-1]) + "\n", end="", flush=True)
    Path(f"{place}.json").write_text(json.dumps(results))


def summed(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts by command and in all, and everything that went wrong."""
    commands: dict[str, Counter[str]] = {}
    for result in results:
        row = commands.setdefault(result["case"].split(" | ")[0], Counter())
        row.update(
            cases=1,
            **{result["ended"]: 1},
            kills=result["kills"],
            wrong=len(result["wrong"]),
        )
    total = sum(commands.values(), Counter())
    wrong = [f"{result['case']}: {problem}" for result in results for problem in result["wrong"]]
    return {
        "targets": len({result["case"].split(" | ")[1] for result in results}),
        "commands": {name: {k: row[k] for k in _KEYS} for name, row in commands.items()},
        "total": {k: total[k] for k in _KEYS},
        "wrong": wrong[:200],
    }


SPARSE = 7
THOROUGH = (
    "our run, a file changed",
    "our export, a file changed",
    "our model",
    "somebody's file, its .bak too",
    "its run, files added",
    "its checkpoint",
)
_KEYS = ("cases", "done", "refused", "kills", "wrong")


def all_kills(case: Case) -> bool:
    """Whether a kill is tried at each change: at a few targets, not where drawing takes long."""
    slow = case.command in ("fit and report", "reproduce")
    renews = case.overwrite or not COMMANDS[case.command].asks
    return case.target == "nothing" or (renews and not slow and case.target in THOROUGH)


def whole() -> list[tuple[Case, int]]:
    return [(case, 1 if all_kills(case) else SPARSE) for case in cases()]


def fixed() -> list[tuple[Case, int]]:
    """A part in which each command and each kind of target comes at least once; a few kills."""
    commands, targets = set(COMMANDS), {case.target for case in cases()}
    chosen = []
    for case in sorted(cases(), key=lambda case: zlib.crc32(str(case).encode())):
        new = case.target in targets or (case.command in commands and case.target == "nothing")
        if new and case.command not in ("fit and report", "reproduce"):
            targets.discard(case.target)
            commands.discard(case.command)
            chosen.append((case, 0))
    chosen += [(Case(command, "nothing", False), 0) for command in sorted(commands)]
    names = ("fit | our run, a file changed", "export links | our export, a file changed")
    killed = [(c, 4) for c in cases() if str(c).startswith(names) and c.overwrite]
    return [*chosen, *killed, (Case("export links", "nothing", False), 5)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--only", help="the cases whose names begin so")
    parser.add_argument("--every", type=int, help="0: no kills; n: every n-th kill")
    parser.add_argument("--fixed", action="store_true", help="the part that the tests walk")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tell", action="store_true", help="print each case as it is done")
    parser.add_argument("--quiet", action="store_true", help="do not print the counts")
    options = parser.parse_args()
    chosen = fixed() if options.fixed else whole()
    chosen = [(case, n) for case, n in chosen if str(case).startswith(options.only or "")]
    if options.every is not None:
        chosen = [(case, options.every) for case, _ in chosen]
    begin = time.perf_counter()
    found = summed(measured(chosen, min(options.jobs, len(chosen)), options.tell))
    found["wall_seconds"] = round(time.perf_counter() - begin, 1)
    from research import record

    record.finish(options, "walk", found)
    return int(bool(found["wrong"]))


if __name__ == "__main__":
    sys.exit(main())
