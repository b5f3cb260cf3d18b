"""From an operator to a graph, and from a graph to labels with their memberships."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.random import RandomState
from torch import Tensor

from dcfsc import spectral
from dcfsc.affinity import TopK
from dcfsc.graphs import Graph, NormalizedAffinity, read_affinity, trusted
from dcfsc.self_expression import Operator
from dcfsc.spectral import Embedding, Memberships
from dcfsc.spectral.assignment import by_first_appearance

from .copies import Copies
from .known import Known
from .recipe import Recipe


@dataclass(frozen=True, eq=False)
class Partition:
    """Labels (N,), how sure they are, and the embedding that they were read from."""

    labels: np.ndarray
    memberships: Memberships
    embedding: Embedding | None = None

    def reordered(self, order: np.ndarray) -> Partition:
        """The partition of the samples in another order; clusters by their first samples."""
        sure = self.memberships
        memberships = Memberships(sure.clusters[order], sure.probabilities[order], sure.n_clusters)
        embedding = None if self.embedding is None else self.embedding.reordered(order)
        result = Partition(self.labels[order], memberships, embedding)
        return result.renumbered(by_first_appearance(result.labels, sure.n_clusters))

    def renumbered(self, number: np.ndarray) -> Partition:
        """The partition with ``number[k]`` as the number of cluster k."""
        sure = self.memberships
        clusters = number[sure.clusters].astype(sure.clusters.dtype)
        memberships = Memberships(clusters, sure.probabilities, sure.n_clusters)
        return Partition(number[self.labels], memberships, self.embedding)


def graph_of(operator: Operator, recipe: Recipe) -> Graph:
    """The graph that the recipe's affinity makes of the coefficients of an operator."""
    if isinstance(recipe.affinity, TopK):
        return recipe.affinity.graph(operator, recipe.n_clusters)
    matrix = recipe.affinity(operator, recipe.n_clusters)
    # A tensor is cut where it lives. A GPU is quicker for graphs of every size.
    on_gpu = operator.device.type == "cuda" and not isinstance(matrix, Tensor)
    return read_affinity(matrix, operator.device if on_gpu else None)


def partition(
    graph: Graph,
    recipe: Recipe,
    rng: RandomState,
    labels: np.ndarray | None = None,
    shared: Callable[[NormalizedAffinity], NormalizedAffinity] | None = None,
    order: np.ndarray | None = None,
    copies: Copies | None = None,
    known: Known | None = None,
) -> Partition:
    """Cut a graph into ``recipe.n_clusters`` clusters.

    ``labels`` of all samples are not looked for; what is ``known`` of some holds. ``shared`` is for
    :func:`spectral.embed`. ``order`` is one of the samples that does not depend on how they are
    given: the random starts of eigenvectors and k-means are then theirs, and not their places'.
    ``copies`` have one label, and ``order`` is then that of the distinct samples.
    """
    if copies is not None:
        result = partition(copies.joined(graph), recipe, rng, None, shared, order)
        of_all = result.reordered(copies.place)
        assert result.embedding is not None
        return replace(of_all, embedding=copies.repeated(result.embedding))
    if order is not None:
        matrix = graph.on_host[order][:, order]
        if sp.issparse(matrix):
            matrix.sort_indices()  # sums are then the same to the last bit
        known_good = sp.issparse(matrix) and matrix.dtype == np.float64
        ordered = (trusted if known_good else read_affinity)(matrix, graph.device)
        given = None if labels is None else labels[order]
        part = None if known is None else known.reordered(order)
        result = partition(ordered, recipe, rng, given, shared, known=part)
        result = result.reordered(np.argsort(order))
        if known is None:
            return result
        return result.renumbered(known.numbers(result.labels, recipe.n_clusters))
    embedding = _embedded(graph, recipe, rng, shared)
    if labels is not None:
        return Partition(labels, spectral.certain(labels, recipe.n_clusters), embedding)
    return cut(embedding, graph.on_host, recipe, rng, graph.device, known)


def labels_of(graph: Graph, recipe: Recipe, rng: RandomState, n_init: int) -> np.ndarray:
    """The labels (N,) alone, of ``n_init`` starts of k-means."""
    embedding = _embedded(graph, recipe, rng)
    return _assigned(embedding, _rows(embedding, recipe, graph.device), recipe, rng, n_init)


def cut(
    embedding: Embedding,
    affinity: Any,
    recipe: Recipe,
    rng: RandomState,
    device: torch.device | None = None,
    known: Known | None = None,
) -> Partition:
    """The partition that the leading eigenvectors of an affinity (N, N) show."""
    K = recipe.n_clusters
    embedding = embedding.leading(spectral.default_components(recipe.assign, K, affinity.shape[0]))
    rows = _rows(embedding, recipe, device)
    labels = _assigned(embedding, rows, recipe, rng, spectral.STARTS)
    if known is not None:
        labels = known.settled(labels, rows.cpu().numpy(), K)
    sure = spectral.memberships(embedding, labels, K, affinity, rows=rows)
    return Partition(labels, sure if known is None else known.certain(sure), embedding)


def _embedded(
    graph: Graph,
    recipe: Recipe,
    rng: RandomState,
    shared: Callable[[NormalizedAffinity], NormalizedAffinity] | None = None,
) -> Embedding:
    K = recipe.n_clusters
    count = spectral.default_components(recipe.assign, K, graph.n)
    return spectral.embed(graph, count, n_clusters=K, random_state=rng, shared=shared)


def _assigned(
    embedding: Embedding, rows: Tensor, recipe: Recipe, rng: RandomState, n_init: int
) -> np.ndarray:
    options: Any = {"method": recipe.assign, "random_state": rng, "n_init": n_init, "grouped": rows}
    return spectral.assign(embedding, recipe.n_clusters, **options)


def _rows(embedding: Embedding, recipe: Recipe, device: torch.device | None) -> Tensor:
    on_gpu = device is not None and device.type == "cuda"  # k-means needs double precision
    place = device if on_gpu else None
    return spectral.grouped_rows(embedding, recipe.n_clusters, recipe.assign, place)
