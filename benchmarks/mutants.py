"""Small changes to the syntax tree of a module, each the sort of slip that a person makes.

Left out: documentation, annotations, decorators, messages of errors, log lines, assertions, and
statements with the comment "not mutated: <why>" on one of their lines.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, NamedTuple

MARK = "# not mutated"
SAME = {"strict", "non_blocking", "stacklevel"}  # keywords whose value changes no result
SYMMETRIC = {"isinstance", "max", "min", "maximum", "minimum", "equal", "allclose", "outer"}
SYMMETRIC |= {"accuracy", "clustering_error", "nmi", "ari"}
SYMMETRIC |= {"normalized_mutual_info_score", "adjusted_rand_score"}
OPERATORS: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
}
PAIRS = [("max", "min"), ("any", "all"), ("argmax", "argmin"), ("sum", "mean")]
PAIRS += [("clamp_min", "clamp_max"), ("maximum", "minimum"), ("amax", "amin")]
CALLS = dict(PAIRS) | {b: a for a, b in PAIRS}
OVER_AN_AXIS = {*CALLS, "norm", "cumsum", "argsort", "sort", "squeeze", "unsqueeze"}


class Edit(NamedTuple):
    """``holder.key`` or ``holder[key]`` becomes ``value``."""

    holder: Any
    key: Any
    value: Any
    line: int
    reached: range | None  # lines of which one is executed if the edit is; None: on import
    text: str

    def apply(self) -> None:
        _put(self.holder, self.key, self.value)


def edits(tree: ast.Module, source: str, skipped: set[str]) -> list[Edit]:
    """Every change to be made to a module, in a fixed order, none of them made."""
    found = _Edits(source, skipped)
    found.block(tree.body, None, set(), None)
    return found.all


class _Edits:
    def __init__(self, source: str, skipped: set[str]) -> None:
        self.all: list[Edit] = []
        self.marked = {i for i, text in enumerate(source.splitlines(), 1) if MARK in text}
        self.skipped = {"__repr__", "__str__", *skipped}

    def block(self, body: list, reached: range | None, bound: set[str], function: Any) -> None:
        """``bound``: the names that have a value already; ``function``: where we are."""
        for i, node in enumerate(body):
            last = node.body[0].lineno - 1 if hasattr(node, "body") else node.end_lineno
            lines = range(node.lineno, max(last, node.lineno) + 1)
            if _left_out(node) or self.marked & {*lines}:
                continue
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                self.definition(node, reached)
                continue
            inner = None if function is None else lines
            if function is not None:
                self.statement(body, i, inner, bound, function)
            if not isinstance(node, ast.Raise):
                self.parts(node, inner)
            for part in ("body", "orelse", "handlers", "finalbody"):
                for child in (inside := getattr(node, part, [])):
                    if isinstance(child, ast.ExceptHandler):
                        self.block(child.body, inner, bound, function)
                if inside and isinstance(inside[0], ast.stmt):
                    self.block(inside, inner, bound, function)
            bound |= _stored(node)

    def definition(self, node: Any, reached: range | None) -> None:
        if node.name in self.skipped:
            return
        if isinstance(node, ast.ClassDef):
            self.block(node.body, None, set(), None)
            return
        span = range(node.body[0].lineno, node.end_lineno + 1)
        self.parts(node.args, span)
        self.block(node.body, span, {a.arg for a in _all(node.args, ast.arg)}, node)

    def statement(self, body: list, i: int, lines: Any, bound: set[str], function: Any) -> None:
        """Leave a statement out, where that is more than an unbound name."""
        node = body[i]
        gone = isinstance(node, ast.Expr | ast.AugAssign | ast.Raise)
        if gone or (isinstance(node, ast.Assign) and _stored(node) <= bound):
            self.add(node, body, i, ast.Pass(), lines)
        if isinstance(node, ast.Break | ast.Continue):
            other = ast.Continue() if isinstance(node, ast.Break) else ast.Break()
            self.add(node, body, i, other, lines)
        optional = function.returns is None or "None" in ast.unparse(function.returns)
        if optional and isinstance(node, ast.Return) and not _constant(node.value):
            self.add(node, body, i, ast.Return(ast.Constant(None)), lines)

    def parts(self, node: ast.AST, lines: range | None) -> None:
        """Changes to the expressions below a node, statements apart."""
        for field, holder, key, child in _slots(node):
            if isinstance(node, ast.keyword) and node.arg in SAME:
                continue
            for value in _others(node, field, child):
                self.add(node, holder, key, value, lines)
            if isinstance(child, ast.Call):
                self.call(child, lines)
            self.parts(child, lines)

    def call(self, node: ast.Call, lines: range | None) -> None:
        name = _name(node)
        if name in CALLS:
            part = "attr" if isinstance(node.func, ast.Attribute) else "id"
            self.add(node, node.func, part, CALLS[name], lines)
        plain = [a for a in node.args[:2] if not isinstance(a, ast.Starred)]
        if len(plain) == 2 and name not in SYMMETRIC and ast.dump(plain[0]) != ast.dump(plain[1]):
            self.add(node, node, "args", [*plain[::-1], *node.args[2:]], lines)

    def add(self, parent: ast.AST, holder: Any, key: Any, value: Any, lines: range | None) -> None:
        old = holder[key] if isinstance(holder, list) else getattr(holder, key)
        line = int(getattr(old, "lineno", 0) or getattr(parent, "lineno", 0))
        wide = (
            isinstance(parent, ast.expr | ast.keyword | ast.AugAssign)
            and value.__class__ != ast.Pass
        )
        before = ast.unparse(parent if wide else old)
        _put(holder, key, value)
        after = ast.unparse(parent if wide else value)
        _put(holder, key, old)
        self.all.append(Edit(holder, key, value, line, lines, f"{before}  ->  {after}"))


def _others(node: ast.AST, field: str, child: Any) -> Iterator[Any]:
    """What the child of a node may become."""
    if isinstance(child, ast.Constant) and isinstance(child.value, int | float):
        yield ast.Constant(_other_number(child.value, node))
    elif type(child) in OPERATORS and not isinstance(getattr(node, "left", None), ast.JoinedStr):
        yield OPERATORS[type(child)]()
    elif isinstance(child, ast.UnaryOp) and not isinstance(child.op, ast.UAdd):
        yield child.operand
    elif isinstance(child, ast.Attribute) and child.attr in ("T", "mT"):
        yield child.value
    if isinstance(node, ast.Slice) and not isinstance(child, ast.Constant):
        yield None
    asked = isinstance(node, ast.If | ast.IfExp) and field == "test"
    asked |= isinstance(node, ast.comprehension) and field == "ifs"
    if asked and isinstance(child, ast.Name | ast.Attribute | ast.Call):
        yield ast.UnaryOp(ast.Not(), child)


def _other_number(value: Any, parent: ast.AST) -> Any:
    if isinstance(value, bool):
        return not value
    axis = isinstance(parent, ast.keyword) and parent.arg in ("dim", "axis")
    if value == 1 and (axis or (isinstance(parent, ast.Call) and _name(parent) in OVER_AN_AXIS)):
        return 0
    return (value * 2 or 1.0) if isinstance(value, float) else value + 1


def _slots(node: ast.AST) -> Iterator[tuple[str, Any, Any, ast.AST]]:
    """Field, holder, key and child, for the children that are neither statements nor types."""
    if isinstance(node, ast.JoinedStr):
        return
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "ctx", "handlers"):
            continue
        listed = isinstance(value, list)
        for i, child in enumerate(value if listed else [value]):
            if isinstance(child, ast.AST) and not isinstance(child, ast.stmt):
                yield (field, value, i, child) if listed else (field, node, field, child)


def _left_out(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert | ast.Pass | ast.Global):
        return True
    text = ast.unparse(node)
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Call) or text.startswith(("logger.", "warnings."))
    return text.startswith(("if TYPE_CHECKING", "__all__", "logger = "))


def _all(node: ast.AST, kind: Any) -> Iterator[Any]:
    return (child for child in ast.walk(node) if isinstance(child, kind))


def _stored(node: ast.AST) -> set[str]:
    return {name.id for name in _all(node, ast.Name) if isinstance(name.ctx, ast.Store)}


def _constant(value: ast.expr | None) -> bool:
    return value is None or isinstance(value, ast.Constant)


def _name(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _put(holder: Any, key: Any, value: Any) -> None:
    if isinstance(holder, list):
        holder[key] = value
    else:
        setattr(holder, key, value)
