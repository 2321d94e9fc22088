"""Nests that the accumulator machine does row after row: reductions on the way, windows, last strips that overlap, outer axes."""

from __future__ import annotations

import numpy as np
import pytest
from tape_helper import LEVELS, NATIVE_NUMPY, node, run_nest

# around one strip of each level (8 vectors of 16, 32 or 64 bytes), around one window of 16 strips, and around two
LENGTHS = [1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 191, 200, 255, 256, 257, 500, 511, 512, 513, 528, 543, 544, 545,
           1023, 1024, 1025, 1055, 1087, 1088, 1089, 2047, 2048, 2049, 2176, 2177, 4097, 5000]
REDUCTIONS = ("sum", "max", "min")
LEVEL_AND_DTYPE = pytest.mark.parametrize(("level", "dtype"), [(level, dtype) for level in LEVELS for dtype in ("f32", "f64")])


def close(got: np.ndarray, want: np.ndarray, scale: np.ndarray | float = 1.0) -> None:
    """Equal to what a sum may lose, relative to what was added up."""
    epsilon = np.finfo(got.dtype).eps
    with np.errstate(invalid="ignore"):
        near = np.abs(got - want) <= 8 * epsilon * scale
    assert np.all(near | (got == want) | (np.isnan(got) & np.isnan(want))), (got, want)


@LEVEL_AND_DTYPE
def test_reductions_of_views(dtype, level):
    """Inputs as they are: each reduction alone, which is a loop of its own, and all of them at once."""
    rng = np.random.default_rng(1)
    for n in LENGTHS:
        x = rng.standard_normal((5, n)).astype(NATIVE_NUMPY[dtype])
        x[1, rng.integers(n)], x[2, rng.integers(n)], x[3, -1] = np.nan, np.inf, -np.inf
        for chosen in (*[(name,) for name in REDUCTIONS], REDUCTIONS):
            made = [np.empty(5, x.dtype) for _ in chosen]
            run_nest(x.shape, [x], [], [(0, name, out, 2) for name, out in zip(chosen, made, strict=True)], level)
            for name, out in zip(chosen, made, strict=True):
                close(out, getattr(x.astype("f8"), name)(1), np.abs(x).sum(1) if name == "sum" else 0.0)


@LEVEL_AND_DTYPE
def test_reductions_beside_stores(dtype, level):
    """What softmax and norms consist of: values that are stored, reduced, and used again, with one number a row."""
    rng = np.random.default_rng(2)
    for n in LENGTHS:
        x = rng.standard_normal((4, n)).astype(NATIVE_NUMPY[dtype])
        x[2, n // 2] = np.nan
        column, row = rng.random((4, 1)).astype(x.dtype), rng.random((1, n)).astype(x.dtype)
        nodes = [node("sub", dtype, 0, 1), node("square", dtype, 3), node("mul", dtype, 3, 2), node("add", dtype, 5, 4),
                 node("sqrt", dtype, 1), node("div", dtype, 6, 7)]
        stored, squares = np.empty_like(x), np.empty_like(x)
        total, least, largest = np.empty(4, x.dtype), np.empty(4, x.dtype), np.empty(4, x.dtype)
        run_nest(x.shape, [x, np.broadcast_to(column, x.shape), np.broadcast_to(row, x.shape)], nodes,
                 [(4, "sum", total, 2), (6, "min", least, 2), (0, "max", largest, 2), (8, "store", stored, 0),
                  (4, "store", squares, 0)], level)
        centred = x - column
        sums = centred * row + centred * centred
        assert np.array_equal(stored, sums / np.sqrt(column), equal_nan=True)
        assert np.array_equal(squares, centred * centred, equal_nan=True)
        assert np.array_equal(least, sums.min(1), equal_nan=True)
        assert np.array_equal(largest, x.max(1), equal_nan=True)
        close(total, (centred * centred).astype("f8").sum(1), np.abs(centred * centred).sum(1))


@LEVEL_AND_DTYPE
def test_outer_axes(dtype, level):
    """Rows of views: several outer axes, negative and zero strides, transposed, results with strides of their own."""
    rng = np.random.default_rng(3)
    for n in (33, 64, 130, 600, 1100):
        whole = rng.standard_normal((3, 4, 5, n + 3)).astype(NATIVE_NUMPY[dtype])
        other = rng.standard_normal((1, 4, 1, n)).astype(whole.dtype)
        scalar = rng.standard_normal((3, 1, 5, 1)).astype(whole.dtype)
        for x in (whole[..., 1:n + 1], whole[::-1, :, ::2, 2:n + 2], whole[:, ::-2, 1:2, :n],
                  whole[..., :n].transpose(2, 0, 1, 3)):
            parts = [x, np.broadcast_to(other[:, :1], x.shape), np.broadcast_to(scalar[:1, :, :1], x.shape)]
            product = parts[0] * parts[1] - parts[2]
            stored = np.zeros((*x.shape[:-1], n + 7), x.dtype)
            totals, best = np.zeros((*x.shape[:-1], 2), x.dtype), np.zeros(x.shape[:-1][::-1], x.dtype).T
            run_nest(x.shape, parts, [node("mul", dtype, 0, 1), node("sub", dtype, 3, 2)],
                     [(4, "sum", totals[..., 1], 8), (4, "max", best, 8), (4, "store", stored[..., 3:n + 3], 0)], level)
            assert np.array_equal(stored[..., 3:n + 3], product)
            assert not stored[..., :3].any() and not stored[..., n + 3:].any() and not totals[..., 0].any()
            assert np.array_equal(best, product.max(-1))
            close(totals[..., 1], product.astype("f8").sum(-1), np.abs(product).sum(-1))


@LEVEL_AND_DTYPE
def test_in_place(dtype, level):
    """Outputs over inputs: no last strip may make again what was overwritten."""
    rng = np.random.default_rng(4)
    for n in LENGTHS:
        x = rng.standard_normal((3, n)).astype(NATIVE_NUMPY[dtype])
        column = rng.random((3, 1)).astype(x.dtype)
        want = (x * column) + column
        total = np.empty(3, x.dtype)
        run_nest(x.shape, [x, np.broadcast_to(column, x.shape)], [node("mul", dtype, 0, 1), node("add", dtype, 2, 1)],
                 [(3, "sum", total, 2), (3, "store", x, 0)], level)
        assert np.array_equal(x, want)
        close(total, want.astype("f8").sum(1), np.abs(want).sum(1))


@LEVEL_AND_DTYPE
def test_values_that_do_not_move(dtype, level):
    """Outputs of one number a row, and nothing but such: what no list is made for."""
    x = np.linspace(1, 2, 300).astype(NATIVE_NUMPY[dtype])
    column = np.broadcast_to(np.array([[2.0], [3.0]], x.dtype), (2, 300))
    wide, total, moving = np.empty((2, 300), x.dtype), np.empty(2, x.dtype), np.empty((2, 300), x.dtype)
    run_nest((2, 300), [column, np.broadcast_to(x, (2, 300))], [node("square", dtype, 0), node("mul", dtype, 2, 1)],
             [(2, "store", wide, 0), (2, "sum", total, 2), (3, "store", moving, 0)], level)
    assert np.array_equal(wide, column * column) and np.array_equal(total, [1200, 2700])
    assert np.array_equal(moving, column * column * x)


@LEVEL_AND_DTYPE
def test_sums_are_no_worse_than_pairwise(dtype, level):
    """f32 goes on in f64, f64 keeps what additions of windows lose. Sums of -0 are -0; infinities and NaN pass through."""
    for n in (700, 4000, 100_000):
        x = np.full((2, n), 0.1, NATIVE_NUMPY[dtype])
        x[1] = np.linspace(0, 1, n)
        for nodes, slot in (([], 0), ([node("neg", dtype, 0), node("neg", dtype, 1)], 2)):
            total = np.empty(2, x.dtype)
            run_nest(x.shape, [x], nodes, [(slot, "sum", total, 2)], level)
            exact = x.astype(np.longdouble).sum(1)
            assert np.all(np.abs(total - exact) <= np.abs(x.sum(1) - exact) + np.spacing(np.abs(exact).astype(x.dtype)))
            for value, want in ((-0.0, -0.0), (np.inf, np.inf), (np.nan, np.nan)):
                constant = np.full((2, n), value, x.dtype)
                run_nest(x.shape, [constant], nodes, [(slot, "sum", total, 2)], level)
                assert np.array_equal(total, [want, want], equal_nan=True)
                assert np.array_equal(np.signbit(total), np.signbit([want, want])) or np.isnan(want)


@LEVEL_AND_DTYPE
def test_extrema_of_arrays(dtype, level):
    """A strip without a NaN takes a shorter way than one with a NaN, in every form; of two zeros it is the second."""
    rng = np.random.default_rng(7)
    numbers = np.array([0.0, -0.0, 1.0, -2.0, np.inf], NATIVE_NUMPY[dtype])
    for n in (128, 200):
        for place in (None, 0, 65, n - 1):
            for side in (0, 1):
                x, y = rng.choice(numbers, n), rng.choice(numbers, n)
                scalar = np.full(1, rng.choice(numbers), x.dtype)
                if place is not None:
                    (x, y)[side][place] = np.nan
                for name, best in (("maximum", np.maximum), ("minimum", np.minimum)):
                    # memory and memory, the value in flight first and second, a scalar on either side of both
                    nodes = [node(name, dtype, 0, 1), node(name, dtype, 3, 0), node(name, dtype, 1, 4), node(name, dtype, 5, 2),
                             node(name, dtype, 2, 6), node(name, dtype, 2, 0), node(name, dtype, 1, 2)]
                    made = [np.empty(n, x.dtype) for _ in nodes]
                    run_nest((n,), [x, y, scalar], nodes, [(3 + k, "store", out, 0) for k, out in enumerate(made)], level)
                    slots = [x, y, np.broadcast_to(scalar, n)]
                    for one in nodes:
                        slots.append(best(*(slots[a] for a in one.args)))
                    for got, want in zip(made, slots[3:], strict=True):
                        assert np.array_equal(got, want, equal_nan=True)
                        assert np.array_equal(np.signbit(got[got == 0]), np.signbit(want[want == 0]))
