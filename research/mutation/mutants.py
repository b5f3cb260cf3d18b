"""Small changes to the syntax tree of a module, each the sort of slip that a person makes.

Left out: documentation, annotations, decorators, messages of errors, log lines, assertions, and
statements with the comment "not mutated: <why>" on one of their lines.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

MARK = "# not mutated"
SAME = {"strict", "non_blocking", "stacklevel"}  # keywords whose value changes no result
SYMMETRIC = {"isinstance", "max", "min", "maximum", "minimum", "equal", "allclose", "outer"}
SYMMETRIC |= {"accuracy", "clustering_error", "nmi", "ari"}
SYMMETRIC |= {"normalized_mutual_info_score", "adjusted_rand_score"}
CALLS = "max-min any-all argmax-argmin sum-mean clamp_min-clamp_max maximum-minimum amax-amin"
OPERATORS = "Lt-LtE Gt-GtE Eq-NotEq In-NotIn Is-IsNot And-Or Add-Sub Mult-Div BitAnd-BitOr"
ONE_WAY = {"FloorDiv": "Mult", "Mod": "FloorDiv", "Pow": "Mult", "LShift": "RShift"}
PAIRS = [pair.split("-") for pair in f"{CALLS} {OPERATORS}".split()]
OTHER = ONE_WAY | dict(PAIRS) | {b: a for a, b in PAIRS}
OVER_AN_AXIS = {*OTHER, "norm", "cumsum", "argsort", "sort", "squeeze", "unsqueeze"}


class Edit(NamedTuple):
    """``node.field`` becomes ``value``."""

    node: ast.AST
    field: str
    value: Any
    line: int
    reached: range | None  # lines of which one is executed if the edit is; None: on import
    text: str

    def apply(self) -> None:
        setattr(self.node, self.field, self.value)


def edits(tree: ast.Module, source: str, is_skipped: Callable[[str], bool]) -> list[Edit]:
    """Every change to be made to a module, in a fixed order, none of them made.

    ``is_skipped`` tells which functions, classes and module-level names are left out.
    """
    found = _Edits(source, is_skipped)
    found.block(tree, "body", set(), None)
    return found.all


class _Edits:
    def __init__(self, source: str, is_skipped: Callable[[str], bool]) -> None:
        self.all: list[Edit] = []
        self.marked = {i for i, text in enumerate(source.splitlines(), 1) if MARK in text}
        self.is_skipped = is_skipped

    def block(self, parent: Any, field: str, bound: set[str], function: Any) -> None:
        """``bound``: the names that have a value already; ``function``: where we are."""
        for i, node in enumerate(getattr(parent, field)):
            last = node.body[0].lineno - 1 if hasattr(node, "body") else node.end_lineno
            lines = range(node.lineno, max(last, node.lineno) + 1)
            if _left_out(node) or self.marked & {*lines}:
                continue
            if function is None and any(map(self.is_skipped, _stored(node))):
                continue
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                self.definition(node)
                continue
            inner = None if function is None else lines
            if function is not None:
                for other in _other_statements(node, bound, function):
                    self.add(node, other, inner, parent, field, i)
            if not isinstance(node, ast.Raise):
                self.parts(node, inner)
            for part in ("body", "orelse", "finalbody"):
                if isinstance(getattr(node, part, None), list):
                    self.block(node, part, bound, function)
            for handler in getattr(node, "handlers", ()):
                self.block(handler, "body", bound, function)
            bound |= _stored(node)

    def definition(self, node: Any) -> None:
        if node.name in ("__repr__", "__str__") or self.is_skipped(node.name):
            return
        if isinstance(node, ast.ClassDef):
            self.block(node, "body", set(), None)
            return
        self.parts(node.args, range(node.body[0].lineno, node.end_lineno + 1))
        names = {child.arg for child in ast.walk(node.args) if isinstance(child, ast.arg)}
        self.block(node, "body", names, node)

    def parts(self, node: ast.AST, lines: range | None) -> None:
        """Changes to the expressions below a node, statements apart."""
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.keyword) and node.arg in SAME):
            return
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "ctx", "handlers"):
                continue
            for i, child in enumerate(value if isinstance(value, list) else [value]):
                if not isinstance(child, ast.AST) or isinstance(child, ast.stmt):
                    continue
                for other in _other_parts(node, field, child):
                    self.add(node, other, lines, node, field, i)
                if isinstance(child, ast.Call):
                    for holder, name, other in _other_calls(child):
                        self.add(child, other, lines, holder, name)
                self.parts(child, lines)

    def add(self, shown: Any, value: Any, lines: Any, node: Any, field: str, i: int = 0) -> None:
        """``shown`` is the part of the code by which the edit is described."""
        old = whole = getattr(node, field)
        if isinstance(old, list) and not isinstance(value, list):
            old, value = whole[i], [*whole[:i], value, *whole[i + 1 :]]
        line = getattr(old, "lineno", 0) or getattr(shown, "lineno", 0)
        wide = isinstance(shown, ast.expr | ast.keyword | ast.AugAssign) and shown is not old
        before = ast.unparse(shown if wide else old)
        setattr(node, field, value)
        after = ast.unparse(shown if wide else value[i] if isinstance(value, list) else value)
        setattr(node, field, whole)
        self.all.append(Edit(node, field, value, line, lines, f"{before}  ->  {after}"))


def _other_statements(node: ast.stmt, bound: set[str], function: Any) -> Iterator[ast.stmt]:
    """What may stand in place of a statement; nothing, where that is more than an unbound name."""
    gone = isinstance(node, ast.Expr | ast.AugAssign | ast.Raise)
    if gone or (isinstance(node, ast.Assign) and _stored(node) <= bound):
        yield ast.Pass()
    elif isinstance(node, ast.Break | ast.Continue):
        yield ast.Continue() if isinstance(node, ast.Break) else ast.Break()
    optional = function.returns is None or "None" in ast.unparse(function.returns)
    if (
        isinstance(node, ast.Return)
        and optional
        and not isinstance(node.value, ast.Constant | None)
    ):
        yield ast.Return(ast.Constant(None))


def _other_parts(node: Any, field: str, child: Any) -> Iterator[Any]:
    """What the child of a node may become."""
    kind = type(child).__name__
    if isinstance(child, ast.Constant) and isinstance(child.value, int | float):
        yield ast.Constant(_other_number(child.value, node))
    elif kind in OTHER and not isinstance(getattr(node, "left", None), ast.JoinedStr):
        yield getattr(ast, OTHER[kind])()
    elif isinstance(child, ast.UnaryOp) and not isinstance(child.op, ast.UAdd):
        yield child.operand
    elif isinstance(child, ast.Attribute) and child.attr in ("T", "mT"):
        yield child.value
    if isinstance(node, ast.Slice) and not isinstance(child, ast.Constant):
        yield None
    asked = f"{type(node).__name__}.{field}" in ("If.test", "IfExp.test", "comprehension.ifs")
    if asked and isinstance(child, ast.Name | ast.Attribute | ast.Call):
        yield ast.UnaryOp(ast.Not(), child)


def _other_calls(node: ast.Call) -> Iterator[tuple[ast.AST, str, Any]]:
    """Node, field and value: another function of the same kind, the first arguments swapped."""
    name = _name(node)
    if name in OTHER:
        yield node.func, "attr" if isinstance(node.func, ast.Attribute) else "id", OTHER[name]
    plain = [a for a in node.args[:2] if not isinstance(a, ast.Starred)]
    if len(plain) == 2 and name not in SYMMETRIC and ast.dump(plain[0]) != ast.dump(plain[1]):
        yield node, "args", [*plain[::-1], *node.args[2:]]


def _other_number(value: Any, parent: ast.AST) -> Any:
    if isinstance(value, bool):
        return not value
    axis = isinstance(parent, ast.keyword) and parent.arg in ("dim", "axis")
    if value == 1 and (axis or (isinstance(parent, ast.Call) and _name(parent) in OVER_AN_AXIS)):
        return 0
    return (value * 2 or 1.0) if isinstance(value, float) else value + 1


def _left_out(node: ast.stmt) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert | ast.Pass | ast.Global):
        return True
    text = ast.unparse(node)
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, ast.Call) or text.startswith(("logger.", "warnings."))
    return text.startswith(("if TYPE_CHECKING", "__all__", "logger = "))


def _stored(node: ast.AST) -> set[str]:
    names = (child for child in ast.walk(node) if isinstance(child, ast.Name))
    return {name.id for name in names if isinstance(name.ctx, ast.Store)}


def _name(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))
