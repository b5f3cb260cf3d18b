"""The neighbor scan: both scans give the k largest magnitudes, whatever the rows look like."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dcfsc.errors import InputError
from dcfsc.neighbors import exact, half_filter
from dcfsc.neighbors.exact import largest_inner_products
from dcfsc.neighbors.half_filter import LANES, HalfFilter

SCANS = ["direct", "plain", "half"]


def rows(n, d, seed=0, dtype=torch.float32):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def check(Q, Y, k, values, indices, diagonal=None):
    """Right entries, none twice, none of its own, and none larger left out, against float64."""
    exact = Q.double() @ Y.double().T
    rounding = (Y.shape[1] + 8) * torch.finfo(Q.dtype).eps
    unit = rounding * Q.double().norm(dim=1, keepdim=True) * Y.double().norm(dim=1).max()
    assert values.shape == indices.shape == (Q.shape[0], k)
    assert indices.min() >= 0
    assert indices.max() < Y.shape[0]
    found = exact.gather(1, indices)
    assert ((found - values.double()).abs() <= unit).all()
    assert (indices.sort(1).values.diff(dim=1) > 0).all()
    magnitude = exact.abs()
    if diagonal is not None:
        own = torch.arange(Q.shape[0]) + diagonal
        assert (indices != own[:, None]).all()
        inside = own < Y.shape[0]
        magnitude[inside.nonzero()[:, 0], own[inside]] = -1.0
    best = magnitude.topk(k, dim=1).values
    assert ((best - found.abs().sort(1, descending=True).values).abs() <= unit).all()
    assert (found.abs().diff(dim=1) <= unit).all()


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("k", [1, 4, 20])
@pytest.mark.parametrize(("N", "d"), [(700, 3), (1500, 64), (2500, 20), (1024, 130), (301, 7)])
def test_the_k_largest_of_every_row(scan, k, N, d):
    Y = rows(N, d)
    check(Y, Y, k, *largest_inner_products(Y, Y, k, diagonal=0, group=4, scan=scan), diagonal=0)
    Q = rows(37, d, seed=1)
    check(Q, Y, k, *largest_inner_products(Q, Y, k, group=4, scan=scan))
    part = largest_inner_products(Y[100:200], Y, k, diagonal=100, group=4, scan=scan)
    check(Y[100:200], Y, k, *part, diagonal=100)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 1200),
    st.integers(1, 40),
    st.integers(1, 8),
    st.sampled_from([1, 2, 8]),
    st.integers(0, 10_000),
    st.floats(-6, 6),
)
def test_scans_agree_for_any_shape_and_scale(N, d, k, group, seed, scale):
    Y = rows(N, d, seed) * 10.0**scale
    k = min(k, N - 1)
    for scan in SCANS:
        found = largest_inner_products(Y, Y, k, diagonal=0, group=group, scan=scan)
        check(Y, Y, k, *found, diagonal=0)


def near_ties(N=1500, d=16):
    """All rows within float16's rounding of one direction or its opposite."""
    Y = rows(1, d).expand(N, d) + 1e-5 * rows(N, d, seed=2)
    return Y * torch.where(rows(N, 1, seed=3) > 0, 1.0, -1.0)


def negatives(N=1500, d=16):
    """The largest magnitudes are negative: rows in opposite pairs."""
    half = rows(N // 2, d)
    return torch.cat([half, -half * (1 + 1e-3 * rows(N // 2, 1, seed=5).abs())])


def duplicates(N=1500, d=8):
    return rows(6, d).repeat(N // 6, 1)


def zero_rows(N=1500, d=8):
    Y = rows(N, d)
    Y[::3] = 0.0
    Y[:200] = 0.0
    return Y


def uneven_norms(N=1500, d=8):
    return rows(N, d) * 10.0 ** (4 * rows(N, 1, seed=4))


def aligned_with_a_lane(N=2000, d=16):
    """The best columns of a row all sit in one group, which holds every LANES-th column."""
    Y = 0.1 * rows(N, d)
    Y[7::LANES] = rows(1, d) + 0.01 * rows(len(Y[7::LANES]), d, seed=6)
    return Y


def almost_nothing(N=1000, d=8):
    return 1e-36 * rows(N, d)


HARD = [near_ties, negatives, duplicates, zero_rows, uneven_norms, aligned_with_a_lane]


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("make", HARD, ids=lambda f: f.__name__)
@pytest.mark.parametrize("k", [1, 5])
def test_adversarial_rows(scan, make, k):
    Y = make()
    check(Y, Y, k, *largest_inner_products(Y, Y, k, diagonal=0, group=4, scan=scan), diagonal=0)


def test_rows_near_underflow_still_find_k_others():
    Y = almost_nothing()
    values, indices = largest_inner_products(Y, Y, 3, diagonal=0, group=4, scan="half")
    assert (indices != torch.arange(len(Y))[:, None]).all()
    assert torch.isfinite(values).all()


def test_rows_that_the_filter_cannot_prove_go_to_the_plain_scan(caplog):
    Y = near_ties()
    with caplog.at_level("INFO", logger="dcfsc"):
        largest_inner_products(Y, Y, 2, diagonal=0, group=2, scan="half")
    assert "need the plain scan" in caplog.text


def test_ordinary_rows_need_no_plain_scan(monkeypatch):
    """Points of subspaces, as the library meets them: the filter proves every row by itself."""
    basis = torch.linalg.qr(rows(30, 5)).Q
    Y = rows(8000, 5, seed=1) @ basis.T + 0.02 * rows(8000, 30, seed=2)

    def refuse(*_):
        raise AssertionError("the plain scan ran")

    monkeypatch.setattr(exact, "_plain", refuse)
    Q = Y[:500]
    check(Q, Y, 4, *largest_inner_products(Q, Y, 4, diagonal=0, group=8, scan="half"), diagonal=0)


@pytest.mark.parametrize("d", [3, 64, 300])
def test_bounds_are_upper_bounds_and_not_loose(d):
    Y = uneven_norms(2000, d)
    half = HalfFilter(Y, group=4)
    Q = rows(50, d, seed=8)
    U = half._bounds(Q, None)[0][:, : half.n_groups].double()
    exact = (Q.double() @ Y.double().T).abs() / Q.double().norm(dim=1, keepdim=True)
    exact /= half.scale
    exact = torch.nn.functional.pad(exact, (0, -2000 % half.width))
    maxima = exact.view(50, -1, 4, LANES).amax(2).flatten(1)[:, : half.n_groups]
    assert (maxima <= U).all()
    assert (U - maxima <= 2 * half.error).all()
    assert half.error.max() < 1.3e-3


def test_the_error_of_the_worst_rounding_stays_inside_the_bound():
    """Entries half-way between float16 numbers, all rounded the same way."""
    d = 64
    q = torch.full((1, d), 1 + 2.0**-11) * d**-0.5
    Y = torch.full((300, d), 1 + 3 * 2.0**-11)
    half = HalfFilter(Y, group=1)
    U = half._bounds(q, None)[0][:, : half.n_groups].double()
    cosine = float((q.double() @ Y[0].double()) / (q.double().norm() * half.scale))
    assert (cosine <= U).all()


def test_not_a_number_is_never_proven():
    Y = rows(400, 4)
    Y[7, 2] = float("nan")
    half = HalfFilter(Y, group=1)
    groups, rest = half.groups(Y[:9], None, 5)
    assert half.columns(groups).shape == (9, 5)
    assert not half.proves(Y[:9], torch.ones(9), rest).any()


def test_float64_is_scanned_in_float64():
    Y = rows(400, 6, dtype=torch.float64)
    near = Y[0] * (1 + 1e-12)
    Y[10], Y[11] = near, near * (1 - 1e-11)
    values, _ = largest_inner_products(Y, Y, 2, diagonal=0)
    assert values.dtype == torch.float64
    check(Y, Y, 2, *largest_inner_products(Y, Y, 2, diagonal=0), diagonal=0)


def test_blocks_of_rows_do_not_matter(monkeypatch):
    Y = rows(1000, 10)
    one = largest_inner_products(Y, Y, 4, diagonal=0, group=2, scan="half")
    monkeypatch.setattr(half_filter, "_BOUND_BYTES", 1)
    monkeypatch.setattr(exact, "_GATHER_BYTES", {"cpu": 4096, "cuda": 4096})
    monkeypatch.setattr(exact, "_TILE_BYTES", {"cpu": 4096, "cuda": 4096})
    for scan in SCANS:
        again = largest_inner_products(Y, Y, 4, diagonal=0, group=2, scan=scan)
        assert torch.equal(one[1], again[1])


def test_a_long_scan_is_announced(monkeypatch, caplog):
    monkeypatch.setattr(exact, "_LONG_SCAN", {"cpu": 1000})
    Y = rows(50, 3)
    with caplog.at_level("INFO", logger="dcfsc"):
        largest_inner_products(Y, Y, 2, diagonal=0)
    assert "7.5e+03 multiply-adds" in caplog.text


def test_an_unknown_scan_is_refused():
    with pytest.raises(InputError, match="unknown scan"):
        largest_inner_products(rows(5, 2), rows(5, 2), 1, scan="quarter")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("make", HARD, ids=lambda f: f.__name__)
@pytest.mark.parametrize("group", [1, 4, 32])
def test_cuda_gives_the_k_largest_too(make, group):
    Y = make()
    found = largest_inner_products(Y.cuda(), Y.cuda(), 4, diagonal=0, group=group, scan="half")
    check(Y, Y, 4, *(part.cpu() for part in found), diagonal=0)


def test_the_direct_scan_does_not_depend_on_the_threads():
    Y, before = rows(3000, 12), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = largest_inner_products(Y, Y, 70, diagonal=0, scan="direct")
        torch.set_num_threads(3)
        three = largest_inner_products(Y, Y, 70, diagonal=0, scan="direct")
    finally:
        torch.set_num_threads(before)
    assert torch.equal(one[0], three[0])
    check(Y, Y, 70, *three, diagonal=0)
