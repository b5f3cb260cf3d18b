"""MATLAB files of version 5 to 7: their numeric and sparse matrices, every length checked.

A file is a header of 128 bytes and then elements, each a tag (type, bytes) and its data; a matrix
is an element whose data are elements again: flags, dimensions, name, entries. SciPy's parser is
compiled, and a type that does not exist ends the process; here damage is an exception. Cells,
structures and text, which hold no samples, are passed over unread.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from dcfsc.errors import InputError
from dcfsc.io.dataset import refuse_bomb

MATRIX, COMPRESSED = 14, 15
SPARSE, NUMERIC = 5, range(6, 16)
COMPLEX = 0x0800
STORED = {
    1: "i1",
    2: "u1",
    3: "i2",
    4: "u2",
    5: "i4",
    6: "u4",
    7: "f4",
    9: "f8",
    12: "i8",
    13: "u8",
}
PIECE_BYTES = 1 << 16


def read_mat5(path: Path) -> Iterator[tuple[str, Any]]:
    """(name, array or sparse matrix) of every real matrix, in the type that it is stored in."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(128)
        if len(head) < 128 or head[126:] not in (b"IM", b"MI") or 0 in head[:4]:
            raise ValueError("it is not a MATLAB file of version 5 to 7")
        order = "<" if head[126:] == b"IM" else ">"
        (version,) = struct.unpack(f"{order}H", head[124:126])
        if version >> 8 == 2:
            raise InputError(
                f"{path} is a MATLAB 7.3 file, which dcfsc does not read; in MATLAB save it again "
                "with save(..., '-v7')."
            )
        while tag := file.read(8):
            kind, length = struct.unpack(f"{order}2I", tag)
            if length > size - file.tell():
                raise ValueError("it is cut off")
            end = file.tell() + length
            if kind == COMPRESSED:
                kind, body = next(_elements(_inflated(path, file, length), order))
            else:
                body = memoryview(file.read(length))
            matrix = _matrix(body, order) if kind == MATRIX else None
            if matrix is not None:
                yield matrix
            file.seek(end)


def _inflated(path: Path, file: IO[bytes], length: int) -> memoryview:
    unpack, out, read = zlib.decompressobj(), bytearray(), 0
    while read < length:
        piece = file.read(min(length - read, PIECE_BYTES))
        read += len(piece)
        while piece:
            out += unpack.decompress(piece, 1 << 20)
            refuse_bomb(path, read, len(out))
            piece = unpack.unconsumed_tail
    return memoryview(out)


def _elements(data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """(type, data) one after the other; the data of up to 4 bytes may be in the tag itself."""
    place = 0
    while place + 8 <= len(data):
        kind, length = struct.unpack_from(f"{order}2I", data, place)
        small, start = kind >> 16, place + 8
        if small:
            kind, length, start = kind & 0xFFFF, small, place + 4
        if (small and length > 4) or start + length > len(data):
            raise ValueError("an element is longer than what holds it")
        yield kind, data[start : start + length]
        place = place + 8 if small else start + -(-length // 8) * 8


def _matrix(body: memoryview, order: str) -> tuple[str, Any] | None:
    parts = _elements(body, order)
    flags = _numbers(next(parts, None), order)
    if len(flags) != 2:
        raise ValueError("a matrix has no flags")
    kind = int(flags[0]) & 0xFF
    if (kind != SPARSE and kind not in NUMERIC) or int(flags[0]) & COMPLEX:
        return None
    shape = tuple(int(s) for s in _numbers(next(parts, None), order))
    name = bytes(next(parts, (0, b""))[1]).decode("latin1")
    if len(shape) < 2 or min(shape) < 0:
        raise ValueError(f"the matrix {name!r} has the shape {shape}")
    if kind == SPARSE:
        return name, _sparse(shape, [_numbers(next(parts, None), order) for _ in range(3)])
    entries = _numbers(next(parts, None), order)
    if len(entries) != math.prod(shape):
        raise ValueError(f"the matrix {name!r} of shape {shape} has {len(entries)} entries")
    return name, entries.reshape(shape, order="F")


def _numbers(element: tuple[int, memoryview] | None, order: str) -> np.ndarray:
    if element is None or element[0] not in STORED:
        raise ValueError("an element is missing or of an unknown type")
    dtype = np.dtype(order + STORED[element[0]])
    return np.frombuffer(element[1], dtype).astype(dtype.newbyteorder("="))


def _sparse(shape: tuple[int, ...], parts: list[np.ndarray]) -> Any:
    from scipy.sparse import csc_array

    rows, starts, entries = parts
    used = int(starts[-1]) if len(starts) else 0
    if len(shape) != 2 or not 0 <= used <= min(len(rows), len(entries)):
        raise ValueError("a sparse matrix has fewer entries than it says")
    matrix = csc_array((entries[:used], rows[:used], starts), shape)
    matrix.check_format(full_check=True)  # rows outside would be written outside
    return matrix
