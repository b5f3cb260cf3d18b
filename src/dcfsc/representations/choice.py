"""Which representation: the one the user names, or the first that no other is stabler than."""

from __future__ import annotations

import logging
import math
from typing import Any

from torch import Tensor

from dcfsc import processes
from dcfsc.errors import InputError, unknown_name
from dcfsc.parameters import Kind
from dcfsc.progress import stage

from .affine import AffineSubspaces
from .base import Representation, Setting
from .counts import Counts
from .given import Given
from .neighbor_metric import NeighborMetric, NeighborMetricTwice
from .scattering import ScatteringMetric
from .stability import MARGIN, common_sample, enough_samples, race

logger = logging.getLogger("dcfsc")

# In the order of preference: the first that may be considered is taken, unless another one is more
# stable by a margin.
REPRESENTATIONS: tuple[type[Representation], ...] = (
    ScatteringMetric,
    Given,
    NeighborMetric,
    NeighborMetricTwice,
    AffineSubspaces,
    Counts,
)
_BY_NAME = {cls.name: cls for cls in REPRESENTATIONS}


def names() -> list[str]:
    """The names that ``representation=`` takes."""
    return ["auto", *_BY_NAME]


def _known(name: Any) -> bool:
    if not isinstance(name, str) or name not in ("auto", *_BY_NAME):
        raise unknown_name("representation", name, names())
    return True


NAME = Kind(_known, "a representation")  # a parameter


def create(name: str, setting: Setting) -> list[Representation]:
    """The candidates for a name: the named one, or for "auto" all that suit the samples."""
    if name == "auto":
        return [c(setting) for c in REPRESENTATIONS if c.considered(setting)]
    obstacle = _BY_NAME[name].obstacle(setting)
    if obstacle is not None:
        raise InputError(f"{obstacle}.")
    return [_BY_NAME[name](setting)]


def choose(
    candidates: list[Representation], X: Tensor, setting: Setting
) -> tuple[Representation, Tensor, dict[str, float]]:
    """Choose a candidate for samples X (N, d): return it fitted, its rows, and all stabilities.

    A candidate that the samples suit is taken without a comparison, and so is the preferred one
    where its head start is infinite. Where there are too few samples
    to compare candidates, the first is taken that learns nothing from them. Where samples are
    divided among processes all of them choose by the same sample.
    """
    scores: dict[str, float] = {}
    chosen = candidates[0]
    if len(candidates) == 1 and not chosen.learns:
        return chosen, chosen.rows(X), scores
    sample = common_sample(X)
    with processes.alone():
        if len(candidates) > 1:
            chosen, rows, scores = _preferred(candidates, sample, setting)
        else:
            rows = chosen.rows(sample)
        if chosen.learns:
            stage("fitting the representation %s", chosen.name)
            chosen.fit(rows)
    for tensor in chosen.state()[0].values() if chosen.learns else ():
        processes.broadcast(tensor, 0)
    # the very same rows where the sample is everything: what was learned of them is known by them
    return chosen, rows if sample is X else chosen.rows(X), scores


def _preferred(
    candidates: list[Representation], sample: Tensor, setting: Setting
) -> tuple[Representation, Tensor, dict[str, float]]:
    """The candidate that the sample (n, d) suits, else the one to take by stability; its rows."""
    suited = [(candidate, candidate.suits(sample)) for candidate in candidates]
    for candidate, suits in suited:
        if suits:
            logger.info("representation: %s, which the samples suit", candidate.name)
            return candidate, candidate.rows(sample), {}
    candidates = [candidate for candidate, suits in suited if suits is None]
    rows = candidates[0].rows(sample)
    if len(candidates) == 1 or not enough_samples(len(sample), setting.n_clusters):
        return next(c for c in candidates if not c.learns), rows, {}
    margin = candidates[0].head_start(rows)
    if margin == math.inf:
        candidates = candidates[:1]  # its stability says how far to trust its clusters
    chosen, scores = race(candidates, rows, setting, MARGIN if margin is None else margin)
    shown = ", ".join(f"{name} {score:.3f}" for name, score in scores.items())
    logger.info("representation: %s (stability: %s)", chosen.name, shown)
    return chosen, rows, scores


def restore(
    name: Any, setting: Setting, tensors: dict[str, Tensor], values: dict[str, Any], device: Any
) -> Representation:
    """Restore a representation from what :meth:`Representation.state` returned."""
    if name not in _BY_NAME:
        raise unknown_name("representation", name, _BY_NAME)
    representation = _BY_NAME[name](setting)
    representation.restore(tensors, values, device)
    return representation
