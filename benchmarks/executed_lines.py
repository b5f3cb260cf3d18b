"""Which lines of a folder are executed between two moments (sys.monitoring, from Python 3.12)."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

TOOL = 4  # a number that coverage, profilers and hypothesis do not take


class Tracer:
    """The lines of the files of ``folder`` that are executed between start and stop, by file."""

    def __init__(self, folder: Path) -> None:
        self.lines: dict[str, set[int]] = {}
        self.prefix = f"{folder}{os.sep}"
        if sys.version_info >= (3, 12):
            self.monitoring = sys.monitoring
            self.monitoring.use_tool_id(TOOL, "mutation")
            event = self.monitoring.events.LINE
            self.monitoring.register_callback(TOOL, event, self._line)

    def _line(self, code: CodeType, line: int) -> Any:
        if code.co_filename.startswith(self.prefix):
            file = code.co_filename.removeprefix(self.prefix)
            self.lines.setdefault(file, set()).add(line)
        return self.monitoring.DISABLE

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(self.prefix):
            return None
        seen = self.lines.setdefault(frame.f_code.co_filename.removeprefix(self.prefix), set())

        def local(frame: FrameType, event: str, argument: Any) -> Any:
            seen.add(frame.f_lineno)
            return local

        return local

    def start(self) -> None:
        self.lines = {}
        if sys.version_info >= (3, 12):
            self.monitoring.restart_events()
            self.monitoring.set_events(TOOL, self.monitoring.events.LINE)
        else:
            threading.settrace(self._call)
            sys.settrace(self._call)

    def stop(self) -> dict[str, set[int]]:
        if sys.version_info >= (3, 12):
            self.monitoring.set_events(TOOL, 0)
        else:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
        return self.lines
