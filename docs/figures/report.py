"""The top of the report of the digits, docs/images/report.png, and their map, docs/images/map.svg.

It needs Chromium.

python docs/figures/report.py
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

IMAGES = Path(__file__).parents[1] / "images"
SIZE = (1200, 1560)


def main() -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("needs Chromium or Chrome")
    with tempfile.TemporaryDirectory() as folder:
        run, picture = Path(folder, "digits"), Path(folder, "report.png")
        fit = ["fit", "digits", "-k", "10", "--out", str(run)]
        subprocess.run([sys.executable, "-m", "dcfsc", *fit], check=True)
        options = ["--headless", "--no-sandbox", "--hide-scrollbars"]
        size = f"--window-size={SIZE[0]},{SIZE[1]}"
        page = (run / "report.html").as_uri()
        subprocess.run([browser, *options, size, f"--screenshot={picture}", page], check=True)
        Image.open(picture).convert("RGB").quantize(200).save(IMAGES / "report.png", optimize=True)
        drawn = ["report", str(run), "--map", str(Path(folder, "map.svg"))]
        subprocess.run([sys.executable, "-m", "dcfsc", *drawn], check=True)
        (IMAGES / "map.svg").write_bytes(Path(folder, "map.svg").read_bytes())


if __name__ == "__main__":
    main()
