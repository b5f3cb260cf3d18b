"""What every transformer must satisfy, on images: scikit-learn's own checks are of flat rows."""

import pickle
import warnings

import numpy as np
import pytest
import torch
from safetensors import safe_open
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch import nn

from dcfsc import AutoencoderFeatures, EncoderFeatures, ScatteringFeatures
from dcfsc.errors import InputError
from dcfsc.estimators import encoder_features
from dcfsc.estimators.registry import FEATURES, load_model
from dcfsc.features.encoders import InputImages, TorchEncoder

TRANSFORMERS = {
    "autoencoder": lambda **o: AutoencoderFeatures(
        **{"pretrain_epochs": 2, "random_state": 0, "device": "cpu", "verbose": False, **o}
    ),
    "encoder": lambda **o: EncoderFeatures(
        **{"name": "tiny", "cache": None, "device": "cpu", "verbose": False, **o}
    ),
    "scattering": lambda **o: ScatteringFeatures(
        **{"J": 2, "L": 4, "n_components": 5, "device": "cpu", "verbose": False, **o}
    ),
}
over_all = pytest.mark.parametrize("name", TRANSFORMERS)


@pytest.fixture(autouse=True)
def a_small_encoder(monkeypatch):
    """In place of a pretrained network, what pools an image."""

    def opened(name, device):
        pool = nn.Sequential(nn.AvgPool2d(4), nn.Flatten())
        return TorchEncoder("tiny", pool, InputImages((12, 12)), device)

    monkeypatch.setattr(encoder_features, "open_encoder", opened)


def test_every_transformer_is_here():
    assert TRANSFORMERS.keys() == FEATURES.keys()


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (24, 16, 16)).astype(np.uint8)


def tensors_of(path):
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


@over_all
def test_parameters_are_kept_as_given_and_survive_a_clone(name, images):
    model = TRANSFORMERS[name]()
    before = model.get_params()
    assert model.fit(images) is model
    assert model.get_params() == before
    copy = clone(model)
    assert copy.get_params() == before
    with pytest.raises(NotFittedError):
        copy.transform(images)
    other = {
        "autoencoder": {"pretrain_epochs": 1},
        "encoder": {"batch_size": 3},
        "scattering": {"n_components": 3},
    }[name]
    assert copy.set_params(**other) is copy
    assert copy.get_params() == {**before, **other}
    with pytest.raises(ValueError, match="Invalid parameter"):
        copy.set_params(nonsense=1)


@over_all
def test_fit_and_transform_are_fit_transform(name, images):
    together = TRANSFORMERS[name]().fit_transform(images)
    model = TRANSFORMERS[name]().fit(images)
    np.testing.assert_array_equal(model.transform(images), together)
    np.testing.assert_array_equal(model.transform(images), together)  # and leaves no trace
    assert together.dtype == np.float32
    assert together.shape == (24, model._n_features_out)
    assert np.isfinite(together).all()


@over_all
def test_a_sample_has_the_same_features_whoever_stands_beside_it(name, images):
    model = TRANSFORMERS[name]().fit(images)
    alone = np.concatenate([model.transform(images[i : i + 1]) for i in range(6)])
    np.testing.assert_allclose(alone, model.transform(images)[:6], rtol=1e-4, atol=1e-5)


@over_all
def test_the_same_seed_gives_the_same_features_and_touches_no_global_state(name, images):
    numpy_state = np.random.get_state()[1].copy()  # noqa: NPY002
    torch_state = torch.random.get_rng_state()
    one = TRANSFORMERS[name]().fit_transform(images)
    torch.rand(1, generator=torch.Generator().manual_seed(9))
    two = clone(TRANSFORMERS[name]()).fit_transform(images)
    np.testing.assert_array_equal(one, two)
    assert np.array_equal(numpy_state, np.random.get_state()[1])  # noqa: NPY002
    assert torch.equal(torch_state, torch.random.get_rng_state())


@over_all
def test_a_second_fit_forgets_the_first(name, images):
    expected = TRANSFORMERS[name]().fit(images)
    model = TRANSFORMERS[name]().fit(255 - images[:, :8, :8]).fit(images)
    np.testing.assert_array_equal(model.transform(images), expected.transform(images))
    assert model.sample_shape_ == expected.sample_shape_
    np.testing.assert_array_equal(model.fit_transform(images), expected.transform(images))


@over_all
@pytest.mark.usefixtures("every_warning")
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
def test_a_read_only_file_is_read_without_a_warning_and_left_as_it_was(
    name, dtype, images, tmp_path
):
    X = images.astype(dtype)
    np.save(tmp_path / "X.npy", X)
    on_disk = np.load(tmp_path / "X.npy", mmap_mode="r")
    read_only = X.copy()
    read_only.flags.writeable = False
    expected = TRANSFORMERS[name]().fit_transform(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for given in (on_disk, read_only):
            np.testing.assert_array_equal(TRANSFORMERS[name]().fit_transform(given), expected)
            np.testing.assert_array_equal(given, X)


@over_all
def test_every_type_that_holds_the_same_pixels_gives_the_same_features(name, images):
    X = images // 16 * 16  # exact in all of the types
    expected = TRANSFORMERS[name]().fit_transform(X)
    for other in (
        X.astype(np.float32),
        X.astype(np.float64),
        X.tolist(),
        torch.from_numpy(X).float(),
        np.asfortranarray(X),
        np.repeat(X, 2, axis=2)[:, :, ::2],
    ):
        found = TRANSFORMERS[name]().fit_transform(other)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
        assert found.dtype == np.float32


@over_all
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda X: np.where(np.arange(24)[:, None, None] == 3, np.nan, X), "NaN"),
        (lambda X: np.where(np.arange(24)[:, None, None] == 3, np.inf, X), "infinity"),
        (lambda X: X[:0], r"0 sample|shape \(0, 16, 16\)"),
        (lambda X: X[0, 0], r"1 dimension|shape \(16,\)"),
        (lambda X: X[:, None, None, None], r"dimensions|shape \(24, 1, 1, 1, 16, 16\)"),
        (lambda X: np.full(X.shape, "a"), "not real numbers|convert"),
        (lambda X: [[[1.0, 2.0], [3.0]]], "inhomogeneous"),
        (lambda X: X * 1j, "[Cc]omplex"),
    ],
)
def test_what_cannot_be_used_is_one_line(name, spoil, said, images):
    with pytest.raises(InputError, match=said) as raised:
        TRANSFORMERS[name]().fit(spoil(images))
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 300


@over_all
def test_unseen_samples_are_checked_as_the_fitted_ones_were(name, images):
    model = TRANSFORMERS[name]()
    with pytest.raises(NotFittedError):
        model.transform(images)
    model.fit(images)
    for wrong in (images[:, :8], images.reshape(24, -1), np.where(images > 3, np.nan, 1.0)):
        with pytest.raises(InputError) as raised:
            model.transform(wrong)
        assert "\n" not in str(raised.value)


@over_all
def test_a_saved_model_comes_back_value_by_value(name, images, tmp_path):
    model = TRANSFORMERS[name]().fit(images)
    model.save(tmp_path / "one")
    again = load_model(tmp_path / "one")
    again.save(tmp_path / "two")
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    one, two = tensors_of(tmp_path / "one"), tensors_of(tmp_path / "two")
    assert one.keys() == two.keys()
    for key, value in one.items():
        assert value.dtype == two[key].dtype
        assert torch.equal(value, two[key]), key
    assert {k: v for k, v in vars(again).items() if isinstance(v, int | float | str | tuple)} == {
        k: v for k, v in vars(model).items() if isinstance(v, int | float | str | tuple)
    }
    for attribute, value in vars(model).items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(getattr(again, attribute), value)
    unseen = np.random.default_rng(1).integers(0, 256, (7, 16, 16)).astype(np.uint8)
    np.testing.assert_array_equal(again.transform(unseen), model.transform(unseen))
    assert list(again.get_feature_names_out()) == list(model.get_feature_names_out())


@over_all
def test_a_pickled_model_gives_the_same_features(name, images):
    model = TRANSFORMERS[name]().fit(images)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(images), model.transform(images))


@over_all
def test_features_have_names_and_can_be_a_frame(name, images):
    pd = pytest.importorskip("pandas")
    model = TRANSFORMERS[name]()
    with pytest.raises(NotFittedError):
        model.get_feature_names_out()
    plain = model.fit_transform(images)
    prefix = type(model).__name__.lower()
    names = [f"{prefix}{i}" for i in range(plain.shape[1])]
    assert list(model.get_feature_names_out()) == names
    model.set_output(transform="pandas")
    frame = model.transform(images)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == names
    np.testing.assert_array_equal(frame.to_numpy(), plain)
    pd.testing.assert_frame_equal(clone(model).fit_transform(images), frame)
