"""Losses on the features of views of a batch, each a mean over samples, to be minimized.

Each term is a pure function of a :class:`Batch`; :func:`weighted_terms` weights them.
They are computed in float32 or, where the network is, in float64, never in less.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations

import torch
import torch.nn.functional as F
from torch import Tensor

from dcfsc.self_expression import choose_lam, solve

TEMPERATURE = 0.3  # of the contrastive loss
SUBSPACE_DIM = 3.0  # of the closed form in the batch
SMOOTHING = 0.1  # of the clusters' labels
GROUPS = 3  # that a head has for each cluster
ENTROPY = 1.5  # the weight of groups of equal sizes
SHARPNESS = 10.0  # of a sample's groups: the factor of their logits


@dataclass
class Batch:
    """What the losses read: of each view of the samples a matrix, whose rows belong together."""

    features: tuple[Tensor, ...]  # (n, d) each
    projections: tuple[Tensor, ...]  # (n, p) each
    logits: tuple[Tensor, ...]  # (n, K) each
    targets: tuple[Tensor, ...]  # (n,) each, pseudo-labels, -1 where unknown
    n_clusters: int
    predictions: tuple[Tensor, ...] = ()  # (n, p) each, if the network makes them


def contrastive(batch: Batch) -> Tensor:
    """NT-Xent: -log softmax over all other views of the batch, at the view's positives.

    - mean_i log exp(p_i . q_i / t) / sum_{v not p_i} exp(p_i . v / t),   |p| = |q| = 1
    """
    views = len(batch.projections)
    p = _unit(torch.cat(batch.projections))  # (views n, p)
    rows = torch.arange(len(p), device=p.device)
    similarity = p @ p.mT / TEMPERATURE
    similarity = similarity.masked_fill(torch.eye(len(p), dtype=torch.bool, device=p.device), -1e9)
    n = len(p) // views
    losses = [F.cross_entropy(similarity, rows.roll(n * shift)) for shift in range(1, views)]
    return torch.stack(losses).mean()


def prediction(batch: Batch) -> Tensor:
    """1 - cosine of what a view predicts and the mean of the other views' projections.

    The mean is a constant of the step, without which all projections would become one: Pototzky et
    al., "FastSiam: resource-efficient self-supervised learning on a single GPU", 2022.
    """
    p = torch.stack([_wide(part) for part in batch.projections]).detach()
    others = p.sum(dim=0) - p  # of each view
    guesses = torch.stack([_wide(part) for part in batch.predictions])
    return 1.0 - F.cosine_similarity(guesses, others, dim=2).mean()


def self_expression(batch: Batch) -> Tensor:
    """mean_i |z_i - (B Z)_i|^2, the residual of the paper's layer within the batch.

    Z are the mean features of all views at unit length, and lam is that of K m effective degrees
    of freedom. B is a constant of the step, as in Algorithm 2.
    """
    Z = F.normalize(torch.stack([_unit(part) for part in batch.features]).sum(dim=0), dim=1)
    operator = solve(Z.detach(), layer_lam(Z, batch.n_clusters), form="features")
    return (Z - operator.apply(Z)).square().sum(dim=1).mean()


def clusters(batch: Batch) -> Tensor:
    """Cross-entropy of the logits with the pseudo-labels, clusters of the closed form."""
    logits, targets = _wide(torch.cat(batch.logits)), torch.cat(batch.targets)
    total = F.cross_entropy(
        logits, targets, ignore_index=-1, label_smoothing=SMOOTHING, reduction="sum"
    )
    return total / (targets >= 0).sum().clamp_min(1)


def groups(batch: Batch) -> Tensor:
    """- mean_i log sum_g P_ig Q_ig - 1.5 sum_g -m_g log m_g,   m the mean of P and Q

    Positives are in the same groups with the probabilities P and Q, and all groups are used: Van
    Gansbeke et al., "SCAN: learning to classify images without labels", 2020. The logits are those
    of as many heads as have three groups for a cluster, each with groups of its own; of one head if
    there are fewer.
    """
    heads = max(1, batch.logits[0].shape[1] // (GROUPS * batch.n_clusters))
    shape = len(batch.logits), len(batch.logits[0]), heads, -1
    logp = (SHARPNESS * _wide(torch.cat(batch.logits))).view(shape).log_softmax(dim=3)
    pairs = [(p + q).logsumexp(dim=2).mean() for p, q in combinations(logp, 2)]
    mean = logp.exp().mean(dim=(0, 1)).clamp_min(1e-12)  # (heads, groups)
    entropy = -(mean * mean.log()).sum(dim=1).mean()
    return -torch.stack(pairs).mean() - ENTROPY * entropy


def _wide(rows: Tensor) -> Tensor:
    return rows if rows.dtype == torch.float64 else rows.float()


def _unit(rows: Tensor) -> Tensor:
    return F.normalize(_wide(rows), dim=1)


def layer_lam(Z: Tensor, n_clusters: int) -> float:
    """The ridge at which unit rows Z (n, d) have about K m effective degrees of freedom.

    At most half of the features' number: a batch has fewer directions than the data.
    """
    dof = min(n_clusters * SUBSPACE_DIM, 0.5 * min(Z.shape))
    return choose_lam(Z.detach(), dof)


TERMS: dict[str, Callable[[Batch], Tensor]] = {
    "contrastive": contrastive,
    "prediction": prediction,
    "self_expression": self_expression,
    "clusters": clusters,
    "groups": groups,
}


def weighted_terms(batch: Batch, weights: Mapping[str, float]) -> dict[str, Tensor]:
    """Each term times its weight."""
    return {name: weight * TERMS[name](batch) for name, weight in weights.items()}
