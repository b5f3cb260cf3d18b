"""The committed tables follow from the committed cells."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from research.experiments import tables
from research.experiments.catalog import get
from research.experiments.cells import CellStore

ROOT = Path(__file__).resolve().parents[3]
EXPERIMENTS = sorted(folder.parent.name for folder in ROOT.glob("results/*/cells"))


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_tables_follow_from_their_cells(experiment: str) -> None:
    """Column by column, so that a column which the code gained since does no harm."""
    store = CellStore(ROOT / "results", experiment)
    made = list(csv.DictReader(io.StringIO(tables.to_csv(get(experiment).table.rows(store)))))
    with open(store.folder / "table.csv", newline="", encoding="utf-8") as file:
        saved = list(csv.DictReader(file))
    assert saved == [{name: row[name] for name in saved[0]} for row in made]
