"""What every operator must satisfy, against the dense matrix that it stands for.

The references are written out in float64 from the definitions, for rows of unequal norms, with a
zero row and two copies among them.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import dcfsc.estimators.sharded
import dcfsc.self_expression as self_expression
from dcfsc.affinity import TopK
from dcfsc.affinity.base import RanksByCosine, SearchesApproximately
from dcfsc.errors import InputError
from dcfsc.estimators.prediction import votes
from dcfsc.estimators.sharded import _DIVISIBLE
from dcfsc.self_expression import (
    ClosedForm,
    Coding,
    CosineForm,
    ExplicitCoefficients,
    FeatureForm,
    InnerProducts,
    MirroredCosineForm,
    NearestForm,
    Operator,
    RankedByCosine,
    RepeatedForm,
    RerankedForm,
    SampleForm,
    SparseCoefficients,
)

LAM = 0.7
DTYPE = torch.float64


def samples(n: int, d: int, seed: int = 0) -> torch.Tensor:
    """Rows of unequal norms; row 1 is a copy of row 0, row 2 is zero."""
    random = np.random.default_rng(seed)
    Z = random.normal(size=(n, d)) * np.geomspace(0.3, 3.0, n)[:, None]
    Z[1], Z[2] = Z[0], 0.0
    return torch.from_numpy(Z)


def unit(Z: torch.Tensor) -> torch.Tensor:
    norm = Z.norm(dim=1, keepdim=True)
    return Z / norm.masked_fill(norm == 0, 1.0)


def hat(Z: torch.Tensor) -> torch.Tensor:
    G = Z.T @ Z + LAM * torch.eye(Z.shape[1], dtype=DTYPE)
    return Z @ torch.linalg.inv(G) @ Z.T


@dataclass
class Case:
    """An operator, and what it should answer; None where it should refuse."""

    operator: Operator
    dense: torch.Tensor
    cosine: torch.Tensor | None = None  # (N, N)
    leverage: torch.Tensor | None = None
    dof: float | None = None
    unseen: torch.Tensor | None = None  # (n, d), and the codes of these
    code: torch.Tensor | None = None
    linear: bool = False
    approximate: bool = False
    lists: list[torch.Tensor] | None = None  # of several neighbor lists, the matrices
    listed_by_magnitude: bool = True  # whether there are several lists without cosines too
    votes: torch.Tensor | None = None  # what the largest codes are taken from, if not the codes


def closed(form: Any, n: int, d: int) -> Case:
    Z, new = samples(n, d), samples(7, d, seed=5)
    H = hat(Z)
    h = H.diagonal()
    B = (H / (1.0 - h)[:, None]).fill_diagonal_(0.0)
    length = h.clamp_min(0).sqrt()
    inverse = torch.where(length > 1e-12, 1.0 / length, torch.zeros_like(length))
    cosine = (H * inverse[:, None] * inverse).fill_diagonal_(0.0)
    G = Z.T @ Z + LAM * torch.eye(d, dtype=DTYPE)
    code = new @ torch.linalg.inv(G) @ Z.T
    return Case(form(Z, LAM), B, cosine, h, float(h.sum()), new, code, True, form is FeatureForm)


def permuted(Z: torch.Tensor) -> torch.Tensor:
    order = torch.randperm(Z.shape[1], generator=torch.Generator().manual_seed(9))
    return Z[:, order]


def cosine(form: Any = CosineForm) -> Case:
    Z, new = unit(samples(30, 8)), unit(samples(7, 8, seed=5))
    C = (Z @ Z.T).fill_diagonal_(0.0)
    return Case(form(Z), C, C, unseen=new, code=new @ Z.T, approximate=True)


def mirrored() -> Case:
    """Neighbors among the samples first; codes over the samples and their mirror images."""
    Z, new = unit(samples(30, 8)), unit(samples(7, 8, seed=5))
    M = unit(permuted(samples(30, 8)))
    C = (Z @ Z.T).fill_diagonal_(0.0)
    code = torch.stack([new @ Z.T, new @ M.T]).abs().amax(0)
    both = torch.stack([Z @ Z.T, Z @ M.T]).abs().amax(0).fill_diagonal_(0.0)
    return Case(MirroredCosineForm(Z, M), C, C, unseen=new, code=code, lists=[C, both])


def reranked() -> Case:
    """The closed form, and rows of two other kinds; all samples are candidates."""
    case = closed(FeatureForm, 30, 8)
    own, by_pool = case.unseen, case.cosine
    assert own is not None
    assert by_pool is not None
    others, new = [unit(samples(30, d, seed=d)) for d in (5, 3)], []
    cosines, votes = [], []
    for R in others:
        new.append(unit(samples(7, R.shape[1], seed=11)))
        cosines.append((R @ R.T).fill_diagonal_(0.0).clamp_min(0.0))
        votes.append(new[-1] @ R.T)
    return Case(
        RerankedForm(case.operator, others),
        case.dense,
        by_pool,
        unseen=torch.cat([own, *new], dim=1),
        code=case.code,
        lists=[by_pool, *cosines],
        listed_by_magnitude=False,
        votes=torch.stack(votes).mean(dim=0).clamp_min(0.0),
    )


def repeated(case: Case) -> Case:
    """Three samples occur again, one of them twice; only the first has coefficients for others."""
    place = torch.cat([torch.arange(30), torch.tensor([7, 4, 7, 21])])

    def of_first(C: torch.Tensor | None, rows: bool = True) -> torch.Tensor | None:
        if C is None:
            return None
        C = C[place] if rows else C
        return torch.cat([C, torch.zeros(len(C), 4, dtype=DTYPE)], dim=1)

    operator = case.operator
    assert isinstance(operator, RankedByCosine)
    dense = of_first(case.dense)
    assert dense is not None
    return Case(
        RepeatedForm(operator, place),
        dense,
        of_first(case.cosine),
        None if case.leverage is None else case.leverage[place],
        case.dof,
        case.unseen,
        of_first(case.code, rows=False),
    )


def explicit(sparse: bool) -> Case:
    C = torch.randn(20, 20, dtype=DTYPE, generator=torch.Generator().manual_seed(3))
    C = (C * (torch.rand(C.shape, generator=torch.Generator().manual_seed(4)) < 0.4)).to(DTYPE)
    C.fill_diagonal_(0.0)
    operator = SparseCoefficients(sp.csr_array(C.numpy())) if sparse else ExplicitCoefficients(C)
    return Case(operator, C)


CASES = {
    "feature form": lambda: closed(FeatureForm, 30, 8),
    "feature form, N < d": lambda: closed(FeatureForm, 12, 20),
    "sample form": lambda: closed(SampleForm, 12, 20),
    "sample form, N > d": lambda: closed(SampleForm, 30, 8),
    "cosine": cosine,
    "mirrored": mirrored,
    "nearest": lambda: cosine(NearestForm),
    "reranked": reranked,
    "repeated": lambda: repeated(cosine()),
    "repeated feature form": lambda: repeated(closed(FeatureForm, 30, 8)),
    "explicit": lambda: explicit(False),
    "sparse": lambda: explicit(True),
}


@pytest.fixture(params=CASES, scope="module")
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]()


def same(a: torch.Tensor, b: torch.Tensor, tol: float = 1e-10) -> bool:
    return bool((a - b).abs().max() <= tol * max(1.0, float(b.abs().max())))


def check_largest(values: torch.Tensor, indices: torch.Tensor, C: torch.Tensor, k: int) -> None:
    """Values are C's at the indices, distinct columns, and the k largest magnitudes there are."""
    assert values.shape == indices.shape == (len(C), k)
    assert same(values, C.gather(1, indices))
    assert all(len(set(row)) == k for row in indices.tolist())
    expected = C.abs().topk(k, dim=1).values
    assert same(values.abs().sort(dim=1, descending=True).values, expected)


def test_every_operator_there_is_has_a_case():
    rooms = (self_expression, dcfsc.estimators.sharded)
    classes = {
        cls
        for room in rooms
        for _, cls in inspect.getmembers(room, inspect.isclass)
        if issubclass(cls, Operator) and not inspect.isabstract(cls)
    }
    tried = {type(make().operator) for make in CASES.values()}
    # The first process's view needs other processes: tests/processes compares what it answers.
    assert classes - tried == {dcfsc.estimators.sharded._Neighbors}


def test_rows_and_the_whole_are_the_dense_matrix(case):
    operator, C = case.operator, case.dense
    assert operator.n == len(C)
    assert operator.dense().dtype == operator.dtype == DTYPE
    assert operator.dense().device == operator.device
    assert same(operator.dense(), C)
    assert same(operator.rows(3, 9), C[3:9])
    assert operator.rows(4, 4).shape == (0, len(C))


@pytest.mark.parametrize("k", [1, 4])
def test_the_largest_coefficients_are_those_of_the_dense_matrix(case, k):
    values, indices = case.operator.topk(k)
    check_largest(values, indices, case.dense, k)
    assert not (indices == torch.arange(len(case.dense))[:, None]).any()


def test_no_more_neighbors_than_there_are_others(case):
    values, indices = case.operator.topk(1000)
    n = len(case.dense)
    assert values.shape == indices.shape == (n, n - 1)


def test_rankings_by_cosine(case):
    operator = case.operator
    assert isinstance(operator, RankedByCosine) == (case.cosine is not None)
    assert isinstance(operator, RanksByCosine) == (case.cosine is not None)
    if case.cosine is None:
        with pytest.raises(InputError, match="scale='cosine' needs the closed form"):
            TopK(scale="cosine")(operator, 2)
        return
    values, indices = operator.topk_cosine(4)
    check_largest(values, indices, case.cosine, 4)
    assert not (indices == torch.arange(operator.n)[:, None]).any()


def test_leverages_and_degrees_of_freedom(case):
    operator = case.operator
    if case.leverage is None:
        assert (operator.leverage, operator.effective_dof, operator.lam) == (None, None, None)
        return
    assert operator.lam == LAM
    assert operator.leverage.dtype == torch.float64
    assert same(operator.leverage, case.leverage)
    assert operator.effective_dof == pytest.approx(case.dof, rel=1e-10)


def test_codes_of_unseen_samples(case):
    operator = case.operator
    assert isinstance(operator, Coding) == (case.code is not None)
    if case.code is None:
        with pytest.raises(InputError, match="has no codes of unseen samples"):
            votes(operator, np.zeros(operator.n, dtype=int), 1, torch.ones(1, 3), 2)
        return
    assert same(operator.code(case.unseen), case.code)
    values, indices = operator.topk_code(case.unseen, 3)
    check_largest(values, indices, case.code if case.votes is None else case.votes, 3)
    assert operator.topk_code(case.unseen, 1000)[0].shape == case.code.shape


def test_products_with_matrices(case):
    operator, C = case.operator, case.dense
    V = torch.randn(len(C), 3, dtype=DTYPE, generator=torch.Generator().manual_seed(1))
    assert isinstance(operator, ClosedForm) == case.linear
    if not case.linear:
        assert not any(hasattr(operator, name) for name in ("matmul", "rmatmul", "apply"))
        return
    assert same(operator.matmul(V), C @ V)
    assert same(operator.rmatmul(V), C.T @ V)
    leaf = V.clone().requires_grad_()
    out = operator.apply(leaf)
    assert same(out.detach(), C @ V)
    (gradient,) = torch.autograd.grad(out, leaf, V)
    assert same(gradient, C.T @ V)


def test_an_approximate_search_that_looks_everywhere_is_exact(case):
    operator = case.operator
    assert isinstance(operator, InnerProducts) == case.approximate
    assert isinstance(operator, SearchesApproximately) == case.approximate
    if not case.approximate:
        with pytest.raises(InputError, match="Use search='exact'"):
            TopK(search="approximate")(operator, 2)
        return
    assert operator.recall is None
    values, _ = operator.approximate_topk(3)  # so few rows have few cells: all are looked at
    expected = case.dense.abs().topk(3, dim=1).values
    assert same(values.abs().sort(dim=1, descending=True).values, expected)
    assert operator.recall == 1.0


@pytest.mark.parametrize("by_cosine", [False, True])
def test_neighbor_lists_are_the_largest_of_their_matrices(case, by_cosine):
    ranked = case.cosine if by_cosine and case.cosine is not None else case.dense
    several = case.lists if by_cosine or case.listed_by_magnitude else None
    matrices = several or [ranked]
    lists = case.operator.neighbors(4, by_cosine)
    assert len(lists) == len(matrices)
    for (values, indices), C in zip(lists, matrices, strict=True):
        check_largest(values, indices, C, 4)


def test_the_matrix_and_its_diagonal(case):
    C = case.operator.matrix()
    assert sp.issparse(C) == isinstance(case.operator, SparseCoefficients)
    assert same(torch.from_numpy(C.toarray()) if sp.issparse(C) else C, case.dense)
    assert same(case.operator.diagonal(), case.dense.diagonal())
    assert case.operator.diagonal().dtype == DTYPE


def test_a_repr_says_the_class_and_n(case):
    assert repr(case.operator).startswith(type(case.operator).__name__)
    assert f"N={case.operator.n}" in repr(case.operator)


@pytest.mark.parametrize("name", ["cosine", "nearest", "mirrored", "feature form", "sample form"])
def test_single_precision_is_near_double(name):
    """The same operators on float32 rows give the float64 answers to single precision."""
    wide = CASES[name]().operator
    if isinstance(wide, CosineForm):
        narrow: Operator = type(wide)(wide.directions.float())
    elif isinstance(wide, MirroredCosineForm):
        narrow = MirroredCosineForm(wide.seen.directions.float(), wide.mirrored.float())
    else:
        narrow = type(wide)(wide._Z.float(), LAM)
    assert narrow.dense().dtype == torch.float32
    assert same(narrow.dense().double(), wide.dense(), 1e-5)


def test_the_cosine_is_the_limit_of_the_closed_form():
    Z = unit(samples(40, 7))
    limit = CosineForm(Z).topk_cosine(5)[0].abs()
    ridge = FeatureForm(Z, 1e9).topk_cosine(5)[0].abs()
    torch.testing.assert_close(limit, ridge, rtol=1e-6, atol=1e-9)


def test_a_diagonal_need_not_be_zero():
    C = torch.randn(20, 20, dtype=DTYPE, generator=torch.Generator().manual_seed(3))
    assert torch.equal(ExplicitCoefficients(C).diagonal(), C.diagonal())
    assert torch.equal(SparseCoefficients(sp.csr_array(C.numpy())).diagonal(), C.diagonal())


def test_what_works_where_samples_are_divided():
    divisible = {name for name, make in CASES.items() if isinstance(make().operator, _DIVISIBLE)}
    closed_forms = {"feature form", "feature form, N < d"}
    assert divisible == closed_forms | {"cosine", "nearest", "mirrored", "reranked"}
