"""Texts that values make: f-strings, and what says the same in other words."""

from __future__ import annotations

import ast
from collections.abc import Callable
from string import Formatter


def as_f_string(node: ast.expr, is_str: Callable[[ast.expr], bool]) -> ast.JoinedStr | None:
    """An f-string that says what an expression says: f-strings, `str(x)`, `"{}".format(x)` and sums of them.

    is_str: whether the function of a call is `str`. None for constants and whatever else.
    """
    parts = _parts(node, is_str)
    if parts is None or all(isinstance(part, ast.Constant) for part in parts):
        return None
    return ast.copy_location(ast.JoinedStr(parts), node)


def _parts(node: ast.expr, is_str: Callable[[ast.expr], bool]) -> list[ast.expr] | None:
    if isinstance(node, ast.JoinedStr):
        return list(node.values)
    if isinstance(node, ast.Constant):
        return [node] if isinstance(node.value, str) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _parts(node.left, is_str), _parts(node.right, is_str)
        return None if left is None or right is None else left + right
    if isinstance(node, ast.Call):
        if len(node.args) == 1 and not node.keywords and not isinstance(node.args[0], ast.Starred) and is_str(node.func):
            return [_formatted(node.args[0], "", node)]
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr == "format" and isinstance(func.value, ast.Constant) \
                and isinstance(func.value.value, str):
            return _format_call(node, func.value.value)
    return None


def _format_call(node: ast.Call, text: str) -> list[ast.expr] | None:
    """The parts of `text.format(...)` with plain fields."""
    named = {k.arg: k.value for k in node.keywords}
    if None in named or any(isinstance(a, ast.Starred) for a in node.args):
        return None
    parts: list[ast.expr] = []
    taken = 0
    try:
        fields = list(Formatter().parse(text))
    except ValueError:
        return None
    for literal, field, spec, conversion in fields:
        if literal:
            parts.append(ast.copy_location(ast.Constant(literal), node))
        if field is None:
            continue
        if spec and "{" in spec:
            return None
        if not field:
            field, taken = str(taken), taken + 1
        elif field.isdigit() and taken:
            return None
        value = node.args[int(field)] if field.isdigit() and int(field) < len(node.args) else named.get(field)
        if value is None:
            return None
        parts.append(_formatted(value, spec or "", node, conversion))
    return parts


def _formatted(value: ast.expr, spec: str, place: ast.expr, conversion: str | None = None) -> ast.expr:
    inner = ast.copy_location(ast.JoinedStr([ast.copy_location(ast.Constant(spec), place)]), place) if spec else None
    return ast.copy_location(ast.FormattedValue(value, ord(conversion) if conversion else -1, inner), place)
