"""The commands of research, such as ``python -m research reproduce orl``.

They run in a checkout, from its top folder.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import typer

from dcfsc.cli import options, output
from dcfsc.cli.errors import Command, CommandLine
from dcfsc.cli.options import option, switch
from dcfsc.errors import InputError

app = typer.Typer(
    cls=CommandLine,
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="rich" if sys.stdout.isatty() else None,
    pretty_exceptions_enable=False,
    help="Compute the tables and figures of the paper, and find the data sets they need.",
)


@app.command(cls=Command)
def reproduce(
    experiment: str = typer.Argument(
        metavar="EXPERIMENT",
        help="eyaleb, orl, coil100, hopkins155, lambda, parameters, memory, views, or smoke (a "
        "minute, no data).",
    ),
    methods: str | None = option("Only these methods, separated by commas.", "A,B"),
    trials: int | None = typer.Option(None, min=1, metavar="N", help="Number of seeds per cell."),
    clusters: str | None = option("Only these numbers of people (eyaleb).", "K,K"),
    datasets: str | None = option("Only these datasets (views).", "A,B"),
    out: Path = option("Folder of the results.", "DIR", default=Path("results")),
    device: str = options.DEVICE,
    dry_run: bool = switch("--dry-run", "Print what would run and how long it took last time."),
    force: bool = switch("--force", "Compute finished cells again."),
    jobs: int = typer.Option(
        1, min=1, metavar="N", help="Number of processes; they share the GPU."
    ),
    quiet: bool = options.QUIET,
) -> None:
    """Compute a table or figure of the paper. A second call computes only what is missing."""
    from dcfsc.files import write_errors
    from research import experiments

    with write_errors(out):
        experiments.reproduce(
            experiment,
            out=out,
            methods=_names(methods),
            datasets=_names(datasets),
            trials=trials,
            clusters=None if clusters is None else _whole_numbers("--clusters", clusters),
            device=device,
            dry_run=dry_run,
            force=force,
            jobs=jobs,
            report=(lambda line: None) if quiet else output.say,
        )


@app.command(cls=Command)
def datasets() -> None:
    """List the datasets that research knows by name."""
    from research.data import data_root, describe

    rows = []
    for entry in describe():
        facts, location = entry.facts, entry.location
        where = location or "downloaded when first used"
        if location is None and not entry.downloads:
            where = f"put {' or '.join(entry.files)} under the data root"
        number = f"{facts['n']:,}" if "n" in facts else "any"
        shape = " x ".join(map(str, facts["shape"])) if "shape" in facts else "any"
        here = "no" if location is None else "yes"
        rows.append((entry.name, number, shape, str(facts.get("classes", "any")), here, where))
    output.print_table(("name", "samples", "shape", "classes", "here", "where"), rows)
    output.say(f"data root: {data_root()} (set it with DCFSC_DATA)")


@app.command(
    cls=Command,
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def bench(
    context: typer.Context,
    name: str = typer.Argument(metavar="NAME", help="A benchmark, or cpu or cuda."),
) -> None:
    """Run a benchmark, or with cpu or cuda all of that machine, as commands.toml has them.

    ``bench NAME --help`` lists the options of one, among them ``--json FILE``; after cpu and cuda
    stand the names of the files that are wanted, if not all.
    """
    from research.benchmarks import commands

    if name in commands.MACHINES:
        raise typer.Exit(commands.run_all(name, context.args))
    commands.run_one(name, context.args)


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


def _whole_numbers(option: str, text: str) -> list[int]:
    if not re.fullmatch(r"\s*-?[0-9]{1,9}\s*(,\s*-?[0-9]{1,9}\s*)*", text):
        raise InputError(f"{option} takes whole numbers, as in 10,20; got {text[:40]!r}.")
    return [int(part) for part in text.split(",")]


def main() -> None:
    # Threads that spin while they wait cost a multiple of the time where anything else runs.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    app(prog_name="python -m research")


if __name__ == "__main__":
    main()
