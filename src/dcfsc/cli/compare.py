"""The command compare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dcfsc.cli import output
from dcfsc.cli.options import JsonOption, OverwriteOption, QuietOption


def compare(
    first: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    second: Annotated[Path, typer.Argument(metavar="RUN", help="Another run on the same samples.")],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Output page.")] = Path("compare.html"),
    overwrite: OverwriteOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare two runs on the same samples.

    The page shows how well they agree, which samples moved, and which run is more stable.
    """
    from dcfsc.runs.compare import compare_runs

    found = compare_runs(first, second, out, overwrite=overwrite)
    if as_json:
        numbers = {"n": found.n, "matched": found.matched, "ari": found.ari, "nmi": found.nmi}
        flows = [[flow.source, flow.target, flow.count] for flow in found.flows]
        more = {"moved": found.moved, "stability": found.stability, "flows": flows}
        print(json.dumps({"page": str(out), **numbers, **more}))
    elif not quiet:
        output.print_facts(
            [
                ("samples", f"{found.n:,}, {found.moved:,} of them moved"),
                ("matching clusters", f"{100 * found.matched:.2f} %"),
                ("ARI", f"{found.ari:.4f}"),
                ("NMI", f"{found.nmi:.4f}"),
                ("stability", found.stability),
                ("page", str(out)),
            ]
        )
