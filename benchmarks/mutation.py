"""How many small bugs, put into a folder of the library one at a time, do its tests notice?

    python benchmarks/mutation.py metrics affinity --sample 150 --seed 0 --jobs 2 \
        --list-survivors --json results/benchmarks/mutation.json

The bugs are those of :mod:`mutants`. Which lines each test executes is recorded first; a mutant
then runs the tests that execute its statement, quickest first, until one fails, in a forked process
that has imported everything but dcfsc. A mutant that no test executes has survived, and one that
takes ten times as long as the unchanged code is killed. CPU only.

Nothing is needed beside what the tests need. mutmut 3 has to be installed, and leaves out what
stands outside functions and the functions with a decorator (but static and class methods): module
constants, defaults of dataclasses, properties, whatever is under ``no_grad``.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import pickle
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any, NamedTuple

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[1] / "src")
sys.path.insert(0, os.environ["PYTHONPATH"])

import hypothesis
import pytest
import scipy.sparse.linalg  # noqa: F401 - imported here once, instead of by every mutant
import sklearn.cluster
import sklearn.metrics  # noqa: F401
import torch
from executed_lines import Tracer
from mutants import Edit, edits

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "dcfsc"
# The tests of a folder, where they are not tests/<folder> alone.
TESTS = {"self_expression": ["tests/self_expression", "tests/contracts/test_closed_form.py"]}
# Files, and functions or classes of files, that are left out.
SKIPPED = {
    "self_expression/largest_cuda.py": "a CUDA kernel",
    "self_expression/products.py": "half-precision products of a GPU",
    "self_expression/triangular.py:triangular_inverse": "chooses what only a GPU is given",
}
SKIPPED |= dict.fromkeys(
    ("self_expression/sharded.py", "spectral/sharded.py"),
    "several processes, which tests/distributed starts anew",
)
SKIPPED |= dict.fromkeys(
    (
        "self_expression/dense.py:dense_self_expression_memory",
        "self_expression/kernel.py:kernel_sparse_self_expression_memory",
        "self_expression/low_rank.py:low_rank_representation_memory",
        "self_expression/low_rank.py:low_rank_subspace_memory",
        "self_expression/matching_pursuit.py:orthogonal_matching_pursuit_memory",
        "self_expression/sparse.py:sparse_self_expression_memory",
    ),
    "an estimate of memory, compared with measured peaks within a factor",
)
SLOWER, FLOOR = 10, 5.0  # a test may take SLOWER times its CPU seconds and FLOOR more
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
    return tree, edits(tree, source, skipped)


class Session:
    """A pytest plugin: the tests of ``order`` in that order, each under a limit of CPU time."""

    def __init__(self, order: dict[str, float] | None = None, tracer: Tracer | None = None):
        self.order, self.tracer = order, tracer
        self.known: dict[str, Known] = {}
        self.passed: set[str] = set()
        self.broken: list[str] = []  # files that need what is not installed

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.broken.append(report.nodeid)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.order is not None:
            rank = {name: i for i, name in enumerate(self.order)}
            items[:] = sorted((i for i in items if i.nodeid in rank), key=lambda i: rank[i.nodeid])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        if self.order is not None:
            limit(SLOWER * self.order[item.nodeid] + FLOOR)
        began = time.process_time()
        if self.tracer is not None:
            self.tracer.start()
        result = yield
        lines = {} if self.tracer is None else self.tracer.stop()
        self.known[item.nodeid] = Known(time.process_time() - began, lines)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed.add(report.nodeid)
        elif not report.passed:
            self.passed.discard(report.nodeid)


def limit(seconds: float) -> None:
    """End this process after so much CPU time, or if it hangs."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 10 * seconds)


def forked(run: Callable[[Path], int]) -> tuple[int, Path]:
    """Process id of a child that does ``run`` in a folder of its own, and the folder."""
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
        hypothesis.settings.register_profile(
            "mutation",
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(hypothesis.HealthCheck),
            phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
        )
        hypothesis.settings.load_profile("mutation")
        code = run(folder)
    finally:
        os._exit(code)


def run_pytest(paths: list[str], folder: Path, session: Session) -> int:
    options = ["-q", "-x", "-p", "no:cacheprovider", "--tb=no", f"--basetemp={folder / 'tmp'}"]
    if session.order is None:
        options[1] = "--continue-on-collection-errors"
    return int(pytest.main([*options, *paths], plugins=[session]))


def learn(paths: list[str], order: dict[str, float] | None) -> dict[str, Known]:
    """Run tests on the unchanged code: those that pass, and what they do (lines in a first run)."""

    def run(folder: Path) -> int:
        session = Session(order, Tracer(PACKAGE) if order is None else None)
        code = run_pytest(paths, folder, session)
        kept = {k: v for k, v in session.known.items() if k in session.passed}
        (folder / "known").write_bytes(pickle.dumps((kept, session.broken)))
        return code

    pid, folder = forked(run)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code not in (0, 1) or (code == 1 and order is not None):
        raise SystemExit(f"the unchanged code does not pass its own tests (exit {code}): {paths}")
    known, broken = pickle.loads((folder / "known").read_bytes())
    shutil.rmtree(folder)
    if broken:
        print("left out, as they cannot be imported here:", *broken, flush=True)
    return known


def files_of(tests: Iterable[str]) -> list[str]:
    return sorted({name.partition("::")[0] for name in tests})


def tests_for(mutant: Mutant, known: dict[str, Known]) -> dict[str, float]:
    """Seconds of the tests to run, in order; all of them for what happens on import."""
    reached = mutant.edit.reached

    def touches(test: Known) -> bool:
        lines = test.lines.get(mutant.file, set())
        return bool(lines) if reached is None else not lines.isdisjoint(reached)

    chosen = [(not touches(t), t.seconds, name) for name, t in known.items()]
    return {name: s for far, s, name in sorted(chosen) if reached is None or not far}


def start(mutant: Mutant, order: dict[str, float]) -> tuple[int, Path]:
    def run(folder: Path) -> int:
        tree, all_edits = _edits(mutant.file)
        all_edits[mutant.number].apply()
        path = str(PACKAGE / mutant.file)
        code = compile(ast.fix_missing_locations(tree), path, "exec")
        module = "dcfsc." + mutant.file.removesuffix(".py").replace("/", ".")
        original = SourceFileLoader.get_code
        SourceFileLoader.get_code = (  # type: ignore[method-assign]
            lambda self, name: code if name == module else original(self, name)
        )
        limit(60.0)
        return run_pytest(files_of(order), folder, Session(order))

    return forked(run)


def judge(
    mutants: list[Mutant], known: dict[str, Known], jobs: int
) -> Iterator[tuple[Mutant, str]]:
    """Each mutant and what became of it, as they end."""
    waiting, running = list(reversed(mutants)), {}
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
    if options.only:
        mutants = [m for m in mutants if m.file.endswith(tuple(options.only))]
    if options.sample and options.sample < len(mutants):
        chosen = random.Random(options.seed).sample(range(len(mutants)), options.sample)
        mutants = [mutants[i] for i in sorted(chosen)]
    traced = learn(paths, None)
    timed = learn(files_of(traced), {name: test.seconds for name, test in traced.items()})
    known = {name: Known(timed[name].seconds, traced[name].lines) for name in timed}
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
    share = 100 * killed / len(mutants)
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
    parser.add_argument("--only", nargs="*", help="files of them, by the ends of their names")
    parser.add_argument("--sample", type=int, help="so many mutants of a folder, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--list-survivors", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.chdir(ROOT)
    figures = {folder: examine(folder, options) for folder in options.folders}
    if options.json:
        record = {"seed": options.seed, "sample": options.sample, "folders": figures}
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
