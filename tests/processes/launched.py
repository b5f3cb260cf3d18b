"""'dcfsc fit' in processes that torch's launcher starts, and starts again if one is killed.

    python launched.py PROCESSES RESTARTS FOLDER WORD ...

This is what torchrun does, but the processes are forked from one that has imported everything. Each
writes its process id to FOLDER/RANK.pid before it begins.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

# imported here once, instead of by every process; the first optimizer of a process imports dynamo
import torch._dynamo  # noqa: F401
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from dcfsc import DCFSC  # noqa: F401
from dcfsc.cli import main


def fit(folder: str, *words: str) -> None:
    (Path(folder) / f"{os.environ['RANK']}.pid").write_text(str(os.getpid()))
    sys.argv = ["dcfsc", *words]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise


if __name__ == "__main__":
    processes, restarts, *given = sys.argv[1:]
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=int(processes),
        max_restarts=int(restarts),
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        start_method="fork",
    )
    elastic_launch(config, fit)(*given)
