"""Scikit-learn estimators, and what they share: checks, saving, prediction, several processes.

They string the stages together and hold no numerical code of their own.
"""

from .closed_form import ClosedFormSubspaceClustering
from .dcfsc import DCFSC
from .deep import AutoencoderFeatures
from .dsc import DSC
from .encoder_features import EncoderFeatures
from .low_rank import EDSC, LRR, LRSC
from .scattering_features import ScatteringFeatures
from .sparse import SSC, SSCOMP, KernelSSC

__all__ = [
    "DCFSC",
    "DSC",
    "EDSC",
    "LRR",
    "LRSC",
    "SSC",
    "SSCOMP",
    "AutoencoderFeatures",
    "ClosedFormSubspaceClustering",
    "EncoderFeatures",
    "KernelSSC",
    "ScatteringFeatures",
]
