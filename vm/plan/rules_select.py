"""Results whose size depends on values: boolean reads, nonzero, compress. Counted while they are written."""

from __future__ import annotations

from collections.abc import Callable

from .emitting import product_of
from .extents import Expr, compare, const
from .planner_errors import PlanRefused
from .rules_elementwise import as_array, elementwise, given, truth
from .rules_index import gather
from .rules_view import is_contiguous, ravel, reshaped
from .steps import Buffer, ForStep, IfStep, Literal, ScalarReg, SetStep, Step, StoreStep, View
from .typed import NONE, RULES, Typer, rule
from .typer_state import Compaction
from .values import Arr, Num, Selected, Seq, Value


def mask_read(t: Typer, base: Arr, mask: Arr) -> Arr:
    """base[mask]: the elements (or sub-arrays) where a bool array over the leading axes holds, in C order."""
    rank = mask.ndim
    if not rank or rank > base.ndim or not all(
            t.must_equal(x, y, "INDEX") for x, y in zip(mask.shape, base.shape, strict=False)):
        raise PlanRefused("a mask of another shape", kind="index-error")
    places = set_places(t, mask)
    flat = base
    if rank > 1:
        whole = base if is_contiguous(t, base.view) else t.copy(base)
        flat = reshaped(t, whole, (t.facts.norm(product_of(base.shape[:rank])), *base.shape[rank:]))
    first = len(t.steps)
    taken = gather(t, flat, {0: places})
    t.compactions.append(Compaction(t.steps, t.steps[first:], [taken.view.buffer], None))
    sources = tuple((b, t.serial.get(b, 0)) for b in (base.view.buffer, mask.view.buffer, taken.view.buffer))
    taken.origin = Selected(lambda: base, mask, sources, t.steps)
    return taken


def set_places(t: Typer, mask: Arr) -> Arr:
    """The places in C order where a bool array holds; one list serves all that one mask takes in a region."""
    for other, region, writes, known in t.mask_places:
        if region is t.steps and writes == t.serial.get(other.view.buffer, 0) and is_same_mask(t, other, mask):
            return known
    flat = ravel(t, mask)
    assert isinstance(flat, Arr)
    n = t.facts.norm(flat.shape[0])
    out = t.new_temp((n,), "i64")
    counter, var = ScalarReg("i64", "count"), ScalarReg("i64", "m")
    counter.expr = t.facts.new_register("count", 0, n)
    var.expr = t.facts.new_register("m", 0, n - 1)
    first = len(t.steps)
    t.emit(SetStep(counter, Literal(0, "i64")))
    outer, t.steps = t.steps, []
    test = t.load(Arr(_element(flat.view, [var.expr])))
    t.emit(StoreStep(_element(out.view, [counter.expr]), var.expr))  # the next one overwrites it where the mask is unset
    step = t.scalar_body().cast(test.operand, "i64")
    t.emit(SetStep(counter, counter.expr + step.expr))
    inner, t.steps = t.steps, outer
    t.emit(ForStep(var, const(0), n, const(1), inner))
    t.compactions.append(Compaction(outer, outer[first:], [out.view.buffer], counter.expr))
    v = out.view
    places = Arr(View(v.buffer, "i64", (counter.expr,), v.strides, v.offset))
    t.mask_places.append((mask, t.steps, t.serial.get(mask.view.buffer, 0), places))
    return places


def selected(t: Typer, value: Value) -> Selected | None:
    """How a value comes from under a mask, while that still holds."""
    origin = value.origin if isinstance(value, Arr) else None
    if origin is None or origin.region is not t.steps or any(t.serial.get(b, 0) != n for b, n in origin.sources):
        return None
    return origin


def count_of(t: Typer, origin: Selected) -> Expr:
    """How often the mask holds: a sum, so that nothing needs to be taken out."""
    if origin.count is None:
        origin.count = t.int_expr(RULES["np.sum"](t, origin.mask))
    return origin.count


def is_same_mask(t: Typer, a: Arr, b: Arr) -> bool:
    """Whether two masks hold the same: one array that was not written since, or two that were computed alike."""
    return a.view.is_same(b.view) or (a.key is not None and a.key == b.key)


def mask_key(t: Typer, name: str, operands: list[Value]) -> object:
    """Equal for comparisons of the same operands in one region, between writes."""
    parts: list[object] = [name, id(t.steps)]
    for value in operands:
        if isinstance(value, Arr):
            v = value.view
            parts.append((v.buffer, v.offset, v.strides, v.shape, v.dtype, t.serial.get(v.buffer, 0)))
        elif isinstance(value, Num) and isinstance(value.operand, Literal):
            parts.append((repr(value.operand.value), value.dtype, value.python))
        elif isinstance(value, Num) and value.cell is None:
            parts.append((value.operand, value.dtype, value.python))
        else:
            return None
    return tuple(parts)


def dense_under(t: Typer, base: Arr, mask: Arr, value: Value) -> Arr | None:
    """What `base[mask] = value` stores, computed everywhere, when the value comes from under the same mask."""
    origin = selected(t, value)
    if origin is None or not is_same_mask(t, origin.mask, mask):
        return None
    dense = origin.dense()
    if dense.ndim != base.ndim or not all(t.facts.is_equal(x, y) for x, y in zip(dense.shape, base.shape, strict=True)):
        return None
    return dense


def spread_mask(base: Arr, mask: Arr) -> Arr:
    """A mask over leading axes as one over all of them."""
    v = mask.view
    return Arr(View(v.buffer, v.dtype, base.shape, (*v.strides, *([const(0)] * (base.ndim - mask.ndim))), v.offset))


def masked_elements(t: Typer, base: Arr, mask: Arr, value: Arr) -> None:
    """base[mask] = value, an element (or sub-array) of value for each place where the mask holds."""
    dense = dense_under(t, base, mask, value)
    if dense is not None:
        t.write_view(base, dense, mask=spread_mask(base, mask))
        return
    if value.view.buffer is base.view.buffer:
        value = t.copy(value)
    if mask.view.buffer is base.view.buffer:
        mask = t.copy(mask)
    held = RULES["np.sum"](t, mask)
    count = t.int_expr(held)
    n = t.facts.norm(value.shape[0])
    one = compare("eq", n, 1)
    t.trap("VALUE", (const(1) - one) * (const(1) - compare("eq", n, count)))
    t.note_write(base)
    rest = base.shape[mask.ndim:]

    def keep(index: list[Expr], at: Expr) -> None:
        source = _element(value.view, [at * (const(1) - one)])
        target = Arr(_element(base.view, index))
        if rest:
            t.write_view(target, Arr(source))
        else:
            t.write_view(target, t.load(Arr(source)))

    _for_each_set(t, mask, keep)


def nonzero_indices(t: Typer, mask: Arr) -> list[Arr]:
    """The positions where a bool array holds: one i64 array for each axis."""
    outs = [t.new_temp((_total(mask),), "i64") for _ in range(mask.ndim)]

    def keep(index: list[Expr], at: Expr) -> None:
        for out, i in zip(outs, index, strict=True):
            t.emit(StoreStep(_element(out.view, [at]), i))

    count = _for_each_set(t, mask, keep, [out.view.buffer for out in outs])
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


def _for_each_set(t: Typer, mask: Arr, keep: Callable[[list[Expr], Expr], None],
                  buffers: list[Buffer] | None = None) -> Expr:
    """Loop over a bool array; keep(index, position) emits what happens at its i-th true element. Returns the count.

    buffers: all that the loop writes; without readers it is dropped.
    """
    first = len(t.steps)
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
    if buffers is not None:
        t.compactions.append(Compaction(outer, outer[first:], buffers, counter.expr))
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
