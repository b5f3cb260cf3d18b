"""Runs from anybody: their files are regular ones, and their fields have types and sizes."""

from __future__ import annotations

import io
import json
import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import fit_run

from dcfsc.errors import InputError
from dcfsc.io import Dataset, load
from dcfsc.report import read_details
from dcfsc.runs.compare import compare_runs
from dcfsc.runs.details import NEIGHBORS
from dcfsc.runs.folder import RENAMED, read_run

OPTIONS: dict[str, Any] = {"n_clusters": 3, "random_state": 0, "device": "cpu"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    X = np.random.default_rng(0).integers(0, 256, (30, 8, 8)).astype(np.uint8)
    folder = tmp_path_factory.mktemp("runs") / "run"
    fit_run(Dataset("some", X, np.arange(30) % 3), "closed-form", OPTIONS, folder, report=True)
    return folder


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


def refused(call: Any, said: str) -> None:
    with pytest.raises(InputError, match=said) as raised:
        call()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *(("parameters", [1]), ("command", 3), ("started", {}), ("features", "encoder")),
        *(("scores", [1.0]), ("scores.error", "<b>"), ("scores.error", 1e400), ("scores.nmi", [])),
        *(("scores.error", 10**400), ("stability", 3), ("stability.given", "x")),
        *(("representation", {}), ("machine", "x"), ("timings.fit_seconds", "x")),
        *(("data.name", {"a": 1}), ("data.shape", 8), ("data.directory", 7), ("data.classes", "3")),
        *(("features.name", 3), ("verdict.words", 3), ("history", {}), ("lam", "x")),
        *(("cluster_sizes", 5), ("effective_dof", True), ("suggestion", 3), ("model", {"a": 1})),
    ],
)
def test_a_field_of_another_type_is_one_line(run, place, value):
    record = json.loads((run / "run.json").read_text())
    *above, name = place.split(".")
    part = record
    for key in above:
        part = part.setdefault(key, {}) if part.get(key) is not None else {}
    part[name] = value
    (run / "run.json").write_text(json.dumps(record))
    if above and record.get(above[0]) is None:
        record[above[0]] = part
        (run / "run.json").write_text(json.dumps(record))
    refused(lambda: read_run(run), rf"is damaged in '{name}'; fit again")


def test_a_record_of_version_1_is_read_under_the_names_of_today(run):
    before = {"lam_", "effective_dof_", "representation_", "stability_", "working_shape_"}
    assert RENAMED.keys() == before | {"view_strengths_", "view_consistency_"}
    record = json.loads((run / "run.json").read_text())
    assert record["dcfsc_run"] == 3
    assert set(RENAMED.values()) <= record.keys()
    assert not any(name.endswith("_") for name in record)
    names = {new: old for old, new in RENAMED.items()}
    old = {names.get(name, name): value for name, value in record.items()} | {"dcfsc_run": 2}
    (run / "run.json").write_text(json.dumps(old))
    assert read_run(run).record == {**record, "dcfsc_run": 2}
    for number, said in ((1, "no longer read"), (4, "Upgrade dcfsc")):
        (run / "run.json").write_text(json.dumps({**old, "dcfsc_run": number}))
        refused(lambda: read_run(run), said)


def test_compare_computes_nothing_of_a_forged_record(run, whole, tmp_path):
    record = json.loads((run / "run.json").read_text())
    record["scores"]["error"] = "0"
    (run / "run.json").write_text(json.dumps(record))
    refused(lambda: compare_runs(whole, run, tmp_path / "c.html"), "is damaged in 'error'")
    assert not (tmp_path / "c.html").exists()


@pytest.mark.parametrize("name", ["run.json", "labels.csv", "model.safetensors", "details.npz"])
@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_only_regular_files_are_read(run, whole, name, kind):
    (run / name).unlink()
    if kind == "pipe":
        os.mkfifo(run / name)
    elif kind == "link":
        (run / name).symlink_to(whole / name)
    else:
        (run / name).mkdir()
    refused(lambda: read_run(run), rf"{name} is a link, or no file")


def replaced(run: Path, **arrays: Any) -> None:
    """The run's details with other arrays, or other bytes in their place."""
    with np.load(run / "details.npz") as file:
        found = dict(file)
    with zipfile.ZipFile(run / "details.npz", "w") as archive:
        for name, value in {**found, **arrays}.items():
            if not isinstance(value, bytes):
                stream = io.BytesIO()
                np.save(stream, value)
                value = stream.getvalue()
            archive.writestr(f"{name}.npy", value)


def claim(shape: str, kind: str = "<i4") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64)


@pytest.mark.parametrize("name", ["labels", "thumbnails", "files"])
def test_details_that_claim_16_gigabytes_are_one_line(run, name):
    replaced(run, **{name: claim("(4000000000,)")})
    refused(lambda: read_details(run / "details.npz"), rf"{name}\.npy\]: it is cut off; its header")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("labels", np.zeros(30)),
        ("labels", np.full(30, -1)),
        ("labels", np.full(30, 2**40)),
        ("labels", np.zeros((30, 1), int)),
        ("clusters", np.full((30, 3), 2**31)),
        ("parts", np.full(30, 6)),
        ("parts", np.full(30, 2**33)),
        ("probabilities", np.full((30, 3), "x")),
        ("neighbors", np.full((30, NEIGHBORS), -2)),
        ("best_class", np.array([0, 1, 3])),
        ("truth", np.full(30, 3)),
        ("role", np.full(30, 4)),
        ("confusion", np.zeros((3, 4), int)),
        ("coupling", np.zeros((3, 4))),
        ("connectivity", np.zeros(2, int)),
        ("class_names", np.arange(3)),
        ("thumbnails", np.zeros((30, 8, 8))),
        ("view", np.zeros((30, 3))),
        ("path", np.zeros((5, 4))),
        ("profile", np.zeros((5, 4))),
    ],
)
def test_arrays_of_another_type_or_size_are_one_line(run, name, value):
    replaced(run, **{name: value})
    refused(lambda: read_details(run / "details.npz"), rf"details of a run .*'{name}'")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("name", ["X", "y"])
def test_an_archive_that_claims_16_gigabytes_is_one_line(tmp_path, method, name):
    file = tmp_path / "data.npz"
    np.savez(file, **{"y" if name == "X" else "X": np.zeros((7, 5))})
    shape = "(40000000, 100)" if name == "X" else "(4000000000,)"
    with zipfile.ZipFile(file, "a", method) as archive:
        archive.writestr(f"{name}.npy", claim(shape))
    refused(lambda: load(file), rf"{name}\.npy\]: it is cut off; its header says")


def test_a_record_without_clusters_is_one_line(run):
    record = json.loads((run / "run.json").read_text())
    del record["n_clusters"]
    (run / "run.json").write_text(json.dumps(record))
    refused(lambda: read_run(run), "is damaged in 'n_clusters'")


def test_a_name_that_is_no_text_is_escaped_on_the_page(run, whole, tmp_path):
    record = json.loads((run / "run.json").read_text())
    record["data"]["name"] = "photos \udc80"
    (run / "run.json").write_text(json.dumps(record))
    compare_runs(whole, run, tmp_path / "c.html")
    assert "photos \\udc80" in (tmp_path / "c.html").read_text()
