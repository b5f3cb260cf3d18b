"""details.npz: read as it was written, refused in one line where it cannot be."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from dcfsc.errors import InputError
from dcfsc.report import Details, read_details, with_images, write_details


def test_read_is_the_inverse_of_write(details: Details, tmp_path: Path) -> None:
    write_details(tmp_path / "details.npz", details)
    again = read_details(tmp_path / "details.npz")
    for field in fields(Details):
        ours, theirs = getattr(details, field.name), getattr(again, field.name)
        assert ours.dtype == theirs.dtype, field.name
        assert np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f"), field.name
    assert os.listdir(tmp_path) == ["details.npz"]


def test_python_objects_are_never_written(details: Details, tmp_path: Path) -> None:
    odd = replace(details, files=np.array([{"a": 1}] * len(details.shown), dtype=object))
    with pytest.raises(InputError, match="Python objects in 'files'"):
        write_details(tmp_path / "details.npz", odd)
    assert os.listdir(tmp_path) == []


def test_missing_file_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no details\.npz.* without --no-report"):
        read_details(tmp_path / "details.npz")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 and no more", b"not a zip at all"])
def test_damaged_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "details.npz").write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        read_details(tmp_path / "details.npz")


def test_file_cut_short_or_with_a_part_missing_is_refused(details: Details, tmp_path: Path) -> None:
    path = tmp_path / "details.npz"
    write_details(path, details)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="damaged"):
        read_details(path)
    np.savez(path, format=2, labels=details.labels)
    with pytest.raises(InputError, match="damaged"):
        read_details(path)


def test_pickled_array_is_refused_unopened(tmp_path: Path) -> None:
    path = tmp_path / "details.npz"
    np.savez(path, format=np.array([print], dtype=object))
    with pytest.raises(InputError, match="damaged"):
        read_details(path)


def test_earlier_format_asks_to_fit_again(tmp_path: Path) -> None:
    np.savez(tmp_path / "details.npz", format=1)
    with pytest.raises(InputError, match="earlier dcfsc; fit again"):
        read_details(tmp_path / "details.npz")


def test_newer_format_asks_for_an_upgrade(tmp_path: Path) -> None:
    np.savez(tmp_path / "details.npz", format=99)
    with pytest.raises(InputError, match=r"format 99.*Upgrade"):
        read_details(tmp_path / "details.npz")


@pytest.mark.parametrize("name", ["probabilities", "truth", "role", "thumbnails", "view", "parts"])
def test_arrays_that_do_not_fit_together(details: Details, name: str) -> None:
    with pytest.raises(InputError, match=name):
        replace(details, **{name: getattr(details, name)[:-1]})


def test_samples_that_are_not_there(details: Details) -> None:
    with pytest.raises(InputError, match="'shown'"):
        replace(details, shown=details.shown + len(details.labels))


def test_images_of_the_same_samples_take_the_place_of_the_stored_ones(details: Details) -> None:
    n = len(details.labels)
    images = np.full((n, 3, 4, 4), 200, np.uint8)
    changed = with_images(details, images, "other")
    assert changed.thumbnails.shape == (len(details.shown), 4, 4, 3)
    assert (changed.thumbnails == 200).all()
    with pytest.raises(InputError, match=rf"other has 5 samples, but the run had {n}"):
        with_images(details, images[:5], "other")
    with pytest.raises(InputError, match="not images"):
        with_images(details, np.ones((n, 7)), "other")
