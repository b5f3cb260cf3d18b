"""Small fakes of every distribution: shapes, order, labels, and images the right way up."""

from __future__ import annotations

import gzip
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from PIL import Image

from dcfsc.errors import InputError
from research.data import load


def upright(n, h, w):
    """Images that differ from each other, from their transposes and from their mirror images."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 60, (n, h, w), dtype=np.uint8)
    images[:, 0, :] += 150  # a bright top row: a transposed image would have a bright column
    images[:, :, 0] += 40
    return images


def matlab_rows(images):
    """What MATLAB's reshape(image, 1, []) gives."""
    return np.stack([image.ravel(order="F") for image in images])


def write_tree(folder: Path, files: dict[str, np.ndarray]) -> None:
    for name, pixels in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        form = "PPM" if ".pgm" in name else None
        Image.fromarray(pixels).save(path, format=form)


def zip_tree(folder: Path, archive: Path) -> None:
    with zipfile.ZipFile(archive, "w") as packed:
        for path in sorted(folder.rglob("*"), reverse=True):
            packed.write(path, path.relative_to(folder.parent))


NPZ = {
    "orl": ("orl_32x32.npz", (32, 32)),
    "eyaleb": ("eyaleb_48x42.npz", (48, 42)),
    "coil100": ("coil100_32x32.npz", (32, 32)),
    "mnist": ("mnist_28x28.npz", (28, 28)),
}


@pytest.mark.parametrize("name", NPZ)
@pytest.mark.parametrize("sub", ["", "{}", "{}-upper"])
def test_our_npz(root, name, sub):
    file, shape = NPZ[name]
    images = upright(6, *shape)
    folder = root / (name.upper() if "upper" in sub else sub.format(name))
    folder.mkdir(exist_ok=True)
    np.savez_compressed(folder / file, images=images, labels=np.arange(6, dtype=np.uint8) // 2)
    data = load(name)
    np.testing.assert_array_equal(data.X, images)
    assert data.X.dtype == np.uint8
    assert data.y.tolist() == [0, 0, 1, 1, 2, 2]
    assert data.y.dtype == np.int64
    assert data.name == name


def test_npz_of_another_kind(root):
    np.savez(root / "orl_32x32.npz", images=np.zeros((4, 1024)), labels=np.arange(4))
    with pytest.raises(InputError, match=r"expected \(n, h, w\)"):
        load("orl")
    np.savez(root / "orl_32x32.npz", X=np.zeros((4, 32, 32)))
    with pytest.raises(InputError, match="no array 'images'"):
        load("orl")


@pytest.mark.parametrize(("name", "file"), [("orl", "ORL_32x32.mat"), ("coil100", "COIL100.mat")])
@pytest.mark.parametrize("kind", [np.uint8, np.float64])
def test_mat_of_rows(root, name, file, kind):
    images = upright(6, 32, 32)
    gnd = np.array([[1], [1], [2], [2], [3], [3]], np.float64)
    scipy.io.savemat(root / file, {"fea": matlab_rows(images).astype(kind), "gnd": gnd})
    data = load(name)
    np.testing.assert_array_equal(data.X, images)
    assert data.X.dtype == np.uint8
    assert data.X.flags.c_contiguous
    assert data.y.tolist() == [0, 0, 1, 1, 2, 2]


def test_mat_with_pixels_that_are_not_bytes(root):
    fea = matlab_rows(upright(4, 32, 32)) / 255
    scipy.io.savemat(root / "ORL_32x32.mat", {"fea": fea, "gnd": np.arange(4)[:, None]})
    data = load("orl")
    assert data.X.dtype == np.float32
    np.testing.assert_allclose(data.X, upright(4, 32, 32) / 255, rtol=1e-6)


def test_mat_of_another_layout(root):
    scipy.io.savemat(root / "ORL_32x32.mat", {"fea": np.zeros((4, 100)), "gnd": np.arange(4)})
    with pytest.raises(InputError, match=r"fea \(4, 100\).*expected fea \(n, 1024\)"):
        load("orl")
    scipy.io.savemat(root / "YaleBCrop025.mat", {"Y": np.zeros((100, 4, 2))})
    with pytest.raises(InputError, match="expected"):
        load("eyaleb")


def test_yale_mat(root):
    images = upright(3 * 4, 48, 42)  # 3 people, 4 images of each
    Y = np.empty((2016, 4, 3))
    for i, image in enumerate(images):
        Y[:, i % 4, i // 4] = image.ravel(order="F")
    scipy.io.savemat(root / "YaleBCrop025.mat", {"Y": Y, "I": np.zeros((48, 42, 4, 3), np.uint8)})
    data = load("eyaleb")
    np.testing.assert_array_equal(data.X, images)
    assert data.y.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert data.X.dtype == np.uint8


def yale_files(people=("01", "13", "15")):
    """Names as in CroppedYale; the pixel value tells person and place in file-name order."""
    lights = ["A+000E+00", "A+000E-20", "A+005E+10", "A-005E+10"]
    files = {}
    for p, person in enumerate(people):
        for i, light in enumerate(lights):
            bad = ".bad" if (person, i) == ("15", 1) else ""
            pixels = np.full((192, 168), 10 * p + i, np.uint8)
            pixels[:48] = 200
            files[f"yaleB{person}/yaleB{person}_P00{light}.pgm{bad}"] = pixels
        ambient = f"yaleB{person}/yaleB{person}_P00_Ambient.pgm"
        files[ambient] = np.zeros((480, 640), np.uint8)
    return files


@pytest.mark.parametrize("where", ["CroppedYale", "eyaleb/CroppedYale", "eyaleb", "."])
def test_yale_tree(root, where):
    write_tree(root / where, yale_files())
    (root / where / "yaleB01" / "yaleB01_P00.info").write_text("a list of the files")
    data = load("eyaleb")
    assert data.X.shape == (12, 48, 42)
    assert data.y.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert data.X[:, 40, 20].tolist() == [0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23]
    assert (data.X[:, 4, :] == 200).all()  # the bright quarter stays on top
    assert "1 images that the release marks as corrupted" in data.notes
    assert "instead of 64" in data.notes
    assert data.paths[9].endswith("yaleB15_P00A+000E-20.pgm.bad")


def test_yale_zip(root, tmp_path):
    write_tree(tmp_path / "CroppedYale", yale_files())
    tree = load_tree(root, tmp_path / "CroppedYale", "eyaleb")
    zip_tree(tmp_path / "CroppedYale", root / "CroppedYale.zip")
    packed = load("eyaleb")
    np.testing.assert_array_equal(packed.X, tree.X)
    np.testing.assert_array_equal(packed.y, tree.y)
    assert packed.paths[0].endswith("CroppedYale.zip/CroppedYale/yaleB01/yaleB01_P00A+000E+00.pgm")
    assert [p.name for p in root.iterdir()] == ["CroppedYale.zip"]  # nothing was extracted


def load_tree(root, folder, name):
    """Load a tree through a link in the data root, then take the link away."""
    link = root / folder.name
    link.symlink_to(folder, target_is_directory=True)
    data = load(name)
    link.unlink()
    return data


def coil_files():
    files = {}
    for thing in (1, 2, 10):
        for angle in (0, 5, 10, 100):
            pixels = np.zeros((128, 128, 3), np.uint8)
            pixels[..., 0], pixels[..., 1], pixels[..., 2] = thing, angle, 40
            pixels[:32] = 250
            files[f"obj{thing}__{angle}.png"] = pixels
    return files


@pytest.mark.parametrize("where", ["coil-100", "coil100/coil-100", "coil100", "."])
def test_coil_tree(root, where):
    write_tree(root / where, coil_files())
    data = load("coil100")
    assert data.X.shape == (12, 32, 32)
    assert data.y.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    gray = [round(0.299 * t + 0.587 * a + 0.114 * 40) for t in (1, 2, 10) for a in (0, 5, 10, 100)]
    assert np.abs(data.X[:, 20, 16].astype(int) - gray).max() <= 1
    assert (data.X[:, 2, :] == 250).all()
    assert "7188 of the 7,200 views are missing" in data.notes


def test_coil_zip(root, tmp_path):
    write_tree(tmp_path / "coil-100", coil_files())
    tree = load_tree(root, tmp_path / "coil-100", "coil100")
    (tmp_path / "coil-100" / "convert.pl").write_text("#!/usr/bin/perl")
    zip_tree(tmp_path / "coil-100", root / "coil-100.zip")
    np.testing.assert_array_equal(load("coil100").X, tree.X)


def test_full_coil_needs_no_note(root):
    images = np.zeros((7200, 32, 32), np.uint8)
    labels = np.repeat(np.arange(100), 72)
    np.savez_compressed(root / "coil100_32x32.npz", images=images, labels=labels)
    assert load("coil100").notes == ""


def test_hostile_archive(root, tmp_path):
    """Names that would climb out write nowhere, and a member that claims too much is not read."""
    write_tree(tmp_path / "t", {"obj1__0.png": np.zeros((128, 128, 3), np.uint8)})
    good = (tmp_path / "t" / "obj1__0.png").read_bytes()
    with zipfile.ZipFile(root / "coil-100.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("../../evil.txt", b"out")
        packed.writestr("coil-100/obj1__0.png", good)
        packed.writestr("__MACOSX/coil-100/obj1__5.png", b"junk")
    assert len(load("coil100")) == 1
    assert not list(tmp_path.rglob("evil.txt"))
    with zipfile.ZipFile(root / "coil-100.zip", "a", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("coil-100/obj2__0.png", bytes(40 << 20))
    with pytest.raises(InputError, match="too large"):
        load("coil100")


def test_damaged_archive(root):
    (root / "coil-100.zip").write_bytes(b"PK nonsense")
    with pytest.raises(InputError, match="cannot read the archive"):
        load("coil100")
    with zipfile.ZipFile(root / "coil-100.zip", "w") as packed:
        packed.writestr("readme.txt", b"")
    with pytest.raises(InputError, match="none of the images of coil100"):
        load("coil100")


def idx(array):
    head = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.tobytes()


MNIST_LAYOUTS = ["", ".gz", "dot", "dot.gz"]


@pytest.mark.parametrize("layout", MNIST_LAYOUTS)
@pytest.mark.parametrize("where", [".", "mnist", "MNIST/raw"])
def test_mnist_idx(root, layout, where):
    images = upright(10, 28, 28)
    labels = np.array([5, 0, 4, 1, 9, 2, 1, 3, 7, 2], np.uint8)
    folder = root / where
    folder.mkdir(parents=True, exist_ok=True)
    dot = "." if "dot" in layout else "-"
    for part, rows in (("train", slice(0, 7)), ("t10k", slice(7, 10))):
        for kind, array in (("images", images), ("labels", labels)):
            content = idx(array[rows])
            name = f"{part}-{kind}{dot}idx{array.ndim}-ubyte"
            if layout.endswith(".gz"):
                name, content = name + ".gz", gzip.compress(content)
            (folder / name).write_bytes(content)
    data = load("mnist", download=False)
    np.testing.assert_array_equal(data.X, images)
    classes = sorted(set(labels.tolist()))
    assert [classes[k] for k in data.y] == labels.tolist()


def test_fashion_mnist_idx_needs_a_folder_of_its_own(mnist, root):
    mnist()
    with pytest.raises(InputError, match="fashion-mnist is not in"):
        load("fashion-mnist", download=False)
    folder = root / "fashion-mnist"
    folder.mkdir()
    for file in root.glob("*.gz"):
        file.rename(folder / file.name)
    assert load("fashion-mnist", download=False).X.shape == (8, 28, 28)


def test_cifar10(root):
    """Six files of records: a label, then the red, green and blue bytes of 32 rows."""
    folder = root / "cifar-10-batches-bin"
    folder.mkdir()
    images = np.random.default_rng(0).integers(0, 256, (12, 3, 32, 32), np.uint8)
    labels = np.arange(12, dtype=np.uint8) % 10
    files = [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]
    for i, file in enumerate(files):
        rows = slice(2 * i, 2 * i + 2)
        records = np.hstack([labels[rows, None], images[rows].reshape(2, -1)])
        (folder / file).write_bytes(records.tobytes())
    data = load("cifar10", download=False)
    np.testing.assert_array_equal(data.X, images)
    np.testing.assert_array_equal(data.y, labels)
    (folder / "data_batch_3.bin").write_bytes(records.tobytes()[:-1])
    with pytest.raises(InputError, match=r"data_batch_3\.bin is damaged"):
        load("cifar10", download=False)
    (folder / "data_batch_3.bin").unlink()
    with pytest.raises(InputError, match=r"data_batch_3\.bin is not beside"):
        load("cifar10", download=False)
    np.savez(root / "cifar10_32x32.npz", images=images.transpose(0, 2, 3, 1), labels=labels)
    np.testing.assert_array_equal(load("cifar10", download=False).X, images)


@pytest.fixture
def mnist(root):
    """MNIST's files in the data root, one of them replaced."""

    def write(**replaced):
        images, labels = upright(4, 28, 28), np.arange(4, dtype=np.uint8)
        for part in ("train", "t10k"):
            for kind, array in (("images", images), ("labels", labels)):
                content = replaced.get(f"{part}_{kind}", gzip.compress(idx(array)))
                (root / f"{part}-{kind}-idx{array.ndim}-ubyte.gz").write_bytes(content)
        return load("mnist", download=False)

    return write


def test_damaged_idx(mnist):
    whole = gzip.compress(idx(upright(4, 28, 28)))
    assert len(mnist()) == 8
    with pytest.raises(InputError, match="damaged or cut off"):
        mnist(train_images=whole[:-200])
    with pytest.raises(InputError, match="damaged or cut off"):
        mnist(train_images=b"not gzip at all")
    with pytest.raises(InputError, match="shorter"):
        mnist(train_images=gzip.compress(idx(upright(4, 28, 28))[:-1]))
    with pytest.raises(InputError, match="longer"):
        mnist(train_images=gzip.compress(idx(upright(4, 28, 28)) + b"x"))
    with pytest.raises(InputError, match="not an idx file"):
        mnist(train_images=gzip.compress(idx(np.arange(4, dtype=np.uint8))))
    with pytest.raises(InputError, match="claims shape"):
        mnist(train_images=gzip.compress(struct.pack(">4B3I", 0, 0, 8, 3, *[2**31] * 3)))
    with pytest.raises(InputError, match="4 images but 3 labels"):
        mnist(train_labels=gzip.compress(idx(np.arange(3, dtype=np.uint8))))


def test_forms_have_an_order(root):
    """Our npz goes before the MATLAB file, that before the tree, that before the archive."""
    write_tree(root / "CroppedYale", yale_files())
    zip_tree(root / "CroppedYale", root / "CroppedYale.zip")
    assert len(load("eyaleb")) == 12
    scipy.io.savemat(root / "YaleBCrop025.mat", {"Y": np.zeros((2016, 2, 3))})
    assert len(load("eyaleb")) == 6
    images, labels = upright(5, 48, 42), np.arange(5)
    np.savez(root / "eyaleb_48x42.npz", images=images, labels=labels)
    assert len(load("eyaleb")) == 5
