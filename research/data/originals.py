"""The datasets as their makers distribute them -> upright uint8 images and labels from 0.

MATLAB stores an h x w image column by column, so a row of h*w numbers is the w x h transpose in
our order:  image = row.reshape(w, h).T.
"""

from __future__ import annotations

import gzip
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from dcfsc.errors import InputError
from dcfsc.io import Dataset
from dcfsc.io.arrays import load_npz, read_mat
from dcfsc.io.dataset import damage_in_one_line, encode_labels
from dcfsc.io.image_stream import StreamedImages
from dcfsc.io.images import ImageSource, Reading, channels_first

MEMBER_BYTES = 32 << 20  # no image of these sets is larger; a larger member is not decompressed
IDX_BYTES = 1 << 28  # five times MNIST
CIFAR_SHAPE = (3, 32, 32)
CIFAR_FILES = (*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin")


def read_npz(name: str, path: Path, shape: Any) -> Dataset:
    """Arrays ``images`` (n, h, w) or, in color, (n, h, w, 3), and ``labels`` (n,)."""
    data = load_npz(path, labels="labels", key="images")
    X = channels_first(data.X, str(path))
    if X.ndim != 3 and X.shape[1:2] != (3,):
        raise InputError(f"{path}: images have shape {X.shape}; expected (n, h, w).")
    return Dataset(name, X, data.y, label_names=data.label_names)


def read_cai_mat(name: str, path: Path, shape: tuple[int, int]) -> Dataset:
    """``fea`` (n, h*w), each row an image in MATLAB's order, and ``gnd`` (n, 1) from 1."""
    arrays = read_mat(path)
    h, w = shape
    if "fea" not in arrays or "gnd" not in arrays or arrays["fea"].shape[1:] != (h * w,):
        found = ", ".join(f"{k} {a.shape}" for k, a in arrays.items()) or "no arrays"
        raise InputError(f"{path} holds {found}; expected fea (n, {h * w}) and gnd (n, 1).")
    images = arrays["fea"].reshape(-1, w, h).transpose(0, 2, 1)
    y, _ = encode_labels(arrays["gnd"], path)
    return Dataset(name, _eight_bits(images), y)


def read_yale_mat(name: str, path: Path, shape: tuple[int, int]) -> Dataset:
    """``Y`` (h*w, images of a person, people), each column an image in MATLAB's order."""
    arrays = read_mat(path)
    h, w = shape
    Y = arrays.get("Y", np.empty(0))
    if Y.ndim != 3 or len(Y) != h * w:
        raise InputError(f"{path}: Y has shape {Y.shape}; expected ({h * w}, 64, 38).")
    _, each, people = Y.shape
    images = Y.transpose(2, 1, 0).reshape(-1, w, h).transpose(0, 2, 1)
    return Dataset(name, _eight_bits(images), np.repeat(np.arange(people), each))


def _eight_bits(images: np.ndarray) -> np.ndarray:
    """uint8 where that loses nothing: the MATLAB files hold pixels 0-255 as doubles."""
    pixels = images.astype(np.uint8, order="C")
    return pixels if np.array_equal(pixels, images) else images.astype(np.float32, order="C")


@dataclass(frozen=True)
class Tree:
    """Images laid out in a folder or a zip archive: where they lie, and what their names say.

    ``pattern`` matches an image's path from the tree's top; its first group is the class, its
    second the place within the class.
    """

    glob: str
    pattern: str

    def in_folder(self, folder: Path) -> list[tuple[re.Match[str], Path]]:
        matched = (
            (re.fullmatch(self.pattern, path.relative_to(folder).as_posix()), path)
            for path in folder.glob(self.glob)
        )
        return [(match, path) for match, path in matched if match]

    @contextmanager
    def images(self, place: Path) -> Iterator[list[tuple[re.Match[str], ImageSource]]]:
        """The matching images of a folder or an archive.

        Members of an archive are read in memory: nothing is extracted, so no name in it can
        write anywhere.
        """
        if place.is_dir():
            yield [(match, ImageSource.file(path)) for match, path in self.in_folder(place)]
            return
        with damage_in_one_line(f"the archive {place}"):
            archive = zipfile.ZipFile(place)
        with archive:
            found = []
            for info in archive.infolist():
                match = re.fullmatch(f"(?:(?!__MACOSX)[^/]+/)*{self.pattern}", info.filename)
                if match:
                    found.append((match, _member(place, archive, info)))
            yield found


YALE = Tree("yaleB*/*", r"yaleB(\d+)/(yaleB\d+_P00A[^/]*(?<!_Ambient)\.pgm(?:\.bad)?)")
COIL = Tree("*", r"obj(\d+)__(\d+)\.png")


def _member(place: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> ImageSource:
    def read() -> IO[bytes]:
        if info.file_size > MEMBER_BYTES:
            raise InputError(
                f"{info.filename} in {place} claims {info.file_size} bytes; too large."
            )
        return io.BytesIO(archive.read(info))

    return ImageSource(f"{place}/{info.filename}", read)


def read_yale_tree(name: str, place: Path, shape: tuple[int, int]) -> Dataset:
    """CroppedYale: yaleBxx/yaleBxx_P00A...E....pgm, in file-name order.

    The 18 files named .pgm.bad are images too (the release calls them corrupted) and belong to
    the 64 of a person; the picture without flash light (_Ambient) does not.
    """
    data = _read_tree(name, place, YALE, shape)
    bad = sum(path.endswith(".bad") for path in data.paths or ())
    notes = [f"{bad} images that the release marks as corrupted are kept"] if bad else []
    counts = np.bincount(np.asarray(data.y))
    if (counts != 64).any():
        notes.append(f"{counts.min()} to {counts.max()} images a person instead of 64")
    return replace(data, notes="; ".join(notes))


def read_coil_tree(name: str, place: Path, shape: tuple[int, int]) -> Dataset:
    """coil-100: obj1__0.png ... obj100__355.png, in color, by object and angle."""
    return _read_tree(name, place, COIL, shape)


def _read_tree(name: str, place: Path, tree: Tree, shape: tuple[int, int]) -> Dataset:
    with tree.images(place) as found:
        if not found:
            raise InputError(f"{place} holds none of the images of {name}.")
        found.sort(key=lambda pair: _place(pair[0]))
        X = StreamedImages(name, [source for _, source in found], Reading(shape)).in_memory()
    y, _ = encode_labels([int(match[1]) for match, _ in found], place)
    return Dataset(name, X, y, paths=[source.name for _, source in found])


def _place(match: re.Match[str]) -> tuple[int, int | str]:
    return int(match[1]), int(match[2]) if match[2].isdigit() else match[2]


def read_idx_pairs(name: str, pairs: Sequence[tuple[Path, Path]], shape: Any) -> Dataset:
    """MNIST's idx files: (images, labels) of the training part, then of the test part."""
    images = [read_idx(path, 3) for path, _ in pairs]
    labels = [read_idx(path, 1) for _, path in pairs]
    for (path, _), some, theirs in zip(pairs, images, labels, strict=True):
        if len(some) != len(theirs):
            raise InputError(f"{path}: {len(some)} images but {len(theirs)} labels beside them.")
    y, _ = encode_labels(np.concatenate(labels), pairs[0][1])
    return Dataset(name, np.concatenate(images), y)


def read_idx(path: Path, ndim: int) -> np.ndarray:
    """An idx file of bytes: magic 0 0 8 ndim, the big-endian 32-bit shape, then the entries."""
    try:
        with path.open("rb") as raw:
            file: io.BufferedIOBase = (
                gzip.GzipFile(fileobj=raw) if path.suffix.lower() == ".gz" else raw
            )
            head = file.read(4 + 4 * ndim)
            if len(head) < 4 + 4 * ndim or head[:4] != bytes((0, 0, 8, ndim)):
                raise InputError(f"{path} is not an idx file of {ndim}-dimensional bytes.")
            shape = struct.unpack(f">{ndim}I", head[4:])
            size = int(np.prod([int(s) for s in shape], dtype=object))
            if size > IDX_BYTES:
                raise InputError(f"{path} claims shape {shape}; this is not an MNIST file.")
            # a byte more than expected tells a longer file without decompressing all of it
            body = file.read(size + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path} is damaged or cut off: {error}; download it again.") from None
    if len(body) != size:
        kind = "longer" if len(body) > size else "shorter"
        raise InputError(f"{path} is {kind} than its shape {shape} says; download it again.")
    return np.frombuffer(body, np.uint8).reshape(shape)


def read_cifar(name: str, first: Path, shape: Any) -> Dataset:
    """CIFAR-10's binary batches beside the first: records of a label and (3, 32, 32) bytes."""
    size = 1 + int(np.prod(CIFAR_SHAPE))
    records = []
    for file in CIFAR_FILES:
        path = first.with_name(file)
        if not path.is_file():
            raise InputError(f"{file} is not beside {first}; CIFAR-10 has six such files.")
        content = np.fromfile(path, np.uint8)
        if not content.size or content.size % size:
            raise InputError(f"{path} is damaged or cut off; download it again.")
        records.append(content.reshape(-1, size))
    together = np.concatenate(records)
    y, _ = encode_labels(together[:, 0], first)
    return Dataset(name, together[:, 1:].reshape(-1, *CIFAR_SHAPE), y)


def missing_views(y: np.ndarray) -> str:
    """Which of the 100 x 72 views of COIL-100 are missing, in words."""
    counts = np.bincount(y, minlength=100)
    objects = np.flatnonzero(counts != 72) + 1
    if not objects.size:
        return ""
    missing = 7200 - len(y)
    listed = ", ".join(map(str, objects))
    return f"{missing} of the 7,200 views are missing (objects {listed})"
