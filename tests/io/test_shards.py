"""Shards are one set of samples: read whole, streamed, or sampled from row groups."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from dcfsc.errors import InputError
from dcfsc.io import load, shards, streamed

SHARDS, ROWS, GROUP = 4, 60, 20


@pytest.fixture
def folder(tmp_path):
    """Four shards of three row groups: the numbers of a row are its own number and its shard's."""
    place = tmp_path / "parts"
    place.mkdir()
    for s in range(SHARDS):
        numbers = np.arange(s * ROWS, (s + 1) * ROWS)
        table = {
            "key": [f"k{i}" for i in numbers],
            "body": ["a text"] * ROWS,
            "a": numbers.astype(np.float32) ** 2,
            "shard": np.full(ROWS, s, np.int32),
            "emb": pa.array([[float(i), -float(i)] for i in numbers], pa.list_(pa.float32())),
        }
        pq.write_table(pa.table(table), place / f"p-{s}.parquet", row_group_size=GROUP)
    return place


def rows_of(data):
    return np.abs(np.asarray(data.X)[:, 0]).astype(int)


@pytest.mark.parametrize("most", [1 << 30, 0])
def test_a_folder_and_a_glob_are_all_shards_in_order(folder, monkeypatch, most):
    monkeypatch.setattr(streamed, "STREAM_BYTES", most)
    for spec in (folder, f"{folder}/p-*.parquet"):
        data = load(spec, id="key")
        assert isinstance(data.X, streamed.Streamed) == (most == 0)
        assert data.name == "parts"
        assert data.ids == [f"k{i}" for i in range(SHARDS * ROWS)]
        assert data.reading.vector == "emb"
        assert np.asarray(data.X).tolist() == [[i, -i] for i in range(SHARDS * ROWS)]
        assert data.X[[61, 3, 200]].tolist() == [[61, -61], [3, -3], [200, -200]]


def test_columns_are_chosen_as_of_one_table(folder):
    data = load(folder, columns="a,shard", labels="none")
    assert data.feature_names == ["a", "shard"]
    assert data.X[:, 1].tolist() == np.repeat(range(SHARDS), ROWS).tolist()
    assert load(folder, labels="shard").y.tolist() == np.repeat(range(SHARDS), ROWS).tolist()


def test_a_sample_takes_rows_of_every_shard_and_few_row_groups(folder, monkeypatch):
    read = []
    group = shards.Group.read
    monkeypatch.setattr(
        shards.Group,
        "read",
        lambda self, columns: (
            read.append((self.shard.path.name, self.number, *columns)) or group(self, columns)
        ),
    )
    data = load(folder, id="key", labels="shard", sample=20, seed=1)
    rows = rows_of(data)
    assert len(data) == 20
    assert (np.diff(rows) > 0).all()
    assert data.ids == [f"k{i}" for i in rows]
    assert data.y.tolist() == (rows // ROWS).tolist()
    assert np.bincount(data.y).tolist() == [5] * SHARDS
    assert len({(name, number) for name, number, *_ in read}) == SHARDS
    assert {column for _, _, *columns in read for column in columns} == {"key", "shard", "emb"}
    assert "20 of 240 rows, drawn from 4 of 12 row groups, some of every shard" in data.notes
    assert "may be missing" in data.notes
    assert rows_of(load(folder, sample=20, seed=2)).tolist() != rows.tolist()


def test_a_sample_of_shards_that_differ_in_size_has_so_many_rows(folder):
    one = pq.read_table(folder / "p-0.parquet")
    pq.write_table(one.slice(7, 2), folder / "p-9.parquet")
    for n in (6, 100, 241):
        data = load(folder, id="key", sample=n)
        assert len({*zip(data.ids, rows_of(data).tolist(), strict=True)}) >= n - 2
        assert len(data) == n
    assert len(load(folder, sample=242)) == 242


def test_a_shard_of_one_row_group_is_drawn_from_everywhere(folder):
    for file in folder.iterdir():
        pq.write_table(pq.read_table(file), file)
    data = load(folder, sample=80)
    assert len({*rows_of(data)}) == 80
    assert "missing" not in data.notes
    assert set(rows_of(data) // GROUP) == set(range(12))  # seldom not so


def test_one_table_is_sampled_by_row_groups_and_others_by_rows(folder, tmp_path):
    data = load(folder / "p-1.parquet", id="key", sample=10)
    assert data.ids == [f"k{i}" for i in rows_of(data)]
    assert "10 of 60 rows, drawn from 1 of 3 row groups;" in data.notes
    (tmp_path / "t.csv").write_text("id,x,y\n" + "".join(f"n{i},{i}.5,{i % 2}\n" for i in range(9)))
    data = load(tmp_path / "t.csv", sample=5)
    assert len(data) == 5
    assert data.ids == [f"n{int(x)}" for x in data.X[:, 0]]
    assert data.y.tolist() == [int(x) % 2 for x in data.X[:, 0]]
    with pytest.raises(InputError, match="sample=0 is not allowed"):
        load(folder, sample=0)


def test_arrays_are_shards_too(tmp_path):
    X = np.random.default_rng(0).normal(size=(9000, 3))
    np.save(tmp_path / "a.npy", X[:5000])
    np.save(tmp_path / "b.npy", X[5000:])
    assert np.array_equal(load(tmp_path).X, X)
    drawn = load(tmp_path, sample=70).X
    places = [int(np.flatnonzero(X[:, 0] == row[0])[0]) for row in drawn]
    assert np.array_equal(X[places], drawn)
    assert len({*places}) == 70
    assert 30 < sum(place < 5000 for place in places) < 50


def test_what_is_no_set_of_shards_is_one_line(folder, tmp_path):
    np.save(folder / "x.npy", np.ones((3, 2)))
    with pytest.raises(InputError, match=r"holds \.parquet and \.npy files; name one kind"):
        load(folder)
    (folder / "x.npy").unlink()
    (folder / "sub").mkdir()
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(folder / "sub" / "a.png")
    with pytest.raises(InputError, match=r"holds images and tables \(p-0.parquet, \.\.\.\)"):
        load(folder)
    assert len(load(f"{folder}/*.parquet")) == SHARDS * ROWS
    with pytest.raises(InputError, match="no file matches"):
        load(f"{folder}/*.csv")
    with pytest.raises(InputError, match=r"sub is no shard"):
        load(f"{folder}/*")


def test_a_shard_that_lacks_a_column_is_named(folder):
    table = pq.read_table(folder / "p-2.parquet").drop_columns(["a"])
    pq.write_table(table, folder / "p-2.parquet")
    with pytest.raises(InputError, match=r"p-2.parquet lacks the column 'a' of other shards"):
        load(folder, columns="a,shard")


def test_a_damaged_shard_is_named(folder):
    file = folder / "p-3.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"cannot read .*p-3.parquet"):
        load(folder)
