"""Seconds and memory to label shards of vectors, and the bytes that a sample of them reads."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.io import load, synthetic
from dcfsc.io.shards import shard_files
from dcfsc.runs.executor import execute
from dcfsc.runs.request import RunRequest
from dcfsc.runs.shards import predict_shards
from research.alone import alone
from research.machine import PeakMemory

from .measure import Figures, benchmark, timed

K, D, SHARDS, GROUPS = 20, 64, 40, 20
PRODUCTS = 8192  # samples whose products with the training samples are timed beside


@benchmark
def shards(
    rows: int = 200_000,
    training: int = 20_000,
    kinds: tuple[str, ...] = ("clouds", "subspaces"),
    folder: str = "",
) -> Figures:
    """Label 40 shards of vectors with 64 columns by runs on 20,000 samples.

    The samples lie in 20 clouds or 20 subspaces. "products" are the seconds that the products of as
    many samples with the training samples take, and "memory" is the peak beyond that of the
    imports. "read" is the share of the bytes that a sample of a fiftieth of the rows reads.
    """
    figures = {}
    for kind in kinds:
        with tempfile.TemporaryDirectory(dir=folder or None) as place:
            write(Path(place), kind, rows)
            given = {"n_clusters": K, "random_state": 0}
            data = load(Path(place, "shards"), id="id", sample=training)
            request = RunRequest(data, "closed-form", given, out=Path(place, "run"), report=False)
            run = execute(request)
            assert run is not None
            figures[kind] = {
                "representation": run.record["representation"],
                **alone(label, place, rows),
                "read": alone(read, place, rows // 50),
            }
    return figures


def write(place: Path, kind: str, rows: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    centers = rng.normal(size=(K, D)).astype(np.float32)
    (place / "shards").mkdir()
    each = rows // SHARDS
    for s in range(SHARDS):
        if kind == "clouds":
            X = centers[rng.integers(0, K, each)] + rng.normal(size=(each, D)).astype(np.float32)
        else:
            X = synthetic(each, K, 4, D, noise=0.3, random_state=0).X.astype(np.float32)
            X += rng.normal(size=X.shape).astype(np.float32) * 1e-3
        ids = [f"{s}-{i}" for i in range(each)]
        table = pa.table({"id": ids, **{f"x{j}": X[:, j] for j in range(D)}})
        file = place / "shards" / f"{s}.parquet"
        pq.write_table(table, file, row_group_size=-(-each // GROUPS))


def label(place: str, rows: int) -> dict[str, Any]:
    import torch

    rng = np.random.default_rng(1)
    Q = torch.from_numpy(rng.normal(size=(PRODUCTS, D)).astype(np.float32))
    Y = torch.from_numpy(rng.normal(size=(20_000, D)).astype(np.float32))
    products = min(timed(lambda: [q @ Y.T for q in Q.split(256)])[0] for _ in range(3))
    files = shard_files(Path(place, "shards"))
    with PeakMemory(torch.device("cpu")) as memory:
        seconds, done = timed(lambda: predict_shards(Path(place, "run"), files, Path(place, "out")))
    return {
        "rows": int(done.sizes.sum()),
        "seconds": seconds,
        "products": products * rows / PRODUCTS,
        "memory": memory.peak - memory.before,
        "threads": torch.get_num_threads(),
    }


def read(place: str, sample: int) -> float:
    """The share of the bytes of the shards that a process reads for a sample."""
    files = shard_files(Path(place, "shards"))
    load(files[0], columns="x0", sample=10)  # imports, which are read from the disk, too
    counter = Path("/proc/self/io")
    before = int(counter.read_text().split()[1])
    load(Path(place, "shards"), id="id", sample=sample)
    after = int(counter.read_text().split()[1])
    return (after - before) / sum(file.stat().st_size for file in files)
