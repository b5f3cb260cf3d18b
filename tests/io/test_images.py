from __future__ import annotations

import hashlib
import warnings
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from typer.testing import CliRunner

from dcfsc.cli import app
from dcfsc.errors import InputError
from dcfsc.io import images, load
from dcfsc.io.images import Reading, natural_order
from dcfsc.io.working_size import working_shape, working_size
from dcfsc.journal import Filled


def picture(value, h=6, w=4):
    """A gray image whose top-left pixel alone differs, so that turns are seen."""
    pixels = np.full((h, w), value, np.uint8)
    pixels[0, 0] = 255 - value
    return pixels


def save(path, pixels, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)


def test_sub_folders_are_labels_if_asked_for(tmp_path):
    for person, value in (("p10", 30), ("p2", 20)):
        for i in (1, 2, 10):
            save(tmp_path / person / f"img{i}.png", picture(value + i))
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("not an image")
    data = load(tmp_path, labels="folders")
    assert data.X.shape == (6, 6, 4)
    assert data.X.dtype == np.uint8
    assert data.label_names == ["p2", "p10"]
    assert data.y.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.X[:, 1, 1].tolist() == [21, 22, 30, 31, 32, 40]
    assert [p.rsplit("/", 1)[1] for p in data.paths[:3]] == ["img1.png", "img2.png", "img10.png"]
    assert all(p.startswith(str(tmp_path)) for p in data.paths)
    np.testing.assert_array_equal(data.X[0], picture(21))
    plain = load(tmp_path)
    assert (plain.y, plain.label_names, plain.paths) == (None, None, data.paths)
    assert "--labels folders scores against them" in plain.notes
    for labels in ("none", "folders"):
        assert "--labels" not in load(tmp_path, labels=labels).notes


def test_flat_folder_has_no_labels(tmp_path):
    for i in range(3):
        save(tmp_path / f"{i}.png", picture(i))
    data = load(str(tmp_path))
    assert data.y is None
    assert data.label_names is None
    assert data.X[:, 1, 1].tolist() == [0, 1, 2]
    assert data.name == tmp_path.name


def test_labels_of_a_flat_folder_from_a_file(tmp_path):
    for i in range(3):
        save(tmp_path / "im" / f"{i}.png", picture(i))
    (tmp_path / "y.csv").write_text("file,label\n2.png,c\n0.png,b\n1.png,a\n")
    data = load(tmp_path / "im", labels=str(tmp_path / "y.csv"))
    assert data.y.tolist() == [1, 0, 2]
    (tmp_path / "y.csv").write_text("b\na\nb\n")
    with pytest.raises(InputError, match=r"matched by the samples' paths, such as '0.png'"):
        load(tmp_path / "im", labels=str(tmp_path / "y.csv"))
    with pytest.raises(InputError, match="is not a file"):
        load(tmp_path / "im", labels="person")


def test_deeper_folders_belong_to_the_first(tmp_path):
    save(tmp_path / "a" / "x" / "1.png", picture(1))
    save(tmp_path / "b" / "2.png", picture(2))
    data = load(tmp_path, labels="folders")
    assert data.label_names == ["a", "b"]
    assert data.relative_paths == ["a/x/1.png", "b/2.png"]


@pytest.mark.parametrize("suffix", ["png", "bmp", "gif", "tif", "tiff", "pgm", "PNG"])
def test_lossless_formats(tmp_path, suffix):
    save(tmp_path / f"a.{suffix}", picture(40))
    np.testing.assert_array_equal(load(tmp_path).X[0], picture(40))


@pytest.mark.parametrize("suffix", ["jpg", "jpeg", "webp", "ppm"])
def test_other_formats(tmp_path, suffix):
    save(tmp_path / f"a.{suffix}", np.full((6, 4, 3), 90, np.uint8))
    assert np.abs(load(tmp_path).X[0].astype(int) - 90).max() <= 2


def test_color(tmp_path):
    pixels = np.zeros((5, 4, 3), np.uint8)
    pixels[..., 0], pixels[0, 0, 2] = 200, 77
    save(tmp_path / "a.png", pixels)
    data = load(tmp_path, gray=False)
    assert data.X.shape == (1, 3, 5, 4)
    assert data.X[0, 0, 3, 3] == 200
    assert data.X[0, 2, 0, 0] == 77
    np.testing.assert_array_equal(load(tmp_path).X, data.X)  # color is kept where there is any
    assert load(tmp_path, gray=True).X[0, 3, 3] == 60  # 0.299 of the red


def test_sixteen_bits_are_scaled_not_clipped(tmp_path):
    levels = np.array([[0, 257, 32896], [65535, 128, 1285]], np.uint16)
    for suffix in ("png", "tif", "pgm"):
        Image.fromarray(levels).save(tmp_path / f"a.{suffix}")
    for image in load(tmp_path).X:
        assert image.tolist() == [[0, 1, 128], [255, 0, 5]]


def test_unknown_range_is_an_error(tmp_path):
    Image.fromarray(np.ones((3, 3), np.float32)).save(tmp_path / "a.tif")
    with pytest.raises(InputError, match=r"none .*a\.tif: 32-bit pixels"):
        load(tmp_path)


def test_camera_orientation_is_followed(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held upright: turn the picture a quarter clockwise
    save(tmp_path / "a.png", picture(9, 6, 4), exif=exif)
    np.testing.assert_array_equal(load(tmp_path).X[0], np.rot90(picture(9, 6, 4), -1))


def test_different_sizes(tmp_path):
    save(tmp_path / "a.png", picture(1, 6, 4))
    save(tmp_path / "b.png", picture(2, 8, 4))
    assert load(tmp_path).X.shape == (2, 32, 32)
    data = load(tmp_path, size=(5, 3))
    assert data.X.shape == (2, 5, 3)
    assert data.X[1, 4, 2] == 2


def test_broken_images(tmp_path):
    save(tmp_path / "a" / "1.png", picture(1))
    save(tmp_path / "b" / "2.png", picture(2))
    whole = (tmp_path / "a" / "1.png").read_bytes()
    (tmp_path / "a" / "cut.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "empty.jpg").write_bytes(b"")
    (tmp_path / "c" / "text.jpg").write_text("hello")
    with pytest.raises(InputError, match=r"cut.png.*without strict=True") as error:
        load(tmp_path, strict=True)
    assert "\n" not in str(error.value)
    with pytest.warns(UserWarning, match=r"3 of 5 images were broken .*cut.png") as warned:
        data = load(tmp_path, labels="folders")
    assert warned[0].filename == __file__
    assert data.X[:, 1, 1].tolist() == [1, 2]
    assert data.label_names == ["a", "b"]
    assert data.y.tolist() == [0, 1]
    assert len(data.paths) == 2
    assert "3 of 5" in data.notes
    assert data.broken == ("a/cut.png", "c/empty.jpg", "c/text.jpg")


def test_all_broken(tmp_path):
    (tmp_path / "a.png").write_bytes(b"x")
    with pytest.raises(
        InputError, match=r"none of the 1 images can be read \(.*a.png: not an image, or cut off"
    ):
        load(tmp_path)


@pytest.mark.parametrize("limit", [30, 10])  # one warns, the other (less than half) is refused
def test_decompression_bombs(tmp_path, monkeypatch, limit):
    save(tmp_path / "big.png", np.zeros((8, 6), np.uint8))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(InputError, match=f"big.png has more than {limit} pixels"):
            load(tmp_path, strict=True)


def test_empty_folder(tmp_path):
    with pytest.raises(InputError, match="holds no images"):
        load(tmp_path)


def test_images_beside_sub_folders_are_one_set(tmp_path):
    for i, place in enumerate(
        ("10.png", "a/b/c/4.png", "a/b/3.png", "a/2.png", "2.png", "b/1.png")
    ):
        save(tmp_path / place, picture(i))
    data = load(tmp_path)
    assert data.relative_paths == [
        *("2.png", "10.png", "a/2.png", "a/b/3.png", "a/b/c/4.png", "b/1.png")
    ]
    assert data.X[:, 1, 1].tolist() == [4, 0, 3, 2, 1, 5]
    assert (data.y, data.notes) == (None, "")
    with pytest.raises(InputError, match=r"2 of 6 do not, such as 2\.png"):
        load(tmp_path, labels="folders")


def test_hidden_files_are_ignored(tmp_path):
    save(tmp_path / "a" / "1.png", picture(1))
    (tmp_path / "a" / "._1.png").write_bytes(b"macOS was here")
    (tmp_path / "__MACOSX").mkdir()
    (tmp_path / "__MACOSX" / "2.png").write_bytes(b"and here")
    (tmp_path / ".thumbs").mkdir()
    save(tmp_path / ".thumbs" / "1.png", picture(2))
    assert len(load(tmp_path)) == 1


@pytest.mark.parametrize("size", [(0, 3), (3,), (2.5, 2), "32x32", (3, 3, 3)])
def test_wrong_sizes(tmp_path, size):
    save(tmp_path / "a.png", picture(1))
    with pytest.raises(InputError, match="size is"):
        load(tmp_path, size=size)


def test_resizing_arrays(tmp_path):
    ramp = np.tile(np.arange(0, 200, 10, dtype=np.uint8), (2, 20, 1))
    np.save(tmp_path / "bytes.npy", ramp)
    np.save(tmp_path / "floats.npy", np.stack([ramp / 200.0] * 3, axis=1))
    small = load(tmp_path / "bytes.npy", size=(10, 5)).X
    assert small.shape == (2, 10, 5)
    assert small.dtype == np.uint8
    assert np.all(np.diff(small.astype(int), axis=2) > 0)
    floats = load(tmp_path / "floats.npy", size=(10, 5)).X
    assert floats.shape == (2, 3, 10, 5)
    np.testing.assert_allclose(floats[:, 0], small / 200.0, atol=0.01)
    np.save(tmp_path / "flat.npy", ramp.reshape(2, -1))
    with pytest.raises(InputError, match="needs images"):
        load(tmp_path / "flat.npy", size=(10, 5))


@given(st.lists(st.text(alphabet="aB01 9_", max_size=6), max_size=12))
def test_natural_order_is_total(names):
    ordered = sorted(names, key=natural_order)
    assert sorted(ordered, key=natural_order) == ordered


def test_natural_order():
    names = ["img10.png", "img2.png", "Img1.png", "img1b.png", "10", "9", "img01.png"]
    assert sorted(names, key=natural_order) == [
        *("9", "10"),
        *("Img1.png", "img01.png", "img1b.png", "img2.png", "img10.png"),
    ]


class TestWorkingSize:
    """Large images, and images of different sizes, are read at a size that is chosen for them."""

    @pytest.mark.parametrize(
        ("shape", "expected"),
        [
            ((64, 64), (64, 64)),  # 4,096 values are few enough
            ((65, 64), (32, 31)),
            ((3, 36, 36), (3, 36, 36)),
            ((3, 37, 37), (3, 32, 32)),
            ((3, 3000, 4000), (3, 27, 36)),
            ((4000, 1000), (64, 16)),
            ((5000,), (5000,)),
            ((200, 7, 7), (200, 7, 7)),  # what has so many channels is no color image
        ],
    )
    def test_rule(self, shape, expected):
        assert working_shape(shape) == expected

    def test_a_common_aspect_ratio_is_kept(self):
        assert working_size([(300, 400), (600, 810)], 3) == (27, 37)
        assert working_size([(300, 400), (400, 300)], 3) == (32, 32)
        assert working_size([(20, 30), (20, 30)], 3) is None
        assert working_size([(40, 40)], 3) == (32, 32)
        assert working_size([(40, 40)], 1) is None

    def test_a_size_that_is_asked_for_is_taken(self):
        assert working_shape((3, 80, 90), (10, 12)) == (3, 10, 12)
        assert working_shape((80, 90), None) == (80, 90)
        assert working_shape((3, 80, 80), "auto") == working_shape((3, 80, 80)) == (3, 32, 32)
        with pytest.raises(InputError, match=r"working_size=.* has no effect"):
            working_shape((64,), (8, 8))

    @pytest.mark.parametrize("options", [{}, {"gray": True}, {"size": (9, 9)}])
    def test_a_file_is_opened_once_to_decide_and_once_for_its_pixels(
        self, tmp_path, options, monkeypatch
    ):
        for i in range(40):
            save(tmp_path / f"{i}.png", np.full((20 + i, 20, 3), (9, 9, 5 * i), np.uint8))
        opened = Counter()
        plain = images.open_regular
        monkeypatch.setattr(
            images, "open_regular", lambda path: opened.update([path]) or plain(path)
        )
        load(tmp_path, **options)
        assert set(opened.values()) == {2}
        assert len(opened) == 40

    def test_a_folder_says_at_which_size_it_was_read(self, tmp_path):
        save(tmp_path / "a.png", picture(1, 60, 80))
        save(tmp_path / "b.png", picture(2, 90, 70))
        data = load(tmp_path)
        assert data.X.shape == (2, 32, 32)
        assert data.reading == Reading((32, 32), gray=True)
        assert "2 sizes, 60 x 80 to 90 x 70, read at 32 x 32 in gray; --size" in data.notes
        save(tmp_path / "b.png", picture(2, 60, 80))
        assert load(tmp_path).X.shape == (2, 27, 36)
        assert load(tmp_path, size=(60, 80)).notes == ""

    def test_small_images_are_read_as_they_are(self, tmp_path):
        save(tmp_path / "a.png", picture(1, 20, 30))
        data = load(tmp_path)
        assert data.X.shape == (1, 20, 30)
        assert (data.notes, data.reading) == ("", Reading((20, 30), gray=True))


class TestColor:
    def test_gray_pictures_saved_in_color_are_gray(self, tmp_path):
        for i in range(3):
            save(tmp_path / f"{i}.jpg", np.repeat(picture(9 * i, 16, 16)[..., None], 3, axis=2))
        assert load(tmp_path).X.shape == (3, 16, 16)
        save(tmp_path / "3.jpg", np.full((16, 16, 3), (200, 40, 40), np.uint8))
        data = load(tmp_path)
        assert data.X.shape == (4, 3, 16, 16)
        assert data.photographs
        assert not load(tmp_path, gray=True).photographs

    def test_drawings_are_no_photographs(self, tmp_path):
        save(tmp_path / "a.png", np.full((16, 16, 3), (200, 40, 40), np.uint8))
        assert not load(tmp_path).photographs


class TestReading:
    """Files come at the size, and with the part, that is asked for."""

    def test_jpegs_are_decoded_at_a_fraction_of_their_size(self, tmp_path, monkeypatch):
        ramp = np.add.outer(np.arange(640) // 8, np.arange(800) // 8).astype(np.uint8)
        save(tmp_path / "a.jpg", ramp, quality=95)
        whole = np.asarray(Image.open(tmp_path / "a.jpg").resize((40, 32), Image.Resampling.BOX))
        decoded = []
        plain = images._eight_bits
        monkeypatch.setattr(
            images, "_eight_bits", lambda image, *a: decoded.append(image.size) or plain(image, *a)
        )
        found = load(tmp_path, size=(32, 40), gray=True).X[0]
        assert decoded == [(100, 80)]  # an eighth, which is more than twice what is wanted
        assert np.abs(found.astype(int) - whole).max() <= 3

    def test_a_turned_jpeg_is_reduced_no_further(self, tmp_path, monkeypatch):
        exif = Image.Exif()
        exif[0x0112] = 6
        save(tmp_path / "a.jpg", np.zeros((160, 800), np.uint8), exif=exif)
        decoded = []
        plain = images._eight_bits
        monkeypatch.setattr(
            images, "_eight_bits", lambda image, *a: decoded.append(image.size) or plain(image, *a)
        )
        assert load(tmp_path, size=(200, 20), gray=True).X.shape == (1, 200, 20)
        assert decoded == [(80, 400)]

    def test_the_center_and_the_aspect_ratio(self, tmp_path):
        pixels = np.zeros((20, 40), np.uint8)
        pixels[5:15, 15:25] = 200
        save(tmp_path / "a.png", pixels)
        center = Reading((10, 10), gray=True, crop=0.5, keep_aspect=True)
        assert (load(tmp_path, reading=center).X[0] == 200).all()
        assert Reading((10, 10), crop=0.5).box(40, 20) == (10, 5, 30, 15)
        assert Reading((10, 10), keep_aspect=True).box(40, 20) == (10, 0, 30, 20)

    def test_what_fits_is_decoded_once(self, tmp_path, monkeypatch):
        for i in range(5):
            save(tmp_path / f"{i}.png", picture(i, 8, 8))
        count = []
        plain = images.read_image
        monkeypatch.setattr(
            images, "read_image", lambda source, how: count.append(1) or plain(source, how)
        )
        X = load(tmp_path, reading=Reading((4, 4)), strict=True).X
        assert count == []
        np.testing.assert_array_equal(X[1:4][1], X[2])
        assert X[[4, 2, 2]].shape == (3, 4, 4)
        assert len(count) == 4
        assert X.digests(0, 2)[0] == hashlib.sha256((tmp_path / "0.png").read_bytes()).digest()
        assert X.read_as(Reading((2, 3), gray=False)).shape == (5, 3, 2, 3)
        assert X.read_as(X.reading) is X
        count.clear()
        X = load(tmp_path, reading=Reading((4, 4))).X  # which looks for broken ones
        assert (len(count), X[:].shape, len(count)) == (5, (5, 4, 4), 5)


class TestSkippedFiles:
    def test_they_are_counted_by_kind(self, tmp_path):
        save(tmp_path / "a" / "1.png", picture(1))
        for name in ("notes.txt", "a/more.txt", "a/film.mp4", "a/README", "a/.hidden"):
            (tmp_path / name).write_text("x")
        assert load(tmp_path).notes == ("4 files skipped: 2 .txt, 1 .mp4, 1 without a suffix")

    def test_a_kind_that_an_extra_reads(self, tmp_path, monkeypatch):
        monkeypatch.setattr(images, "formats", lambda: images.FORMATS)
        save(tmp_path / "1.png", picture(1))
        (tmp_path / "2.HEIC").write_bytes(b"x")
        assert "1 .heic; HEIC needs pip install 'dcfsc[heic]'" in load(tmp_path).notes
        (tmp_path / "1.png").unlink()
        with pytest.raises(InputError, match=r"no images.*1 \.heic; HEIC needs"):
            load(tmp_path)

    @pytest.mark.parametrize(("suffix", "package"), [("avif", "PIL"), ("heic", "pillow_heif")])
    def test_new_formats(self, tmp_path, suffix, package):
        pytest.importorskip(package)
        if f".{suffix}" not in images.suffixes():
            pytest.skip(f"no {suffix} here")
        save(tmp_path / f"a.{suffix}", np.full((64, 48, 3), (200, 40, 40), np.uint8))
        data = load(tmp_path, size=(8, 6))
        assert data.X.shape == (1, 3, 8, 6)
        assert data.photographs
        np.testing.assert_allclose(data.X[0, :, 4, 3], (200, 40, 40), atol=8)


def test_channels_last(tmp_path):
    X = np.random.default_rng(0).integers(0, 256, (4, 8, 9, 3)).astype(np.uint8)
    np.save(tmp_path / "x.npy", X)
    np.testing.assert_array_equal(load(tmp_path / "x.npy").X, X.transpose(0, 3, 1, 2))
    np.save(tmp_path / "x.npy", X[..., :1])
    assert load(tmp_path / "x.npy").X.shape == (4, 1, 8, 9)
    np.save(tmp_path / "x.npy", X.transpose(0, 3, 1, 2))
    assert load(tmp_path / "x.npy").X.shape == (4, 3, 8, 9)
    np.save(tmp_path / "x.npy", np.zeros((4, 3, 9, 3)))
    with pytest.raises(InputError, match="9 x 3: it is not clear whether channels come first"):
        load(tmp_path / "x.npy")


@pytest.mark.parametrize("kind", ["run", "export", "results"])
def test_a_folder_that_dcfsc_wrote_is_not_entered(tmp_path, kind):
    for i in range(3):
        save(tmp_path / "cats" / f"{i}.png", picture(i))
    save(tmp_path / "mine" / "deep" / "0 copy.png", picture(9))
    assert load(tmp_path, labels="folders").label_names == ["cats", "mine"]
    Filled(kind, {}).write(tmp_path / "mine")
    data = load(tmp_path, labels="folders")
    assert (len(data), data.label_names) == (3, ["cats"])
    assert "folders that dcfsc wrote were left out: 1" in data.notes
    assert len(load(tmp_path / "mine")) == 1  # it was asked for by name


def test_links_to_images_of_the_set_count_once(tmp_path):
    for i in range(3):
        save(tmp_path / "cats" / f"{i}.png", picture(i))
    save(tmp_path.parent / f"{tmp_path.name} elsewhere" / "7.png", picture(7))
    (tmp_path / "all").mkdir()
    for name, target in {
        "a.png": "../cats/0.png",
        "b.png": "../cats/1.png",
        "c.png": "a.png",  # a link to a link
        "d.png": f"../../{tmp_path.name} elsewhere/7.png",
        "e.png": "d.png",
    }.items():
        (tmp_path / "all" / name).symlink_to(target)
    data = load(tmp_path, labels="folders")
    assert [p.rsplit("/", 1)[1] for p in data.paths] == ["d.png", "0.png", "1.png", "2.png"]
    assert data.label_names == ["all", "cats"]
    assert "links to images of the set were left out: 4" in data.notes


def test_an_export_inside_the_data_changes_nothing(tmp_path, monkeypatch):
    """Flat and in sub-folders: its links would count."""
    rng = np.random.default_rng(0)
    for place in ("flat", "sorted/a", "sorted/b"):
        for i in range(10):
            low = 200 * (i % 2)
            save(
                tmp_path / place / f"{i}.png", rng.integers(low, low + 50, (8, 8)).astype(np.uint8)
            )
    for place, n in (("flat", 10), ("sorted", 20)):
        monkeypatch.chdir(tmp_path / place)
        before = load(".")
        run = ["fit", ".", "-k", "2", "--fast", "--method", "closed-form", "--no-report"]
        for words in (
            [*run, "--out", "run"],
            ["export", "run", "--to", "folders", "--out", "clusters"],
        ):
            result = CliRunner().invoke(app, words)
            assert result.exit_code == 0, result.output
        after = load(".")
        assert before.paths == after.paths
        assert len(after) == n
        assert "dcfsc wrote" in after.notes
