"""dcfsc beside other libraries: error against CPU seconds on each data set: docs/images/peers.svg.

python docs/figures/peers.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.ticker import NullFormatter
from style import BLUE, GREEN, INK, MUTED, ORANGE, save

RESULT = "results/benchmarks/peers.json"
STYLES = {
    "dcfsc": ("o", BLUE),
    "dcfsc --fast": ("o", "#8fb4dc"),
    "SSC-OMP (ours)": ("s", BLUE),
    "EnSC (ours)": ("D", BLUE),
    "KMeans": ("o", ORANGE),
    "SpectralClustering": ("s", ORANGE),
    "HDBSCAN": ("D", ORANGE),
    "EVoC": ("^", GREEN),
    "EVoC with K": ("v", GREEN),
    "SubKmeans (ClustPy)": ("X", MUTED),
}


def draw(figures: dict[str, Any]) -> None:
    figure, grid = plt.subplots(2, 3, figsize=(9.5, 6.0), layout="constrained", sharey=True)
    for axes in grid.flat[len(figures) :]:
        axes.set_visible(False)
    by_size = sorted(figures.items(), key=lambda item: item[1]["N"])
    for axes, (name, row) in zip(grid.flat, by_size, strict=False):
        for method, (marker, color) in STYLES.items():
            record = row["methods"][method]
            if "failed" not in record:
                x, y = record["cpu_seconds"]["mean"], record["error"]
                look = {"marker": marker, "color": color, "markersize": 7, "ls": ""}
                axes.errorbar(x, y["mean"], y["std"], label=method, **look)
        axes.set_title(f"{name}, N = {row['N']:,}", fontsize=10, color=INK)
        axes.set(xscale="log", ylim=(-4, 104))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.grid(alpha=0.3)
    for axes in grid[:, 0]:
        axes.set_ylabel("error, %")
    for axes in grid[-1]:
        axes.set_xlabel("CPU seconds of a fit")
    handles, labels = grid.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    save(figure, "peers")


if __name__ == "__main__":
    draw(json.loads((Path(__file__).parents[2] / RESULT).read_text())["figures"])
