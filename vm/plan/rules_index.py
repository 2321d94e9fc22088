"""Subscripts and stores: slices with any shape expression, gathers, masks, scatters."""

from __future__ import annotations

from typing import Any

import numpy as np

from .body import NestBody, for_memory
from .emitting import product_of
from .extents import Expr, compare, const, emax, emin, floordiv, select
from .planner_errors import PlanRefused
from .rules_elementwise import as_array, check_weak, given
from .rules_view import ravel
from .signature import NUMPY_DTYPES
from .steps import Nest, NestOut, View
from .typed import NONE, Typer, rule
from .typer_state import NeedUnroll
from .values import SOME_TEXT, Arr, Lazy, Map, Num, Seq, SliceV, Static, Value, is_float, python_int

# --- subscripts -------------------------------------------------------------------------------------------------------

@rule("subscript")
def subscript(t: Typer, base: Value, index: Value) -> Value:
    if isinstance(base, (Seq, Map, Lazy)) or t.is_sequence(base):
        return container_item(t, base, index)
    if not isinstance(base, Arr):
        raise PlanRefused("a subscript of something that is no array", kind="operand")
    if isinstance(index, Seq) and index.kind == "list":
        from .rules_create import array_of
        index = array_of(t, index, None)
    mask = only_mask(t, index)
    if mask is not None:
        from .rules_select import mask_read
        return mask_read(t, base, mask)
    view, advanced = basic_index(t, base, index)
    if advanced:
        return gather(t, Arr(view), advanced)
    if not view.shape and not _has_ellipsis(t, index):
        return t.load(Arr(view))
    return Arr(view)


def _has_ellipsis(t: Typer, index: Value) -> bool:
    items = t.children(index) if t.is_sequence(index) else [index]
    return any(isinstance(v, Static) and v.value is ... for v in items)


def only_mask(t: Typer, index: Value) -> Arr | None:
    """The bool array of an index that is nothing else."""
    if isinstance(index, Seq) and index.kind == "tuple" and len(index.items) == 1:
        index = index.items[0]
    return index if isinstance(index, Arr) and index.dtype == "bool" and index.ndim else None


def container_item(t: Typer, base: Value, index: Value) -> Value:
    """An item of a tuple, list or dict."""
    is_mapping = isinstance(base, Map) or (isinstance(base, Lazy) and base.kind == "mapping")
    if is_mapping and ((isinstance(index, Static) and index.value is SOME_TEXT)
                       or (isinstance(index, Num) and not index.is_constant)):
        if t.loops and not t.loops[-1].static:
            raise NeedUnroll  # the loop's variable is in the key
        raise PlanRefused("a dict key that is known only while the program runs", kind="operand")
    if isinstance(base, Map):
        key = mapping_key(t, index)
        if key not in base.items:
            raise PlanRefused("a key that the dict does not hold", kind="lookup-error")
        return base.items[key]
    if isinstance(base, Lazy) and base.kind == "mapping":
        key = mapping_key(t, index)
        return t.leaf("item", base.row, key)
    if isinstance(index, SliceV):
        parts = [None if not given(p) else t.known_int(p) for p in (index.start, index.stop, index.step)]
        return Seq(t.children(base)[slice(*parts)], kind_of_sequence(t, base))
    if isinstance(index, Num) and isinstance(index.operand, Expr) and not index.operand.is_entry:
        raise NeedUnroll
    at = t.known_int(index)
    if isinstance(base, Lazy) and base.kind == "sequence":
        n = t.reader.length(base.row)
        if not -n <= at < n:
            raise PlanRefused("sequence index out of range", kind="lookup-error")
        return t.leaf("item", base.row, at % n)
    items = t.children(base)
    if not -len(items) <= at < len(items):
        raise PlanRefused("sequence index out of range", kind="lookup-error")
    return items[at]


def mapping_key(t: Typer, index: Value) -> object:
    """The key that a value is. Refuses objects, arrays and what the program computes."""
    if isinstance(index, Static) and index.value is not SOME_TEXT:
        return index.value
    if isinstance(index, Num) and index.is_constant and not index.maybe:
        return index.constant
    if isinstance(index, Seq) and index.kind == "tuple":
        return tuple(mapping_key(t, item) for item in index.items)
    raise PlanRefused("a dict key that is known only while the program runs", kind="operand")


def kind_of_sequence(t: Typer, base: Value) -> str:
    """'tuple' or 'list': what slices and sums of a sequence are."""
    if isinstance(base, Seq):
        return base.kind
    kind = {"builtins:list": "list", "builtins:tuple": "tuple"}.get(
        t.reader.rows[base.row].type_name) if isinstance(base, Lazy) else None
    if kind is None:
        raise PlanRefused("a sequence that is neither tuple nor list", kind="operand")
    return kind


def basic_index(t: Typer, base: Arr, index: Value) -> tuple[View, dict[int, Arr]]:
    """The view of the basic part of an index, and its array indices by axis of that view: the first ones where NumPy puts
    what they make first."""
    items: list[Value] = []
    for v in (t.children(index) if isinstance(index, Seq) and index.kind == "tuple" else [index]):
        if isinstance(v, Seq):
            from .rules_create import array_of
            v = array_of(t, v, None)
        if isinstance(v, Arr) and v.dtype == "bool" and v.ndim:
            from .rules_select import nonzero_indices
            at = sum(map(_axes_used, items))
            if Static in map(type, items) or not all(t.must_equal(x, y, "INDEX") for x, y in zip(
                    v.shape, base.shape[at:], strict=False)):
                raise PlanRefused("a mask of another shape", kind="index-error")
            items.extend(nonzero_indices(t, v))
        else:
            items.append(v)
    used = sum(_axes_used(v) for v in items)
    apart = _stand_apart(items)
    ellipses = [i for i, v in enumerate(items) if isinstance(v, Static) and v.value is ...]
    if used > base.ndim or len(ellipses) > 1:
        raise PlanRefused("too many indices", kind="index-error")
    full = SliceV(NONE, NONE, NONE)
    fill: list[Value] = [full] * (base.ndim - used)
    if ellipses:
        items[ellipses[0]:ellipses[0] + 1] = fill
    else:
        items.extend(fill)
    whole = base.view
    offset = whole.offset
    shape_out: list[Expr] = []
    strides: list[Expr] = []
    advanced: dict[int, Arr] = {}
    axis = 0
    for item in items:
        if isinstance(item, Static) and item.value is None:
            shape_out.append(const(1))
            strides.append(const(0))
            continue
        if isinstance(item, Arr) and item.dtype == "bool":
            raise PlanRefused("a boolean array as an index", kind="mask-read")
        if isinstance(item, Arr) and item.ndim:
            if item.dtype[0] not in "iu":
                raise PlanRefused("an index array that is not integer", kind="index-error")
            advanced[len(shape_out)] = item
            shape_out.append(whole.shape[axis])
            strides.append(whole.strides[axis])
        elif isinstance(item, SliceV):
            start, length, step = slice_extent(t, item, whole.shape[axis])
            offset = offset + whole.strides[axis] * start
            shape_out.append(length)
            strides.append(whole.strides[axis] * step)
        else:
            if (isinstance(item, Num) and item.native == "bool") or isinstance(item, Static):
                raise PlanRefused("an index that is no integer, slice or array", kind="index-error")
            number = t.load(item) if isinstance(item, Arr) else item
            if isinstance(number, Num) and is_float(number.dtype):
                raise PlanRefused("a float index", kind="index-error")
            offset = offset + whole.strides[axis] * position_in(t, t.int_expr(number), whole.shape[axis])
        axis += 1
    if advanced and apart:
        order = [*advanced, *(i for i in range(len(shape_out)) if i not in advanced)]
        shape_out, strides = [shape_out[i] for i in order], [strides[i] for i in order]
        advanced = dict(enumerate(advanced.values()))
    return whole.window(tuple(shape_out), tuple(strides), offset), advanced


def _stand_apart(items: list[Value]) -> bool:
    """Whether slices, `None` or `...` (of no axes, too) stand between integers and arrays of an index.

    NumPy then puts the axes of the index arrays first; integers beside arrays count as arrays.
    """
    places = [i for i, v in enumerate(items) if not isinstance(v, (SliceV, Static))]
    return bool(places) and places[-1] - places[0] >= len(places)


def _axes_used(item: Value) -> int:
    if isinstance(item, Static) and (item.value is None or item.value is ...):
        return 0
    if isinstance(item, Arr) and item.dtype == "bool":
        return max(item.ndim, 1)
    return 1


def position_in(t: Typer, i: Expr, extent: Expr) -> Expr:
    """An integer index, wrapped and checked against an extent."""
    facts = t.facts
    i, extent = facts.norm(i), facts.norm(extent)
    negative = facts.is_less_equal(i, -1)
    if negative is None and i.is_entry:
        negative = facts.ask_less_equal(i, -1)
    if negative is None:
        inside = facts.is_less_equal(0, i)
        if inside is None:
            i = i + select(compare("lt", i, 0), extent, 0)
    elif negative:
        i = i + extent
    for low, high in ((const(0), i), (i + 1, extent)):
        ok = facts.is_less_equal(low, high)
        if ok is None and low.is_entry and high.is_entry:
            ok = facts.ask_less_equal(low, high)
        if ok is False:
            raise PlanRefused("index out of bounds", kind="index-error")
        if ok is None:
            text = f"index out of bounds for an axis with size {extent!r}"
            t.trap("INDEX", compare("lt", high, low), text if extent.is_entry and len(text) < 80 else "")
    return i


def slice_extent(t: Typer, item: SliceV, extent: Expr) -> tuple[Expr, Expr, Expr]:
    """(start, length, step) of a slice over an axis, Python's clipping included."""
    facts = t.facts
    extent = facts.norm(extent)
    step_value = 1
    step = const(1)
    if given(item.step):
        step = t.int_expr(item.step)
        if step.value is None:
            step = const(facts.value_of(step)) if step.is_entry else step
        if step.value is None:
            return _run_time_step(t, item, extent, step)
        if step.value == 0:
            raise PlanRefused("a slice step of 0", kind="slice")
        step_value = step.value
    up = step_value > 0
    start = _clip(t, item.start, extent, up, const(0) if up else extent - 1)
    stop = _clip(t, item.stop, extent, up, extent if up else const(-1))
    distance = stop - start if up else start - stop
    k = abs(step_value)
    positive = facts.is_less_equal(0, distance)
    if positive is None and distance.is_entry:
        positive = facts.ask_less_equal(0, distance)
    if positive is False:
        return (const(0), const(0), step)
    if positive is None:
        distance = emax(distance, 0)
    length = distance if k == 1 else floordiv(distance + (k - 1), k)
    if positive is not True or facts.is_less_equal(1, length) is not True:
        # an empty slice must not move the offset outside the buffer
        start = start if facts.lower_bound(start) >= 0 else emax(start, 0)
    return start, length, step


def _run_time_step(t: Typer, item: SliceV, extent: Expr, step: Expr) -> tuple[Expr, Expr, Expr]:
    """A slice whose step is known only while the program runs: taken to be positive, else the interpreter's."""
    if t.facts.is_less_equal(1, step) is None:
        t.trap("INTERPRET", compare("lt", step, 1))
    start = _clip(t, item.start, extent, True, const(0))
    stop = _clip(t, item.stop, extent, True, extent)
    step = emax(step, 1)
    return start, floordiv(emax(stop - start, 0) + step - 1, step), step


def _clip(t: Typer, value: Value, extent: Expr, up: bool, default: Expr) -> Expr:
    """One end of a slice: wrapped when negative, clipped into the axis."""
    if not given(value):
        return default
    facts = t.facts
    if isinstance(value, Arr):
        value = t.load(value)
    i = facts.norm(t.int_expr(value))
    lowest, highest = (const(0), extent) if up else (const(-1), extent - 1)
    negative = facts.is_less_equal(i, -1)
    if negative is None and i.is_entry:
        negative = facts.ask_less_equal(i, -1)
    if negative is None:
        i = i + select(compare("lt", i, 0), extent, 0)
        return emin(emax(i, lowest), highest)
    if negative:
        i = i + extent
        ok = _decide(facts, lowest, i)
        return i if ok else lowest if ok is False else emax(i, lowest)
    ok = _decide(facts, i, highest)
    return i if ok else highest if ok is False else emin(i, highest)


def _decide(facts: Any, a: Expr, b: Expr) -> bool | None:
    known = facts.is_less_equal(a, b)
    if known is None and a.is_entry and b.is_entry:
        return facts.ask_less_equal(a, b)
    return known


# --- gathers ----------------------------------------------------------------------------------------------------------

def _advanced_layout(t: Typer, view: View, advanced: dict[int, Arr]) -> tuple[tuple[Expr, ...], int, list[int], int]:
    """(shape of the index arrays together, where its axes go, remaining axes, count) by NumPy's rule."""
    index_shape = t.broadcast(*(a.shape for a in advanced.values()))
    axes = sorted(advanced)
    adjacent = axes == list(range(axes[0], axes[-1] + 1))
    rest = [i for i in range(view.ndim) if i not in advanced]
    at = axes[0] if adjacent else 0
    return index_shape, at, rest, len(index_shape)


def gather_pieces(t: Typer, view: View, advanced: dict[int, Arr], nest: NestBody) -> tuple[tuple[Expr, ...], View, tuple]:
    """(result shape, view displaced along it, index slots) of an advanced index."""
    index_shape, at, rest, n = _advanced_layout(t, view, advanced)
    shape_out = (*(view.shape[i] for i in rest[:at]), *index_shape, *(view.shape[i] for i in rest[at:]))
    zero = const(0)
    strides = (*(view.strides[i] for i in rest[:at]), *([zero] * n), *(view.strides[i] for i in rest[at:]))
    indexes = []
    for axis, arr in sorted(advanced.items()):
        iv = t.broadcast_view(arr.view, index_shape)
        spread = View(iv.buffer, iv.dtype, shape_out, (*([zero] * at), *iv.strides, *([zero] * (len(rest) - at))), iv.offset)
        indexes.append((nest.cast(nest.view(spread), "i64"), view.shape[axis], view.strides[axis]))
    return shape_out, View(view.buffer, view.dtype, shape_out, strides, view.offset), tuple(indexes)


def check_positions(t: Typer, view: View, advanced: dict[int, Arr]) -> None:
    """Trap where an index array is out of range though no element is touched: another axis has none."""
    rest = product_of([extent for axis, extent in enumerate(view.shape) if axis not in advanced])
    if t.facts.ask_less_equal(1, rest) if t.facts.norm(rest).is_entry else t.facts.is_less_equal(1, rest):
        return
    index_shape = t.broadcast(*(a.shape for a in advanced.values()))
    for axis, arr in sorted(advanced.items()):
        nest = NestBody()
        at = nest.cast(nest.view(t.broadcast_view(arr.view, index_shape)), "i64")
        extent = view.shape[axis]
        outside = nest.op("or", "bool", nest.op("lt", "i64", at, nest.scalar(const(0) - extent, "i64")),
                          nest.op("ge", "i64", at, nest.scalar(extent, "i64")))
        found = t.new_temp((), "bool")
        everywhere = View(found.view.buffer, "bool", index_shape, (const(0),) * len(index_shape), const(0))
        ops = nest.finish()
        t.emit(Nest(index_shape, nest.inputs, ops, [
            NestOut(nest.number(outside), "any", everywhere, reduced=(1 << len(index_shape)) - 1)], t.pc))
        t.trap("INDEX", t.load(found).operand)


def gather(t: Typer, base: Arr, advanced: dict[int, Arr]) -> Arr:
    """A fresh array of the elements that index arrays name."""
    nest = NestBody()
    shape_out, view, indexes = gather_pieces(t, base.view, advanced, nest)
    check_positions(t, base.view, advanced)
    slot = nest.gather(view, indexes, t.pc)
    out = t.new_temp(shape_out, base.dtype)
    ops = nest.finish()
    t.emit(Nest(out.shape, nest.inputs, ops, [NestOut(nest.number(slot), "store", out.view)], t.pc))
    return out


@rule("np.take", "arr.take")
def take(t: Typer, a: Value, indices: Value, axis: Value = NONE, out: Value = NONE, mode: Value = NONE) -> Value:
    how = mode.value if isinstance(mode, Static) and given(mode) else "raise"
    if given(out) or how not in ("raise", "clip", "wrap"):
        raise PlanRefused("np.take with out=, or in this mode", kind="kernel:np.take")
    arr = as_array(t, a)
    if how != "raise":
        indices = _brought_inside(t, indices, arr, axis, how)
    if not given(axis):
        arr = ravel(t, arr)  # type: ignore[assignment]
        where = 0
    else:
        where = t.axis_of(axis, arr.ndim)
    full: list[Value] = [SliceV(NONE, NONE, NONE)] * arr.ndim
    full[where] = indices
    if isinstance(indices, (Arr, Num)) and indices.dtype == "bool":
        raise PlanRefused("np.take at bool positions", kind="kernel:np.take")
    lead = t.facts.norm(product_of(arr.shape[:where]))
    if lead.value != 1 and not t.facts.ask_less_equal(1, lead):  # nothing to take: unlike a subscript, it does not look
        if not isinstance(indices, (Arr, Num)) or indices.dtype[0] not in "iu":
            raise PlanRefused("np.take of nothing at what are no integers", kind="kernel:np.take")
        shape = indices.shape if isinstance(indices, Arr) else ()
        return t.new_temp((*arr.shape[:where], *shape, *arr.shape[where + 1:]), arr.dtype)
    taken = subscript(t, arr, Seq(full, "tuple"))
    return t.copy(taken) if isinstance(indices, Num) and isinstance(taken, Arr) else taken


def _brought_inside(t: Typer, indices: Value, arr: Arr, axis: Value, how: str) -> Value:
    """Indices that name elements: clipped to the ends, negative ones too, or taken modulo the extent."""
    extent = arr.shape[t.axis_of(axis, arr.ndim)] if given(axis) else product_of(arr.shape)
    places = as_array(t, indices) if t.is_sequence(indices) else indices
    if not isinstance(places, Arr) or places.dtype[0] != "i" or not t.facts.ask_less_equal(1, t.facts.norm(extent)):
        raise PlanRefused("np.take in a mode, at such places", kind="kernel:np.take")
    from .rules_elementwise import elementwise

    def moved(body: Any, slots: list[Any]) -> Any:
        at, n = body.cast(slots[0], "i64"), t.scalar_slot(body, python_int(t.facts.norm(extent)))
        if how == "wrap":
            return body.op("mod", "i64", at, n)
        last = t.scalar_slot(body, python_int(t.facts.norm(extent - 1)))
        return body.op("minimum", "i64", body.op("maximum", "i64", at, body.const(0, "i64")), last)
    return elementwise(t, [places], "i64", moved)


# --- stores -----------------------------------------------------------------------------------------------------------

@rule("store")
def store(t: Typer, base: Value, index: Value, value: Value) -> Value:
    if isinstance(base, Seq) and base.kind == "list" and base.row < 0:
        if t.depth:
            raise PlanRefused("a list is changed inside a run-time region", kind="list-store")
        base.items[t.known_int(index)] = value
        return NONE
    if isinstance(base, Map) and base.row < 0 and not t.depth:
        base.items[index.value if isinstance(index, Static) else t.known_int(index)] = value
        return NONE
    if not isinstance(base, Arr):
        raise PlanRefused("a store into something that is no array of the program", kind="store")
    if isinstance(value, (Seq, Lazy, Map)):
        raise PlanRefused("a sequence is stored into an array", kind="array-like")
    if isinstance(index, Seq) and index.kind == "list":
        from .rules_create import array_of
        index = array_of(t, index, None)
    mask = only_mask(t, index)
    if mask is not None:
        return masked_store(t, base, mask, value)
    view, advanced = basic_index(t, base, index)
    target = Arr(view)
    if advanced:
        return scatter(t, target, advanced, value)
    check_storable(t, value, base.dtype)
    if isinstance(value, Arr):
        if _is_same(value.view, view):  # x[i] += y ends so: what was changed in place is stored where it lies
            if view.buffer not in t.stored:
                t.note_write(target)  # x[...] = x: nothing moves, and what is read-only refuses it
            return NONE
        value = fit(t, value, view.shape)
    else:
        check_number(t, value, base.dtype)
    t.write_view(target, value)
    return NONE


def _is_same(a: View, b: View) -> bool:
    """Whether two views are the same elements in the same order."""
    return a.buffer is b.buffer and a.dtype == b.dtype and a.offset is b.offset and a.shape == b.shape and a.strides == b.strides


def check_storable(t: Typer, value: Value, dtype: str) -> None:
    """Stores cast as NumPy does ('unsafe'); a Python number must fit."""
    if isinstance(value, Num) and value.python == "float":
        check_number(t, value, dtype)
        return
    check_weak(t, value, dtype)


def check_number(t: Typer, value: Value, dtype: str) -> None:
    """A number that is stored into integers goes through int(): NaN is a ValueError, what does not fit an OverflowError."""
    if not isinstance(value, Num) or dtype[0] not in "iu" or np.can_cast(NUMPY_DTYPES[value.dtype], NUMPY_DTYPES[dtype]):
        return
    if dtype[0] == "u" and not value.python:
        return  # NumPy's own numbers wrap there
    info = np.iinfo(NUMPY_DTYPES[dtype])
    fault = f"{'Python integer' if value.python == 'int' else 'number'} out of bounds for {info.dtype}"
    body = t.scalar_body()
    slot = t.scalar_slot(body, value)
    if not is_float(value.dtype):
        slot = body.cast(slot, "i64")
        outside = body.op("lt", "i64", slot, body.const(int(info.min), "i64"))
        if info.max < 2**63:  # no integer of a plan is past that
            outside = body.op("or", "bool", outside, body.op("gt", "i64", slot, body.const(int(info.max), "i64")))
        t.trap("OVERFLOW", outside, fault)
        return
    slot = body.op("trunc", "f64", body.cast(slot, "f64"))
    t.trap("VALUE", body.op("isnan", "f64", slot), "cannot convert float NaN to integer")
    outside = body.op("or", "bool", body.op("lt", "f64", slot, body.const(float(info.min), "f64")),
                      body.op("ge", "f64", slot, body.const(float(info.max) + (1 if info.bits < 64 else 0), "f64")))
    t.trap("OVERFLOW", outside, fault)


def fit(t: Typer, value: Arr, shape_out: tuple[Expr, ...]) -> Arr:
    """The value with surplus leading axes of extent 1 dropped, as stores allow."""
    while value.ndim > len(shape_out):
        if not t.facts.ask_equal(value.shape[0], 1):
            raise PlanRefused("the stored value has too many axes", kind="shape-error")
        v = value.view
        value = Arr(View(v.buffer, v.dtype, v.shape[1:], v.strides[1:], v.offset))
    return value


def masked_store(t: Typer, base: Arr, mask: Arr, value: Value) -> Value:
    """base[mask] = value for a mask over leading axes and a value that broadcasts along them."""
    if mask.ndim > base.ndim or not all(t.must_equal(x, y, "INDEX") for x, y in zip(mask.shape, base.shape, strict=False)):
        raise PlanRefused("a mask of another shape", kind="index-error")
    if isinstance(value, Arr) and value.ndim >= 1 and value.ndim > base.ndim - mask.ndim:
        if value.ndim != base.ndim - mask.ndim + 1:
            raise PlanRefused("an array stored under a mask that does not fit", kind="shape-error")
        from .rules_select import masked_elements
        masked_elements(t, base, mask, value)
        return NONE
    check_storable(t, value, base.dtype)
    v = mask.view
    extra = base.ndim - mask.ndim
    spread = Arr(View(v.buffer, v.dtype, base.shape, (*v.strides, *([const(0)] * extra)), v.offset))
    t.write_view(base, value, mask=spread)
    return NONE


def scatter(t: Typer, target: Arr, advanced: dict[int, Arr], value: Value) -> Value:
    """base[index arrays] = value; the last of equal indices wins, as NumPy's loop leaves it."""
    check_storable(t, value, target.dtype)
    t.note_write(target)
    if any(a.view.buffer is target.view.buffer for a in advanced.values()):
        advanced = {k: t.copy(a) for k, a in advanced.items()}
    nest = NestBody()
    shape_out, view, indexes = gather_pieces(t, target.view, advanced, nest)
    check_positions(t, target.view, advanced)
    if isinstance(value, Arr):
        value = fit(t, value, shape_out)
        if value.view.buffer is view.buffer:
            value = t.copy(value)
    slot = for_memory(nest, t.slot(nest, value, shape_out), target.dtype)
    ops = nest.finish()
    numbered = tuple((nest.number(s), e, st) for s, e, st in indexes)
    t.emit(Nest(shape_out, nest.inputs, ops,
                [NestOut(nest.number(slot), "store", view, indexes=numbered, position=t.pc)], t.pc))
    return NONE
