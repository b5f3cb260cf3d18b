"""Vectors in clouds: their rows against NumPy and SciPy, and the choice that the data make."""

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from scipy.stats import norm, rankdata

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.errors import InputError
from dcfsc.io import synthetic
from dcfsc.metrics import clustering_error
from dcfsc.pipeline import Recipe
from dcfsc.representations import create, restore
from dcfsc.representations.clouds import Columns, Cosine, Joined, Ranks, half_whitening, lifted

FEW, MANY = Recipe((4,), 3), Recipe((30,), 3)


def clouds(n=240, d=50, seed=0, spread=0.3, offset=2.0):
    """Gaussian clouds around three means, all of them far from the origin."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % 3
    means = random.normal(size=(3, d)) / np.sqrt(d)
    X = offset * random.normal(size=d) / np.sqrt(d) + means[y]
    return X + spread * random.normal(size=(n, d)) / np.sqrt(d), y


def table(n=150, seed=0):
    """Four columns of very different units, with ties and outliers; three say the class."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = random.normal(size=(n, 4))
    X[:, 0] += 6.0 * (y == 1)
    X[:, 1] += 6.0 * (y == 2)
    X[:, 1] = np.exp(X[:, 1]) * 1e3
    X[:, 2] = np.round(X[:, 2] + 3.0 * y)
    return X, y


def unit(X):
    length = np.linalg.norm(X, axis=1, keepdims=True)
    return X / np.where(length == 0, 1.0, length)


def products(R):
    return R @ R.T


def lift(R):
    """Rows whose products are (1 + r_i . r_j) / 2, by another factor than the last column's."""
    return (1.0 + products(R)) / 2.0


def standardized(X):
    deviation = X.std(axis=0)
    return np.where(deviation > 0, (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1), 0)


def test_lifted_products_are_half_of_one_and_the_cosine():
    R = torch.from_numpy(unit(np.random.default_rng(0).normal(size=(20, 5))))
    L = lifted(R)
    assert L.shape == (20, 6)
    torch.testing.assert_close(L @ L.mT, (1.0 + R @ R.mT) / 2.0, rtol=0, atol=1e-15)
    torch.testing.assert_close(L.norm(dim=1), torch.ones(20).double(), rtol=0, atol=1e-15)


def test_cosine_rows_are_the_samples_at_unit_length():
    X = clouds(d=30)[0]
    R = Cosine(MANY).fit_transform(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(products(R), lift(unit(X)), rtol=0, atol=1e-14)


def test_columns_are_centered_and_of_one_deviation():
    X = clouds(d=30)[0] * np.geomspace(1e-3, 1e3, 30)
    X[:, 4] = 0.1  # the mean of equal numbers need not be the number
    model = Columns(MANY)
    R = model.fit_transform(torch.from_numpy(X)).numpy()
    assert float(model.scale[4]) == 0.0
    np.testing.assert_allclose(model.mean, X.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(model.scale[5:], 1.0 / X[:, 5:].std(axis=0), rtol=1e-12)
    X[:, 4] = 0.0
    np.testing.assert_allclose(products(R), lift(unit(standardized(X))), rtol=0, atol=1e-12)


def normal_scores(X):
    """Rows by SciPy: the quantiles of mean ranks, zero for constants, and sqrt(d) appended."""
    n, d = X.shape
    scores = norm.ppf((rankdata(X, axis=0) - 0.5) / n) * (X.min(axis=0) < X.max(axis=0))
    return unit(np.c_[scores, np.full(n, np.sqrt(d))])


def test_ranks_are_the_normal_scores_of_mean_ranks():
    X = table()[0]
    X[:, 3] = 7.0
    R = Ranks(FEW).fit_transform(torch.from_numpy(X)).numpy()
    np.testing.assert_allclose(products(R), lift(normal_scores(X)), rtol=0, atol=1e-13)
    np.testing.assert_allclose(R[:, :5], normal_scores(X) * np.sqrt(0.5), rtol=0, atol=1e-13)


def test_an_unseen_number_has_the_rank_it_would_have():
    model, column = Ranks(Recipe((1,), 2)), torch.tensor([[1.0], [2.0], [2.0], [5.0]])
    model.fit_transform(column.double())
    unseen = torch.tensor([[-9.0], [1.5], [2.0], [9.0]]).double()
    scores = norm.ppf([0.125, 0.25, 0.5, 0.875])  # no further out than half a sample
    expected = unit(np.c_[scores, np.ones(4)]) * np.sqrt(0.5)
    np.testing.assert_allclose(model.transform_unseen(unseen)[:, :2], expected, rtol=0, atol=1e-14)


def test_a_column_that_was_constant_says_nothing_of_unseen_samples():
    X = torch.from_numpy(table()[0])
    X[:, 3] = 7.0
    model = Ranks(FEW)
    R = model.fit_transform(X)
    X[:75, 3], X[75:, 3] = -1.0, 9.0
    assert torch.equal(model.transform_unseen(X), R)


def test_neither_units_nor_a_logarithm_change_ranks():
    X = table()[0]
    other = X * [1e6, 1.0, 1e-3, 0.5] + [3.0, 0.0, 1.0, -2.0]
    other[:, 1] = np.log(X[:, 1])
    rows = [Ranks(FEW).fit_transform(torch.from_numpy(A)) for A in (X, other)]
    assert torch.equal(*rows)


def half_whitened(X, count):
    """The leading components of centered unit rows, each over its variance to the 1/4."""
    U = unit(X) - unit(X).mean(axis=0)
    variances, vectors = np.linalg.eigh(np.cov(U.T, bias=True))
    variances, vectors = variances[::-1][:count], vectors[:, ::-1][:, :count]
    there = variances > 1e-12 * variances[0]
    return unit(U @ vectors[:, there] / variances[there] ** 0.25), int(there.sum())


@pytest.mark.parametrize(
    ("n", "d", "K"), [(90, 30, 3), (60, 25, 20), (20, 30, 3), (9, 40, 3), (9, 40, 8)]
)
def test_joined_rows_are_the_samples_their_components_and_their_columns(n, d, K):
    X = clouds(n, d)[0] * np.linspace(0.5, 2.0, n)[:, None]
    X[:, 2] = 0.3
    model = Joined(Recipe((d,), K))
    R = model.fit_transform(torch.from_numpy(X))
    half, count = half_whitened(X, 2 * K)
    assert model.directions.shape == (d, count)
    assert R.shape[1:] == model.row_shape == (2 * d + count,)
    R = R.numpy()
    np.testing.assert_allclose(R[:, :d], unit(X), rtol=0, atol=1e-14)
    np.testing.assert_allclose(products(R[:, d:-d]), products(half), rtol=0, atol=1e-9)
    X[:, 2] = 0.0
    np.testing.assert_allclose(R[:, -d:], unit(standardized(X)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("d", [20, 90])
def test_half_whitened_components_have_the_root_of_their_variance(d):
    U = unit(clouds(50, d)[0])
    center, directions = half_whitening(torch.from_numpy(U), 6)
    np.testing.assert_allclose(center, U.mean(axis=0), rtol=0, atol=1e-15)
    components = (U - center.numpy()) @ directions.numpy()
    leading = np.linalg.eigvalsh(np.cov(U.T, bias=True))[::-1][:6]
    expected = np.diag(np.sqrt(leading))
    np.testing.assert_allclose(np.cov(components.T, bias=True), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("n", "d", "m", "rank"), [(9, 40, 40, 8), (60, 25, 5, 5), (200, 230, 5, 5)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_directions_of_rounding_errors_are_left_out(n, d, m, rank, dtype):
    for seed in range(4):
        random = np.random.default_rng(seed)
        U = unit(random.normal(size=(n, m)) @ random.normal(size=(m, d)))
        directions = half_whitening(torch.from_numpy(U).to(dtype), min(n, d))[1]
        assert directions.shape == (d, rank)


def test_joined_compares_by_the_closed_form_of_the_samples_and_by_both_other_kinds():
    X = torch.from_numpy(clouds(d=30)[0])
    model = Joined(MANY)
    R = model.fit_transform(X)
    operator = model.solve(R)
    assert operator.pool.effective_dof == pytest.approx(MANY.dof, rel=1e-6)
    torch.testing.assert_close(operator.pool._Z, R[:, :30])
    for part, rows in zip(operator.others, (R[:, 30:36], R[:, 36:]), strict=True):
        assert torch.equal(part, rows)


@pytest.mark.parametrize("cls", [Ranks, Joined, Cosine, Columns])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_state_that_was_saved_gives_the_same_rows(cls, dtype):
    recipe = FEW if cls is Ranks else MANY
    X, new = (
        torch.from_numpy(np.random.default_rng(s).normal(size=(40, *recipe.sample_shape))).to(dtype)
        for s in (0, 1)
    )
    model = cls(recipe)
    R = model.fit_transform(X)
    assert R.dtype == dtype
    tensors, values = model.state()
    assert bool(tensors) == cls.learns
    again = restore(cls.name, recipe, load(save(tensors)), values, torch.device("cpu"))
    assert again.row_shape == model.row_shape == tuple(R.shape[1:])
    for A in (X, new):
        assert torch.equal(again.transform(A), model.transform(A))
        assert torch.equal(again.transform_unseen(A), model.transform_unseen(A))


@pytest.mark.parametrize(("name", "tensor"), [("ranks", "ascending"), ("columns", "mean")])
def test_a_state_of_another_width_is_refused(name, tensor):
    (model,) = create(name, MANY)
    model.fit_transform(torch.from_numpy(clouds(d=30)[0]))
    tensors, values = model.state()
    with pytest.raises(InputError, match=f"its {tensor} has the shape"):
        restore(name, Recipe((31,), 3), tensors, values, "cpu")


@pytest.mark.parametrize("name", ["ranks", "joined", "cosine", "columns"])
def test_clouds_have_no_ridge_and_say_so(name):
    with pytest.raises(InputError, match="has no ridge"):
        create(name, Recipe((30,), 3, lam=1.0))


def fitted(X, K=3):
    return ClosedFormSubspaceClustering(K, random_state=0, device="cpu").fit(X)


@pytest.mark.parametrize(("K", "m", "d"), [(3, 3, 30), (5, 4, 50), (4, 2, 100)])
def test_unions_of_subspaces_are_taken_as_they_are(K, m, d):
    data = synthetic(300, K, m, d, noise=0.05, random_state=0)
    model = fitted(data.X, K)
    assert model.representation_ == "given"
    assert clustering_error(data.y, model.labels_) == 0.0


def test_the_columns_of_a_table_are_ranked():
    X, y = table()
    model = fitted(X)
    assert model.representation_ in ("ranks", "cosine")
    assert clustering_error(y, model.labels_) < 5.0
    assert clustering_error(y, fitted(X * [1e-3, 1e3, 1.0, 1.0]).labels_) < 5.0


@pytest.mark.parametrize("seed", range(2))
def test_clouds_with_an_offset_are_joined(seed):
    X, y = clouds(seed=seed)
    model = fitted(X)
    assert model.representation_ == "joined"
    assert clustering_error(y, model.labels_) == 0.0
