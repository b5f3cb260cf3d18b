"""What sets clusters apart, against plain formulas on whole arrays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dcfsc import ClosedFormSubspaceClustering, write_report
from dcfsc.report import Details
from dcfsc.report import differences as module
from dcfsc.report.cards import distinctive
from dcfsc.report.differences import column_means, differences


def table(n: int = 120, width: int = 9, clusters: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Samples (n, width) with a constant column and two that tell clusters apart; their parts."""
    rng = np.random.default_rng(0)
    parts = rng.integers(0, 2 * clusters, n)
    X = rng.normal(3.0, 2.0, (n, width))
    X[:, 5] += 4.0 * (parts // 2 == 1)
    X[:, 2] -= 9.0 * (parts == 4)
    X[:, 7] = 0.1
    return X, parts


def plain(X: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Standardized differences of the clusters that there are, and eta squared (f,)."""
    present, sizes = np.unique(labels, return_counts=True)
    inside = np.array([X[labels == k].mean(axis=0) for k in present])
    outside = np.array([X[labels != k].mean(axis=0) for k in present])
    s = X.std(axis=0)
    s[np.ptp(X, axis=0) == 0] = np.inf
    between = (sizes[:, None] * (inside - X.mean(axis=0)) ** 2).sum(axis=0) / len(X)
    return (inside - outside) / s, between / s**2


@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("block", [None, 1000])
def test_they_are_the_formulas(
    offset: float, block: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if block is not None:  # a few columns and rows at a time
        monkeypatch.setattr(module, "BLOCK_BYTES", block)
    X, parts = table()
    X += offset
    known = column_means(X, parts, 3)
    apart = differences(known, np.bincount(parts), np.arange(6) // 2)
    expected, explained = plain(X, parts // 2)
    np.testing.assert_allclose(apart.standardized, expected, atol=1e-8)
    np.testing.assert_allclose(apart.explained, explained, atol=1e-8)
    np.testing.assert_allclose(apart.inside[1], X[parts // 2 == 1].mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(apart.outside[1], X[parts // 2 != 1].mean(axis=0), rtol=1e-12)
    assert (apart.standardized[:, 7] == 0).all()
    assert apart.explained[7] == 0
    assert apart.strongest(1).ravel().tolist() == [5, 5, 2]


def test_edited_clusters_are_made_of_the_same_means() -> None:
    X, parts = table()
    known = column_means(X, parts, 3)
    place = np.array([0, 0, 1, 3, 0, 0])  # 2 was merged into 0, and 1 split
    apart = differences(known, np.bincount(parts), place)
    expected, explained = plain(X, place[parts])
    np.testing.assert_allclose(apart.standardized[[0, 1, 3]], expected, atol=1e-10)
    assert not apart.standardized[2].any()  # it is no more
    np.testing.assert_allclose(apart.explained, explained, atol=1e-10)


def test_of_a_wide_table_the_strongest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    parts = rng.integers(0, 6, 60)
    X = rng.normal(size=(60, 5_000))
    X[:, 4_321] += 5.0 * (parts // 2 == 2)
    monkeypatch.setattr(module, "STRONGEST", 7)
    monkeypatch.setattr(module, "BLOCK_BYTES", 8 * 6 * 640)  # 640 columns at a time
    known = column_means(X, parts, 3)
    expected, _ = plain(X, parts // 2)
    strongest = np.unique(np.argsort(-np.abs(expected), axis=1)[:, :7])
    assert known.columns.tolist() == strongest.tolist()
    apart = differences(known, np.bincount(parts), np.arange(6) // 2)
    np.testing.assert_allclose(apart.standardized, expected[:, strongest], atol=1e-10)
    assert known.columns[apart.strongest(1)[2, 0]] == 4_321


def test_one_cluster_has_no_others_to_differ_from() -> None:
    X, parts = table()
    apart = differences(column_means(X, parts, 3), np.bincount(parts), np.zeros(6, np.int64))
    assert not apart.standardized.any()
    np.testing.assert_allclose(apart.explained, 0.0, atol=1e-12)


def test_huge_values_are_no_traceback() -> None:
    X = np.random.default_rng(0).normal(size=(30, 3)) * np.array([1e300, 1.0, 1e-300])
    known = column_means(X, np.arange(30) % 4, 2)
    apart = differences(known, np.bincount(np.arange(30) % 4), np.arange(4) // 2)
    assert np.isfinite(apart.standardized).all()
    assert np.isfinite(apart.explained).all()


def test_a_card_shows_the_strongest_columns_first(details: Details) -> None:
    X, _ = table()
    parts = 2 * details.labels + np.arange(120) % 2
    X[:, 5] += 4.0 * (details.labels == 1)
    known = column_means(X, parts, 3)
    shown = replace(
        details,
        parts=parts.astype(np.int32),
        profile=np.vstack([known.means, known.mean, known.deviation]),
        feature_names=np.array([f"f{j}" for j in range(9)]),
    )
    expected, explained = plain(X, details.labels)
    columns = distinctive(shown)
    assert columns[1][0]["name"] == "f5"
    assert columns[1][0]["difference"] == pytest.approx(expected[1, 5])
    assert columns[1][0]["explained"] == pytest.approx(explained[5])
    for of_cluster in columns:
        sizes = [abs(column["difference"]) for column in of_cluster]
        assert sizes == sorted(sizes, reverse=True)
        assert min(sizes) >= 0.1
        assert len(sizes) <= 5
    assert distinctive(details) == []  # images have none


def test_a_page_says_whether_columns_set_clusters_apart(tmp_path: Path) -> None:
    """Two planes whose samples come with their opposites have the mean zero in every column."""
    rng = np.random.default_rng(0)
    half = [rng.normal(size=(30, 2)) @ rng.normal(size=(2, 6)) for _ in range(2)]
    X = np.concatenate([half[0], -half[0], half[1], -half[1]])
    model = ClosedFormSubspaceClustering(2, random_state=0).fit(X)
    assert np.bincount(model.labels_).tolist() == [60, 60]
    alone, columns = "No column alone sets a cluster apart", "The columns that set it apart"
    write_report(model, X, tmp_path / "same.html")
    page = (tmp_path / "same.html").read_text(encoding="utf-8")
    assert (alone in page, columns in page) == (True, False)
    moved = X + 3 * np.eye(6)[0] * model.labels_[:, None]
    write_report(model, moved, tmp_path / "moved.html")
    page = (tmp_path / "moved.html").read_text(encoding="utf-8")
    assert (alone in page, columns in page) == (False, True)
