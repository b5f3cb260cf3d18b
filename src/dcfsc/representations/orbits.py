"""Images together with their shifts and mirror images: changes that leave what they show the same.

A sample is expressed over the others and over what they turn into by shifts of one pixel and by
exchanging left and right (:mod:`dcfsc.self_expression.orbit`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from dcfsc.self_expression import Operator, OrbitForm, lam_for_dof, orbit_gram, target_dof
from dcfsc.self_expression.orbit import View

from .base import Part, Representation, Setting, is_image

SUBSPACE_DIM = 1.5  # chosen with labels, on image sets


class _Orbits(Representation):
    """Samples over the orbits of the others, by the closed form with a ridge."""

    has_ridge = True
    shifts: ClassVar[bool]
    mirror: ClassVar[bool]

    def __init__(self, setting: Setting):
        super().__init__(setting)
        self.lam = setting.lam

    @classmethod
    def obstacle(cls, setting: Setting) -> str | None:
        if not is_image(setting.sample_shape):
            return (
                f"representation={cls.name!r} is for images (n, h, w) or (n, c, h, w); the samples "
                "are vectors"
            )
        return None

    def solve_part(self, part: Part) -> Operator:
        return self._solve(part.Z, self.setting.lam)

    def transform(self, Z: Tensor) -> Tensor:
        return Z

    def solve(self, R: Tensor) -> OrbitForm:
        operator = self._solve(R, self.lam)
        self.lam = operator.lam
        return operator

    def _solve(self, Z: Tensor, lam: float | None) -> OrbitForm:
        views = self._views(Z)
        if lam is None:
            m = self.setting.subspace_dim
            dof = target_dof(self.setting.n_clusters, SUBSPACE_DIM if m is None else m)
            squares = torch.linalg.eigvalsh(orbit_gram(views)).clamp_min(0.0)
            lam = lam_for_dof(squares, dof)
        return OrbitForm(views, lam)

    def _views(self, Z: Tensor) -> list[View]:
        """The samples Z (N, d), and what they turn into, each as a function that gives (N, d)."""
        changes = permutations(self.setting.sample_shape, self.shifts, self.mirror)
        indices = [index.to(Z.device) for index in changes]
        return [lambda: Z, *(lambda i=i: Z[:, i] for i in indices[1:])]

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        return {}, {"lam": self.lam}

    def restore(self, tensors: dict[str, Tensor], values: dict[str, Any], device: Any) -> None:
        self.lam = float(values["lam"])


class Shifts(_Orbits):
    """Images and their shifts by one pixel."""

    name, shifts, mirror = "shifts", True, False


class Mirror(_Orbits):
    """Images and their mirror images."""

    name, shifts, mirror = "mirror", False, True


class ShiftsAndMirror(_Orbits):
    """Images, their shifts by one pixel, and the mirror images of all these."""

    name, shifts, mirror = "shifts+mirror", True, True


def permutations(sample_shape: Sequence[int], shifts: bool, mirror: bool) -> list[Tensor]:
    """One index tensor (d,) a change, the identity first: changed = flat[:, index].

    ``shifts``: by one pixel up, down, left and right, cyclically. ``mirror``: left and right
    exchanged, of the image and of its shifts.
    """
    place = torch.arange(int(torch.Size(sample_shape).numel())).view(*sample_shape)
    changes = [place]
    if shifts:
        changes += [place.roll(step, axis) for axis in (-2, -1) for step in (1, -1)]
    if mirror:
        changes += [view.flip(-1) for view in changes]
    return [view.flatten() for view in changes]
