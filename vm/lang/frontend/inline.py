"""Inlining: a Python function's body in place of its call, with fresh registers and its own names.

Three forms of body. A single return at the end: plain code. Early returns that fold into if/else: each side ends in a
write of one result register. Others (a return inside a loop): the body stands in a one-trip LOOP_WHILE; a return
moves its value and leaves by BREAK, out of inner loops with a flag that is tested after each of them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from ..source import FunctionNode, load_source
from . import codes
from .emitter import DEAD, MAX_WORD, is_constant_value
from .held import Given
from .names import MISSING, fold, has_stars, is_static
from .objects import Objects
from .scope import Closure, Frame, Loop, ReturnBlock, contains_return


class Inlining(Objects):
    """Compiles calls of Python functions; statements come from the next layer."""

    stack: list[Frame]
    stored: dict[str, tuple[ast.Attribute, Frame]]  # attributes that the program assigns

    def statements(self, body: Sequence[ast.stmt]) -> None:
        """Compile statements up to the first that does not fall through."""
        raise NotImplementedError

    def branch(self, test: ast.expr, then: Callable[[], None], orelse: Callable[[], None] | None) -> None:
        """Compile an if."""
        raise NotImplementedError

    def inline(self, node: ast.Call, target: FunctionType | Closure, leading: list[int], dst: int,
               owner: type | None = None, statics: list[Any] | None = None,
               class_register: Callable[[], int] | None = None, selves: list[Any] | None = None) -> int:
        """The register of the result of a Python function, compiled in place of the call.

        selves: the objects that the first of `leading` may be, where that is not the program's own first argument.
        """
        caller = self.frame
        frame = self._frame_of(node, target, owner, selves)
        frame.call = (caller, node)
        if class_register is not None:
            frame.class_register = lambda: self._in_frame(caller, class_register)
        if len(self.code) > MAX_WORD:
            self.refuse("too-large", node)
        if has_stars(node):
            node = self.spread(node)
        error = misfit(target, frame.tree, len(leading) + len(statics or []), node)
        if error and self.is_conditional:
            for given in (*node.args, *[k.value for k in node.keywords]):
                if self.static(given) is MISSING:
                    self.expr(given)
            return self.raising(node, "TypeError", error, dst)
        self._bind_arguments(node, target, frame, leading, statics or [])
        frame.entry = len(self.code)
        self.stack.append(frame)
        self.frame = frame
        try:
            return self._body(frame.tree, frame, dst)
        finally:
            self.frame = caller
            self.stack.pop()

    def _in_frame(self, frame: Frame, emit: Callable[[], int]) -> int:
        """Emit something that belongs to an outer frame."""
        inner, self.frame = self.frame, frame
        try:
            return emit()
        finally:
            self.frame = inner

    def _frame_of(self, node: ast.Call, target: FunctionType | Closure, owner: type | None,
                  selves: list[Any] | None) -> Frame:
        if isinstance(target, Closure):
            parent = target.frame
            frame = Frame(parent.source, parent.index, parent.fn, target.node, parent, parent.owner,
                          target.node)
            frame.self_name, frame.is_receiver = parent.self_name, parent.is_receiver
        else:
            self.watch.function(target)
            source = load_source(target)
            if source not in self.sources:
                self.sources.append(source)
            frame = Frame(source, self.sources.index(source), target, source.node, None, owner, target)
            if owner is not None and frame.shape.names and not isinstance(source.node, ast.Lambda):
                name = frame.shape.names[0]
                frame.self_name = "" if name in frame.names.counts else name
        if selves is not None:
            frame.is_receiver = False
        elif owner is not None and not isinstance(target, Closure):
            frame.is_receiver = self.frame.is_receiver
        if frame.shape.names and not isinstance(target, Closure) and owner is not None:
            frame.arguments[frame.shape.names[0]] = selves if selves is not None else \
                self.frame.arguments.get(self.frame.self_name, [])
        for active in self.stack:
            if active.identity is frame.identity and not _are_apart(active, frame):
                name = getattr(target, "__qualname__", "") or getattr(frame.identity, "name", "a lambda")
                self.refuse("recursion", node, f"'{name}' calls itself")
        if isinstance(frame.tree, ast.AsyncFunctionDef):
            self.refuse("async", node)
        return frame

    # --- arguments

    def _bind_arguments(self, node: ast.Call, target: FunctionType | Closure, frame: Frame, leading: list[int],
                        statics: list[Any]) -> None:
        """Evaluate the call's arguments once, in order, into the parameters of the new frame."""
        shape = frame.shape
        stars = frame.tree.args
        names, keyword_only = shape.names, shape.keyword_only
        given: dict[str, int | Any] = {}
        taken = 0
        if len(statics) + len(leading) > len(names):
            self._refuse_in(frame, "star-params", stars.vararg or frame.tree)
        for value in statics:
            frame.statics[names[taken]] = value
            taken += 1
        for register in leading:
            self._set_parameter(frame, names[taken], register, node)
            taken += 1
        done = set(names[:taken])
        more = node.args[len(names) - taken:] if stars.vararg else []
        for arg in node.args[:len(node.args) - len(more)]:
            if taken >= len(names):
                self.refuse("call-arguments", node, f"too many arguments for {_shown(target)}({', '.join(names)})")
            frame.arguments[names[taken]] = Given(arg, self.frame)
            given[names[taken]] = self._evaluate(arg, names[taken], frame)
            done.add(names[taken])
            taken += 1
        if stars.vararg:
            given[stars.vararg.arg] = self._packed(node, frame, stars.vararg.arg, ast.Tuple(more, ast.Load()))
        others = []
        for keyword in node.keywords:
            assert keyword.arg is not None
            fits = keyword.arg in names or keyword.arg in keyword_only
            if stars.kwarg and (not fits or keyword.arg in shape.position_only):
                others.append(keyword)
                continue
            if keyword.arg in done or keyword.arg in shape.position_only or not fits:
                self.refuse("call-arguments", keyword.value, f"the argument '{keyword.arg}' does not fit "
                            f"{_shown(target)}({', '.join([*names, *keyword_only])})")
            frame.arguments[keyword.arg] = Given(keyword.value, self.frame)
            given[keyword.arg] = self._evaluate(keyword.value, keyword.arg, frame)
            done.add(keyword.arg)
        if stars.kwarg:
            keys: list[ast.expr | None] = [ast.copy_location(ast.Constant(k.arg), k.value) for k in others]
            given[stars.kwarg.arg] = self._packed(node, frame, stars.kwarg.arg, ast.Dict(keys, [k.value for k in others]))
        for name, value in given.items():
            if isinstance(value, _Static):
                frame.statics[name] = value.value
            else:
                self._set_parameter(frame, name, value, node)
        missing = [n for n in (*names, *keyword_only) if n not in done]
        if missing:
            self._defaults(node, target, frame, missing, names)

    def _packed(self, node: ast.Call, frame: Frame, name: str, display: ast.expr) -> int:
        """What `*args` or `**kwargs` of an inlined function holds."""
        frame.arguments[name] = Given(ast.copy_location(display, node), self.frame)
        return self.expr(display)

    def _evaluate(self, node: ast.expr, name: str, frame: Frame) -> Any:
        if node.__class__ in (ast.Name, ast.Attribute, ast.Lambda):
            static = self.static(node)
            if static is not MISSING and name not in frame.names.counts:
                return _Static(static)
        return self.expr(node)

    def _set_parameter(self, frame: Frame, name: str, register: int, node: ast.AST) -> None:
        """Let a parameter be the argument's register, or a copy when the function assigns the parameter."""
        if name in frame.names.counts:
            register = self.value(node, codes.MOVE, -1, register)
        frame.registers[name] = register

    def _defaults(self, node: ast.Call, target: FunctionType | Closure, frame: Frame, missing: list[str],
                  names: list[str]) -> None:
        tree = frame.tree
        values: dict[str, Any] = {}
        if isinstance(target, Closure):
            outer, self.frame = self.frame, target.frame
            for name, expression in _default_expressions(tree):
                if name in missing:
                    values[name] = self._static_default(expression)
            self.frame = outer
        else:
            defaults = target.__defaults__ or ()
            values = dict(zip(names[len(names) - len(defaults):], defaults, strict=True))
            values.update(target.__kwdefaults__ or {})
        for name in missing:
            if name not in values:
                self.refuse("call-arguments", node, f"{_shown(target)} misses the argument '{name}'")
            value = values[name]
            if isinstance(target, FunctionType):
                if name in (target.__kwdefaults__ or {}):
                    self.watch.name(target.__kwdefaults__, name, value)
                self.note_binding("default", frame.source.module, f"{frame.source.qualname}({name})", value)
            if is_static(value) and name not in frame.names.counts:
                frame.statics[name] = value
            elif is_static(value):
                self._set_parameter(frame, name, self.static_value(node, value, -1), node)
            elif is_constant_value(value):
                self._set_parameter(frame, name, self.const(node, value), node)
            elif isinstance(value, np.generic):
                self._set_parameter(frame, name, self.literal(node, value), node)
            else:
                self._refuse_in(frame, "default-value", _default_node(tree, name),
                                f"the default of '{name}' is a {type(value).__name__}")

    def _static_default(self, expression: ast.expr) -> Any:
        """A default of a nested function: a literal or something static."""
        value = fold(expression)
        if value is MISSING:
            value = self.static(expression)
        if value is MISSING:
            self.refuse("default-value", expression, "the default of a nested function's parameter is computed",
                        "read the variable inside the nested function, or pass it")
        return value

    def _refuse_in(self, frame: Frame, kind: str, node: ast.AST, what: str = "") -> None:
        self.frame, caller = frame, self.frame
        try:
            self.refuse(kind, node, what)
        finally:
            self.frame = caller

    # --- bodies

    def _body(self, tree: FunctionNode, frame: Frame, dst: int) -> int:
        if isinstance(tree, ast.Lambda):
            return self.expr(tree.body, dst)
        body = tree.body
        last = body[-1]
        early = frame.shape.early_returns
        if not early and isinstance(last, ast.Return):
            self.statements(body[:-1])
            if last.value is None or self.is_dead:
                return self.const(last, None, dst)
            return self.expr(last.value, dst)
        if not early:
            self.statements(body)
            return self.const(tree, None, dst)
        result = self.new_register()
        if early == "fold":
            frame.returns = ReturnBlock(result)
            self.tail(body)
        else:
            self._block(body, frame, result)
        self.assigned |= 1 << result
        return result if dst < 0 else self.move(tree, dst, result)

    def tail(self, body: Sequence[ast.stmt]) -> None:
        """Statements whose returns are the last thing on their path: each writes the result register."""
        assert self.frame.returns is not None
        result = self.frame.returns.result
        for at, statement in enumerate(body):
            if isinstance(statement, ast.Return):
                if statement.value is None:
                    self.const(statement, None, result)
                else:
                    self.expr(statement.value, result)
                return
            if isinstance(statement, ast.If) and contains_return([statement]):
                rest = list(body[at + 1:])
                then, orelse = statement.body, statement.orelse
                then_rest = [] if _ends(then) else rest
                else_rest = [] if _ends(orelse) else rest
                self.branch(statement.test, lambda: self.tail([*then, *then_rest]),  # noqa: B023 - called at once
                            lambda: self.tail([*orelse, *else_rest]))  # noqa: B023
                return
            self.statements([statement])
            if self.is_dead:
                return
        self.const(self.frame.tree, None, result)

    def _block(self, body: Sequence[ast.stmt], frame: Frame, result: int) -> None:
        """The body inside a one-trip loop that returns leave."""
        node = frame.tree
        loop = Loop()
        frame.returns = ReturnBlock(result, loop)
        head = self.emit(node, codes.LOOP_WHILE, 0)
        frame.loops.append(loop)
        self.statements(body)
        if not self.is_dead:
            self.const(node, None, result)
            self.leave(node, loop)
        frame.loops.pop()
        self.close_loop(node, head, loop)
        self.assigned = DEAD
        for mask in loop.exits:
            self.assigned &= mask

    def leave(self, node: ast.AST, loop: Loop) -> None:
        """BREAK out of a loop; what follows is unreachable."""
        loop.breaks.append(self.emit(node, codes.BREAK, 0))
        loop.exits.append(self.assigned)
        self.assigned = DEAD

    def close_loop(self, node: ast.AST, head: int, loop: Loop) -> None:
        """End a loop's body with its LOOP_NEXT, reachable or not, and let head and breaks lead behind it."""
        if head < 0:
            return
        self.code.append((codes.LOOP_NEXT, (head,), node, self.frame, 0, 0))
        self.patch(head)
        for at in loop.breaks:
            self.patch(at)


def misfit(target: FunctionType | Closure, tree: FunctionNode, leading: int, node: ast.Call) -> str:
    """What Python says where a call's arguments do not fit a function; '' where they do. Asked of a function without a body."""
    args = tree.args
    if not node.keywords and not args.kwonlyargs and leading + len(node.args) == len(args.posonlyargs) + len(args.args):
        return ""
    names, keyword_only = [a.arg for a in (*args.posonlyargs, *args.args)], [a.arg for a in args.kwonlyargs]
    keywords = [k.arg for k in node.keywords if k.arg is not None]
    if isinstance(target, FunctionType):
        optional = len(target.__defaults__ or ())
        keyword_defaults = set(target.__kwdefaults__ or ())
    else:
        optional = len(args.defaults)
        keyword_defaults = {a.arg for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is not None}
    count = leading + len(node.args)
    free = set(names[count:]) - {a.arg for a in args.posonlyargs}
    needed = {*names[count:len(names) - optional], *keyword_only} - keyword_defaults - set(keywords)
    if (count <= len(names) or args.vararg) and not needed and len(set(keywords)) == len(keywords) \
            and all(k in free or k in keyword_only or args.kwarg for k in keywords):
        return ""
    none = ast.Constant(None)
    plain = ast.arguments(args.posonlyargs, args.args, args.vararg, args.kwonlyargs,
                          [none if a.arg in keyword_defaults else None for a in args.kwonlyargs], args.kwarg, [none] * optional)
    stub = eval(compile(ast.fix_missing_locations(ast.Expression(ast.Lambda(plain, none))), "<signature>", "eval"))
    place = "" if isinstance(target, FunctionType) else f"{target.frame.root.fn.__qualname__}.<locals>."
    stub.__qualname__ = place + _shown(target)
    try:
        stub(*[None] * count, **dict.fromkeys(keywords))
    except TypeError as error:
        return str(error)
    return ""


def _are_apart(outer: Frame, inner: Frame) -> bool:
    """Whether two activations of one method are of other objects: a container of layers inside another one."""
    if outer.is_receiver and inner.is_receiver:
        return False
    selves = [frame.arguments.get(frame.shape.names[0]) if frame.shape.names else None for frame in (outer, inner)]
    if not all(isinstance(found, list) and found for found in selves):
        return False
    return not {id(o) for o in selves[0]} & {id(o) for o in selves[1]}  # type: ignore[union-attr]


class _Static:
    """An argument that is known when compiled."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _ends(body: Sequence[ast.stmt]) -> bool:
    from .scope import always_returns
    return always_returns(list(body))


def _shown(target: FunctionType | Closure) -> str:
    return target.__qualname__ if isinstance(target, FunctionType) else getattr(target.node, "name", "<lambda>")


def _default_expressions(tree: FunctionNode) -> list[tuple[str, ast.expr]]:
    args = tree.args
    positional = [*args.posonlyargs, *args.args]
    pairs = list(zip([a.arg for a in positional[len(positional) - len(args.defaults):]], args.defaults, strict=True))
    pairs += [(a.arg, d) for a, d in zip(args.kwonlyargs, args.kw_defaults, strict=True) if d is not None]
    return pairs


def _default_node(tree: FunctionNode, name: str) -> ast.AST:
    return next((d for n, d in _default_expressions(tree) if n == name), tree)
