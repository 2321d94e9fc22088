"""Arithmetic of complex numbers that are pairs of real parts: each operation as nests of the parts' own operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .planner_errors import PlanRefused
from .steps import Literal
from .values import Arr, Cplx, Num, Static, Value

PART_OF = {"c64": "f32", "c128": "f64"}
WIDE = {"c64": np.dtype(np.complex64), "c128": np.dtype(np.complex128)}
_NAMES = {dtype: name for name, dtype in WIDE.items()}


def complex_dtype(value: Value) -> str | None:
    """'c64' or 'c128' for a dtype argument that names one."""
    spec = value.value if isinstance(value, Static) else None
    if spec is None or isinstance(spec, bool) or spec is ...:
        return None
    try:
        return _NAMES.get(np.dtype(spec))  # type: ignore[call-overload]
    except TypeError:
        return None


def common_dtype(values: Sequence[Value]) -> str:
    """The complex dtype of operands together, by NumPy's promotion."""
    from .signature import NUMPY_DTYPES
    strong: list[Any] = []
    weak: list[Any] = []
    for v in values:
        if isinstance(v, (Cplx, Num)) and v.python:
            weak.append(1j if isinstance(v, Cplx) else {"int": 1, "float": 1.0, "bool": True}[v.python])
        elif isinstance(v, Cplx):
            strong.append(WIDE[v.dtype])
        elif isinstance(v, (Arr, Num)):
            if isinstance(v, Num) and v.maybe:
                raise PlanRefused("a scalar that is NumPy's on one path and Python's on another", kind="two-types")
            strong.append(NUMPY_DTYPES[v.dtype])
    name = _NAMES.get(np.result_type(*strong, *weak))
    if name is None:
        raise PlanRefused("a complex dtype that is not planned", kind="dtype")
    return name


def is_python(value: Value) -> bool:
    """Whether a value is one of Python's numbers."""
    return isinstance(value, (Num, Cplx)) and value.python != ""


def parts_of(t: Any, value: Value, part: str) -> tuple[Any, Any]:
    """(real, imaginary) of an operand of elementwise arithmetic; the imaginary part of a real one is a literal 0."""
    if isinstance(value, Cplx):
        return value.re, value.im
    if isinstance(value, (Arr, Num)):
        return value, Num(Literal(0.0, part), part)
    raise PlanRefused("a value that is no number meets complex numbers", kind="operand")


def of_parts(t: Any, values: Sequence[Value], build: Callable[..., tuple[Any, Any]], dtype: str | None = None) -> Cplx:
    """build(body, real and imaginary slots...) -> two slots, as a complex value."""
    from .rules_elementwise import elementwise
    dtype = common_dtype(values) if dtype is None else dtype
    part = PART_OF[dtype]
    flat = [p for v in values for p in parts_of(t, v, part)]

    def part_of(i: int) -> Value:
        return elementwise(t, flat, part, lambda body, s: build(body, *(body.cast(x, part) for x in s))[i])
    made = [part_of(0), part_of(1)]
    python = "complex" if all(map(is_python, values)) else ""
    return Cplx(made[0], made[1], dtype, python)


def _real_elementwise(t: Any, value: Cplx, dtype: str, build: Callable[..., Any]) -> Value:
    from .rules_elementwise import elementwise
    part = PART_OF[value.dtype]
    return elementwise(t, [value.re, value.im], dtype,
                       lambda body, s: build(body, *(body.cast(x, part) for x in s)))


def multiplied(t: Any, a: Value, b: Value) -> Cplx:
    """a * b."""
    part = PART_OF[common_dtype([a, b])]

    def build(body: Any, ar: Any, ai: Any, br: Any, bi: Any) -> tuple[Any, Any]:
        def times(x: Any, y: Any) -> Any:
            return body.op("mul", part, x, y)
        return (body.op("sub", part, times(ar, br), times(ai, bi)), body.op("add", part, times(ar, bi), times(ai, br)))
    return of_parts(t, [a, b], build)


def divided(t: Any, a: Value, b: Value) -> Cplx:
    """a / b, by the quotient of the smaller part of b over the larger one, as NumPy divides."""
    part = PART_OF[common_dtype([a, b])]
    if is_python(a) and is_python(b):
        raise PlanRefused("division of Python's complex numbers", kind="dtype")

    def build(body: Any, ar: Any, ai: Any, br: Any, bi: Any) -> tuple[Any, Any]:
        def op(name: str, *slots: Any) -> Any:
            return body.op(name, part, *slots)

        def pick(x: Any, y: Any) -> Any:
            return op("select", wide, x, y)
        wide = op("ge", op("abs", br), op("abs", bi))
        big, small = pick(br, bi), pick(bi, br)
        zero = body.const(0.0, part)
        nothing = body.op("and", "bool", op("eq", big, zero), op("eq", small, zero))
        ratio = op("select", nothing, zero, op("div", small, big))
        scale = op("div", body.const(1.0, part), op("add", big, op("mul", small, ratio)))
        first = pick(op("add", ar, op("mul", ai, ratio)), op("add", op("mul", ar, ratio), ai))
        second = pick(op("sub", ai, op("mul", ar, ratio)), op("sub", op("mul", ai, ratio), ar))
        return op("mul", first, scale), op("mul", second, scale)
    return of_parts(t, [a, b], build)


def reciprocal(t: Any, z: Cplx) -> Cplx:
    """1 / z as np.reciprocal has it: by the quotient of the smaller part over the larger one."""
    part = PART_OF[z.dtype]

    def build(body: Any, re: Any, im: Any) -> tuple[Any, Any]:
        def op(name: str, *slots: Any) -> Any:
            return body.op(name, part, *slots)
        one, wide = body.const(1.0, part), op("le", op("abs", im), op("abs", re))
        big, small = op("select", wide, re, im), op("select", wide, im, re)
        ratio = op("div", small, big)
        scale = op("add", op("mul", small, ratio), big)
        whole, rest = op("div", one, scale), op("div", ratio, scale)
        return op("select", wide, whole, rest), op("neg", op("select", wide, rest, whole))
    return of_parts(t, [z], build, z.dtype)


def positive(t: Any, a: Cplx) -> Cplx:
    """+a."""
    return of_parts(t, [a], lambda body, re, im: (re, im))


def _exp(t: Any, z: Cplx) -> Cplx:
    part = PART_OF[z.dtype]

    def build(body: Any, re: Any, im: Any) -> tuple[Any, Any]:
        def op(name: str, *slots: Any) -> Any:
            return body.op(name, part, *slots)
        size, zero = op("exp", re), body.const(0.0, part)
        none = op("eq", size, zero)  # whatever the angle is
        straight = op("eq", im, zero)
        cosine = op("select", none, zero, op("mul", size, op("cos", im)))
        sine = op("select", none, zero, op("mul", size, op("sin", im)))
        return op("select", straight, size, cosine), op("select", straight, im, sine)
    return of_parts(t, [z], build, z.dtype)


def unary(t: Any, name: str, z: Cplx) -> Value | None:
    """A kernel of one complex operand, or None."""
    part = PART_OF[z.dtype]
    if name in ("np.absolute", "py.abs"):
        return _real_elementwise(t, z, part, lambda body, re, im: body.op("hypot", part, re, im))
    if name in ("np.conjugate", "arr.conj", "arr.conjugate"):
        return of_parts(t, [z], lambda body, re, im: (re, body.op("neg", part, im)), z.dtype)
    if name == "np.square":
        return multiplied(t, z, z)
    if name == "np.reciprocal":
        return reciprocal(t, z)
    if name == "np.exp":
        return _exp(t, z)
    if name == "np.angle":
        return _real_elementwise(t, z, part, lambda body, re, im: body.op("arctan2", part, im, re))
    if name == "np.real":
        return z.re
    if name == "np.imag":
        return z.im
    if name == "np.isnan":
        return _real_elementwise(t, z, "bool", lambda body, re, im: body.op(
            "or", "bool", body.op("isnan", part, re), body.op("isnan", part, im)))
    if name == "np.isfinite":
        return _real_elementwise(t, z, "bool", lambda body, re, im: body.op(
            "and", "bool", body.op("isfinite", part, re), body.op("isfinite", part, im)))
    return None
