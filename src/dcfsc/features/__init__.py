"""Features: turn a sample into a fixed vector.

One file per transform. What reads files, checks input or shows progress lives above.
"""

from .principal_components import RunningCovariance, principal_components
from .scattering import ScatteringComponents
from .scattering_transform import Scattering

__all__ = ["RunningCovariance", "Scattering", "ScatteringComponents", "principal_components"]
