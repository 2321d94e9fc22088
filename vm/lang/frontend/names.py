"""Names: what they mean when the function is compiled (a register, a module, a function, a type), or at run time.

Also what literals decide already: folded constants, and tests of arguments that a helper was called with.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from enum import Enum, EnumMeta
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from ....templates.registry import BY_NAME
from ...bindings import ABSENT, cell_of, member_of
from ...dtypes import dtype_code
from . import codes
from .emitter import is_constant_value
from .held import Held, Mark
from .scope import BoundMethod, Closure, Frame

_FOLDS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}
_COMPARE_FOLDS: dict[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}
_NUMBERS = (int, float, complex)

# Objects whose meaning is fixed when the function is compiled.
STATIC_TYPES: tuple[type, ...] = (
    ModuleType, FunctionType, BuiltinFunctionType, type, np.ufunc, type(np.sum), np.finfo, np.iinfo, Closure,
    BoundMethod,
)
NUMPY_INDEXERS = (np.mgrid, np.ogrid, np.r_, np.c_)
MISSING: Any = Mark()


class Names(Held):
    """Finds names; expressions come from the next layer."""

    # registers of the program's parameters that no instruction has loaded yet, and name -> register for symbols
    unloaded: set[int]
    param_symbols: dict[int, str]
    deleted: set[int]  # registers of locals that a `del` somewhere unassigns
    tuples: set[int]  # registers that hold nothing but a tuple
    receiver: object = ABSENT  # the first argument of the call that the program is made for
    inlines_properties = True
    has_properties = False
    follows_properties = False  # those of other objects than self, too
    copy_loads = False  # a `:=` stands somewhere: operands must not alias locals

    def expr(self, node: ast.expr, dst: int = -1) -> int:
        """The register of an expression's value; dst when that is given."""
        raise NotImplementedError

    # --- names

    def find_local(self, name: str) -> tuple[Frame | None, int]:
        """(frame, register) of a local of this function or of one around it; (None, -1) for globals and statics."""
        frame: Frame | None = self.frame
        while frame is not None:
            register = frame.registers.get(name, -1)
            if register >= 0:
                return frame, register
            if name in frame.statics:
                return None, -1
            if name in frame.names.counts:
                register = frame.registers[name] = self.new_register()
                return frame, register
            frame = frame.parent
        return None, -1

    def read_local(self, frame: Frame, register: int) -> bool:
        """Note that a local is read at this point; whether it may be unassigned, so that the read itself may raise."""
        if register in self.unloaded:
            self.unloaded.discard(register)
            self.insert(0, register, self.main_args[register], self.main, codes.LOAD_TENSOR, register, register)
        elif not self.assigned >> register & 1:
            self.maybe_unbound(register, frame)
            return True
        return register in self.deleted

    main: Frame
    main_args: list[ast.arg]

    def _name(self, node: ast.Name, dst: int) -> int:
        frame, register = self.find_local(node.id)
        if frame is None:
            return self._outer(node, self.static(node), dst)
        if self.read_local(frame, register) or (dst < 0 and self.copy_loads):
            return self.value(node, codes.MOVE, dst, register)
        return register if dst < 0 else self.move(node, dst, register)

    def _outer(self, node: ast.Name, static: object, dst: int) -> int:
        """A name from outside: a constant of the language, or a capture that is read again at each call."""
        if static is not MISSING:
            return self.static_value(node, static, dst)
        name = node.id
        root = self.frame.root
        if name in root.fn.__code__.co_freevars:
            if root is self.main:
                return self.capture(node, "closure", root.source.module, name, dst)
            scope, module, path = self.reached.get(id(root.fn), ("", "", ""))
            if scope not in ("global", "closure"):
                self.refuse("helper-closure", node, f"'{name}' is a variable of the function that made "
                            f"'{root.fn.__qualname__}'")
            return self.capture(node, scope, module, f"{path}|{name}", dst)
        if name in root.fn.__globals__:
            self._space(node, root.source.module, root.fn.__globals__)
            return self.capture(node, "global", root.source.module, name, dst)
        if self.is_conditional:
            return self.undefined(node, name, dst)
        self.refuse("unknown-name", node, f"the name '{name}' is not defined")

    def undefined(self, node: ast.Name, name: str, dst: int) -> int:
        """A name that nothing defines now, where it may never be read; the function is compiled again once it is defined."""
        fn = self.frame.root.fn
        self.watch.name(fn.__globals__, name, ABSENT)
        self.watch.name(fn.__builtins__, name, ABSENT)  # type: ignore[attr-defined]
        return self.raising(node, "NameError", f"name '{name}' is not defined", dst)

    def _space(self, node: ast.AST, module: str, names: dict[str, Any]) -> None:
        """Note the module that names are read from at each call. Refuses a second one of the same name."""
        if self.watch.spaces.setdefault(module, names) is not names:
            self.refuse("unknown-name", node, f"there are two modules '{module}', this name is looked up in the other one",
                        "import the module once, or give one of them another name")

    def lookup(self, name: str) -> object:
        """The present value of a non-local name of this frame; `MISSING` where there is none."""
        root = self.frame.root
        fn = root.fn
        if name in fn.__code__.co_freevars:
            try:
                return fn.__closure__[fn.__code__.co_freevars.index(name)].cell_contents  # type: ignore[index]
            except ValueError:
                return MISSING
        found = fn.__globals__.get(name, MISSING)
        if found is MISSING:
            builtins = fn.__builtins__  # type: ignore[attr-defined]
            found = builtins.get(name, MISSING)
        return found

    def static(self, node: ast.expr) -> Any:
        """The module, function or type that an expression names when it is compiled; `MISSING` for run-time values."""
        cls = node.__class__
        if cls is ast.Name:
            name = node.id  # type: ignore[attr-defined]
            frame: Frame | None = self.frame
            while frame is not None:
                if name in frame.statics:
                    return frame.statics[name]
                if name in frame.registers or name in frame.names.counts:
                    return MISSING
                frame = frame.parent
            cache = self.frame.root.static_cache
            value = cache.get(name, cache)
            if value is cache:
                value = self.lookup(name)
                value = cache[name] = value if is_static(value) else MISSING
                if value is not MISSING:
                    self._bind_name(name, value)
            return value
        if cls is ast.Attribute:
            base = self.static(node.value)  # type: ignore[attr-defined]
            if base is MISSING:
                return self._static_of_receiver(node)  # type: ignore[arg-type]
            if base is np:
                cache = self.frame.root.static_cache
                value = cache.get(("np", node.attr), cache)  # type: ignore[attr-defined]
                if value is cache:
                    value = cache["np", node.attr] = self.static_attribute(node, base)  # type: ignore[arg-type,attr-defined]
                return value
            return self.static_attribute(node, base)  # type: ignore[arg-type]
        if cls is ast.Lambda:
            return Closure(node, self.frame)  # type: ignore[arg-type]
        if cls is ast.Call:
            return self.static_call(node)  # type: ignore[arg-type]
        return MISSING

    def _static_of_receiver(self, node: ast.Attribute) -> Any:
        """A function that self keeps as an attribute (`self.act = np.tanh`); `MISSING` for methods and values."""
        if self.receiver is ABSENT or not self.frame.self_name or node.value.__class__ is not ast.Name \
                or node.value.id != self.frame.self_name:
            return MISSING
        kept = getattr(self.receiver, "__dict__", {})
        name = self.mangled(node.attr)
        if name not in kept or not is_static(kept[name]) or isinstance(kept[name], (ModuleType, np.dtype)):
            return MISSING
        return self.of_receiver(node, name)

    def of_receiver(self, node: ast.expr, name: str) -> Any:
        """What an attribute of the call's first argument leads to; calls come from a later layer."""
        raise NotImplementedError

    def own_property(self, node: ast.Attribute, dst: int) -> int:
        """The register of a property of self, compiled in; -1 for other attributes. Calls come from a later layer."""
        raise NotImplementedError

    def held_property(self, node: ast.Attribute, dst: int) -> int:
        """The register of a property of an object that is found in the arguments, compiled in; -1 for other attributes."""
        raise NotImplementedError

    def _bind_name(self, name: str, value: Any) -> None:
        root = self.frame.root
        if name in root.fn.__code__.co_freevars:
            self.watch.name(cell_of(root.fn, name), name, value)
            if root is self.main:
                self.note_binding("closure", root.source.module, name, value)
            elif id(root.fn) in self.reached:
                scope, module, path = self.reached[id(root.fn)]
                self.note_binding(scope, module, f"{path}|{name}", value)
        elif name in root.fn.__globals__:
            self.watch.name(root.fn.__globals__, name, value)
            self.note_binding("global", root.source.module, name, value)
        else:
            self.watch.builtin(root.fn, name)

    def static_call(self, node: ast.Call) -> Any:
        """np.dtype(...), np.finfo(...) and the like over what is known; `MISSING` otherwise."""
        return MISSING

    def static_attribute(self, node: ast.Attribute, base: Any) -> Any:
        """An attribute of a module or type, if that is static too."""
        if isinstance(base, (Closure, BoundMethod)):
            return MISSING
        value = getattr(base, node.attr, MISSING)
        is_fixed = isinstance(base, ModuleType) and base.__name__.partition(".")[0] in ("numpy", "math", "builtins")
        if isinstance(base, ModuleType) and (is_fixed or value is MISSING or is_static(value)):
            self.watch.name(base.__dict__, node.attr, value if node.attr in base.__dict__ else ABSENT)
        if value is MISSING and self.is_conditional:
            return MISSING  # it may never be read: `absent`
        if value is MISSING:
            text = getattr(base, "__name__", repr(base))
            from ...options import suggest  # it loads difflib

            public = [name for name in dir(base) if not name.startswith("_")]
            self.refuse("unknown-name", node, f"'{text}' has no attribute '{node.attr}'",
                        suggest(node.attr, public) or f"correct the name: it is looked up in '{text}' as it is installed")
        if isinstance(base, type) and isinstance(base.__dict__.get(node.attr), property):
            return MISSING
        if not is_static(value):
            return MISSING
        if isinstance(base, ModuleType):
            if not is_fixed:
                self.note_binding("global", base.__name__, node.attr, value)
        elif isinstance(base, type) and base.__module__ != "numpy":
            self.bind_member(base, node.attr)
        return value

    def bind_member(self, cls: type, name: str) -> None:
        """Record what a class's attribute leads to: a function, not a value that is read at run time."""
        self.watch.member(cls, name, getattr(cls, name))
        if any(name in c.__dict__ for c in cls.__mro__):
            self.note_binding("member", cls.__module__, f"{cls.__qualname__}.{name}", member_of(cls, name))

    def static_value(self, node: ast.expr, value: Any, dst: int) -> int:
        """A static object as a run-time value: types stand for dtypes; functions cannot be values."""
        dtype = as_dtype(value)
        if dtype is not None:
            register = self.const(node, dtype, dst)
            return register
        if isinstance(value, type) and not issubclass(value, np.generic):
            self.refuse("function-value", node, f"the class '{value.__name__}' cannot be a value at run time")
        name = getattr(value, "__name__", type(value).__name__)
        self.refuse("function-value", node, f"'{name}' cannot be a value at run time")

    # --- attributes

    def _attribute(self, node: ast.Attribute, dst: int) -> int:
        base = self.static(node.value)
        if base is not MISSING:
            return self._static_member(node, base, dst)
        if node.attr.startswith("__") and node.attr.endswith("__"):
            self.refuse("special-attribute", node, f"'{node.attr}' belongs to Python's object model")
        if isinstance(node.value, ast.Call) and node.attr in ("eps", "max", "min", "tiny", "bits", "resolution"):
            info = self.static(node.value.func)
            if info in (np.finfo, np.iinfo) and len(node.value.args) == 1 and not node.value.keywords:
                kernel = BY_NAME[f"np.{info.__name__}"]
                operands = [self.expr(node.value.args[0]), self.const(node, node.attr)]
                return self.kernel(node, kernel.id, operands, dst)
        if node.attr in ("value", "name") and (member := self.enum_member(node.value)) is not MISSING \
                and member_of(type(member), node.attr) is vars(Enum)[node.attr] and is_constant_value(member.value):
            return self.const(node, getattr(member, node.attr), dst)
        if node.value.__class__ is ast.Name and node.value.id == self.frame.self_name:
            register = self.own_property(node, dst)
            if register >= 0:
                return register
        if self.follows_properties:
            register = self.held_property(node, dst)
            if register >= 0:
                return register
        source = self.expr(node.value)
        register = self.value(node, codes.LOAD_ATTR, dst, source, self.const_index(self.mangled(node.attr)))
        return register

    def enum_member(self, node: ast.expr) -> Any:
        """The member that `Kind.NAME` names, whose meaning is recorded; `MISSING` for other expressions."""
        if node.__class__ is not ast.Attribute:
            return MISSING
        base = self.static(node.value)
        if not isinstance(base, EnumMeta) or node.attr not in base.__members__:
            return MISSING
        self.bind_member(base, node.attr)
        return base.__members__[node.attr]

    def mangled(self, name: str) -> str:
        """Python's private-name mangling inside a class body."""
        if name.startswith("__") and not name.endswith("__"):
            parts = [p for p in self.frame.source.qualname.split(".") if p != "<locals>"]
            if len(parts) > 1 and self.frame.owner is not None:
                return f"_{parts[-2].lstrip('_')}{name}"
        return name

    def _static_member(self, node: ast.Attribute, base: Any, dst: int) -> int:
        """An attribute of a module or class as a value: constants of NumPy and math, captures of other modules."""
        static = self.static_attribute(node, base)
        if static is not MISSING:
            return self.static_value(node, static, dst)
        if getattr(base, node.attr, MISSING) is MISSING:
            return self.absent(node, base, dst)
        if isinstance(base, type) and node.attr in getattr(base, "__dataclass_fields__", ()) \
                and self.frame.class_register is not None:
            self.refuse("class-attribute", node)
        value = getattr(base, node.attr)
        if isinstance(base, (np.finfo, np.iinfo)) or (
                isinstance(base, ModuleType) and base.__name__.partition(".")[0] in ("numpy", "math")):
            return self.literal(node, value, dst)
        if isinstance(base, ModuleType):
            self._space(node, base.__name__, base.__dict__)
            return self.capture(node, "global", base.__name__, node.attr, dst)
        root = self._class_capture(node.value)
        return self.value(node, codes.LOAD_ATTR, dst, root, self.const_index(self.mangled(node.attr)))

    def absent(self, node: ast.Attribute, base: Any, dst: int) -> int:
        """An attribute that a module or class does not have, where it may never be read."""
        try:
            getattr(base, node.attr)
            text = node.attr
        except AttributeError as error:
            text = str(error)
        return self.raising(node, "AttributeError", text, dst)

    def _class_capture(self, node: ast.expr) -> int:
        """A class as the base of an attribute read at run time."""
        if isinstance(node, ast.Name):
            if node.id in self.frame.statics:
                if self.frame.class_register is None:
                    self.refuse("function-value", node, f"attributes of '{node.id}' are not read in compiled code")
                return self.frame.class_register()
            root = self.frame.root
            scope = "closure" if node.id in root.fn.__code__.co_freevars else "global"
            if node.id not in root.fn.__globals__ and scope == "global":
                self.refuse("function-value", node, f"attributes of '{node.id}' are not read in compiled code")
            if scope == "global":
                self._space(node, root.source.module, root.fn.__globals__)
            return self.capture(node, scope, root.source.module, node.id)
        base = self.static(node.value)  # type: ignore[attr-defined]
        if isinstance(base, ModuleType):
            self._space(node, base.__name__, base.__dict__)
            return self.capture(node, "global", base.__name__, node.attr)  # type: ignore[attr-defined]
        return self.value(node, codes.LOAD_ATTR, -1, self._class_capture(node.value),  # type: ignore[attr-defined]
                          self.const_index(node.attr))  # type: ignore[attr-defined]

    def literal(self, node: ast.expr, value: Any, dst: int = -1) -> int:
        """A register with a known value: the constant pool's own kinds, and NumPy scalars by a cast."""
        if isinstance(value, np.dtype) and not dtype_code(value):
            self.refuse("string", node, f"dtype {value} is not supported")
        if isinstance(value, np.generic):
            kernel = BY_NAME.get(f"np.{value.dtype.name}")
            if kernel is None:
                self.refuse("function-value", node, f"{value.dtype} scalars are not supported")
            if value.dtype.kind == "f" and value.dtype.itemsize > 8:
                self.refuse("function-value", node, f"{value.dtype} scalars are not supported")
            return self.kernel(node, kernel.id, [self.const(node, value.item())], dst)
        if value is None or isinstance(value, (bool, int, float, complex, str, np.dtype)):
            return self.const(node, value, dst)
        if value in NUMPY_INDEXERS:
            self.refuse("function-value", node, "np.mgrid and its like are used by indexing them: np.mgrid[0:n]")
        self.refuse("function-value", node, f"a {type(value).__name__} cannot be a value at run time")

    # --- tests that constants decide

    def known(self, node: ast.expr) -> Any:
        """The value of a test that constants decide (a helper called with literals or defaults); else `MISSING`."""
        cls = node.__class__
        if cls is ast.Name:
            frame, register = self.find_local(node.id)  # type: ignore[attr-defined]
            return MISSING if frame is None else self.const_of.get(register, MISSING)
        if isinstance(node, ast.Compare):
            if len(node.ops) > 1:
                return MISSING
            left = self.known(node.left)
            if left is MISSING and node.ops[0].__class__ in (ast.Is, ast.IsNot) and fold(node.comparators[0]) is None \
                    and self.static(node.left) is not MISSING:
                return node.ops[0].__class__ is ast.IsNot
            right = MISSING if left is MISSING else self.known(node.comparators[0])
            if right is MISSING:
                return MISSING
            try:
                return _COMPARE_FOLDS[node.ops[0].__class__](left, right)
            except TypeError:
                return MISSING
        if cls is ast.BoolOp:
            stop = node.op.__class__ is ast.Or  # type: ignore[attr-defined]
            value: Any = MISSING
            for item in node.values:  # type: ignore[attr-defined]
                value = self.known(item)
                if value is MISSING or bool(value) is stop:
                    return value
            return value
        if cls is ast.UnaryOp and node.op.__class__ is ast.Not:  # type: ignore[attr-defined]
            value = self.known(node.operand)  # type: ignore[attr-defined]
            return MISSING if value is MISSING else not value
        if cls is ast.Call:
            return self.known_call(node)  # type: ignore[arg-type]
        return fold(node)

    def _module_has(self, node: ast.expr, name: Any) -> Any:
        """Whether a module has an attribute; `MISSING` where it is no module."""
        base = self.static(node)
        if not isinstance(base, ModuleType) or not isinstance(name, str):
            return MISSING
        value = getattr(base, name, ABSENT)
        self.watch.name(base.__dict__, name, value if name in base.__dict__ else ABSENT)
        return value is not ABSENT

    def known_call(self, node: ast.Call) -> Any:
        """`isinstance(size, tuple)` of a constant or a display, `hasattr(np, "name")`; `MISSING` otherwise."""
        if len(node.args) == 2 and self.static(node.func) is hasattr and isinstance(node.args[1], ast.Constant):
            return self._module_has(node.args[0], node.args[1].value)
        if len(node.args) != 2 or node.args[0].__class__ is not ast.Name or self.static(node.func) is not isinstance:
            return MISSING
        wanted = self.static(node.args[1])
        frame, register = self.find_local(node.args[0].id)
        if frame is None or wanted not in (tuple, list, int, float, bool, str, dict):
            return MISSING
        if register in self.tuples:
            return wanted is tuple
        value = self.const_of.get(register, MISSING)
        return MISSING if value is MISSING else isinstance(value, wanted)


def has_stars(node: ast.Call) -> bool:
    """Whether a call has `*items` or `**items`."""
    for arg in node.args:
        if arg.__class__ is ast.Starred:
            return True
    for keyword in node.keywords:
        if keyword.arg is None:
            return True
    return False


def is_static(value: object) -> bool:
    """Whether a value found under a global name has its meaning fixed when the function is compiled."""
    return isinstance(value, STATIC_TYPES) or is_jitted(value) or isinstance(value, np.dtype)


_PACKAGE = __name__.partition(".vm.")[0]


def is_jitted(value: object) -> bool:
    """Whether a value is a function decorated by this package, with the plain one in `__wrapped__`."""
    return type(value).__module__.startswith(_PACKAGE) and isinstance(getattr(value, "__wrapped__", None), FunctionType)


_PYTHON_DTYPES = {float: np.dtype(np.float64), int: np.dtype(np.int64), bool: np.dtype(np.bool_),
                  complex: np.dtype(np.complex128)}


def as_dtype(value: object) -> np.dtype | None:
    """The dtype that a type stands for as an argument; None if it stands for none."""
    if isinstance(value, np.dtype):
        return value if dtype_code(value) else None
    if not isinstance(value, type):
        return None
    found = _PYTHON_DTYPES.get(value)
    if found is not None:
        return found
    if dtype_code(value):
        return np.dtype(value)
    return None


def fold(node: ast.expr) -> Any:
    """The value of an expression of literals, as Python's own compiler folds it; `MISSING` for others."""
    cls = node.__class__
    if cls is ast.Constant:
        return node.value  # type: ignore[attr-defined]
    if cls is ast.UnaryOp:
        value = fold(node.operand)  # type: ignore[attr-defined]
        if type(value) in _NUMBERS:
            op = node.op.__class__  # type: ignore[attr-defined]
            if op is ast.USub:
                return -value
            if op is ast.UAdd:
                return +value
        return MISSING
    if cls is ast.BinOp:
        left = fold(node.left)  # type: ignore[attr-defined]
        if type(left) not in _NUMBERS:
            return MISSING
        right = fold(node.right)  # type: ignore[attr-defined]
        if type(right) not in _NUMBERS:
            return MISSING
        function = _FOLDS.get(node.op.__class__)  # type: ignore[attr-defined]
        if function is None or (function is operator.pow and (abs(right) > 64 or abs(left) > 1e6)):
            return MISSING
        try:
            return function(left, right)
        except (ArithmeticError, TypeError, ValueError):
            return MISSING
    if cls is ast.Tuple:
        items = []
        for item in node.elts:  # type: ignore[attr-defined]
            value = fold(item)
            if value is MISSING:
                return MISSING
            items.append(value)
        return tuple(items)
    return MISSING
