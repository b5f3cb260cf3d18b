"""The default's constants are those that were chosen on other data than it is measured on."""

import json
from pathlib import Path

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.affinity import TopK
from dcfsc.pipeline import SUBSPACE_DIM, Recipe
from dcfsc.pipeline import recipe as defaults
from dcfsc.representations import create, scattering

CHOICES = Path(__file__).parents[2] / "results" / "experiments" / "default_choice.json"
MEASURED = {"orl", "eyaleb", "coil100", "mnist", "digits"}
ROUNDS = {"once": "metric", "twice": "metric-twice"}


def test_they_are_the_ones_in_the_file():
    choice = json.loads(CHOICES.read_text())["constants"]["figures"]["choice"]
    assert choice["m"] == SUBSPACE_DIM
    assert (choice["k"], choice["power"]) == (TopK.k, TopK.power)
    assert choice["pictures"] == f"J{scattering.J} sum"
    assert choice["small pictures"] == "enlarged"
    candidates = {c.name for c in create("auto", Recipe((8, 8), 3))}
    assert candidates == {"given", ROUNDS[choice["metric"]], "scattering"}


def test_what_they_were_chosen_on_is_something_else():
    problems = json.loads(CHOICES.read_text())["constants"]["figures"]["problems"]
    assert len(problems) > 30
    assert not MEASURED & {name.split("-")[0] for name in problems}


def test_the_estimator_takes_them():
    model = ClosedFormSubspaceClustering()
    assert (model.affinity, model.assign) == ("topk", defaults.ASSIGN)
    assert TopK() == defaults.AFFINITY
    assert (model.lam, model.subspace_dim, model.representation) == ("auto", None, "auto")
