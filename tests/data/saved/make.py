"""Save runs and models with the installed version, for tests of later versions.

    PYTHONPATH=CHECKOUT/src python tests/data/saved/make.py

The version on the path writes the folder ``MAJOR.MINOR`` beside this file, which must not exist:

- ``runs``: run folders; ``images`` has edits, and ``views`` learned from views
- ``models``: models saved from Python
- ``expected.json``: what the same version predicts for samples that it has not seen

All versions read the same ``inputs``. Run this once for every minor version, when it is released,
and never change a folder afterward.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

SAVED = Path(__file__).resolve().parent
INPUTS = SAVED / "inputs"
NEUTRAL = "/data"  # recorded in place of the folder of the samples


def make_inputs() -> None:
    """Three subspaces as vectors, word counts, and handwritten digits as small images."""
    from sklearn.datasets import load_digits

    rng = np.random.default_rng(0)
    bases = rng.normal(size=(3, 2, 8))
    counts = rng.poisson(rng.gamma(0.3, 2.0, (3, 30)).repeat(13, axis=0))
    points = np.concatenate([rng.normal(size=(13, 2)) @ basis for basis in bases])
    points += 0.02 * rng.normal(size=points.shape)
    digits = load_digits()
    first = np.flatnonzero(digits.target < 3)[:39]
    INPUTS.mkdir()
    is_new = np.arange(39) % 13 >= 10
    for name, rows in (("vectors", points), ("counts", counts)):
        np.savetxt(INPUTS / f"{name}.csv", rows[~is_new], "%.4g", delimiter=",")
        np.savetxt(INPUTS / f"new_{name}.csv", rows[is_new], "%.4g", delimiter=",")
    images = (digits.images[first] * 15).astype(np.uint8)
    for folder, some in (("images", images[:30]), ("new_images", images[30:])):
        (INPUTS / folder).mkdir()
        for i, image in enumerate(some):
            Image.fromarray(image).save(INPUTS / folder / f"{i:02}.png", optimize=True)


def read_input(name: str) -> np.ndarray:
    """Samples of an input: rows of a table, or the images of a folder."""
    if (INPUTS / name).is_dir():
        files = sorted((INPUTS / name).iterdir())
        return np.stack([np.asarray(Image.open(file)) for file in files])
    return np.loadtxt(INPUTS / f"{name}.csv", delimiter=",")


def models() -> dict[str, tuple[Any, str]]:
    """Estimators and their input, by the name of the file."""
    from dcfsc import DCFSC, AutoencoderFeatures, ClosedFormSubspaceClustering, ScatteringFeatures
    from dcfsc.affinity import TopK
    from dcfsc.networks import ConvSpec, HeadSpec, MLPSpec, ResidualSpec

    def closed_form(**options: Any) -> Any:
        return ClosedFormSubspaceClustering(3, random_state=0, device="cpu", **options)

    def deep(network: Any, **options: Any) -> Any:
        return DCFSC(3, network=network, random_state=0, device="cpu", **options)

    convolutions = ConvSpec((1, 8, 8), (3, 4), (3, 3), (2, 2), batch_norm=True)
    residual = ResidualSpec((1, 8, 8), (4, 8), 1, hidden=8, projection=6)
    head = HeadSpec(8, latent_dim=6, hidden=12, projection=5)
    paper = {"pretrain_epochs": 5, "steps": 3}
    views = {"training": "views", "steps": 4}
    return {
        "closed-form-auto": (closed_form(), "vectors"),
        "closed-form-given": (closed_form(representation="given", affinity=TopK(4)), "vectors"),
        "closed-form-metric": (closed_form(representation="metric"), "vectors"),
        "closed-form-metric-twice": (closed_form(representation="metric-twice"), "vectors"),
        "closed-form-affine": (closed_form(representation="affine"), "vectors"),
        "closed-form-counts": (closed_form(representation="counts"), "counts"),
        "closed-form-scattering": (closed_form(representation="scattering"), "few_images"),
        "dcfsc-vectors": (deep(MLPSpec(8, (6,), 4), **paper), "vectors"),
        "dcfsc-images": (deep(convolutions, **paper), "images"),
        "views-vectors": (deep(head, **views), "vectors"),
        "views-images": (deep(residual, **views), "images"),
        "autoencoder-features": (
            AutoencoderFeatures(
                network=MLPSpec(8, (6,), 4), pretrain_epochs=5, random_state=0, device="cpu"
            ),
            "vectors",
        ),
        "scattering-features": (ScatteringFeatures(1, 2, 4, device="cpu"), "images"),
    }


def save_models(folder: Path) -> dict[str, Any]:
    """Fit and save each model; what it says of new samples."""
    folder.mkdir()
    expected = {}
    for name, (model, data) in models().items():
        few = data == "few_images"  # scattering keeps a large row for each
        data = data.removeprefix("few_")
        X = read_input(data)[: 6 if few else None]
        model.fit(X)
        model.save(folder / f"{name}.safetensors")
        new = read_input(f"new_{data}")
        told: dict[str, Any] = {"new": f"new_{data}"}
        if hasattr(model, "predict"):
            told["labels"] = model.labels_.tolist()
            told["predict"] = model.predict(new).tolist()
            told["predict_proba"] = np.round(model.predict_proba(new), 4).tolist()
        if hasattr(model, "transform"):
            told["transform"] = np.round(model.transform(new).astype(float), 5).tolist()
        expected[name] = told
    return expected


def save_runs(folder: Path) -> dict[str, Any]:
    """Runs of the command line; what ``predict`` says of new samples by each, as edited."""
    from typer.testing import CliRunner

    from dcfsc.cli import app
    from dcfsc.datasets import load
    from dcfsc.networks import HeadSpec, MLPSpec
    from dcfsc.runs.executor import execute
    from dcfsc.runs.request import RunRequest

    def dcfsc(*words: str) -> str:
        result = CliRunner().invoke(app, words, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    runs = Path("runs")
    fit = ("-k", "3", "--device", "cpu", "--quiet", "--out")
    plain = ("--representation", "given")
    dcfsc("fit", "vectors.csv", *fit, str(runs / "vectors"))
    dcfsc("fit", "images", *fit, str(runs / "images"), *plain)
    dcfsc("name", str(runs / "images"), "0=zeros", "--merge", "1,2", "--quiet")
    # networks of the command line are too large for a repository
    data = load("vectors.csv")
    common = {"n_clusters": 3, "random_state": 0, "device": "cpu"}
    mlp = {"network": MLPSpec(8, (6,), 4), "pretrain_epochs": 5}
    head = {"network": HeadSpec(8, latent_dim=6, hidden=12, projection=5), "steps": 4}
    for name, method, options, more in (
        ("features", "closed-form", mlp, {"features": "autoencoder"}),
        ("views", "dcfsc", {"training": "views", **head}, {}),
    ):
        execute(RunRequest(data, method, {**common, **options}, out=runs / name, **more))
    expected = {}
    for run in sorted(runs.iterdir()):
        (run / "report.html").unlink()  # drawn from the details, and never read
        record = json.loads((run / "run.json").read_text())
        images = record["data"]["name"] == "images"
        new = "new_images" if images else "new_vectors.csv"
        told = dcfsc("predict", str(run), new, "--out", "predicted.csv", "--device", "cpu")
        assert told
        rows = Path("predicted.csv").read_text().splitlines()
        Path("predicted.csv").unlink()
        column = rows[0].split(",").index("label")
        expected[run.name] = {
            "new": new,
            "predict": [int(row.split(",")[column]) for row in rows[1:]],
            "images": images,
        }
    shutil.copytree(runs, folder)
    return expected


def record_no_place() -> None:
    """Let records say :data:`NEUTRAL` for the folder of this machine."""
    from dcfsc.runs import record

    described = record.describe_data

    def neutral(data: Any) -> dict[str, Any]:
        told = described(data)
        place = told["directory"]
        return told if place is None else {**told, "directory": NEUTRAL}

    record.describe_data = neutral


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        os.environ["XDG_STATE_HOME"] = home
        from dcfsc import __version__

        target = SAVED / ".".join(__version__.split(".")[:2])
        if target.exists():
            sys.exit(f"{target} exists; what a version saved is never changed")
        if not INPUTS.exists():
            make_inputs()
        os.chdir(shutil.copytree(INPUTS, Path(home, "work")))
        record_no_place()
        target.mkdir()
        expected = {"version": __version__, "models": save_models(target / "models")}
        expected["runs"] = save_runs(target / "runs")
        text = json.dumps(expected, indent=1) + "\n"
        text = re.sub(r"\n {4,}|\n +(?=\])", " ", text)  # a line for each list
        (target / "expected.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
