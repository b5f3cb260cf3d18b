"""Training: joins a network to the self-expressive layer.

Losses, loops, checkpoints and steps in chunks live here, on tensors alone.
"""

from .checkpoint import Checkpoint
from .chunked import ChunkedStep, Inputs, calibrate_batch_norm, encode, evaluation_chunk
from .dsc import DSCLoss, train_dsc
from .history import Callback, History
from .loop import forward, pretrain, train
from .loss import Absolute, LamRule, LossTerm, Pass, ShareOfEnergy, reconstruction_error
from .precision import check_compilable, check_precision

__all__ = [
    "Absolute",
    "Callback",
    "Checkpoint",
    "ChunkedStep",
    "DSCLoss",
    "History",
    "Inputs",
    "LamRule",
    "LossTerm",
    "Pass",
    "ShareOfEnergy",
    "calibrate_batch_norm",
    "check_compilable",
    "check_precision",
    "encode",
    "evaluation_chunk",
    "forward",
    "pretrain",
    "reconstruction_error",
    "train",
    "train_dsc",
]
