"""Folders of photographs, as a user has them: error, seconds, memory and what a model takes.

Each row is one `dcfsc fit` of a folder, in a process of its own, without a report. "photographs" is
photos/ under $DCFSC_DATA, by pixels and by the features of the default encoder, without a cache;
"sizes" are 500 views of ten objects of COIL-100, tinted by object and saved as JPEG at 224 x 224,
read at several sizes; "large" are photographs of 4000 x 3000, hard links to 40 files.
"""

from __future__ import annotations

import colorsys
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.cluster import KMeans

from dcfsc import EncoderFeatures
from dcfsc.metrics import clustering_error
from research.data import data_root, load

from .measure import Figures, Rows, benchmark

SIZES = ("chosen", "32x32", "40x40", "64x64", "224x224")
LARGE = (3000, 4000)
DISTINCT = 40
LABELS = ("--labels", "folders")


@benchmark
def photos(device: str = "cpu") -> Rows:
    """Folders of photographs, as a user has them: error, seconds, memory and what a model takes."""
    source = data_root() / "photos"
    with tempfile.TemporaryDirectory() as place:
        yield "photographs", photographs(source, device)
        folder = Path(place, "tinted")
        tinted(folder)
        asked = {size: () if size == "chosen" else ("--size", size) for size in SIZES}
        yield (
            "sizes",
            {size: fitted(folder, 10, device, *LABELS, *words) for size, words in asked.items()},
        )
        row = {}
        for n in (40, 5000):
            many_large(source, Path(place, str(n)), n)
            row[str(n)] = fitted(Path(place, str(n)), 10, device)
        yield "large", row


def fitted(folder: Path, K: int, device: str, *options: str) -> Figures:
    """One `dcfsc fit`: its error, and what it took."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place, "run")
        words = [sys.executable, "-m", "dcfsc", "fit", str(folder), "-k", str(K), *options]
        words += ["--device", device, "--out", str(out), "--no-report", "--quiet"]
        environment = {**os.environ, "XDG_CACHE_HOME": place}
        begin = time.perf_counter()
        process = subprocess.Popen(words, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"{' '.join(words)} failed")
        record = json.loads((out / "run.json").read_text())
        found = {
            "N": record["data"]["n"],
            "K": K,
            "shape": " x ".join(map(str, record["working_shape"])),
            "representation": record["representation"],
            "seconds": time.perf_counter() - begin,
            "cpu_seconds": usage.ru_utime + usage.ru_stime,
            "peak_gib": usage.ru_maxrss / 2**20,
            "model_mb": (out / "model.safetensors").stat().st_size / 1e6,
        }
        if record["scores"] is not None:
            found["error"] = record["scores"]["error"]
    return found


def tinted(folder: Path) -> None:
    """500 color images: ten objects of COIL-100 with 50 views each."""
    data = load("coil100")
    assert data.y is not None
    objects = [k for k in np.unique(data.y) if (data.y == k).sum() >= 50][:10]
    for place, k in enumerate(objects):
        (folder / str(place)).mkdir(parents=True)
        tint = np.array(colorsys.hsv_to_rgb(place / len(objects), 0.6, 1.0))
        for i, view in enumerate(data.X[data.y == k][:50]):
            pixels = Image.fromarray((view[..., None] * tint).astype(np.uint8))
            pixels.resize((224, 224), Image.Resampling.BICUBIC).save(
                folder / str(place) / f"{i}.jpg", quality=92
            )


def many_large(source: Path, folder: Path, n: int) -> None:
    """n files of 12 million pixels, of which 40 differ."""
    random = np.random.default_rng(0)
    files = sorted(source.rglob("*.jpg"))
    originals = folder.parent / "originals"
    if not originals.exists():
        originals.mkdir()
        for i, file in enumerate(files[:: len(files) // DISTINCT][:DISTINCT]):
            with Image.open(file) as image:
                pixels = np.asarray(image.convert("RGB").resize(LARGE[::-1]), np.int16)
            pixels = pixels + random.integers(-6, 7, (*LARGE, 1), dtype=np.int16)
            noisy = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
            noisy.save(originals / f"{i}.jpg", quality=90)
    folder.mkdir()
    for i in range(n):
        os.link(originals / f"{i % DISTINCT}.jpg", folder / f"{i:05d}.jpg")


def photographs(source: Path, device: str) -> Figures:
    figures = {
        "pixels": fitted(source, 12, device, *LABELS),
        "encoder": fitted(source, 12, device, *LABELS, "--features", "encoder"),
    }
    data = load(source, labels="folders")
    Z = EncoderFeatures(device=device, cache=None).fit_transform(data.paths)
    labels = KMeans(12, n_init=10, random_state=0).fit_predict(Z)
    figures["k-means"] = {"error": clustering_error(data.y, labels)}
    return figures
