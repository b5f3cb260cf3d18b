"""How a text table is written: its encoding, separator and header, as its first rows show."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from dcfsc.errors import InputError, plain_number
from dcfsc.io.arrays import LABEL_KEYS
from dcfsc.io.dataset import unreadable
from dcfsc.io.table_columns import Wanted

COLUMNS = 200_000  # Arrow takes about 3 KiB for a column, however short
SEPARATORS = ";\t,|^~\x01"  # a semicolon first: files that use it may have decimal commas
ALONE = "\x1f"  # separates nothing: a table of one column
LOOKED_AT = 20  # rows that tell the separator
MISSING = frozenset(("", "na", "n/a", "nan", "null"))
MARKS = frozenset(("none", "missing", "unknown", "nil", "#n/a", "undefined", "?", "-", "--", "*"))
NO_NAMES = MISSING | MARKS  # of a column
COMMA = r"^[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]+)?$"


@dataclass(frozen=True)
class Layout:
    """How a text table is written; without a separator, runs of blanks separate the cells.

    ``data_line`` is the number of lines before the data, ``first_row`` the number that a
    spreadsheet gives to their first row.
    """

    source: Path
    content: Any  # a path, or the text of a workbook
    encoding: str
    separator: str | None
    columns: list[str]
    has_header: bool
    data_line: int
    first_row: int
    notes: Sequence[str]

    @property
    def is_open(self) -> bool:
        """Whether the text does not end in a quote, as it has to if its last cell has some."""
        text = self.content
        if isinstance(text, Path):
            with text.open("rb") as file:
                file.seek(max(0, text.stat().st_size - 99))
                text = file.read()
        return not text.rstrip(b" \t\r\n\0").endswith(b'"')


def layout_of(
    source: Path, content: Any, wanted: Wanted, header: bool | None, *, blanks: bool = True
) -> Layout:
    """How a text table is written, as its first rows show; ``content`` is a path, or UTF-8 text."""
    encoding = "utf-8-sig"
    if isinstance(content, Path):
        with content.open("rb") as file:
            mark = file.read(2)
        encoding = "utf-16" if mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else encoding
    with lines_of(source, content, encoding) as lines:
        head = list(islice((line for line in lines if line.strip()), LOOKED_AT))
    if not head:
        raise InputError(f"{source} is empty.")
    said = re.fullmatch(r'"?sep=(.)"?\s*', head[0])  # what Excel writes and reads
    separator = said[1] if said else _separator(source, head, blanks)
    width = 1 + head[bool(said)].count(separator or " ") if len(head) > bool(said) else 1
    if width > COLUMNS:
        raise InputError(
            f"{source} has some {width} columns, more than {COLUMNS}; save it as .npy, or check "
            "its line breaks."
        )
    with lines_of(source, content, encoding) as lines:
        rows = _rows(lines, separator)
        skipped = next(rows)[:2] if said else (0, 0)
        line, row, first = next(rows, (0, 0, []))
        second = next(rows, (0, 0, None))[2]
    if not first:
        raise InputError(f"{source} is empty.")
    given = header
    if header is None:
        header = _is_header(first, second, wanted.labels, separator)
    if header and second is None:
        raise InputError(f"{source} has a header and no rows.")
    if header and second is not None and len(second) == len(first) + 1 and second[-1]:
        first = ["", *first]  # R gives the row names no header
    columns = first if header else [str(i) for i in range(len(first))]
    for name in (wanted.labels, wanted.id, *(LABEL_KEYS if wanted.labels is None else ())):
        if name is not None and columns.count(name) > 1:
            raise InputError(f"{source} has several columns {name!r}; rename them.")
    notes = []
    if header and given is None and any(map(_is_number, columns)):
        shown = ", ".join(columns[:3]) + (", ..." if len(columns) > 3 else "")
        notes.append(f"the first row ({shown}) was read as a header")
    if twice := sorted(name for name, times in Counter(columns).items() if name and times > 1):
        notes.append(f"names of several columns were numbered: {twice[0]} and {twice[0]}.1")
    before, place = (line, row) if header else skipped
    return Layout(source, content, encoding, separator, columns, header, before, place + 1, notes)


def _separator(path: Path, head: Sequence[str], blanks: bool) -> str | None:
    """The mark that splits the first rows into equally many cells; None for blanks."""
    if path.suffix.lower() == ".tsv":
        return "\t"
    bare = re.sub(r'"[^"]*"', "", head[0])
    marks = [mark for mark in SEPARATORS if mark in bare]
    for mark in marks:
        widths = [len(cells) for cells in csv.reader(head, delimiter=mark)][: LOOKED_AT - 1]
        if len({*widths}) == 1:
            return mark
    widths = [len(line.split()) for line in head]
    if blanks and widths[0] > 1 and (len({*widths}) == 1 or not marks):
        return None
    return marks[0] if marks else ALONE


def _is_header(
    first: Sequence[str], second: Sequence[str] | None, labels: str | None, separator: str | None
) -> bool:
    if separator != ",":
        first = [re.sub(COMMA, "1.5", cell) for cell in first]
        second = second and [re.sub(COMMA, "1.5", cell) for cell in second]
    text = [c for c in first if not _is_number(c)]
    if labels in text:
        return True
    if len(text) == len(first):
        return any(c.lower() not in NO_NAMES and c.strip("?-*.") for c in text)
    named = list(first[1:] if first[0] == "" else first)
    if len(named) >= 3 and named == [str(i) for i in range(len(named))]:
        return True  # a table of numbers as pandas writes it when its columns have no names
    # beside numbers only words are names: another odd cell is a value of a table without a header
    numbers = [c for c in first if _is_number(c)]
    whole = all(c.isdecimal() for c in numbers) and len({*numbers}) == len(numbers)
    words = all(re.match(r"[^\W\d]", c) and c.lower() not in NO_NAMES for c in text if c)
    if not whole or not words or second is None:
        return False
    # a y above text may well be a yes
    return any(
        c and (_is_number(d) or (c.lower() in LABEL_KEYS and c.lower() != "y"))
        for c, d in zip(first, second, strict=False)
        if not _is_number(c)
    )


def _is_number(cell: str) -> bool:
    try:
        plain_number(cell)
    except ValueError:
        return cell != "" and cell.lower() in MISSING
    return True


def _rows(lines: Iterator[str], separator: str | None) -> Iterator[tuple[int, int, list[str]]]:
    """The rows that are not empty: the line in which each ends, its number, and its cells."""
    if separator is None:
        lines = ("\t".join(line.split()) for line in lines)
    reader = csv.reader(lines, delimiter=separator or "\t")
    for row, cells in enumerate(reader, start=1):
        if any(cell.strip() for cell in cells):
            yield reader.line_num, row, [cell.strip() for cell in cells]


@contextmanager
def lines_of(source: Path, content: Any, encoding: str) -> Iterator[Iterator[str]]:
    """The lines of a text; bytes that are none are one clear error."""
    binary = content.open("rb") if isinstance(content, Path) else io.BytesIO(content)
    with io.TextIOWrapper(binary, encoding) as file:
        try:
            yield file
        except UnicodeError:
            raise not_unicode(source) from None
        except csv.Error as error:
            raise unreadable(source, error) from None


def not_unicode(source: Path) -> InputError:
    return InputError(
        f"{source} is not UTF-8 text; save it as UTF-8, which spreadsheets call CSV UTF-8."
    )
