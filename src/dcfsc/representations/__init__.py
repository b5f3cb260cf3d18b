"""Representations: ways to compare samples, and the choice of one.

A new one is a file with a subclass of :class:`Representation` and a line in
``choice.REPRESENTATIONS``.
"""

from .base import Part, Representation
from .choice import REPRESENTATIONS, choose, create, names, restore

__all__ = [
    "REPRESENTATIONS",
    "Part",
    "Representation",
    "choose",
    "create",
    "names",
    "restore",
]
