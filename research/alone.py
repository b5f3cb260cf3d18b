"""A function in a process of its own, so that its peak memory is its own and it may be stopped."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any


def alone(
    function: Callable[..., Any],
    *arguments: Any,
    limit: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What a function of a module returns, as JSON; ``failed`` says why there is nothing."""
    request = json.dumps([function.__module__, function.__name__, arguments])
    words = [sys.executable, "-m", "research.alone", request]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=limit, env=environment)
    except subprocess.TimeoutExpired:
        return {"failed": f"not finished after {limit:g} s"}
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        return {"failed": lines[-1] if lines else f"exit status {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    module, name, arguments = json.loads(sys.argv[1])
    print(json.dumps(getattr(importlib.import_module(module), name)(*arguments)))
