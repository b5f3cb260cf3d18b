"""Models that version 1 saved, whose classes and parameters had other names."""

from __future__ import annotations

from typing import Any

RENAMED = {"views": "augmentations", "partners": "positives"}
# Parameters that only a training read, and those of the other one of the two trainings of DCFSC.
GONE = {"pretrain_batch_size", "tol", "patience", "training", "losses", "n_neighbors"}
OF_RECONSTRUCTION, OF_VIEWS = {"weights", "pretrain_epochs", "terms"}, set(RENAMED)


def renewed(header: dict[str, Any]) -> dict[str, Any]:
    """The header of a model file with the names of this version."""
    name, params, values = header["class"], header["params"], header["values"]
    if name not in ("DCFSC", "AutoencoderFeatures") or "pretrain_batch_size" not in params:
        return header
    on_views = "views" in values
    gone = GONE | (OF_RECONSTRUCTION if on_views else OF_VIEWS)
    return {
        **header,
        "class": "ViewClustering" if on_views else name,
        "params": {
            RENAMED.get(k, k): v for k, v in params.items() if k not in gone and v is not None
        },
        "values": values | {k: params[k] for k in ("n_neighbors",) if k in params},
    }
