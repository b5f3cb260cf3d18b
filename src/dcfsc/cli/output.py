"""What the command line prints: plain text in columns."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from dcfsc.errors import printable
from dcfsc.progress import stage

NAME_WIDTH = len("representation")  # the longest of a fit, so that what follows lines up
FEW_CLUSTERS = 12
CANDIDATE_HEADER = ("K", "slope", "separation", "evenness", "agreement", "gap")
ENCODER_GAIN = "1.0% in a wrong group instead of 37.5%, on 720 photographs of 12 kinds"
MUCH_ROOM = 10_000_000
RUN_HEADER = ("K", "differs", "confidence", "sizes", "run")
# Clear is twice the next candidate's score, if it is more than where there is nothing to see.
CLEAR, LEAST_CLEAR = 2.0, 2.0


def say(text: object, *, error: bool = False) -> None:
    """Print a line; no name in it can do more to the terminal than stand there."""
    print(printable(text), file=sys.stderr if error else sys.stdout, flush=True)


def print_facts(facts: Sequence[tuple[str, str]]) -> None:
    stage("")
    width = max(NAME_WIDTH, *(len(name) for name, _ in facts))
    for name, value in facts:
        say(f"{name:<{width}}  {value}")


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    stage("")
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        say("  ".join(cells).rstrip())


def data_facts(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The data of a record: name, number, shape, labels, notes."""
    shape = " x ".join(map(str, data["shape"]))
    what = f"samples of {shape} {data['dtype']}" if shape else "texts"
    classes = data["classes"]
    labels = "no labels" if classes is None else f"{classes} classes (labels used only to score)"
    facts = [("data", f"{data['name']}: {data['n']:,} {what}, {labels}")]
    return [*facts, ("notes", data["notes"])] if data["notes"] else facts


def start_facts(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    where, room = record["machine"], record.get("room_bytes", 0)
    many = f", {where['processes']} processes ({where['backend']})" if "processes" in where else ""
    return [
        *data_facts(record["data"]),
        *encoder_facts(record),
        *suggestion_facts(record.get("suggestion")),
        ("method", f"{record['method']}, {record['n_clusters']} clusters, seed {record['seed']}"),
        *([("auto", record["auto"])] if "auto" in record else []),
        ("device", f"{device_text(where)}{many}"),
        *([("disk", f"about {room / 1e6:,.0f} MB")] if room > MUCH_ROOM else []),
    ]


def encoder_facts(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The encoder, or for photographs that were given none what one would be worth."""
    features = record.get("features")
    if features is not None:
        return [("encoder", features["encoder"])] if "encoder" in features else []
    if not record["data"].get("photographs"):
        return []
    how = "" if find_spec("efficientnet_lite_pytorch") else "; pip install 'dcfsc[encoders]'"
    return [
        (
            "advice",
            "these are color photographs: --features encoder compares what they show, not their "
            f"pixels ({ENCODER_GAIN}){how}",
        )
    ]


def device_text(machine: Mapping[str, Any]) -> str:
    """The device of a record, the GPU by its name, and the threads beside it."""
    gpu = f" ({machine['gpu']})" if machine["gpu"] else ""
    return f"{machine['device']}{gpu}, {threads_text(machine['threads'])}"


def threads_text(number: int) -> str:
    return f"{number} thread" if number == 1 else f"{number} threads"


def suggestion_facts(suggestion: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """The candidates for the number of clusters, where none was given."""
    if suggestion is None:
        return []
    candidates = suggestion["candidates"]
    looked_at = (c for c in candidates if c["separation"] is not None)  # scores of one kind
    ranked = ", ".join(f"{c['k']} ({c['score']:.2f})" for c in looked_at)
    return [("K (score)", ranked), ("suggested", f"K = {suggestion['k']}, {clarity(candidates)}")]


def candidate_rows(candidates: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    def text(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}"

    rows = []
    for c in candidates:
        measured = (text(c[name]) for name in ("slope", "separation", "evenness"))
        rows.append((str(c["k"]), *measured, f"{c['agreement']:.0%}", f"{c['gap']:.4f}"))
    return rows


def clarity(candidates: Sequence[Mapping[str, Any]]) -> str:
    """How far the first candidate stands out from the second."""
    first, second = (*(c["score"] for c in candidates[:2]), 0.0)[:2]
    if first >= max(CLEAR * second, LEAST_CLEAR):
        return "clear: its score is twice the next one's or more"
    return "not clear: the next candidates are nearly as good"


def result_facts(
    record: Mapping[str, Any], folder: object, seconds: float
) -> list[tuple[str, str]]:
    """What came out of a fit that took so many ``seconds`` from the command on."""
    facts = score_facts(record["scores"])
    if "auto" in record:
        facts.append(("kept", f"{record['method']}: {record['auto']}"))
    facts.append(("clusters", cluster_sizes(record["cluster_sizes"])))
    if record["representation"] is not None:
        facts.append(("representation", record["representation"] + _working(record)))
    if record["stability"]:
        scores = ", ".join(f"{name} {value:.3f}" for name, value in record["stability"].items())
        facts.append(("stability", scores))
    if record["verdict"]:
        facts.append(("verdict", record["verdict"]["words"]))
    if record["lam"] is not None:
        facts.append(("lam", f"{record['lam']:.6g}"))
    facts.append(("time", f"{seconds:.2f} s"))
    facts.append(("run", str(folder)))
    page = Path(str(folder), "report.html")
    return [*facts, report_fact(page)] if page.is_file() else facts


def _working(record: Mapping[str, Any]) -> str:
    """At which size images were compared, where it is not theirs."""
    shape = record.get("working_shape")
    if shape is None or record.get("features") or list(shape) == list(record["data"]["shape"]):
        return ""
    return f" (images compared at {shape[-2]} x {shape[-1]})"


def run_row(record: Mapping[str, Any], folder: object) -> tuple[str, ...]:
    differs = f"{record['scores']['error']:.2f}%" if record["scores"] else "-"
    sizes = record["cluster_sizes"]
    spread = f"{min(sizes)} to {max(sizes)}"
    return str(record["n_clusters"]), differs, f"{record['confidence']:.3f}", spread, str(folder)


def report_fact(page: Path) -> tuple[str, str]:
    return "report", f"{page} ({page.stat().st_size / 1e6:.1f} MB)"


def score_facts(scores: Mapping[str, float] | None) -> list[tuple[str, str]]:
    """How far the clusters agree with the given labels, where there are any."""
    if scores is None:
        return []
    agreement = f"NMI {scores['nmi']:.4f}, ARI {scores['ari']:.4f}"
    differs = f"{scores['error']:.2f}% of the samples differ from the given labels"
    return [("labels", f"{differs}; {agreement}")]


def cluster_sizes(sizes: Sequence[int]) -> str:
    """All sizes where they are few, else their range."""
    if len(sizes) <= FEW_CLUSTERS:
        return f"{len(sizes)} of sizes {', '.join(map(str, sizes))}"
    return f"{len(sizes)} of sizes {min(sizes)} to {max(sizes)} (median {median(sizes):g})"
