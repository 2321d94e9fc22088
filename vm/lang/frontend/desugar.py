"""Statements that are short for others, rewritten before anything else looks at a tree: `match`, and `else` of loops.

Names that no source can hold (with a dot) keep subjects and flags. The digest is that of the tree as it was written.
"""

from __future__ import annotations

import ast
import copy

from ..source import FunctionNode, FunctionSource


def desugared(source: FunctionSource, node: FunctionNode) -> FunctionNode:
    """The tree of a function, rewritten in place where that is needed."""
    if not source.memo.get("desugared"):
        if any("match" in line or "else" in line for line in source.lines) and any(map(_is_short, ast.walk(source.node))):
            _ = source.digest  # made and kept before the tree changes
            made = _Rewriter().visit(copy.deepcopy(source.node))
            source.node.body = made.body  # in one step: other threads may compile the same helper
        source.memo["desugared"] = True
    return node


def _is_short(node: ast.AST) -> bool:
    return isinstance(node, ast.Match) or (isinstance(node, (ast.For, ast.While)) and bool(node.orelse))


class _Rewriter(ast.NodeTransformer):
    """What it does not rewrite stays, to be refused where it stands."""

    def visit_For(self, node: ast.For) -> ast.AST | list[ast.stmt]:
        return self._loop(node)

    def visit_While(self, node: ast.While) -> ast.AST | list[ast.stmt]:
        return self._loop(node)

    def _loop(self, node: ast.For | ast.While) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        if not node.orelse:
            return node
        orelse, node.orelse = node.orelse, []
        flag = f".through{node.lineno}.{node.col_offset}"
        if not _mark_breaks(node.body, flag):
            return [node, *orelse]
        test = ast.copy_location(ast.If(_name(node, flag), orelse, []), orelse[0])
        return [_assign(node, flag, _constant(node, True)), node, test]

    def visit_Match(self, node: ast.Match) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        subject = f".subject{node.lineno}.{node.col_offset}"
        rest: list[ast.stmt] = []
        for case in reversed(node.cases):
            made = self._case(case, subject, rest)
            if made is None:
                return node
            rest = made
        return [_assign(node, subject, node.subject), *rest]

    def _case(self, case: ast.match_case, subject: str, rest: list[ast.stmt]) -> list[ast.stmt] | None:
        """A case with what follows it where it does not match; None for patterns that are not rewritten."""
        place, pattern = case.body[0], case.pattern
        if isinstance(pattern, ast.MatchAs) and pattern.pattern is None:
            bound: list[ast.stmt] = [_assign(pattern, pattern.name, _name(pattern, subject))] if pattern.name else []
            if case.guard is None:
                return [*bound, *case.body]
            return [*bound, ast.copy_location(ast.If(case.guard, case.body, rest), place)]
        named = pattern.name if isinstance(pattern, ast.MatchAs) else None
        test = _test(pattern.pattern if isinstance(pattern, ast.MatchAs) else pattern, subject)
        if test is None or (named and case.guard is not None):
            return None
        if case.guard is not None:
            test = ast.copy_location(ast.BoolOp(ast.And(), [test, case.guard]), pattern)
        bound = [_assign(pattern, named, _name(pattern, subject))] if named else []
        return [ast.copy_location(ast.If(test, [*bound, *case.body], rest), place)]


def _test(pattern: ast.pattern | None, subject: str) -> ast.expr | None:
    """The test that a pattern is: of values, singletons and alternatives."""
    if isinstance(pattern, ast.MatchValue):
        return _compare(pattern, subject, ast.Eq(), pattern.value)
    if isinstance(pattern, ast.MatchSingleton):
        return _compare(pattern, subject, ast.Is(), _constant(pattern, pattern.value))
    if isinstance(pattern, ast.MatchOr):
        tests = [_test(part, subject) for part in pattern.patterns]
        found = [test for test in tests if test is not None]
        return ast.copy_location(ast.BoolOp(ast.Or(), found), pattern) if len(found) == len(tests) else None
    return None


def _mark_breaks(body: list[ast.stmt], flag: str) -> bool:
    """Put a store before each `break` that leaves the loop whose body this is; whether there is one."""
    found = False
    at = next((i for i, statement in enumerate(body) if isinstance(statement, ast.Break)), -1)
    if at >= 0:
        body.insert(at, _assign(body[at], flag, _constant(body[at], False)))
        found = True
    for statement in body:
        for part in ("body", "orelse"):
            inner = getattr(statement, part, None)
            is_other_loop = part == "body" and isinstance(statement, (ast.For, ast.While))
            if inner and not is_other_loop and not isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                found = _mark_breaks(inner, flag) or found
    return found


def _name(place: ast.AST, name: str) -> ast.expr:
    return ast.copy_location(ast.Name(name, ast.Load()), place)


def _constant(place: ast.AST, value: object) -> ast.expr:
    return ast.copy_location(ast.Constant(value), place)  # type: ignore[arg-type]


def _compare(place: ast.AST, subject: str, op: ast.cmpop, value: ast.expr) -> ast.expr:
    return ast.copy_location(ast.Compare(_name(place, subject), [op], [value]), place)


def _assign(place: ast.AST, name: str, value: ast.expr) -> ast.stmt:
    target = ast.copy_location(ast.Name(name, ast.Store()), place)
    return ast.copy_location(ast.Assign([target], value), place)
