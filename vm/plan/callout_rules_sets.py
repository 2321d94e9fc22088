"""What called kernels that sort, search and count make, and those that write into their operand."""

from __future__ import annotations

from .callout_rules import Like, _like, axis_in, common, flag, inexact, like, made, option, promoted, sequence, without
from .callouts import Itself, Made, Question, Several, Unknown, calls
from .emitting import product_of
from .extents import Expr, const, floordiv
from .values import Arr, Cplx

# --- sorting ----------------------------------------------------------------------------------------------------------

@calls("np.sort", "np.argsort", "arr.argsort", "np.partition", "np.argpartition", "arr.argpartition")
def _sorted(q: Question) -> Made:
    if "order" in q.values:
        without(q, "order")
    x = like(q, "a")
    dtype = "i64" if "arg" in q.name else x.dtype
    if not q.is_given("axis"):
        return Made(dtype, (product_of(x.shape),))
    axis_in(q, option(q, "axis"), x.ndim)
    return Made(dtype, x.shape)


@calls("arr.sort", "arr.partition")
def _sorted_in_place(q: Question) -> Made:
    if "order" in q.values:
        without(q, "order")
    return written(q, "a")


@calls("np.lexsort")
def _lexsort(q: Question) -> Made:
    keys = like(q, "keys")
    if keys.ndim < 2:
        raise q.refuse("of numbers")
    return Made("i64", keys.shape[1:])


@calls("np.sort_complex")
def _sort_complex(q: Question) -> Made:
    x = like(q, "a")
    return Made("c64" if x.dtype in ("i8", "i16", "u8", "u16") else x.dtype if x.dtype[0] == "c" else "c128", x.shape)


@calls("np.searchsorted", "arr.searchsorted")
def _searchsorted(q: Question) -> Made:
    return made("i64", like(q, "v").shape)


@calls("np.digitize")
def _digitize(q: Question) -> Made:
    return made("i64", like(q, "x").shape)


# --- sets -------------------------------------------------------------------------------------------------------------

@calls("np.unique")
def _unique(q: Question) -> Made | Several:
    x = like(q, "ar")
    flat = product_of(x.shape)
    if q.is_given("axis"):
        axis = axis_in(q, option(q, "axis"), x.ndim)
        count = Unknown(0, x.shape[axis])
        shape: tuple[Expr | Unknown, ...] = tuple(count if i == axis else n for i, n in enumerate(x.shape))
        inverse: tuple[Expr, ...] = (x.shape[axis],)
    else:
        count = Unknown(0, flat)
        shape, inverse = (count,), x.shape
    out = [Made(x.dtype, shape)]
    if flag(q, "return_index"):
        out.append(Made("i64", (count,)))
    if flag(q, "return_inverse"):
        out.append(Made("i64", inverse))
    if flag(q, "return_counts"):
        out.append(Made("i64", (count,)))
    return Several(out) if len(out) > 1 else out[0]


@calls("np.unique_values", "np.unique_counts", "np.unique_inverse", "np.unique_all")
def _unique_parts(q: Question) -> Made | Several:
    x = like(q, "x")
    count = Unknown(0, product_of(x.shape))
    values, places = Made(x.dtype, (count,)), Made("i64", (count,))
    parts = {"values": values, "indices": places, "inverse_indices": Made("i64", x.shape), "counts": places}
    wanted = {"np.unique_values": "values", "np.unique_counts": "values counts",
              "np.unique_inverse": "values inverse_indices", "np.unique_all": "values indices inverse_indices counts"}
    fields = tuple(wanted[q.name].split())
    return values if len(fields) == 1 else Several([parts[name] for name in fields], fields=fields)


@calls("np.intersect1d", "np.union1d", "np.setdiff1d", "np.setxor1d")
def _set(q: Question) -> Made | Several:
    a, b = like(q, "ar1"), like(q, "ar2")
    m, n = product_of(a.shape), product_of(b.shape)
    if a.dtype != b.dtype and q.name == "np.setdiff1d":
        raise q.refuse("of different dtypes")
    dtype = promoted(q, a, b) if q.name == "np.union1d" else common(a.dtype, b.dtype)
    if q.name == "np.intersect1d":
        count = Unknown(0, m)
        if flag(q, "return_indices"):
            return Several([Made(dtype, (count,)), Made("i64", (count,)), Made("i64", (count,))])
        return Made(dtype, (count,))
    return Made(dtype, (Unknown(0, m if q.name == "np.setdiff1d" else m + n),))


# --- bits ---------------------------------------------------------------------------------------------------------------

@calls("np.packbits")
def _packbits(q: Question) -> Made:
    a = like(q, "a")
    if not q.is_given("axis"):
        return Made("u8", (floordiv(product_of(a.shape) + 7, 8),))
    axis = axis_in(q, option(q, "axis"), a.ndim)
    return Made("u8", tuple(floordiv(n + 7, 8) if i == axis else n for i, n in enumerate(a.shape)))


@calls("np.unpackbits")
def _unpackbits(q: Question) -> Made:
    a = like(q, "a")
    count = option(q, "count")
    if count is not None and (not isinstance(count, int) or count < 0):
        raise q.refuse("with such a count")
    if not q.is_given("axis"):
        return Made("u8", (product_of(a.shape) * 8 if count is None else const(count),))
    axis = axis_in(q, option(q, "axis"), a.ndim)
    return Made("u8", tuple((n * 8 if count is None else const(count)) if i == axis else n for i, n in enumerate(a.shape)))


# --- counting ---------------------------------------------------------------------------------------------------------

@calls("np.bincount")
def _bincount(q: Question) -> Made:
    x = like(q, "x")
    if x.ndim != 1:
        raise q.refuse("of such operands")
    is_empty = x.shape[0].is_entry and q.t.facts.ask_equal(x.shape[0], 0)  # then nobody looks at the weights
    return Made("f64" if q.is_given("weights") and not is_empty else "i64", (Unknown(0, None),))


def _bins(q: Question, name: str) -> tuple[Expr, str | None]:
    """(number of bins, dtype of their edges or None where the range decides)."""
    bins = like(q, name)
    if bins.is_scalar:
        return q.t.int_expr(q[name]), None
    if bins.ndim != 1:
        raise q.refuse("with such bins")
    return bins.shape[0] - 1, bins.dtype


def _edge_dtype(q: Question, x: Like) -> str:
    if q.is_given("range"):
        for bound in sequence(q, "range"):
            if not _like(q, bound).weak:
                raise q.refuse("over a range that is not of Python's numbers")
    return inexact(x.dtype)


@calls("np.histogram", "np.histogram_bin_edges")
def _histogram(q: Question) -> Made | Itself | Several:
    x = like(q, "a")
    if x.dtype[0] == "c":
        raise q.refuse("of complex numbers")
    count, given = _bins(q, "bins")
    edges: Made | Itself = Made(given or _edge_dtype(q, x), (count + 1,))
    if isinstance(q["bins"], (Arr, Cplx)):
        edges = Itself("bins")
    if q.name.endswith("edges"):
        return edges
    dtype = "i64"
    if q.is_given("weights"):
        dtype = like(q, "weights").dtype
    if flag(q, "density"):
        dtype = "f64"
        if q.is_given("weights"):
            raise q.refuse("with weights= and density=")
    return Several([Made(dtype, (count,)), edges])


@calls("np.histogram2d")
def _histogram2d(q: Question) -> Several:
    without(q, "range density weights")
    x, y = like(q, "x"), like(q, "y")
    if not like(q, "bins").is_scalar or x.dtype != y.dtype or x.dtype not in ("f64", "i64"):
        raise q.refuse("with these operands")
    n = q.t.int_expr(q["bins"])
    return Several([Made("f64", (n, n)), Made("f64", (n + 1,)), Made("f64", (n + 1,))])


# --- writing ----------------------------------------------------------------------------------------------------------

def written(q: Question, name: str) -> Made:
    value = q[name]
    if not isinstance(value, (Arr, Cplx)) or (isinstance(value, Cplx) and not isinstance(value.re, Arr)):
        raise q.refuse("into something that is no array")
    for other in q.values.values():
        if isinstance(other, Arr) and isinstance(value, Arr) and other is not value and (
                other.view.buffer is value.view.buffer):
            raise q.refuse("into an array that it reads")
    q.written.add(name)
    return Made("")


calls("np.put", "arr.put", "np.putmask")(lambda q: written(q, "a"))
calls("np.place", "np.put_along_axis")(lambda q: written(q, "arr"))
calls("np.copyto")(lambda q: written(q, "dst"))
calls("np.fill_diagonal")(lambda q: written(q, "a"))


# --- taking apart and putting together --------------------------------------------------------------------------------

@calls("np.argwhere")
def _argwhere(q: Question) -> Made:
    x = like(q, "a")
    if not x.ndim:
        raise q.refuse("of a number")
    return Made("i64", (Unknown(0, product_of(x.shape)), const(x.ndim)))


@calls("np.delete", "np.insert")
def _edited(q: Question) -> Made:
    x = like(q, "arr")
    growth: Expr | int = 0
    if q.name == "np.insert":
        values, places = like(q, "values"), like(q, "obj")
        growth = product_of(values.shape) + product_of(places.shape)
    if not q.is_given("axis"):
        return Made(x.dtype, (Unknown(0, product_of(x.shape) + growth),))
    axis = axis_in(q, option(q, "axis"), x.ndim)
    return Made(x.dtype, tuple(Unknown(0, n + growth) if i == axis else n for i, n in enumerate(x.shape)))


@calls("np.take_along_axis")
def _take_along_axis(q: Question) -> Made:
    x, indices = like(q, "arr"), like(q, "indices")
    if not q.is_given("axis"):
        return Made(x.dtype, indices.shape)
    axis = axis_in(q, option(q, "axis"), x.ndim)
    if indices.ndim != x.ndim:
        raise q.refuse("of such indices")
    lead = q.t.broadcast(*[tuple(const(1) if i == axis else n for i, n in enumerate(s)) for s in (x.shape, indices.shape)])
    return Made(x.dtype, tuple(indices.shape[i] if i == axis else n for i, n in enumerate(lead)))


@calls("np.choose", "arr.choose")
def _choose(q: Question) -> Made:
    without(q, "out")
    a = like(q, "a")
    if isinstance(q["choices"], (Arr, Cplx)):
        whole = like(q, "choices")
        items = [Like(whole.dtype, whole.shape[1:])]
    else:
        items = [_like(q, item) for item in sequence(q, "choices")]
    shape = q.t.broadcast(a.shape, *[item.shape for item in items])
    return made(common(*[item.dtype for item in items]), shape)


@calls("np.repeat", "arr.repeat")
def _repeat(q: Question) -> Made:
    a, repeats = like(q, "a"), like(q, "repeats")
    if repeats.ndim != 1 or repeats.dtype[0] not in "iu":
        raise q.refuse("by such counts")
    if not q.is_given("axis"):
        return Made(a.dtype, (Unknown(0, None),))
    axis = axis_in(q, option(q, "axis"), a.ndim)
    return Made(a.dtype, tuple(Unknown(0, None) if i == axis else n for i, n in enumerate(a.shape)))


@calls("np.arange")
def _arange(q: Question) -> Made:
    without(q, "dtype")
    numbers = [like(q, name) for name in ("start", "stop", "step") if q.is_given(name)]
    if not all(x.is_scalar and x.dtype in ("f64", "i64") for x in numbers) or all(x.dtype == "i64" for x in numbers):
        raise q.refuse("of such numbers")
    return Made("f64", (Unknown(0, None),))


@calls("np.logspace", "np.geomspace")
def _spaced(q: Question) -> Made:
    without(q, "dtype")
    names = ("start", "stop", "base") if q.name == "np.logspace" else ("start", "stop")
    if not all(like(q, name).is_scalar and like(q, name).dtype in ("f64", "i64") for name in names):
        raise q.refuse("of such numbers")
    return Made("f64", (q.t.int_expr(q["num"]),))


@calls("np.resize")
def _resize(q: Question) -> Made:
    a, shape = like(q, "a"), q["new_shape"]
    if like(q, "new_shape").is_scalar:
        return Made(a.dtype, (q.t.int_expr(shape),))
    return Made(a.dtype, tuple(q.t.int_expr(item) for item in sequence(q, "new_shape")))


@calls("np.vander")
def _vander(q: Question) -> Made:
    x = like(q, "x")
    if x.ndim != 1:
        raise q.refuse("of such operands")
    columns = q.t.int_expr(q["N"]) if q.is_given("N") else x.shape[0]
    return Made(common(x.dtype, "i64"), (x.shape[0], columns))


@calls("np.hanning", "np.hamming", "np.blackman", "np.bartlett", "np.kaiser")
def _window(q: Question) -> Made:
    return Made("f64", (q.t.int_expr(q["M"]),))


@calls("np.unravel_index")
def _unravel_index(q: Question) -> Several:
    indices = like(q, "indices")
    ndim = 1 if like(q, "shape").is_scalar else len(sequence(q, "shape"))
    return Several([made("i64", indices.shape)] * ndim)


@calls("np.ravel_multi_index")
def _ravel_multi_index(q: Question) -> Made:
    items = [_like(q, item) for item in sequence(q, "multi_index")]
    return made("i64", q.t.broadcast(*[item.shape for item in items]))


_UNARY = {"np.spacing": inexact, "np.bitwise_count": lambda d: "u8", "np.isposinf": lambda d: "bool",
          "np.isneginf": lambda d: "bool", "np.iscomplex": lambda d: "bool", "np.isreal": lambda d: "bool"}


@calls(*_UNARY)
def _unary(q: Question) -> Made:
    x = like(q, "x")
    if x.dtype in ("i8", "u8", "i16", "u16", "bool", "f16") and q.name == "np.spacing":
        raise q.refuse("of a small dtype")
    if "out" in q.values:
        without(q, "out")
    return made(_UNARY[q.name](x.dtype), x.shape)


_BINARY = ("np.gcd", "np.lcm", "np.logaddexp2", "np.nextafter")


@calls(*_BINARY)
def _binary(q: Question) -> Made:
    without(q, "out dtype")
    if option(q, "where") is not True:
        raise q.refuse("with where=")
    a, b = like(q, "x1"), like(q, "x2")
    dtype = promoted(q, a, b)
    if dtype[0] not in ("iu" if q.name in ("np.gcd", "np.lcm") else "f"):
        raise q.refuse("of such dtypes")
    return made(dtype, q.t.broadcast(a.shape, b.shape))


@calls("np.divmod")
def _divmod(q: Question) -> Several:
    a, b = like(q, "x1"), like(q, "x2")
    dtype = promoted(q, a, b)
    if dtype == "bool" or dtype[0] == "c":
        raise q.refuse("of such dtypes")
    one = made(dtype, q.t.broadcast(a.shape, b.shape))
    return Several([one, one])


@calls("np.modf", "np.frexp")
def _parts(q: Question) -> Several:
    x = like(q, "x")
    if x.dtype in ("bool", "i8", "u8", "i16", "u16", "f16") or x.dtype[0] == "c":
        raise q.refuse("of a small dtype")
    dtype = inexact(x.dtype)
    return Several([made(dtype, x.shape), made(dtype if q.name == "np.modf" else "i32", x.shape)])


# --- Python's mathematics -----------------------------------------------------------------------------------------------

_FLOATS = [
        "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "sin", "cos", "tan", "asin", "acos",
        "atan2", "sinh", "cosh", "acosh", "atanh", "fmod", "hypot", "copysign", "erf",
        "erfc", "gamma", "lgamma", "degrees", "radians", "ldexp", "remainder", "dist", "nextafter", "ulp", "fsum"]
_INTS = ["gcd", "lcm", "factorial", "comb", "perm", "isqrt"]


def _mathematics(python: str, dtype: str) -> None:
    def rule(q: Question) -> Made:
        for value in q.values.values():
            items = q.t.children(value) if q.t.is_sequence(value) and not isinstance(value, (Arr, Cplx)) else [value]
            if any(isinstance(item, (Arr, Cplx)) and not (isinstance(item, Arr) and not item.ndim) for item in items):
                raise q.refuse("of arrays")
        return Made(dtype, None, python)
    names = {"float": _FLOATS, "bool": ["isnan", "isinf", "isfinite", "isclose"], "int": _INTS}[python]
    calls(*[f"math.{name}" for name in names])(rule)


for _python, _dtype in (("float", "f64"), ("bool", "bool"), ("int", "i64")):
    _mathematics(_python, _dtype)

