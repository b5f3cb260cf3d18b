"""Training: joins a network to the self-expressive layer.

Losses, loops, checkpoints and steps in chunks live here, on tensors alone.
"""

from .checkpoint import Checkpoint
from .chunked import ChunkedStep, Inputs, calibrate_batch_norm, encode, evaluation_chunk
from .dsc import DSCLoss, train_dsc
from .history import Callback, History, Plateau
from .lam import Absolute, LamRule, ShareOfEnergy
from .loop import forward, pretrain, train
from .loss import LossTerm, Pass, SelfExpressionTerm, reconstruction_error
from .precision import check_compilable, check_precision
from .view_lessons import agreed
from .view_loop import Schedule, train_views, view_features
from .view_model import Clustering, Teacher, ViewModel, ViewOptions, ViewTraining
from .views import Views

__all__ = [
    "Absolute",
    "Callback",
    "Checkpoint",
    "ChunkedStep",
    "Clustering",
    "DSCLoss",
    "History",
    "Inputs",
    "LamRule",
    "LossTerm",
    "Pass",
    "Plateau",
    "Schedule",
    "SelfExpressionTerm",
    "ShareOfEnergy",
    "Teacher",
    "ViewModel",
    "ViewOptions",
    "ViewTraining",
    "Views",
    "agreed",
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
    "train_views",
    "view_features",
]
