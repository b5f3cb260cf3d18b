"""The command reproduce."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from dcfsc.cli import output
from dcfsc.cli.options import DeviceOption, QuietOption
from dcfsc.errors import InputError


def reproduce(
    experiment: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT",
            help="eyaleb, orl, coil100, hopkins155, lambda, parameters, memory, views, or smoke (a "
            "minute, no data).",
        ),
    ],
    methods: Annotated[
        str | None, typer.Option(metavar="A,B", help="Only these methods, separated by commas.")
    ] = None,
    trials: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Number of seeds per cell.")
    ] = None,
    clusters: Annotated[
        str | None, typer.Option(metavar="K,K", help="Only these numbers of people (eyaleb).")
    ] = None,
    datasets: Annotated[
        str | None, typer.Option(metavar="A,B", help="Only these datasets (views).")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the results.")] = Path(
        "results"
    ),
    device: DeviceOption = "auto",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would run and how long it took last time.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Compute finished cells again.")] = False,
    jobs: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of processes; they share the GPU.")
    ] = 1,
    shard: Annotated[
        str, typer.Option(metavar="I/N", help="Compute only part I of N, counted from 0.")
    ] = "0/1",
    quiet: QuietOption = False,
) -> None:
    """Compute a table or figure of the paper. A second call computes only what is missing."""
    from dcfsc import experiments
    from dcfsc.runs.life import write_errors

    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", shard.strip())
    if match is None:
        raise InputError(f"--shard takes I/N, as in 0/4; got {shard[:40]!r}.")
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
            shard=(int(match[1]), int(match[2])),
            jobs=jobs,
            report=(lambda line: None) if quiet else output.say,
        )


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


def _whole_numbers(option: str, text: str) -> list[int]:
    if not re.fullmatch(r"\s*-?[0-9]{1,9}\s*(,\s*-?[0-9]{1,9}\s*)*", text):
        raise InputError(f"{option} takes whole numbers, as in 10,20; got {text[:40]!r}.")
    return [int(part) for part in text.split(",")]
