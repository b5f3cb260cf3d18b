"""Where the documentation's numbers come from: every measured one names its source, and is checked.

    python docs/measured.py                 # README.md, every page under docs/ and research/
    python docs/measured.py docs/methods.md

A measured number (one with a unit of time, memory or percent, a factor, or a decimal point) is
followed by a comment that says where it comes from:

    12.4% <!-- results/benchmarks/defaults.json:figures.digits.mean -->
    23 ms <!-- results/benchmarks/step_cpu.json:figures[network=orl].seconds.ours.min * 1000 -->
    32 to 79 per cent <!-- min(results/x.json:rows[*][1]); max(results/x.json:rows[*][1]) -->
    0.2 s <!-- computed: 1e9 * 500**2 / (64 * 2e13) -->
    <!-- cited: Seo et al. 2019, table 5 -->     <!-- defined: a parameter, not a measurement -->

``historical:`` marks results of an earlier version and is for research.benchmarks.freshness. The
value is looked up and compared at the printed precision. A comment opens on the line of its number,
as one at the start of a line would end the paragraph, and may go on below. Several sources,
separated by ";", belong to the last numbers before them, in their order; "cited" and "defined"
belong to every number of the paragraph before them that has no source yet. A table names its file
on the line above:

    <!-- table: results/orl/table.csv -->
    <!-- table: results/benchmarks/layer_cpu.json:figures | seconds.listing.median | speedup -->

Its first cell, and headings such as "N = 1,000", say which records a row is about; every other
number must be in those records, under the key given for its column where keys are given (one for
each column after the first, "±" between two). Columns whose heading contains "paper" are cited.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from sources import ROOT, SourceError, evaluate, look_up, read, same

NUMBER = re.compile(r"(?<![\w.,])[+\u2212-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?![\d])")
UNIT = re.compile(
    r"\s?(?:%|per\s?cent\b|percent\b|[mµn]?s\b|seconds?\b|min\b|minutes?\b|h\b|hours?\b|"
    r"[KMGT]i?B\b|times\b|-?fold\b)|[x\u00d7](?![\s\w]*\d)"
)
SMALL = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
WORDS = {word: value for value, word in enumerate(SMALL)} | {
    "twelve": 12,
    "fifteen": 15,
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
}
ANY_WORD = "|".join(WORDS)
WORD_UNIT = re.compile(
    rf"\b({ANY_WORD})(?=\s+(?:(?:to|or)\s+(?:{ANY_WORD})\s+)?(?:(?:milli)?seconds?|minutes?|hours?|"
    r"per\s?cent|times\s+(?:as|faster|slower|higher|lower|more|less|larger|smaller))\b)",
    re.IGNORECASE,
)
# What a decimal number follows when it is a parameter or a version.
NAMED = re.compile(r"(?:[=≥≤<>]|\blam|\balpha|\btau|\bPython|\btorch|\bversion)\s*$")
FORMULA = re.compile(r"\$\$.*?\$\$|\$[^$\n]+\$", re.DOTALL)
COMMENT = re.compile(r"<!--\s*(.*?)\s*-->", re.DOTALL)
_MARKDOWN = MarkdownIt("commonmark").enable("table")


# Printed numbers ----------------------------------------------------------------------------


@dataclass
class Number:
    """A number as printed: its text, its place in the block, whether it looks measured."""

    text: str
    start: int
    end: int
    measured: bool
    source: str | None = None

    @property
    def value(self) -> float:
        return float(
            WORDS.get(self.text.lower(), self.text.replace(",", "").replace("\u2212", "-"))
        )

    @property
    def half_unit(self) -> float:
        """Half of the last printed digit's worth."""
        mantissa, _, exponent = self.text.lower().partition("e")
        if self.text.lower() in WORDS:
            mantissa, exponent = "0", ""
        decimals = len(mantissa.partition(".")[2])
        return 0.5 * 10.0 ** (int(exponent or 0) - decimals)

    def agrees(self, value: float) -> bool:
        """Whether the value rounds to what is printed; "0.5 below" has no sign to compare."""
        signed = value if self.text[0] in "+\u2212-" else abs(value)
        return abs(signed - self.value) <= self.half_unit * (1 + 1e-6) + 1e-12


def numbers(text: str) -> list[Number]:
    found = []
    for match in NUMBER.finditer(text):
        unit = UNIT.match(text, match.end())
        decimal = "." in match[0] and not NAMED.search(text[: match.start()])
        found.append(Number(match[0], *match.span(), bool(unit or decimal)))
    found += [Number(m[1], *m.span(1), True) for m in WORD_UNIT.finditer(text)]
    return sorted(found, key=lambda number: number.start)


# Pages --------------------------------------------------------------------------------------


@dataclass
class Page:
    """What is wrong on a page, and how many numbers were compared with their source."""

    problems: list[str] = field(default_factory=list)
    compared: int = 0


def check_page(text: str, name: str = "page") -> Page:
    page = Page()
    # Formulas are not measurements; newlines are kept so that lines stay where they are.
    tokens = _MARKDOWN.parse(FORMULA.sub(lambda m: "\n" * m[0].count("\n") or "f", text))
    marker, heading, in_table = "", False, False
    for index, token in enumerate(tokens):
        line = f"{name}:{(token.map or [0])[0] + 1}"
        if token.type == "html_block":
            marker = _first_comment(token.content)
            if re.match(r"(\w+\()?results/|computed:|cited:|defined:", marker):
                page.problems.append(f"{line}: a source opens on the line of its number")
            continue
        if token.type == "table_open":
            in_table = True
            cells = table_cells(tokens, index)
            if marker.startswith("table:"):
                rows = [[plain(cell)[0] for cell in row] for row in cells]
                check_table(page, rows, marker.removeprefix("table:").strip(), line)
            else:
                check_cells(page, cells, line)
        elif token.type == "table_close":
            in_table = False
        elif token.type == "heading_open":
            heading = True
        elif token.type == "fence":
            check_comments_of_code(page, token, line)
        elif token.type == "inline" and not heading and not in_table:
            check_block(page, token, line)
        elif token.type == "heading_close":
            heading = False
        marker = ""
    return page


def _first_comment(text: str) -> str:
    match = COMMENT.search(text)
    return match[1] if match else ""


def plain(token: Token) -> tuple[str, list[tuple[int, str]]]:
    """A block's text without its code, and the comments in it with their places."""
    text, comments = "", []
    for child in token.children or []:
        if child.type == "text":
            text += child.content
        elif child.type == "html_inline" and child.content.startswith("<!--"):
            comments.append((len(text), _first_comment(child.content)))
        elif child.type == "code_inline":
            text += "`code`"
        elif child.type in ("softbreak", "hardbreak"):
            text += " "
    return text, comments


def check_block(page: Page, token: Token, line: str) -> None:
    text, comments = plain(token)
    found = numbers(text)
    for place, comment in comments:
        before = [n for n in found if n.end <= place and n.source is None]
        kind, _, reason = comment.partition(":")
        if kind in ("cited", "defined"):
            if not reason.strip():
                page.problems.append(f"{line}: '<!-- {comment} -->' gives no reason")
            for number in before:
                number.source = comment
            continue
        if kind == "historical" or (kind != "computed" and "results/" not in comment):
            continue
        sources = [source.strip() for source in comment.split(";")]
        if len(before) < len(sources):
            page.problems.append(f"{line}: no number before '<!-- {comment} -->'")
            continue
        for number, source in zip(before[-len(sources) :], sources, strict=True):
            number.source = source
            compare(page, number, source, line)
    for number in found:
        if number.measured and number.source is None:
            around = text[max(0, number.start - 25) : number.end + 15]
            page.problems.append(f"{line}: {number.text} has no source: '...{around}...'")


def compare(page: Page, number: Number, source: str, line: str, base: Any = None) -> None:
    try:
        value = evaluate(source, base)
    except (SourceError, KeyError, TypeError, ValueError, SyntaxError) as error:
        page.problems.append(f"{line}: {number.text}: {source}: {error}")
        return
    page.compared += 1
    if not number.agrees(value):
        page.problems.append(f"{line}: {number.text} is printed, but {source} is {value:.6g}")


def check_comments_of_code(page: Page, token: Token, line: str) -> None:
    """A claim in a comment of a code block has no place for a source: it may not be made there."""
    for comment in re.findall(r"#\s(.*)", token.content):
        for match in NUMBER.finditer(comment):
            if UNIT.match(comment, match.end()):
                page.problems.append(f"{line}: {match[0]} in a code block's comment has no source")


# Tables -------------------------------------------------------------------------------------


def table_cells(tokens: list[Token], start: int) -> list[list[Token]]:
    rows: list[list[Token]] = []
    for token in tokens[start:]:
        if token.type == "table_close":
            break
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(token)
    return rows


def check_cells(page: Page, rows: list[list[Token]], line: str) -> None:
    """A table without a source: each cell for itself, and one line for all that lack one."""
    alone = Page()
    for row in rows:
        for cell in row:
            check_block(alone, cell, line)
    page.compared += alone.compared
    if alone.problems:
        page.problems.append(
            f"{line}: the table has no '<!-- table: results/... -->' above it, and "
            f"{len(alone.problems)} numbers without a source"
        )


def check_table(page: Page, rows: list[list[str]], marker: str, line: str) -> None:
    files, *keys = [part.strip() for part in marker.split("|")]
    try:
        records = [record for file in files.split() for record in records_of(file)]
    except SourceError as error:
        page.problems.append(f"{line}: {error}")
        return
    header, *body = rows
    if keys and len(keys) != len(header) - 1:
        page.problems.append(f"{line}: {len(keys)} keys for {len(header) - 1} columns of the table")
        return
    for row in body:
        about = conditions(header[0], row[0])
        for column in range(1, len(header)):
            title, cell = header[column], row[column]
            if "paper" in title.casefold() or not NUMBER.search(cell):
                continue
            wanted = about + [c for c in conditions("", title) if "=" in c]
            chosen = [r for r in records if all(fits(r, condition) for condition in wanted)]
            where = f"{line}: row '{row[0]}', column '{title}'"
            if not chosen:
                page.problems.append(f"{where}: no record with {wanted}")
            elif keys and keys[column - 1]:
                compare_by_key(page, cell, keys[column - 1], chosen, where)
            else:
                compare_with_any(page, cell, title, chosen, where)


def records_of(reference: str) -> list[dict[str, Any]]:
    """The records of a CSV or of a JSON's list or mapping, the names of the latter as ``name``."""
    path, _, key = reference.partition(":")
    value = read(path)
    if key:
        found = look_up(value, key)
        value = found[0] if len(found) == 1 and not key.endswith("]") else found
    if isinstance(value, dict):
        value = [
            {"name": name, **(item if isinstance(item, dict) else {"value": item})}
            for name, item in value.items()
        ]
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise SourceError(f"{reference} is not a list of records")
    return value


def conditions(heading: str, cell: str) -> list[str]:
    """ "eyaleb, N = 2,432" -> ["eyaleb", "N=2432"]; a number alone is a value of its heading."""
    parts = [part.strip(" †*`") for part in re.split(r",(?!\d)", cell)]
    tidy = [re.sub(r"\s*=\s*", "=", re.sub(r"(?<=\d),(?=\d)", "", part)) for part in parts if part]
    number_of = re.fullmatch(r"[\w ]+", heading) is not None
    return [f"{heading}={p}" if re.fullmatch(r"[\d.]+", p) and number_of else p for p in tidy]


def fits(record: dict[str, Any], condition: str) -> bool:
    name, equals, wanted = condition.partition("=")
    if equals:
        return any(same(v, wanted) for k, v in leaves(record) if k.split(".")[-1] == name.strip())
    return any(isinstance(v, str) and same(v, condition) for _, v in leaves(record))


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        yield path, value
    for key, item in items:
        yield from leaves(item, f"{path}.{key}" if path else str(key))


def compare_by_key(
    page: Page, cell: str, key: str, chosen: list[dict[str, Any]], where: str
) -> None:
    printed = [n for n in numbers(cell) if n.text.lower() not in WORDS]
    sources = [source.strip() for source in key.split("±")]
    if len(printed) > len(sources):
        page.problems.append(f"{where}: {len(printed)} numbers, {len(sources)} keys")
        return
    for number, source in zip(printed, sources[: len(printed)], strict=True):
        compare(page, number, source, where, base=chosen)


def compare_with_any(
    page: Page, cell: str, title: str, chosen: list[dict[str, Any]], where: str
) -> None:
    values = [v for r in chosen for _, v in leaves(r) if isinstance(v, int | float)]
    factors = [1.0]
    factors += [1e3] if re.search(r"\bms\b", cell + " " + title) else []
    factors += [2.0**-20, 2.0**-30] if re.search(r"[MG]iB", cell + " " + title) else []
    for number in numbers(cell):
        page.compared += 1
        if not any(number.agrees(v * f) for v in values for f in factors):
            page.problems.append(f"{where}: {number.text} is in none of its records")


def pages() -> list[Path]:
    hidden = ("_build", ".ipynb_checkpoints")
    found = [p for name in ("docs", "research") for p in sorted((ROOT / name).rglob("*.md"))]
    return [ROOT / "README.md", *(p for p in found if not set(hidden) & set(p.parts))]


def main(names: list[str]) -> int:
    problems = []
    for path in [Path(n).resolve() for n in names] or pages():
        page = check_page(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
        problems += page.problems
        print(f"{path.relative_to(ROOT)}: {page.compared} numbers compared with their sources")
    print("\n".join(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
