"""Small changes after which a picture shows the same thing, as permutations of its pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dcfsc.errors import InputError, unknown_name
from dcfsc.self_expression.orbit import View

NAMES = ("none", "shifts", "mirror", "shifts+mirror")
ALL = "shifts+mirror"


def check_transformations(name: Any, sample_shape: Sequence[int]) -> None:
    """One line where there are no such transformations, or none of such samples."""
    if name not in NAMES:
        raise unknown_name("set of transformations", name, NAMES)
    if name != "none" and len(sample_shape) < 2:
        raise InputError(
            f"transformations={name!r} are of images (n, h, w) or (n, c, h, w); the samples are "
            "vectors. Use 'none'."
        )


def views_of(name: str, Z: Tensor, sample_shape: Sequence[int]) -> list[View]:
    """The samples Z (N, d), and what they turn into, each as a function that gives (N, d)."""
    indices = [i.to(Z.device) for i in permutations(name, sample_shape)]
    return [lambda: Z, *(lambda i=i: Z[:, i] for i in indices[1:])]


def permutations(name: str, sample_shape: Sequence[int]) -> list[Tensor]:
    """One index tensor (d,) a transformation, the identity first: changed = flat[:, index].

    "shifts": by one pixel up, down, left and right, cyclically. "mirror": left and right exchanged.
    """
    place = torch.arange(int(torch.Size(sample_shape).numel())).view(*sample_shape)
    found = [place]
    if "shifts" in name:
        found += [place.roll(step, axis) for axis in (-2, -1) for step in (1, -1)]
    if "mirror" in name:
        found += [view.flip(-1) for view in found]
    return [view.flatten() for view in found]
