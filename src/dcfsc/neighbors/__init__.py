"""Neighbors: the k largest inner products of each row.

Exact, filtered in half precision, approximate, or with the rows divided among processes.
"""

from .approximate import approximately_largest_inner_products, recall
from .exact import largest_inner_products
from .rows import larger_of_both, unit_rows
from .sharded import (
    among_in_order,
    in_order,
    largest_among,
    largest_inner_products_of_all,
    scan_among,
)

__all__ = [
    "among_in_order",
    "approximately_largest_inner_products",
    "in_order",
    "larger_of_both",
    "largest_among",
    "largest_inner_products",
    "largest_inner_products_of_all",
    "recall",
    "scan_among",
    "unit_rows",
]
