"""The exact training step in three passes over chunks of samples: docs/images/three_passes.svg.

python docs/figures/three_passes.py
"""

from __future__ import annotations

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from style import BLUE, GREEN, INK, MUTED, ORANGE, save

PASSES = (
    ("pass 1", BLUE, "encode, no gradients", "z = Enc(x)", "G  +=  z'z"),
    ("pass 2", ORANGE, "express, decode, back-propagate", "u = g / (1 - h)", "S  +=  z'u"),
    ("pass 3", GREEN, "encode again, with gradients", "feed (z M) S - h u", "∂Θ  +=  ..."),
)


def box(axes: Axes, x: float, y: float, w: float, h: float, text: str, color: str) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (x, y), w, h, boxstyle="round,pad=0.02,rounding_size=0.08", fc="white", ec=color, lw=1.6
        )
    )
    axes.text(x + w / 2, y + h / 2, text, ha="center", va="center", color=INK)


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], color: str) -> None:
    axes.add_patch(
        FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=12, color=color, lw=1.4)
    )


def main() -> None:
    figure, axes = plt.subplots(figsize=(10.4, 3.9))
    for row, (name, color, what, sample, total) in enumerate(PASSES):
        y = 2.9 - 1.3 * row
        axes.text(0.0, y + 0.35, name, color=color, weight="bold", va="center")
        for chunk in range(4):
            axes.add_patch(
                plt.Rectangle(
                    (1.05 + 0.3 * chunk, y + 0.12), 0.24, 0.46, fc=color, alpha=0.9 - 0.2 * chunk
                )
            )
        arrow(axes, (2.35, y + 0.35), (2.75, y + 0.35), color)
        box(axes, 2.85, y, 3.9, 0.7, f"{what}\n{sample}", color)
        arrow(axes, (6.85, y + 0.35), (7.35, y + 0.35), color)
        box(axes, 7.45, y, 1.45, 0.7, total, color)
    axes.text(1.05, 3.75, "chunk by chunk", color=MUTED)
    axes.text(2.85, 3.75, "for each sample, from its own row", color=MUTED)
    axes.text(7.45, 3.75, "what adds up", color=MUTED)
    notes = (
        (2.3, "M = (G + lam I)⁻¹\nd x d, summed over ranks"),
        (1.0, "S is d x d,\nsummed over ranks"),
        (-0.3, "one Adam step;\ngradients summed over ranks"),
    )
    for y, note in notes:
        axes.text(9.15, y + 0.95, note, color=MUTED, va="center", fontsize=9)
    axes.set_xlim(-0.1, 11.6)
    axes.set_ylim(0.1, 4.0)
    axes.axis("off")
    save(figure, "three_passes")


if __name__ == "__main__":
    main()
