"""The grids: the paper's windows and trials, options, and how cells are dealt to processes."""

import pytest

from dcfsc.errors import InputError
from research.experiments import catalog, names, paper
from research.experiments.methods import METHODS
from research.experiments.protocols import PROTOCOLS

ALL = [(name, catalog.get(name).plan()) for name in names()]


def test_the_experiments():
    paper_s = ["eyaleb", "orl", "coil100", "lambda", "parameters", "memory"]
    assert names() == [*paper_s, "hopkins155", "views", "smoke"]
    assert catalog.get("eyaleb").methods == paper.METHODS


@pytest.mark.parametrize(("name", "cells"), ALL, ids=names())
def test_every_cell_has_a_file_of_its_own(name, cells):
    assert len({(c.method, c.key) for c in cells}) == len(cells)
    assert all(c.experiment == name for c in cells)


def test_extended_yale_b_has_a_hundred_windows_a_method():
    cells = catalog.get("eyaleb").plan()
    assert len(cells) == 10 * 100
    windows = [c.problem.window for c in cells if c.method == "ssc" and c.problem.n_clusters == 35]
    assert windows == [0, 1, 2, 3]
    few = catalog.get("eyaleb").plan(["ssc"], clusters=[38], trials=3)
    assert [c.seed for c in few] == [0, 1, 2]


@pytest.mark.parametrize(("name", "methods"), [("orl", 10), ("coil100", 11)])
def test_ten_trials_of_every_method(name, methods):
    cells = catalog.get(name).plan()
    assert len(cells) == 10 * methods
    assert [c.seed for c in cells if c.method == "dcfsc"] == list(range(10))


def test_lambda_is_swept():
    cells = catalog.get("lambda").plan()
    assert len(cells) == 7 * 10 + 10
    assert sorted({c.lam for c in cells if c.method == "dcfsc-fast"}) == list(paper.LAMBDAS)
    assert {c.lam for c in cells if c.method == "dsc"} == {None}


def test_unknown_names_and_options_are_refused():
    with pytest.raises(InputError, match="unknown experiment 'yale'"):
        catalog.get("yale")
    with pytest.raises(InputError, match="unknown method of the experiment 'lambda' 'lrr'"):
        catalog.get("lambda").plan(["lrr"])
    with pytest.raises(InputError, match="'orl' has no clusters"):
        catalog.get("orl").plan(clusters=[10])
    with pytest.raises(InputError, match="'memory' has no trials"):
        catalog.get("memory").plan(trials=2)
    with pytest.raises(InputError, match="between 2 and 38; got 39"):
        catalog.get("eyaleb").plan(clusters=[39])
    with pytest.raises(InputError, match="at least 1"):
        catalog.get("orl").plan(trials=0)


def test_protocol_values():
    deep = {name: PROTOCOLS[name].dcfsc(38) for name in ("eyaleb", "orl", "coil100")}
    assert [deep[n]["steps"] for n in deep] == [1000, 700, 175]
    assert [deep[n]["lam"] for n in deep] == [5e5, 5e5, 10.0]
    assert [deep[n]["weights"] for n in deep] == ["dsc_eyaleb", "dsc_orl", None]
    assert {deep[n]["learning_rate"] for n in deep} == {1e-3}
    dsc = PROTOCOLS["eyaleb"].dsc(20)
    assert dsc["self_expression_weight"] == pytest.approx(0.1)
    assert dsc["steps"] == 550
    assert PROTOCOLS["orl"].dsc(40)["initial"] == 0.0
    assert PROTOCOLS["coil100"].dsc(100)["steps"] == 120
    assert all(METHODS[m].chosen_with_labels for m in paper.METHODS)
