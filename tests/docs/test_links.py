"""Every link inside the repository leads somewhere, and the check would notice if one did not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "docs"))
import links


@pytest.mark.parametrize("page", links.pages(), ids=lambda p: str(p.relative_to(links.ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert links.broken(page) == []


@pytest.mark.parametrize("target", ["nowhere.md", "start.md#nowhere", "../../outside", "#nowhere"])
def test_broken_links_are_named(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "ROOT", tmp_path)
    (tmp_path / "start.md").write_text("# Here\n")
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\n[good](start.md#here) [self](#title) [bad]({target})\n")
    assert links.broken(page) == [target]
