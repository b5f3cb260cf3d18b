"""What --help says of a default is the default."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from dcfsc import DCFSC, ClosedFormSubspaceClustering, ViewClustering, processes
from dcfsc.cli import export, predict, report, suggest
from dcfsc.cli import fit as fit_module
from dcfsc.cli.app import app
from dcfsc.estimators.dcfsc import LATENT_SUBSPACE_DIM
from dcfsc.estimators.deep import LEARNING_RATE, PRETRAIN_EPOCHS
from dcfsc.estimators.dsc import DSC
from dcfsc.estimators.registry import METHODS
from dcfsc.pipeline import SUBSPACE_DIM

IMAGES = {
    "size": "unchanged; a smaller size if images are large or differ in size",
    "color": "color if there is any",
}
AS_FITTED = dict.fromkeys(IMAGES, "as in the run")
PREDICTED = "RUN/predictions.csv, RUN/predictions-2.csv, ..."
TABLES = {
    "id": "a column of text called id",
    "columns": "those of numbers, or one of vectors",
    "missing": "an error",
    "sample": "all",
}
PLANES = {"page": "1", "channels": "all if there are more than 4"}


def shown_defaults(command: Any) -> dict[str, Any]:
    """What each option of a command shows in place of a default that is None."""
    options = {name: p.default for name, p in inspect.signature(command).parameters.items()}
    return {
        name: option.show_default
        for name, option in options.items()
        if isinstance(getattr(option, "show_default", None), str)
    }


def default(cls: type, name: str) -> Any:
    return inspect.signature(cls).parameters[name].default


def test_defaults_of_fit_are_those_of_the_estimators():
    shown = shown_defaults(fit_module.fit)
    closed, deep, views = ClosedFormSubspaceClustering, DCFSC, ViewClustering
    assert shown.pop("lam") == default(closed, "lam") == default(deep, "lam")
    assert shown.pop("representation") == default(closed, "representation")
    assert shown.pop("subspace_dim") == f"{SUBSPACE_DIM:g}; dcfsc: {LATENT_SUBSPACE_DIM:g}"
    steps = default(deep, "steps"), default(DSC, "steps")
    assert shown.pop("steps") == f"{steps[0]}; views: from --effort; dsc: {steps[1]}"
    assert shown.pop("augmentations") == f"{default(views, 'augmentations')}: chosen from the data"
    assert shown.pop("positives") == str(default(views, "positives"))
    assert shown.pop("effort") == default(views, "effort")
    affinity, _, rest = shown.pop("affinity").partition("; ")
    assert affinity == default(closed, "affinity") == default(deep, "affinity")
    assert rest == "depends on the method"
    assign, _, others = shown.pop("assign").partition(" for closed-form and views; else ")
    assert assign == default(closed, "assign")
    filtered = {m for m, cls in METHODS.items() if default(cls, "assign") == assign}
    assert filtered == {"closed-form", "views"}
    assert {default(METHODS[m], "assign") for m in METHODS.keys() - filtered} == {others}
    assert shown.pop("network") == default(deep, "network")
    assert shown.pop("pretrain_epochs") == f"{PRETRAIN_EPOCHS}; with --weights: 0"
    assert shown.pop("learning_rate") == f"{LEARNING_RATE:g}; views: from --effort"
    assert default(deep, "learning_rate") == LEARNING_RATE
    assert shown.pop("batch_size") == "all; views: from --effort"
    assert default(deep, "batch_size") is None
    assert default(views, "steps") is default(views, "batch_size") is None
    assert default(views, "learning_rate") is None
    assert float(shown.pop("checkpoint_every")) == default(deep, "checkpoint_every")
    assert float(shown.pop("dist_timeout")) == processes.TIMEOUT_SECONDS
    # what the command itself decides
    assert shown.pop("method").startswith("closed-form; dcfsc")
    assert shown.pop("out") == "runs/DATA-METHOD"
    assert shown == {**TABLES, **IMAGES, **PLANES}


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (predict.predict, {"out": f"{PREDICTED}; RUN-clusters", **AS_FITTED}),
        (report.report, {"out": "RUN/report.html", **IMAGES}),
        (export.export, {"out": "RUN/export.csv, RUN/export.parquet, RUN-clusters"}),
        (suggest.suggest_k, {"max_k": "50, or N/5", **TABLES, **IMAGES, **PLANES}),
    ],
)
def test_other_commands_show_what_they_do(command, expected):
    assert shown_defaults(command) == expected


def test_an_option_of_fit_that_a_method_has_is_named_as_its_parameter():
    parameters = {p for cls in METHODS.values() for p in inspect.signature(cls).parameters}
    options = set(inspect.signature(fit_module.fit).parameters)
    assert {"lam", "subspace_dim", "representation", "affinity", "assign", "steps"} <= (
        options & parameters
    )
    assert not options & {"metric", "transformations"}
    assert app is not None


def test_help_of_fit_has_panels():
    code = "from dcfsc.cli.app import app; app.rich_markup_mode = 'rich'; app(['fit', '--help'])"
    environment = {**os.environ, "COLUMNS": "200", "PYTHONIOENCODING": "utf-8"}
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", env=environment)
    text = done.stdout
    named = {
        panel.split(" ")[0]: set(re.findall(r"^│[ *]+(--[a-z-]+)", panel, re.MULTILINE))
        for panel in text.split("╭─ ")[1:]
    }
    panels = {"Data", "Method", "Images", "Training", "Output"}
    assert named.keys() == {"Arguments", "Options", *panels}
    assert {"--clusters", "--lam", "--affinity", "--device"} <= named["Method"]
    tables = {"--text", "--id", "--columns", "--ignore", "--missing", "--transpose", "--sample"}
    assert named["Data"] == {"--labels", *tables}
    assert named["Images"] == {"--size", "--color", "--page", "--channels", "--strict"}
    assert {"--steps", "--weights", "--batch-size"} <= named["Training"]
    assert {"--out", "--resume", "--overwrite", "--quiet", "--json"} <= named["Output"]
    assert named["Options"] == {"--help"}


def test_completion_can_be_installed():
    text = CliRunner().invoke(app, ["--help"]).stdout
    assert "--install-completion" in text
    assert "--show-completion" in text
