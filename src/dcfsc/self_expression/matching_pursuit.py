"""Orthogonal matching pursuit as a self-expression (SSC-OMP), all samples at once.

Rows are samples: Z is (N, d), the coefficients C are (N, N) and sparse, Z ~ C Z, diag(C) = 0.
"""

from __future__ import annotations

import scipy.sparse
import torch
import torch.nn.functional as functional
from torch import Tensor

from dcfsc.errors import InputError

from .explicit import SparseCoefficients
from .operator import Solution
from .sparse import check_matrix, check_positive

BLOCK = 1024  # samples coded at a time
# The Gram matrix is held only up to this size; beyond, residuals are correlated anew in each step.
_GRAM_BYTES = 2**30
# Below this dimension a fresh product with the dictionary is cheaper than adding up Gram rows.
_GRAM_LEAST_DIMENSION = 64


@torch.no_grad()
def orthogonal_matching_pursuit(
    Z: Tensor,
    k: int = 5,
    tol: float = 1e-6,
    *,
    unit: bool = True,
    gram: bool | None = None,
    block: int = BLOCK,
) -> Solution:
    r"""A code with at most k other samples for each sample, greedily:

        min |z_i - c_i Z|^2   subject to  |c_i|_0 <= k,  c_ii = 0.

    In each step every sample takes the sample most correlated with its residual (itself and those
    already taken excluded) and refits all its coefficients by least squares; it stops at ``k`` or
    when the squared residual is below ``tol`` of the sample's. Rows are scaled to unit norm first,
    and the coefficients refer to the unit rows, unless ``unit`` says otherwise.

    Choose it for speed on many samples near low-dimensional subspaces, k about their dimension;
    the code is sparse and its graph may be poorly connected.

    Parameters
    ----------
    Z : samples in rows, (N, d), float32 or float64.
    k : most samples in a code.
    tol : squared residual, as a share of the sample's squared length, at which it stops.
    unit : False leaves samples at their own lengths. Long ones are then chosen more often, and
        as many samples share them, the graph of the codes is better connected.
    gram : True keeps the Gram matrix Z Z' (N^2 numbers) and updates the correlations through
        its rows (Batch-OMP): one product of 2 N^2 d flops in all, then N^2 k^2 / 2 sums.
        False correlates the residuals anew : 2 N^2 d k flops and no N x N array. The choices are
        the same up to round-off. None: the Gram matrix if it fits in 1 GiB and d >= 64.
    block : samples coded at a time; the working memory is about 3 block N numbers.

    Returns
    -------
    Solution
        ``coefficients`` are sparse, ``n_iter`` is the largest number of samples in a code,
        ``residual`` the largest squared residual, ``objective`` the sum of the squared residuals,
        each as a share of the sample's squared length.
        ``converged`` is always true: the pursuit ends by itself.

    Notes
    -----
    Correlations are scanned in the data's precision; the k x k systems, their progressive
    Cholesky factors and the residuals are in double precision. Equal correlations go to the
    lower index, and correlations that differ by less than round-off may go either way. A
    sample with nothing left to correlate with, and a choice that depends linearly on the
    earlier ones, end a code early. Zero rows have no code and enter none.

    References
    ----------
    C. You, D. P. Robinson, R. Vidal. Scalable sparse subspace clustering by orthogonal matching
    pursuit. CVPR 2016.
    R. Rubinstein, M. Zibulevsky, M. Elad. Efficient implementation of the K-SVD algorithm using
    batch orthogonal matching pursuit. Technion CS-2008-08, 2008.
    """
    check_matrix(Z, "Z")
    check_positive(tol=tol)
    if k < 1 or block < 1:
        raise InputError(f"k and block must be at least 1, got k={k!r} and block={block!r}.")
    n = Z.shape[0]
    k = min(k, n - 1)
    if unit:
        Z = functional.normalize(Z, dim=1, eps=torch.finfo(Z.dtype).tiny)
    else:  # the longest at unit length: squares neither overflow nor vanish
        largest = torch.linalg.vector_norm(Z, dim=1).max()
        Z = Z / largest.clamp_min(torch.finfo(Z.dtype).tiny)
    if gram is None:
        gram = use_gram(n, Z.shape[1], Z.dtype.itemsize)
    G = Z @ Z.T if gram else None
    index, value = Z.new_full((n, k), -1, dtype=torch.long), Z.new_zeros(n, k)
    residual = Z.new_zeros(n, dtype=torch.float64)
    for start in range(0, n, block):
        rows = slice(start, min(start + block, n))
        index[rows], value[rows], residual[rows] = _pursue(Z, G, rows, k, tol)
    chosen = index >= 0
    return Solution(
        SparseCoefficients(_as_csr(index, value, chosen)),
        n_iter=int(chosen.sum(1).max()) if k else 0,
        residual=float(residual.max()),
        converged=True,
        objective=float(residual.sum()),
    )


def use_gram(n: int, d: int, size: int) -> bool:
    """Whether the Gram matrix, of numbers of ``size`` bytes, is worth its memory."""
    return d >= _GRAM_LEAST_DIMENSION and size * n * n <= _GRAM_BYTES


def _pursue(
    Z: Tensor, G: Tensor | None, rows: slice, k: int, tol: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Indices (-1 for none) and values (b, k), and squared residuals (b,), for some rows of Z."""
    eps = torch.finfo(Z.dtype).eps
    own = torch.arange(rows.start, rows.stop, device=Z.device)
    b = len(own)
    index = own.new_full((b, k), -1)
    value, y = (Z.new_zeros(b, k, dtype=torch.float64) for _ in range(2))
    L = Z.new_zeros(b, k, k, dtype=torch.float64)  # Cholesky factors of the chosen atoms' Gram
    square = Z[rows].double().square().sum(1)
    residual = square.clone()
    active = ((square > 0) & (residual >= tol * square)).nonzero()[:, 0]
    for s in range(k):
        taken = index[active, :s]  # (a, s)
        scan = _correlations(Z, G, own[active], taken, value[active, :s].to(Z.dtype))
        scan.abs_().scatter_(1, torch.cat([own[active, None], taken], dim=1), -1.0)
        best, peak = _argmax(scan)
        w, pivot, projection = _extend(
            Z, own[active], taken, best, L[active, :s, :s], y[active, :s]
        )
        # Nothing left to correlate with, or an atom in the span of the earlier ones.
        atom = Z[best].double().square().sum(1)
        usable = (peak > 8 * eps * (atom * square[active]).sqrt()) & (pivot > 8 * eps * atom)
        active = active[usable]
        if not len(active):
            break
        pivot = pivot[usable].sqrt()
        index[active, s] = best[usable]
        L[active, s, :s] = w[usable]
        L[active, s, s] = pivot
        y[active, s] = projection[usable] / pivot
        residual[active] = (residual[active] - y[active, s].square()).clamp_(min=0)
        value[active, : s + 1] = torch.linalg.solve_triangular(
            L[active, : s + 1, : s + 1].mT, y[active, : s + 1, None], upper=True
        )[..., 0]
        active = active[residual[active] >= tol * square[active]]
    return index, value.to(Z.dtype), residual / square.masked_fill(square == 0, 1.0)


def _correlations(Z: Tensor, G: Tensor | None, own: Tensor, taken: Tensor, value: Tensor) -> Tensor:
    """(z - value Z_taken) Z' for the samples ``own``, (a, N); taken and value are (a, s)."""
    if G is None:
        fitted = torch.einsum("as,asd->ad", value, Z[taken])
        return (Z[own] - fitted) @ Z.T
    if taken.shape[1] == 0:
        return G[own]
    fitted = functional.embedding_bag(taken, G, mode="sum", per_sample_weights=value)
    return torch.sub(G[own], fitted, out=fitted)


def _extend(
    Z: Tensor, own: Tensor, taken: Tensor, best: Tensor, L: Tensor, y: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The next row (w, sqrt(pivot)) of the Cholesky factors, and pivot^1/2 times the next y.

    With a the new atom and A those taken: L w = A a, pivot = |a|^2 - |w|^2, and a's correlation
    with what y leaves unexplained of the sample.
    """
    atom = Z[best].double()  # (a, d)
    w = torch.einsum("asd,ad->as", Z[taken].double(), atom)
    w = torch.linalg.solve_triangular(L, w[..., None], upper=False)[..., 0]
    pivot = atom.square().sum(1) - w.square().sum(1)
    projection = (Z[own].double() * atom).sum(1) - (w * y).sum(1)
    return w, pivot, projection


def _argmax(scan: Tensor) -> tuple[Tensor, Tensor]:
    """Index and value of each row's maximum, the first of equals."""
    if scan.device.type == "cpu":  # numpy's argmax is vectorized, torch's is many times slower
        best = torch.from_numpy(scan.numpy().argmax(1))
    else:
        best = scan.argmax(1)
    return best, scan.gather(1, best[:, None])[:, 0]


def _as_csr(index: Tensor, value: Tensor, chosen: Tensor) -> scipy.sparse.csr_matrix:
    n = len(index)
    offsets = functional.pad(chosen.sum(1).cumsum(0), (1, 0)).cpu().numpy()
    C = scipy.sparse.csr_matrix(
        (value[chosen].cpu().numpy(), index[chosen].cpu().numpy(), offsets), shape=(n, n)
    )
    C.sort_indices()
    return C
