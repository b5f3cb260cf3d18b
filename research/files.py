"""Writing results."""

from __future__ import annotations

import json
import os
from typing import Any

from dcfsc.files import write_text


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    write_text(path, json.dumps(value, indent=2) + "\n")
