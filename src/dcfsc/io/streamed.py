"""Samples that stay on disk: arrays that are read a slice at a time.

An array of more than ``STREAM_BYTES`` is not read by ``load``; its X then is a :class:`Streamed`,
which has an array's shape and type and reads the rows that are asked for. What needs the whole of
it, as ``np.asarray`` does, gets it where the free memory allows. Whether samples are finite is
decided here too, for arrays and for files.
"""

from __future__ import annotations

import os
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from dcfsc.errors import InputError
from dcfsc.machine import free_memory

STREAM_BYTES = 1 << 30  # samples of more are streamed
BLOCK_BYTES = 1 << 26  # read together where a whole array is copied
REMEDY = "use a method that reads the samples in chunks, fewer samples, or smaller ones"


class Streamed(ABC):
    """An array (n, ...) on disk.

    ``X[a:b]``, ``X[i]`` and ``X[indices]`` read the rows asked for and give plain arrays of
    memory of their own; further indices, as in ``X[a:b, 0]``, are applied to what was read.
    Nothing else is kept, so going through X in chunks needs the memory of one chunk.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    checked = range(0)  # the rows that dcfsc.io.check_finite found to be finite

    def __init__(self, name: str, shape: tuple[int, ...], dtype: Any):
        self.name = name
        self.shape = tuple(int(s) for s in shape)
        self.dtype = np.dtype(dtype)

    @abstractmethod
    def _rows(self, indices: np.ndarray) -> np.ndarray:
        """Rows in any order as a new array."""

    def _range(self, start: int, stop: int) -> np.ndarray:
        """Rows start .. stop - 1 as a new array."""
        return self._rows(np.arange(start, stop))

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=object))

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, tuple):
            first, *others = key or (slice(None),)
            if isinstance(first, int | np.integer):
                return self[first][tuple(others)]
            if any(k is None or k is Ellipsis for k in key) or not isinstance(first, slice):
                raise InputError(
                    f"{self.name} is read by rows: index the rows first, as in X[a:b]."
                )
            return self[first][(slice(None), *others)]
        if isinstance(key, int | np.integer) and not isinstance(key, bool):
            i = range(len(self))[key]  # raises IndexError where an array would
            return self._range(i, i + 1)[0]
        if isinstance(key, slice):
            rows = range(len(self))[key]
            if rows.step == 1 or len(rows) < 2:
                start = rows.start if rows else 0
                return self._range(start, start + len(rows))
            return self._rows(np.arange(len(self))[key])
        indices = np.arange(len(self))[np.asarray(key)]
        return self._rows(indices.reshape(-1)).reshape(*indices.shape, *self.shape[1:])

    def is_checked(self, start: int, stop: int) -> bool:
        return self.checked.start <= start and stop <= self.checked.stop

    def chunks(self, rows: int) -> Iterator[np.ndarray]:
        """All of X in order, ``rows`` at a time."""
        for start in range(0, len(self), rows):
            yield self[start : start + rows]

    def __iter__(self) -> Iterator[np.ndarray]:
        for _, block in blocks(self):
            yield from block

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError(f"{self.name} is on disk, so an array of it is always a copy.")
        kind = self.dtype if dtype is None else np.dtype(dtype)
        require_room(self.name, self.size * kind.itemsize)
        out = np.empty(self.shape, kind)
        for start, block in blocks(self):
            out[start : start + len(block)] = block
        return out

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.shape))
        return f"{type(self).__name__}({self.name!r}, {shape} {self.dtype})"


def blocks(X: Any, share: slice = slice(None)) -> Iterator[tuple[int, np.ndarray]]:
    """The rows of X (n, ...) a block of memory at a time, each with the number of its first row."""
    begin, end, _ = share.indices(len(X))
    rows = max(1, BLOCK_BYTES * len(X) // max(1, X.nbytes))
    for start in range(begin, end, rows):
        yield start, np.asarray(X[start : min(start + rows, end)])


def require_room(name: str, need: int, remedy: str = REMEDY) -> None:
    """Refuse to make an array of ``need`` bytes where memory has not that much left."""
    free = free_memory()
    if need > free:
        raise InputError(
            f"{name} needs {need / 2**30:.1f} GiB in memory and {free / 2**30:.1f} GiB are free; "
            f"{remedy}."
        )


class FileArray(Streamed):
    """The array of an .npy file.

    Every read maps its part of the file and lets it go: pages of a map that stays open count as
    the process's memory once they have been read. Booleans are read as uint8.
    """

    def __init__(self, path: Path, header: NpyHeader, offset: int):
        self._path, self._offset, self._stored = path, offset, header.dtype
        dtype = np.uint8 if header.dtype.kind == "b" else header.dtype
        super().__init__(str(path), header.shape, dtype)
        self._order = "F" if header.fortran_order else "C"

    def _map(self) -> np.ndarray:
        return np.memmap(  # type: ignore[call-overload]
            self._path, self._stored, "r", self._offset, self.shape, self._order
        )

    def _range(self, start: int, stop: int) -> np.ndarray:
        return np.array(self._map()[start:stop], self.dtype, order="C", subok=False)

    def _rows(self, indices: np.ndarray) -> np.ndarray:
        return np.asarray(self._map()[indices], self.dtype, order="C").view(np.ndarray)


class Share(Streamed):
    """Some consecutive rows of samples on disk."""

    def __init__(self, source: Streamed, share: slice):
        self._source = source
        self._first, stop, _ = share.indices(len(source))
        super().__init__(source.name, (stop - self._first, *source.shape[1:]), source.dtype)
        if source.is_checked(self._first, stop):
            self.checked = range(len(self))

    def _range(self, start: int, stop: int) -> np.ndarray:
        return self._source[self._first + start : self._first + stop]

    def _rows(self, indices: np.ndarray) -> np.ndarray:
        return self._source[self._first + indices]


class Taken(Streamed):
    """Some rows of samples on disk."""

    def __init__(self, source: Streamed, rows: np.ndarray):
        self._source, self._taken = source, rows
        super().__init__(source.name, (len(rows), *source.shape[1:]), source.dtype)

    def _rows(self, indices: np.ndarray) -> np.ndarray:
        return self._source[self._taken[indices]]


class Derived(Streamed):
    """Another streamed array with a function applied to the rows that are read."""

    def __init__(
        self,
        source: Streamed,
        function: Callable[[np.ndarray], np.ndarray],
        sample_shape: tuple[int, ...],
        dtype: Any,
    ):
        super().__init__(source.name, (len(source), *sample_shape), dtype)
        self._source = source
        self._function = function

    def _range(self, start: int, stop: int) -> np.ndarray:
        return self._function(self._source[start:stop])

    def _rows(self, indices: np.ndarray) -> np.ndarray:
        return self._function(self._source[indices])


class NpyHeader:
    """Shape, order and type at the start of an open .npy stream, which is left at the data."""

    def __init__(self, file: IO[bytes]):
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        self.shape, self.fortran_order, self.dtype = read(file)

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize


def member_header(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NpyHeader:
    """The header of an .npy file in an archive, which has the bytes that it speaks of."""
    with archive.open(member) as file:
        header = NpyHeader(file)
        available = member.file_size
        if member.compress_type == zipfile.ZIP_STORED:
            available = min(available, os.path.getsize(str(archive.filename)))
        if not header.dtype.hasobject and header.nbytes > available - file.tell():
            raise InputError(
                f"cannot read {archive.filename}[{member.filename}]: it is cut off; its header "
                f"says {str(header.shape)[:80]}."
            )
    return header


def stream_npy(path: Path) -> FileArray:
    """The array of an .npy file, unread."""
    with path.open("rb") as file:
        header = NpyHeader(file)
        offset = file.tell()
    if path.stat().st_size < offset + header.nbytes:
        raise InputError(f"cannot read {path}: it is cut off; its header says {header.shape}.")
    return FileArray(path, header, offset)


def cache_folder() -> Path:
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("dcfsc"))


def unmasked(X: Any, name: str = "X") -> Any:
    """X itself, or the plain array of a NumPy masked array in which nothing is masked."""
    if not isinstance(X, np.ma.MaskedArray):
        return X
    count = int(np.ma.count_masked(X))
    if count:
        values = "a masked value" if count == 1 else f"{count} masked values"
        raise InputError(f"{name} has {values}; fill them in or leave those samples out.")
    return X.data


def check_finite(X: Any, name: str = "X", share: slice = slice(None), *, first: int = 0) -> None:
    """Refuse X (n, ...) with values that are not real numbers, or NaN, or infinite.

    X is read a block of rows at a time, so it may be larger than memory; samples on disk remember
    the rows that were checked, which are not read again. Only the rows of ``share`` are looked at;
    ``first`` is the number of X's first row where X is a part of something larger.
    """
    X = unmasked(X, name)
    if X.dtype.kind not in "biuf":
        raise InputError(f"{name} holds values of type {X.dtype}, not real numbers.")
    if X.dtype.kind != "f":
        return  # integers are finite: images in a folder need not be decoded to know it
    start, stop, _ = share.indices(len(X))
    if isinstance(X, Streamed) and X.is_checked(start, stop):
        return
    count, bad_row = 0, -1
    for begin, block in blocks(X, share):
        wrong = (~np.isfinite(block)).reshape(len(block), -1).sum(axis=1)
        if count == 0 and wrong.any():
            bad_row = first + begin + int(wrong.nonzero()[0][0])
        count += int(wrong.sum())
    if count:
        values = "a value that is" if count == 1 else f"{count} values that are"
        raise InputError(
            f"{name} has {values} NaN or infinity, the first in row {bad_row} (counted from 0); "
            "fill them in or leave those samples out."
        )
    if isinstance(X, Streamed):
        X.checked = range(start, stop)
