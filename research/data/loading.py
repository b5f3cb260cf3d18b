"""``load``: a data set of the catalog by its name, or whatever dcfsc itself loads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dcfsc import io
from dcfsc.errors import InputError, unknown_name
from dcfsc.io import Dataset
from dcfsc.io.images import Reading, check_size, resize

from .catalog import ENTRIES, names
from .motions import HOPKINS155, load_sequence

NO_LABELS = "none"


def load(
    spec: str | Path,
    *,
    labels: str | None = None,
    size: tuple[int, int] | None = None,
    **options: Any,
) -> Dataset:
    """Load a data set by its name, or a file or folder as :func:`dcfsc.io.load` does.

    Parameters
    ----------
    spec : str or Path
        One of ``names()``, a sequence of Hopkins-155 as in "hopkins155/cars1", or a path. A name
        goes before a file of that name: write ./orl for a folder orl. The original .mat files of
        the catalog are read as such: their layout says what guessing could not.
    labels : str, optional
        For paths as in :func:`dcfsc.io.load`; "none" for no labels.
    size : (height, width), optional
        Bring images to this size (bicubic).
    **options
        ``download=False`` to stay off the network; for "digits", "synthetic" and paths those of
        :func:`dcfsc.io.load`.
    """
    name = str(spec)
    if name.startswith(f"{HOPKINS155.name}/") or name in ENTRIES:
        data = _load_named(name, labels, check_size(size), options)
    elif (original := _original(Path(spec).expanduser())) and not (labels or size or options):
        data = original
    elif name not in names() and not Path(spec).expanduser().exists():
        raise unknown_name("dataset", name, names())
    else:
        options.pop("download", None)  # nothing else is downloaded
        data = io.load(spec, labels=labels, size=size, **options)
    return replace(data, y=None, label_names=None) if labels == NO_LABELS else data


def _load_named(
    name: str, labels: str | None, size: tuple[int, int] | None, options: dict[str, Any]
) -> Dataset:
    for option in options.keys() - {"download"}:
        raise InputError(f"{name}: unknown option {option!r}; it takes download.")
    if name not in ENTRIES and (labels not in (None, NO_LABELS) or size is not None):
        raise InputError(f"{name} has labels of its own and no images; leave labels and size out.")
    if labels not in (None, NO_LABELS):
        raise InputError(f"labels={labels!r} is for files; the dataset {name!r} has its own.")
    try:
        data = (
            ENTRIES[name].load(**options)
            if name in ENTRIES
            else load_sequence(name.partition("/")[2])
        )
    except OSError as error:
        where = error.filename or name
        raise InputError(f"cannot read {where}: {error.strerror or error}.") from None
    if size is None:
        return data
    return replace(data, X=resize(data.X, size, name), reading=Reading(size))


def _original(path: Path) -> Dataset | None:
    """The data set that a file of its release holds; None for any other file."""
    for entry in ENTRIES.values():
        for form in entry.forms:
            if form.files.lower() == path.name.lower() and path.suffix.lower() == ".mat":
                data = form.read(path)
                return replace(data, notes=entry.notes(data))
    return None
