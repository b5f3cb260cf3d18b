"""Few samples near flats of low dimension, such as the trajectories of points on moving bodies.

The images of a rigid body's points over some frames lie in an affine subspace, a *flat*, of
dimension three at most. Nearly all of such data is in the first few principal directions of the
homogeneous coordinates y = (x - mean, c), and there the cosine of the whitened rows,

    z -> W' y / |W' y|,    W = V_r S_r^-1    with    Y = U S V',

is the shape interaction matrix U_r U_r' at unit length: zero between samples of independent flats.
How many directions r to keep is a question of noise and of how the flats meet. So each r gives a
partition, and the one is kept in which the samples have the shortest code: for n_k samples X_k
around their mean m_k, up to a distortion e^2,

    L = sum_k (n_k + d)/2 log det(I + d/(e^2 n_k) X_k' X_k) + d/2 log(1 + |m_k|^2/e^2)
        - n_k log(n_k / N).

References
----------
J. P. Costeira, T. Kanade. A multibody factorization method for independently moving objects.
International Journal of Computer Vision 29(3), 1998.
Y. Ma, H. Derksen, W. Hong, J. Wright. Segmentation of multivariate mixed data via lossy data coding
and compression. IEEE Trans. Pattern Analysis and Machine Intelligence 29(9), 2007.
P. Ji, M. Salzmann, H. Li. Shape interaction matrix revisited and robustified. ICCV, 2015.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dcfsc.neighbors import unit_rows
from dcfsc.pipeline import MOST_SAMPLES, Recipe, graph_of, labels_of
from dcfsc.self_expression import CosineForm, Operator, squared_singular_values

from .base import Part, Representation, is_image, need_unit_length_without_ridge, restored

STARTS = 10  # of k-means, for the partition by each rank
FLAT = 4  # dimensions of the linear span of a flat of dimension three
MOST_FEATURES = 1024  # of samples that "auto" looks at: it needs the spectrum of their Gram matrix
OUTSIDE = 4e-4  # share of the variance that flats leave to noise
MISSED = 0.5  # share of a constant that is no linear function of samples on flats off the origin
SPARE = 5  # ranks are tried up to so many times K: perspective bends flats a little
RANKS = 12
DISTORTION = 3e-3  # e^2 over the variance, chosen with a look at the labels of Hopkins-155
# Share of the variance outside of the flats found, above which there are none. Trajectories of
# rigid bodies leave 0.1% at most, hand movements, which are smooth and no flats, 5% or more.
BENT = 0.01


class AffineSubspaces(Representation):
    """Principal homogeneous coordinates, whitened, as many as give the shortest code."""

    name = "affine"
    has_ridge = False
    learns = True
    keeps_lengths = True
    mean: Tensor
    W: Tensor
    _fitted: float | None = None  # what the flats of the sample leave out, once found by `suits`

    @classmethod
    def obstacle(cls, recipe: Recipe) -> str | None:
        return need_unit_length_without_ridge(cls.name, recipe)

    @classmethod
    def considered(cls, recipe: Recipe) -> bool:
        d = math.prod(recipe.sample_shape)
        low = 2 * FLAT * recipe.n_clusters <= d <= MOST_FEATURES
        return low and not is_image(recipe.sample_shape) and cls.obstacle(recipe) is None

    def suits(self, X: Tensor) -> bool:
        """Whether K flats off the origin hold nearly all of the variance.

        First that of each feature in their joint span, then that of the samples in the flats that
        a fit finds: smooth curves pass the first test, and not the second. Samples on such flats
        satisfy X w = 1 for some w. Subspaces through the origin do not, and need no homogeneous
        coordinate.
        """
        most = FLAT * self.recipe.n_clusters
        if not 3 * most < len(X) < MOST_SAMPLES:  # so many are a sample of still more
            return False
        Z = _small(X)
        scale = Z.std(dim=0, correction=0)
        Z = Z / torch.where(scale > 0, scale, 1.0)
        if outside(Z, most) > OUTSIDE or missed(Z, most) >= MISSED:
            return False
        self._fitted = self._fit(X)
        return self._fitted <= BENT

    def solve_part(self, part: Part) -> Operator:
        alone = AffineSubspaces(self.recipe)
        return alone.solve(alone.fit_transform(part.X))

    def fit_transform(self, Z: Tensor) -> Tensor:
        if self._fitted is None:
            self._fit(Z)
        self._fitted = None
        return self.transform(Z)

    def _fit(self, Z: Tensor) -> float:
        """Find the directions; the share of the variance that the flats leave out."""
        K = self.recipe.n_clusters
        X = _small(Z)
        self.mean = Z.double().mean(dim=0)
        X = X - X.mean(dim=0)
        size = float(X.square().mean().sqrt())
        Y = torch.cat([X, X.new_full((len(X), 1), size or 1.0)], dim=1)
        U, s, Vt = torch.linalg.svd(Y, full_matrices=False)
        rank = int((s > s[0] * max(Y.shape) * torch.finfo(Z.dtype).eps).sum())
        ranks = np.linspace(min(K + 1, rank), min(SPARE * K, rank), RANKS).round().astype(int)
        best = math.inf
        # Of equal partitions the one counts whose rank is nearest to that of K independent flats.
        for r in sorted({int(r) for r in ranks}, key=lambda r: abs(r - FLAT * K)):
            labels = self._partition(unit_rows(U[:, :r]).to(Z.dtype))
            length = coding_length(X, labels, DISTORTION * float(X.square().sum()) / len(X))
            if length < best * (1.0 - 1e-9):
                best, kept, found = length, r, labels
        W = Vt[:kept].mT / s[:kept]
        W[:-1] /= float(Z.abs().max().double()) or 1.0
        W[-1] *= size or 1.0
        self.W = W
        return outside_of_flats(X, found)

    def _partition(self, R: Tensor) -> np.ndarray:
        graph = graph_of(CosineForm(R), self.recipe)
        return labels_of(graph, self.recipe, np.random.RandomState(0), STARTS)

    def transform(self, Z: Tensor) -> Tensor:
        return unit_rows((Z.double() - self.mean) @ self.W[:-1] + self.W[-1]).to(Z.dtype)

    @property
    def row_shape(self) -> tuple[int, ...]:
        return (self.W.shape[1],)

    def solve(self, R: Tensor) -> CosineForm:
        return CosineForm(R)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {"mean": self.mean, "directions": self.W}, {}

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any], device: Any) -> None:
        d = math.prod(self.recipe.sample_shape)
        self.mean = restored(tensors, "mean", (d,), device)
        self.W = restored(tensors, "directions", (d + 1, None), device)


def outside(Z: Tensor, rank: int) -> float:
    """The share of the variance of Z (n, d) outside of its first ``rank`` principal directions."""
    squares = squared_singular_values(Z - Z.mean(dim=0)).sort(descending=True).values
    total = float(squares.sum())
    return float(squares[rank:].sum()) / total if total > 0 else 1.0


def outside_of_flats(X: Tensor, labels: np.ndarray) -> float:
    """The share of the variance of X (n, d) that flats of dimension three, one a group, leave."""
    total = float((X - X.mean(dim=0)).square().sum())
    left = 0.0
    for label in np.unique(labels):
        group = X[torch.from_numpy(labels == label).to(X.device)]
        squares = squared_singular_values(group - group.mean(dim=0)).sort(descending=True).values
        left += float(squares[FLAT - 1 :].clamp_min(0.0).sum())
    return left / total if total > 0 else 0.0


def missed(Z: Tensor, rank: int) -> float:
    """min_w |1 - Z w|^2 / n, w in the span of the first ``rank`` right singular vectors of Z."""
    U = torch.linalg.svd(Z, full_matrices=False).U[:, :rank]
    return 1.0 - float(U.sum(dim=0).square().sum()) / len(Z)


def coding_length(X: Tensor, labels: np.ndarray, distortion: float) -> float:
    """Nats for the samples X (N, d), group by group, up to a squared error ``distortion`` each."""
    n, d = X.shape
    if distortion <= 0:
        return 0.0
    length = 0.0
    for label in np.unique(labels):
        group = X[torch.from_numpy(labels == label).to(X.device)]
        mean = group.mean(dim=0)
        squares = squared_singular_values(group - mean).clamp_min(0.0)
        size = len(group)
        length += 0.5 * (size + d) * float(torch.log1p(d / (distortion * size) * squares).sum())
        length += 0.5 * d * math.log1p(float(mean.square().sum()) / distortion)
        length -= size * math.log(size / n)
    return length


def _small(X: Tensor) -> Tensor:
    """X in double precision over its largest magnitude, so that squares do not overflow."""
    X = X.double()
    largest = X.abs().max()
    return X / torch.where(largest > 0, largest, 1.0)
