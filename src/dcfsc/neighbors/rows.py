"""Rows at unit length, whose inner products are cosines; and two neighbor lists in one."""

from __future__ import annotations

import torch
from torch import Tensor


def unit_rows(Z: Tensor) -> Tensor:
    """Rows of Z (N, d) at unit length; zero rows stay zero."""
    # Scaled by the largest entry first, so that squares neither overflow nor vanish.
    largest = Z.abs().amax(dim=1, keepdim=True)
    scaled = Z / largest.masked_fill(largest == 0, 1.0)
    norm = torch.linalg.vector_norm(scaled, dim=1, keepdim=True)
    return scaled / norm.masked_fill(norm == 0, 1.0)


Neighbors = tuple[Tensor, Tensor]  # values and distinct columns (n, k)


def larger_of_both(one: Neighbors, other: Neighbors) -> Neighbors:
    """The k largest magnitudes of distinct columns in two lists of k; the larger of a column's two.

    A column among the k largest by the larger of its values is among the k largest of that list, so
    nothing is lost.
    """
    magnitudes = torch.cat((one[0].abs(), other[0].abs()), dim=1)
    values, order = magnitudes.sort(dim=1, descending=True, stable=True)
    columns = torch.cat((one[1], other[1]), dim=1).gather(1, order)
    # By column, the larger value first, as the sort is stable: adjacent duplicates are repeats.
    by_column, place = columns.sort(dim=1, stable=True)
    repeat = torch.zeros_like(by_column, dtype=torch.bool)
    repeat[:, 1:] = by_column[:, 1:] == by_column[:, :-1]
    repeated = torch.zeros_like(repeat).scatter_(1, place, repeat)
    largest = values.masked_fill(repeated, -1.0).topk(other[0].shape[1], dim=1).indices
    return values.gather(1, largest), columns.gather(1, largest)
