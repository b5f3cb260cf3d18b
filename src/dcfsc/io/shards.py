"""Shards: many .parquet or .npy files of one set of samples, read a row group at a time."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.errors import InputError
from dcfsc.io import images, streamed
from dcfsc.io.arrays import numeric
from dcfsc.io.dataset import Dataset, refuse_bomb
from dcfsc.io.image_stream import StreamedImages
from dcfsc.io.table_columns import LEAST_COUNTED, Kind, Table, Wanted
from dcfsc.io.table_reading import TableReading, common_type, texts
from dcfsc.io.table_samples import to_dataset
from dcfsc.io.tables import arrow_errors, described, reading_of

SUFFIXES = (".parquet", ".npy")
ARRAY_ROWS = 4096  # of an .npy file that are one group
LEAST_SHARE = 12  # a sample takes one in so many row groups, or more


def shard_files(spec: str | Path) -> list[Path]:
    """The shards that a folder or a glob stands for; none where it stands for something else."""
    path = Path(spec).expanduser()
    if path.is_dir():
        inside = sorted(path.iterdir(), key=images.natural_order)
        files = [file for file in inside if file.is_file() and file.name[0] not in "._"]
        files = [file for file in files if file.suffix.lower() in SUFFIXES]
        if files and any(file.suffix.lower() in images.suffixes() for file in path.rglob("*")):
            raise InputError(
                f"{path} holds images and tables ({files[0].name}, ...); move one kind out, or "
                f"name the tables, as in '{path}/*{files[0].suffix}'."
            )
    elif not path.exists() and glob.escape(str(path)) != str(path):
        files = sorted(map(Path, glob.glob(str(path))), key=images.natural_order)
        if not files:
            raise InputError(f"no file matches {path}.")
        if others := [file for file in files if file.suffix.lower() not in SUFFIXES]:
            raise InputError(f"{others[0]} is no shard: a glob is for .parquet or .npy files.")
    else:
        return []
    if len({file.suffix.lower() for file in files}) > 1:
        raise InputError(f"{path} holds .parquet and .npy files; name one kind, as in '*.parquet'.")
    return files


@dataclass(frozen=True, eq=False)
class Shard:
    """One file: how many rows its groups have, and the bytes of the largest."""

    path: Path
    groups: tuple[int, ...]
    group_bytes: int
    schema: Any = None  # of Arrow; None for an array
    metadata: Any = None  # of a .parquet file, so that it is read once

    @property
    def n(self) -> int:
        return sum(self.groups)

    def check(self, columns: Sequence[str]) -> None:
        if absent := [name for name in columns if name not in self.schema.names]:
            raise InputError(f"{self.path} lacks the column {absent[0]!r} of other shards.")

    def dtype(self, columns: Sequence[str]) -> np.dtype:
        """The type of these columns: of integers, floats unless statistics say none is missing."""
        self.check(columns)
        nullable = {name for name in columns if self.schema.field(name).nullable}
        lacks = {*nullable}
        for j in range(self.metadata.num_columns):
            path = self.metadata.schema.column(j).path
            name = path if path in nullable else path.split(".")[0]  # of a list, its values
            parts = (self.metadata.row_group(g).column(j) for g in range(len(self.groups)))
            if name in lacks and all(_is_whole(part.statistics) for part in parts):
                lacks.remove(name)
        return common_type(self.schema, columns, lacks)


def _is_whole(statistics: Any) -> bool:
    return statistics is not None and statistics.has_null_count and not statistics.null_count


def open_shard(path: Path) -> Shard:
    if path.suffix.lower() == ".npy":
        X = _array(path)
        groups = tuple(min(ARRAY_ROWS, len(X) - i) for i in range(0, len(X), ARRAY_ROWS))
        return Shard(path, groups, X.nbytes * ARRAY_ROWS // max(1, len(X)))
    import pyarrow.parquet as pq

    with arrow_errors(path), pq.ParquetFile(path) as file:
        _refuse_long_runs(path, file.metadata)
        parts = [file.metadata.row_group(g) for g in range(file.num_row_groups)]
        largest = max((part.total_byte_size for part in parts), default=0)
        sizes = tuple(part.num_rows for part in parts)
        return Shard(path, sizes, largest, file.schema_arrow, file.metadata)


def _refuse_long_runs(path: Path, metadata: Any) -> None:
    """A run of equal values takes a few bytes, however long it is.

    What the file says of its columns one by one is not asked for: where it is damaged, Arrow ends
    the process.
    """
    encoded = sum(metadata.row_group(g).total_byte_size for g in range(metadata.num_row_groups))
    packed = min(path.stat().st_size, max(0, encoded))  # the rest may be padding
    refuse_bomb(path, packed, 8 * metadata.num_rows * metadata.num_columns)


def _opened(shard: Shard) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(shard.path, metadata=shard.metadata)


def _array(path: Path) -> streamed.FileArray:
    return numeric(streamed.stream_npy(path), str(path))


def batches(shard: Shard, rows: int, reading: TableReading | None) -> Iterator[Any]:
    """The rows of a shard in order, at most ``rows`` at a time.

    They are tables of the columns that a reading needs, or arrays.
    """
    if reading is None:
        yield from _array(shard.path).chunks(rows)
        return
    import pyarrow as pa

    columns = [*reading.columns, *([] if reading.id is None else [reading.id])]
    with arrow_errors(shard.path), _opened(shard) as file:
        for batch in file.iter_batches(batch_size=rows, columns=columns):
            yield pa.Table.from_batches([batch])


@dataclass(frozen=True, eq=False)
class Group:
    """A row group of a shard, or some of its rows."""

    shard: Shard
    number: int
    rows: np.ndarray | None = None

    def __len__(self) -> int:
        return self.shard.groups[self.number] if self.rows is None else len(self.rows)

    def read(self, columns: Sequence[str]) -> Any:
        """The columns of a .parquet file, as a table."""
        self.shard.check(columns)
        with arrow_errors(self.shard.path), _opened(self.shard) as file:
            table = file.read_row_group(self.number, columns=list(columns))
            return table if self.rows is None else table.take(self.rows)

    def start(self, columns: Sequence[str]) -> Any:
        """The first rows of these columns, whichever of them are chosen."""
        import pyarrow as pa

        how: Any = {"row_groups": [self.number], "columns": list(columns)}
        with arrow_errors(self.shard.path), _opened(self.shard) as file:
            return pa.table(next(file.iter_batches(batch_size=LEAST_COUNTED, **how)))

    def array(self) -> np.ndarray:
        """The rows of an .npy file."""
        start = self.number * ARRAY_ROWS
        block = _array(self.shard.path)[start : start + self.shard.groups[self.number]]
        return block if self.rows is None else block[self.rows]


def load_parquet(path: Path, wanted: Wanted) -> Dataset:
    """Read numeric columns, or one column whose cells are vectors of one length."""
    with arrow_errors(path):
        return load_shards(path, [path], wanted)


def load_shards(
    name: Path | str,
    files: Sequence[Path],
    wanted: Wanted,
    sample: int | None = None,
    seed: Any = 0,
) -> Dataset:
    """The samples of all shards, or so many of them; large ones are streamed by row groups."""
    shards = [open_shard(file) for file in files]
    groups = [Group(s, g) for s in shards for g, rows in enumerate(s.groups) if rows]
    note = ""
    if sample is not None and sample < sum(map(len, groups)):
        chosen = _drawn(shards, sample, np.random.RandomState(seed))
        note = (
            f"{sample:,} of {sum(map(len, groups)):,} rows, drawn from {len(chosen):,} of "
            f"{len(groups):,} row groups" + (", some of every shard" if len(shards) > 1 else "")
        )
        if len(chosen) < len(groups):
            note += "; a class may be missing if the rows of a file are sorted by class"
        groups = chosen
    if not groups:
        raise InputError(f"{name} has no rows.")
    if shards[0].schema is None:
        first = groups[0].array()
        X = GroupRows(str(name), groups, Group.array, first.shape[1:], first.dtype)
        data = Dataset(str(name), X.unless_small())
    else:
        data = to_dataset(ShardTable(name, groups), wanted)
    return replace(data, notes="; ".join(filter(None, [note, data.notes])))


def take(data: Dataset, sample: int | None, seed: Any = 0) -> Dataset:
    """So many random samples of a data set in their order, with what belongs to them."""
    if sample is None or sample >= len(data):
        return data
    rows = np.sort(np.random.RandomState(seed).permutation(len(data))[:sample])
    note = f"{sample:,} of {len(data):,} samples, drawn at random"
    return replace(
        data,
        X=data.X.take(rows) if isinstance(data.X, StreamedImages) else data.X[rows],
        y=None if data.y is None else data.y[rows],
        paths=None if data.paths is None else [data.paths[i] for i in rows],
        ids=None if data.ids is None else [data.ids[i] for i in rows],
        notes="; ".join(filter(None, [note, data.notes])),
    )


def _drawn(shards: Sequence[Shard], sample: int, rng: np.random.RandomState) -> list[Group]:
    """Random rows of random groups of every shard, as many as its share of all rows says."""
    sizes = np.array([shard.n for shard in shards])
    ends = np.rint(np.cumsum(sizes) * (sample / sizes.sum())).astype(np.int64)
    counts = np.diff(ends, prepend=0)
    if sample >= len(shards):  # a small shard has a row, too
        counts = np.minimum(np.maximum(counts, 1), sizes)
        while counts.sum() != sample:
            step = np.sign(sample - counts.sum())
            counts[np.argmax(counts if step < 0 else sizes - counts)] += step
    chosen = []
    for shard, count in zip(shards, counts.tolist(), strict=True):
        order = rng.permutation(len(shard.groups))
        reached = np.cumsum(np.array(shard.groups)[order])
        most = max(int(np.searchsorted(reached, count)) + 1, len(order) // LEAST_SHARE)
        picked = np.sort(order[:most]) if count else order[:0]
        starts = np.concatenate([[0], np.cumsum(np.array(shard.groups)[picked])]).astype(int)
        rows = np.sort(rng.permutation(starts[-1])[:count])
        parts = np.split(rows, np.searchsorted(rows, starts[1:-1]))
        for g, start, part in zip(picked.tolist(), starts.tolist(), parts, strict=False):
            if len(part):
                chosen.append(Group(shard, g, part - start))
    return chosen


class ShardTable(Table):
    """Row groups of tables with the same columns, of which only those that are needed are read."""

    def __init__(self, name: Path | str, groups: Sequence[Group]):
        self.source, self._groups, self.n = name, groups, sum(map(len, groups))
        self._schema = groups[0].shard.schema
        # the row names that pandas stores beside the columns come first
        columns = described(self._schema)
        stored = [c for c in columns if re.fullmatch(r"__index_level_\d+__", c.name)]
        named = [column for column in stored if column.kind == Kind.TEXT]
        self.columns = [*named, *(column for column in columns if column not in stored)]

    def matrix(self, names: Sequence[str]) -> Any:
        reading = reading_of(self._schema, names)

        def read(group: Group) -> np.ndarray:
            return reading.numbers(group.read(names), group.shard.path)

        first, groups = self.start(names), self._groups
        X = GroupRows(str(self.source), groups, read, first.shape[1:], first.dtype)
        if X.nbytes > streamed.STREAM_BYTES:
            X.dtype = np.result_type(
                *{shard.dtype(names) for shard in {group.shard for group in groups}}
            )
        return X.unless_small()

    def texts(self, name: str) -> list[str]:
        return [text for group in self._groups for text in texts(group.read([name]).column(0))]

    def start(self, names: Sequence[str]) -> np.ndarray:
        table = self._groups[0].start(names)
        return reading_of(table.schema, names).numbers(table, self.source)


class GroupRows(streamed.Streamed):
    """The rows of groups, one after the other; the group that was read last is kept."""

    def __init__(
        self,
        name: str,
        groups: Sequence[Group],
        read: Callable[[Group], np.ndarray],
        shape: tuple[int, ...],
        dtype: Any,
    ):
        self._groups, self._read = groups, read
        self._last: tuple[int, np.ndarray] | None = None
        super().__init__(name, (sum(map(len, groups)), *shape), dtype)

    def unless_small(self) -> GroupRows | np.ndarray:
        """Itself, or the rows in memory, of the narrowest type that holds them."""
        if self.nbytes > streamed.STREAM_BYTES:
            return self
        return np.concatenate([self._group(g) for g in range(len(self._groups))])

    @cached_property
    def _starts(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum([len(group) for group in self._groups])])

    def _group(self, g: int) -> np.ndarray:
        if self._last is None or self._last[0] != g:
            self._last = None  # released before the next one is read
            rows = self._read(self._groups[g])
            if rows.shape[1:] != self.shape[1:]:
                raise InputError(
                    f"the samples of {self.name} differ in length: {self.shape[1:]}, and in "
                    f"{self._groups[g].shard.path} {rows.shape[1:]}."
                )
            self._last = g, rows
        return self._last[1]

    def _rows(self, indices: np.ndarray) -> np.ndarray:
        out = np.empty((len(indices), *self.shape[1:]), self.dtype)
        groups = np.searchsorted(self._starts, indices, side="right") - 1
        for g in np.unique(groups):
            here = groups == g
            out[here] = self._group(int(g))[indices[here] - self._starts[g]]
        return out
