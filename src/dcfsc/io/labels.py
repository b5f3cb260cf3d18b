"""Labels from a file of their own, matched to the samples by id or path, or else by order."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from dcfsc.errors import InputError
from dcfsc.io.arrays import LABEL_KEYS, read_npy
from dcfsc.io.dataset import Dataset, encode_labels
from dcfsc.io.table_columns import as_labels
from dcfsc.io.text_tables import read_texts

SUFFIXES = (".npy", ".csv", ".tsv")
ID_KEYS = ("id", "path", "file", "filename")


def file_of(labels: str) -> Path | None:
    """The file that ``labels`` is the path of."""
    file = Path(labels).expanduser()
    return file if file.suffix.lower() in SUFFIXES and file.is_file() else None


def with_labels(data: Dataset, file: Path) -> Dataset:
    """The samples with the labels of a file.

    Samples that have ids or paths need a column of these in the file; others are taken in order.
    """
    # the lines of a text file are numbered, but nobody gave them ids
    named = data.sample_names is not None and (data.paths or data.reading)
    note = ""
    if file.suffix.lower() == ".npy":
        if named:
            raise _unmatched(file, data, "an array has no column of them")
        y, names = encode_labels(read_npy(file), file)
    else:
        header, columns = read_texts(file)
        if named:
            values, note = _matched(file, columns, data)
        else:
            values = _in_order(file, header, columns, len(data))
        y, names = encode_labels(as_labels(values), file)
    notes = "; ".join(filter(None, [data.notes, note]))
    return replace(data, y=y, label_names=names, notes=notes)


def _in_order(
    file: Path, header: Sequence[str], columns: dict[str, list[str]], n: int
) -> list[str]:
    """The only column, or the one with a label's name.

    The number of samples tells whether a single column of text starts with a header.
    """
    label = _label_column(file, [*columns])
    values = columns[label]
    if len(columns) == 1:
        values = [*header, *values][-max(n, len(values)) :]
        values = values[1:] if len(values) == n + 1 and not header else values
    if len(values) != n:
        raise InputError(f"{file} has {len(values):,} labels for {n:,} samples.")
    return values


def _matched(file: Path, columns: dict[str, list[str]], data: Dataset) -> tuple[list[str], str]:
    """The label of every sample, by the column that names most of them."""
    samples = data.sample_names or []
    matches = [
        (len({*keys} & {*map(key, values)}), name.lower() in ID_KEYS, name, key)
        for key, keys in _keys(data)
        for name, values in columns.items()
    ]
    count, _, column, key = max(matches, key=lambda match: match[:2])
    if count == 0:
        raise _unmatched(file, data, f"none of its columns has them: {', '.join(columns)}")
    labels = columns[_label_column(file, [name for name in columns if name != column])]
    by_key: dict[str, str] = {}
    for name, label in zip(map(key, columns[column]), labels, strict=True):
        if by_key.setdefault(name, label) != label:
            raise InputError(f"{file} has two labels for {name!r}: {by_key[name]} and {label}.")
    keys = [*map(key, samples)]
    absent = [name for name, k in zip(samples, keys, strict=True) if not by_key.get(k)]
    if absent:
        raise InputError(
            f"{file} has no label for {len(absent):,} of {len(samples):,} samples, such as "
            f"{absent[0]!r} (matched by column {column!r}); add them, or leave --labels out."
        )
    rest = len(by_key.keys() - {*keys})
    note = f"{rest:,} of {len(by_key):,} labels of {file.name} match no sample" if rest else ""
    return [by_key[k] for k in keys], note


def _keys(data: Dataset) -> list[tuple[Callable[[str], str], list[str]]]:
    """How samples are named: their ids, or their paths; file names where no two are the same."""
    samples = data.sample_names or []
    ways: list[Callable[[str], str]] = [str]
    if data.ids is None:
        ways = [_posix, lambda path: _posix(path).rpartition("/")[2]]
        ways.append(lambda path: os.path.splitext(ways[1](path))[0])
    keys = [(way, [*map(way, samples)]) for way in ways]
    return [
        (way, names) for way, names in keys if way is ways[0] or max(Counter(names).values()) == 1
    ]


def _posix(path: str) -> str:
    return path.replace("\\", "/").removeprefix("./")


def _label_column(file: Path, names: Sequence[str]) -> str:
    labels = [name for name in names if name.lower() in LABEL_KEYS] or names
    if len(labels) != 1:
        raise InputError(f"{file} has columns {', '.join(names)}; keep one, or name it 'label'.")
    return labels[0]


def _unmatched(file: Path, data: Dataset, why: str) -> InputError:
    kind = "paths" if data.ids is None else "ids"
    example = (data.sample_names or [""])[0]
    return InputError(
        f"labels are matched by the samples' {kind}, such as {example!r}, and {file} cannot be: "
        f"{why}."
    )
