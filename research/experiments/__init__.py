"""The paper's tables and figures, resumable.

A protocol, its cells and what is drawn from them live here; methods come from the estimators.
"""

from .catalog import names
from .reproduce import Summary, render, reproduce

__all__ = ["Summary", "names", "render", "reproduce"]
