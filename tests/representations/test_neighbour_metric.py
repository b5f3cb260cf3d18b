"""The metric in which neighbours are close, and the choice that the data make."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.affinity import TopK
from dcfsc.datasets import synthetic
from dcfsc.errors import InputError
from dcfsc.estimators.registry import load_model
from dcfsc.estimators.regularisation import lam_for
from dcfsc.metrics import clustering_error
from dcfsc.representations.neighbour_metric import (
    choose_metric,
    in_metric,
    metric_of,
    neighbour_metric,
    plain_ridge,
    scatter_of_edges,
)
from dcfsc.self_expression import solve


def noisy_directions(n=180, seed=0):
    """Three clusters that all vary strongly along the same four of twelve directions."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % 3
    centres = np.zeros((3, 12))
    centres[:, :3] = np.eye(3)
    X = centres[y] + 0.05 * random.normal(size=(n, 12))
    X[:, 8:] += 0.8 * random.normal(size=(n, 4))
    return X.astype(np.float32), y


def unit(X):
    return torch.nn.functional.normalize(torch.from_numpy(np.asarray(X, dtype=np.float64)))


def test_the_metric_is_the_inverse_root_of_the_shrunk_scatter_of_neighbours():
    Z = unit(noisy_directions()[0])
    T = neighbour_metric(Z, 3)
    P = T @ T.mT  # (S + tr(S)/d I)^-1
    S = torch.linalg.inv(P)
    shrinkage = S.trace() / 2 / len(S)  # the trace of S + tr(S)/d I is twice that of S
    assert torch.linalg.eigvalsh(S - shrinkage * torch.eye(len(S), dtype=S.dtype))[0] > -1e-9
    # Directions that all clusters vary along are shrunk the most.
    assert P.diagonal()[8:].max() < P.diagonal()[:8].min()


def test_a_large_ridge_ranks_by_the_plain_cosine():
    Z = unit(np.random.default_rng(1).normal(size=(50, 7)))
    values, indices = solve(Z, plain_ridge(50)).topk_cosine(5)
    C = (Z @ Z.mT).fill_diagonal_(0.0)
    expected = C.abs().topk(5, dim=1)
    np.testing.assert_array_equal(indices, expected.indices)
    np.testing.assert_allclose(values.abs(), expected.values, atol=1e-5)


def test_rows_in_a_metric_have_unit_length_and_zero_rows_stay():
    Z = unit(noisy_directions()[0])
    Z[3] = 0.0
    Y = in_metric(Z, neighbour_metric(Z, 3))
    lengths = torch.linalg.vector_norm(Y, dim=1)
    assert lengths[3] == 0.0
    np.testing.assert_allclose(np.delete(lengths.numpy(), 3), 1.0, atol=1e-12)


def test_copies_alone_have_the_identity():
    Z = torch.eye(4, dtype=torch.float64).repeat(10, 1)
    assert torch.equal(neighbour_metric(Z, 4), torch.eye(4, dtype=torch.float64))


def test_who_asks_for_the_metric_gets_it_for_few_samples_too():
    X, _ = noisy_directions(15)
    model = ClosedFormSubspaceClustering(3, metric="neighbours", random_state=0, device="cpu")
    assert model.fit(X).metric_ == "neighbours"


def test_the_data_choose_the_metric_where_clusters_vary_alike():
    X, y = noisy_directions()
    model = ClosedFormSubspaceClustering(3, random_state=0, device="cpu").fit(X)
    assert model.metric_ == "neighbours-twice"
    assert model.stability_["neighbours-twice"] > model.stability_["none"]
    plain = ClosedFormSubspaceClustering(3, metric="none", random_state=0, device="cpu").fit(X)
    assert plain.metric_ == "none"
    assert clustering_error(y, model.labels_) == 0.0


def test_subspaces_that_cross_are_taken_as_they_are():
    data = synthetic(300, 4, 3, 8, noise=0.05, random_state=0)
    model = ClosedFormSubspaceClustering(4, random_state=0, device="cpu").fit(data.X)
    assert model.metric_ == "none"


@pytest.mark.parametrize("given", [{"lam": 0.1}, {"subspace_dim": 3}, {"normalize": False}])
def test_who_gives_a_ridge_gets_that_ridge(given):
    model = ClosedFormSubspaceClustering(3, random_state=0, device="cpu", **given)
    assert model.fit(noisy_directions()[0]).metric_ == "none"
    assert model.stability_ == {}


def test_few_samples_or_many_features_have_no_metric():
    Z = unit(noisy_directions(12)[0])
    assert choose_metric("auto", Z, 3) == ("none", None, {})
    wide = torch.zeros(60, 4097, dtype=torch.float32)
    assert choose_metric("auto", wide, 3) == ("none", None, {})


def test_bad_choices_are_one_line():
    X, _ = noisy_directions()
    with pytest.raises(InputError, match="unknown metric 'neighbors'"):
        ClosedFormSubspaceClustering(3, metric="neighbors").fit(X)
    for given in ({"lam": 1.0}, {"subspace_dim": 2}, {"normalize": False}):
        with pytest.raises(InputError, match="has no transformations, no lam"):
            ClosedFormSubspaceClustering(3, metric="neighbours", **given).fit(X)


def test_a_saved_model_predicts_in_the_same_metric(tmp_path):
    X, y = noisy_directions(240)
    model = ClosedFormSubspaceClustering(3, random_state=0, device="cpu").fit(X[:180])
    assert model.metric_ == "neighbours-twice"
    model.save(tmp_path / "model.safetensors")
    loaded = load_model(tmp_path / "model.safetensors", device="cpu")
    assert loaded.metric_ == "neighbours-twice"
    found = loaded.predict(X[180:])
    np.testing.assert_array_equal(found, model.predict(X[180:]))
    assert clustering_error(y[180:], found) <= clustering_error(y[:180], model.labels_) + 5.0
    with pytest.raises(InputError, match="metric='none' has one"):
        model.lambda_path()


def test_twice_takes_the_metric_from_what_once_has_found():
    X, _ = noisy_directions()
    Z = unit(X)
    name, T, _ = choose_metric("neighbours-twice", Z, 3)
    assert name == "neighbours-twice"
    assert torch.equal(T, neighbour_metric(Z, 3, rounds=2))
    model = ClosedFormSubspaceClustering(3, metric="neighbours-twice", random_state=0, device="cpu")
    assert model.fit(X).metric_ == "neighbours-twice"
    _, _, scores = choose_metric("auto", Z, 3)
    assert set(scores) == {"none", "neighbours-twice"}


@pytest.mark.parametrize("opposite", [False, True])
def test_the_scatter_by_the_laplacian_is_that_of_the_edges(opposite):
    random = np.random.default_rng(3)
    Z = unit(random.normal(size=(60, 9)))
    if opposite:
        Z[::2] *= -1.0
    A = TopK()(solve(Z, 0.5), 3)
    edges = A.tocoo()
    expected = np.zeros((9, 9))
    for i, j, weight in zip(*edges.coords, edges.data, strict=True):
        e = (Z[i] - torch.sign(Z[i] @ Z[j]) * Z[j]).numpy()
        expected += weight * np.outer(e, e)
    for one_by_one in (False, True):
        S = scatter_of_edges(Z, A, one_by_one)
        np.testing.assert_allclose(S, expected, rtol=1e-12, atol=1e-12 * expected.trace())


def test_neighbours_that_differ_by_a_hair_still_have_a_metric():
    random = np.random.default_rng(4)
    base = random.normal(size=(3, 6))
    noise = 1e-9 * random.normal(size=(90, 6)) * [100.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    Z = unit(base[np.arange(90) % 3] + noise)
    T = neighbour_metric(Z, 3)
    A = TopK()(solve(Z, lam_for(Z, 3, None)), 3)
    S = scatter_of_edges(Z, A, one_by_one=True) / A.sum()
    expected = torch.linalg.inv(S + S.trace() / 6 * torch.eye(6, dtype=S.dtype))
    assert torch.allclose(T @ T.mT, expected, rtol=1e-6)


def test_a_graph_without_edges_has_the_identity():
    Z = unit(np.random.default_rng(5).normal(size=(10, 3)))
    assert torch.equal(metric_of(Z, sp.csr_array((10, 10))), torch.eye(3, dtype=torch.float64))
