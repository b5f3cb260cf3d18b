"""Arrays that stay on disk: the same numbers as in memory, whatever is asked for."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.errors import InputError
from dcfsc.estimators.validation import check_array
from dcfsc.io import Dataset, Streamed, check_finite, load, streamed
from dcfsc.io.images import resize
from dcfsc.io.shards import Group

X = np.random.default_rng(0).normal(size=(57, 6)).astype(np.float32)


@pytest.fixture
def stream_all(monkeypatch):
    """Whatever its size, X is streamed."""
    monkeypatch.setattr(streamed, "STREAM_BYTES", 0)


def save(kind: str, folder: Path, values: np.ndarray = X) -> Path:
    path = folder / f"x.{'npz' if 'npz' in kind else kind.split()[0]}"
    if kind == "npy":
        np.save(path, values)
    elif kind == "npy in columns":
        np.save(path, np.asfortranarray(values))
    elif kind == "npz":
        np.savez(path, other=np.arange(3), X=values)
    elif kind == "npz compressed":
        np.savez_compressed(path, other=np.arange(3), X=values)
    else:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        columns = {f"c{j}": values[:, j] for j in range(values.shape[1])}
        if kind == "parquet of vectors":
            columns = {"v": pa.array(values.tolist(), pa.list_(pa.from_numpy_dtype(values.dtype)))}
        pq.write_table(pa.table(columns), path, row_group_size=10)
    return path


KINDS = ["npy", "npy in columns", "parquet", "parquet of vectors"]


@pytest.mark.usefixtures("stream_all")
@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_array(kind, tmp_path):
    data = load(save(kind, tmp_path))
    assert isinstance(data.X, Streamed)
    assert (data.X.shape, data.X.dtype, data.X.ndim, len(data.X)) == (X.shape, X.dtype, 2, 57)
    assert (data.X.size, data.X.nbytes) == (X.size, X.nbytes)
    keys = [
        slice(None),
        slice(8, 31),
        slice(-5, None),
        slice(40, 1000),
        slice(30, 20),
        slice(None, None, -7),
        slice(3, 50, 11),
        np.array([5, 56, 0, 5, 20]),
        [3, -1],
        np.array([], int),
        X[:, 0] > 0,
        np.array([[1, 2], [30, 31]]),
        4,
        -57,
        np.int64(12),
        (slice(2, 20), 3),
        (7, slice(1, 3)),
    ]
    for key in keys:
        found = data.X[key]
        np.testing.assert_array_equal(found, X[key])
        assert isinstance(found, np.ndarray | np.floating)
        assert not isinstance(found, np.memmap)
    block = data.X[3:9]
    assert block.flags.c_contiguous
    assert block.flags.writeable
    assert block.flags.owndata


@pytest.mark.usefixtures("stream_all")
@pytest.mark.parametrize("kind", KINDS)
def test_chunks_arrays_and_rows_in_turn(kind, tmp_path):
    data = load(save(kind, tmp_path))
    chunks = list(data.X.chunks(20))
    assert [len(c) for c in chunks] == [20, 20, 17]
    np.testing.assert_array_equal(np.concatenate(chunks), X)
    np.testing.assert_array_equal(np.asarray(data.X), X)
    assert np.asarray(data.X, dtype=np.float64).dtype == np.float64
    np.testing.assert_array_equal(np.stack(list(data.X)), X)
    assert np.isfinite(data.X).all()


@given(data=st.data())
def test_any_slice(data):
    start, stop = (data.draw(st.none() | st.integers(-70, 70)) for _ in range(2))
    step = data.draw(st.none() | st.integers(-9, 9).filter(bool))

    class InMemory(Streamed):
        def _rows(self, indices: np.ndarray) -> np.ndarray:
            assert ((indices >= 0) & (indices < len(X))).all()
            return X[indices]

    array = InMemory("x", X.shape, X.dtype)
    key = slice(start, stop, step)
    np.testing.assert_array_equal(array[key], X[key])


@pytest.mark.usefixtures("stream_all")
def test_wrong_keys(tmp_path):
    array = load(save("npy", tmp_path)).X
    with pytest.raises(IndexError):
        array[57]
    with pytest.raises(IndexError):
        array[np.array([0, 57])]
    with pytest.raises(InputError, match="index the rows first"):
        array[None, 3]
    with pytest.raises(ValueError, match="always a copy"):
        np.asarray(array, copy=False)


def test_small_files_are_arrays(tmp_path):
    for kind in (*KINDS, "npz", "npz compressed"):
        assert isinstance(load(save(kind, tmp_path)).X, np.ndarray)


@pytest.mark.usefixtures("stream_all")
def test_what_does_not_fit_is_refused_before_it_is_read(tmp_path, monkeypatch):
    array = load(save("npy", tmp_path)).X
    monkeypatch.setattr(streamed, "free_memory", lambda: X.nbytes - 1)
    with pytest.raises(InputError, match=r"GiB in memory and .* are free; use a method") as raised:
        np.asarray(array)
    assert "\n" not in str(raised.value)
    monkeypatch.setattr(streamed, "free_memory", lambda: X.nbytes)
    np.testing.assert_array_equal(np.asarray(array), X)


@pytest.mark.usefixtures("stream_all")
@pytest.mark.parametrize("kind", ["npy", "npz", "npz compressed"])
def test_booleans_become_bytes(kind, tmp_path):
    data = load(save(kind, tmp_path, X > 0))
    assert data.X.dtype == np.uint8
    np.testing.assert_array_equal(data.X[2:9], (X > 0)[2:9])
    assert data.X[2:9].dtype == np.uint8


@pytest.mark.parametrize("kind", ["npz", "npz compressed"])
def test_an_archive_that_does_not_fit_is_to_be_unzipped(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(streamed, "free_memory", lambda: X.nbytes - 1)
    path = save(kind, tmp_path)
    with pytest.raises(InputError, match=r"GiB in memory.*unzip it and give X.npy") as raised:
        load(path)
    assert "\n" not in str(raised.value)
    monkeypatch.setattr(streamed, "free_memory", lambda: X.nbytes)
    np.testing.assert_array_equal(load(path).X, X)


@pytest.mark.usefixtures("stream_all")
def test_labels_beside_streamed_samples(tmp_path):
    y = np.arange(57) % 3 + 1
    np.save(tmp_path / "y.npy", y)
    data = load(save("npy", tmp_path), labels=str(tmp_path / "y.npy"))
    assert isinstance(data.X, Streamed)
    assert data.y.tolist() == (y - 1).tolist()
    assert repr(data) == "Dataset('x', 57 x 6 float32, 3 classes)"


@pytest.mark.usefixtures("stream_all")
@pytest.mark.parametrize("kind", ["npy", "npz", "npz compressed"])
@pytest.mark.parametrize("said", ["text", "Python objects", "complex"])
def test_what_is_not_numbers_is_refused(kind, said, tmp_path):
    kinds = {"text": X.astype(str), "complex": X * 1j, "Python objects": X.astype(object)}
    with pytest.raises(InputError, match=said):
        load(save(kind, tmp_path, kinds[said]))


@pytest.mark.usefixtures("stream_all")
def test_cut_and_damaged_files(tmp_path):
    path = save("npy", tmp_path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError, match="cannot read"):
        load(path)
    path = save("npz compressed", tmp_path)
    whole = path.read_bytes()
    middle = len(whole) // 2
    path.write_bytes(whole[:middle] + bytes(80) + whole[middle + 80 :])
    with pytest.raises(InputError, match="cannot read"):
        load(path)


@pytest.mark.usefixtures("stream_all")
def test_members_after_others_and_with_extra_fields(tmp_path):
    np.save(tmp_path / "X.npy", X)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("note.txt", "not an array")
        info = zipfile.ZipInfo("X.npy")
        info.extra = b"\xff\xff\x04\x00abcd"
        archive.writestr(info, (tmp_path / "X.npy").read_bytes())
    np.testing.assert_array_equal(load(tmp_path / "x.npz").X[:], X)


@pytest.mark.usefixtures("stream_all")
@pytest.mark.parametrize("shape", [(57, 6), (57, 12, 10), (57, 3, 12, 10)])
def test_images_are_resized_when_read(shape, tmp_path):
    values = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    path = save("npy", tmp_path, values)
    if len(shape) == 2:
        with pytest.raises(InputError, match="needs images"):
            load(path, size=(6, 5))
        return
    found = load(path, size=(6, 5)).X
    assert isinstance(found, Streamed)
    assert load(path, size=(12, 10)).X.shape == shape
    expected = resize(values, (6, 5), "x")
    np.testing.assert_array_equal(found[:], expected)
    np.testing.assert_array_equal(found[[4, 2]], expected[[4, 2]])


class TestParquet:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")

    def test_missing_cells_make_floats(self, tmp_path, stream_all):
        table = self.pa.table({"a": self.pa.array([1, 2, None, 4]), "b": [1, 2, 3, 4]})
        for statistics in (True, False):
            self.pq.write_table(
                table, tmp_path / "t.parquet", row_group_size=2, write_statistics=statistics
            )
            rows = load(tmp_path / "t.parquet").X
            assert rows.dtype == np.float64
            np.testing.assert_array_equal(rows[:], [[1, 1], [2, 2], [np.nan, 3], [4, 4]])

    def test_integers_without_missing_cells_stay(self, tmp_path, stream_all):
        table = self.pa.table({"a": self.pa.array([1, 2, 3], self.pa.uint8()), "y": [0, 0, 1]})
        self.pq.write_table(table, tmp_path / "t.parquet", row_group_size=2)
        data = load(tmp_path / "t.parquet")
        assert data.X.dtype == np.uint8
        assert data.y.tolist() == [0, 0, 1]

    def test_a_row_group_is_read_once_in_turn(self, tmp_path, stream_all, monkeypatch):
        rows = load(save("parquet", tmp_path)).X
        read = []
        once = Group.read
        monkeypatch.setattr(
            Group, "read", lambda self, names: read.append(self.number) or once(self, names)
        )
        for chunk in rows.chunks(4):
            assert len(chunk) <= 4
        assert read == [0, 1, 2, 3, 4, 5]

    def test_vectors_that_differ_between_groups(self, tmp_path, stream_all):
        vectors = self.pa.array([[1.0, 2.0], [3.0, 4.0], [1.0], [2.0]])
        self.pq.write_table(self.pa.table({"v": vectors}), tmp_path / "t.parquet", row_group_size=2)
        rows = load(tmp_path / "t.parquet").X
        assert rows[:2].tolist() == [[1, 2], [3, 4]]
        with pytest.raises(InputError, match="differ in length"):
            rows[2:]


@pytest.fixture
def folder(tmp_path) -> Path:
    rng = np.random.default_rng(0)
    for i in range(9):
        sub = tmp_path / "images" / "ab"[i % 2]
        sub.mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 256, (6, 5, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(sub / f"{i}.png")
    return tmp_path / "images"


@pytest.mark.parametrize(
    "options", [{}, {"gray": False}, {"size": (4, 3)}, {"labels": "folders"}, {"strict": True}]
)
def test_folders_are_decoded_when_read(folder, options, monkeypatch):
    expected = load(folder, **options)
    monkeypatch.setattr(streamed, "STREAM_BYTES", 0)
    found = load(folder, **options)
    assert isinstance(found.X, Streamed)
    assert found.X.shape == expected.X.shape
    if options.get("labels"):
        assert found.y.tolist() == expected.y.tolist() == [0] * 5 + [1] * 4
    assert found.paths == expected.paths
    for key in (slice(None), slice(2, 5), [8, 0], 3):
        np.testing.assert_array_equal(found.X[key], expected.X[key])


@pytest.mark.usefixtures("stream_all")
def test_turned_images_are_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    for i in range(2):
        Image.new("L", (8, 4)).save(tmp_path / f"{i}.jpg", exif=exif)
    data = load(tmp_path)
    assert data.X.shape == (2, 8, 4)
    assert data.X[:].shape == (2, 8, 4)


@pytest.mark.usefixtures("stream_all")
def test_sizes_that_differ_are_told_from_the_headers(folder):
    Image.new("L", (7, 7)).save(folder / "b" / "x.png")
    assert load(folder).X[:].shape == (10, 3, 32, 32)
    assert load(folder, size=(6, 5), gray=True).X[:].shape == (10, 6, 5)


@pytest.mark.usefixtures("stream_all")
def test_broken_images(folder):
    whole = (folder / "a" / "2.png").read_bytes()
    (folder / "a" / "2.png").write_bytes(whole[: len(whole) // 2])
    found = load(folder, strict=True)
    with pytest.raises(InputError, match=r"cannot read the image .*2.png"):
        found.X[:]
    with pytest.warns(UserWarning, match="1 of 9 images were broken"):
        kept = load(folder)
    assert kept.X[:].shape == (8, 3, 6, 5)
    (folder / "b" / "1.png").write_bytes(b"nonsense")
    with pytest.raises(InputError, match="not an image"):
        load(folder, strict=True)


MEMORY = """
import resource, sys
import numpy as np
from dcfsc.io import load, streamed
streamed.STREAM_BYTES = 1 << 20
before = None
for path in sys.argv[1:]:
    X = load(path).X
    X[:256]
    before = before or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    total = sum(float(chunk[:, ::64].sum()) for chunk in X.chunks(4096))
    print(X.nbytes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, total)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's unit of memory differs")
def test_memory_does_not_grow_with_the_samples(tmp_path):
    sizes = 1 << 17, 1 << 20
    paths = []
    for n in sizes:
        folder = tmp_path / str(n)
        folder.mkdir()
        # sparse: the file has a length of GiBs and takes no room on the disk
        path = folder / "x.npy"
        made = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, 640))
        made[-1] = 1.0
        del made
        paths.append(path)
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, *paths], capture_output=True, text=True, check=True
    )
    growth = []
    for n, line in zip(sizes, done.stdout.splitlines(), strict=True):
        size, grown, total = line.split()
        assert int(size) == 4 * 640 * n
        assert float(total) == 10.0
        growth.append(int(grown) * 1024)
    # one chunk is 10 MiB; the larger file has eight times the samples
    assert growth[1] < growth[0] + (32 << 20)
    assert growth[1] < 64 << 20


def test_a_dataset_takes_streamed_samples():
    class Empty(Streamed):
        def _rows(self, indices: np.ndarray) -> np.ndarray:
            raise AssertionError("nothing is read to make a dataset")

    assert len(Dataset("x", Empty("x", (5, 3), np.float32))) == 5
    with pytest.raises(InputError, match="empty"):
        Dataset("x", Empty("x", (0, 3), np.float32))


class Counting(Streamed):
    """X in memory, which counts the rows that are read."""

    def __init__(self, values: np.ndarray):
        super().__init__("x", values.shape, values.dtype)
        self.values, self.read = values, 0

    def _rows(self, indices: np.ndarray) -> np.ndarray:
        self.read += len(indices)
        return self.values[indices]


class TestCheckedOnce:
    """Rows on disk that were found to be finite are not read again to know it."""

    def test_the_second_check_reads_nothing(self):
        array = Counting(X)
        check_finite(array)
        assert array.read == 57
        check_finite(array)
        check_finite(array, share=slice(5, 30))
        assert array.read == 57

    def test_a_share_is_checked_for_itself_alone(self):
        array = Counting(X)
        check_finite(array, share=slice(10, 30))
        assert array.read == 20
        check_finite(streamed.Share(array, slice(10, 30)))
        assert array.read == 20
        check_finite(streamed.Share(array, slice(10, 31)))
        assert array.read == 41
        check_finite(array)
        assert array.read == 98

    def test_what_is_not_finite_is_refused_every_time(self):
        values = X.copy()
        values[7, 2] = np.nan
        array = Counting(values)
        for _ in range(2):
            with pytest.raises(InputError, match=r"a value that is NaN or infinity.*row 7"):
                check_finite(array)
        assert array.read == 114

    def test_an_estimator_does_not_read_again_what_a_run_has_checked(self):
        array = Counting(X)
        check_finite(array, "data")
        assert check_array(ClosedFormSubspaceClustering(2), array, reset=True) is array
        assert array.read == 57
