"""The command predict."""

from __future__ import annotations

import json
from pathlib import Path

from dcfsc.cli import options, output
from dcfsc.cli.options import option


def predict(
    run: Path = options.RUN,
    data: str = options.SAMPLES,
    out: Path | None = option(
        "Output file.", "FILE", shown="RUN/predictions.csv, RUN/predictions-2.csv, ..."
    ),
    overwrite: bool = options.OVERWRITE,
    device: str = options.DEVICE,
    labels: str | None = options.LABELS,
    size: str | None = options.SIZE,
    color: bool | None = options.COLOR,
    skip_broken: bool = options.SKIP_BROKEN,
    quiet: bool = options.QUIET,
    as_json: bool = options.JSON,
) -> None:
    """Label new samples with the model of a run.

    The labels are written to a .csv file. Images are read with the size, the colors and the
    encoder of the run.
    """
    from dcfsc import metrics
    from dcfsc.runs.edits import read_edits
    from dcfsc.runs.folder import read_run
    from dcfsc.runs.prediction import predict_run
    from dcfsc.runs.record import describe_data, reading_of

    saved = read_run(run)
    record, clusters = saved.record, read_edits(saved).clusters
    reading = reading_of(record)
    samples = options.load_samples(data, labels, size, color, skip_broken, record["seed"], reading)
    given = options.sources(data, labels)
    predicted, file = predict_run(
        saved, samples, out, device=device, overwrite=overwrite, inputs=given
    )
    sizes = [int((predicted == k).sum()) for k in clusters]
    described = describe_data(samples)
    scores = None if samples.y is None else metrics.score(samples.y, predicted)
    if as_json:
        result = {"file": str(file), "run": str(run), "data": described, "cluster_sizes": sizes}
        print(json.dumps({**result, "scores": scores, "labels": predicted.tolist()}))
    elif not quiet:
        facts = [*output.data_facts(described), ("model", str(run))]
        facts += [*output.score_facts(scores), ("clusters", output.cluster_sizes(sizes))]
        output.print_facts([*facts, ("predictions", str(file))])
