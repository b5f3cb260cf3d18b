"""The datasets known by name, from sets.toml, and the forms that their files come in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dcfsc.io import Dataset

from . import motions, originals
from .registry import SETS, Entry, Form, file_named, idx_pairs, tree_of


def _eyaleb_notes(data: Dataset) -> str:
    kept = "18 images that the release marks as corrupted are kept, as in the DSC benchmark"
    return data.notes or (kept if len(data) == 2432 else "")


def _coil_notes(data: Dataset) -> str:
    missing = originals.missing_views(data.y) if data.y is not None else ""
    if missing and len(data) == 7168:
        # the collection this count identifies; object 1's views exist in it only in reduced form
        missing += "; object 1's views came already reduced"
    return missing


_FINDERS: dict[str, Callable[[Sequence[Path]], Any]] = {
    "yale": tree_of(originals.YALE),
    "coil": tree_of(originals.COIL),
    "idx": idx_pairs,
    # in a folder of their own: in the data root they may be MNIST's
    "idx below": lambda places: idx_pairs(places[1:]),
    "cifar": file_named(originals.CIFAR_FILES[0]),
}


def _form(files: str, read: str, find: str | None = None) -> Form:
    """A form as sets.toml has it; a file is found by its name unless it says how."""
    finder = _FINDERS[find] if find else file_named(files)
    return Form(files, finder, getattr(originals, f"read_{read}"))


FORMS = {
    name: tuple(_form(**form) for form in facts.get("forms", ())) for name, facts in SETS.items()
}
FORMS["hopkins155"] = motions.FORMS
_NOTES = {"eyaleb": _eyaleb_notes, "coil100": _coil_notes}
_ALL = {name: Entry(name, forms=FORMS[name], notes=_NOTES.get(name, Entry.notes)) for name in SETS}
ENTRIES = {name: entry for name, entry in _ALL.items() if entry.forms}


def describe() -> list[Entry]:
    return list(_ALL.values())


def names() -> list[str]:
    return list(_ALL)
