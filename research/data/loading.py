"""``load``: a data set of the catalog by its name, or whatever dcfsc itself loads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dcfsc import io
from dcfsc.errors import InputError, unknown_name
from dcfsc.io import Dataset

from .catalog import ENTRIES, names
from .motions import NAME, load_sequence


def load(
    spec: str | Path,
    *,
    download: bool = True,
    **options: Any,
) -> Dataset:
    """Load a data set by its name, or a file or folder as :func:`dcfsc.io.load` does.

    Parameters
    ----------
    spec : str or Path
        One of ``names()``, a sequence of Hopkins-155 as in "hopkins155/cars1", or a path. A name
        goes before a file of that name: write ./orl for a folder orl.
    download : bool
        False to stay off the network.
    **options
        For "digits", "synthetic" and paths those of :func:`dcfsc.io.load`.
    """
    name = str(spec)
    family, _, sequence = name.partition("/")
    if name not in ENTRIES and not (family == NAME and sequence):
        if name not in names() and not Path(spec).expanduser().exists():
            raise unknown_name("dataset", name, names())
        return io.load(spec, **options)
    for option in options:
        raise InputError(f"{name}: unknown option {option!r}; it takes download.")
    try:
        return ENTRIES[name].load(download) if name in ENTRIES else load_sequence(sequence)
    except OSError as error:
        where = error.filename or name
        raise InputError(f"cannot read {where}: {error.strerror or error}.") from None
