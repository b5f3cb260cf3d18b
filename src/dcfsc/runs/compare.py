"""Two runs on the same samples: how far they agree, which samples moved, which run is better."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from dcfsc import metrics
from dcfsc.errors import InputError
from dcfsc.ownership import Output
from dcfsc.report import Details
from dcfsc.report.cards import LOW
from dcfsc.report.page import draw_page, file_links, sprites, write_page
from dcfsc.report.sections import confusion, percent

from .export import Samples, read_samples
from .folder import ALL, Run, read_run
from .life import DETAILS, READ

CLEARLY = 0.01  # difference below which two runs are alike
MOST_FLOWS, EXAMPLES = 60, 8
# What decides which run is better: the first that is known of both. Less error is better.
CRITERIA = {
    "error": "differs less from the given labels",
    "stability": "is more stable: partitions of random subsamples agree more",
    "confidence": "has the higher mean confidence",
}


@dataclass(frozen=True)
class Side:
    """One of the two runs: its name and facts, and what is known of its quality.

    ``error`` (in percent, against the labels) and ``stability`` are None where they are unknown.
    """

    name: str
    facts: dict[str, str]
    error: float | None
    stability: float | None
    confidence: float


@dataclass(frozen=True)
class Flow:
    """Samples, a ``share`` of their cluster, that went from one cluster to another."""

    source: str
    target: str
    count: int
    share: float
    samples: Sequence[int]  # the most confident first; none of small flows


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two runs on n samples, and the :func:`~dcfsc.report.sections.confusion` of their clusters.

    ``better`` is 0 or 1, or None where neither run is clearly better.
    """

    sides: tuple[Side, Side]
    n: int
    ari: float
    nmi: float
    matched: float
    better: int | None
    verdict: str
    matrix: Mapping[str, Any]
    flows: Sequence[Flow]
    moved: int


def compare_runs(
    first: Path, second: Path, target: Path | None = None, *, overwrite: bool = False
) -> Comparison:
    """Compare two runs, matching samples by id or path, or by row where one has neither.

    With a ``target`` the comparison is also written there as a page.
    """
    output = None
    if target is not None:
        read_by_it = [run / name for run in (first, second) for name in READ]
        output = Output(target, overwrite=overwrite, inputs=read_by_it)
    runs = read_run(first), read_run(second)
    samples = read_samples(runs[0]), read_samples(runs[1])
    rows = matched_rows(runs, samples)
    _warn_of_other_data(runs, samples)
    comparison = compared(runs, samples, rows)
    if output is not None:
        details = runs[0].details() if (runs[0].folder / DETAILS).is_file() else None
        files = [] if details is None else details.files.tolist()
        links = file_links(runs[0].record, files, output.target.absolute().parent)
        with output.open() as part:
            write_page(part, render_comparison(comparison, details, links))
    return comparison


def matched_rows(runs: Sequence[Run], samples: Sequence[Samples]) -> np.ndarray:
    """Pairs of rows (2, n): which sample of the first run is which of the second."""
    first, second = _names(samples)
    n = [len(run.labels) for run in runs]
    if first is not None and second is not None:
        place = {name: row for row, name in enumerate(second)}
        pairs = [(row, place[name]) for row, name in enumerate(first) if name in place]
        if not pairs:
            raise InputError(
                f"the runs {runs[0].folder} and {runs[1].folder} have no sample in common, so "
                "there is nothing to compare."
            )
        return np.array(pairs, np.int64).T
    if n[0] != n[1]:
        raise InputError(
            f"the runs have {n[0]} and {n[1]} samples without ids or paths, so they cannot "
            "be matched; compare runs on the same samples in the same order."
        )
    return np.tile(np.arange(n[0]), (2, 1))


def _names(samples: Sequence[Samples]) -> tuple[list[str] | None, list[str] | None]:
    """What both runs call their samples: ids that are unique, else paths."""
    first, second = (each.ids for each in samples)
    if all(ids is not None and len({*ids}) == len(ids) for ids in (first, second)):
        return first, second
    return samples[0].paths, samples[1].paths


def _warn_of_other_data(runs: Sequence[Run], samples: Sequence[Samples]) -> None:
    """Warn where rows, or files of the same names, are not the same samples in both runs."""
    one, other = (run.record["data"] for run in runs)
    fingerprints = {str(data.get("fingerprint")) for data in (one, other)}
    if len(fingerprints) == 1 or not all(text.startswith(ALL) for text in fingerprints):
        return
    how, (first, second) = "row by row", _names(samples)
    if first is not None and second is not None:
        if first != second or one.get("reading") != other.get("reading"):
            return
        how = "by the names of their files, whose content has changed"
        if samples[0].paths is None:
            how = "by their ids"
    names = " and ".join(str(run.folder) for run in runs)
    text = f"the runs {names} are of different data; their samples are matched {how}."
    warnings.warn(text, UserWarning, stacklevel=3)


def compared(runs: Sequence[Run], samples: Sequence[Samples], rows: np.ndarray) -> Comparison:
    """How the clusters of two runs agree on the samples that both have."""
    one, other = (each.clusters[part] for each, part in zip(samples, rows, strict=True))
    counts = metrics.confusion(one, other)
    pairs = zip(*linear_sum_assignment(counts, maximize=True), strict=True)
    partner = {int(i): int(j) for i, j in pairs if counts[i, j]}
    order = [*partner.values(), *sorted({*range(counts.shape[1])} - {*partner.values()})]
    matched = sum(int(counts[i, j]) for i, j in partner.items())
    sides = tuple(map(_side, runs, samples, rows))
    better, verdict = judged(*sides)
    clusters = np.unique(one), np.unique(other)
    names = [
        [each.edits.title(k) for k in present]
        for each, present in zip(samples, clusters, strict=True)
    ]
    off = counts.copy()
    off[list(partner), list(partner.values())] = 0
    confidence = samples[0].confidence[rows[0]]
    flows: list[Flow] = []
    for i, j in sorted(np.argwhere(off).tolist(), key=lambda pair: -off[tuple(pair)]):
        members: np.ndarray = np.zeros(0, np.int64)
        if len(flows) < MOST_FLOWS:
            members = np.flatnonzero((one == clusters[0][i]) & (other == clusters[1][j]))
        surest = rows[0, members[np.argsort(-confidence[members], kind="stable")]]
        share = float(counts[i, j] / counts[i].sum())
        flows.append(Flow(names[0][i], names[1][j], int(counts[i, j]), share, surest.tolist()))
    return Comparison(
        sides=(sides[0], sides[1]),
        n=len(one),
        ari=metrics.ari(one, other),
        nmi=metrics.nmi(one, other),
        matched=matched / len(one),
        better=better,
        verdict=verdict,
        matrix=confusion(
            counts[:, order],
            names[0],
            [names[1][j] for j in order],
            f"Samples of each cluster of {sides[0].name} (rows) in the clusters of {sides[1].name}",
        ),
        flows=flows,
        moved=len(one) - matched,
    )


def _side(run: Run, samples: Samples, rows: np.ndarray) -> Side:
    record, confidence = run.record, samples.confidence[rows]
    representation = record.get("representation")
    stability = (record.get("stability") or {}).get(representation)
    error = None
    if samples.true_labels is not None:
        truth = np.array(samples.true_labels)[rows]
        error = metrics.clustering_error(truth, samples.clusters[rows]) / 100
    facts = {
        "Data": f"{record['data']['name']}, {record['data']['n']:,} samples",
        "Method": " on ".join(
            filter(None, (record["method"], (record.get("features") or {}).get("name")))
        ),
        "Clusters": str(len(samples.edits.clusters)),
        "Edits": "named, merged or split" if samples.edits.commands else None,
        "Representation": representation,
        "Seed": str(record.get("seed")),
        "Differs from the labels": None if error is None else percent(error, 2),
        "Stability": None if stability is None else f"{stability:.3f}",
        "Mean confidence": f"{confidence.mean():.3f}",
        "Uncertain": f"{percent((confidence < LOW).mean())} of the samples",
    }
    return Side(
        name=run.folder.name if run.folder.is_absolute() else str(run.folder),
        facts={name: value for name, value in facts.items() if value},
        error=error,
        stability=stability,
        confidence=float(confidence.mean()),
    )


def judged(first: Side, second: Side) -> tuple[int | None, str]:
    """Which of two runs is better, 0 or 1, or None for neither; and the reason in words."""
    for criterion in CRITERIA:
        values = getattr(first, criterion), getattr(second, criterion)
        if None not in values:
            break
    if abs(values[0] - values[1]) < CLEARLY:
        numbers = f"{values[0]:.3f} and {values[1]:.3f}"
        what = "difference from the labels" if criterion == "error" else criterion
        return None, f"Neither run is clearly better: their {what} is {numbers}."
    better = int(np.argmin(values) if criterion == "error" else np.argmax(values))
    name, one, other = (first, second)[better].name, values[better], values[1 - better]
    return better, f"{name} {CRITERIA[criterion]} ({one:.3f} against {other:.3f})."


def render_comparison(
    comparison: Comparison, details: Details | None, links: Sequence[str] | None = None
) -> str:
    """The comparison as a page; images are of the first run's ``details``, linked to ``links``."""
    sheet = None if details is None else sprites(details)
    shown = [] if details is None or sheet is None else details.shown.tolist()
    stored = {sample: at for at, sample in enumerate(shown)}
    return draw_page(
        "comparison.html",
        comparison=comparison,
        names=[side.name for side in comparison.sides],
        details=details,
        links=links,
        sheet=sheet,
        flows=[
            (flow, [stored[sample] for sample in flow.samples if sample in stored][:EXAMPLES])
            for flow in comparison.flows[:MOST_FLOWS]
        ],
    )
