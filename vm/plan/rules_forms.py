"""Functions of NumPy and Python that are others in another form: pieces, axes and grids, pairs of quotient and remainder."""

from __future__ import annotations

from .extents import const
from .planner_errors import PlanRefused
from .rules_elementwise import as_array, given, ufunc
from .rules_view import expand_dims, permute
from .typed import NONE, RULES, Typer, rule
from .values import Arr, Num, Seq, SliceV, Static, Value, is_python, python_bool, python_int

MAX_PIECES = 64  # arrays that np.unstack may make


@rule("np.unstack")
def unstack(t: Typer, x: Value, axis: Value = NONE) -> Value:
    arr = as_array(t, x)
    where = t.axis_of(axis, arr.ndim) if given(axis) else 0
    extent = t.facts.norm(arr.shape[where])
    if not extent.is_entry:
        raise PlanRefused("np.unstack along an extent that is known only while the program runs", kind="kernel:np.unstack")
    count = t.facts.value_of(extent)
    if count > MAX_PIECES:
        raise PlanRefused("np.unstack into very many arrays", kind="kernel:np.unstack")
    index: list[Value] = [SliceV(NONE, NONE, NONE)] * arr.ndim
    pieces = [t.subscript(arr, Seq([*index[:where], python_int(const(i)), *index[where + 1:], Static(...)], "tuple"))
              for i in range(count)]
    return Seq(pieces, "tuple")


@rule("np.rollaxis")
def rollaxis(t: Typer, a: Value, axis: Value, start: Value = NONE) -> Value:
    arr = as_array(t, a)
    source = t.axis_of(axis, arr.ndim)
    to = t.known_int(start) if given(start) else 0
    to += arr.ndim if to < 0 else 0
    if not 0 <= to <= arr.ndim:
        raise PlanRefused("np.rollaxis to a place that there is not", kind="axis-error")
    axes = [i for i in range(arr.ndim) if i != source]
    axes.insert(to - (source < to), source)
    return permute(arr, tuple(axes))


@rule("np.atleast_3d")
def atleast_3d(t: Typer, arys: Value) -> Value:
    items = t.children(arys)
    if len(items) != 1:
        return Seq([atleast_3d(t, Seq([item], "tuple")) for item in items], "tuple")
    arr: Value = as_array(t, items[0])
    for place in {0: (0, 1, 2), 1: (0, 2), 2: (2,)}.get(arr.ndim, ()):  # type: ignore[union-attr]
        arr = expand_dims(t, arr, python_int(const(place)))
    return arr


@rule("np.ix_")
def ix(t: Typer, args: Value) -> Value:
    """Open grids of index arrays: each lies along an axis of its own."""
    parts = [as_array(t, v) for v in t.children(args)]
    if any(p.ndim != 1 or p.dtype[0] not in "iu" for p in parts):
        raise PlanRefused("np.ix_ of other than index vectors", kind="kernel:np.ix_")
    for i, part in enumerate(parts):
        index: list[Value] = [Static(None)] * len(parts)
        index[i] = SliceV(NONE, NONE, NONE)
        parts[i] = t.subscript(part, Seq(index, "tuple"))  # type: ignore[assignment]
    return Seq(list(parts), "tuple")


@rule("np.vecmat")
def vecmat(t: Typer, x1: Value, x2: Value) -> Value:
    if not isinstance(x1, Arr) or not isinstance(x2, Arr) or x1.ndim != 1 or x2.ndim < 2:
        raise PlanRefused("np.vecmat of stacked vectors", kind="kernel:np.vecmat")
    return RULES["np.matmul"](t, x1, x2)


@rule("arr.compress")
def compress(t: Typer, a: Value, condition: Value, axis: Value = NONE, out: Value = NONE) -> Value:
    return RULES["np.compress"](t, condition, a, axis, out)


@rule("np.isscalar")
def is_scalar(t: Typer, element: Value) -> Value:
    if isinstance(element, (Arr, Num, Seq)):
        return python_bool(isinstance(element, Num))
    raise PlanRefused("np.isscalar of this value", kind="kernel:np.isscalar")


@rule("np.iscomplexobj")
def is_complex(t: Typer, x: Value) -> Value:
    if isinstance(x, (Arr, Num)):
        return python_bool(False)
    raise PlanRefused("np.iscomplexobj of this value", kind="kernel:np.iscomplexobj")


@rule("np.isrealobj")
def is_real(t: Typer, x: Value) -> Value:
    is_complex(t, x)
    return python_bool(True)


# --- quotients and powers ---------------------------------------------------------------------------------------------

@rule("np.divmod")
def numpy_divmod(t: Typer, x1: Value, x2: Value) -> Value:
    operands = [as_array(t, v) if t.is_sequence(v) else v for v in (x1, x2)]
    return Seq([ufunc(t, name, operands) for name in ("floor_divide", "remainder")], "tuple")


@rule("py.divmod")
def python_divmod(t: Typer, a: Value, b: Value) -> Value:
    if is_python(a) and is_python(b):
        return Seq([t.apply(name, a, b) for name in ("op.floordiv", "op.mod")], "tuple")
    if not isinstance(a, (Arr, Num)) or not isinstance(b, (Arr, Num)):
        raise PlanRefused("divmod of what is no number", kind="kernel:py.divmod")
    return numpy_divmod(t, a, b)


@rule("py.pow")
def python_pow(t: Typer, base: Value, exp: Value, modulus: Value = NONE) -> Value:
    if given(modulus):
        raise PlanRefused("pow() with a modulus", kind="kernel:py.pow")
    return t.apply("op.pow", base, exp)
