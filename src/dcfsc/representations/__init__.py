"""Representations: ways to compare samples.

A new one is a file with a subclass of :class:`Representation` and a line in
``registry.REPRESENTATIONS``.
"""

from .base import Part, Representation
from .registry import NAME, REPRESENTATIONS, create, names, restore

__all__ = [
    "NAME",
    "REPRESENTATIONS",
    "Part",
    "Representation",
    "create",
    "names",
    "restore",
]
