"""Learning from views: an encoder trained on augmentations of the samples.

The closed form of the samples determines the augmentations and gives positives and pseudo-labels.
"""

from .augmentations import Views
from .loop import Schedule, train_views, view_features
from .model import Clustering, Teacher, ViewOptions, ViewTraining
from .pseudo_labels import agreed

__all__ = [
    "Clustering",
    "Schedule",
    "Teacher",
    "ViewOptions",
    "ViewTraining",
    "Views",
    "agreed",
    "train_views",
    "view_features",
]
