"""Pictures by their scattering coefficients: chosen, refused, saved, divided among processes."""

import numpy as np
import pytest
import torch

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.affinity import TopK
from dcfsc.affinity.base import ways_of
from dcfsc.errors import InputError
from dcfsc.estimators.scattering_features import ScatteringFeatures
from dcfsc.metrics import clustering_error
from dcfsc.representations.neighbour_metric import neighbour_metric, plain_ridge
from dcfsc.representations.scattering import (
    Pictures,
    choose_pictures,
    enlarged,
    may_scatter,
    mirror_form,
)
from dcfsc.self_expression import solve
from dcfsc.self_expression.combined import Ways
from dcfsc.self_expression.orbit import OrbitForm

CPU = torch.device("cpu")


def drifting(n: int, K: int = 4, side: int = 16, reach: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Pictures of K random patterns, each shifted by up to four pixels: far apart as pixels."""
    random = np.random.default_rng(0)
    patterns = np.kron(random.random((K, side // 2, side // 2)), np.ones((2, 2)))
    y = np.arange(n) % K
    shifts = random.integers(-reach, reach + 1, (n, 2))
    X = [np.roll(patterns[k], tuple(step), (0, 1)) for k, step in zip(y, shifts, strict=True)]
    return (np.stack(X) + 0.1 * random.random((n, side, side))).astype(np.float32), y


@pytest.fixture(scope="module")
def drift():
    return drifting(160)


@pytest.fixture(scope="module")
def fitted(drift):
    return ClosedFormSubspaceClustering(4, random_state=0, device="cpu").fit(drift[0])


def test_drifting_pictures_are_seen_by_their_scattering(drift, fitted):
    X, y = drift
    assert (fitted.features_, fitted.transformations_, fitted.metric_) == (
        "scattering",
        "mirror",
        "neighbours",
    )
    assert set(fitted.stability_) == {"none", "neighbours-twice", "scattering"}
    assert fitted.stability_["scattering"] == max(fitted.stability_.values())
    pixels = ClosedFormSubspaceClustering(4, features="given", device="cpu", random_state=0).fit(X)
    assert pixels.features_ == "given"
    assert clustering_error(y, fitted.labels_) < clustering_error(y, pixels.labels_)


def test_asking_for_it_gives_the_same(drift, fitted):
    again = ClosedFormSubspaceClustering(4, features="scattering", random_state=0, device="cpu")
    assert np.array_equal(again.fit(drift[0]).labels_, fitted.labels_)
    assert again.stability_ == {}


def test_the_graph_is_the_sum_of_two(drift):
    Z = torch.from_numpy(drift[0].reshape(160, -1))
    pictures = Pictures.of(Z, (16, 16), 4)
    both = pictures(Z)
    assert both.shape == (160, 2, 160)
    assert torch.allclose(both.norm(dim=2), torch.ones(160, 2), atol=1e-5)
    lam = plain_ridge(160)
    seen, mirrored = both[:, 0].contiguous(), both[:, 1].contiguous()
    direct = TopK(grow=False)(solve(seen, lam), 4)
    orbit = TopK(grow=False)(OrbitForm([lambda: seen, lambda: mirrored], lam), 4)
    found = TopK(grow=False)(mirror_form(both, lam), 4)
    assert abs(found - (direct + orbit)).max() < 1e-12


def test_mirrored_features_are_those_of_the_mirrored_pictures(drift):
    Z = torch.from_numpy(drift[0].reshape(160, -1))
    pictures = Pictures.of(Z, (16, 16), 4)
    flipped = torch.from_numpy(np.ascontiguousarray(drift[0][:, :, ::-1]).reshape(160, -1))
    assert torch.allclose(pictures(flipped), pictures(Z).flip(1), atol=1e-5)


def test_brightness_does_not_matter(drift):
    Z = torch.from_numpy(drift[0].reshape(160, -1))
    pictures = Pictures.of(Z, (16, 16), 4)
    assert torch.allclose(pictures(3.0 * Z), pictures(Z), atol=1e-4)


def test_unseen_pictures_are_labelled_and_the_model_is_kept(drift, fitted, tmp_path):
    X, _ = drifting(200)
    expected = fitted.predict(X[160:])
    assert (fitted.predict(drift[0]) == fitted.labels_).mean() > 0.95
    fitted.save(tmp_path / "model.safetensors")
    restored = ClosedFormSubspaceClustering.load(tmp_path / "model.safetensors")
    assert (restored.features_, restored.metric_) == ("scattering", "neighbours")
    assert np.array_equal(restored.labels_, fitted.labels_)
    assert np.array_equal(restored.predict(X[160:]), expected)


@pytest.mark.parametrize("name", ["mirrored", "metric", "scattering_components"])
def test_a_file_whose_parts_do_not_fit_is_refused(fitted, tmp_path, name):
    from safetensors import safe_open
    from safetensors.torch import save_file

    path = tmp_path / "model.safetensors"
    fitted.save(path)
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    tensors[name] = tensors[name][:, 1:].contiguous()
    save_file(tensors, path, metadata)
    with pytest.raises(InputError):
        ClosedFormSubspaceClustering.load(path)


def test_colour_is_taken(drift):
    X = np.repeat(drift[0][:, None], 3, axis=1)
    model = ClosedFormSubspaceClustering(4, features="scattering", random_state=0, device="cpu")
    assert len(model.fit(X).labels_) == 160


def test_small_pictures_are_enlarged():
    x = np.arange(2 * 3 * 8 * 9, dtype=np.float32).reshape(2, 3, 8, 9)
    larger = enlarged(x)
    assert larger.shape == (2, 3, 16, 18)
    # A plane stays one, but for the border, and the mirror image of the larger is the larger one
    # of the mirror image.
    np.testing.assert_allclose(np.diff(larger[0, 0, 4, 1:-1]), 0.5, atol=1e-5)
    flipped = enlarged(np.ascontiguousarray(x[..., ::-1]))
    np.testing.assert_allclose(flipped, larger[..., ::-1], atol=1e-4)
    same = np.zeros((2, 16, 20), np.float32)
    assert enlarged(same) is same


def test_small_pictures_are_clustered_saved_and_labelled(tmp_path):
    X, _ = drifting(200, side=8, reach=1)
    model = ClosedFormSubspaceClustering(4, features="scattering", random_state=0, device="cpu")
    model.fit(X[:160]).save(tmp_path / "model.safetensors")
    restored = ClosedFormSubspaceClustering.load(tmp_path / "model.safetensors")
    assert np.array_equal(restored.predict(X[160:]), model.predict(X[160:]))
    assert (model.predict(X[:160]) == model.labels_).mean() > 0.95


@pytest.mark.parametrize(
    ("shape", "affinity", "expected"),
    [
        ((16, 16), "topk", True),
        ((3, 32, 32), TopK(k=4), True),
        ((256,), "topk", False),
        ((8, 8), "topk", True),
        ((5, 40), "topk", False),
        ((65, 64), "topk", False),
        ((16, 16), "symmetric", False),
        ((16, 16), TopK(search="approximate"), False),
    ],
)
def test_what_it_is_tried_for(shape, affinity, expected):
    assert may_scatter(shape, affinity, 4) is expected


@pytest.mark.parametrize(
    "options",
    [
        {"lam": 1.0},
        {"subspace_dim": 2.0},
        {"normalize": False},
        {"metric": "none"},
        {"transformations": "shifts"},
        {"affinity": "symmetric"},
    ],
)
def test_what_does_not_go_with_it_is_refused_or_turns_it_off(drift, options):
    X = drift[0][:60]
    with pytest.raises(InputError, match="features='scattering' is for images"):
        ClosedFormSubspaceClustering(4, features="scattering", **options).fit(X)
    model = ClosedFormSubspaceClustering(4, random_state=0, device="cpu", **options).fit(X)
    assert model.features_ == "given"


def test_vectors_and_unknown_names_are_refused(drift):
    flat = drift[0].reshape(160, -1)
    with pytest.raises(InputError, match="features='scattering' is for images"):
        ClosedFormSubspaceClustering(4, features="scattering").fit(flat)
    with pytest.raises(InputError, match="wavelets"):
        ClosedFormSubspaceClustering(4, features="wavelets").fit(flat)


def test_a_handful_of_pictures_is_taken_as_it_is(drift):
    model = ClosedFormSubspaceClustering(4, random_state=0, device="cpu").fit(drift[0][:12])
    assert model.features_ == "given"


def test_black_and_equal_pictures_are_survived(drift):
    X = drift[0].copy()
    X[3], X[4], X[5] = 0.0, X[6], X[6]
    model = ClosedFormSubspaceClustering(4, features="scattering", random_state=0, device="cpu")
    assert set(model.fit(X).labels_) == {0, 1, 2, 3}


def test_the_choice_needs_to_beat_what_is_known(drift):
    Z = torch.from_numpy(drift[0].reshape(160, -1))
    found, scores = choose_pictures("auto", Z, (16, 16), 4, {"none": 2.0})
    assert found is None
    assert set(scores) == {"none", "scattering"}


def test_a_second_round_takes_the_metric_from_the_first_ones_neighbours():
    random = np.random.default_rng(0)
    Z = torch.from_numpy(random.standard_normal((120, 10)).astype(np.float32))
    Z = Z / Z.norm(dim=1, keepdim=True)
    one, two = neighbour_metric(Z, 3, rounds=1), neighbour_metric(Z, 3, rounds=2)
    assert one.shape == two.shape == (10, 10)
    assert not torch.allclose(one, two)


def test_other_coefficients_are_one_way():
    operator = object()
    assert ways_of(operator) == (operator,)


def test_ways_answer_for_their_first_and_last(drift):
    F = torch.from_numpy(ScatteringFeatures(2, verbose=False).fit_transform(drift[0]))
    first, last = solve(F, 1.0), OrbitForm([lambda: F], 1.0)
    both = Ways(first, last)
    assert both.effective_dof == first.effective_dof
    assert torch.equal(both.topk(3)[1], first.topk(3)[1])
    assert torch.equal(both.topk_code(F[:5], 3)[1], last.topk_code(F[:5], 3)[1])
    assert "OrbitForm" in repr(both)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_gives_the_same_labels(drift, fitted):
    model = ClosedFormSubspaceClustering(4, random_state=0, device="cuda").fit(drift[0])
    assert model.features_ == fitted.features_
    assert clustering_error(fitted.labels_, model.labels_) < 2.0
