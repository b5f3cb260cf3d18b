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
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from dcfsc import distributed
from dcfsc.affinity import TopK
from dcfsc.affinity import get as get_affinity
from dcfsc.errors import InputError, unknown_name
from dcfsc.self_expression import solve
from dcfsc.self_expression.orbit import OrbitForm
from dcfsc.self_expression.ways import Ways

from .neighbour_metric import in_metric, neighbour_metric, plain_ridge
from .scattering_features import ScatteringFeatures
from .stability import common_sample, enough_samples, stabilities

logger = logging.getLogger("dcfsc")

NAMES = ("auto", "given", "scattering")
SMALLEST_SIDE = 6  # a pixel is too large a part of a smaller picture
ENLARGED_SIDE = 16  # coefficients are averaged over 4 pixels: fewer would leave hardly any places
MOST_PIXELS = 4096  # larger pictures cost minutes and gigabytes
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

    def __init__(self, sample_shape: Sequence[int], scattering: ScatteringFeatures, T: Tensor):
        self.sample_shape, self.scattering, self.T = sample_shape, scattering, T

    @classmethod
    def of(cls, Z: Tensor, sample_shape: Sequence[int], n_clusters: int) -> Pictures:
        """Directions and metric from the pictures Z (N, d), a sample."""
        scattering = ScatteringFeatures(J, center=False, device=Z.device, verbose=False)
        x = enlarged(_pictures(Z, sample_shape))
        F = torch.from_numpy(scattering.fit_transform(x)).to(Z.device)
        return cls(sample_shape, scattering, neighbour_metric(F, n_clusters))

    def __call__(self, Z: Tensor) -> Tensor:
        """Features (N, 2, k) of unit length of the pictures Z (N, d), in the metric."""
        return both_in_metric(self.coefficients(Z), self.T)

    def coefficients(self, Z: Tensor) -> Tensor:
        """Scattering coefficients (N, 2, k) of unit length of the pictures Z (N, d)."""
        x = enlarged(_pictures(Z, self.sample_shape))
        both = (x, np.ascontiguousarray(x[..., ::-1]))
        found = [torch.from_numpy(self.scattering.transform(y)) for y in both]
        return torch.stack(found, dim=1).to(self.T.device)

    def features(self, x: np.ndarray) -> Tensor:
        """Features (n, k) of unit length of pictures (n, h, w) or (n, c, h, w), in the metric."""
        F = torch.from_numpy(self.scattering.transform(enlarged(x)))
        return in_metric(F.to(self.T.device), self.T)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, values = self.scattering._state()
        return {"metric": self.T, **{f"scattering_{k}": t for k, t in tensors.items()}}, values

    @classmethod
    def restored(
        cls,
        sample_shape: Sequence[int],
        tensors: dict[str, Tensor],
        values: dict[str, Any],
        device: torch.device,
    ) -> Pictures:
        start = "scattering_"
        own = {k[len(start) :]: t for k, t in tensors.items() if k.startswith(start)}
        scattering = ScatteringFeatures(J, center=False, device=device, verbose=False)
        if tuple(values.get("sample_shape", ())) != enlarged_shape(sample_shape):
            raise InputError("its scattering is not of its pictures; fit and save it again.")
        scattering._restore(own, values)
        return cls(sample_shape, scattering, tensors["metric"].to(device))


def enlarged_shape(sample_shape: Sequence[int]) -> tuple[int, ...]:
    """(h, w) or (c, h, w), h and w so many times larger that neither is below ``ENLARGED_SIDE``."""
    *channels, h, w = sample_shape
    times = -(-ENLARGED_SIDE // min(h, w))
    return (*channels, times * h, times * w)


def enlarged(x: np.ndarray) -> np.ndarray:
    """Pictures (n, h, w) or (n, c, h, w) of ``enlarged_shape``, interpolated linearly."""
    shape = enlarged_shape(x.shape[1:])
    if shape == x.shape[1:]:
        return x
    planes = torch.from_numpy(x).reshape(-1, 1, *x.shape[-2:])
    larger = interpolate(planes, size=shape[-2:], mode="bilinear", align_corners=False)
    return larger.reshape(len(x), *shape).numpy()


def both_in_metric(F: Tensor, T: Tensor) -> Tensor:
    """The rows of F (N, 2, k) T at unit length."""
    return torch.stack([in_metric(way.contiguous(), T) for way in F.unbind(1)], dim=1)


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
            score = stabilities(
                found.coefficients(sample), n_clusters, partial(_scattered, n_clusters=n_clusters)
            )["scattering"]
            better = score > max(known.values(), default=-1.0)
            known = {**known, "scattering": score}
            told = ", ".join(f"{name} {value:.3f}" for name, value in known.items())
            chosen = "scattering coefficients" if better else "pixels"
            logger.info("features of pictures: %s (stability: %s)", chosen, told)
            if not better:
                return None, known
    return found, known


def _scattered(F: Tensor, n_clusters: int) -> Iterator[tuple[str, Ways]]:
    """Coefficients F (n, 2, k) of a part of the pictures, in the metric of its own neighbours."""
    T = neighbour_metric(F[:, 0].contiguous(), n_clusters)
    yield "scattering", mirror_form(both_in_metric(F, T), plain_ridge(len(F)))


def _pictures(Z: Tensor, sample_shape: Sequence[int]) -> np.ndarray:
    return Z.reshape(len(Z), *sample_shape).cpu().numpy()
