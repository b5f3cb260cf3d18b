"""The command compare."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from dcfsc.cli import options, output
from dcfsc.cli.options import option

MOST = 12  # groups of moved samples that are printed


def compare(
    first: Path = typer.Argument(metavar="RUN", help="The folder of a run."),
    second: Path = typer.Argument(metavar="RUN", help="Another run on the same samples."),
    out: Path | None = option("Also write a page.", "FILE", shown="no page"),
    overwrite: bool = options.OVERWRITE,
    quiet: bool = options.QUIET,
    as_json: bool = options.JSON,
) -> None:
    """Compare two runs on the same samples.

    Shows how well they agree, which samples moved, and which run is better: the one with less error
    if there are labels, else the more stable one, else the more confident one.
    """
    from dcfsc.runs.compare import compare_runs

    result = compare_runs(first, second, out, overwrite=overwrite)
    if as_json:
        names = ("n", "matched", "ari", "nmi", "moved", "better", "verdict")
        numbers = {name: getattr(result, name) for name in names}
        flows = [[flow.source, flow.target, flow.count] for flow in result.flows]
        page = None if out is None else str(out)
        print(json.dumps({"page": page, **numbers, "flows": flows}))
    elif not quiet:
        one, other = result.sides
        rows = [
            (name.lower(), one.facts.get(name, ""), other.facts.get(name, ""))
            for name in one.facts | other.facts
        ]
        output.print_table((" " * output.NAME_WIDTH, one.name, other.name), rows)
        facts = [
            ("samples", f"{result.n:,}, {result.moved:,} of them moved"),
            ("matching clusters", f"{100 * result.matched:.2f}%"),
            ("ARI", f"{result.ari:.4f}"),
            ("NMI", f"{result.nmi:.4f}"),
            ("verdict", result.verdict),
        ]
        output.print_facts(facts if out is None else [*facts, ("page", str(out))])
        if result.flows:
            moved = [(flow.source, flow.target, f"{flow.count:,}") for flow in result.flows[:MOST]]
            output.print_table(("from", "to", "samples moved"), moved)
