"""Scikit-learn estimators: the only room that strings the stages together."""

from .closed_form import ClosedFormSubspaceClustering
from .dcfsc import DCFSC

__all__ = ["DCFSC", "ClosedFormSubspaceClustering"]
