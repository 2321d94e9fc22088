"""Every scalar operation of every stencil library against NumPy (or long double), by one-operation nests."""

from __future__ import annotations

import ctypes
import math
import os

import numpy as np
import pytest
from tape_helper import LEVELS, NATIVE_NUMPY, node, run_nest

from prebake.templates.levels import load_stencils
from prebake.templates.scalars import BY_NAME, GUARDED, OPS

NUMPY_NAMES = {
    "sub": "subtract",
    "mul": "multiply",
    "div": "true_divide",
    "floordiv": "floor_divide",
    "neg": "negative",
    "eq": "equal",
    "pow": "power",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "not": "logical_not",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "shl": "left_shift",
    "shr": "right_shift",
    "abs": "absolute",
}
# operation -> ULP against long double; everything else that is inexact is libm, as NumPy's own loops are or were
OWN_ULP = {
    "exp": 1.5,
    "exp2": 1.5,
    "expm1": 2.5,
    "log": 1.5,
    "log2": 2.5,
    "log10": 2.0,
    "log1p": 2.5,
    "tanh": 3.0,
    "erf": 3.5,
    "pow": 1.0,
    "hypot": 1.5,
    "sinh": 3.0,
    "cosh": 2.0,
    "sin": 2.5,
    "cos": 2.5,
    "tan": 4.0,
    "arcsin": 2.0,
    "arccos": 2.0,
    "arctan": 2.5,
    "arctan2": 2.5,
}
LIBM_ULP = 4.0
EXACT = {
    "mov",
    "add",
    "sub",
    "mul",
    "div",
    "neg",
    "abs",
    "sign",
    "square",
    "sqrt",
    "reciprocal",
    "floor",
    "ceil",
    "trunc",
    "rint",
    "copysign",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "floordiv",
    "mod",
    "fmod",
}


def reference(name: str, *args: np.ndarray) -> np.ndarray:
    """NumPy's own answer."""
    with np.errstate(all="ignore"):
        if name == "select":
            return np.where(*args)
        if name == "mov":
            return args[0].copy()
        if name == "erf":
            return np.array([math.erf(x) for x in args[0].tolist()]).astype(args[0].dtype)
        return getattr(np, NUMPY_NAMES.get(name, name))(*args)


def samples(dtype: str, n: int = 4001) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays of operands, with every pair of the dtype's special values among them."""
    rng = np.random.default_rng(7)
    kind = NATIVE_NUMPY[dtype]
    if dtype == "bool":
        return rng.random(n) < 0.5, rng.random(n) < 0.5
    if dtype in ("i32", "i64"):
        info = np.iinfo(kind)
        special = np.array([0, 1, -1, 2, -2, 3, -3, 7, 31, 32, 63, 64, 65, -7, info.max, info.min, info.max - 1], kind)
        wide = rng.integers(info.min, info.max, n, kind)
        a = np.where(rng.random(n) < 0.5, wide, rng.integers(-100, 100, n, kind))
        b = np.where(rng.random(n) < 0.3, rng.permutation(wide), rng.integers(-9, 10, n, kind))
    else:
        tiny, huge = np.finfo(kind).smallest_subnormal, np.finfo(kind).max
        special = np.array(
            [
                0.0,
                -0.0,
                1,
                -1,
                0.5,
                -0.5,
                2,
                3,
                1.5,
                2.5,
                -2.5,
                np.inf,
                -np.inf,
                np.nan,
                tiny,
                -tiny,
                huge,
                -huge,
                np.finfo(kind).tiny,
            ],
            kind,
        )
        exponents = rng.uniform(-30, 30, n)
        a = (rng.standard_normal(n) * np.where(rng.random(n) < 0.5, 1, 10.0**exponents)).astype(kind)
        b = (rng.standard_normal(n) * np.where(rng.random(n) < 0.7, 1, 10.0**-exponents)).astype(kind)
    x, y = np.meshgrid(special, special)
    return np.concatenate([a, x.ravel()]), np.concatenate([b, y.ravel()])


def ulps(got: np.ndarray, want: np.ndarray) -> float:
    """Largest distance in units of the last place; NaN, infinities and signs of zero must agree."""
    with np.errstate(all="ignore"):
        rounded = want.astype(got.dtype)
    assert np.array_equal(np.isnan(got), np.isnan(rounded))
    with np.errstate(all="ignore"):
        finite = np.isfinite(rounded) & np.isfinite(got)
        largest = np.finfo(got.dtype).max
        same = (got == rounded) | (np.abs(got) == largest) | (np.abs(rounded) == largest) | np.isnan(got)
        assert np.all(same | finite)
        zero = (rounded == 0) & (got == 0)
        assert np.array_equal(np.signbit(got[zero]), np.signbit(rounded[zero]))
        distance = np.abs(got[finite].astype(np.longdouble) - want[finite]) / np.spacing(np.abs(rounded[finite]))
    return float(distance.max(initial=0))


CASES = [(op, dtype) for op in OPS for dtype in op.dtypes]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("op", "dtype"), CASES, ids=[f"{o.name}-{d}" for o, d in CASES])
def test_operation_equals_numpy(op, dtype, level):
    a, b = samples(dtype)
    if op.name == "pow" and dtype[0] == "i":
        b = np.abs(b) % 70
    inputs = [a, b][: op.arity]
    if op.name == "select":
        inputs = [np.random.default_rng(1).random(a.size) < 0.5, a, b]
    out = np.empty(a.size, np.bool_ if op.predicate else a.dtype)
    run_nest(a.shape, inputs, [node(op.name, dtype, *range(len(inputs)))], [(len(inputs), "store", out, 0)], level)
    want = reference(op.name, *inputs)
    if out.dtype.kind != "f":
        assert np.array_equal(out, want)
    elif op.name in OWN_ULP:
        assert ulps(out, reference(op.name, *(x.astype(np.longdouble) for x in inputs))) <= OWN_ULP[op.name]
    elif op.name in EXACT or op.name == "select":
        assert np.array_equal(out, want, equal_nan=True)
        zero = out == 0
        if op.name not in ("maximum", "minimum", "fmax", "fmin"):  # which zero these yield is NumPy's loop's secret
            assert np.array_equal(np.signbit(out[zero]), np.signbit(want[zero]))
    else:
        assert ulps(out, want.astype(np.longdouble)) <= LIBM_ULP


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", sorted(OWN_ULP))
def test_any_bit_pattern(name, dtype, level):
    """The whole range: bits drawn at random, multiples of pi / 2 and their neighbours, arguments near 1."""
    rng = np.random.default_rng(11)
    kind = NATIVE_NUMPY[dtype]
    bits = rng.integers(0, 256, (2, 20000, np.dtype(kind).itemsize), np.uint8).view(kind)[..., 0]
    quarters = (rng.integers(-(10**6), 10**6, 8000) * (np.pi / 2)).astype(kind)
    near = np.concatenate([quarters, np.nextafter(quarters, kind(np.inf)), (1 + rng.standard_normal(8000) * 1e-3).astype(kind)])
    a = np.concatenate([bits[0], near, (10 ** rng.uniform(-3, 3, 8000)).astype(kind)])
    b = np.concatenate([bits[1], (rng.standard_normal(near.size) * 900).astype(kind), rng.uniform(-90, 90, 8000).astype(kind)])
    inputs = [a, b][: BY_NAME[name].arity]
    out = np.empty_like(a)
    run_nest(a.shape, inputs, [node(name, dtype, *range(len(inputs)))], [(len(inputs), "store", out, 0)], level)
    with np.errstate(all="ignore"):
        wide = [x.astype(np.longdouble) for x in inputs]
    assert ulps(out, reference(name, *wide)) <= OWN_ULP[name]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("name", GUARDED)
def test_a_value_does_not_depend_on_its_neighbours(name, dtype, level):
    """Lanes that libm answers stand among others; alone, each value gives the same bits."""
    a, b = samples(dtype, 600)
    with np.errstate(all="ignore"):
        a[::7] *= a.dtype.type(1e9)
    inputs = [a, b][: BY_NAME[name].arity]
    n = len(inputs)
    out, one = np.empty_like(a), np.empty(1, a.dtype)
    run_nest(a.shape, inputs, [node(name, dtype, *range(n))], [(n, "store", out, 0)], level)
    for i in range(0, a.size, 3):
        run_nest((1,), [x[i : i + 1] for x in inputs], [node(name, dtype, *range(n))], [(n, "store", one, 0)], level)
        assert np.array_equal(out[i : i + 1], one, equal_nan=True)
        assert np.signbit(out[i]) == np.signbit(one[0]) or np.isnan(one[0])


@pytest.mark.parametrize("level", LEVELS)
def test_what_is_representable_comes_out_exact(level):
    base, exponent = (x.ravel() for x in np.meshgrid(np.arange(1.0, 33), np.arange(-6.0, 11)))
    fits = (exponent >= 0) | (np.log2(base) % 1 == 0)
    base, exponent = base[fits], exponent[fits]
    out = np.empty_like(base)
    run_nest(base.shape, [base, exponent], [node("pow", "f64", 0, 1)], [(2, "store", out, 0)], level)
    assert np.array_equal(out, [float(b) ** float(e) for b, e in zip(base, exponent, strict=True)])
    tens = 10.0 ** np.arange(0, 23)
    out = np.empty_like(tens)
    run_nest(tens.shape, [tens], [node("log10", "f64", 0)], [(1, "store", out, 0)], level)
    assert np.array_equal(out, np.arange(0.0, 23))


@pytest.mark.parametrize("level", LEVELS)
def test_library_has_every_vector_variant(level):
    """The compiler takes a vector variant for granted wherever one is declared: none may be missing from the library."""
    ctypes.CDLL(load_stencils(level).__file__, mode=os.RTLD_NOW)


BINARY = [(op, dtype) for op in OPS if op.arity == 2 for dtype in op.dtypes]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("side", ["left", "right", "both"])
@pytest.mark.parametrize(("op", "dtype"), BINARY, ids=[f"{o.name}-{d}" for o, d in BINARY])
def test_scalar_operands_give_the_same(op, dtype, side, level):
    """Stencils with a scalar operand, swapped and splat ones agree with the one over two arrays, bit for bit."""
    a, b = samples(dtype, 37)
    if op.name == "pow":
        b = np.abs(b[:40] if dtype[0] == "f" else b[:40] % 9)
        a = a[:40]
    x, y = a[5:6], b[9:10]
    operands = {"left": (x, b), "right": (a, y), "both": (x, y)}[side]
    out, want = np.empty((2, a.size), np.bool_ if op.predicate else a.dtype)
    full = [np.ascontiguousarray(np.broadcast_to(v, a.shape)) for v in operands]
    run_nest(a.shape, operands, [node(op.name, dtype, 0, 1)], [(2, "store", out, 0)], level)
    run_nest(a.shape, full, [node(op.name, dtype, 0, 1)], [(2, "store", want, 0)], level)
    if op.name == "pow" and dtype[0] == "f":
        assert ulps(out, want.astype(np.longdouble)) <= 2
    else:
        assert np.array_equal(out.view(np.uint8), want.view(np.uint8)) or np.array_equal(out, want, equal_nan=True)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("exponent", [2.0, 3.0, 0.5, -1.0, 1.7, 0.0, np.nan])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_powers_with_one_exponent(dtype, exponent, level):
    a, _ = samples(dtype)
    out = np.empty_like(a)
    run_nest(a.shape, [a, np.array(exponent, a.dtype)], [node("pow", dtype, 0, 1)], [(2, "store", out, 0)], level)
    keep = ~np.signbit(a) if exponent == 0.5 else a == a  # sqrt(-0.0) is -0.0, sqrt(-inf) is nan: NumPy's own short cut
    with np.errstate(all="ignore"):
        want = np.power(a, np.array(exponent, a.dtype)).astype(np.longdouble)
    assert ulps(out[keep], want[keep]) <= 2


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("to", list(NATIVE_NUMPY))
@pytest.mark.parametrize("frm", list(NATIVE_NUMPY))
def test_casts(frm, to, level):
    a, _ = samples(frm)
    out = np.empty(a.size, NATIVE_NUMPY[to])
    run_nest(a.shape, [a], [node("cast", frm, 0, result=to)], [(1, "store", out, 0)], level)
    with np.errstate(all="ignore"):
        assert np.array_equal(out, a.astype(out.dtype), equal_nan=to[0] == "f")


SMALL = [
    np.int8,
    np.int16,
    np.int32,
    np.int64,
    np.uint8,
    np.uint16,
    np.uint32,
    np.float16,
    np.float32,
    np.float64,
    np.bool_,
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("step", [1, 2, -1])
@pytest.mark.parametrize("dtype", SMALL, ids=lambda d: d.__name__)
def test_memory_dtypes_load_and_truncate(dtype, step, level):
    """A copy through native values changes nothing; arithmetic in native values truncates where it is stored."""
    rng = np.random.default_rng(3)
    raw = rng.integers(0, 256, (5000, np.dtype(dtype).itemsize), np.uint8)
    a = (raw & 1).astype(np.bool_)[:, 0] if dtype is np.bool_ else raw.view(dtype)[:, 0].copy()
    a = a[::step]
    out = np.zeros(a.size * 2, dtype)[::2]
    run_nest(a.shape, [a], [], [(0, "store", out, 0)], level)
    assert np.array_equal(out, a, equal_nan=a.dtype.kind == "f")
    if a.dtype.kind in "iu" and a.dtype.itemsize < 8:
        native = "i64" if dtype is np.uint32 else "i32"
        run_nest(a.shape, [a, a], [node("mul", native, 0, 1), node("add", native, 2, 0)], [(3, "store", out, 0)], level)
        assert np.array_equal(out, a * a + a)


@pytest.mark.parametrize("level", LEVELS)
def test_float16_rounds_once(level):
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    finite = halves[np.isfinite(halves)].astype(np.float64)
    ties = (np.sort(finite)[1:] + np.sort(finite)[:-1]) / 2
    a = np.concatenate(
        [
            finite,
            ties,
            np.nextafter(ties, np.inf),
            np.nextafter(ties, -np.inf),
            [np.inf, -np.inf, np.nan, 65519.99, 65520, 1e300, -1e300, 1e-300, 2.0**-25, 2.0**-25 * (1 + 2.0**-40)],
        ]
    )
    out = np.empty(a.size, np.float16)
    with np.errstate(all="ignore"):
        for x in (a, a.astype(np.float32)):
            native = "f64" if x.dtype == np.float64 else "f32"
            run_nest(x.shape, [x], [node("mov", native, 0)], [(1, "store", out, 0)], level)
            want = x.astype(np.float16)
            assert np.array_equal(out, want, equal_nan=True)
            assert np.array_equal(np.signbit(out), np.signbit(want)) or np.isnan(want).any()
