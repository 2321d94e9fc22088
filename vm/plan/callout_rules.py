"""What called kernels make: tools for rules, and the rules of FFT, statistics and functions of one array.

A rule says what the kernel makes when it succeeds; a call that must fail is the kernel's own to refuse. Dtypes and
extents follow NumPy 2's documented behaviour; tests/test_callout_rules.py compares them with the NumPy at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .callouts import Made, Question, Several, Unknown, calls, constant_value
from .emitting import product_of
from .extents import Expr, as_expr, const, emax, floordiv
from .planner_errors import PlanRefused
from .signature import DTYPE_NAMES, NUMPY_DTYPES
from .values import Arr, Cplx, Num, Seq, Value, is_float

WIDE = {"f16": "c64", "f32": "c64", "c64": "c64"}
REAL = {"c64": "f32", "c128": "f64"}


class Like(NamedTuple):
    """An operand seen as an array. weak: a Python number."""

    dtype: str
    shape: tuple[Expr, ...]
    is_scalar: bool = False
    weak: bool = False

    @property
    def ndim(self) -> int:
        return len(self.shape)


def like(q: Question, name: str) -> Like:
    """An operand as an array: of numbers, of an array, of (nested) sequences of numbers."""
    return _like(q, q[name])


def _like(q: Question, value: Value) -> Like:
    if isinstance(value, Cplx):
        inner = _like(q, value.re)
        return Like(value.dtype, inner.shape, inner.is_scalar, bool(value.python))
    if isinstance(value, Arr):
        return Like(value.dtype, value.shape)
    if isinstance(value, Num):
        return Like(value.dtype, (), True, bool(value.python))
    if q.t.is_sequence(value):
        items = [_like(q, item) for item in q.t.children(value)]
        if not items:
            return Like("f64", (const(0),))
        shape = items[0].shape
        if any(item.ndim != len(shape) for item in items):
            raise q.refuse("with a ragged sequence")
        return Like(common(*[item.dtype for item in items]), (const(len(items)), *shape))
    raise q.refuse("with such an operand")


def common(*dtypes: str) -> str:
    """NumPy's common dtype of arrays."""
    found = DTYPE_NAMES.get(np.result_type(*[NUMPY_DTYPES[d] for d in dtypes]))
    if found is None:
        raise PlanRefused("a common dtype that is not planned", kind="dtype")
    return found


def promoted(q: Question, *operands: Like) -> str:
    """NumPy's common dtype where Python numbers give way."""
    samples = {"i64": 0, "f64": 0.0, "bool": False, "c128": 0j}
    found = DTYPE_NAMES.get(np.result_type(*[samples[x.dtype] if x.weak else NUMPY_DTYPES[x.dtype] for x in operands]))
    if found is None:
        raise q.refuse("with such dtypes")
    return found


def inexact(dtype: str) -> str:
    """float64 for integers, the dtype itself for others."""
    return dtype if dtype[0] == "c" or is_float(dtype) else "f64"


def real(dtype: str) -> str:
    """The dtype of the parts."""
    return REAL.get(dtype, dtype)


def wide(dtype: str) -> str:
    """The complex dtype that holds it."""
    return WIDE.get(dtype, "c128")


def summed(dtype: str) -> str:
    """The dtype that sums of it have."""
    return {"bool": "i64", "i8": "i64", "i16": "i64", "i32": "i64", "u8": "u64", "u16": "u64", "u32": "u64"}.get(dtype, dtype)


def option(q: Question, name: str) -> Any:
    """A constant operand; None where it was left out."""
    return constant_value(q[name]) if q.is_given(name) else None


def flag(q: Question, name: str) -> bool:
    """A flag."""
    return bool(option(q, name))


def axis_in(q: Question, axis: object, ndim: int) -> int:
    """A normalised axis."""
    if not isinstance(axis, (int, np.integer)) or isinstance(axis, bool) or not -ndim <= axis < ndim:
        raise PlanRefused(f"{q.name}: axis {axis!r} of an array with {ndim} axes", kind="axis-error")
    return int(axis) % ndim


def axes_in(q: Question, axes: object, ndim: int) -> tuple[int, ...]:
    """Normalised axes: of None, a number or a sequence."""
    if axes is None:
        return tuple(range(ndim))
    listed = list(axes) if isinstance(axes, (tuple, list)) else [axes]
    return tuple(axis_in(q, axis, ndim) for axis in listed)


def without(q: Question, names: str) -> None:
    """Refuse operands that a rule does not know."""
    for name in names.split():
        if q.is_given(name):
            raise q.refuse(f"with {name}=")


def made(dtype: str, shape: Sequence[Expr | Unknown]) -> Made:
    """What ufuncs and reductions make: an array, or a NumPy scalar in place of one without axes."""
    return Made(dtype, tuple(shape) if shape else None)


def reduced(q: Question, dtype: str, shape: tuple[Expr, ...], lead: tuple[Expr, ...] = ()) -> Made:
    """A reduction's result by `axis` and `keepdims`; `lead` axes come first."""
    axes = axes_in(q, option(q, "axis"), len(shape))
    if "keepdims" in q.values and flag(q, "keepdims"):
        return made(dtype, (*lead, *[const(1) if i in axes else n for i, n in enumerate(shape)]))
    return made(dtype, (*lead, *[n for i, n in enumerate(shape) if i not in axes]))


def same(dtype: Callable[[str], str], name: str = "x") -> Callable[[Question], Made]:
    """A rule: the operand's own shape."""
    def rule(q: Question) -> Made:
        x = like(q, name)
        return made(dtype(x.dtype), x.shape)
    return rule


# --- FFT --------------------------------------------------------------------------------------------------------------

def _length(q: Question, value: Value, normal: Expr) -> Expr:
    from .rules_elementwise import given
    return q.t.int_expr(value) if given(value) else normal


def _transform(q: Question, kind: str, lengths: Sequence[Value | None], axes: Sequence[int], x: Like) -> Made:
    """kind: 'c' complex to complex, 'r' real to half, 'h' half to real, along the last of the axes."""
    if q.is_given("out"):
        raise q.refuse("with out=")
    if not x.ndim or (kind == "r" and x.dtype[0] == "c"):
        raise q.refuse("of such an operand")
    shape = list(x.shape)
    for position, (axis, value) in enumerate(zip(axes, lengths, strict=True)):
        n = shape[axis]
        is_last = position == len(axes) - 1
        if is_last and kind == "h":
            shape[axis] = _length(q, value, (n - 1) * 2)  # type: ignore[arg-type]
            continue
        n = _length(q, value, n)  # type: ignore[arg-type]
        shape[axis] = floordiv(n, 2) + 1 if is_last and kind == "r" else n
    if kind == "h":
        return Made("f16" if x.dtype == "f16" and len(axes) == 1 else real(wide(x.dtype)), tuple(shape))
    return Made(wide(x.dtype), tuple(shape))


def _fft_1d(kind: str) -> Callable[[Question], Made]:
    def rule(q: Question) -> Made:
        x = like(q, "a")
        return _transform(q, kind, [q["n"]], [axis_in(q, option(q, "axis"), x.ndim)], x)
    return rule


def _fft_nd(kind: str) -> Callable[[Question], Made]:
    def rule(q: Question) -> Made:
        x = like(q, "a")
        sizes = q.t.children(q["s"]) if q.is_given("s") else None
        given_axes = option(q, "axes")
        if sizes is not None and given_axes is None:
            raise q.refuse("with s= and no axes=")
        axes = axes_in(q, given_axes, x.ndim)
        if not axes:
            raise q.refuse("over no axes")
        return _transform(q, kind, [None] * len(axes) if sizes is None else sizes, axes, x)
    return rule


for _names, _kind in (("fft ifft", "c"), ("rfft ihfft", "r"), ("irfft hfft", "h")):
    calls(*[f"np.fft.{name}" for name in _names.split()])(_fft_1d(_kind))
for _names, _kind in (("fft2 ifft2 fftn ifftn", "c"), ("rfft2 rfftn", "r"), ("irfft2 irfftn", "h")):
    calls(*[f"np.fft.{name}" for name in _names.split()])(_fft_nd(_kind))


@calls("np.fft.fftfreq", "np.fft.rfftfreq")
def _fftfreq(q: Question) -> Made:
    step = like(q, "d")
    if not step.is_scalar or step.dtype[0] == "c":
        raise q.refuse("of steps that are no number")
    n = q.t.int_expr(q["n"])
    return Made("f64", (n if q.name.endswith(".fftfreq") else floordiv(n, 2) + 1,))


calls("np.fft.fftshift", "np.fft.ifftshift")(lambda q: Made(like(q, "x").dtype, like(q, "x").shape))


# --- statistics -------------------------------------------------------------------------------------------------------

def _with_axes(q: Question, name: str = "a") -> Like:
    """An operand that has axes: without them several functions answer in ways of their own."""
    x = like(q, name)
    if not x.ndim:
        raise q.refuse("of a number")
    return x


def _statistic(dtype: Callable[[str], str], refused: str = "out") -> Callable[[Question], Made]:
    def rule(q: Question) -> Made:
        without(q, refused)
        x = _with_axes(q)
        return reduced(q, dtype(x.dtype), x.shape)
    return rule


calls("np.median", "np.nanmedian")(_statistic(inexact))
calls("np.nanmax", "np.nanmin")(_statistic(lambda d: d, "out initial where"))
calls("np.nansum", "np.nanprod")(_statistic(summed, "out dtype initial where"))
calls("np.nanmean")(_statistic(inexact, "out dtype where"))
calls("np.nanstd", "np.nanvar")(_statistic(lambda d: real(inexact(d)), "out dtype where mean correction"))
calls("np.nanargmax", "np.nanargmin")(_statistic(lambda d: "i64"))


def _dtype_given(q: Question, normal: str) -> str:
    """The dtype of `dtype=`, else the normal one."""
    if not q.is_given("dtype"):
        return normal
    found = DTYPE_NAMES.get(np.dtype(option(q, "dtype")))
    if found is None:
        raise q.refuse("with such a dtype")
    return found


def _accumulating(dtype: Callable[[str], str], refused: str) -> Callable[[Question], Made]:
    def rule(q: Question) -> Made:
        without(q, refused)
        if "mean" in q.values:
            without(q, "mean correction" if "correction" in q.values else "mean")
        if "where" in q.values and option(q, "where") is not True:
            raise q.refuse("with where=")
        x = _with_axes(q)
        return reduced(q, _dtype_given(q, dtype(x.dtype)), x.shape)
    return rule


# of float16 and uint64; other dtypes are planned
calls("np.max", "np.min", "np.amax", "np.amin", "arr.max", "arr.min")(_statistic(lambda d: d, "out initial"))
calls("np.argmax", "np.argmin", "arr.argmax", "arr.argmin")(_statistic(lambda d: "i64"))
calls("np.sum", "arr.sum", "np.prod", "arr.prod")(_accumulating(summed, "out initial"))
calls("np.mean", "arr.mean")(_accumulating(inexact, "out"))
calls("np.var", "arr.var", "np.std", "arr.std")(_accumulating(lambda d: real(inexact(d)), "out"))
calls("np.cumsum", "arr.cumsum", "np.cumprod", "arr.cumprod")(lambda q: _scan(q, summed, "out"))


@calls("np.nan_to_num")
def _nan_to_num(q: Question) -> Made:
    if option(q, "copy") is not True:
        raise q.refuse("in place")
    x = like(q, "x")
    return made(x.dtype, x.shape)


@calls("np.ptp")
def _ptp(q: Question) -> Made:
    without(q, "out")
    x = like(q, "a")
    if x.dtype == "bool":
        raise q.refuse("of booleans")
    return reduced(q, x.dtype, x.shape)


_METHODS = frozenset((
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull",
    "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest"))


@calls("np.percentile", "np.quantile", "np.nanpercentile", "np.nanquantile")
def _quantile(q: Question) -> Made:
    without(q, "out")
    x, where = _with_axes(q), like(q, "q")
    if x.dtype in ("bool", "u64") or x.dtype[0] == "c" or where.dtype[0] == "c":
        raise q.refuse("of such dtypes")
    if str(option(q, "method")) != "linear" and (x.dtype != "f64" or str(option(q, "method")) not in _METHODS):
        raise q.refuse("with method=")
    if q.name.startswith("np.nan") and any(q.t.facts.ask_equal(extent, 0) for extent in x.shape):
        raise q.refuse("of nothing")  # NumPy forgets about q then
    if where.is_scalar and where.weak:
        dtype = inexact(x.dtype)
    elif x.dtype[0] != "f":
        dtype = "f64" if where.dtype[0] != "f" else common(x.dtype, where.dtype)
    else:
        dtype = common(x.dtype, where.dtype if where.dtype[0] == "f" else "f64")
    return reduced(q, dtype, x.shape, where.shape)


@calls("np.average")
def _average(q: Question) -> Made:
    x = like(q, "a")
    if flag(q, "returned"):
        raise q.refuse("with returned=")
    dtype = x.dtype
    if q.is_given("weights"):
        dtype = common(dtype, like(q, "weights").dtype)
    return reduced(q, inexact(dtype), x.shape)


@calls("np.cov", "np.corrcoef")
def _cov(q: Question) -> Made:
    m = like(q, "m" if q.name == "np.cov" else "x")
    if q.name == "np.cov":
        without(q, "fweights aweights")
    if m.ndim > 2 or (q.name == "np.cov" and option(q, "ddof") not in (None, 0, 1)):
        raise q.refuse("with these operands")
    dtype = common(m.dtype, "f64")
    if q.is_given("y"):
        y = like(q, "y")
        if m.ndim != 1 or y.ndim != 1:
            raise q.refuse("with these operands")
        return Made(common(dtype, y.dtype), (const(2), const(2)))
    if not flag(q, "rowvar") and m.ndim == 2:
        m = m._replace(shape=m.shape[::-1])
    if dtype == "c128" and m.ndim == 2 and q.t.facts.ask_equal(m.shape[0], 0):
        raise q.refuse("of nothing")
    if m.ndim < 2 or q.t.facts.ask_equal(m.shape[0], 1):  # squeezed; a quotient of two such arrays is a number
        return Made(dtype, ()) if q.name == "np.cov" else Made(dtype)
    return Made(dtype, (m.shape[0], m.shape[0]))


@calls("np.trapezoid")
def _trapezoid(q: Question) -> Made:
    y = like(q, "y")
    parts = [Like(inexact(y.dtype), ()), like(q, "x" if q.is_given("x") else "dx")]
    axis = axis_in(q, option(q, "axis"), y.ndim)
    if parts[1].ndim > 1 or y.dtype == "f16":
        raise q.refuse("over such places")
    return made(promoted(q, *parts), tuple(n for i, n in enumerate(y.shape) if i != axis))


@calls("np.gradient")
def _gradient(q: Question) -> Made | Several:
    f = like(q, "f")
    if f.dtype == "bool":
        raise q.refuse("of booleans")
    axes = axes_in(q, option(q, "axis"), f.ndim)
    steps = q.t.children(q["varargs"])
    for step in steps:
        spacing = _like(q, step)
        if spacing.dtype[0] == "c" or (f.dtype in ("f32", "f16") and not spacing.weak):
            raise q.refuse("with such steps")
    one = Made(inexact(f.dtype), f.shape)
    return one if len(axes) == 1 else Several([one] * len(axes))


# --- functions of one array ---------------------------------------------------------------------------------------------

calls("np.sinc")(same(inexact))
calls("np.i0")(lambda q: made(inexact(_with_axes(q, "x").dtype), like(q, "x").shape))
calls("np.unwrap")(same(inexact, "p"))
calls("np.nancumsum", "np.nancumprod")(lambda q: _scan(q, summed))


def _scan(q: Question, dtype: Callable[[str], str], refused: str = "out dtype") -> Made:
    without(q, refused)
    x = _with_axes(q)
    return Made(_dtype_given(q, dtype(x.dtype)), x.shape if q.is_given("axis") else (product_of(x.shape),))


@calls("np.angle")
def _angle(q: Question) -> Made:
    z = like(q, "z")
    if z.dtype in ("i8", "u8", "i16", "u16", "f16"):
        raise q.refuse("of a small dtype")
    return made(real(inexact(z.dtype)), z.shape)


@calls("np.polyval")
def _polyval(q: Question) -> Made:
    p, x = like(q, "p"), like(q, "x")
    if p.ndim != 1 or (x.weak and p.dtype != common(p.dtype, x.dtype)):
        raise q.refuse("with these operands")
    least = q.t.facts.is_less_equal(1, p.shape[0])
    if least is None and q.t.facts.norm(p.shape[0]).is_entry:
        least = q.t.facts.ask_less_equal(1, p.shape[0])
    if not least:  # of nothing it is zeros in the dtype of x
        raise q.refuse("of what may be nothing")
    return made(common(p.dtype, x.dtype), x.shape)


@calls("np.cumulative_sum", "np.cumulative_prod")
def _cumulative(q: Question) -> Made:
    without(q, "out")
    x = like(q, "x")
    if not x.ndim or (x.ndim > 1 and not q.is_given("axis")):
        raise q.refuse("along no axis")
    axis = axis_in(q, option(q, "axis"), x.ndim) if q.is_given("axis") else 0
    first = int(flag(q, "include_initial"))
    return Made(_dtype_given(q, summed(x.dtype)), tuple(n + first if i == axis else n for i, n in enumerate(x.shape)))


# --- polynomials --------------------------------------------------------------------------------------------------------

@calls("np.polyfit")
def _polyfit(q: Question) -> Made:
    x, y = like(q, "x"), like(q, "y")
    degree = option(q, "deg")
    if flag(q, "full") or option(q, "cov") is not False or q.is_given("w") or x.ndim != 1 or y.ndim not in (1, 2) \
            or not isinstance(degree, int) or isinstance(degree, bool) or degree < 0:
        raise q.refuse("with these operands")
    if "f16" in (inexact(x.dtype), inexact(y.dtype)):
        raise q.refuse("of float16")
    return Made(common(x.dtype, y.dtype, "f64"), (const(degree + 1), *y.shape[1:]))


@calls("np.polyder", "np.polyint")
def _poly_step(q: Question) -> Made:
    p = like(q, "p")
    least = p.ndim == 1 and q.t.facts.norm(p.shape[0]).is_entry and q.t.facts.ask_less_equal(1, p.shape[0])
    if not least or option(q, "m") != 1 or q.is_given("k"):
        raise q.refuse("with these operands")
    if q.name == "np.polyder":
        return Made(common(p.dtype, "i64"), (p.shape[0] - 1,))
    return Made(common(inexact(p.dtype), "f64"), (p.shape[0] + 1,))


@calls("np.polyadd", "np.polysub")
def _poly_sum(q: Question) -> Made:
    a, b = like(q, "a1"), like(q, "a2")
    if a.ndim != 1 or b.ndim != 1 or "bool" in (a.dtype, b.dtype):
        raise q.refuse("of such operands")
    return Made(common(a.dtype, b.dtype), (emax(a.shape[0], b.shape[0]),))


@calls("np.polymul")
def _poly_product(q: Question) -> Made:
    a, b = like(q, "a1"), like(q, "a2")
    if a.ndim != 1 or b.ndim != 1:
        raise q.refuse("of such operands")
    return Made(common(a.dtype, b.dtype), (Unknown(1, None),))  # leading zeros are dropped first


# --- products -----------------------------------------------------------------------------------------------------------

@calls("np.kron")
def _kron(q: Question) -> Made:
    a, b = like(q, "a"), like(q, "b")
    if a.is_scalar or b.is_scalar or not a.ndim or not b.ndim:
        raise q.refuse("of numbers")
    ndim = max(a.ndim, b.ndim)
    left, right = ((*[const(1)] * (ndim - x.ndim), *x.shape) for x in (a, b))
    return Made(common(a.dtype, b.dtype), tuple(m * n for m, n in zip(left, right, strict=True)))


@calls("np.convolve", "np.correlate")
def _convolve(q: Question) -> Made:
    a, v = like(q, "a"), like(q, "v")
    if a.ndim != 1 or v.ndim != 1:
        raise q.refuse("of these operands")
    m, n = a.shape[0], v.shape[0]
    mode = str(option(q, "mode"))
    if mode not in ("full", "same", "valid"):
        raise q.refuse("with such a mode")
    longest = emax(m, n)
    return Made(common(a.dtype, v.dtype), ({"full": m + n - 1, "same": longest, "valid": emax(m - n, n - m) + 1}[mode],))


@calls("np.interp")
def _interp(q: Question) -> Made:
    x = like(q, "x")
    return made("c128" if like(q, "fp").dtype[0] == "c" else "f64", x.shape)


@calls("np.isin")
def _isin(q: Question) -> Made:
    return Made("bool", like(q, "element").shape)


calls("np.allclose", "np.array_equal", "np.array_equiv")(lambda q: Made("bool", None, "bool"))


@calls("np.cross")
def _cross(q: Question) -> Made:
    a, b = like(q, "a"), like(q, "b")
    if any(option(q, name) != -1 for name in ("axisa", "axisb", "axisc")) or option(q, "axis") not in (None, -1):
        raise q.refuse("along such axes")
    if not a.ndim or not b.ndim or not all(q.t.facts.ask_equal(x.shape[-1], 3) for x in (a, b)):
        raise q.refuse("of vectors in the plane")
    return Made(common(a.dtype, b.dtype), (*q.t.broadcast(a.shape[:-1], b.shape[:-1]), const(3)))


@calls("np.diff")
def _diff(q: Question) -> Made:
    without(q, "prepend append")
    x, n = like(q, "a"), option(q, "n")
    axis = axis_in(q, option(q, "axis"), x.ndim)
    if not isinstance(n, int) or n < 1:
        raise q.refuse("of such an order")
    return Made(x.dtype, tuple(emax(m - n, 0) if i == axis else m for i, m in enumerate(x.shape)))


def exprs(values: Sequence[Expr | int]) -> tuple[Expr, ...]:
    """Extents as expressions."""
    return tuple(as_expr(value) for value in values)


def sequence(q: Question, name: str) -> list[Value]:
    """Items of a sequence operand."""
    value = q[name]
    if isinstance(value, (Arr, Cplx, Num)) or not q.t.is_sequence(value):
        raise q.refuse(f"with {name} that is no sequence")
    return list(q.t.children(value)) if not isinstance(value, Seq) else list(value.items)
