"""The motion table: one sequence measured, and the statistics by number of motions."""

from dataclasses import replace

import numpy as np
import pytest

from research.experiments import catalog, hopkins, reproduce
from research.experiments.cells import CellStore, Problem


def test_every_method_runs_on_every_sequence():
    cells = catalog.get("hopkins155").plan()
    assert len(cells) == 155 * len(hopkins.METHODS)
    assert {c.problem.n_clusters for c in cells} == {2, 3}


def test_means_and_medians_are_by_number_of_motions():
    records = [
        {"method": "ssc", "K": K, "error": error, "nmi": 0.5, "seconds": 2.0}
        for K, error in ((2, 1.0), (2, 2.0), (2, 6.0), (3, 4.0))
    ]
    (row,) = hopkins.rows(records, {"ssc": 3})
    assert (row["two_mean"], row["two_median"]) == (3.0, 2.0)
    assert (row["three_mean"], row["three_median"]) == (4.0, 4.0)
    assert (row["all_mean"], row["all_median"]) == (13 / 4, 3.0)
    assert (row["two_paper"], row["three_paper"], row["all_paper"]) == (1.52, 4.40, 2.18)
    assert (row["sequences"], row["failed"], row["seconds"]) == (4, 3, 8.0)


@pytest.fixture
def two_sequences(tmp_path, monkeypatch):
    """A benchmark of two short sequences in a data folder of its own."""
    random = np.random.default_rng(0)
    arrays = {}
    for name in ("one", "two"):
        parts = [
            random.normal(size=24) + random.normal(size=(30, 3)) @ random.normal(size=(3, 24))
            for _ in range(2)
        ]
        arrays[f"{name}/x"] = np.concatenate(parts).reshape(60, 12, 2)
        arrays[f"{name}/s"] = np.repeat([0, 1], 30)
    np.savez(tmp_path / "hopkins155.npz", **arrays)
    monkeypatch.setenv("DCFSC_DATA", str(tmp_path))
    problems = tuple(Problem(f"hopkins155/{name}", 2) for name in ("one", "two"))
    small = replace(catalog.get("hopkins155"), problems=problems)
    monkeypatch.setitem(catalog.EXPERIMENTS, "hopkins155", small)
    return tmp_path


def test_the_table_is_computed_once_and_written(two_sequences):
    out = two_sequences / "results"
    say = []
    first = reproduce("hopkins155", out=out, device="cpu", report=say.append)
    assert (first.computed, first.failed) == (2 * len(hopkins.METHODS), {})
    again = reproduce("hopkins155", out=out, device="cpu", report=say.append)
    assert (again.computed, again.done_before) == (0, 2 * len(hopkins.METHODS))
    table = catalog.get("hopkins155").table
    rows = {row["method"]: row for row in table.rows(CellStore(out, "hopkins155"))}
    assert rows["closed-form"]["two_mean"] == 0.0
    assert rows["ssc"]["two_mean"] == 0.0
    text = (out / "hopkins155" / "table.md").read_text()
    assert "SSC †" in text
    assert "two motions: mean / median" in text
