"""Which representation: the one the user names, or the first that no other is stabler than."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from dcfsc import processes
from dcfsc.pipeline import MOST_SAMPLES, Recipe, common_sample, sampled_rows
from dcfsc.progress import stage
from dcfsc.representations import Representation

from .stability import MARGIN, Rival, enough_samples, race

logger = logging.getLogger("dcfsc")

SMALL_MULTIPLE = 4  # of the sample's size: of more samples, what is known of it is a small part


@dataclass(frozen=True, eq=False)
class Selected:
    """A fitted representation, what it keeps of the samples (N, ...), and how it was chosen."""

    representation: Representation
    rows: Tensor
    stability: dict[str, float] = field(default_factory=dict)
    rival: Rival | None = None


def select(
    candidates: list[Representation],
    X: Tensor,
    recipe: Recipe,
    order: np.ndarray | None = None,
) -> Selected:
    """Choose a candidate for samples X (N, d) and fit it.

    A candidate that the samples suit is taken without a comparison, and so is the preferred one
    where its head start is infinite. Where there are too few samples to compare candidates, the
    first is taken that learns nothing from them. Where samples are divided among processes all of
    them choose by the same sample, of ``order`` if there is one.
    """
    chosen = candidates[0]
    if len(candidates) == 1 and not chosen.learns:
        return Selected(chosen, chosen.transform(chosen.rows(X)))
    sample = common_sample(X, order)
    with processes.alone():
        chosen, scores, rival = choose(candidates, sample, recipe)
        if chosen.learns:
            stage("fitting the representation %s", chosen.name)
        learned = chosen.fit_transform(chosen.rows(sample))
    for tensor in chosen.state()[0].values() if chosen.learns else ():
        processes.broadcast(tensor, 0)
    if rival is not None:
        sampled = sampled_rows(processes.total_count(len(X)), order)
        rival = replace(rival, index=sampled[rival.index])
    return Selected(chosen, _all_rows(chosen, X, learned, order), scores, rival)


def _all_rows(
    chosen: Representation, X: Tensor, learned: Tensor, order: np.ndarray | None
) -> Tensor:
    """What the representation keeps of all samples X (N, d), where that of a sample is known."""
    n = len(X)
    if processes.size() > 1 or n > SMALL_MULTIPLE * MOST_SAMPLES:
        return chosen.transform(chosen.rows(X))
    if len(learned) == n and order is None:
        return learned
    sampled = torch.from_numpy(sampled_rows(n, order)).to(X.device)
    others = torch.ones(n, dtype=torch.bool, device=X.device)
    others[sampled] = False
    rows = learned.new_empty(n, *learned.shape[1:])
    rows[sampled] = learned
    if len(learned) < n:
        rows[others] = chosen.transform(chosen.rows(X[others]))
    return rows


def choose(
    candidates: list[Representation], sample: Tensor, recipe: Recipe
) -> tuple[Representation, dict[str, float], Rival | None]:
    """The candidate that the sample (n, d) suits, else the one to take by stability.

    With it come the stabilities of those that were compared, which are prepared for the sample, and
    a rival.
    """
    if len(candidates) == 1:
        return candidates[0], {}, None
    suited = [(candidate, candidate.suits(sample)) for candidate in candidates]
    for candidate, suits in suited:
        if suits:
            logger.info("representation: %s, which the samples suit", candidate.name)
            return candidate, {}, None
    candidates = [candidate for candidate, suits in suited if suits is None]
    if len(candidates) == 1 or not enough_samples(len(sample), recipe.n_clusters):
        return next(c for c in candidates if not c.learns), {}, None
    margin = candidates[0].head_start(candidates[0].rows(sample))
    if margin == math.inf:
        return candidates[0], {}, None
    margin = MARGIN if margin is None else margin
    chosen, scores, rival = race(candidates, sample, recipe, margin)
    shown = ", ".join(f"{name} {score:.3f}" for name, score in scores.items())
    logger.info("representation: %s (stability: %s)", chosen.name, shown)
    return chosen, scores, rival
