"""Cost rules for kernels that multiply sizes, take counts as numbers, or run loops of their own."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from ..errors import LimitError
from .estimates import (
    CONTAINERS,
    Cost,
    Rule,
    binary,
    bits_of,
    broadcast_size,
    check_int,
    elementwise,
    extent_of,
    shape_of,
)

# --- sizes given as numbers

def count_of(value: object, default: int = 0) -> int:
    """A count or the product of a shape that an operand stands for; `default` where it is none."""
    if isinstance(value, (int, np.integer)):
        return max(int(value), 0)
    if isinstance(value, (float, np.floating)):
        return max(int(value), 0) if math.isfinite(value) else default
    if isinstance(value, np.ndarray):
        value = [item.item() for item in islice(value.flat, 64)] if value.dtype.kind in "iubf" else ()
    if isinstance(value, CONTAINERS):
        return math.prod([count_of(item, 1) for item in value[:64]])
    return default



def _size(value: object) -> float:
    """The magnitude of a real number of Python's or NumPy's; 0 for anything else."""
    return abs(value) if isinstance(value, (int, float, np.integer, np.floating)) else 0  # type: ignore[return-value]


MAX_LEAVES = 4096  # numbers in an operand that holds a few counts or widths
MAX_COUNTS = 10_000_000  # in an array of counts


def index_of(value: object) -> int:
    """The int that Python's functions make of an operand; 0 where there is none (they will say so)."""
    if isinstance(value, np.ndarray) and value.ndim:
        return 0
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return 0


def item_size(value: object) -> int:
    """Bytes of one item of a dtype operand (8 where it is not given). Raises LimitError unless it is numeric."""
    if value is None or value is ...:
        return 8
    if isinstance(value, str) and len(value) > 32:
        raise LimitError("a dtype string of more than 32 characters")
    try:
        dtype = np.dtype(value)  # type: ignore[call-overload]
    except Exception:
        return 8  # not a dtype: NumPy will say so
    if dtype.kind not in "biufc" and dtype.name != "bfloat16":
        raise LimitError(f"dtype {dtype}: limited runs take numeric dtypes")
    return dtype.itemsize


def _at(args: Sequence[Any], position: int, default: Any = ...) -> Any:
    return args[position] if position < len(args) else default


def filled_cost(shape_at: int, dtype_at: int) -> Rule:
    def rule(args: Sequence[Any]) -> Cost:
        n = count_of(_at(args, shape_at), 1)
        fill = extent_of(args[shape_at + 1:dtype_at])
        return Cost(n * item_size(_at(args, dtype_at)), n + fill.elements)
    return rule


def like_cost(dtype_at: int, shape_at: int) -> Rule:
    def rule(args: Sequence[Any]) -> Cost:
        extent = extent_of(args[:dtype_at])
        shape = _at(args, shape_at, None)
        n = extent.elements if shape is None or shape is ... else count_of(shape, 1)
        return Cost(n * max(item_size(_at(args, dtype_at)), extent.item_bytes), n)
    return rule


def _steps(start: Any, stop: Any, step: Any) -> int:
    """Items from start to stop; complex steps are counts, as in mgrid."""
    if isinstance(step, (complex, np.complexfloating)):
        size = float(abs(complex(step)))
        return int(min(size, 1e18)) if math.isfinite(size) else 10 ** 18
    try:
        start, stop, step = (0.0 if v is None or v is ... else float(v) for v in (start, stop, step))
        n = (stop - start) / (step or 1.0)
        return int(min(max(n, 0.0), 1e18)) + 1 if n == n else 1
    except (TypeError, ValueError, OverflowError):
        return 1 if not any(bits_of(v) > 1000 for v in (start, stop, step)) else 10 ** 18


def arange_cost(args: Sequence[Any]) -> Cost:
    start, stop, step = _at(args, 0), _at(args, 1), _at(args, 2)
    if stop is ... or stop is None:
        start, stop = 0, start
    n = _steps(start, stop, 1 if step is ... or step is None else step)
    return Cost(n * item_size(_at(args, 3)), n)


def linspace_cost(dtype_at: int) -> Rule:
    def rule(args: Sequence[Any]) -> Cost:
        ends, wide = elementwise(args[:2]), extent_of(args[:2]).item_bytes > 8  # long double functions are slow
        n = count_of(_at(args, 2), 50) if _at(args, 2) is not ... else 50
        elements = n * max(broadcast_size(map(shape_of, args[:2])), 1)
        return Cost(elements * max(item_size(_at(args, dtype_at)), 8) * 2, elements * (1000 if wide else 64) + ends.work)
    return rule


def square_cost(columns_at: int, dtype_at: int) -> Rule:
    def rule(args: Sequence[Any]) -> Cost:
        n = count_of(_at(args, 0), 1)
        m = _at(args, columns_at) if columns_at >= 0 else None
        m = n if m is None or m is ... else count_of(m, 1)
        elements = n * m + n + m  # and the two ranges that are compared
        return Cost(elements * item_size(_at(args, dtype_at, None) if dtype_at >= 0 else None), elements)
    return rule


def diag_cost(args: Sequence[Any]) -> Cost:
    extent = extent_of(args[:1])
    k = _at(args, 1, 0)
    if len(shape_of(args[0])) == 2 and not isinstance(args[0], CONTAINERS):
        return Cost(extent.elements * extent.item_bytes, extent.elements)
    n = extent.elements + (abs(int(k)) if isinstance(k, (int, np.integer)) else 0)
    return Cost(n * n * extent.item_bytes, n * n)


def diagflat_cost(args: Sequence[Any]) -> Cost:
    extent = extent_of(args[:1])
    k = _at(args, 1, 0)
    n = extent.elements + (abs(int(k)) if isinstance(k, (int, np.integer)) else 0)
    return Cost(n * n * extent.item_bytes, n * n)


def triangle_cost(args: Sequence[Any]) -> Cost:
    """tril, triu: a vector becomes a square."""
    cost, shape = elementwise(args[:1], 8), shape_of(args[0])
    n = shape[-1] ** 2 if len(shape) == 1 else math.prod(shape[-2:])
    return Cost(max(cost.size_bytes, n * 8) + n, cost.work + n * 8)


def meshgrid_cost(args: Sequence[Any]) -> Cost:
    axes = args[0] if args and isinstance(args[0], CONTAINERS) else ()
    sizes = [max(extent_of((axis,)).elements, 0) for axis in axes[:64]]
    n = math.prod(sizes) * max(len(sizes), 1)
    return Cost(n * 16, n)


def grid_cost(args: Sequence[Any]) -> Cost:
    """mgrid, ogrid, r_, c_: slices with numbers in them."""
    items = args[0] if isinstance(args[0], tuple) else (args[0],)
    if any(isinstance(item, str) for item in items):
        raise LimitError("text directives of r_ and c_ are not run under limits")
    counts = [_steps(s.start, s.stop, 1 if s.step is None else s.step) for s in items if isinstance(s, slice)]
    others = extent_of([item for item in items if not isinstance(item, slice)])
    n = math.prod(counts) * max(len(counts), 1) + others.elements + sum(counts)
    return Cost(n * 16, n * 2)


def indices_cost(args: Sequence[Any]) -> Cost:
    shape = args[0] if isinstance(args[0], CONTAINERS) else ()
    n = count_of(shape, 1) * max(len(shape), 1) + sum([count_of(extent, 1) for extent in shape[:64]])
    return Cost(n * item_size(_at(args, 1)), n)


def ndindex_cost(args: Sequence[Any]) -> Cost:
    """NumPy keeps every axis as a tuple of ints while it walks, even where another extent is 0."""
    axes = args[0] if len(args) == 1 and isinstance(args[0], CONTAINERS) else args
    if len(axes) == 1 and isinstance(axes[0], CONTAINERS):  # collected `*shape`
        axes = axes[0]
    n = sum([count_of(extent, 1) for extent in axes[:64]])
    return Cost(n * 40, n * 32)


def vander_cost(args: Sequence[Any]) -> Cost:
    extent = extent_of(args[:1])
    columns = _at(args, 1, None)
    n = extent.elements * (extent.elements if columns is None or columns is ... else count_of(columns, 1))
    return Cost(n * 16, n * 8)


def pad_cost(args: Sequence[Any]) -> Cost:
    extent, shape, widths = extent_of(args[:1]), shape_of(args[0]), args[1]
    if not isinstance(widths, (int, np.number, np.ndarray, *CONTAINERS)):
        raise LimitError("pad widths are numbers in limited runs")
    if isinstance(widths, CONTAINERS) and len(widths) == len(shape) and all(
            isinstance(pair, CONTAINERS) and len(pair) == 2 for pair in widths):
        sides = [[_size(v) for v in pair] for pair in widths]
    else:
        sides = [[largest(widths)] * 2] * len(shape)
    if not all(math.isfinite(v) for pair in sides for v in pair):
        return Cost(0, 0)  # NumPy will say so
    n = math.prod([extent_ + int(sum(pair)) for extent_, pair in zip(shape, sides, strict=True)])
    # reflect and wrap fill an axis in steps as long as the array: one item wide, that is a step for each item
    steps = sum(int(sum(pair)) for pair in sides)
    return Cost(n * extent.item_bytes * 2, n * 16 + steps * 2000)


def leaves_of(value: object) -> list[object]:
    """The items of a small nested container or array, in order. Raises LimitError for large ones."""
    if extent_of((value,)).elements > MAX_LEAVES:
        raise LimitError(f"more than {MAX_LEAVES} numbers where a few are expected")
    return list(_leaves(value))


def largest(value: object) -> float:
    """The largest magnitude in an operand that holds counts."""
    if isinstance(value, np.ndarray):
        if value.size > MAX_COUNTS or value.dtype.kind not in "iubf":
            raise LimitError(f"an array of {value.size} counts")
        return float(np.abs(value.astype(np.float64)).max(initial=0))
    return max([_size(v) for v in leaves_of(value)], default=0)


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, np.ndarray):
        yield from value.ravel().tolist()
    elif isinstance(value, CONTAINERS):
        for item in value:
            yield from _leaves(item)
    else:
        yield value.item() if isinstance(value, np.generic) else value


def repeat_cost(args: Sequence[Any]) -> Cost:
    extent, repeats = extent_of(args[:1]), _at(args, 1, 1)
    times = largest(repeats) if isinstance(repeats, (np.ndarray, *CONTAINERS)) else count_of(repeats, 1)
    n = int(extent.elements * times) if math.isfinite(times) else 0
    return Cost(n * extent.item_bytes, n * 4)


def tile_cost(args: Sequence[Any]) -> Cost:
    extent = extent_of(args[:1])
    repeats = _at(args, 1, 1)
    counts = leaves_of(repeats) if isinstance(repeats, (np.ndarray, *CONTAINERS)) else [repeats]
    # a factor of zero comes only after the others have been repeated
    n = extent.elements * math.prod([max(count_of(c, 1), 1) for c in counts])
    return Cost(n * extent.item_bytes, n * 4)


def resize_cost(args: Sequence[Any]) -> Cost:
    extent = extent_of(args[:1])
    n = count_of(_at(args, 1, 1), 1)
    # np.resize concatenates whole copies first
    return Cost((n + extent.elements) * extent.item_bytes, (n + extent.elements) * 4 + 100 * n)


def window_cost(args: Sequence[Any]) -> Cost:
    n = count_of(args[0], 1)
    return Cost(n * 8, n * 32)


def triangle_indices_cost(args: Sequence[Any]) -> Cost:
    n = count_of(args[0], 1)
    m = _at(args, 2, None)
    m = n if m is None or m is ... else count_of(m, 1)
    elements = n * m + n + m
    return Cost(elements * 17, elements * 8)


def triangle_indices_from_cost(args: Sequence[Any]) -> Cost:
    n = max(extent_of(args[:1]).elements, math.prod(shape_of(args[0])))
    return Cost(n * 17, n * 8)


def diag_indices_cost(args: Sequence[Any]) -> Cost:
    return Cost(count_of(args[0], 1) * 8 + count_of(_at(args, 1, 2), 2) * 8, count_of(args[0], 1) + count_of(
        _at(args, 1, 2), 2))


def sections_cost(args: Sequence[Any]) -> Cost:
    """Splits: one view for each section."""
    where = _at(args, 1, 1)
    is_list = isinstance(where, (range, *CONTAINERS)) or (isinstance(where, np.ndarray) and where.ndim > 0)
    n = extent_of((where,)).elements + 1 if is_list else count_of(where, 1)
    return Cost(n * 200, n * 5000 + extent_of(args[:1]).elements // 1000)


def stack_cost(args: Sequence[Any]) -> Cost:
    """Functions of a sequence of arrays: some microseconds for each, however small."""
    cost = elementwise(args, 8)
    n = len(args[0]) if isinstance(args[0], (range, *CONTAINERS)) else max(shape_of(args[0]), default=1)
    return Cost(cost.size_bytes, cost.work + n * 4000)


def unstack_cost(args: Sequence[Any]) -> Cost:
    n = max(shape_of(args[0]), default=0)
    return Cost(n * 200, n * 1000)


# --- indexing, sorting, linear algebra, FFT

def take_cost(args: Sequence[Any]) -> Cost:
    a, where = extent_of(args[:1]), extent_of(args[1:2])
    axis = _at(args, 2, None)
    shape = shape_of(args[0])
    per_index = 1
    if isinstance(axis, (int, np.integer)) and -len(shape) <= axis < len(shape):
        per_index = math.prod(shape[:axis]) * math.prod(shape[axis:][1:])
    n = where.elements * per_index
    return Cost(n * a.item_bytes, n * 4 + where.elements)


def bincount_cost(args: Sequence[Any]) -> Cost:
    extent = extent_of(args[:2])
    top = largest(args[0]) if isinstance(args[0], (np.ndarray, *CONTAINERS)) else 0.0
    n = max(int(min(top, 1e18)) + 1, count_of(_at(args, 2, 0)))
    return Cost(n * 8, n + extent.elements * 4)


def histogram_cost(bins_at: int, dimensions: int) -> Rule:
    def rule(args: Sequence[Any]) -> Cost:
        bins = _at(args, bins_at, 10)
        if isinstance(bins, str):
            raise LimitError("bins chosen from the data are not run under limits")
        extent = extent_of(args[:bins_at])
        if isinstance(bins, (np.ndarray, *CONTAINERS)):
            # edges, or for two dimensions two counts: either way no axis has more bins than this
            most = extent_of((bins,)).elements
            if dimensions > 1 and len(bins) == dimensions:
                most = max([most, *[count_of(b, 10) for b in bins if not isinstance(b, (np.ndarray, *CONTAINERS))]])
        else:
            most = count_of(bins, 10)
        n = most ** dimensions
        return Cost(n * 24, n * 16 + extent.elements * 64)
    return rule


def sort_cost(args: Sequence[Any]) -> Cost:
    cost = elementwise(args)
    return Cost(cost.size_bytes * 4, cost.work * 4 * max(cost.work.bit_length(), 1))


def quantile_cost(args: Sequence[Any]) -> Cost:
    a, q = extent_of(args[:1]), extent_of(args[1:2])
    n = a.elements * max(q.elements, 1)
    return Cost(n * 8 + a.elements * a.item_bytes, n * 16 + a.elements * 64)


def rows_squared_cost(args: Sequence[Any]) -> Cost:
    extent = extent_of(args[:2])
    rows = max([n for shape in extent.shapes + extent.lists for n in shape[:2]], default=1) * 2
    return Cost(rows * rows * 16, rows * rows + rows * extent.elements)


def diff_cost(args: Sequence[Any]) -> Cost:
    cost = elementwise([args[0], *args[3:]])
    return Cost(cost.size_bytes, (cost.work + 2000) * max(count_of(_at(args, 1, 1), 1), 1))


def polyval_cost(args: Sequence[Any]) -> Cost:
    p, x = extent_of(args[:1]), extent_of(args[1:2])
    return Cost(x.elements * x.item_bytes * 2, p.elements * (x.elements * 2 + 2000))


def polyfit_cost(args: Sequence[Any]) -> Cost:
    x, degree = extent_of(args[:2]), count_of(_at(args, 2, 1), 1) + 1
    return Cost(x.elements * degree * 16, x.elements * degree * (degree + 16))


def roots_cost(args: Sequence[Any]) -> Cost:
    n = extent_of(args[:1]).elements
    return Cost(n * n * 16, n ** 3 * 16 + n * 2000)


def poly_steps_cost(args: Sequence[Any]) -> Cost:
    """As many derivatives or integrals as the second operand says."""
    n, steps = extent_of(args[:1]).elements, count_of(_at(args, 1, 1), 1)
    return Cost((n + steps) * 16, (n + steps) * (steps + 1) * 16 + steps * 2000)


def unpackbits_cost(args: Sequence[Any]) -> Cost:
    n = extent_of(args[:1]).elements * 8
    n += n * count_of(_at(args, 2, 0), 0)
    return Cost(n, n)


def reduceat_cost(args: Sequence[Any]) -> Cost:
    a, where = extent_of(args[:1]), extent_of(args[1:2])
    shape = shape_of(args[0])
    lanes = a.elements // max(min(shape, default=1), 1)
    return Cost(where.elements * lanes * a.item_bytes, where.elements * a.elements * 8)


def cubic_cost(factor: int) -> Rule:
    """Dense linear algebra over the last two axes."""
    def rule(args: Sequence[Any]) -> Cost:
        extent = extent_of(args[:2])
        largest = max([n for shape in extent.shapes + extent.lists for n in shape[-2:]], default=1)
        batch = max([math.prod(shape[:-2]) for shape in extent.shapes + extent.lists] or [1])
        return Cost((batch * largest ** 2 + extent.elements) * 16, batch * largest ** 3 * factor + extent.elements * 64)
    return rule


def matrix_power_cost(args: Sequence[Any]) -> Cost:
    cost = cubic_cost(2)(args[:1])
    return Cost(cost.size_bytes, cost.work * 2 * max(bits_of(index_of(_at(args, 1, 1))), 1))


def tensor_solve_cost(args: Sequence[Any]) -> Cost:
    extent = extent_of(args[:2])
    n = extent.elements
    return Cost(n * 16, int(n ** 1.5) * 4 + n)


def fft_cost(args: Sequence[Any]) -> Cost:
    """Transforms of one or several axes, perhaps padded to `n` or `s`, one axis after the other."""
    extents = [max(n, 1) for n in shape_of(args[0])]
    wanted, axes = _at(args, 1, None), _at(args, 2, None)
    if wanted is not None and wanted is not ...:
        lengths = [count_of(v, 1) for v in leaves_of(wanted)]
        if isinstance(axes, (int, np.integer)):
            axes = (axes,)
        if not isinstance(axes, CONTAINERS):
            axes = range(-len(lengths), 0)
        for axis, length in zip(axes, lengths, strict=False):
            if isinstance(axis, (int, np.integer)) and -len(extents) <= axis < len(extents):
                extents[axis] = max(extents[axis], length)
    n = math.prod(extents)
    return Cost(n * 32, n * 16 * max(n.bit_length(), 1) + extent_of(args[:1]).elements)


def fftfreq_cost(args: Sequence[Any]) -> Cost:
    n = count_of(args[0], 1)
    return Cost(n * 8, n * 4)


def shares_memory_cost(args: Sequence[Any]) -> Cost:
    if any(isinstance(a, np.ndarray) and a.ndim > 4 for a in args):
        raise LimitError("shares_memory of arrays with more than 4 axes: the exact answer may take for ever")
    return Cost(0, 1000)


# --- Python's own functions

def walk_cost(args: Sequence[Any]) -> Cost:
    """Functions that walk their operands once, combining items; iterators were made lists by the guard."""
    check_int(max([bits_of(v) for v in args] or [0]))
    cost = elementwise(args, 50)
    return Cost(max(cost.size_bytes, 64), cost.work)


def sum_cost(args: Sequence[Any]) -> Cost:
    """A sum; of lists or tuples, each step copies all that was there before."""
    cost = walk_cost(args)
    items = args[0] if isinstance(args[0], CONTAINERS) else ()
    if any(isinstance(item, CONTAINERS) for item in items) or any(isinstance(v, CONTAINERS) for v in args[1:]):
        return Cost(cost.size_bytes * 2, cost.work + len(items) * cost.work // 10)
    return cost


def listed_cost(args: Sequence[Any]) -> Cost:
    extent = extent_of(args)
    length = len(args[0]) if args and hasattr(args[0], "__len__") else 0
    return Cost(max(extent.elements, length) * 64, max(extent.elements, length) * 200)


def round_cost(args: Sequence[Any]) -> Cost:
    digits = _at(args, 1, None)
    digits = index_of(digits)
    if isinstance(args[0], (int, np.integer)):
        check_int(abs(digits) * 4)
    if bits_of(digits) > 32:
        raise LimitError("rounding to more digits than there are")
    return elementwise(args[:1])


def pow_cost(args: Sequence[Any]) -> Cost:
    if len(args) > 2 and args[2] is not None and args[2] is not ...:
        bits = max(map(bits_of, args))
        check_int(bits * 16)  # modular powers are cubic
        return Cost(0, bits ** 3 // 100 + 1)
    return binary("pow", args[0], args[1])


def operator_cost(name: str) -> Rule:
    return lambda args: binary(name, args[0], args[1])


def factorial_cost(args: Sequence[Any]) -> Cost:
    check_int(count_of(args[0]) * 16)
    return Cost(0, count_of(args[0]) * 100)


def binomial_cost(args: Sequence[Any]) -> Cost:
    n, k = args[0], _at(args, 1, None)
    n, most = index_of(n), index_of(n if k is None or k is ... else k)
    check_int(max(bits_of(n), 1) * max(min(most, n), 1))
    return Cost(0, 10_000)


def product_of_ints_cost(args: Sequence[Any]) -> Cost:
    """prod, lcm: the result has at most the bits of all operands together."""
    bits = 0
    for value in args:
        for item in value if isinstance(value, CONTAINERS) else (value,):
            if isinstance(item, (str, bytes, *CONTAINERS)):
                raise LimitError("products of text or containers are not run under limits")
            if isinstance(item, range):
                bits += len(item) * max(bits_of(item.start), bits_of(item.stop), 1)
            else:
                bits += bits_of(item)  # NumPy's integers wrap
    check_int(bits)
    return walk_cost(args)


def format_cost(args: Sequence[Any]) -> Cost:
    """Text of a value: its items, and the width that the format asks for."""
    spec = _at(args, 1, "")
    if not isinstance(spec, str) or len(spec) > 32 or any(len(run) > 3 for run in re.findall(r"\d+", spec)):
        raise LimitError("formats wider than 999 characters are not run under limits")
    return text_cost(args[:1])


def text_cost(args: Sequence[Any]) -> Cost:
    elements = extent_of(args).elements
    return Cost(elements * 64, elements * 500)


def small_ints_cost(args: Sequence[Any]) -> Cost:
    check_int(max([bits_of(v) for v in args] or [0]))
    return Cost(64, 1000)


def tolist_cost(args: Sequence[Any]) -> Cost:
    n = extent_of(args[:1]).elements
    return Cost(n * 64, n * 50)


def astype_cost(args: Sequence[Any]) -> Cost:
    n = extent_of(args[:1]).elements
    return Cost(n * item_size(_at(args, 1)), n * 8)


def array_cost(args: Sequence[Any]) -> Cost:
    n = extent_of(args[:1])
    return Cost(n.elements * max(item_size(_at(args, 1)), n.item_bytes), n.elements * 50)


def decimals_cost(args: Sequence[Any]) -> Cost:
    """NumPy multiplies by 10 as often as there are decimals."""
    decimals = abs(index_of(args[1])) if len(args) > 1 else 0
    cost = elementwise(args[:1], 16)
    return Cost(cost.size_bytes, cost.work + decimals * 4)


def zip_cost(args: Sequence[Any]) -> Cost:
    """The collected iterables are unpacked into a call, whatever collected them."""
    n = len(args[0]) if isinstance(args[0], (range, *CONTAINERS)) else 1
    return Cost(n * 40, n * 32)


def range_cost(args: Sequence[Any]) -> Cost:
    check_int(max([bits_of(v) for v in args] or [0]))
    return Cost(64, 100)


def free_cost(args: Sequence[Any]) -> Cost:
    return Cost(0, 100)


def unary_array_cost(args: Sequence[Any]) -> Cost:
    return elementwise(args, 16)


def nonzero_cost(args: Sequence[Any]) -> Cost:
    extent = extent_of(args[:1])
    return Cost(extent.elements * 8 * max(len(shape_of(args[0])), 1), extent.elements * 8)


def refused_cost(args: Sequence[Any]) -> Cost:
    raise LimitError("debugging aids write files and stop the program: not in limited runs")
