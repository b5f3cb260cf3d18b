"""Word counts: the default on the three sets of two kinds of newsgroup posts, beside its peers.

    DCFSC_DATA=... python -m research.benchmarks.bench_counts --json results/experiments/counts.json

counts/ under $DCFSC_DATA holds BASEHOCK.mat, PCMAC.mat and RELATHE.mat (X, Y). The peers are Ward's
method on the counts at unit length and on the same weights as the default, and the default's own
representation for other vectors, "given".
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
import torch
from sklearn.cluster import AgglomerativeClustering

from dcfsc import ClosedFormSubspaceClustering
from dcfsc.metrics import clustering_error
from dcfsc.neighbors import unit_rows
from dcfsc.pipeline import Recipe
from dcfsc.representations.counts import Counts
from research.data import data_root

from .measure import finish, parser

SETS = ("BASEHOCK", "PCMAC", "RELATHE")


def measure(path: Path) -> dict[str, Any]:
    arrays = scipy.io.loadmat(path)
    X = scipy.sparse.csr_matrix(arrays["X"]).astype(np.float32)
    y = np.unique(arrays["Y"].ravel(), return_inverse=True)[1]
    dense = torch.from_numpy(X.toarray())
    weighted = Counts(Recipe(tuple(dense.shape[1:]), 2))
    weighted.fit(dense)
    model = ClosedFormSubspaceClustering(2, random_state=0, device="cpu").fit(X)
    given = ClosedFormSubspaceClustering(2, representation="given", random_state=0, device="cpu")
    ward = AgglomerativeClustering(2)
    return {
        "samples": X.shape[0],
        "representation": model.representation_,
        "default": clustering_error(y, model.labels_),
        "given": clustering_error(y, given.fit_predict(X)),
        "ward": clustering_error(y, ward.fit_predict(unit_rows(dense).numpy())),
        "ward, weighted": clustering_error(y, ward.fit_predict(weighted.transform(dense).numpy())),
    }


def main() -> None:
    args = parser(__doc__).parse_args()
    folder = data_root() / "counts"
    finish(args, "counts", {name: measure(folder / f"{name}.mat") for name in SETS})


if __name__ == "__main__":
    main()
