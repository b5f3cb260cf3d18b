"""The paper's tables and figures as experiments that can be run, resumed and shared."""

from .catalogue import names
from .reproduce import Summary, render, reproduce

__all__ = ["Summary", "names", "render", "reproduce"]
