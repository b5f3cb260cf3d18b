"""What judges partitions without labels: the choice of a representation and of K."""

from .choice import Selected, select
from .estimate import announce_long_work
from .number_of_clusters import Candidate, Suggestion
from .stability import stability_of

__all__ = [
    "Candidate",
    "Selected",
    "Suggestion",
    "announce_long_work",
    "select",
    "stability_of",
]
