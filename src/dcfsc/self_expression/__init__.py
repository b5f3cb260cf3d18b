"""Self-expression: each sample as a combination of the others, by the problem one chooses."""

from .closed_form import ClosedForm, solve
from .coefficients import Coefficients, ExplicitCoefficients, SparseCoefficients
from .effective_dof import LambdaPath, choose_lam, effective_dof, lam_for_dof
from .feature_form import FeatureForm, RidgeFactor
from .gram import add_gram, gram, squared_singular_values
from .sample_form import SampleForm

__all__ = [
    "ClosedForm",
    "Coefficients",
    "ExplicitCoefficients",
    "FeatureForm",
    "LambdaPath",
    "RidgeFactor",
    "SampleForm",
    "SparseCoefficients",
    "add_gram",
    "choose_lam",
    "effective_dof",
    "gram",
    "lam_for_dof",
    "solve",
    "squared_singular_values",
]
