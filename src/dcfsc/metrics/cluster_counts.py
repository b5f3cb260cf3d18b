"""Evidence for a number of clusters K: eigenvalues of a graph, and its partition into K clusters.

With the eigenvalues w_1 >= w_2 >= ... of a graph's normalized affinity, mu_K = 1 - w_K are those of
its Laplacian. K clusters leave K small ones: the eigengap w_K - w_{K+1} is large.

*The scale.* Without clusters the mu_K of points on a d-dimensional set grow as K^(2/d) (Weyl's
law), so gaps grow or fall along K and the largest says little. The slope in logarithms,

    slope(K) = K ln(mu_{K+1} / mu_K),

is about 2/d for every K where there is nothing to see, and large where K clusters end.

*The partition.* An accident may still have the largest slope, such as a long cluster that is as
easily cut as two are told apart. The coupling (:mod:`dcfsc.spectral.coupling`) of two clusters
stands for mu_K, that of a cluster's halves for mu_{K+1}:

    separation(K) = K ln((least coupling of halves + e) / (largest coupling of clusters + e)).

*The sizes.* A class may be two clusters. Then each is half as large as the other classes, and two
classes in one are twice as large. That K clusters are of one size is a coincidence unless somebody
has collected as many samples of each class, so it speaks for K; that they are not says nothing.
With u(K) = ln K less the entropy of the clusters' shares of the samples, 0 for equal sizes,

    evenness(K) = K ln((least u beside K + f) / (u(K) + f)),

or 0 if that is negative; beside K are the others looked at from K - 3 to K + 3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from scipy.special import entr

# Eigenvalues of the Laplacian below this are no longer told apart: a connection of one part in a
# thousand is chance, and without the floor its accidents would have the largest slopes. The same
# for couplings, which are larger. How both were chosen: docs/choosing_k.md.
FLOOR, COUPLING_FLOOR = 1e-3, 0.03
SIZE_FLOOR = 0.01  # the same for u: sizes that differ by a seventh are equal, but for mistakes
BESIDE = 3  # sizes are compared with those for K that are so near


def slopes(values: np.ndarray, floor: float = FLOOR) -> np.ndarray:
    """K ln(mu_{K+1} / mu_K) for K = 1, 2, ... from eigenvalues w (M,), mu = max(1 - w, floor)."""
    mu = np.maximum(1.0 - np.asarray(values, np.float64), floor)
    return np.arange(1, len(mu)) * np.log(mu[1:] / mu[:-1])


def separation(couplings: np.ndarray, floor: float = COUPLING_FLOOR) -> float:
    """K ln((least coupling of halves + floor) / (largest of clusters + floor)) of a (K, K)."""
    k = len(couplings)
    between = couplings[~np.eye(k, dtype=bool)].max()
    return k * math.log((np.diag(couplings).min() + floor) / (between + floor))


def unevenness(sizes: np.ndarray) -> float:
    """ln K less the entropy of the shares of K sizes: 0 if they are equal, at most ln K."""
    return math.log(len(sizes)) - float(entr(sizes / sizes.sum()).sum())


def evenness(uneven: Mapping[int, float], floor: float = SIZE_FLOOR) -> dict[int, float]:
    """K ln((least u beside K + floor) / (u(K) + floor)), at least 0, of u for several K."""

    def gain(k: int) -> float:
        beside = (u for j, u in uneven.items() if 0 < abs(j - k) <= BESIDE)
        return math.log((min(beside, default=0.0) + floor) / (uneven[k] + floor))

    return {k: k * max(gain(k), 0.0) for k in uneven}
