"""Calls of what objects and containers hold: layers, their methods, functions kept as attributes, `functools.partial`.

Which function is called is not in the source. The live objects (`held.py`) give candidates; each is compiled in behind a
test (`py.calls`), which a plan decides once from its signature: classes and functions are rows there, so that one program, and
one bundle, serves every object of the same make. What fits no test is `py.call_other`: no plan is made with it, the
function gets another program for such objects, and the interpreter of a program that was compiled here calls the object.
"""

from __future__ import annotations

import ast
import builtins
import functools
from collections.abc import Callable
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from ....templates.registry import BY_NAME, TYPE_NAMES
from ...bindings import called_key, callee_key, class_key, leads_to, member_of, underlying
from ...errors import UnsupportedError
from ..opcodes import BUILD_KINDS, COMPARE_OPS
from . import codes
from .calls import Calls
from .held import UNKNOWN, Given, held_attribute
from .kernel_calls import kernel_of
from .names import is_jitted, is_static

MAX_TARGETS = 16
_TUPLE = BUILD_KINDS.index("tuple")
_NO_OBJECTS = (np.ndarray, np.generic, int, float, complex, str, bytes, type(None), ModuleType, type, np.dtype)
_BOUND = (classmethod, MethodType, property)  # members whose functions get something else than the object that is called


class Target:
    """One candidate of a call: the operands of its test behind the object, and how it is compiled."""

    __slots__ = ("compile", "objects", "test")

    def __init__(self, test: tuple[str | None, str | None, str],
                 compile: Callable[[ast.Call, int, int, list[Any]], int]) -> None:
        self.test, self.compile = test, compile
        self.objects: list[Any] = []  # that it was found in


class Objects(Calls):
    """Compiles calls whose target the live objects tell."""

    calls_objects = False
    left_out: list[UnsupportedError]  # why there is no code for some of what may be called: those calls get another program

    def object_call(self, node: ast.Call, dst: int) -> int:
        """The register of a call's result; -1 where nothing is known of what is called."""
        func = node.func
        if isinstance(func, ast.Attribute):
            source, name = func.value, self.mangled(func.attr)
            held, is_optional = self.held_or_nothing(source)
            if not held and not is_optional:  # most methods are of arrays that the program computes
                return -1
            bases = [base for base in held if not isinstance(base, _NO_OBJECTS)]
            found = [self._of_attribute(base, name) for base in bases]
            is_optional |= any(held_attribute(base, name) is None for base in bases) or any(base is None for base in held)
        else:
            source = func
            values, is_optional = self.held_or_nothing(func)
            found = [(value, self._of_value(value)) for value in values]
            is_optional |= any(value is None or (target is None and callable(value) and not isinstance(value, _NO_OBJECTS))
                               for value, target in found)
        targets: dict[tuple[str | None, str | None, str], Target] = {}
        for value, target in found:
            if target is not None:
                targets.setdefault(target.test, target).objects.append(value)
        if not targets and not is_optional:  # a layer that is None here may be there in other objects
            return -1
        if len(targets) > MAX_TARGETS:
            self.refuse("dynamic-call", func, f"'{ast.unparse(func)}' may be one of {len(targets)} functions")
        self.calls_objects = True
        register = self.expr(source)
        result = dst if dst >= 0 else self.new_register()
        jumps, masks = [], []
        refused: list[UnsupportedError] = []
        for test, target in targets.items():
            place = self.place()
            operands = [register, *[self.const(node, part) for part in test]]
            at = self.emit(node, codes.IF_TRUE, self.kernel(node, BY_NAME["py.calls"].id, operands), 0)
            before = self.assigned
            try:
                target.compile(node, register, result, target.objects)
            except UnsupportedError as error:
                refused.append(error)
                if not self.can_pass(node) or (self.has_properties and self.inlines_properties):
                    raise
                self.go_back(place)
                continue
            if not self.is_dead:
                masks.append(self.assigned)
                jumps.append(self.emit(node, codes.JUMP, 0))
            self.assigned = before
            self.patch(at)
        self.left_out += refused
        self.call_as_python(node, register, result)
        for jump in jumps:
            self.patch(jump)
        for mask in masks:
            self.assigned &= mask
        return result

    def place(self) -> tuple[Any, ...]:
        """Where the program stands, for `go_back`."""
        frame = self.frame
        return (len(self.code), self.assigned, len(self._insertions), set(self._unbound), set(self.unloaded), len(self.sources),
                dict(frame.registers), dict(frame.statics), len(frame.loops))

    def go_back(self, place: tuple[Any, ...]) -> None:
        """Forget what was compiled since; registers, constants and names that were met then stay."""
        length, self.assigned, insertions, self._unbound, self.unloaded, sources, registers, statics, loops = place
        frame = self.frame
        del self.code[length:], self._insertions[insertions:], self.sources[sources:], frame.loops[loops:]
        frame.registers, frame.statics = registers, statics

    def held_property(self, node: ast.Attribute, dst: int) -> int:
        """A property of what may be the object here, behind a test of its class; other objects are read as they are."""
        name = self.mangled(node.attr)
        owners: dict[type, list[Any]] = {}
        for base in self.held(node.value):
            cls = type(base)
            if not isinstance(base, _NO_OBJECTS) and isinstance(getattr(cls, name, None), property) \
                    and isinstance(getattr(cls, name).fget, FunctionType):
                owners.setdefault(cls, []).append(base)
        if not owners or len(owners) > MAX_TARGETS or not self.inlines_properties:
            return -1
        self.has_properties = self.calls_objects = True
        register, none = self.expr(node.value), self.const(node, None)
        result = self.new_register()
        jumps, masks = [], []
        for cls, objects in owners.items():
            test = self.kernel(node, BY_NAME["py.calls"].id, [register, none, none, self.const(node, called_key(objects[0]))])
            at = self.emit(node, codes.IF_TRUE, test, 0)
            before = self.assigned
            self.bind_member(cls, name)
            call = ast.copy_location(ast.Call(node, [], []), node)
            self.inline(call, getattr(cls, name).fget, [register], result, cls, selves=objects)
            if not self.is_dead:
                masks.append(self.assigned)
                jumps.append(self.emit(node, codes.JUMP, 0))
            self.assigned = before
            self.patch(at)
        self.value(node, codes.LOAD_ATTR, result, register, self.const_index(name))
        for jump, mask in zip(jumps, masks, strict=True):
            self.patch(jump)
            self.assigned &= mask
        return result if dst < 0 else self.move(node, dst, result)

    def can_pass(self, node: ast.Call) -> bool:
        """Whether a call's arguments are values at run time, as many as there may be."""
        given = [a.value if isinstance(a, ast.Starred) else a for a in (*node.args, *[k.value for k in node.keywords])]
        return all(k.arg is not None for k in node.keywords) \
            and not any(isinstance(a, ast.Lambda) or is_function(self.static(a)) for a in given)

    def call_as_python(self, node: ast.Call, register: int, result: int) -> None:
        """What runs where no test holds."""
        name = self.mangled(node.func.attr) if isinstance(node.func, ast.Attribute) else None
        operands = [register, self.const(node, name)]
        given = [*node.args, *[k.value for k in node.keywords]]
        if self.can_pass(node):
            operands.append(self._display(node, given, _TUPLE, -1))
            operands.append(self.const(node, tuple([k.arg for k in node.keywords])))
        self.kernel(node, BY_NAME["py.call_other"].id, operands, result)

    def class_test(self, node: ast.Call, classes: tuple[type, ...], names: tuple[str, ...], nodes: list[ast.expr],
                   dst: int) -> int:
        """`isinstance(x, (...))`: the classes of the live objects, each behind a test; arrays, numbers and containers by kernel.

        names: those of the types that the kernel knows. nodes: of the classes.
        """
        source = node.args[0]
        known = {type(value): value for value in self.held(source)
                 if not isinstance(value, _NO_OBJECTS) and not is_function(value)}
        if len(known) > MAX_TARGETS:
            self.refuse("function-value", node, f"'{ast.unparse(source)}' may be of {len(known)} classes")
        register = self.expr(source)
        result = dst if dst >= 0 else self.new_register()
        self.calls_objects = True
        jumps, masks = [], []

        def answer(test: int, value: bool | int) -> None:
            at = self.emit(node, codes.IF_TRUE, test, 0)
            before = self.assigned
            if isinstance(value, bool):
                self.const(node, value, result)
            else:
                self.move(node, result, value)
            masks.append(self.assigned)
            jumps.append(self.emit(node, codes.JUMP, 0))
            self.patch(at)
            self.assigned = before

        none = self.const(node, None)
        for cls, value in known.items():
            if not isinstance(value, (list, tuple, dict)) or cls.__module__ != "builtins":
                self.watch.member(cls, "__mro__", cls.__mro__)
                self.note_binding("member", cls.__module__, f"{cls.__qualname__}.__mro__", cls.__mro__)
                test = self.kernel(node, BY_NAME["py.calls"].id, [register, none, none, self.const(node, called_key(value))])
                answer(test, issubclass(cls, classes) or isinstance(value, tuple(map(_named_type, names))))
        ours = self.kernel(node, BY_NAME["py.isinstance"].id, [register, self.const(node, names)]) if names \
            else self.const(node, False)
        answer(self.kernel(node, BY_NAME["py.isinstance"].id, [register, self.const(node, TYPE_NAMES)]), ours)
        answer(self.value(node, codes.COMPARE_TENSOR, -1, register, none, COMPARE_OPS.index("is")), False)
        packed = self.value(node, codes.BUILD, -1, _TUPLE, 1, register)
        check, nothing = self.const(node, "__instancecheck__"), self.const(node, ())
        for named in nodes:  # another program is wanted for such an object; the interpreter of this one asks the class itself
            self.kernel(node, BY_NAME["py.call_other"].id, [self._class_capture(named), check, packed, nothing], result)
            if named is not nodes[-1]:
                answer(result, result)
        for jump, mask in zip(jumps, masks, strict=True):
            self.patch(jump)
            self.assigned &= mask
        return result

    # --- what objects lead to

    def _of_attribute(self, base: Any, name: str) -> tuple[Any, Target | None]:
        """(object, target) of `base.name(...)`."""
        if base is UNKNOWN or isinstance(base, _NO_OBJECTS):
            return base, None
        kept = getattr(base, "__dict__", None)
        cls = type(base)
        if type(kept) is dict and name in kept:
            return base, self._of_kept(cls, name, kept[name])
        try:
            member = member_of(cls, name)
        except AttributeError:
            return base, None
        function = underlying(member)
        if isinstance(member, staticmethod) and is_function(function):
            return base, Target((class_key(cls), name, callee_key(function)),
                                lambda node, at, dst, _: self._static_function(node, cls, name, function, dst))
        if not isinstance(function, FunctionType) or isinstance(member, property):
            value = held_attribute(base, name)  # of a slot, or of the class
            return base, None if value is UNKNOWN or isinstance(member, (classmethod, property)) \
                else self._of_kept(cls, name, value)
        if isinstance(member, _BOUND):
            return base, None
        return base, Target((class_key(cls), name, f"method {callee_key(function)}"),
                            lambda node, at, dst, objects: self._method_of(node, cls, name, function, at, objects, dst))

    def _static_function(self, node: ast.Call, cls: type, name: str, function: Any, dst: int) -> int:
        self.bind_member(cls, name)
        return self.call_static(node, function, dst)

    def _method_of(self, node: ast.Call, cls: type, name: str, function: FunctionType, at: int, objects: list[Any],
                   dst: int) -> int:
        self.bind_member(cls, name)
        return self.inline(node, function, [at], dst, cls, selves=objects)

    def _of_kept(self, cls: type, name: str, value: Any) -> Target | None:
        """The target of a value that an object keeps under a name."""
        inner = self._of_value(value)
        if inner is None:
            return None

        def compile_kept(node: ast.Call, at: int, dst: int, objects: list[Any]) -> int:
            kept = self.value(node, codes.LOAD_ATTR, -1, at, self.const_index(name))
            return inner.compile(node, kept, dst, [held for o in objects
                                                   if (held := held_attribute(o, name)) is not UNKNOWN])

        return Target((class_key(cls), name, inner.test[2]), compile_kept)

    def _of_value(self, value: Any) -> Target | None:
        """The target of `value(...)`."""
        if value is UNKNOWN or isinstance(value, _NO_OBJECTS):
            return None
        if isinstance(value, functools.partial):
            return Target((None, None, callee_key(value)), self._partial) if is_function(value.func) else None
        if is_function(value):
            if underlying(value) is value and not isinstance(value, FunctionType) and kernel_of(value) is None:
                return None
            return Target((None, None, callee_key(value)),
                          lambda node, at, dst, _: self._held_function(node, value, dst))
        if isinstance(value, MethodType):
            return None
        cls = type(value)
        try:
            member = member_of(cls, "__call__")
        except AttributeError:
            return None
        function = underlying(member)
        if isinstance(member, staticmethod) and is_function(function):
            return Target((None, None, called_key(value)),
                          lambda node, at, dst, _: self._static_function(node, cls, "__call__", function, dst))
        if not isinstance(function, FunctionType) or isinstance(member, _BOUND):
            return None
        return Target((None, None, called_key(value)),
                      lambda node, at, dst, objects: self._method_of(node, cls, "__call__", function, at, objects, dst))

    def _held_function(self, node: ast.Call, value: Any, dst: int) -> int:
        plain = underlying(value)
        if isinstance(plain, FunctionType) and leads_to(plain):
            module = self.sources[0].module if plain.__module__ == "__main__" else plain.__module__
            self.note_binding("global", module, plain.__qualname__, plain)
        return self.call_static(node, value, dst)

    def _partial(self, node: ast.Call, at: int, dst: int, objects: list[Any]) -> int:
        """A call of `functools.partial`: its function with what it holds in front."""
        value: functools.partial = objects[0]
        held = self.value(node, codes.LOAD_ATTR, -1, at, self.const_index("args"))
        args, keywords = [], []
        for i in range(len(value.args)):
            register = self.value(node, codes.VIEW_TENSOR, -1, held, self.const(node, i))
            args.append(self._stand_in(node, register, [o.args[i] for o in objects]))
        given = {k.arg for k in node.keywords}
        names = [name for name in value.keywords if name not in given]
        if names:
            held = self.value(node, codes.LOAD_ATTR, -1, at, self.const_index("keywords"))
        for name in names:
            register = self.value(node, codes.VIEW_TENSOR, -1, held, self.const(node, name))
            keywords.append(ast.keyword(name, self._stand_in(node, register, [o.keywords[name] for o in objects])))
        call = ast.copy_location(ast.Call(node.func, [*args, *node.args], [*keywords, *node.keywords]), node)
        return self._held_function(call, value.func, dst)

    def spread(self, node: ast.Call) -> ast.Call:
        """A call with `*items` and `**items` written out, as many as the live objects have: a test sees to it."""
        args: list[ast.expr] = []
        for arg in node.args:
            args += self._spread_items(arg) if isinstance(arg, ast.Starred) else [arg]
        keywords: list[ast.keyword] = []
        for keyword in node.keywords:
            keywords += self._spread_names(keyword.value) if keyword.arg is None else [keyword]
        return ast.copy_location(ast.Call(node.func, args, keywords), node)

    def _spread_items(self, arg: ast.Starred) -> list[ast.expr]:
        if isinstance(arg.value, (ast.Tuple, ast.List)) and not any(isinstance(e, ast.Starred) for e in arg.value.elts):
            return arg.value.elts
        objects = [value for value in self.held(arg.value) if isinstance(value, (tuple, list))]
        lengths = {len(value) for value in objects}
        if isinstance(arg.value, ast.Attribute) and arg.value.attr == "shape":
            lengths |= {value.ndim for value in self.held(arg.value.value) if isinstance(value, np.ndarray)}
        count = self._count_of(arg.value, lengths)
        if count is None:
            self.refuse("star-args", arg)
        register = self.kernel(arg, BY_NAME["py.tuple"].id, [self.expr(arg.value)])
        length = self.kernel(arg, BY_NAME["py.len"].id, [register])
        self._expect(arg, self.value(arg, codes.COMPARE_TENSOR, -1, length, self.const(arg, count), COMPARE_OPS.index("==")))
        return [self._stand_in(arg, self.value(arg, codes.VIEW_TENSOR, -1, register, self.const(arg, i)),
                               [value[i] for value in objects if i < len(value)]) for i in range(count)]

    def _count_of(self, node: ast.expr, lengths: set[int]) -> int | None:
        """How many items `*node` stands for: those of this function's own `*args`, else of the live objects."""
        given = self.frame.arguments.get(node.id) if isinstance(node, ast.Name) else None
        if isinstance(given, Given) and isinstance(given.node, ast.Tuple) and node.id not in self.frame.names.counts:  # type: ignore[attr-defined]
            return len(given.node.elts)
        return lengths.pop() if len(lengths) == 1 else None

    def _spread_names(self, value: ast.expr) -> list[ast.keyword]:
        given = self.frame.arguments.get(value.id) if isinstance(value, ast.Name) else None
        objects = [found for found in self.held(value) if isinstance(found, dict)]
        names = {tuple(found) for found in objects}
        if isinstance(given, Given) and isinstance(given.node, ast.Dict):
            names = {tuple([key.value for key in given.node.keys])}  # type: ignore[union-attr]
        if len(names) != 1 or not all(isinstance(name, str) for name in next(iter(names))):
            self.refuse("star-args", value)
        register = self.expr(value)
        known = names.pop()
        if objects:
            listed = self.kernel(value, BY_NAME["py.tuple"].id, [register])
            self._expect(value, self.value(value, codes.COMPARE_TENSOR, -1, listed, self.const(value, known),
                                           COMPARE_OPS.index("==")))
        return [ast.keyword(name, self._stand_in(
            value, self.value(value, codes.VIEW_TENSOR, -1, register, self.const(value, name)),
            [found[name] for found in objects])) for name in known]

    def _expect(self, node: ast.AST, test: int) -> None:
        """Go on where a test holds; another program is wanted otherwise."""
        self.calls_objects = True
        at = self.emit(node, codes.IF_TRUE, test, 0)
        before = self.assigned
        jump = self.emit(node, codes.JUMP, 0)
        self.patch(at)
        self.kernel(node, BY_NAME["py.call_other"].id, [self.const(node, None), self.const(node, None)])
        self.patch(jump)
        self.assigned = before

    def _stand_in(self, node: ast.AST, register: int, objects: list[Any]) -> ast.expr:
        """A name of this frame that no source has, for a register."""
        name = f".held{register}"
        self.frame.registers[name] = register
        self.frame.arguments[name] = objects
        return ast.copy_location(ast.Name(name, ast.Load()), node)


def _named_type(name: str) -> type:
    """One of `TYPE_NAMES`."""
    room, _, name = name.partition(".")
    return getattr(builtins if room == "builtins" else np, name)


def is_function(value: Any) -> bool:
    """Whether a value is a function that a call can name, not a module, class or dtype."""
    return (is_static(value) and not isinstance(value, (type, ModuleType, np.dtype, np.finfo, np.iinfo))) or is_jitted(value)
