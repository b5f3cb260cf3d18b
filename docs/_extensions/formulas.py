"""Formulas in docstrings, which are written to be read in a terminal.

A paragraph set in from the text above it, before the first section, becomes a literal block. A bar
in the text, as in |Z - C Z|, is a bar and no substitution.
"""

from __future__ import annotations

import re
from itertools import zip_longest
from typing import Any

from sphinx.application import Sphinx

CODE = re.compile(r"(``.*?``|`[^`]*`)")
UNDERLINE = re.compile(r"^-{3,}$")


def literal(lines: list[str]) -> list[str]:
    """The docstring's lines, with blocks set in marked by "::" and bars escaped elsewhere."""
    result: list[str] = []
    in_block = in_section = False
    for line, after in zip_longest(lines, lines[1:], fillvalue=""):
        in_section = in_section or bool(UNDERLINE.match(after.strip()))
        is_set_in = line.startswith(" ") and not in_section
        if is_set_in and not in_block and not "".join(result[-1:]).strip():
            result += ["::", ""]
            in_block = True
        elif line.strip() and not is_set_in:
            result += [""] if in_block and result[-1].strip() else []
            in_block = False
        result.append(line if in_block else escaped(line))
    return result


def escaped(line: str) -> str:
    parts = CODE.split(line)
    parts[::2] = [part.replace("|", "\\|") for part in parts[::2]]
    return "".join(parts)


def convert(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = literal(lines)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", convert, priority=400)  # numpydoc has 500
    return {"parallel_read_safe": True, "parallel_write_safe": True}
