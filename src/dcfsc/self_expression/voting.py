"""Labels for unseen points: code them over the training set, let the coefficients vote."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from .operator import Operator

# Chosen with labels, on halves of digits, among four powers; it is the sparse affinity's own.
VOTE_POWER = 4.0


def vote(operator: Operator, labels: np.ndarray, n_clusters: int, z: Tensor, k: int) -> np.ndarray:
    """The cluster with most :func:`votes` for each row of z (n, d)."""
    return votes(operator, labels, n_clusters, z, k).argmax(dim=1).cpu().numpy().astype(np.int64)


def votes(operator: Operator, labels: np.ndarray, n_clusters: int, z: Tensor, k: int) -> Tensor:
    """sum_{j in cluster} (|c_j| / sqrt(h_j)) ** VOTE_POWER, (n, n_clusters) in float64.

    c = z (Z'Z + lam I)^-1 Z' is the ridge code of z (n, d) over the N training samples, of which
    the k largest magnitudes vote. |c_j| / sqrt(h_j) is, up to a factor of the row, the cosine of
    the whitened z and z_j: votes weigh as the edges of the sparse affinity do, whose graph is
    extended by a row; without a ridge c_j is that cosine. Each row is scaled so that its largest
    weight is one. Memory n k.
    """
    values, indices = operator.topk_code(z, k)
    weights = values.abs().to(torch.float64)
    if operator.leverage is not None:
        length = operator.leverage.clamp_min(torch.finfo(torch.float64).tiny).sqrt()
        weights = weights / length[indices]
    # Scaled to the row's largest, so that the power neither overflows nor vanishes.
    largest = weights.amax(dim=1, keepdim=True)
    weights = (weights / largest.masked_fill(largest == 0, 1.0)) ** VOTE_POWER
    total = torch.zeros(z.shape[0], n_clusters, dtype=torch.float64, device=z.device)
    owner = torch.tensor(labels, device=z.device)[indices]
    return total.scatter_add_(1, owner, weights)
