"""The command line: what it prints, what it writes, and one line for whatever is wrong."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from dcfsc import __version__
from dcfsc.cli import app
from dcfsc.estimators import DCFSC, ClosedFormSubspaceClustering
from dcfsc.io import Dataset, synthetic

CLOSED_FORM = ("--method", "closed-form", "--device", "cpu")


def dcfsc(*args: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in args])


def done(*args: object) -> Result:
    result = dcfsc(*args)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def refused(*args: object) -> str:
    """The one line of an invocation that must fail for its input and write nothing."""
    before = sorted(Path.cwd().parent.rglob("*"))
    result = dcfsc(*args)
    assert result.exit_code == 2, (result.output, result.exception)
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    assert sorted(Path.cwd().parent.rglob("*")) == before
    return lines[0]


@pytest.fixture(autouse=True)
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for inputs, beside the empty one that the command runs in."""
    for name in ("inputs", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "inputs"


@pytest.fixture
def data() -> Dataset:
    return synthetic(90, 3, 4, 20, random_state=0)


@pytest.fixture
def npy(inputs: Path, data: Dataset) -> Path:
    np.save(inputs / "points.npy", data.X)
    return inputs / "points.npy"


@pytest.fixture
def npz(inputs: Path, data: Dataset) -> Path:
    np.savez(inputs / "labeled.npz", X=data.X, y=data.y)
    return inputs / "labeled.npz"


@pytest.fixture
def images(inputs: Path) -> Path:
    """Two sub-folders of eight 16 x 12 images: stripes across, and stripes down."""
    rng = np.random.default_rng(0)
    for name, shape in {"across": (16, 1), "down": (1, 12)}.items():
        (inputs / "images" / name).mkdir(parents=True)
        for i in range(8):
            pixels = np.broadcast_to(rng.integers(0, 200, shape), (16, 12))
            noisy = pixels + rng.integers(0, 40, (16, 12))
            Image.fromarray(noisy.astype(np.uint8)).save(inputs / "images" / name / f"{i}.png")
    return inputs / "images"


def rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def record(folder: str | Path) -> dict[str, Any]:
    return json.loads(Path(folder, "run.json").read_text())


def test_fit_of_a_matrix_writes_a_run(npy: Path) -> None:
    result = done("fit", npy, "-k", 3, *CLOSED_FORM, "--out", "run")
    assert result.stderr == ""
    assert {"labels.csv", "model.safetensors", "report.html", "run.json"} < set(os.listdir("run"))
    labels = rows(Path("run/labels.csv"))
    assert [row["index"] for row in labels] == [str(i) for i in range(90)]
    assert set(labels[0]) == {"index", "label", "confidence", "next_best"}
    assert all(0.5 < float(row["confidence"]) <= 1 for row in labels)
    assert all(row["next_best"] in "012" and row["next_best"] != row["label"] for row in labels)
    for fact in ("90 samples of 20 float32, no labels", "closed-form, 3 clusters", "lam", "run"):
        assert fact in result.stdout
    assert "NMI" not in result.stdout


def test_fit_scores_against_labels(npz: Path) -> None:
    result = done("fit", npz, "-k", 3, *CLOSED_FORM, "--out", "run")
    shown = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert shown["error"] == "0.00 %"
    assert float(shown["NMI"]) == float(shown["ARI"]) == 1.0
    assert "labels used only to score" in shown["data"]
    assert shown["clusters"] == "3 of sizes 30, 30, 30"
    assert set(rows(Path("run/labels.csv"))[0]) == {
        *("index", "label", "confidence", "next_best", "true_label")
    }


def test_json_output_is_the_record(npz: Path) -> None:
    result = done("fit", npz, "-k", 3, *CLOSED_FORM, "--out", "run", "--json")
    printed = json.loads(result.stdout)
    saved = record("run")
    saved.pop("history")
    assert printed == {"run": "run", **saved}
    assert printed["scores"]["error"] == 0.0
    assert printed["command"] == (
        f"dcfsc fit {npz} -k 3 --method closed-form --device cpu --out run --json"
    )


def test_quiet_runs_in_default_folders_that_are_never_replaced(npy: Path) -> None:
    for _ in range(3):
        assert done("fit", npy, "-k", 3, *CLOSED_FORM, "--quiet").output == ""
    stem = "points-closed-form"
    assert sorted(os.listdir("runs")) == [stem, f"{stem}-2", f"{stem}-3"]


@pytest.mark.parametrize("spec", ["points.npy", "synthetic"])
def test_seeds_reproduce(npy: Path, spec: str) -> None:
    data = npy if spec == npy.name else spec
    for out, seed in {"a": 7, "b": 7, "c": 8}.items():
        done("fit", data, "-k", 5, *CLOSED_FORM, "--seed", seed, "--no-report", "--out", out)
    assert Path("a/labels.csv").read_bytes() == Path("b/labels.csv").read_bytes()
    assert [record(out)["seed"] for out in "abc"] == [7, 7, 8]


def test_predict_gives_the_training_samples_their_labels(npz: Path) -> None:
    done("fit", npz, "-k", 3, *CLOSED_FORM, "--out", "run")
    result = done("predict", "run", npz)
    assert "0.00 %" in result.stdout
    predicted, fitted = (rows(Path("run", name)) for name in ("predictions.csv", "labels.csv"))
    assert list(predicted[0]) == list(fitted[0])
    for column in ("index", "label", "true_label"):
        assert [row[column] for row in predicted] == [row[column] for row in fitted]
    assert all(0.5 < float(row["confidence"]) <= 1 for row in predicted)


def test_predict_writes_where_it_is_told(npy: Path, inputs: Path, data: Dataset) -> None:
    done("fit", npy, "-k", 3, *CLOSED_FORM, "--out", "run")
    np.save(inputs / "new.npy", data.X[:7] * 3)
    result = done("predict", "run", inputs / "new.npy", "--out", "new/some.csv", "--json")
    printed = json.loads(result.stdout)
    fitted = [int(row["label"]) for row in rows(Path("run/labels.csv"))]
    assert printed["labels"] == [int(row["label"]) for row in rows(Path("new/some.csv"))]
    assert printed["labels"] == fitted[:7]
    assert not Path("run/predictions.csv").exists()


def test_folder_of_images_with_the_deep_method(images: Path) -> None:
    few = ("--steps", 2, "--pretrain-epochs", 1, "--device", "cpu")
    done("fit", images, "-k", 2, *few, "--labels", "folders", "--out", "run")
    labels = rows(Path("run/labels.csv"))
    assert len(labels) == 16
    assert labels[0]["path"].endswith("0.png")
    assert {row["true_label"] for row in labels} == {"across", "down"}
    saved = record("run")
    assert saved["method"] == "dcfsc"
    assert saved["parameters"]["steps"] == 2
    assert len(saved["history"]) == 3
    done("predict", "run", images, "--quiet")
    assert len(rows(Path("run/predictions.csv"))) == 16


@pytest.mark.parametrize(("value", "row"), [(np.nan, 17), (np.inf, 3)])
def test_values_that_are_not_finite(inputs: Path, data: Dataset, value: float, row: int) -> None:
    data.X[row, 2] = data.X[row + 1, 0] = value
    np.save(inputs / "bad.npy", data.X)
    line = refused("fit", inputs / "bad.npy", "-k", 3, *CLOSED_FORM)
    assert "2 values" in line
    assert f"row {row} " in line


@pytest.mark.parametrize(
    ("k", "said"), [(1, "least 2"), (0, "n_clusters=0 is not allowed"), (91, "n_samples=90")]
)
def test_number_of_clusters_that_cannot_be(npy: Path, k: int, said: str) -> None:
    assert said in refused("fit", npy, "-k", k)


def test_number_of_clusters_is_needed_and_a_number(npy: Path) -> None:
    assert "-k auto; 'dcfsc suggest-k DATA' lists candidates" in refused("fit", npy)
    assert "integer" in refused("fit", npy, "-k", "three")


def test_table_with_text_and_empty_folder(inputs: Path) -> None:
    (inputs / "t.csv").write_text("a,b\n1,2\n3,4\n5,oops\n")
    assert "'oops'" in refused("fit", inputs / "t.csv", "-k", 2)
    (inputs / "empty").mkdir()
    assert "no images" in refused("fit", inputs / "empty", "-k", 2)


def test_broken_image_is_named_and_can_be_left_out(images: Path) -> None:
    broken = images / "down" / "3.png"
    broken.write_bytes(broken.read_bytes()[:60])
    assert str(broken) in refused("fit", images, "-k", 2, *CLOSED_FORM, "--strict")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = done("fit", images, "-k", 2, *CLOSED_FORM, "--out", "run")
    assert len(rows(Path("run/labels.csv"))) == 15
    assert "1 of 16 images" in record("run")["data"]["notes"]
    assert record("run")["data"]["broken"] == ["down/3.png"]
    (warning,) = result.stderr.splitlines()
    assert warning.startswith("warning: 1 of 16 images")
    assert warning.endswith("down/3.png")
    said = refused("fit", images, "-k", 2, "--skip-broken")
    assert "Broken images are skipped anyway; --strict stops at them." in said


def test_images_of_different_sizes(images: Path) -> None:
    Image.new("L", (20, 10)).save(images / "down" / "9.png")
    assert "read at 32 x 32" in done("fit", images, "-k", 2, *CLOSED_FORM, "--out", "chosen").stdout
    assert record("chosen")["data"]["shape"] == [32, 32]
    done("fit", images, "-k", 2, *CLOSED_FORM, "--size", "16x12", "--out", "gray")
    assert record("gray")["data"]["shape"] == [16, 12]
    done("fit", images, "-k", 2, *CLOSED_FORM, "--size", "8x8", "--color", "--out", "color")
    assert record("color")["data"]["shape"] == [3, 8, 8]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--method", "close-form"), "'closed-form'"),
        (("--method", "closed-form", "--affinity", "topp"), "'topk'"),
        (("--method", "closed-form", "--assign", "kmean"), "'kmeans'"),
        (("--device", "cuda0"), "'cuda:0'"),
        (("--network", "orll"), "'orl'"),
        (("--weights", "dsc_orl"), "no weights file dsc_orl"),
        (("--weights", "nowhere.safetensors"), "nowhere.safetensors"),
        (("--method", "closed-form", "--steps", "5"), "no option 'steps'"),
        (("--method", "closed-form", "--weights", "dsc_orl"), "no option 'weights'"),
        (("--method", "closed-form", "--lam", "small"), "'small'"),
        (("--method", "closed-form", "--lam", "-1"), "lam"),
        (("--subspace-dim", "0"), "subspace_dim=0.0 is not"),
        (("--learning-rate", "nan"), "learning_rate=nan is not"),
        (("--seed", "-1"), "seed"),
        (("--size", "32"), "--size"),
        (("--labels", "nowhere.csv"), "nowhere.csv"),
        (("--colour",), "--color"),
    ],
)
def test_options_that_cannot_be(npy: Path, options: tuple[str, ...], said: str) -> None:
    assert said in refused("fit", npy, "-k", 3, *options)


def test_unknown_dataset_and_command() -> None:
    assert "Did you mean 'digits'" in refused("fit", "digit", "-k", 10)
    assert "'fit'" in refused("fti", "digits", "-k", 10)


def test_folder_that_takes_no_files(npy: Path, inputs: Path) -> None:
    command = ("fit", npy, "-k", 3, *CLOSED_FORM, "--out")
    before = npy.read_bytes()
    assert "cannot write" in refused(*command, npy / "run")
    assert "points.npy is what the command reads" in refused(*command, npy)
    assert "holds what the command reads" in refused(*command, inputs)
    assert npy.read_bytes() == before
    (inputs / "mine").mkdir()
    (inputs / "mine" / "notes.txt").write_text("mine")
    assert "is a file" in refused(*command, inputs / "mine" / "notes.txt")
    assert "is not an earlier run" in refused(*command, inputs / "mine", "--overwrite")
    assert os.listdir(inputs / "mine") == ["notes.txt"]
    if Path("/proc/self").exists():  # where even root makes no folder
        assert "cannot write to /proc/run" in refused(*command, "/proc/run")


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the samples of ``npy``; tests take copies of it."""
    folder = tmp_path_factory.mktemp("earlier")
    np.save(folder / "points.npy", synthetic(90, 3, 4, 20, random_state=0).X)
    done("fit", folder / "points.npy", "-k", 3, *CLOSED_FORM, "--out", folder / "run")
    return folder / "run"


@pytest.fixture
def run(earlier: Path, inputs: Path) -> Path:
    return Path(shutil.copytree(earlier, "run"))


def newer_format(model: Path) -> None:
    """As if a later version had written the run."""
    saved = json.loads((model.parent / "run.json").read_text())
    del saved["files"]
    (model.parent / "run.json").write_text(json.dumps(saved))
    content = model.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    own = json.loads(header["__metadata__"]["dcfsc"])
    header["__metadata__"]["dcfsc"] = json.dumps({**own, "format": 99, "version": "9.0"})
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    model.write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda model: model.write_bytes(model.read_bytes()[:-50]), "damaged"),
        (lambda model: model.write_bytes(model.read_bytes()[:20]), "damaged"),
        (newer_format, "Upgrade dcfsc"),
        (lambda model: model.unlink(), "lost its model"),
    ],
    ids=["cut at the end", "cut at the start", "newer", "missing"],
)
def test_model_that_cannot_be_used(
    run: Path, npy: Path, harm: Callable[[Path], None], said: str
) -> None:
    harm(run / "model.safetensors")
    assert said in refused("predict", run, npy)


def test_predict_refuses_other_samples(run: Path, npy: Path, inputs: Path, data: Dataset) -> None:
    np.save(inputs / "narrow.npy", data.X[:, :5])
    assert "5 features" in refused("predict", run, inputs / "narrow.npy")
    data.X[4] = np.nan
    np.save(inputs / "bad.npy", data.X)
    assert "row 4 " in refused("predict", run, inputs / "bad.npy")
    assert "no run in" in refused("predict", "nowhere", npy)
    assert "holds what the command reads" in refused("predict", run, npy, "--out", inputs)
    assert "is what the command reads" in refused("predict", run, npy, "--out", npy, "--overwrite")
    (inputs / "mine").mkdir()
    assert "is a folder" in refused("predict", run, npy, "--out", inputs / "mine", "--overwrite")


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "error: interrupted"),
        (MemoryError("Unable to allocate 9 TiB"), 1, "error: out of memory: Unable to allocate"),
        (RuntimeError("CUDA out of memory. Tried"), 1, "error: out of memory: CUDA out of memory"),
        (RuntimeError("a bug"), 1, None),
        (ValueError("a bug"), 1, None),
    ],
)
def test_failures_in_the_work_leave_nothing_and_bugs_keep_their_traceback(
    npy: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, said: str | None
) -> None:
    def fails(self: Any, X: Any, y: Any = None) -> None:
        assert Path("runs/points-dcfsc").is_dir()
        raise error

    monkeypatch.setattr(DCFSC, "fit", fails)
    result = dcfsc("fit", npy, "-k", 3, "--method", "dcfsc")
    assert result.exit_code == code
    assert os.listdir() == []
    if said is None:
        assert result.exception is error
    else:
        assert result.output.startswith(said)
        assert len(result.output.splitlines()) == 1


def test_version_and_help() -> None:
    assert dcfsc("--version").stdout == f"dcfsc {__version__}\n"
    for help_option in ("-h", "--help"):
        assert "--subspace-dim" in dcfsc("fit", help_option).stdout
    assert "predict" in dcfsc().stdout


def test_doctor_finds_no_problem() -> None:
    result = done("doctor")
    assert result.stdout.splitlines()[-1] == "No problems found"
    for fact in ("torch", "thread", "blas", "clustering without error"):
        assert fact in result.stdout


def test_doctor_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(self: Any, X: Any, y: Any = None) -> np.ndarray:
        return np.zeros(len(X), int)

    monkeypatch.setattr(ClosedFormSubspaceClustering, "fit_predict", wrong)
    result = dcfsc("doctor")
    assert result.exit_code == 1
    assert "No problems found" not in result.output
    (check,) = result.stderr.splitlines()
    assert check.startswith("error: self-check: 66.7 %")


def test_module_is_the_same_command(npy: Path) -> None:
    command = [sys.executable, "-m", "dcfsc", "fit"]
    subprocess.run([*command, str(npy), "-k", "3", *CLOSED_FORM], check=True)
    assert record("runs/points-closed-form")["command"].startswith(f"dcfsc fit {npy} -k 3")
    bad = subprocess.run([*command, "nothing", "-k", "3"], capture_output=True, text=True)
    assert (bad.returncode, bad.stdout) == (2, "")
    (line,) = bad.stderr.splitlines()
    assert line.startswith("error: no such file or folder: nothing.")
