"""Images with more than eight bits: of gray, of color, or of transparency. Nothing goes unsaid."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from dcfsc.cli import app
from dcfsc.io import load
from dcfsc.io.images import OF_THE_SET, Reading
from dcfsc.runs.folder import read_run
from dcfsc.runs.record import reading_of


def save(path: Path, pixels: Any, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)


def deep(low: int, high: int, seed: int = 0) -> np.ndarray:
    """A 16-bit image with values from low to high, both of them there."""
    pixels = np.random.default_rng(seed).integers(low, high + 1, (8, 8)).astype(np.uint16)
    pixels[0, :2] = low, high
    return pixels


@pytest.mark.parametrize("suffix", ["png", "tif", "pgm"])
@pytest.mark.parametrize("streamed", [False, True])
def test_deep_gray_is_scaled_by_the_range_of_the_set(
    tmp_path: Path, suffix: str, streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if streamed:
        monkeypatch.setattr("dcfsc.io.streamed.STREAM_BYTES", 10)
    images = [deep(30_000, 30_100, 1), deep(30_050, 30_200, 2)]
    for i, pixels in enumerate(images):
        save(tmp_path / f"{i}.{suffix}", pixels)
    data = load(tmp_path, size=(8, 8))
    exact = (np.array(images, np.float64) - 30_000) * 255 / 200
    assert np.abs(np.asarray(data.X) - exact).max() <= 0.5 + 1e-3
    assert data.notes == "16-bit values from 30,000 to 30,200 are scaled to 0 to 255"
    assert data.reading == Reading((8, 8), levels=(30_000, 30_200))
    again = load(tmp_path, reading=Reading((8, 8), levels=OF_THE_SET))
    np.testing.assert_array_equal(np.asarray(again.X), np.asarray(data.X))
    given = load(tmp_path, reading=Reading((8, 8), levels=(30_100, 30_110))).X
    assert set(np.unique(given[0])) <= {0} | set(range(256))
    assert (given[0][images[0] <= 30_100] == 0).all()
    assert (given[1][images[1] >= 30_110] == 255).all()


def test_levels_beside_images_of_eight_bits_are_the_full_ones(tmp_path: Path) -> None:
    save(tmp_path / "0.png", deep(30_000, 30_200))
    save(tmp_path / "1.png", np.full((8, 8), 9, np.uint8))
    data = load(tmp_path)
    assert set(np.unique(data.X[0])) == {117, 118}
    assert (data.X[1] == 9).all()
    assert data.notes == "16-bit images are scaled by their full range, as others have 8 bits"


@pytest.mark.parametrize("value", [0, 30_000])
def test_one_level_is_no_range(tmp_path: Path, value: int) -> None:
    save(tmp_path / "0.png", np.full((4, 4), value, np.uint16))
    data = load(tmp_path)
    assert (round(value / 257) == data.X).all()
    assert data.notes == ""


def test_a_run_reads_new_images_with_its_own_levels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for i in range(20):
        pixels = deep(30_000, 30_050, i)
        pixels[:, 4 * (i % 2) : 4 * (i % 2) + 4] += 150  # one half is bright
        save(tmp_path / "old" / f"{i}.png", pixels)
    save(tmp_path / "new" / "0.png", pixels)

    def done(*words: str) -> str:
        result = CliRunner().invoke(app, list(words))
        assert result.exit_code == 0, result.output
        return result.output

    options = ("-k", "2", "--fast", "--method", "closed-form", "--no-report")
    said = done("fit", "old", *options, "--out", "run")
    assert "from 30,000 to 30,200 are scaled" in " ".join(said.split())
    run = read_run(tmp_path / "run")
    assert reading_of(run.record) == Reading((8, 8), levels=(30_000, 30_200))
    assert sorted(run.record["cluster_sizes"]) == [10, 10]
    for more in ([], ["--size", "8x8"]):
        told = json.loads(done("predict", "run", "new", "--json", *more))
        assert told["labels"] == [run.labels[1]]
        assert told["data"]["reading"]["levels"] == [30_000, 30_200]


def test_a_record_without_levels_was_read_with_the_full_ones() -> None:
    values = {"size": [8, 8], "gray": True, "crop": 1.0, "keep_aspect": False}
    assert reading_of({"data": {"reading": values}}) == Reading((8, 8))
    for wrong in ([5, 5], [1], ["a", "b"], None):
        assert reading_of({"data": {"reading": {**values, "levels": wrong}}}) is None


def test_deep_color_is_said(tmp_path: Path) -> None:
    # Pillow writes no such file: PNG, 2 x 1 pixels, 16 bits a channel
    import struct
    import zlib

    def chunk(kind: bytes, content: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + check

    header = struct.pack(">IIBBBBB", 2, 1, 16, 2, 0, 0, 0)
    row = b"\0" + np.array([65535, 0, 0, 257, 514, 771], ">u2").tobytes()
    content = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(row)) + chunk(b"IEND", b"")
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n" + content)
    data = load(tmp_path)
    assert data.X[0, :, 0].tolist() == [[255, 1], [0, 2], [0, 3]]
    assert data.notes == "colors of 16 bits are read with 8 bits"
    assert "colors of 16 bits are read with 8 bits" in load(tmp_path, channels=(1,)).notes


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparency_is_shown_over_white_and_it_is_said(tmp_path: Path, mode: str) -> None:
    pixels = np.zeros((4, 4, 4), np.uint8)
    pixels[0] = 0, 0, 0, 255  # black
    pixels[1] = 0, 0, 0, 0  # nothing
    pixels[2] = 255, 255, 255, 0
    pixels[3] = 0, 0, 0, 255 if mode == "P" else 51  # a fifth of black
    image = Image.fromarray(pixels)
    if mode == "P":
        image = Image.fromarray(np.array([[0], [1], [1], [0]], np.uint8).repeat(4, 1))
        image.putpalette([0, 0, 0, 10, 20, 30])
        image.save(tmp_path / "a.png", transparency=1)
    else:
        image.convert(mode).save(tmp_path / "a.png")
    save(tmp_path / "b.png", np.full((4, 4), 7, np.uint8))
    data = load(tmp_path)
    assert data.X[0, :, 0].tolist() == [0, 255, 255, 0 if mode == "P" else 204]
    assert (data.X[1] == 7).all()
    assert data.notes == "transparency is shown over white: 1 images"
