"""Datasets from files and folders, and generated unions of subspaces.

Whatever reads a file of samples lives here, and returns arrays.
"""

from dcfsc.io.dataset import Dataset
from dcfsc.io.loading import load
from dcfsc.io.streamed import Streamed, check_finite, unmasked
from dcfsc.io.subspaces import synthetic

__all__ = ["Dataset", "Streamed", "check_finite", "load", "synthetic", "unmasked"]
