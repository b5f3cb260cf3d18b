"""Files that were made to do harm: absurd headers, pickles, archives and pictures that explode."""

from __future__ import annotations

import io
import os
import pickle
import struct
import warnings
import zipfile
import zlib
from typing import Any

import numpy as np

CANARY = "CANARY"  # the environment variable with the file that unpickling would make
MEBIBYTE = bytes(1 << 20)


class Payload:
    """What an attacker pickles: loading it runs a command."""

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {os.environ.get(CANARY, '/dev/null')}",)


# .npy and .npz ------------------------------------------------------------------------------


def npy(header: str, body: bytes = b"", version: tuple[int, int] = (1, 0)) -> bytes:
    text = header.encode("latin1", "replace") + b"\n"
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text) % 65536)
    return b"\x93NUMPY" + bytes(version) + length + text + body


def odd_npy(rng: np.random.Generator) -> bytes:
    """A header that numpy may parse, about an array that cannot be."""
    shapes = (
        *("(4611686018427387904,)", "(-1, 3)", "(1000000000000, 5)", "(99999999999999999999, 2)"),
        *("()", "(0, 5)", "(3, 0)", "(2, 3, 4, 5, 6)", "(3, -3)", "(2, 5.5)", "(True, 3)", "3"),
        *("(3, 4)", "(1,) * 99", "[3, 4]", "(" * 300 + ")" * 300, "(1,) " * 50, "(-9, -9)"),
    )
    kinds = (
        *("'<f8'", "'|O'", "'<U100000000'", "'<U1'", "'|S0'", "'<c16'", "'<M8[ns]'", "'|V8'"),
        *("'>f4'", "'<f2'", "'|b1'", "[('a', '<f8')]", "('<f8', (1000000,))", "'x'", "None"),
        *("'<i8'", "[('a', '|O')]", "'<f16'", "'" + "f8," * 40 + "'", "'|u1'"),
    )
    shape = shapes[int(rng.integers(len(shapes)))]
    kind = kinds[int(rng.integers(len(kinds)))]
    order = str(rng.choice(["False", "True", "'C'", "2"]))
    header = f"{{'descr': {kind}, 'fortran_order': {order}, 'shape': {shape}, }}"
    if rng.random() < 0.1:
        header = str(
            rng.choice(["{", "[]", "__import__('os')", "{'a'" * 2000, "9" * 9000, "-" * 9000])
        )
    version = ((1, 0), (1, 0), (2, 0), (3, 0), (9, 9))[int(rng.integers(5))]
    body = rng.bytes(int(rng.integers(0, 200)))
    if rng.random() < 0.2:
        body = pickle.dumps(np.array([Payload()], object))
    return npy(header, body, version)


def pickled(rng: np.random.Generator) -> bytes:
    """A pickle alone, or an object array as numpy itself writes it."""
    if rng.random() < 0.3:
        return pickle.dumps(Payload())
    file = io.BytesIO()
    np.save(file, np.array([[Payload()], [1.0]], object), allow_pickle=True)
    return file.getvalue()


def exploding_deflate(size: int) -> bytes:
    """A raw deflate stream of ``size`` zeros, a thousandth of it long, without compressing them."""
    pack = zlib.compressobj(9, zlib.DEFLATED, -15)
    # after a full flush every block stands for itself, so one may be repeated
    block = pack.compress(MEBIBYTE) + pack.flush(zlib.Z_FULL_FLUSH)
    rest = pack.compress(bytes(size % (1 << 20))) + pack.flush()
    return block * (size >> 20) + rest


def zip_of(name: str, method: int, packed: bytes, size: int, flags: int = 0) -> bytes:
    """An archive with one member, whatever it claims."""
    raw = name.encode()
    wide = (min(len(packed), 0xFFFFFFFF), min(size, 0xFFFFFFFF))
    fields = (20, flags, method, 0, 0, 0, *wide, len(raw), 0)
    local = struct.pack("<4s5H3I2H", b"PK\x03\x04", *fields) + raw
    central = struct.pack("<4s6H3I5H2I", b"PK\x01\x02", 20, *fields, 0, 0, 0, 0, 0) + raw
    start = len(local) + len(packed)
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, 1, 1, len(central), start, 0)
    return local + packed + central + end


def odd_npz(rng: np.random.Generator) -> bytes:
    """Archives of odd arrays, odd names, odd methods, and bombs."""
    choice = rng.random()
    if choice < 0.15:
        size = int(rng.choice([1 << 26, 1 << 28, 700 << 20, 3 << 30]))
        key = "X" if rng.random() < 0.6 else "y"
        head = npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({size // 400}, 100), }}")
        stored = struct.pack("<BHH", 0, len(head), len(head) ^ 0xFFFF) + head
        return zip_of(f"{key}.npy", 8, stored + exploding_deflate(size), len(head) + size)
    if choice < 0.3:
        head = odd_npy(rng)
        method = int(rng.choice([0, 0, 8, 9, 12, 14, 93, 99, 65535]))
        return zip_of("X.npy", method, head, len(head), flags=int(rng.choice([0, 0, 1, 0x2000])))
    names = (
        "X",
        "y",
        "../../../X",
        "/tmp/X",
        "",
        "X\x00",
        "labels",
        "images",
        "é" * 50,
        "X" * 5000,
    )
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", int(rng.choice([0, 8]))) as archive:
        warnings.simplefilter("ignore")  # that a name is there twice
        for _ in range(int(rng.integers(0, 5))):
            name = names[int(rng.integers(len(names)))]
            suffix = str(rng.choice([".npy", ".npy", ".npy", ".txt"]))
            content = odd_npy(rng) if rng.random() < 0.6 else pickled(rng)
            if rng.random() < 0.4:
                good = io.BytesIO()
                shape = [(7, 5), (7,), (5,), (1, 7), (7, 1), ()][int(rng.integers(6))]
                np.save(good, np.full(shape, rng.choice([np.nan, 1.0, 1e300])))
                content = good.getvalue()
            archive.writestr(name + suffix, content)
    return file.getvalue()


# MATLAB -------------------------------------------------------------------------------------


def odd_mat(rng: np.random.Generator) -> bytes:
    """A compressed matrix that claims, and perhaps has, far more than the file's size."""
    if rng.random() < 0.03:
        return nested_mat(int(rng.choice([10, 10_000, 200_000])))
    rows, columns = (int(rng.choice([-1, 0, 3, 1 << 14, 1 << 20, 2**31 - 1])) for _ in range(2))
    size = int(rng.choice([1 << 10, 1 << 28, 3 << 30])) if rng.random() < 0.3 else 1 << 10
    claimed = (rows * columns * 8) % 2**32 if rng.random() < 0.5 else size % 2**32
    kind = int(rng.choice([1, 2, 4, 5, 6, 6, 6, 9, 12, 17]))  # cell, struct, char, sparse, double
    matrix = struct.pack("<4I", 6, 8, kind, int(rng.choice([0, 1000]))) + struct.pack(
        "<2I2i", 5, 8, rows, columns
    )
    matrix += struct.pack("<HH4s", 1, 1, b"X\0\0\0") + struct.pack("<2I", 9, claimed)
    element = struct.pack("<2I", 14, (len(matrix) + claimed) % 2**32) + matrix
    stored = struct.pack("<BHH", 0, len(element), len(element) ^ 0xFFFF) + element
    packed = b"\x78\x9c" + stored + exploding_deflate(size) + b"\0\0\0\0"
    head = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H2s", 0x0100, b"IM")
    if rng.random() < 0.2:
        return head + element + bytes(1 << 10)
    return head + struct.pack("<2I", 15, len(packed)) + packed


def nested_mat(depth: int) -> bytes:
    """A cell in a cell in a cell: deeper than a recursive parser's stack."""
    head = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H2s", 0x0100, b"IM")
    cell = struct.pack("<4I", 6, 8, 1, 0) + struct.pack("<2I2i", 5, 8, 1, 1)
    named = struct.pack("<HH4s", 1, 1, b"X\0\0\0")
    unnamed = struct.pack("<2I", 1, 0)
    level = 8 + len(cell) + len(unnamed)
    sizes = [len(cell) + 8 + level * (depth - i) for i in range(depth)]
    parts = [
        struct.pack("<2I", 14, size) + cell + (named if i == 0 else unnamed)
        for i, size in enumerate(sizes)
    ]
    return head + b"".join(parts)


# Text ---------------------------------------------------------------------------------------


def odd_table(rng: np.random.Generator) -> bytes:
    """Tables with cells, rows, quotes and encodings that do not fit."""
    cells = (
        *(
            "1",
            "2.5",
            "-3e10",
            "nan",
            "",
            "NaN",
            "inf",
            "1e999",
            "0x10",
            "1_000",
            "a",
            "label",
            "y",
        ),
        *(
            '"',
            '"a,b"',
            '"open',
            "\x00",
            "é",
            "1,5",
            "\t",
            " ",
            "9" * 400,
            "--",
            "٣",
            "\u2028",
            "\r",
        ),
    )
    choice = rng.random()
    if choice < 0.06:
        count = int(rng.choice([10_000, 300_000, 3_000_000]))
        return (b"1," * count + b"2\n") * 2
    if choice < 0.1:
        return b'"' + b"x" * 300_000 + b"\n1,2\n"
    mark = str(rng.choice([",", ";", "\t", " ", ""]))
    width = int(rng.integers(1, 6))
    rows = []
    for _ in range(int(rng.integers(0, 8))):
        ragged = width if rng.random() < 0.9 else int(rng.integers(0, 9))
        common = rng.random() < 0.6
        pool = cells[:3] if common else cells
        rows.append(mark.join(str(pool[int(rng.integers(len(pool)))]) for _ in range(ragged)))
    end = str(rng.choice(["\n", "\n", "\r\n", "\r", "\n\n"]))
    encoding = str(rng.choice(["utf-8", "utf-8", "utf-8", "utf-16", "utf-8-sig", "utf-32"]))
    return (end.join(rows) + (end if rng.random() < 0.7 else "")).encode(encoding)


def odd_labels(rng: np.random.Generator) -> bytes:
    """A run's labels.csv with one of its cells, or its header, wrong."""
    values = ("1e5", "-1", "99999999999999999999999", "", "a", "1.0", "NaN", "3", "٣", "\x00", '"')
    labels = [str(int(rng.integers(3))) for _ in range(12)]
    labels[int(rng.integers(12))] = values[int(rng.integers(len(values)))]
    header = str(
        rng.choice(["index,label", "index,label", "index,labels", "", "label", "label,label"])
    )
    rows = [f"{i},{label}" for i, label in enumerate(labels)]
    return "\n".join([header, *rows[: int(rng.integers(6, 13))], ""]).encode()


# Pictures -----------------------------------------------------------------------------------


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def odd_picture(rng: np.random.Generator) -> tuple[str, bytes]:
    """(suffix, bytes): pictures that claim or need more than they should, and no pictures."""
    side = int(rng.choice([0, 1, 3000, 9000, 20_000, 2**31 - 1]))
    choice = int(rng.integers(8))
    if choice < 3:
        depth, color = ((8, 0), (16, 0), (8, 6), (16, 6), (1, 3))[int(rng.integers(5))]
        size = min(side * side * 2, 300 << 20) if choice else 1 << 10
        data = b"\x78\x9c" + exploding_deflate(size) + b"\0\0\0\0"
        header = struct.pack(">2I5B", side, side, depth, color, 0, 0, 0)
        parts = [chunk(b"IHDR", header)]
        if rng.random() < 0.2:
            text = b"\x78\x9c" + exploding_deflate(200 << 20) + b"\0\0\0\0"
            parts.append(chunk(b"zTXt", b"a\0\0" + text))
        return ".png", b"\x89PNG\r\n\x1a\n" + b"".join(
            [*parts, chunk(b"IDAT", data), chunk(b"IEND", b"")]
        )
    if choice == 3:
        largest = int(rng.choice([0, 1, 255, 65535, 10**9]))
        return ".pgm", f"P{rng.integers(1, 8)} {side} {side} {largest}\n".encode() + bytes(100)
    if choice == 4:
        head = struct.pack("<2sI2HI", b"BM", 100, 0, 0, 54)
        info = struct.pack(
            "<I2i2H6I",
            40,
            min(side, 2**31 - 1),
            -side,
            1,
            int(rng.choice([1, 8, 24, 32])),
            0,
            0,
            0,
            0,
            0,
            0,
        )
        return ".bmp", head + info + bytes(100)
    if choice == 5:
        small = min(side, 65535)
        return ".gif", b"GIF89a" + struct.pack("<2H3B", small, small, 0x80, 0, 0) + bytes(
            6
        ) + b"," + struct.pack("<4HB", 0, 0, small, small, 0) + b"\x02\x02L\x01\x00;"
    if choice == 6:
        # a PostScript program under a picture's name: an interpreter must not be started for it
        script = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"
        return str(rng.choice([".png", ".jpg", ".tif"])), script
    return str(rng.choice([".png", ".webp", ".tiff"])), rng.bytes(200)
