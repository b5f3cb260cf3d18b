"""A graph held together by another one."""

import numpy as np
import scipy.sparse as sp
import torch

from dcfsc.affinity import Joined, TopK
from dcfsc.affinity.joined import by_degrees
from dcfsc.self_expression import solve


def scaled(A):
    """D^-1/2 A D^-1/2, dense and by definition."""
    degrees = A.sum(axis=1)
    root = np.array([0.0 if d == 0 else d**-0.5 for d in degrees])
    return root[:, None] * A * root


def two_pieces(each=12):
    """Two orthogonal planes, each in two far groups: four pieces of a graph with few neighbors."""
    rng, rows = np.random.default_rng(0), []
    for plane in (0, 2):
        for angle in (0.0, 1.5):
            at = angle + 0.01 * rng.standard_normal(each)
            row = np.zeros((each, 4))
            row[:, plane], row[:, plane + 1] = np.cos(at), np.sin(at)
            rows.append(row)
    return torch.from_numpy(np.concatenate(rows))


def chain(groups, each=12):
    """A graph that links groups 0 and 1, and 2 and 3, sample by sample."""
    A = np.zeros((groups * each, groups * each))
    for i in range(each):
        for a in (0, 2):
            p, q = a * each + i, (a + 1) * each + i
            A[p, q] = A[q, p] = 3.0 + i
    return sp.csr_array(A)


def test_the_graphs_are_scaled_by_their_degrees_and_added_by_weight():
    operator = solve(two_pieces(), 1e-3)
    other = chain(4)
    own = TopK(k=3, grow=False)(operator, 2)
    joined = Joined(k=3, grow=False, other=other, weight=0.3)(operator, 2)
    expected = scaled(own.toarray()) + 0.3 * scaled(other.toarray())
    np.testing.assert_allclose(joined.toarray(), expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(joined.toarray(), joined.toarray().T, rtol=1e-12)


def test_pieces_stay_together_where_the_other_graph_links_them():
    operator = solve(two_pieces(), 1e-3)
    alone = TopK(k=3, grow=False)(operator, 2)
    assert sp.csgraph.connected_components(alone)[0] >= 4
    joined = Joined(k=3, other=chain(4))(operator, 2)
    count, pieces = sp.csgraph.connected_components(joined)
    assert count == 2
    assert (pieces[:24] == pieces[0]).all()
    assert (pieces[24:] == pieces[-1]).all()
    # k did not grow: a sample's own neighbors are those of k = 3
    assert ((joined - 0.02 * by_degrees(chain(4))) > 1e-12).nnz == alone.nnz


def test_k_grows_where_the_sum_is_in_too_many_pieces():
    operator = solve(two_pieces(), 1e-3)
    nothing = sp.csr_array((48, 48))
    grown = Joined(k=3, other=nothing)(operator, 2)
    expected = scaled(TopK(k=3)(operator, 2).toarray())
    np.testing.assert_allclose(grown.toarray(), expected, rtol=1e-12, atol=1e-15)


def test_without_another_graph_it_is_topk():
    operator = solve(two_pieces(), 1e-3)
    np.testing.assert_array_equal(
        Joined(k=3)(operator, 2).toarray(), TopK(k=3)(operator, 2).toarray()
    )


def test_a_sample_without_neighbors_stays_without():
    A = sp.csr_array(np.array([[0.0, 4.0, 0.0], [4.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))
    with np.errstate(all="raise"):
        for scale in (1.0, 1e-3, 1e3):
            scaled = by_degrees(scale * A).toarray()
            np.testing.assert_allclose(scaled, (A / 4.0).toarray(), rtol=1e-12)
