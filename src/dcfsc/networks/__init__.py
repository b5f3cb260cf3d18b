"""Auto-encoders, presets, published weights, encoders for views.

Networks do not depend on how they are trained or used.
"""

from dcfsc.networks.autoencoders import Autoencoder, ConvAutoencoder, build
from dcfsc.networks.presets import PRESETS, architecture_for, preset, preset_spec
from dcfsc.networks.residual import ViewNetwork, head_spec, view_spec
from dcfsc.networks.specs import ConvSpec, HeadSpec, MLPSpec, ResidualSpec, Spec, from_dict
from dcfsc.networks.weights import load_published_weights, preset_for_weights

__all__ = [
    "PRESETS",
    "Autoencoder",
    "ConvAutoencoder",
    "ConvSpec",
    "HeadSpec",
    "MLPSpec",
    "ResidualSpec",
    "Spec",
    "ViewNetwork",
    "architecture_for",
    "build",
    "from_dict",
    "head_spec",
    "load_published_weights",
    "preset",
    "preset_for_weights",
    "preset_spec",
    "view_spec",
]
