"""The experiment "views" on a few digits: its cells, its table, and whose views are taken."""

import json
from dataclasses import replace
from functools import partial

import matplotlib.pyplot as plt
import pytest
from matplotlib.container import BarContainer

from dcfsc.errors import InputError
from dcfsc.estimators import views
from dcfsc.views import loop as view_loop
from dcfsc.views.loop import Schedule
from research.experiments import catalog, reproduce, views_table
from research.experiments.cells import Cell, CellStore, Problem
from research.experiments.pipeline import Session
from research.experiments.views_table import VIEW_METHODS, measure_views

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("views")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(views, "EFFORTS", {"quick": (Schedule(4, 16), Schedule(4, 16))})
        small = (Problem("digits", 3, per_class=12),)
        small_views = replace(catalog.get("views"), problems=small)
        patch.setitem(catalog.EXPERIMENTS, "views", small_views)
        lines = []
        summary = reproduce("views", out=out, device="cpu", trials=1, report=lines.append)
    return out, summary, lines


def test_a_training_that_was_stopped_goes_on(finished, tmp_path, monkeypatch):
    """Stopped in its third step, it does the last two later, to the same result."""
    monkeypatch.setattr(views, "EFFORTS", {"quick": (Schedule(4, 16), Schedule(4, 16))})
    often = partial(views_table.WithLosses, checkpoint_every=0.0)
    monkeypatch.setattr(views_table, "WithLosses", often)
    store = CellStore(tmp_path, "views")
    cell = Cell("views", "views", Problem("digits", 3, per_class=12), trial=0, named=True)
    session = Session(store, "cpu")
    steps = []

    def stop(loss, phase, step, rate):
        steps.append(step)
        if steps.count(3) == 1 and step == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(view_loop, "check_finite", stop)
    with pytest.raises(KeyboardInterrupt):
        measure_views(cell, session)
    (left,) = store.cells.glob("*.checkpoint")
    record = measure_views(cell, session)
    assert steps[-5:] == [1, 2, 3, 3, 4]
    assert not left.exists()
    (whole,) = (r for r in CellStore(finished[0], "views").records() if r["method"] == "views")
    for name in ("error", "with_kmeans", "steps", "strengths", "stability"):
        assert record[name] == whole[name]


def test_seconds_of_a_history_count_every_step():
    rows = [{"step": 25, "seconds": 2.0}, {"step": 30, "seconds": 1.0}]
    assert views_table._seconds_of(rows) == 55.0
    assert views_table._seconds_of([]) == 0.0


def test_every_method_and_seed_has_a_cell(finished):
    out, summary, lines = finished
    assert (summary.computed, summary.failed) == (len(VIEW_METHODS), {})
    records = {(r["method"], r["key"]): r for r in CellStore(out, "views").records()}
    keys = [f"digits-trial-0{seed}" for seed in range(1)]
    assert set(records) == {(method, key) for method in VIEW_METHODS for key in keys}
    assert "with k-means" in lines[0]
    for record in records.values():
        assert 0 <= record["error"] <= 100
        assert record["steps"] == (0 if record["method"] == "closed-form" else 4)


def test_the_ablation_takes_the_views_that_the_whole_method_chose(finished):
    out, _, _ = finished
    records = {(r["method"], r["seed"]): r for r in CellStore(out, "views").records()}
    for seed in range(1):
        chosen = records["views", seed]["strengths"]
        assert chosen
        assert records["views", seed]["consistency"]
        for method in ("views-alone", "views-layer"):
            assert records[method, seed]["strengths"] == chosen
            assert records[method, seed]["consistency"] == {}


def test_the_table_has_a_row_for_each_method(finished):
    out, _, _ = finished
    table = (out / "views" / "table.md").read_text()
    for title, _ in VIEW_METHODS.values():
        assert f"| digits | {title} |" in table
    assert "closed form afterwards" in table
    run = json.loads(next((out / "views" / "runs").glob("*.json")).read_text())
    assert run["figures"]["computed"] == 4


def test_bars_stand_around_the_tick_of_their_dataset():
    """One dataset has all trainings, the second only the first, the third only the others."""
    trainings = {"orl": ["views", "views-alone", "views-layer"], "cifar10": ["views"]}
    trainings["mnist"] = ["views-alone", "views-layer"]
    rows = [
        {"dataset": name, "device": "a GPU", "method": method, "error_mean": 5.0, "error_std": None}
        for name, methods in trainings.items()
        for method in methods
    ]
    figure, axes = plt.subplots()
    views_table.draw_views(axes, rows)
    drawn = [c for c in axes.containers if isinstance(c, BarContainer)]
    assert [text.get_text() for text in axes.get_xticklabels()] == list(trainings)
    width = 0.8 / 3
    expected = [[-width, 1.0], [0.0, 2 - width / 2], [width, 2 + width / 2]]
    for bars, places in zip(drawn, expected, strict=True):
        assert [bar.get_center()[0] for bar in bars] == pytest.approx(places)
    plt.close(figure)


def test_unknown_datasets_and_datasets_of_other_experiments_are_refused(tmp_path):
    with pytest.raises(InputError, match="letters"):
        reproduce("views", out=tmp_path, datasets=["letters"])
    with pytest.raises(InputError, match="no datasets"):
        reproduce("smoke", out=tmp_path, datasets=["digits"])
