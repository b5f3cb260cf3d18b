"""The default's constants are those that were chosen on other data than it is measured on."""

import json
from pathlib import Path

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.affinity import TopK
from dcfsc.estimators import neighbour_metric, pictures, stability
from dcfsc.estimators.regularisation import DEFAULT_SUBSPACE_DIM

CHOICES = Path(__file__).parents[2] / "results" / "experiments" / "default_choice.json"
MEASURED = {"orl", "eyaleb", "coil100", "mnist", "digits"}
ROUNDS = {"once": ("neighbours",), "twice": ("neighbours-twice",)}


def test_they_are_the_ones_in_the_file():
    choice = json.loads(CHOICES.read_text())["constants"]["figures"]["choice"]
    assert choice["m"] == DEFAULT_SUBSPACE_DIM
    assert (choice["k"], choice["power"]) == (TopK.k, TopK.power)
    assert choice["pictures"] == f"J{pictures.J} sum"
    assert ROUNDS[choice["metric"]] == neighbour_metric.CANDIDATES
    assert choice["small pictures"] == "enlarged"
    assert pictures.may_scatter((8, 8), "topk", 3)


def test_what_they_were_chosen_on_is_something_else():
    problems = json.loads(CHOICES.read_text())["constants"]["figures"]["problems"]
    assert len(problems) > 30
    assert not MEASURED & {name.split("-")[0] for name in problems}


def test_the_estimator_takes_them():
    model = ClosedFormSubspaceClustering()
    assert (model.affinity, model.assign) == ("topk", stability.ASSIGN)
    assert TopK() == stability.TOPK
    assert (model.lam, model.subspace_dim, model.transformations) == ("auto", None, "none")
    assert (model.features, model.metric) == ("auto", "auto")
