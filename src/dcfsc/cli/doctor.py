"""The command doctor: versions, machine, data, and a small problem solved."""

from __future__ import annotations

from collections.abc import Callable

import typer

from dcfsc.cli import output
from dcfsc.cli.errors import one_line
from dcfsc.errors import DcfscError
from dcfsc.progress import stage

Facts = list[tuple[str, str]]


def installed_versions() -> Facts:
    from dcfsc.machine import versions

    return list(versions().items())


def machine_facts() -> Facts:
    from threadpoolctl import threadpool_info

    from dcfsc.machine import machine

    here = machine("auto")
    pools = (pool for pool in threadpool_info() if pool["user_api"] == "blas")
    blas = {
        f"{p['internal_api']} {p['version']}, {output.threads_text(p['num_threads'])}"
        for p in pools
    }
    return [
        ("system", here["platform"]),
        ("device", output.device_text(here)),
        ("blas", "; ".join(sorted(blas)) or "not known"),
    ]


def self_check() -> Facts:
    """Three subspaces that cannot be confused, and the two forms of the closed form on them."""
    import torch

    from dcfsc import ClosedFormSubspaceClustering
    from dcfsc.io import synthetic
    from dcfsc.metrics import clustering_error
    from dcfsc.self_expression import solve

    data = synthetic(
        n_samples=150, n_clusters=3, subspace_dim=4, ambient_dim=20, noise=0.01, random_state=0
    )
    labels = ClosedFormSubspaceClustering(n_clusters=3, random_state=0).fit_predict(data.X)
    assert data.y is not None
    wrong = clustering_error(data.y, labels)
    Z = torch.from_numpy(data.X).to(torch.float64)
    samples, features = (solve(Z, 0.1, form=form).dense() for form in ("samples", "features"))
    gap = float((samples - features).abs().max() / samples.abs().max())
    if wrong > 0:
        raise DcfscError(f"{wrong:.1f} % of a union of subspaces was put in the wrong cluster.")
    if not gap < 1e-8:
        raise DcfscError(f"the two forms of the closed form differ by {gap:.1e} (relative).")
    return [("self-check", f"clustering without error; the two forms agree to {gap:.0e}")]


CHECKS: dict[str, Callable[[], Facts]] = {
    "versions": installed_versions,
    "machine": machine_facts,
    "self-check": self_check,
}


def doctor() -> None:
    """Check the installation and solve a small test problem."""
    problems: list[str] = []
    for title, look in CHECKS.items():
        stage(title)
        try:
            output.print_facts(look())
        except Exception as error:  # whatever is broken is what this command is to tell
            reason = error if isinstance(error, DcfscError) else f"{type(error).__name__}: {error}"
            problems.append(one_line(f"{title}: {reason}"))
    if problems:
        for problem in problems:
            output.say(f"error: {problem}", error=True)
        raise typer.Exit(1)
    output.say("No problems found")
