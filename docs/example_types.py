"""Check the types of the Python examples in README.md and docs/ with pyright in basic mode.

    python docs/example_types.py

A page's examples share a namespace, so they are checked as one file, whose lines have the numbers
that they have in the page. Examples under a "not run" comment are left out.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "research" / "docs").glob("*.md")),
]
BLOCK = re.compile(r"^( *)```python\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"<!-- not run:.*-->\s*\Z")


def examples(text: str) -> str:
    """The page with everything but its Python examples blanked, line by line."""
    lines = [""] * (text.count("\n") + 1)
    for block in BLOCK.finditer(text):
        if NOT_RUN.search(text[: block.start()]):
            continue
        first = text.count("\n", 0, block.start(2))
        for number, line in enumerate(block[2].splitlines(), first):
            lines[number] = line.removeprefix(block[1])
    return "\n".join(lines)


def errors() -> list[str]:
    """One line for each thing that pyright calls an error."""
    with tempfile.TemporaryDirectory() as folder:
        names = {}
        for page in PAGES:
            file = Path(folder, f"{page.stem.lower()}_examples.py").resolve()
            file.write_text(examples(page.read_text(encoding="utf-8")), encoding="utf-8")
            names[str(file)] = str(page.relative_to(ROOT))
        settings = {"typeCheckingMode": "basic", "extraPaths": [str(ROOT / "src")]}
        Path(folder, "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
        command = ["-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
        done = subprocess.run(
            [sys.executable, *command, "--project", folder], capture_output=True, text=True
        )
        if not done.stdout:
            sys.exit(done.stderr or "basedpyright printed nothing")
        found = json.loads(done.stdout)["generalDiagnostics"]
    return [
        f"{names[str(Path(one['file']).resolve())]}:{one['range']['start']['line'] + 1}: "
        f"{one['message'].splitlines()[0]}"
        for one in found
        if one["severity"] == "error"
    ]


if __name__ == "__main__":
    if wrong := errors():
        sys.exit("\n".join(wrong))
    print(f"the examples of {len(PAGES)} pages have the right types")
