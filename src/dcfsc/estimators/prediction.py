"""Labels for unseen points: code them over the training set, let the coefficients vote."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dcfsc.self_expression import ClosedForm


def vote(
    operator: ClosedForm, labels: np.ndarray, n_clusters: int, z: Tensor, k: int
) -> np.ndarray:
    """argmax over clusters of the coefficient mass sum_{j in cluster} |c_j|.

    c = z (Z'Z + lam I)^-1 Z' is the ridge code of z (n, d) over the N training samples, of which
    the k largest magnitudes vote: the same graph that clustered the training set, extended by a
    row. Memory n k.
    """
    values, indices = operator.topk_code(z, k)  # type: ignore[attr-defined]
    votes = torch.zeros(z.shape[0], n_clusters, dtype=torch.float64, device=z.device)
    owner = torch.as_tensor(labels, device=z.device)[indices]
    votes.scatter_add_(1, owner, values.abs().to(torch.float64))
    return votes.argmax(dim=1).cpu().numpy().astype(np.int64)
