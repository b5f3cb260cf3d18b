"""What the paper prints, from paper.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

_DATA = tomllib.loads(Path(__file__).with_name("paper.toml").read_text(encoding="utf-8"))
METHODS: tuple[str, ...] = tuple(_DATA["eyaleb"]["methods"])
CLUSTERS: tuple[int, ...] = tuple(_DATA["eyaleb"]["people"])
LAMBDAS = (1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6)
# Of a dataset's two columns, DSC and DCFSC: the samples n, and parameters by layer and in total.
NETWORKS = _DATA["networks"]


@dataclass(frozen=True)
class Printed:
    """A clustering error in percent; the median where the paper gives one."""

    mean: float
    median: float | None = None


EYALEB: dict[str, dict[int, Printed]] = {
    method: {
        K: Printed(mean, median)
        for K, mean, median in zip_longest(CLUSTERS, column["means"], column["medians"])
    }
    for method, column in _DATA["eyaleb"]["methods"].items()
}


def printed(dataset: str, method: str, n_clusters: int) -> Printed | None:
    """The paper's number for a method on a dataset, where it prints one.

    "dcfsc-fast" is its DCFSC too, with the network in another precision.
    """
    method = method.removesuffix("-fast")
    if dataset == "eyaleb":
        return EYALEB.get(method, {}).get(n_clusters)
    mean = _DATA[dataset].get(method) if dataset in ("orl", "coil100") else None
    return None if mean is None else Printed(mean)


def memory(dataset: str, method: str) -> float | None:
    """The MB that the paper gives for a method's training, where it does."""
    return _DATA["memory"].get(dataset, {}).get(method)
