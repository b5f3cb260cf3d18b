"""Run the commands of commands.toml, one after another.

python -m research.benchmarks cpu
python -m research.benchmarks cuda --only scale_gpu.json
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = Path(__file__).with_name("commands.toml")


def commands(machine: str, only: list[str]) -> dict[str, str]:
    """The command of each result that the machine measures, or of some, by their file names."""
    known = tomllib.loads(COMMANDS.read_text(encoding="utf-8"))[machine]
    return {name: words for name, words in known.items() if not only or Path(name).name in only}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("machine", choices=("cpu", "cuda"))
    parser.add_argument("--only", nargs="*", default=[], help="some results, by their file names")
    options = parser.parse_args()
    failed = []
    for name, command in commands(options.machine, options.only).items():
        print(f"{name}: {command}", flush=True)
        words = [sys.executable, *shlex.split(command), "--quiet", "--json", name]
        if subprocess.run(words, cwd=ROOT).returncode != 0:
            failed.append(name)
    print(*(f"{name} could not be measured" for name in failed), sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
