"""Which changes may a view have? Those that leave unseen samples in their clusters.

The closed form clusters one half of the samples and says to which cluster each of the other half
belongs: once as it is, and once after a change. The share of samples that stay where they were is
the change's consistency. Rotated objects remain closest to the views of the same object, but the
faces of an aligned set do not survive being turned or shifted: they do survive another light. Each
change is taken at the largest of a few strengths at which the data tolerate it. No labels are used.

A representation may treat mirror images as equal, and would call any mirror image consistent; so
they are judged by the samples as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
from torch import Tensor

from .views import Views, changes_for

logger = logging.getLogger("dcfsc")

# How consistent a change must be: chosen with labels, on image sets. A random mirror image changes
# far more than a random member of the other families, so it has to be surer.
CONSISTENT, CONSISTENT_MIRROR = 0.5, 0.7
# The strengths that are tried, the largest first.
STRENGTHS = {
    "geometry": (1.0, 0.5, 0.25, 0.1),
    "mirror": (1.0,),
    "light": (1.0, 0.5),
    "contrast": (1.0, 0.5),
    "colour": (1.0, 0.5),
    "hole": (1.0, 0.5),
    "noise": (1.0, 0.5),
}

Judge = Callable[[Tensor], Tensor]


def choose_changes(
    x: Tensor, judge: Judge, plain_judge: Judge, generator: torch.Generator
) -> tuple[dict[str, float], dict[str, float]]:
    """The strength of each change for samples like x (n, ...), and its consistency there.

    ``judge`` gives the clusters (n,) of samples that it has not seen, in the representation that
    the data prefer; ``plain_judge`` does so with the samples as they are.
    """
    strengths: dict[str, float] = {}
    consistency: dict[str, float] = {}
    before = judge(x)
    for name in changes_for(tuple(x.shape[1:])):
        strengths[name] = 0.0
        for strength in STRENGTHS[name]:
            if name == "mirror":
                stays, needed = plain_judge(x.flip(-1)) == plain_judge(x), CONSISTENT_MIRROR
            else:
                view = Views(tuple(x.shape[1:]), {name: strength})(x, generator)
                stays, needed = judge(view) == before, CONSISTENT
            consistency[name] = float(stays.float().mean())
            if consistency[name] >= needed:
                strengths[name] = strength
                break
    shown = ", ".join(f"{n} {s:g} ({consistency[n]:.2f})" for n, s in strengths.items())
    logger.info("views: %s", shown)
    return strengths, consistency
