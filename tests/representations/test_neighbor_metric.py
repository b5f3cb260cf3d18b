"""The metric in which neighbors are close, and the choice that the data make."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.affinity import TopK
from dcfsc.errors import InputError
from dcfsc.estimators.registry import load_model
from dcfsc.io import synthetic
from dcfsc.metrics import clustering_error
from dcfsc.pipeline import Recipe
from dcfsc.representations import neighbor_metric as module
from dcfsc.representations.base import Part
from dcfsc.representations.neighbor_metric import (
    NeighborMetric,
    NeighborMetricTwice,
    edge_signs,
    in_metric,
    in_span,
    metric_of,
    neighbor_metric,
    scatter_of_edges,
)
from dcfsc.self_expression import CosineForm, choose_lam, solve


def noisy_directions(n=180, seed=0):
    """Three clusters that all vary strongly along the same four of twelve directions."""
    random = np.random.default_rng(seed)
    y = np.arange(n) % 3
    centers = np.zeros((3, 12))
    centers[:, :3] = np.eye(3)
    X = centers[y] + 0.05 * random.normal(size=(n, 12))
    X[:, 8:] += 0.8 * random.normal(size=(n, 4))
    return X.astype(np.float32), y


def alike(n=300):
    """Three noisy clusters that all vary most along ten of thirty directions."""
    random = np.random.default_rng(0)
    y = np.arange(n) % 3
    X = np.eye(30)[y] + 0.2 * random.normal(size=(n, 30))
    X[:, 10:20] += 0.5 * random.normal(size=(n, 10))
    return X.astype(np.float32), y


def unit(X):
    return torch.nn.functional.normalize(torch.from_numpy(np.asarray(X, dtype=np.float64)))


def test_the_metric_is_the_inverse_root_of_the_shrunk_scatter_of_neighbors():
    Z = unit(noisy_directions()[0])
    T = neighbor_metric(Z, 3)
    P = T @ T.mT  # (S + tr(S)/d I)^-1
    S = torch.linalg.inv(P)
    shrinkage = S.trace() / 2 / len(S)  # the trace of S + tr(S)/d I is twice that of S
    assert torch.linalg.eigvalsh(S - shrinkage * torch.eye(len(S), dtype=S.dtype))[0] > -1e-9
    # Directions that all clusters vary along are shrunk the most.
    assert P.diagonal()[8:].max() < P.diagonal()[:8].min()


def test_rows_in_a_metric_have_unit_length_and_zero_rows_stay():
    Z = unit(noisy_directions()[0])
    Z[3] = 0.0
    Y = in_metric(Z, neighbor_metric(Z, 3))
    lengths = torch.linalg.vector_norm(Y, dim=1)
    assert lengths[3] == 0.0
    np.testing.assert_allclose(np.delete(lengths.numpy(), 3), 1.0, atol=1e-12)


def test_copies_alone_have_the_identity():
    Z = torch.eye(4, dtype=torch.float64).repeat(10, 1)
    assert torch.equal(neighbor_metric(Z, 4), torch.eye(4, dtype=torch.float64))


def test_few_samples_have_the_metric_too_if_asked_for():
    X, _ = noisy_directions(15)
    model = ClosedFormSubspaceClustering(3, representation="metric", random_state=0, device="cpu")
    assert model.fit(X).representation_ == "metric"


def test_the_data_choose_the_metric_where_clusters_vary_alike():
    X, y = alike()
    images = X.reshape(-1, 5, 6)  # too small for scattering
    model = ClosedFormSubspaceClustering(3, random_state=0, device="cpu").fit(images)
    assert model.representation_ == "metric-twice"
    assert model.stability_["metric-twice"] > model.stability_["given"] + 0.05
    assert (model.lam_, model.effective_dof_, model.leverage_) == (None, None, None)
    assert clustering_error(y, model.labels_) < 1.0


def test_subspaces_that_cross_are_taken_as_they_are():
    data = synthetic(300, 4, 3, 8, noise=0.05, random_state=0)
    model = ClosedFormSubspaceClustering(4, random_state=0, device="cpu").fit(data.X)
    assert model.representation_ == "given"
    # Four clusters of three dimensions are more than the rank of eight: 0.99 of it are taken.
    assert model.effective_dof_ == pytest.approx(0.99 * 8, rel=1e-5)


@pytest.mark.parametrize("given", [{"lam": 0.1}, {"subspace_dim": 3}, {"normalize": False}])
def test_a_ridge_that_is_given_is_taken_on_the_samples_as_they_are(given):
    model = ClosedFormSubspaceClustering(3, random_state=0, device="cpu", **given)
    assert model.fit(noisy_directions()[0]).representation_ == "given"
    assert model.stability_ == {}
    if "lam" in given:
        assert model.lam_ == 0.1


@pytest.mark.parametrize("name", ["metric", "metric-twice"])
@pytest.mark.parametrize("given", [{"lam": 1.0}, {"subspace_dim": 2}, {"normalize": False}])
def test_a_ridge_and_a_metric_are_refused_in_one_line(name, given):
    with pytest.raises(InputError, match=f"representation='{name}' has no ridge") as raised:
        ClosedFormSubspaceClustering(3, representation=name, **given).fit(noisy_directions()[0])
    assert "\n" not in str(raised.value)


def test_a_saved_model_predicts_in_the_same_metric(tmp_path):
    X, y = noisy_directions(240)
    model = ClosedFormSubspaceClustering(
        3, representation="metric-twice", random_state=0, device="cpu"
    ).fit(X[:180])
    assert model.representation_ == "metric-twice"
    model.save(tmp_path / "model.safetensors")
    loaded = load_model(tmp_path / "model.safetensors", device="cpu")
    assert loaded.representation_ == "metric-twice"
    T = model._representation.T
    assert torch.equal(loaded._representation.T, T)
    assert torch.equal(loaded._training_features, model._training_features)
    unseen = model._rows(X[180:])
    assert torch.equal(loaded._representation.transform_unseen(unseen), in_metric(unseen, T))
    assert not torch.allclose(in_metric(unseen, T), in_metric(unseen, T.mT), atol=1e-3)
    predicted = loaded.predict(X[180:])
    np.testing.assert_array_equal(predicted, model.predict(X[180:]))
    assert clustering_error(y[180:], predicted) <= clustering_error(y[:180], model.labels_) + 5.0
    with pytest.raises(InputError, match="representation='given'"):
        model.lambda_path()


def test_twice_takes_the_metric_from_what_once_finds():
    """The second round written out: the graph of the cosines in the first metric."""
    Z = unit(noisy_directions()[0])
    recipe = Recipe((12,), 3)
    once, twice = NeighborMetric(recipe), NeighborMetricTwice(recipe)
    once.fit_transform(Z)
    twice.fit_transform(Z)
    first = metric_of(Z, TopK()(solve(Z, choose_lam(Z, 9.0)), 3))
    second = metric_of(Z, TopK()(CosineForm(in_metric(Z, first)), 3))
    torch.testing.assert_close(once.T, first)
    torch.testing.assert_close(twice.T, second)
    assert not torch.allclose(once.T, twice.T)
    torch.testing.assert_close(twice.transform(Z), in_metric(Z, second))
    part = Part(Z, torch.arange(0, 180, 3), recipe)
    operator = twice.solve_part(part)
    expected = in_metric(part.Z, neighbor_metric(part.Z, 3, 2))
    torch.testing.assert_close(operator.directions, expected)


def test_the_metric_is_considered_up_to_a_number_of_features():
    assert NeighborMetricTwice.considered(Recipe((64, 64), 3))
    assert not NeighborMetricTwice.considered(Recipe((4097,), 3))
    assert not NeighborMetric.considered(Recipe((12,), 3))  # one round is never chosen
    assert not NeighborMetricTwice.considered(Recipe((12,), 3, lam=1.0))


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


def test_neighbors_that_differ_by_a_hair_still_have_a_metric():
    random = np.random.default_rng(4)
    base = random.normal(size=(3, 6))
    noise = 1e-9 * random.normal(size=(90, 6)) * [100.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    Z = unit(base[np.arange(90) % 3] + noise)
    T = neighbor_metric(Z, 3)
    A = TopK()(solve(Z, choose_lam(Z, 9.0)), 3)
    S = scatter_of_edges(Z, A, one_by_one=True) / A.sum()
    expected = torch.linalg.inv(S + S.trace() / 6 * torch.eye(6, dtype=S.dtype))
    assert torch.allclose(T @ T.mT, expected, rtol=1e-6)


def test_a_graph_without_edges_has_the_identity():
    Z = unit(np.random.default_rng(5).normal(size=(10, 3)))
    assert torch.equal(metric_of(Z, sp.csr_array((10, 10))), torch.eye(3, dtype=torch.float64))


@pytest.mark.parametrize("rounds", [1, 2])
def test_few_samples_in_many_dimensions_are_seen_the_same_in_their_span(rounds):
    Z = unit(np.random.default_rng(6).normal(size=(40, 90)))
    L = in_span(Z, Z @ Z.mT)
    assert L.shape == (40, 40)
    assert torch.allclose(L @ L.mT, Z @ Z.mT, rtol=0, atol=1e-13)
    first = solve(Z, choose_lam(Z, 9.0))
    whole = in_metric(Z, neighbor_metric(Z, 3, rounds, first))
    reduced = in_metric(L, neighbor_metric(L, 3, rounds, first, 90))
    assert torch.allclose(reduced @ reduced.mT, whole @ whole.mT, rtol=0, atol=1e-10)
    assert in_span(Z.mT, Z @ Z.mT).shape == (90, 40)


def test_copies_too_are_seen_the_same_in_their_span():
    Z = unit(np.random.default_rng(7).normal(size=(40, 90)))
    Z[20:] = Z[:20]
    L = in_span(Z, Z @ Z.mT)
    assert L.shape == (40, 40)
    assert torch.allclose(L @ L.mT, Z @ Z.mT, rtol=0, atol=1e-13)


def test_many_rows_and_edges_are_taken_in_parts(monkeypatch):
    random = np.random.default_rng(3)
    Z = unit(random.normal(size=(60, 9)))
    A = TopK()(solve(Z, 0.5), 3)
    T = metric_of(Z, A)
    whole = edge_signs(Z, A), scatter_of_edges(Z, A, one_by_one=True), in_metric(Z, T)
    coo = A.tocoo()
    products = (Z[coo.coords[0]] * Z[coo.coords[1]]).sum(dim=1)
    assert torch.equal(whole[0], products.sign())
    assert set(whole[0].tolist()) == {-1.0, 1.0}

    def seven_at_a_time(n, width, device):
        return [slice(i, min(i + 7, n)) for i in range(0, n, 7)]

    monkeypatch.setattr(module, "row_chunks", seven_at_a_time)
    parts = edge_signs(Z, A), scatter_of_edges(Z, A, one_by_one=True), in_metric(Z, T)
    for one, other in zip(whole, parts, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("trace", "calls"), [(1.01e-6, [False]), (0.99e-6, [False, True])])
def test_differences_below_a_thousandth_are_added_one_by_one(monkeypatch, trace, calls):
    seen = []

    def scatter(Z, graph, one_by_one=False):
        seen.append(one_by_one)
        return float(graph.sum()) * torch.diag(torch.tensor([trace, 0.0], dtype=torch.float64))

    monkeypatch.setattr(module, "scatter_of_edges", scatter)
    T = metric_of(torch.eye(2, dtype=torch.float64), sp.csr_array(3.0 * np.eye(2)))
    assert seen == calls
    expected = torch.tensor([1.5, 0.5], dtype=torch.float64) * trace  # S + tr(S)/2 I
    torch.testing.assert_close((T @ T.mT).diagonal(), 1.0 / expected)


def test_the_spread_is_that_over_the_columns_that_rows_stand_for():
    Z = unit(np.random.default_rng(6).normal(size=(20, 4)))
    A = TopK()(solve(Z, 0.5), 3)
    S = scatter_of_edges(Z, A) / A.sum()
    for width in (None, 4, 10):
        T = metric_of(Z, A, width)
        expected = S + S.trace() / (width or 4) * torch.eye(4, dtype=S.dtype)
        torch.testing.assert_close(torch.linalg.inv(T @ T.mT), expected)


def test_rows_of_another_width_have_no_metric():
    with pytest.raises(InputError, match="metric has the shape"):
        NeighborMetric(Recipe((2, 3), 2)).restore({"metric": torch.eye(5)}, {}, "cpu")


def test_rows_as_wide_as_many_are_their_own_span():
    Z = unit(np.random.default_rng(6).normal(size=(9, 9)))
    assert in_span(Z, Z @ Z.mT) is Z
    few = Z[:8].float()
    assert in_span(few, few.double() @ few.mT.double()).shape == (8, 8)
    assert in_span(few, few.double() @ few.mT.double()).dtype == torch.float32
