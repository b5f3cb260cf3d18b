"""Pictures seen by their scattering coefficients, in the metric of neighbours, mirrored or not.

Scattering coefficients say which waves of which direction are where, coarsely: what a shift by a
pixel changes little. Their leading directions are found from a sample, as is the metric of
neighbours in them (:mod:`.neighbour_metric`). Each sample then has its nearest others by the plain
cosine twice, among the others as they are and among the others and their mirror images, and the
two graphs are added: a mirror image may join what belongs together, but does not displace the
neighbours there are. Whether pictures are seen so or as they are given, stability decides.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dcfsc import distributed
from dcfsc.affinity import TopK
from dcfsc.affinity import get as get_affinity
from dcfsc.errors import unknown_name
from dcfsc.self_expression import solve
from dcfsc.self_expression.orbit import OrbitForm
from dcfsc.self_expression.ways import Ways

from .neighbour_metric import in_metric, neighbour_metric, plain_ridge
from .scattering_features import ScatteringFeatures
from .stability import agreement, common_sample, enough_samples
from .transformations import MOST_PIXELS

logger = logging.getLogger("dcfsc")

NAMES = ("auto", "given", "scattering")
SMALLEST_SIDE = 16  # coefficients are averaged over 4 pixels: fewer would leave hardly any places
J = 2


def check_features(name: Any) -> None:
    if name not in NAMES:
        raise unknown_name("features", name, NAMES)


def may_scatter(sample_shape: Sequence[int], affinity: Any, n_clusters: int) -> bool:
    """Whether samples are pictures of a size that scattering coefficients are tried for."""
    if len(sample_shape) < 2 or min(sample_shape[-2:]) < SMALLEST_SIDE:
        return False
    if int(torch.Size(sample_shape).numel()) > MOST_PIXELS:
        return False
    make = get_affinity(affinity, n_clusters)
    return isinstance(make, TopK) and make.search == "exact"


class Pictures:
    """What turns pictures (N, d), flat, into features (N, 2, k): as they are, and mirrored."""

    def __init__(self, scattering: ScatteringFeatures, T: Tensor):
        self.scattering, self.T = scattering, T

    @classmethod
    def of(cls, Z: Tensor, sample_shape: Sequence[int], n_clusters: int) -> Pictures:
        """Directions and metric from the pictures Z (N, d), a sample."""
        scattering = ScatteringFeatures(J, center=False, device=Z.device, verbose=False)
        F = torch.from_numpy(scattering.fit_transform(_pictures(Z, sample_shape))).to(Z.device)
        return cls(scattering, neighbour_metric(F, n_clusters))

    def __call__(self, Z: Tensor) -> Tensor:
        """Features (N, 2, k) of unit length of the pictures Z (N, d), in the metric."""
        x = _pictures(Z, self.scattering.sample_shape_)
        both = (self.features(x), self.features(np.ascontiguousarray(x[..., ::-1])))
        return torch.stack(both, dim=1)

    def features(self, x: np.ndarray) -> Tensor:
        """Features (n, k) of unit length of pictures (n, h, w) or (n, c, h, w), in the metric."""
        return in_metric(torch.from_numpy(self.scattering.transform(x)).to(self.T.device), self.T)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, values = self.scattering._state()
        return {"metric": self.T, **{f"scattering_{k}": t for k, t in tensors.items()}}, values

    @classmethod
    def restored(
        cls, tensors: dict[str, Tensor], values: dict[str, Any], device: torch.device
    ) -> Pictures:
        start = "scattering_"
        own = {k[len(start) :]: t for k, t in tensors.items() if k.startswith(start)}
        scattering = ScatteringFeatures(J, center=False, device=device, verbose=False)
        scattering._restore(own, values)
        return cls(scattering, tensors["metric"].to(device))


def mirror_form(Z: Tensor, lam: float, form: str = "auto") -> Ways:
    """The two ways to express samples with features Z (N, 2, k), as they are and mirrored."""
    seen, mirrored = Z[:, 0].contiguous(), Z[:, 1].contiguous()
    views = OrbitForm([lambda: seen, lambda: mirrored], lam)
    return Ways(solve(seen, lam, form=form), views)  # type: ignore[arg-type]


def choose_pictures(
    wanted: str,
    Z: Tensor,
    sample_shape: Sequence[int],
    n_clusters: int,
    known: dict[str, float],
) -> tuple[Pictures | None, dict[str, float]]:
    """Pictures' features or None, and the stabilities; ``known`` has those of the other ways.

    Where samples are divided among processes all of them choose by the same sample.
    """
    sample = common_sample(Z)
    if wanted == "auto" and not enough_samples(len(sample), n_clusters):
        return None, known
    with distributed.alone():
        found = Pictures.of(sample, sample_shape, n_clusters)
        if wanted == "auto":
            operator = mirror_form(found(sample), plain_ridge(len(sample)))
            score = agreement(operator, n_clusters)
            better = score > max(known.values(), default=-1.0)
            known = {**known, "scattering": score}
            told = ", ".join(f"{name} {value:.3f}" for name, value in known.items())
            chosen = "scattering coefficients" if better else "pixels"
            logger.info("features of pictures: %s (stability: %s)", chosen, told)
            if not better:
                return None, known
    return found, known


def _pictures(Z: Tensor, sample_shape: Sequence[int]) -> np.ndarray:
    return Z.reshape(len(Z), *sample_shape).cpu().numpy()
