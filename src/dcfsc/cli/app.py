"""The command ``dcfsc`` and the commands it has."""

from __future__ import annotations

import os
import sys

import typer

from dcfsc._version import __version__
from dcfsc.cli import compare, doctor, edit, export, fit, predict, report, suggest
from dcfsc.cli.errors import Command, CommandLine

app = typer.Typer(
    cls=CommandLine,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich" if sys.stdout.isatty() else None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"dcfsc {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def commands(
    ctx: typer.Context,
    version: bool = typer.Option(
        False,
        "--version",
        callback=_print_version,
        is_eager=True,
        help="Print the version and stop.",
    ),
) -> None:
    """Sort images, texts, tables and feature vectors into groups without labels.

    Start with 'dcfsc fit my_images/ -k 12', then open the report that it names.
    """
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


for command in (
    fit.fit,
    suggest.suggest_k,
    predict.predict,
    report.report,
    edit.edit,
    compare.compare,
    export.export,
    doctor.doctor,
):
    app.command(cls=Command)(command)
app.command("name", cls=Command, hidden=True)(edit.edit)  # what it was called before version 2


def main() -> None:
    # Threads that spin while they wait cost a multiple of the time where anything else runs.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    app(prog_name="dcfsc")
