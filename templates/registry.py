"""The kernel registry: what a kernel id means, and the callable that defines its semantics.

Operands of a CALL_KERNEL are the row's parameters in order; trailing ones at their default are left out, missing middle
ones are filled with the default (`...` where there is no value that NumPy accepts for "not given"). `resolve(id)`
gives the reference: a callable over exactly these operands. NumPy is imported when the first kernel is resolved.

Adding a kernel: add a row to `kernels.py` with a free id of its group's range; if it is neither a NumPy function nor an
array method, write its body in `_python_kernels`; the planner then decides whether it lowers or calls out.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache, lru_cache
from types import MethodType
from typing import Any

from .kernels import ROWS, UFUNC_METHODS
from .records import record

# First id of each group; a group's range ends where the next one starts.
GROUPS: dict[int, str] = {
    0x80: "contract", 0x81: "ufunc", 0x82: "reduce", 0x83: "scan", 0x84: "view", 0x85: "create", 0x86: "index",
    0x87: "sort", 0x88: "linalg", 0x89: "fft", 0x8A: "python", 0x8B: "operator", 0x8C: "method", 0x8D: "ops",
}
MATMUL = 0x8001
_FIRST_BINARY, _FIRST_METHOD = 0x8140, 0x9000


@record(eq=True)
class Kernel:
    """One row: id, name, parameter text (see `kernels.py`), group."""

    id: int
    name: str
    params: str
    group: str

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parsed parameter list."""
        return parse_params(self.params)


@record(eq=True)
class Parameter:
    """One operand: its name, its default (`REQUIRED` if it has none), and how it collects arguments.

    collect: '' one argument, '*' all remaining positional ones as a tuple, 'one-or-tuple' (`shape*`).
    """

    name: str
    default: object
    collect: str = ""


class _Required:
    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED: Any = _Required()


@cache
def parse_params(text: str) -> tuple[Parameter, ...]:
    """The parameters of a row's text, in order, without the `/` that asks for passing by position."""
    result = []
    for item in _split(text):
        if item == "/":
            continue
        name, equals, default = item.partition("=")
        collect = "*" if name.startswith("*") else "one-or-tuple" if name.endswith("*") else ""
        value = ast.literal_eval(default) if equals else () if collect == "*" else REQUIRED
        result.append(Parameter(name.strip("*"), value, collect))
    return tuple(result)


def _split(text: str) -> list[str]:
    """The top-level comma-separated items of a parameter text."""
    items, depth, start = [], 0, 0
    for i, char in enumerate(text):
        if char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif char == "," and not depth:
            items.append(text[start:i].strip())
            start = i + 1
    items.append(text[start:].strip())
    return [item for item in items if item]


def _all_kernels() -> list[Kernel]:
    kernels = [Kernel(id_, name, params, GROUPS[id_ >> 8]) for id_, name, params in ROWS]
    binary = [k for k in kernels if _FIRST_BINARY <= k.id < 0x8180]
    for ufunc in binary:
        for position, (method, params) in enumerate(UFUNC_METHODS):
            id_ = _FIRST_METHOD + 8 * (ufunc.id - _FIRST_BINARY) + position
            kernels.append(Kernel(id_, f"{ufunc.name}.{method}", params, "ufunc"))
    return kernels


KERNELS: tuple[Kernel, ...] = tuple(_all_kernels())
BY_ID: dict[int, Kernel] = {k.id: k for k in KERNELS}
BY_NAME: dict[str, Kernel] = {k.name: k for k in KERNELS}


@cache
def resolve(kernel_id: int) -> Callable[..., Any]:
    """The reference semantics of a kernel over its normalised positional operands.

    Raises KeyError for an unknown id, AttributeError where the installed NumPy lacks the function.
    """
    kernel = BY_ID[kernel_id]
    prefix, _, rest = kernel.name.partition(".")
    if kernel.name in _OWN:
        return _OWN[kernel.name]
    if prefix == "debug":
        return _provided.get(kernel.name, _no_operation)
    if prefix in ("py", "op", "ops"):
        return _provided.get(kernel.name) or _python_kernels()[kernel.name]
    if prefix == "arr":
        return _adapt(_method(rest), kernel)
    if prefix == "math":
        import math
        return _adapt(getattr(math, rest), kernel)
    import numpy
    target: Any = numpy
    for part in rest.split("."):
        target = getattr(target, part)
    if kernel.name in ("np.mgrid", "np.ogrid", "np.r_", "np.c_"):
        return target.__getitem__
    return _adapt(target, kernel)


@cache
def resolve_inplace(kernel_id: int) -> Callable[[Any, Any], Any]:
    """The in-place operator (`operator.iadd`, ...) of an operator kernel, for INPLACE_TENSOR. Raises KeyError."""
    import operator
    name = BY_ID[kernel_id].name
    return getattr(operator, INPLACE[name])


# Operator kernels that INPLACE_TENSOR may name, and the function of `operator` that each one is.
INPLACE: dict[str, str] = {
    "op.add": "iadd", "op.sub": "isub", "op.mul": "imul", "op.truediv": "itruediv", "op.floordiv": "ifloordiv",
    "op.mod": "imod", "op.pow": "ipow", "op.lshift": "ilshift", "op.rshift": "irshift", "op.and": "iand",
    "op.or": "ior", "op.xor": "ixor", "op.matmul": "imatmul",
}


def _no_operation(*operands: Any) -> None:
    return None


def _method(name: str) -> Callable[..., Any]:
    def call(a: Any, *args: Any, **kwargs: Any) -> Any:
        method = getattr(a, name)
        if kwargs and isinstance(method, MethodType) and not hasattr(a, "__array_interface__"):
            # an object's own method of that name: how its parameters are called is not known here
            raise TypeError(f"'{name}' of {type(a).__name__!r} is no array method: prebake calls methods of arrays and of self")
        return method(*args, **kwargs)
    return call


def _adapt(target: Callable[..., Any], kernel: Kernel) -> Callable[..., Any]:
    """`target` over the normalised operands: optional ones by keyword, those that were not given left out."""
    parameters = kernel.parameters
    by_position = kernel.params.endswith("/")
    starred = next((i for i, p in enumerate(parameters) if p.collect == "*"), -1)
    n_required = next((i for i, p in enumerate(parameters) if p.default is not REQUIRED and i != starred),
                      len(parameters))
    if n_required == len(parameters) and starred < 0:
        return target
    optional = parameters[n_required:]

    def call(*operands: Any) -> Any:
        args = list(operands[:n_required])
        if 0 <= starred < len(args):
            args[starred:starred + 1] = args[starred]
        kwargs = {}
        for parameter, value in zip(optional, operands[n_required:], strict=False):
            if value is ... or (value is None and parameter.default is None):
                continue
            if by_position or parameter.collect:
                args.append(value)
            else:
                kwargs[parameter.name] = value
        return target(*args, **kwargs)

    return call


def _concatenate(arrays: Any, axis: Any = 0, out: Any = None, dtype: Any = None) -> Any:
    import numpy
    return numpy.concatenate(arrays, axis=axis, out=out, dtype=dtype)


def _matmul(x1: Any, x2: Any, *rest: Any) -> Any:
    """Two operands: the operator `@`, which refuses numbers and lists. More: np.matmul as it is called."""
    if not rest:
        import operator
        return operator.matmul(x1, x2)
    import numpy
    return _adapt(numpy.matmul, BY_ID[MATMUL])(x1, x2, *rest)


def _finfo(dtype: Any, attribute: str) -> Any:
    import numpy
    if attribute not in ("bits", "eps", "epsneg", "max", "min", "resolution", "smallest_normal", "tiny"):
        raise AttributeError(f"finfo has no attribute {attribute!r} for programs")
    return getattr(numpy.finfo(dtype), attribute)


def _iinfo(dtype: Any, attribute: str) -> Any:
    import numpy
    if attribute not in ("bits", "max", "min"):
        raise AttributeError(f"iinfo has no attribute {attribute!r} for programs")
    return getattr(numpy.iinfo(dtype), attribute)


def _is_subdtype(dtype: Any, name: str) -> bool:
    import numpy
    room, _, kind = name.partition(".")
    if room != "numpy" or name not in TYPE_NAMES:
        raise ValueError(f"issubdtype of {name!r} is not a kernel")
    return bool(numpy.issubdtype(dtype, getattr(numpy, kind)))


def _set_shape(a: Any, shape: Any) -> None:
    a.shape = shape


# Kernels that are not the NumPy function or method of their name called with their own parameters.
_OWN: dict[str, Callable[..., Any]] = {"np.concatenate": _concatenate, "np.finfo": _finfo, "np.iinfo": _iinfo,
                                       "np.issubdtype": _is_subdtype,
                                       "np.matmul": _matmul, "arr.set_shape": _set_shape}

# Types that `isinstance` may test, by the name that stands in the program.
TYPE_NAMES: tuple[str, ...] = (
    "builtins.bool", "builtins.int", "builtins.float", "builtins.complex", "builtins.str", "builtins.tuple",
    "builtins.list", "builtins.dict", "numpy.ndarray", "numpy.generic", "numpy.number", "numpy.integer",
    "numpy.floating", "numpy.complexfloating", "numpy.inexact", "numpy.signedinteger",
    "numpy.unsignedinteger", "numpy.bool", "numpy.float16", "numpy.float32",
    "numpy.float64", "numpy.int8", "numpy.int16", "numpy.int32", "numpy.int64", "numpy.uint8", "numpy.uint16",
    "numpy.uint32", "numpy.uint64", "numpy.complex64", "numpy.complex128",
)


def _is_instance(value: Any, names: Any) -> bool:
    import builtins

    import numpy
    rooms = {"builtins": builtins, "numpy": numpy}
    types = []
    for full in names:
        if full not in TYPE_NAMES:
            raise ValueError(f"isinstance against {full!r} is not a kernel")
        room, _, name = full.partition(".")
        types.append(getattr(rooms[room], name))
    return isinstance(value, tuple(types))


def _erf(x: Any) -> Any:
    """The error function, elementwise; float16 and float32 stay, integers become float64."""
    import math

    import numpy
    array = numpy.asarray(x)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"erf is not defined for {array.dtype}")
    dtype = array.dtype if array.dtype.kind == "f" else numpy.dtype(numpy.float64)
    flat = [math.erf(v) for v in array.ravel().tolist()]
    result = numpy.array(flat, dtype=dtype).reshape(array.shape)
    return result if result.ndim else result[()]


def _raise(type_name: str, message: Any = ...) -> None:
    import builtins
    kind = getattr(builtins, type_name, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        raise ValueError(f"{type_name!r} is no exception that a program may raise")
    raise kind(*(() if message is ... else (message,)))


def _assert(condition: Any, message: Any = None) -> None:
    if not condition:
        raise AssertionError(*(() if message is None else (message,)))


def _get_attribute(obj: Any, name: str, default: Any = ...) -> Any:
    _check_name(name)
    return getattr(obj, name) if default is ... else getattr(obj, name, default)


def _set_attribute(obj: Any, name: str, value: Any) -> None:
    _check_name(name)
    setattr(obj, name, value)


def _has_attribute(obj: Any, name: str) -> bool:
    _check_name(name)
    return hasattr(obj, name)


def _check_name(name: str) -> None:
    """Programs come from files too: they read data, not the machinery of Python's objects."""
    if not isinstance(name, str) or (name.startswith("__") and name.endswith("__")):
        raise AttributeError(f"programs do not read the attribute {name!r}")


def _format(value: Any, spec: str = "", conversion: str = "") -> str:
    import re
    if any(len(digits) > 3 for digits in re.findall(r"\d+", spec)):  # a width from hostile bytes must stay small
        raise ValueError(f"the format {spec[:16]!r} is too wide for a program")
    converters: dict[str, Callable[[Any], str]] = {"r": repr, "s": str, "a": ascii}
    return format(converters[conversion](value) if conversion else value, spec)


# Kernels whose body lives in a higher layer, registered when that layer is imported.
_provided: dict[str, Callable[..., Any]] = {}


def provide(name: str, function: Callable[..., Any]) -> None:
    """Give the body of a kernel that needs more than NumPy: `debug.dump_tensor`, `debug.breakpoint`, `py.calls`."""
    _provided[name] = function
    resolve.cache_clear()


@lru_cache(maxsize=1)
def _python_kernels() -> dict[str, Callable[..., Any]]:
    """Bodies of the py.*, op.* and ops.* kernels."""
    import operator as o
    return {
        "py.len": len, "py.range": range, "py.enumerate": enumerate, "py.reversed": reversed,
        "py.zip": lambda iterables, strict=False: zip(*iterables, strict=strict),
        "py.min": lambda args: min(*args), "py.max": lambda args: max(*args), "py.abs": abs, "py.sum": sum,
        "py.any": any, "py.all": all, "py.int": int, "py.float": float, "py.bool": bool,
        "py.complex": lambda real=0, imag=...: complex(real) if imag is ... else complex(real, imag),
        "py.round": round, "py.divmod": divmod, "py.pow": pow, "py.tuple": tuple, "py.list": list,
        "py.sorted": lambda iterable, reverse=False: sorted(iterable, reverse=reverse),
        "py.isinstance": _is_instance, "py.hasattr": _has_attribute, "py.getattr": _get_attribute,
        "py.set_attribute": _set_attribute,
        "py.list_append": lambda items, item: items.append(item),
        "py.list_extend": lambda items, more: items.extend(more),
        "py.list_insert": lambda items, index, item: items.insert(index, item),
        "py.list_pop": lambda items, index=-1: items.pop(index), "py.list_reverse": lambda items: items.reverse(),
        "py.dict_items": lambda d: d.items(), "py.dict_keys": lambda d: d.keys(),
        "py.dict_values": lambda d: d.values(), "py.dict_get": lambda d, key, default=None: d.get(key, default),
        "py.dict_update": lambda d, other: d.update(other), "py.raise": _raise, "py.assert": _assert,
        "py.is_integer": lambda x: x.is_integer(), "py.format": _format,
        "py.text": lambda parts: "".join([str(part) for part in parts]),
        "op.add": o.add, "op.sub": o.sub, "op.mul": o.mul, "op.truediv": o.truediv, "op.floordiv": o.floordiv,
        "op.mod": o.mod, "op.pow": o.pow, "op.lshift": o.lshift, "op.rshift": o.rshift, "op.and": o.and_,
        "op.or": o.or_, "op.matmul": o.matmul, "op.xor": o.xor, "op.pos": o.pos, "op.not": o.not_, "ops.erf": _erf,
    }
