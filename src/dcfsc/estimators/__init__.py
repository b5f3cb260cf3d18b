"""Scikit-learn estimators, which connect the stages.

They hold no numerical code of their own: every stage lives in a folder of its own.
"""

from .closed_form import ClosedFormSubspaceClustering
from .dcfsc import DCFSC
from .deep import AutoencoderFeatures
from .dsc import DSC
from .encoder_features import EncoderFeatures, TextEncoderFeatures
from .low_rank import ADSSC, EDSC, LRR, LRSC, LSR
from .scattering_features import ScatteringFeatures
from .sparse import SSC, SSCOMP, EnSC, KernelSSC
from .views import ViewClustering

__all__ = [
    "ADSSC",
    "DCFSC",
    "DSC",
    "EDSC",
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
    "TextEncoderFeatures",
    "ViewClustering",
]
