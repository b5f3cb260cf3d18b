"""The record that every results file is: benchmark, command, commit, date, machine, figures."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dcfsc import machine
from dcfsc.errors import without_folders
from dcfsc.files import write_text
from research.machine import commit

ROOT = Path(__file__).resolve().parents[1]


def record_of(name: str, figures: Any) -> dict[str, Any]:
    return {"benchmark": name, "command": command(), **origin(), "figures": figures}


def origin() -> dict[str, Any]:
    """With which commit, when and where something is measured."""
    where = machine.machine("auto") | machine.versions()
    return {"commit": commit(), "date": datetime.now(UTC).date().isoformat(), "machine": where}


def command() -> str:
    """The command that runs, as it is typed at the top of a checkout."""
    program = Path(sys.argv[0]).resolve()
    words = [program.name]
    if program.is_relative_to(ROOT):
        path = program.relative_to(ROOT)
        words = [path.as_posix()]
        if path.parts[0] == "research":
            words = ["-m", ".".join(path.with_suffix("").parts).removesuffix(".__main__")]
    return without_folders(shlex.join(["python", *words, *sys.argv[1:]]))


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2) + "\n")


def parser(description: str) -> argparse.ArgumentParser:
    """The options of every command that measures."""
    raw = argparse.RawDescriptionHelpFormatter
    result = argparse.ArgumentParser(description=description, formatter_class=raw)
    result.add_argument("--json", type=Path, help="write the figures to this file")
    result.add_argument("--quiet", action="store_true", help="do not print the figures")
    return result


def finish(options: argparse.Namespace, name: str, figures: Any) -> None:
    if options.json:
        write_json(options.json, record_of(name, figures))
    if not options.quiet:
        print(json.dumps(figures, indent=2))


def finish_row(options: argparse.Namespace, name: str, row: str, figures: Any) -> dict[str, Any]:
    """Write one row of a record, and return all; other rows of the file stay as they are.

    They may be of another commit, day and machine, so each row has its own.
    """
    if not options.quiet:
        print(row, json.dumps(figures), flush=True)
    known = options.json is not None and options.json.exists()
    rows = json.loads(options.json.read_text())["figures"] if known else {}
    rows[row] = {**figures, **origin()}
    if options.json:
        write_json(options.json, record_of(name, rows))
    return rows
