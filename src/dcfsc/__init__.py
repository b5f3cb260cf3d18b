"""Subspace clustering: deep, closed-form, exact and large-scale.

The public names are loaded on first use, so that ``import dcfsc`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .estimators import (
        ADSSC,
        DCFSC,
        DSC,
        EDSC,
        LRR,
        LRSC,
        LSR,
        SSC,
        SSCOMP,
        AutoencoderFeatures,
        ClosedFormSubspaceClustering,
        EncoderFeatures,
        EnSC,
        KernelSSC,
        ScatteringFeatures,
        TextEncoderFeatures,
        ViewClustering,
    )
    from .estimators.suggest import suggest_k
    from .report.plots import (
        plot_affinity,
        plot_embedding,
        plot_history,
        plot_lambda_path,
        plot_spectrum,
    )
    from .runs.prediction import load
    from .runs.predictor import Predictor

_OTHERS = {
    "Predictor": ".runs.predictor",
    "load": ".runs.prediction",
    "plot_affinity": ".report.plots",
    "plot_embedding": ".report.plots",
    "plot_history": ".report.plots",
    "plot_lambda_path": ".report.plots",
    "plot_spectrum": ".report.plots",
    "suggest_k": ".estimators.suggest",
}
_ROOMS = (
    "affinity",
    "io",
    "processes",
    "errors",
    "estimators",
    "features",
    "graphs",
    "metrics",
    "neighbors",
    "networks",
    "pipeline",
    "report",
    "representations",
    "runs",
    "selection",
    "self_expression",
    "spectral",
    "training",
    "views",
)

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
    "Predictor",
    "ScatteringFeatures",
    "TextEncoderFeatures",
    "ViewClustering",
    "__version__",
    "load",
    "plot_affinity",
    "plot_embedding",
    "plot_history",
    "plot_lambda_path",
    "plot_spectrum",
    "suggest_k",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module(_OTHERS.get(name, ".estimators"), __name__), name)
    if name in _ROOMS:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS})
