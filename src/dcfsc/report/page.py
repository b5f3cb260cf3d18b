"""The page itself: sections and data put into the template."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from dcfsc.errors import InputError, reason, without_folders
from dcfsc.report import charts, sections
from dcfsc.report.cards import LOW, cards, hints
from dcfsc.report.details import Details
from dcfsc.report.drawing import Blocks, LambdaPath, cluster_colors, curves
from dcfsc.report.texts import suggested_name, words_of
from dcfsc.report.thumbnails import SMOOTH_FROM, sprite_sheet

HERE = Path(__file__).parent
# Displayed sides in CSS pixels; near them, whole multiples of the stored pixels if these are few.
STRIP_SIDE, LARGE_SIDE = 52, 176
MOST_LABELS = 100_000  # that a page carries for the download


def write_report(
    path: str | os.PathLike[str], record: Mapping[str, Any], details: Details, **options: Any
) -> None:
    """Write the page of a run; the options are those of :func:`render`.

    Links lead to the files from ``base``, by default the page's folder.
    """
    options.setdefault("base", Path(path).absolute().parent)
    try:
        page = render(record, details, **options)
    except Exception as error:  # a record is JSON, in which anything may stand
        raise InputError(
            f"the page cannot be drawn, as the run's record and details are damaged "
            f"({type(error).__name__}: {reason(error)}); fit again, with --overwrite."
        ) from error
    write_page(path, page)


def write_page(path: str | os.PathLike[str], page: str) -> None:
    """Write a page; a name that is no text is escaped."""
    Path(path).write_text(page, encoding="utf-8", errors="backslashreplace")


def render(
    record: Mapping[str, Any],
    details: Details,
    clusters: Sequence[int] | None = None,
    names: Mapping[int, str] | None = None,
    ids: Sequence[str] | None = None,
    base: Path | None = None,
    absolute_paths: bool = False,
) -> str:
    """The report of a run (the content of ``run.json``, and its details) as one HTML page.

    ``clusters`` are the numbers of those that there are, 0 to K - 1 unless they were edited, and
    ``names`` those that were given. ``ids`` (N,) name the samples. Links to files are those of
    :func:`file_links`; without ``base`` there are none.
    """
    files = details.files.tolist()
    links = None if base is None else file_links(record, files, base, absolute_paths)
    sheet = sprites(details)
    present = list(range(int(record["n_clusters"])) if clusters is None else clusters)
    K = max(present) + 1
    titles = [(names or {}).get(k, str(k)) for k in range(K)]
    colors = cluster_colors(K)
    sizes = np.bincount(details.parts // 2, minlength=len(details.coupling))
    suggestion = record.get("suggestion") or {}
    losses = curves(record.get("history") or ())
    path = None
    if len(details.path) and record.get("lam") is not None:
        path = LambdaPath.of(details.path, record["lam"])
    return draw_page(
        "page.html",
        record=record,
        details=details,
        cards=list(cards(present, details)),
        doubtful=int((details.confidence < LOW).sum()),
        ids=ids,
        hints=hints(details, present),
        words=words_of(details, present),
        truth=sections.truth(details, present, titles),
        blocks=Blocks(details.blocks.astype(np.float64), sizes),
        eigenvalues=details.eigenvalues,
        suggested=suggestion.get("k"),
        path=path,
        losses={phase: rows for phase, rows in losses.items() if rows.shape[1] > 1},
        command=without_folders(record.get("command") or ""),
        sheet=sheet,
        colors=colors,
        titles=titles,
        most_labels=MOST_LABELS,
        present=present,
        script=(HERE / "page.js").read_text(encoding="utf-8"),
        data=_embedded(page_data(details, sheet, colors, titles, ids, links)),
    )


def draw_page(template: str, **content: Any) -> str:
    style = (HERE / "page.css").read_text(encoding="utf-8")
    return environment().get_template(template).render(style=style, **content)


@cache
def environment() -> Any:
    """The templates beside this file, and how they write numbers."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters |= {
        "percent": sections.percent,
        "px": "{:.1f}".format,
        "seconds": sections.seconds,
        "thousands": "{:,}".format,
        "suggested_name": suggested_name,
    }
    templates.globals["draw"] = charts
    return templates


def page_data(
    details: Details,
    sheet: Mapping[str, Any] | None,
    colors: list[str],
    titles: list[str],
    ids: Sequence[str] | None,
    links: Sequence[str] | None,
) -> dict[str, Any]:
    """What the script needs: columns of short numbers, to keep the file small."""
    view = details.view[details.view_samples]
    low, high = view.min(axis=0, initial=0.0), view.max(axis=0, initial=0.0)
    # Centered in the square, in thousandths of its side.
    places = (view - (low + high) / 2) / max(float((high - low).max()), 1e-9) + 0.5
    shown: dict[str, Any] = {
        **_columns(details, details.shown),
        "rival": details.next_best[details.shown].tolist(),
        "near": details.neighbors[details.shown].tolist(),
    }
    if len(details.files):
        shown["name"] = details.files.tolist()
        if links is not None:
            shown["link"] = links
    if len(details.texts):
        shown["text"] = details.texts.tolist()
    if len(details.values):
        shown["v"] = [[float(f"{v:.5g}") for v in row] for row in details.values.tolist()]
    labels = None
    if len(details.labels) <= MOST_LABELS:
        labels = {
            "l": details.labels.tolist(),
            "c": _rounded(1000 * details.confidence),
            "n": details.next_best.tolist(),
        }
    return {
        "shown": shown,
        "view": {
            **_columns(details, details.view_samples),
            "x": _rounded(1000 * places[:, 0]),
            "y": _rounded(1000 * places[:, 1]),
        },
        "classes": details.class_names.tolist(),
        "best": details.best_class.tolist(),
        "colors": colors,
        "titles": titles,
        "all": labels,
        "ids": _ids(details, ids),
        "measured": details.value_names.tolist(),
        "columns": None if sheet is None else sheet["columns"],
    }


def _ids(details: Details, ids: Sequence[str] | None) -> Any:
    """The ids of all samples, or of many samples those of which the page says more."""
    if ids is None or len(ids) <= MOST_LABELS:
        return ids
    return {i: ids[i] for i in np.union1d(details.shown, details.view_samples).tolist()}


def _columns(details: Details, samples: np.ndarray) -> dict[str, Any]:
    columns = {
        "i": samples.tolist(),
        "l": details.labels[samples].tolist(),
        "c": _rounded(100 * details.confidence[samples]),
    }
    return columns | ({"t": details.truth[samples].tolist()} if details.has_truth else {})


def _rounded(values: np.ndarray) -> list[int]:
    return np.round(values).astype(int).tolist()


def file_links(
    record: Mapping[str, Any], files: Sequence[str], base: Path, absolute_paths: bool = False
) -> list[str] | None:
    """The files as URLs relative to the folder ``base``, or absolute ones.

    None where the way from there leads through the root or above the home, as it would tell the
    whole path of the data folder.
    """
    top = record["data"].get("directory") or ""
    paths = [os.path.abspath(os.path.join(top, file)) for file in files]
    if absolute_paths:
        return [Path(path).as_uri() for path in paths]
    try:
        shared = Path(os.path.commonpath([base, *paths]))
    except ValueError:  # another drive
        return None
    if shared == Path(shared.anchor) or shared in Path(os.path.expanduser("~")).parents:
        return None
    relative = (os.path.relpath(path, base).replace(os.sep, "/") for path in paths)
    return [quote(path, errors="surrogateescape") for path in relative]


def sprites(details: Details) -> dict[str, Any] | None:
    if not details.has_images:
        return None
    height, width = details.thumbnails.shape[1:3]
    longer = max(height, width)
    smooth = longer >= SMOOTH_FROM

    def display(side: int) -> float:
        return width * (side / longer if smooth else max(1, round(side / longer)))

    uri, columns, rows = sprite_sheet(details.thumbnails)
    return {
        "uri": uri,
        "columns": columns,
        "rows": rows,
        "ratio": height / width,
        "small": display(STRIP_SIDE),
        "large": display(LARGE_SIDE),
        "rendering": "auto" if smooth else "pixelated",
    }


def _embedded(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
