"""The command predict."""

from __future__ import annotations

import json
from pathlib import Path

from dcfsc.cli import options, output
from dcfsc.cli.options import option
from dcfsc.errors import InputError, unknown_name


def predict(
    run: Path = options.RUN,
    data: str = options.SAMPLES,
    to: str | None = option("folders: also sort the images into folders by cluster.", "KIND"),
    out: Path | None = option(
        "Output file, or output folder for folders.",
        "PATH",
        shown="RUN/predictions.csv, RUN/predictions-2.csv, ...; RUN-clusters",
    ),
    copy: bool = options.COPY,
    overwrite: bool = options.OVERWRITE,
    device: str = options.DEVICE,
    labels: str | None = options.LABELS,
    size: str | None = options.SIZE,
    color: bool | None = options.COLOR,
    strict: bool = options.STRICT,
    quiet: bool = options.QUIET,
    as_json: bool = options.JSON,
) -> None:
    """Label new samples with the model of a run.

    The labels are written to a .csv file. Images are read with the size, the colors and the
    encoder of the run. With --to folders they are linked or copied to the folders of 'dcfsc
    export', beside what is there.
    """
    from dcfsc import metrics
    from dcfsc.runs.edits import read_edits
    from dcfsc.runs.folder import read_run
    from dcfsc.runs.folders import folders_of, open_export, sort_new
    from dcfsc.runs.outputs import output_of
    from dcfsc.runs.prediction import predict_run
    from dcfsc.runs.record import describe_data, reading_of

    if to not in (None, "folders"):
        raise unknown_name("kind of output", to, ["folders"])
    if (to is None and copy) or (to is not None and overwrite):
        raise InputError(
            f"{'--copy' if copy else '--overwrite'} has no effect "
            f"{'without' if copy else 'with'} --to folders; leave it out."
        )
    saved = read_run(run)
    given = options.sources(data, labels)
    target = None if to is None else out or folders_of(run)
    if target is not None:  # before anything is read
        open_export(target, saved, overwrite=True, inputs=given)
        out = None
    elif out is not None:
        output_of(run, out, overwrite=overwrite, inputs=given)
    record, clusters = saved.record, read_edits(saved).clusters
    reading = reading_of(record)
    samples = options.load_samples(data, labels, size, color, strict, record["seed"], reading)
    predicted, file = predict_run(
        saved, samples, out, device=device, overwrite=overwrite, inputs=given
    )
    if target is not None:
        target = sort_new(target, saved, samples, predicted, copy=copy)
    sizes = [int((predicted == k).sum()) for k in clusters]
    described = describe_data(samples)
    scores = None if samples.y is None else metrics.score(samples.y, predicted)
    if as_json:
        result = {
            "file": str(file),
            "folders": target and str(target),
            "run": str(run),
            "data": described,
            "cluster_sizes": sizes,
        }
        print(json.dumps({**result, "scores": scores, "labels": predicted.tolist()}))
    elif not quiet:
        facts = [*output.data_facts(described), ("model", str(run))]
        facts += [*output.score_facts(scores), ("clusters", output.cluster_sizes(sizes))]
        facts += [("predictions", str(file)), *([("folders", str(target))] if target else [])]
        output.print_facts(facts)
