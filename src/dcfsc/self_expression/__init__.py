"""Self-expression: each sample as a combination of the others.

Solvers take and return tensors; what they return obeys :class:`Operator`. Nothing here knows of
affinities, files or scikit-learn's estimators.
"""

from .closed_form import ClosedForm
from .cosine import CosineForm, MirroredCosineForm
from .dense import dense_self_expression
from .effective_dof import LambdaPath, choose_lam, effective_dof, lam_for_dof, target_dof
from .elastic_net import elastic_net_self_expression
from .explicit import ExplicitCoefficients, SparseCoefficients
from .feature_form import FeatureForm, RidgeFactor
from .gram import add_gram, gram, smaller_gram, squared_singular_values
from .kernel import kernel_matrix, kernel_sparse_self_expression
from .low_rank import low_rank_representation, low_rank_subspace
from .matching_pursuit import orthogonal_matching_pursuit
from .operator import Coding, InnerProducts, Operator, RankedByCosine, Solution
from .repeated import RepeatedForm
from .reranked import NearestForm, RerankedForm
from .sample_form import SampleForm
from .solve import solve, solve_for_dof
from .sparse import sparse_self_expression

__all__ = [
    "ClosedForm",
    "Coding",
    "CosineForm",
    "ExplicitCoefficients",
    "FeatureForm",
    "InnerProducts",
    "LambdaPath",
    "MirroredCosineForm",
    "NearestForm",
    "Operator",
    "RankedByCosine",
    "RepeatedForm",
    "RerankedForm",
    "RidgeFactor",
    "SampleForm",
    "Solution",
    "SparseCoefficients",
    "add_gram",
    "choose_lam",
    "dense_self_expression",
    "effective_dof",
    "elastic_net_self_expression",
    "gram",
    "kernel_matrix",
    "kernel_sparse_self_expression",
    "lam_for_dof",
    "low_rank_representation",
    "low_rank_subspace",
    "orthogonal_matching_pursuit",
    "smaller_gram",
    "solve",
    "solve_for_dof",
    "sparse_self_expression",
    "squared_singular_values",
    "target_dof",
]
