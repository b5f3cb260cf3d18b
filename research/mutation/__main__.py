"""How many small bugs, put into a folder of the library one at a time, do its tests notice?

    python -m research.mutation spectral affinity --sample 150 --jobs 8 \
        --json results/benchmarks/mutation.json

The bugs are those of :mod:`mutants`. Which lines each test executes is recorded first; a mutant
then runs the tests that execute its statement, quickest first, until one fails, in a forked process
that has imported everything but dcfsc. A mutant that no test executes has survived, and one that
takes twice as long as the unchanged code under the recording is killed. CPU only; nothing is needed
beside what the tests need. Each folder is a row of the file, and the row "core" is of the folders
together. (mutmut 3 leaves out what stands outside functions or under decorators.)
"""

from __future__ import annotations

import argparse
import ast
import marshal
import os
import random
import re
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[2] / "src")
sys.path.insert(0, os.environ["PYTHONPATH"])

import hypothesis
import pytest
import scipy.sparse.linalg  # noqa: F401 - imported here once, instead of by every mutant
import sklearn.cluster
import sklearn.metrics  # noqa: F401
import torch

from research.mutation.mutants import Edit, edits

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "dcfsc"
# The tests of a folder, where they are not tests/<folder> alone.
CONTRACTS = [f"tests/contracts/test_{name}.py" for name in ("operators", "closed_form")]
TESTS = {
    "self_expression": ["tests/self_expression", *CONTRACTS],
    "neighbors": ["tests/neighbors", CONTRACTS[0]],
}
# The folders that the total is taken over; in the others most changes change speed alone.
CORE = ("self_expression", "affinity", "spectral", "representations", "training", "metrics")
# Files, and functions of files, that are left out: see skipped.toml.
SKIPPED = tomllib.loads(Path(__file__).with_name("skipped.toml").read_text(encoding="utf-8"))
# An estimate is compared with measured peaks within a factor; the size of a block changes memory
# and speed alone.
ROUGH = re.compile(r"\w+_memory|_?[A-Z_]*(BLOCK|BYTES|CHUNK|TILE|ELEMENTS)[A-Z_]*")
SLOWER, FLOOR = 2, 5.0  # a test may take SLOWER times its traced CPU seconds and FLOOR more
MEMORY = 8 << 30  # bytes that a mutant may take


class Mutant(NamedTuple):
    file: str  # below src/dcfsc
    number: int  # of the edit among those of its file
    edit: Edit


class Known(NamedTuple):
    """What a test does on the unchanged code."""

    seconds: float
    lines: dict[str, set[int]]  # by file below src/dcfsc


def mutants_of(folder: str) -> list[Mutant]:
    files = sorted(p.relative_to(PACKAGE).as_posix() for p in (PACKAGE / folder).rglob("*.py"))
    kept = [f for f in files if f not in SKIPPED]
    return [Mutant(f, i, edit) for f in kept for i, edit in enumerate(_edits(f)[1])]


def _edits(file: str) -> tuple[ast.Module, list[Edit]]:
    source = (PACKAGE / file).read_text()
    tree = ast.parse(source)
    skipped = {name.partition(":")[2] for name in SKIPPED if name.startswith(f"{file}:")}
    return tree, edits(tree, source, lambda name: name in skipped or bool(ROUGH.fullmatch(name)))


class Session:
    """A pytest plugin: the tests of ``order`` in that order, each under a limit of CPU time.

    Without an order, every test, and the lines of the library that each executes.
    """

    def __init__(self, order: dict[str, float] | None) -> None:
        self.order = order
        self.lines: dict[str, set[int]] = {}
        self.known: dict[str, Known] = {}
        self.passed: set[str] = set()

    def pytest_sessionstart(self) -> None:  # after tests/conftest.py, which loads a profile too
        phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]  # a failure is enough
        same = hypothesis.settings(derandomize=True, database=None, phases=phases)
        checks = list(hypothesis.HealthCheck)
        patient = hypothesis.settings(same, deadline=None, suppress_health_check=checks)
        hypothesis.settings.register_profile("mutation", patient)
        hypothesis.settings.load_profile("mutation")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.order is not None:
            rank = {name: i for i, name in enumerate(self.order)}
            items[:] = sorted((i for i in items if i.nodeid in rank), key=lambda i: rank[i.nodeid])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        began, self.lines = time.process_time(), {}
        if self.order is None:
            sys.settrace(self.call)
            threading.settrace(self.call)
        else:
            limit(SLOWER * self.order[item.nodeid] + FLOOR)
        result = yield
        sys.settrace(None)
        threading.settrace(None)
        self.known[item.nodeid] = Known(time.process_time() - began, self.lines)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed.add(report.nodeid)
        elif not report.passed:
            self.passed.discard(report.nodeid)

    def call(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if not name.startswith(f"{PACKAGE}{os.sep}"):
            return None
        seen = self.lines.setdefault(name.removeprefix(f"{PACKAGE}{os.sep}"), set())

        def local(frame: FrameType, event: str, argument: Any) -> Any:
            seen.add(frame.f_lineno)
            return local

        return local


def limit(seconds: float) -> None:
    """End this process after so much CPU time, or if it hangs."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 10 * seconds)


def forked(
    paths: list[str], session: Session, before: Callable[[], None] = lambda: None
) -> tuple[int, Path]:
    """Process id of a child that runs tests in a folder of its own, and the folder."""
    folder = Path(tempfile.mkdtemp(prefix="mutation-"))
    if pid := os.fork():
        return pid, folder
    code = 70
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        torch.set_num_threads(1)
        before()
        options = ["-q", "-p", "no:cacheprovider", "--tb=no", f"--basetemp={folder / 'tmp'}"]
        options.append("--continue-on-collection-errors" if session.order is None else "-x")
        code = int(pytest.main([*options, *paths], plugins=[session]))
        if session.order is None:
            passed = {test: session.known[test] for test in session.passed}
            (folder / "known").write_bytes(marshal.dumps({t: tuple(k) for t, k in passed.items()}))
    finally:
        os._exit(code)


def learn(paths: list[str]) -> dict[str, Known]:
    """Run tests on the unchanged code: those that pass, and what they do.

    Files that need what is not installed are left out.
    """
    pid, folder = forked(paths, Session(None))
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code not in (0, 1):
        raise SystemExit(f"the unchanged code does not pass its own tests (exit {code}): {paths}")
    known = {test: Known(*k) for test, k in marshal.loads((folder / "known").read_bytes()).items()}
    shutil.rmtree(folder)
    return known


def tests_for(mutant: Mutant, known: dict[str, Known]) -> dict[str, float]:
    """Seconds of the tests to run, in order; all of them for what happens on import."""
    reached = mutant.edit.reached

    def touches(test: Known) -> bool:
        lines = test.lines.get(mutant.file, set())
        return bool(lines) if reached is None else not lines.isdisjoint(reached)

    chosen = [(not touches(t), t.seconds, name) for name, t in known.items()]
    return {name: s for far, s, name in sorted(chosen) if reached is None or not far}


def start(mutant: Mutant, order: dict[str, float]) -> tuple[int, Path]:
    def change() -> None:
        tree, all_edits = _edits(mutant.file)
        all_edits[mutant.number].apply()
        code = compile(ast.fix_missing_locations(tree), str(PACKAGE / mutant.file), "exec")
        module = "dcfsc." + mutant.file.removesuffix(".py").replace("/", ".")
        original = SourceFileLoader.get_code
        SourceFileLoader.get_code = (  # type: ignore[method-assign]
            lambda self, fullname: code if fullname == module else original(self, fullname)
        )
        limit(60.0)

    files = sorted({name.partition("::")[0] for name in order})
    return forked(files, Session(order), change)


def judge(mutants: list[Mutant], known: dict[str, Known], jobs: int) -> Iterator[Any]:
    waiting = list(reversed(mutants))
    running: dict[int, tuple[Mutant, Path]] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.pop()
            if order := tests_for(mutant, known):
                pid, folder = start(mutant, order)
                running[pid] = mutant, folder
            else:
                yield mutant, "not executed"
        if running:
            pid, status = os.wait()
            mutant, folder = running.pop(pid)
            shutil.rmtree(folder, ignore_errors=True)
            code = os.waitstatus_to_exitcode(status)
            if code == 5:
                raise SystemExit(f"no test was found for {mutant}")
            yield mutant, "survived" if code == 0 else "timeout" if code < 0 else "killed"


def examine(folder: str, options: argparse.Namespace) -> dict[str, Any]:
    paths = TESTS.get(folder, [f"tests/{folder}"])
    mutants = everything = mutants_of(folder)
    if options.sample and options.sample < len(mutants):
        chosen = random.Random(options.seed).sample(range(len(mutants)), options.sample)
        mutants = [mutants[i] for i in sorted(chosen)]
    known = learn(paths)
    print(f"{folder}: {len(mutants)} of {len(everything)} mutants, {len(known)} tests", flush=True)
    counts: dict[str, Counter[str]] = {}
    survivors = []
    for mutant, outcome in judge(mutants, known, options.jobs):
        counts.setdefault(mutant.file, Counter())[outcome] += 1
        if outcome in ("survived", "not executed"):
            place = f"{mutant.file}:{mutant.edit.line}"
            survivors.append({"place": place, "change": mutant.edit.text, "outcome": outcome})
            if options.list_survivors:
                print(f"  {place}  {outcome}: {mutant.edit.text}", flush=True)
    total = sum(counts.values(), Counter())
    killed = total["killed"] + total["timeout"]
    share = 100 * killed / max(len(mutants), 1)
    print(f"{folder}: {killed} of {len(mutants)} killed ({share:.1f}%), {dict(total)}", flush=True)
    return {
        "mutants": len(everything),
        "tried": len(mutants),
        "killed": killed,
        "outcomes": dict(total),
        "files": {file: dict(count) for file, count in sorted(counts.items())},
        "survivors": sorted(survivors, key=lambda s: s["place"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", help="folders below src/dcfsc")
    parser.add_argument("--sample", type=int, help="so many mutants of a folder, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--list-survivors", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.json:
        options.json = options.json.absolute()
    os.chdir(ROOT)
    figures = {folder: examine(folder, options) for folder in options.folders}
    options.quiet = True
    from research import record  # imports dcfsc, which no mutant must find imported

    for folder, row in figures.items():
        row |= {"seed": options.seed, "sample": options.sample, "command": record.command()}
        rows = record.finish_row(options, "mutation", folder, row)
        core = total_of([rows[name] for name in CORE if name in rows])
        record.finish_row(options, "mutation", "core", core)


def total_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The folders together, and what share of all mutants would be killed."""
    total: dict[str, Any] = {
        name: sum(row[name] for row in rows) for name in ("mutants", "tried", "killed")
    }
    if rows:
        total["percent"] = 100 * total["killed"] / total["tried"]
        expected = sum(row["mutants"] * row["killed"] / row["tried"] for row in rows)
        total["percent_of_all"] = 100 * expected / total["mutants"]
    return total


if __name__ == "__main__":
    main()
