"""What people decide about a run's clusters: names, merging, splitting. Kept beside the run.

``edits.json`` lists the edits, command by command, and is written whole or not at all; the files
of the fit stay as they are. A fit that replaces the run keeps its edits as ``edits.1.json``.

Clusters keep their numbers: a merged cluster has the number of its first part, the second part of a
split one the next number that was never used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dcfsc import metrics
from dcfsc.errors import InputError
from dcfsc.files import read_json
from dcfsc.report import Details

from .folder import Run
from .life import EDITS

FORMAT = 1
LONGEST_NAME, LONGEST_FILE = 80, 1 << 22
STEPS = ("name", "merge", "split")


@dataclass(frozen=True)
class Edits:
    """The edits of a run with K clusters, and what they make of them.

    ``commands`` are lists of steps: ``{"name": [cluster, text]}``, ``{"merge": [first, other,
    ...]}`` and ``{"split": [cluster, new]}``. ``place`` (K, 2) is the cluster that each half of a
    cluster of the fit lies in now, ``names`` those that were given.
    """

    n_clusters: int
    commands: tuple[tuple[dict[str, list[Any]], ...], ...] = ()
    place: np.ndarray = field(init=False, compare=False)
    names: dict[int, str] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        place = np.repeat(np.arange(self.n_clusters)[:, None], 2, axis=1)
        object.__setattr__(self, "place", place)
        object.__setattr__(self, "names", {})
        for command in self.commands:
            for step in command:
                self._apply(step)
            self._check_names()

    def _apply(self, step: dict[str, list[Any]]) -> None:
        ((kind, values),) = step.items()
        getattr(self, f"_{kind}")(*values)

    @property
    def clusters(self) -> list[int]:
        return np.unique(self.place).tolist()

    @property
    def has_splits(self) -> bool:
        return bool((self.place[:, 0] != self.place[:, 1]).any())

    def title(self, cluster: int) -> str:
        """The name of a cluster, or its number where it has none."""
        return self.names.get(int(cluster), str(cluster))

    def extended(
        self, names: Mapping[str, str], merges: Sequence[Sequence[str]], splits: Sequence[str]
    ) -> Edits:
        """These edits and one more command; no-op edits are dropped."""
        edits = replace(self, commands=(*self.commands, ()))
        for cluster in splits:
            number = edits.find(cluster)
            if not edits._is_split(number):
                edits = edits._and({"split": [number, edits._next()]})
        for group in merges:
            members = list(dict.fromkeys(edits.find(cluster, gone=True) for cluster in group))
            if len(members) > 1:
                edits = edits._and({"merge": members})
        named = [(edits.find(cluster), name.strip()) for cluster, name in names.items()]
        if len(dict(named)) < len(named):
            raise InputError("a cluster is named twice, by its number and by its name.")
        edits = edits._and(*({"name": [*pair]} for pair in named))
        same = np.array_equal(edits.place, self.place) and edits.names == self.names
        return self if same else edits

    def undone(self) -> Edits:
        if not self.commands:
            raise InputError("there is no edit to undo.")
        return replace(self, commands=self.commands[:-1])

    def find(self, text: str, gone: bool = False) -> int:
        """The number of the cluster with this number or name; with ``gone``, of what it became."""
        if text in self.names.values():
            return next(k for k, name in self.names.items() if name == text)
        if text.isascii() and text.isdigit():
            cluster = int(text)
            if cluster in self.clusters:
                return cluster
            if gone and cluster < self.n_clusters:
                return int(self.place[cluster, 0])
        shown = ", ".join(self.title(k) for k in self.clusters[:20])
        more = ", ..." if self.clusters[20:] else ""
        raise InputError(f"there is no cluster {text!r}; there are {shown}{more}.")

    def _and(self, *steps: dict[str, list[Any]]) -> Edits:
        return replace(self, commands=(*self.commands[:-1], (*self.commands[-1], *steps)))

    def _is_split(self, cluster: int) -> bool:
        """Whether a cluster of the fit was split, and the rest of it has its number."""
        first, second = self.place[cluster] if cluster < self.n_clusters else (-1, -1)
        return bool(first == cluster != second)

    def _next(self) -> int:
        return int(self.place.max()) + 1

    def _name(self, cluster: int, name: str) -> None:
        if not name or not name.isprintable() or len(name) > LONGEST_NAME:
            raise InputError(
                f"{name[:40]!r} cannot name a cluster; give 1 to {LONGEST_NAME} characters."
            )
        if name.isascii() and name.isdigit():
            raise InputError(f"the name {name!r} cannot be given: it is a number.")
        self.names[cluster] = name

    def _check_names(self) -> None:
        """Two clusters may have one name within a command, which can so swap names; not after."""
        known: dict[str, int] = {}
        for cluster, name in self.names.items():
            if (other := known.setdefault(name, cluster)) != cluster:
                raise InputError(
                    f"clusters {other} and {cluster} cannot both have the name {name!r}; give one "
                    f"of them another, as in {cluster}=NAME, or merge them with --merge "
                    f"{other},{cluster}."
                )

    def _merge(self, first: int, *others: int) -> None:
        self.place[np.isin(self.place, others)] = first
        known = [self.names.pop(k) for k in others if k in self.names]
        if known:
            self.names.setdefault(first, known[0])

    def _split(self, cluster: int, new: int) -> None:
        rows, _ = np.nonzero(self.place == cluster)
        if len(rows) != 2 or rows[0] != rows[1]:
            merged = len(set(rows)) > 1
            raise InputError(
                f"cluster {cluster} was merged from several; undo that to split one of them."
                if merged
                else f"cluster {cluster} is already half of a fitted cluster; for smaller ones "
                "fit again with a larger K."
            )
        self.place[rows[0], 1] = new


def read_edits(run: Run) -> Edits:
    """The edits of a run, or one line saying why its file cannot be used."""
    path, K = run.folder / EDITS, int(run.record["n_clusters"])
    if not path.is_file():
        return Edits(K)
    where = "as a whole"
    try:
        content = read_json(path, LONGEST_FILE)
        where = "in dcfsc_edits"
        if type(written := content["dcfsc_edits"]) is not int or written < 1:
            raise ValueError("no format")
        if written > FORMAT:
            raise InputError(f"{path} was written by a later dcfsc; upgrade dcfsc.")
        where, edits = "in commands", Edits(K)
        for i, command in enumerate(content["commands"]):
            for j, step in enumerate(command):
                where = f"in commands[{i}][{j}]: {str(step)[:60]}"
                if not _is_step(step, edits):
                    raise ValueError("no step")
                edits._apply(step)
        where = "in commands"
        return Edits(K, tuple(map(tuple, content["commands"])))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from None
    except (ValueError, LookupError, TypeError) as error:  # JSON may say anything
        if isinstance(error, InputError) and where == "in dcfsc_edits":
            raise
        raise InputError(
            f"{path} is damaged {where}; delete it to return to the fitted clusters."
        ) from None


def _is_step(step: Any, edits: Edits) -> bool:
    """Whether ``dcfsc edit`` might write the step after these edits."""
    if not isinstance(step, dict) or len(step) != 1:
        return False
    ((kind, values),) = step.items()
    if kind not in STEPS or not isinstance(values, list) or len(values) < 2:
        return False
    clusters = values if kind == "merge" else values[:1]
    known = all(type(cluster) is int and cluster in edits.clusters for cluster in clusters)
    if kind == "merge":
        return known and len(set(values)) == len(values)
    last = isinstance(values[1], str) if kind == "name" else values[1] == edits._next()
    return known and last and len(values) == 2


def edited_labels(run: Run, edits: Edits) -> np.ndarray:
    if edits.has_splits:
        return edits.place.ravel()[run.details().parts]
    return edits.place[run.labels, 0]


def edited_details(details: Details, edits: Edits) -> Details:
    """Details with the present clusters in place of those of the fit.

    What is drawn of the graph as a whole, its picture, its coupling and its view, stays the fit's.
    """
    if not edits.commands:
        return details
    labels = edits.place.ravel()[details.parts].astype(np.int32)
    clusters, probabilities = _merged(
        np.column_stack([labels, edits.place[details.clusters[:, 1:], 0]]), details.probabilities
    )
    K = int(edits.place.max()) + 1
    confusion, best = matched_classes(details.truth, len(details.class_names), labels, K)
    return replace(
        details,
        labels=labels,
        clusters=clusters,
        probabilities=probabilities,
        confusion=confusion,
        best_class=best,
    )


def matched_classes(
    truth: np.ndarray, n_classes: int, labels: np.ndarray, n_clusters: int
) -> tuple[np.ndarray, np.ndarray]:
    """Confusion (C, K) and the best class of each cluster (K,), or -1; empty without labels."""
    if not len(truth):
        return np.zeros((0, 0), np.int64), np.zeros(0, np.int32)
    flat = np.bincount(truth * n_clusters + labels, minlength=n_classes * n_clusters)
    confusion = flat.reshape(n_classes, n_clusters)
    best = np.full(n_clusters, -1, np.int32)
    best[labels] = metrics.best_map(truth, labels)
    best[best >= n_classes] = -1
    # a partner of which the cluster holds no sample is what the matching had left over
    best[(best >= 0) & (confusion[best, np.arange(n_clusters)] == 0)] = -1
    return confusion, best


def _merged(clusters: np.ndarray, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Memberships (N, m) in which no cluster comes twice: the first has the sum; -1 is none."""
    clusters, probabilities = clusters.astype(np.int32), probabilities.copy()
    for later in range(1, clusters.shape[1]):
        for earlier in range(later):
            same = clusters[:, later] == clusters[:, earlier]
            probabilities[same, earlier] += probabilities[same, later]
            clusters[same, later], probabilities[same, later] = -1, 0.0
    order = np.argsort(-probabilities[:, 1:], axis=1, kind="stable") + 1
    order = np.column_stack([np.zeros(len(order), np.int64), order])
    return tuple(np.take_along_axis(a, order, axis=1) for a in (clusters, probabilities))  # type: ignore[return-value]
