"""Tables from the saved cells alone: ours beside the paper's, with the critique's columns."""

from __future__ import annotations

import csv
import io
import statistics
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from . import hopkins, paper
from .catalog import get
from .cells import CellStore, Record
from .methods import METHODS, get_method
from .views_table import VIEW_COLUMNS, VIEW_LEGEND, short, view_rows

Row = dict[str, Any]
MARK = "†"
STEP_TITLES = {
    "dsc": "DSC",
    "dcfsc-inverse": "DCFSC, explicit N x N inverse (the paper's listing)",
    "dcfsc": "DCFSC, feature form",
    "dcfsc-fast": "DCFSC, feature form, network in bfloat16",
    "dcfsc-low-memory": "DCFSC, feature form, activations of 512 samples at a time",
}


def write(store: CellStore, folder: Path) -> None:
    """Write ``table.csv`` and ``table.md`` to a folder."""
    rows = summarize(store)
    (folder / "table.csv").write_text(to_csv(rows), encoding="utf-8")
    (folder / "table.md").write_text(to_markdown(store, rows), encoding="utf-8")


def summarize(store: CellStore) -> list[Row]:
    """The rows of an experiment's table."""
    return _SUMMARIES.get(store.experiment, clustering_rows)(store)


# Clustering ---------------------------------------------------------------------------------


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
        "title": get_method(method).title,
        "K": K,
        "lam": lam,
        "paper_mean": printed.mean if printed else None,
        "paper_median": printed.median if printed else None,
        "error_mean": mean,
        "error_std": statistics.stdev(errors) if len(errors) > 1 else None,
        "error_median": statistics.median(errors),
        "difference": mean - printed.mean if printed else None,
        "cells": len(errors),
        "failed": failed,
        "kmeans_mean": _mean(records, "kmeans", "error"),
        "discretize_mean": _mean(records, "discretize", "error"),
        "plain_mean": _mean(records, "plain", "error"),
        "raw_mean": _mean(records, "raw", "error"),
        "start_mean": _mean(records, "start", "error"),
        "nmi_mean": _mean(records, "protocol", "nmi"),
        "ari_mean": _mean(records, "protocol", "ari"),
        "effective_lambda": _median(r.get("effective_lambda") for r in records),
        "effective_dof": _median(r.get("effective_dof") for r in records),
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


CLUSTERING_COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("method", lambda r: _title(r)),
    ("paper", lambda r: _two(r["paper_mean"], r["paper_median"])),
    ("ours: mean ± std", lambda r: _spread(r["error_mean"], r["error_std"])),
    ("median", lambda r: _number(r["error_median"])),
    ("difference", lambda r: _number(r["difference"], signed=True)),
    ("cells", lambda r: f"{r['cells']}" + (f" ({r['failed']} failed)" if r["failed"] else "")),
    ("with k-means", lambda r: _number(r["kmeans_mean"])),
    ("with discretize", lambda r: _number(r["discretize_mean"])),
    ("no post-processing", lambda r: _number(r["plain_mean"])),
    ("raw pixels", lambda r: _number(r["raw_mean"])),
    ("starting latents", lambda r: _number(r["start_mean"])),
    ("NMI", lambda r: _number(r["nmi_mean"], 3)),
    ("ARI", lambda r: _number(r["ari_mean"], 3)),
    ("effective λ", lambda r: short(r["effective_lambda"])),
    ("tr H", lambda r: short(r["effective_dof"])),
    ("rank / d", lambda r: f"{r['rank']:.0f} / {r['dim']}"),
    ("s a fit", lambda r: short(r["seconds"])),
)

CLUSTERING_LEGEND = (
    "Clustering error in percent, lower is better; the paper's column gives its mean and, where it "
    "has one, its median. *With k-means*, *with discretize*: the same affinity, labels assigned so "
    "whatever the protocol's method. *No post-processing*: the same coefficients, |C| + |C|' and "
    "the same assignment. *Raw pixels* and *starting latents*: the closed form without training, "
    "λ = 0.01 of the mean squared row norm, through DCFSC's post-processing. "
    "*Effective λ*: λ over the mean squared row norm; *tr H*: effective degrees of freedom; "
    "*rank*: singular values of the method's features above single-precision rounding. "
    f"{MARK} the authors, or we, chose some of these settings by looking at the labels (named in "
    "table.csv)."
)


def _title(row: Row) -> str:
    name = row["title"] + (f", λ = {row['lam']:g}" if row["lam"] is not None else "")
    return name + (f" {MARK}" if row["chosen_with_labels"] else "")


def clustering_markdown(store: CellStore, rows: list[Row]) -> list[str]:
    lines = []
    clusters = sorted({row["K"] for row in rows})
    for K in clusters:
        if len(clusters) > 1:
            lines += [f"## {K} clusters", ""]
        lines += [*_grid(CLUSTERING_COLUMNS, [r for r in rows if r["K"] == K]), ""]
    return [*lines, CLUSTERING_LEGEND]


# Parameters and memory ----------------------------------------------------------------------


def parameter_rows(store: CellStore) -> list[Row]:
    rows = [
        {
            "dataset": record["dataset"],
            "method": record["method"],
            "network": record["network"],
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


PARAMETER_COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("dataset", lambda r: r["dataset"]),
    ("model", lambda r: r["method"].upper()),
    ("layer by layer", lambda r: r["layers"]),
    ("the paper's layers", lambda r: r["paper_layers"]),
    ("self-expressive", lambda r: f"{r['self_expressive']:,}"),
    ("total", lambda r: f"{r['total']:,}"),
    ("the paper's total", lambda r: f"{r['paper_total']:,}"),
    ("equal", lambda r: "yes" if r["equal"] else "NO"),
)


def memory_rows(store: CellStore) -> list[Row]:
    rows = [
        {
            "dataset": r["dataset"],
            "method": r["method"],
            "n": r["n"],
            "dim": r["dim"],
            "device": r["machine"]["gpu"] or r["machine"]["device"],
            "peak_mib": r["memory"]["peak_bytes"] / 2**20,
            "step_mib": (r["memory"]["peak_bytes"] - r["memory"]["before_bytes"]) / 2**20,
            "paper_mb": paper.MEMORY_MB.get((r["dataset"], r["method"])),
            "seconds_a_step": r["seconds_a_step"],
            "steps": r["steps"],
        }
        for r in store.records()
    ]
    order = {"orl": 0, "eyaleb": 1, "coil100": 2}
    return sorted(rows, key=lambda r: (order.get(r["dataset"], 9), r["method"]))


MEMORY_COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("dataset", lambda r: r["dataset"]),
    ("model", lambda r: STEP_TITLES[r["method"]]),
    ("N", lambda r: f"{r['n']:,}"),
    ("d", lambda r: f"{r['dim']:,}"),
    ("device", lambda r: r["device"]),
    ("peak MiB", lambda r: f"{r['peak_mib']:,.0f}"),
    ("of which the steps", lambda r: f"{r['step_mib']:,.0f}"),
    ("paper, MB", lambda r: f"{r['paper_mb']:,.0f}" if r["paper_mb"] else ""),
    ("seconds a step", lambda r: short(r["seconds_a_step"])),
)


# Motion segmentation --------------------------------------------------------------------------


def motion_rows(store: CellStore) -> list[Row]:
    return hopkins.rows(store.records(), Counter(r["method"] for r in store.failures()))


def _group_columns(group: str, title: str) -> tuple[tuple[str, Callable[[Row], str]], ...]:
    return (
        (f"{title}: mean / median", lambda r: _two(r[f"{group}_mean"], r[f"{group}_median"])),
        ("paper", lambda r: _number(r[f"{group}_paper"])),
    )


MOTION_COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("method", lambda r: r["title"] + (f" {MARK}" if r["chosen_with_labels"] else "")),
    *_group_columns("two", "two motions"),
    *_group_columns("three", "three motions"),
    *_group_columns("all", "all"),
    ("NMI", lambda r: _number(r["nmi_mean"], 3)),
    ("s for all", lambda r: short(r["seconds"])),
    ("sequences", lambda r: f"{r['sequences']}" + f" ({r['failed']} failed)" * (r["failed"] > 0)),
    ("setting", lambda r: r["setting"]),
)
MOTION_LEGEND = (
    "Clustering error in percent over 120 sequences of two motions and 35 of three; *paper*: the "
    "mean that the authors print. "
    f"{MARK} the authors, or we, chose some of these settings by looking at the labels of these "
    "sequences (named in table.csv)."
)
_SUMMARIES: dict[str, Callable[[CellStore], list[Row]]] = {
    "parameters": parameter_rows,
    "memory": memory_rows,
    "hopkins155": motion_rows,
    "views": view_rows,
}


# Writing ------------------------------------------------------------------------------------


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


def to_markdown(store: CellStore, rows: list[Row]) -> str:
    lines = [f"# {get(store.experiment).title}", ""]
    if not rows:
        lines.append("No cell has been computed yet.")
    elif store.experiment == "parameters":
        lines += _grid(PARAMETER_COLUMNS, rows)
    elif store.experiment == "memory":
        lines += [*_grid(MEMORY_COLUMNS, rows), "", MEMORY_LEGEND]
    elif store.experiment == "hopkins155":
        lines += [*_grid(MOTION_COLUMNS, rows), "", MOTION_LEGEND]
    elif store.experiment == "views":
        lines += [*_grid(VIEW_COLUMNS, rows), "", VIEW_LEGEND]
    else:
        lines += clustering_markdown(store, rows)
    for note in _notes(store):
        lines += ["", note]
    return "\n".join(lines) + "\n"


MEMORY_LEGEND = (
    "Each row in a process of its own. On a GPU the peak is the allocator's, on a CPU the "
    "process's resident set; *of which the steps* is the peak less what was held before the first "
    "step. The paper's figures are of TensorFlow 1.8 on a V100."
)


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
    on = f"{where['cpus']} CPUs ({where['platform']})" + (
        f", {where['gpu']}" if where["gpu"] else ""
    )
    return ", ".join(f"{k} {v}" for k, v in record["versions"].items()) + f" on {on}"


def headline(record: Record) -> str:
    """A finished cell in a few words."""
    if "protocol" in record:
        line = f"error {record['protocol']['error']:.2f}%, plain {record['plain']['error']:.2f}"
        for name in ("raw", "start"):
            if record.get(name):
                line += f", {name} {record[name]['error']:.2f}"
        return line
    if "with_kmeans" in record:
        return f"error {record['error']:.2f}%, with k-means {record['with_kmeans']:.2f}"
    if "error" in record:
        return f"error {record['error']:.2f}%"
    if "seconds_a_step" in record:
        peak = record["memory"]["peak_bytes"] / 2**20
        return f"{peak:,.0f} MiB, {record['seconds_a_step']:.3g} s a step"
    return f"{record['total']:,} parameters"


def _grid(columns: tuple[tuple[str, Callable[[Row], str]], ...], rows: list[Row]) -> list[str]:
    """A Markdown table; columns that would be empty are left out."""
    cells = [[show(row) for _, show in columns] for row in rows]
    kept = [c for c in range(len(columns)) if any(line[c] for line in cells)]
    lines = [[columns[c][0] for c in kept], ["---" for _ in kept]]
    lines += [[line[c].replace("|", "\\|") for c in kept] for line in cells]
    return ["| " + " | ".join(line) + " |" for line in lines]


def _number(value: float | None, digits: int = 2, signed: bool = False) -> str:
    return "" if value is None else f"{value:{'+' if signed else ''}.{digits}f}"


def _two(mean: float | None, median: float | None) -> str:
    return _number(mean) + (f" / {median:.2f}" if median is not None else "")


def _spread(mean: float, std: float | None) -> str:
    return f"{mean:.2f}" + (f" ± {std:.2f}" if std is not None else "")
