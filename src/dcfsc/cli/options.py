"""Arguments and options that several commands share, and loading the samples."""

from __future__ import annotations

import os
import re
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dcfsc.errors import InputError, plain_number

if TYPE_CHECKING:
    from dcfsc.io import Dataset
    from dcfsc.io.images import Reading
    from dcfsc.io.table_reading import TableReading

# The panels of --help
DATA, METHOD, IMAGES, TRAINING, OUTPUT = "Data", "Method", "Images", "Training", "Output"


def option(
    help: str,
    metavar: str | None = None,
    *,
    default: Any = None,
    shown: str | bool = True,
    panel: str | None = None,
) -> Any:
    """An option of a command; ``shown`` is the default to show in place of None."""
    return typer.Option(
        default, metavar=metavar, help=help, show_default=shown, rich_help_panel=panel
    )


def like_the_run(shared: Any) -> Any:
    """A shared option whose default is what the run did."""
    own = copy(shared)
    own.show_default = "as in the run"
    return own


def switch(names: str, help: str, *, panel: str | None = OUTPUT) -> Any:
    return typer.Option(False, *names.split(), help=help, rich_help_panel=panel)


data_option = partial(option, panel=DATA)
method_option = partial(option, panel=METHOD)
image_option = partial(option, panel=IMAGES)
training_option = partial(option, panel=TRAINING)


SAMPLES = typer.Argument(
    metavar="DATA",
    help="A folder of images and what is below it; a table (.csv, .tsv, .xlsx, .jsonl, .parquet, "
    ".h5ad); an array (.npy, .npz, .mat, .mtx); a folder or 'glob' of .parquet or .npy shards; a "
    ".txt file with a text a line; or digits or synthetic, which need no file.",
    show_default=False,
)
RUN = typer.Argument(metavar="RUN", help="The folder of a run, made by 'dcfsc fit'.")
LABELS = data_option(
    "A column, array or file with labels, or folders for the sub-folders of images. Used only to "
    "score the result.",
    "NAME|FILE|folders",
)
TABLE = ("text", "id", "columns", "ignore", "missing", "transpose", "sample")  # of reading
TEXT = data_option("Cluster the texts in this column of a table.", "COLUMN")
ID = data_option(
    "The column of a table that names the samples.", "COLUMN", shown="a column of text called id"
)
COLUMNS = data_option(
    "The columns of a table to cluster, as in 'age,x_*'.",
    "NAMES",
    shown="those of numbers, or one of vectors",
)
IGNORE = data_option("Columns of a table to leave out, as in 'year,q*'.", "NAMES")
MISSING = data_option(
    "Missing values of a table: leave their rows out, or fill in the columns' medians.",
    "drop-rows|median",
    shown="an error",
)
TRANSPOSE = switch(
    "--transpose", "The rows of the table are features, the columns samples.", panel=DATA
)
SAMPLE = data_option(
    "Take only N random samples. Of .parquet files and shards, only some row groups are read.",
    "N",
    shown="all",
)
SIZE = image_option(
    "Resize images to this height x width.",
    "HxW",
    shown="unchanged; a smaller size if images are large or differ in size",
)
COLOR = typer.Option(
    None,
    "--color/--gray",
    help="Read images in color or in gray.",
    show_default="color if there is any",
    rich_help_panel=IMAGES,
)
PAGE = image_option(
    "The page of image files that have several, counted from 1; all: their pages are channels.",
    "N|all",
    shown="1",
)
CHANNELS = image_option(
    "Read these channels, counted from 1, instead of gray or color.",
    "N,N,...",
    shown="all if there are more than 4",
)
STRICT = switch(
    "--strict", "Stop at an image that cannot be read, instead of skipping it.", panel=IMAGES
)
DEVICE = method_option("auto, cpu, cuda or cuda:N.", "NAME", default="auto")
SEED = method_option("Random seed.", "N", default=0)
QUIET = switch("--quiet -q", "Print nothing but errors.")
OVERWRITE = switch(
    "--overwrite", "Replace the file if it exists; a file of yours is kept as NAME.bak."
)
COPY = switch(
    "--copy",
    "Copy the files to folders instead of linking to them. A folder of links is not meant to be "
    "passed on; a folder of copies is.",
)
ABSOLUTE_PATHS = switch(
    "--absolute-paths", "Give the files' whole paths, not those from the data folder on."
)
JSON = switch("--json", "Print the result as JSON.")


def load_samples(
    spec: str,
    labels: str | None,
    size: str | None,
    color: bool | None,
    strict: bool,
    seed: Any,
    reading: Reading | TableReading | None = None,
    page: str | None = None,
    channels: str | None = None,
    **table: Any,
) -> Dataset:
    """Load DATA with the given options; ``reading`` applies where an option is not set.

    ``table`` are the options of tables.
    """
    from dcfsc.io import load
    from dcfsc.io.images import Reading
    from dcfsc.parameters import SEED
    from dcfsc.progress import stage

    height_width = None
    SEED.check("seed", seed)
    if size is not None:
        match = re.fullmatch(r"([0-9]{1,9})[xX]([0-9]{1,9})", size.strip())
        if match is None:
            raise InputError(f"--size takes HEIGHTxWIDTH, as in 32x32; got {size[:40]!r}.")
        height_width = int(match[1]), int(match[2])
    if isinstance(reading, Reading) and color is not None:
        reading = replace(reading, gray=not color)
    if height_width is not None and isinstance(reading, Reading):
        # of a run the colors and the levels stay; what an encoder would read is not asked for
        plain = replace(reading, size=height_width, crop=1.0, keep_aspect=False)
        reading = plain if reading.levels else None
    # the generated set is the one whose samples depend on the seed
    generated = {"random_state": seed} if spec == "synthetic" else {}
    if table.get("sample") is not None:
        table["seed"] = seed
    stage("reading %s", spec)
    return load(
        spec,
        labels=labels,
        size=height_width,
        gray=None if color is None else not color,
        page=int(page) if page is not None and page.isdecimal() else page,
        channels=None if channels is None else _numbers("--channels", channels),
        strict=strict,
        reading=reading,
        **table,
        **generated,
    )


def _numbers(option: str, text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"[0-9]{1,6}(,[0-9]{1,6})*", text.replace(" ", "")):
        raise InputError(f"{option} takes numbers, counted from 1, as in 1,3; got {text[:40]!r}.")
    return tuple(map(int, text.split(",")))


def sources(*given: str | None) -> tuple[Path, ...]:
    """Those of the arguments that are files or folders, which a command never writes to."""
    paths = (Path(text).expanduser() for text in given if text is not None)
    return tuple(path for path in paths if os.path.lexists(path))


def reading_for(features: str | None, device: str, spec: str) -> Reading | None:
    """How to read the images of a folder for these features, if the features care."""
    if features is None or not features.startswith("encoder") or not Path(spec).is_dir():
        return None  # before anything is imported
    from dcfsc.estimators import registry
    from dcfsc.progress import stage

    stage("opening the encoder")
    return registry.reading_for(features, device)


def counts_or_auto(text: str) -> int | str | tuple[int, ...]:
    """The number of clusters, several of them, or "auto"."""
    if text.strip() == "auto":
        return "auto"
    parts = text.split(",")
    counts = tuple(int(p) for p in parts if re.fullmatch(r"[+-]?[0-9]{1,18}", p.strip()))
    if len({*counts}) < len(parts):
        takes = "an integer or auto" if len(parts) == 1 else "different integers, as in 10,20,40"
        raise InputError(f"-k takes {takes}; got {text[:40]!r}.")
    return counts[0] if len(counts) == 1 else counts


def number_or_name(text: str | None) -> float | str | None:
    try:
        return None if text is None else plain_number(text)
    except ValueError:
        return text


def numbers_by_name(option: str, text: str | None) -> dict[str, float] | str | None:
    """Parse NAME[=NUMBER],... to a mapping; the number is 1 by default. "auto" is unchanged."""
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
            raise InputError(
                f"{option} takes NAME or NAME=NUMBER, separated by commas; got {part[:40]!r}."
            )
    return values
