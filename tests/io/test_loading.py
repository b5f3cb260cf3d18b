from __future__ import annotations

import numpy as np
import pytest

from dcfsc.errors import InputError
from dcfsc.io import load


@pytest.mark.parametrize("spec", ["orl", "no/such/file.npy", "x.csv"])
def test_unknown_names_list_the_datasets_and_the_kinds_of_files(spec):
    with pytest.raises(
        InputError, match=r"^no such file or folder: .* dataset: digits or synthetic\.$"
    ) as error:
        load(spec)
    text = str(error.value)
    assert "\n" not in text
    for word in ("digits", "synthetic", ".npy", "folder"):
        assert word in text


def test_a_name_goes_before_a_folder_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()
    assert len(load("digits")) == 1797
    with pytest.raises(InputError, match="holds no images"):
        load("./digits")
    with pytest.raises(InputError, match="holds no images"):
        load(tmp_path / "digits")


def test_unknown_kinds_of_files(tmp_path):
    (tmp_path / "x.docx").write_text("")
    with pytest.raises(InputError, match=r"does not read files of this kind; give \.csv"):
        load(tmp_path / "x.docx")


def test_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    assert len(load("~/x.npy")) == 3


@pytest.mark.parametrize(
    ("name", "option", "takes"),
    [
        ("x.npy", "key", "see help"),
        ("x.npz", "header", "it also takes key"),
        ("x.csv", "key", "it also takes header"),
        ("folder", "key", "see help"),
    ],
)
def test_unknown_options_list_the_known(tmp_path, name, option, takes):
    if name == "folder":
        (tmp_path / name).mkdir()
    else:
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(InputError, match=f"unknown option {option!r}; {takes}"):
        load(tmp_path / name, **{option: "a"})


def test_options_of_named_sets():
    with pytest.raises(InputError, match="unknown option 'noise'; see help"):
        load("digits", noise=1)
    with pytest.raises(InputError, match="has its own"):
        load("digits", labels="y")
    with pytest.raises(InputError, match="needs images"):
        load("synthetic", size=(4, 4))


def test_folder_with_the_name_of_a_file(tmp_path):
    (tmp_path / "x.npz").mkdir()
    with pytest.raises(InputError, match="holds no images"):
        load(tmp_path / "x.npz")


def test_capital_suffix(tmp_path):
    (tmp_path / "T.CSV").write_text("1,2\n3,4\n")
    assert load(tmp_path / "T.CSV").X.tolist() == [[1, 2], [3, 4]]


def test_labels_can_be_declined_everywhere(tmp_path):
    from PIL import Image

    np.save(tmp_path / "x.npy", np.zeros((3, 2)))
    np.savez(tmp_path / "x.npz", X=np.zeros((3, 2)), y=np.arange(3))
    (tmp_path / "images" / "a").mkdir(parents=True)
    Image.new("L", (4, 4)).save(tmp_path / "images" / "a" / "1.png")
    for spec in ("digits", tmp_path / "x.npy", tmp_path / "x.npz", tmp_path / "images"):
        data = load(spec, labels="none")
        assert data.y is None
        assert data.label_names is None
