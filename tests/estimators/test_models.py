"""Prediction and persistence of the two estimators that have them."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from dcfsc import DCFSC, ClosedFormSubspaceClustering, affinity, representations
from dcfsc.affinity import TopK
from dcfsc.errors import InputError
from dcfsc.estimators import persistence, prediction
from dcfsc.estimators.prediction import vote
from dcfsc.estimators.registry import load_model
from dcfsc.io import synthetic
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
    before, model = path.read_bytes(), MODELS["closed-form"]().fit(data.X)
    with pytest.raises(InputError, match=r"exists and is not a dcfsc model; choose"):
        model.save(path)
    assert path.read_bytes() == before
    path = tmp_path / "model.safetensors"
    model.save(path)
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
    with pytest.raises(InputError, match="lam='automatic' is not allowed: a number"):
        ClosedFormSubspaceClustering(lam="automatic").fit(data.X)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("name", MODELS)
def test_a_model_moves_between_devices(name, data, tmp_path):
    model = MODELS[name](device="cuda").fit(data.X[:160])
    model.save(tmp_path / "model.safetensors")
    on_cpu = type(model).load(tmp_path / "model.safetensors", device="cpu")
    assert np.array_equal(on_cpu.predict(data.X[160:]), model.predict(data.X[160:]))


# What a file must bring back, by value: labels of easy data are the same for a spoilt model too.

OPTIONS = {
    **{name: {"representation": name} for name in representations.names()},
    "not of unit length": {"normalize": False},
    "latents": None,
}


def model_of_images(name):
    """A model of small images, in one of the representations that there are."""
    if OPTIONS[name] is None:
        return MODELS["dcfsc"](device="cpu")
    return MODELS["closed-form"](device="cpu", **OPTIONS[name])


@pytest.fixture(scope="module")
def pictures():
    bunch = load_digits()
    return bunch.images[np.isin(bunch.target, (3, 5, 8))].astype(np.float32)[:210]


@pytest.fixture(scope="module", params=OPTIONS)
def saved(request, pictures, tmp_path_factory):
    """A model, the same one loaded, and the files that both wrote."""
    files = [tmp_path_factory.mktemp("saved") / f"{name}.safetensors" for name in ("one", "two")]
    model = model_of_images(request.param).fit(pictures[:120])
    model.save(files[0])
    again = load_model(files[0])
    again.save(files[1])
    return model, again, files


def content(path):
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return json.loads(file.metadata()["dcfsc"]), tensors


def test_a_loaded_model_writes_the_same_file_again(saved):
    _, _, files = saved
    (header, one), (again, two) = map(content, files)
    assert header == again
    assert list(one) == list(two)
    for name, value in one.items():
        assert value.dtype == two[name].dtype, name
        assert value.shape == two[name].shape, name
        assert value.numpy().tobytes() == two[name].numpy().tobytes(), name


def test_a_loaded_model_has_every_fitted_value(saved):
    model, again, _ = saved
    plain = (bool, int, float, str, tuple, dict)
    for name, value in vars(model).items():
        if isinstance(value, plain) and not name.endswith("__"):
            assert getattr(again, name) == value, name
    np.testing.assert_array_equal(again.labels_, model.labels_)
    if model.lam_ is None:
        assert (again.lam_, again.leverage_, again.effective_dof_) == (None, None, None)
        return
    np.testing.assert_allclose(again.leverage_, model.leverage_, rtol=1e-5)
    assert again.effective_dof_ == pytest.approx(model.effective_dof_, rel=1e-6)


def border(model, X):
    """Points between samples of two clusters, on either side of where the prediction changes."""
    labels = model.predict(X)
    rng = np.random.default_rng(0)
    pairs = rng.choice(len(X), (400, 2))
    start, end = pairs[labels[pairs[:, 0]] != labels[pairs[:, 1]]][:80].T
    low, high = np.zeros((len(start), 1, 1)), np.ones((len(start), 1, 1))
    for _ in range(9):
        middle = (low + high) / 2
        points = (1 - middle) * X[start] + middle * X[end]
        same = (model.predict(points.astype(np.float32)) == labels[start])[:, None, None]
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    sides = [(1 - t) * X[start] + t * X[end] for t in (low, high)]
    return np.concatenate(sides).astype(np.float32)


def test_points_on_the_border_of_two_clusters_are_predicted_the_same(saved, pictures):
    model, again, _ = saved
    points = border(model, pictures[120:])
    predicted = model.predict(points)
    half = len(points) // 2
    assert half >= 40
    assert (predicted[:half] != predicted[half:]).mean() > 0.9  # the points do lie on a border
    np.testing.assert_array_equal(again.predict(points), predicted)


def votes_of(model, X, monkeypatch):
    """What a prediction lets vote: features, codes, leverages, labels, and how many of each."""
    seen = []

    def watched(*arguments):
        seen.append(arguments)
        return vote(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(prediction, "vote", watched)
        labels = model.predict(X)
    ((operator, owners, n_clusters, z, k),) = seen
    values, indices = operator.topk_code(z, k)
    np.testing.assert_array_equal(labels, vote(operator, owners, n_clusters, z, k))
    return z, values, indices, operator.leverage, owners, n_clusters, k


def test_the_votes_of_a_loaded_model_are_the_same(saved, pictures, monkeypatch):
    model, again, _ = saved
    points = border(model, pictures[120:])
    before, after = (votes_of(m, points, monkeypatch) for m in (model, again))
    for one, two in zip(before[:4], after[:4], strict=True):
        if one is None:
            assert two is None
            continue
        np.testing.assert_allclose(one.numpy(), two.numpy(), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(before[4], after[4])
    assert before[5:] == after[5:] == (3, model.n_neighbors)


def test_a_training_sample_is_seen_as_it_was_in_the_fit(saved, pictures, monkeypatch):
    model, again, files = saved
    _, tensors = content(files[0])
    expected = tensors.get("features", tensors.get("latents")).double()
    if expected.ndim == 3:  # images and mirror images: unseen ones are seen as the first
        expected = expected[:, 0]
    expected = expected / torch.linalg.vector_norm(expected, dim=1, keepdim=True)
    for one in (model, again):
        z = votes_of(one, pictures[:120], monkeypatch)[0].double()
        z = z / torch.linalg.vector_norm(z, dim=1, keepdim=True)
        torch.testing.assert_close(z, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "made",
    [
        affinity.DoublyStochastic(0.2, relative=False),
        affinity.LowRank(share=0.5, dim=2, power=3.0),
        affinity.NearestCodes(4),
        affinity.RowSpace(),
        affinity.Symmetric(scale=False),
        affinity.TopK(6),
    ],
    ids=lambda made: type(made).__name__,
)
def test_every_affinity_is_saved_with_its_model(made, data, tmp_path):
    model = ClosedFormSubspaceClustering(3, affinity=made, random_state=0, device="cpu")
    model.fit(data.X[:60]).save(tmp_path / "model.safetensors")
    again = ClosedFormSubspaceClustering.load(tmp_path / "model.safetensors")
    assert again.affinity == made
    np.testing.assert_array_equal(again.labels_, model.labels_)
    again.set_params(random_state=0).fit(data.X[:60])
    np.testing.assert_array_equal(again.labels_, model.labels_)


def test_no_affinity_is_left_out_of_what_can_be_saved():
    inner = {affinity.Joined, affinity.Affinity}
    public = {kind for kind in vars(affinity).values() if dataclasses.is_dataclass(kind)}
    assert public - inner == set(persistence._AFFINITIES.values())
