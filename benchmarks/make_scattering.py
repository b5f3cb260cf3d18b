"""Scattering features of an image set as one .npy file, for the benchmarks on many samples.

    DCFSC_DATA=... python benchmarks/make_scattering.py mnist mnist_scattering.npy

Rows are in the order of the data, of unit length, in float32 or with --dtype float16. With
--uncentred the mean is not subtracted before the principal components are found.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from measure import machine, peak_rss, timed

from dcfsc import ScatteringFeatures, datasets
from dcfsc.files import atomic_path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", help="a dataset's name, or a path as for 'dcfsc fit'")
    parser.add_argument("out", type=Path, help="the .npy file to write")
    parser.add_argument("--dtype", choices=("float32", "float16"), default="float32")
    parser.add_argument("--components", type=int, default=500)
    parser.add_argument("--J", type=int, default=3)
    parser.add_argument("--uncentred", action="store_true")
    parser.add_argument("--device", default="auto")
    args = parser.parse_args()
    data = datasets.load(args.data)
    model = ScatteringFeatures(
        J=args.J, n_components=args.components, center=not args.uncentred, device=args.device
    )
    fit_seconds, _ = timed(lambda: model.fit(data.X))
    transform_seconds, Z = timed(lambda: model.transform(data.X))
    with atomic_path(args.out) as part, open(part, "wb") as file:
        np.save(file, Z.astype(args.dtype, copy=False))
    figures = {
        "data": data.name,
        "shape": list(Z.shape),
        "explained_variance": float(model.explained_variance_.sum()),
        "fit_seconds": round(fit_seconds, 1),
        "transform_seconds": round(transform_seconds, 1),
        "peak_rss_bytes": peak_rss(),
        "machine": machine(),
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
