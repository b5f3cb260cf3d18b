from __future__ import annotations

import gzip
import hashlib
import os
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dcfsc.io
from dcfsc.errors import InputError
from research.data import catalog, data_root, describe, load, names, weights_path
from research.data.registry import SETS

FILE_SETS = ["orl", "eyaleb", "coil100", "mnist", "fashion-mnist", "cifar10"]


def test_names():
    assert names() == ["digits", *FILE_SETS, "hopkins155", "synthetic"]


def test_digits():
    data = load("digits")
    assert data.X.shape == (1797, 8, 8)
    assert data.X.dtype == np.uint8
    assert data.X.max() == 16
    assert data.n_classes == 10
    assert data.y.dtype == np.int64
    assert load("digits", size=(16, 16), download=False).X.shape == (1797, 16, 16)


def test_data_root(tmp_path, monkeypatch):
    monkeypatch.setenv("DCFSC_DATA", str(tmp_path))
    assert data_root() == tmp_path
    monkeypatch.setenv("DCFSC_DATA", str(tmp_path / "none"))
    with pytest.raises(InputError, match=r"DCFSC_DATA is .*none"):
        data_root()
    monkeypatch.delenv("DCFSC_DATA")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert data_root().name == "dcfsc"
    assert tmp_path in data_root().parents
    assert not data_root().exists()  # asking creates nothing


def test_missing_cache_folder_is_an_empty_one(tmp_path, monkeypatch):
    monkeypatch.delenv("DCFSC_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert [info.location is not None for info in describe()] == [
        True,
        *[False] * (len(FILE_SETS) + 1),
        True,
    ]
    with pytest.raises(InputError, match="orl is not in"):
        load("orl")


def test_describe(root):
    np.savez(root / "orl_32x32.npz", images=np.zeros((2, 32, 32)), labels=np.arange(2))
    infos = {info.name: info for info in describe()}
    assert list(infos) == names()
    assert infos["orl"].location == str(root / "orl_32x32.npz")
    assert infos["mnist"].location is None
    assert infos["eyaleb"].facts["n"] == 2432
    assert infos["eyaleb"].facts["shape"] == [48, 42]
    assert infos["coil100"].facts["classes"] == 100
    for info in infos.values():
        assert info.facts["source"]
        assert info.facts["license"]
        assert "\n" not in info.facts["source"] + info.facts["license"]
    for name in FILE_SETS:
        assert len(infos[name].files) >= 2
    assert [n for n in names() if infos[n].downloads] == ["coil100", "mnist"]


@pytest.mark.parametrize("name", FILE_SETS)
def test_missing_files_say_what_to_put_where(root, name):
    with pytest.raises(InputError) as error:
        load(name, download=False)
    text = str(error.value)
    assert "\n" not in text
    assert str(root) in text
    assert all(file in text for file in catalog.ENTRIES[name].files)
    assert "http" in text


@pytest.mark.parametrize("name", ["orl", "eyaleb"])
def test_sets_without_a_known_checksum_are_not_downloaded(root, name, monkeypatch):
    def fail(*args: object) -> None:
        raise AssertionError("tried to download")

    monkeypatch.setattr("research.data.registry.fetch", fail)
    with pytest.raises(InputError, match="put one of"):
        load(name)


def test_options(root):
    with pytest.raises(InputError, match="unknown option 'key'; it takes download"):
        load("orl", key="a")
    with pytest.raises(InputError, match=r"unknown dataset 'orll'.*'orl'.*eyaleb"):
        load("orll")


def test_names_are_those_of_research_alone(root):
    np.savez(root / "orl_32x32.npz", images=np.zeros((2, 32, 32), np.uint8), labels=np.arange(2))
    assert load("orl").X.shape == (2, 32, 32)
    with pytest.raises(InputError, match=r"folder: orl\. .* a dataset: digits or synthetic"):
        dcfsc.io.load("orl")


def test_checksums_are_whole():
    for entry in catalog.ENTRIES.values():
        for checksum in entry.downloads.values():
            assert len(checksum) == 64
            assert int(checksum, 16) > 0
            assert entry.facts["site"].startswith("https://")
            assert entry.facts["site"].endswith("/")


@pytest.fixture
def small_mnist(site, monkeypatch):
    """MNIST's entry with a small set on a server of our own."""
    files = {}
    for part, n in (("train", 5), ("t10k", 2)):
        for kind, array in (
            ("images-idx3", np.full((n, 28, 28), n, np.uint8)),
            ("labels-idx1", np.arange(n, dtype=np.uint8)),
        ):
            head = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape)
            name = f"{part}-{kind}-ubyte.gz"
            site.files[name] = body = gzip.compress(head + array.tobytes())
            files[name] = hashlib.sha256(body).hexdigest()
    facts = {**SETS["mnist"], "site": site.address, "sha256": files}
    monkeypatch.setitem(SETS, "mnist", facts)
    return site


def test_download_once(root, small_mnist):
    assert load("mnist").X.shape == (7, 28, 28)
    assert len(small_mnist.asked) == 4
    assert load("mnist").X[:, 0, 0].tolist() == [5] * 5 + [2] * 2
    assert len(small_mnist.asked) == 4
    assert sorted(p.name for p in (root / "mnist").iterdir()) == sorted(small_mnist.files)


def test_download_can_be_forbidden(root, small_mnist):
    with pytest.raises(InputError, match="mnist is not in"):
        load("mnist", download=False)
    assert small_mnist.asked == []


def test_failed_download_says_what_to_put_where(root, small_mnist):
    small_mnist.cut.add("t10k-images-idx3-ubyte.gz")
    with pytest.raises(InputError, match=r"cut on the way.*mnist_28x28\.npz") as error:
        load("mnist")
    assert "\n" not in str(error.value)
    small_mnist.cut.clear()
    assert len(load("mnist")) == 7
    assert small_mnist.asked.count("train-images-idx3-ubyte.gz") == 1  # what was whole is kept


def test_read_only_root(root):
    images, labels = np.zeros((3, 32, 32), np.uint8), np.arange(3)
    np.savez(root / "orl_32x32.npz", images=images, labels=labels)
    (root / "orl_32x32.npz").chmod(0o400)
    root.chmod(0o500)
    try:
        assert len(load("orl")) == 3
    finally:
        root.chmod(0o700)


@pytest.mark.parametrize("name", ["dsc_orl", "dsc_eyaleb", "dsc_coil100"])
def test_weights(root, name):
    with pytest.raises(InputError, match="no weights at") as error:
        weights_path(name)
    assert str(root / "weights" / f"{name}.safetensors") in str(error.value)
    assert "\n" not in str(error.value)
    (root / "weights").mkdir()
    (root / "weights" / f"{name}.safetensors").write_bytes(b"")
    assert weights_path(name) == root / "weights" / f"{name}.safetensors"


def test_unknown_weights(root):
    with pytest.raises(InputError, match=r"unknown weights 'dsc_yale'.*dsc_eyaleb"):
        weights_path("dsc_yale")


def test_import_is_light():
    """Importing opens no connection and loads no optional package."""
    code = (
        "import socket, sys\n"
        "def refuse(*a): raise SystemExit('network at import')\n"
        "socket.socket.connect = refuse\n"
        "import research.data\n"
        "heavy = {'PIL', 'pooch', 'platformdirs', 'requests', 'pandas', 'pyarrow', 'torch'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    root = Path(catalog.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert run.stdout.strip() == "[]"
