"""What the benchmarks share: timing in turns, peak memory, processes, the machine's record."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
import torch

from dcfsc import __version__
from research.files import write_json
from research.machine import commit

ROOT = Path(__file__).resolve().parents[2]


def interleaved(
    variants: Mapping[str, Callable[[], Any]], repeats: int = 5, warmup: int = 1
) -> dict[str, dict[str, float]]:
    """Median and least seconds of each variant; they take turns, so load hits them alike."""
    for _ in range(warmup):
        for run in variants.values():
            run()
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(repeats):
        for name, run in variants.items():
            times[name].append(timed(run)[0])
    return {
        name: {"median": statistics.median(t), "min": min(t), "runs": len(t)}
        for name, t in times.items()
    }


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result; a GPU is waited for at both ends."""
    synchronize()
    start = time.perf_counter()
    result = run()
    synchronize()
    return time.perf_counter() - start, result


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def gpu_peak(device: str) -> dict[str, int | None]:
    if not device.startswith("cuda"):
        return {"peak_gpu": None, "peak_gpu_reserved": None}
    return {
        "peak_gpu": torch.cuda.max_memory_allocated(),
        "peak_gpu_reserved": torch.cuda.max_memory_reserved(),
    }


def peak_rss() -> int:
    """Largest resident memory of this process so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def machine() -> dict[str, Any]:
    return {
        "platform": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "dcfsc": __version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def in_a_process(script: str, arguments: list[str], limit: float | None = None) -> dict[str, Any]:
    """The JSON that a script prints last, or why there is none."""
    command = [sys.executable, *program(script), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"failed": f"not finished after {limit:g} s"}
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        return {"failed": lines[-1] if lines else f"exit status {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def growing(script: str, name: str, sizes: str, arguments: list[str], limit: float) -> list[dict]:
    """What a script prints for each size, with ``arguments`` and the size, until one run fails."""
    rows: list[dict] = []
    for n in sizes.split(","):
        rows.append({"N": int(n), **in_a_process(script, [*arguments, n], limit)})
        print(name, rows[-1], file=sys.stderr, flush=True)
        if "failed" in rows[-1]:
            break
    return rows


def parser(description: str | None, device: str | None = None) -> argparse.ArgumentParser:
    """The options of every benchmark; ``device`` is the default of one, where there is a choice."""
    raw = argparse.RawDescriptionHelpFormatter
    result = argparse.ArgumentParser(description=description, formatter_class=raw)
    result.add_argument("--json", type=Path, help="write the figures to this file")
    result.add_argument("--repeats", type=int, default=5)
    if device is not None:
        result.add_argument("--device", default=device)
    result.add_argument("--quiet", action="store_true", help="do not print the figures")
    return result


def without_folders(word: str) -> str:
    """A word of a command; a result names no place on a machine."""
    parts = Path(word).parts
    if not Path(word).is_absolute():
        return word
    return "/".join(parts[parts.index("results") :] if "results" in parts else parts[-1:])


def program(script: str) -> list[str]:
    """What follows `python` in a command that runs a script of this repository."""
    path = Path(script).resolve().relative_to(ROOT)
    if path.parts[0] != "research":
        return [path.as_posix()]
    return ["-m", ".".join(path.with_suffix("").parts).removesuffix(".__main__")]


def measured() -> dict[str, Any]:
    """Where, when and with which commit something was measured."""
    date = datetime.now(UTC).date().isoformat()
    return {"machine": machine(), "commit": commit(), "date": date}


def record_of(name: str, figures: Any, **code: Any) -> dict[str, Any]:
    command = " ".join(["python", *program(sys.argv[0]), *map(without_folders, sys.argv[1:])])
    return {"benchmark": name, "command": command, **code, "figures": figures}


def finish(options: argparse.Namespace, name: str, figures: Any) -> None:
    """Write the whole result, with the machine and the code that it was measured with."""
    record = record_of(name, figures, **measured())
    if options.json:
        write_json(options.json, record)
    if not options.quiet:
        print(json.dumps(figures, indent=2))


def finish_row(options: argparse.Namespace, name: str, row: str, figures: Any) -> dict[str, Any]:
    """Write one row of a result, and return all; each has its own machine and code."""
    if not options.quiet:
        print(row, json.dumps(figures), flush=True)
    known = options.json is not None and options.json.exists()
    rows = json.loads(options.json.read_text())["figures"] if known else {}
    rows[row] = {**figures, **measured()}
    if options.json:
        write_json(options.json, record_of(name, rows))
    return rows
