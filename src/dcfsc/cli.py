"""The command line: parse, call, print. What is heavy is imported by the command that needs it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcfsc import cli_output as output
from dcfsc._version import __version__
from dcfsc.cli_errors import CommandLine, one_line
from dcfsc.cli_options import (
    ColorOption,
    DataArgument,
    DeviceOption,
    JsonOption,
    LabelsOption,
    QuietOption,
    SizeOption,
    SkipOption,
    TransformationsOption,
    count_or_auto,
    load_samples,
)
from dcfsc.cli_reproduce import reproduce
from dcfsc.cli_suggest import suggest_k
from dcfsc.errors import DcfscError, InputError

if TYPE_CHECKING:
    from dcfsc.run_folder import Run

app = typer.Typer(
    cls=CommandLine,
    add_completion=False,
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
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
) -> None:
    """Subspace clustering: deep, closed-form, exact and large-scale."""
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


# Options that only the training of a network has: to give one is to ask for a network.
TRAINING_OPTIONS = (
    "steps",
    "weights",
    "network",
    "pretrain_epochs",
    "learning_rate",
    "batch_size",
    "checkpoint_every",
)


@app.command()
def fit(
    ctx: typer.Context,
    data: DataArgument,
    clusters: Annotated[
        str,
        typer.Option(
            "--clusters", "-k", metavar="K|auto", help="Number of clusters; auto: see suggest-k."
        ),
    ],
    method: Annotated[
        str | None,
        typer.Option(
            help="closed-form, dcfsc, ...; an unknown name lists all.",
            show_default="closed-form; dcfsc where an option of its training is given",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The run's folder.", show_default="runs/DATA-METHOD"),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed.")] = 0,
    device: DeviceOption = None,
    lam: Annotated[
        str | None,
        typer.Option(metavar="X|auto", help="Ridge parameter, or auto from the subspaces' size."),
    ] = None,
    subspace_dim: Annotated[
        float | None, typer.Option(metavar="M", help="Expected dimension of a subspace.")
    ] = None,
    transformations: TransformationsOption = None,
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="none, neighbours, neighbours-twice; else the most stable."
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(min=0, help="Training steps.")] = None,
    affinity: Annotated[str | None, typer.Option(help="How coefficients become a graph.")] = None,
    assign: Annotated[str | None, typer.Option(help="How the embedding becomes labels.")] = None,
    features: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Cluster these instead: scattering or autoencoder."),
    ] = None,
    weights: Annotated[
        str | None, typer.Option(metavar="NAME|PATH", help="Weights to start the network from.")
    ] = None,
    network: Annotated[str | None, typer.Option(help="The network's architecture.")] = None,
    pretrain_epochs: Annotated[
        int | None, typer.Option(min=0, help="Epochs of plain reconstruction first.")
    ] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Of Adam.")] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(min=1, help="Samples of a chunk: the same steps with less memory."),
    ] = None,
    labels: LabelsOption = None,
    size: SizeOption = None,
    color: ColorOption = False,
    skip_broken: SkipOption = False,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no report.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with an interrupted run in the folder.")
    ] = False,
    checkpoint_every: Annotated[
        float | None,
        typer.Option(min=0, metavar="SECONDS", help="How often to save it.", show_default="30"),
    ] = None,
    dist_timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="Wait for other processes of torchrun.", show_default="600"
        ),
    ] = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Cluster DATA into K groups and write a run's folder.

    The folder holds labels.csv, run.json (every parameter, versions, scores), the model, and
    report.html with the details.npz that it is drawn from.
    """
    options = {
        "n_clusters": count_or_auto(clusters),
        "random_state": seed,
        "device": device,
        "lam": _number_or_name(lam),
        "subspace_dim": subspace_dim,
        "transformations": transformations,
        "metric": metric,
        "steps": steps,
        "affinity": affinity,
        "assign": assign,
        "weights": weights,
        "network": network,
        "pretrain_epochs": pretrain_epochs,
        "learning_rate": learning_rate,
        "batch_size": batch_size,
        "checkpoint_every": checkpoint_every,
    }
    trains = resume or any(options[name] is not None for name in TRAINING_OPTIONS)
    default = "dcfsc" if trains and features is None else "closed-form"
    samples = load_samples(data, labels, size, color, skip_broken, seed)
    fit_run = _fit_run(dist_timeout)

    def tell(record: dict[str, Any]) -> None:
        output.print_facts(output.start_facts(record))

    talk = not (quiet or as_json)
    # who watches is told at once; a pipe gets all of it or, where the input is bad, nothing
    watched = talk and sys.stdout.isatty()
    run = fit_run(
        samples,
        method or default,
        options,
        out,
        command=ctx.obj,
        progress=not quiet,
        started=tell if watched else None,
        report=not no_report,
        features=features,
        resume=resume,
    )
    if run is None:  # one of many processes, and not the first
        return
    if as_json:
        shown = {key: value for key, value in run.record.items() if key != "history"}
        print(json.dumps({"run": str(run.folder), **shown}))
    elif talk:
        before = [] if watched else output.start_facts(run.record)
        output.print_facts([*before, *output.result_facts(run.record, run.folder)])


def _fit_run(timeout: float | None) -> Callable[..., Run | None]:
    """What fits and writes a run: this process, or it and the others that torchrun started."""
    from dcfsc.distributed import launched

    if launched():
        from dcfsc.distributed_run import fit_run as fit_run_together

        return partial(fit_run_together, timeout=timeout)
    if timeout is not None:
        raise InputError("--dist-timeout is for many processes; start them with torchrun.")
    from dcfsc.runs import fit_run

    return fit_run


app.command()(suggest_k)


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder, from 'dcfsc fit'.")],
    data: DataArgument,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The file.", show_default="RUN/predictions.csv"),
    ] = None,
    device: DeviceOption = None,
    labels: LabelsOption = None,
    size: SizeOption = None,
    color: ColorOption = False,
    skip_broken: SkipOption = False,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> None:
    """Label new samples with the model of a run and write them to a .csv file."""
    from dcfsc import metrics
    from dcfsc.runs import PREDICTIONS, describe_data, predict_run, read_run

    record = read_run(run).record
    samples = load_samples(data, labels, size, color, skip_broken, record["seed"])
    found = predict_run(run, samples, out, device=device or "auto")
    sizes = [int((found == k).sum()) for k in range(record["n_clusters"])]
    scores = None if samples.y is None else metrics.score(samples.y, found)
    file = str(out or run / PREDICTIONS)
    if as_json:
        described = describe_data(samples)
        result = {"file": file, "run": str(run), "data": described, "cluster_sizes": sizes}
        print(json.dumps({**result, "scores": scores, "labels": found.tolist()}))
    elif not quiet:
        facts = [*output.data_facts(describe_data(samples)), ("model", str(run))]
        facts += [*output.score_facts(scores), ("clusters", output.cluster_sizes(sizes))]
        output.print_facts([*facts, ("predictions", file)])


@app.command()
def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder, from 'dcfsc fit'.")],
    data: Annotated[
        str | None,
        typer.Option(
            metavar="DATA",
            help="Images of the same samples in the same order, to show in place of the run's own.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The page.", show_default="RUN/report.html"),
    ] = None,
    size: SizeOption = None,
    color: ColorOption = False,
    skip_broken: SkipOption = False,
    quiet: QuietOption = False,
) -> None:
    """Draw the page of a run again, from its saved files alone."""
    from dcfsc.report import read_details, with_images, write_report
    from dcfsc.run_folder import DETAILS, REPORT, read_run, write_errors

    saved = read_run(run)
    details = read_details(saved.folder / DETAILS)
    if data is not None:
        samples = load_samples(data, None, size, color, skip_broken, saved.record["seed"])
        details = with_images(details, samples.X, samples.name)
    target = out or saved.folder / REPORT
    if target.is_dir():
        raise InputError(f"{target} is a folder; give the name of a .html file.")
    with write_errors(target):
        write_report(target, saved.record, details)
    if not quiet:
        output.print_facts([("run", str(run)), output.report_fact(target)])


app.command()(reproduce)


@app.command()
def datasets() -> None:
    """List the datasets known by name, and which of them are here."""
    from dcfsc.datasets import data_root, describe

    rows = []
    for info in describe():
        shape = "any" if info.shape is None else " x ".join(map(str, info.shape))
        here = "yes" if info.present else "no"
        how = info.location if info.present else "downloaded when first used"
        if not info.present and not info.downloadable:
            how = f"put {' or '.join(info.files)} under the data root"
        number = "any" if info.n is None else f"{info.n:,}"
        classes = "any" if info.classes is None else str(info.classes)
        rows.append((info.name, number, shape, classes, here, how or ""))
    output.print_table(("name", "samples", "shape", "classes", "here", "where"), rows)
    print(f"data root: {data_root()} (set it with DCFSC_DATA)")


@app.command()
def doctor() -> None:
    """Look at the installation, and try the closed form on a small problem."""
    from dcfsc import doctor as checks

    problems: list[str] = []
    for title, look in checks.CHECKS.items():
        try:
            output.print_facts(look())
        except Exception as error:  # whatever is broken is what this command is to tell
            reason = error if isinstance(error, DcfscError) else f"{type(error).__name__}: {error}"
            problems.append(one_line(f"{title}: {reason}"))
    if problems:
        for problem in problems:
            print(f"error: {problem}", file=sys.stderr)
        raise typer.Exit(1)
    print("all well")


def _number_or_name(text: str | None) -> float | str | None:
    """Numbers as numbers; names, and what is neither, as they are for the method to judge."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def main() -> None:
    app(prog_name="dcfsc")
