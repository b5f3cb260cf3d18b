"""Labels for unseen points: code them over the training set, let the coefficients vote."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from dcfsc.errors import InputError
from dcfsc.pipeline import Partition
from dcfsc.self_expression import Coding, Operator
from dcfsc.spectral import Memberships

from .sharded import check_whole

# Chosen with labels, on halves of digits, among four powers; it is the sparse affinity's own.
VOTE_POWER = 4.0
CLUSTERS, PROBABILITIES = "membership_clusters", "membership_probabilities"  # in a model's file


class LabelsUnseen:
    """The methods ``predict`` and ``predict_proba`` of the estimators that label unseen samples."""

    n_clusters_: int
    n_neighbors: int = 10  # how many training samples vote
    labels_: np.ndarray
    _partition: Partition

    def _unseen(self, X: Any) -> tuple[Operator, Tensor]:
        """The operator of the training samples, and the samples X as rows (n, d) that it codes."""
        raise NotImplementedError

    def predict(self, X: Any) -> np.ndarray:
        """Labels (n,) of unseen samples, by the mass of their codes over the training set."""
        operator, z = self._unseen(X)
        k = max(1, int(self.n_neighbors))
        return vote(operator, self.labels_, self.n_clusters_, z, k)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of every cluster, (n, n_clusters), for unseen samples.

        It is the weighted mean of what the training samples that vote in ``predict`` have, whose
        own clusters have the probability ``confidence_``. The largest is that of ``predict``.
        """
        operator, z = self._unseen(X)
        k = max(1, int(self.n_neighbors))
        return probabilities(operator, self.labels_, self._partition.memberships, z, k)

    def score(self, X: Any, y: Any = None) -> float:
        """The adjusted Rand index of ``predict(X)``; 1 is the best, 0 is chance.

        With labels y (n,) it compares the prediction with them. Without, it fits a copy of the
        model to X and compares the two partitions: the score says whether the clusters are found
        again in other samples, not whether they are the ones you want.
        """
        labels = self.predict(X)
        if y is None:
            y = clone(self).set_params(n_clusters=self.n_clusters_).fit_predict(X)
        return float(adjusted_rand_score(y, labels))

    def votes(self, X: Any, groups: np.ndarray, n_groups: int) -> np.ndarray:
        """Votes (n, n_groups) for unseen samples, of training samples in other groups (N,)."""
        operator, z = self._unseen(X)
        return votes(operator, groups, n_groups, z, max(1, int(self.n_neighbors))).cpu().numpy()

    def _partition_state(self) -> dict[str, Tensor]:
        check_whole(self)
        return {
            "labels": torch.from_numpy(self.labels_),
            CLUSTERS: torch.from_numpy(self._partition.memberships.clusters),
            PROBABILITIES: torch.from_numpy(self._partition.memberships.probabilities),
        }


def restored_partition(tensors: dict[str, Tensor], n_clusters: int) -> Partition:
    """The inverse of ``_partition_state``, or one line saying what is wrong."""
    if not {"labels", CLUSTERS, PROBABILITIES} <= tensors.keys():
        raise InputError("its memberships are missing; fit and save it again.")
    clusters, values = tensors[CLUSTERS], tensors[PROBABILITIES]
    n = len(tensors["labels"])
    fit = clusters.ndim == 2 and clusters.shape == values.shape and len(clusters) == n
    if not fit or clusters.dtype != torch.int32 or not 1 <= clusters.shape[1] <= n_clusters:
        raise InputError("its memberships do not match its samples; fit and save it again.")
    if not (0 <= int(clusters.min()) <= int(clusters.max()) < n_clusters):
        raise InputError(f"its memberships do not match {n_clusters} clusters.")
    if float(values.min()) < 0.0 or float(values.sum(dim=1).max()) > 1.001:
        raise InputError("its memberships are not probabilities; fit and save it again.")
    memberships = Memberships(clusters.numpy(), values.float().numpy(), n_clusters)
    return Partition(tensors["labels"].numpy(), memberships)


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
    weights, voters = _voters(operator, z, k)
    return _votes(weights, voters, labels, n_clusters)


def probabilities(
    operator: Operator, labels: np.ndarray, memberships: Memberships, z: Tensor, k: int
) -> np.ndarray:
    """sum_j w_j p_j / sum_j w_j, (n, K): the memberships p_j of the samples j that vote for z.

    w_j are the weights of :func:`votes`. Where the two do not agree on the first cluster, the
    probabilities of their first ones change places, so that the largest is always the vote's. A
    row without votes has all clusters alike.
    """
    weights, voters = _voters(operator, z, k)
    chosen = _votes(weights, voters, labels, memberships.n_clusters).argmax(dim=1).cpu().numpy()
    weights, voters = weights.cpu(), voters.cpu()
    weights = weights / weights.sum(dim=1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)
    n, m = len(chosen), memberships.clusters.shape[1]
    shares = weights[..., None] * torch.from_numpy(memberships.probabilities)[voters]
    clusters = torch.from_numpy(memberships.clusters)[voters].long()
    p = torch.zeros(n, memberships.n_clusters, dtype=torch.float64)
    p.scatter_add_(1, clusters.reshape(n, -1), shares.reshape(n, voters.shape[1] * m))
    p += (1.0 - p.sum(dim=1, keepdim=True)).clamp_min(0.0) / memberships.n_clusters
    found = p.numpy() / p.sum(dim=1, keepdim=True).numpy()
    rows, first = np.arange(n), found.argmax(axis=1)
    found[rows, first], found[rows, chosen] = found[rows, chosen], found[rows, first]
    return found


def _voters(operator: Operator, z: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Weights and indices (n, k) of the training samples that vote for each row of z."""
    if not isinstance(operator, Coding):
        raise InputError(f"{type(operator).__name__} has no codes of unseen samples.")
    values, indices = operator.topk_code(z, k)
    weights = values.abs().to(torch.float64)
    if operator.leverage is not None:
        length = operator.leverage.clamp_min(torch.finfo(torch.float64).tiny).sqrt()
        weights = weights / length[indices]
    # Scaled to the row's largest, so that the power neither overflows nor vanishes.
    largest = weights.amax(dim=1, keepdim=True)
    return (weights / largest.masked_fill(largest == 0, 1.0)) ** VOTE_POWER, indices


def _votes(weights: Tensor, voters: Tensor, labels: np.ndarray, n_clusters: int) -> Tensor:
    total = torch.zeros(len(weights), n_clusters, dtype=torch.float64, device=weights.device)
    owner = torch.tensor(labels, device=weights.device)[voters]
    return total.scatter_add_(1, owner, weights)
