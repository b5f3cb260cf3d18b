"""Deep subspace clustering with a trained self-expressive layer."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import torch

from dcfsc.machine import require_memory
from dcfsc.parameters import HUGE, one_of, real, table, whole
from dcfsc.self_expression import ExplicitCoefficients
from dcfsc.training import DSCLoss, calibrate_batch_norm, encode, train_dsc

from .base import SubspaceClusterer
from .deep import AutoencoderEstimator
from .start import begin
from .validation import local_generator


@dataclass(eq=False, repr=False)
class DSC(AutoencoderEstimator, SubspaceClusterer):
    """Deep Subspace Clustering (Ji, Zhang, Li, Salzmann and Reid 2017).

        min_{Theta, C}  r |X - Dec(C Z)|_F^2 + a |C|_p + b / 2 |Z - C Z|_F^2,    Z = Enc(X)

    The coefficients C are N^2 parameters, trained with the network by full-batch Adam. p = 2 is the
    squared Frobenius norm without a constraint on the diagonal; p = 1 removes the diagonal.

    Choose it to compare with the literature, for some thousand samples at most: C, its gradient
    and Adam's two averages are four N x N matrices, and a step costs 4 N^2 d beside the network.
    :class:`DCFSC` has none of them.

    Parameters
    ----------
    norm : "l2" or "l1"
    coefficient_weight, self_expression_weight, reconstruction_weight : float
        a, b and r; the defaults are for inputs of at most 1. Released values, with pixels 0-255:
        (1, 10^(K/10 - 3), 0.5) for Extended Yale B, (1, 0.2, 0.5) for ORL, (1, 30, 1) for
        COIL-100.
    initial : float
        First value of every coefficient (released: 0 for ORL, 1e-4 elsewhere).
    others, and attributes that are not here : as in :class:`DCFSC`

    Attributes
    ----------
    coefficients_ : the trained C
    """

    n_clusters: int | Literal["auto"] = 8
    _: KW_ONLY
    norm: Literal["l1", "l2"] = "l2"
    coefficient_weight: float = 1.0
    self_expression_weight: float = 100.0
    reconstruction_weight: float = 0.5
    initial: float = 1e-4
    steps: int = 300
    affinity: Any = "symmetric"
    assign: str = "kmeans"

    _table = table(
        norm=one_of("l1", "l2"),
        coefficient_weight=real(0.0),
        self_expression_weight=real(0.0),
        reconstruction_weight=real(0.0),
        initial=real(-HUGE),
        steps=whole(0),
    )

    def fit(self, X: Any, y: Any = None) -> DSC:
        """Train on X (n, features), (n, h, w) or (n, c, h, w) and cluster its samples."""
        X, n_clusters, random_state, device = begin(self, X)
        n = X.shape[0]
        # C, gradient, two Adam averages, and as many again for the affinity behind it.
        require_memory(8 * 4 * n * n, n, "DSC", device, "DCFSC or ClosedFormSubspaceClustering")
        with self._pretrained(X, local_generator(random_state), self.steps) as inputs:
            C = torch.full((n, n), float(self.initial), device=device)
            loss = DSCLoss(
                self.coefficient_weight,
                self.self_expression_weight,
                self.reconstruction_weight,
                self.norm,
            )
            C = train_dsc(
                self.network_,
                inputs[:],
                C,
                loss,
                steps=int(self.steps),
                learning_rate=self.learning_rate,
                history=self.history_,
            )
        calibrate_batch_norm(self.network_, inputs)
        Z = encode(self.network_, inputs)
        self.latents_, self._n_features_out = Z.cpu().numpy(), Z.shape[1]
        self._cluster(X, ExplicitCoefficients(C), n_clusters, random_state)
        return self
