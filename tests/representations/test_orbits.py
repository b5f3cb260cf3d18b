"""Images with their shifts and mirror images."""

import numpy as np
import pytest
import torch

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.errors import InputError
from dcfsc.estimators.registry import load_model
from dcfsc.metrics import clustering_error
from dcfsc.representations.base import Setting
from dcfsc.representations.orbits import ShiftsAndMirror, permutations
from dcfsc.self_expression import effective_dof, orbit_gram


def shifted_images(n=120, seed=0):
    """Three random images, each shown at a random place one pixel around its own."""
    random = np.random.default_rng(seed)
    prototypes = random.normal(size=(3, 8, 8))
    y = np.arange(n) % 3
    X = np.stack([np.roll(prototypes[k], random.integers(-1, 2, 2), (0, 1)) for k in y])
    return (X + 0.3 * random.normal(size=X.shape)).astype(np.float32), y


def test_permutations_are_the_image_changed():
    X = torch.arange(2 * 3 * 4 * 5).view(2, 3, 4, 5)
    shifted = [X, X.roll(1, -2), X.roll(-1, -2), X.roll(1, -1), X.roll(-1, -1)]
    expected = {
        (False, False): [X],
        (True, False): shifted,
        (False, True): [X, X.flip(-1)],
        (True, True): [*shifted, *(x.flip(-1) for x in shifted)],
    }
    for (shifts, mirror), images in expected.items():
        changes = permutations((3, 4, 5), shifts, mirror)
        assert len(changes) == len(images)
        for index, image in zip(changes, images, strict=True):
            assert torch.equal(X.flatten(1)[:, index], image.flatten(1))


@pytest.mark.parametrize("name", ["shifts", "mirror", "shifts+mirror"])
def test_vectors_have_no_orbits(name):
    with pytest.raises(InputError, match=r"is for images .* the samples are vectors") as raised:
        ClosedFormSubspaceClustering(2, representation=name).fit(np.eye(6))
    assert repr(name) in str(raised.value)


def test_shifts_find_what_is_shifted():
    X, y = shifted_images()
    model = ClosedFormSubspaceClustering(3, representation="shifts", random_state=0).fit(X)
    assert model.representation_ == "shifts"
    assert model.stability_ == {}
    assert clustering_error(y, model.labels_) == 0.0


def test_the_ridge_has_the_degrees_of_freedom_that_were_asked_for():
    X, _ = shifted_images()
    Z = torch.nn.functional.normalize(torch.from_numpy(X).flatten(1).double())
    for m, expected in ((None, 1.5), (4.0, 4.0)):
        representation = ShiftsAndMirror(Setting((8, 8), 3, subspace_dim=m))
        operator = representation.solve(representation.transform(Z))
        squares = torch.linalg.eigvalsh(orbit_gram(representation._views(Z)))
        assert operator.effective_dof == pytest.approx(3 * expected, rel=1e-6)
        assert effective_dof(squares, operator.lam) == pytest.approx(3 * expected, rel=1e-6)
        assert representation.lam == operator.lam
    given = ShiftsAndMirror(Setting((8, 8), 3, lam=0.25))
    assert given.solve(Z).lam == 0.25


def test_a_saved_model_predicts_over_the_same_orbits(tmp_path):
    X, y = shifted_images(160)
    model = ClosedFormSubspaceClustering(3, representation="shifts+mirror", random_state=0)
    model.fit(X[:120]).save(tmp_path / "model.safetensors")
    loaded = load_model(tmp_path / "model.safetensors", device="cpu")
    assert (loaded.representation_, loaded.lam_) == ("shifts+mirror", model.lam_)
    np.testing.assert_array_equal(loaded.leverage_, model.leverage_)
    predicted = loaded.predict(X[120:])
    np.testing.assert_array_equal(predicted, model.predict(X[120:]))
    assert clustering_error(y[120:], predicted) == 0.0
