"""The closed form through the d x d matrix Z'Z: cost N d^2 + d^3, memory N d + d^2."""

from __future__ import annotations

import copy
from functools import cached_property

import torch
from torch import Tensor

from dcfsc import processes
from dcfsc.neighbors import largest_among, largest_inner_products, unit_rows

from .closed_form import Cholesky, ClosedForm
from .gram import gram, row_chunks, squared_lengths
from .operator import InnerProducts
from .products import SplitMatrix, needs_one_part, splits

# Products with Y lose a factor 1 / (1 - h) by cancellation; past two digits they go to float64.
SMALLEST_COMPLEMENT = 1e-2


class RidgeFactor:
    """The d x d half of the closed form: Z'Z + lam I = L L'.

    It knows the samples only through G = Z'Z, so G may have been summed over chunks of samples or
    over machines; everything that concerns a sample follows from its row alone:

        y = L^-1 z,     h = |y|^2,     H_ij = y_i . y_j.

    The whitened rows y have norm below one whatever the condition number of G is; that is why
    products with them are safe in the precision of the data.
    """

    def __init__(self, G: Tensor, lam: float, checked: bool = True):
        """G is (d, d) float64 and is overwritten; ``checked=False`` leaves that to the caller."""
        self.lam = float(lam)
        self.cholesky = Cholesky(G, self.lam)
        self.L = self.cholesky.L
        if checked:
            self.cholesky.check(int(self.cholesky.info))

    def whiten(self, z: Tensor) -> Tensor:
        """Rows z (n, d) -> rows y = L^-1 z (n, d) in float64."""
        z = z.to(torch.float64)
        if z.is_cuda:
            # A GPU multiplies several times faster than it substitutes. The inverse costs digits
            # in proportion to the condition number of L, the root of that of G: double has them.
            return z @ self.inverse.mT
        return torch.linalg.solve_triangular(self.L.mT, z, upper=True, left=False)

    @cached_property
    def inverse(self) -> Tensor:
        """L^-1, (d, d) float64."""
        eye = torch.eye(len(self.L), dtype=self.L.dtype, device=self.L.device)
        return torch.linalg.solve_triangular(self.L, eye, upper=False)

    @property
    def whitened_gram(self) -> Tensor:
        """Y'Z = L^-1 G = L' - lam L^-1, (d, d) float64, without the samples."""
        return self.L.mT - self.lam * self.inverse


class FeatureForm(ClosedForm, InnerProducts):
    """B_ij = y_i . y_j / (1 - h_i) with the whitened rows Y = Z L^-T, H = Y Y'.

    Where samples are divided among processes (:func:`dcfsc.processes.sharded`), Z holds those of
    this one; the two d x d sums over samples, Z'Z and Y'V, are then taken over all of them, and
    :meth:`topk` finds columns among all of them. Rows and codes stay those over its own samples.
    """

    form = "features"
    # On a GPU's matrix units: the parts that products split their factors into, and Y's own.
    _parts = 2
    _split: SplitMatrix | None = None

    def __init__(self, Z: Tensor, lam: float, G: Tensor | None = None):
        """G is Z'Z of all processes' rows if it is known, and is overwritten."""
        super().__init__(Z, lam)
        G = processes.total(gram(Z)) if G is None else G
        # The GPU is waited for here, before long work, and then once more at the end of it.
        parts = 1 if splits(Z, self.dim) and needs_one_part(Z) else 2
        self.factor = RidgeFactor(G, lam, checked=False)
        self._Z, self._version = Z, _version(Z)
        mean_square = self.factor.cholesky.trace / processes.total_number(self.n)
        # y = L^-1 z with |L^-1| <= lam^-1/2: float32 costs eps |z| / sqrt(lam) of the unit that
        # bounds |y|. Where that is small, a GPU's matrix units may whiten; else float64 does.
        loss = torch.finfo(torch.float32).eps * (mean_square / lam) ** 0.5
        self.Y, self.complement = self._whitened(Z, loss < 1e-5 and splits(Z, self.dim), parts)
        smallest = self._checked_smallest_complement()
        if Z.dtype != torch.float64 and processes.smallest_number(smallest) < SMALLEST_COMPLEMENT:
            self.Y = self.factor.whiten(Z)
        self.directions, self.leverage = self.Y, 1.0 - self.complement

    def _checked_smallest_complement(self) -> float:
        """min 1 - h of this process's samples; the same look at the GPU checks the factor."""
        c = self.complement
        least = torch.cat((c, c.new_ones(1))).min()
        smallest, info = torch.stack((least, self.factor.cholesky.info.to(c.dtype))).tolist()
        self.factor.cholesky.check(info)
        return float(smallest)

    def _whitened(self, Z: Tensor, on_matrix_units: bool, parts: int) -> tuple[Tensor, Tensor]:
        """Y (N, d) in the precision of Z, and 1 - h (N,) in float64; ``parts`` Z is split into."""
        if on_matrix_units:
            Y = SplitMatrix(Z, parts) @ SplitMatrix(self.factor.inverse.mT.to(Z.dtype))
        else:
            Y = torch.empty_like(Z)
        complement = torch.empty(self.n, dtype=torch.float64, device=Z.device)
        for rows in row_chunks(self.n, self.dim, Z.device):
            y = Y[rows] if on_matrix_units else self.factor.whiten(Z[rows])
            if not on_matrix_units:
                Y[rows] = y.to(Y.dtype)
            # h <= |z|^2 / (|z|^2 + lam) < 1 in exact arithmetic; rounding must not pass it.
            floor = self.lam / (self.lam + squared_lengths(Z[rows]))
            complement[rows] = torch.maximum(1.0 - squared_lengths(y), floor)
        return Y, complement

    def _from_directions(self, products: Tensor) -> Tensor:
        return (products / self._columns(products.dtype)[1]).to(self.dtype)

    def matmul(self, V: Tensor) -> Tensor:
        self._check_operand(V)
        work = V.to(self.Y.dtype)
        if self._is_own(V):
            inner = self.factor.whitened_gram.to(work.dtype)  # Y'Z without touching the samples
        else:
            inner = self._gather(work)
        h, c = self._columns(work.dtype)
        return torch.addcmul(self._scatter(inner), h, work, value=-1).div_(c).to(V.dtype)

    def rmatmul(self, V: Tensor) -> Tensor:
        self._check_operand(V)
        h, c = self._columns(self.Y.dtype)
        u = V.to(self.Y.dtype) / c
        return torch.addcmul(self._scatter(self._gather(u)), h, u, value=-1).to(V.dtype)

    def for_backward(self, rounded: bool) -> FeatureForm:
        kept = copy.copy(self)
        del kept.factor, kept._Z  # three d x d matrices in float64, and the samples
        kept._parts = 1 if rounded else 2
        if kept._split is not None:
            kept._split = kept._split.leading(kept._parts)
            kept.Y = kept.directions = self.Y.new_empty(0)  # its parts serve all products
        return kept

    def rows(self, start: int, stop: int) -> Tensor:
        _, c = self._columns(self.Y.dtype)
        block = self.Y[start:stop] @ self.Y.mT / c[start:stop]
        index = torch.arange(block.shape[0], device=block.device)
        block[index, index + start] = 0.0
        return block.to(self.dtype)

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        values, indices = largest_among(self.Y, k)
        return self._from_directions(values), indices

    def topk_cosine(self, k: int) -> tuple[Tensor, Tensor]:
        values, indices = largest_among(unit_rows(self.Y), k)
        return values.to(self.dtype), indices

    def code(self, z: Tensor) -> Tensor:
        return (self.factor.whiten(z).to(self.Y.dtype) @ self.Y.mT).to(self.dtype)

    def topk_code(self, z: Tensor, k: int) -> tuple[Tensor, Tensor]:
        return largest_inner_products(self.factor.whiten(z).to(self.Y.dtype), self.Y, k)

    def _gather(self, V: Tensor) -> Tensor:
        """Y'V, (d, p), over the samples of all processes."""
        Y = self._in_parts(V.shape[1])
        product = self.Y.mT @ V if Y is None else Y.mT @ SplitMatrix(V, self._parts)
        return processes.total(product)

    def _scatter(self, S: Tensor) -> Tensor:
        """Y S, (N, p)."""
        Y = self._in_parts(S.shape[1])
        return self.Y @ S if Y is None else Y @ SplitMatrix(S, self._parts)

    def _in_parts(self, columns: int) -> SplitMatrix | None:
        """Y in parts for products with so many columns, None where it is multiplied as it is."""
        if len(self.Y) and not splits(self.Y, columns):
            return None
        if self._split is None:
            self._split = SplitMatrix(self.Y)
        return self._split

    def _columns(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """h and 1 - h as columns (N, 1)."""
        return self.leverage.to(dtype)[:, None], self.complement.to(dtype)[:, None]

    def _is_own(self, V: Tensor) -> bool:
        return (
            V.data_ptr() == self._Z.data_ptr()
            and None is not self._version == _version(V) == _version(self._Z)
            and V.shape == self._Z.shape
            and V.stride() == self._Z.stride()
        )


def _version(Z: Tensor) -> int | None:
    """A number that a change of Z in place raises; None where NumPy, say, may change it unseen."""
    return Z._version if not Z.is_inference() and Z.untyped_storage().resizable() else None
