"""Whether the figures that README.md and docs/ cite were measured with the present code.

    python -m research.benchmarks.freshness                  # check
    python -m research.benchmarks.freshness --measure cpu    # measure what is stale: make bench
    python -m research.benchmarks.freshness --measure cuda --only scale_gpu.json

sources.toml says which files a benchmark measures, and which command writes a result. A result
records the commit and a digest of those files: of the parsed code, so that comments, docstrings,
messages of errors, annotations of arguments and layout do not count. A result is stale if a digest
differs from the present one or was never recorded. A stale figure in README.md is an error, in
docs/ a warning. A text may keep one if it says so:

    These times are of an earlier version. <!-- historical: results/benchmarks/seconds.json -->

The words "earlier version" must stand in the paragraph. A mark for a result that is up to date is
an error too. A change that computes the same may be listed in sources.toml, with the reason, under
"same".
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from research.machine import commit

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("sources.toml")
CITED = re.compile(r"results/[\w./+-]+\.(?:jsonl?|csv)\b")
MARK = re.compile(r"<!--\s*historical:(.*?)-->", re.DOTALL)
UNCHECKED = ("kind", "type_comment", "returns")


# Digests ------------------------------------------------------------------------------------


def canonical(node: Any) -> Any:
    """A syntax tree as nested tuples, the same for every version of Python."""
    if isinstance(node, list):
        return tuple(canonical(item) for item in node)
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Call) and (name := _name(node.func)).endswith("Error"):
        return "Call", name  # what a message says changes no figure
    fields = dict(ast.iter_fields(node))
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        fields["body"] = [s for s in node.body if not _is_text(s)]
    if isinstance(node, ast.arg):
        del fields["annotation"]
    kept = {name: value for name, value in fields.items() if name not in UNCHECKED}
    # A field without a value may be missing in another version.
    parts = tuple((name, canonical(v)) for name, v in kept.items() if v is not None and v != [])
    return type(node).__name__, parts


def _name(function: ast.expr) -> str:
    return getattr(function, "id", "") or getattr(function, "attr", "")


def _is_text(statement: ast.stmt) -> bool:
    value = getattr(statement, "value", None) if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


@cache
def digest(paths: tuple[str, ...]) -> str:
    """One digest of all Python files under the paths, names included."""
    result = hashlib.sha256()
    for path in paths:
        place = ROOT / path
        if not place.exists():
            raise SystemExit(f"{TABLE.name} lists {path}, which does not exist")
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            tree = canonical(ast.parse(file.read_text(encoding="utf-8")))
            result.update(f"{file.relative_to(ROOT).as_posix()}\n{tree}\n".encode())
    return result.hexdigest()[:16]


def declared() -> dict[str, Any]:
    return tomllib.loads(TABLE.read_text(encoding="utf-8"))


def digests(benchmark: str) -> dict[str, str]:
    """The present digest of every group that the benchmark measures."""
    table = declared()
    if benchmark not in table["benchmarks"]:
        raise SystemExit(f"benchmarks/{TABLE.name} does not say what {benchmark!r} measures")
    groups = table["benchmarks"][benchmark]
    return {name: digest(tuple(table["groups"][name])) for name in groups}


def code(benchmark: str) -> dict[str, Any]:
    """What a result records: the commit, and the digests of what it measures."""
    return {"commit": commit(), "digests": digests(benchmark)}


# The check ----------------------------------------------------------------------------------


def records(result: dict[str, Any]) -> list[dict[str, Any]]:
    """What a result says of its code, once or in each of its rows; {} where it says nothing."""
    if "code" in result:
        return [result["code"]]
    rows = result["figures"].values() if isinstance(result.get("figures"), dict) else [{}]
    return [row.get("code", {}) if isinstance(row, dict) else {} for row in rows]


def staleness(path: str) -> str | None:
    """Why a result is not known to be of the present code; None if it is."""
    if path in declared()["history"]:
        return None
    if not (ROOT / path).exists():
        return "not there"
    if not path.startswith(("results/benchmarks/", "results/experiments/")):
        return "of 'research reproduce', which records the commit of a cell but no digest"
    result = json.loads((ROOT / path).read_text(encoding="utf-8"))
    found = records(result)
    if not all(found):
        return "written, or some of its rows, before results recorded the code"
    present = digests(result["benchmark"])
    same = declared().get("same", {})
    changed = {
        f"{name} (since {str(record['commit'])[:10]})"
        for record in found
        for name, value in present.items()
        if (known := record["digests"].get(name)) != value
        and not (name in same and same[name]["now"] == value and known in same[name]["before"])
    }
    return f"changed: {', '.join(sorted(changed))}" if changed else None


def check(text: str) -> tuple[list[str], list[str]]:
    """The stale results that a page cites without saying so, and wrong marks."""
    marked: set[str] = set()
    wrong = []
    for paragraph in re.split(r"\n\s*\n", text):
        for mark in MARK.findall(paragraph):
            marked |= set(CITED.findall(mark))
            words = " ".join(re.sub(r"<!--.*?-->", "", paragraph, flags=re.DOTALL).split())
            if "earlier version" not in words:
                wrong.append(f"'historical:{mark}' without the words 'earlier version' beside it")
    cited = set(CITED.findall(MARK.sub("", text)))
    reasons = {path: staleness(path) for path in cited | marked}
    stale = [f"{path}: {why}" for path, why in sorted(reasons.items()) if why]
    wrong += [
        f"{path} is marked as historical, but is up to date"
        for path in sorted(marked)
        if not reasons[path]
    ]
    return [line for line in stale if line.split(":")[0] not in marked], wrong


def check_all() -> int:
    failed = 0
    pages = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "research").rglob("*.md"))]
    for page in [ROOT / "README.md", *pages]:
        name, fatal = page.relative_to(ROOT).as_posix(), page.name == "README.md"
        stale, wrong = check(page.read_text(encoding="utf-8"))
        for line in stale:
            print(f"{'error' if fatal else 'warning'}: {name} cites {line}")
        for line in wrong:
            print(f"error: {name}: {line}")
        failed += len(wrong) + (len(stale) if fatal else 0)
    return 1 if failed else 0


def measure(machine: str, only: list[str]) -> int:
    """Run the commands of the stale results that this kind of machine measures."""
    failed = []
    for name, command in declared()["commands"][machine].items():
        why = staleness(name)
        if why is None or (only and Path(name).name not in only):
            continue
        print(f"{name} ({why}): {command}", flush=True)
        words = [sys.executable, *shlex.split(command), "--quiet", "--json", name]
        if subprocess.run(words, cwd=ROOT).returncode != 0:
            failed.append(name)
    print(*(f"{name} could not be measured" for name in failed), sep="\n")
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--measure", choices=("cpu", "cuda"), help="measure what is stale")
    parser.add_argument("--only", nargs="*", default=[], help="some results, by their file names")
    options = parser.parse_args()
    return measure(options.measure, options.only) if options.measure else check_all()


if __name__ == "__main__":
    sys.exit(main())
