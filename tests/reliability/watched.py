"""Read malformed inputs in a process that is watched: its time, its memory, what it tries to do.

    python tests/reliability/watched.py --count 300 --seed 0

The inputs of one seed are always the same ones. A child process, forked once everything has been
imported, reads one after the other; it tells before and after each, so that one which it does not
survive, or does not come back from, is known by its number, and the next child goes on behind it.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import inputs
import malformed
import numpy as np
import torch._dynamo  # noqa: F401 - the first optimizer imports it; PyTorch 2.6 then writes a file

from dcfsc.errors import InputError

CPU_SECONDS = 10.0  # an input that takes more time of the processor is a hang, ...
WALL_SECONDS = 300.0  # ... as is one that waits so long; what a busy machine adds is not counted
MEMORY_BYTES = 1 << 30  # one that takes more is told, and at twice that refused by the system
LIMITS = (
    (signal.ITIMER_PROF, signal.SIGPROF, CPU_SECONDS),
    (signal.ITIMER_REAL, signal.SIGALRM, WALL_SECONDS),
)
FORBIDDEN = ("pickle.find_class", "os.system", "subprocess.Popen", "os.exec", "os.posix_spawn")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Hang(BaseException):
    """Raised by an alarm; no reader's ``except Exception`` holds it."""


class Forbidden(BaseException):
    """Raised where a reader unpickles, starts a program or writes elsewhere."""


def outcomes(count: int, seed: int, only: str | None = None) -> Iterator[dict[str, Any]]:
    """What became of each of ``count`` malformed inputs."""
    kinds = [k for k, v in inputs.KINDS.items() for _ in range(v.weight) if only in (None, k)]
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        root = Path(folder)
        os.environ |= {malformed.CANARY: f"{folder}/canary", "XDG_CACHE_HOME": f"{folder}/cache"}
        if _in_child(lambda: inputs.write_seeds(root / "seeds")) != 0:
            raise RuntimeError("the whole files could not be written")
        start = 0
        while start < count:
            start = yield from _one_child(range(start, count), seed, kinds, root)
        if (root / "canary").exists():
            yield {"index": -1, "kind": "all", "outcome": "crash", "message": "a payload ran"}


def _in_child(work: Any) -> int:
    """Threads that a library starts while it writes must not be there when children are forked."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _one_child(indices: range, seed: int, kinds: list[str], root: Path) -> Any:
    """Fork a reader, pass on what it tells, and return the index to go on from."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receiving)
        try:
            with open(sending, "w", buffering=1) as told:
                for index in indices:
                    kind = kinds[index % len(kinds)]
                    told.write(json.dumps({"index": index, "kind": kind}) + "\n")
                    told.write(json.dumps(_one(index, kind, seed, root)) + "\n")
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(sending)
    current: dict[str, Any] = {}
    rest, ready = b"", True
    while ready:
        ready = bool(select.select([receiving], [], [], 2 * WALL_SECONDS)[0])
        block = os.read(receiving, 1 << 16) if ready else b""
        if not block:
            break
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "outcome" in message:
                yield message
            current = {} if "outcome" in message else message
    os.close(receiving)
    if not ready:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if not current:
        return indices.stop
    how = "hang" if not ready or status == -signal.SIGXCPU else "crash"
    yield {**current, "outcome": how, "message": f"the process ended with {status}"}
    return current["index"] + 1


def _one(index: int, kind: str, seed: int, root: Path) -> dict[str, Any]:
    """Make one input, read it, and say what happened."""
    _watch_actions(root)
    scratch = root / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    what, path = inputs.place(kind, np.random.default_rng([seed, index]), root / "seeds", scratch)
    before = _memory("VmRSS")
    _limit_memory()
    _limit_processor()
    begin = time.process_time()
    outcome, message = _read(kind, path)
    result = {
        "index": index,
        "kind": kind,
        "what": what,
        "outcome": outcome,
        "message": message,
        "seconds": time.process_time() - begin,  # of the processor
        "bytes": max(0, _memory("VmHWM") - before),
    }
    if outcome in ("refused", "handled") and result["bytes"] > MEMORY_BYTES:
        result["outcome"] = "memory"
    return result


def _read(kind: str, path: Path) -> tuple[str, str]:
    return watched_call(lambda: inputs.KINDS[kind].read(path), path)


def watched_call(work: Callable[[], Any], path: Path) -> tuple[str, str]:
    """What became of it: handled, refused, a crash or a hang; and what was said."""

    def alarm(*_: Any) -> None:
        raise Hang

    for timer, number, seconds in LIMITS:
        signal.signal(number, alarm)
        signal.setitimer(timer, seconds)
    begin = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _reading.append(path)
            work()
        return "handled", ""
    except InputError as error:
        lines = str(error).splitlines()
        return ("refused", lines[0][:300]) if len(lines) == 1 else ("crash", f"{len(lines)} lines")
    except Hang as error:
        spent = time.process_time() - begin
        return "hang", f"no answer after {spent:.1f} s of the processor {_where(error)}"
    except Forbidden as error:
        return "crash", f"forbidden: {error}"
    except BaseException as error:
        return "crash", f"{type(error).__name__}: {str(error)[:200]} {_where(error)}"
    finally:
        for timer, *_ in LIMITS:
            signal.setitimer(timer, 0)
        _reading.clear()


def _where(error: BaseException) -> str:
    trace, place = error.__traceback__, ""
    while trace is not None:
        code = trace.tb_frame.f_code
        if "dcfsc" in code.co_filename:
            place = f"{Path(code.co_filename).name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return f"({place})"


def _memory(field: str) -> int:
    if field == "VmRSS":
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # the peak starts anew
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))


def _limit_memory() -> None:
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (_memory("VmSize") + 2 * MEMORY_BYTES, hard))


def _limit_processor() -> None:
    """Where no alarm is heard, in a library's own loop, the system ends the process."""
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + 2 * CPU_SECONDS) + 1, hard))


_watching: list[Path] = []
_reading: list[Path] = []


def _watch_actions(root: Path) -> None:
    if _watching:
        return
    _watching.append(root)
    inside = (os.path.realpath(root), "/dev/null")

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if not _reading:
            return
        if event in FORBIDDEN:
            raise Forbidden(event)
        if event == "open":
            path, _, flags = arguments
            writes = isinstance(flags, int) and flags & WRITES
            if writes and isinstance(path, str | bytes) and "__pycache__" not in os.fsdecode(path):
                target = os.path.realpath(os.fsdecode(path))
                if not target.startswith(inside):
                    raise Forbidden(f"writing {target}")

    sys.addaudithook(hook)


def summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    """Counts by kind, the largest memory and time, and every input that was neither refused nor
    handled."""
    names = ("refused", "handled", "crash", "hang", "memory")
    by_kind = []
    for kind in inputs.KINDS:
        here = [r for r in results if r["kind"] == kind]
        if here:
            counts = {name: sum(r["outcome"] == name for r in here) for name in names}
            peak = max(r.get("bytes", 0) for r in here)
            longest = max(r.get("seconds", 0.0) for r in here)
            by_kind.append(
                {
                    "kind": kind,
                    "inputs": len(here),
                    **counts,
                    "peak_bytes": peak,
                    "seconds": longest,
                }
            )
    keys = ("inputs", *names)
    total = {key: sum(row[key] for row in by_kind) for key in keys}
    for key in ("peak_bytes", "seconds"):
        total[key] = max((row[key] for row in by_kind), default=0)
    failures = [r for r in results if r["outcome"] not in ("refused", "handled")]
    return {"total": total, "kinds": by_kind, "failures": failures[:100]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=sorted(inputs.KINDS))
    parser.add_argument("--messages", action="store_true", help="print what each refusal says")
    options = parser.parse_args()
    results = []
    for result in outcomes(options.count, options.seed, options.kind):
        results.append(result)
        if options.messages:
            print(result["kind"], result.get("what"), result["outcome"], result["message"])
    found = summary(results)
    print(json.dumps(found))
    return 1 if found["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
