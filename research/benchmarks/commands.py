"""Every benchmark by its name, and the commands that measure the committed results."""

from __future__ import annotations

import importlib
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

from dcfsc.errors import unknown_name
from research.record import ROOT

from . import measure

MACHINES = ("cpu", "cuda")
MODULES = [
    "checkouts",
    "choice",
    "neighbor_scan",
    "peers",
    "photos",
    "quality",
    "scale",
    "shards",
    "sparse",
    "speed",
    "vector_errors",
]
COMMANDS = Path(__file__).with_name("commands.toml")


def run_one(name: str, words: list[str]) -> None:
    names = known()
    if name not in names:
        raise unknown_name("benchmark", name, (*MACHINES, *names))
    measure.run(name, words)


def known() -> list[str]:
    """The names of all benchmarks, whose modules are imported by this."""
    for module in MODULES:
        importlib.import_module(f"research.benchmarks.{module}")
    return list(measure.BENCHMARKS)


def run_all(machine: str, only: list[str]) -> int:
    """Measure the results of a machine one after another, or some of them, by their file names."""
    commands = tomllib.loads(COMMANDS.read_text(encoding="utf-8"))[machine]
    failed = []
    for result, command in commands.items():
        if only and Path(result).name not in only:
            continue
        print(f"{result}: {command}", flush=True)
        words = [sys.executable, *shlex.split(command), "--quiet", "--json", result]
        if subprocess.run(words, cwd=ROOT).returncode != 0:
            failed.append(result)
    print(*(f"{result} could not be measured" for result in failed), sep="\n")
    return 1 if failed else 0
