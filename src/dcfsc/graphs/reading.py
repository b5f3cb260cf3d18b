"""Read an affinity, whatever it comes as: checked, without its diagonal, on the right device."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dcfsc.errors import InputError
from dcfsc.graphs.device_graph import read_on_device
from dcfsc.graphs.graph import (
    Affinity,
    Graph,
    float_dtype,
    read_dense,
    read_sparse,
    real_values,
    trust_sparse,
)
from dcfsc.machine import resolve_device


def read_affinity(affinity: Affinity | Graph, device: str | torch.device | None = None) -> Graph:
    """Check an affinity and turn it into a `Graph` on ``device`` (None: where it lives).

    A graph that was read already is returned as it is.

    The diagonal is dropped, as Ng, Jordan and Weiss do and as SciPy's graph Laplacian does: a
    point's affinity with itself says nothing about pairs.
    """
    if isinstance(affinity, Graph):
        return affinity
    place = _device_of(affinity) if device is None else _solvable(resolve_device(device))
    if isinstance(affinity, Tensor) and affinity.layout == torch.strided:
        return read_dense(affinity, affinity.detach(), place)
    if isinstance(affinity, Tensor):
        coo = affinity.detach().to_sparse_coo().coalesce().cpu()
        i, j = coo.indices().numpy()
        affinity = sp.coo_array((real_values(coo.values()).numpy(), (i, j)), shape=tuple(coo.shape))
    if sp.issparse(affinity):
        return (read_sparse if place.type == "cpu" else read_on_device)(affinity, place)
    try:
        array = np.asarray(affinity)
    except ValueError as error:
        raise InputError(f"the affinity is not a matrix ({error}); give an N x N array.") from None
    if array.dtype.kind not in "fiub":
        raise InputError(f"the affinity has dtype {array.dtype}; give real numbers.")
    values = torch.from_numpy(np.array(array, dtype=float_dtype(array.dtype)))
    return read_dense(affinity, values, place)


def trusted(A: sp.csr_array, device: torch.device) -> Graph:
    """The graph of an affinity that is known to be non-negative and symmetric.

    Its entries are distinct, sorted, and none is on the diagonal.
    """
    return read_on_device(A, device) if device.type == "cuda" else trust_sparse(A)


def _solvable(place: torch.device) -> torch.device:
    if place.type not in ("cpu", "cuda"):
        raise InputError(f"device {place} has no float64 eigensolver; give 'cpu' or 'cuda'.")
    return place


def _device_of(affinity: Any) -> torch.device:
    device = affinity.device if isinstance(affinity, Tensor) else torch.device("cpu")
    # Metal has no float64, and the eigenproblem needs it.
    return torch.device("cpu") if device.type == "mps" else device
