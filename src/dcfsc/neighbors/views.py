"""The k largest |q . y| per row where every column has several views: the best view counts."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from dcfsc import processes

from .exact import largest_inner_products
from .sharded import largest_inner_products_of_all


def largest_over_views(
    Q: Tensor,
    views: Iterable[Tensor],
    k: int,
    diagonal: int | None = None,
    found: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """max over views a of |q_i . y_ja|, the k largest of each row: values and indices (n, k).

    Q is (n, d); every view is (N, d), its row j being column j seen in another way. With
    ``diagonal=o`` the pair (i, i + o) is left out. Where samples are divided among processes and
    ``diagonal`` is given, Q and the views hold this process's samples and the columns are those of
    all processes. ``found`` are the k largest by another view, signed, if there is one that was
    scanned before.
    """
    values: Tensor | None = None
    if found is not None:
        values, indices = found[0].abs(), found[1]
    for Y in views:
        # A sample among the k best by its best view is among the k best of that view.
        if processes.active() and diagonal is not None:
            magnitudes, columns = largest_inner_products_of_all(Q, Y, k)
        else:
            magnitudes, columns = largest_inner_products(Q, Y, k, diagonal=diagonal)
        magnitudes = magnitudes.abs()
        if values is None:
            values, indices = magnitudes, columns
        else:
            values, indices = _merged(
                torch.cat((values, magnitudes), 1),
                torch.cat((indices, columns), 1),
                magnitudes.shape[1],
            )
    if values is None:
        raise ValueError("there must be at least one view.")
    return values, indices


def _merged(values: Tensor, indices: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest values (n, m) of distinct columns; of a column's values the largest counts."""
    values, order = values.sort(dim=1, descending=True, stable=True)
    indices = indices.gather(1, order)
    # By column, the larger value first, as the sort is stable: adjacent duplicates are repeats.
    by_column, place = indices.sort(dim=1, stable=True)
    repeat = torch.zeros_like(by_column, dtype=torch.bool)
    repeat[:, 1:] = by_column[:, 1:] == by_column[:, :-1]
    repeated = torch.zeros_like(repeat).scatter_(1, place, repeat)
    kept = values.masked_fill(repeated, -1.0).topk(k, dim=1).indices
    return values.gather(1, kept), indices.gather(1, kept)
