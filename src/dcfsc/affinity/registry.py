"""Affinities by name: the general ones, and the published protocols under names of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dcfsc.errors import InputError, unknown_name

from .base import Affinity
from .doubly_stochastic import DoublyStochastic
from .low_rank import LowRank
from .nearest_codes import NearestCodes
from .row_space import RowSpace
from .symmetric import Symmetric
from .topk import TopK


def dsc_eyaleb(n_clusters: int) -> LowRank:
    """The released Extended Yale B script's values as DSC ran it: Python 2 divides integers."""
    share = max(0.4 - (n_clusters - 1) // 10 * 0.1, 0.1)
    return LowRank(share=share, dim=10, power=3.5)


def dcfsc_eyaleb(n_clusters: int) -> LowRank:
    """The same script as the DCFSC paper ran it, under Python 3, where the division is exact."""
    share = max(0.4 - (n_clusters - 1) / 10 * 0.1, 0.1)
    return LowRank(share=share, dim=10, power=3.5)


_BY_NAME: dict[str, Callable[[int], Affinity]] = {
    "symmetric": lambda n_clusters: Symmetric(),
    "magnitude": lambda n_clusters: Symmetric(scale=False),
    "low_rank": lambda n_clusters: LowRank(),
    "topk": lambda n_clusters: TopK(),
    "doubly_stochastic": lambda n_clusters: DoublyStochastic(),
    "nearest_codes": lambda n_clusters: NearestCodes(),
    "lrr": lambda n_clusters: RowSpace(),
    "edsc": lambda n_clusters: LowRank(share=1.0, dim=10, power=4.0),
    "ssc-motion": lambda n_clusters: Symmetric(share=0.7),
    "dsc-orl": lambda n_clusters: LowRank(share=0.2, dim=3, power=1.0),
    "dsc-eyaleb": dsc_eyaleb,
    "dcfsc-eyaleb": dcfsc_eyaleb,
    "dsc-coil100": lambda n_clusters: LowRank(share=0.04, dim=12, power=8.0),
}


def names() -> list[str]:
    return sorted(_BY_NAME)


def get(affinity: Any, n_clusters: int) -> Affinity:
    """An affinity from its name or, passed through, from an object that is one."""
    if isinstance(affinity, str):
        if affinity not in _BY_NAME:
            raise unknown_name("affinity", affinity, _BY_NAME)
        return _BY_NAME[affinity](n_clusters)
    if not callable(affinity):
        raise InputError(
            f"affinity must be a name ({', '.join(names())}) or a callable; got {affinity!r}."
        )
    return affinity
