"""The trail behind the defaults: graphs of the closed form over a grid of settings, WITH labels.

    DCFSC_DATA=... python benchmarks/explore_affinity.py --json results/experiments/grid.json

The error for every set of views (n: samples as they are, s: one-pixel shifts too, f:
mirror images too, sf: both, stf: shifts of up to two pixels and mirror images), degrees of freedom
m K, neighbours k and power p; neighbours by the larger of the two directions' best cosine.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from measure import finish, parser
from torch import Tensor

from dcfsc import datasets, spectral
from dcfsc.metrics import clustering_error
from dcfsc.self_expression import lam_for_dof

NEAR = ((0, 1), (0, -1), (1, 0), (-1, 0))
FAR = ((0, 2), (0, -2), (2, 0), (-2, 0), (1, 1), (1, -1), (-1, 1), (-1, -1))
PARTS = {
    "eyaleb-10": ("eyaleb", 0, 10),
    "eyaleb-20": ("eyaleb", 15, 20),
    "coil100-20": ("coil100", 0, 20),
    "coil100-50": ("coil100", 50, 50),
}
SETTINGS = ((4, 4), (5, 4), (6, 4), (8, 4), (6, 8), (10, 8), (6, 2))  # k, power


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    base, first, count = PARTS.get(name, (name, 0, None))
    data = datasets.load(base)
    assert data.y is not None
    stop = first + count if count else int(data.y.max()) + 1
    chosen = (data.y >= first) & (data.y < stop)
    return data.X[chosen], data.y[chosen] - first


def views(X: Tensor, kind: str) -> list[Tensor]:
    """Rows of unit length (N, d), one matrix a view."""
    found = [X]
    if "s" in kind:
        moves = NEAR + (FAR if "t" in kind else ())
        found += [torch.roll(X, move, (1, 2)) for move in moves]
    if "f" in kind:
        found += [view.flip(2) for view in found]
    rows = [view.flatten(1) for view in found]
    return [r / r.norm(dim=1, keepdim=True).clamp_min(1e-9) for r in rows]


def similarities(rows: list[Tensor], K: int, dims: tuple[float, ...]) -> Iterator[Tensor]:
    """The best cosine of whitened views, (N, N), for each m."""
    G = sum((r.double().T @ r.double() for r in rows[1:]), rows[0].double().T @ rows[0].double())
    w, V = torch.linalg.eigh(G)
    w = w.clamp_min(0.0)
    for m in dims:
        whitening = (V / (w + lam_for_dof(w, m * K)).sqrt()).float()
        Y = [torch.nn.functional.normalize(r @ whitening, dim=1) for r in rows]
        M = torch.zeros(len(Y[0]), len(Y[0]), device=Y[0].device)
        for y in Y:
            M = torch.maximum(M, (Y[0] @ y.T).abs())
        yield torch.maximum(M, M.T).fill_diagonal_(0.0)


def partition(M: Tensor, k: int, power: float, K: int, seed: int = 0) -> np.ndarray:
    top = M.topk(k, dim=1)
    weights = top.values.double().cpu().numpy() ** power
    pointers = np.arange(0, len(M) * k + 1, k)
    W = sp.csr_array((weights.ravel(), top.indices.cpu().numpy().ravel(), pointers), shape=M.shape)
    return spectral.cluster(sp.csr_array(W + W.T), K, random_state=seed).labels


def grid(args: Any, device: torch.device) -> None:
    figures: list[dict[str, Any]] = []
    dims = (1.0, 1.5, 2.0, 3.0, 4.0)
    for name in args.sets.split(","):
        X, y = load(name)
        K = int(y.max()) + 1
        for kind in ("n", "s", "f", "sf", "stf"):
            rows = views(torch.from_numpy(X).float().to(device), kind)
            for m, M in zip(dims, similarities(rows, K, dims), strict=True):
                for k, power in SETTINGS:
                    error = clustering_error(y, partition(M, k, power, K))
                    row = {"data": name, "views": kind, "m": m, "k": k, "power": power}
                    figures.append({**row, "error": error})
        finish(args, "affinity grid, chosen with labels", figures)


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--sets", default="orl,digits,eyaleb-10,eyaleb-20,coil100-20")
    options.add_argument("--device", default="cpu")
    args = options.parse_args()
    grid(args, torch.device(args.device))


if __name__ == "__main__":
    main()
