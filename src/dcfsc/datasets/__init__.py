"""Datasets from files and folders, and generated unions of subspaces.

Whatever reads a file of samples lives here, and returns arrays.
"""

from dcfsc.datasets.dataset import Dataset
from dcfsc.datasets.finite import check_finite, unmasked
from dcfsc.datasets.loading import load
from dcfsc.datasets.streamed import Streamed
from dcfsc.datasets.subspaces import synthetic

__all__ = ["Dataset", "Streamed", "check_finite", "load", "synthetic", "unmasked"]
