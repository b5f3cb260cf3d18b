"""Equal samples, which are compared once and have one label."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dcfsc import processes
from dcfsc.errors import InputError
from dcfsc.graphs import Graph, trusted
from dcfsc.spectral import Embedding

from .recipe import Recipe
from .sampling import canonical_order, row_keys


@dataclass(frozen=True, eq=False)
class Copies:
    """Which of all processes' N samples are equal.

    ``place`` (N,) is each sample's value, numbered by first appearance; ``mine`` are this process's
    samples.
    """

    place: np.ndarray
    mine: slice = field(default_factory=lambda: slice(None))

    @cached_property
    def first(self) -> np.ndarray:
        """The first sample (n,) of each value."""
        return np.unique(self.place, return_index=True)[1]

    @property
    def index(self) -> Tensor:
        return torch.from_numpy(self.place)

    def joined(self, graph: Graph) -> Graph:
        """The graph of the values, where one of the samples is known: copies' links are added."""
        A, n = sp.coo_array(graph.on_host), len(self.first)
        pairs = self.place[A.row], self.place[A.col]
        joined = sp.csr_array(sp.coo_array((A.data, pairs), shape=(n, n)))
        joined.sort_indices()
        return trusted(joined, graph.device)

    def repeated(self, embedding: Embedding) -> Embedding:
        """The embedding of the samples, where one of the values is known.

        Copies share the degree of their value, and have equal rows.
        """
        counts = np.bincount(self.place)[self.place]
        of_samples = embedding.reordered(self.place)
        vectors = of_samples.vectors / np.sqrt(counts)[:, None]
        return replace(of_samples, vectors=vectors, degrees=of_samples.degrees / counts)


def restored(place: Tensor | None, n: int) -> Copies | None:
    """The copies among n samples of a saved model, from their places."""
    if place is None:
        return None
    values = place.unique() if place.dtype == torch.int64 and place.shape == (n,) else place
    if not torch.equal(values, torch.arange(len(values))):
        raise InputError("its copies do not match its samples; fit and save it again.")
    return Copies(place.numpy())


def distinct(
    X: Tensor, recipe: Recipe, join: bool = True
) -> tuple[Tensor, np.ndarray | None, Copies | None]:
    """The samples X (n, d) to compare, the order to do it in, and which ones are equal.

    Of equal rows the first is compared, but with ``join=False`` all are, as copies may then have
    different labels. All are compared, too, if they are images, if the user chose a ridge or an
    affinity, if they have at most K values, and if a process would keep none.
    """
    if len(recipe.sample_shape) > 1:
        return X, None, None
    join = join and recipe.sparse_exact and not recipe.ridge_given
    copies = _copies(X, recipe.n_clusters) if join else None
    if copies is not None:
        start, stop = copies.mine.start, copies.mine.stop
        own = copies.first[(copies.first >= start) & (copies.first < stop)] - start
        X = X[torch.from_numpy(own).to(X.device)]
    return X, canonical_order(X), copies


def _copies(X: Tensor, n_clusters: int) -> Copies | None:
    keys = row_keys(X).cpu().numpy()
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    if not n_clusters < len(first) < len(keys):
        return None
    ends = np.cumsum([0, *processes.row_counts(len(X), X.device)])
    if (np.diff(np.searchsorted(np.sort(first), ends)) == 0).any():
        return None
    number = np.argsort(np.argsort(first))
    start = int(ends[processes.rank()])
    return Copies(number[place.ravel()], slice(start, start + len(X)))
