"""Affinities as graphs, on the host or on a device: checked once, then trusted."""

from .graph import Affinity, Graph, NormalizedAffinity
from .reading import read_affinity, trusted

__all__ = ["Affinity", "Graph", "NormalizedAffinity", "read_affinity", "trusted"]
