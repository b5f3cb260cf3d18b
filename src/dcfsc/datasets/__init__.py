"""Datasets by name or path, and generated unions of subspaces.

Whatever reads a file of samples lives here, and returns arrays.
"""

from dcfsc.datasets.catalogue import describe, names
from dcfsc.datasets.dataset import Dataset, DatasetInfo
from dcfsc.datasets.download import fetch
from dcfsc.datasets.finite import check_finite, unmasked
from dcfsc.datasets.loading import load
from dcfsc.datasets.registry import data_root, weights_path
from dcfsc.datasets.streamed import Streamed
from dcfsc.datasets.subspaces import synthetic

__all__ = [
    "Dataset",
    "DatasetInfo",
    "Streamed",
    "check_finite",
    "data_root",
    "describe",
    "fetch",
    "load",
    "names",
    "synthetic",
    "unmasked",
    "weights_path",
]
