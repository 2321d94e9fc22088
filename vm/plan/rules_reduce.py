"""Reductions: sums, extrema, statistics, positions of extrema, scans."""

from __future__ import annotations

import math
from collections.abc import Callable
from math import prod
from typing import Any

from .body import NestBody, truth
from .extents import ONE, ZERO, Expr, compare, const
from .planner_errors import PlanRefused
from .rules_elementwise import as_array, check_weak, elementwise, given, ufunc
from .rules_view import any_diagonal, axes_of
from .steps import (
    ITEM_BYTES,
    ForStep,
    IfStep,
    Literal,
    Nest,
    NestOut,
    ScalarOpStep,
    ScalarReg,
    SetStep,
    StoreStep,
    View,
    contiguous_strides,
)
from .typed import NONE, Typer, rule
from .values import COMPUTE, Arr, Num, Seq, Value, python_int

Map1 = Callable[[Any, Any], Any]


def reduce_nest(t: Typer, a: Arr, axes: tuple[int, ...], kind: str, dtype: str, keepdims: bool,
                prepare: Map1 | None = None) -> Value:
    """Reduce `prepare(element)` over axes into memory `dtype`; no axis left gives a NumPy scalar."""
    origin = a.origin
    nest = NestBody()
    mask_view = None
    if 0 in axes and not keepdims and kind in _NEUTRAL and a.origin is not None:
        dense = _without_taking_out(t, a, axes)
        if dense is not None:  # what the mask does not hold counts as nothing
            a, axes, mask_view = dense
    slot = nest.view(a.view)
    if prepare is not None:
        slot = prepare(nest, slot)
    if kind not in ("argmax", "argmin"):
        slot = nest.cast(slot, COMPUTE[dtype])
    if mask_view is not None:
        native = COMPUTE[dtype]
        number = _NEUTRAL[kind]
        neutral: float | int | bool = float(number) if native[0] == "f" else bool(number) if native == "bool" else number
        slot = nest.op("select", native, nest.view(mask_view), slot, nest.const(neutral, native))
    kept = tuple([ONE if i in axes else e for i, e in enumerate(a.shape)])
    out = t.new_temp(kept, dtype)
    mask = 0
    strides = []
    for i, stride in enumerate(out.view.strides):
        mask |= (i in axes) << i
        strides.append(ZERO if i in axes else stride)
    ops = nest.finish()
    target = View(out.view.buffer, dtype, a.shape, tuple(strides), ZERO)
    outs = [NestOut(nest.number(slot), kind, target, reduced=mask)]
    count = None
    if mask_view is not None and origin is not None and origin.count is None and len(axes) == a.ndim:
        # how many they are comes with it: a mean asks
        number = nest.cast(nest.view(mask_view), "i64")
        ops = nest.finish()
        count = t.new_temp((), "i64")
        zeros = tuple([const(0)] * a.ndim)
        outs = [NestOut(nest.number(slot), kind, target, reduced=mask),
                NestOut(nest.number(number), "sum", View(count.view.buffer, "i64", a.shape, zeros, const(0)), reduced=mask)]
    t.emit(Nest(a.shape, nest.inputs, ops, outs, t.pc))
    if count is not None and origin is not None:
        origin.count = t.int_expr(t.load(count))
    if keepdims and a.ndim:
        return out
    left = tuple(i for i in range(a.ndim) if i not in axes)
    shape = tuple(a.shape[i] for i in left)
    view = View(out.view.buffer, dtype, shape, contiguous_strides(shape, ITEM_BYTES[dtype]), const(0))
    out.view.buffer.home = view
    return Arr(view) if shape else t.load(Arr(view))


_NEUTRAL = {"sum": 0, "prod": 1, "any": 0, "all": 1}


def _without_taking_out(t: Typer, a: Arr, axes: tuple[int, ...]) -> tuple[Arr, tuple[int, ...], View] | None:
    """For the elements of a mask: (all elements, axes to reduce, the mask over them)."""
    from .rules_select import selected
    origin = selected(t, a)
    if origin is None:
        return None
    dense, n = origin.dense(), origin.mask.ndim
    if dense.ndim != a.ndim - 1 + n:
        return None
    v = origin.mask.view
    mask = View(v.buffer, v.dtype, dense.shape, (*v.strides, *([const(0)] * (dense.ndim - n))), v.offset)
    return dense, (*range(n), *(i + n - 1 for i in axes if i)), mask


def reduced_axes(t: Typer, a: Arr, axis: Value, *, has_ufunc: bool = False) -> tuple[int, ...]:
    """The axes that an `axis=` argument names; None: all. has_ufunc: axis 0 of an array without axes is none of them."""
    if not given(axis):
        return tuple(range(a.ndim))
    if has_ufunc and not a.ndim and isinstance(axis, Num) and t.known_int(axis) in (0, -1):
        return ()
    axes = axes_of(t, axis, a.ndim)
    if len(set(axes)) != len(axes):
        raise PlanRefused("a repeated axis", kind="axis-error")
    return axes


def _flag(t: Typer, value: Value) -> bool:
    return given(value) and t.is_true(value)


def _masked(t: Typer, arr: Arr, where: Value, neutral: Any, dtype: str) -> Arr:
    """The array with what `where=` leaves out replaced by a neutral element of memory `dtype`."""
    if not given(where) or (isinstance(where, Num) and where.is_constant and where.constant):
        return arr
    if not isinstance(where, (Arr, Num)) or where.dtype != "bool":
        raise PlanRefused("where= that is no bool array", kind="reduce-option:where")
    native = COMPUTE[dtype]
    value = {"f": float, "i": int, "b": bool}[native[0]](neutral)
    picked = elementwise(t, [where, arr], dtype, lambda body, s: body.op(
        "select", native, s[0], body.cast(s[1], native), body.const(value, native)))
    found = as_array(t, picked)
    if found.ndim != arr.ndim or not all(t.facts.ask_equal(x, y) for x, y in zip(found.shape, arr.shape, strict=True)):
        raise PlanRefused("where= that is wider than the array", kind="reduce-option:where")
    return found


def _into(t: Typer, value: Value, out: Value) -> Value:
    """Store a reduction into its `out=` array."""
    if not given(out):
        return value
    if isinstance(out, Seq) and len(out.items) == 1:
        out = out.items[0]
    if not isinstance(out, Arr) or not isinstance(value, (Arr, Num)):
        raise PlanRefused("out= that is no array", kind="reduce-option:out")
    shape = value.shape if isinstance(value, Arr) else ()
    if out.ndim != len(shape) or not all(t.facts.ask_equal(x, y) for x, y in zip(shape, out.shape, strict=True)):
        raise PlanRefused("out= of another shape", kind="reduce-option:out")
    if out.dtype != value.dtype:
        raise PlanRefused("out= of another dtype decides what is computed in", kind="reduce-option:out")
    t.write_view(out, value)
    return out


def _sum_dtype(t: Typer, a: Arr, dtype: Value) -> str:
    if given(dtype):
        return t.numpy_dtype(dtype)
    if a.dtype in ("bool", "i8", "i16", "i32", "i64"):
        return "i64"
    if a.dtype in ("u8", "u16", "u32"):
        t.has_odd = True
        return "u64"
    return a.dtype


def _sum_like(kind: str, name: str) -> None:
    def reduction(t: Typer, a: Value, axis: Value = NONE, dtype: Value = NONE, out: Value = NONE,
                  keepdims: Value = NONE, initial: Value = NONE, where: Value = NONE) -> Value:
        arr = as_array(t, a)
        memory = _sum_dtype(t, arr, dtype)
        axes = reduced_axes(t, arr, axis, has_ufunc=True)
        arr = _masked(t, arr, where, _NEUTRAL[kind], memory)
        value = reduce_nest(t, arr, axes, kind, memory, _flag(t, keepdims))
        if given(initial):
            value = _with_initial(t, "add" if kind == "sum" else "multiply", value, initial, memory)
        return _into(t, value, out)
    rule(f"np.{name}", f"arr.{name}")(reduction)


def _with_initial(t: Typer, name: str, value: Value, initial: Value, memory: str) -> Value:
    if not isinstance(initial, Num):
        raise PlanRefused("initial= that is no scalar", kind="reduce-option:initial")
    result = ufunc(t, name, [value, initial if initial.python else Num(initial.operand, initial.dtype)])
    if result.dtype != memory:  # type: ignore[union-attr]
        raise PlanRefused("initial= of another dtype", kind="reduce-option:initial")
    return result


_sum_like("sum", "sum")
_sum_like("prod", "prod")


def require_elements(t: Typer, arr: Arr, axes: tuple[int, ...]) -> None:
    """An extremum of nothing raises in NumPy: the interpreter serves it."""
    for i in axes:
        extent = t.facts.norm(arr.shape[i])
        if not extent.is_entry and t.facts.is_less_equal(1, extent) is None:
            t.trap("VALUE", compare("lt", extent, 1), "zero-size array to reduction operation which has no identity")
        elif not t.facts.ask_less_equal(1, extent):
            raise PlanRefused("an extremum of no elements", kind="value-error")


def _extreme(kind: str, *names: str) -> None:
    def reduction(t: Typer, a: Value, axis: Value = NONE, out: Value = NONE, keepdims: Value = NONE,
                  initial: Value = NONE, where: Value = NONE) -> Value:
        arr = as_array(t, a)
        axes = reduced_axes(t, arr, axis, has_ufunc=True)
        if given(where) and not (isinstance(where, Num) and where.is_constant and where.constant):
            if not isinstance(initial, Num) or not initial.is_constant:
                raise PlanRefused(f"{kind} with where= needs initial=", kind=f"reduce-option:{kind}")
            check_weak(t, initial, arr.dtype)
            arr = _masked(t, arr, where, initial.constant, arr.dtype)
        if not given(initial):
            require_elements(t, arr, axes)
        elif not all(t.facts.ask_less_equal(1, arr.shape[i]) for i in axes):
            raise PlanRefused("an extremum of no elements with initial=", kind=f"reduce-option:{kind}")
        value = reduce_nest(t, arr, axes, kind, arr.dtype, _flag(t, keepdims))
        if given(initial):
            value = _with_initial(t, "maximum" if kind == "max" else "minimum", value, initial, arr.dtype)
        return _into(t, value, out)
    rule(*names)(reduction)


_extreme("max", "np.max", "np.amax", "arr.max")
_extreme("min", "np.min", "np.amin", "arr.min")


def _logical(kind: str) -> None:
    def reduction(t: Typer, a: Value, axis: Value = NONE, out: Value = NONE, keepdims: Value = NONE,
                  where: Value = NONE) -> Value:
        arr = as_array(t, a)
        axes = reduced_axes(t, arr, axis, has_ufunc=True)
        if given(where) and not (isinstance(where, Num) and where.is_constant and where.constant):
            arr = _masked(t, arr, where, _NEUTRAL[kind], arr.dtype)
        return _into(t, reduce_nest(t, arr, axes, kind, "bool", _flag(t, keepdims), truth), out)
    rule(f"np.{kind}", f"arr.{kind}")(reduction)


_logical("any")
_logical("all")


def _position(kind: str) -> None:
    def reduction(t: Typer, a: Value, axis: Value = NONE, out: Value = NONE, keepdims: Value = NONE) -> Value:
        from .rules_view import ravel, reshaped
        arr = as_array(t, a)
        if not arr.ndim and given(axis) and t.known_int(axis) in (0, -1) and not _flag(t, keepdims):
            axis = NONE
        ndim = arr.ndim if not given(axis) and _flag(t, keepdims) else 0
        if not given(axis):
            flat = ravel(t, arr)
            assert isinstance(flat, Arr)
            arr, axes = flat, (0,)
        else:
            axes = (t.axis_of(axis, arr.ndim),)
        require_elements(t, arr, axes)
        value = reduce_nest(t, arr, axes, kind, "i64", _flag(t, keepdims) and not ndim)
        if ndim:  # over all axes, and they stay
            return _into(t, reshaped(t, as_array(t, value), (const(1),) * ndim), out)
        if isinstance(value, Num):
            value = t.bounded(value, const(0), arr.shape[axes[0]] - 1)
        return _into(t, value, out)
    rule(f"np.{kind}", f"arr.{kind}")(reduction)


_position("argmax")
_position("argmin")


@rule("np.count_nonzero")
def count_nonzero(t: Typer, a: Value, axis: Value = NONE, keepdims: Value = NONE) -> Value:
    arr = as_array(t, a)
    return reduce_nest(t, arr, reduced_axes(t, arr, axis), "sum", "i64", _flag(t, keepdims), truth)


@rule("np.ptp")
def ptp(t: Typer, a: Value, axis: Value = NONE, out: Value = NONE, keepdims: Value = NONE) -> Value:
    from .typed import RULES
    if given(out) and not isinstance(out, Arr):
        raise PlanRefused("np.ptp into something that is no array", kind="kernel:np.ptp")
    extremes = [RULES[name](t, a, axis, NONE, keepdims) for name in ("np.max", "np.min")]
    return _into(t, ufunc(t, "subtract", extremes), out)


def _count(t: Typer, arr: Arr, axes: tuple[int, ...]) -> Expr:
    if 0 in axes and arr.origin is not None:
        from .rules_select import count_of, selected
        origin = selected(t, arr)
        if origin is not None:
            return t.facts.norm(prod((arr.shape[i] for i in axes if i), start=count_of(t, origin)))
    return t.facts.norm(prod((arr.shape[i] for i in axes), start=const(1)))


def count_of_axes(t: Typer, arr: Arr, axis: Value) -> Value:
    """How many elements an `axis=` argument reduces to one, as a Python integer."""
    return python_int(_count(t, arr, reduced_axes(t, arr, axis)))


def _mean_dtype(t: Typer, arr: Arr, dtype: Value) -> str:
    name = t.numpy_dtype(dtype) if given(dtype) else ("f64" if arr.dtype[0] in "biu" else arr.dtype)
    if name[0] != "f":
        raise PlanRefused("a mean in integers", kind="dtype")
    return name


def divide_by(t: Typer, value: Value, count: Value, dtype: str) -> Value:
    """value / count in `dtype`, as NumPy's mean divides."""
    native = COMPUTE[dtype]
    return elementwise(t, [value, count], dtype, lambda body, s: body.op(
        "div", native, body.cast(s[0], native), body.cast(s[1], native)), name=("mean", dtype))


@rule("np.mean", "arr.mean")
def mean(t: Typer, a: Value, axis: Value = NONE, dtype: Value = NONE, out: Value = NONE, keepdims: Value = NONE,
         where: Value = NONE) -> Value:
    arr = as_array(t, a)
    axes = reduced_axes(t, arr, axis)
    name = _mean_dtype(t, arr, dtype)
    if given(where) and not (isinstance(where, Num) and where.is_constant and where.constant):
        number = reduce_nest(t, _masked(t, _ones(t, arr), where, False, "bool"), axes, "sum", "i64", _flag(t, keepdims))
        arr = _masked(t, arr, where, 0, name)
        total = reduce_nest(t, arr, axes, "sum", name, _flag(t, keepdims))
        return _into(t, divide_by(t, total, number, name), out)
    total = reduce_nest(t, arr, axes, "sum", name, _flag(t, keepdims))
    return _into(t, divide_by(t, total, Num(_count(t, arr, axes), "i64", "int"), name), out)


def _ones(t: Typer, arr: Arr) -> Arr:
    from .rules_create import filled
    return filled(t, arr.shape, "bool", Num(Literal(True, "bool"), "bool"))


def _variance(t: Typer, a: Value, axis: Value, dtype: Value, out: Value, ddof: Value, keepdims: Value,
              where: Value) -> tuple[Value, str]:
    if given(where) and not (isinstance(where, Num) and where.is_constant and where.constant):
        raise PlanRefused("a variance with where=", kind="reduce-option:var")
    arr = as_array(t, a)
    axes = reduced_axes(t, arr, axis)
    name = _mean_dtype(t, arr, dtype)
    count = Num(_count(t, arr, axes), "i64", "int")
    native = COMPUTE[name]
    middle = divide_by(t, reduce_nest(t, arr, axes, "sum", name, True), count, name)

    def deviation(body: Any, slots: list[Any]) -> Any:
        d = body.op("sub", native, body.cast(slots[0], native), slots[1])
        return body.op("mul", native, d, d)

    squares = elementwise(t, [arr, middle], name, deviation, name=("deviation", name))
    total = reduce_nest(t, as_array(t, squares), axes, "sum", name, _flag(t, keepdims))
    if given(ddof) and not (isinstance(ddof, Num) and ddof.is_constant and ddof.constant == 0):
        if not isinstance(ddof, Num) or ddof.python != "int":
            raise PlanRefused("a ddof that is no integer", kind="reduce-option:var")
        left = t.int_expr(count) - t.int_expr(ddof)
        if not t.facts.ask_less_equal(0, left):
            left = const(0)
        count = Num(left, "i64", "int")
    return divide_by(t, total, count, name), name  # the caller stores it into out=


@rule("np.var", "arr.var")
def var(t: Typer, a: Value, axis: Value = NONE, dtype: Value = NONE, out: Value = NONE, ddof: Value = NONE,
        keepdims: Value = NONE, where: Value = NONE, mean: Value = NONE, correction: Value = NONE) -> Value:
    ddof = _correction(ddof, mean, correction)
    return _into(t, _variance(t, a, axis, dtype, out, ddof, keepdims, where)[0], out)


def _correction(ddof: Value, mean: Value, correction: Value) -> Value:
    """The degrees of freedom that a variance takes off, under either name."""
    if given(mean):
        raise PlanRefused("a variance about a mean that is given", kind="kernel:np.var")
    if given(correction) and given(ddof) and not (isinstance(ddof, Num) and ddof.is_constant and ddof.constant == 0):
        raise PlanRefused("ddof and correction both", kind="value-error")
    return correction if given(correction) else ddof


@rule("np.std", "arr.std")
def std(t: Typer, a: Value, axis: Value = NONE, dtype: Value = NONE, out: Value = NONE, ddof: Value = NONE,
        keepdims: Value = NONE, where: Value = NONE, mean: Value = NONE, correction: Value = NONE) -> Value:
    ddof = _correction(ddof, mean, correction)
    return _into(t, ufunc(t, "sqrt", [_variance(t, a, axis, dtype, out, ddof, keepdims, where)[0]]), out)


@rule("np.linalg.norm")
def norm(t: Typer, x: Value, ord_: Value = NONE, axis: Value = NONE, keepdims: Value = NONE) -> Value:
    arr = as_array(t, x)
    if given(ord_) and not (isinstance(ord_, Num) and ord_.is_constant and ord_.constant == 2 and (
            arr.ndim == 1 or (given(axis) and not t.is_sequence(axis)))):
        raise PlanRefused("a norm of this order", kind="kernel:np.linalg.norm")
    if given(axis) and t.is_sequence(axis) and len(t.children(axis)) > 2:
        raise PlanRefused("a norm over more than two axes", kind="axis-error")
    name = arr.dtype if arr.dtype[0] == "f" else "f64"
    native = COMPUTE[name]

    def square(body: Any, slot: Any) -> Any:
        slot = body.cast(slot, native)
        return body.op("mul", native, slot, slot)

    total = reduce_nest(t, arr, reduced_axes(t, arr, axis), "sum", name, _flag(t, keepdims), square)
    return ufunc(t, "sqrt", [total])


@rule("np.trace", "arr.trace")
def trace(t: Typer, a: Value, offset: Value = NONE, axis1: Value = NONE, axis2: Value = NONE, dtype: Value = NONE,
          out: Value = NONE) -> Value:
    from .typed import RULES
    return RULES["np.sum"](t, any_diagonal(t, as_array(t, a), offset, axis1, axis2), python_int(const(-1)), dtype, out)


@rule("np.cumsum", "arr.cumsum")
def cumsum(t: Typer, a: Value, axis: Value = NONE, dtype: Value = NONE, out: Value = NONE) -> Value:
    return running(t, a, axis, dtype, out, "add", "cumsum")


@rule("np.cumprod", "arr.cumprod")
def cumprod(t: Typer, a: Value, axis: Value = NONE, dtype: Value = NONE, out: Value = NONE) -> Value:
    return running(t, a, axis, dtype, out, "mul", "cumprod")


def _neutral(op: str, native: str) -> float | int | bool:
    """What changes no value that it is added to, multiplied by or compared with."""
    is_float = native[0] == "f"
    if op in ("add", "mul"):
        if is_float:
            return -0.0 if op == "add" else 1.0  # -0.0 + x is x for every x
        return 0 if op == "add" else 1
    if native == "bool":
        return op == "minimum"
    if is_float:
        return -math.inf if op == "maximum" else math.inf
    least = -(1 << (31 if native == "i32" else 63))
    return least if op == "maximum" else -least - 1


_FEW = 8  # elements of an axis that is not worth loops over the others


def running(t: Typer, a: Value, axis: Value, dtype: Value, out: Value, op: str, name: str) -> Value:
    """A running sum, product or extremum: a loop along the axis. Each trip is a nest over the other axes; where the axis is the
    last one and long, whose elements lie side by side, each row has a loop of scalars instead."""
    from .rules_elementwise import into_out
    from .rules_view import ravel
    arr = as_array(t, a)
    if not given(axis):
        flat = ravel(t, arr)
        assert isinstance(flat, Arr)
        arr, where = flat, 0
    else:
        where = t.axis_of(axis, arr.ndim)
    if op in ("add", "mul"):
        memory = _sum_dtype(t, arr, dtype)
    else:
        memory = t.numpy_dtype(dtype) if given(dtype) else arr.dtype
    native = COMPUTE[memory]
    if native == "bool" and op in ("add", "mul"):
        raise PlanRefused(f"np.{name} in bool", kind="dtype")
    result = t.new_temp(arr.shape, memory)
    n = arr.shape[where]
    var = ScalarReg("i64", "scan")
    var.expr = t.facts.new_register("scan", 0, n - 1)
    outer, t.steps = t.steps, []
    rows: list[tuple[ScalarReg, Expr]] = []
    if where == arr.ndim - 1 and (arr.ndim == 1 or n.value is None or n.value > _FEW):
        x, y = arr.view, result.view
        for extent in arr.shape[:-1]:
            row = ScalarReg("i64", "row")
            row.expr = t.facts.new_register("row", 0, extent - 1)
            rows.append((row, extent))
            x, y = _at(x, 0, row.expr), _at(y, 0, row.expr)
        acc = ScalarReg(native, "acc")
        if native == "i64":
            acc.expr = t.facts.new_register("acc")
        fresh = t.load(Arr(_at(x, 0, var.expr)))
        body = t.scalar_body()
        slot = body.cast(t.scalar_slot(body, fresh), native)
        start = SetStep(acc, Literal(_neutral(op, native), native))
        t.emit(ScalarOpStep(op, acc, (acc, slot), native))
        t.emit(StoreStep(_at(y, 0, var.expr), acc))
        along: list[Any] = [start, ForStep(var, const(0), n, const(1), t.steps)]
        for row, extent in reversed(rows):
            along = [ForStep(row, const(0), extent, const(1), along)]
    else:
        head, then = NestBody(), NestBody()
        x = _at(arr.view, where, var.expr)
        y = _at(result.view, where, var.expr)
        slot = head.cast(head.view(x), native)
        ops = head.finish()
        one_trip: list[Any] = [Nest(x.shape, head.inputs, ops, [NestOut(head.number(slot), "store", y)], t.pc)]
        slot = then.op(op, native, then.view(_at(result.view, where, var.expr - 1)), then.cast(then.view(x), native))
        ops = then.finish()
        more: list[Any] = [Nest(x.shape, then.inputs, ops, [NestOut(then.number(slot), "store", y)], t.pc)]
        t.emit(IfStep(compare("eq", var.expr, 0), one_trip, more))
        along = [ForStep(var, const(0), n, const(1), t.steps)]
    t.steps = outer
    for step in along:
        t.emit(step)
    return into_out(t, result, out, None) if given(out) else result


def _at(view: View, axis: int, index: Expr) -> View:
    """The slice of a view at one position along an axis."""
    keep = [i for i in range(view.ndim) if i != axis]
    return View(view.buffer, view.dtype, tuple(view.shape[i] for i in keep), tuple(view.strides[i] for i in keep),
                view.offset + view.strides[axis] * index)


@rule("py.sum")
def py_sum(t: Typer, iterable: Value, start: Value | None = None) -> Value:
    from .typed import RULES
    total: Value = t.constant(0) if start is None or not given(start) else start
    if isinstance(iterable, Arr):
        if (start is not None and given(start)) or iterable.dtype not in ("f64", "f32", "i64") or not iterable.ndim or (
                not t.facts.ask_less_equal(1, iterable.shape[0])):
            raise PlanRefused("sum() over an array", kind="kernel:py.sum")
        return RULES["np.sum"](t, iterable, t.constant(0))
    for item in t.children(iterable):
        total = RULES["op.add"](t, total, item)
    return total
