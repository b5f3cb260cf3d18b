"""What a report is drawn from beside ``run.json``: plain arrays in one .npz file."""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, NamedTuple, get_type_hints

import numpy as np

from dcfsc.errors import InputError
from dcfsc.io.streamed import member_header
from dcfsc.report.differences import ColumnMeans, Differences, differences
from dcfsc.report.thumbnails import images_of, thumbnails

FORMAT = 2
TYPICAL, DOUBTFUL, MISTAKE, OTHER = range(4)
LARGEST = 1 << 20  # number of a class or cluster where there is no list of them
NEVER_EMPTY = ("coupling", "labels", "clusters", "parts", "probabilities", "connectivity")
TYPES = {"i": "biu", "f": "fiub", "U": "UO"}


class Kind(NamedTuple):
    """The type and sides of an array: N samples, T of them shown, K fitted clusters, C classes.

    Indices are at least ``least`` and below the side ``below``, where it is known.
    """

    type: str
    sides: str
    least: int | None = None
    below: str = ""


def _none() -> np.ndarray:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class Details:
    """Arrays of a run with N samples in K clusters; an array of length 0 says "there is none".

    Every sample: ``labels`` (N,) int; ``clusters`` (N, m) its own cluster and then the likeliest
    others, with their ``probabilities`` (N, m); ``parts`` (N,) the number 2 c + h for the half h, 0
    or 1, of the cluster c in which it was fitted; ``degrees`` (N,) of the affinity; ``leverage``
    (N,) or (0,); ``truth`` (N,) int true classes or (0,); ``view`` (N, 2) its place in the view;
    ``neighbors`` (N, q) the samples of largest affinity, -1 where there are fewer, and
    ``neighbor_weights`` (N, q) these affinities.

    The graph: ``connectivity`` (3,) counts isolated samples, connected components and samples set
    aside by the spectral step; ``eigenvalues`` (m,) of the normalized affinity, descending;
    ``blocks`` (b, b) mean affinities of the samples ordered by cluster; ``coupling`` (K, K) of any
    two clusters and, on the diagonal, of the two halves of each.

    The samples shown, T of them: ``shown`` (T,) their indices, by cluster and then by how typical
    they are; ``role`` (T,) one of TYPICAL, DOUBTFUL, MISTAKE, OTHER; ``files`` (T,) or (0,) their
    paths from the data folder on; ``thumbnails`` (T, h, w), (T, h, w, 3) or (0, 0, 0) uint8. The
    points of the view are the samples ``view_samples`` (P,).

    The columns of a table, or the strongest of a wide one: ``profile`` (2 K + 2, f) their means in
    each of the parts and over all samples, and their standard deviations; ``feature_names`` (f,);
    or (0, 0) and (0,). ``values`` (T, g) are measurements of the samples shown, ``value_names``
    (g,) their columns.

    Of texts: ``texts`` (T,) the beginnings of those shown; ``word_counts`` (2 K, w) how often some
    ``words`` (w,) occur in each of the parts, the first of which, "", stands for all others.

    The ridge: ``path`` (p, 3) rows of lam, effective degrees of freedom and the leave-one-out
    error |Z - B Z|^2 / |Z|^2 (NaN where it was not computed).

    The classes: ``class_names`` (C,), ``confusion`` (C, K) and ``best_class`` (K,), the class
    that the best one-to-one matching gives a cluster, or -1.
    """

    coupling: Annotated[np.ndarray, Kind("f", "KK")]
    best_class: Annotated[np.ndarray, Kind("i", "k", -1, "C")]
    class_names: Annotated[np.ndarray, Kind("U", "C")]
    confusion: Annotated[np.ndarray, Kind("i", "Ck")]
    labels: Annotated[np.ndarray, Kind("i", "N", 0)]
    clusters: Annotated[np.ndarray, Kind("i", "Nm", -1)]
    parts: Annotated[np.ndarray, Kind("i", "N", 0, "h")]
    probabilities: Annotated[np.ndarray, Kind("f", "Nm")]
    degrees: Annotated[np.ndarray, Kind("f", "N")]
    view: Annotated[np.ndarray, Kind("f", "N2")]
    neighbors: Annotated[np.ndarray, Kind("i", "Nq", -1, "N")]
    neighbor_weights: Annotated[np.ndarray, Kind("f", "Nq")]
    shown: Annotated[np.ndarray, Kind("i", "T", 0, "N")]
    role: Annotated[np.ndarray, Kind("i", "T", 0, "4")]
    connectivity: Annotated[np.ndarray, Kind("i", "3")]
    leverage: Annotated[np.ndarray, Kind("f", "N")]
    truth: Annotated[np.ndarray, Kind("i", "N", 0, "C")]
    eigenvalues: Annotated[np.ndarray, Kind("f", "e")]
    blocks: Annotated[np.ndarray, Kind("f", "bb")]
    view_samples: Annotated[np.ndarray, Kind("i", "v", 0, "N")]
    path: Annotated[np.ndarray, Kind("f", "p3")]
    files: Annotated[np.ndarray, Kind("U", "T")]
    thumbnails: Annotated[np.ndarray, Kind("i", "Txyc")]
    profile: Annotated[np.ndarray, Kind("f", "PF")]
    feature_names: Annotated[np.ndarray, Kind("U", "F")]
    texts: Annotated[np.ndarray, Kind("U", "T")] = field(default_factory=_none)
    words: Annotated[np.ndarray, Kind("U", "W")] = field(default_factory=_none)
    word_counts: Annotated[np.ndarray, Kind("i", "hW", 0)] = field(default_factory=_none)
    values: Annotated[np.ndarray, Kind("f", "Tg")] = field(default_factory=_none)
    value_names: Annotated[np.ndarray, Kind("U", "g")] = field(default_factory=_none)

    def __post_init__(self) -> None:
        sides: dict[str, int] = {str(i): i for i in (2, 3, 4)}
        for name, kind in KINDS.items():
            array = getattr(self, name)
            if array.size == 0 and name not in NEVER_EMPTY:
                continue
            if array.dtype.kind not in TYPES[kind.type]:
                raise InputError(f"the details of a run have unusable values in {name!r}.")
            pairs = zip(kind.sides, array.shape, strict=False)
            agree = all(sides.setdefault(side, n) == n for side, n in pairs)
            gray = name == "thumbnails" and array.ndim == 3
            if not agree or array.ndim != len(kind.sides) - gray:
                raise InputError(f"the details of a run do not fit together in {name!r}.")
            if name == "coupling":
                sides |= {"h": 2 * len(array), "P": 2 * len(array) + 2}
        for one, other in (("neighbors", "neighbor_weights"), ("shown", "role")):
            if len(getattr(self, one)) != len(getattr(self, other)):
                raise InputError(f"the details of a run do not fit together in {one!r}.")
        for name, kind in KINDS.items():
            index, most = getattr(self, name), sides.get(kind.below, LARGEST)
            if kind.least is None or index.size == 0:
                continue
            if not kind.least <= index.min() <= index.max() < most:
                raise InputError(f"the details of a run list in {name!r} what is not in it.")

    @property
    def edited(self) -> bool:
        """Whether clusters were merged or split after the fit."""
        return not np.array_equal(self.labels, self.parts // 2)

    @property
    def confidence(self) -> np.ndarray:
        return self.probabilities[:, 0]

    @property
    def next_best(self) -> np.ndarray:
        """The likeliest other cluster (N,), or -1 where there is none."""
        none = np.full(len(self.labels), -1, np.int32)
        return self.clusters[:, 1] if self.clusters.shape[1] > 1 else none

    def differences(self) -> Differences:
        """What sets the present clusters apart, by the columns of ``profile``."""
        place = np.arange(2 * len(self.coupling)) // 2
        place[self.parts] = self.labels
        *means, mean, deviation = self.profile
        known = ColumnMeans(np.arange(len(mean)), np.array(means), mean, deviation)
        return differences(known, np.bincount(self.parts, minlength=len(place)), place)

    @property
    def has_images(self) -> bool:
        return len(self.thumbnails) > 0

    @property
    def has_truth(self) -> bool:
        return len(self.truth) > 0


KINDS: dict[str, Kind] = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(Details, include_extras=True).items()
}


def write_details(path: str | os.PathLike[str], details: Details, run: str = "") -> None:
    """Write ``details`` of the run with this digest as an .npz file; never pickled."""
    arrays = {name: np.asarray(getattr(details, name)) for name in KINDS}
    unsafe = [name for name, array in arrays.items() if array.dtype.hasobject]
    if unsafe:
        raise InputError(f"the details hold Python objects in {unsafe[0]!r}; give plain arrays.")
    with open(path, "wb") as file:
        np.savez(file, **{"format": np.array(FORMAT), "run": np.array(run), **arrays})  # type: ignore[arg-type]


def read_details(path: str | os.PathLike[str], run: str | None = None) -> Details:
    """The inverse of `write_details`, or one line saying why the file cannot be used."""
    file = Path(path)
    if not file.is_file():
        raise InputError(
            f"{file.parent} has no {file.name}, which the report is drawn from; fit again, "
            "with --overwrite and without --no-report."
        )
    try:
        with zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                if member.compress_type != zipfile.ZIP_STORED:
                    raise ValueError("compressed, as write_details never does")
                member_header(archive, member)
        with np.load(file, allow_pickle=False) as arrays:
            written = int(arrays["format"])
            if written < FORMAT:
                raise InputError(
                    f"{file} was written by an earlier dcfsc; fit again, with --overwrite."
                )
            if written > FORMAT:
                raise InputError(
                    f"{file} has the format {written}; this dcfsc reads up to {FORMAT}. Upgrade."
                )
            if run is not None and ("run" not in arrays or str(arrays["run"]) != run):
                raise InputError(f"{file} is of another run; fit again, with --overwrite.")
            names = {name.replace("neighbour", "neighbor"): name for name in arrays}  # as in 1.x
            return Details(**{name: arrays[names[name]] for name in KINDS if name in names})
    except InputError:
        raise
    except Exception:  # the parser fails in many ways on damaged bytes
        raise InputError(
            f"{file} is damaged or not written by dcfsc; fit again, with --overwrite."
        ) from None


def with_images(details: Details, X: np.ndarray, source: str) -> Details:
    """The same details with pictures from X (N, ...): of a run on features, say, its images."""
    if len(X) != len(details.labels):
        raise InputError(
            f"{source} has {len(X)} samples, but the run had {len(details.labels)}; give the same "
            "samples in the same order."
        )
    if not images_of(X):
        shape = " x ".join(map(str, X.shape[1:]))
        raise InputError(f"{source} holds samples of {shape}, which are not images.")
    return replace(details, thumbnails=thumbnails(X, details.shown))
