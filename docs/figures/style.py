"""How the documentation's figures look, and how they become the same file each time."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.figure import Figure

INK, MUTED, BLUE, ORANGE, GREEN = "#1f2933", "#7b8794", "#2563a8", "#c2570c", "#2f7d4f"
IMAGES = Path(__file__).parents[1] / "images"

plt.rcParams.update(
    {
        "svg.hashsalt": "dcfsc",
        "svg.fonttype": "path",
        "font.family": "DejaVu Sans",
        "font.size": 10,
        "axes.edgecolor": MUTED,
        "axes.labelcolor": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "text.color": INK,
        "figure.facecolor": "white",
    }
)


def save(figure: Figure, name: str, description: str | None = None) -> None:
    """Write docs/images/NAME.svg without a date in it."""
    IMAGES.mkdir(exist_ok=True)
    figure.savefig(
        IMAGES / f"{name}.svg",
        metadata={"Date": None, "Description": description},
        bbox_inches="tight",
        dpi=150,
    )
    plt.close(figure)
