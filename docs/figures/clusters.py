"""The picture of README.md, from the example of the gallery: docs/images/clusters.png.

python docs/figures/clusters.py
"""

from __future__ import annotations

import io
import runpy

import matplotlib.pyplot as plt
from PIL import Image
from style import IMAGES

EXAMPLE = IMAGES.parent / "gallery" / "plot_light.py"


def main() -> None:
    with plt.rc_context({"font.size": 11}):
        runpy.run_path(str(EXAMPLE))
        plt.savefig(drawn := io.BytesIO(), dpi=150, format="png")
    Image.open(drawn).convert("L").quantize(24).save(IMAGES / "clusters.png", optimize=True)


if __name__ == "__main__":
    main()
