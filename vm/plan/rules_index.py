"""Views, subscripts and stores: slices with any shape expression, gathers, masks, transposes, reshapes."""

from __future__ import annotations

from math import prod
from typing import Any

from .body import NestBody
from .extents import Expr, compare, const, emax, emin, floordiv, select
from .planner_errors import PlanRefused
from .rules_elementwise import as_array, given
from .steps import ITEM_BYTES, Nest, NestOut, View, contiguous_strides
from .typed import NONE, Typer, attribute, rule
from .values import COMPUTE, Arr, Lazy, Map, Num, Seq, SliceV, Static, Value, python_int

# --- attributes -------------------------------------------------------------------------------------------------------


@attribute("shape")
def shape(t: Typer, a: Value) -> Value:
    return Seq([python_int(t.facts.norm(e)) for e in (a.shape if isinstance(a, Arr) else ())], "tuple")


@attribute("ndim")
def ndim(t: Typer, a: Value) -> Value:
    return python_int(const(a.ndim if isinstance(a, Arr) else 0))


@attribute("size")
def size(t: Typer, a: Value) -> Value:
    return python_int(t.facts.norm(prod(a.shape, start=const(1)) if isinstance(a, Arr) else const(1)))  # type: ignore[arg-type]


@attribute("itemsize")
def itemsize(t: Typer, a: Value) -> Value:
    return python_int(const(ITEM_BYTES[a.dtype]))  # type: ignore[union-attr]


@attribute("nbytes")
def nbytes(t: Typer, a: Value) -> Value:
    return python_int(size(t, a).operand * ITEM_BYTES[a.dtype])  # type: ignore[union-attr, operator]


@attribute("T", "mT")
def transposed(t: Typer, a: Value) -> Value:
    if not isinstance(a, Arr):
        return a
    return permute(a, tuple(reversed(range(a.ndim))))


@rule("np.shape")
def np_shape(t: Typer, a: Value) -> Value:
    return shape(t, a)


@rule("np.ndim")
def np_ndim(t: Typer, a: Value) -> Value:
    return ndim(t, a)


@rule("np.size")
def np_size(t: Typer, a: Value, axis: Value = NONE) -> Value:
    if given(axis):
        arr = as_array(t, a)
        return python_int(t.facts.norm(arr.shape[t.axis_of(axis, arr.ndim)]))
    return size(t, a)


# --- axes -------------------------------------------------------------------------------------------------------------

def permute(a: Arr, axes: tuple[int, ...]) -> Arr:
    """The array with its axes in another order: a view."""
    v = a.view
    return Arr(View(v.buffer, v.dtype, tuple(v.shape[i] for i in axes), tuple(v.strides[i] for i in axes), v.offset))


def axes_of(t: Typer, value: Value, n: int) -> tuple[int, ...]:
    """One axis or a sequence of them, normalised."""
    if t.is_sequence(value):
        return tuple(t.axis_of(v, n) for v in t.children(value))
    return (t.axis_of(value, n),)


@rule("np.transpose", "arr.transpose", "np.permute_dims")
def transpose(t: Typer, a: Value, axes: Value = NONE) -> Value:
    arr = as_array(t, a)
    if not given(axes) or (t.is_sequence(axes) and not t.children(axes) and arr.ndim):
        return transposed(t, arr)
    if t.is_sequence(axes) and len(t.children(axes)) == 1 and not given(t.children(axes)[0]):
        return transposed(t, arr)
    order = axes_of(t, axes, arr.ndim)
    if sorted(order) != list(range(arr.ndim)):
        raise PlanRefused("transpose axes are no permutation", kind="axis-error")
    return permute(arr, order)


@rule("np.matrix_transpose")
def matrix_transpose(t: Typer, a: Value) -> Value:
    n = a.ndim if isinstance(a, Arr) else 0
    if n < 2:
        raise PlanRefused("matrix_transpose of fewer than two axes", kind="axis-error")
    return permute(a, (*range(n - 2), n - 1, n - 2))  # type: ignore[arg-type]


@rule("np.swapaxes", "arr.swapaxes")
def swapaxes(t: Typer, a: Value, axis1: Value, axis2: Value) -> Value:
    arr = as_array(t, a)
    i, j = t.axis_of(axis1, arr.ndim), t.axis_of(axis2, arr.ndim)
    order = list(range(arr.ndim))
    order[i], order[j] = order[j], order[i]
    return permute(arr, tuple(order))


@rule("np.moveaxis")
def moveaxis(t: Typer, a: Value, source: Value, destination: Value) -> Value:
    arr = as_array(t, a)
    src, dst = axes_of(t, source, arr.ndim), axes_of(t, destination, arr.ndim)
    if len(src) != len(dst) or len(set(src)) != len(src) or len(set(dst)) != len(dst):
        raise PlanRefused("moveaxis needs as many sources as destinations", kind="axis-error")
    order = [i for i in range(arr.ndim) if i not in src]
    for d, s in sorted(zip(dst, src, strict=True)):
        order.insert(d, s)
    return permute(arr, tuple(order))


@rule("np.expand_dims")
def expand_dims(t: Typer, a: Value, axis: Value) -> Value:
    arr = as_array(t, a)
    count = len(t.children(axis)) if t.is_sequence(axis) else 1
    new = set(axes_of(t, axis, arr.ndim + count))
    if len(new) != count:
        raise PlanRefused("repeated axis", kind="axis-error")
    shape_iter, stride_iter = iter(arr.view.shape), iter(arr.view.strides)
    shape_out, strides = [], []
    for i in range(arr.ndim + count):
        shape_out.append(const(1) if i in new else next(shape_iter))
        strides.append(const(0) if i in new else next(stride_iter))
    return Arr(View(arr.view.buffer, arr.dtype, tuple(shape_out), tuple(strides), arr.view.offset))


@rule("np.squeeze", "arr.squeeze")
def squeeze(t: Typer, a: Value, axis: Value = NONE) -> Value:
    arr = as_array(t, a)
    if given(axis):
        drop = set(axes_of(t, axis, arr.ndim))
        if not all(t.facts.ask_equal(arr.shape[i], 1) for i in drop):
            raise PlanRefused("squeeze of an axis that is not 1", kind="shape-error")
    else:
        drop = {i for i in range(arr.ndim) if t.facts.ask_equal(arr.shape[i], 1)}
    return permute(arr, tuple(i for i in range(arr.ndim) if i not in drop))


@rule("np.broadcast_to")
def broadcast_to(t: Typer, a: Value, target: Value) -> Value:
    arr = as_array(t, a)
    extents = shape_arg(t, target)
    view = t.broadcast_view(arr.view, extents)
    t.read_only.add(arr.view.buffer) if arr.view.buffer.kind == "temp" else None
    return Arr(view)


@rule("np.atleast_1d")
def atleast_1d(t: Typer, arys: Value) -> Value:
    items = t.children(arys)
    if len(items) != 1:
        raise PlanRefused("atleast_1d of several arrays", kind="kernel:np.atleast_1d")
    arr = as_array(t, items[0])
    return arr if arr.ndim else expand_dims(t, arr, python_int(const(0)))


@rule("np.atleast_2d")
def atleast_2d(t: Typer, arys: Value) -> Value:
    items = t.children(arys)
    if len(items) != 1:
        raise PlanRefused("atleast_2d of several arrays", kind="kernel:np.atleast_2d")
    arr: Value = as_array(t, items[0])
    while arr.ndim < 2:  # type: ignore[union-attr]
        arr = expand_dims(t, arr, python_int(const(0)))
    return arr


@rule("np.flip")
def flip(t: Typer, a: Value, axis: Value = NONE) -> Value:
    arr = as_array(t, a)
    axes = axes_of(t, axis, arr.ndim) if given(axis) else tuple(range(arr.ndim))
    v = arr.view
    offset, strides = v.offset, list(v.strides)
    for i in axes:
        offset = offset + strides[i] * (emax(v.shape[i], 1) - 1)
        strides[i] = -strides[i]
    return Arr(View(v.buffer, v.dtype, v.shape, tuple(strides), offset))


@rule("np.flipud")
def flipud(t: Typer, a: Value) -> Value:
    return flip(t, a, python_int(const(0)))


@rule("np.fliplr")
def fliplr(t: Typer, a: Value) -> Value:
    return flip(t, a, python_int(const(1)))


@rule("np.diagonal", "arr.diagonal")
def diagonal(t: Typer, a: Value, *rest: Value) -> Value:
    arr = as_array(t, a)
    if any(given(v) and t.known_int(v) != d for v, d in zip(rest, (0, 0, 1), strict=False)) or arr.ndim != 2:
        raise PlanRefused("a diagonal other than the main one of a matrix", kind="kernel:np.diagonal")
    v = arr.view
    return Arr(View(v.buffer, v.dtype, (emin(v.shape[0], v.shape[1]),), (v.strides[0] + v.strides[1],), v.offset))


# --- reshape ----------------------------------------------------------------------------------------------------------

def shape_arg(t: Typer, value: Value) -> tuple[Expr, ...]:
    """A shape argument: an integer or a sequence of them; negative extents are refused (NumPy raises)."""
    items = t.children(value) if t.is_sequence(value) else [value]
    extents = tuple(t.int_expr(v) for v in items)
    for e in extents:
        if (t.facts.is_less_equal(0, e) is None and not t.facts.ask_less_equal(0, e)) or (e.value is not None and e.value < 0):
            raise PlanRefused("a negative extent", kind="shape-error")
    return extents


@rule("np.reshape", "arr.reshape")
def reshape(t: Typer, a: Value, target: Value, order: Value = NONE) -> Value:
    if given(order) and not (isinstance(order, Static) and order.value in ("C",)):
        raise PlanRefused("reshape in an order other than C", kind="order")
    arr = as_array(t, a)
    items = t.children(target) if t.is_sequence(target) else [target]
    extents = [t.int_expr(v) for v in items]
    total = prod(arr.shape, start=const(1))
    free = [i for i, e in enumerate(extents) if t.facts.norm(e).value == -1]
    if len(free) > 1:
        raise PlanRefused("reshape with two unknown extents", kind="shape-error")
    if free:
        rest = prod((e for i, e in enumerate(extents) if i != free[0]), start=const(1))
        rest, total = t.facts.norm(rest), t.facts.norm(total)
        if t.facts.ask_equal(rest, 0):
            raise PlanRefused("reshape cannot infer an extent beside 0", kind="shape-error")
        quotient = floordiv(total, rest)
        if not t.facts.ask_equal(quotient * rest, total):
            raise PlanRefused("reshape to a size that does not divide", kind="shape-error")
        extents[free[0]] = quotient
    for e in extents:
        if not t.facts.ask_less_equal(0, e):
            raise PlanRefused("a negative extent", kind="shape-error")
    if not free and not t.facts.ask_equal(prod(extents, start=const(1)), total):
        raise PlanRefused("reshape to another size", kind="shape-error")
    return reshaped(t, arr, tuple(map(t.facts.norm, extents)))


def reshaped(t: Typer, arr: Arr, extents: tuple[Expr, ...]) -> Arr:
    """A view where strides allow it, else a copy, as NumPy decides."""
    v = arr.view
    strides = reshape_strides(t, v, extents)
    if strides is None:
        source = t.copy(arr)
        return Arr(View(source.view.buffer, v.dtype, extents, contiguous_strides(extents, ITEM_BYTES[v.dtype]), const(0)))
    return Arr(View(v.buffer, v.dtype, extents, strides, v.offset))


def reshape_strides(t: Typer, v: View, extents: tuple[Expr, ...]) -> tuple[Expr, ...] | None:
    """Strides of a reshaped view, or None when NumPy would copy. Mergeable strides are asked as facts."""
    facts = t.facts
    item = ITEM_BYTES[v.dtype]
    if is_contiguous(t, v):
        return contiguous_strides(extents, item)
    old = [(facts.norm(e), s) for e, s in zip(v.shape, v.strides, strict=True) if facts.norm(e).value != 1]
    out: list[Expr] = []
    i = 0
    j = 0
    new = list(extents)
    while j < len(new):
        if facts.norm(new[j]).value == 1:
            out.append(const(item))
            j += 1
            continue
        if i >= len(old):
            return None
        if facts.is_equal(new[j], old[i][0]):
            out.append(old[i][1])
            i += 1
            j += 1
            continue
        # grow both groups until their sizes agree
        old_size, new_size = old[i][0], new[j]
        oi, nj = i + 1, j + 1
        while not facts.is_equal(old_size, new_size):
            smaller = facts.ask_less_equal(new_size, old_size)
            if smaller:
                if nj >= len(new):
                    return None
                new_size = facts.norm(new_size * new[nj])
                nj += 1
            else:
                if oi >= len(old):
                    return None
                old_size = facts.norm(old_size * old[oi][0])
                oi += 1
            if facts.is_equal(old_size, new_size) is None and facts.ask_equal(old_size, new_size):
                break
        for k in range(i, oi - 1):
            if not facts.ask_equal(old[k][1], old[k + 1][1] * old[k + 1][0]):
                return None
        group: list[Expr] = []
        step = old[oi - 1][1]
        for k in range(nj - 1, j - 1, -1):
            group.append(step)
            step = step * new[k]
        out.extend(reversed(group))
        i, j = oi, nj
    return tuple(out)


def is_contiguous(t: Typer, v: View) -> bool:
    """Whether a view is C-ordered without gaps, by normal form."""
    step = const(ITEM_BYTES[v.dtype])
    for extent, stride in zip(reversed(v.shape), reversed(v.strides), strict=True):
        if t.facts.norm(extent).value != 1 and not t.facts.is_equal(stride, step):
            return False
        step = step * extent
    return True


@rule("np.ravel", "arr.ravel")
def ravel(t: Typer, a: Value, order: Value = NONE) -> Value:
    if given(order) and not (isinstance(order, Static) and order.value == "C"):
        raise PlanRefused("ravel in an order other than C", kind="order")
    arr = as_array(t, a)
    total = t.facts.norm(prod(arr.shape, start=const(1)))  # type: ignore[arg-type]
    if is_contiguous(t, arr.view):
        return Arr(View(arr.view.buffer, arr.dtype, (total,), (const(ITEM_BYTES[arr.dtype]),), arr.view.offset))
    return reshaped(t, t.copy(arr), (total,))


@rule("arr.flatten")
def flatten(t: Typer, a: Value, order: Value = NONE) -> Value:
    arr = as_array(t, a)
    flat = ravel(t, arr, order)
    assert isinstance(flat, Arr)
    return t.copy(flat) if flat.view.buffer is arr.view.buffer else flat


# --- subscripts -------------------------------------------------------------------------------------------------------

@rule("subscript")
def subscript(t: Typer, base: Value, index: Value) -> Value:
    if isinstance(base, (Seq, Map, Lazy)) or t.is_sequence(base):
        return container_item(t, base, index)
    if not isinstance(base, Arr):
        raise PlanRefused("a subscript of something that is no array", kind="operand")
    view, advanced = basic_index(t, base, index)
    if advanced:
        return gather(t, Arr(view), advanced)
    if not view.shape and not _has_ellipsis(t, index):
        return t.load(Arr(view))
    return Arr(view)


def _has_ellipsis(t: Typer, index: Value) -> bool:
    items = t.children(index) if t.is_sequence(index) else [index]
    return any(isinstance(v, Static) and v.value is ... for v in items)


def container_item(t: Typer, base: Value, index: Value) -> Value:
    """An item of a tuple, list or dict."""
    if isinstance(base, Map):
        key = index.value if isinstance(index, Static) else index.constant if isinstance(index, Num) else None
        if key not in base.items:
            raise PlanRefused("a key that the dict does not hold", kind="lookup-error")
        return base.items[key]
    if isinstance(base, Lazy) and base.kind == "mapping":
        key = index.value if isinstance(index, Static) else index.constant if isinstance(index, Num) else None
        return t.leaf("item", base.row, key)
    if isinstance(index, SliceV):
        parts = [None if not given(p) else t.known_int(p) for p in (index.start, index.stop, index.step)]
        kind = base.kind if isinstance(base, Seq) else "tuple"
        return Seq(t.children(base)[slice(*parts)], kind)
    from .control import NeedUnroll
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


def basic_index(t: Typer, base: Arr, index: Value) -> tuple[View, dict[int, Arr]]:
    """The view of the basic part of an index, and its array indices by axis of that view."""
    items = list(t.children(index)) if isinstance(index, Seq) and index.kind == "tuple" else [index]
    if any(isinstance(v, Seq) for v in items):
        raise PlanRefused("a list as an index", kind="list-index")
    used = sum(_axes_used(v) for v in items)
    ellipses = [i for i, v in enumerate(items) if isinstance(v, Static) and v.value is ...]
    if used > base.ndim or len(ellipses) > 1:
        raise PlanRefused("too many indices", kind="index-error")
    full = SliceV(NONE, NONE, NONE)
    fill: list[Value] = [full] * (base.ndim - used)
    if ellipses:
        items[ellipses[0]:ellipses[0] + 1] = fill
    else:
        items.extend(fill)
    v = base.view
    offset = v.offset
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
            shape_out.append(v.shape[axis])
            strides.append(v.strides[axis])
        elif isinstance(item, SliceV):
            start, length, step = slice_extent(t, item, v.shape[axis])
            offset = offset + v.strides[axis] * start
            shape_out.append(length)
            strides.append(v.strides[axis] * step)
        else:
            if (isinstance(item, Num) and item.native == "bool") or isinstance(item, Static):
                raise PlanRefused("an index that is no integer, slice or array", kind="index-error")
            number = t.load(item) if isinstance(item, Arr) else item
            if isinstance(number, Num) and number.dtype[0] == "f":
                raise PlanRefused("a float index", kind="index-error")
            offset = offset + v.strides[axis] * position_in(t, t.int_expr(number), v.shape[axis])
        axis += 1
    return View(v.buffer, v.dtype, tuple(shape_out), tuple(strides), offset), advanced


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
            t.trap("INDEX", compare("lt", high, low))
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
        if step.value is None or step.value == 0:
            raise PlanRefused("a slice step known only at run time, or 0", kind="slice")
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
        return facts.ask_less_equal(a, b)  # type: ignore[no-any-return]
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


def gather(t: Typer, base: Arr, advanced: dict[int, Arr]) -> Arr:
    """A fresh array of the elements that index arrays name."""
    nest = NestBody()
    shape_out, view, indexes = gather_pieces(t, base.view, advanced, nest)
    slot = nest.gather(view, indexes, t.pc)
    out = t.new_temp(shape_out, base.dtype)
    ops = nest.finish()
    t.emit(Nest(out.shape, nest.inputs, ops, [NestOut(nest.number(slot), "store", out.view)], t.pc))
    return out


@rule("np.take", "arr.take")
def take(t: Typer, a: Value, indices: Value, axis: Value = NONE, out: Value = NONE, mode: Value = NONE) -> Value:
    if given(out) or (given(mode) and not (isinstance(mode, Static) and mode.value == "raise")):
        raise PlanRefused("np.take with out= or mode=", kind="kernel:np.take")
    arr = as_array(t, a)
    if not given(axis):
        arr = ravel(t, arr)  # type: ignore[assignment]
        where = 0
    else:
        where = t.axis_of(axis, arr.ndim)
    full: list[Value] = [SliceV(NONE, NONE, NONE)] * arr.ndim
    full[where] = indices
    return subscript(t, arr, Seq(full, "tuple"))


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
    if isinstance(index, Arr) and index.dtype == "bool":
        return masked_store(t, base, index, value)
    view, advanced = basic_index(t, base, index)
    target = Arr(view)
    if advanced:
        return scatter(t, target, advanced, value)
    check_storable(t, value, base.dtype)
    if isinstance(value, Arr):
        value = fit(t, value, view.shape)
    t.write_view(target, value)
    return NONE


def check_storable(t: Typer, value: Value, dtype: str) -> None:
    """Stores cast as NumPy does ('unsafe'); a Python int must fit."""
    from .rules_elementwise import check_weak
    if isinstance(value, Num) and value.python == "float" and dtype[0] in "iu":
        return
    check_weak(value, dtype)


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
    if mask.ndim > base.ndim or not all(t.facts.ask_equal(x, y) for x, y in zip(mask.shape, base.shape, strict=False)):
        raise PlanRefused("a mask of another shape", kind="index-error")
    if isinstance(value, Arr):
        if value.ndim >= 1 and value.ndim > base.ndim - mask.ndim:
            raise PlanRefused("an array stored under a mask", kind="mask-store")
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
    if isinstance(value, Arr):
        value = fit(t, value, shape_out)
        if value.view.buffer is view.buffer:
            value = t.copy(value)
    slot = nest.cast(t.slot(nest, value, shape_out), COMPUTE[target.dtype])
    ops = nest.finish()
    numbered = tuple((nest.number(s), e, st) for s, e, st in indexes)
    t.emit(Nest(shape_out, nest.inputs, ops,
                [NestOut(nest.number(slot), "store", view, indexes=numbered, position=t.pc)], t.pc))
    return NONE


__all__ = ["axes_of", "permute", "reshaped", "shape_arg", "subscript"]
