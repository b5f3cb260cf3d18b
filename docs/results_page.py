"""The page of results, docs/results.md, and README's table, from the files under results/.

    python docs/results_page.py    # write both

results.toml says which results there are, in the order of the page: what was measured, which parts
of the file are rows, and which values are columns. A file that it leaves out comes last, with all
of its values.
"""

from __future__ import annotations

import csv
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "results.md"
README = ROOT / "README.md"
SPECIFICATION = Path(__file__).with_name("results.toml")
UNITS = {"MiB": 2**20, "GiB": 2**30, "ms": 1e-3, "%": 1e-2}
SUMMARY = {"mean", "std", "median", "min", "max", "runs"}
MACHINE = {"machine", "code", "commit", "date", "command"}
MARKED = re.compile(r"(?<=<!-- table -->\n).*?(?=\n<!-- end of table -->)", re.DOTALL)
Row = tuple[dict[str, str], Any]

INTRODUCTION = """# Results

Everything that was measured, from the files under `results/`. The other pages give no numbers; they
link here. Errors are clustering errors in percent: the share of samples in a wrong cluster, after
the best matching of clusters and classes. ± is a standard deviation. Under each heading stand the
file, the commit that was measured, the machine, and the command; commands of older results have the
names of their time. `make bench` and `make bench-gpu` measure again. `docs/results_page.py` writes
this page.
"""


def files() -> list[str]:
    """All results, relative to results/."""
    folder = ROOT / "results"
    patterns = ("benchmarks/*.json", "experiments/*.json", "**/table.csv")
    return [
        str(p.relative_to(folder)) for pattern in patterns for p in sorted(folder.glob(pattern))
    ]


def read(name: str) -> dict[str, Any]:
    """The content of a result; a table's rows are its figures, its cells know the machine."""
    path = ROOT / "results" / name
    if path.suffix == ".json":
        return json.loads(path.read_text(encoding="utf-8"))
    with open(path, newline="", encoding="utf-8") as stream:
        figures = [{k: number(v) for k, v in row.items()} for row in csv.DictReader(stream)]
    cells = sorted((path.parent / "cells").glob("*.jsonl"))
    lines = [line for cell in cells for line in cell.read_text(encoding="utf-8").splitlines()]
    records = [json.loads(line) for line in lines]
    origins = [{key: r[key] for key in ("machine", "versions") if key in r} for r in records]
    return {"figures": figures, "origins": origins}


def number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text or None


def rows(value: Any, steps: list[str]) -> Iterator[Row]:
    """The records that a path leads to: ``figures.{data}.methods.{method}``, ``figures.[]``."""
    if not steps:
        yield {}, value
        return
    step, after = steps[0], steps[1:]
    if step == "[]":
        for item in value if isinstance(value, list) else []:
            yield from rows(item, after)
    elif step.startswith("{"):
        for key, item in value.items() if isinstance(value, dict) else []:
            if isinstance(item, dict | list) and key not in MACHINE:
                yield from (({step[1:-1]: key, **names}, r) for names, r in rows(item, after))
    elif isinstance(value, dict) and step in value:
        yield from rows(value[step], after)


def flat(value: Any, prefix: str = "") -> dict[str, Any]:
    """The values of a record by their paths, such as ``seconds.ours``."""
    if not isinstance(value, dict) or set(value) <= SUMMARY:
        return {prefix: value} if shown(value) else {}
    result: dict[str, Any] = {}
    for key, item in value.items():
        if key not in MACHINE:
            result |= flat(item, f"{prefix}.{key}" if prefix else key)
    return result


def shown(value: Any, unit: str = "", digits: int | None = None) -> str:
    """A cell of a table; empty if the value is none that fits in one."""
    if isinstance(value, dict):
        middle, spread = value.get("mean", value.get("median")), value.get("std")
        if digits is None and isinstance(middle, int | float):
            digits = decimals(middle / UNITS.get(unit, 1)) or int(bool(spread) and middle < 100)
        return " ± ".join(filter(None, [shown(middle, unit, digits), shown(spread, unit, digits)]))
    if value is None or isinstance(value, list):
        return ""
    if isinstance(value, str | bool):
        text = {True: "yes", False: "no"}[value] if isinstance(value, bool) else value
        return text.replace("|", "\\|").replace("\n", " ")
    scaled = value / UNITS.get(unit, 1)
    if digits is None and 0 < abs(scaled) < 0.001:
        return f"{scaled:.1e}"
    return f"{scaled:,.{decimals(scaled) if digits is None else digits}f}"


def decimals(value: float) -> int:
    """Whole numbers and hundreds have none, numbers below one have three."""
    if value == int(value) or abs(value) >= 100:
        return 0
    return 1 if abs(value) >= 1 else 3


def cell(record: Any, column: str) -> str:
    """The value of a column: "heading = path / unit", or the path alone; "." is the record."""
    path, _, unit = column.rpartition(" = ")[2].partition(" / ")
    value = record
    for key in filter(None, path.split(".")):
        value = value.get(key) if isinstance(value, dict) else None
    return shown(value, unit)


def table(found: list[Row], columns: list[str]) -> str:
    """A Markdown table; without columns, all that the records have."""
    records = [(names, record) for names, record in found if isinstance(record, dict)]
    if not columns:
        flattened = [(names, flat(record)) for names, record in records]
        columns = list(dict.fromkeys(key for _, record in flattened for key in record))
        cells = [[shown(record.get(key)) for key in columns] for _, record in flattened]
    else:
        cells = [[cell(record, column) for column in columns] for _, record in records]
    labels = list(dict.fromkeys(key for names, _ in records for key in names))
    heading = [*labels, *(column.partition(" = ")[0] for column in columns)]
    lines = [[names.get(key, "") for key in labels] for names, _ in records]
    body = [[*line, *values] for line, values in zip(lines, cells, strict=True) if any(values)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [heading, ["---"] * len(heading), *body])


def everywhere(value: Any, key: str) -> Iterator[Any]:
    """All that has this name, at any depth."""
    if isinstance(value, dict):
        yield from ([value[key]] if key in value else [])
        for item in value.values():
            yield from everywhere(item, key)
    elif isinstance(value, list):
        for item in value:
            yield from everywhere(item, key)


def machine(record: dict[str, Any]) -> str:
    parts = [record.get("gpu"), record.get("cpus") and f"{record['cpus']} cores"]
    return ", ".join(filter(None, [*parts, record.get("platform")]))


def origin(name: str, content: dict[str, Any], specification: dict[str, Any]) -> str:
    """The lines under a heading: file, commit, date, machine and command."""
    commits = [
        str(c)[:7] + "-dirty" * str(c).endswith("-dirty") for c in everywhere(content, "commit")
    ]
    commands = [c for c in everywhere(content, "command") if isinstance(c, str)]
    command = specification.get("command") or "; ".join(dict.fromkeys(commands))
    facts = {
        "file": f"`results/{name}`",
        "commit": ", ".join(dict.fromkeys(commits)) or "not recorded",
        "date": ", ".join(dict.fromkeys(everywhere(content, "date"))),
        "machine": "; ".join(dict.fromkeys(map(machine, everywhere(content, "machine")))),
        "command": f"`{command}`" if command else "",
    }
    return "\n".join(f"- {key}: {value}" for key, value in facts.items() if value)


def section(name: str, specification: dict[str, Any]) -> str:
    content = read(name)
    figures = content.get("figures")
    path = "figures.[]" if isinstance(figures, list) else "figures.{case}"
    found = list(rows(content, specification.get("rows", path).split(".")))
    if not any(isinstance(record, dict) for _, record in found):
        found = [({}, figures if isinstance(figures, dict) else content)]
    parts = [
        f"### {specification.get('title', name)}",
        specification.get("text", ""),
        table(found, specification.get("columns", [])),
        origin(name, content, specification),
    ]
    return "\n\n".join(filter(None, parts))


def page() -> str:
    groups = tomllib.loads(SPECIFICATION.read_text(encoding="utf-8"))
    groups.pop("readme")
    named = {name for group in groups.values() for name in group}
    groups["Other results"] = {name: {} for name in files() if name not in named}
    parts = [INTRODUCTION]
    for title, group in groups.items():
        parts += [f"## {title}"] * bool(group)
        parts += [section(name, specification) for name, specification in group.items()]
    return "\n\n".join(parts) + "\n"


def readme_table() -> str:
    """Error and seconds of each method on each data set, as README shows them."""
    specification = tomllib.loads(SPECIFICATION.read_text(encoding="utf-8"))["readme"]
    columns = {
        heading: (read(file)["figures"], method)
        for heading, (file, method) in specification["columns"].items()
    }
    lines = [["data", *columns], ["---"] * (1 + len(columns))]
    for data, title in specification["rows"].items():
        line = [title]
        for figures, method in columns.values():
            record = figures[data]["methods"][method]
            seconds = record["seconds"]["mean"]
            time = shown(seconds, digits=1 if seconds < 20 else 0)
            line.append(f"{shown(record['error'], digits=1)}, {time} s")
        lines.append(line)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    text = README.read_text(encoding="utf-8")
    README.write_text(MARKED.sub(lambda _: readme_table(), text), encoding="utf-8")


if __name__ == "__main__":
    main()
