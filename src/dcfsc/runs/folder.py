"""A finished run, read back from its folder.

It holds ``labels.csv``, ``model.safetensors`` where the method can be saved,
``features.safetensors`` where features were computed first, and ``run.json``. What a report is
drawn from (``details.npz``) and the report itself come after them.

Nothing here needs PyTorch or scikit-learn: what only reads a run starts at once.
"""

from __future__ import annotations

import csv
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dcfsc._version import __version__
from dcfsc.errors import InputError
from dcfsc.files import read_json
from dcfsc.journal import LIST, RECORD, digest, settle

from .life import CHECKPOINT, DETAILS, LABELS, READ, files_named, is_checkpoint
from .tables import formula_removed

if TYPE_CHECKING:
    from dcfsc.report import Details

FORMAT, OLDEST = 3, 2  # of records: what is written, and what is still read
ALL = "all:"  # begins a fingerprint; one without it, of an earlier version, is of some samples
AGAIN = "fit again, with --overwrite"
LARGEST_NUMBER = 1e18  # in a record
# What a fit chose: attributes of the estimator, without their underscore.
CHOSEN = ("lam", "effective_dof", "representation", "stability", "rival", "working_shape")
CHOSEN_BY_VIEWS = ("augmentations", "consistency")
RENAMED = {
    f"{name}_": name for name in CHOSEN if name != "rival"
}  # since format 2, that of version 1
RENAMED |= {"view_strengths_": "augmentations", "view_consistency_": "consistency"}
# The types in a record, by section; float is any number, and None may stand for each.
FIELDS: dict[str, dict[type, str]] = {
    "": {
        str: "method command started model representation",
        dict: "parameters data features scores machine versions suggestion verdict timings "
        "stability rival files",
        list: "history cluster_sizes",
        int: "n_clusters",
        float: "confidence lam effective_dof",
    },
    "data": {
        str: "name dtype fingerprint labels notes directory",
        int: "n classes",
        list: "shape broken ranges",
        dict: "reading",
        bool: "photographs",
    },
    "features": {str: "name file encoder", dict: "parameters"},
    "verdict": {str: "words"},
    "rival": {str: "representation", float: "changed", list: "joins splits"},
    **{section: {float: "*"} for section in ("scores", "timings", "stability")},
}


@dataclass(frozen=True, eq=False)
class Run:
    """A finished run: its folder, the content of ``run.json``, and the labels (N,)."""

    folder: Path
    record: dict[str, Any]
    labels: np.ndarray

    @property
    def directory(self) -> str:
        return self.record["data"].get("directory") or ""

    def file(self, name: str) -> Path:
        """A file of the run, or one line if it is not the one that its record describes."""
        files, path = self.record.get("files"), self.folder / name
        if files is not None and digest(path) != files.get(name):
            raise InputError(
                f"{path} is not the one that {RECORD} describes: it is damaged, changed or of "
                f"another run; put the run's own back, or {AGAIN}."
            )
        return path

    def details(self) -> Details:
        """What the run's report is drawn from."""
        from dcfsc.report import read_details

        path = self.folder / DETAILS
        details = read_details(path, (self.record.get("files") or {}).get(LABELS))
        known = details.clusters.max(initial=-1) < self.record["n_clusters"]
        if not known or not all(
            np.array_equal(labels, self.labels) for labels in (details.labels, details.parts // 2)
        ):
            raise InputError(f"{path} is of another run; {AGAIN}.")
        return details


def read_run(run: str | os.PathLike[str]) -> Run:
    """A run's record and labels, or one line saying why the folder holds no whole run."""
    folder = Path(run)
    if not folder.is_dir():
        raise InputError(
            f"there is no run in {folder}; make one with 'dcfsc fit ... --out {folder}'."
        )
    settle(folder)
    for name in READ:
        if os.path.lexists(folder / name) and not stat.S_ISREG((folder / name).lstat().st_mode):
            raise InputError(f"{folder / name} is a link, or no file, as no run has it.")
    if not (folder / RECORD).is_file():
        if is_checkpoint(folder / CHECKPOINT):
            raise InputError(
                f"the run {folder} was interrupted while it trained; repeat its 'dcfsc fit' with "
                f"--out {folder} --resume."
            )
        if (folder / LIST).is_file():
            raise InputError(f"the run {folder} has lost its {RECORD}; {AGAIN}.")
        raise InputError(f"{folder} is not the folder of a run: it has no {RECORD}.")
    record = _read_record(folder / RECORD)
    labels = _read_labels(folder / LABELS)
    n, clusters = record["data"]["n"], record["n_clusters"]
    if len(labels) != n or not 0 <= labels.min() <= labels.max() < clusters:
        raise InputError(
            f"{folder / LABELS} has {len(labels)} labels where the run has {n}, from 0 to "
            f"{clusters - 1}; the file is damaged; {AGAIN}."
        )
    for name in files_named(record):
        if not (folder / name).is_file():
            raise InputError(f"the run {folder} has lost its {name}; {AGAIN}.")
    whole = Run(folder, record, labels)
    whole.file(LABELS)
    return whole


def read_columns(folder: Path) -> dict[str, list[str]]:
    """The columns of a run's ``labels.csv`` as text, by name."""
    columns = _read_table(folder / LABELS)
    try:
        for name in ("confidence", "next_best"):
            np.array(columns[name], np.float64)
    except (ValueError, KeyError):
        raise InputError(
            f"{folder / LABELS} is damaged, or was written by an earlier dcfsc; {AGAIN}."
        ) from None
    for name in {"id", "path", "true_label"} & columns.keys():
        columns[name] = list(map(formula_removed, columns[name]))
    return columns


def _read_table(path: Path) -> dict[str, list[str]]:
    try:
        with open(path, encoding="utf-8", newline="") as file:
            header, *rows = csv.reader(file)
        return dict(zip(header, map(list, zip(*rows, strict=True)), strict=True))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}; {AGAIN}.") from None
    except (ValueError, csv.Error):
        raise InputError(f"{path} is damaged: it is not a table; {AGAIN}.") from None


def _read_record(path: Path) -> dict[str, Any]:
    try:
        record = read_json(path)
        written = int(record["dcfsc_run"])
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from None
    except (ValueError, KeyError, TypeError, OverflowError):
        raise InputError(f"{path} is damaged or not written by dcfsc; {AGAIN}.") from None
    if written < OLDEST:
        raise InputError(
            f"{path} was written by an earlier dcfsc in format {written}, which is no longer read; "
            f"{AGAIN}."
        )
    if written > FORMAT:
        raise InputError(
            f"{path} has the format {str(record['dcfsc_run'])[:20]}; this is dcfsc {__version__}, "
            f"which reads up to format {FORMAT}. Upgrade dcfsc."
        )
    if written < FORMAT:
        record = {RENAMED.get(name, name): value for name, value in record.items()}
    if wrong := next(_wrong_fields(record), None):
        raise InputError(f"{path} is damaged in {wrong[:80]!r}; {AGAIN}.")
    return record


def _wrong_fields(record: dict[str, Any]) -> Iterator[str]:
    """Fields of another type than ``FIELDS`` says, missing ones, and impossible counts."""
    for section, kinds in FIELDS.items():
        values = record.get(section) if section else record
        for name, value in values.items() if isinstance(values, dict) else ():
            for kind, names in kinds.items():
                known = value is not None and (names == "*" or name in names.split())
                if known and not _is(value, kind):
                    yield name
    data = record.get("data") or {}
    yield from {"method", "parameters", "model", "n_clusters"} - record.keys()
    yield from {"n", "name"} - data.keys()
    if record["method"] is None or not 1 <= (record["n_clusters"] or 0) <= (data["n"] or 0):
        yield "n_clusters"


def _is(value: Any, kind: type) -> bool:
    if kind in (int, float):
        number = isinstance(value, int | kind) and not isinstance(value, bool)
        return number and abs(value) < LARGEST_NUMBER
    return isinstance(value, kind)


def _read_labels(path: Path) -> np.ndarray:
    columns = _read_table(path)
    try:
        return np.array(list(map(int, columns["label"])), np.int64)
    except (ValueError, KeyError, OverflowError):
        raise InputError(f"{path} is damaged in its column 'label'; {AGAIN}.") from None
