"""From samples to a partition, as values that nobody changes.

    samples  = Samples.of(X, working_size)
    recipe   = Recipe(samples.working_shape, n_clusters, ...)
    graph    = graph_of(operator, recipe)
    result   = partition(graph, recipe, rng)

Whoever wants a partition calls the same function with the same recipe.
"""

from .copies import Copies, distinct
from .known import Known
from .partition import Partition, cut, graph_of, labels_of, partition
from .recipe import ASSIGN, SUBSPACE_DIM, Recipe
from .sampling import MOST_SAMPLES, common_sample, sampled_rows

__all__ = [
    "ASSIGN",
    "MOST_SAMPLES",
    "SUBSPACE_DIM",
    "Copies",
    "Known",
    "Partition",
    "Recipe",
    "common_sample",
    "cut",
    "distinct",
    "graph_of",
    "labels_of",
    "partition",
    "sampled_rows",
]
