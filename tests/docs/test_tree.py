"""The picture in CONTRIBUTING.md shows this code: its folders, and the way of the data."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

sys.path.append(str(Path(__file__).resolve().parents[2] / "docs" / "figures"))
import tree

DESCRIPTION = "{http://purl.org/dc/elements/1.1/}description"


def test_the_picture_of_the_tree_is_that_of_the_code() -> None:
    picture = ElementTree.parse(tree.ROOT / "docs" / "images" / "tree.svg")
    drawn = next(picture.iter(DESCRIPTION)).text
    assert json.loads(drawn or "") == tree.description(), "run python docs/figures/tree.py"
