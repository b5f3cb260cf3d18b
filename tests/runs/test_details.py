"""Details of a run: what they mean, that they are bounded, and that labels only tell mistakes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dcfsc import metrics, spectral
from dcfsc.estimators import SSC, SSCOMP, ClosedFormSubspaceClustering, base
from dcfsc.io import Dataset, synthetic
from dcfsc.pipeline import Partition
from dcfsc.report.details import DOUBTFUL, MISTAKE, OTHER, TYPICAL
from dcfsc.report.drawing import block_means, cluster_mass, plane_view
from dcfsc.report.thumbnails import BUDGET
from dcfsc.runs import details as run_details


@pytest.fixture(scope="module")
def data() -> Dataset:
    return synthetic(120, 3, 4, 20, noise=0.05, random_state=0)


@pytest.fixture(scope="module")
def fitted(data: Dataset) -> ClosedFormSubspaceClustering:
    return ClosedFormSubspaceClustering(3, random_state=0, device="cpu").fit(data.X)


def random_graph(n: int, n_clusters: int, seed: int) -> tuple[sp.csr_array, np.ndarray]:
    """Sparse symmetric weights with a diagonal, isolated points among them, and labels."""
    rng = np.random.default_rng(seed)
    A = sp.csr_array(np.where(rng.random((n, n)) < 0.3, rng.random((n, n)), 0.0))
    A = sp.csr_array(A + A.T)
    A = sp.csr_array(sp.diags_array((rng.random(n) > 0.1).astype(float)) @ A)
    keep = np.asarray(A.sum(axis=1)).ravel() > 0
    A = sp.csr_array(A @ sp.diags_array(keep.astype(float)))
    labels = rng.integers(0, n_clusters, n)
    labels[:n_clusters] = np.arange(n_clusters)
    return A, labels


@given(st.integers(6, 40), st.integers(2, 5), st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_mass_is_the_affinity_with_each_cluster(n: int, k: int, seed: int) -> None:
    A, labels = random_graph(n, k, seed)
    mass = cluster_mass(A, labels, k)
    dense = A.toarray()
    np.fill_diagonal(dense, 0.0)
    for i in range(n):
        by_cluster = np.array([dense[i, labels == c].sum() for c in range(k)])
        np.testing.assert_allclose(mass[i], by_cluster, atol=1e-12)


@pytest.mark.parametrize("n", [7, 400, 1000])
def test_block_means_of_dense_and_sparse_agree_with_the_definition(n: int) -> None:
    A, labels = random_graph(n, 3, 1)
    order = np.argsort(labels, kind="stable")
    b = min(n, 400)
    found = block_means(A, order)
    np.testing.assert_allclose(found, block_means(A.toarray(), order), rtol=1e-5)
    ordered = A.toarray()[np.ix_(order, order)]
    block = np.arange(n) * b // n
    for r, c in ((0, 0), (b - 1, 2), (b // 2, b - 1)):
        mean = ordered[np.ix_(block == r, block == c)].mean()
        assert found[r, c] == pytest.approx(mean, rel=1e-5, abs=1e-9)
    assert found.shape == (b, b)


def test_nearest_are_the_largest_affinities_without_the_sample_itself() -> None:
    A, _ = random_graph(60, 3, 2)
    dense = A.toarray()
    samples = np.arange(60)
    found, weights = run_details.nearest(A)
    for one, two in zip((found, weights), run_details.nearest(dense), strict=True):
        assert np.array_equal(one, two)
    np.fill_diagonal(dense, 0.0)
    for i in samples:
        real = found[i][found[i] >= 0]
        assert len(real) == min(5, (dense[i] > 0).sum())
        best = np.sort(dense[i])[::-1][: len(real)]
        np.testing.assert_allclose(dense[i, real], best)
        np.testing.assert_allclose(weights[i, : len(real)], best, rtol=1e-6)


def chosen(n: int, k: int, most: int, wrong: Any = None) -> Any:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, k, n)
    labels[: n // 2] = 0  # one large cluster
    certainty, own = rng.random(n), rng.random(n)
    missed = np.zeros(n, bool) if wrong is None else wrong
    shown, role, view = run_details.choose_samples(labels, certainty, own, missed, k, most)
    return SimpleNamespace(**locals())


def test_samples_shown_are_the_extremes_of_each_cluster_and_a_fair_rest() -> None:
    c = chosen(20_000, 10, 3_000)
    assert len(c.shown) == len(set(c.shown.tolist())) == 3_000
    assert len(c.view) == 5_000
    assert set(c.shown.tolist()) <= set(c.view.tolist())
    for k in range(10):
        members = np.flatnonzero(c.labels == k)
        typical = c.shown[(c.role == TYPICAL) & (c.labels[c.shown] == k)]
        doubtful = c.shown[(c.role == DOUBTFUL) & (c.labels[c.shown] == k)]
        typicality = c.certainty * c.own
        assert set(typical) == set(members[np.argsort(-typicality[members])[:8]])
        assert set(doubtful) == set(members[np.argsort(c.certainty[members])[:8]])
        assert np.array_equal(typical, typical[np.argsort(-typicality[typical])])
        rest = ((c.role == OTHER) & (c.labels[c.shown] == k)).sum()
        fair = (len(members) - 16) * (3_000 - 160) / (20_000 - 160)
        assert rest == pytest.approx(fair, abs=8)


def test_confident_mistakes_are_among_those_shown() -> None:
    wrong = np.arange(20_000) % 7 == 0
    c = chosen(20_000, 10, 2_000, wrong)
    gallery = c.shown[c.role == MISTAKE]
    assert len(gallery) == run_details.MISTAKES
    assert wrong[gallery].all()
    assert c.certainty[gallery].min() > 0.9


@pytest.mark.parametrize(("n", "k"), [(2, 2), (5, 4), (9, 2), (3_000, 1_500), (9_000, 6_000)])
def test_choice_is_bounded_however_many_clusters(n: int, k: int) -> None:
    c = chosen(n, k, 40)
    assert 0 < len(c.shown) <= max(40, 2 * k)
    assert len(c.shown) <= len(c.view) <= max(run_details.VIEW_POINTS, 2 * k)


def test_view_keeps_clusters_apart_and_doubtful_samples_between() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), 30)
    same = labels[:, None] == labels[None, :]
    A = np.where(same, rng.uniform(0.5, 1.0, same.shape), rng.uniform(0.0, 0.01, same.shape))
    A = (A + A.T) / 2
    torn = 15  # of cluster 0, as near to cluster 3
    A[torn, labels == 3] = A[labels == 3, torn] = 0.75
    mass = cluster_mass(A, labels, 6)
    embedding = spectral.embed(A, 6, random_state=0)
    view = plane_view(embedding.vectors, labels, mass)
    center = np.array(
        [np.delete(view, torn, 0)[np.delete(labels, torn) == c].mean(0) for c in range(6)]
    )
    apart = np.linalg.norm(center[:, None] - center[None], axis=2)[np.triu_indices(6, 1)]
    spread = np.linalg.norm(view - center[labels], axis=1)
    assert np.delete(spread, torn).max() < 0.3 * apart.min()
    near = np.linalg.norm(center - view[torn], axis=1)
    assert near[0] + near[3] == pytest.approx(np.linalg.norm(center[0] - center[3]), rel=0.05)


def test_view_of_two_clusters_fills_the_plane() -> None:
    A, labels = random_graph(60, 2, 3)
    embedding = spectral.embed(A, 2, random_state=0)
    view = plane_view(embedding.vectors, labels, cluster_mass(A, labels, 2))
    assert np.isfinite(view).all()
    assert (view.std(axis=0) > 0.01).all()


@pytest.mark.parametrize(
    "estimator",
    [
        ClosedFormSubspaceClustering(3, random_state=0, device="cpu"),
        ClosedFormSubspaceClustering(3, affinity="symmetric", random_state=0, device="cpu"),
        SSC(3, random_state=0, device="cpu", max_iter=20, tol=1.0),
        SSCOMP(3, random_state=0, device="cpu"),
    ],
    ids=["top-k", "dense", "ssc", "ssc-omp"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_details_of_dense_and_sparse_methods(estimator: Any, data: Dataset) -> None:
    estimator.fit(data.X)
    details = run_details.describe_details(estimator, data)
    assert np.array_equal(details.labels, estimator.labels_)
    assert len(details.eigenvalues) == 13
    assert (np.diff(details.eigenvalues) <= 0).all()
    np.testing.assert_allclose(details.eigenvalues[:3], estimator.eigenvalues_[:3], atol=1e-3)
    assert details.blocks.shape == (120, 120)
    assert np.isfinite(details.view).all()
    assert not details.has_images
    assert len(details.path) == (49 if hasattr(estimator, "lam_") else 0)
    assert len(details.leverage) == (120 if hasattr(estimator, "leverage_") else 0)


def test_path_goes_through_the_lam_that_was_used(
    fitted: ClosedFormSubspaceClustering, data: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    details = run_details.describe_details(fitted, data)
    lam, dof, error = details.path[24]
    assert lam == pytest.approx(fitted.lam_)
    assert dof == pytest.approx(fitted.effective_dof_, rel=1e-6)
    Z = fitted._training_features
    left = Z - fitted._operator.apply(Z)
    assert error == pytest.approx(float(left.square().sum() / Z.square().sum()), rel=1e-4)
    assert (np.diff(details.path[:, 1]) < 0).all()
    monkeypatch.setattr(base, "PATH_COST", 0)
    cheap = run_details.describe_details(fitted, data).path
    np.testing.assert_allclose(cheap[:, :2], details.path[:, :2], rtol=1e-6)
    assert np.isnan(cheap[:, 2]).all()


def test_connectivity_counts_what_the_spectral_step_saw(data: Dataset) -> None:
    X = data.X.copy()
    X[5] = 0.0
    estimator = ClosedFormSubspaceClustering(3, random_state=0, device="cpu").fit(X)
    details = run_details.describe_details(estimator, Dataset("zero", X))
    isolated, pieces, aside = details.connectivity.tolist()
    assert isolated == estimator._partition.embedding.isolated.sum() >= 1
    assert pieces == estimator._partition.embedding.n_connected >= 2
    assert aside == estimator._partition.embedding.set_aside.sum() >= 1
    assert details.confidence[5] == pytest.approx(1 / 3)  # nothing is known of it


def test_labels_only_tell_mistakes(fitted: ClosedFormSubspaceClustering, data: Dataset) -> None:
    assert data.y is not None
    swapped = Dataset("named", data.X, 2 - data.y, label_names=["a", "b", "c"])
    with_labels = run_details.describe_details(fitted, swapped)
    bare = run_details.describe_details(fitted, Dataset("bare", data.X))
    for name in ("confidence", "view_samples", "view", "blocks", "eigenvalues", "path"):
        assert np.array_equal(getattr(bare, name), getattr(with_labels, name)), name
    assert not bare.has_truth
    assert bare.confusion.size == 0
    assert with_labels.class_names.tolist() == ["a", "b", "c"]
    mapped = with_labels.best_class[with_labels.labels]
    assert np.array_equal(mapped, metrics.best_map(2 - data.y, fitted.labels_))
    assert with_labels.confusion.sum() == 120
    wrong = metrics.clustering_error(data.y, fitted.labels_) / 100 * 120
    assert (mapped != with_labels.truth).sum() == round(wrong)


def test_cluster_without_a_sample_of_its_class_has_no_class(data: Dataset) -> None:
    y = np.zeros(120, np.int64)
    y[:2] = 1
    estimator = ClosedFormSubspaceClustering(3, random_state=0, device="cpu").fit(data.X)
    details = run_details.describe_details(estimator, Dataset("two", data.X, y))
    for cluster, best in enumerate(details.best_class):
        assert best == -1 or details.confusion[best, cluster] > 0
    assert (details.best_class == -1).sum() >= 1


def test_pictures_and_names_belong_to_the_samples_shown() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 256, (60, 6, 5), dtype=np.uint8)
    paths = [f"/some/where/class/{i}.png" for i in range(60)]
    estimator = ClosedFormSubspaceClustering(3, random_state=0, device="cpu").fit(X)
    details = run_details.describe_details(estimator, Dataset("noise", X, paths=paths))
    assert np.array_equal(details.thumbnails, X[details.shown])
    assert details.files.tolist() == [f"/some/where/class/{i}.png" for i in details.shown]
    assert len(details.shown) == 60


def test_large_runs_are_bounded() -> None:
    n, k = 20_000, 100
    rng = np.random.default_rng(0)
    labels = np.sort(rng.integers(0, k, n))
    rows = np.repeat(np.arange(n), 3)
    columns = np.clip(rows + rng.integers(-20, 21, len(rows)), 0, n - 1)
    A = sp.csr_array((rng.random(len(rows)), (rows, columns)), shape=(n, n))
    A = sp.csr_array(A + A.T)
    embedding = SimpleNamespace(
        vectors=np.eye(k)[labels] + 0.01 * rng.normal(size=(n, k)),
        degrees=np.asarray(A.sum(axis=1)).ravel(),
        isolated=np.zeros(n, bool),
        set_aside=np.zeros(n, bool),
        n_connected=1,
    )
    estimator = SimpleNamespace(
        affinity_matrix_=A,
        _partition=Partition(labels, spectral.certain(labels, k), embedding),
        labels_=labels,
        assign="kmeans",
        n_clusters_=k,
        device="cpu",
        _has_lambda_path=lambda: False,
        spectrum=lambda: np.linspace(1, 0, k + 10),
    )
    X = rng.integers(0, 256, (n, 3, 20, 20), dtype=np.uint8)
    details = run_details.describe_details(estimator, Dataset("large", X, labels))
    assert details.thumbnails.nbytes <= BUDGET
    assert len(details.shown) >= 16 * k
    assert len(details.view_samples) == run_details.VIEW_POINTS
    assert details.blocks.shape == (400, 400)
    counts = np.bincount(labels[details.shown], minlength=k)
    assert counts.min() >= 16
