"""Links and pictures of the pages at the top, in docs/ and in research/ that lead nowhere here.

    python docs/links.py

It looks up what is inside the repository: files, folders and headings of pages. No network.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path

import results_page
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[1]
RESULTS = results_page.PAGE  # written by the build of the documentation
GENERATED = {"_build", "examples"}
_MARKDOWN = MarkdownIt("commonmark").enable("table")


def pages() -> list[Path]:
    """README.md first, then the other pages at the top, then those of docs/ and research/."""
    top = sorted(ROOT.glob("*.md"), key=lambda page: page.name != "README.md")
    below = [p for name in ("docs", "research") for p in sorted((ROOT / name).rglob("*.md"))]
    written = [p for p in below if not GENERATED & {*p.parts} and p != RESULTS]
    return [*top, *written, RESULTS]


@cache
def tokens(page: Path) -> list[Token]:
    text = results_page.page() if page == RESULTS else page.read_text(encoding="utf-8")
    return _MARKDOWN.parse(text)


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and MyST make it."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


def anchors(page: Path) -> set[str]:
    headings = [b.content for a, b in pairwise(tokens(page)) if a.type == "heading_open"]
    return {slug(heading.replace("`", "")) for heading in headings}


def targets(page: Path) -> list[str]:
    """What the links and pictures of a page point at inside the repository."""
    children = [child for token in tokens(page) for child in token.children or []]
    found = [str(child.attrGet("href") or child.attrGet("src") or "") for child in children]
    return [target for target in found if target and not re.match(r"[a-z]+:", target)]


def broken(page: Path) -> list[str]:
    """The targets of a page that do not exist."""

    def exists(target: str) -> bool:
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        inside = (file.exists() or file == RESULTS) and ROOT in file.parents
        return inside and (not anchor or anchor in anchors(file))

    return [target for target in targets(page) if not exists(target)]


def main() -> int:
    problems = [f"{page.relative_to(ROOT)}: {t}" for page in pages() for t in broken(page)]
    print("\n".join(problems) or f"{len(pages())} pages without a broken link")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
