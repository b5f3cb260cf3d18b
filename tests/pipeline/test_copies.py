"""Equal samples: one vertex in the graph that is cut, and one label."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from dcfsc import ClosedFormSubspaceClustering, suggest_k
from dcfsc.affinity import TopK
from dcfsc.errors import InputError
from dcfsc.graphs import trusted
from dcfsc.metrics import clustering_error
from dcfsc.pipeline import Copies, Recipe, distinct
from dcfsc.pipeline.copies import restored
from dcfsc.spectral import embed

PLACE = np.array([0, 1, 1, 2, 0, 3, 1])


def grades(seed=0, per_cluster=300):
    """Three clusters in a table of four columns with the whole numbers from 0 to 9."""
    random = np.random.default_rng(seed)
    means = np.array([[2, 2, 7, 5], [7, 3, 2, 5], [5, 7, 6, 1]])
    y = np.repeat(np.arange(3), per_cluster)
    X = np.clip(np.rint(means[y] + 0.8 * random.normal(size=(len(y), 4))), 0, 9)
    return X, y


def places(X):
    """The number of each row's value, by first appearance."""
    numbers: dict[tuple, int] = {}
    return np.array([numbers.setdefault(tuple(x), len(numbers)) for x in X.tolist()])


def test_the_first_of_equal_rows_are_compared_in_an_order_of_their_own():
    X = torch.tensor([[1.0, 2], [0, 5], [-0.0, 5], [3, 3], [1, 2], [7, 7], [0, 5]])
    rows, order, copies = distinct(X, Recipe((2,), 2))
    assert torch.equal(rows, X[[0, 1, 3, 5]])
    np.testing.assert_array_equal(copies.place, PLACE)
    np.testing.assert_array_equal(copies.first, [0, 1, 3, 5])
    again = distinct(rows.flip(0), Recipe((2,), 2))
    assert again[2] is None
    assert torch.equal(again[0][again[1]], rows[order])


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe((2,), 4),  # four values are the clusters
        Recipe((2,), 2, lam=1.0),
        Recipe((2,), 2, unit_length=False),
        Recipe((2,), 2, affinity=TopK(search="approximate")),
        Recipe((1, 2), 2),
    ],
)
def test_where_all_rows_are_compared(recipe):
    X = torch.tensor([[1.0, 2], [0, 5], [0, 5], [3, 3], [1, 2], [7, 7], [0, 5]])
    rows, _, copies = distinct(X, recipe)
    assert rows is X
    assert copies is None


def test_links_of_copies_are_added():
    A = np.random.default_rng(0).random((7, 7))
    A = np.where(PLACE[:, None] == PLACE, 0.0, A + A.T)
    S = np.eye(4)[PLACE]
    joined = Copies(PLACE).joined(trusted(sp.csr_array(A), torch.device("cpu")))
    np.testing.assert_allclose(joined.on_host.toarray(), S.T @ A @ S, rtol=1e-14)


def test_copies_have_equal_rows_in_the_embedding_and_its_columns_are_orthonormal():
    A = np.random.default_rng(0).random((7, 7))
    A = np.where(PLACE[:, None] == PLACE, 0.0, A + A.T)
    copies = Copies(PLACE)
    of_values = embed(copies.joined(trusted(sp.csr_array(A), torch.device("cpu"))), 3)
    found = copies.repeated(of_values)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(3), atol=1e-12)
    counts = np.bincount(PLACE)
    np.testing.assert_allclose(
        found.vectors, (of_values.vectors / np.sqrt(counts)[:, None])[PLACE], rtol=1e-14
    )
    np.testing.assert_allclose(np.bincount(PLACE, found.degrees), of_values.degrees, rtol=1e-14)


def test_clusters_of_a_table_with_many_equal_rows():
    X, y = grades()
    model = ClosedFormSubspaceClustering(3, random_state=0, device="cpu").fit(X)
    place = places(X)
    assert place.max() < len(X) / 2  # every value is there twice, and more
    for value in range(place.max() + 1):
        assert len(set(model.labels_[place == value])) == 1
        assert len(set(model.confidence_[place == value])) == 1
    assert clustering_error(y, model.labels_) < 5.0
    assert model.affinity_matrix_.shape == (len(X), len(X))
    assert model.coefficients_.n == len(X)
    _, columns = model.coefficients_.topk(8)
    assert all(len(set(place[row])) == 8 for row in columns.numpy())
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_a_saved_model_knows_the_copies(tmp_path):
    X, _ = grades()
    new, _ = grades(seed=1)
    model = ClosedFormSubspaceClustering(3, random_state=0, device="cpu").fit(X)
    model.save(tmp_path / "model")
    loaded = ClosedFormSubspaceClustering.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))
    np.testing.assert_allclose(loaded.predict_proba(new), model.predict_proba(new), atol=1e-6)
    assert torch.equal(loaded._training_features, model._training_features)


def test_a_ridge_is_that_of_the_values():
    X, _ = grades()
    model = ClosedFormSubspaceClustering(3, random_state=0, device="cpu").fit(X)
    values = ClosedFormSubspaceClustering(3, random_state=0, device="cpu").fit(
        X[np.unique(places(X), return_index=True)[1]]
    )
    assert model.representation_ == values.representation_
    assert model.measure_stability(X) == values.stability_
    assert model.lam_ == values.lam_


def test_the_number_of_clusters_is_that_of_the_values():
    X, _ = grades()
    alone = suggest_k(X[np.unique(places(X), return_index=True)[1]], random_state=0, max_k=8)
    whole = suggest_k(X, random_state=0, max_k=8)
    assert whole.to_dict() == {**alone.to_dict(), "n_samples": len(X)}


@pytest.mark.parametrize("place", [[0, 1, 1, 3], [0, 1, 1], [0.0, 1, 1, 2], [-1, 0, 1, 2]])
def test_forged_places_are_refused(place):
    with pytest.raises(InputError, match="copies do not match its samples"):
        restored(torch.tensor(place), 4)
    assert restored(None, 4) is None
