"""Choose the augmentations: those that leave unseen samples in their clusters.

The closed form clusters one half of the samples and says to which cluster each of the other half
belongs: once as it is, and once augmented. The share of samples that stay where they were is the
augmentation's consistency. A rotated object remains closest to other views of that object, but the
faces of an aligned set do not survive being turned or shifted. Each augmentation is taken at the
largest of a few strengths at which it is consistent enough. How much is enough is not known, so
there are two profiles, a strong and a gentle one. A short training with either decides between
them: its features are the better, the fewer of a sample's nearest neighbors are in another cluster
of the samples (:func:`stray_shares`). Strong augmentations teach more, so gentle ones must do
clearly better (:func:`clearly_fewer`). Two augmentations need more:

- Light, a smooth factor, is for samples whose neighbors differ by smooth factors.
- A representation may treat mirror images as equal, and would call any mirror image consistent; so
  they are judged by the samples as they are.

No labels are used.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from dcfsc.neighbors import largest_inner_products

from .augmentations import Views, augmentations_for

# How consistent an augmentation must be in either profile; a mirror image, which differs more than
# a random member of the other families does, in both. Chosen with labels, on image sets.
STRONG, GENTLE, MIRROR = 0.5, 0.85, 0.7
# The strengths that are tried, the largest first. A crop, of which a cluster seldom survives the
# smallest windows, is for samples whose clusters say nothing.
STRENGTHS = {
    "geometry": (1.0, 0.5, 0.25, 0.1),
    "crop": (),
    "mirror": (1.0,),
    "light": (1.0, 0.5),
    "contrast": (1.0, 0.5),
    "color": (1.0, 0.5),
    "hole": (1.0, 0.5),
    "noise": (1.0, 0.5),
}

# Neighbors that are looked at, of so many samples at most.
NEAREST, LOOKED_AT = 3, 10_000
CLEAR = 2.0  # standard errors

Judge = Callable[[Tensor], Tensor]
Measured = dict[str, list[tuple[float, float]]]  # strengths and their consistency


def measure_consistency(
    x: Tensor, judge: Judge, plain_judge: Judge, generator: torch.Generator, light: bool
) -> Measured:
    """The consistency of each augmentation of samples x (n, ...), the strongest first.

    ``judge`` gives the clusters (n,) of samples that it has not seen, in the representation that
    the data prefer; ``plain_judge`` does so with the samples as they are. ``light`` says whether
    neighbors differ by smooth factors.
    """
    measured: Measured = {}
    before = judge(x)
    for name in augmentations_for(tuple(x.shape[1:])):
        measured[name] = []
        for strength in STRENGTHS[name] if light or name != "light" else ():
            if name == "mirror":
                stays = plain_judge(x.flip(-1)) == plain_judge(x)
            else:
                view = Views(tuple(x.shape[1:]), {name: strength})(x, generator)
                changed = (view != x).flatten(1).any(dim=1).cpu()  # some views have no hole
                stays = (judge(view) == before)[changed]
            measured[name].append((strength, float(stays.float().mean())))
            if measured[name][-1][1] >= GENTLE:
                break
    return measured


def profiles(measured: Measured) -> list[dict[str, float]]:
    """The strong and the gentle strengths of all augmentations; one, if both are the same."""
    both = [
        {
            name: next((s for s, share in tried if share >= _needed(name, enough)), 0.0)
            for name, tried in measured.items()
        }
        for enough in (STRONG, GENTLE)
    ]
    return both[:1] if both[0] == both[1] else both


def _needed(name: str, enough: float) -> float:
    return MIRROR if name == "mirror" else enough


def stray_shares(Z: Tensor, labels: Tensor) -> Tensor:
    """Of unit rows Z (N, d), N > 1, the share of each one's nearest rows with another label (N,).

    Near is a large inner product of either sign, as in the closed form. Of many rows only some,
    spread evenly, look for their neighbors. The mean varies less than a partition of Z does, in
    which a whole cluster may go one way or the other.
    """
    every = -(-len(Z) // LOOKED_AT)
    order = (torch.arange(len(Z), device=Z.device) % every).argsort(stable=True)
    Z, labels = Z[order], labels[order]  # those that look come first
    looking = -(-len(Z) // every)
    _, nearest = largest_inner_products(Z[:looking], Z, NEAREST, diagonal=0)
    return (labels[nearest] != labels[:looking, None]).double().mean(dim=1)


def clearly_fewer(shares: Tensor, others: Tensor) -> bool:
    """Whether the mean of the shares (n,) is below that of others (n,) of the same samples by more
    than chance: by :data:`CLEAR` standard errors of their difference.
    """
    difference = others - shares
    error = difference.std(correction=0) / len(difference) ** 0.5
    return bool(difference.mean() > CLEAR * error)
