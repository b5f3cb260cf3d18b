"""Word counts: their weights, when "auto" sees them, and what a sparse matrix gives."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.datasets import load_digits

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.errors import InputError
from dcfsc.metrics import clustering_error
from dcfsc.pipeline import Recipe
from dcfsc.representations.base import Part
from dcfsc.representations.counts import Counts
from dcfsc.self_expression import solve_for_dof


def texts(n=60, words=600, length=60, seed=0):
    """Texts of two topics: half of the words are among twenty that all share, half of the topic."""
    random = np.random.default_rng(seed)
    word = np.arange(words)
    X, y = np.zeros((2 * n, words)), np.repeat([0, 1], n)
    for i, topic in enumerate(y):
        own = (word >= 20) & (word < 300) & (word % 2 == topic)
        p = 0.5 * (word < 20) / 20 + 0.5 * own / own.sum()
        X[i] = random.multinomial(length, p)
    return X, y


def test_weights_are_logarithms_and_inverse_frequencies():
    X = np.zeros((3, 60))
    X[:, :3] = [[0, 3, 1], [2, 1, 0], [0, 1, 0]]
    model = Counts(Recipe((60,), 2))
    rows = model.fit_transform(torch.from_numpy(X))
    expected = np.log1p(X) * np.log(4.0 / np.array([2.0, 4.0, 2.0] + 57 * [1.0]))
    expected[:2] /= np.linalg.norm(expected[:2], axis=1, keepdims=True)
    weighted = model._weighted(torch.from_numpy(X))
    np.testing.assert_allclose(weighted.numpy(), expected, atol=1e-15)
    np.testing.assert_allclose(rows[:, :60].numpy(), expected, atol=1e-15)
    assert torch.equal(model.transform(torch.from_numpy(X)), rows)


def test_auto_sees_counts_and_finds_the_topics():
    X, y = texts()
    model = ClosedFormSubspaceClustering(2, random_state=0, device="cpu").fit(X)
    assert model.representation_ == "counts"
    assert clustering_error(y, model.labels_) == 0.0
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_a_sparse_matrix_gives_what_the_dense_one_does():
    X, _ = texts()
    dense = ClosedFormSubspaceClustering(2, random_state=0, device="cpu").fit(X)
    for kind in (sp.csr_matrix, sp.coo_array):
        sparse = ClosedFormSubspaceClustering(2, random_state=0, device="cpu").fit(kind(X))
        np.testing.assert_array_equal(sparse.labels_, dense.labels_)
        np.testing.assert_array_equal(sparse.predict(kind(X)), dense.predict(X))


def test_a_tenth_may_be_other_than_zero_and_a_hundred_features_are_enough():
    X = torch.zeros(10, 100)
    X[:, :10] = 2.0
    model = Counts(Recipe((100,), 2))
    assert model.suits(X)
    X[0, 10] = 1.0
    assert not model.suits(X)
    assert Counts.considered(Recipe((21,), 2))
    assert not Counts.considered(Recipe((20,), 2))


@pytest.mark.parametrize(
    ("what", "X"),
    [
        ("pixels", load_digits().data[:200].repeat(2, axis=1)),
        ("frequencies", texts()[0] / 60.0),
        ("zeros and ones", (texts()[0] > 0) * 1.0),
        ("differences", texts()[0] - texts(seed=1)[0]),
    ],
)
def test_other_samples_are_no_counts(what, X):
    assert not Counts(Recipe(X.shape[1:], 2)).suits(torch.from_numpy(X)), what


def test_counts_are_of_a_hundred_things_and_mostly_zero():
    assert Counts.considered(Recipe((100,), 3))
    assert not Counts(Recipe((99,), 3)).suits(torch.eye(99) * 2)
    assert not Counts.considered(Recipe((10, 10), 3))
    X = torch.zeros(4, 100)
    X[:, ::10] = 2.0
    assert Counts(Recipe((100,), 3)).suits(X)
    X[0, 1] = 1.0
    assert not Counts(Recipe((100,), 3)).suits(X)


@pytest.mark.parametrize("value", [2.5, -1.0])
def test_a_single_value_that_is_no_count_is_enough(value):
    X = torch.zeros(4, 100)
    X[:, 0] = 2.0
    assert Counts(Recipe((100,), 3)).suits(X)
    X[1, 1] = value
    assert not Counts(Recipe((100,), 3)).suits(X)


def test_a_part_is_weighted_by_its_own_frequencies():
    X, recipe = torch.from_numpy(texts(n=10)[0]), Recipe((600,), 2)
    index = torch.arange(0, 20, 2)
    alone = Counts(recipe)
    rows = alone.fit_transform(X[index])
    operator = Counts(recipe).solve_part(Part(X, index, recipe))
    half, columns = operator.others
    assert torch.equal(torch.cat([rows[:, :600], half, columns], dim=1), rows)
    unit = alone._weighted(X[index])
    expected = solve_for_dof(unit, recipe.dof).dense()
    torch.testing.assert_close(operator.dense(), expected, rtol=0, atol=1e-12)
    assert not torch.equal(Counts(recipe).fit_transform(X)[index, :600], unit)


def test_weights_alone_compare_by_the_plain_cosine_of_the_weighted_counts():
    X, recipe = torch.from_numpy(texts(n=10)[0]), Recipe((600,), 2)
    fitted, plain = Counts(recipe), Counts(recipe)
    fitted.fit_transform(X)
    plain.restore({"weights": fitted.weights}, {}, "cpu")
    rows = plain.transform(X)
    assert torch.equal(rows, fitted._weighted(X))
    assert plain.row_shape == (600,)
    assert torch.equal(plain.solve(rows).directions, rows)
    assert list(plain.state()[0]) == ["weights"]


def test_weights_of_another_width_are_not_restored():
    with pytest.raises(InputError, match="weights has the shape"):
        Counts(Recipe((3,), 2)).restore({"weights": torch.ones(4)}, {}, "cpu")


def species(n=400, columns=50, seed=0):
    """Four communities: few species hold most of a sample, and samples are of unequal size."""
    random = np.random.default_rng(seed)
    changed = random.random((4, columns)) < 0.3
    rates = np.exp(
        2.0 * random.normal(size=columns) + 0.8 * random.normal(size=(4, columns)) * changed
    )
    y = random.integers(4, size=n)
    shares = rates[y] * random.gamma(1 / 0.3, 0.3, size=(n, columns))
    sizes = 2000 * np.exp(random.normal(size=(n, 1)))
    return random.poisson(shares / shares.sum(axis=1, keepdims=True) * sizes).astype(float), y


def test_counts_that_are_seldom_zero_are_compared_at_equal_totals():
    X, y = species(300, seed=2)
    assert (X > 0).mean() > 0.5
    model = ClosedFormSubspaceClustering(4, random_state=0, device="cpu").fit(X)
    assert model.representation_ == "counts"
    assert clustering_error(y, model.labels_) < 6.0
    np.testing.assert_array_equal(model.predict(4.0 * X), model.predict(X))


def test_rows_of_dense_counts_are_logarithms_at_the_median_total(tmp_path):
    X = np.array([[4.0, 1, 3], [20, 40, 20], [1, 0, 3]])  # totals 8, 80 and 4
    model = Counts(Recipe((3,), 2))
    model.fit_transform(torch.from_numpy(X))
    expected = np.log1p(X * (8.0 / np.array([[8.0], [80.0], [4.0]])))
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(model._weighted(torch.from_numpy(X)).numpy(), expected, atol=1e-15)
    again = Counts(Recipe((3,), 2))
    again.restore(*model.state(), "cpu")
    assert torch.equal(again.transform(torch.from_numpy(X)), model.transform(torch.from_numpy(X)))


def test_stability_decides_on_dense_counts_of_unequal_totals():
    X = torch.from_numpy(species()[0])
    equal = torch.from_numpy(np.random.default_rng(0).poisson(40.0, (100, 50)) * 1.0)
    counts = Counts(Recipe((50,), 4))
    assert counts.suits(X) is None
    assert counts.suits(equal) is False
    assert counts.suits(X + 0.5) is False
