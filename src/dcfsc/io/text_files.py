"""Text files, .txt: a text a line."""

from __future__ import annotations

from pathlib import Path

from dcfsc.errors import InputError, reason
from dcfsc.io.dataset import Dataset
from dcfsc.io.streamed import require_room
from dcfsc.io.texts import text_array


def load_txt(path: Path) -> Dataset:
    """Read a text a line, in UTF-8, or UTF-16 with its mark; blank lines are left out.

    Where there were some, the samples' ids are the numbers of their lines, from 1.
    """
    require_room(str(path), path.stat().st_size)
    with open(path, "rb") as file:
        marked = file.read(2) in (b"\xff\xfe", b"\xfe\xff")
    encoding = "UTF-16" if marked else "UTF-8"
    try:
        with open(path, encoding=encoding if marked else "utf-8-sig") as file:
            lines = [line.rstrip("\n") for line in file]
    except UnicodeError as error:
        raise InputError(f"{path} is not {encoding} ({reason(error)}); save it as UTF-8.") from None
    kept = [i for i, line in enumerate(lines) if line.strip()]
    if not kept:
        raise InputError(f"{path} holds no texts.")
    X, blank = text_array([lines[i] for i in kept]), len(lines) - len(kept)
    if not blank:
        return Dataset(path.stem, X)
    notes = f"{blank:,} of {len(lines):,} lines are blank and were left out"
    return Dataset(path.stem, X, notes=notes, ids=[str(i + 1) for i in kept])
