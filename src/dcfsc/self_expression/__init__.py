"""Self-expression: each sample as a combination of the others.

Solvers take and return tensors; what they return obeys :class:`Operator`. Nothing here knows of
affinities, files or scikit-learn's estimators.
"""

from .closed_form import ClosedForm
from .combined import Combined
from .cosine import CosineForm
from .dense import dense_self_expression, dense_self_expression_memory
from .effective_dof import LambdaPath, choose_lam, effective_dof, lam_for_dof, target_dof
from .elastic_net import elastic_net_self_expression, elastic_net_self_expression_memory
from .explicit import ExplicitCoefficients, SparseCoefficients
from .feature_form import FeatureForm, RidgeFactor
from .gram import add_gram, gram, smaller_gram, squared_singular_values
from .kernel import (
    kernel_matrix,
    kernel_sparse_self_expression,
    kernel_sparse_self_expression_memory,
)
from .low_rank import (
    low_rank_representation,
    low_rank_representation_memory,
    low_rank_subspace,
    low_rank_subspace_memory,
)
from .matching_pursuit import orthogonal_matching_pursuit, orthogonal_matching_pursuit_memory
from .operator import Operator
from .sample_form import SampleForm
from .solve import solve, solve_for_dof
from .sparse import sparse_self_expression, sparse_self_expression_memory

__all__ = [
    "ClosedForm",
    "Combined",
    "CosineForm",
    "ExplicitCoefficients",
    "FeatureForm",
    "LambdaPath",
    "Operator",
    "RidgeFactor",
    "SampleForm",
    "SparseCoefficients",
    "add_gram",
    "choose_lam",
    "dense_self_expression",
    "dense_self_expression_memory",
    "effective_dof",
    "elastic_net_self_expression",
    "elastic_net_self_expression_memory",
    "gram",
    "kernel_matrix",
    "kernel_sparse_self_expression",
    "kernel_sparse_self_expression_memory",
    "lam_for_dof",
    "low_rank_representation",
    "low_rank_representation_memory",
    "low_rank_subspace",
    "low_rank_subspace_memory",
    "orthogonal_matching_pursuit",
    "orthogonal_matching_pursuit_memory",
    "smaller_gram",
    "solve",
    "solve_for_dof",
    "sparse_self_expression",
    "sparse_self_expression_memory",
    "squared_singular_values",
    "target_dof",
]
