"""The frontend: a Python function's syntax tree -> Program.

Layers, each one class on the one before: `emitter` (instructions and constants), `held` (live objects), `names`,
`expressions`, `calls` (kernels), `objects` (what objects hold), `inline` (Python functions), `statements`; `refusals` lists
what is not compiled; `scope` knows frames.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Sequence
from types import FunctionType

from ...bindings import ABSENT, Watch
from ...errors import UnsupportedError
from ..bytecode import Capture, Param, Program
from ..source import FunctionSource, load_source
from . import codes
from .emitter import is_constant_value
from .expressions import NeedsCopies
from .names import as_dtype
from .refusals import REFUSALS, render_refusals
from .scope import Frame
from .statements import Statements

__all__ = ["REFUSALS", "compile_function", "render_refusals"]

_CO_GENERATOR, _CO_COROUTINE = 0x20, 0x80 | 0x100 | 0x200


def compile_function(fn: FunctionType, owner: type | None = None, receiver: object = ABSENT,
                     watch: Watch | None = None, live: Sequence[object] = (), earlier: Sequence[Sequence[object]] = (),
                     captures: Sequence[Capture] = (), properties: bool = False) -> Program:
    """The Program of a plain Python function; helpers that it calls are compiled into it.

    owner: the class of `self` when fn is a method; without it the class is found through the qualified name. receiver: a
    call's first argument, whose own methods are meant. live: a call's arguments: which functions the objects in them hold is
    compiled in behind tests. earlier: arguments of calls before it (`prototypes.py`), which the program shall serve too, and
    captures: those of the program for them, which keep their numbers. properties: those of other objects than self are compiled
    in as well. What names stand for is compiled in and recorded
    (`Program.bindings`, and as objects in `watch`, also when the function is refused).
    Raises UnsupportedError with file, line, column, kind and hint.
    """
    watch = Watch() if watch is None else watch
    owner = type(receiver) if receiver is not ABSENT else owner
    if not isinstance(fn, FunctionType):
        row = REFUSALS["not-a-function"]
        raise UnsupportedError(f"{row.what}, not a {type(fn).__name__}", kind="not-a-function", hint=row.hint)
    source = load_source(fn)
    copies, inlined = False, True
    while True:
        compiler = _Compiler(fn, source, owner, receiver, watch)
        compiler.know([*earlier, live], captures)
        compiler.copy_loads, compiler.inlines_properties = copies, inlined
        compiler.follows_properties = properties
        try:
            return compiler.run()
        except NeedsCopies:
            copies = True
        except UnsupportedError:
            if not (inlined and compiler.has_properties):
                raise
            inlined = False  # one that is not compiled is read as Python reads it
        except RecursionError:
            compiler.refuse("too-large", source.node, "the function nests deeper than Python's own recursion limit")


class _Compiler(Statements):
    """One compilation of one function."""

    def __init__(self, fn: FunctionType, source: FunctionSource, owner: type | None, receiver: object,
                 watch: Watch) -> None:
        super().__init__()
        self.fn = fn
        self.receiver = receiver
        self.watch = watch
        watch.function(fn)
        watch.spaces.setdefault(source.module, fn.__globals__)
        self.sources.append(source)
        self.main = self.frame = Frame(source, 0, fn, source.node, None,
                                       owner or _enclosing_class(fn), fn)
        self.stack = [self.main]
        self.unloaded = set()
        self.param_symbols = {}
        self.tuples = set()
        self.left_out = []
        self.stored = {}
        self.deleted = set()

    def know(self, calls: Sequence[Sequence[object]], captures: Sequence[Capture]) -> None:
        """Tell the arguments of the calls that the program is made for, and what it captures in any case."""
        args = self.main.source.node.args
        names = [tree.arg for tree in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
        self.main.arguments = {name: list(values) for name, values in zip(names, zip(*filter(None, calls), strict=True),
                                                                          strict=False)}
        self.captures += captures
        self._capture_reg = {(c.scope, c.module, c.name): (at, -1) for at, c in enumerate(captures)}

    def run(self) -> Program:
        """The finished program."""
        node, frame = self.main.source.node, self.main
        if isinstance(node, ast.AsyncFunctionDef) or self.fn.__code__.co_flags & _CO_COROUTINE:
            self.refuse("async", node)
        if self.fn.__code__.co_flags & _CO_GENERATOR:
            self.refuse("yield", node)
        params = self._parameters()
        if frame.owner is not None and frame.shape.names:
            name = frame.shape.names[0]
            if name not in frame.names.counts:
                frame.self_name = name
        if isinstance(node, ast.Lambda):
            register = self.expr(node.body)
            self.emit(node, codes.RETURN, register)
        else:
            self.statements(node.body)
            if not self.is_dead or self.code[-1][0] != codes.RETURN:
                self.assigned = 0  # after a loop that only returns, the closing RETURN is written all the same
                register = self.const(node, None, self.new_register())
                self.emit(node, codes.RETURN, register)
        for _, name, _ in self.watch.members if self.stored else ():
            if name in self.stored:  # what it leads to is compiled in
                where, self.frame = self.stored[name]
                self.refuse("attribute-store", where, f"'{name}' is assigned and called in one function")
        module = frame.source.module
        made = self.finish(f"{module}:{frame.source.qualname}", params)
        reasons = [f"{e.what} ({os.path.basename(e.file or '')}:{e.line})" for e in self.left_out]
        made.__dict__["left_out"] = list(dict.fromkeys(reasons))[:3]
        made.__dict__["calls_objects"] = self.calls_objects  # its interpreter may call what the program was not made for
        return made

    def _parameters(self) -> tuple[Param, ...]:
        frame = self.main
        args = frame.source.node.args
        if args.vararg or args.kwarg:
            self.refuse("star-params", args.vararg or args.kwarg)  # type: ignore[arg-type]
        trees = [*args.posonlyargs, *args.args, *args.kwonlyargs]
        self.main_args = trees
        defaults = self.fn.__defaults__ or ()
        positional = len(args.posonlyargs) + len(args.args)
        values = {trees[positional - len(defaults) + i].arg: v for i, v in enumerate(defaults)}
        values.update(self.fn.__kwdefaults__ or {})
        params = []
        for at, tree in enumerate(trees):
            name = tree.arg
            default = -1
            if name in values:
                value = values[name]
                value = value if as_dtype(value) is None else as_dtype(value)  # dtype=np.float32
                if not is_constant_value(value):
                    self.refuse("default-value", tree, f"the default of '{name}' is a {type(value).__name__}")
                default = self.const_index(value)
            kind = 2 if at < len(args.posonlyargs) else 0 if at < positional else 1
            params.append(Param(name, default, kind))
            register = self.new_register()
            frame.registers[name] = register
            self.unloaded.add(register)
            self.assigned |= 1 << register
            if name not in frame.names.counts:
                self.param_symbols[register] = name
        return tuple(params)


def _enclosing_class(fn: FunctionType) -> type | None:
    """The class that a method's qualified name leads to; None for plain functions and classes out of reach."""
    path = fn.__qualname__.split(".")[:-1]
    if not path:
        return None
    cell = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)).get("__class__")
    if cell is not None:
        try:
            return cell.cell_contents if isinstance(cell.cell_contents, type) else None
        except ValueError:
            return None
    if "<locals>" in path:
        path = path[len(path) - 1 - path[::-1].index("<locals>") + 1:]
        if not path:
            return None
        module = sys.modules.get(fn.__module__)
        return None if module is None else _find_class(fn.__globals__, path)
    return _find_class(fn.__globals__, path)


def _find_class(names: dict[str, object], path: list[str]) -> type | None:
    found: object = names.get(path[0])
    for part in path[1:]:
        found = getattr(found, part, None)
    return found if isinstance(found, type) else None
