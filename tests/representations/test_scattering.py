"""Images by their scattering coefficients: chosen, refused, saved, divided among processes."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.affinity import TopK
from dcfsc.errors import InputError
from dcfsc.estimators.scattering_features import ScatteringFeatures
from dcfsc.metrics import clustering_error
from dcfsc.pipeline import Recipe, sampling
from dcfsc.representations import scattering
from dcfsc.representations.base import Part
from dcfsc.representations.neighbor_metric import in_metric, neighbor_metric
from dcfsc.representations.scattering import ScatteringMetric, enlarged
from dcfsc.selection import choice
from dcfsc.self_expression import CosineForm, ExplicitCoefficients
from dcfsc.training.checkpoint import fingerprint

RECIPE = Recipe((16, 16), 4)


def drifting(n: int, K: int = 4, side: int = 16, reach: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Images of K random patterns, each shifted by up to four pixels: far apart as pixels."""
    random = np.random.default_rng(0)
    patterns = np.kron(random.random((K, side // 2, side // 2)), np.ones((2, 2)))
    y = np.arange(n) % K
    shifts = random.integers(-reach, reach + 1, (n, 2))
    X = [np.roll(patterns[k], tuple(step), (0, 1)) for k, step in zip(y, shifts, strict=True)]
    return (np.stack(X) + 0.1 * random.random((n, side, side))).astype(np.float32), y


def clusterer(**options):
    return ClosedFormSubspaceClustering(4, random_state=0, device="cpu", **options)


@pytest.fixture(scope="module")
def drift():
    return drifting(160)


@pytest.fixture(scope="module")
def fitted(drift):
    return clusterer().fit(drift[0])


@pytest.fixture(scope="module")
def rows(drift):
    return torch.from_numpy(drift[0].reshape(160, -1))


@pytest.fixture(scope="module")
def seen(rows):
    representation = ScatteringMetric(RECIPE)
    representation.fit_transform(rows)
    return representation


def test_drifting_images_are_seen_by_their_scattering(drift, fitted):
    X, y = drift
    assert fitted.representation_ == "scattering"
    assert fitted.stability_ == {}  # without rivals, none is measured
    score = fitted.measure_stability(X)["scattering"]
    assert 0.5 < score <= 1.0
    assert fitted.stability_ == {"scattering": score}
    assert fitted.measure_stability(X) is fitted.stability_
    assert (fitted.lam_, fitted.effective_dof_, fitted.leverage_) == (None, None, None)
    pixels = clusterer(representation="given").fit(X)
    assert pixels.representation_ == "given"
    assert pixels.lam_ > 0
    assert clustering_error(y, fitted.labels_) < clustering_error(y, pixels.labels_)


def lit(n: int = 200, K: int = 4, side: int = 16) -> np.ndarray:
    """Images of K smooth patterns under light from random sides: none negative."""
    random = np.random.default_rng(0)
    grid = np.linspace(-1.0, 1.0, side)
    bases = 0.5 + 0.4 * np.sin(3.0 * random.random((K, 1, 1)) + 4.0 * grid[:, None] * grid)
    slopes = random.uniform(-2.0, 2.0, (n, 2, 1, 1))
    light = np.exp(slopes[:, 0] * grid[:, None] + slopes[:, 1] * grid)
    return (bases[np.arange(n) % K] * light).astype(np.float32)


def test_light_takes_its_head_start_and_nothing_is_known_of_what_is_no_image(drift):
    def head_start(X):
        rows = torch.from_numpy(np.ascontiguousarray(X)).reshape(len(X), -1)
        representation = ScatteringMetric(Recipe(X.shape[1:], 4))
        return representation.head_start(torch.nn.functional.normalize(rows))

    X = drift[0]
    assert head_start(X) == np.inf
    assert head_start(np.repeat(X[:, None], 3, axis=1)) == np.inf
    assert head_start(lit()) == 0.0
    assert head_start(X - X.mean()) is None
    order = np.random.default_rng(0).permutation(256)
    assert head_start(X.reshape(160, -1)[:, order].reshape(X.shape)) is None


def test_where_it_has_rivals_they_are_compared():
    compared = clusterer().fit(lit())
    assert list(compared.stability_) == ["scattering", "given", "metric-twice"]


def test_asking_for_it_gives_the_same(drift, fitted):
    again = clusterer(representation="scattering").fit(drift[0])
    assert np.array_equal(again.labels_, fitted.labels_)
    assert again.stability_ == {}


def test_what_is_kept_are_features_of_images_and_mirror_images_in_the_metric(drift, rows, seen):
    """Every step again, through the public transformer."""
    x = drift[0]
    features = ScatteringFeatures(2, center=False, device="cpu", verbose=False).fit(x)
    F = torch.from_numpy(features.transform(x))
    M = torch.from_numpy(features.transform(np.ascontiguousarray(x[:, :, ::-1])))
    T = neighbor_metric(F, 4)
    torch.testing.assert_close(seen.T, T, rtol=1e-4, atol=1e-4 * float(T.abs().max()))
    R = seen.transform(rows)
    assert R.shape == (160, 2, 160)
    torch.testing.assert_close(R[:, 0], in_metric(F, seen.T), rtol=0, atol=1e-4)
    torch.testing.assert_close(R[:, 1], in_metric(M, seen.T), rtol=0, atol=1e-4)
    assert not torch.allclose(R[:, 0], R[:, 1], atol=1e-2)
    assert torch.allclose(R.norm(dim=2), torch.ones(160, 2), atol=1e-5)
    torch.testing.assert_close(seen.transform_unseen(rows[:9]), R[:9, 0], rtol=0, atol=1e-5)


def test_the_graph_is_the_sum_of_two(rows, seen):
    R = seen.transform(rows)
    plain, mirrored = R[:, 0].contiguous(), R[:, 1].contiguous()
    direct = TopK(grow=False)(CosineForm(plain), 4)
    C = torch.maximum((plain @ plain.T).abs(), (plain @ mirrored.T).abs()).fill_diagonal_(0.0)
    both = TopK(grow=False, scale="none")(ExplicitCoefficients(C.clamp_max(1.0)), 4)
    assert abs(direct - both).max() > 0.1
    assert abs(TopK(grow=False)(seen.solve(R), 4) - (direct + both)).max() < 1e-12


def test_a_part_has_the_metric_of_its_own_neighbors(rows):
    representation = ScatteringMetric(RECIPE)
    representation.prepare(rows)
    index = torch.arange(0, 160, 2)
    operator = representation.solve_part(Part(rows, index, RECIPE))
    F = representation.coefficients(rows)[index]
    plain, mirrored = F[:, 0].contiguous(), F[:, 1].contiguous()
    T = neighbor_metric(plain, 4)
    assert operator.n == 80
    torch.testing.assert_close(operator.seen.directions, in_metric(plain, T))
    torch.testing.assert_close(operator.mirrored, in_metric(mirrored, T))


def test_what_was_prepared_is_taken_once_and_not_kept(rows):
    expected = ScatteringMetric(RECIPE).fit_transform(rows)
    prepared = ScatteringMetric(RECIPE)
    prepared.prepare(rows)
    torch.testing.assert_close(prepared.fit_transform(rows), expected, rtol=1e-4, atol=1e-5)
    assert prepared._prepared is None
    T = prepared.T
    prepared.recipe = replace(RECIPE, n_clusters=5)  # other clusters have another metric
    prepared.fit_transform(rows)
    assert not torch.equal(prepared.T, T)


def test_mirrored_features_are_those_of_the_mirrored_images(drift, rows, seen):
    flipped = torch.from_numpy(np.ascontiguousarray(drift[0][:, :, ::-1]).reshape(160, -1))
    assert torch.allclose(seen.transform(flipped), seen.transform(rows).flip(1), atol=1e-5)


def test_brightness_does_not_matter(rows, seen):
    assert torch.allclose(seen.transform(3.0 * rows), seen.transform(rows), atol=1e-4)


def test_unseen_images_are_labelled_and_the_model_is_kept(drift, fitted, tmp_path):
    X, _ = drifting(200)
    expected = fitted.predict(X[160:])
    assert (fitted.predict(drift[0]) == fitted.labels_).mean() > 0.95
    fitted.save(tmp_path / "model.safetensors")
    restored = ClosedFormSubspaceClustering.load(tmp_path / "model.safetensors")
    assert (restored.representation_, restored.lam_) == ("scattering", None)
    assert restored.stability_ == fitted.stability_
    assert np.array_equal(restored.labels_, fitted.labels_)
    assert np.array_equal(restored.predict(X[160:]), expected)
    # what is predicted with, number by number
    new, old = restored._representation, fitted._representation
    assert torch.equal(new.T, old.T)
    assert torch.equal(new.components.mean, old.components.mean)
    assert torch.equal(new.components.components, old.components.components)
    assert new.components.input_scale == old.components.input_scale
    assert torch.equal(restored._training_features, fitted._training_features)
    unseen = restored._rows(X[160:])
    assert torch.equal(new.transform_unseen(unseen), old.transform_unseen(unseen))


@pytest.mark.parametrize(
    "name", ["features", "representation.metric", "representation.scattering_components"]
)
def test_a_file_whose_parts_do_not_fit_is_refused(fitted, tmp_path, name):
    path = tmp_path / "model.safetensors"
    fitted.save(path)
    with safe_open(path, "pt") as file:
        header = json.loads(file.metadata()["dcfsc"])
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    tensors[name] = tensors[name][:, 1:].contiguous()
    # as if it had been written so: the digest fits, the shapes do not
    header.pop("sha256")
    header["sha256"] = fingerprint(header, tensors)
    save_file(tensors, path, {"dcfsc": json.dumps(header)})
    with pytest.raises(InputError):
        ClosedFormSubspaceClustering.load(path).predict(drifting(4)[0])


def test_color_is_taken(drift):
    X = np.repeat(drift[0][:, None], 3, axis=1)
    assert len(clusterer(representation="scattering").fit(X).labels_) == 160


def test_small_images_are_enlarged():
    x = torch.arange(2 * 3 * 8 * 9, dtype=torch.float32).reshape(2, 3, 8, 9)
    larger = enlarged(x)
    assert larger.shape == (2, 3, 16, 18)
    assert enlarged(torch.zeros(2, 8, 40)).shape == (2, 16, 80)  # by the shorter side
    # A plane stays one, but for the border, and the mirror image of the larger is the larger one
    # of the mirror image.
    np.testing.assert_allclose(np.diff(larger[0, 0, 4, 1:-1].numpy()), 0.5, atol=1e-5)
    torch.testing.assert_close(enlarged(x.flip(-1)), larger.flip(-1), rtol=0, atol=1e-4)
    same = torch.zeros(2, 16, 20)
    assert enlarged(same) is same


def test_small_images_are_clustered_saved_and_labelled(tmp_path):
    X, _ = drifting(200, side=8, reach=1)
    model = clusterer(representation="scattering")
    model.fit(X[:160]).save(tmp_path / "model.safetensors")
    restored = ClosedFormSubspaceClustering.load(tmp_path / "model.safetensors")
    assert np.array_equal(restored.predict(X[160:]), model.predict(X[160:]))
    assert (model.predict(X[:160]) == model.labels_).mean() > 0.95


@pytest.mark.parametrize(
    ("shape", "sparse_exact", "expected"),
    [
        ((16, 16), True, True),
        ((3, 32, 32), True, True),
        ((256,), True, False),
        ((6, 6), True, True),
        ((5, 40), True, False),
        ((64, 64), True, True),
        ((65, 64), True, False),
        ((16, 16), False, False),
    ],
)
def test_what_it_is_tried_for(shape, sparse_exact, expected):
    search = "exact" if sparse_exact else "approximate"
    recipe = Recipe(shape, 4, affinity=TopK(search=search))
    assert ScatteringMetric.considered(recipe) is expected
    assert (ScatteringMetric.obstacle(recipe) is None) is expected


@pytest.mark.parametrize(
    "options",
    [
        {"lam": 1.0},
        {"subspace_dim": 2.0},
        {"normalize": False},
        {"affinity": "symmetric"},
        {"affinity": TopK(search="approximate")},
    ],
)
def test_what_does_not_go_with_it_is_refused_in_one_line(drift, options):
    with pytest.raises(InputError, match="representation='scattering'") as raised:
        clusterer(representation="scattering", **options).fit(drift[0][:60])
    assert "\n" not in str(raised.value)


def test_vectors_are_refused(drift):
    with pytest.raises(InputError, match="representation='scattering' is for images"):
        clusterer(representation="scattering").fit(drift[0].reshape(160, -1))


def test_a_handful_of_images_is_taken_as_it_is(drift):
    assert clusterer().fit(drift[0][:12]).representation_ == "given"


def test_black_and_equal_images_are_survived(drift):
    X = drift[0].copy()
    X[3], X[4], X[5] = 0.0, X[6], X[6]
    assert set(clusterer(representation="scattering").fit(X).labels_) == {0, 1, 2, 3}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_cuda_gives_the_same_labels(drift, fitted):
    model = ClosedFormSubspaceClustering(4, random_state=0, device="cuda").fit(drift[0])
    assert model.representation_ == fitted.representation_
    assert clustering_error(fitted.labels_, model.labels_) < 2.0


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((8, 20), (16, 40)), ((20, 6), (60, 18)), ((3, 15, 40), (3, 30, 80)), ((16, 9), (32, 18))],
)
def test_the_smaller_side_says_how_much_an_image_is_enlarged(shape, expected):
    x = torch.rand(2, *shape, generator=torch.Generator().manual_seed(0))
    assert tuple(enlarged(x).shape[1:]) == expected


def test_what_the_sample_has_is_what_it_is_transformed_to(rows):
    representation = ScatteringMetric(RECIPE)
    found = representation.fit_transform(rows)
    torch.testing.assert_close(representation.transform(rows), found, rtol=1e-5, atol=1e-6)
    other = representation.transform(rows.flip(0))
    torch.testing.assert_close(other, found.flip(0), rtol=1e-5, atol=1e-6)


def test_coefficients_are_computed_once_for_the_choice_the_fit_and_the_training(monkeypatch):
    from dcfsc.features import ScatteringComponents

    calls = []
    original = ScatteringComponents.coefficients

    def counted(self, images):
        calls.append(len(images))
        return original(self, images)

    monkeypatch.setattr(ScatteringComponents, "coefficients", counted)
    X = np.random.default_rng(0).random((90, 8, 8))
    model = ClosedFormSubspaceClustering(3, random_state=0, device="cpu").fit(X)
    assert model.representation_ == "scattering"
    assert calls == [90, 90]  # the images, and the same mirrored


@pytest.mark.parametrize(
    ("rough", "smooth", "expected"),
    [
        (0.69, 1 / 3, 0.0),
        (0.69, 0.33, np.inf),
        (0.70, 1 / 3, None),
        (0.71, 0.33, None),
    ],
)
def test_rough_images_and_smooth_factors(monkeypatch, rough, smooth, expected):
    monkeypatch.setattr(scattering, "roughness", lambda x: rough)
    monkeypatch.setattr(scattering, "smooth_share", lambda x, neighbors: smooth)
    Z = torch.rand(40, 64, generator=torch.Generator().manual_seed(0))
    assert ScatteringMetric(Recipe((8, 8), 2)).head_start(Z) == expected
    Z[3, 3] = 0.0
    assert ScatteringMetric(Recipe((8, 8), 2)).head_start(Z) == expected
    Z[3, 3] = -1e-3
    assert ScatteringMetric(Recipe((8, 8), 2)).head_start(Z) is None


@pytest.mark.parametrize("n", [30, 50])
def test_images_are_compared_with_their_nearest_in_the_closed_form(monkeypatch, n):
    """Of more than so many samples some at random; at their largest value; channel by channel."""
    seen = []
    monkeypatch.setattr(scattering, "LOOKED_AT", 40)
    monkeypatch.setattr(scattering, "roughness", lambda x: seen.append(x) or 0.0)
    monkeypatch.setattr(scattering, "smooth_share", lambda *both: seen.extend(both) or 0.0)
    Z = torch.rand(n, 2 * 6 * 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    Z = 5.0 * torch.nn.functional.normalize(Z)
    assert ScatteringMetric(Recipe((2, 6, 7), 2)).head_start(Z) == np.inf
    rows = Z[np.sort(np.random.RandomState(0).permutation(n)[:40])]
    s = torch.linalg.svdvals(rows).square()
    low, high = 1e-6, 1e6  # the ridge of two clusters of three dimensions
    for _ in range(200):
        lam = (low * high) ** 0.5
        low, high = (lam, high) if float((s / (s + lam)).sum()) > 6.0 else (low, lam)
    P = torch.linalg.inv(rows @ rows.mT + lam * torch.eye(len(rows), dtype=rows.dtype))
    C = (P / P.diagonal()[:, None]).fill_diagonal_(0.0).abs()
    x = (rows / rows.max()).float().reshape(-1, 2, 6, 7)
    assert len(seen) == 3
    torch.testing.assert_close(seen[0], x)
    torch.testing.assert_close(seen[1], x)
    torch.testing.assert_close(seen[2], x[C.argmax(dim=1)])


def test_a_thousand_images_say_how_they_vary(monkeypatch):
    seen = []
    monkeypatch.setattr(scattering, "roughness", lambda x: seen.append(len(x)) or 1.0)
    for n in (999, 1000, 1200):
        ScatteringMetric(Recipe((6, 6), 2)).head_start(torch.ones(1, 36).expand(n, 36))
    assert seen == [999, 1000, 1000]


def test_black_images_are_told():
    with pytest.raises(InputError, match="all rows of the data are zero"):
        ScatteringMetric(Recipe((6, 6), 2)).head_start(torch.zeros(20, 36))


@pytest.mark.parametrize(("most", "calls"), [(40, [40, 40, 120, 120]), (39, [39, 39, 160, 160])])
def test_what_is_known_of_a_sample_is_used_where_it_is_a_quarter(rows, monkeypatch, most, calls):
    from dcfsc.features import ScatteringComponents

    monkeypatch.setattr(sampling, "MOST_SAMPLES", most)
    monkeypatch.setattr(choice, "MOST_SAMPLES", most)
    original, seen = ScatteringComponents.coefficients, []
    monkeypatch.setattr(
        ScatteringComponents,
        "coefficients",
        lambda self, images: seen.append(len(images)) or original(self, images),
    )
    selected = choice.select([ScatteringMetric(RECIPE)], rows, RECIPE)
    assert seen == calls  # images, and the same mirrored
    expected = selected.representation.transform(selected.representation.rows(rows))
    torch.testing.assert_close(selected.rows, expected, rtol=1e-5, atol=1e-6)


def test_a_prepared_sample_is_seen_in_chunks(rows, monkeypatch):
    whole, parts = ScatteringMetric(RECIPE), ScatteringMetric(RECIPE)
    whole.prepare(rows)
    monkeypatch.setattr(scattering, "CHUNK", 50)
    parts.prepare(rows)
    torch.testing.assert_close(parts._prepared, whole._prepared, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(whole._prepared, whole.coefficients(rows), rtol=1e-4, atol=1e-5)
    assert whole.components.input_scale == pytest.approx(1.0 / float(rows.max()))
    assert float(whole.components.mean.abs().max()) == 0.0  # directions from the origin
