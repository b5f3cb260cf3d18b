"""Flats off the origin: their code, their coordinates, and when "auto" takes them."""

import numpy as np
import pytest
import torch

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.errors import InputError
from dcfsc.io import synthetic
from dcfsc.metrics import clustering_error
from dcfsc.pipeline import Recipe
from dcfsc.representations import affine
from dcfsc.representations.affine import (
    MISSED,
    OUTSIDE,
    AffineSubspaces,
    _small,
    coding_length,
    missed,
    outside,
    outside_of_flats,
)
from dcfsc.representations.base import Part


def flats(noise=1e-3, seed=0, sizes=(40, 60), d=30, origin=3.0):
    """Points of affine subspaces of dimension three, and which one each is on."""
    random = np.random.default_rng(seed)
    parts = [
        origin * random.normal(size=d) + random.normal(size=(n, 3)) @ random.normal(size=(3, d))
        for n in sizes
    ]
    X = np.concatenate(parts)
    return X + noise * random.normal(size=X.shape), np.repeat(np.arange(len(sizes)), sizes)


def test_the_coding_length_is_that_of_the_paper():
    X, labels = flats(noise=0.1)
    eps2, (n, d) = 0.3, X.shape
    expected = 0.0
    for k in (0, 1):
        group = X[labels == k]
        mean, size = group.mean(axis=0), len(group)
        centered = group - mean
        determinant = np.linalg.slogdet(np.eye(d) + d / (eps2 * size) * centered.T @ centered)[1]
        expected += (size + d) / 2 * determinant + d / 2 * np.log(1 + mean @ mean / eps2)
        expected -= size * np.log(size / n)
    found = coding_length(torch.from_numpy(X), labels, eps2)
    assert found == pytest.approx(expected, rel=1e-12)


def test_the_code_of_the_true_partition_is_the_shortest():
    X, y = flats(noise=0.01)
    Z = torch.from_numpy(X - X.mean(axis=0))
    true = coding_length(Z, y, 1e-3 * float(Z.square().sum()) / len(Z))
    for seed in range(5):
        other = y.copy()
        other[np.random.default_rng(seed).permutation(len(y))[:10]] ^= 1
        assert coding_length(Z, other, 1e-3 * float(Z.square().sum()) / len(Z)) > true


def test_rows_are_those_of_the_shape_interaction_matrix():
    X, y = flats(noise=0.0)
    model = AffineSubspaces(Recipe((30,), 2))
    model.fit_transform(torch.from_numpy(X))
    R = model.transform(torch.from_numpy(X)).numpy()
    assert R.shape[1] == 8  # two flats of dimension three off the origin
    centered = X - X.mean(axis=0)
    size = np.full((len(X), 1), np.sqrt(np.square(centered).mean()))
    U = np.linalg.svd(np.concatenate([centered, size], axis=1), full_matrices=False)[0]
    Q = U[:, :8] @ U[:, :8].T
    length = np.sqrt(np.diag(Q))
    np.testing.assert_allclose(R @ R.T, Q / np.outer(length, length), atol=1e-8)
    np.testing.assert_allclose((R @ R.T)[y[:, None] != y[None, :]], 0.0, atol=1e-8)


@pytest.mark.parametrize("K", [2, 3])
def test_the_rank_of_the_shortest_code_is_kept(K, monkeypatch):
    """Ranks from K + 1 to 5 K are tried, from 4 K outwards; the code says which one stays."""
    X, _ = flats(noise=0.05, sizes=(40, 60, 30)[:K])
    X = 50.0 * X
    tried = []
    whole = AffineSubspaces._partition

    def partition(self, R):
        tried.append((R.shape[1], whole(self, R)))
        return tried[-1][1]

    monkeypatch.setattr(AffineSubspaces, "_partition", partition)
    model = AffineSubspaces(Recipe((30,), K))
    Z = torch.from_numpy(X)
    suits = model.suits(Z)
    ranks = [rank for rank, _ in tried]
    assert sorted(ranks) == sorted({round(r) for r in np.linspace(K + 1, 5 * K, 12)})
    assert [abs(r - 4 * K) for r in ranks] == sorted(abs(r - 4 * K) for r in ranks)
    small = torch.from_numpy(X / np.abs(X).max())
    small = small - small.mean(dim=0)
    distortion = 3e-3 * float(small.square().sum()) / len(small)
    lengths = [coding_length(small, labels, distortion) for _, labels in tried]
    best = int(np.argmin(lengths))
    assert model.W.shape == (31, ranks[best])
    assert suits
    assert model._fitted == pytest.approx(outside_of_flats(small, tried[best][1]))
    model.fit_transform(Z)
    assert len(tried) == len(ranks)  # what suits is fitted already
    assert model._fitted is None


def test_shares_of_the_variance_against_numpy():
    random = np.random.default_rng(0)
    Z = random.normal(size=(40, 9)) * np.linspace(0.1, 3.0, 9) + 1.0
    s = np.linalg.svd(Z - Z.mean(axis=0), compute_uv=False)
    for rank in (0, 2, 8, 9):
        expected = np.square(s[rank:]).sum() / np.square(s).sum()
        assert outside(torch.from_numpy(Z), rank) == pytest.approx(expected, abs=1e-12)
        basis = np.linalg.svd(Z)[2][:rank].T
        w = np.linalg.lstsq(Z @ basis, np.ones(40), rcond=None)[0]
        error = np.square(1.0 - Z @ basis @ w).mean()
        assert missed(torch.from_numpy(Z), rank) == pytest.approx(error, abs=1e-12)
    same = torch.ones(6, 3, dtype=torch.float64)
    assert outside(same, 1) == 1.0
    assert outside_of_flats(same, np.zeros(6, dtype=int)) == 0.0
    assert coding_length(same, np.zeros(6, dtype=int), 0.0) == 0.0
    # three directions of each group are its flat, the fourth is left
    group = torch.from_numpy(
        np.concatenate([np.diag([4.0, 3.0, 2.0, 1.0]), -np.diag([4.0, 3, 2, 1])])
    )
    for scale in (1.0, 1e-3):
        left = outside_of_flats(scale * group, np.zeros(8, dtype=int))
        assert left == pytest.approx(1 / 30)
        assert outside(scale * group, 3) == pytest.approx(1 / 30)
        torch.testing.assert_close(_small(scale * group.float()), group / 4.0)
    assert not _small(torch.zeros(2, 3)).any()


@pytest.mark.parametrize(
    ("shape", "K", "considered"),
    [
        ((15,), 2, False),
        ((16,), 2, True),
        ((1024,), 2, True),
        ((1025,), 2, False),
        ((24,), 3, True),
        ((23,), 3, False),
        ((8, 8), 2, False),
    ],
)
def test_auto_considers_samples_of_some_features(shape, K, considered):
    assert AffineSubspaces.considered(Recipe(shape, K)) is considered


def test_more_samples_are_needed_than_three_times_the_dimensions(monkeypatch):
    X, _ = flats(sizes=(12, 13))
    assert AffineSubspaces(Recipe((30,), 2)).suits(torch.from_numpy(X))
    assert not AffineSubspaces(Recipe((30,), 2)).suits(torch.from_numpy(X[:24]))
    monkeypatch.setattr("dcfsc.representations.affine.MOST_SAMPLES", 25)
    assert not AffineSubspaces(Recipe((30,), 2)).suits(torch.from_numpy(X))


def test_what_is_restored_is_what_was_saved():
    X, _ = flats()
    Z = torch.from_numpy(X)
    model, again = (AffineSubspaces(Recipe((30,), 2)) for _ in range(2))
    model.fit_transform(Z)
    tensors, values = model.state()
    assert values == {}
    again.restore(tensors, values, "cpu")
    assert again.row_shape == model.row_shape == (model.W.shape[1],)
    assert torch.equal(again.transform(Z), model.transform(Z))
    for name, wrong in (("mean", torch.zeros(29)), ("directions", torch.zeros(30, 8))):
        with pytest.raises(InputError, match="has the shape"):
            again.restore({**tensors, name: wrong}, values, "cpu")


def test_constant_samples_are_fitted():
    for value in (0.0, 2.0):
        Z = torch.full((30, 16), value, dtype=torch.float64)
        model = AffineSubspaces(Recipe((16,), 2))
        model.fit_transform(Z)
        R = model.transform(Z)
        assert torch.isfinite(R).all()
        torch.testing.assert_close(R, R[:1].expand_as(R))


def test_auto_takes_it_for_flats_and_finds_them():
    X, y = flats()
    model = ClosedFormSubspaceClustering(2, random_state=0, device="cpu").fit(X)
    assert model.representation_ == "affine"
    assert model.stability_ == {}
    assert clustering_error(y, model.labels_) == 0.0
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    scaled = ClosedFormSubspaceClustering(2, random_state=0, device="cpu").fit(1e20 * X)
    assert scaled.representation_ == "affine"
    assert clustering_error(y, scaled.labels_) == 0.0


@pytest.mark.parametrize(
    ("what", "X"),
    [
        ("through the origin", flats(origin=0.0)[0]),
        ("noise", flats(noise=0.2)[0]),
        ("few samples", flats(sizes=(10, 12))[0]),
        ("few features", flats(d=14)[0]),
        ("unequal features", flats(noise=0.2)[0] * np.r_[1e4, 1e4, 1e4, np.ones(27)]),
    ],
)
def test_auto_leaves_other_samples_alone(what, X):
    model = ClosedFormSubspaceClustering(2, random_state=0, device="cpu").fit(X)
    assert model.representation_ != "affine", what


def test_subspaces_through_the_origin_are_as_before():
    data = synthetic(n_samples=120, n_clusters=3, subspace_dim=3, ambient_dim=40, random_state=0)
    recipe = Recipe((40,), 3)
    assert not AffineSubspaces(recipe).suits(torch.from_numpy(np.asarray(data.X)))


def test_a_saved_model_predicts_the_same(tmp_path):
    X, _ = flats()
    model = ClosedFormSubspaceClustering(2, random_state=0, device="cpu").fit(X)
    model.save(tmp_path / "model.safetensors")
    again = ClosedFormSubspaceClustering.load(tmp_path / "model.safetensors")
    assert again.representation_ == "affine"
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_smooth_curves_are_no_flats():
    """Curves of many shapes lie in few dimensions together, and their groups in no flat."""
    random = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 40)
    t = np.linspace(0.0, 1.0, 60)
    waves = np.stack([np.cos(np.pi * j * t) for j in range(10)])
    X = (3.0 + random.normal(size=(4, 10))[y] + random.normal(size=(160, 10))) @ waves
    Z = torch.from_numpy(X)
    candidate = AffineSubspaces(Recipe(sample_shape=(60,), n_clusters=4))
    scaled = Z / Z.std(dim=0, correction=0)
    assert outside(scaled, 16) < OUTSIDE  # so far they pass
    assert missed(scaled, 16) < MISSED
    assert candidate.suits(Z) is False
    labels = np.arange(160) % 4
    left = sum(
        np.square(np.linalg.svd(X[labels == k] - X[labels == k].mean(0))[1][3:]).sum()
        for k in range(4)
    )
    expected = left / np.square(X - X.mean(0)).sum()
    assert outside_of_flats(Z, labels) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("shares", "suits"),
    [
        ((3.9e-4, 0.49, 0.0099), True),
        ((4.1e-4, 0.49, 0.0099), False),
        ((3.9e-4, 0.51, 0.0099), False),
        ((3.9e-4, 0.50, 0.0099), False),
        ((3.9e-4, 0.49, 0.0101), False),
        ((4.0e-4, 0.0, 0.01), True),
    ],
)
def test_what_may_be_left_out_and_missed(monkeypatch, shares, suits):
    """0.04% of the variance outside of the span, half of a constant, 1% outside of the flats."""
    for name, share in zip(("outside", "missed", "outside_of_flats"), shares, strict=True):
        monkeypatch.setattr(affine, name, lambda *_, share=share: share)
    X, _ = flats(sizes=(13, 12))
    assert AffineSubspaces(Recipe((30,), 2)).suits(torch.from_numpy(X)) is suits


def test_features_are_compared_at_equal_spread(monkeypatch):
    """A constant feature stays as it is; the joint span of K flats has 4 K dimensions."""
    X, _ = flats(sizes=(13, 12))
    X[:, 4] = 7.0
    X[:, 5] *= 1e3
    seen = []
    monkeypatch.setattr(affine, "outside", lambda Z, rank: seen.append((Z, rank)) or 0.0)
    monkeypatch.setattr(affine, "missed", lambda Z, rank: seen.append((Z, rank)) or 1.0)
    assert not AffineSubspaces(Recipe((30,), 2)).suits(torch.from_numpy(X))
    small = X / np.abs(X).max()
    scale = small.std(axis=0)
    scale[4] = 1.0
    assert [rank for _, rank in seen] == [8, 8]
    for Z, _ in seen:
        np.testing.assert_allclose(Z.numpy(), small / scale, rtol=1e-9)


def test_small_and_large_samples_are_scaled_to_one():
    for scale in (1e-200, 0.3, 1e200):
        X = scale * torch.tensor([[0.5, -2.0], [1.0, 0.0]], dtype=torch.float64)
        expected = torch.tensor([[0.25, -1.0], [0.5, 0.0]], dtype=torch.float64)
        torch.testing.assert_close(affine._small(X), expected)
    zero = torch.zeros(2, 2)
    assert torch.equal(affine._small(zero), zero.double())


def test_shares_do_not_depend_on_the_scale():
    X, y = flats(noise=0.3)
    Z = torch.from_numpy(X)
    assert outside(1e-3 * Z, 4) == pytest.approx(outside(Z, 4), rel=1e-9)
    assert outside_of_flats(1e-3 * Z, y) == pytest.approx(outside_of_flats(Z, y), rel=1e-9)
    assert 0.001 < outside_of_flats(Z, y) < 0.5


def test_coordinates_do_not_depend_on_scale_or_place():
    X, _ = flats(noise=0.01)
    rows = []
    for scale, offset in ((1.0, 0.0), (1e-3, 0.0), (50.0, 1000.0)):
        Z = torch.from_numpy(scale * X + offset)
        model = AffineSubspaces(Recipe((30,), 2))
        model.fit_transform(Z)
        R = model.transform(Z)
        rows.append(R @ R.mT)
    torch.testing.assert_close(rows[1], rows[0], rtol=0, atol=1e-8)
    torch.testing.assert_close(rows[2], rows[0], rtol=0, atol=1e-6)


def test_a_part_is_fitted_alone():
    X, _ = flats(sizes=(30, 30))
    Z, recipe, index = torch.from_numpy(X), Recipe((30,), 2), torch.arange(0, 60, 2)
    alone = AffineSubspaces(recipe)
    alone.fit_transform(Z[index])
    operator = AffineSubspaces(recipe).solve_part(Part(Z, index, recipe))
    torch.testing.assert_close(operator.directions, alone.transform(Z[index]))


@pytest.fixture
def scripted(monkeypatch):
    """A fit whose codes have the lengths told, from the first rank tried; what it was given."""

    def fit(Z, lengths, K=2):
        tried, given = [], []

        def partition(self, R):
            tried.append(R.shape[1])
            return np.arange(len(R)) % K

        def length(X, labels, distortion):
            given.append((X, distortion))
            return lengths[len(given) - 1] if len(given) <= len(lengths) else np.inf

        monkeypatch.setattr(AffineSubspaces, "_partition", partition)
        monkeypatch.setattr(affine, "coding_length", length)
        model = AffineSubspaces(Recipe((Z.shape[1],), K))
        model.fit_transform(Z)
        return model, tried, given

    return fit


def test_the_distortion_is_a_share_of_the_variance(scripted):
    """0.3% of the mean squared distance from the mean, at a largest value of one."""
    X, _ = flats(sizes=(20, 20))
    _, _, given = scripted(torch.from_numpy(X), [1.0])
    small = X / np.abs(X).max()
    small = small - small.mean(axis=0)
    for centered, distortion in given:
        np.testing.assert_allclose(centered.numpy(), small, atol=1e-12)
        assert distortion == pytest.approx(0.003 * np.square(small).sum(axis=1).mean(), rel=1e-9)


@pytest.mark.parametrize(
    ("lengths", "place"),
    [
        ([5.0, 5.0, 4.0, 6.0], 2),
        ([5.0, 5.0, 5.0], 0),
        ([5.0, 5.0 * (1 - 5e-10), 5.0], 0),
        ([5.0, 5.0 * (1 - 1e-8), 5.0], 1),
    ],
)
def test_of_codes_of_the_same_length_the_first_is_kept(scripted, lengths, place):
    X, _ = flats(sizes=(20, 20), noise=0.1)
    model, tried, _ = scripted(torch.from_numpy(X), lengths)
    assert tried[0] == 8
    assert model.W.shape[1] == tried[place]


@pytest.mark.parametrize(
    ("rank", "tried"), [(1, {2}), (2, {3}), (5, {3, 4, 5, 6}), (20, set(range(3, 11)))]
)
def test_no_more_ranks_are_tried_than_samples_have(scripted, rank, tried):
    """The constant is one more; what rounding leaves is none."""
    random = np.random.default_rng(0)
    X = random.normal(size=(60, rank)) @ random.normal(size=(rank, 30))
    for Z in (torch.from_numpy(X), torch.from_numpy(X).float()):
        assert set(scripted(Z, [1.0])[1]) == tried


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_partitions_are_those_of_leading_homogeneous_coordinates(monkeypatch, noise):
    """The constant is as large as the root mean square of a centered value."""
    X, _ = flats(sizes=(20, 20), noise=noise)
    seen = []
    whole = AffineSubspaces._partition
    monkeypatch.setattr(
        AffineSubspaces, "_partition", lambda self, R: seen.append(R) or whole(self, R)
    )
    AffineSubspaces(Recipe((30,), 2)).fit_transform(torch.from_numpy(X))
    centered = X - X.mean(axis=0)
    constant = np.full((40, 1), np.sqrt(np.square(centered).mean()))
    U = np.linalg.svd(np.concatenate([centered, constant], axis=1), full_matrices=False)[0]
    assert min(R.shape[1] for R in seen) == 3
    for R in seen:
        Q = U[:, : R.shape[1]] @ U[:, : R.shape[1]].T
        length = np.sqrt(np.diag(Q))
        np.testing.assert_allclose((R @ R.mT).numpy(), Q / np.outer(length, length), atol=1e-8)
