"""Names: what a function assigns, and the frames of the functions that are being compiled into one program."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from ..source import FunctionNode, FunctionSource
from .desugar import desugared


class Loop:
    """A loop under construction: instructions to patch, and the assigned masks where it is left early.

    flagged: a `return` inside leaves it through a flag, in `flagged_exits` places. is_endless: it has no test.
    """

    __slots__ = ("breaks", "continues", "exits", "flagged", "flagged_exits", "is_endless")

    def __init__(self) -> None:
        self.breaks: list[int] = []
        self.continues: list[int] = []
        self.exits: list[int] = []
        self.flagged = False
        self.flagged_exits = 0
        self.is_endless = False


class ReturnBlock:
    """Where `return` goes in a function that is inlined: a result register, and a loop to leave if there is one.

    flag: register that says, after an inner loop, that a return left it (-1 while there is none).
    """

    __slots__ = ("flag", "loop", "result")

    def __init__(self, result: int, loop: Loop | None = None) -> None:
        self.result, self.loop, self.flag = result, loop, -1


class Closure:
    """A nested function or lambda: its tree and the frame that it was defined in."""

    __slots__ = ("frame", "node")

    def __init__(self, node: FunctionNode, frame: Frame) -> None:
        self.node, self.frame = node, frame


class BoundMethod:
    """`self.method` of the enclosing class: a plain function and the register of its first argument."""

    __slots__ = ("function", "register")

    def __init__(self, function: FunctionType, register: int) -> None:
        self.function, self.register = function, register


class Frame:
    """One function being compiled: the program's own, or one that is inlined into it."""

    __slots__ = (
        "arguments",
        "call",
        "class_register",
        "entry",
        "fn",
        "identity",
        "index",
        "is_receiver",
        "loops",
        "names",
        "owner",
        "parent",
        "registers",
        "returns",
        "root",
        "self_name",
        "shape",
        "source",
        "static_cache",
        "statics",
        "tree",
    )

    def __init__(self, source: FunctionSource, index: int, fn: FunctionType, tree: FunctionNode,
                 parent: Frame | None = None, owner: type | None = None, identity: object = None) -> None:
        self.source, self.index, self.fn, self.tree = source, index, fn, desugared(source, tree)
        self.shape = shape_of(source, tree)
        self.names = self.shape.assigned
        self.root: Frame = self if parent is None else parent.root  # whose globals and closure are read
        self.static_cache: dict[object, Any] = {}  # of a root: names that are no locals
        self.parent = parent  # of a nested function: the frame that it was defined in
        self.owner = owner  # the class that the function is a method of
        self.identity = identity  # equal for two activations of the same function: recursion
        self.registers: dict[str, int] = {}
        self.statics: dict[str, Any] = {}
        self.loops: list[Loop] = []
        self.returns: ReturnBlock | None = None
        self.entry = 0
        self.self_name = ""
        self.is_receiver = True  # whether self is the call's own first argument, not an object that was found in it
        self.arguments: dict[str, Any] = {}  # parameter -> what it may be: `held.Given`, or live objects
        self.call: tuple[Frame, ast.AST] | None = None  # where it is inlined: the calling frame and its node
        self.class_register: Callable[[], int] | None = None  # of a class method: how to read its class at run time

    def place(self, node: ast.AST) -> tuple[int, int, int, int]:
        """(function index, 1-based line, 1-based column, end column) of a node, in characters of the original file."""
        source = self.source
        own_line: int = node.lineno  # type: ignore[attr-defined]
        line = own_line + source.line_shift
        column: int = node.col_offset  # type: ignore[attr-defined]
        end: int = node.end_col_offset if node.end_lineno == own_line else column + 1  # type: ignore[attr-defined]
        if not source.is_ascii:
            data = self.source.line_text(line).encode()
            column = len(data[:column].decode(errors="replace"))
            end = len(data[:end].decode(errors="replace"))
        return self.index, line, column + 1, end + 1


class Assigned:
    """What the statements of a function assign: name -> number of places; and what they contain.

    Expressions are not looked at: they assign nothing but by `:=`, which `Compiler` meets when it compiles them.
    """

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def add(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1


class Shape:
    """What the frontend asks of a function's tree again and again: computed once for a tree.

    assigned: what its own statements assign (parameters not counted). names: positional parameters; keyword_only, and
    position_only likewise. early_returns: '' (at most one return, at the end), 'fold' (they become if/else), 'block'.
    """

    __slots__ = ("assigned", "early_returns", "keyword_only", "names", "position_only")

    def __init__(self, node: FunctionNode) -> None:
        args = node.args
        self.assigned = Assigned()
        self.early_returns = ""
        self.names = [a.arg for a in (*args.posonlyargs, *args.args)]
        self.keyword_only = [a.arg for a in args.kwonlyargs]
        self.position_only = {a.arg for a in args.posonlyargs}
        if not isinstance(node, ast.Lambda):
            _scan(node.body, self.assigned)
            body = node.body[:-1] if isinstance(node.body[-1], ast.Return) else node.body
            if contains_return(body):
                self.early_returns = "fold" if returns_fold(node.body) else "block"


def shape_of(source: FunctionSource, node: FunctionNode) -> Shape:
    """The Shape of a function's tree, or of one nested in it."""
    shape = source.memo.get(node)
    if shape is None:
        shape = source.memo[node] = Shape(node)
    return shape


def _scan(body: list[ast.stmt], found: Assigned) -> None:
    for statement in body:
        cls = statement.__class__
        if cls is ast.Assign:
            for target in statement.targets:  # type: ignore[attr-defined]
                _targets(target, found)
        elif cls is ast.AugAssign or cls is ast.AnnAssign:
            _targets(statement.target, found)  # type: ignore[attr-defined]
        elif cls is ast.For:
            _targets(statement.target, found)  # type: ignore[attr-defined]
            _scan(statement.body, found)  # type: ignore[attr-defined]
            _scan(statement.orelse, found)  # type: ignore[attr-defined]
        elif cls is ast.If or cls is ast.While:
            _scan(statement.body, found)  # type: ignore[attr-defined]
            _scan(statement.orelse, found)  # type: ignore[attr-defined]
        elif cls is ast.With:
            for item in statement.items:  # type: ignore[attr-defined]
                if item.optional_vars is not None:
                    _targets(item.optional_vars, found)
            _scan(statement.body, found)  # type: ignore[attr-defined]
        elif cls is ast.FunctionDef:
            found.add(statement.name)  # type: ignore[attr-defined]
        elif cls is ast.Import or cls is ast.ImportFrom:
            for alias in statement.names:  # type: ignore[attr-defined]
                found.add(alias.asname or alias.name.partition(".")[0])
        elif cls is ast.Delete:
            for target in statement.targets:  # type: ignore[attr-defined]
                _targets(target, found)


def _targets(target: ast.expr, found: Assigned) -> None:
    cls = target.__class__
    if cls is ast.Name:
        found.add(target.id)  # type: ignore[attr-defined]
    elif cls is ast.Tuple or cls is ast.List:
        for item in target.elts:  # type: ignore[attr-defined]
            _targets(item, found)
    elif cls is ast.Starred:
        _targets(target.value, found)  # type: ignore[attr-defined]


def assigned_in(body: list[ast.stmt]) -> Mapping[str, int]:
    """Names that a list of statements assigns."""
    found = Assigned()
    _scan(body, found)
    return found.counts


def contains_return(body: list[ast.stmt]) -> bool:
    """Whether a return of this function stands anywhere in the statements."""
    for statement in body:
        cls = statement.__class__
        if cls is ast.Return:
            return True
        if cls in (ast.If, ast.For, ast.While, ast.With) and (
                contains_return(statement.body)  # type: ignore[attr-defined]
                or contains_return(getattr(statement, "orelse", []))):
            return True
    return False


def returns_fold(body: list[ast.stmt]) -> bool:
    """Whether every early return can become an if/else: the `if` that holds it ends in a return on one whole side."""
    for at, statement in enumerate(body):
        cls = statement.__class__
        if cls is ast.Return:
            return True
        if cls is ast.If and contains_return([statement]):
            then, orelse = statement.body, statement.orelse  # type: ignore[attr-defined]
            rest = body[at + 1:]
            if always_returns(then):
                return returns_fold(then) and returns_fold([*orelse, *rest])
            if always_returns(orelse):
                return returns_fold(orelse) and returns_fold([*then, *rest])
            if not rest:
                return returns_fold(then) and returns_fold(orelse)
            return False
        if cls in (ast.For, ast.While, ast.With) and contains_return([statement]):
            return False
    return True


def always_returns(body: list[ast.stmt]) -> bool:
    """Whether the statements end in a return on every path, by structure alone."""
    for statement in body:
        if statement.__class__ is ast.Return or statement.__class__ is ast.Raise:
            return True
        if statement.__class__ is ast.If and always_returns(statement.body) \
                and always_returns(statement.orelse):
            return True
    return False
