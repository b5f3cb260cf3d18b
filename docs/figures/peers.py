"""dcfsc and its peers, error against CPU seconds on each set: docs/images/peers.svg.

python docs/figures/peers.py            # draw
python docs/figures/peers.py --tables   # print the tables of docs/peers.md
"""

from __future__ import annotations

import json
import sys
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
COLUMNS = ("error, %", "NMI", "clusters", "noise, %", "seconds", "CPU seconds", "added MiB")
KEYS = (
    *("error.mean ± error.std", "nmi.mean", "clusters.mean", "noise_percent.mean"),
    *("seconds.mean", "cpu_seconds.mean", "added_mib"),
)


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


def table(name: str, row: dict[str, Any]) -> str:
    lines = [
        f"<!-- table: {RESULT}:figures.{name}.methods | {' | '.join(KEYS)} -->",
        f"| method | {' | '.join(COLUMNS)} |",
        "| --- " * (len(COLUMNS) + 1) + "|",
    ]
    for method, r in row["methods"].items():
        if "failed" in r:
            continue
        cells = (
            f"{r['error']['mean']:.1f} ± {r['error']['std']:.1f}",
            f"{r['nmi']['mean']:.3f}",
            f"{r['clusters']['mean']:.0f}",
            f"{r['noise_percent']['mean']:.0f}",
            f"{r['seconds']['mean']:.2f}",
            f"{r['cpu_seconds']['mean']:.2f}",
            f"{r['added_mib']:.0f}",
        )
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    figures = json.loads((Path(__file__).parents[2] / RESULT).read_text())["figures"]
    if "--tables" in sys.argv:
        print("\n\n".join(f"{name}\n\n{table(name, row)}" for name, row in figures.items()))
    else:
        draw(figures)
