"""Expressions -> registers: names, operators, subscripts, displays, comprehensions.

Every handler takes (node, dst) and returns the register of the value; with dst >= 0 that is dst. An instruction writes
dst last, after all operands are read, so that dst may be a local that the expression reads; handlers that write it on
several paths evaluate into a fresh register first.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, ClassVar

import numpy as np

from ....templates.registry import BY_NAME, MATMUL
from ...dtypes import dtype_code
from ..opcodes import BUILD_KINDS, COMPARE_OPS
from . import codes
from .emitter import DEAD, Emitter
from .scope import BoundMethod, Closure, Frame

_TUPLE, _LIST, _SLICE, _DICT = (BUILD_KINDS.index(k) for k in ("tuple", "list", "slice", "dict"))

_BINARY_OPCODES: dict[type, int] = {
    ast.Add: codes.BINARY_ADD_TENSOR, ast.Sub: codes.BINARY_SUB_TENSOR, ast.Mult: codes.BINARY_MUL_TENSOR,
    ast.Div: codes.BINARY_DIV_TENSOR,
}
_BINARY_KERNELS: dict[type, int] = {
    ast.FloorDiv: BY_NAME["op.floordiv"].id, ast.Mod: BY_NAME["op.mod"].id, ast.Pow: BY_NAME["op.pow"].id,
    ast.LShift: BY_NAME["op.lshift"].id, ast.RShift: BY_NAME["op.rshift"].id, ast.BitAnd: BY_NAME["op.and"].id,
    ast.BitOr: BY_NAME["op.or"].id, ast.BitXor: BY_NAME["op.xor"].id, ast.MatMult: MATMUL,
}
_FOLDS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}
_COMPARE_FOLDS: dict[type, Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}
_COMPARISONS: dict[type, int] = {
    cls: COMPARE_OPS.index(text) for cls, text in (
        (ast.Eq, "=="), (ast.NotEq, "!="), (ast.Lt, "<"), (ast.LtE, "<="), (ast.Gt, ">"), (ast.GtE, ">="),
        (ast.Is, "is"), (ast.IsNot, "is not"), (ast.In, "in"), (ast.NotIn, "not in"))
}
_NOT, _POS = BY_NAME["op.not"].id, BY_NAME["op.pos"].id
_NUMBERS = (int, float, complex)

# Objects whose meaning is fixed when the function is compiled.
STATIC_TYPES: tuple[type, ...] = (
    ModuleType, FunctionType, BuiltinFunctionType, type, np.ufunc, type(np.sum), np.finfo, np.iinfo, Closure,
    BoundMethod,
)
_NUMPY_INDEXERS = (np.mgrid, np.ogrid, np.r_, np.c_)
_MISSING: Any = object()


class Expressions(Emitter):
    """Compiles expressions; calls come from the next layer."""

    # registers of the program's parameters that no instruction has loaded yet, and name -> register for symbols
    unloaded: set[int]
    param_symbols: dict[int, str]
    deleted: set[int]  # registers of locals that a `del` somewhere unassigns
    tuples: set[int]  # registers that hold nothing but a tuple
    copy_loads = False  # a `:=` stands somewhere: operands must not alias locals

    def call(self, node: ast.Call, dst: int) -> int:
        """Compile a call."""
        raise NotImplementedError

    def expr(self, node: ast.expr, dst: int = -1) -> int:
        """The register of an expression's value; dst when that is given."""
        handler = self.EXPRESSIONS.get(node.__class__)
        if handler is None:
            self.refuse("f-string", node)
        return handler(self, node, dst)

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
        if static is not _MISSING:
            return self.static_value(node, static, dst)
        name = node.id
        root = self.frame.root
        if name in root.fn.__code__.co_freevars:
            if root is not self.main:
                self.refuse("helper-closure", node, f"'{name}' is a variable of the function that made "
                            f"'{root.fn.__qualname__}'")
            return self.capture(node, "closure", root.source.module, name, dst)
        if name in root.fn.__globals__:
            return self.capture(node, "global", root.source.module, name, dst)
        self.refuse("unknown-name", node, f"the name '{name}' is not defined")

    def lookup(self, name: str) -> object:
        """The present value of a non-local name of this frame; `_MISSING` where there is none."""
        root = self.frame.root
        fn = root.fn
        if name in fn.__code__.co_freevars:
            try:
                return fn.__closure__[fn.__code__.co_freevars.index(name)].cell_contents  # type: ignore[index]
            except ValueError:
                return _MISSING
        found = fn.__globals__.get(name, _MISSING)
        if found is _MISSING:
            builtins = fn.__builtins__  # type: ignore[attr-defined]
            found = builtins.get(name, _MISSING)
        return found

    def static(self, node: ast.expr) -> Any:
        """The module, function or type that an expression names when it is compiled; `_MISSING` for run-time values."""
        cls = node.__class__
        if cls is ast.Name:
            name = node.id  # type: ignore[attr-defined]
            frame: Frame | None = self.frame
            while frame is not None:
                if name in frame.statics:
                    return frame.statics[name]
                if name in frame.registers or name in frame.names.counts:
                    return _MISSING
                frame = frame.parent
            cache = self.frame.root.static_cache
            value = cache.get(name, cache)
            if value is cache:
                value = self.lookup(name)
                value = cache[name] = value if is_static(value) else _MISSING
            return value
        if cls is ast.Attribute:
            base = self.static(node.value)  # type: ignore[attr-defined]
            if base is _MISSING:
                return _MISSING
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
        return _MISSING

    def static_call(self, node: ast.Call) -> Any:
        """np.dtype(...), np.finfo(...) and the like over what is known; `_MISSING` otherwise."""
        return _MISSING

    def static_attribute(self, node: ast.Attribute, base: Any) -> Any:
        """An attribute of a module or type, if that is static too."""
        if isinstance(base, (Closure, BoundMethod)):
            return _MISSING
        value = getattr(base, node.attr, _MISSING)
        if value is _MISSING:
            text = getattr(base, "__name__", repr(base))
            self.refuse("unknown-name", node, f"'{text}' has no attribute '{node.attr}'")
        if isinstance(base, type) and isinstance(base.__dict__.get(node.attr), property):
            return _MISSING
        return value if is_static(value) else _MISSING

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
        if base is not _MISSING:
            return self._static_member(node, base, dst)
        if node.attr.startswith("__") and node.attr.endswith("__"):
            self.refuse("special-attribute", node, f"'{node.attr}' belongs to Python's object model")
        if isinstance(node.value, ast.Call) and node.attr in ("eps", "max", "min", "tiny", "bits", "resolution"):
            info = self.static(node.value.func)
            if info in (np.finfo, np.iinfo) and len(node.value.args) == 1 and not node.value.keywords:
                kernel = BY_NAME[f"np.{info.__name__}"]
                operands = [self.expr(node.value.args[0]), self.const(node, node.attr)]
                return self.kernel(node, kernel.id, operands, dst)
        source = self.expr(node.value)
        register = self.value(node, codes.LOAD_ATTR, dst, source, self.const_index(self.mangled(node.attr)))
        return register

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
        if static is not _MISSING:
            return self.static_value(node, static, dst)
        if isinstance(base, type) and node.attr in getattr(base, "__dataclass_fields__", ()) \
                and self.frame.class_register is not None:
            self.refuse("class-attribute", node)
        value = getattr(base, node.attr)
        if isinstance(base, (np.finfo, np.iinfo)) or (
                isinstance(base, ModuleType) and base.__name__.partition(".")[0] in ("numpy", "math")):
            return self.literal(node, value, dst)
        if isinstance(base, ModuleType):
            return self.capture(node, "global", base.__name__, node.attr, dst)
        root = self._class_capture(node.value)
        return self.value(node, codes.LOAD_ATTR, dst, root, self.const_index(self.mangled(node.attr)))

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
            return self.capture(node, scope, root.source.module, node.id)
        base = self.static(node.value)  # type: ignore[attr-defined]
        if isinstance(base, ModuleType):
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
        if value in _NUMPY_INDEXERS:
            self.refuse("function-value", node, "np.mgrid and its like are used by indexing them: np.mgrid[0:n]")
        self.refuse("function-value", node, f"a {type(value).__name__} cannot be a value at run time")

    # --- constants and operators

    def _constant(self, node: ast.Constant, dst: int) -> int:
        if node.value.__class__ is bytes:
            self.refuse("bytes", node)
        return self.const(node, node.value, dst)

    def _binary(self, node: ast.BinOp, dst: int) -> int:
        left, right, cls = node.left, node.right, node.op.__class__
        if left.__class__ is ast.Constant or right.__class__ is ast.Constant:
            folded = fold(node)
            if folded is not _MISSING:
                return self.const(node, folded, dst)
            self._refuse_text(left)
            self._refuse_text(right)
        a = self.expr(left)
        b = self.expr(right)
        opcode = _BINARY_OPCODES.get(cls)
        if opcode is not None:
            return self.value(node, opcode, dst, a, b)
        return self.kernel(node, _BINARY_KERNELS[cls], [a, b], dst)

    def _refuse_text(self, node: ast.expr) -> None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            self.refuse("string", node)

    def _unary(self, node: ast.UnaryOp, dst: int) -> int:
        folded = fold(node)
        if folded is not _MISSING:
            return self.const(node, folded, dst)
        a = self.expr(node.operand)
        cls = node.op.__class__
        if cls is ast.USub:
            return self.value(node, codes.UNARY_NEG_TENSOR, dst, a)
        if cls is ast.Invert:
            return self.value(node, codes.UNARY_NOT_TENSOR, dst, a)
        return self.kernel(node, _NOT if cls is ast.Not else _POS, [a], dst)

    def _compare(self, node: ast.Compare, dst: int) -> int:
        a = self.expr(node.left)
        if len(node.ops) == 1:
            b = self.expr(node.comparators[0])
            return self.value(node, codes.COMPARE_TENSOR, dst, a, b, _COMPARISONS[node.ops[0].__class__])
        result = self.new_register()  # a < b < c is `a < b and b < c` with b evaluated once
        exits = []
        masks = []
        for at, (op, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            b = self.expr(right)
            self.value(node, codes.COMPARE_TENSOR, result, a, b, _COMPARISONS[op.__class__])
            a = b
            if at < len(node.ops) - 1:
                exits.append(self.emit(node, codes.IF_TRUE, result, 0))
                masks.append(self.assigned)
        for at in reversed(exits):
            self.patch(at)
        for mask in masks:
            self.assigned &= mask
        return result if dst < 0 else self.move(node, dst, result)

    def _bool(self, node: ast.BoolOp, dst: int) -> int:
        """`a and b`: the value of a where it decides, else that of b."""
        result = self.new_register()
        is_and = node.op.__class__ is ast.And
        tests = []
        masks = []
        last = len(node.values) - 1
        for at, item in enumerate(node.values):
            self.expr(item, result)
            if at == last:
                break
            test = result if is_and else self.kernel(node, _NOT, [result])
            tests.append(self.emit(node, codes.IF_TRUE, test, 0))
            masks.append(self.assigned)
        for at in reversed(tests):
            self.patch(at)
        for mask in masks:
            self.assigned &= mask
        return result if dst < 0 else self.move(node, dst, result)

    def known(self, node: ast.expr) -> Any:
        """The value of a test that constants decide (a helper called with literals or defaults); else `_MISSING`."""
        cls = node.__class__
        if cls is ast.Name:
            frame, register = self.find_local(node.id)  # type: ignore[attr-defined]
            return _MISSING if frame is None else self.const_of.get(register, _MISSING)
        if cls is ast.Compare:
            if len(node.ops) > 1:  # type: ignore[attr-defined]
                return _MISSING
            left = self.known(node.left)  # type: ignore[attr-defined]
            right = _MISSING if left is _MISSING else self.known(node.comparators[0])  # type: ignore[attr-defined]
            if right is _MISSING:
                return _MISSING
            try:
                return _COMPARE_FOLDS[node.ops[0].__class__](left, right)  # type: ignore[attr-defined]
            except TypeError:
                return _MISSING
        if cls is ast.BoolOp:
            stop = node.op.__class__ is ast.Or  # type: ignore[attr-defined]
            value: Any = _MISSING
            for item in node.values:  # type: ignore[attr-defined]
                value = self.known(item)
                if value is _MISSING or bool(value) is stop:
                    return value
            return value
        if cls is ast.UnaryOp and node.op.__class__ is ast.Not:  # type: ignore[attr-defined]
            value = self.known(node.operand)  # type: ignore[attr-defined]
            return _MISSING if value is _MISSING else not value
        if cls is ast.Call:
            return self.known_call(node)  # type: ignore[arg-type]
        return fold(node)

    def known_call(self, node: ast.Call) -> Any:
        """`isinstance(size, tuple)` of a constant or a display; `_MISSING` otherwise."""
        if len(node.args) != 2 or node.args[0].__class__ is not ast.Name or self.static(node.func) is not isinstance:
            return _MISSING
        wanted = self.static(node.args[1])
        frame, register = self.find_local(node.args[0].id)  # type: ignore[attr-defined]
        if frame is None or wanted not in (tuple, list, int, float, bool, str, dict):
            return _MISSING
        if register in self.tuples:
            return wanted is tuple
        value = self.const_of.get(register, _MISSING)
        return _MISSING if value is _MISSING else isinstance(value, wanted)

    def test(self, node: ast.expr) -> int:
        """Emit the branch of an `if`; the index of its instruction, to be patched with the else target."""
        if node.__class__ is ast.Compare and len(node.ops) == 1 \
                and node.ops[0].__class__ is ast.Gt:  # type: ignore[attr-defined]
            a = self.expr(node.left)  # type: ignore[attr-defined]
            b = self.expr(node.comparators[0])  # type: ignore[attr-defined]
            return self.emit(node, codes.IF_TENSOR_GT, a, b, 0)
        return self.emit(node, codes.IF_TRUE, self.expr(node), 0)

    def _conditional(self, node: ast.IfExp, dst: int) -> int:
        known = self.known(node.test)
        if known is not _MISSING:
            return self.expr(node.body if known else node.orelse, dst)
        result = self.new_register()
        branch = self.test(node.test)
        before = self.assigned
        self.expr(node.body, result)
        after_then, self.assigned = self.assigned, before
        jump = self.emit(node, codes.JUMP, 0)
        self.patch(branch)
        self.expr(node.orelse, result)
        self.patch(jump)
        self.assigned &= after_then
        return result if dst < 0 else self.move(node, dst, result)

    def _walrus(self, node: ast.NamedExpr, dst: int) -> int:
        if not self.copy_loads:
            raise NeedsCopies
        name = node.target.id
        register = self.frame.registers.get(name, -1)
        if register < 0:
            register = self.frame.registers[name] = self.new_register()
        self.expr(node.value, register)
        return self.value(node, codes.MOVE, dst, register)

    # --- subscripts

    def _subscript(self, node: ast.Subscript, dst: int) -> int:
        base = node.value
        if base.__class__ is ast.Attribute and base.attr == "shape":  # type: ignore[attr-defined]
            axis = fold(node.slice)
            if axis.__class__ is int and -0x8000 <= axis < 0x8000 \
                    and self.static(base.value) is _MISSING:  # type: ignore[attr-defined]
                return self._shape_ref(node, base.value, axis, dst)  # type: ignore[attr-defined]
        if base.__class__ is ast.Attribute:
            root = self.static(base.value)  # type: ignore[attr-defined]
            if root is not _MISSING and isinstance(root, ModuleType):
                value = getattr(root, base.attr, None)  # type: ignore[attr-defined]
                for name, indexer in zip(("np.mgrid", "np.ogrid", "np.r_", "np.c_"), _NUMPY_INDEXERS, strict=True):
                    if value is indexer:
                        return self.kernel(node, BY_NAME[name].id, [self.index(node.slice)], dst)
        source = self.expr(base)
        return self.value(node, codes.VIEW_TENSOR, dst, source, self.index(node.slice))

    def _shape_ref(self, node: ast.Subscript, array: ast.expr, axis: int, dst: int) -> int:
        source = self.expr(array)
        register = self.value(node, codes.TENSOR_SHAPE_REF, dst, source, axis)
        name = self.param_symbols.get(source)
        if name is not None and axis >= 0:
            self.hint(symbol=f"{name}.shape[{axis}]")
        return register

    def index(self, node: ast.expr) -> int:
        """The register of a subscript's index: slices, tuples of them, or any value."""
        cls = node.__class__
        if cls is ast.Slice:
            parts = [self.const(node, None) if part is None else self.expr(part)
                     for part in (node.lower, node.upper, node.step)]  # type: ignore[attr-defined]
            return self.value(node, codes.BUILD, -1, _SLICE, 3, *parts)
        if cls is ast.Tuple:
            folded = fold(node)
            if folded is not _MISSING:
                return self.const(node, folded)
            if not any(item.__class__ is ast.Starred for item in node.elts):  # type: ignore[attr-defined]
                items = [self.index(item) for item in node.elts]  # type: ignore[attr-defined]
                return self.value(node, codes.BUILD, -1, _TUPLE, len(items), *items)
        if cls is ast.Constant and node.value.__class__ is str:  # type: ignore[attr-defined]
            return self.const(node, node.value)  # type: ignore[attr-defined]
        return self.expr(node)

    # --- displays

    def _tuple(self, node: ast.Tuple, dst: int) -> int:
        folded = fold(node)
        if folded is not _MISSING:
            return self.const(node, folded, dst)
        return self._display(node, node.elts, _TUPLE, dst)

    def _list(self, node: ast.List, dst: int) -> int:
        return self._display(node, node.elts, _LIST, dst)

    def _display(self, node: ast.expr, elements: list[ast.expr], kind: int, dst: int) -> int:
        if any(item.__class__ is ast.Starred for item in elements):
            return self._starred_display(node, elements, kind, dst)
        items = [self.expr(item) for item in elements]
        register = self.value(node, codes.BUILD, dst, kind, len(items), *items)
        if dst < 0 and kind == _TUPLE:
            self.tuples.add(register)
        return register

    def _starred_display(self, node: ast.expr, elements: list[ast.expr], kind: int, dst: int) -> int:
        """`(*a, b)`: the sum of tuples."""
        maker = BY_NAME["py.tuple" if kind == _TUPLE else "py.list"].id
        total = -1
        run: list[int] = []

        def flush() -> None:
            nonlocal total, run
            if run:
                piece = self.value(node, codes.BUILD, -1, kind, len(run), *run)
                total = piece if total < 0 else self.value(node, codes.BINARY_ADD_TENSOR, -1, total, piece)
                run = []

        for item in elements:
            if isinstance(item, ast.Starred):
                flush()
                piece = self.kernel(item, maker, [self.expr(item.value)])
                total = piece if total < 0 else self.value(node, codes.BINARY_ADD_TENSOR, -1, total, piece)
            else:
                run.append(self.expr(item))
        flush()
        return total if dst < 0 else self.move(node, dst, total)

    def _dict(self, node: ast.Dict, dst: int) -> int:
        items: list[int] = []
        for key, item in zip(node.keys, node.values, strict=True):
            if key is None:
                self.refuse("dict-unpack", item)
            items.append(self.expr(key))
            items.append(self.expr(item))
        return self.value(node, codes.BUILD, dst, _DICT, len(items), *items)

    def _f_string(self, node: ast.JoinedStr, dst: int) -> int:
        self.refuse("f-string", node)

    def _lambda(self, node: ast.Lambda, dst: int) -> int:
        self.refuse("function-value", node, "a lambda cannot be a value at run time")

    def _starred(self, node: ast.Starred, dst: int) -> int:
        self.refuse("star-args", node)

    def _yield(self, node: ast.expr, dst: int) -> int:
        self.refuse("yield", node)

    def _await(self, node: ast.expr, dst: int) -> int:
        self.refuse("async", node)

    def _set(self, node: ast.expr, dst: int) -> int:
        self.refuse("set", node)

    def _generator(self, node: ast.expr, dst: int) -> int:
        self.refuse("generator", node)

    # --- comprehensions: loops that append

    def _list_comp(self, node: ast.ListComp | ast.GeneratorExp, dst: int) -> int:
        result = self.value(node, codes.BUILD, -1, _LIST, 0)

        def append() -> None:
            item = self.expr(node.elt)
            self.kernel(node, BY_NAME["py.list_append"].id, [result, item])

        self._comprehension(node, list(node.generators), append)
        return result if dst < 0 else self.move(node, dst, result)

    def _dict_comp(self, node: ast.DictComp, dst: int) -> int:
        result = self.value(node, codes.BUILD, -1, _DICT, 0)

        def store() -> None:
            key = self.expr(node.key)
            item = self.expr(node.value)
            self.emit(node, codes.STORE_TENSOR, result, key, item)

        self._comprehension(node, list(node.generators), store)
        return result if dst < 0 else self.move(node, dst, result)

    def _comprehension(self, node: ast.expr, generators: list[ast.comprehension], body: Callable[[], None]) -> None:
        """Nested loops over the generators; their variables live in a scope of their own."""
        frame = self.frame
        saved: dict[str, int] = {}

        def level(at: int) -> None:
            if at == len(generators):
                body()
                return
            generator = generators[at]
            if generator.is_async:
                self.refuse("async", node)

            def inside() -> None:
                conditions(generator.ifs, at)

            self.for_loop(generator.iter, generator.target, inside, node, own_scope=saved)

        def conditions(tests: list[ast.expr], at: int) -> None:
            if not tests:
                level(at + 1)
                return
            branch = self.test(tests[0])
            before = self.assigned
            conditions(tests[1:], at)
            self.patch(branch)
            self.assigned &= before

        level(0)
        for name, register in saved.items():
            if register < 0:
                frame.registers.pop(name, None)
            else:
                frame.registers[name] = register

    def for_loop(self, iterable: ast.expr, target: ast.expr, body: Callable[[], None], node: ast.AST,
                 own_scope: dict[str, int] | None = None, rebound: Mapping[str, int] | None = None) -> None:
        """Compile `for target in iterable`."""
        raise NotImplementedError

    EXPRESSIONS: ClassVar[dict[type, Callable[[Any, Any, int], int]]] = {
        ast.Name: _name, ast.Constant: _constant, ast.BinOp: _binary, ast.UnaryOp: _unary, ast.Compare: _compare,
        ast.BoolOp: _bool, ast.IfExp: _conditional, ast.Attribute: _attribute, ast.Subscript: _subscript,
        ast.Call: lambda self, node, dst: self.call(node, dst), ast.Tuple: _tuple, ast.List: _list, ast.Dict: _dict,
        ast.ListComp: _list_comp, ast.DictComp: _dict_comp, ast.NamedExpr: _walrus, ast.JoinedStr: _f_string,
        ast.Lambda: _lambda, ast.Starred: _starred, ast.Set: _set, ast.SetComp: _set, ast.GeneratorExp: _generator,
        ast.Yield: _yield, ast.YieldFrom: _yield, ast.Await: _await,
        ast.Slice: lambda self, node, dst: self.index(node),
    }


class NeedsCopies(Exception):
    """A `:=` was met: the program is compiled again with operands copied, because it may rebind one of them."""


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
    """The value of an expression of literals, as Python's own compiler folds it; `_MISSING` for others."""
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
        return _MISSING
    if cls is ast.BinOp:
        left = fold(node.left)  # type: ignore[attr-defined]
        if type(left) not in _NUMBERS:
            return _MISSING
        right = fold(node.right)  # type: ignore[attr-defined]
        if type(right) not in _NUMBERS:
            return _MISSING
        function = _FOLDS.get(node.op.__class__)  # type: ignore[attr-defined]
        if function is None or (function is operator.pow and (abs(right) > 64 or abs(left) > 1e6)):
            return _MISSING
        try:
            return function(left, right)
        except (ArithmeticError, TypeError, ValueError):
            return _MISSING
    if cls is ast.Tuple:
        items = []
        for item in node.elts:  # type: ignore[attr-defined]
            value = fold(item)
            if value is _MISSING:
                return _MISSING
            items.append(value)
        return tuple(items)
    return _MISSING


__all__ = ["DEAD", "Expressions", "NeedsCopies", "as_dtype", "fold", "is_jitted", "is_static"]
