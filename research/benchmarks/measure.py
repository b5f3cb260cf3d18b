"""What the benchmarks share: how one is defined and run, timing in turns, peak memory."""

from __future__ import annotations

import argparse
import inspect
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from research.alone import alone
from research.record import finish, finish_row, parser

Figures = dict[str, Any]
Rows = Iterator[tuple[str, Figures]]
BENCHMARKS: dict[str, Callable[..., Any]] = {}


def benchmark(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function a benchmark of its name: its parameters are the options of the command.

    It returns all figures, or yields rows by name, each of which is written as soon as it is
    measured and replaces the row of that name in the file.
    """
    BENCHMARKS[function.__name__.replace("_", "-")] = function
    return function


def run(name: str, words: list[str]) -> None:
    """Run a benchmark with the options of a command line, and write its record."""
    function = BENCHMARKS[name]
    options = parser(inspect.getdoc(function) or "")
    options.prog = f"python -m research bench {name}"
    parameters = inspect.signature(function).parameters
    for parameter in parameters.values():
        _add_option(options, parameter)
    args = options.parse_args(words)
    figures = function(**{key: getattr(args, key) for key in parameters})
    if not isinstance(figures, Iterator):
        finish(args, name.replace("-", "_"), figures)
        return
    for row, measured in figures:
        finish_row(args, name.replace("-", "_"), row, measured)


def _add_option(options: argparse.ArgumentParser, parameter: inspect.Parameter) -> None:
    default, flag = parameter.default, "--" + parameter.name.replace("_", "-")
    if default is parameter.empty:
        options.add_argument(parameter.name)
    elif default is False:
        options.add_argument(flag, action="store_true")
    elif isinstance(default, tuple):
        of = type(default[0]) if default else str
        options.add_argument(flag, nargs="*", type=of, default=default)
    else:
        options.add_argument(flag, type=type(default), default=default)


def interleaved(
    variants: Mapping[str, Callable[[], Any]], repeats: int = 5, warmup: int = 1
) -> dict[str, dict[str, float]]:
    """Median and least seconds of each variant; they take turns, so load hits them alike."""
    for _ in range(warmup):
        for variant in variants.values():
            variant()
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(repeats):
        for name, variant in variants.items():
            times[name].append(timed(variant)[0])
    return {
        name: {"median": statistics.median(t), "min": min(t), "runs": len(t)}
        for name, t in times.items()
    }


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and result; a GPU is waited for at both ends."""
    synchronize()
    start = time.perf_counter()
    result = function()
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


def growing(
    function: Callable[..., Any], sizes: tuple[int, ...], *arguments: Any, limit: float
) -> list[Figures]:
    """What a function measures alone, at each size and with ``arguments``, until one run fails."""
    rows: list[Figures] = []
    for n in sizes:
        rows.append({"N": n, **alone(function, n, *arguments, limit=limit)})
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        if "failed" in rows[-1]:
            break
    return rows
