"""Labels from a file: matched by id or path where samples have them, else by order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dcfsc.errors import InputError
from dcfsc.io import load

KINDS = ["cat", "dog", "cat", "ox"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text("id,a\n" + "".join(f"s{i},{i}.5\n" for i in range(4)))
    return path


@pytest.fixture
def images(tmp_path: Path) -> Path:
    folder = tmp_path / "images"
    for i in range(4):
        place = folder / f"plate{i % 2}" / f"well{i}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((6, 6), 9 * i, np.uint8)).save(place)
    return folder


def labels_of(data: Path, tmp_path: Path, text: str) -> list[str]:
    (tmp_path / "labels.csv").write_text(text)
    found = load(data, labels=str(tmp_path / "labels.csv"))
    assert found.y is not None
    assert found.label_names is not None
    return [found.label_names[k] for k in found.y]


@pytest.mark.parametrize("name", ["id", "sample", "whatever"])
def test_a_table_with_ids(table: Path, tmp_path: Path, name: str) -> None:
    rows = [f"{kind},{i},s{i}" for i, kind in enumerate(KINDS)][::-1]
    text = f"label,n,{name}\n" + "\n".join(rows)
    assert labels_of(table, tmp_path, text) == KINDS


def test_what_does_not_match_is_counted(table: Path, tmp_path: Path) -> None:
    rows = "".join(f"s{i},{KINDS[i % 4]}\n" for i in range(9))
    assert labels_of(table, tmp_path, "id,kind\n" + rows) == KINDS
    data = load(table, labels=str(tmp_path / "labels.csv"))
    assert "5 of 9 labels of labels.csv match no sample" in data.notes
    with pytest.raises(InputError, match=r"no label for 2 of 4 samples, such as 's2'"):
        labels_of(table, tmp_path, "id,kind\ns0,a\ns1,b\n")
    with pytest.raises(
        InputError, match=r"matched by the samples' ids, such as 's0'.*: name, kind"
    ):
        labels_of(table, tmp_path, "name,kind\nt0,a\nt1,b\n")
    with pytest.raises(InputError, match="two labels for 's0': a and b"):
        labels_of(table, tmp_path, "id,kind\ns0,a\ns0,b\n")
    with pytest.raises(InputError, match="has columns p, q; keep one, or name it 'label'"):
        labels_of(table, tmp_path, "id,p,q\n" + "".join(f"s{i},1,2\n" for i in range(4)))
    np.save(tmp_path / "y.npy", np.arange(4))
    with pytest.raises(InputError, match="an array has no column of them"):
        load(table, labels=str(tmp_path / "y.npy"))


@pytest.mark.parametrize(
    "way", ["plate{p}/well{i}.png", "plate{p}\\well{i}.png", "well{i}.png", "well{i}"]
)
def test_images_by_path_name_or_stem(images: Path, tmp_path: Path, way: str) -> None:
    named = {f"well{i}.png": kind for i, kind in enumerate(KINDS)}
    rows = [f"{way.format(p=i % 2, i=i)},{kind}" for i, kind in enumerate(KINDS)][::-1]
    found = labels_of(images, tmp_path, "which,label\n" + "\n".join(rows))
    paths = load(images).relative_paths
    assert paths is not None
    assert found == [named[Path(path).name] for path in paths]


def test_names_that_are_not_unique_match_nothing(images: Path, tmp_path: Path) -> None:
    (images / "plate0" / "well1.png").write_bytes((images / "plate0" / "well0.png").read_bytes())
    with pytest.raises(InputError, match="cannot be: none of its columns has them"):
        labels_of(images, tmp_path, "file,label\nwell1.png,cat\nwell0.png,dog\n")


def test_samples_without_names_are_matched_by_order(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(8.0).reshape(4, 2))
    assert labels_of(tmp_path / "x.npy", tmp_path, "id,label\n3,a\n2,b\n1,c\n0,d\n") == list("abcd")
    with pytest.raises(InputError, match="has 3 labels for 4 samples"):
        labels_of(tmp_path / "x.npy", tmp_path, "id,label\n3,a\n2,b\n1,c\n")
    for text in ("kind\na\nb\nc\nd\n", "a\nb\nc\nd\n", "a b\nb\nc d\nd\n"):
        assert len(labels_of(tmp_path / "x.npy", tmp_path, text)) == 4


def test_a_frame_is_matched_by_its_index(tmp_path: Path) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.0, 2, 3]}, index=["x", "y", "z"])
    (tmp_path / "labels.csv").write_text("id,label\nz,p\nx,q\ny,p\n")
    data = load(frame, labels=str(tmp_path / "labels.csv"))
    assert data.ids == ["x", "y", "z"]
    assert data.y is not None
    assert data.y.tolist() == [1, 0, 0]
