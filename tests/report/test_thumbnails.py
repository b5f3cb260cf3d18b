"""Thumbnails: the right pixels, within the budget."""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dcfsc.report import images_of, thumbnails
from dcfsc.report import thumbnails as thumbs_function
from dcfsc.report.thumbnails import (
    BUDGET,
    LARGEST_SIDE,
    SHEET_COLUMNS,
    SMALL_SIDE,
    affordable,
    file_thumbnails,
    heat_map,
    in_color_on_disk,
    sprite_sheet,
    thumbnail_shape,
)


def decoded(uri: str) -> Image.Image:
    kind, content = uri.split(",")
    assert kind == "data:image/png;base64"
    return Image.open(io.BytesIO(base64.b64decode(content)))


def test_what_can_be_looked_at() -> None:
    assert images_of(np.zeros((2, 4, 4)))
    assert images_of(np.zeros((2, 3, 4, 4)))
    assert not images_of(np.zeros((2, 16)))
    assert not images_of(np.zeros((2, 7, 4, 4)))


def test_bytes_stay_as_they_are() -> None:
    X = np.random.default_rng(0).integers(0, 256, (9, 6, 5), dtype=np.uint8)
    samples = np.array([4, 0, 8])
    assert np.array_equal(thumbnails(X, samples), X[samples])
    color = np.random.default_rng(0).integers(0, 256, (9, 3, 6, 5), dtype=np.uint8)
    assert np.array_equal(thumbnails(color, samples), color[samples].transpose(0, 2, 3, 1))
    assert np.array_equal(thumbnails(X[:, None], samples), X[samples])
    with_alpha = np.concatenate([color, color[:, :1]], axis=1)
    assert np.array_equal(thumbnails(with_alpha, samples), thumbnails(color, samples))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.bool_, np.uint8])
def test_other_ranges_are_stretched(dtype: type) -> None:
    X = (np.arange(40).reshape(2, 4, 5) % 2).astype(dtype)
    found = thumbnails(X, np.arange(2))
    assert found.dtype == np.uint8
    assert np.array_equal(found, 255 * (np.arange(40).reshape(2, 4, 5) % 2))


def test_constant_pictures_and_features() -> None:
    assert thumbnails(np.full((3, 4, 4), 0.5), np.arange(3)).shape == (3, 4, 4)
    assert thumbnails(np.ones((3, 16)), np.arange(3)).shape == (0, 0, 0)


@pytest.mark.parametrize("shape", [(300, 200), (3, 120, 300), (128, 128)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_large_pictures_are_reduced_in_their_proportions(shape: tuple, dtype: type) -> None:
    X = np.random.default_rng(0).integers(0, 256, (5, *shape)).astype(dtype)
    found = thumbnails(X, np.arange(5))
    assert max(found.shape[1:3]) == LARGEST_SIDE
    ratio = found.shape[1] / found.shape[2]
    assert ratio == pytest.approx(shape[-2] / shape[-1], rel=0.1)
    assert abs(float(found.mean()) - 127) < 12


def test_reading_in_chunks_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(0).normal(size=(50, 70, 50))
    whole = thumbnails(X, np.arange(50))
    monkeypatch.setitem(thumbs_function.__globals__, "CHUNK_BYTES", 3 * X[0].nbytes)
    assert np.array_equal(thumbnails(X, np.arange(50)), whole)


@given(st.integers(1, 20_000), st.integers(4, 300), st.integers(4, 300), st.booleans())
@settings(deadline=None)
def test_all_thumbnails_together_fit_the_budget(
    count: int, height: int, width: int, color: bool
) -> None:
    shape = (count, 3, height, width) if color else (count, height, width)
    h, w = thumbnail_shape(shape[1:], count)
    assert h * w * (3 if color else 1) * count <= BUDGET
    X = np.broadcast_to(np.uint8(1), shape)
    if count <= affordable(X):
        assert max(h, w) >= min(SMALL_SIDE, height, width)
    assert max(thumbnail_shape(shape[1:], 1)) == min(LARGEST_SIDE, max(height, width))


def test_sheets_of_photographs_are_small_and_of_few_pixels_exact() -> None:
    smooth = np.add.outer(np.arange(96), np.arange(96)).astype(np.uint8)
    photographs = np.stack([smooth + np.uint8(i) for i in range(30)])
    noisy = photographs + np.random.default_rng(0).integers(0, 40, photographs.shape, np.uint8)
    uri, columns, rows = sprite_sheet(np.repeat(noisy[..., None], 3, axis=3))
    assert uri.startswith("data:image/jpeg;base64,")
    assert (columns, rows) == (30, 1)
    assert len(uri) < 0.5 * noisy.size * 3
    uri, _, _ = sprite_sheet(noisy[:, :8, :8])
    assert np.array_equal(np.asarray(decoded(uri)), np.concatenate(noisy[:, :8, :8], axis=1))


def test_thumbnails_have_that_shape() -> None:
    X = np.random.default_rng(0).integers(0, 256, (2_000, 3, 40, 40), dtype=np.uint8)
    found = thumbnails(X, np.arange(2_000))
    assert found.shape == (2_000, *thumbnail_shape(X.shape[1:], 2_000), 3)
    assert found.nbytes <= BUDGET


@pytest.mark.parametrize("color", [(), (3,)])
@pytest.mark.parametrize("count", [1, SHEET_COLUMNS, SHEET_COLUMNS + 5])
def test_sprite_sheet_holds_every_picture_in_its_cell(count: int, color: tuple) -> None:
    pictures = np.random.default_rng(0).integers(0, 256, (count, 6, 4, *color), dtype=np.uint8)
    uri, columns, rows = sprite_sheet(pictures)
    pixels = np.asarray(decoded(uri))
    assert pixels.shape[:2] == (6 * rows, 4 * columns)
    for at in (0, count // 2, count - 1):
        y, x = 6 * (at // columns), 4 * (at % columns)
        assert np.array_equal(pixels[y : y + 6, x : x + 4], pictures[at])


def test_heat_map_is_one_color_of_many_opacities() -> None:
    values = np.array([[0.0, 0.25], [1.0, 2.0]])
    pixels = np.asarray(decoded(heat_map(values, (10, 20, 30))).convert("RGBA"))
    assert pixels[..., 3].tolist() == [[0, 128], [255, 255]]
    assert (pixels[..., :3] == [10, 20, 30]).all()


def test_thumbnails_of_files_stand_as_the_camera_was_held(tmp_path: Path) -> None:
    """Every orientation that a camera writes gives the same upright picture."""
    red, blue, green = (200, 0, 0), (0, 0, 200), (0, 200, 0)
    upright = Image.new("RGB", (40, 40), red)
    upright.paste(blue, (0, 20, 40, 40))
    upright.paste(green, (0, 0, 20, 20))
    stored_as = Image.Transpose
    turned = {
        1: None,
        2: stored_as.FLIP_LEFT_RIGHT,
        3: stored_as.ROTATE_180,
        4: stored_as.FLIP_TOP_BOTTOM,
        5: stored_as.TRANSPOSE,
        6: stored_as.ROTATE_90,
        7: stored_as.TRANSVERSE,
        8: stored_as.ROTATE_270,
    }
    files = []
    for orientation, change in turned.items():
        exif = Image.Exif()
        exif[0x0112] = orientation
        files.append(str(tmp_path / f"{orientation}.png"))
        (upright if change is None else upright.transpose(change)).save(files[-1], exif=exif)
    gray = np.zeros((len(files), 8, 8), np.uint8)
    for square in thumbnails(gray, np.arange(len(files)), files):
        side = len(square)
        low, high = side // 4, 3 * side // 4
        corners = [square[low, low], square[low, high], square[high, low], square[high, high]]
        assert np.array_equal(corners, [green, red, blue, blue])


def test_files_that_fit_does_not_read_are_gray_and_never_waited_for(tmp_path: Path) -> None:
    red = Image.new("RGB", (8, 8), (200, 0, 0))
    names = [str(tmp_path / name) for name in ("a.png", "other.png", "pipe.png", "link.png")]
    red.save(names[0])
    red.save(names[1], "PCX")  # which Pillow reads
    os.mkfifo(names[2])
    os.symlink(os.devnull, names[3])
    squares = file_thumbnails(names)
    assert (squares[0] == (200, 0, 0)).all()
    assert (squares[1:] == 128).all()
    assert not in_color_on_disk(np.zeros((3, 8, 8), np.uint8), names[1:])
