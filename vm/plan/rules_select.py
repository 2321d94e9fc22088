"""Results whose size depends on values: boolean reads, nonzero, compress.

A mask is counted by a sum; what it takes is a nest's `compress` output. Passes put both, and what makes the mask, into one
nest: one walk over the elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .body import NestBody
from .emitting import product_of
from .extents import Expr, compare, const
from .planner_errors import PlanRefused
from .rules_elementwise import as_array, elementwise, given, truth
from .rules_index import gather, scatter
from .rules_view import is_contiguous, ravel, reshaped
from .steps import Literal, LoadStep, Nest, NestOut, ScalarReg, View
from .typed import NONE, Typer, rule
from .typer_state import Compaction
from .values import COMPUTE, Arr, Num, Selected, Seq, SliceV, Value


def mask_read(t: Typer, base: Arr, mask: Arr) -> Arr:
    """base[mask]: the elements (or sub-arrays) where a bool array over the leading axes holds, in C order."""
    rank = mask.ndim
    if not rank or rank > base.ndim or not all(
            t.must_equal(x, y, "INDEX") for x, y in zip(mask.shape, base.shape, strict=False)):
        raise PlanRefused("a mask of another shape", kind="index-error")
    if rank == base.ndim:
        taken = compressed(t, mask, base.dtype, lambda nest: nest.view(t.reshape_view(base.view, mask.shape)))
    else:
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


def compressed(t: Typer, mask: Arr, dtype: str, make: Callable[[NestBody], Any]) -> Arr:
    """The values of make(nest) over the mask's space where it holds, in C order."""
    count = set_count(t, mask)
    whole = t.new_temp((product_of(mask.shape),), dtype)
    buffer = whole.view.buffer
    buffer.is_trip_local = True  # as much of it is read as the same trip has written
    nest = NestBody()
    slot, holds = nest.cast(make(nest), COMPUTE[dtype]), nest.view(mask.view)
    ops = nest.finish()
    target = View(buffer, dtype, mask.shape, (const(0),) * mask.ndim, const(0))
    out = NestOut(nest.number(slot), "compress", target, (1 << mask.ndim) - 1, nest.number(holds))
    step = Nest(mask.shape, nest.inputs, ops, [out], t.pc)
    t.emit(step)
    t.compactions.append(Compaction(t.steps, [step], [buffer], None))
    return Arr(View(buffer, dtype, (count,), whole.view.strides, const(0)))


def set_count(t: Typer, mask: Arr) -> Expr:
    """How often a bool array holds; counted once for all that one mask takes in a region."""
    known = _known_of(t, mask, "count")
    if known is not None:
        return known
    cell = t.new_temp((), "i64")
    nest = NestBody()
    slot = nest.cast(nest.view(mask.view), "i64")
    ops = nest.finish()
    target = View(cell.view.buffer, "i64", mask.shape, (const(0),) * mask.ndim, const(0))
    counter = ScalarReg("i64", "count")
    counter.expr = t.facts.new_register("count", 0, t.facts.norm(product_of(mask.shape)))
    first = len(t.steps)
    t.emit(Nest(mask.shape, nest.inputs, ops, [NestOut(nest.number(slot), "sum", target, (1 << mask.ndim) - 1)], t.pc))
    t.emit(LoadStep(counter, cell.view))
    t.compactions.append(Compaction(t.steps, t.steps[first:], [cell.view.buffer], counter.expr))
    _remember(t, mask, "count", counter.expr)
    return counter.expr


def set_places(t: Typer, mask: Arr) -> Arr:
    """The places in C order where a bool array holds; one list serves all that one mask takes in a region."""
    known = _known_of(t, mask, "places")
    if known is None:
        flat = ravel(t, mask)
        assert isinstance(flat, Arr)
        known = compressed(t, flat, "i64", lambda nest: nest.iota(0))
        _remember(t, mask, "places", known)
    return known


def _known_of(t: Typer, mask: Arr, what: str) -> Any:
    """What `_remember` keeps of a mask that holds the same."""
    for other, region, writes, name, known in t.mask_places:
        if name == what and region is t.steps and writes == t.serial.get(other.view.buffer, 0) and is_same_mask(t, other, mask):
            return known
    return None


def _remember(t: Typer, mask: Arr, what: str, known: Any) -> None:
    t.mask_places.append((mask, t.steps, t.serial.get(mask.view.buffer, 0), what, known))


def selected(t: Typer, value: Value) -> Selected | None:
    """How a value comes from under a mask, while that still holds."""
    origin = value.origin if isinstance(value, Arr) else None
    if origin is None or origin.region is not t.steps or any(t.serial.get(b, 0) != n for b, n in origin.sources):
        return None
    return origin


def count_of(t: Typer, origin: Selected) -> Expr:
    """How often the mask holds: a sum, so that nothing needs to be taken out."""
    if origin.count is None:
        origin.count = set_count(t, origin.mask)
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
    count = set_count(t, mask)
    n = t.facts.norm(value.shape[0])
    one = compare("eq", n, 1)
    t.trap("VALUE", (const(1) - one) * (const(1) - compare("eq", n, count)),
           "boolean array indexing assignment: not one value for each element where the mask is true")
    v = value.view
    spread = View(v.buffer, v.dtype, (count, *v.shape[1:]), (v.strides[0] * (const(1) - one), *v.strides[1:]), v.offset)
    scatter(t, base, dict(enumerate(nonzero_indices(t, mask))), Arr(spread))


def nonzero_indices(t: Typer, mask: Arr) -> list[Arr]:
    """The positions where a bool array holds: one i64 array for each axis."""
    return [compressed(t, mask, "i64", lambda nest, axis=axis: nest.iota(axis)) for axis in range(mask.ndim)]  # type: ignore[misc]


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
    if given(out) or isinstance(condition, Num):
        raise PlanRefused("np.compress with out=", kind="kernel:np.compress")
    if given(axis):
        arr, mask = as_array(t, a), as_array(t, condition)
        where = t.axis_of(axis, arr.ndim)
        if mask.dtype != "bool" or mask.ndim != 1 or not t.facts.ask_equal(mask.shape[0], arr.shape[where]):
            raise PlanRefused("np.compress by a condition of another length", kind="kernel:np.compress")
        everything: list[Value] = [SliceV(NONE, NONE, NONE)] * where
        return t.subscript(arr, Seq([*everything, mask], "tuple"))
    return extract(t, condition, a)
