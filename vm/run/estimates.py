"""What an instruction would cost, before it runs: bytes of its result, and work in units of about a nanosecond.

Only limited runs (`limits.Guard`) ask. An estimate may be generous, never blind: whatever multiplies sizes has its own
rule, here for operators and products, in `kernel_costs.py` for what takes sizes and counts as numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import LimitError

MAX_NODES = 200_000  # items looked at in one container
MAX_DEPTH = 100
MAX_INT_BITS = 1 << 16
_SMALL = 1 << 62
CONTAINERS = (tuple, list)


class Cost(NamedTuple):
    """An upper estimate: bytes of the result, work in nanoseconds or so."""

    size_bytes: int
    work: int


FREE = Cost(0, 0)
Rule = Callable[[Sequence[Any]], Cost]
_PYTHON_NUMBERS = frozenset((int, float, bool))
_NUMBERS = frozenset((int, float, bool, complex, np.bool_, np.float32, np.float64, np.int64, np.int32, np.float16))


def shape_of(value: object) -> tuple[int, ...]:
    """The shape that NumPy would give a value, judged by the first item of containers."""
    shape: tuple[int, ...] = ()
    for _ in range(MAX_DEPTH):
        if isinstance(value, np.ndarray):
            return shape + value.shape
        if isinstance(value, CONTAINERS):
            shape += (len(value),)
            if not value:
                return shape
            value = value[0]
        elif isinstance(value, (range, np.flatiter)):
            return (*shape, len(value))
        else:
            return shape
    raise LimitError(f"containers nested deeper than {MAX_DEPTH}")


class Extent(NamedTuple):
    """What is inside operands: elements in all, the widest item, shapes of the arrays, shapes of containers."""

    elements: int
    item_bytes: int
    shapes: list[tuple[int, ...]]
    lists: list[tuple[int, ...]]


def extent_of(values: Iterable[object], numeric: bool = False) -> Extent:
    """Elements, widest item and shapes of operands and of what lies in their containers. Raises LimitError.

    `numeric`: NumPy will make arrays of the containers, so that items which are no numbers (None, text, slices) would make
    arrays of objects. Those are refused like other object arrays: what NumPy's loops do with them has no bound, and
    matmul's loses references when it fails.
    """
    elements, item_bytes, nodes = 0, 4, 0
    shapes: list[tuple[int, ...]] = []
    lists: list[tuple[int, ...]] = []
    pending: list[tuple[object, int]] = [(value, 0) for value in values]
    while pending:
        value, depth = pending.pop()
        nodes += 1
        if nodes > MAX_NODES or depth > MAX_DEPTH:
            raise LimitError(f"a container of more than {MAX_NODES} items, or nested deeper than {MAX_DEPTH}")
        if type(value) in _PYTHON_NUMBERS:
            elements += 1
            if depth and type(value) is int and value.bit_length() > 64:
                raise LimitError("Python ints beyond 64 bits in a container: an array of them holds objects")
        elif isinstance(value, np.ndarray):
            if value.dtype.kind not in "biufcV" or value.dtype.hasobject:
                raise LimitError(f"an array of dtype {value.dtype}: limited runs take numeric arrays")
            elements += value.size
            item_bytes = max(item_bytes, 8 if value.dtype.kind in "iub" else value.dtype.itemsize)
            shapes.append(value.shape)
        elif isinstance(value, CONTAINERS):
            lists.append(shape_of(value))
            if len(value) > MAX_NODES:
                raise LimitError(f"a container of {len(value)} items")
            pending += [(item, depth + 1) for item in value]
        elif isinstance(value, (range, np.flatiter)):
            elements += len(value)
            lists.append((len(value),))
        elif isinstance(value, str) and not (numeric and depth):
            elements += len(value)
        else:
            if numeric and depth and not isinstance(value, (np.number, np.bool_, int, float, complex)):
                raise LimitError(f"a {type(value).__name__} in a container: an array of it holds objects")
            elements += 1
            if isinstance(value, (np.generic, complex, float)):
                item_bytes = max(item_bytes, getattr(value, "itemsize", 8))
    return Extent(elements, max(item_bytes, 8) if not shapes else item_bytes, shapes, lists)


def broadcast_size(shapes: Iterable[Sequence[int]]) -> int:
    """Elements of the broadcast of shapes; where they do not broadcast, the longer axis counts.

    Some of them may be combined before NumPy says so.
    """
    result: list[int] = []  # from the last axis
    for shape in shapes:
        for axis, extent in enumerate(reversed(shape)):
            if axis == len(result):
                result.append(extent)
            elif extent != 1:
                result[axis] = extent if result[axis] == 1 else max(result[axis], extent)
    return math.prod(result)


def elementwise(values: Sequence[object], factor: int = 4) -> Cost:
    """Every operand read once, the result as large as their broadcast or as all of them together."""
    for value in values:
        if type(value) not in _NUMBERS:
            break
    else:
        return FREE
    extent = extent_of(values, numeric=any(isinstance(value, (np.ndarray, np.generic)) for value in values))
    elements = max(extent.elements, broadcast_size(extent.shapes))
    if extent.lists:
        elements = max(elements, broadcast_size(extent.shapes + extent.lists))
    return Cost(elements * extent.item_bytes, elements * factor)


# --- operators of Python, which are also the BINARY_* instructions

def check_int(bits: int) -> None:
    """Raise LimitError for integers that Python would take long to compute with."""
    if bits > MAX_INT_BITS:
        raise LimitError(f"a Python int of {bits} bits: limited runs stop at {MAX_INT_BITS}")


def bits_of(value: object) -> int:
    return value.bit_length() if isinstance(value, int) else 0


def _repeat_count(value: object) -> int:
    is_index = isinstance(value, (int, np.integer)) or (
        isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iub")
    if is_index:
        return max(int(value), 0)  # type: ignore[call-overload]
    return 1


def binary(name: str, a: Any, b: Any) -> Cost:
    """Cost of `a <name> b` for name in add, sub, mul, truediv, floordiv, mod, pow, lshift, rshift, and, or, xor."""
    if type(a) is float and type(b) in _NUMBERS:
        return FREE
    if isinstance(a, int) and isinstance(b, int):
        if -_SMALL < a < _SMALL and -_SMALL < b < _SMALL and name not in ("pow", "lshift"):
            return FREE
        bits_a, bits_b = a.bit_length(), b.bit_length()
        bits = max(bits_a, bits_b) + 1
        if name == "mul":
            bits = bits_a + bits_b
        elif name == "pow" and b > 0:
            bits = bits_a * b
        elif name == "lshift" and b > 0:
            bits = bits_a + b if a else 0
        check_int(max(bits, bits_a, bits_b))
        return Cost(0, 1 + bits * bits // 1000)
    sequence = a if isinstance(a, (str, bytes, tuple, list)) else b
    if isinstance(sequence, (str, bytes, tuple, list)):
        if name == "mod" and isinstance(a, (str, bytes)):
            raise LimitError("text formatting is not run under limits")
        if name == "mul":
            size = 8 * len(sequence) * _repeat_count(b if sequence is a else a)
            cost = elementwise((a, b))
            return Cost(max(size, cost.size_bytes), max(size, cost.work))
        if name == "add" and isinstance(a, (str, bytes, tuple, list)) and isinstance(b, (str, bytes, tuple, list)):
            size = 8 * (len(a) + len(b))
            return Cost(size, size)
    return elementwise((a, b), 32 if name in ("pow", "mod", "floordiv") else 4)


# --- products

def _product(batch: Sequence[Sequence[int]], rows: int, inner: int, columns: int, values: Sequence[object]) -> Cost:
    extent = extent_of(values, numeric=True)
    results = max(broadcast_size(batch), 0) * rows * columns
    kinds = {value.dtype.char for value in values if isinstance(value, np.ndarray)}
    # BLAS takes these; other dtypes go through plain loops
    work = results * max(inner, 1) // 16 if kinds <= set("fd") else results * max(inner, 1) * 4
    return Cost(results * extent.item_bytes, work + extent.elements * 4)


def matmul(args: Sequence[Any]) -> Cost:
    """a @ b with NumPy's rules for vectors and stacks."""
    a, b = shape_of(args[0]), shape_of(args[1])
    if not a or not b:
        return elementwise(args)
    a = a if len(a) > 1 else (1, *a)
    b = b if len(b) > 1 else (*b, 1)
    return _product((a[:-2], b[:-2]), a[-2], a[-1], b[-1], args[:2])


def dot(args: Sequence[Any]) -> Cost:
    a, b = shape_of(args[0]), shape_of(args[1])
    if not a or not b:
        return elementwise(args)
    rest = b[:-2] + b[-1:] if len(b) > 1 else ()
    return _product((), math.prod(a[:-1]), a[-1], math.prod(rest), args[:2])


def inner(args: Sequence[Any]) -> Cost:
    a, b = shape_of(args[0]), shape_of(args[1])
    if not a or not b:
        return elementwise(args)
    return _product((), math.prod(a[:-1]), a[-1], math.prod(b[:-1]), args[:2])


def outer(args: Sequence[Any]) -> Cost:
    a, b = extent_of(args[:1]), extent_of(args[1:2])
    elements = a.elements * b.elements
    return Cost(elements * max(a.item_bytes, b.item_bytes), elements * 8)


def tensordot(args: Sequence[Any]) -> Cost:
    a, b = shape_of(args[0]), shape_of(args[1])
    axes: Any = args[2] if len(args) > 2 and args[2] is not ... else 2
    if isinstance(axes, (int, np.integer)) and 0 <= axes <= min(len(a), len(b)):
        inner = math.prod(a[len(a) - axes:])
        return _product((), math.prod(a[:len(a) - axes]), inner, math.prod(b[axes:]), args[:2])
    if isinstance(axes, (int, np.integer)):  # a list of axes is made first
        return Cost(abs(int(axes)) * 64, abs(int(axes)) * 100)
    if extent_of((axes,)).elements > MAX_DEPTH:
        raise LimitError(f"more than {MAX_DEPTH} axes")
    try:
        left, right = [[side] if isinstance(side, int) else list(side) for side in axes]
        inner = math.prod([a[axis] for axis in left])
        rows = math.prod([n for i, n in enumerate(a) if i not in left and i - len(a) not in left])
        columns = math.prod([n for i, n in enumerate(b) if i not in right and i - len(b) not in right])
    except (TypeError, ValueError, IndexError):
        return outer(args)
    return _product((), rows, inner, columns, args[:2])


def einsum(args: Sequence[Any]) -> Cost:
    operands = args[1] if len(args) > 1 and isinstance(args[1], CONTAINERS) else ()
    extent = extent_of(operands)
    if not isinstance(args[0], str) or len(args[0]) > 1000:
        raise LimitError("einsum without a subscript string is not run under limits")
    inputs, arrow, output = args[0].replace(" ", "").partition("->")
    sizes: dict[str, int] = {}
    free: list[tuple[int, ...]] = []
    terms = inputs.split(",")
    for term, operand in zip(terms, operands, strict=False):
        shape = shape_of(operand)
        before, dots, after = term.partition("...")
        n_after = len(after) if dots else 0
        for label, n in zip(before, shape, strict=False):
            sizes[label] = max(sizes.get(label, 0), n)
        for label, n in zip(reversed(after), reversed(shape), strict=False):
            sizes[label] = max(sizes.get(label, 0), n)
        free.append(shape[len(before):len(shape) - n_after] if dots else ())
    if not arrow:
        output = "".join(label for label in sizes if inputs.count(label) == 1)
    rest = max(broadcast_size(free), 1)
    everything = rest * math.prod(sizes.values())
    result = rest * math.prod([n for label, n in sizes.items() if label in output])
    if len(args) > 4 and args[4] is not False:
        result = everything  # a path may choose large intermediates
    return Cost(result * extent.item_bytes, everything * 4 * max(len(terms), 1) + extent.elements)


def convolve(args: Sequence[Any]) -> Cost:
    a, b = extent_of(args[:1]), extent_of(args[1:2])
    return Cost((a.elements + b.elements) * max(a.item_bytes, b.item_bytes), a.elements * b.elements * 2)


def multi_dot(args: Sequence[Any]) -> Cost:
    extent = extent_of(args[:1])
    largest = max([n for shape in extent.shapes + extent.lists for n in shape], default=1)
    return Cost(largest ** 2 * extent.item_bytes, largest ** 3 * max(len(extent.shapes), 1))


def matvec(args: Sequence[Any]) -> Cost:
    a, b = shape_of(args[0]), shape_of(args[1])
    batch = broadcast_size((a[:-2], b[:-1])) if len(a) > 1 and b else 1
    rest = math.prod(a[-2:]) if a else 1
    return Cost(batch * rest * extent_of(args[:2]).item_bytes, batch * rest * 4)


def vecmat(args: Sequence[Any]) -> Cost:
    return matvec((args[1], args[0])) if len(args) > 1 else elementwise(args)
