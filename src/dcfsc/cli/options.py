"""Arguments and options that several commands have, and how the samples are read."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dcfsc.errors import InputError, plain_number

if TYPE_CHECKING:
    from dcfsc.datasets import Dataset
    from dcfsc.datasets.images import Reading

DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A dataset's name (see 'dcfsc datasets') or a path: .npy, .npz, .mat, .csv, .tsv, "
        ".parquet or a folder of images, whose sub-folders are labels.",
        show_default=False,
    ),
]
LabelsOption = Annotated[
    str | None,
    typer.Option(help="Where the labels are: a column, an array, or a file. Only to score."),
]
SizeOption = Annotated[
    str | None,
    typer.Option(
        metavar="HxW",
        help="Bring images to this height x width.",
        show_default="their own, or a working size where it is large or differs",
    ),
]
ColorOption = Annotated[
    bool | None,
    typer.Option(
        "--color/--gray",
        help="Read images in colour or in grey.",
        show_default="colour where there is any",
    ),
]
SkipOption = Annotated[bool, typer.Option("--skip-broken", help="Leave broken images out.")]
DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run's folder, from 'dcfsc fit'.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]


def load_samples(
    spec: str,
    labels: str | None,
    size: str | None,
    color: bool | None,
    skip_broken: bool,
    seed: Any,
    reading: Reading | None = None,
) -> Dataset:
    """DATA as the options say it is to be read; ``reading`` holds where they say nothing."""
    from dcfsc.datasets import load
    from dcfsc.stages import stage

    height_width = None
    if size is not None:
        match = re.fullmatch(r"([0-9]{1,9})[xX]([0-9]{1,9})", size.strip())
        if match is None:
            raise InputError(f"--size takes HEIGHTxWIDTH, as in 32x32; got {size[:40]!r}.")
        height_width = int(match[1]), int(match[2])
    if size is not None:
        reading = None
    elif reading is not None and color is not None:
        reading = replace(reading, gray=not color)
    # the generated set is the one whose samples depend on the seed
    generated = {"random_state": seed} if spec == "synthetic" else {}
    stage("reading %s", spec)
    return load(
        spec,
        labels=labels,
        size=height_width,
        gray=None if color is None else not color,
        skip_broken=skip_broken,
        reading=reading,
        **generated,
    )


def reading_for(features: str | None, device: str, spec: str) -> Reading | None:
    """How the images of a folder are to be read for these features, where that matters to them."""
    if features is None or not features.startswith("encoder") or not Path(spec).is_dir():
        return None  # before anything is imported
    from dcfsc.estimators import registry
    from dcfsc.stages import stage

    stage("opening the encoder")
    return registry.reading_for(features, device)


def count_or_auto(text: str) -> int | str:
    """The number of clusters, or "auto"."""
    if text.strip() == "auto":
        return "auto"
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip()):
        raise InputError(f"-k takes an integer or auto; got {text[:40]!r}.")
    return int(text)


def counts_or_auto(text: str) -> int | str | tuple[int, ...]:
    """The number of clusters, several of them, or "auto"."""
    parts = text.split(",")
    if len(parts) == 1:
        return count_or_auto(text)
    counts = tuple(count_or_auto(part) for part in parts)
    if "auto" in counts or len(set(counts)) < len(counts):
        raise InputError(f"-k takes different integers, as in 10,20,40; got {text[:40]!r}.")
    return counts  # type: ignore[return-value]


def number_or_name(text: str | None) -> float | str | None:
    """Numbers as numbers; names, and what is neither, as they are for the method to judge."""
    try:
        return None if text is None else plain_number(text)
    except ValueError:
        return text


def numbers_by_name(option: str, text: str | None) -> dict[str, float] | str | None:
    """NAME[=NUMBER],... as a mapping, a name without a number at 1; "auto" as it is."""
    if text is None or text.strip() == "auto":
        return None if text is None else "auto"
    values = {}
    for part in text.split(","):
        name, _, number = part.strip().partition("=")
        try:
            values[name] = plain_number(number) if number else 1.0
        except ValueError:
            name = ""
        if not name:
            raise InputError(f"{option} takes NAME or NAME=NUMBER, with commas; got {part[:40]!r}.")
    return values
