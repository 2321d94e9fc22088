"""Calls of kernels: operands in the kernel's order, forms that have an instruction of their own; which function is a kernel."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from ....templates.registry import BY_NAME, REQUIRED, TYPE_NAMES, Kernel, Parameter
from ...dtypes import dtype_code
from ..opcodes import BUILD_KINDS
from . import codes
from .expressions import Expressions
from .names import MISSING, as_dtype, fold, has_stars
from .scope import Frame

_TUPLE = BUILD_KINDS.index("tuple")
_FILL = {"np.empty": 0, "np.zeros": 1, "np.ones": 2}
_FLOAT64 = np.dtype(np.float64)
_OPERATORS: dict[object, str] = {
    operator.add: "op.add", operator.sub: "op.sub", operator.mul: "op.mul", operator.truediv: "op.truediv",
    operator.floordiv: "op.floordiv", operator.mod: "op.mod", operator.matmul: "op.matmul",
}
_NUMPY_MODULES = ("numpy", "numpy.linalg", "numpy.fft", "numpy.lib.stride_tricks")
_PACKAGE = __name__.partition(".vm.")[0]
_OPS, _DEBUG = f"{_PACKAGE}.vm.ops", f"{_PACKAGE}.vm.run.debug"
_kernel_of: dict[object, Kernel | None] = {}
_places: dict[int, tuple[int, dict[str, int]]] = {}  # of a kernel: the parameter that collects (-1: none); name -> parameter
_DTYPES = frozenset(("dtype", "type1", "type2", "from_", "to"))  # parameters whose texts are names of dtypes
_DTYPE = Parameter("dtype", REQUIRED)


class KernelCalls(Expressions):
    """Compiles calls of kernels."""

    def spread(self, node: ast.Call) -> ast.Call:
        """A call with `*items` and `**items` written out; objects come from a later layer."""
        raise NotImplementedError

    def kernel_call(self, node: ast.Call, kernel: Kernel, leading: list[int], dst: int, skip: int = 0) -> int:
        """CALL_KERNEL with the call's arguments in the kernel's order. skip: positional ones already in `leading`."""
        return self.kernel(node, kernel.id, self.bind(node, kernel, leading, skip), dst)

    def bind(self, node: ast.Call, kernel: Kernel, leading: list[int], skip: int = 0) -> list[int]:
        """Registers of the normalised operands."""
        parameters = kernel.parameters
        known = _places.get(kernel.id)
        if known is None:
            known = _places[kernel.id] = (next((i for i, p in enumerate(parameters) if p.collect), -1),
                                          {p.name: i for i, p in enumerate(parameters) if p.collect != "*"})
        collector, places = known
        if has_stars(node) and (collector < 0 or any(k.arg is None for k in node.keywords)):
            node = self.spread(node)
        args = node.args[skip:] if skip else node.args
        positional = list(leading)
        values: dict[int, int] = {}
        if collector >= 0 and len(leading) <= collector:
            before = args[:max(collector - len(leading), 0)]
            rest = args[len(before):]
            positional += [self._argument(arg, parameters[len(leading) + i]) for i, arg in enumerate(before)]
            if rest or parameters[collector].collect == "*":
                values[collector] = self._collect(node, rest, parameters[collector])
        else:
            if len(positional) + len(args) > len(parameters):
                self.refuse("call-arguments", node, f"too many arguments: {_signature(kernel)}")
            positional += [self._argument(arg, parameters[len(leading) + i]) for i, arg in enumerate(args)]
        values.update(enumerate(positional))
        for keyword in node.keywords:
            if keyword.arg is None:
                self.refuse("star-args", keyword.value)
            at = places.get(keyword.arg, -1)
            if at < 0 or (at == 0 and kernel.name.startswith("arr.")):
                from ...options import suggest

                names = [p.name for p in parameters if p.collect != "*"]
                self.refuse("keyword", keyword.value, f"the keyword '{keyword.arg}' is not supported: {_signature(kernel)}",
                            suggest(keyword.arg, names))
            if at in values:
                self.refuse("call-arguments", keyword.value, f"'{keyword.arg}' is given twice: {_signature(kernel)}")
            values[at] = self._argument(keyword.value, parameters[at])
        last = max(values, default=-1)
        operands = []
        for at, parameter in enumerate(parameters):
            register = values.get(at, -1)
            if register < 0:
                if parameter.default is REQUIRED:
                    self.refuse("call-arguments", node, f"'{parameter.name}' is missing: {_signature(kernel)}")
                if at > last:
                    break
                register = self.const(node, parameter.default)
            operands.append(register)
        return operands

    def _argument(self, node: ast.expr, parameter: Parameter) -> int:
        if isinstance(node, ast.Starred):
            self.refuse("star-args", node)
        if parameter.name in _DTYPES and isinstance(node, ast.Constant) and isinstance(node.value, str):
            if not dtype_code(node.value):
                self.refuse("string", node, f"dtype '{node.value}' is not supported")
            return self.const(node, np.dtype(node.value))
        return self.expr(node)

    def _collect(self, node: ast.Call, args: list[ast.expr], parameter: Parameter) -> int:
        if parameter.collect == "one-or-tuple" and len(args) == 1 and not isinstance(args[0], ast.Starred):
            return self.expr(args[0])
        packed = ast.copy_location(ast.Tuple(args, ast.Load()), node)
        return self.expr(packed)

    # --- kernels that have an instruction of their own, or a form to be made canonical

    def _where(self, node: ast.Call, kernel: Kernel, dst: int) -> int:
        if len(node.args) == 3 and not node.keywords and not any(isinstance(a, ast.Starred) for a in node.args):
            parts = [self.expr(arg) for arg in node.args]
            return self.value(node, codes.SELECT_TENSOR, dst, *parts)
        return self.kernel_call(node, kernel, [], dst)

    def _reduce(self, node: ast.Call, kernel: Kernel, dst: int) -> int:
        """np.sum and np.max with axis and a literal keepdims."""
        keepdims = False
        axis: ast.expr | None = node.args[1] if len(node.args) == 2 else None
        plain = 1 <= len(node.args) <= 2 and not any(isinstance(a, ast.Starred) for a in node.args)
        for keyword in node.keywords:
            if keyword.arg == "axis" and axis is None:
                axis = keyword.value
            elif keyword.arg == "keepdims" and isinstance(keyword.value, ast.Constant) \
                    and isinstance(keyword.value.value, bool):
                keepdims = keyword.value.value
            else:
                plain = False
        if not plain:
            return self.kernel_call(node, kernel, [], dst)
        a = self.expr(node.args[0])
        along = self.const(node, None) if axis is None else self.expr(axis)
        op = codes.REDUCE_SUM_TENSOR if kernel.name == "np.sum" else codes.REDUCE_MAX_TENSOR
        return self.value(node, op, dst, a, along, int(keepdims))

    def _allocate(self, node: ast.Call, kernel: Kernel, dst: int) -> int:
        dtype: ast.expr | None = node.args[1] if len(node.args) == 2 else None
        shape: ast.expr | None = node.args[0] if node.args else None
        plain = len(node.args) <= 2 and not any(isinstance(a, ast.Starred) for a in node.args)
        for keyword in node.keywords:
            if keyword.arg == "dtype" and dtype is None:
                dtype = keyword.value
            elif keyword.arg == "shape" and shape is None:
                shape = keyword.value
            else:
                plain = False
        known = fold(shape) if shape is not None else MISSING
        extents = known if isinstance(known, tuple) else (known,)
        is_negative = any(isinstance(n, int) and n < 0 for n in extents)
        if not plain or shape is None or is_negative:  # NumPy's own error, if it is reached
            return self.kernel_call(node, kernel, [], dst)
        extent = self.expr(shape)
        if dtype is None or (isinstance(dtype, ast.Constant) and dtype.value is None):
            kind = self.const(node, _FLOAT64)
            named: np.dtype | None = _FLOAT64
        else:
            kind, named = self._dtype(dtype)
        register = self.value(node, codes.ALLOC_BUFFER, dst, extent, _FILL[kernel.name], kind)
        self.hint(dtype=named)
        return register

    def _dtype(self, node: ast.expr) -> tuple[int, np.dtype | None]:
        """(register, the dtype if the source names it) of a dtype argument."""
        register = self._argument(node, Parameter("dtype", None))
        known = as_dtype(self.static(node))
        if known is None and isinstance(node, ast.Constant) and isinstance(node.value, str):
            known = np.dtype(node.value)
        return register, known

    def _astype(self, node: ast.Call, kernel: Kernel, dst: int, receiver: int = -1) -> int:
        given = node.args + [k.value for k in node.keywords]
        if len(given) != 1 or isinstance(given[0], ast.Starred) or (node.keywords and node.keywords[0].arg != "dtype"):
            return self.kernel_call(node, kernel, [receiver], dst)
        kind, known = self._dtype(given[0])
        register = self.value(node, codes.CAST_TENSOR, dst, receiver, kind)
        self.hint(dtype=known)
        return register

    def _matmul(self, node: ast.Call, kernel: Kernel, dst: int) -> int:
        """np.matmul names its `out`, so that it is not taken for the operator."""
        operands = self.bind(node, kernel, [])
        if len(operands) == 2:
            operands.append(self.const(node, None))
        return self.kernel(node, kernel.id, operands, dst)

    def _clip(self, node: ast.Call, kernel: Kernel, dst: int) -> int:
        """np.clip(a, min=, max=) and np.clip(a, a_min, a_max) are one form: the positional one."""
        names = {"min": "a_min", "max": "a_max"}
        if not any(k.arg in names for k in node.keywords):
            return self.kernel_call(node, kernel, [], dst)
        if any(k.arg in names.values() for k in node.keywords) or len(node.args) > 1:
            self.refuse("call-arguments", node, "np.clip takes either a_min and a_max or min and max")
        keywords = [ast.keyword(names.get(k.arg or "", k.arg), k.value) for k in node.keywords]
        none = ast.copy_location(ast.Constant(None), node)
        given = {k.arg for k in keywords}
        keywords += [ast.keyword(name, none) for name in names.values() if name not in given]
        return self.kernel_call(ast.copy_location(ast.Call(node.func, node.args, keywords), node), kernel, [], dst)

    def _subdtype(self, node: ast.Call, kernel: Kernel, dst: int) -> int:
        """np.issubdtype(dtype, np.floating): the second one is known by name."""
        if len(node.args) != 2 or node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            self.refuse("call-arguments", node)
        found = self.static(node.args[1])
        name = f"{found.__module__}.{found.__name__}" if isinstance(found, type) else ""
        if name not in TYPE_NAMES or not (isinstance(found, type) and issubclass(found, np.generic)):
            self.refuse("function-value", node.args[1], f"issubdtype of '{ast.unparse(node.args[1])}' is not supported",
                        "name a class of NumPy's scalars: np.floating, np.integer, np.float32")
        return self.kernel(node, kernel.id, [self._argument(node.args[0], _DTYPE), self.const(node, name)], dst)

    def _dump(self, node: ast.Call, kernel: Kernel, dst: int) -> int:
        """The name of a dump may be an f-string."""
        given = node.args[1] if len(node.args) == 2 and not node.keywords else None
        if given is None and len(node.args) == 1 and [k.arg for k in node.keywords] == ["name"]:
            given = node.keywords[0].value
        if not isinstance(given, ast.JoinedStr):
            return self.kernel_call(node, kernel, [], dst)
        x = self._argument(node.args[0], kernel.parameters[0])
        return self.kernel(node, kernel.id, [x, self.text(given)], dst)

    def _breakpoint(self, node: ast.Call, kernel: Kernel, dst: int) -> int:
        """A stop is told the names and values of all locals that are assigned there, whether it asks for them or not."""
        names, held = [], []
        frame: Frame | None = self.frame
        while frame is not None:
            for name, register in list(frame.registers.items()):
                is_there = register in self.unloaded or self.assigned >> register & 1
                if is_there and register not in self.deleted and name.isidentifier() and name not in names:
                    self.read_local(frame, register)
                    names.append(name)
                    held.append(register)
            frame = frame.parent
        values = self.value(node, codes.BUILD, -1, _TUPLE, len(held), *held)
        return self.kernel_call(node, kernel, [self.const(node, tuple(names)), values], dst)


SPECIAL: dict[str, Callable[..., int]] = {
    "np.where": KernelCalls._where, "np.sum": KernelCalls._reduce, "np.max": KernelCalls._reduce, "np.amax": KernelCalls._reduce,
    "np.zeros": KernelCalls._allocate, "np.ones": KernelCalls._allocate, "np.empty": KernelCalls._allocate,
    "arr.astype": KernelCalls._astype, "np.clip": KernelCalls._clip, "np.matmul": KernelCalls._matmul,
    "np.issubdtype": KernelCalls._subdtype, "debug.breakpoint": KernelCalls._breakpoint, "debug.dump_tensor": KernelCalls._dump,
}


# functions of np.linalg that are those of NumPy itself, under objects of their own
_ALIASES = frozenset(("matmul", "matrix_transpose", "tensordot", "vecdot"))


def kernel_of(target: Any) -> Kernel | None:
    """The kernel that a NumPy or math function is; None for other objects."""
    try:
        return _kernel_of[target]
    except KeyError:
        pass
    except TypeError:
        return None
    kernel = _find_kernel(target)
    if kernel is not None or not isinstance(target, FunctionType):
        _kernel_of[target] = kernel
    return kernel


def _find_kernel(target: Any) -> Kernel | None:
    if isinstance(target, np.ufunc):
        return _same(BY_NAME.get(f"np.{target.__name__}"), target)
    module, name = getattr(target, "__module__", None), getattr(target, "__name__", "")
    owner = getattr(target, "__self__", None)
    if module == "_operator":
        return BY_NAME.get(_OPERATORS.get(target, ""))
    if isinstance(owner, np.ufunc):
        return BY_NAME.get(f"np.{owner.__name__}.{name}")
    if module == _OPS and name == "erf":
        return BY_NAME["ops.erf"]
    if module == _DEBUG:
        return BY_NAME.get(f"debug.{name}")
    if module == "math":
        return BY_NAME.get(f"math.{name}") if getattr(math, name, None) is target else None
    if isinstance(module, str) and (module in _NUMPY_MODULES or module.startswith("numpy.")):
        for room in _NUMPY_MODULES:
            kernel = BY_NAME.get(f"np{room[5:]}.{name}")
            if kernel is not None and kernel.id >> 5 != 0x8580 >> 5:
                found = _same(kernel, target)
                if found is not None:
                    return found
        if module == "numpy.linalg" and name in _ALIASES and getattr(np.linalg, name, None) is target:
            return BY_NAME[f"np.{name}"]
    return None


def _same(kernel: Kernel | None, target: Any) -> Kernel | None:
    """The kernel if NumPy's function of its name is this very object."""
    if kernel is None:
        return None
    found: Any = np
    for part in kernel.name.split(".")[1:]:
        found = getattr(found, part, None)
    return kernel if found is target else None


def _signature(kernel: Kernel) -> str:
    name = kernel.name.partition(".")[2] if kernel.name.startswith(("py.", "arr.")) else kernel.name
    return f"{name}({kernel.params.removesuffix(', /')})"
