"""The labeled sets that several benchmarks measure, by name; labels only score.

"eyaleb-10" and "eyaleb-20" are ten and twenty people, "coil100-20" twenty objects, "mnist-5000" and
"mnist-raw" random parts of MNIST, 5,000 and 10,000 images, "mnist-images" all of them and
"mnist-scattering" their scattering features (long without a GPU). "photographs" are the files in
photos/ under $DCFSC_DATA by the features of EfficientNet-Lite0, which stay in the user's cache.
"unequal-N" are N points of 64 features in 20 subspaces of unequal dimensions and sizes. All but
digits and the last need $DCFSC_DATA.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

import numpy as np
import torch
from sklearn.preprocessing import normalize

from dcfsc import EncoderFeatures, ScatteringFeatures
from dcfsc.errors import InputError, unknown_name
from research import data as datasets

from .generated_problems import Samples


def whole(name: str) -> Samples:
    data = datasets.load(name)
    assert data.y is not None
    return data.X, data.y


def classes(name: str, first: int, count: int) -> Samples:
    X, y = whole(name)
    chosen = (y >= first) & (y < first + count)
    return X[chosen], y[chosen] - first


def mnist(n: int) -> Samples:
    X, y = whole("mnist")
    chosen = np.sort(np.random.default_rng(1).permutation(len(X))[:n])
    return X[chosen], y[chosen]


def resized(images: np.ndarray, side: int) -> np.ndarray:
    """Gray images (n, h, w) of bytes at side x side pixels, by bilinear interpolation."""
    X = torch.from_numpy(images)[:, None].float()
    larger = torch.nn.functional.interpolate(X, (side, side), mode="bilinear", antialias=True)
    return larger[:, 0].round().byte().numpy()


def scattering(
    name: str, center: bool = True, unit_rows: bool = True, side: int | None = None
) -> Samples:
    """A set's images by 500 principal components of their scattering coefficients."""
    X, y = SETS[name]() if name in SETS else whole(name)
    X = X if side is None else resized(X, side)
    return ScatteringFeatures(center=center, unit_rows=unit_rows).fit_transform(X), y


def photographs() -> Samples:
    data = datasets.load(datasets.data_root() / "photos", labels="folders")
    assert data.y is not None
    # the files themselves: data.X are images of the size that pixels are compared at
    return normalize(EncoderFeatures("lite0").fit_transform(data.paths)), data.y


def unequal(n: int, d: int = 64, K: int = 20) -> Samples:
    """Clusters of unequal sizes, in subspaces of 3 to 9 dimensions, with some noise."""
    random = np.random.default_rng(0)
    y = np.sort(random.choice(K, n, p=random.dirichlet(np.full(K, 2.0))))
    X = np.empty((n, d), np.float32)
    for k in range(K):
        basis = np.linalg.qr(random.normal(size=(d, int(random.integers(3, 10)))))[0]
        rows = np.flatnonzero(y == k)
        signal = random.normal(size=(len(rows), basis.shape[1])) @ basis.T
        X[rows] = signal + 0.1 / np.sqrt(d) * random.normal(size=(len(rows), d))
    return X, y


WHOLE = ("orl", "eyaleb", "coil100", "digits", "fashion-mnist")
SETS: dict[str, Callable[[], Samples]] = {
    **{name: partial(whole, name) for name in WHOLE},
    "eyaleb-10": partial(classes, "eyaleb", 0, 10),
    "eyaleb-20": partial(classes, "eyaleb", 15, 20),
    "coil100-20": partial(classes, "coil100", 0, 20),
    "mnist-5000": partial(mnist, 5_000),
    "mnist-raw": partial(mnist, 10_000),
    "mnist-images": partial(whole, "mnist"),
    "mnist-scattering": partial(scattering, "mnist"),
    "photographs": photographs,
    **{f"unequal-{n}": partial(unequal, n) for n in (20_000, 100_000, 1_000_000)},
}


def load(
    names: Iterable[str], sets: Mapping[str, Callable[[], Samples]] = SETS
) -> Iterator[tuple[str, Samples]]:
    """Each set with its name; one whose files are missing is left out with a line."""
    for name in names:
        if name not in sets:
            raise unknown_name("set", name, sets)
        try:
            yield name, sets[name]()
        except InputError as error:
            print(f"{name} is left out: {error}", flush=True)
