"""Calls of kernels that plans call out to, over dtypes and shapes: what the rules of `vm/plan/callout_rules*` are held to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from prebake.templates.registry import KERNELS

DTYPES = (np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float16,
          np.float32, np.float64, np.complex64, np.complex128)
SHAPES = ((5,), (1,), (0,), (3, 4), (1, 4), (4, 1), (2, 3, 4), (0, 3), ())
Call = tuple[str, tuple[Any, ...]]
N = None


METHODS = {method: [k.name for k in KERNELS if k.id >= 0x9000 and k.name.endswith(f".{method}")]
           for method in ("reduce", "accumulate", "reduceat", "outer", "at")}


def sample(dtype: Any, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """An array of small numbers."""
    kind = np.dtype(dtype).kind
    x = np.asarray(rng.integers(0, 2 if kind == "b" else 5, shape)).astype(dtype)
    return (x + rng.normal(size=shape).astype(np.float32)).astype(dtype) if kind in "fc" else x


def calls(rng: np.random.Generator) -> Iterator[Call]:
    """Every call of the table."""
    for dtype in DTYPES:
        for shape in SHAPES:
            x = sample(dtype, shape, rng)
            yield from _of_one_array(x)
            for axis in (N, 0, -1, 1):
                yield from _along(x, axis, -1 if axis is None else axis)
        yield from _of_matrices(dtype, rng)
        for other in DTYPES:
            yield from _of_two(dtype, other, rng)
    yield from _of_numbers()


def _along(x: np.ndarray, axis: int | None, one: int) -> Iterator[Call]:
    for keep in (False, True):
        yield "np.median", (x, axis, N, False, keep)
        yield from ((f"np.{name}", (x, axis, N, keep)) for name in [
                "nanmax", "nanmin", "ptp", "max", "min", "amax", "amin", "argmax", "argmin"])
        yield from ((f"arr.{name}", (x, axis, N, keep)) for name in ("max", "min", "argmax", "argmin"))
        yield from ((f"np.{name}", (x, axis, N, N, keep)) for name in ["nansum", "nanprod", "nanmean"])
        yield from ((f"np.{name}", (x, axis, N, N, 0, keep)) for name in ["nanstd", "nanvar"])
        for at in (50, 50.0, [10, 50], np.float64(50), np.float32(50), np.array([1.0, 2.0]), np.array([1, 2], np.float32),
                   np.array([1, 2])):
            yield "np.percentile", (x, at, axis, N, False, "linear", keep)
            yield "np.nanpercentile", (x, at, axis, N, False, "linear", keep)
        yield "np.quantile", (x, 0.25, axis)
        yield "np.nanquantile", (x, 0.25, axis)
        yield "np.average", (x, axis, N, False, keep)
        yield "np.linalg.norm", (x, N, axis, keep)
        yield "np.linalg.vector_norm", (x, axis, keep)
        for order in (1, 2, np.inf, -1, "fro", "nuc", 3):
            yield "np.linalg.norm", (x, order, axis, keep)
            yield "np.linalg.norm", (x, order, (0, 1), keep)
        for name in ("np.sum", "arr.sum", "np.prod", "arr.prod", "np.mean", "arr.mean"):
            yield name, (x, axis, N, N, keep)
        yield from ((name, (x, axis, N, N, 1, keep)) for name in ("np.var", "arr.var", "np.std", "arr.std"))
    yield from ((name, (x, axis)) for name in ("np.cumsum", "arr.cumsum", "np.cumprod", "arr.cumprod"))
    yield from (("np.sum", (x, axis, np.dtype(other))) for other in (np.float32, np.float64))
    yield "np.average", (x, axis, x)
    yield from ((f"np.{name}", (x, axis)) for name in [
            "nanargmax", "nanargmin", "nanmedian", "sort", "argsort", "nancumsum", "nancumprod", "fft.fftshift",
            "fft.ifftshift"])
    yield "np.unwrap", (x, N, one)
    yield "arr.argsort", (x, axis)
    yield from ((name, (x, 1, axis)) for name in ("np.partition", "np.argpartition", "arr.argpartition"))
    yield from ((f"np.cumulative_{name}", (x, axis, N, N, first)) for name in ("sum", "prod") for first in (False, True))
    for flags in np.ndindex(2, 2, 2):
        yield "np.unique", (x, *map(bool, flags), axis)
    for name in ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]:
        yield from ((f"np.fft.{name}", (x, n, one)) for n in (N, 6, 5))
    yield from (("np.trapezoid", (x, N, step, one)) for step in (1.0, 2, np.float64(1)))
    yield from (("np.gradient", (x, steps, axis)) for steps in ((), (0.5,), (2,), (np.float64(2),)))
    yield from ((name, (x, np.arange(x.shape[axis or 0] if axis is not None and x.ndim > abs(axis) else x.size), axis))
                for name in ("np.repeat", "arr.repeat"))
    yield from (("np.delete", (x, places, axis)) for places in (1, [0, 1]))
    yield from (("np.insert", (x, places, 3, axis)) for places in (1, [0, 1]))
    yield from (("np.diff", (x, order, one)) for order in (1, 2))


def _of_one_array(x: np.ndarray) -> Iterator[Call]:
    for axis in (0, 1, N) if x.shape in ((5,), (3, 4)) else ():
        yield from ((name, (x, axis, N, N, keep)) for name in METHODS["reduce"] for keep in (False, True))
        yield from ((name, (x, axis)) for name in METHODS["accumulate"])
        yield from ((name, (x, at, axis)) for name in METHODS["reduceat"] for at in (np.array([0, 2]), [1, 0]))
    for name in ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"]:
        yield from ((f"np.fft.{name}", args) for args in ((x,), (x, (4, 5), (0, 1)), (x, (4,), (0,))))
    for name in [
            "np.sinc", "np.i0", "np.angle", "np.sort_complex", "np.spacing", "np.bitwise_count", "np.isposinf",
            "np.isneginf", "np.iscomplex", "np.isreal", "np.modf", "np.frexp", "np.argwhere", "np.cov",
            "np.corrcoef", "np.linalg.inv", "np.linalg.det", "np.linalg.slogdet", "np.linalg.cholesky",
            "np.linalg.svd", "np.linalg.eigh", "np.linalg.eigvalsh", "np.linalg.eig", "np.linalg.eigvals",
            "np.linalg.pinv", "np.linalg.matrix_rank", "np.linalg.svdvals", "np.histogram",
            "np.histogram_bin_edges", "np.bincount", "np.vander", "np.triu_indices_from", "np.tril_indices_from",
            "np.lexsort", "arr.sort"]:
        yield name, (x,)
    for name in ("values", "counts", "inverse", "all"):
        yield f"np.unique_{name}", (x,)
    yield from (("np.packbits", (x, *axis)) for axis in ((), (0,), (-1,)))
    yield from (("np.unpackbits", (x, *rest)) for rest in ((), (0,), (-1, 3), (N, 5)))
    yield from (("np.linalg.qr", (x, mode)) for mode in ("reduced", "complete", "r"))
    yield from (("np.linalg.svd", (x, *flags)) for flags in ((False,), (True, False)))
    for order in (1, 2, np.inf, "fro", "nuc", -2):
        yield "np.linalg.cond", (x, order)
        yield from (("np.linalg.matrix_norm", (x, keep, order)) for keep in (False, True))
    yield from (("np.bincount", args) for args in ((x, x), (x, N, 7)))
    yield from (("np.histogram", (x, *rest)) for rest in (
        (4,), (4, (0.0, 5.0)), (4, (0, 5)), (4, N, True), (4, N, N, x), (4, N, True, x), (np.array([0, 1, 3]),),
        ([0.0, 1.0, 3],)))
    yield "np.histogram_bin_edges", (x, np.array([0.0, 1, 3]))
    yield from (("np.resize", (x, shape)) for shape in (5, (2, 3)))
    yield from (("np.cov", (x, *rest)) for rest in ((N, True, True), (N, True, False, 0), (x,), (N, False)))
    yield "np.vander", (x, 3)
    yield from ((f"np.{name}", (x,)) for name in ("polyder", "polyint"))
    yield "arr.partition", (x, 1)
    yield "np.nan_to_num", (x,)
    for name in [
            "negative", "positive", "absolute", "fabs", "sign", "square", "sqrt", "cbrt", "reciprocal", "exp",
            "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan",
            "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "floor", "ceil", "trunc", "rint", "invert",
            "logical_not", "isnan", "isinf", "isfinite", "uint64"]:
        yield f"np.{name}", (x,)
    yield from ((name, (x,)) for name in ("py.abs", "py.float"))


def _of_matrices(dtype: Any, rng: np.random.Generator) -> Iterator[Call]:
    kind = complex if np.dtype(dtype).kind == "c" else float
    a = sample(dtype, (3, 3), rng).astype(kind)
    square = (a @ a.T.conj() + 5 * np.eye(3)).astype(dtype)  # positive definite
    for m in (square, np.stack([square, square])):
        for name in [
                "inv", "det", "slogdet", "cholesky", "qr", "svd", "eigh", "eigvalsh", "eig", "eigvals", "pinv",
                "matrix_rank", "cond", "svdvals"]:
            yield f"np.linalg.{name}", (m,)
        yield from (("np.linalg.matrix_power", (m, n)) for n in (0, 1, 3, -1, -2))
        yield "np.linalg.eigh", (m, "U")
        yield "np.linalg.cholesky", (m, True)
        for other in DTYPES:
            for shape in ((3,), (3, 2), (2, 3), (2, 3, 3), (1, 3, 2)):
                b = sample(other, shape, rng)
                yield "np.linalg.solve", (m, b)
                yield "np.linalg.lstsq", (m, b)


def _of_two(dtype: Any, other: Any, rng: np.random.Generator) -> Iterator[Call]:
    u, v = sample(dtype, (4,), rng), sample(other, (3,), rng)
    m, w = sample(dtype, (2, 3), rng), sample(other, (4, 3), rng)
    for name in [
            "kron", "convolve", "correlate", "isin", "intersect1d", "union1d", "setdiff1d", "setxor1d", "polyval",
            "allclose", "array_equal", "array_equiv", "gcd", "lcm", "logaddexp2", "nextafter", "divmod", "cross",
            "histogram2d"]:
        for args in ((u, v), (m, w), (u, u), (w, m), (v, 2), (v, 2.5), (v, sample(other, (3,), rng)), (m, v), (v, [1, 2]),
                     (sample(dtype, (2, 1), rng), v), (v, np.float64(3))):
            yield f"np.{name}", args
    yield from ((f"np.{name}", args) for name in ("polyadd", "polysub", "polymul") for args in ((u, v), (v, v), (m, v)))
    yield from (("np.polyfit", (v, y, n)) for y in (sample(dtype, (3,), rng), m.T) for n in (0, 1))
    for name in METHODS["outer"] if other in (dtype, np.int8, np.float64) else ():
        yield from ((name, args) for args in ((m, v), (v, 2)))
    for name in METHODS["at"] if other in (dtype, np.float64) else ():
        yield name, (u, np.array([0, 1]), v[0])
    yield from (("np.interp", (x, np.sort(v), v)) for x in (u, m, 2.5, np.float32(2)))
    for x in (v, w, 2, np.float64(2)):
        yield "np.searchsorted", (np.sort(u), x)
        yield "arr.searchsorted", (np.sort(u), x, "right")
        yield "np.digitize", (x, np.sort(u))
    yield "np.searchsorted", (np.sort(u), v, "left", np.argsort(u))
    cube = sample(other, (2, 3, 4), rng)
    for name in ("np.dot", "arr.dot", "np.matmul", "op.matmul"):
        yield from ((name, (a, b)) for a, b in ((m, v), (m, w.T), (v, v), (m, cube), (v, cube)))
        yield name, (sample(dtype, (2, 2, 3), rng), cube)
    for name in [
            "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "fmod", "power", "maximum",
            "minimum", "fmax", "fmin", "arctan2", "hypot", "copysign", "logaddexp", "heaviside", "ldexp", "float_power",
            "equal", "not_equal", "less",
            "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_xor", "bitwise_and",
            "bitwise_or", "bitwise_xor", "left_shift", "right_shift"]:
        yield from ((f"np.{name}", args) for args in ((m, v), (v, 2), (v, 0.5), (v[0], 1), (v[0], u[0])))
    for name in ["add", "sub", "mul", "truediv", "mod", "floordiv", "pow", "lshift", "rshift", "and", "or", "xor"]:
        yield from ((f"op.{name}", args) for args in ((m, v), (v, 2), (v[0], u[0])))
    for x in (u, u[0], np.array(u[0])):
        yield "arr.astype", (x, np.dtype(other))
    for mode in ("same", "valid", "full"):
        yield from ((name, (a, b, mode)) for name in ("np.convolve", "np.correlate") for a, b in ((u, v), (v, u)))
    yield "np.intersect1d", (u, v, False, True)
    yield from (("np.choose", (np.array(at), items)) for at, items in (
        ([0, 1, 0], [v, sample(dtype, (3,), rng)]), ([0, 1], np.stack([v, v]))))
    yield "arr.choose", (np.array([0, 1, 0]), (v, v))
    yield from (("np.take_along_axis", (m, np.array(at), axis)) for at, axis in (
        ([[0], [1]], 1), ([[0, 1, 0]], 0), ([0, 1, 5], N)))
    yield from (("np.linalg.multi_dot", (items,)) for items in (
        [m, w.T, sample(dtype, (4, 5), rng)], [v, w.T, sample(dtype, (4, 5), rng)], [v, w.T, u]))
    for name, args in (("np.place", (u, u > 1, v)), ("np.put", (u, [0, 1], v)), ("arr.put", (u, [0, 1], v)),
                       ("np.putmask", (u, u > 1, v)), ("np.copyto", (m, v)), ("np.fill_diagonal", (m, v[0])),
                       ("np.put_along_axis", (m, np.array([[0], [1]]), v[0], 1))):
        yield name, args


def _of_numbers() -> Iterator[Call]:
    for n in (0, 1, 4, 5):
        for step in (1.0, 2, np.float32(2), np.float64(2)):
            yield from ((f"np.fft.{name}", (n, step)) for name in ("fftfreq", "rfftfreq"))
        yield from ((f"np.{name}", (n,)) for name in ("hanning", "hamming", "blackman", "bartlett"))
        yield "np.kaiser", (n, 2.0)
        yield from (("np.arange", args) for args in ((n + 0.5,), (0, n, 0.3), (0.0, n), (n, 9)))
        yield from ((f"np.{name}", (1, 10.0, n)) for name in ("logspace", "geomspace"))
        for k in (-1, 0, 2):
            yield from ((f"np.{name}", (n, k, *m)) for name in ("triu_indices", "tril_indices") for m in ((), (3,)))
        yield from (("np.unravel_index", (at, (2, 4))) for at in (n, np.array([1, 2])))
    yield from (("np.ravel_multi_index", (at, (2, 4))) for at in ((np.array([1, 0]), np.array([1, 2])), (1, 2)))
    for name in [
            "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "sin", "cos", "tan", "asin",
            "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "fmod", "hypot", "copysign",
            "erf", "erfc", "gamma", "lgamma", "degrees", "radians", "ldexp", "remainder", "dist", "nextafter",
            "ulp", "sqrt", "fabs", "fsum", "isnan", "isinf", "isfinite", "isclose", "gcd", "lcm", "factorial",
            "comb", "perm", "isqrt"]:
        for args in ((1.5,), (2,), (0.5, 0.25), (3, 2), ((4, 6),), ((1.0, 2.0),), ((1.0, 2.0), (3.0, 4.0)), (np.float64(0.5),)):
            yield f"math.{name}", args
