"""The closed form over samples and what they turn into: shifted by a pixel, mirrored, ...

An image and the same image one pixel to the left show the same thing, but are nearly orthogonal in
fine detail. With T_1 = identity, T_2, ..., T_A such changes and Z_a the features of
all samples changed by T_a, ridge self-expression over the N A rows of all Z_a has

    G = sum_a Z_a' Z_a,   G + lam I = L L',   y = L^-1 z,   H_i(ja) = y_i . y_ja,

and sample j's coefficient for i is that of the best of its changes,

    C_ij = max_a |H_i(ja)| / (1 - h_i),   i != j.

Cost A times that of the plain closed form, memory twice: one change at a time. Still exact, and
still no N x N matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from dcfsc import processes
from dcfsc.errors import InputError
from dcfsc.neighbors import largest_over_views, unit_rows

from .cosine import best_products
from .feature_form import RidgeFactor
from .gram import add_gram, row_chunks
from .operator import Operator

View = Callable[[], Tensor]


def orbit_gram(views: Sequence[View]) -> Tensor:
    """G = sum_a Z_a' Z_a, (d, d) in float64; ``views`` give Z_a (N, d) when called."""
    G: Tensor | None = None
    for view in views:
        Z = view()
        if G is None:
            G = torch.zeros(Z.shape[1], Z.shape[1], dtype=torch.float64, device=Z.device)
        add_gram(G, Z)
    if G is None:
        raise InputError("an orbit needs at least the samples themselves.")
    return processes.total(G)


class OrbitForm(Operator):
    """Coefficients of samples over the orbits of the others; see :mod:`.orbit`.

    Parameters
    ----------
    views : functions that give Z_1, Z_2, ... (N, d); the first one the samples as they are.
    lam : the ridge parameter.
    G : their Gram matrix if it is known; overwritten.

    Attributes
    ----------
    leverage : Tensor (N,) float64, h_i = |y_i|^2 of the samples as they are.

    Where samples are divided among processes, G is summed over all of them and :meth:`topk` finds
    columns among all of them.
    """

    lam: float
    leverage: Tensor
    ranks_by_cosine = True
    codes_samples = True
    is_divisible = True

    def __init__(self, views: Sequence[View], lam: float, G: Tensor | None = None):
        self._views = tuple(views)
        self.lam = float(lam)
        self.factor = RidgeFactor(orbit_gram(views) if G is None else G, self.lam)
        self.Y, self.leverage = self._whitened(self._views[0]())
        self.n, self.dim = self.Y.shape
        self.dtype, self.device = self.Y.dtype, self.Y.device

    @property
    def effective_dof(self) -> float:
        """tr H over all N A rows: sum_i s_i^2 / (s_i^2 + lam) = d - lam tr (L L')^-1."""
        return self.factor.L.shape[0] - self.lam * float(self.factor.inverse.square().sum())

    def rows(self, start: int, stop: int) -> Tensor:
        C = best_products(self.Y[start:stop], self._whitened_views())
        C[torch.arange(len(C)), torch.arange(start, start + len(C))] = 0.0
        return C / (1.0 - self.leverage[start:stop]).to(C.dtype)[:, None]

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        values, indices = largest_over_views(self.Y, self._whitened_views(), k, diagonal=0)
        return values / (1.0 - self.leverage).to(values.dtype)[:, None], indices

    def topk_cosine(self, k: int) -> tuple[Tensor, Tensor]:
        """The k largest max_a |y_i . y_ja| / (|y_i| |y_ja|) of each row: values, indices (N, k)."""
        views = (unit_rows(Y) for Y in self._whitened_views())
        return largest_over_views(unit_rows(self.Y), views, k, diagonal=0)

    def code(self, z: Tensor) -> Tensor:
        """max_a |z (G + lam I)^-1 z_ja| for unseen z (n, d), (n, N)."""
        return best_products(self._whitened(z)[0], self._whitened_views())

    def topk_code(self, z: Tensor, k: int) -> tuple[Tensor, Tensor]:
        return largest_over_views(self._whitened(z)[0], self._whitened_views(), k)

    def _whitened_views(self) -> Iterator[Tensor]:
        yield self.Y
        for view in self._views[1:]:
            yield self._whitened(view())[0]

    def _whitened(self, Z: Tensor) -> tuple[Tensor, Tensor]:
        """Y (N, d) in the precision of Z, and |y|^2 (N,) in float64."""
        Y = torch.empty_like(Z)
        squares = torch.empty(Z.shape[0], dtype=torch.float64, device=Z.device)
        for rows in row_chunks(Z.shape[0], Z.shape[1], Z.device):
            y = self.factor.whiten(Z[rows])
            Y[rows] = y.to(Y.dtype)
            squares[rows] = y.square().sum(1)
        return Y, squares.clamp_max(1.0 - 1e-9)

    def __repr__(self) -> str:
        return (
            f"OrbitForm(N={self.n}, d={self.dim}, views={len(self._views)}, lam={self.lam:.4g}, "
            f"effective_dof={self.effective_dof:.4g})"
        )
