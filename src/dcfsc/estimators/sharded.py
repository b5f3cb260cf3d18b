"""Estimators whose samples are divided among processes.

Inside ``with dcfsc.distributed.sharded():`` every process calls ``fit`` with its own rows of X, in
the order of the ranks. What is quadratic in the samples, the search for neighbours, is divided;
so are the products of a large graph's eigenproblem. The first process puts the graph together and
decides; the others do what it asks for. Afterwards ``labels_``, ``leverage_`` and ``latents_`` are
those of a process's own samples, and the first one also has ``all_labels_``, ``affinity_matrix_``
and ``embedding_``. :func:`gather` makes a whole model of it there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.utils import check_random_state
from torch import Tensor

from dcfsc import affinity as affinities
from dcfsc import distributed, spectral
from dcfsc.affinity.base import ways_of
from dcfsc.errors import DcfscError, InputError
from dcfsc.spectral import sharded as shared_spectral

# A smaller graph is multiplied faster by one process than its vectors are sent to others.
SMALLEST_SHARED = 50_000
_LABELS, _NEIGHBOURS, _COSINES, _PRODUCTS, _FAILED = range(5)
_ORDERS = 5  # the orders of a second way come after those of the first


def check_choices(estimator: Any, n_clusters: int) -> None:
    """What cannot be divided is refused before the work."""
    if not distributed.active():
        return
    make = affinities.get(estimator.affinity, n_clusters)
    if not isinstance(make, affinities.TopK) or make.search != "exact":
        raise InputError(
            f"affinity={estimator.affinity!r} needs all samples in one process; many processes "
            "take 'topk' with its exact search."
        )
    if getattr(estimator, "form", "auto") == "samples":
        raise InputError("form='samples' needs all samples in one process; use 'features'.")


def total_samples(n: int) -> int:
    """N of all processes, of which this one has n."""
    return round(distributed.total_number(n))


def common_random_state(random_state: Any) -> np.random.RandomState:
    """The first process's random state on all of them."""
    if not distributed.active():
        return check_random_state(random_state)
    seed = random_state
    if not isinstance(seed, int | np.integer):
        seed = check_random_state(random_state).randint(2**31 - 1)
    return check_random_state(int(distributed.broadcast(torch.tensor(int(seed)), 0)))


def cluster(
    estimator: Any, operator: Any, n_clusters: int, random_state: np.random.RandomState
) -> None:
    """Set what :meth:`SubspaceClusterer._cluster` sets, each process for its samples."""
    if not hasattr(operator, "Y"):
        raise InputError(
            f"{type(estimator).__name__} needs all samples in one process; many processes are for "
            "DCFSC and ClosedFormSubspaceClustering."
        )
    check_choices(estimator, n_clusters)
    counts = distributed.row_counts(operator.n, operator.device)
    start, N = sum(counts[: distributed.rank()]), sum(counts)
    leverage = distributed.collect_rows(operator.leverage, counts)
    labels = torch.empty(N, dtype=torch.int64)
    if distributed.rank() == 0:
        assert leverage is not None
        neighbours = _Neighbours(operator, leverage, counts)
        try:
            result = _lead(estimator, neighbours, n_clusters, random_state)
        except distributed.LostPeer:
            raise
        except BaseException:
            distributed.tell(_FAILED, 0)
            raise
        labels = torch.from_numpy(result.labels)
        distributed.tell(_LABELS, 0)
    else:
        _follow(operator, counts)
    distributed.broadcast(labels, 0)
    estimator.coefficients_ = operator
    estimator.labels_ = labels[start : start + operator.n].numpy().copy()
    estimator.share_ = (start, N)
    if distributed.rank() == 0:
        estimator.all_labels_ = labels.numpy()


class _Neighbours:
    """The first process's view of the coefficients: all rows' top k, found by all processes."""

    def __init__(self, operator: Any, leverage: Tensor, counts: list[int], way: int | None = None):
        self._operator, self._counts, self._way = operator, counts, way
        self.n, self.device = sum(counts), operator.device
        self.leverage = leverage.to(operator.device)
        if way is None:
            number = range(len(ways_of(operator)))
            self.ways = [_Neighbours(operator, leverage, counts, way) for way in number]

    def topk(self, k: int) -> tuple[Tensor, Tensor]:
        return self._ask(_NEIGHBOURS, k)

    def topk_cosine(self, k: int) -> tuple[Tensor, Tensor]:
        return self._ask(_COSINES, k)

    def _ask(self, order: int, k: int) -> tuple[Tensor, Tensor]:
        order += _ORDERS * (self._way or 0)
        distributed.tell(order, k)
        found = _scanned(self._operator, order, k, self._counts)
        assert found is not None
        return found[0].to(self.device), found[1].to(self.device)

    def dense(self) -> Tensor:
        raise InputError("the N x N coefficients need all samples in one process.")


def _scanned(operator: Any, order: int, k: int, counts: list[int]) -> tuple[Tensor, Tensor] | None:
    number, kind = divmod(order, _ORDERS)
    way = ways_of(operator)[number]
    values, indices = way.topk_cosine(k) if kind == _COSINES else way.topk(k)
    whole = (distributed.collect_rows(part, counts) for part in (values, indices))
    all_values, all_indices = whole
    if all_values is None or all_indices is None:
        return None
    return all_values, all_indices


def _lead(
    estimator: Any, neighbours: _Neighbours, n_clusters: int, random_state: np.random.RandomState
) -> spectral.SpectralResult:
    matrix = affinities.get(estimator.affinity, n_clusters)(neighbours, n_clusters)
    assert issparse(matrix)
    options: dict[str, Any] = {"assign": estimator.assign, "random_state": random_state}
    if neighbours.n <= SMALLEST_SHARED or neighbours.device.type != "cpu":
        # A GPU multiplies a graph in less time than it takes to send the vectors around.
        options["device"] = None if neighbours.n <= SMALLEST_SHARED else neighbours.device
        result = spectral.cluster(matrix, n_clusters, **options)
    else:
        distributed.tell(_PRODUCTS, 0)
        result = shared_spectral.cluster(matrix, n_clusters, **options)
    estimator.affinity_matrix_ = matrix
    estimator.embedding_ = result.embedding
    return result


def _follow(operator: Any, counts: list[int]) -> None:
    """Do what the first process asks for until it has the labels."""
    while True:
        order, k = distributed.hear(2)
        if order == _LABELS:
            return
        if order == _FAILED:
            raise DcfscError("the first process failed while it clustered; its message says why.")
        if order % _ORDERS in (_NEIGHBOURS, _COSINES):
            _scanned(operator, order, k, counts)
        else:
            shared_spectral.serve_products()


def gather(estimator: Any) -> None:
    """Make the first process's estimator one of all samples, to save it or to report on it.

    To be called by all processes together, inside ``sharded()``. It needs the memory of all
    features on the first one's host. The others' estimators stay as they are. To use the model
    while ``sharded()`` is still open, say ``with dcfsc.distributed.alone():``.
    """
    whole = {
        name: distributed.collect_rows(torch.as_tensor(getattr(estimator, name)))
        for name in ("latents_", "_training_features", "leverage_")
        if hasattr(estimator, name)
    }
    if distributed.rank() != 0:
        return
    for name, rows in whole.items():
        assert rows is not None
        setattr(estimator, name, rows if name.startswith("_") else rows.numpy())
    estimator.labels_ = estimator.all_labels_
    # Solved again where it is needed: the one there is knows this process's samples alone.
    estimator._operator = None
    del estimator.share_, estimator.coefficients_


def check_whole(estimator: Any) -> None:
    """A model of a share of the samples can neither be saved nor label others."""
    if hasattr(estimator, "share_"):
        start, N = estimator.share_
        raise InputError(
            f"this model holds {len(estimator.labels_)} of {N} samples, from number {start} on; "
            "dcfsc.estimators.sharded.gather makes a whole one in the first process."
        )
