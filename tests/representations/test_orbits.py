"""Pictures with their shifts and mirror images."""

import numpy as np
import pytest
import torch

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.errors import InputError
from dcfsc.estimators.registry import load_model
from dcfsc.metrics import clustering_error
from dcfsc.representations.orbits import check_transformations, permutations


def shifted_pictures(n=120, seed=0):
    """Three random pictures, each shown at a random place one pixel around its own."""
    random = np.random.default_rng(seed)
    prototypes = random.normal(size=(3, 8, 8))
    y = np.arange(n) % 3
    X = np.stack([np.roll(prototypes[k], random.integers(-1, 2, 2), (0, 1)) for k in y])
    return (X + 0.3 * random.normal(size=X.shape)).astype(np.float32), y


@pytest.mark.parametrize(("name", "count"), [("none", 1), ("shifts", 5), ("mirror", 2)])
def test_permutations_are_the_picture_changed(name, count):
    X = torch.arange(2 * 3 * 4 * 5).view(2, 3, 4, 5)
    found = permutations(name, (3, 4, 5))
    assert len(found) == count
    assert torch.equal(X.flatten(1)[:, found[0]], X.flatten(1))
    if name == "shifts":
        assert torch.equal(X.flatten(1)[:, found[1]], X.roll(1, -2).flatten(1))
        assert torch.equal(X.flatten(1)[:, found[4]], X.roll(-1, -1).flatten(1))
    if name == "mirror":
        assert torch.equal(X.flatten(1)[:, found[1]], X.flip(-1).flatten(1))


def test_both_are_ten():
    assert len(permutations("shifts+mirror", (6, 7))) == 10


def test_pictures_of_any_size_have_them():
    for shape in ((8, 8), (3, 100, 100)):
        check_transformations("shifts", shape)
    check_transformations("none", (64,))


def test_vectors_have_no_transformations():
    with pytest.raises(InputError, match="vectors"):
        ClosedFormSubspaceClustering(2, transformations="mirror").fit(np.eye(6))
    with pytest.raises(InputError, match="unknown set of transformations"):
        ClosedFormSubspaceClustering(2, transformations="flips").fit(np.eye(6))


def test_shifts_find_what_is_shifted():
    X, y = shifted_pictures()
    model = ClosedFormSubspaceClustering(3, transformations="shifts", random_state=0).fit(X)
    assert (model.transformations_, model.features_, model.metric_) == ("shifts", "given", "none")
    assert model.stability_ == {}
    assert clustering_error(y, model.labels_) == 0.0


def test_a_saved_model_predicts_over_the_same_orbits(tmp_path):
    X, y = shifted_pictures(160)
    model = ClosedFormSubspaceClustering(3, transformations="shifts+mirror", random_state=0)
    model.fit(X[:120]).save(tmp_path / "model.safetensors")
    loaded = load_model(tmp_path / "model.safetensors", device="cpu")
    assert loaded.transformations_ == "shifts+mirror"
    found = loaded.predict(X[120:])
    np.testing.assert_array_equal(found, model.predict(X[120:]))
    assert clustering_error(y[120:], found) == 0.0
