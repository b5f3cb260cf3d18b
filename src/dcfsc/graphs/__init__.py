"""Affinities as graphs: checked once, then trusted."""

from .graph import Affinity, Graph, NormalizedAffinity
from .reading import read_affinity, trusted

__all__ = ["Affinity", "Graph", "NormalizedAffinity", "read_affinity", "trusted"]
