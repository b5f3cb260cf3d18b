from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

from dcfsc import ClosedFormSubspaceClustering, ScatteringFeatures
from dcfsc.errors import InputError
from dcfsc.features.principal_components import RunningCovariance, principal_components
from dcfsc.features.scattering import Scattering

CPU = torch.device("cpu")


def pictures(n: int, *shape: int, seed: int = 0) -> np.ndarray:
    """Smooth random images: blobs, as bytes."""
    rng = np.random.default_rng(seed)
    h, w = shape[-2:]
    rows, columns = np.mgrid[:h, :w]
    centers = rng.uniform(0.2, 0.8, (n, *shape[:-2], 3, 2, 1, 1)) * np.array([h, w])[:, None, None]
    spread = rng.uniform(1.0, 4.0, (n, *shape[:-2], 3, 1, 1))
    square = (rows - centers[..., 0, :, :]) ** 2 + (columns - centers[..., 1, :, :]) ** 2
    return (255 * np.exp(-square / spread**2).max(axis=-3)).astype(np.uint8)


@pytest.fixture(scope="module")
def digits() -> np.ndarray:
    return pictures(60, 16, 16)


@pytest.mark.parametrize(
    ("shape", "J", "L"), [((32, 32), 3, 8), ((16, 24), 2, 6), ((8, 8), 3, 4), ((8, 8), 1, 8)]
)
def test_coefficients_are_those_of_the_package(shape, J, L):
    x = torch.from_numpy(pictures(5, *shape)).float() / 255
    # the package's own torch module also imports its 3D part, which needs an older SciPy
    kymatio = pytest.importorskip("kymatio.scattering2d.frontend.torch_frontend")
    expected = kymatio.ScatteringTorch2D(J=J, shape=shape, L=L)(x)
    found = Scattering(shape, J, L, CPU)(x)
    assert found.shape == expected.shape
    assert found.shape[1] == 1 + L * J + L * L * J * (J - 1) // 2
    assert (found - expected).abs().max() < 2e-6 * expected.abs().max()


def test_images_are_padded_with_zeros_to_a_multiple():
    x = torch.from_numpy(pictures(3, 28, 28)).float() / 255
    padded = torch.nn.functional.pad(x, (2, 2, 2, 2))
    expected = Scattering((32, 32), 3, 8, CPU)(padded)
    found = Scattering((28, 28), 3, 8, CPU)(x)
    assert found[0].numel() == 3472
    assert torch.equal(found, expected)


def test_blocks_of_images_do_not_change_the_result():
    x = torch.from_numpy(pictures(7, 16, 16)).float() / 255
    scattering = Scattering((16, 16), 2, 4, CPU)
    scattering._block = 3
    by_one = torch.cat([scattering(image[None]) for image in x])
    assert torch.allclose(scattering(x), by_one, rtol=0, atol=1e-7)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_all_cores_have_as_many_blocks(threads):
    scattering = Scattering((16, 16), 2, 4, CPU)
    scattering._block = 10
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        sizes = [scattering._block_of(n) for n in (0, 1, 7, 20, 21, 60, 64)]
    finally:
        torch.set_num_threads(before)
    assert (
        sizes
        == {
            1: [1, 1, 7, 10, 7, 10, 10],
            2: [1, 1, 4, 10, 6, 10, 8],
            3: [1, 1, 3, 7, 7, 10, 8],
        }[threads]
    )


@pytest.mark.parametrize("whole", [True, False])
def test_components_are_those_of_scikit_learn(whole):
    rng = np.random.default_rng(0)
    n, d, k = (30, 40, 6) if whole else (90, 40, 6)
    S = rng.normal(size=(n, d)) * np.linspace(3, 0.1, d) + 50.0
    if whole:
        mean, components, variances = principal_components(torch.from_numpy(S), k)
    else:
        running = RunningCovariance(d, CPU)
        for part in torch.from_numpy(S).split(17):
            running.add(part)
        mean, components, variances = running.principal(k)
    expected = PCA(k, svd_solver="full").fit(S)
    np.testing.assert_allclose(mean, expected.mean_, rtol=1e-12)
    np.testing.assert_allclose(variances, expected.explained_variance_, rtol=1e-9)
    signs = np.sign((components * expected.components_).sum(axis=1))
    np.testing.assert_allclose(components * signs[:, None], expected.components_, atol=1e-9)
    assert (components.max(axis=1) >= -components.min(axis=1)).all()


@pytest.mark.parametrize("whole", [True, False])
def test_components_without_centring_are_singular_vectors(whole):
    rng = np.random.default_rng(1)
    n, d, k = (30, 40, 6) if whole else (90, 40, 6)
    S = rng.normal(size=(n, d)) * np.linspace(3, 0.1, d) + rng.normal(size=d) * 5.0
    if whole:
        mean, components, variances = principal_components(torch.from_numpy(S), k, center=False)
    else:
        running = RunningCovariance(d, CPU)
        for part in torch.from_numpy(S).split(17):
            running.add(part)
        mean, components, variances = running.principal(k, center=False)
    _, s, V = np.linalg.svd(S, full_matrices=False)
    assert not mean.any()
    np.testing.assert_allclose(variances, s[:k] ** 2 / n, rtol=1e-9)
    signs = np.sign((components * V[:k]).sum(axis=1))
    np.testing.assert_allclose(components * signs[:, None], V[:k], atol=1e-9)


@pytest.mark.parametrize("n", [60, 200])  # fewer and more samples than the 80 coefficients
def test_features_without_centring_keep_the_angles_between_coefficients(n, tmp_path):
    X = pictures(n, 8, 8)
    model = ScatteringFeatures(J=1, L=4, n_components=80, center=False, batch_size=33, device="cpu")
    Z = model.fit_transform(X)
    S = model._model.coefficients(torch.from_numpy(X)).double().numpy()
    S /= np.linalg.norm(S, axis=1, keepdims=True)
    # all components are kept, so that the projection is a rotation
    np.testing.assert_allclose(Z @ Z.T, S @ S.T, atol=1e-5)
    centered = clone(model).set_params(center=True).fit_transform(X)
    assert np.abs(centered @ centered.T - S @ S.T).max() > 0.1
    model.save(tmp_path / "model")
    again = ScatteringFeatures.load(tmp_path / "model")
    assert again.center is False
    np.testing.assert_array_equal(again.transform(X), Z)


@pytest.mark.parametrize("n", [60, 200])  # fewer and more samples than the 80 coefficients
def test_features_are_the_principal_components_of_the_coefficients(n):
    X = pictures(n, 8, 8)
    model = ScatteringFeatures(
        J=1, L=4, n_components=7, unit_rows=False, scale_paths=False, batch_size=33, device="cpu"
    )
    Z = model.fit_transform(X)
    S = Scattering((8, 8), 1, 4, CPU)(torch.from_numpy(X).float() / 255).flatten(1).numpy()
    expected = PCA(7, svd_solver="full").fit_transform(S.astype(np.float64))
    signs = np.sign((Z * expected).sum(axis=0))
    np.testing.assert_allclose(Z * signs, expected, atol=2e-5)
    assert Z.dtype == np.float32
    assert list(model.get_feature_names_out())[-1] == "scatteringfeatures6"


def test_rows_have_unit_length_and_brightness_does_not_matter(digits):
    model = ScatteringFeatures(J=2, L=4, n_components=10, device="cpu").fit(digits)
    Z = model.transform(digits)
    np.testing.assert_allclose(np.linalg.norm(Z, axis=1), 1.0, rtol=1e-5)
    darker = model.transform((digits // 2 * 2 / 2).astype(np.uint8))
    same = model.transform((digits // 2 * 2).astype(np.uint8))
    np.testing.assert_allclose(darker, same, atol=1e-3)


def test_paths_are_scaled_to_their_largest_magnitude(digits):
    model = ScatteringFeatures(J=2, L=4, n_components=3, device="cpu").fit(digits)
    S = model._model.coefficients(torch.from_numpy(digits)).reshape(len(digits), -1, 16)
    torch.testing.assert_close(S.abs().amax(dim=2), torch.ones(S.shape[:2]))


def test_blank_and_constant_images_give_finite_features(digits):
    X = digits.copy()
    X[0], X[1] = 0, 200
    Z = ScatteringFeatures(J=2, L=4, n_components=5, device="cpu").fit_transform(X)
    assert np.isfinite(Z).all()


def test_color_channels_stand_side_by_side():
    X = pictures(20, 3, 16, 16)
    model = ScatteringFeatures(J=2, L=4, n_components=5, device="cpu").fit(X)
    gray = model._model.coefficients(torch.from_numpy(X))
    assert gray.shape == (20, 3 * 25 * 16)
    alone = ScatteringFeatures(J=2, L=4, n_components=5, device="cpu").fit(X[:, 1])
    torch.testing.assert_close(
        gray[:, 25 * 16 : 2 * 25 * 16],
        alone._model.coefficients(torch.from_numpy(np.ascontiguousarray(X[:, 1]))),
    )


def test_bytes_floats_and_any_scale_of_floats_agree(digits):
    model = ScatteringFeatures(J=2, L=4, n_components=5, device="cpu")
    expected = model.fit_transform(digits)
    for other in (
        digits / 255.0,
        digits.astype(np.float32),
        digits * 1e200,
        digits.astype(int),
        digits.astype(np.float16),
    ):
        np.testing.assert_allclose(clone(model).fit_transform(other), expected, atol=1e-4)
        assert clone(model).fit(other).input_scale_ == pytest.approx(1 / other.max())


class Sliced:
    """Images that can only be sliced."""

    def __init__(self, X: np.ndarray):
        self._X = X
        self.shape, self.dtype, self.ndim = X.shape, X.dtype, X.ndim
        self.longest = 0

    def __len__(self) -> int:
        return len(self._X)

    def __getitem__(self, rows: slice) -> np.ndarray:
        part = self._X[rows]
        self.longest = max(self.longest, len(part))
        return part


def test_only_slices_of_a_chunk_are_read(digits):
    X = Sliced(digits)
    model = ScatteringFeatures(J=2, L=4, n_components=5, batch_size=8, device="cpu")
    Z = model.fit_transform(X)
    assert X.longest == 8
    np.testing.assert_allclose(Z, clone(model).fit_transform(digits), atol=1e-6)


def test_saved_features_are_the_same(digits, tmp_path: Path):
    model = ScatteringFeatures(J=2, L=4, n_components=5, device="cpu").fit(digits)
    model.save(tmp_path / "features.safetensors")
    again = ScatteringFeatures.load(tmp_path / "features.safetensors")
    assert again.get_params() == model.get_params()
    assert np.array_equal(again.transform(digits), model.transform(digits))
    assert again.explained_variance_.tolist() == model.explained_variance_.tolist()


def test_pipeline(digits):
    pipeline = make_pipeline(
        ScatteringFeatures(J=2, L=4, n_components=20),
        ClosedFormSubspaceClustering(n_clusters=2, random_state=0),
    )
    labels = pipeline.fit_predict(digits)
    assert np.array_equal(clone(pipeline).fit_predict(digits), labels)
    assert set(labels) == {0, 1}


def test_components_are_at_most_the_samples(digits):
    assert ScatteringFeatures(J=2, L=4).fit(digits[:9]).transform(digits[:2]).shape == (2, 9)
    every = ScatteringFeatures(J=3, L=4, n_components=None).fit(pictures(80, 8, 8))
    assert every.components_.shape == (61, 61)


@pytest.mark.parametrize(
    ("options", "X", "said"),
    [
        ({"J": 5}, np.zeros((4, 16, 16), np.uint8), "at least 32 x 32 pixels; these are 16 x 16"),
        ({"J": 0}, np.zeros((4, 16, 16), np.uint8), "J=0 is not allowed: an integer of at least 1"),
        ({"n_components": 0}, np.zeros((4, 16, 16), np.uint8), "n_components=0 is not"),
        ({"batch_size": 2.5}, np.zeros((4, 16, 16), np.uint8), "batch_size=2.5 is not"),
        ({}, np.zeros((4, 64)), r"images \(n, h, w\)"),
        ({}, np.zeros((1, 16, 16)), "at least 2 samples"),
        ({}, np.full((4, 16, 16), "a"), "not real numbers"),
        ({}, np.where(np.arange(4)[:, None, None] == 2, np.nan, np.ones((4, 16, 16))), "row 2"),
    ],
)
def test_unusable_input_is_one_line(options, X, said):
    with pytest.raises(InputError, match=said) as raised:
        ScatteringFeatures(**{"device": "cpu", **options}).fit(X)
    assert "\n" not in str(raised.value)


def test_another_shape_is_refused(digits):
    model = ScatteringFeatures(J=2, L=4, n_components=5).fit(digits)
    with pytest.raises(
        InputError, match=r"\(8, 8\), but ScatteringFeatures was fitted on \(16, 16\)"
    ):
        model.transform(pictures(3, 8, 8))


def test_paths_of_a_single_number_are_not_scaled_to_a_constant():
    X = np.random.default_rng(0).integers(0, 17, (30, 8, 8)).astype(np.uint8)
    Z = ScatteringFeatures(J=3, L=4, n_components=5, device="cpu", verbose=False).fit_transform(X)
    assert np.linalg.matrix_rank(Z) == 5


@pytest.mark.parametrize("center", [False, True])
def test_copies_of_rows_change_no_component(center):
    distinct = torch.randn(6, 40, generator=torch.Generator().manual_seed(0))
    rows = distinct.repeat(5, 1)
    mean, components, variances = principal_components(rows, 20, center)
    left = rows.double() - torch.from_numpy(mean)
    _, s, V = torch.linalg.svd(left, full_matrices=False)
    assert components.shape == (6, 40)
    np.testing.assert_allclose(variances, s[:6].square() / (29 if center else 30), atol=1e-12)
    rank = 5 if center else 6
    np.testing.assert_allclose(np.abs(np.diag(components[:rank] @ V[:rank].numpy().T)), 1.0)
