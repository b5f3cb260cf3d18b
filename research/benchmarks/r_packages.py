"""Data sets of R packages, read from Debian's archives without R.

An archive (.deb) is an ar file that holds a compressed tar file. A package keeps its data sets as
files of their own (.rda) or all in one database: an index (.rdx) says where each begins and how
long it is. What R wrote is read by rdata.
"""

from __future__ import annotations

import bz2
import io
import lzma
import tarfile
import warnings
import zlib
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from dcfsc.errors import InputError

from .problems import downloaded

HEADER = 60  # bytes before each member of an ar file
SUFFIXES = (".rda", ".rdata")
LZMA = [{"id": lzma.FILTER_LZMA2, "preset": 6}]


def data_set(package: str, name: str, file: str | None = None) -> Any:
    """A data set of an R package: a table, an array, or a namespace or dict of such.

    ``file`` is the name of the .rda file where it is not the data set's own.
    """
    archive = downloaded(f"{package}_*.deb")
    parts = data_files(archive)
    for path, content in parts.items():
        if path.suffix.lower() in SUFFIXES and path.stem == (file or name):
            return converted(content)[name]
    if (index := parts.get(PurePosixPath("Rdata.rdx"))) is not None:
        places = converted(zlib.decompress(index) if index[:1] == b"x" else index)["variables"]
        if name in places:
            start, length = (int(number) for number in places[name])
            database = parts[PurePosixPath("Rdata.rdb")]
            return converted(block(database[start : start + length]))
    raise InputError(f"{archive.name} has no data set {name}: fetch the release of vectors.toml")


def data_files(archive: Path) -> dict[PurePosixPath, bytes]:
    """The files in the folder "data" of the package that a Debian archive holds."""
    try:
        with tarfile.open(fileobj=io.BytesIO(installed(archive.read_bytes()))) as tar:
            return {
                PurePosixPath(PurePosixPath(entry.name).name): tar.extractfile(entry).read()  # type: ignore[union-attr]
                for entry in tar
                if entry.isfile() and PurePosixPath(entry.name).parent.name == "data"
            }
    except (tarfile.TarError, ValueError) as error:
        raise InputError(f"{archive.name} is not a Debian package: fetch it again") from error


def installed(archive: bytes) -> bytes:
    """The tar file of what an archive installs."""
    place = len(b"!<arch>\n")
    while place < len(archive):
        header = archive[place : place + HEADER]
        size = int(header[48:58])
        if header.startswith(b"data.tar"):
            return archive[place + HEADER : place + HEADER + size]
        place += HEADER + size + size % 2
    raise ValueError("no data.tar")


def block(stored: bytes) -> bytes:
    """What a compressed block of a database holds: its length, a letter for the method, bytes."""
    match stored[4:5]:
        case b"2":
            return bz2.decompress(stored[5:])
        case b"Z":
            return lzma.decompress(stored[5:], format=lzma.FORMAT_RAW, filters=LZMA)
    return zlib.decompress(stored[4:])


def converted(content: bytes) -> Any:
    """What R wrote, as tables, arrays and dicts."""
    try:
        import rdata
    except ImportError as error:
        raise InputError("data of R packages need rdata: pip install 'dcfsc[problems]'") from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # classes of R that have no counterpart
        return rdata.conversion.convert(rdata.parser.parse_data(content))


def inside(value: Any, path: str) -> Any:
    """A part of a data set, by names with dots between them."""
    for name in path.split(".") if path else ():
        value = value[name] if hasattr(value, "__getitem__") else getattr(value, name)
    return value


def labels(values: Any) -> np.ndarray:
    """Classes from 0 in sorted order, and -1 where there is none."""
    import pandas as pd

    column = pd.Series(np.asarray(values, dtype=object))
    return np.asarray(pd.factorize(column.where(column.isna(), column.astype(str)), sort=True)[0])
