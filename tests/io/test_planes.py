"""Images of several pages and channels, as instruments save them."""

from __future__ import annotations

import builtins
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dcfsc import EncoderFeatures
from dcfsc.errors import InputError
from dcfsc.io import load
from dcfsc.io.images import OF_THE_SET, Reading
from dcfsc.io.working_size import working_size
from dcfsc.runs.record import reading_of

RANGES = ((100, 200), (1_000, 9_000), (5, 60))


def stack(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(*ends, (6, 7)) for ends in RANGES]).astype(np.uint16)


def save_pages(path: Path, pages: np.ndarray) -> None:
    first, *others = (Image.fromarray(page) for page in pages)
    first.save(path, save_all=True, append_images=others)


@pytest.fixture
def plates(tmp_path: Path) -> Path:
    for i in range(3):
        save_pages(tmp_path / f"{i}.tif", stack(i))
    return tmp_path


def scaled(pages: np.ndarray) -> np.ndarray:
    """Planes (n, h, w) of many images, by the range of all of them."""
    low, high = float(pages.min()), float(pages.max())
    return np.round((pages - low) * (255 / (high - low))).astype(int)


ALL = np.stack([stack(i) for i in range(3)])


def test_the_first_page_is_read_and_the_others_are_told(plates: Path) -> None:
    data = load(plates)
    assert np.abs(data.X.astype(int) - scaled(ALL[:, 0])).max() <= 1
    assert "3 images have more pages, of which the first is read; --page N takes" in data.notes
    second = load(plates, page=2)
    assert np.abs(second.X.astype(int) - scaled(ALL[:, 1])).max() <= 1
    assert "more pages" not in second.notes
    assert second.reading == Reading((6, 7), levels=second.reading.levels, page=2)
    with pytest.raises(InputError, match=r"0\.tif: it has no page 4"):
        load(plates, page=4)


@pytest.mark.parametrize("chosen", [None, (1, 2, 3), (3, 1)])
def test_pages_as_channels_each_of_its_own_range(plates: Path, chosen: Any) -> None:
    data = load(plates, page="all", channels=chosen)
    order = [c - 1 for c in chosen or (1, 2, 3)]
    assert data.X.shape == (3, len(order), 6, 7)
    for place, channel in enumerate(order):
        expected = scaled(ALL[:, channel])
        assert np.abs(data.X[:, place].astype(int) - expected).max() <= 1
        low, high = data.reading.ranges()[place]
        assert (low, high) == (ALL[:, channel].min(), ALL[:, channel].max())
    assert "those of each channel by themselves" in data.notes
    stored = {"data": {"reading": json.loads(json.dumps(asdict(data.reading)))}}
    assert reading_of(stored) == data.reading
    again = load(plates, reading=reading_of(stored))
    np.testing.assert_array_equal(again.X[:], data.X)


def test_files_of_different_numbers_of_pages(plates: Path) -> None:
    save_pages(plates / "3.tif", stack(3)[:2])
    with pytest.raises(InputError, match=r"2 to 3 channels; .* --channels, as in 1,2"):
        load(plates, page="all")
    assert load(plates, page="all", channels=(1, 2)).X.shape == (4, 2, 6, 7)
    with pytest.warns(UserWarning, match=r"1 of 4 images were broken and left out: 3\.tif"):
        assert load(plates, page=3).X.shape == (3, 6, 7)


def test_channels_of_color_images(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (2, 8, 9, 3)).astype(np.uint8)
    for i, image in enumerate(pixels):
        Image.fromarray(image).save(tmp_path / f"{i}.png")
    data = load(tmp_path, channels=(3, 1))
    np.testing.assert_array_equal(data.X, pixels[..., [2, 0]].transpose(0, 3, 1, 2))
    with pytest.raises(InputError, match="has no channel 4"):
        load(tmp_path, channels=(4,))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"page": 0}, "page is 0; give a number, counted from 1, or all"),
        ({"page": "first"}, "page is 'first'"),
        ({"channels": (0, 1)}, "give different numbers, counted from 1"),
        ({"channels": (2, 2)}, "give different numbers"),
        ({"channels": ()}, "give different numbers"),
        ({"page": "all", "gray": False}, "color has no effect where channels are read"),
    ],
)
def test_choices_that_cannot_be(plates: Path, options: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load(plates, **options)
    np.save(plates / "x.npy", np.zeros((3, 4)))
    with pytest.raises(InputError, match="page is for folders of images"):
        load(plates / "x.npy", page=2)


def test_records_of_readings_that_cannot_be(plates: Path) -> None:
    good = asdict(load(plates, page="all").reading)
    for field, value in (
        ("levels", [5, 5, 0, 1, 0, 1]),
        ("levels", [0, 1, 0]),
        ("levels", [0, 1, 0, 1]),
        ("page", -1),
        ("page", "one"),
        ("channels", ["a"]),
        ("channels", 3),
    ):
        assert reading_of({"data": {"reading": {**good, field: value}}}) is None


class TestManyChannels:
    """TIFF files of more channels than Pillow reads."""

    @pytest.fixture
    def spectra(self, tmp_path: Path) -> tuple[Path, np.ndarray]:
        tifffile = pytest.importorskip("tifffile")
        planes = np.random.default_rng(0).integers(0, 256, (4, 5, 6, 7)).astype(np.uint8)
        layouts = [
            {"photometric": "minisblack", "planarconfig": "separate"},
            {"photometric": "minisblack", "planarconfig": "contig"},
            {"photometric": "rgb", "planarconfig": "contig"},  # of which Pillow reads three
            {"photometric": "minisblack", "planarconfig": "contig", "compression": "zlib"},
        ]
        for i, layout in enumerate(layouts):
            last = layout["planarconfig"] == "contig"
            image = planes[i].transpose(1, 2, 0) if last else planes[i]
            tifffile.imwrite(tmp_path / f"{i}.tif", image, **layout)
        return tmp_path, planes

    def test_all_are_read_or_those_that_are_chosen(self, spectra: Any) -> None:
        folder, planes = spectra
        data = load(folder)
        np.testing.assert_array_equal(data.X, planes)
        assert data.notes == "5 channels are read; --channels takes some of them"
        np.testing.assert_array_equal(load(folder, channels=(5, 2)).X, planes[:, [4, 1]])
        assert not data.photographs

    def test_what_to_install(self, spectra: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        plain = builtins.__import__

        def without(name: str, *more: Any) -> Any:
            if name == "tifffile":
                raise ImportError
            return plain(name, *more)

        monkeypatch.setattr(builtins, "__import__", without)
        with pytest.raises(InputError, match=r"none of the 4 .*pip install 'dcfsc\[tiff\]'"):
            load(spectra[0])

    def test_an_encoder_takes_one_or_three(self, spectra: Any) -> None:
        how = Reading((8, 8), gray=False, levels=OF_THE_SET)
        five = load(spectra[0], reading=how).X
        assert five.shape == (4, 5, 8, 8)
        with pytest.raises(InputError, match="in gray or in color; X has 5 channels"):
            EncoderFeatures("lite0", device="cpu", cache=None).fit(five)


def test_the_working_size_of_many_channels() -> None:
    assert working_size([(40, 70)], 5) == (24, 42)
    assert working_size([(20, 20)], 5) is None
