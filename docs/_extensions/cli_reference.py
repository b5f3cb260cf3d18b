"""The directive ``cli-reference``: a section for each command of dcfsc, from its own help."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx
from typer import Context
from typer.main import get_command

from dcfsc.cli import app as application


def records(title: str, rows: list[tuple[str, str]]) -> list[nodes.Node]:
    """A heading and a definition list of (name, help)."""
    if not rows:
        return []
    entries = nodes.definition_list()
    for name, text in rows:
        term = nodes.term("", "", nodes.literal(text=name))
        explained = nodes.definition("", nodes.paragraph(text=text or "-"))
        entries += nodes.definition_list_item("", term, explained)
    return [nodes.rubric(text=title), entries]


def section(name: str, command: Any, parent: Any) -> nodes.section:
    """One command: its usage, what it does, its arguments and its options."""
    context = Context(command, info_name=name, parent=parent)
    made = nodes.section(ids=[f"dcfsc-{name}"], names=[f"dcfsc {name}"])
    made += nodes.title(text=f"dcfsc {name}")
    usage = command.get_usage(context).removeprefix("Usage: ")
    made += nodes.literal_block(usage, usage, language="text")
    for paragraph in (command.help or "").split("\n\n"):
        made += nodes.paragraph(text=" ".join(paragraph.split()))
    kinds: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        is_argument = parameter.param_type_name == "argument"
        if record is not None:
            kinds["Arguments" if is_argument else "Options"].append(record)
    for title, rows in kinds.items():
        made += records(title, rows)
    return made


class CommandLineReference(Directive):
    def run(self) -> list[nodes.Node]:
        group = get_command(application)
        parent = Context(group, info_name="dcfsc")
        return [section(name, command, parent) for name, command in group.commands.items()]  # type: ignore[attr-defined]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("cli-reference", CommandLineReference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
