"""Docstrings are written to be read in a terminal; this makes them reStructuredText.

A paragraph set in from the text above it, after an empty line, is a formula or an example and
becomes a literal block; a bar in the text, as in |Z - C Z|, is a bar and no substitution; a name
that ends in an underscore is a name and no link.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

CODE = re.compile(r"(``.*?``|`[^`]*`)")
UNDERLINE = re.compile(r"^(-{3,}|={3,})$")
GOOGLE = re.compile(r"^(Args|Returns|Notes|References|Raises|Examples):$")
FIELD = re.compile(r"^[\w*, \\]+( :.*)?$")


def indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def escaped(line: str) -> str:
    parts = CODE.split(line)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"(?<=\w)_(?!\w)", r"\\_", parts[i].replace("|", "\\|"))
    return "".join(parts)


def plain(lines: list[str]) -> list[str]:
    """The docstring's lines: formulas marked before the first section, text escaped everywhere."""
    result: list[str] = []
    level, in_block, in_section = 0, False, False
    for number, line in enumerate(lines):
        after = lines[number + 1] if number + 1 < len(lines) else ""
        heading = bool(UNDERLINE.match(after.strip()) or GOOGLE.match(line))
        in_section = in_section or heading
        opened = bool(result) and not result[-1].strip()
        if not line.strip():
            result.append(line)
        elif not in_section and indent(line) > level and (opened or in_block):
            result += [line] if in_block else ["::", "", line]
            in_block = True
        elif in_section and indent(line) == 0 and not UNDERLINE.match(line.strip()):
            # Text after a section's fields: two empty lines end the section.
            name = heading or FIELD.match(line)
            names, colon, kind = line.partition(" : ")
            field = names + colon + escaped(kind)
            result += [field] if name or not opened else ["", escaped(line)]
        else:
            result += [""] if in_block and not opened else []
            in_block, level = False, indent(line)
            result.append(escaped(line))
    return result


def attributes(lines: list[str]) -> list[str]:
    """The section "Attributes" as a list: several names may share a line and a type."""
    result: list[str] = []
    inside = False
    for number, line in enumerate(lines):
        after = lines[number + 1] if number + 1 < len(lines) else ""
        if UNDERLINE.match(after.strip()):
            inside = line.strip() == "Attributes"
            # Two empty lines end the section before it.
            result += ["", "", ".. rubric:: Attributes", ""] if inside else [line]
        elif inside and UNDERLINE.match(line.strip()):
            continue
        elif inside and line.strip() and indent(line) == 0:
            names, colon, kind = line.partition(" : ")
            code = ", ".join(f"``{name.strip()}``" for name in names.split(",") if name.strip())
            result.append(f"- {code}{colon and ': '}{kind}")
        elif inside and line.strip():
            result.append(f"  {line.strip()}")
        else:
            result.append(line)
    return result


def convert(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = attributes(plain(lines))
    _PROPERTIES[name] = list(lines)


def restore(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Undo napoleon's reading of "tr H = ...: the degrees of freedom" as a property's type."""
    if what in ("property", "attribute"):
        lines[:] = _PROPERTIES.get(name, lines)


_PROPERTIES: dict[str, list[str]] = {}


def setup(app: Sphinx) -> dict[str, Any]:
    # napoleon has the default priority, 500
    app.connect("autodoc-process-docstring", convert, priority=400)
    app.connect("autodoc-process-docstring", restore, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
