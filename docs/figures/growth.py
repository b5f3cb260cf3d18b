"""Seconds and memory against N, without and with N x N matrices: docs/images/growth_cpu.svg,
docs/images/growth_gpu.svg.

python docs/figures/growth.py
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib.pyplot as plt
from style import BLUE, ORANGE, save

RESULTS = Path(__file__).parents[2] / "results" / "benchmarks"
COLORS = {"without N x N": BLUE, "with N x N": ORANGE}


def draw(name: str) -> None:
    figures = json.loads((RESULTS / f"{name}.json").read_text())["figures"]
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    panels = (("seconds", "seconds", 1.0), (figures["memory"], "memory, GiB", 2.0**30))
    for axis, (key, label, unit) in zip(axes, panels, strict=True):
        for way, color in COLORS.items():
            rows = [r for r in figures[way]["runs"] if r.get(key)]
            exponent = figures[way]["time_exponent" if key == "seconds" else "memory_exponent"]
            title = way if exponent is None else f"{way}: N^{exponent:.2f}"
            x, y = [r["N"] for r in rows], [r[key] / unit for r in rows]
            axis.loglog(x, y, "o-", color=color, label=title)
        axis.set(xlabel="samples N", ylabel=label)
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize="small", loc="lower right")
    save(figure, name)


if __name__ == "__main__":
    for name in ("growth_cpu", "growth_gpu"):
        draw(name)
