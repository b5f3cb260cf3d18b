"""lam="auto": from the number of clusters and the dimension of a subspace."""

from __future__ import annotations

from torch import Tensor

from dcfsc.self_expression import lam_for_dof, squared_singular_values

from .validation import check_at_least

# What m is where nobody says (docs/experiments.md): for samples as they are, chosen with labels on
# data that the default is not measured on; for samples with their transformations and for latents
# of a network, with labels on image sets.
DEFAULT_SUBSPACE_DIM = 3.0
ORBIT_SUBSPACE_DIM = 1.5
LATENT_SUBSPACE_DIM = 1.5


def target_dof(
    n_clusters: int, subspace_dim: float | None, default: float = DEFAULT_SUBSPACE_DIM
) -> float:
    """The trace K m of the ideal projector on K subspaces of dimension m."""
    if subspace_dim is None:
        return n_clusters * default
    check_at_least("subspace_dim", subspace_dim, 1e-6)
    return n_clusters * float(subspace_dim)


def lam_for(
    Z: Tensor,
    n_clusters: int,
    subspace_dim: float | None,
    default: float = DEFAULT_SUBSPACE_DIM,
) -> float:
    """The root of tr H(lam) = K m for the features Z (N, d)."""
    return lam_for_dof(squared_singular_values(Z), target_dof(n_clusters, subspace_dim, default))
