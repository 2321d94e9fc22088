"""Nests that only copy, between views of every layout, for every CPU level of the host: pb_copy.h."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tape_helper import LEVELS, run_nest

pytestmark = pytest.mark.parametrize("level", LEVELS)
DTYPES = ["bool", "i1", "u1", "i2", "f2", "i4", "f4", "i8", "f8"]


def numbered(shape, dtype: str) -> np.ndarray:
    """Bytes that differ from element to element, as far as there are enough."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    data = np.random.default_rng(size).integers(0, 2 if dtype == "bool" else 256, size, np.uint8)
    return data.view(dtype).reshape(shape)


def copied(source: np.ndarray, target: np.ndarray, level: str) -> None:
    """target[...] = source, with whatever lies around target unharmed."""
    base = target if target.base is None else target.base
    want = base.copy()
    view = np.ndarray(target.shape, target.dtype, want,
                      target.__array_interface__["data"][0] - base.__array_interface__["data"][0], target.strides)
    view.view(f"u{view.itemsize}")[...] = source.view(f"u{source.itemsize}")
    run_nest(target.shape, [source], [], [(0, "store", target, 0)], level)
    assert base.tobytes() == want.tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 300, 1100])
def test_rows_of_every_length(width, dtype, level):
    wide = numbered((3, 5, width + 2), dtype)
    copied(wide[:, ::2, 1:-1], np.zeros((4, 3, width + 3), dtype)[1:, :, 2:-1], level)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows, cols", [(1, 40), (2, 2), (3, 17), (4, 4), (5, 6), (16, 16), (17, 33), (40, 19), (64, 70)])
def test_turned_tiles(rows, cols, dtype, level):
    source = numbered((2, cols, rows + 1), dtype)[:, :, 1:]
    copied(source.transpose(0, 2, 1), np.zeros((2, rows, cols + 3), dtype)[:, :, 2:-1], level)
    copied(source.transpose(2, 0, 1), np.zeros((rows, 2, cols), dtype), level)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 9, 70, 700])
def test_every_other_element_and_the_reverse(n, dtype, level):
    source = numbered((3, 2 * n), dtype)
    for view in (source[:, ::2], source[:, n - 1::-1], source[:, ::-2]):
        copied(view, np.zeros((3, n), dtype), level)
        copied(view, np.zeros((3, 2 * n), dtype)[:, 1::2], level)
        copied(view, np.zeros((3, n, 2), dtype)[:, ::-1, 1], level)


def test_an_array_onto_itself(level):
    for shape in [(5,), (40, 33), (3, 300)]:
        x = numbered(shape, "f4")
        copied(x, x, level)


@st.composite
def views(draw, shape: tuple[int, ...], dtype: str, seed: int) -> np.ndarray:
    """A view of this shape: axes in any order in memory, each with a step and a margin."""
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from([1, 1, 1, 2, 3, -1, -2])) for _ in shape]
    margins = [draw(st.integers(0, 2)) for _ in shape]
    base = numbered([shape[axis] * abs(steps[axis]) + margins[axis] + seed for axis in order], dtype).copy()
    cut = []
    for axis in order:
        step, first = steps[axis], margins[axis]
        span = slice(first, first + shape[axis] * abs(step), abs(step))
        cut.append(span if step > 0 else slice(first + (shape[axis] - 1) * -step, first - 1 if first else None, step))
    view = base[tuple(cut)]
    return view.transpose(np.argsort(order))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_views_of_every_kind(level, data):
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 5, 8, 17, 33]), min_size=1, max_size=4)))
    dtype = data.draw(st.sampled_from(DTYPES))
    source, target = data.draw(views(shape, dtype, 0)), data.draw(views(shape, dtype, 1))
    assert source.shape == target.shape == shape
    copied(source, target, level)
