"""Affinities entry by entry, against loops in numpy over the formulas that they document."""

import logging

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from dcfsc import affinity
from dcfsc.affinity import LowRank, NearestCodes, RowSpace, Symmetric, TopK
from dcfsc.affinity.low_rank import keep_energy, principal_rows
from dcfsc.affinity.topk import sparse_symmetric
from dcfsc.errors import InputError
from dcfsc.self_expression import CosineForm, ExplicitCoefficients, SparseCoefficients, solve


def unequal(n=18, seed=0):
    """Coefficients whose rows differ by orders of magnitude, one of them zero."""
    rng = np.random.default_rng(seed)
    C = rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-2, 2, size=(n, 1))
    C[5] = 0.0
    np.fill_diagonal(C, 0.0)
    return C


def top_graph(w, k, power):
    """W + W' with the ``power`` of the k largest entries of each row of w."""
    W = np.zeros_like(w)
    for i, row in enumerate(w):
        for j in np.argsort(-row, kind="stable")[:k]:
            W[i, j] = row[j] ** power
    return W + W.T


class Recording(ExplicitCoefficients):
    """Explicit coefficients that remember how many neighbors they were asked for."""

    def __init__(self, C):
        super().__init__(torch.from_numpy(C))
        self.asked = []

    def topk(self, k):
        self.asked.append(k)
        return super().topk(k)


class WithLeverage(Recording):
    """What an approximate search offers: a top k of its own, and the leverages."""

    def __init__(self, C, leverage):
        super().__init__(C)
        self.leverage = torch.from_numpy(leverage)

    def topk_cosine(self, k):
        raise AssertionError("an approximate search ranks by magnitude")

    def approximate_topk(self, k):
        return super().topk(k)


@pytest.mark.parametrize("power", [1.0, 2.5, 4.0])
@pytest.mark.parametrize("k", [1, 4, 17])
def test_topk_scaled_to_the_maximum_and_not_at_all(k, power):
    C = unequal()
    largest = np.abs(C).max(axis=1, keepdims=True)
    scaled = np.abs(C) / np.where(largest > 0, largest, 1.0)
    for scale, w in (("maximum", scaled), ("auto", scaled), ("none", np.abs(C))):
        A = TopK(k, power, scale=scale, grow=False)(ExplicitCoefficients(torch.from_numpy(C)), 2)
        np.testing.assert_allclose(A.toarray(), top_graph(w, k, power), rtol=1e-12)


def test_topk_turns_approximate_neighbors_into_cosines_by_their_leverages():
    A = np.random.default_rng(1).normal(size=(20, 6)) * np.linspace(0.3, 3.0, 20)[:, None]
    H = A @ np.linalg.inv(A.T @ A + 2.0 * np.eye(6)) @ A.T
    h = np.diag(H).copy()
    B = H / (1.0 - h)[:, None]
    np.fill_diagonal(B, 0.0)
    cosine = np.abs(H) / np.sqrt(np.outer(h, h))
    kept = np.zeros_like(cosine)
    for i in range(20):
        nearest = np.argsort(-np.abs(B[i]))[:5]  # ranked by the coefficients
        kept[i, nearest] = cosine[i, nearest] ** 3.0
    for scale in ("auto", "cosine"):
        make = TopK(5, 3.0, scale=scale, grow=False, search="approximate")
        np.testing.assert_allclose(make(WithLeverage(B, h), 2).toarray(), kept + kept.T, rtol=1e-12)


def test_an_approximate_search_is_refused_where_there_is_none():
    with pytest.raises(InputError, match="approximate search"):
        TopK(search="approximate")(Recording(unequal()), 2)


@pytest.mark.parametrize("form", ["samples", "features"])
def test_topk_of_the_closed_form_is_the_cosine_to_the_fourth(form):
    A = np.random.default_rng(2).normal(size=(24, 7)) * np.linspace(0.2, 4.0, 24)[:, None]
    H = A @ np.linalg.inv(A.T @ A + 0.5 * np.eye(7)) @ A.T
    cosine = np.abs(H) / np.sqrt(np.outer(np.diag(H), np.diag(H)))
    np.fill_diagonal(cosine, 0.0)
    operator = solve(torch.from_numpy(A), 0.5, form=form)
    graph = TopK(k=3, grow=False, signs="both")(operator, 2)
    np.testing.assert_allclose(graph.toarray(), top_graph(cosine, 3, 4.0), rtol=1e-9, atol=1e-12)


def test_positive_neighbors_are_taken_from_twice_as_many():
    """Of the 2 k largest the positive ones, at most k of them; all of them where none is."""
    C = unequal(seed=3)
    C[2] = -np.abs(C[2])
    largest = np.abs(C).max(axis=1, keepdims=True)
    expected = np.zeros_like(C)
    for i in range(18):
        nearest = np.argsort(-np.abs(C[i]), kind="stable")[:8]
        positive = [j for j in nearest if C[i, j] >= 0] or list(nearest)
        for j in positive[:4]:
            top = np.abs(C[i, positive[0]])
            expected[i, j] = (np.abs(C[i, j]) / top) ** 4 if largest[i] > 0 else 0.0
    given = Recording(C)
    A = TopK(4, signs="positive", grow=False)(given, 2)
    np.testing.assert_allclose(A.toarray(), expected + expected.T, rtol=1e-12)
    assert given.asked == [8]


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({"grow": False, "signs": "both"}, 4),
        ({"grow": False, "signs": "positive"}, 8),
        ({"grow": False}, 8),
        ({"signs": "both"}, 8),
        ({"grow": False, "k": 17}, 17),
        ({"grow": False, "k": 16}, 32),
    ],
)
def test_spare_neighbors_are_asked_for_where_they_may_be_needed(options, asked):
    given = Recording(unequal())
    TopK(**{"k": 4, **options})(given, 18)
    assert given.asked == [asked]


def pieces(count, size, seed=0):
    rng = np.random.default_rng(seed)
    C = np.kron(np.eye(count), np.ones((size, size))) * rng.uniform(1, 2, (count * size,) * 2)
    np.fill_diagonal(C, 0.0)
    return C


def test_growing_ends_at_the_largest_k_and_is_the_graph_of_that_k():
    C = pieces(3, 70)
    given = Recording(C)
    A = TopK(k=8, scale="none", signs="both")(given, 1)  # three pieces never become one
    assert given.asked == [16, 64]
    np.testing.assert_allclose(A.toarray(), top_graph(C, 64, 4.0), rtol=1e-12)


def test_growing_to_the_largest_k_asks_for_no_spare_neighbors():
    given = Recording(pieces(3, 70))
    TopK(k=16, signs="both")(given, 1)
    assert given.asked == [32, 64]


def test_growing_ends_as_soon_as_there_are_as_many_pieces_as_clusters():
    C = pieces(3, 70)
    given = Recording(C)
    A = TopK(k=8, scale="none", signs="both")(given, 3)
    assert given.asked == [16]
    np.testing.assert_allclose(A.toarray(), top_graph(C, 8, 4.0), rtol=1e-12)


class Signed(ExplicitCoefficients):
    """Cosines of which a given share is negative."""

    def topk_cosine(self, k):
        return self.topk(k)


@pytest.mark.parametrize(("negative", "left_out"), [(7, True), (8, False), (9, False), (0, False)])
def test_opposites_are_left_out_below_a_quarter(negative, left_out, caplog):
    """Eight samples with four neighbors each: 8 of 32 are the quarter."""
    C = np.zeros((8, 8))
    for i in range(8):
        for step in range(1, 8):
            C[i, (i + step) % 8] = 1.0 - 0.1 * step
    for i in range(min(negative, 8)):
        C[i, (i + 2) % 8] *= -1
    if negative > 8:
        C[0, 1] *= -1
    make = TopK(4, power=1.0, grow=False)
    W = np.where(C < 0, 0.0, C) if left_out else np.abs(C)
    with caplog.at_level(logging.INFO, logger="dcfsc"):
        A = make(Signed(torch.from_numpy(C)), 2).toarray()
    np.testing.assert_allclose(A, top_graph(W, 4, 1.0), rtol=1e-12)
    assert ("are left out" in caplog.text) == left_out


def test_several_neighbor_lists_have_the_sum_of_their_graphs():
    one, other = unequal(seed=4), unequal(seed=5)

    class Both:
        n, device = 18, torch.device("cpu")

        def neighbors(self, k, by_cosine):
            return [ExplicitCoefficients(torch.from_numpy(C)).topk(k) for C in (one, other)]

    make = TopK(3, 2.0, scale="none", grow=False)
    A = make(Both(), 2)
    expected = top_graph(np.abs(one), 3, 2.0) + top_graph(np.abs(other), 3, 2.0)
    np.testing.assert_allclose(A.toarray(), expected, rtol=1e-12)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_symmetric_entry_by_entry(scale, sparse):
    C = unequal(seed=6)
    C[np.abs(C) < 0.05] = 0.0
    C[0, 0] = 1e6  # a diagonal is not a neighbor
    off = np.abs(C - np.diag(np.diag(C)))
    largest = off.max(axis=1)
    expected = np.zeros_like(C)
    for i in range(18):
        for j in range(18):
            for a, b in ((i, j), (j, i)):
                unit = largest[a] if scale and largest[a] > 0 else 1.0
                expected[i, j] += off[a, b] / unit
    if sparse:
        A = Symmetric(scale)(SparseCoefficients(sp.csr_array(C)), 2)
        assert (A.data != 0).all()
        A = A.toarray()
    else:
        A = Symmetric(scale)(ExplicitCoefficients(torch.from_numpy(C - np.diag(np.diag(C)))), 2)
    np.testing.assert_allclose(np.asarray(A), expected, rtol=1e-12)


def test_keep_energy_by_hand():
    C = torch.tensor([[4.0, 1.0, 0.0], [-3.0, 1.0, 0.0], [1.0, -2.0, 0.0]])
    # 4 of 8 is the half itself, which has to be passed; so is 2 of 4.
    torch.testing.assert_close(
        keep_energy(C, 0.5), torch.tensor([[4.0, 1.0, 0.0], [-3.0, 0.0, 0.0], [0.0, -2.0, 0.0]])
    )
    torch.testing.assert_close(
        keep_energy(C, 0.49), torch.tensor([[4.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, -2.0, 0.0]])
    )
    assert keep_energy(C, 1.0) is C


def published(C, share, rank, power):
    T = keep_energy(torch.from_numpy(C), share).numpy()
    U, S, _ = np.linalg.svd(0.5 * (T + T.T))
    U = U[:, :rank] * np.sqrt(S[:rank])
    U /= np.linalg.norm(U, axis=1, keepdims=True)
    return np.maximum(U @ U.T, 0.0) ** power


@pytest.mark.parametrize(("n", "rank"), [(5, 4), (7, 6), (8, 7), (12, 7)])
def test_the_rank_is_one_more_than_the_dimensions_and_less_than_the_samples(n, rank):
    C = np.random.default_rng(7).normal(size=(n, n))
    A = LowRank(share=1.0, dim=2, power=2.0)(ExplicitCoefficients(torch.from_numpy(C)), 3)
    np.testing.assert_allclose(A.numpy(), published(C, 1.0, rank, 2.0), atol=1e-10)
    assert float(A.max()) == pytest.approx(1.0)


def test_low_rank_works_in_double_precision_up_to_a_size():
    C = torch.from_numpy(np.random.default_rng(8).normal(size=(9, 9))).float()
    assert LowRank(double_below=9)(ExplicitCoefficients(C), 2).dtype == torch.float64
    assert LowRank(double_below=8)(ExplicitCoefficients(C), 2).dtype == torch.float32


def test_no_coefficients_are_no_affinity():
    nothing = ExplicitCoefficients(torch.zeros(6, 6, dtype=torch.float64))
    for make in (LowRank(), RowSpace(), Symmetric(), LowRank(share=1.0, power=3.0)):
        assert torch.equal(make(nothing, 2), torch.zeros(6, 6, dtype=torch.float64))
    assert TopK(2)(nothing, 2).nnz == 0


def test_one_sample_has_a_row_of_its_own():
    A = LowRank()(ExplicitCoefficients(torch.ones(1, 1, dtype=torch.float64)), 1)
    assert A.tolist() == [[1.0]]


def test_row_space_leaves_out_what_is_below_its_tolerance():
    rng = np.random.default_rng(9)
    U, V = (np.linalg.qr(rng.normal(size=(10, 10)))[0] for _ in range(2))
    S = np.array([5.0, 2.0, 1.0, 0.3, 0.04, 0.02, 1e-3, 1e-4, 0.0, 0.0])
    C = ExplicitCoefficients(torch.from_numpy(U * S @ V.T))
    for tol, rank in ((1e-1, 3), (5e-3, 5), (1e-5, 8)):
        rows = V[:, :rank] * np.sqrt(S[:rank])
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        for power in (2, 4):
            A = RowSpace(tol, power)(C, 2)
            np.testing.assert_allclose(A.numpy(), (rows @ rows.T) ** power, atol=1e-9)


def test_the_published_protocols_have_their_published_values():
    """Ji et al. 2017 (released scripts), Elhamifar and Vidal 2013, You et al. 2016."""
    assert affinity.get("dsc-orl", 40) == LowRank(share=0.2, dim=3, power=1.0)
    assert affinity.get("dsc-coil100", 100) == LowRank(share=0.04, dim=12, power=8.0)
    assert affinity.get("edsc", 38) == LowRank(share=1.0, dim=10, power=4.0)
    assert affinity.get("magnitude", 2) == Symmetric(scale=False)
    assert affinity.get("symmetric", 2) == Symmetric(scale=True)
    assert affinity.get("low_rank", 2) == LowRank(share=0.2, dim=3, power=1.0)
    assert affinity.get("lrr", 2) == RowSpace(tol=1e-4, power=4)
    assert affinity.get("ssc-motion", 2) == Symmetric(scale=True, share=0.7)
    for name in ("dsc-eyaleb", "dcfsc-eyaleb"):
        made = affinity.get(name, 10)
        assert (made.dim, made.power) == (10, 3.5)


@pytest.mark.parametrize(
    "options", [{"share": 1.5}, {"share": -0.1}, {"power": 0.0}, {"power": -1.0}, {"dim": 0}]
)
def test_low_rank_refuses_what_has_no_meaning(options):
    with pytest.raises(InputError):
        LowRank(**options)


def test_the_defaults_are_those_of_the_documentation():
    """docs/how_it_works.md has the graph of the default."""
    assert TopK() == TopK(8, 4.0, "auto", True, "exact", "auto")
    assert LowRank() == LowRank(0.2, 3, 1.0, 4096)
    assert RowSpace() == RowSpace(1e-4, 4)
    assert Symmetric() == Symmetric(True, 1.0)


def test_the_least_options_that_have_a_meaning_are_taken():
    assert LowRank(share=1.0, dim=1, power=0.1).dim == 1
    assert TopK(k=1, power=0.1).k == 1
    for bad in ({"power": 0.0}, {"scale": "max"}, {"search": "fast"}):
        with pytest.raises(InputError):
            TopK(**bad)


def test_cosines_found_approximately_are_taken_as_they_are_and_never_exceed_one():
    Z = torch.nn.functional.normalize(torch.from_numpy(unequal(seed=7)))
    Z[1] = Z[0] * (1.0 + 1e-12)  # rounding may leave a cosine above one
    make = TopK(4, 2.0, grow=False, search="approximate", signs="both")
    A = make(CosineForm(Z), 2).toarray()
    cosine = np.abs((Z @ Z.T).numpy())
    np.fill_diagonal(cosine, 0.0)
    np.testing.assert_allclose(A, top_graph(np.minimum(cosine, 1.0), 4, 2.0), rtol=1e-9)
    assert A.max() <= 2.0


def test_cosines_by_leverages_never_exceed_one():
    """At leverages of a half the cosines are the coefficients, which a search may overestimate."""
    C = np.abs(unequal())
    make = TopK(4, 1.0, grow=False, search="approximate", signs="both")
    A = make(WithLeverage(C, np.full(18, 0.5)), 2).toarray()
    W = np.zeros_like(C)
    for i in range(18):
        nearest = np.argsort(-C[i], kind="stable")[:4]
        W[i, nearest] = np.minimum(C[i, nearest], 1.0)
    np.testing.assert_allclose(A, W + W.T, rtol=1e-12)
    assert C.max() > 2.0


class Metal(torch.Tensor):
    """A tensor that has no double precision and does not meet tensors of the CPU."""

    device = property(lambda self: torch.device("mps"))

    def to(self, kind):
        raise TypeError("no float64 here")

    def __eq__(self, other):
        raise RuntimeError("two devices")

    __hash__ = torch.Tensor.__hash__

    def cpu(self):
        return self.as_subclass(torch.Tensor)


class OnMetal(ExplicitCoefficients):
    def topk(self, k):
        values, columns = super().topk(k)
        return values.as_subclass(Metal), columns.as_subclass(Metal)


@pytest.mark.parametrize("make", [TopK(3), TopK(3, signs="positive"), NearestCodes()], ids=repr)
def test_graphs_of_a_device_without_double_precision_are_made_on_the_cpu(make):
    C = torch.from_numpy(unequal()).float()
    expected = make(ExplicitCoefficients(C), 2).toarray()
    np.testing.assert_array_equal(make(OnMetal(C), 2).toarray(), expected)


class Place(str):
    """The CPU under another name."""

    type = "elsewhere"


class Elsewhere(torch.Tensor):
    """A tensor that has to be fetched before NumPy sees it."""

    device = property(lambda self: Place("cpu"))

    def cpu(self):
        return self.as_subclass(torch.Tensor)

    def numpy(self):
        raise TypeError("not on the CPU")


def test_the_graph_of_tensors_elsewhere_is_that_of_the_cpu():
    columns = torch.tensor([[1, 2], [0, 2], [3, 1], [0, 1]])
    weights = torch.tensor([[3.0, 0.5], [2.0, 0.0], [0.25, 1.0], [4.0, 0.125]], dtype=torch.float64)
    expected = np.zeros((4, 4))
    for i in range(4):
        expected[i, columns[i]] += weights[i].numpy()
        expected[columns[i], i] += weights[i].numpy()
    for kind in (torch.Tensor, Elsewhere):
        A = sparse_symmetric(weights.as_subclass(kind), columns.as_subclass(kind), 4)
        np.testing.assert_array_equal(A.toarray(), expected)
        assert A.nnz == np.count_nonzero(expected)


@pytest.mark.parametrize(
    ("dtype", "ratio", "kept"),
    [
        (torch.float64, 1.2e-8, 0.0),  # the root of the rounding error is 1.5e-8
        (torch.float64, 1.8e-8, 1.0),
        (torch.float32, 3e-4, 0.0),  # and here 3.5e-4
        (torch.float32, 4e-4, 1.0),
    ],
)
def test_a_row_is_noise_below_the_root_of_the_rounding_error(dtype, ratio, kept):
    """Rows are as long as the roots of these eigenvalues: one is ``ratio`` times the other."""
    C = torch.diag(torch.tensor([9.0, 9.0 * ratio**2], dtype=torch.float64))
    rows = principal_rows(C.to(dtype), 2)
    np.testing.assert_allclose(rows.square().sum(1), [1.0, kept], rtol=1e-6)
    if dtype == torch.float64:
        A = RowSpace(tol=1e-20)(ExplicitCoefficients(C), 2)
        np.testing.assert_allclose(A, np.diag([1.0, kept]), atol=1e-12)


@pytest.mark.parametrize(("tol", "kept"), [(0.25, 0.0), (0.249, 1.0)])
def test_row_space_takes_what_is_above_its_tolerance_and_not_at_it(tol, kept):
    C = torch.diag(torch.tensor([4.0, 1.0], dtype=torch.float64))
    A = RowSpace(tol=tol)(ExplicitCoefficients(C), 2)
    np.testing.assert_array_equal(A, np.diag([1.0, kept]))
