"""Two runs on the same samples: how far they agree, who moved where, which is the more stable."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from dcfsc import metrics
from dcfsc.errors import InputError
from dcfsc.ownership import Output
from dcfsc.report import Details
from dcfsc.report.comparison import Comparison, Flow, Side, write_comparison
from dcfsc.report.page import file_links

from .edits import read_edits
from .export import Samples, read_samples
from .folder import ALL, Run, read_run
from .life import DETAILS, READ

CLEARLY = 0.01  # difference of stability or confidence below which two runs are alike
LOW = 0.5  # confidence of a sample that another cluster may hold as well


@dataclass(frozen=True, eq=False)
class _Read:
    run: Run
    samples: Samples


def compare_runs(first: Path, second: Path, target: Path, *, overwrite: bool = False) -> Comparison:
    """Compare two runs and write the page; samples are matched by path, or by row without paths."""
    read_by_it = [run / name for run in (first, second) for name in READ]
    output = Output(target, overwrite=overwrite, inputs=read_by_it)
    read = [_Read(run, read_samples(run)) for run in map(read_run, (first, second))]
    rows = matched_rows(read[0], read[1])
    _tell_other_data(read[0], read[1])
    comparison = compared(read[0], read[1], rows)
    with output.open() as part:
        run, details = read[0].run, _details(read[0].run)
        files = [] if details is None else details.files.tolist()
        links = file_links(run.record, files, target.absolute().parent)
        write_comparison(part, comparison, details, links)
    return comparison


def matched_rows(first: _Read, second: _Read) -> np.ndarray:
    """Pairs of rows (n, 2): which sample of the first run is which of the second."""
    paths = first.samples.paths, second.samples.paths
    n = len(first.run.labels), len(second.run.labels)
    if paths[0] is not None and paths[1] is not None:
        place = {path: row for row, path in enumerate(paths[1])}
        pairs = [(row, place[path]) for row, path in enumerate(paths[0]) if path in place]
        if not pairs:
            raise InputError(
                f"the runs {first.run.folder} and {second.run.folder} have no file in common, so "
                "there is nothing to compare."
            )
        return np.array(pairs, np.int64)
    if n[0] != n[1]:
        raise InputError(
            f"the runs have {n[0]} and {n[1]} samples without paths, so they cannot be "
            "matched; compare runs on the same samples in the same order."
        )
    return np.repeat(np.arange(n[0])[:, None], 2, axis=1)


def _tell_other_data(*both: _Read) -> None:
    """Say so where rows, or files of the same names, do not hold the same samples in both runs."""
    data = [read.run.record["data"] for read in both]
    one, other = (str(each.get("fingerprint")) for each in data)
    if one == other or not (one.startswith(ALL) and other.startswith(ALL)):
        return
    how = "row by row"
    if both[0].samples.paths is not None and both[1].samples.paths is not None:
        if both[0].samples.paths != both[1].samples.paths:
            return  # other files beside the common ones
        if data[0].get("reading") != data[1].get("reading"):
            return
        how = "by the names of their files, whose content has changed"
    names = " and ".join(str(read.run.folder) for read in both)
    told = f"the runs {names} are of different data; their samples are matched {how}."
    warnings.warn(told, UserWarning, stacklevel=3)


def compared(first: _Read, second: _Read, rows: np.ndarray) -> Comparison:
    """How the clusters of two runs agree on the samples that both have."""
    labels = [read.samples.clusters[rows[:, i]] for i, read in enumerate((first, second))]
    partner = matching(labels[0], labels[1])
    moved = np.array([partner.get(int(a), -1) != b for a, b in zip(*labels, strict=True)])
    sides = [_side(read, rows[:, i]) for i, read in enumerate((first, second))]
    counts = metrics.confusion(*labels)
    clusters = [np.unique(part).tolist() for part in labels]
    order = [partner[a] for a in clusters[0] if a in partner]
    order += [b for b in clusters[1] if b not in order]
    column = [clusters[1].index(b) for b in order]
    return Comparison(
        sides=(sides[0], sides[1]),
        n=len(rows),
        ari=metrics.ari(*labels),
        nmi=metrics.nmi(*labels),
        matched=float(1.0 - moved.mean()),
        stability=stabler(sides[0], sides[1]),
        rows=[first.samples.edits.title(a) for a in clusters[0]],
        columns=[second.samples.edits.title(b) for b in order],
        counts=counts[:, column],
        flows=_flows(first, second, rows, labels, moved),
        moved=int(moved.sum()),
    )


def matching(first: np.ndarray, second: np.ndarray) -> dict[int, int]:
    """The cluster of the second partition that the best one-to-one matching gives each."""
    counts = metrics.confusion(first, second)
    a, b = np.unique(first), np.unique(second)
    pairs = zip(*linear_sum_assignment(counts, maximize=True), strict=True)
    return {int(a[i]): int(b[j]) for i, j in pairs if counts[i, j]}


def _flows(
    first: _Read, second: _Read, rows: np.ndarray, labels: list[np.ndarray], moved: np.ndarray
) -> list[Flow]:
    """Who moved where, the largest groups first; examples are rows of the first run."""
    found = []
    pairs, counts = np.unique(np.column_stack(labels)[moved], axis=0, return_counts=True)
    sure = first.samples.confidence[rows[:, 0]]
    for (a, b), count in zip(pairs.tolist(), counts.tolist(), strict=True):
        members = np.flatnonzero(moved & (labels[0] == a) & (labels[1] == b))
        order = members[np.argsort(-sure[members], kind="stable")]
        share = count / int((labels[0] == a).sum())
        titles = first.samples.edits.title(a), second.samples.edits.title(b)
        found.append(Flow(titles[0], titles[1], int(count), share, rows[order, 0].tolist()))
    return sorted(found, key=lambda flow: -flow.count)


def _side(read: _Read, rows: np.ndarray) -> Side:
    record, confidence = read.run.record, read.samples.confidence[rows]
    chosen = record.get("representation")
    stability = (record.get("stability") or {}).get(chosen)
    features = (record.get("features") or {}).get("name")
    scores = record.get("scores") or {}
    facts = [
        ("Data", f"{record['data']['name']}, {record['data']['n']:,} samples"),
        ("Method", " on ".join(filter(None, (record["method"], features)))),
        ("Clusters", str(len(read.samples.edits.clusters))),
        ("Representation", chosen),
        ("Seed", str(record.get("seed"))),
        ("Error", f"{scores['error']:.2f} %, as fitted" if "error" in scores else None),
        ("Stability", None if stability is None else f"{stability:.3f}"),
        ("Mean confidence", f"{confidence.mean():.3f}"),
        ("In doubt", f"{100 * (confidence < LOW).mean():.1f} % of the samples"),
    ]
    return Side(
        name=read.run.folder.name if read.run.folder.is_absolute() else str(read.run.folder),
        facts=[(name, value) for name, value in facts if value],
        stability=stability,
        confidence=float(confidence.mean()),
        edited=bool(read_edits(read.run).commands),
    )


def stabler(first: Side, second: Side) -> str:
    """In words, which of two runs is the more stable, and by what."""
    values: tuple[Any, Any] = (first.stability, second.stability)
    what = "partitions of random parts of the samples agree more"
    if None in values:
        values, what = (first.confidence, second.confidence), "its samples are surer on the mean"
    if abs(values[0] - values[1]) < CLEARLY:
        return f"Neither is clearly more stable ({values[0]:.3f} and {values[1]:.3f})."
    better = int(values[1] > values[0])
    name = (first, second)[better].name
    one, other = values[better], values[1 - better]
    return f"{name} is the more stable: {what} ({one:.3f} against {other:.3f})."


def _details(run: Run) -> Details | None:
    return run.details() if (run.folder / DETAILS).is_file() else None
