"""Tables and figures of every experiment from records made by hand: no data, no training."""

import sys

import pytest

from research.experiments import paper, render
from research.experiments.catalog import get
from research.experiments.cells import CellStore

pytestmark = pytest.mark.slow

PLACE = {
    "versions": {"python": "3.11", "dcfsc": "0", "torch": "2"},
    "machine": {"platform": "Linux", "cpus": 2, "device": "cpu", "gpu": None},
}


def summarize(store):
    return get(store.experiment).table.rows(store)


def record_of(cell, error):
    lam = 10.0 if cell.lam is None else cell.lam
    score = {"error": error, "nmi": 0.5, "ari": 0.4, "assign": "kmeans", "affinity": {}}
    return {
        **cell.identity(),
        "n": 100,
        "parameters": {"lam": lam},
        "features": {"dim": 20, "rank": 12},
        "protocol": score,
        "plain": {**score, "error": error + 10},
        "raw": {**score, "error": 4.3},
        "start": None,
        "chosen_with_labels": ["lam"],
        "effective_lambda": 0.01,
        "effective_dof": 33.0,
        "seconds": 1.5,
        "memory": {"peak_bytes": 2**30, "before_bytes": 2**29},
        "notes": "a note on the data",
        **PLACE,
    }


@pytest.fixture
def filled(tmp_path):
    def fill(name):
        store = CellStore(tmp_path, name)
        for number, cell in enumerate(get(name).plan()):
            store.save(cell, record_of(cell, 5.0 + number % 4))
        return store

    return fill


def test_extended_yale_b_beside_the_paper(filled):
    store = filled("eyaleb")
    rows = summarize(store)
    assert len(rows) == 70
    row = next(r for r in rows if r["method"] == "dcfsc" and r["K"] == 10)
    assert (row["paper_mean"], row["paper_median"], row["cells"]) == (5.72, 5.63, 29)
    assert row["difference"] == pytest.approx(row["error_mean"] - 5.72)
    assert row["plain_mean"] == pytest.approx(row["error_mean"] + 10)
    files = render("eyaleb", store.out, report=print)
    assert {f.suffix for f in files} == {".csv", ".md", ".png", ".svg"}
    text = (store.folder / "table.md").read_text()
    assert "## 38 clusters" in text
    assert "5.72 / 5.63" in text
    assert "a note on the data" in text
    assert "number of people K" in (store.folder / "figure.svg").read_text()


def test_orl_has_only_the_printed_numbers(filled):
    rows = {r["method"]: r for r in summarize(filled("orl"))}
    assert rows["dcfsc"]["paper_mean"] == 14.8
    assert rows["lrr"]["paper_mean"] is None
    assert rows["lrr"]["difference"] is None


def test_bars_are_sorted_by_error(filled, tmp_path):
    from research.experiments import figures

    store = filled("coil100")
    figure = figures.new_figure(6, 4)
    axes = figure.add_subplot()
    figures.draw_bars(axes, summarize(store))
    heights = [bar.get_height() for bar in axes.patches]
    assert heights == sorted(heights, reverse=True)
    assert len(heights) == 11


def test_the_lambda_curve_has_dsc_as_a_red_line(filled):
    from research.experiments import figures

    store = filled("lambda")
    rows = summarize(store)
    assert [r["lam"] for r in rows if r["method"] == "dcfsc-fast"] == list(paper.LAMBDAS)
    axes = figures.new_figure(6, 4).add_subplot()
    figures.draw_lambda_curve(axes, rows)
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert lines["DSC"].get_color() == figures.RED
    assert axes.get_xscale() == "log"
    assert len(render("lambda", store.out)) == 4


def test_parameters_equal_the_paper_but_for_its_own_slip(tmp_path):
    from research.experiments import reproduce

    reproduce("parameters", out=tmp_path, device="cpu", report=lambda line: None)
    rows = {(r["dataset"], r["method"]): r for r in summarize(CellStore(tmp_path, "parameters"))}
    assert len(rows) == 6
    unequal = {key for key, row in rows.items() if not row["equal"]}
    assert unequal == {("coil100", "dsc")}
    assert rows["coil100", "dsc"]["total"] == 51_842_551
    assert rows["coil100", "dcfsc"]["total"] == 81_913
    assert "1,251" in (tmp_path / "parameters/table.md").read_text()


def test_the_memory_table(tmp_path):
    store = CellStore(tmp_path, "memory")
    for cell in get("memory").plan():
        measured = {"n": 400, "dim": 80, "steps": 5, "seconds_a_step": 0.2}
        memory = {"peak_bytes": 3 * 2**30, "before_bytes": 2**30}
        store.save(cell, {**cell.identity(), **measured, "memory": memory, **PLACE})
    rows = summarize(store)
    assert [r["dataset"] for r in rows[::5]] == ["orl", "eyaleb", "coil100"]
    assert rows[0]["step_mib"] == 2048
    assert {r["paper_mb"] for r in rows} == {None, 1022.0, 942.0, 8600.0, 10800.0}
    assert len(render("memory", tmp_path)) == 4
    assert "feature form" in (store.folder / "table.md").read_text()


def test_an_empty_experiment_renders(tmp_path):
    files = render("orl", tmp_path)
    assert [f.name for f in files] == ["table.csv", "table.md"]
    assert "No cell has been computed yet." in files[1].read_text()


def test_figures_leave_matplotlib_alone(filled):
    import matplotlib

    store = filled("orl")
    had_pyplot = "matplotlib.pyplot" in sys.modules
    # Reading the back end would choose one, so it is left out of the comparison.
    settings = [key for key in matplotlib.rcParams if key != "backend"]
    before = {key: matplotlib.rcParams[key] for key in settings}
    assert len(render("orl", store.out)) == 4
    assert {key: matplotlib.rcParams[key] for key in settings} == before
    assert ("matplotlib.pyplot" in sys.modules) == had_pyplot
