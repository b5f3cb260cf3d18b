"""One-line errors, and parsing of what a person typed."""

from __future__ import annotations

import difflib
import os
import re
import shlex
from collections.abc import Iterable


class DcfscError(Exception):
    """Base of every error that this library raises on purpose."""


class InputError(DcfscError, ValueError):
    """The data, a parameter or a file is unusable; the message is one line and says what to do."""

    def __init__(self, message: object = ""):
        super().__init__(printable(message))


class OptionNeeded(InputError):
    """Input that is usable with more options: ``options``, as the command line has them."""

    def __init__(self, message: str, options: str = ""):
        super().__init__(f"{message} To go on, add {options}." if options else message)
        self.message, self.options = message, options


class DivergenceError(InputError):
    """Training left the range of numbers; going on from its last state would end there again."""


def printable(value: object) -> str:
    """As text; line breaks and control characters, which names of files may have, written out."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def reason(error: BaseException) -> str:
    """The first line of an error's message, at most 200 characters; its type if it has none."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def writable(name: str) -> str:
    """A name as text that any file takes: bytes that are no UTF-8 are written as \\xff."""
    if name.isascii():
        return name
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def without_folders(command: str) -> str:
    """A command line in which absolute paths are cut to their last part."""
    part = f"[/{re.escape(os.sep)}]"
    absolute = re.compile(rf"(^|[=:,])(?:[A-Za-z]:)?{part}(?:[^=:,]*{part})?(?=.)")
    words = (re.sub(f"(?<=.){part}+$", "", word) for word in shlex.split(command))
    return shlex.join(absolute.sub(r"\1", word) for word in words)


def plain_number(text: str) -> float:
    """A number as people write it; Python would also take 1_0.5 and the digits of other scripts."""
    if "_" in text or not text.isascii():
        raise ValueError(f"{text!r} is not a plain number")
    return float(text)


def unknown_name(kind: str, name: object, known: Iterable[str]) -> InputError:
    """The error for a name that is not in ``known``; close names are suggested, all are listed."""
    names = sorted(known)
    close = difflib.get_close_matches(str(name), names, n=2, cutoff=0.5)
    hint = f" Did you mean {' or '.join(repr(c) for c in close)}?" if close else ""
    return InputError(f"unknown {kind} {str(name)!r}.{hint} Known: {', '.join(names)}.")
