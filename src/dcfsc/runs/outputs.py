"""Files that commands write beside a finished run, or anywhere else on a person's word."""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.errors import InputError
from dcfsc.files import WriteError, header_of, read_json
from dcfsc.journal import LIST, MOVING_SECONDS, RECORD, RUN, Filled, digest, held, is_record
from dcfsc.ownership import Output

from .life import DETAILS, EDITS, FEATURES, LABELS, MODEL, READ, REPORT

PAGE = b"dcfsc report"  # stands on every page


def output_of(
    run: Path,
    target: Path,
    *,
    overwrite: bool = False,
    asks: bool = True,
    inputs: Iterable[Path] = (),
) -> Output:
    """A file that a command on a run will write, in the run's folder or elsewhere."""
    adopt(run)
    read = [*inputs, *(run / name for name in READ)]
    return Output(target, overwrite=overwrite, own=run, inputs=read, asks=asks)


def numbered_output(run: Path, target: Path) -> Output:
    """The first of NAME.csv, NAME-2.csv, ... that is free in the folder of a run."""
    adopt(run)
    return Output.numbered(target, own=run)


def adopt(run: Path) -> None:
    """Give a run of version 1.0, which kept no list, one of the files that fit its record."""
    if not is_listed(run):
        with suppress(WriteError), held(run, MOVING_SECONDS):  # a folder that is only read from
            adopt_held(run)


def is_listed(run: Path) -> bool:
    return os.path.lexists(run / LIST) or not is_record(run / RECORD)


def adopt_held(run: Path) -> None:
    """The same, by who holds the folder."""
    if is_listed(run):
        return
    record = read_json(run / RECORD)
    files = [n for n in _FITS if os.path.isfile(run / n) and not os.path.islink(run / n)]
    names = [RECORD, *(name for name in files if _FITS[name](run, record))]
    Filled(RUN, {name: [str(digest(run / name))] for name in names}).write(run)


def _labels_fit(run: Path, record: dict[str, Any]) -> bool:
    try:
        with open(run / LABELS, encoding="utf-8", newline="") as file:
            sizes = Counter(int(row["label"]) for row in csv.DictReader(file))
        return bool(sizes) and sizes == Counter(dict(enumerate(record["cluster_sizes"])))
    except (OSError, ValueError, KeyError, TypeError, csv.Error):
        return False


def _details_fit(run: Path, record: dict[str, Any]) -> bool:
    from dcfsc.report import read_details

    try:
        sizes = np.bincount(read_details(run / DETAILS).labels)
        return sizes.tolist() == record["cluster_sizes"]
    except (InputError, KeyError, ValueError):
        return False


def _model_fits(run: Path, record: dict[str, Any]) -> bool:
    header = header_of(run / MODEL) or {}
    values, params = header.get("values"), header.get("params")
    if not isinstance(values, dict) or not isinstance(params, dict):
        return False
    n_clusters = values.get("n_clusters", params.get("n_clusters"))
    return bool(record.get("model")) and n_clusters == record.get("n_clusters")


def _edits_fit(run: Path, record: dict[str, Any]) -> bool:
    try:
        return "dcfsc_edits" in read_json(run / EDITS)
    except (OSError, ValueError, TypeError):
        return False


_FITS = {
    EDITS: _edits_fit,
    LABELS: _labels_fit,
    MODEL: _model_fits,
    FEATURES: lambda run, record: (
        bool(record.get("features")) and "class" in (header_of(run / FEATURES) or {})
    ),
    DETAILS: _details_fit,
    REPORT: lambda run, record: PAGE in (run / REPORT).read_bytes(),
}
