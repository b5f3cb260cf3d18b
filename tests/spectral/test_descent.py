"""Lloyd's descents in batches: against the definition, one at a time, in chunks."""

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

from dcfsc.spectral import descent
from dcfsc.spectral.descent import Partitions, assign_and_sum, chunks, descend, descended, tolerance


def rows(n=300, p=4, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, p))).float()


def first_centers(V, B, K):
    return torch.stack([V[K * b : K * (b + 1)] for b in range(B)]).double()


@pytest.mark.parametrize("elements", [1, 3, 8, 1 << 20])
def test_chunks_of_any_size_give_the_same_sums(elements, monkeypatch):
    monkeypatch.setitem(descent._CHUNK_ELEMENTS, "cpu", elements)
    V = np.random.default_rng(0).integers(-8, 9, (30, 2)).astype(float)  # sums are exact
    centers = np.stack([V[:4] + 0.25, V[4:8] - 0.25])
    labels, sums, counts = assign_and_sum(
        torch.from_numpy(V).float()[None], torch.from_numpy(centers)
    )
    for b in range(2):
        expected = ((V[:, None] - centers[b]) ** 2).sum(2).argmin(1)
        np.testing.assert_array_equal(labels[b], expected)
        np.testing.assert_array_equal(counts[b], np.bincount(expected, minlength=4))
        np.testing.assert_array_equal(sums[b], np.eye(4)[expected].T @ V)


def test_chunks_cover_all_rows_once():
    for device in ("cpu", "mps"):  # any other has as much as the CPU
        parts = list(chunks(1000, 1 << 18, torch.device(device)))
        assert [part.stop - part.start for part in parts] == [4] * 250
        assert torch.cat([torch.arange(1000)[part] for part in parts]).tolist() == [*range(1000)]
    assert list(chunks(3, 1 << 30, torch.device("cpu"))) == [slice(i, i + 1) for i in range(3)]
    for width in (0, 1):
        assert [part.start for part in chunks(1 << 21, width, torch.device("cpu"))] == [0, 1 << 20]


@pytest.mark.parametrize("allowed", [1e-6, 0.3])
def test_a_batch_descends_as_one_at_a_time(allowed):
    """Also where each stops after another number of steps, long before it stands still."""
    V = rows()
    centers = first_centers(V, 5, 6)
    labels, found = descend(V[None], centers, allowed)
    for b in range(5):
        alone, place = descend(V[None], centers[b : b + 1], allowed)
        assert torch.equal(labels[b], alone[0])
        torch.testing.assert_close(found[b], place[0], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("sizes", [(40, 25, 33), (3, 40)])
def test_rows_of_their_own_with_some_missing(sizes):
    """Each descent has other rows, and as many as it has; the padding counts nowhere."""
    alone = [rows(m, seed=m) for m in sizes]
    V = torch.full((len(sizes), 40, 4), 100.0)
    present = torch.arange(40) < torch.tensor(sizes)[:, None]
    for b, own in enumerate(alone):
        V[b, : len(own)] = own
    centers = torch.stack([own[:3] for own in alone]).double()
    labels, _ = descend(V, centers, 1e-9, present=present)
    totals = Partitions.of(V, labels, 3)
    for b, own in enumerate(alone):
        expected, _ = descend(own[None], centers[b : b + 1], 1e-9)
        assert torch.equal(labels[b, : len(own)], expected[0])
        assert (labels[b, len(own) :] == 3).all()
        one = Partitions.of(own[None], expected, 3)
        assert torch.equal(totals.counts[b], one.counts[0])
        torch.testing.assert_close(totals.sums[b], one.sums[0])


def test_the_sum_of_squares_is_that_of_the_definition():
    V = rows()
    V[7] = 50.0  # a cluster of its own
    found = descended(V, first_centers(V, 3, 5), tolerance(V))
    assert (found.counts == 1).any()
    total = V.double().square().sum()
    for b in range(3):
        X, y = V.double().numpy(), found.labels[b].numpy()
        means = np.stack([X[y == k].mean(axis=0) for k in range(5)])
        np.testing.assert_allclose(found.centers[b], means, rtol=1e-12, atol=1e-14)
        expected = ((X - means[y]) ** 2).sum()
        assert float(total - found.explained[b].sum()) == pytest.approx(expected, rel=1e-12)


def test_no_step_goes_up():
    V = rows()
    sums = []
    for steps in range(1, 12):
        labels, _ = descend(V[None], first_centers(V, 4, 7), 0.0, max_iter=steps)
        sums.append(Partitions.of(V[None], labels, 7).explained.sum(1))
    differences = torch.stack(sums).diff(dim=0)
    assert (differences > -1e-4).all()
    assert (differences[0] > 1.0).all()


def test_a_descent_that_stands_still_waits_for_the_others():
    V = rows()
    settled = descended(V, first_centers(V, 1, 6), 0.0).centers
    labels, found = descend(V[None], torch.cat([settled, V[None, 100:106].double()]), 0.0)
    torch.testing.assert_close(found[:1], settled, rtol=1e-6, atol=1e-6)
    assert torch.equal(labels[1], descend(V[None], V[None, 100:106].double(), 0.0)[0][0])


def test_the_tolerance_is_a_share_of_the_mean_variance():
    V = rows() * torch.tensor([1.0, 2.0, 3.0, 4.0]) + 7.0
    expected = KMeans().tol * V.double().numpy().var(axis=0).mean()
    assert tolerance(V) == pytest.approx(expected, rel=1e-5)
    assert KMeans().max_iter == descent.MAX_ITER


def test_taking_some_copies_them():
    V = rows()
    found = descended(V, first_centers(V, 3, 5), tolerance(V))
    some = found.take(torch.tensor([2, 0]))
    assert torch.equal(some.labels, found.labels[[2, 0]])
    assert torch.equal(some.sums, found.sums[[2, 0]])
    some.counts.zero_()
    assert (found.counts.sum(1) == 300).all()


class Place(str):
    """The CPU under another name, as it is asked for by code that has a way for every device."""

    type = "elsewhere"


class Elsewhere(torch.Tensor):
    device = property(lambda self: Place("cpu"))


def test_sums_by_products_are_those_of_the_cpu():
    """Devices other than the CPU add by a product with an indicator; a label of K is none."""
    random = np.random.default_rng(0)
    V = torch.from_numpy(random.integers(-8, 9, (3, 20, 2))).float()
    labels = torch.from_numpy(random.integers(0, 6, (3, 20)))
    for given in (V, V[:1]):
        sums, counts = descent._sum(given.as_subclass(Elsewhere), labels, 5)
        expected, numbers = descent._sum(given, labels, 5)
        assert torch.equal(torch.Tensor(sums), expected)
        assert counts.tolist() == numbers.tolist()
        assert counts.dtype == torch.float64


def test_a_center_goes_to_its_only_row_and_stays_where_it_has_none():
    V = torch.tensor([[0.0, 0.0], [2.0, 0.0], [9.0, 9.0]])
    centers = torch.tensor([[[1.0, 1.0], [8.0, 8.0], [-50.0, -50.0]]]).double()
    labels, found = descend(V[None], centers, 0.0)
    assert labels.tolist() == [[0, 0, 1]]
    assert found.tolist() == [[[1.0, 0.0], [9.0, 9.0], [-50.0, -50.0]]]
