"""The data sets of the paper and of the benchmarks, by name, and the published weights.

They are looked for under $DCFSC_DATA, else in the user's cache folder, or downloaded there.
"""

from .catalog import describe, names
from .download import fetch
from .loading import load
from .motions import sequences
from .registry import data_root, weights_path

__all__ = ["data_root", "describe", "fetch", "load", "names", "sequences", "weights_path"]
