"""`Signature`: what a plan assumed of its arguments and captures, as rows that a dispatcher replays at each call.

Typing reads values lazily, and each read becomes a row: how to reach an object from an earlier row, and what it must
be. Replaying the rows in order against new arguments either yields every leaf the plan needs, or says which row differs.
Rows hold structure, dtypes, ranks and small configuration scalars (an `int` that decides a loop count, a flag), never array
contents; so they are written into profiles, and a build needs no user code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np

from ...templates.records import record
from ..bindings import Callee, callee_key, underlying
from ..dtypes import dtype_from_name


class _Names(dict[np.dtype, str]):
    """NumPy dtype -> memory dtype name (templates/scalars.py MEMORY); bfloat16's when it is first met."""

    def __missing__(self, dtype: np.dtype) -> str:
        if dtype.kind != "V" or dtype.name != "bfloat16":
            raise KeyError(dtype)
        return self.setdefault(dtype, "bf16")

    def get(self, dtype: np.dtype, default: Any = None) -> Any:
        try:
            return self[dtype]
        except KeyError:
            return default

    def __contains__(self, dtype: object) -> bool:
        return self.get(dtype) is not None  # type: ignore[arg-type]


class _Dtypes(dict[str, np.dtype]):
    """The way back; loads ml_dtypes for bfloat16."""

    def __missing__(self, name: str) -> np.dtype:
        if name != "bf16":
            raise KeyError(name)
        return self.setdefault(name, dtype_from_name("bfloat16"))


DTYPE_NAMES: Mapping[np.dtype, str] = _Names({
    np.dtype(np.bool_): "bool", np.dtype(np.int8): "i8", np.dtype(np.int16): "i16", np.dtype(np.int32): "i32",
    np.dtype(np.int64): "i64", np.dtype(np.uint8): "u8", np.dtype(np.uint16): "u16", np.dtype(np.uint32): "u32",
    np.dtype(np.uint64): "u64", np.dtype(np.float16): "f16", np.dtype(np.float32): "f32", np.dtype(np.float64): "f64",
    np.dtype(np.complex64): "c64", np.dtype(np.complex128): "c128",
})
NUMPY_DTYPES: Mapping[str, np.dtype] = _Dtypes({name: dtype for dtype, name in DTYPE_NAMES.items()})
PYTHON_SCALARS: dict[type, str] = {bool: "bool", int: "int", float: "float"}


@record(eq=True)
class Row:
    """One read.

    how: 'arg' (key: parameter index), 'capture' (key: capture index), 'attr' (key: name), 'item' (key: index or dict key);
    parent: the row it starts from (-1 for arg and capture).
    kind and what is checked:
      'array'    exactly np.ndarray of `dtype` and `ndim`; `layout` 'C' (C-contiguous) or 'S' (any strides); `constant`: read-only
                 down to its base, then `shape` is fixed too; `writable`: a step writes into it, so it must be writeable
      'scalar'   a Python bool/int/float (`python` names it) or a NumPy scalar (`python` == '') of `dtype`; a register
      'static'   equals `value` with the same type: None, str, bool, int, small tuples of them
      'sequence' a tuple or list (`type_name`) of `length`; 'mapping' a dict with exactly `keys`
      'object'   an instance whose type is `type_name` ("module:qualname")
      'callee'   a function that is called, told by `type_name` (`bindings.callee_key`); ndim 1: a method of its parent
    """

    how: str
    parent: int
    key: object
    kind: str
    path: str  # as a user would write it: "self.layers[0].w"
    dtype: str = ""
    ndim: int = 0
    layout: str = ""
    constant: bool = False
    writable: bool = False
    shape: tuple[int, ...] | None = None
    python: str = ""
    value: object = None
    type_name: str = ""
    length: int = 0
    keys: tuple[object, ...] = ()


@record(eq=True)
class Signature:
    """Rows in reading order; symbols are named after rows: `x.shape[0]`, `x.strides[0]`, and `n` for an integer scalar."""

    rows: tuple[Row, ...]

    def to_json(self) -> list[dict[str, object]]:
        """Rows as JSON-able dictionaries, defaults left out."""
        plain = Row("", -1, None, "", "")
        values = [[(k, getattr(row, k)) for k in Row.__match_args__] for row in self.rows]
        return [{k: _plain(v) for k, v in row if k in _REQUIRED or getattr(plain, k) != v} for row in values]

    @classmethod
    def from_json(cls, data: Sequence[Mapping[str, object]]) -> Signature:
        """The signature that `to_json` wrote. Raises ValueError on anything else."""
        names = set(Row.__match_args__)
        rows = []
        for item in data:
            if not _REQUIRED <= set(item) <= names:
                raise ValueError(f"signature row has wrong keys: {sorted(map(str, item))}")
            rows.append(Row(**{k: _tupled(v) for k, v in item.items()}))  # type: ignore[arg-type]
        return cls(tuple(rows))


_REQUIRED = {"how", "parent", "key", "kind", "path"}


def _plain(value: object) -> object:
    return [_plain(v) for v in value] if isinstance(value, tuple) else value


def _tupled(value: object) -> object:
    return tuple(_tupled(v) for v in value) if isinstance(value, list) else value


def is_constant(array: np.ndarray) -> bool:
    """Whether the array cannot change: read-only down to its base (its owner's promise, or `prebake.freeze`)."""
    base: object = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return False
        base = base.base
    if base is None:
        return True
    try:
        return memoryview(base).readonly  # type: ignore[arg-type]
    except TypeError:
        return False


def type_name(value: object) -> str:
    """'module:qualname' of a value's type."""
    cls = type(value)
    return f"{cls.__module__}:{cls.__qualname__}"


def is_function(value: object) -> bool:
    """Whether a value is a function that rows can tell."""
    plain = underlying(value)
    return isinstance(plain, (FunctionType, BuiltinFunctionType, np.ufunc, type(np.sum), Callee))


_NO_INPUTS = (set, frozenset, bytes, bytearray, memoryview, FunctionType, BuiltinFunctionType, MethodType,
              np.ufunc, int, float, complex)  # the last: of classes that inherit from them


_WALKING = ("__bool__", "__contains__", "__eq__", "__getitem__", "__iter__", "__len__", "__reversed__")


def _walks_otherwise(cls: type) -> bool:
    """Whether a tuple's or list's class reads its items by code of its own, so that they are not what lies in it."""
    base = tuple if issubclass(cls, tuple) else list
    return any(getattr(cls, name, None) is not getattr(base, name, None) for name in _WALKING)


def describe(value: object) -> dict[str, object]:
    """The checks of a Row for a live value (everything but how, parent, key and path).

    Raises TypeError for values that no plan can take: other ndarray subclasses, sets, generators, dtypes unknown to us.
    """
    if type(value) is np.ndarray:
        name = DTYPE_NAMES.get(value.dtype)
        if name is None:
            raise TypeError(f"dtype {value.dtype} is not planned")
        fixed = is_constant(value)
        layout = "C" if value.flags.c_contiguous else "S"
        return {"kind": "array", "dtype": name, "ndim": value.ndim, "layout": layout, "constant": fixed,
                "shape": value.shape if fixed else None}
    if isinstance(value, np.generic):
        name = DTYPE_NAMES.get(value.dtype)
        if name is None or name[0] == "c":
            raise TypeError(f"a scalar of dtype {value.dtype} is not planned")
        return {"kind": "scalar", "dtype": name}
    if type(value) in PYTHON_SCALARS:
        python = PYTHON_SCALARS[type(value)]
        return {"kind": "scalar", "python": python, "dtype": {"bool": "bool", "int": "i64", "float": "f64"}[python]}
    if value is None or isinstance(value, str):
        return {"kind": "static", "value": value}
    if isinstance(value, (tuple, list)):
        if type(value) not in (tuple, list) and _walks_otherwise(type(value)):
            raise TypeError(f"{type(value).__name__} has items in its own way")
        return {"kind": "sequence", "type_name": type_name(value), "length": len(value)}
    if isinstance(value, dict):
        return {"kind": "mapping", "type_name": type_name(value), "keys": tuple(value)}
    if isinstance(value, np.ndarray):
        raise TypeError(f"{type(value).__name__} is an ndarray subclass")
    if is_function(value):
        return {"kind": "callee", "type_name": callee_key(value), "ndim": int(isinstance(value, MethodType))}
    if isinstance(value, _NO_INPUTS):  # a model with a `__call__` is an object like any other
        raise TypeError(f"{type(value).__name__} cannot be an input of a plan")
    return {"kind": "object", "type_name": type_name(value)}


def replay(signature: Signature, args: Sequence[object], read_capture: Callable[[int], object]) -> list[object]:
    """The object of every row for new arguments, unchecked (the reference for the dispatcher's own loop).

    Raises LookupError, AttributeError or TypeError where a path does not exist any more.
    """
    values: list[object] = []
    for row in signature.rows:
        if row.how == "arg":
            values.append(args[row.key])  # type: ignore[call-overload]
        elif row.how == "capture":
            values.append(read_capture(row.key))  # type: ignore[arg-type]
        elif row.how == "attr":
            values.append(getattr(values[row.parent], str(row.key)))
        else:
            values.append(values[row.parent][row.key])  # type: ignore[index]
    return values


def matches(row: Row, value: object) -> bool:
    """Whether a live value satisfies a row (the reference for the dispatcher's own loop)."""
    if row.kind == "array":
        if type(value) is not np.ndarray or DTYPE_NAMES.get(value.dtype) != row.dtype or value.ndim != row.ndim:
            return False
        if row.layout == "C" and not value.flags.c_contiguous:
            return False
        if row.writable and not value.flags.writeable:
            return False
        return not row.constant or (value.shape == row.shape and is_constant(value))
    if row.kind == "scalar":
        if row.python:
            return PYTHON_SCALARS.get(type(value)) == row.python
        return isinstance(value, np.generic) and DTYPE_NAMES.get(value.dtype) == row.dtype
    if row.kind == "static":
        return type(value) is type(row.value) and value == row.value
    if row.kind == "sequence":
        return type_name(value) == row.type_name and len(value) == row.length  # type: ignore[arg-type]
    if row.kind == "callee":
        return is_function(value) and callee_key(value) == row.type_name and isinstance(value, MethodType) == row.ndim
    if row.kind == "mapping":
        return type_name(value) == row.type_name and tuple(value) == row.keys  # type: ignore[arg-type]
    return type_name(value) == row.type_name
