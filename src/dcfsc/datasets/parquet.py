"""Parquet tables: one row a sample."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dcfsc.datasets.dataset import Dataset, encode_labels
from dcfsc.datasets.tables import label_column
from dcfsc.errors import InputError


def load_parquet(path: Path, *, labels: str | None = None) -> Dataset:
    """A Parquet table: numeric columns, or one column whose cells are vectors of one length."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise InputError(
            f"reading {path} needs the package pyarrow; install dcfsc[parquet]."
        ) from None
    try:
        table = pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"cannot read {path}: {str(error).splitlines()[0]}.") from None
    # the row names that pandas stores beside the columns
    columns = [c for c in table.column_names if not re.fullmatch(r"__index_level_\d+__", c)]
    label = label_column(columns, labels, path)
    features = [c for i, c in enumerate(columns) if i != label]
    if not features or table.num_rows == 0:
        raise InputError(f"{path} holds {table.num_rows} rows of {len(features)} feature columns.")
    if len(features) == 1 and pa.types.is_nested(table.schema.field(features[0]).type):
        X = _vectors(table.column(features[0]), features[0], path)
    else:
        X = np.empty((table.num_rows, len(features)), _common_type(table, features, path))
        for j, name in enumerate(features):
            X[:, j] = table.column(name).to_numpy()
    if label is None:
        return Dataset(path.stem, X)
    values = table.column(columns[label])
    if values.null_count:
        raise InputError(f"{path}: column {columns[label]!r} lacks {values.null_count} labels.")
    listed = values.to_pylist()
    text = any(isinstance(v, str) for v in listed)
    y, names = encode_labels(np.array([str(v) for v in listed] if text else listed), path)
    return Dataset(
        path.stem, X, y, label_names=names, notes=f"labels from column {columns[label]!r}"
    )


def _common_type(table: Any, features: Sequence[str], path: Path) -> np.dtype:
    """The narrowest type that holds every feature column (float if a cell is missing)."""
    import pyarrow.types as pt

    kinds = []
    for name in features:
        column = table.column(name)
        kind = column.type
        if not (pt.is_integer(kind) or pt.is_floating(kind) or pt.is_boolean(kind)):
            value = str(column[0].as_py())[:40]
            raise InputError(
                f"{path}, row 0, column {name!r}: {value!r} is not a number; if the column holds "
                f"labels, pass labels={name!r} (--labels {name})."
            )
        stored = np.uint8 if pt.is_boolean(kind) else kind.to_pandas_dtype()
        kinds.append(np.result_type(stored, np.float32) if column.null_count else stored)
    return np.result_type(*kinds)


def _vectors(column: Any, name: str, path: Path) -> np.ndarray:
    """A column of equally long lists of numbers as (n, length)."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.list_value_length(column).to_numpy() if pa.types.is_list(column.type) else None
    if lengths is None and pa.types.is_fixed_size_list(column.type):
        lengths = np.full(len(column), column.type.list_size)
    if lengths is None or not _is_numeric(column.type.value_type):
        raise InputError(f"{path}, column {name!r}: {column.type} is not a vector of numbers.")
    if column.null_count or len(np.unique(lengths)) != 1:
        raise InputError(f"{path}, column {name!r}: vectors differ in length or are missing.")
    return pc.list_flatten(column).to_numpy().reshape(len(column), int(lengths[0]))


def _is_numeric(kind: Any) -> bool:
    import pyarrow.types as pt

    return bool(pt.is_integer(kind) or pt.is_floating(kind))
