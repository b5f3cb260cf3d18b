"""Hopkins-155: the trajectories of points on moving bodies, one problem a video sequence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dcfsc.errors import InputError, unknown_name
from dcfsc.io import Dataset
from dcfsc.io.arrays import read_mat
from dcfsc.io.dataset import damage_in_one_line, encode_labels

from .registry import SETS, Entry, Form, file_named

NAME = "hopkins155"
TRUTH = "_truth.mat"


def _release(places: Sequence[Path]) -> Path | None:
    return next((p for p in places if p.is_dir() and any(p.glob(f"*/*{TRUTH}"))), None)


def _unread(name: str, place: Path, shape: None) -> Dataset:
    raise InputError(f"{NAME} has many sequences; name one, as in {NAME}/cars1.")


FORMS = (
    Form("hopkins155.npz", file_named("hopkins155.npz"), _unread),
    Form(f"Hopkins155/cars1/cars1{TRUTH} ...", _release, _unread),
)


def sequences() -> dict[str, int]:
    """The 155 sequences of the benchmark by name, and the number of motions in each, 2 or 3.

    Each sequence of three motions comes again three times, with two of its motions.
    """
    three, two = (SETS[NAME][f"{motions}_motions"].split() for motions in ("three", "two"))
    pairs = [f"{name}_g{pair}" for name in three for pair in (12, 13, 23)]
    return {**dict.fromkeys(three, 3), **dict.fromkeys([*two, *pairs], 2)}


def load_sequence(name: str) -> Dataset:
    """A sequence's trajectories (points, 2 frames), and the motion of each point."""
    _, place = Entry(NAME, FORMS).find()
    x, s = _read(place, name)
    if x.ndim != 3 or x.shape[2] != 2:
        raise InputError(
            f"{place}: {name} has coordinates of shape {x.shape}; expected (points, frames, 2)."
        )
    y, _ = encode_labels(s, place)
    return Dataset(f"{NAME}/{name}", np.ascontiguousarray(x.reshape(len(x), -1)), y)


def _read(place: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Image coordinates (points, frames, 2) and labels of a sequence."""
    if place.is_dir():
        file = place / name / f"{name}{TRUTH}"
        if not file.is_file():
            known = sorted(path.parent.name for path in place.glob(f"*/*{TRUTH}"))
            raise unknown_name(f"sequence of {NAME}", name, known)
        arrays = read_mat(file)
        if not {"x", "s"} <= arrays.keys():
            raise InputError(f"{file} holds no x and s; download it again.")
        # homogeneous coordinates (3, points, frames)
        return np.transpose(arrays["x"][:2], (1, 2, 0)), arrays["s"]
    with damage_in_one_line(place), np.load(place, allow_pickle=False) as archive:
        if f"{name}/x" not in archive.files or f"{name}/s" not in archive.files:
            known = sorted({key.rpartition("/")[0] for key in archive.files})
            raise unknown_name(f"sequence of {NAME}", name, known)
        return archive[f"{name}/x"], archive[f"{name}/s"]
