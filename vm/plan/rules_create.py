"""Rules that make arrays: constants, ranges, joins, repeats, triangles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .body import NestBody, truth
from .extents import Expr, compare, const, emax, floordiv, select
from .planner_errors import PlanRefused
from .rules_elementwise import as_array, cast_to, check_weak, common_dtype, elementwise, given
from .rules_view import any_diagonal, expand_dims, is_contiguous, permute, ravel, shape_arg
from .signature import NUMPY_DTYPES
from .steps import Nest, NestOut, View
from .typed import NONE, RULES, Typer, rule
from .unsigned import number_of
from .values import COMPUTE, Arr, Map, Num, Seq, SliceV, Static, Value, is_float, python_bool, python_int

_COPY = python_bool(True)


def _order(order: Value, allowed: tuple[str, ...] = ("C", "K", "A")) -> None:
    if given(order) and not (isinstance(order, Static) and order.value in allowed):
        raise PlanRefused("an array in an order other than C", kind="order")


def filled(t: Typer, shape: tuple[Expr, ...], dtype: str, value: Value, axes: tuple[int, ...] = ()) -> Arr:
    """A fresh array of one value. axes: the order in which memory holds the axes (C order when not given)."""
    if axes and axes != tuple(range(len(shape))):
        return permute(filled(t, tuple(shape[i] for i in axes), dtype, value), tuple(map(axes.index, range(len(shape)))))
    out = t.new_temp(shape, dtype)
    check_weak(t, value, dtype)
    if not shape:
        t.write_view(out, value)
        return out
    nest = NestBody()
    slot = cast_to(nest, t.slot(nest, value, out.shape), dtype)
    ops = nest.finish()
    t.emit(Nest(out.shape, nest.inputs, ops, [NestOut(nest.number(slot), "store", out.view)], t.pc))
    return out


def _dtype(t: Typer, dtype: Value, default: str) -> str:
    return t.numpy_dtype(dtype) if given(dtype) else default


def _constant_array(name: str, value: int) -> None:
    def create(t: Typer, shape: Value, dtype: Value = NONE, order: Value = NONE) -> Value:
        _order(order)
        return filled(t, shape_arg(t, shape), _dtype(t, dtype, "f64"), python_int(const(value)))

    def create_like(t: Typer, a: Value, dtype: Value = NONE, order: Value = NONE, subok: Value = NONE,
                    shape: Value = NONE) -> Value:
        arr = as_array(t, a)
        axes = like_axes(t, arr, order, shape)
        extents = shape_arg(t, shape) if given(shape) else arr.shape
        return filled(t, extents, _dtype(t, dtype, arr.dtype), python_int(const(value)), axes)

    rule(f"np.{name}")(create)
    rule(f"np.{name}_like")(create_like)


def like_axes(t: Typer, arr: Arr, order: Value, shape: Value = NONE) -> tuple[int, ...]:
    """The axes in the order of memory that `order=` asks for: 'K' follows the prototype, largest stride first."""
    name = order.value if isinstance(order, Static) and given(order) else "K"
    natural = tuple(range(arr.ndim))
    if name == "F":
        return natural[::-1]
    if name == "C" or arr.ndim < 2 or is_contiguous(t, arr.view):
        return natural
    if name not in ("K", "A") or given(shape):
        raise PlanRefused("a result in this order", kind="order")
    strides = []
    for stride in map(t.facts.norm, arr.view.strides):
        known = t.facts.is_less_equal(0, stride)
        strides.append(stride if known else -stride if known is False else select(compare("lt", stride, 0), -stride, stride))
    axes: list[int] = []
    for axis in natural:
        at = len(axes)
        while at and not t.facts.ask_less_equal(strides[axis], strides[axes[at - 1]]):
            at -= 1
        axes.insert(at, axis)
    if name == "A" and tuple(axes) != natural[::-1]:
        return natural
    return tuple(axes)


_constant_array("zeros", 0)
_constant_array("ones", 1)
# np.empty promises no contents: zeros keep every engine's answer the same
_constant_array("empty", 0)


@rule("np.full")
def full(t: Typer, shape: Value, fill_value: Value, dtype: Value = NONE, order: Value = NONE) -> Value:
    _order(order)
    if not isinstance(fill_value, (Arr, Num)) or (isinstance(fill_value, Num) and fill_value.maybe):
        raise PlanRefused("np.full of a sequence", kind="array-like")
    return filled(t, shape_arg(t, shape), _dtype(t, dtype, fill_value.dtype), fill_value)


@rule("np.full_like")
def full_like(t: Typer, a: Value, fill_value: Value, dtype: Value = NONE, order: Value = NONE, subok: Value = NONE,
              shape: Value = NONE) -> Value:
    arr = as_array(t, a)
    axes = like_axes(t, arr, order, shape)
    return filled(t, shape_arg(t, shape) if given(shape) else arr.shape, _dtype(t, dtype, arr.dtype), fill_value, axes)


def indexed(t: Typer, shape: tuple[Expr, ...], dtype: str, value: Callable[[Any, list[Any]], Any]) -> Arr:
    """A fresh array whose elements follow from their indices: value(body, index slots)."""
    out = t.new_temp(shape, dtype)
    nest = NestBody()
    slot = cast_to(nest, value(nest, [nest.iota(i) for i in range(len(shape))]), dtype)
    ops = nest.finish()
    t.emit(Nest(out.shape, nest.inputs, ops, [NestOut(nest.number(slot), "store", out.view)], t.pc))
    return out


@rule("np.arange")
def arange(t: Typer, start: Value, stop: Value = NONE, step: Value = NONE, dtype: Value = NONE) -> Value:
    if not given(stop):
        start, stop = python_int(const(0)), start
    step = step if given(step) else python_int(const(1))
    parts = [start, stop, step]
    if all(isinstance(v, Num) and v.is_constant and v.python in ("int", "float") for v in parts) and any(
            v.python == "float" for v in parts):  # type: ignore[union-attr]
        first, last, gap = (float(v.constant) for v in parts)  # type: ignore[union-attr]
        return _float_range(t, first, last, gap, dtype)
    if not all(isinstance(v, Num) and v.native in ("i64", "i32") for v in parts):
        raise PlanRefused("np.arange of floats", kind="kernel:np.arange")
    lo, hi, by = (t.int_expr(v) for v in parts)
    k = t.facts.norm(by).value
    if not k:
        raise PlanRefused("np.arange with a step known only at run time, or 0", kind="kernel:np.arange")
    distance = hi - lo if k > 0 else lo - hi
    if distance.is_entry:
        distance = distance if t.facts.ask_less_equal(0, distance) else const(0)
    else:
        distance = emax(distance, 0)
    n = floordiv(distance + (abs(k) - 1), abs(k)) if abs(k) != 1 else distance
    name = _dtype(t, dtype, "i64")

    def value(body: Any, index: list[Any]) -> Any:
        slot = index[0] if k == 1 else body.op("mul", "i64", index[0], body.const(k, "i64"))
        if t.facts.norm(lo).value == 0:
            return slot
        return body.op("add", "i64", slot, t.scalar_slot(body, python_int(lo)))
    return indexed(t, (n,), name, value)


def _float_range(t: Typer, start: float, stop: float, step: float, dtype: Value) -> Value:
    """np.arange of float constants: the length and the first step are NumPy's."""
    from math import ceil, isfinite
    if not step or not all(map(isfinite, (start, stop, step))) or _dtype(t, dtype, "f64") != "f64":
        raise PlanRefused("np.arange of these floats", kind="kernel:np.arange")
    n = max(ceil((stop - start) / step), 0)
    delta = (start + step) - start
    return indexed(t, (const(n),), "f64", lambda body, i: body.op("add", "f64", body.const(start, "f64"), body.op(
        "mul", "f64", body.cast(i[0], "f64"), body.const(delta, "f64"))))


@rule("np.linspace")
def linspace(t: Typer, start: Value, stop: Value, num: Value = NONE, endpoint: Value = NONE, retstep: Value = NONE,
             dtype: Value = NONE, axis: Value = NONE) -> Value:
    if (given(retstep) and t.is_true(retstep)) or (given(axis) and t.known_int(axis) != 0):
        raise PlanRefused("np.linspace with these arguments", kind="kernel:np.linspace")
    if not isinstance(start, Num) or not isinstance(stop, Num):
        raise PlanRefused("np.linspace of arrays", kind="kernel:np.linspace")
    n = t.int_expr(num) if given(num) else const(50)
    closed = not given(endpoint) or t.is_true(endpoint)
    div = n - 1 if closed else n
    common = common_dtype(t, [start, stop])
    within = common if common in ("f16", "f32") else "f64"  # what NumPy computes in
    name = _dtype(t, dtype, within)
    if within == "f16" or name not in ("f32", "f64") or not t.facts.ask_less_equal(1, div):
        raise PlanRefused("np.linspace of this length or dtype", kind="kernel:np.linspace")
    scalars = t.scalar_body()
    lo, hi, parts = (scalars.cast(t.scalar_slot(scalars, v), within) for v in (start, stop, python_int(div)))
    delta = scalars.op("sub", within, hi, lo)
    step = scalars.op("div", within, delta, parts)
    tiny = scalars.op("eq", within, step, scalars.const(0.0, within))  # it underflows: NumPy divides each element
    factor = scalars.op("select", within, tiny, delta, step)
    divisor = scalars.op("select", within, tiny, parts, scalars.const(1.0, within))

    def value(body: Any, index: list[Any]) -> Any:
        at = body.op("div", within, body.cast(index[0], within), body.scalar(divisor, within))
        x = body.op("add", within, body.op("mul", within, at, body.scalar(factor, within)), body.scalar(lo, within))
        if not closed:
            return x
        last = body.op("eq", "i64", index[0], t.scalar_slot(body, python_int(div)))
        return body.op("select", within, last, body.scalar(hi, within), x)
    return indexed(t, (n,), name, value)


@rule("np.eye")
def eye(t: Typer, n: Value, m: Value = NONE, k: Value = NONE, dtype: Value = NONE, order: Value = NONE) -> Value:
    _order(order)
    rows = t.int_expr(n)
    cols = t.int_expr(m) if given(m) else rows
    shift = t.int_expr(k) if given(k) else const(0)
    for e in (rows, cols):
        if not t.facts.ask_less_equal(0, e):
            raise PlanRefused("a negative extent", kind="shape-error")
    return indexed(t, (rows, cols), _dtype(t, dtype, "f64"), lambda body, i: body.op(
        "eq", "i64", body.op("sub", "i64", i[1], i[0]), t.scalar_slot(body, python_int(shift))))


@rule("np.identity")
def identity(t: Typer, n: Value, dtype: Value = NONE) -> Value:
    return eye(t, n, NONE, NONE, dtype)


def _triangle(name: str, op: str) -> None:
    def triangle(t: Typer, m: Value, k: Value = NONE) -> Value:
        arr = as_array(t, m)
        if arr.ndim < 2:
            raise PlanRefused(f"np.{name} of fewer than two axes", kind=f"kernel:np.{name}")
        shift = t.int_expr(k) if given(k) else const(0)
        out = t.new_temp(arr.shape, arr.dtype)
        nest = NestBody()
        x = nest.view(t.broadcast_view(arr.view, out.shape))
        native = COMPUTE[arr.dtype]
        distance = nest.op("sub", "i64", nest.iota(arr.ndim - 1), nest.iota(arr.ndim - 2))
        keep = nest.op(op, "i64", distance, t.scalar_slot(nest, python_int(shift)))
        zero = nest.const({"b": False, "i": 0, "f": 0.0}[native[0]], native)
        slot = nest.op("select", native, keep, x, zero)
        ops = nest.finish()
        t.emit(Nest(out.shape, nest.inputs, ops, [NestOut(nest.number(slot), "store", out.view)], t.pc))
        return out
    rule(f"np.{name}")(triangle)


_triangle("tril", "le")
_triangle("triu", "ge")


@rule("np.diag")
def diag(t: Typer, v: Value, k: Value = NONE) -> Value:
    arr = as_array(t, v)
    if arr.ndim not in (1, 2):
        raise PlanRefused("np.diag of other than a vector or a matrix", kind="value-error")
    shift = t.known_int(k) if given(k) else 0
    if arr.ndim == 2:
        return RULES["np.diagonal"](t, arr, python_int(const(shift)))
    n = arr.shape[0] + abs(shift)
    out = filled(t, (n, n), arr.dtype, python_int(const(0)))
    t.write_view(any_diagonal(t, out, python_int(const(shift))), arr)
    return out


@rule("np.copy")
def np_copy(t: Typer, a: Value, order: Value = NONE, subok: Value = NONE) -> Value:
    arr = as_array(t, a)
    return copy_in(t, arr, like_axes(t, arr, order))


@rule("arr.copy")
def copy(t: Typer, a: Value, order: Value = NONE) -> Value:
    if isinstance(a, Num):
        return a
    arr = as_array(t, a)
    return copy_in(t, arr, like_axes(t, arr, order if given(order) else Static("C")))


@rule("np.ascontiguousarray")
def ascontiguousarray(t: Typer, a: Value, dtype: Value = NONE) -> Value:
    arr = as_array(t, a)
    if not arr.ndim:
        arr = expand_dims(t, arr, python_int(const(0)))  # type: ignore[assignment]
    if given(dtype) and t.numpy_dtype(dtype) != arr.dtype:
        return _astype(t, arr, t.numpy_dtype(dtype))
    return arr if is_contiguous(t, arr.view) else t.copy(arr)


def copy_in(t: Typer, arr: Arr, axes: tuple[int, ...]) -> Arr:
    """A fresh copy whose memory holds the axes in this order."""
    if axes == tuple(range(arr.ndim)):
        return t.copy(arr)
    return permute(t.copy(permute(arr, axes)), tuple(map(axes.index, range(arr.ndim))))


@rule("np.array")
def array(t: Typer, obj: Value, dtype: Value = NONE, copy_: Value = _COPY, order: Value = NONE,
          ndmin: Value = NONE) -> Value:
    if given(ndmin) and t.known_int(ndmin):
        raise PlanRefused("np.array with ndmin=", kind="kernel:np.array")
    if not t.is_true(copy_):  # only if needed (None), or never
        _order(order, ("K",))
        if not isinstance(obj, Arr) or (given(dtype) and t.numpy_dtype(dtype) != obj.dtype):
            raise PlanRefused("np.array with copy=", kind="kernel:np.array")
        return obj
    if isinstance(obj, Arr):
        if given(dtype) and t.numpy_dtype(dtype) != obj.dtype:
            return _astype(t, obj, t.numpy_dtype(dtype))
        return copy_in(t, obj, like_axes(t, obj, order))
    if isinstance(obj, Num):
        return filled(t, (), _dtype(t, dtype, obj.dtype), obj)
    return array_of(t, obj, t.numpy_dtype(dtype) if given(dtype) else None)


def _astype(t: Typer, arr: Arr, dtype: str) -> Arr:
    value = elementwise(t, [arr], dtype, lambda body, s: cast_to(body, s[0], dtype))
    return as_array(t, value)


@rule("np.asarray", "np.asanyarray")
def asarray(t: Typer, a: Value, dtype: Value = NONE, order: Value = NONE) -> Value:
    _order(order, ("C", "K"))
    if isinstance(a, Arr) and (not given(dtype) or t.numpy_dtype(dtype) == a.dtype):
        is_free = not given(order) or (isinstance(order, Static) and order.value == "K")
        return a if is_free or is_contiguous(t, a.view) else t.copy(a)
    return array(t, a, dtype)


def array_of(t: Typer, obj: Value, dtype: str | None) -> Arr:
    """np.array of nested sequences of scalars or equal arrays."""
    items = t.children(obj)
    if not items:
        raise PlanRefused("an array of nothing", kind="array-like")
    parts: list[Value] = [array_of(t, v, dtype) if t.is_sequence(v) else v for v in items]
    if not all(isinstance(v, (Arr, Num)) for v in parts):
        raise PlanRefused("an array of values that are no numbers", kind="array-like")
    name = dtype or common_dtype(t, [Num(v.operand, v.dtype) if isinstance(v, Num) else v for v in parts])
    shapes = [v.shape if isinstance(v, Arr) else () for v in parts]
    for s in shapes[1:]:
        if len(s) != len(shapes[0]) or not all(t.facts.ask_equal(x, y) for x, y in zip(s, shapes[0], strict=True)):
            raise PlanRefused("an array of ragged parts", kind="shape-error")
    out = t.new_temp((const(len(parts)), *shapes[0]), name)
    for i, part in enumerate(parts):
        check_weak(t, part, name)
        v = out.view
        t.write_view(Arr(View(v.buffer, v.dtype, v.shape[1:], v.strides[1:], v.strides[0] * i)), part)
    return out


# --- joins ------------------------------------------------------------------------------------------------------------

@rule("np.concatenate")
def concatenate(t: Typer, arrays: Value, axis: Value = NONE, out: Value = NONE, dtype: Value = NONE) -> Value:
    if given(out):
        raise PlanRefused("np.concatenate with out=", kind="kernel:np.concatenate")
    parts = [as_array(t, v) for v in t.children(arrays)]
    if given(dtype):
        name = t.numpy_dtype(dtype)
        if not all(np.can_cast(NUMPY_DTYPES[p.dtype], NUMPY_DTYPES[name], "same_kind") for p in parts):
            raise PlanRefused("np.concatenate into a dtype of another kind", kind="ufunc-types")
        parts = [as_array(t, RULES["arr.astype"](t, p, dtype)) for p in parts]
    if not parts:
        raise PlanRefused("np.concatenate of nothing", kind="value-error")
    if isinstance(axis, Static) and axis.value is None and axis is not NONE:
        parts = [ravel(t, p) for p in parts]  # type: ignore[misc]
        axis = NONE
    return join(t, parts, t.axis_of(axis, parts[0].ndim) if given(axis) else 0)


def join(t: Typer, parts: list[Arr], axis: int) -> Arr:
    """Arrays one after another along an axis."""
    if not parts:
        raise PlanRefused("no arrays to join", kind="value-error")
    first = parts[0]
    if not first.ndim or any(p.ndim != first.ndim for p in parts):
        raise PlanRefused("concatenation of different ranks", kind="shape-error")
    for p in parts[1:]:
        for i in range(first.ndim):
            if i != axis and not t.facts.ask_equal(p.shape[i], first.shape[i]):
                raise PlanRefused("concatenation of extents that differ", kind="shape-error")
    total = const(0)
    for p in parts:
        total = total + p.shape[axis]
    shape = (*first.shape[:axis], total, *first.shape[axis + 1:])
    out = t.new_temp(shape, common_dtype(t, list(parts)))
    at = const(0)
    for p in parts:
        v = out.view
        extents = (*out.shape[:axis], p.shape[axis], *out.shape[axis + 1:])
        t.write_view(Arr(View(v.buffer, v.dtype, extents, v.strides, v.strides[axis] * at)), p)
        at = at + p.shape[axis]
    return out


def _some(t: Typer, arrays: Value) -> list[Value]:
    """The items of a sequence of arrays; NumPy joins at least one."""
    items = t.children(arrays)
    if not items:
        raise PlanRefused("no arrays to join", kind="value-error")
    return items


@rule("np.stack")
def stack(t: Typer, arrays: Value, axis: Value = NONE, out: Value = NONE, dtype: Value = NONE) -> Value:
    if given(out) or given(dtype):
        raise PlanRefused("np.stack with out= or dtype=", kind="kernel:np.stack")
    parts = [as_array(t, v) for v in _some(t, arrays)]
    where = t.axis_of(axis, parts[0].ndim + 1) if given(axis) else 0
    return join(t, [expand_dims(t, p, python_int(const(where))) for p in parts], where)  # type: ignore[misc]


@rule("np.vstack")
def vstack(t: Typer, tup: Value, dtype: Value = NONE) -> Value:
    from .rules_view import atleast_2d
    parts = [atleast_2d(t, Seq([v], "tuple")) for v in _some(t, tup)]
    return join(t, parts, 0)  # type: ignore[arg-type]


@rule("np.hstack")
def hstack(t: Typer, tup: Value, dtype: Value = NONE) -> Value:
    from .rules_view import atleast_1d
    parts: list[Any] = [atleast_1d(t, Seq([v], "tuple")) for v in _some(t, tup)]
    return join(t, parts, 0 if parts[0].ndim == 1 else 1)


@rule("np.column_stack")
def column_stack(t: Typer, tup: Value) -> Value:
    parts: list[Any] = []
    for v in t.children(tup):
        arr: Any = as_array(t, v)
        while arr.ndim < 2:
            arr = expand_dims(t, arr, python_int(const(arr.ndim)))
        parts.append(arr)
    return join(t, parts, 1)


@rule("np.split")
def split(t: Typer, ary: Value, sections: Value, axis: Value = NONE) -> Value:
    arr = as_array(t, ary)
    where = t.axis_of(axis if given(axis) else python_int(const(0)), arr.ndim)
    n = t.facts.norm(arr.shape[where])
    if t.is_sequence(sections):
        cuts = [t.int_expr(v) for v in t.children(sections)]
    else:
        count = t.known_int(sections)
        each = floordiv(n, count)
        if count < 1 or not t.facts.ask_equal(each * count, n):
            raise PlanRefused("np.split into unequal parts", kind="kernel:np.split")
        cuts = [each * i for i in range(1, count)]
    edges = [const(0), *cuts, n]
    parts: list[Value] = []
    for lo, hi in zip(edges, edges[1:], strict=False):
        index: list[Value] = [SliceV(NONE, NONE, NONE)] * arr.ndim
        index[where] = SliceV(python_int(lo), python_int(hi), NONE)
        parts.append(t.subscript(arr, Seq(index, "tuple")))
    return Seq(parts, "list")


@rule("np.repeat", "arr.repeat")
def repeat(t: Typer, a: Value, repeats: Value, axis: Value = NONE) -> Value:
    arr = as_array(t, a)
    if not isinstance(repeats, Num):
        raise PlanRefused("np.repeat by an array", kind="kernel:np.repeat")
    if not given(axis):
        arr, where = ravel(t, arr), 0  # type: ignore[assignment]
    else:
        where = t.axis_of(axis, arr.ndim)
    count = t.int_expr(repeats)
    if not t.facts.ask_less_equal(0, count):
        raise PlanRefused("a negative number of repeats", kind="value-error")
    shape = (*arr.shape[:where + 1], count, *arr.shape[where + 1:])
    v = arr.view
    wide = Arr(View(v.buffer, v.dtype, shape, (*v.strides[:where + 1], const(0), *v.strides[where + 1:]), v.offset))
    out = t.copy(wide)
    merged = (*arr.shape[:where], t.facts.norm(arr.shape[where] * count), *arr.shape[where + 1:])
    from .rules_view import reshaped
    result = reshaped(t, out, merged)
    result.view.buffer.home = result.view
    return result


@rule("np.tile")
def tile(t: Typer, a: Value, reps: Value) -> Value:
    arr = as_array(t, a)
    counts = [t.int_expr(v) for v in (t.children(reps) if t.is_sequence(reps) else [reps])]
    while len(counts) < arr.ndim:
        counts.insert(0, const(1))
    while arr.ndim < len(counts):
        arr = expand_dims(t, arr, python_int(const(0)))  # type: ignore[assignment]
    for c in counts:
        if not t.facts.ask_less_equal(0, c):
            raise PlanRefused("a negative number of tiles", kind="value-error")
    shape: list[Expr] = []
    strides: list[Expr] = []
    for count, extent, stride in zip(counts, arr.shape, arr.view.strides, strict=True):
        shape += [count, extent]
        strides += [const(0), stride]
    out = t.copy(Arr(View(arr.view.buffer, arr.dtype, tuple(shape), tuple(strides), arr.view.offset)))
    from .rules_view import reshaped
    result = reshaped(t, out, tuple(t.facts.norm(c * e) for c, e in zip(counts, arr.shape, strict=True)))
    result.view.buffer.home = result.view
    return result


@rule("np.roll")
def roll(t: Typer, a: Value, shift: Value, axis: Value = NONE) -> Value:
    from .extents import mod
    from .rules_view import reshaped
    arr = as_array(t, a)
    if t.is_sequence(shift) and t.is_sequence(axis) and len(t.children(shift)) == len(t.children(axis)):
        for one, along in zip(t.children(shift), t.children(axis), strict=True):
            arr = roll(t, arr, one, along)  # type: ignore[assignment]
        return arr
    if t.is_sequence(shift) or t.is_sequence(axis):
        raise PlanRefused("np.roll along several axes", kind="kernel:np.roll")
    source = arr if given(axis) else ravel(t, arr)
    assert isinstance(source, Arr)
    where = t.axis_of(axis, arr.ndim) if given(axis) else 0
    n = t.facts.norm(source.shape[where])
    if t.facts.ask_equal(n, 0):
        return t.copy(arr)
    k = mod(t.int_expr(shift), n)
    out = t.new_temp(source.shape, arr.dtype)
    for lo, length, at in ((n - k, k, const(0)), (const(0), n - k, k)):
        extents = (*source.shape[:where], length, *source.shape[where + 1:])
        sv, ov = source.view, out.view
        src = View(sv.buffer, sv.dtype, extents, sv.strides, sv.offset + sv.strides[where] * lo)
        t.write_view(Arr(View(ov.buffer, ov.dtype, extents, ov.strides, ov.strides[where] * at)), Arr(src))
    return out if given(axis) else reshaped(t, out, arr.shape)


@rule("np.pad")
def pad(t: Typer, a: Value, width: Value, mode: Value = NONE, constant_values: Value = NONE, *rest: Value) -> Value:
    name = mode.value if isinstance(mode, Static) and given(mode) else "constant"
    if name not in ("constant", "edge", "wrap", "reflect", "symmetric") or any(map(given, rest)):
        raise PlanRefused("np.pad in this mode", kind="kernel:np.pad")
    arr = as_array(t, a)
    pairs = _pad_widths(t, width, arr.ndim)
    if name != "constant":
        from .rules_compose import pad_by_copying
        return pad_by_copying(t, arr, pairs, name)
    value = constant_values if given(constant_values) else python_int(const(0))
    if not isinstance(value, (Num, Arr)):
        raise PlanRefused("np.pad with values by axis", kind="kernel:np.pad")
    shape = tuple(t.facts.norm(e + lo + hi) for e, (lo, hi) in zip(arr.shape, pairs, strict=True))
    out = filled(t, shape, arr.dtype, value)
    v = out.view
    offset = const(0)
    for (lo, _), stride in zip(pairs, v.strides, strict=True):
        offset = offset + stride * lo
    t.write_view(Arr(View(v.buffer, v.dtype, arr.shape, v.strides, offset)), arr)
    return out


def _pad_widths(t: Typer, width: Value, ndim: int) -> list[tuple[Expr, Expr]]:
    if isinstance(width, Map):
        raise PlanRefused("pad widths by axis", kind="kernel:np.pad")
    if not t.is_sequence(width):
        e = t.int_expr(width)
        pairs = [(e, e)] * ndim
    else:
        items = t.children(width)
        if all(not t.is_sequence(v) for v in items):
            if len(items) == 1:
                pairs = [(t.int_expr(items[0]),) * 2] * ndim
            elif len(items) == 2:
                pairs = [(t.int_expr(items[0]), t.int_expr(items[1]))] * ndim
            else:
                raise PlanRefused("pad widths that do not fit", kind="shape-error")
        else:
            rows = [[t.int_expr(v) for v in t.children(item)] for item in items]
            rows = rows * ndim if len(rows) == 1 else rows
            if len(rows) != ndim:
                raise PlanRefused("pad widths that do not fit", kind="shape-error")
            pairs = [(r[0], r[-1]) for r in rows]
    for pair in pairs:
        for e in pair:
            if not t.facts.ask_less_equal(0, e):
                raise PlanRefused("a negative pad width", kind="value-error")
    return pairs


def _cast_call(name: str) -> None:
    def cast(t: Typer, x: Value = NONE) -> Value:
        value: Value = python_int(const(0)) if x is NONE else x  # None itself is a NaN, or no number at all
        memory = {"bool": "bool", "int8": "i8", "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8",
                  "uint16": "u16", "uint32": "u32", "float32": "f32", "float64": "f64", "longlong": "i64"}[name]
        if isinstance(value, Num) and value.python == "int":
            check_weak(t, value, memory)
        if isinstance(value, Num) and value.python == "float":  # by way of int()
            from .rules_index import check_number
            check_number(t, value, memory)
        if not isinstance(value, (Num, Arr)):
            raise PlanRefused(f"np.{name} of a sequence", kind="array-like")
        if isinstance(value, Arr) and value.dtype == memory:
            return value if value.ndim else t.load(value)
        if memory == "bool":
            return elementwise(t, [value], "bool", lambda body, s: truth(body, s[0]))
        if isinstance(value, Num) and is_float(value.dtype) and memory[0] in "iu" and value.is_constant:
            value = python_int(const(int(value.constant))) if abs(value.constant) < 2**62 else value
        return elementwise(t, [value], memory, lambda body, s: cast_to(body, s[0], memory))
    rule(f"np.{name}")(cast)


@rule("np.uint64")
def uint64(t: Typer, x: Value = NONE) -> Value:
    t.has_odd = True
    if isinstance(x, Static) and type(x.value) is int:
        return number_of(x.value)
    if not isinstance(x, Num) or x.dtype[0] == "f":
        raise PlanRefused("np.uint64 of this value", kind="operand")
    if x.python == "int":
        if x.is_constant and x.constant >= 0:
            return number_of(int(x.constant))
        check_weak(t, x, "u64")
    return elementwise(t, [x], "u64", lambda body, s: body.cast(s[0], "i64"))


for _name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float32", "float64", "longlong"):
    _cast_call(_name)


