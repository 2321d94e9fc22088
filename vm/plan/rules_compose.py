"""NumPy functions that are other functions put together: differences, NaN-aware statistics, tests, stores by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from .body import NestBody
from .extents import Expr, const, emin, floordiv, mod
from .planner_errors import PlanRefused
from .rules_create import indexed, join
from .rules_elementwise import as_array, as_numpy, cast_to, check_weak, elementwise, given, only_defaults, ufunc
from .rules_index import store
from .rules_python import bool_, float_
from .rules_reduce import divide_by, reduced_axes
from .rules_view import expand_dims, flip, main_diagonal, permute, ravel
from .steps import Nest, NestOut, View
from .typed import NONE, RULES, Typer, attribute, rule
from .values import COMPUTE, Arr, Num, Seq, SliceV, Static, Value, is_float, python_bool, python_float, python_int

FULL = SliceV(NONE, NONE, NONE)


def _no(name: str, *values: Value) -> None:
    """Refuse arguments that are not planned."""
    if any(map(given, values)):
        raise PlanRefused(f"np.{name} with these arguments", kind=f"kernel:np.{name}")


def _along(t: Typer, arr: Arr, axis: int, start: int | None, stop: int | None, step: int | None = None) -> Arr:
    """arr[..., start:stop:step, ...] along an axis."""
    parts = [NONE if v is None else python_int(const(v)) for v in (start, stop, step)]
    index: list[Value] = [FULL] * arr.ndim
    index[axis] = SliceV(*parts)
    return t.subscript(arr, Seq(index, "tuple"))  # type: ignore[return-value]


# --- differences and integrals ----------------------------------------------------------------------------------------

@rule("np.diff")
def diff(t: Typer, a: Value, n: Value = NONE, axis: Value | None = None, prepend: Value = NONE,
         append: Value = NONE) -> Value:
    arr = as_array(t, a)
    where = t.axis_of(python_int(const(-1)) if axis is None else axis, arr.ndim)
    if given(prepend) or given(append):
        parts: list[Value] = [arr]
        for piece, at in ((prepend, 0), (append, 1)):
            if given(piece):
                more = as_array(t, piece)
                if not more.ndim:
                    more = RULES["np.broadcast_to"](t, more, Seq([python_int(const(1) if d == where else e)  # type: ignore[assignment]
                                                                  for d, e in enumerate(arr.shape)], "tuple"))
                parts.insert(at * len(parts), more)
        arr = as_array(t, RULES["np.concatenate"](t, Seq(parts, "tuple"), python_int(const(where))))
    for _ in range(t.known_int(n) if given(n) else 1):
        name = "not_equal" if arr.dtype == "bool" else "subtract"
        arr = as_array(t, ufunc(t, name, [_along(t, arr, where, 1, None), _along(t, arr, where, None, -1)]))
    return arr


@rule("np.trapezoid")
def trapezoid(t: Typer, y: Value, x: Value = NONE, dx: Value = NONE, axis: Value = NONE) -> Value:
    arr = as_array(t, y)
    if axis is not NONE and not given(axis):
        raise PlanRefused("np.trapezoid along no axis", kind="kernel:np.trapezoid")
    where = t.axis_of(axis, arr.ndim) if given(axis) else arr.ndim - 1
    step: Value = dx if given(dx) else python_float(1.0)
    if given(x):
        points = as_array(t, x)
        if points.ndim != 1:
            raise PlanRefused("np.trapezoid over points of several axes", kind="kernel:np.trapezoid")
        step = diff(t, points)
        for _ in range(arr.ndim - 1 - where):
            step = expand_dims(t, step, python_int(const(as_array(t, step).ndim)))
    both = ufunc(t, "add", [_along(t, arr, where, 1, None), _along(t, arr, where, None, -1)])
    return RULES["np.sum"](t, ufunc(t, "divide", [ufunc(t, "multiply", [step, both]), python_float(2.0)]),
                           python_int(const(where)))


@rule("np.ediff1d")
def ediff1d(t: Typer, ary: Value, to_end: Value = NONE, to_begin: Value = NONE) -> Value:
    _no("ediff1d", to_end, to_begin)
    arr = as_array(t, ary)
    if arr.dtype == "bool":
        raise PlanRefused("np.ediff1d of booleans, which NumPy does not subtract", kind="ufunc-types")
    return diff(t, ravel(t, arr))


# --- NaN-aware --------------------------------------------------------------------------------------------------------

def _replaced(t: Typer, arr: Arr, value: float) -> Arr:
    """The array with NaN replaced."""
    if arr.dtype[0] != "f":
        return arr
    native = COMPUTE[arr.dtype]
    return as_array(t, elementwise(t, [arr], arr.dtype, lambda body, s: body.op(
        "select", native, body.op("isnan", native, s[0]), body.const(value, native), s[0])))


@rule("np.nansum")
def nansum(t: Typer, a: Value, axis: Value = NONE, dtype: Value = NONE, out: Value = NONE, keepdims: Value = NONE) -> Value:
    return RULES["np.sum"](t, _replaced(t, as_array(t, a), 0.0), axis, dtype, out, keepdims)


@rule("np.nanprod")
def nanprod(t: Typer, a: Value, axis: Value = NONE, dtype: Value = NONE, out: Value = NONE, keepdims: Value = NONE) -> Value:
    return RULES["np.prod"](t, _replaced(t, as_array(t, a), 1.0), axis, dtype, out, keepdims)


@rule("np.nanmean")
def nanmean(t: Typer, a: Value, axis: Value = NONE, dtype: Value = NONE, out: Value = NONE, keepdims: Value = NONE) -> Value:
    arr = as_array(t, a)
    if arr.dtype[0] != "f" or given(dtype) or given(out):
        return RULES["np.mean"](t, arr, axis, dtype, out, keepdims)
    total = RULES["np.sum"](t, _replaced(t, arr, 0.0), axis, NONE, NONE, keepdims)
    held = elementwise(t, [arr], "bool", lambda body, s: body.op("not", "bool", body.op("isnan", COMPUTE[arr.dtype], s[0])))
    return divide_by(t, total, RULES["np.sum"](t, held, axis, NONE, NONE, keepdims), arr.dtype)


@rule("np.nan_to_num")
def nan_to_num(t: Typer, x: Value, copy: Value = NONE, nan: Value = NONE, posinf: Value = NONE, neginf: Value = NONE) -> Value:
    if given(copy) and not t.is_true(copy):
        raise PlanRefused("np.nan_to_num in place", kind="kernel:np.nan_to_num")
    if not isinstance(x, (Arr, Num)) or x.dtype[0] != "f":
        arr = as_array(t, as_numpy(t, x) if isinstance(x, Num) and x.python else x)
        return t.copy(arr) if arr.ndim else t.load(arr)
    dtype, native = x.dtype, COMPUTE[x.dtype]
    info = np.finfo(np.float32 if native == "f32" else np.float64)
    chosen = []
    for value, default in ((nan, 0.0), (posinf, float(info.max)), (neginf, float(info.min))):
        if given(value) and not (isinstance(value, Num) and value.is_constant):
            raise PlanRefused("np.nan_to_num with values known at run time", kind="kernel:np.nan_to_num")
        chosen.append(float(value.constant) if isinstance(value, Num) else default)

    def expression(body: Any, s: list[Any]) -> Any:
        big = body.op("select", native, body.op("isinf", native, s[0]), body.op(
            "select", native, body.op("signbit", native, s[0]), body.const(chosen[2], native), body.const(chosen[1], native)),
            s[0])
        return body.op("select", native, body.op("isnan", native, s[0]), body.const(chosen[0], native), big)
    return elementwise(t, [x], dtype, expression)


# --- rounding, elementwise --------------------------------------------------------------------------------------------

@rule("np.fix")
def fix(t: Typer, x: Value, out: Value = NONE) -> Value:
    _no("fix", out)
    return ufunc(t, "trunc", [x])


@rule("np.heaviside")
def heaviside(t: Typer, x1: Value, x2: Value, *rest: Value) -> Value:
    only_defaults("heaviside", rest)
    from .rules_elementwise import resolve_dtypes, weak_dtype
    dtype = resolve_dtypes("heaviside", (weak_dtype(x1), weak_dtype(x2)))[-1]
    native = COMPUTE[dtype]

    def expression(body: Any, s: list[Any]) -> Any:
        x, middle = body.cast(s[0], native), body.cast(s[1], native)
        zero, one = body.const(0.0, native), body.const(1.0, native)
        side = body.op("select", native, body.op("lt", native, x, zero), zero, one)
        side = body.op("select", native, body.op("eq", native, x, zero), middle, side)
        return body.op("select", native, body.op("isnan", native, x), x, side)
    return elementwise(t, [x1, x2], dtype, expression)


@rule("np.float_power")
def float_power(t: Typer, x1: Value, x2: Value, *rest: Value) -> Value:
    only_defaults("float_power", rest)
    return ufunc(t, "power", [elementwise(t, [v], "f64", lambda body, s: body.cast(s[0], "f64")) for v in (x1, x2)])


@rule("np.isclose")
def isclose(t: Typer, a: Value, b: Value, rtol: Value = NONE, atol: Value = NONE, equal_nan: Value = NONE) -> Value:
    parts: list[Any] = [a if isinstance(a, Num) else as_array(t, a), b if isinstance(b, Num) else as_array(t, b)]
    if parts[1].dtype[0] in "iub":  # NumPy compares with a float of the second operand
        is_python = isinstance(parts[1], Num) and parts[1].python
        parts[1] = float_(t, parts[1]) if is_python else ufunc(t, "multiply", [parts[1], python_float(1.0)])
    x, y = parts
    r, least = rtol if given(rtol) else python_float(1e-5), atol if given(atol) else python_float(1e-8)
    size = RULES["py.abs"]
    allowed = RULES["op.add"](t, least, RULES["op.mul"](t, r, size(t, y)))
    near = ufunc(t, "less_equal", [size(t, RULES["op.sub"](t, x, y)), allowed])
    near = ufunc(t, "bitwise_and", [near, ufunc(t, "isfinite", [y])])
    near = ufunc(t, "bitwise_or", [near, ufunc(t, "equal", [x, y])])
    if given(equal_nan) and t.is_true(equal_nan):
        near = ufunc(t, "bitwise_or", [near, ufunc(t, "bitwise_and", [ufunc(t, "isnan", [x]), ufunc(t, "isnan", [y])])])
    return near


@rule("np.allclose")
def allclose(t: Typer, *args: Value) -> Value:
    return bool_(t, RULES["np.all"](t, isclose(t, *args)))


@rule("np.array_equal")
def array_equal(t: Typer, a1: Value, a2: Value, equal_nan: Value = NONE) -> Value:
    if given(equal_nan) and t.is_true(equal_nan):
        raise PlanRefused("np.array_equal with equal_nan=True", kind="kernel:np.array_equal")
    a, b = as_array(t, a1), as_array(t, a2)
    if a.ndim != b.ndim or not all(t.facts.ask_equal(x, y) for x, y in zip(a.shape, b.shape, strict=True)):
        return python_bool(False)
    return bool_(t, RULES["np.all"](t, ufunc(t, "equal", [a, b])))


@rule("np.average")
def average(t: Typer, a: Value, axis: Value = NONE, weights: Value = NONE, returned: Value = NONE,
            keepdims: Value = NONE) -> Value:
    if given(returned) and t.is_true(returned):
        raise PlanRefused("np.average with returned=True", kind="kernel:np.average")
    if not given(weights):
        value = RULES["np.mean"](t, a, axis, NONE, NONE, keepdims)
        if isinstance(value, Arr) and not all(t.facts.ask_less_equal(1, e) for e in value.shape):
            raise PlanRefused("NumPy divides by the number of averages", kind="python-error")
        return value
    arr, w = as_array(t, a), as_array(t, weights)
    if arr.dtype[0] in "iub" or w.dtype != arr.dtype:
        raise PlanRefused("np.average of these dtypes", kind="kernel:np.average")
    axes = reduced_axes(t, arr, axis)
    if w.ndim != arr.ndim:
        if w.ndim != 1 or len(axes) != 1:
            raise PlanRefused("np.average with weights of another shape", kind="kernel:np.average")
        for _ in range(arr.ndim - 1 - axes[0]):
            w = expand_dims(t, w, python_int(const(w.ndim)))  # type: ignore[assignment]
        w = Arr(t.broadcast_view(w.view, arr.shape))
    where: Value = Seq([python_int(const(i)) for i in axes], "tuple")
    total = RULES["np.sum"](t, w, where, NONE, NONE, keepdims)
    nothing = t.truth(RULES["np.any"](t, ufunc(t, "equal", [total, python_float(0.0)])))
    if nothing is True:
        raise PlanRefused("weights that sum to zero", kind="python-error")
    if nothing is not False:
        t.trap("ZERO_DIVISION", nothing)
    return ufunc(t, "divide", [RULES["np.sum"](t, ufunc(t, "multiply", [arr, w]), where, NONE, NONE, keepdims), total])


@rule("np.select")
def select_(t: Typer, condlist: Value, choicelist: Value, default: Value = NONE) -> Value:
    conditions, choices = t.children(condlist), t.children(choicelist)
    if len(conditions) != len(choices) or not conditions:
        raise PlanRefused("np.select of lists that do not fit", kind="value-error")
    if not all(isinstance(v, Arr) for v in choices) or not all(
            isinstance(v, Arr) and v.dtype == "bool" for v in conditions) or len({v.dtype for v in choices}) > 1:  # type: ignore[union-attr]
        raise PlanRefused("np.select of scalars", kind="kernel:np.select")
    out: Value = default if given(default) else python_int(const(0))
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        out = RULES["np.where"](t, condition, choice, out)
    return out


# --- stores by name ---------------------------------------------------------------------------------------------------

@rule("np.copyto")
def copyto(t: Typer, dst: Value, src: Value, casting: Value = NONE, where: Value = NONE) -> Value:
    if not isinstance(dst, Arr) or not isinstance(src, (Arr, Num)) or (given(where) and not (
            isinstance(where, Num) and where.is_constant and where.constant) and not isinstance(where, Arr)):
        raise PlanRefused("np.copyto with these arguments", kind="kernel:np.copyto")
    from .rules_elementwise import into_out
    if isinstance(src, Num):
        check_weak(t, src, dst.dtype)
        if src.python:
            if {"bool": "biuf", "int": "iuf", "float": "f"}[src.python].find(dst.dtype[0]) < 0:
                raise PlanRefused("np.copyto of a value that NumPy refuses to cast", kind="ufunc-types")
            src = elementwise(t, [src], dst.dtype, lambda body, s: cast_to(body, s[0], dst.dtype))
    return _nothing(into_out(t, src, dst, where if isinstance(where, Arr) else None))


def _nothing(_value: Value) -> Value:
    return NONE


@rule("np.putmask")
def putmask(t: Typer, a: Value, mask: Value, values: Value) -> Value:
    if not isinstance(a, Arr) or not isinstance(mask, Arr) or mask.dtype != "bool" or not isinstance(values, Num):
        raise PlanRefused("np.putmask with these arguments", kind="kernel:np.putmask")
    return store(t, a, mask, values)


@rule("arr.fill")
def fill(t: Typer, a: Value, value: Value) -> Value:
    if isinstance(value, Arr) and value.ndim:
        raise PlanRefused("fill with an array", kind="kernel:arr.fill")
    return store(t, a, Static(...), value)


@rule("np.fill_diagonal")
def fill_diagonal(t: Typer, a: Value, val: Value, wrap: Value = NONE) -> Value:
    if not isinstance(a, Arr) or a.ndim != 2 or not isinstance(val, Num) or (given(wrap) and t.is_true(wrap)):
        raise PlanRefused("np.fill_diagonal with these arguments", kind="kernel:np.fill_diagonal")
    return store(t, main_diagonal(a), Static(...), val)


# --- joins and pieces -------------------------------------------------------------------------------------------------

@rule("np.append")
def append(t: Typer, arr: Value, values: Value, axis: Value = NONE) -> Value:
    parts = [as_array(t, v) for v in (arr, values)]
    if not given(axis):
        return join(t, [ravel(t, p) for p in parts], 0)  # type: ignore[misc]
    return join(t, parts, t.axis_of(axis, parts[0].ndim))


@rule("np.dstack")
def dstack(t: Typer, tup: Value) -> Value:
    parts: list[Any] = []
    for v in t.children(tup):
        arr: Any = as_array(t, v)
        if arr.ndim < 2:
            arr = expand_dims(t, arr, python_int(const(0)))
            if arr.ndim < 2:
                arr = expand_dims(t, arr, python_int(const(0)))
        parts.append(expand_dims(t, arr, python_int(const(2))) if arr.ndim == 2 else arr)
    return join(t, parts, 2)


def _split_along(name: str, axis: int) -> None:
    def split(t: Typer, ary: Value, sections: Value) -> Value:
        arr = as_array(t, ary)
        where = 0 if name == "hsplit" and arr.ndim == 1 else axis
        if arr.ndim <= where:
            raise PlanRefused(f"np.{name} of too few axes", kind="value-error")
        return RULES["np.split"](t, arr, sections, python_int(const(where)))
    rule(f"np.{name}")(split)


_split_along("hsplit", 1)
_split_along("vsplit", 0)
_split_along("dsplit", 2)


@rule("np.rot90")
def rot90(t: Typer, m: Value, k: Value = NONE, axes: Value = NONE) -> Value:
    arr = as_array(t, m)
    if (given(axes) and [t.known_int(v) for v in t.children(axes)] != [0, 1]) or arr.ndim < 2:
        raise PlanRefused("np.rot90 in another plane", kind="kernel:np.rot90")
    turns = (t.known_int(k) if given(k) else 1) % 4
    swap = (1, 0, *range(2, arr.ndim))
    rows, columns = python_int(const(0)), python_int(const(1))
    if turns == 1:
        return permute(flip(t, arr, columns), swap)  # type: ignore[arg-type]
    if turns == 2:
        return flip(t, flip(t, arr, rows), columns)
    return flip(t, permute(arr, swap), columns) if turns == 3 else t.subscript(arr, FULL)


@rule("np.lib.stride_tricks.sliding_window_view")
def sliding_window_view(t: Typer, x: Value, window: Value, axis: Value = NONE) -> Value:
    arr = as_array(t, x)
    sizes = [t.int_expr(v) for v in (t.children(window) if t.is_sequence(window) else [window])]
    if given(axis):
        axes = [t.axis_of(v, arr.ndim) for v in (t.children(axis) if t.is_sequence(axis) else [axis])]
    else:
        axes = list(range(arr.ndim))
    if len(axes) != len(sizes):
        raise PlanRefused("a window for other axes than the array has", kind="value-error")
    v = arr.view
    shape, strides = list(v.shape), list(v.strides)
    for i, n in zip(axes, sizes, strict=True):
        if not t.facts.ask_less_equal(n, shape[i]) or not t.facts.ask_less_equal(0, n):
            raise PlanRefused("a window wider than the array", kind="value-error")
        shape[i] = shape[i] - n + 1
        shape.append(n)
        strides.append(v.strides[i])
    t.shown_read_only.add(v.buffer)
    return Arr(v.window(tuple(map(t.facts.norm, shape)), tuple(strides)).read_only())


@rule("np.convolve")
def convolve(t: Typer, a: Value, v: Value, mode: Value = NONE) -> Value:
    name = mode.value if isinstance(mode, Static) and given(mode) else "full"
    first, second = as_array(t, a), as_array(t, v)
    if first.ndim != 1 or second.ndim != 1 or name not in ("full", "valid", "same"):
        raise PlanRefused("np.convolve of these arguments", kind="kernel:np.convolve")
    for e in (first.shape[0], second.shape[0]):
        if not t.facts.ask_less_equal(1, e):
            raise PlanRefused("np.convolve of nothing", kind="value-error")
    if not t.facts.ask_less_equal(second.shape[0], first.shape[0]):
        first, second = second, first
    n = second.shape[0]
    pad = n - 1
    if name == "full":
        sides: Any = (pad, pad)
    elif name == "valid":
        sides = (const(0), const(0))
    else:
        left = floordiv(n, 2)
        sides = (left, pad - left)
    wide = first if name == "valid" else RULES["np.pad"](t, first, Seq(
        [Seq([python_int(e) for e in sides], "tuple")], "tuple"))
    if name != "valid" and second.dtype[0] == "f":  # a padded zero times an infinity would be a NaN
        finite = t.load(as_array(t, RULES["np.all"](t, ufunc(t, "isfinite", [second]), NONE, NONE, python_bool(True))))
        body = t.scalar_body()
        t.trap("INTERPRET", body.op("not", "bool", t.scalar_slot(body, finite)))
    windows = sliding_window_view(t, wide, python_int(n))
    from .rules_linear import product
    with t.unrounded():
        return product(t, windows, flip(t, second))  # type: ignore[arg-type]


# --- grids ------------------------------------------------------------------------------------------------------------

@rule("np.meshgrid")
def meshgrid(t: Typer, xi: Value, copy: Value = NONE, sparse: Value = NONE, indexing: Value = NONE) -> Value:
    if (given(sparse) and t.is_true(sparse)) or (given(copy) and not t.is_true(copy)):
        raise PlanRefused("np.meshgrid with sparse= or copy=", kind="kernel:np.meshgrid")
    parts = [as_array(t, v) for v in t.children(xi)]
    by_matrix = isinstance(indexing, Static) and indexing.value == "ij"
    n = len(parts)
    order = list(range(n))
    if not by_matrix and n >= 2:
        order[:2] = [1, 0]
    flat = [ravel(t, p) for p in parts]
    shape = [flat[order[i]].shape[0] for i in range(n)]  # type: ignore[union-attr]
    out: list[Value] = []
    for i, p in enumerate(flat):
        assert isinstance(p, Arr)
        strides = [const(0)] * n
        strides[order.index(i)] = p.view.strides[0]
        out.append(t.copy(Arr(View(p.view.buffer, p.dtype, tuple(shape), tuple(strides), p.view.offset))))
    return Seq(out, "tuple")


@rule("np.mgrid")
def mgrid(t: Typer, index: Value) -> Value:
    parts = t.children(index) if isinstance(index, Seq) else [index]
    ranges: list[tuple[Expr, Expr]] = []
    for part in parts:
        if not isinstance(part, SliceV) or given(part.step):
            raise PlanRefused("np.mgrid with steps", kind="kernel:np.mgrid")
        start = t.int_expr(part.start) if given(part.start) else const(0)
        length = t.int_expr(part.stop) - start
        if not t.facts.ask_less_equal(0, length):
            length = const(0)
        ranges.append((start, length))
    shape = tuple(t.facts.norm(n) for _, n in ranges)
    if not isinstance(index, Seq):
        return _counted(t, shape, 0, ranges[0][0])
    return _stacked(t, shape, [start for start, _ in ranges])


@rule("np.indices")
def indices(t: Typer, dimensions: Value, dtype: Value = NONE, sparse: Value = NONE) -> Value:
    _no("indices", dtype if not (isinstance(dtype, Static) and dtype.value in (int, np.int64)) else NONE)
    if given(sparse) and t.is_true(sparse):
        raise PlanRefused("np.indices with sparse=True", kind="kernel:np.indices")
    from .rules_view import shape_arg
    shape = shape_arg(t, dimensions)
    return _stacked(t, shape, [const(0)] * len(shape))


def _stacked(t: Typer, shape: tuple[Expr, ...], starts: list[Expr]) -> Arr:
    out = t.new_temp((const(len(shape)), *shape), "i64")
    for axis, start in enumerate(starts):
        v = out.view
        target = View(v.buffer, "i64", shape, v.strides[1:], v.strides[0] * axis)
        _count_into(t, target, axis, start)
    return out


def _counted(t: Typer, shape: tuple[Expr, ...], axis: int, start: Expr) -> Arr:
    out = t.new_temp(shape, "i64")
    _count_into(t, out.view, axis, start)
    return out


def _count_into(t: Typer, target: View, axis: int, start: Expr) -> None:
    nest = NestBody()
    slot = nest.iota(axis)
    if t.facts.norm(start).value != 0:
        slot = nest.op("add", "i64", slot, t.scalar_slot(nest, python_int(start)))
    ops = nest.finish()
    t.emit(Nest(target.shape, nest.inputs, ops, [NestOut(nest.number(slot), "store", target)], t.pc))


@rule("np.tri")
def tri(t: Typer, n: Value, m: Value = NONE, k: Value = NONE, dtype: Value = NONE) -> Value:
    rows = t.int_expr(n)
    cols = t.int_expr(m) if given(m) else rows
    shift = t.int_expr(k) if given(k) else const(0)
    name = t.numpy_dtype(dtype) if given(dtype) else "f64"
    for e in (rows, cols):
        if not t.facts.ask_less_equal(0, e):
            raise PlanRefused("a negative extent", kind="shape-error")
    return indexed(t, (rows, cols), name, lambda body, i: body.op(
        "le", "i64", body.op("sub", "i64", i[1], i[0]), t.scalar_slot(body, python_int(shift))))


# --- scalars of arrays ------------------------------------------------------------------------------------------------

@rule("arr.item")
def item(t: Typer, a: Value, index: Value = NONE) -> Value:
    if given(index):
        arr = as_array(t, a)
        a = t.subscript(arr if t.is_sequence(index) else ravel(t, arr), index)
    if isinstance(a, Arr):
        if not all(t.facts.ask_equal(e, 1) for e in a.shape):
            raise PlanRefused("item() of several elements", kind="value-error")
        a = t.load(a)
    if not isinstance(a, Num):
        raise PlanRefused("item() of something that is no array", kind="operand")
    kernel = {"b": "py.bool", "i": "py.int", "u": "py.int", "f": "py.float"}["f" if is_float(a.dtype) else a.dtype[0]]
    return RULES[kernel](t, a)


@rule("arr.conj", "arr.conjugate")
def conjugate(t: Typer, a: Value) -> Value:
    if not isinstance(a, (Arr, Num)):  # Python's complex arguments among them
        raise PlanRefused("the conjugate of something that is no array", kind="operand")
    if isinstance(a, Num) and a.python == "bool":
        return t.apply("op.pos", a)
    return a  # of real numbers it is the array itself


@rule("np.real")
def real(t: Typer, val: Value) -> Value:
    if not isinstance(val, (Arr, Num)) or (isinstance(val, Num) and val.python):
        raise PlanRefused("np.real of this value", kind="kernel:np.real")
    return val


@attribute("imag")
def imag(t: Typer, a: Value) -> Value:
    raise PlanRefused("the imaginary part of real numbers", kind="attribute")




@rule("np.array_split")
def array_split(t: Typer, ary: Value, sections: Value, axis: Value = NONE) -> Value:
    """Parts whose extents differ by one at most; the longer ones come first."""
    arr = as_array(t, ary)
    where = t.axis_of(axis if given(axis) else python_int(const(0)), arr.ndim)
    if t.is_sequence(sections):
        return RULES["np.split"](t, arr, sections, python_int(const(where)))
    count = t.known_int(sections)
    if count < 1:
        raise PlanRefused("np.array_split into no parts", kind="value-error")
    n = t.facts.norm(arr.shape[where])
    cuts = [floordiv(n, count) * i + emin(const(i), mod(n, count)) for i in range(1, count)]
    return RULES["np.split"](t, arr, Seq([python_int(e) for e in cuts], "list"), python_int(const(where)))


def taken(t: Typer, arr: Arr, axis: int, n: Expr, place: Any) -> Arr:
    """The elements at place(body, index) along an axis, n of them."""
    at = indexed(t, (n,), "i64", lambda body, i: place(body, i[0]))
    index: list[Value] = [FULL] * arr.ndim
    index[axis] = at
    return t.subscript(arr, Seq(index, "tuple"))  # type: ignore[return-value]


def pad_by_copying(t: Typer, arr: Arr, pairs: list[tuple[Expr, Expr]], mode: str) -> Arr:
    """np.pad in a mode that repeats elements of the array."""
    for axis, (lo, hi) in enumerate(pairs):
        n = arr.shape[axis]
        if t.facts.norm(lo).value == 0 and t.facts.norm(hi).value == 0:
            continue
        if not t.facts.ask_less_equal(2 if mode == "reflect" else 1, n):
            raise PlanRefused("np.pad of too few elements", kind="kernel:np.pad")

        def place(body: Any, i: Any, lo: Expr = lo, n: Expr = n) -> Any:
            def number(e: Expr) -> Any:
                return t.scalar_slot(body, python_int(t.facts.norm(e)))
            x = body.op("sub", "i64", i, number(lo))
            if mode == "edge":
                return body.op("minimum", "i64", body.op("maximum", "i64", x, number(const(0))), number(n - 1))
            if mode == "wrap":
                return body.op("mod", "i64", x, number(n))
            last = 2 * n - 2 if mode == "reflect" else 2 * n - 1
            x = body.op("mod", "i64", x, number(2 * n - 2 if mode == "reflect" else 2 * n))
            return body.op("minimum", "i64", x, body.op("sub", "i64", number(last), x))
        arr = taken(t, arr, axis, t.facts.norm(n + lo + hi), place)
    return arr


# --- functions of the array API, which are others under new names ------------------------------------------------------

@rule("np.astype")
def astype(t: Typer, x: Value, dtype: Value, copy: Value | None = None) -> Value:
    if not isinstance(x, Arr):
        raise PlanRefused("np.astype of something that is no array", kind="operand")
    copy = python_bool(True) if copy is None else copy
    return RULES["arr.astype"](t, x, dtype, Static("K"), Static("unsafe"), python_bool(True), copy)


def _cumulative(name: str, kernel: str) -> None:
    def cumulative(t: Typer, x: Value, axis: Value = NONE, dtype: Value = NONE, out: Value = NONE,
                   include_initial: Value = NONE) -> Value:
        arr = as_array(t, x)
        if given(include_initial) and t.is_true(include_initial):
            raise PlanRefused(f"{name} with include_initial=True", kind=f"kernel:{name}")
        if not arr.ndim or (not given(axis) and arr.ndim > 1):
            raise PlanRefused(f"{name} along no axis", kind="value-error")
        return RULES[kernel](t, arr, axis if given(axis) else python_int(const(0)), dtype, out)
    rule(name)(cumulative)


_cumulative("np.cumulative_sum", "np.cumsum")
_cumulative("np.cumulative_prod", "np.cumprod")


@rule("np.linalg.outer")
def linalg_outer(t: Typer, x1: Value, x2: Value) -> Value:
    a, b = as_array(t, x1), as_array(t, x2)
    if a.ndim != 1 or b.ndim != 1:
        raise PlanRefused("np.linalg.outer of other than vectors", kind="value-error")
    return RULES["np.outer"](t, a, b)


@rule("np.linalg.diagonal")
def linalg_diagonal(t: Typer, x: Value, offset: Value = NONE) -> Value:
    return RULES["np.diagonal"](t, x, offset if given(offset) else python_int(const(0)), python_int(const(-2)),
                                python_int(const(-1)))


@rule("np.linalg.trace")
def linalg_trace(t: Typer, x: Value, offset: Value = NONE, dtype: Value = NONE) -> Value:
    return RULES["np.trace"](t, x, offset if given(offset) else python_int(const(0)), python_int(const(-2)),
                             python_int(const(-1)), dtype)


@rule("np.asarray_chkfinite")
def asarray_chkfinite(t: Typer, a: Value, dtype: Value = NONE, order: Value = NONE) -> Value:
    arr = as_array(t, RULES["np.asarray"](t, a, dtype, order))
    if is_float(arr.dtype):
        finite = RULES["np.all"](t, ufunc(t, "isfinite", [arr]), NONE, NONE, NONE)
        body = t.scalar_body()
        t.trap("INTERPRET", body.op("not", "bool", t.scalar_slot(body, finite)))
    return arr
