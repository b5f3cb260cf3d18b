"""The value of a source: ``results/FILE:KEY`` and arithmetic with it.

    results/benchmarks/layer_cpu.json:figures[N=400].seconds.ours.median * 1000
    max(results/orl/cells/dcfsc.jsonl:[*].protocol.error)

A key goes through mappings by name (``["a.b"]`` where the name has dots), through lists by number
``[2]``, slice ``[0:3]``, all ``[*]`` or the records that fit ``[K=10,method=dcfsc]``, where
``trial-0*`` fits every text that begins so. A CSV and a JSONL are lists of records. ``measured.py``
says how pages use it.
"""

from __future__ import annotations

import ast
import csv
import json
import operator
import re
import statistics
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
AGGREGATES = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "std": statistics.stdev,
    "min": min,
    "max": max,
    "sum": sum,
    "count": len,
}
OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


class SourceError(ValueError):
    """A source that does not exist or does not say what is printed."""


@cache
def read(path: str) -> Any:
    """A JSON value, or the records of a CSV's rows or a JSONL's lines."""
    if not path.startswith("results/"):
        raise SourceError(f"{path} is not under results/")
    file = ROOT / path
    if not file.is_file():
        raise SourceError(f"there is no file {path}")
    if file.suffix == ".csv":
        with open(file, newline="", encoding="utf-8") as stream:
            return [{k: _parsed(v) for k, v in row.items()} for row in csv.DictReader(stream)]
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return json.loads(text)


def _parsed(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text or None


STEP = re.compile(r"\[\"([^\"]*)\"\]|\[([^\]]*)\]|([^.\[\]]+)")


def look_up(base: Any, key: str) -> list[Any]:
    """All the values that a key such as ``figures[N=400].seconds.ours`` reaches."""
    values = base if isinstance(base, list) and not key.startswith("[") else [base]
    for quoted, selector, name in STEP.findall(key):
        step = quoted or name.strip()
        if selector == "*":
            values = [item for v in values for item in (v.values() if isinstance(v, dict) else v)]
        elif re.fullmatch(r"\d+", selector):
            values = [v[int(selector)] for v in values if len(v) > int(selector)]
        elif re.fullmatch(r"\d+:\d+", selector):
            values = [v[slice(*map(int, selector.split(":")))] for v in values]
        elif selector:
            wanted = dict(part.split("=", 1) for part in selector.split(","))
            values = [
                item
                for v in values
                for item in (v if isinstance(v, list) else [v])
                if all(fits(item.get(k.strip()), w.strip()) for k, w in wanted.items())
            ]
        else:
            values = [v[step] for v in values if isinstance(v, dict) and step in v]
    return values


def fits(value: Any, wanted: str) -> bool:
    """Whether a value is the wanted one, or begins with it where an asterisk ends it."""
    return same(value, wanted) or (
        wanted.endswith("*") and isinstance(value, str) and value.startswith(wanted[:-1])
    )


def same(value: Any, wanted: str) -> bool:
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return float(value) == float(wanted.replace(",", ""))
        except ValueError:
            return False
    return str(value).casefold() == wanted.casefold()


def evaluate(expression: str, base: Any = None) -> float:
    """A source's value: references and plain numbers joined by " * ", " / " and " - "."""
    if expression.startswith("computed:"):
        return arithmetic(expression.removeprefix("computed:").strip())
    parts = re.split(r"\s([*/-])\s", expression)
    value = _term(parts[0], base)
    for sign, term in zip(parts[1::2], parts[2::2], strict=True):
        other = _term(term, base)
        value = {"*": value * other, "/": value / other if other else 0.0, "-": value - other}[sign]
    return value


def _term(text: str, base: Any) -> float:
    text = text.strip()
    if re.fullmatch(r"[\d.e+*-]+", text):
        return arithmetic(text)
    call = re.fullmatch(rf"({'|'.join(AGGREGATES)})\((.*)\)", text)
    reference = call[2] if call else text
    path, colon, key = reference.partition(":")
    found = look_up(read(path), key) if colon else look_up(base, reference)
    values = [v for v in found if isinstance(v, int | float) and not isinstance(v, bool)]
    if not values:
        raise SourceError(f"{reference} leads to no number")
    if call:
        return float(AGGREGATES[call[1]](values))
    if len(values) > 1:
        raise SourceError(f"{reference} leads to {len(values)} numbers; select one or aggregate")
    return float(values[0])


def arithmetic(text: str) -> float:
    """Plain arithmetic, and nothing else."""

    def value(node: ast.expr) -> float:
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        raise SourceError(f"{text!r} is not plain arithmetic")

    return float(value(ast.parse(text, mode="eval").body))
