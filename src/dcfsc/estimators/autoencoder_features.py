"""An auto-encoder's latents as features, so that AE+SSC is a Pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sklearn.utils import check_random_state

from dcfsc.training import Callback, calibrate_batch_norm, encode, evaluation_chunk

from .base import Estimator
from .deep import NetworkEstimator
from .persistence import Persistent
from .validation import check_array, local_generator


@dataclass(eq=False, repr=False, kw_only=True)
class AutoencoderFeatures(NetworkEstimator, Persistent, Estimator):
    """Latents of an auto-encoder trained for reconstruction alone: min |X - Dec(Enc(X))|_F^2.

    The first half of the paper's AE+SSC and AE+EDSC::

        make_pipeline(AutoencoderFeatures(weights="dsc_eyaleb"), SSC(n_clusters=38))

    Parameters are those of :class:`DCFSC` that concern the network.

    Attributes
    ----------
    network_ : the trained auto-encoder
    history_ : list of dictionaries, one an epoch
    """

    network: Any = "auto"
    weights: Any = None
    pretrain_epochs: int | None = None
    learning_rate: float = 1e-3
    pretrain_batch_size: int = 256
    device: Any = "auto"
    random_state: Any = None
    verbose: bool | str = "auto"
    callbacks: Sequence[Callback] = ()

    def fit(self, X: Any, y: Any = None) -> AutoencoderFeatures:
        """Train on X (n, features), (n, h, w) or (n, c, h, w)."""
        X = check_array(self, X, reset=True)
        generator = local_generator(check_random_state(self.random_state))
        with self._pretrained(X, generator, 0) as inputs:
            pass
        calibrate_batch_norm(self.network_, inputs, evaluation_chunk(inputs))
        self._n_features_out = encode(self.network_, inputs[:1]).shape[1]
        return self
