"""Tables of the saved cells: one row a method, as CSV with every number and as Markdown to read."""

from __future__ import annotations

import csv
import io
import re
import statistics
import string
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from . import paper
from .cells import CellStore, Record
from .methods import METHODS

Row = dict[str, Any]
Columns = tuple[tuple[str, Callable[[Row], str]], ...]
STEP_TITLES = {
    "dsc": "DSC",
    "dcfsc-inverse": "DCFSC, explicit N x N inverse (the paper's listing)",
    "dcfsc": "DCFSC, feature form",
    "dcfsc-fast": "DCFSC, feature form, network in bfloat16",
    "dcfsc-low-memory": "DCFSC, feature form, activations of 512 samples at a time",
}


@dataclass(frozen=True)
class Table:
    """The rows of an experiment, and the columns of its Markdown.

    ``sections`` names a value of the rows that divides the Markdown, where there are several.
    """

    rows: Callable[[CellStore], list[Row]]
    columns: Columns
    legend: str = ""
    sections: str = ""


def write(title: str, table: Table, rows: list[Row], store: CellStore, folder: Path) -> None:
    """Write ``table.csv`` and ``table.md`` to a folder."""
    (folder / "table.csv").write_text(to_csv(rows), encoding="utf-8")
    (folder / "table.md").write_text(to_markdown(title, table, rows, store), encoding="utf-8")


def to_csv(rows: list[Row]) -> str:
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: _csv_value(v) for k, v in row.items()})
    return text.getvalue()


def _csv_value(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else "" if value is None else value


def to_markdown(title: str, table: Table, rows: list[Row], store: CellStore) -> str:
    parts = [f"# {title}"]
    if not rows:
        parts.append("No cell has been computed yet.")
    sections = sorted({row[table.sections] for row in rows}) if table.sections else []
    if len(sections) > 1:
        for value in sections:
            own = [row for row in rows if row[table.sections] == value]
            parts += [f"## {value} clusters", _grid(table.columns, own)]
    elif rows:
        parts.append(_grid(table.columns, rows))
    if rows and table.legend:
        parts.append(table.legend)
    return "\n\n".join([*parts, *_notes(store)]) + "\n"


def _grid(columns: Columns, rows: list[Row]) -> str:
    """A Markdown table; columns that would be empty are left out."""
    cells = [[show(row) for _, show in columns] for row in rows]
    shown = [c for c in range(len(columns)) if any(line[c] for line in cells)]
    lines = [[columns[c][0] for c in shown], ["---" for _ in shown]]
    lines += [[line[c].replace("|", "\\|") for c in shown] for line in cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _notes(store: CellStore) -> list[str]:
    """What a reader of these numbers must know: data, failures, versions and machines."""
    records, failures = store.records(), store.failures()
    notes = sorted({r["notes"] for r in records if r.get("notes")})
    if failures:
        reasons = sorted({f"{r['method']}: {r['failed']}" for r in failures})
        notes.append(f"{len(failures)} cells failed. " + " ".join(reasons[:5]))
    places = sorted({_place(r) for r in records})
    return [f"Note: {note}" for note in notes] + [f"Measured with {place}." for place in places]


def _place(record: Record) -> str:
    where = record["machine"]
    gpu = f", {where['gpu']}" if where["gpu"] else ""
    versions = ", ".join(f"{k} {v}" for k, v in record["versions"].items())
    return f"{versions} on {where['cpus']} CPUs ({where['platform']}){gpu}"


def headline(record: Record) -> str:
    if "protocol" in record:
        line = f"error {record['protocol']['error']:.2f}%, plain {record['plain']['error']:.2f}"
        for name in ("raw", "start"):
            if record.get(name):
                line += f", {name} {record[name]['error']:.2f}"
        return line
    if "error" in record:
        line = f"error {record['error']:.2f}%"
        with_kmeans = record.get("with_kmeans")
        return line if with_kmeans is None else f"{line}, with k-means {with_kmeans:.2f}"
    if "seconds_a_step" in record:
        peak = record["memory"]["peak_bytes"] / 2**20
        return f"{peak:,.0f} MiB, {record['seconds_a_step']:.3g} s a step"
    return f"{record['total']:,} parameters"


def short(value: float | None) -> str:
    """Three digits of a value, all digits of its whole part; empty for None."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


SPECS: dict[str, Callable[[Any], str]] = {
    "short": short,
    "upper": str.upper,
    "yes": lambda value: "yes" if value else "NO",
    "step": STEP_TITLES.__getitem__,
    "failed": lambda count: f" ({count} failed)" if count else "",
    "counted": lambda count: f"{count:,}" if count else "",
    "hidden": lambda value: "",
}
LAYOUTS = tomllib.loads(Path(__file__).with_name("tables.toml").read_text(encoding="utf-8"))


class _Formatter(string.Formatter):
    def format_field(self, value: Any, spec: str) -> str:
        return SPECS[spec](value) if spec in SPECS else format(value, spec)


def table(
    name: str, rows: Callable[[CellStore], list[Row]], **derived: Callable[[Row], str]
) -> Table:
    """A table with the layout that tables.toml has of this name.

    ``derived`` fields are in the Markdown alone.
    """
    layout = LAYOUTS[name]

    def shown(template: str, row: Row) -> str:
        return _shown(template, row | {field: derive(row) for field, derive in derived.items()})

    columns = tuple((heading, partial(shown, template)) for heading, template in layout["columns"])
    legend = layout.get("legend", "").strip()
    return Table(rows, columns, legend, layout.get("sections", ""))


def _shown(template: str, row: Row) -> str:
    first, *optional = re.split(r"[\[\]]", template)
    text = _filled(first, row)
    return text and text + "".join(_filled(part, row) for part in optional)


def _filled(template: str, row: Row) -> str:
    """A template with a row's fields; empty if one of them is not known."""
    fields = [name for _, name, _, _ in string.Formatter().parse(template) if name]
    if any(row[name] in (None, "") for name in fields):
        return ""
    return _Formatter().vformat(template, (), row)


def deviation(values: list[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 else None


# Clustering ---------------------------------------------------------------------------------


PARTS = ("kmeans", "discretize", "plain", "raw", "start")


def clustering_rows(store: CellStore) -> list[Row]:
    """One row for each method, number of clusters and lam: statistics over its cells."""
    groups: dict[tuple[str, int, float | None], list[Record]] = {}
    for record in store.records():
        groups.setdefault(_group(record), []).append(record)
    failed = Counter((record["method"], record["K"]) for record in store.failures())
    rows = [
        clustering_row(method, K, lam, records, failed[method, K])
        for (method, K, lam), records in groups.items()
    ]
    order = list(METHODS)
    return sorted(rows, key=lambda r: (r["K"], order.index(r["method"]), r["lam"] or 0.0))


def _group(record: Record) -> tuple[str, int, float | None]:
    lam = None
    if record["experiment"] == "lambda" and record["method"].startswith("dcfsc"):
        lam = float(record["parameters"]["lam"])
    return record["method"], int(record["K"]), lam


def clustering_row(
    method: str, K: int, lam: float | None, records: list[Record], failed: int
) -> Row:
    errors = [r["protocol"]["error"] for r in records]
    printed = None if lam is not None else paper.printed(records[0]["dataset"], method, K)
    mean = statistics.fmean(errors)
    return {
        "method": method,
        "title": METHODS[method].title,
        "K": K,
        "lam": lam,
        "paper_mean": printed.mean if printed else None,
        "paper_median": printed.median if printed else None,
        "error_mean": mean,
        "error_std": deviation(errors),
        "error_median": statistics.median(errors),
        "difference": mean - printed.mean if printed else None,
        "cells": len(errors),
        "failed": failed,
        **{f"{part}_mean": _mean(records, part, "error") for part in PARTS},
        "nmi_mean": _mean(records, "protocol", "nmi"),
        "ari_mean": _mean(records, "protocol", "ari"),
        **{
            name: _median(r.get(name) for r in records)
            for name in ("effective_lambda", "effective_dof")
        },
        "dim": records[0]["features"]["dim"],
        "rank": _median(r["features"]["rank"] for r in records),
        "seconds": _median(r["seconds"] for r in records),
        "peak_mib": _median(r["memory"]["peak_bytes"] / 2**20 for r in records),
        "chosen_with_labels": " ".join(records[0]["chosen_with_labels"]),
    }


def _mean(records: list[Record], part: str, field: str) -> float | None:
    values = [r[part][field] for r in records if r.get(part)]
    return statistics.fmean(values) if values else None


def _median(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return statistics.median(known) if known else None


CLUSTERING = table("clustering", clustering_rows)


# Parameters and memory ----------------------------------------------------------------------


def parameter_rows(store: CellStore) -> list[Row]:
    rows = [
        {
            **{name: record[name] for name in ("dataset", "method", "network")},
            "layers": " ".join(map(str, record["layers"])),
            "paper_layers": " ".join(map(str, record["paper_layers"])),
            "self_expressive": record["self_expressive"],
            "total": record["total"],
            "paper_total": record["paper_total"],
            "equal": record["layers"] == record["paper_layers"]
            and record["total"] == record["paper_total"],
        }
        for record in store.records()
    ]
    return sorted(rows, key=lambda r: (r["dataset"], r["method"] != "dsc", r["network"]))


def memory_rows(store: CellStore) -> list[Row]:
    rows = [
        {
            **{name: r[name] for name in ("dataset", "method", "n", "dim")},
            "device": r["machine"]["gpu"] or r["machine"]["device"],
            "peak_mib": r["memory"]["peak_bytes"] / 2**20,
            "step_mib": (r["memory"]["peak_bytes"] - r["memory"]["before_bytes"]) / 2**20,
            "paper_mb": paper.memory(r["dataset"], r["method"]),
            "seconds_a_step": r["seconds_a_step"],
            "steps": r["steps"],
        }
        for r in store.records()
    ]
    order = {"orl": 0, "eyaleb": 1, "coil100": 2}
    return sorted(rows, key=lambda r: (order.get(r["dataset"], 9), r["method"]))


PARAMETERS = table("parameters", parameter_rows)
MEMORY = table("memory", memory_rows)
