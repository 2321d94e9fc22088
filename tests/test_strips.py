"""Runs of cheap operations: the accumulator machine gives what the block stencils give, bit for bit, at every size."""

from __future__ import annotations

import numpy as np
import pytest
from tape_helper import LEVELS, NATIVE_NUMPY, node, run_nest

from prebake.templates.scalars import BY_NAME
from prebake.templates.stencils import STRIPS

SPECIAL = [0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan, 1e-40, 3.5]
# around one strip of each level (8 vectors of 16, 32 or 64 bytes) and around one tile
SIZES = [1, 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 1000, 2048, 4100, 8192, 8193, 20000]
FLOATS = ("f32", "f64")
ARITHMETIC = [BY_NAME[name] for name in sorted(STRIPS["f32"]) if not BY_NAME[name].predicate and name not in ("mov", "erf")]
UNARY = [op.name for op in ARITHMETIC if op.arity == 1]
BINARY = [op.name for op in ARITHMETIC if op.arity == 2]
CALLS = {"sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative}


def expected(level: str, name: str, *args: np.ndarray) -> np.ndarray:
    """NumPy's result; what is ours alone (exp, tanh) as a block stencil gives it."""
    if name in ("exp", "tanh"):
        out = np.empty(args[0].size, args[0].dtype)
        x = np.ascontiguousarray(args[0])
        run_nest(x.shape, [x], [node(name, "f32" if x.itemsize == 4 else "f64", 0)], [(1, "store", out, 0)],
                 level)
        return out
    with np.errstate(all="ignore"):
        return CALLS.get(name, getattr(np, name, None))(*args)


def same(got: np.ndarray, want: np.ndarray) -> None:
    """Equal bit for bit, but for the payload of NaN and for which zero is the larger one."""
    assert np.array_equal(got, want, equal_nan=True)


def values(rng: np.random.Generator, n: int, dtype: str) -> np.ndarray:
    out = rng.standard_normal(n).astype(NATIVE_NUMPY[dtype])
    where = rng.random(n) < 0.1
    out[where] = rng.choice(np.array(SPECIAL, out.dtype), int(where.sum()))
    return out


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_random_chains(dtype, level):
    """DAGs of cheap operations over arrays and scalars, with values that are used once, twice, and by the output too."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        n = int(rng.choice(SIZES))
        inputs = [values(rng, n, dtype), values(rng, n, dtype), values(rng, 1, dtype), values(rng, 1, dtype)]
        results = [np.broadcast_to(x, (n,)) for x in inputs]
        nodes = []
        for _ in range(int(rng.integers(2, 14))):
            recent = [len(results) - 1] if rng.random() < 0.7 else [int(rng.integers(len(results)))]
            if rng.random() < 0.25:
                name, args = str(rng.choice(UNARY)), recent
            else:
                name = str(rng.choice(BINARY))
                args = [*recent, int(rng.integers(len(results)))]
                if rng.random() < 0.5:
                    args.reverse()
            nodes.append(node(name, dtype, *args))
            results.append(expected(level, name, *(results[a] for a in args)))
        outs = sorted({len(results) - 1, int(rng.integers(4, len(results)))})
        stored = [np.empty(n, results[0].dtype) for _ in outs]
        run_nest((n,), inputs, nodes, [(slot, "store", out, 0) for slot, out in zip(outs, stored, strict=True)], level)
        for slot, out in zip(outs, stored, strict=True):
            same(out, results[slot])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_runs_between_other_operations(dtype, level):
    """exp ends a run, its result starts the next; scalars and reductions stand beside."""
    rng = np.random.default_rng(4)
    for n in SIZES:
        x, y, s = values(rng, n, dtype), rng.standard_normal(n).astype(NATIVE_NUMPY[dtype]), values(rng, 1, dtype)[:1]
        y = np.abs(y)
        nodes = [node("mul", dtype, 0, 1), node("sub", dtype, 3, 0), node("abs", dtype, 2), node("neg", dtype, 1),
                 node("exp", dtype, 6), node("add", dtype, 7, 5), node("mul", dtype, 8, 7), node("maximum", dtype, 9, 4)]
        out, total = np.empty(n, x.dtype), np.empty((), x.dtype)
        run_nest((n,), [x, y, s], nodes, [(10, "store", out, 0), (8, "sum", total, 1)], level)
        with np.errstate(all="ignore"):
            e = np.empty_like(y)
            run_nest((n,), [-y], [node("exp", dtype, 0)], [(1, "store", e, 0)], level)
            summed = e + abs(s)
            same(out, np.maximum(summed * e, x * y - x))
            assert np.allclose(total, summed.sum(dtype=np.float64), rtol=1e-5, equal_nan=True)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_sums_of_rows(dtype, level):
    """A row's sum is made while its values are in flight; two sums of two runs, values that are stored too."""
    rng = np.random.default_rng(6)
    for n in SIZES:
        x = rng.standard_normal((5, n)).astype(NATIVE_NUMPY[dtype])
        m = rng.random((5, 1)).astype(x.dtype)
        nodes = [node("sub", dtype, 0, 1), node("square", dtype, 2), node("log1p", dtype, 3), node("neg", dtype, 4),
                 node("abs", dtype, 5), node("mul", dtype, 6, 0)]
        squares, logs, stored = np.empty(5, x.dtype), np.empty(5, x.dtype), np.empty_like(x)
        run_nest(x.shape, [x, np.broadcast_to(m, x.shape)], nodes,
                 [(3, "sum", squares, 2), (6, "sum", logs, 2), (7, "store", stored, 0)], level)
        square = (x - m) ** 2
        tolerance = 1e-6 if dtype == "f32" else 1e-14
        assert np.allclose(squares, square.sum(1, dtype=np.float64), rtol=tolerance)
        assert np.allclose(logs, np.log1p(square.astype(np.float64)).sum(1), rtol=tolerance)
        assert np.allclose(stored, np.log1p(square.astype(np.float64)) * x, rtol=1e-5)


@pytest.mark.parametrize("level", LEVELS)
def test_in_place_and_by_rows(level):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((37, 517)).astype("f4")
    column, row = rng.random((37, 1)).astype("f4"), rng.random((1, 517)).astype("f4")
    nodes = [node("sub", "f32", 0, 1), node("div", "f32", 3, 1), node("mul", "f32", 4, 2), node("add", "f32", 5, 0)]
    want = (x - column) / column * row + x
    run_nest(x.shape, [x, np.broadcast_to(column, x.shape), np.broadcast_to(row, x.shape)], nodes, [(6, "store", x, 0)],
             level)
    same(x, want)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", FLOATS)
def test_short_rows_of_larger_arrays(dtype, level):
    """Rows that serve in place, with a last strip that overlaps the one before, unless an input is written in place."""
    rng = np.random.default_rng(8)
    for inner in [*range(1, 40), 63, 64, 65, 100, 127, 128, 129, 148, 200, 255, 256, 257, 300]:
        whole = rng.standard_normal((9, inner + 5)).astype(NATIVE_NUMPY[dtype])
        column, row = rng.random((7, 1)).astype(whole.dtype), rng.random((1, inner)).astype(whole.dtype)
        for in_place in (False, True):
            a = whole.copy()
            target = a[1:-1, 2:inner + 2] if in_place else np.zeros((9, inner + 5), a.dtype)[1:-1, 2:inner + 2]
            inputs = [a[1:-1, 2:inner + 2], a[1:-1, 2:inner + 2] if in_place else a[:-2, 1:inner + 1],
                      np.broadcast_to(column, target.shape), np.broadcast_to(row, target.shape)]
            want = ((inputs[0] + inputs[1]) * inputs[2] - inputs[3]) * inputs[0]
            nodes = [node("add", dtype, 0, 1), node("mul", dtype, 4, 2), node("sub", dtype, 5, 3), node("mul", dtype, 6, 0)]
            run_nest(target.shape, inputs, nodes, [(7, "store", target, 0)], level)
            same(target, want)
            rest = target.base.copy()
            rest[1:-1, 2:inner + 2] = whole[1:-1, 2:inner + 2] if in_place else 0
            assert np.array_equal(rest, whole if in_place else np.zeros_like(whole)), "something beside it was written"
            single = np.zeros((9, inner + 5), a.dtype)[1:-1, 2:inner + 2]
            run_nest(target.shape, [target, np.broadcast_to(column, target.shape)], [node("mul", dtype, 0, 1)],
                     [(2, "store", single, 0)], level)
            same(single, target * column)
