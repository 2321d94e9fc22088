"""Results whose size depends on values: boolean reads, nonzero, compress. Counted while they are written."""

from __future__ import annotations

from collections.abc import Callable

from .body import NestBody
from .emitting import product_of
from .extents import Expr, const
from .planner_errors import PlanRefused
from .rules_elementwise import as_array, elementwise, given, truth
from .rules_view import ravel
from .steps import ForStep, IfStep, Literal, Nest, NestOut, ScalarReg, SetStep, Step, StoreStep, View
from .typed import NONE, Typer, rule
from .values import Arr, Num, Seq, Value


def mask_read(t: Typer, base: Arr, mask: Arr) -> Arr:
    """base[mask]: the elements (or sub-arrays) where a bool array over the leading axes holds, in C order."""
    rank = mask.ndim
    if not rank or rank > base.ndim or not all(
            t.facts.can_equal(x, y) for x, y in zip(mask.shape, base.shape, strict=False)):
        raise PlanRefused("a mask of another shape", kind="index-error")
    rest = base.shape[rank:]
    out = t.new_temp((_total(mask), *rest), base.dtype)

    def keep(index: list[Expr], at: Expr) -> None:
        source = _element(base.view, index)
        target = _element(out.view, [at])
        if rest:
            nest = NestBody()
            slot = nest.view(source)
            t.emit(Nest(rest, nest.inputs, [], [NestOut(nest.number(slot), "store", target)], t.pc))
        else:
            t.emit(StoreStep(target, t.load(Arr(source)).operand))

    count = _for_each_set(t, mask, keep)
    v = out.view
    return Arr(View(v.buffer, v.dtype, (count, *rest), v.strides, v.offset))


def nonzero_indices(t: Typer, mask: Arr) -> list[Arr]:
    """The positions where a bool array holds: one i64 array for each axis."""
    outs = [t.new_temp((_total(mask),), "i64") for _ in range(mask.ndim)]

    def keep(index: list[Expr], at: Expr) -> None:
        for out, i in zip(outs, index, strict=True):
            t.emit(StoreStep(_element(out.view, [at]), i))

    count = _for_each_set(t, mask, keep)
    return [Arr(View(o.view.buffer, "i64", (count,), o.view.strides, const(0))) for o in outs]


def _total(mask: Arr) -> Expr:
    return product_of(mask.shape)


def _element(view: View, index: list[Expr]) -> View:
    """The view at fixed positions of its leading axes."""
    offset = view.offset
    for i, stride in zip(index, view.strides, strict=False):
        offset = offset + stride * i
    n = len(index)
    return View(view.buffer, view.dtype, view.shape[n:], view.strides[n:], offset)


def _for_each_set(t: Typer, mask: Arr, keep: Callable[[list[Expr], Expr], None]) -> Expr:
    """Loop over a bool array; keep(index, position) emits what happens at its i-th true element. Returns the count."""
    total = t.facts.norm(product_of(mask.shape))
    counter = ScalarReg("i64", "count")
    counter.expr = t.facts.new_register("count", 0, total)
    t.emit(SetStep(counter, Literal(0, "i64")))
    loops: list[tuple[ScalarReg, Expr]] = []
    for extent in mask.shape:
        var = ScalarReg("i64", "m")
        var.expr = t.facts.new_register("m", 0, extent - 1)
        loops.append((var, extent))
    index: list[Expr] = [var.expr for var, _ in loops]  # type: ignore[misc]
    outer, t.steps = t.steps, []
    test = t.load(Arr(_element(mask.view, index)))
    inner = t.steps
    t.steps = []
    keep(index, counter.expr)
    t.emit(SetStep(counter, counter.expr + 1))
    inner.append(IfStep(test.operand, t.steps, []))
    body: list[Step] = inner
    for var, extent in reversed(loops):
        body = [ForStep(var, const(0), extent, const(1), body)]
    t.steps = outer
    t.steps.extend(body)
    return counter.expr


def as_mask(t: Typer, value: Value) -> Arr:
    """x != 0 as a bool array."""
    arr = as_array(t, value)
    if arr.dtype == "bool":
        return arr
    return as_array(t, elementwise(t, [arr], "bool", lambda body, s: truth(body, s[0])))


@rule("np.nonzero", "arr.nonzero")
def nonzero(t: Typer, a: Value) -> Value:
    arr = as_array(t, a)
    if not arr.ndim:
        raise PlanRefused("nonzero of an array with no axes", kind="value-error")
    return Seq(list(nonzero_indices(t, as_mask(t, arr))), "tuple")


@rule("np.flatnonzero")
def flatnonzero(t: Typer, a: Value) -> Value:
    return nonzero_indices(t, as_mask(t, ravel(t, as_array(t, a))))[0]


@rule("np.extract")
def extract(t: Typer, condition: Value, arr: Value) -> Value:
    flat = [ravel(t, as_array(t, v)) for v in (arr, condition)]
    return mask_read(t, flat[0], as_mask(t, flat[1]))  # type: ignore[arg-type]


@rule("np.compress")
def compress(t: Typer, condition: Value, a: Value, axis: Value = NONE, out: Value = NONE) -> Value:
    if given(axis) or given(out) or isinstance(condition, Num):
        raise PlanRefused("np.compress with axis= or out=", kind="kernel:np.compress")
    return extract(t, condition, a)
