"""The command predict."""

from __future__ import annotations

import json
from pathlib import Path

from dcfsc.cli import options, output
from dcfsc.cli.options import option
from dcfsc.errors import InputError, OptionNeeded, unknown_name


def predict(
    run: Path = options.RUN,
    data: str = options.SAMPLES,
    to: str | None = option("folders: also sort the images into folders by cluster.", "KIND"),
    out: Path | None = option(
        "Output file, or output folder for folders and shards.",
        "PATH",
        shown="RUN/predictions.csv, RUN/predictions-2.csv, ...; RUN-clusters",
    ),
    copy: bool = options.COPY,
    overwrite: bool = options.OVERWRITE,
    device: str = options.DEVICE,
    labels: str | None = options.LABELS,
    size: str | None = options.like_the_run(options.SIZE),
    color: bool | None = options.like_the_run(options.COLOR),
    strict: bool = options.STRICT,
    quiet: bool = options.QUIET,
    as_json: bool = options.JSON,
) -> None:
    """Label new samples with the model of a run.

    The labels are written to a .csv file. Images are read with the size, the colors and the
    encoder of the run. With --to folders they are linked or copied to the folders of 'dcfsc
    export', beside what is there. Of each shard, x.parquet or x.npy, the labels go to
    DIR/x.parquet; repeat the command to go on after an interruption, or start it several times to
    share the work.
    """
    from dcfsc.io.shards import shard_files

    if files := shard_files(data):
        if (to, labels, size, color, strict) != (None, None, None, None, False):
            raise InputError("--to, --labels, --size, --color and --strict are not for shards.")
        _predict_shards(run, data, files, out, device, overwrite, quiet, as_json)
        return
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
    if reading is None and not record["data"]["shape"] and Path(data).suffix.lower() != ".txt":
        raise InputError(f"the run {run} is of texts in a .txt file; give new ones in such a file.")
    try:
        samples = options.load_samples(data, labels, size, color, strict, record["seed"], reading)
    except OptionNeeded as error:
        if not error.options:
            raise
        raise InputError(  # the options are those of fit
            f"{error.message} The run {run} was not made from a table; give data of its kind, or a "
            "table of numbers without gaps."
        ) from None
    predicted, file = predict_run(
        saved, samples, out, device=device, overwrite=overwrite, inputs=given
    )
    if target is not None:
        target = sort_new(target, saved, samples, predicted, copy=copy)
    sizes = [int((predicted == k).sum()) for k in clusters]
    described = describe_data(samples)
    scores = None if samples.y is None else metrics.score(samples.y, predicted)
    if as_json:
        result = {"file": str(file), "folders": target and str(target), "run": str(run)}
        told = {"data": described, "cluster_sizes": sizes, "scores": scores}
        print(json.dumps({**result, **told, "labels": predicted.tolist()}))
    elif not quiet:
        facts = [*output.data_facts(described), ("model", str(run))]
        facts += [*output.score_facts(scores), ("clusters", output.cluster_sizes(sizes))]
        facts += [("predictions", str(file)), *([("folders", str(target))] if target else [])]
        output.print_facts(facts)


def _predict_shards(
    run: Path,
    data: str,
    files: list[Path],
    out: Path | None,
    device: str,
    overwrite: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    from dcfsc.runs.shards import predict_shards

    if out is None:
        raise InputError("give a folder for the predictions of the shards with --out DIR.")

    def tell(n: int, need: int) -> None:
        if not (quiet or as_json):
            facts = [("data", f"{data}: {n:,} samples in {len(files):,} shards")]
            memory = ("memory", f"at most about {need / 2**30:.1f} GiB")
            output.print_facts([*facts, ("model", str(run)), memory])

    done = predict_shards(run, files, out, device=device, overwrite=overwrite, started=tell)
    if as_json:
        counts = {"labeled": done.labeled, "earlier": done.earlier, "others": done.others}
        sizes = done.sizes.tolist()
        print(json.dumps({"folder": str(out), "run": str(run), **counts, "cluster_sizes": sizes}))
    elif not quiet:
        shards = f"{done.labeled:,} labeled"
        shards += f", {done.earlier:,} labeled earlier" if done.earlier else ""
        shards += f", {done.others:,} at work in other processes" if done.others else ""
        clusters = output.cluster_sizes([k for k in done.sizes.tolist() if k])
        facts = [("shards", shards), ("clusters", clusters), ("predictions", str(out))]
        output.print_facts(facts)
