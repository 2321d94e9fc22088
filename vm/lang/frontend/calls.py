"""Calls: NumPy functions and array methods become kernels (`kernel_calls.py`), Python functions are inlined."""

from __future__ import annotations

import ast
import builtins
import functools
from abc import ABCMeta
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, NoReturn

import numpy as np

from ....templates.registry import BY_NAME, TYPE_NAMES
from ...bindings import ABSENT, member_of, underlying
from ...dtypes import dtype_code
from ...errors import UnsupportedError
from ..opcodes import BUILD_KINDS, COMPARE_OPS
from . import codes
from .kernel_calls import SPECIAL, KernelCalls, kernel_of
from .names import MISSING, has_stars, is_jitted, is_static
from .scope import BoundMethod, Closure

_TUPLE, _SLICE = BUILD_KINDS.index("tuple"), BUILD_KINDS.index("slice")

# builtins that are kernels of their own, by object
_BUILTINS: dict[object, str] = {
    len: "py.len", abs: "py.abs", sum: "py.sum", min: "py.min", max: "py.max", any: "py.any", all: "py.all",
    round: "py.round", divmod: "py.divmod", pow: "py.pow", sorted: "py.sorted", hasattr: "py.hasattr",
    int: "py.int", float: "py.float", bool: "py.bool", complex: "py.complex", tuple: "py.tuple", list: "py.list",
    enumerate: "py.enumerate", zip: "py.zip", reversed: "py.reversed",
}
_TAKE_GENERATORS = {"py.sum", "py.min", "py.max", "py.any", "py.all", "py.tuple", "py.list", "py.sorted"}

# methods of containers and Python scalars; array methods are the `arr.*` kernels
_METHODS: dict[str, str] = {
    "append": "py.list_append", "extend": "py.list_extend", "insert": "py.list_insert", "pop": "py.list_pop",
    "reverse": "py.list_reverse", "items": "py.dict_items", "keys": "py.dict_keys", "values": "py.dict_values",
    "get": "py.dict_get", "update": "py.dict_update", "is_integer": "py.is_integer",
}
_CACHED = type(functools.lru_cache(abs))
_PLAIN_CHECKS = (type.__instancecheck__, ABCMeta.__instancecheck__)  # which ask the class alone
_HINTS: dict[str, str] = {
    "print": "print", "input": "print", "open": "unknown-function", "set": "set", "frozenset": "set", "str": "string",
    "repr": "string", "format": "string", "iter": "generator", "next": "generator", "bytes": "bytes",
    "bytearray": "bytes", "super": "super",
}
def _reads(op: int, operands: tuple[int, ...]) -> bool:
    """Whether an instruction reads something that is neither a register nor a constant."""
    return op in (codes.LOAD_CAPTURE, codes.LOAD_ATTR) or (op == codes.CALL_KERNEL and operands[1] == BY_NAME["py.calls"].id)


class Calls(KernelCalls):
    """Compiles calls; inlining comes from the next layer."""

    def inline(self, node: ast.Call, target: FunctionType | Closure, leading: list[int], dst: int,
               owner: type | None = None, statics: list[Any] | None = None,
               class_register: Callable[[], int] | None = None, selves: list[Any] | None = None) -> int:
        """Compile the body of a Python function in place of a call."""
        raise NotImplementedError

    def object_call(self, node: ast.Call, dst: int) -> int:
        """The register of a call of what an object holds; -1 where nothing is known of it."""
        raise NotImplementedError

    calls_objects = False

    def place(self) -> tuple[Any, ...]:
        """Where the program stands, for `go_back`; objects come from a later layer."""
        raise NotImplementedError

    def go_back(self, place: tuple[Any, ...]) -> None:
        """Forget what was compiled since."""
        raise NotImplementedError

    def can_pass(self, node: ast.Call) -> bool:
        """Whether a call's arguments are values at run time."""
        raise NotImplementedError

    def call_as_python(self, node: ast.Call, register: int, result: int) -> None:
        """A call that no plan is made with."""
        raise NotImplementedError

    def class_test(self, node: ast.Call, classes: tuple[type, ...], names: tuple[str, ...], nodes: list[ast.expr],
                   dst: int) -> int:
        """`isinstance` against classes that live objects tell."""
        raise NotImplementedError

    def call(self, node: ast.Call, dst: int) -> int:
        """The register of a call's result."""
        func = node.func
        target = self.static(func)
        if target is not MISSING:
            return self.call_static(node, target, dst)
        if isinstance(func, ast.Attribute):
            base = self.static(func.value)
            if base is MISSING:
                return self._method(node, func, dst)
            member = getattr(base, func.attr, MISSING)
            if member is MISSING:
                return self.absent(func, base, dst)
            if isinstance(member, MethodType) and isinstance(member.__self__, type):
                if isinstance(base, type):
                    self.bind_member(base, func.attr)
                return self.inline(node, member.__func__, [], dst, member.__self__, [member.__self__],  # type: ignore[arg-type]
                                   lambda: self._class_capture(func.value))
            found = self.object_call(node, dst)
            if found >= 0:
                return found
            if callable(member):
                self._unknown(node, member)
        if isinstance(func, ast.Name) and self.find_local(func.id)[0] is None and self.lookup(func.id) is MISSING:
            if self.is_conditional:
                return self.undefined(func, func.id, dst)
            self.refuse("unknown-function", func, f"the function '{func.id}' is not defined",
                        "define or import it before the first call")
        cached = self._cached(func)
        if cached is not None:
            return self.cached_call(node, cached, [], dst)
        found = self.object_call(node, dst)
        if found < 0:
            self.refuse("dynamic-call", func)
        return found

    def _cached(self, func: ast.expr) -> Any:
        """The function under `functools.lru_cache` that a name leads to; None for others."""
        if not isinstance(func, ast.Name) or self.find_local(func.id)[0] is not None:
            return None
        value = self.lookup(func.id)
        if type(value) is not _CACHED or not isinstance(value.__wrapped__, FunctionType):  # type: ignore[attr-defined]
            return None
        self._bind_name(func.id, value)
        return value

    def cached_call(self, node: ast.Call, cached: Any, leading: list[int], dst: int, owner: type | None = None) -> int:
        """A call of a function that keeps its results (`functools.lru_cache`).

        It is computed anew where that is the same: it reads nothing but its arguments, and nobody writes into what it returned.
        Otherwise it is called as Python calls it, by the interpreter.
        """
        place = self.place()
        result = dst if dst >= 0 else self.new_register()
        try:
            start = len(self.code)
            self.inline(node, cached.__wrapped__, leading, result, owner)
            if all(item[3] is self.frame or not _reads(item[0], item[1]) for item in self.code[start:]) \
                    and not self._is_written(node):
                return result
        except UnsupportedError:
            if not self.can_pass(node):
                raise
        self.go_back(place)
        func = node.func
        register = leading[0] if isinstance(func, ast.Attribute) else self._outer(func, MISSING, -1)  # type: ignore[arg-type]
        self.calls_objects = True
        self.call_as_python(node, register, result)
        return result

    def _is_written(self, node: ast.Call) -> bool:
        """Whether the caller writes into a name that gets what a call returns, or a part of it."""
        kept = {part.id for target in self._kept_in(node) for part in ast.walk(target) if isinstance(part, ast.Name)}
        for part in ast.walk(self.frame.tree):
            target = part.target if isinstance(part, ast.AugAssign) else part.targets[0] if isinstance(part, ast.Assign) else None
            is_write = target is not None and (isinstance(part, ast.AugAssign) or isinstance(target, ast.Subscript))
            if is_write and any(isinstance(n, ast.Name) and n.id in kept for n in ast.walk(target)):  # type: ignore[arg-type]
                return True
        return False

    def _kept_in(self, node: ast.Call) -> list[ast.expr]:
        """The targets that get what a call returns, or a part of it."""
        return [target for part in ast.walk(self.frame.tree) if isinstance(part, (ast.Assign, ast.AnnAssign))
                and part.value is not None and any(inner is node for inner in ast.walk(part.value))
                for target in (part.targets if isinstance(part, ast.Assign) else [part.target])]

    def call_static(self, node: ast.Call, target: Any, dst: int) -> int:
        """A call of something known: a kernel, a builtin, a dtype, a Python function."""
        cls = target.__class__
        if cls is Closure:
            return self.inline(node, target, [], dst)
        if cls is BoundMethod:
            return self.inline(node, target.function, [target.register], dst, self.frame.owner)
        kernel = kernel_of(target)
        if kernel is not None:
            special = SPECIAL.get(kernel.name)
            if special is not None:
                return special(self, node, kernel, dst)
            return self.kernel_call(node, kernel, [], dst)
        if is_jitted(target):
            return self.inline(node, target.__wrapped__, [], dst)
        if cls is FunctionType:
            return self._function(node, target, dst)
        if isinstance(target, type):
            return self._type_call(node, target, dst)
        name = getattr(target, "__name__", "")
        if getattr(builtins, name, None) is target:
            return self._builtin(node, name, target, dst)
        if target is functools.reduce and 2 <= len(node.args) <= 3 and not node.keywords:
            return self._fold(node, dst)
        self._unknown(node, target)

    def _fold(self, node: ast.Call, dst: int) -> int:
        """`functools.reduce(f, items, start)` as the loop that it is."""
        result, over, item = (f".{word}{self.n_regs}" for word in ("fold", "over", "item"))
        over_all = self.expr(node.args[1])
        if len(node.args) == 3:
            start = self.expr(node.args[2])
        else:
            over_all = self.kernel(node, BY_NAME["py.list"].id, [over_all])
            count = self.kernel(node, BY_NAME["py.len"].id, [over_all])
            none_there = self.value(node, codes.COMPARE_TENSOR, -1, count, self.const(node, 0), COMPARE_OPS.index("=="))
            at, before = self.emit(node, codes.IF_TRUE, none_there, 0), self.assigned
            self.raising(node, "TypeError", "reduce() of empty iterable with no initial value")
            self.patch(at)
            self.assigned = before
            start = self.value(node, codes.VIEW_TENSOR, -1, over_all, self.const(node, 0))
            none = self.const(node, None)
            index = self.value(node, codes.BUILD, -1, _SLICE, 3, self.const(node, 1), none, none)
            over_all = self.value(node, codes.VIEW_TENSOR, -1, over_all, index)
        self.frame.registers[result] = self.value(node, codes.MOVE, -1, start)
        self.frame.registers[over] = over_all
        names = [ast.copy_location(ast.Name(name, ast.Load()), node) for name in (result, item)]
        call = ast.copy_location(ast.Call(node.args[0], [*names], []), node)
        target = ast.copy_location(ast.Name(item, ast.Store()), node)

        def step() -> None:
            self.expr(call, self.frame.registers[result])

        self.for_loop(ast.copy_location(ast.Name(over, ast.Load()), node), target, step, node)
        register = self.frame.registers[result]
        return register if dst < 0 else self.move(node, dst, register)

    def _function(self, node: ast.Call, target: FunctionType, dst: int) -> int:
        module = target.__module__ or ""
        if module.partition(".")[0] in ("numpy", "scipy"):
            self._unknown(node, target)
        if node.args and self.frame.self_name and isinstance(node.args[0], ast.Name) \
                and node.args[0].id == self.frame.self_name and "." in target.__qualname__:
            return self.inline(node, target, [], dst, self.frame.owner)  # Base.method(self, ...)
        return self.inline(node, target, [], dst)

    def _unknown(self, node: ast.Call, target: Any) -> NoReturn:
        """Refuse a function that is known by name only."""
        module = getattr(target, "__module__", None) or ""
        owner = getattr(target, "__self__", None)
        name = getattr(target, "__name__", None) or type(target).__name__
        if "random" in module or (owner is not None and "random" in type(owner).__module__):
            self.refuse("random", node.func)
        text = ast.unparse(node.func)
        if isinstance(target, ModuleType):
            self.refuse("unknown-function", node.func, f"'{text}' is a module, not a function")
        self.refuse("unknown-function", node.func, f"'{text}' is not known to prebake"
                    + (f" ({module}.{name})" if module and not text.endswith(name) else ""))

    # --- types and builtins

    def _type_call(self, node: ast.Call, target: type, dst: int) -> int:
        if issubclass(target, np.generic):
            kernel = BY_NAME.get(f"np.{target.__name__}")
            if kernel is None or (kernel.id >> 4 != 0x858 and kernel.id >> 4 != 0x859):
                self.refuse("class-call", node, f"{ast.unparse(node.func)} scalars are not supported")
            return self.kernel_call(node, kernel, [], dst)
        if target is np.dtype or target is np.finfo or target is np.iinfo:
            found = self.static_call(node)
            if found is not MISSING:
                return self.static_value(node, found, dst)
            self.refuse("unknown-function", node, f"{ast.unparse(node.func)} of a value that is known only at run time",
                        "take the dtype from an array (x.dtype), or name it in the source")
        if target is np.ndarray and 1 <= len(node.args) + len(node.keywords) <= 2 \
                and all(k.arg in ("shape", "dtype") for k in node.keywords):
            return self._allocate(node, BY_NAME["np.empty"], dst)
        if issubclass(target, BaseException):
            self.refuse("raise", node)
        if getattr(builtins, target.__name__, None) is target:
            return self._builtin(node, target.__name__, target, dst)
        return self._make(node, dst)

    def _make(self, node: ast.Call, dst: int) -> int:
        """An object of a user's class, made as Python makes it."""
        given = [*node.args, *[k.value for k in node.keywords]]
        if has_stars(node) or any(isinstance(a, ast.Lambda) or self.static(a) is not MISSING for a in given):
            self.refuse("class-call", node, f"'{ast.unparse(node.func)}' is made of what no value at run time can be")
        self.calls_objects = True
        cls = self._class_capture(node.func)
        items = [self.expr(a) for a in given]
        packed = self.value(node, codes.BUILD, -1, _TUPLE, len(items), *items)
        names = self.const(node, tuple([k.arg for k in node.keywords]))
        return self.kernel(node, BY_NAME["py.make"].id, [cls, packed, names], dst)

    def _builtin(self, node: ast.Call, name: str, target: object, dst: int) -> int:
        if target is range:
            parts = self.range_parts(node)
            return self.kernel(node, BY_NAME["py.range"].id, parts, dst)
        if target is slice and not node.keywords and 1 <= len(node.args) <= 3:
            none = self.const(node, None)
            given = [self.expr(arg) for arg in node.args]
            parts = [none, given[0], none] if len(given) == 1 else [*given, none][:3]
            return self.value(node, codes.BUILD, dst, _SLICE, 3, *parts)
        if target is isinstance:
            return self._isinstance(node, dst)
        if target is hasattr and (known := self.known_call(node)) is not MISSING:
            return self.const(node, known, dst)
        if target is dict and len(node.args) <= 1 and not any(isinstance(a, ast.Starred) for a in node.args):
            return self._dict_call(node, dst)
        if target is getattr and len(node.args) == 2 and isinstance(node.args[1], ast.Constant):
            member = ast.copy_location(ast.Attribute(node.args[0], str(node.args[1].value), ast.Load()), node)
            return self.expr(member, dst)
        if target is getattr and len(node.args) == 3 and isinstance(node.args[1], ast.Constant):
            return self.kernel_call(node, BY_NAME["py.getattr"], [], dst)
        kernel_name = _BUILTINS.get(target)
        if kernel_name is None:
            kind = _HINTS.get(name, "unknown-function")
            what = "" if kind == "print" and name == "print" else f"'{name}' is not supported"
            self.refuse(kind, node, what)
        found = self.mapped(node.args[0]) if kernel_name in _TAKE_GENERATORS and node.args else None
        if found is not None or (kernel_name in _TAKE_GENERATORS and node.args and isinstance(node.args[0], ast.GeneratorExp)):
            items = self._list_comp(found or node.args[0], -1)  # type: ignore[arg-type]
            if kernel_name in ("py.min", "py.max"):
                packed = self.value(node, codes.BUILD, -1, _TUPLE, 1, items)
                return self.kernel_call(node, BY_NAME[kernel_name], [packed], dst, skip=1)
            return self.kernel_call(node, BY_NAME[kernel_name], [items], dst, skip=1)
        return self.kernel_call(node, BY_NAME[kernel_name], [], dst)

    def mapped(self, node: ast.expr) -> ast.ListComp | None:
        """`map(f, a, ...)` as `[f(x, ...) for x, ... in zip(a, ...)]`, for those who take all items at once."""
        if not isinstance(node, ast.Call) or self.static(node.func) is not map or len(node.args) < 2 or node.keywords \
                or any(isinstance(a, ast.Starred) for a in node.args):
            return None
        names = [f".map{i}" for i in range(len(node.args) - 1)]
        call = ast.Call(node.args[0], [ast.Name(n, ast.Load()) for n in names], [])
        stores: list[ast.expr] = [ast.Name(n, ast.Store()) for n in names]
        if len(names) == 1:
            target, over = stores[0], node.args[1]
        else:
            self.frame.statics[".zip"] = zip
            target, over = ast.Tuple(stores, ast.Store()), ast.Call(ast.Name(".zip", ast.Load()), node.args[1:], [])
        made = ast.ListComp(call, [ast.comprehension(target, over, [], 0)])
        for part in ast.walk(made):
            if isinstance(part, (ast.expr, ast.stmt)) and not hasattr(part, "lineno"):
                ast.copy_location(part, node)
        return made

    def _dict_call(self, node: ast.Call, dst: int) -> int:
        items = []
        if node.args or any(keyword.arg is None for keyword in node.keywords):
            pairs: list[tuple[ast.expr | None, ast.expr]] = [(None, a) for a in node.args]
            for keyword in node.keywords:
                key = None if keyword.arg is None else ast.copy_location(ast.Constant(keyword.arg), keyword.value)
                pairs.append((key, keyword.value))
            return self._unpacked_dict(node, pairs, dst)
        for keyword in node.keywords:
            items.append(self.const(node, keyword.arg))
            items.append(self.expr(keyword.value))
        return self.value(node, codes.BUILD, dst, BUILD_KINDS.index("dict"), len(items), *items)

    def _isinstance(self, node: ast.Call, dst: int) -> int:
        if len(node.args) != 2 or node.keywords:
            self.refuse("call-arguments", node)
        wanted = node.args[1]
        names, classes, nodes = [], [], []
        for item in wanted.elts if isinstance(wanted, ast.Tuple) else [wanted]:
            found = self.static(item)
            name = f"{found.__module__}.{found.__name__}" if isinstance(found, type) else ""
            if name not in TYPE_NAMES:
                if isinstance(found, type) and type(found).__instancecheck__ in _PLAIN_CHECKS:
                    classes.append(found)
                    nodes.append(item)
                    continue
                self.refuse("function-value", item, f"isinstance against '{ast.unparse(item)}' is not supported",
                            "test dtypes with x.dtype, or structure with x.ndim")
            names.append(name)
        if classes:
            return self.class_test(node, tuple(classes), tuple(names), nodes, dst)
        value = self.expr(node.args[0])
        return self.kernel(node, BY_NAME["py.isinstance"].id, [value, self.const(node, tuple(names))], dst)

    def range_parts(self, node: ast.Call) -> list[int]:
        """Registers of start, stop and step of a range call."""
        count = len(node.args)
        if node.keywords or not 1 <= count <= 3 or any(isinstance(a, ast.Starred) for a in node.args):
            self.refuse("call-arguments", node, "range takes one to three positional arguments")
        given = [self.expr(arg) for arg in node.args]
        if count == 1:
            given.insert(0, self.const(node, 0))
        if count < 3:
            given.append(self.const(node, 1))
        return given

    def static_call(self, node: ast.Call) -> Any:
        """np.dtype("float32"), np.finfo(np.float32): known when compiled."""
        target = self.static(node.func) if not isinstance(node.func, ast.Call) else MISSING
        if target not in (np.dtype, np.finfo, np.iinfo) or len(node.args) != 1 or node.keywords:
            return MISSING
        argument = node.args[0]
        value: Any = self.static(argument)
        if value is MISSING and isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            value = argument.value
        if value is MISSING or not dtype_code(value):
            return MISSING
        try:
            return target(np.dtype(value))
        except (TypeError, ValueError) as error:
            self.refuse("call-arguments", node, str(error))

    # --- methods

    def _method(self, node: ast.Call, func: ast.Attribute, dst: int) -> int:
        base = func.value
        if isinstance(base, ast.Name) and base.id == self.frame.self_name and self.frame.owner is not None \
                and self.frame.is_receiver:
            found = self._own_method(node, self.frame.owner, func, dst)
            if found >= 0:
                return found
        if isinstance(base, ast.Call) and isinstance(base.func, ast.Name) and base.func.id == "super" \
                and self.static(base.func) is super:
            return self._super_method(node, func, dst)
        name = func.attr
        found = self.object_call(node, dst)
        if found >= 0:
            return found
        kernel = BY_NAME.get(f"arr.{name}") or BY_NAME.get(_METHODS.get(name, ""))
        if kernel is None:
            self.refuse("unknown-method", func, f"the method '{name}' is not known to prebake")
        receiver = self.expr(base)
        special = SPECIAL.get(kernel.name)
        if special is not None:
            return special(self, node, kernel, dst, receiver)
        return self.kernel_call(node, kernel, [receiver], dst)

    def _own_method(self, node: ast.Call, owner: type, func: ast.Attribute, dst: int) -> int:
        """`self.name(...)` as the inlined method; -1 when self has no such attribute."""
        name = self.mangled(func.attr)
        if self.receiver is not ABSENT:
            return self._method_of_receiver(node, owner, name, dst)
        try:
            member = member_of(owner, name)
        except AttributeError:
            return -1
        self.watch.member(None, name, member)
        self.note_binding("self", owner.__module__, f"{owner.__qualname__}.{name}", member)
        return self._bound(node, member, func, dst, owner)

    def _method_of_receiver(self, node: ast.Call, owner: type, name: str, dst: int) -> int:
        """The method as the call's own first argument has it: an instance may keep a function under any name."""
        found = self.of_receiver(node.func, name)
        if found is MISSING:
            return -1
        if isinstance(found, MethodType):
            if found.__self__ is self.receiver and isinstance(underlying(found), FunctionType):
                return self.inline(node, underlying(found), [self._self_register()], dst, owner)
            if found.__self__ is self.receiver and type(found.__func__) is _CACHED:
                return self.cached_call(node, found.__func__, [self._self_register()], dst, owner)
            if found.__self__ is owner and isinstance(found.__func__, FunctionType):
                return self.inline(node, found.__func__, [], dst, owner, [owner], lambda: self._class_of_self(node))
        elif is_static(found):
            return self.call_static(node, found, dst)
        called = self.object_call(node, dst)
        if called < 0:
            self.refuse("dynamic-call", node.func, f"'{ast.unparse(node.func)}' is a {type(found).__name__} here")
        return called

    def own_property(self, node: ast.Attribute, dst: int) -> int:
        """A property of self as the inlined function: code that runs at each read; -1 for other attributes."""
        owner, name = self.frame.owner, self.mangled(node.attr)
        member = next((c.__dict__[name] for c in owner.__mro__ if name in c.__dict__), None) if owner is not None else None
        if type(member) is not property or not isinstance(member.fget, FunctionType) or not self.inlines_properties:
            return -1
        self.has_properties = True
        if self.frame.is_receiver:
            self.watch.member(type, name, member)
            self.note_binding("self", owner.__module__, f"{owner.__qualname__}.{name}", member)  # type: ignore[union-attr]
        else:
            self.bind_member(owner, name)  # type: ignore[arg-type]
        call = ast.copy_location(ast.Call(node, [], []), node)
        return self.inline(call, member.fget, [self._self_register()], dst, owner)

    def of_receiver(self, node: ast.expr, name: str) -> Any:
        """What an attribute of the call's first argument leads to, looked at again at each call; `MISSING`: there is none.

        Refuses what is made anew at each look.
        """
        try:
            found, again = getattr(self.receiver, name), getattr(self.receiver, name)
        except AttributeError:
            return MISSING
        if found is not again and (not isinstance(found, MethodType) or found != again):
            self.refuse("dynamic-call", node, f"'{ast.unparse(node)}' is another object each time")
        self.watch.member(None, name, found)
        owner = type(self.receiver)
        self.note_binding("self", owner.__module__, f"{owner.__qualname__}.{name}", underlying(found))
        return found

    def _bound(self, node: ast.Call, member: Any, func: ast.Attribute, dst: int, owner: type) -> int:
        """A member of a class called on self."""
        if isinstance(member, staticmethod):
            return self.call_static(node, member.__func__, dst)
        if isinstance(member, classmethod):
            return self.inline(node, member.__func__, [], dst, owner, [owner],  # type: ignore[arg-type]
                               lambda: self._class_of_self(node))
        if is_jitted(member):
            member = member.__wrapped__
        if isinstance(member, FunctionType):
            return self.inline(node, member, [self._self_register()], dst, owner)
        if type(member) is _CACHED and isinstance(member.__wrapped__, FunctionType):
            return self.cached_call(node, member, [self._self_register()], dst, owner)
        self.refuse("dynamic-call", func)

    def _self_register(self) -> int:
        frame, register = self.find_local(self.frame.self_name)
        assert frame is not None
        self.read_local(frame, register)
        return register

    def _class_of_self(self, node: ast.Call) -> int:
        """The class of self, for what is read of it at run time."""
        return self.value(node, codes.LOAD_ATTR, -1, self._self_register(), self.const_index("__class__"))

    def _super_method(self, node: ast.Call, func: ast.Attribute, dst: int) -> int:
        owner = self.frame.owner
        names = [p for p in self.frame.source.qualname.split(".") if p != "<locals>"]
        if owner is None or len(names) < 2 or not self.frame.self_name:
            self.refuse("super", func)
        mro = owner.__mro__
        if self.frame.is_receiver:
            self.watch.member(None, "__class__", owner)  # another class has another line of bases
            self.note_binding("self", owner.__module__, f"{owner.__qualname__}.__class__", owner)
        at = next((i for i, cls in enumerate(mro) if cls.__name__ == names[-2]), len(mro))
        for cls in mro[at + 1:]:
            if func.attr in cls.__dict__:
                if not isinstance(getattr(cls, func.attr), BuiltinFunctionType):
                    self.bind_member(cls, func.attr)
                return self._bound(node, cls.__dict__[func.attr], func, dst, owner)
        self.refuse("unknown-method", func, f"no base class has a method '{func.attr}'")
