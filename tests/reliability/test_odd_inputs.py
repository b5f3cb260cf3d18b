"""Odd values, names, links and numbers: one line, or one meaning that the documentation says."""

from __future__ import annotations

import copy
import csv
import json
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.exceptions import NotFittedError
from typer.testing import CliRunner

from dcfsc import AutoencoderFeatures, ScatteringFeatures, suggest_k
from dcfsc.cli import app
from dcfsc.errors import InputError
from dcfsc.estimators.registry import METHODS
from dcfsc.io import Dataset, load, synthetic
from dcfsc.io import images as dataset_images
from dcfsc.metrics import clustering_error
from dcfsc.runs.folder import read_run
from dcfsc.runs.tables import write_labels

TRAINING = {"pretrain_epochs": 1, "steps": 1, "verbose": False}
FAST = {
    "dcfsc": TRAINING,
    "dsc": TRAINING,
    "views": {"effort": "quick", "steps": 1},
    "closed-form": {"representation": "given"},
}
LONG = "n" * 300


def make(name, **options):
    given = {"n_clusters": 3, "random_state": 0, "device": "cpu", **FAST.get(name, {}), **options}
    return METHODS[name](**given)


def dcfsc(*args):
    result = CliRunner().invoke(app, [str(a) for a in args])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def refused(*args):
    """The one line of a command that its input ends; nothing is left of it."""
    before = sorted(Path.cwd().rglob("*"))
    result = dcfsc(*args)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    assert sorted(Path.cwd().rglob("*")) == before
    return line


@pytest.fixture(autouse=True)
def work(tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


@pytest.fixture(scope="module")
def subspaces():
    data = synthetic(
        n_samples=60, n_clusters=3, subspace_dim=2, ambient_dim=12, noise=0.01, random_state=0
    )
    return data.X.astype(np.float64), data.y


@pytest.fixture(scope="module")
def samples(tmp_path_factory, subspaces):
    path = tmp_path_factory.mktemp("samples") / "x.npy"
    np.save(path, subspaces[0])
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory, samples):
    folder = tmp_path_factory.mktemp("run") / "run"
    assert dcfsc("fit", samples, "-k", 3, "--device", "cpu", "-q", "--out", folder).exit_code == 0
    return folder


def picture(path, seed=0):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (8, 8), dtype=np.uint8)
    with open(path, "wb") as file:
        Image.fromarray(pixels).save(file, "png")


# Numbers on the command line ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "message"),
    [
        ("999999999x999999999", "an image has at most 89478485 pixels"),
        ("1x100000000", "an image has at most 89478485 pixels"),
        ("0x5", "must be at least 1"),
        ("5x0", "must be at least 1"),
        ("-1x5", "--size takes HEIGHTxWIDTH"),
        ("9" * 5000 + "x3", "--size takes HEIGHTxWIDTH"),
        ("1_0x10", "--size takes HEIGHTxWIDTH"),
        ("\u0663x3", "--size takes HEIGHTxWIDTH"),
    ],
)
@pytest.mark.parametrize("command", ["fit", "suggest-k"])
def test_absurd_sizes(command, size, message, tmp_path):
    for i in range(5):
        picture(tmp_path / "images" / f"{i}.png", i)
    clusters = ("-k", 3) if command == "fit" else ()
    line = refused(command, tmp_path / "images", *clusters, "--size", size)
    assert message in line
    assert len(line) < 200


def test_arrays_are_not_resized_beyond_the_memory(tmp_path, monkeypatch):
    X = np.zeros((4, 8, 8))
    monkeypatch.setattr("dcfsc.io.streamed.free_memory", lambda: 4 * 16 * 16 * 4)
    assert dataset_images.resize(X, (16, 16), "x").shape == (4, 16, 16)
    with pytest.raises(InputError, match=r"x needs 0\.0 GiB in memory"):
        dataset_images.resize(X, (16, 17), "x")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--lam", "1_0.5"), "lam='1_0.5' is not allowed: a number of at least 1e-30"),
        (("--subspace-dim", "1_0"), "--subspace-dim takes a number; got '1_0'"),
        (("--subspace-dim=1_0",), "--subspace-dim takes a number; got '1_0'"),
        (("--seed", "1_0"), "--seed takes a number; got '1_0'"),
        (("--steps", "\u0663"), "--steps takes a number"),
        (
            ("--steps", "9" * 400),
            "999 is not allowed: an integer of at least 0 and at most 1e+18",
        ),
        (
            ("--learning-rate", "1e300"),
            "learning_rate=1e+300 is not allowed: a number of",
        ),
        (
            ("--learning-rate", "1e300", "--method", "dsc"),
            "learning_rate=1e+300 is not allowed: a number of",
        ),
        (
            ("--learning-rate", "1e300", "--features", "autoencoder"),
            "is not allowed: a number of at least 0 and at most 1000",
        ),
        (("-k", "1_0"), "-k takes an integer or auto; got '1_0'"),
        (("-k", "9" * 5000), "-k takes an integer or auto; got '999"),
    ],
    ids=lambda value: " ".join(value)[:30] if isinstance(value, tuple) else "",
)
def test_numbers_that_are_none_or_no_use(options, message, samples):
    line = refused("fit", samples, "-k", 3, "--device", "cpu", "-q", *options)
    assert message in line
    assert len(line) < 200


# Names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [LONG, f"new/{LONG}", "n/" * 2500])
def test_names_that_are_too_long(name, samples, run):
    for command in (
        ("fit", samples, "-k", 3, "-q", "--device", "cpu", "--out", name),
        ("predict", run, samples, "--out", name),
        ("predict", name, samples),
        ("fit", name, "-k", 3),
    ):
        assert "too long" in refused(*command) or command[0] == "predict" or "new/" in name
    if "/" not in name:
        assert "File name too long" in refused("report", run, "--out", name)
        assert "File name too long" in refused("report", name)
        weights = ("--method", "dcfsc", "--weights", name)
        assert "there is no weights file" in refused("fit", samples, "-k", 3, *weights)


@pytest.mark.skipif(os.name != "posix", reason="names are bytes on POSIX systems alone")
def test_names_that_are_no_text_are_written_readably(tmp_path):
    top = os.fsencode(tmp_path) + b"/\xff\xfe"
    for i in range(8):
        picture(top + b"/class \xff%d/\xfe%d.png" % (i % 2, i), i)
    data, out = os.fsdecode(top), tmp_path / "run"
    words = ("--device", "cpu", "--out", out, "--labels", "folders")
    done = dcfsc("fit", data, "-k", 2, *words)
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    assert "\\xff\\xfe: 8 samples" in done.stdout
    record = json.loads((out / "run.json").read_text())
    assert record["data"]["name"] == "\\xff\\xfe"
    assert "\\xff\\xfe' -k 2" in record["command"]
    rows = list(csv.DictReader((out / "labels.csv").read_text(encoding="utf-8").splitlines()))
    assert rows[0]["path"] == "class \\xff0/\\xfe0.png"
    assert rows[7]["true_label"] == "class \\xff1"
    assert "class \\xff0" in (out / "report.html").read_text(encoding="utf-8")
    assert dcfsc("report", out).exit_code == 0
    again = dcfsc("predict", out, data, "--labels", "folders")
    assert again.exit_code == 0, again.output
    assert "class \\xff1" in (out / "predictions.csv").read_text(encoding="utf-8")
    # a record that holds such a name all the same
    record["data"]["name"] = record["parameters"]["affinity"] = "\udcff"
    (out / "run.json").write_text(json.dumps(record))
    assert dcfsc("report", out).exit_code == 0
    assert "\\udcff" in (out / "report.html").read_text(encoding="utf-8")


@pytest.mark.skipif(os.name != "posix", reason="names are bytes on POSIX systems alone")
def test_a_file_and_a_run_whose_names_are_no_text(tmp_path, subspaces):
    path = tmp_path / os.fsdecode(b"\xff.npy")
    np.save(path, subspaces[0])
    done = dcfsc("fit", path, "-k", 3, "--device", "cpu", "--out", os.fsdecode(b"run \xfe"))
    assert done.exit_code == 0, done.output
    assert "run \\udcfe" in done.stdout
    assert load(path).name == "\\xff"


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("=HYPERLINK(1)", "'=HYPERLINK(1)"),
        ("+1", "'+1"),
        ("-x", "'-x"),
        ("-2+3", "'-2+3"),
        ("@x", "'@x"),
        ("\tx", "'\tx"),
        ("\nx", "'\nx"),
        ("\rx", "'\rx"),
        ("=a\rb", "'=a\rb"),
        ("-1", "-1"),
        ("a=b", "a=b"),
        ("'a", "'a"),
    ],
)
def test_no_cell_is_a_formula(name, cell, tmp_path):
    data = Dataset("x", np.eye(2), np.array([0, 1]), [name, "b.png"], [name, "other"])
    write_labels(tmp_path / "labels.csv", data, np.array([1, 0]), {})
    with open(tmp_path / "labels.csv", encoding="utf-8", newline="") as file:
        first, second = csv.DictReader(file)
    assert first == {"index": "0", "path": cell, "label": "1", "true_label": cell}
    assert second == {"index": "1", "path": "b.png", "label": "0", "true_label": "other"}


def test_a_run_with_formulas_for_classes_is_read_back(tmp_path):
    for i in range(6):
        picture(tmp_path / "data" / ("=1+1" if i < 3 else "@x") / f"{i}.png", i)
    out = tmp_path / "run"
    common = ("--device", "cpu", "-q", "--labels", "folders")
    fit = dcfsc("fit", tmp_path / "data", "-k", 2, "--no-report", "--out", out, *common)
    assert fit.exit_code == 0, fit.output
    assert "'=1+1\n" in (out / "labels.csv").read_text()
    assert read_run(out).labels.shape == (6,)
    assert dcfsc("predict", out, tmp_path / "data", *common).exit_code == 0
    assert "'@x\n" in (out / "predictions.csv").read_text()


# Folders -------------------------------------------------------------------------------------


def test_links_are_followed_at_every_level_and_none_leads_round(tmp_path):
    top = tmp_path / "data"
    for i, place in enumerate(("a/1.png", "a/deep/2.png", "b/3.png")):
        picture(top / place, i)
    picture(tmp_path / "elsewhere" / "4.png", 4)
    picture(tmp_path / "elsewhere" / "below" / "5.png", 5)
    (top / "a" / "deep" / "link").symlink_to(tmp_path / "elsewhere")
    picture(tmp_path / "outside" / "6.png", 6)
    (top / "b" / "file.png").symlink_to(tmp_path / "outside" / "6.png")
    (top / "b" / "twice.png").symlink_to(tmp_path / "elsewhere" / "4.png")  # as z/4.png
    (top / "c").symlink_to(tmp_path / "elsewhere" / "below")
    for place, target in {
        "a/up": "..",
        "a/upper": "../..",
        "a/self": "self",
        "b/again": "../a",
        "a/also b": "../b",
        "z": tmp_path / "elsewhere",
        "nowhere": "missing",
    }.items():
        (top / place).symlink_to(target)
    data = load(top, labels="folders")
    found = [(data.label_names[k], Path(p).name) for k, p in zip(data.y, data.paths, strict=True)]
    # "c" is a link too, and stands before what a link in "a" leads to
    assert found == [
        *(("a", "1.png"), ("a", "2.png"), ("b", "3.png"), ("b", "file.png")),
        *(("c", "5.png"), ("z", "4.png")),
    ]


def test_a_link_to_the_folder_itself_is_the_folder(tmp_path):
    picture(tmp_path / "data" / "1.png")
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert len(load(tmp_path / "link")) == 1


def test_an_empty_file_ends_it_without_a_look_at_the_others(tmp_path, monkeypatch):
    for i in range(30):
        (tmp_path / f"{i}.png").touch()
    opened = []
    true = dataset_images.decoding
    monkeypatch.setattr(
        dataset_images, "decoding", lambda source: opened.append(source.name) or true(source)
    )
    with pytest.raises(InputError, match=r"0\.png: the file is empty"):
        load(tmp_path, strict=True)
    assert len(opened) <= dataset_images.WORKERS  # those that were begun together
    with pytest.raises(InputError, match="none of the 30 images can be read"):
        load(tmp_path)


# Tables and arrays ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("a,label,label", "several columns 'label'; rename them"),
        ("y,a,Label", "columns 'y', 'Label' may be the labels; name one, or none"),
    ],
)
def test_two_columns_of_labels(header, message, tmp_path):
    (tmp_path / "t.csv").write_text(header + "\n1,2,0\n2,3,1\n")
    with pytest.raises(InputError, match=message):
        load(tmp_path / "t.csv")


def test_two_columns_of_labels_one_of_which_is_named(tmp_path):
    (tmp_path / "t.csv").write_text("x,y,label\n1,2,0\n2,3,1\n")
    data = load(tmp_path / "t.csv", labels="label")
    assert data.X.tolist() == [[1, 2], [2, 3]]
    assert data.y.tolist() == [0, 1]
    assert load(tmp_path / "t.csv", labels="none").X.shape == (2, 3)


def test_two_arrays_of_labels(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.eye(3), y=np.arange(3), labels=np.arange(3)[::-1])
    with pytest.raises(InputError, match="it is not clear whether y or labels has the labels"):
        load(tmp_path / "t.npz")
    assert load(tmp_path / "t.npz", labels="labels").y.tolist() == [2, 1, 0]


@pytest.mark.parametrize("cell", ["1_0.5", "1_000", "\u0661"])
@pytest.mark.parametrize("line", [1, 2, 3])
def test_numbers_of_python_are_none_in_a_table(cell, line, tmp_path):
    rows = [["1.5", "2"], ["3", "4"], ["5", "6"]]
    if line == 1 and not cell.isascii():
        pytest.skip("text above a number is a header")
    rows[line - 1][1] = cell
    (tmp_path / "t.csv").write_text("\n".join(map(",".join, rows)) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=f"row {line}, column '1': '{cell}' is not a number"):
        load(tmp_path / "t.csv")


def test_underscores_are_no_harm_in_a_header(tmp_path):
    (tmp_path / "t.csv").write_text("1_1,1_2\n1,2\n3,4\n")
    assert load(tmp_path / "t.csv").X.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("name", METHODS)
def test_masked_values_are_refused_and_a_mask_of_nothing_is_none(name, subspaces):
    X = subspaces[0]
    plain = make(name).fit(X)
    free = make(name).fit(np.ma.array(X, mask=False))
    np.testing.assert_array_equal(free.labels_, plain.labels_)
    masked = np.ma.array(X, mask=np.eye(*X.shape) > 0)
    with pytest.raises(InputError, match="X has 12 masked values; fill them in"):
        make(name).fit(masked)
    if hasattr(plain, "predict"):
        with pytest.raises(InputError, match="X has 12 masked values"):
            plain.predict(masked)


def test_masked_images_samples_and_labels():
    images = np.random.default_rng(0).random((6, 8, 8))
    hidden = images > images.max() - 1e-9
    masked = np.ma.array(images, mask=hidden)
    for features in (ScatteringFeatures(), AutoencoderFeatures(pretrain_epochs=1)):
        with pytest.raises(InputError, match="X has a masked value"):
            features.fit(masked)
    with pytest.raises(InputError, match="X has a masked value"):
        suggest_k(masked)
    with pytest.raises(InputError, match="odd has a masked value"):
        Dataset("odd", masked)
    with pytest.raises(InputError, match="odd: y has a masked value"):
        Dataset("odd", images, np.ma.array(np.arange(6), mask=np.arange(6) == 2))
    whole = Dataset("odd", np.ma.array(images))
    assert type(whole.X) is np.ndarray
    np.testing.assert_array_equal(whole.X, images)


# Values --------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("scale", [1e300, 1e-300])
@pytest.mark.parametrize("name", METHODS)
def test_huge_and_tiny_values(name, scale, subspaces):
    X, y = subspaces
    X = X / np.abs(X).max()
    if name in ("lrsc", "ssc"):  # the methods that take the rows as they are
        with pytest.raises(
            InputError, match=rf"largest value of X is {scale:g}".replace("+", r"\+")
        ):
            make(name).fit(X * scale)
        assert clustering_error(y, make(name, scale="max").fit_predict(X * scale)) == 0.0
    else:
        labels = make(name).fit_predict(X * scale)
        np.testing.assert_array_equal(labels, make(name).fit_predict(X))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ["lrsc", "ssc"])
@pytest.mark.parametrize(
    ("scale", "kind"),
    [(1e140, np.float64), (1e-140, np.float64), (1e30, np.float32), (1e-30, np.float32)],
)
def test_values_whose_squares_float64_holds_are_clustered(name, scale, kind, subspaces):
    X, y = subspaces
    labels = make(name).fit_predict((X / np.abs(X).max() * scale).astype(kind))
    assert clustering_error(y, labels) == 0.0


@pytest.mark.parametrize("name", METHODS)
def test_few_distinct_samples_are_as_many_clusters(name):
    rows = np.random.default_rng(0).normal(size=(3, 5))
    X = rows[[0, 1, 0, 2, 1, 2, 0, 0, 1, 2, 2, 1]]
    expected = [0, 1, 0, 2, 1, 2, 0, 0, 1, 2, 2, 1]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert make(name, n_clusters=3).fit_predict(X).tolist() == expected
    assert not [w for w in caught if "distinct" in str(w.message)]
    told = "3 clusters were found where 4 were asked for: the 12 samples have 3 distinct values"
    with pytest.warns(UserWarning, match=told):
        assert make(name, n_clusters=4).fit_predict(X).tolist() == expected
    with pytest.warns(UserWarning, match="1 cluster was found where 3 were asked for"):
        assert make(name).fit_predict(np.full((12, 5), 2.5)).tolist() == [0] * 12


@pytest.mark.parametrize("name", METHODS)
def test_clusters_of_equal_samples_are_not_looked_for(name, monkeypatch):
    X = np.random.default_rng(0).normal(size=(3, 5))[[0, 1, 0, 2, 1, 2, 0, 0, 1, 2, 2, 1]]
    monkeypatch.setattr("dcfsc.spectral.assign", None)  # it is not called
    model = make(name, n_clusters=3).fit(X)
    assert model.labels_.tolist() == [0, 1, 0, 2, 1, 2, 0, 0, 1, 2, 2, 1]
    assert model.confidence_.tolist() == [1.0] * 12


def test_zero_and_minus_zero_are_the_same_sample():
    X = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0], [1.0, -0.0]])
    assert make("closed-form", n_clusters=2).fit_predict(X).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    "X",
    [np.full((40, 5), 2.5), np.zeros((40, 5)), np.arange(1, 41)[:, None] * np.ones((1, 5)) / 7],
    ids=["constant", "zero", "multiples"],
)
def test_no_number_of_clusters_of_one_point(X, tmp_path):
    with pytest.raises(InputError, match=r"all 40 samples are the same.* one cluster, K = 1"):
        suggest_k(X, random_state=0, device="cpu")
    np.save(tmp_path / "x.npy", X)
    assert "all 40 samples are the same" in refused("suggest-k", tmp_path / "x.npy")


@pytest.mark.parametrize("name", METHODS)
def test_a_failed_fit_leaves_an_estimator_that_is_not_fitted(name, subspaces):
    X = subspaces[0]
    wrong = X[:, :7].copy()
    wrong[3, 4] = np.nan
    fitted = make(name).fit(X)
    for data, options in (
        (wrong, {}),
        (X[:, :7], {"n_clusters": 0}),
        (X[:2], {}),
        (X, {"device": "x"}),
    ):
        model = copy.copy(fitted).set_params(**options)
        with pytest.raises(InputError):
            model.fit(data)
        assert not [attribute for attribute in vars(model) if attribute.endswith("_")]
        for method in {"predict", "transform", "save"} & {*dir(model)}:
            with pytest.raises(NotFittedError, match="not fitted yet"):
                getattr(model, method)(X)
    np.testing.assert_array_equal(model.set_params(device="cpu").fit(X).labels_, fitted.labels_)


@pytest.mark.parametrize("features", [ScatteringFeatures(), AutoencoderFeatures(pretrain_epochs=1)])
def test_a_failed_fit_leaves_features_that_are_not_fitted(features):
    images = np.random.default_rng(0).random((6, 8, 8))
    features.fit(images)
    with pytest.raises(InputError):
        features.fit(np.full((6, 9, 9), np.nan))
    with pytest.raises(NotFittedError, match="not fitted yet"):
        features.transform(images)


def test_an_interrupted_fit_leaves_an_estimator_that_is_not_fitted(subspaces):
    def press(row):
        raise KeyboardInterrupt

    model = make("dcfsc").fit(subspaces[0])
    with pytest.raises(KeyboardInterrupt):
        model.set_params(callbacks=(press,)).fit(subspaces[0])
    assert [row["step"] for row in model.history_] == [1]  # a callback's way to end a training
    with pytest.raises(NotFittedError):
        model.predict(subspaces[0])
