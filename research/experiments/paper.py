"""What the paper prints: clustering errors, parameter counts and memory, as data.

Every number is from Seo, Koo and Jeon, Deep Closed-Form Subspace Clustering (2019). The paper's
bar charts of ORL and COIL-100 carry no figures, so only what its text says of them is here.
"""

from __future__ import annotations

from dataclasses import dataclass

METHODS = (
    "lrr",
    "lrsc",
    "ssc",
    "ae+ssc",
    "kssc",
    "ssc-omp",
    "edsc",
    "ae+edsc",
    "dsc",
    "dcfsc",
)
CLUSTERS = (10, 15, 20, 25, 30, 35, 38)
LAMBDAS = (1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6)


@dataclass(frozen=True)
class Printed:
    """A clustering error in percent; the median where the paper gives one."""

    mean: float
    median: float | None = None


# Rows: the number of people; columns in the order of METHODS; means, then medians.
_EYALEB: dict[int, tuple[tuple[float, ...], tuple[float, ...] | None]] = {
    10: (
        (22.22, 30.95, 10.22, 17.06, 14.49, 12.08, 5.64, 5.46, 1.59, 5.72),
        (23.49, 29.38, 11.09, 17.75, 15.78, 8.28, 5.47, 6.09, 1.25, 5.63),
    ),
    15: (
        (23.22, 31.47, 13.13, 18.65, 16.22, 14.05, 7.63, 6.70, 1.69, 5.33),
        (23.49, 31.64, 13.40, 17.76, 17.34, 14.69, 6.41, 5.52, 1.72, 5.10),
    ),
    20: (
        (30.23, 28.76, 19.75, 18.23, 16.55, 15.16, 9.30, 7.67, 1.73, 4.93),
        (29.30, 28.91, 21.17, 16.80, 17.34, 15.23, 10.31, 6.56, 1.80, 4.92),
    ),
    25: (
        (27.92, 27.81, 26.22, 18.72, 18.56, 18.89, 10.67, 10.27, 1.75, 4.92),
        (28.13, 26.81, 26.66, 17.88, 18.03, 18.53, 10.84, 10.22, 1.81, 5.00),
    ),
    30: (
        (37.98, 30.64, 28.76, 19.99, 20.49, 20.75, 11.24, 11.56, 2.07, 5.35),
        (36.82, 30.31, 28.59, 20.00, 20.94, 20.52, 11.09, 10.36, 2.19, 5.52),
    ),
    35: (
        (41.85, 31.35, 28.55, 22.13, 26.07, 20.29, 13.10, 13.28, 2.65, 5.93),
        (41.81, 31.74, 29.04, 21.74, 25.92, 20.18, 13.10, 13.21, 2.64, 5.96),
    ),
    38: ((34.87, 29.89, 27.51, 25.33, 27.75, 24.71, 11.64, 12.66, 2.67, 6.13), None),
}

EYALEB: dict[str, dict[int, Printed]] = {
    method: {
        K: Printed(means[column], medians[column] if medians else None)
        for K, (means, medians) in _EYALEB.items()
    }
    for column, method in enumerate(METHODS)
}
ORL: dict[str, Printed] = {"dsc": Printed(14.0), "dcfsc": Printed(14.8)}
COIL100: dict[str, Printed] = {"dcfsc": Printed(27.3), "s2convscn": Printed(26.6)}


def printed(dataset: str, method: str, n_clusters: int) -> Printed | None:
    """The paper's number for a method on a dataset, where it prints one.

    "dcfsc-fast" is its DCFSC too, with the network in another precision.
    """
    method = method.removesuffix("-fast")
    if dataset == "eyaleb":
        return EYALEB.get(method, {}).get(n_clusters)
    return {"orl": ORL, "coil100": COIL100}.get(dataset, {}).get(method)


@dataclass(frozen=True)
class NetworkTable:
    """Parameters layer by layer, encoder then decoder, of the two columns of a network table."""

    n: int  # samples, so DSC's self-expressive layer has n^2 parameters
    dsc_layers: tuple[int, ...]
    dsc_total: int
    dcfsc_layers: tuple[int, ...]
    dcfsc_total: int


NETWORKS: dict[str, NetworkTable] = {
    "eyaleb": NetworkTable(
        2432,
        (260, 1820, 5430, 5420, 1810, 251),
        5_929_615,
        (260, 1820, 5430, 5420, 1810, 251),
        14_991,
    ),
    "orl": NetworkTable(
        400,
        (130, 138, 84, 84, 140, 126),
        160_702,
        (130, 138, 84, 84, 140, 126),
        702,
    ),
    "coil100": NetworkTable(
        7200,
        (1300, 1300),
        51_842_600,
        (696, 5280, 10560, 20928, 3528, 3648, 20928, 10464, 5280, 601),
        81_913,
    ),
}

# Training memory on one V100 with TensorFlow 1.8, as the text gives it.
MEMORY_MB: dict[tuple[str, str], float] = {
    ("orl", "dsc"): 1022.0,
    ("orl", "dcfsc-inverse"): 942.0,
    ("coil100", "dsc"): 8.6e3,
    ("coil100", "dcfsc-inverse"): 10.8e3,
}
