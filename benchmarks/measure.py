"""What the benchmarks share: interleaved timing, peak memory, and a record of the machine."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
import torch

from dcfsc import __version__
from dcfsc.files import write_json


def interleaved(
    variants: dict[str, Callable[[], Any]], repeats: int = 5, warmup: int = 1
) -> dict[str, dict[str, float]]:
    """Median and least seconds of each variant; they take turns, so load hits them alike."""
    for _ in range(warmup):
        for run in variants.values():
            run()
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(repeats):
        for name, run in variants.items():
            _synchronise()
            start = time.perf_counter()
            run()
            _synchronise()
            times[name].append(time.perf_counter() - start)
    return {
        name: {"median": statistics.median(t), "min": min(t), "runs": len(t)}
        for name, t in times.items()
    }


def _synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


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


def parser(description: str) -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(description=description)
    result.add_argument("--json", type=Path, help="write the figures to this file")
    result.add_argument("--repeats", type=int, default=5)
    result.add_argument("--quiet", action="store_true", help="do not print the figures")
    return result


def finish(options: argparse.Namespace, name: str, figures: Any) -> None:
    record = {
        "benchmark": name,
        "command": f"python benchmarks/{Path(sys.argv[0]).name} " + " ".join(sys.argv[1:]),
        "machine": machine(),
        "figures": figures,
    }
    if options.json:
        write_json(options.json, record)
    if not options.quiet:
        print(json.dumps(figures, indent=2))
