"""The command fit."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dcfsc.cli import options, output
from dcfsc.cli.options import METHOD, OUTPUT, method_option, option, switch, training_option
from dcfsc.errors import InputError

if TYPE_CHECKING:
    from dcfsc.runs.request import RunRequest

OPTIONS = ("device", "subspace_dim", "representation", "affinity", "assign")  # of the estimators
# Options that only apply to training a network: each of them selects a method that has one.
VIEW_OPTIONS = ("augmentations", "positives", "effort")
TRAINING_OPTIONS = (
    "steps",
    "weights",
    "network",
    "pretrain_epochs",
    "learning_rate",
    "batch_size",
    "checkpoint_every",
)


def fit(
    ctx: typer.Context,
    data: str = options.SAMPLES,
    clusters: str = typer.Option(
        ...,
        "--clusters",
        "-k",
        metavar="K|K,K,...|auto",
        help="Number of clusters. Several numbers give one run each. auto: see suggest-k.",
        rich_help_panel=METHOD,
    ),
    method: str | None = method_option(
        "Clustering method: closed-form, dcfsc, views, ... An unknown name lists all. "
        "auto: closed-form and, with a GPU, views; keep the clustering with the lower cut.",
        "NAME",
        shown="closed-form; dcfsc or views if you set an option of its training",
    ),
    out: Path | None = option(
        "Folder for the results.", "DIR", shown="runs/DATA-METHOD", panel=OUTPUT
    ),
    seed: int = options.SEED,
    device: str = options.DEVICE,
    lam: str | None = method_option(
        "Ridge parameter. auto: from --subspace-dim.", "X|auto", shown="auto"
    ),
    subspace_dim: float | None = method_option(
        "Expected dimension of each subspace.", "M", shown="3; dcfsc: 1.5"
    ),
    representation: str | None = method_option(
        "How samples are compared: given, joined, cosine, columns, ranks, metric, metric-twice, "
        "affine, counts, scattering, or auto to choose from the data.",
        "NAME",
        shown="auto",
    ),
    steps: int | None = training_option(
        "Training steps.", "N", shown="100; views: from --effort; dsc: 300"
    ),
    augmentations: str | None = training_option(
        "Augmentations of views, as in geometry,light=0.5: geometry, crop, mirror, light, "
        "contrast, color, hole, noise.",
        "NAMES|auto",
        shown="auto: chosen from the data",
    ),
    positives: int | None = training_option(
        "Neighbors of each sample whose views are positives of its own.", "N", shown="3"
    ),
    effort: str | None = training_option(
        "How long to train on views: full, for a GPU, or quick.", "NAME", shown="full"
    ),
    affinity: str | None = method_option(
        "How coefficients become a graph.", "NAME", shown="topk; depends on the method"
    ),
    assign: str | None = method_option(
        "How the embedding becomes labels.",
        "NAME",
        shown="filtered for closed-form and views; else kmeans",
    ),
    features: str | None = method_option(
        "Cluster these features instead of the samples: encoder or encoder:NAME (a "
        "pretrained network, for photographs: lite0, lite1, lite2, a model of transformers "
        "or an .onnx file; for texts: a model of sentence-transformers), scattering or "
        "autoencoder.",
        "NAME",
    ),
    weights: str | None = training_option("Initial weights of the network.", "FILE"),
    network: str | None = training_option(
        "Architecture of the network. For views also residual, or head for features.",
        "NAME",
        shown="auto",
    ),
    pretrain_epochs: int | None = training_option(
        "Epochs of pre-training by reconstruction.", "N", shown="60; with --weights: 0"
    ),
    learning_rate: float | None = training_option(
        "Learning rate.", "X", shown="0.001; views: from --effort"
    ),
    batch_size: int | None = training_option(
        "Samples held in memory at a time; the steps stay the same. For views: samples "
        "of a mini-batch.",
        "N",
        shown="all; views: from --effort",
    ),
    labels: str | None = options.LABELS,
    text: str | None = options.TEXT,
    id: str | None = options.ID,
    columns: str | None = options.COLUMNS,
    ignore: str | None = options.IGNORE,
    missing: str | None = options.MISSING,
    transpose: bool = options.TRANSPOSE,
    sample: int | None = options.SAMPLE,
    size: str | None = options.SIZE,
    color: bool | None = options.COLOR,
    page: str | None = options.PAGE,
    channels: str | None = options.CHANNELS,
    strict: bool = options.STRICT,
    no_report: bool = switch("--no-report", "Do not write the report."),
    resume: bool = switch("--resume", "Resume the interrupted run in the folder."),
    overwrite: bool = switch(
        "--overwrite", "Replace the finished run in the folder; what is not the run's stays."
    ),
    checkpoint_every: float | None = training_option(
        "How often to save the training.", "SECONDS", shown="30"
    ),
    dist_timeout: float | None = training_option(
        "How long to wait for other processes of torchrun.", "SECONDS", shown="600"
    ),
    fast: bool = switch(
        "--fast",
        "Closed form: use the samples unchanged and plain k-means; faster, less accurate.",
        panel=METHOD,
    ),
    verbose: bool = switch("--verbose", "Print every stage with its time."),
    quiet: bool = options.QUIET,
    as_json: bool = options.JSON,
) -> None:
    """Cluster DATA into K groups and write the results to a folder.

    The folder holds report.html (open it in a browser), clusters.csv, for a table differences.csv
    (what sets clusters apart), labels.csv (as fitted), the model, run.json (parameters, versions,
    scores) and details.npz (the data behind the report). With -k 10,20,40
    there is one run for each number, in DIR/k10, DIR/k20 and DIR/k40.
    """
    begun_at = time.perf_counter()
    counts = options.counts_or_auto(clusters)
    given_options = {
        name: ctx.params[name] for name in (*OPTIONS, *VIEW_OPTIONS, *TRAINING_OPTIONS)
    }
    given_options |= {
        "n_clusters": max(counts) if isinstance(counts, tuple) else counts,
        "random_state": seed,
        "lam": options.number_or_name(lam),
        "augmentations": options.numbers_by_name("--augmentations", augmentations),
    }
    from dcfsc.runs.life import check_out, method_in

    given_files = options.sources(data, labels)
    several = isinstance(counts, tuple)
    if out is not None and "RANK" not in os.environ and not (several and resume):
        for folder in [out / f"k{K}" for K in counts] if isinstance(counts, tuple) else [out]:
            check_out(folder, resume=resume, overwrite=overwrite, inputs=given_files)
    begun = method_in(out) if resume and out is not None else None
    given = {name for name, value in given_options.items() if value is not None}
    default = begun or _method_for(given, features is not None, resume)
    if fast:
        given_options |= _faster(method or default, representation, assign)
    reading = options.reading_for(features, device, data)
    table = {name: ctx.params[name] for name in options.TABLE}
    samples = options.load_samples(
        data, labels, size, color, strict, seed, reading, page, channels, **table
    )
    from dcfsc.runs.request import RunRequest

    request = RunRequest(
        samples,
        method or default,
        given_options,
        features=features,
        out=out,
        resume=resume,
        overwrite=overwrite,
        report=not no_report,
        timeout=dist_timeout,
        inputs=given_files,
        command=ctx.obj,
    )
    _carry_out(request, counts, quiet, as_json, begun_at)


def _carry_out(
    request: RunRequest, counts: object, quiet: bool, as_json: bool, begun_at: float
) -> None:
    from dcfsc.runs.automatic import execute_auto
    from dcfsc.runs.executor import execute, execute_each

    def tell(record: dict[str, Any]) -> None:
        output.print_facts(output.start_facts(record))

    talk = not (quiet or as_json)
    # a terminal shows facts at once; a pipe gets everything at the end, or nothing if input is bad
    watched = talk and sys.stdout.isatty()
    started = tell if watched else None
    if isinstance(counts, tuple):
        runs = execute_each(request, counts, started)
        if as_json:
            print(json.dumps([_shown(run) for run in runs]))
        elif talk:
            if not watched:
                tell(max(runs, key=lambda run: run.record["n_clusters"]).record)
            output.print_table(
                output.RUN_HEADER, [output.run_row(run.record, run.folder) for run in runs]
            )
        return
    run = (execute_auto if request.method == "auto" else execute)(request, started)
    if run is None:  # one of many processes, and not the first
        return
    if as_json:
        print(json.dumps(_shown(run)))
    elif talk:
        before = [] if watched else output.start_facts(run.record)
        seconds = time.perf_counter() - begun_at  # with the reading and the report
        output.print_facts([*before, *output.result_facts(run.record, run.folder, seconds)])


def _method_for(given: set[str], features: bool, resume: bool) -> str:
    if not given.isdisjoint(VIEW_OPTIONS):
        return "views"
    trains = resume or not given.isdisjoint(TRAINING_OPTIONS)
    return "dcfsc" if trains and not features else "closed-form"


def _faster(method: str, representation: str | None, assign: str | None) -> dict[str, str]:
    """What --fast sets: what is slow about the closed form, and was not chosen otherwise."""
    if method not in ("closed-form", "auto"):
        raise InputError(f"--fast is for the method 'closed-form'; it has no effect on {method!r}.")
    if representation and assign:
        raise InputError("--fast has no effect beside --representation and --assign; leave it out.")
    return {"representation": representation or "given", "assign": assign or "kmeans"}


def _shown(run: Any) -> dict[str, Any]:
    """A run as --json prints it."""
    shown = {key: value for key, value in run.record.items() if key != "history"}
    return {"run": str(run.folder), **shown}
