"""What both forms of the closed form must satisfy, against independent float64 references."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dcfsc.errors import InputError
from dcfsc.self_expression import solve

FORMS = ("samples", "features")
RELATIVE_LAMS = [10.0**e for e in range(-6, 7)]


def data(n, d, seed=0, kind="correlated"):
    """Rows like images: a strong common part, a decaying spectrum, one duplicate, one zero row."""
    rng = np.random.default_rng(seed)
    if kind == "gaussian":
        Z = rng.normal(size=(n, d))
    else:
        spectrum = np.arange(1, d + 1) ** -1.0
        Z = rng.normal(size=(n, d)) * spectrum + 3.0 * rng.normal(size=d) * spectrum
    Z[1] = Z[0]
    Z[2] = 0.0
    return torch.from_numpy(Z.astype(np.float32) * 100.0)


def reference(Z, lam):
    """B, B Z and the map g -> B'g by numpy in float64, straight from the paper's equation."""
    A = Z.numpy().astype(np.float64)
    P = np.linalg.inv(A @ A.T + lam * np.eye(len(A)))
    B = -P / np.diag(P)[:, None]
    np.fill_diagonal(B, 0.0)
    return B, B @ A


def relative(a, b):
    return float(np.linalg.norm(np.asarray(a) - b) / np.linalg.norm(b))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("relative_lam", RELATIVE_LAMS)
@pytest.mark.parametrize("shape", [(40, 90), (90, 40), (300, 20), (64, 64)])
@pytest.mark.parametrize("kind", ["correlated", "gaussian"])
def test_float32_stays_close_to_float64(form, relative_lam, shape, kind):
    Z = data(*shape, kind=kind)
    lam = relative_lam * float(Z.square().sum(1).mean())
    B, BZ = reference(Z, lam)
    g = torch.from_numpy(np.random.default_rng(1).normal(size=shape).astype(np.float32))
    operator = solve(Z, lam, form=form)
    assert relative(operator.dense(), B) < 1e-4
    assert relative(operator.apply(Z), BZ) < 1e-4
    assert relative(operator.rmatmul(g), B.T @ g.numpy().astype(np.float64)) < 1e-4
    h = 1.0 - lam * np.diag(
        np.linalg.inv((Z.double() @ Z.double().T).numpy() + lam * np.eye(len(Z)))
    )
    assert np.abs(operator.leverage.numpy() - h).max() < 1e-4


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(12, 30), (30, 12)])
def test_gradient_is_autograd_through_a_constant_B(form, dtype, shape):
    generator = torch.Generator().manual_seed(3)
    Z = torch.randn(shape, dtype=dtype, generator=generator, requires_grad=True)
    weight = torch.randn(shape, dtype=dtype, generator=generator)
    operator = solve(Z, 0.7, form=form)
    (ours,) = torch.autograd.grad((operator.apply(Z) * weight).sum(), Z)
    B = operator.dense().detach()
    (theirs,) = torch.autograd.grad(((B @ Z) * weight).sum(), Z)
    # A float32 solution and the float32 rounding of B each stay within the contract's 1e-4.
    assert relative(ours, theirs.numpy()) < (1e-4 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(12, 30), (30, 12)])
def test_B_minimizes_problem_4(form, shape):
    """The gradient vanishes on diag(C) = 0 and no step lowers the objective; rows, not columns."""
    Z = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    lam = 0.5

    def objective(C):
        return ((Z - C @ Z).square().sum() + lam * C.square().sum()).item()

    B = solve(Z, lam, form=form).dense()
    best = objective(B)
    C = B.clone().requires_grad_(True)
    loss = (Z - C @ Z).square().sum() + lam * C.square().sum()
    (gradient,) = torch.autograd.grad(loss, C)
    gradient.fill_diagonal_(0.0)
    assert gradient.abs().max() < 1e-9
    generator = torch.Generator().manual_seed(7)
    for _ in range(20):
        step = torch.randn(B.shape, dtype=B.dtype, generator=generator).fill_diagonal_(0.0)
        assert objective(B + 1e-3 * step) > best
    # The column-divided matrix is the solution for samples in columns, not of this problem.
    P = torch.linalg.inv(Z @ Z.T + lam * torch.eye(len(Z), dtype=Z.dtype))
    columns = -P / P.diagonal()[None, :]
    columns.fill_diagonal_(0.0)
    assert objective(columns) > best * (1 + 1e-6)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("k", [1, 5, 200])
@pytest.mark.parametrize("shape", [(50, 8), (50, 80), (700, 6)])
def test_topk_is_the_dense_topk(form, k, shape):
    Z = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(11))
    operator = solve(Z, 2.0, form=form)
    values, indices = operator.topk(k)
    B = operator.dense()
    expected = B.abs().topk(min(k, shape[0] - 1), dim=1).values
    torch.testing.assert_close(values.abs(), expected)
    torch.testing.assert_close(B.gather(1, indices), values)
    assert (indices != torch.arange(shape[0])[:, None]).all()
    assert all(len(set(row.tolist())) == len(row) for row in indices)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(40, 9), (40, 60)])
def test_cosines_are_those_of_the_dense_hat_matrix(form, shape):
    """|H_ij| / sqrt(h_i h_j) with rows of very unequal norms, one of them zero."""
    rng = np.random.default_rng(13)
    A = rng.normal(size=shape) * 10.0 ** rng.uniform(-1.5, 1.5, size=(shape[0], 1))
    A[7] = 0.0
    lam = 0.8
    H = A @ np.linalg.inv(A.T @ A + lam * np.eye(shape[1])) @ A.T
    root = np.sqrt(np.maximum(np.diag(H), 0.0))
    length = np.outer(root, root)
    cosine = np.divide(H, length, out=np.zeros_like(H), where=length > 1e-12)
    np.fill_diagonal(cosine, 0.0)
    assert np.diag(H)[np.diag(H) > 0].min() < 0.1 < 0.8 < np.diag(H).max()
    values, indices = solve(torch.from_numpy(A), lam, form=form).topk_cosine(6)
    expected = -np.sort(-np.abs(cosine), axis=1)[:, :6]
    np.testing.assert_allclose(np.abs(values.numpy()), expected, rtol=1e-9, atol=1e-10)
    picked = np.take_along_axis(cosine, indices.numpy(), axis=1)
    np.testing.assert_allclose(values.numpy(), picked, rtol=1e-9, atol=1e-10)
    assert (indices != torch.arange(shape[0])[:, None]).all()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("view", ["itself", "transposed", "expanded", "every second row", "sliced"])
def test_a_view_that_begins_where_the_data_do_is_not_taken_for_them(form, view):
    base = torch.randn(24, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(17))
    Z = base[:12]
    V = {
        "itself": Z,
        "transposed": Z.mT,
        "expanded": Z[:1].expand(12, 12),
        "every second row": base[::2],
        "sliced": Z[:, :5],
    }[view]
    assert V.data_ptr() == Z.data_ptr()
    operator = solve(Z, 0.6, form=form)
    P = torch.linalg.inv(Z @ Z.mT + 0.6 * torch.eye(12, dtype=torch.float64))
    B = (-P / P.diagonal()[:, None]).fill_diagonal_(0.0)
    torch.testing.assert_close(operator.matmul(V), B @ V, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(operator.rmatmul(V), B.mT @ V, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_blocks_of_the_dense_matrix(form):
    Z = data(30, 12)
    operator = solve(Z, 50.0, form=form)
    torch.testing.assert_close(operator.rows(7, 19), operator.dense()[7:19], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(12, 30), (30, 12)])
def test_codes_of_unseen_points_are_ridge_regressions(form, shape):
    generator = torch.Generator().manual_seed(2)
    Z = torch.randn(shape, dtype=torch.float64, generator=generator)
    z = torch.randn(5, shape[1], dtype=torch.float64, generator=generator)
    operator = solve(Z, 0.3, form=form)
    expected = z @ torch.linalg.inv(Z.T @ Z + 0.3 * torch.eye(shape[1], dtype=Z.dtype)) @ Z.T
    torch.testing.assert_close(operator.code(z), expected)
    values, indices = operator.topk_code(z, 3)
    torch.testing.assert_close(values, expected.gather(1, indices))
    torch.testing.assert_close(values.abs(), expected.abs().topk(3, dim=1).values)


@pytest.mark.parametrize("form", FORMS)
def test_an_outlier_alone_in_its_direction_keeps_the_contract(form):
    """h of the outlier is within 1e-6 of one: the guarded products must go to float64."""
    Z = data(80, 20, kind="gaussian")
    Z[:, -1] = 0.0
    Z[5] = 0.0
    Z[5, -1] = 3e3
    lam = 1e-6 * float(Z.square().sum(1).mean())
    B, BZ = reference(Z, lam)
    g = torch.randn(Z.shape, generator=torch.Generator().manual_seed(0))
    operator = solve(Z, lam, form=form)
    assert operator.complement[5] > 0
    assert relative(operator.apply(Z), BZ) < 1e-4
    assert relative(operator.rmatmul(g), B.T @ g.numpy().astype(np.float64)) < 1e-4


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("scale", [1e-15, 1e15])
def test_scaling_the_data_and_lam_leaves_B_alone(form, scale):
    Z = data(40, 15).double()
    B = solve(Z, 10.0, form=form).dense()
    scaled = solve(Z * scale, 10.0 * scale**2, form=form).dense()
    torch.testing.assert_close(B, scaled, rtol=1e-6, atol=1e-9)


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(2, 25),
    d=st.integers(1, 25),
    exponent=st.floats(-5, 5),
    seed=st.integers(0, 1000),
)
def test_both_forms_agree(n, d, exponent, seed):
    Z = torch.randn(n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    lam = d * 10.0**exponent
    samples, features = (solve(Z, lam, form=form) for form in FORMS)
    torch.testing.assert_close(samples.dense(), features.dense(), rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(samples.leverage, features.leverage, rtol=1e-6, atol=1e-9)
    s = torch.linalg.svdvals(Z).square()
    assert features.effective_dof == pytest.approx(float((s / (s + lam)).sum()), rel=1e-6)
    assert bool((features.leverage < 1).all())
    assert bool((features.leverage >= -1e-12).all())


def test_auto_takes_the_cheaper_form():
    Z = torch.randn(10, 20, generator=torch.Generator().manual_seed(0))
    assert solve(Z, 1.0).form == "samples"
    assert solve(Z.T.contiguous(), 1.0).form == "features"


@pytest.mark.parametrize("lam", [0.0, -1.0, float("nan"), float("inf")])
def test_a_bad_lam_is_refused(lam):
    with pytest.raises(InputError, match="lam must be a positive number"):
        solve(torch.ones(3, 2), lam)


@pytest.mark.parametrize("form", FORMS)
def test_nan_and_unknown_forms_are_refused_in_words(form):
    Z = torch.ones(4, 3)
    Z[0, 0] = float("nan")
    with pytest.raises(InputError, match="NaN"):
        solve(Z, 1.0, form=form)
    with pytest.raises(InputError, match="unknown form"):
        solve(torch.ones(3, 2), 1.0, form="feature")
    with pytest.raises(InputError, match="float32 or float64"):
        solve(torch.ones(3, 2, dtype=torch.int64), 1.0)
    with pytest.raises(InputError, match="3 rows"):
        solve(torch.ones(3, 2), 1.0).apply(torch.ones(4, 2))


@pytest.mark.parametrize("form", FORMS)
def test_a_lam_lost_in_rounding_is_named(form):
    Z = torch.ones(50, 40)
    with pytest.raises(InputError, match="too small beside"):
        solve(Z * 1e8, 1e-8, form=form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n", [2, 3, 30])
@pytest.mark.parametrize("times", [3, 10, 31, 40, 100, 1000])
def test_copies_have_their_leverage_or_lam_is_refused(n, times, form):
    z = torch.from_numpy(np.random.default_rng(n).standard_normal(40))
    Z = z.expand(n, -1).contiguous()
    lam = times * float(Z.square().sum()) * torch.finfo(torch.float64).eps
    if form == "samples" and times < 32:
        with pytest.raises(InputError, match="too small beside"):
            solve(Z, lam, form=form)
        return
    leverage = solve(Z, lam, form=form).leverage
    assert torch.allclose(leverage, torch.full_like(leverage, 1 / n), rtol=0, atol=0.01)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("form", FORMS)
def test_the_device_does_not_matter(form):
    Z = data(300, 40)
    lam = 1e-3 * float(Z.square().sum(1).mean())
    cpu, gpu = solve(Z, lam, form=form), solve(Z.cuda(), lam, form=form)
    assert relative(gpu.apply(Z.cuda()).cpu(), cpu.apply(Z).numpy()) < 1e-5
    assert relative(gpu.dense().cpu(), cpu.dense().numpy()) < 1e-5
    assert (gpu.topk(5)[1].cpu() == cpu.topk(5)[1]).float().mean() > 0.99
