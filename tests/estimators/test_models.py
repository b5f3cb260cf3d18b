"""Prediction and persistence of the two estimators that have them."""

import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from dcfsc import DCFSC, ClosedFormSubspaceClustering
from dcfsc.affinity import TopK
from dcfsc.datasets import synthetic
from dcfsc.errors import InputError
from dcfsc.estimators.registry import load_model
from dcfsc.metrics import clustering_error
from dcfsc.networks import MLPSpec


@pytest.fixture(scope="module")
def data():
    return synthetic(
        n_samples=240, n_clusters=3, subspace_dim=3, ambient_dim=20, noise=0.05, random_state=0
    )


MODELS = {
    "closed-form": lambda **o: ClosedFormSubspaceClustering(n_clusters=3, random_state=0, **o),
    "dcfsc": lambda **o: DCFSC(
        n_clusters=3, pretrain_epochs=3, steps=3, random_state=0, verbose=False, **o
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_reloaded_model_gives_the_same_labels_and_predictions(name, data, tmp_path):
    model = MODELS[name](affinity=TopK(6)).fit(data.X[:160])
    path = tmp_path / "model.safetensors"
    model.save(path)
    again = type(model).load(path)
    assert np.array_equal(again.labels_, model.labels_)
    assert np.array_equal(again.predict(data.X[160:]), model.predict(data.X[160:]))
    assert again.lam_ == model.lam_
    assert again.affinity == TopK(6)
    assert type(load_model(path)) is type(model)
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]
    if name == "dcfsc":
        np.testing.assert_array_equal(again.transform(data.X[160:]), model.transform(data.X[160:]))
        assert list(again.history_) == list(model.history_)


@pytest.mark.parametrize("name", MODELS)
def test_unseen_points_of_the_same_subspaces_get_their_cluster(name, data):
    # A linear network keeps subspaces linear.
    linear = {"network": MLPSpec(20, (), 20)} if name == "dcfsc" else {}
    model = MODELS[name](subspace_dim=3.0, **linear).fit(data.X[:160])
    assert clustering_error(data.y[:160], model.labels_) == 0.0
    joined = np.concatenate([model.labels_, model.predict(data.X[160:])])
    assert clustering_error(data.y, joined) <= 1.0


def test_half_of_digits_labels_the_other_half_as_well_as_itself():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    half, rest = order[:899], order[899:]
    model = ClosedFormSubspaceClustering(n_clusters=10, random_state=0).fit(X[half])
    error = clustering_error(y[rest], model.predict(X[rest]))
    assert error <= clustering_error(y[half], model.labels_) + 5.0


@pytest.mark.parametrize("name", MODELS)
def test_predict_needs_a_fit_and_the_same_shape(name, data):
    with pytest.raises(NotFittedError):
        MODELS[name]().predict(data.X)
    model = MODELS[name]().fit(data.X)
    with pytest.raises(ValueError, match="features"):
        model.predict(data.X[:, :5])


def test_a_truncated_file_is_refused_in_one_line(data, tmp_path):
    path = tmp_path / "model.safetensors"
    MODELS["closed-form"]().fit(data.X).save(path)
    whole = path.read_bytes()
    for size in (0, 4, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(InputError, match="damaged") as raised:
            ClosedFormSubspaceClustering.load(path)
        assert "\n" not in str(raised.value)


def test_a_model_from_a_newer_version_says_so(data, tmp_path):
    path = tmp_path / "model.safetensors"
    MODELS["closed-form"]().fit(data.X).save(path)
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["dcfsc"])
        tensors = {k: file.get_tensor(k) for k in file.keys()}  # noqa: SIM118
    header["format"], header["version"] = 99, "7.0"
    save_file(tensors, path, metadata={"dcfsc": json.dumps(header)})
    with pytest.raises(InputError, match=r"dcfsc 7\.0 in model format 99.*Upgrade"):
        ClosedFormSubspaceClustering.load(path)


def test_other_files_and_classes_are_refused(data, tmp_path):
    path = tmp_path / "other.safetensors"
    save_file({"x": torch.zeros(2)}, path)
    with pytest.raises(InputError, match="not a dcfsc model"):
        load_model(path)
    with pytest.raises(InputError, match="no model file"):
        load_model(tmp_path / "absent.safetensors")
    MODELS["closed-form"]().fit(data.X).save(path)
    with pytest.raises(InputError, match="use ClosedFormSubspaceClustering"):
        DCFSC.load(path)


def test_a_parameter_that_cannot_be_saved_is_named(data, tmp_path):
    model = MODELS["closed-form"](affinity=lambda c, k: TopK()(c, k)).fit(data.X)
    with pytest.raises(InputError, match="parameter affinity="):
        model.save(tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())


def test_lam_auto_hits_the_degrees_of_freedom(data):
    model = ClosedFormSubspaceClustering(n_clusters=3, subspace_dim=3.0, random_state=0).fit(data.X)
    assert model.effective_dof_ == pytest.approx(9.0, rel=1e-4)
    fixed = ClosedFormSubspaceClustering(n_clusters=3, lam=0.5, random_state=0).fit(data.X)
    assert fixed.lam_ == 0.5
    with pytest.raises(InputError, match="lam must be a positive number or 'auto'"):
        ClosedFormSubspaceClustering(lam="automatic").fit(data.X)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", MODELS)
def test_a_model_moves_between_devices(name, data, tmp_path):
    model = MODELS[name](device="cuda").fit(data.X[:160])
    model.save(tmp_path / "model.safetensors")
    on_cpu = type(model).load(tmp_path / "model.safetensors", device="cpu")
    assert np.array_equal(on_cpu.predict(data.X[160:]), model.predict(data.X[160:]))
