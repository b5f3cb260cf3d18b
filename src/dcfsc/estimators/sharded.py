"""Estimators whose samples are divided among processes.

Inside ``with dcfsc.processes.sharded():`` every process calls ``fit`` with its own rows of X, in
the order of the ranks. What is quadratic in the samples, the search for neighbors, is divided;
so are the products of a large graph's eigenproblem. The first process puts the graph together and
decides; the others do what it asks for. Afterwards ``labels_``, ``leverage_`` and ``latents_`` are
those of a process's own samples, as are ``confidence_`` and ``next_best_``, and the first one also
has ``all_labels_``, ``affinity_matrix_``, ``embedding_`` and ``eigenvalues_``. :func:`gather` makes
a whole model of it there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state
from torch import Tensor

from dcfsc import affinity as affinities
from dcfsc import processes
from dcfsc.errors import DcfscError, InputError
from dcfsc.graphs import Graph
from dcfsc.pipeline import Copies, Partition, Recipe, graph_of, partition
from dcfsc.self_expression import (
    CosineForm,
    FeatureForm,
    MirroredCosineForm,
    Operator,
    RankedByCosine,
    RepeatedForm,
    RerankedForm,
)
from dcfsc.spectral import KEPT, Memberships
from dcfsc.spectral.sharded import serve_products, sharing

# A smaller graph is multiplied faster by one process than its vectors are sent to others.
SMALLEST_SHARED = 50_000
_LABELS, _NEIGHBORS, _COSINES, _PRODUCTS, _FAILED = range(5)
# Operators that find neighbors among the samples of all processes.
_DIVISIBLE = (FeatureForm, CosineForm, MirroredCosineForm, RerankedForm)


def check_choices(estimator: Any, n_clusters: int) -> None:
    """What cannot be divided is refused before the work."""
    if not hasattr(estimator, "predict"):
        raise InputError(
            f"{type(estimator).__name__} needs all samples in one process; many processes are for "
            "DCFSC and ClosedFormSubspaceClustering."
        )
    make = affinities.get(estimator.affinity, n_clusters)
    if not isinstance(make, affinities.TopK) or make.search != "exact":
        raise InputError(
            f"affinity={estimator.affinity!r} needs all samples in one process; many processes "
            "take 'topk' with its exact search."
        )
    if estimator.get_params(deep=False).get("form") == "samples":
        raise InputError("form='samples' needs all samples in one process; use 'features'.")


def common_seed(random_state: Any) -> int:
    """The first process's seed on all of them."""
    seed = random_state
    if not isinstance(seed, int | np.integer):
        seed = check_random_state(random_state).randint(2**31 - 1)
    return int(processes.broadcast(torch.tensor(int(seed)), 0))


def cluster(
    estimator: Any,
    operator: Operator,
    recipe: Recipe,
    rng: np.random.RandomState,
    groups: np.ndarray | None,
    order: np.ndarray | None = None,
    copies: Copies | None = None,
) -> None:
    """Set what :meth:`SubspaceClusterer._cluster` sets, each process for its samples.

    ``groups`` are the clusters of this process's samples where they are known already. Of equal
    samples, which are ``copies``, the operator has the first.
    """
    if not isinstance(operator, _DIVISIBLE):
        raise InputError(
            f"{type(operator).__name__} needs all samples in one process; give another "
            "representation."
        )
    counts = processes.row_counts(operator.n, operator.device)
    start, N = sum(counts[: processes.rank()]), sum(counts)
    own = slice(start, start + operator.n)
    if copies is not None:
        own, N = copies.mine, len(copies.place)
    leverage = None
    if operator.leverage is not None:
        leverage = processes.collect_rows(operator.leverage, counts)
    K = recipe.n_clusters
    labels, kept = torch.empty(N, dtype=torch.int64), min(KEPT, K)
    clusters, probabilities = torch.empty(N, kept, dtype=torch.int32), torch.empty(N, kept)
    known = None if groups is None else processes.gather_rows(torch.from_numpy(groups)).numpy()
    whole: Partition | None = None
    graph = None
    if processes.rank() == 0:
        try:
            neighbors: RankedByCosine = _Neighbors(operator, leverage, counts)
            if copies is not None:
                neighbors = RepeatedForm(neighbors, copies.index)
            graph = graph_of(neighbors, recipe)
            whole = _lead(graph, recipe, rng, known, order, copies)
        except processes.LostPeer:
            raise
        except BaseException:
            processes.tell(_FAILED, 0)
            raise
        sure = whole.memberships
        labels = torch.from_numpy(whole.labels)
        clusters, probabilities = map(torch.from_numpy, (sure.clusters, sure.probabilities))
        processes.tell(_LABELS, 0)
    else:
        _follow(operator, counts)
    for rows in (labels, clusters, probabilities):
        processes.broadcast(rows, 0)
    share = Memberships(clusters[own].numpy(), probabilities[own].numpy(), K)
    embedding = None if whole is None else whole.embedding
    estimator._take_partition(Partition(labels[own].numpy().copy(), share, embedding), graph)
    estimator.share_ = (own.start, N)
    if whole is not None:
        estimator.all_labels_, estimator._whole_partition = whole.labels, whole


class _Neighbors(RankedByCosine):
    """The first process's view of an operator: all rows' neighbors, found by all processes."""

    def __init__(self, operator: Operator, leverage: Tensor | None, counts: list[int]):
        self._operator, self._counts = operator, counts
        self.n, self.device, self.dtype = sum(counts), operator.device, operator.dtype
        self.leverage = None if leverage is None else leverage.to(operator.device)
        self.locally_scaled = operator.locally_scaled

    def rows(self, start: int, stop: int) -> Tensor:
        raise InputError("the N x N coefficients need all samples in one process.")

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        return self.neighbors(k)[0]

    def topk_cosine(self, k: int) -> tuple[Tensor, Tensor]:
        return self.neighbors(k, by_cosine=True)[0]

    def neighbors(self, k: int, by_cosine: bool = False) -> list[tuple[Tensor, Tensor]]:
        processes.tell(_COSINES if by_cosine else _NEIGHBORS, k)
        lists = _scanned(self._operator, k, by_cosine, self._counts)
        return [(values.to(self.device), columns.to(self.device)) for values, columns in lists]


def _scanned(
    operator: Operator, k: int, by_cosine: bool, counts: list[int]
) -> list[tuple[Tensor, Tensor]]:
    """The neighbor lists of all processes' rows in the first process, none in the others."""
    lists = []
    for values, columns in operator.neighbors(k, by_cosine):
        all_values = processes.collect_rows(values, counts)
        all_columns = processes.collect_rows(columns, counts)
        if all_values is not None and all_columns is not None:
            lists.append((all_values, all_columns))
    return lists


def _lead(
    graph: Graph,
    recipe: Recipe,
    rng: np.random.RandomState,
    known: np.ndarray | None,
    order: np.ndarray | None,
    copies: Copies | None,
) -> Partition:
    if graph.n <= SMALLEST_SHARED or graph.device.type != "cpu":
        # A GPU multiplies a graph in less time than it takes to send the vectors around.
        return partition(graph, recipe, rng, known, order=order, copies=copies)
    processes.tell(_PRODUCTS, 0)
    with sharing() as shared:
        return partition(graph, recipe, rng, known, shared, order, copies)


def _follow(operator: Operator, counts: list[int]) -> None:
    """Do what the first process asks for until it has the labels."""
    while True:
        order, k = processes.hear(2)
        if order == _LABELS:
            return
        if order == _FAILED:
            raise DcfscError("the first process failed while it clustered; its message says why.")
        if order in (_NEIGHBORS, _COSINES):
            _scanned(operator, k, order == _COSINES, counts)
        else:
            serve_products()


def gather(estimator: Any) -> None:
    """Make the first process's estimator one of all samples, to save it or to report on it.

    To be called by all processes together, inside ``sharded()``. It needs the memory of all
    features on the first one's host. The others' estimators stay as they are. To use the model
    while ``sharded()`` is still open, say ``with dcfsc.processes.alone():``.
    """
    whole = {
        name: processes.collect_rows(torch.as_tensor(rows))
        for name, rows in vars(estimator).items()
        if name in ("latents_", "_training_features", "leverage_") and rows is not None
    }
    if "_closed_form" in vars(estimator):
        gather(estimator._closed_form)
    if processes.rank() != 0:
        return
    for name, rows in whole.items():
        assert rows is not None
        setattr(estimator, name, rows if name.startswith("_") else rows.numpy())
    estimator._take_partition(estimator._whole_partition)
    # Solved again where it is needed: the one there is knows this process's samples alone.
    estimator._operator = None
    if estimator.__dict__.get("_copies") is not None:
        estimator._copies = Copies(estimator._copies.place)
    del estimator.share_, estimator.coefficients_, estimator._whole_partition


def check_whole(estimator: Any) -> None:
    """A model of a share of the samples can neither be saved nor label others."""
    if "share_" in vars(estimator):
        start, N = estimator.share_
        raise InputError(
            f"this model holds {len(estimator.labels_)} of {N} samples, from number {start} on; "
            "dcfsc.estimators.sharded.gather makes a whole one in the first process."
        )
