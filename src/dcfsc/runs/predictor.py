"""A run as a function: new samples in, their clusters out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.errors import InputError
from dcfsc.estimators.encoder_features import TextEncoderFeatures
from dcfsc.estimators.registry import load_model
from dcfsc.estimators.validation import as_numpy
from dcfsc.io import Streamed, check_finite
from dcfsc.io.image_stream import StreamedImages
from dcfsc.io.images import ImageSource, Reading
from dcfsc.io.table_reading import TableReading, columns_named, is_numeric, is_vector
from dcfsc.io.texts import text_array
from dcfsc.machine import resolve_device

from .edits import Edits, read_edits
from .folder import Run, read_run
from .life import FEATURES, MODEL
from .ranges import far_columns
from .record import reading_of

ROW = "dcfsc row"  # the column that numbers the rows of a table while it is labeled
BLOCK_ROWS = 1 << 14  # vectors that are labeled together


@dataclass(frozen=True, eq=False)
class Predictions:
    """The clusters of samples.

    Attributes
    ----------
    id : sequence or None
        What names each sample: an id, or the path of an image.
    cluster : ndarray (n,)
    name : ndarray (n,)
        The names of the clusters; their numbers as text where they have none.
    confidence : ndarray (n,)
        The probability of each sample's cluster.
    next_best : ndarray (n,)
        The likeliest other cluster; -1 if there is none.
    """

    id: Any
    cluster: np.ndarray
    name: np.ndarray
    confidence: np.ndarray
    next_best: np.ndarray

    def __len__(self) -> int:
        return len(self.cluster)

    @property
    def columns(self) -> dict[str, Any]:
        """The columns by name, without ids where there are none."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


class Predictor:
    """The clusters of new samples by the model of a run, as ``dcfsc predict`` gives them.

    The run is loaded once, with its merged, split and named clusters and with its reading of
    columns or images. Nothing is written. A copy in another process, by pickle, loads the run
    again from the same path.

    Parameters
    ----------
    run : path
        The folder of a run.
    device : "auto", "cpu", "cuda", ...

    Examples
    --------
    >>> import dcfsc
    >>> predictor = dcfsc.Predictor("runs/digits-closed-form")  # doctest: +SKIP
    >>> predictor(dcfsc.io.load("digits").X[:3]).cluster  # doctest: +SKIP
    array([4, 7, 2])
    """

    def __init__(self, run: Run | str | os.PathLike[str], *, device: str = "auto"):
        resolve_device(device)
        saved = self.run = run if isinstance(run, Run) else read_run(run)
        self.path, self.device = os.path.abspath(saved.folder), device
        check_model(saved)
        self.edits, self.reading = read_edits(saved), reading_of(saved.record)
        self._parts = saved.details().parts if self.edits.has_splits else None
        self._transformer, self._model = load_models(saved, device)
        first = self._model if self._transformer is None else self._transformer
        self.of_texts = isinstance(first, TextEncoderFeatures)
        # columns are put in order here, not checked by scikit-learn
        self.feature_names: Sequence[str] | None = vars(first).pop("feature_names_in_", None)
        self._ranges, self._warned = saved.record["data"].get("ranges"), False
        titles = [self.edits.title(k) for k in range(int(self.edits.place.max()) + 1)]
        self._titles = np.array(titles, dtype=object)

    def __reduce__(self) -> Any:
        return _again, (self.path, self.device)

    def __repr__(self) -> str:
        return f"Predictor({self.path!r})"

    def __call__(self, data: Any) -> Any:
        """The clusters of samples: id, cluster, name, confidence and next best.

        Parameters
        ----------
        data : pyarrow table or record batch, pandas data frame, array, or list
            The list is one of image files, or of texts if the run is of texts.

        Returns
        -------
        A pyarrow table or a data frame, as the data, or for others :class:`Predictions`. Rows with
        missing values are left out if the fit left them out.
        """
        if np.isscalar(data) or isinstance(data, os.PathLike):
            raise InputError(
                "give a table, an array or a list of image files, not one path or number."
            )
        kind = type(data).__module__.partition(".")[0]
        if kind == "pyarrow":
            return self._of_table(data)
        if kind == "pandas":
            return self._of_frame(data)
        if self.of_texts:
            return self.label(text_array(data))
        if isinstance(data, list | tuple) and all(isinstance(p, str | os.PathLike) for p in data):
            if not isinstance(self.reading, Reading):
                raise InputError(f"the run {self.path} is not of image files.")
            sources = [ImageSource.file(Path(path)) for path in data]
            images = StreamedImages("images", sources, self.reading)
            return self.label(images, ids=[str(path) for path in data])
        if kind == "torch":
            data = as_numpy(data)
        return self.label(data if isinstance(data, Streamed) else np.asarray(data))

    def label(self, X: Any, name: str = "X", ids: Any = None) -> Predictions:
        """The clusters of the samples X (n, ...), vectors a block at a time."""
        if len(X) == 0:
            none = np.zeros(0, np.int64)
            return Predictions(ids, none, self._titles[none], np.zeros(0), none)
        if not self.of_texts:
            check_finite(X, name)
        step = BLOCK_ROWS if X.ndim == 2 else len(X)
        parts = []
        for start in range(0, len(X), step):
            block = X if step >= len(X) else X[start : start + step]
            if X.ndim == 2:
                self._check_ranges(block, name)
            parts.append(self._label(block))
        cluster, confidence, next_best = map(np.concatenate, zip(*parts, strict=True))
        return Predictions(ids, cluster, self._titles[cluster], confidence, next_best)

    def _label(self, X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Clusters, their probabilities, and the likeliest other clusters (n,)."""
        if self._transformer is not None:
            X = self._transformer.transform(X)
        p = self._model.predict_proba(X)
        if self.edits.commands:
            p = edited_probabilities(p, self.edits, self._second_shares(X))
        labels, rows = p.argmax(axis=1), np.arange(len(p))
        confidence = p[rows, labels]
        p[:, np.setdiff1d(np.arange(p.shape[1]), self.edits.clusters)] = -1.0
        p[rows, labels] = -1.0
        next_best = p.argmax(axis=1)
        next_best[p[rows, next_best] < 0] = -1  # there is no other cluster
        return labels, confidence, next_best

    def _second_shares(self, X: Any) -> np.ndarray:
        """The share (n, K) of the votes for each cluster that its second half has."""
        K = self._model.n_clusters_
        if self._parts is None:
            return np.zeros((len(X), K))
        votes = self._model.votes(X, self._parts.astype(np.int64), 2 * K).reshape(-1, K, 2)
        total = votes.sum(axis=2)
        return np.where(total > 0, votes[:, :, 1] / np.where(total > 0, total, 1.0), 0.5)

    # Tables ------------------------------------------------------------------------------------

    def labeled(self, table: Any, source: str) -> tuple[Any, Predictions]:
        """The rows of a table of Arrow that have no gaps, and their clusters."""
        reading = self.reading_for(table.schema)
        table = reading.complete(table, source)
        has_ids = reading.id is not None and reading.id in table.schema.names
        ids = table.column(reading.id) if has_ids else None
        return table, self.label(reading.rows(table, source), source, ids)

    def _of_table(self, table: Any) -> Any:
        import pyarrow as pa

        return pa.table(self.labeled(table, "the table")[1].columns)

    def _of_frame(self, frame: Any) -> Any:
        import pyarrow as pa

        table = pa.Table.from_pandas(frame, preserve_index=False)
        rows = pa.array(np.arange(len(frame)))
        kept, found = self.labeled(table.append_column(ROW, rows), "the frame")
        index = frame.index[np.asarray(kept.column(ROW))]
        return pa.table(found.columns).to_pandas().set_index(index)

    def reading_for(self, schema: Any) -> TableReading:
        """How to read a table: as the run's, or its vectors, or its columns of numbers."""
        if isinstance(self.reading, TableReading):
            return self.reading
        named = next((f.name for f in schema if f.name == "id" and not is_numeric(f.type)), None)
        if self.feature_names is not None:
            return TableReading(tuple(self.feature_names), id=named)
        lists = [field.name for field in schema if is_vector(field.type)]
        if len(lists) == 1:
            return TableReading(vector=lists[0], id=named)
        return TableReading(tuple(f.name for f in schema if is_numeric(f.type)), id=named)

    def _check_ranges(self, X: Any, name: str) -> None:
        """Warn, once, of columns whose values lie far outside those of the fit."""
        if self._ranges is None or self._warned:
            return
        far = far_columns(self._ranges, X)
        if len(far):
            self._warned = True
            names: Any = self.feature_names
            if names is None and isinstance(self.reading, TableReading):
                names = self.reading.features or None
            columns = [str(j) if names is None else str(names[j]) for j in far]
            warnings.warn(
                f"{name}: {columns_named(columns)} of {X.shape[1]} have values far outside those "
                "of the fit; is it another unit, or another encoder?",
                UserWarning,
                stacklevel=4,
            )


def _again(path: str, device: str) -> Predictor:
    return Predictor(path, device=device)


def check_model(saved: Run) -> None:
    if not saved.record["model"]:
        raise InputError(
            f"the method {saved.record['method']!r} of the run {saved.folder} labels only the "
            "samples it was fitted on; fit the new samples, or use a method with a model, such as "
            "closed-form or dcfsc."
        )


def load_models(saved: Run, device: Any) -> tuple[Any, Any]:
    """The transformer, or None, and the estimator of a run."""
    model = load_model(saved.file(MODEL), device=device)
    if not saved.record.get("features"):
        return None, model
    return load_model(saved.file(FEATURES), device=device), model


def edited_probabilities(p: np.ndarray, edits: Edits, second: np.ndarray) -> np.ndarray:
    """Probabilities of the present clusters from those of the fit, p (n, K).

    Merged clusters have the sum; of a cluster that was split, the share ``second`` (n, K) goes to
    its second half.
    """
    present = np.zeros((len(p), int(edits.place.max()) + 1))
    for cluster, (first, other) in enumerate(edits.place):
        share = second[:, cluster] if first != other else 0.0
        present[:, first] += p[:, cluster] * (1.0 - share)
        present[:, other] += p[:, cluster] * share
    return present
