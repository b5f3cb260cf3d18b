"""Scikit-learn estimators, and what they share: checks, saving, prediction, several processes.

They string the stages together and hold no numerical code of their own.
"""

from .closed_form import ClosedFormSubspaceClustering
from .dcfsc import DCFSC
from .deep import AutoencoderFeatures
from .dsc import DSC
from .encoder_features import EncoderFeatures
from .low_rank import ADSSC, EDSC, JDSSC, LRR, LRSC, LSR
from .scattering_features import ScatteringFeatures
from .sparse import SSC, SSCOMP, EnSC, KernelSSC

__all__ = [
    "ADSSC",
    "DCFSC",
    "DSC",
    "EDSC",
    "JDSSC",
    "LRR",
    "LRSC",
    "LSR",
    "SSC",
    "SSCOMP",
    "AutoencoderFeatures",
    "ClosedFormSubspaceClustering",
    "EnSC",
    "EncoderFeatures",
    "KernelSSC",
    "ScatteringFeatures",
]
