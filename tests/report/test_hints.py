"""Hints from details that are made up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dcfsc.report import Details
from dcfsc.report.cards import merge_hints, split_hints


def with_coupling(details: Details, *rows: list[float]) -> Details:
    return replace(details, coupling=np.array(rows, np.float32))


def test_pairs_as_close_as_halves_may_be_one(details: Details) -> None:
    close = with_coupling(details, [0.4, 0.31, 0.1], [0.31, 0.5, 0.29], [0.1, 0.29, 0.4])
    assert [hint["pair"] for hint in merge_hints(close, [0, 1, 2])] == [(0, 1)]
    assert merge_hints(close, [0, 2]) == []  # one of the two is no more
    far = with_coupling(details, [0.4, 0.29, 0.1], [0.29, 0.5, 0.1], [0.1, 0.1, 0.4])
    assert merge_hints(far, [0, 1, 2]) == []
    (hint,) = merge_hints(close, [0, 1, 2])
    for cluster, positions in zip(hint["pair"], hint["examples"], strict=True):
        assert len(positions) == 5
        assert (details.labels[details.shown[positions]] == cluster).all()


def test_clusters_that_hardly_hang_together_may_be_two(details: Details) -> None:
    parts = 2 * (details.parts // 2) + np.where(np.arange(120) % 4 == 0, 1, 0)
    loose = replace(
        with_coupling(details, [0.07, 0, 0], [0, 0.4, 0], [0, 0, 0.5]), parts=parts.astype(np.int32)
    )
    (hint,) = split_hints(loose, [0, 1, 2])
    assert hint["cluster"] == 0
    assert hint["sizes"] == [(parts == 0).sum(), (parts == 1).sum()]
    for half, positions in enumerate(hint["examples"]):
        assert (parts[details.shown[positions]] == half).all()
    firm = with_coupling(loose, [0.09, 0, 0], [0, 0.4, 0], [0, 0, 0.5])
    assert split_hints(firm, [0, 1, 2]) == []
    done = replace(loose, labels=np.where(parts == 1, 3, loose.labels))  # split by hand
    assert split_hints(done, [0, 1, 2, 3]) == []
    alone = replace(loose, parts=np.where(np.arange(120) == 0, 1, 2 * (parts // 2)))
    assert split_hints(alone, [0, 1, 2]) == []  # one sample is no part
