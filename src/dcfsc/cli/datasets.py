"""The command datasets."""

from __future__ import annotations

from dcfsc.cli import output


def datasets() -> None:
    """List the datasets that dcfsc knows by name."""
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
    output.say(f"data root: {data_root()} (set it with DCFSC_DATA)")
