"""Products of reduced precision (option `precision`) as the reference computes them.

Both operands of a float32 product are rounded to 16 bits, to nearest even, whether they are weights, arguments or
results of other operations, and whether or not they can change; sums and results stay float32. Products are matmul, `@`,
dot, inner, vdot, matvec, and tensordot and einsum where they contract matrices; all other operations are float32's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...templates import registry
from ..lang.opcodes import Op
from ..plan.contraction import contraction, first_pair, implied_target


def rounded(x: np.ndarray, precision: str) -> np.ndarray:
    """float32 values that bfloat16 or float16 holds, nearest to those of x; past float16's largest: infinity."""
    if precision == "float16":
        return x.astype(np.float16).astype(np.float32)
    bits = np.array(x, np.float32).view(np.uint32)
    nearest = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    quiet = (bits | 0x00400000) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), quiet, nearest).astype(np.uint32).view(np.float32)


def is_operand(x: object) -> bool:
    """Whether the option speaks of this operand."""
    return isinstance(x, np.ndarray) and x.dtype == np.float32 and x.ndim > 0


def handlers(code: Sequence[tuple[Callable, tuple[int, ...], Any]], ops: Sequence[int],
             precision: str) -> list[tuple[Callable, tuple[int, ...], Any]]:
    """The interpreter's prepared code with products of this precision. ops: the opcode of each instruction."""
    out = list(code)
    for pc, op in enumerate(ops):
        _, args, reads = code[pc]
        if op == Op.CALL_KERNEL and registry.BY_ID[args[1]].name in _PRODUCTS:
            out[pc] = (_call_handler(args[1], precision), args, reads)
        elif op == Op.INPLACE_TENSOR and registry.BY_ID[args[3]].name == "op.matmul":
            out[pc] = (_inplace_handler(args[3], precision), args, reads)
    return out


def _call_handler(kernel: int, precision: str) -> Callable:
    plain, product = registry.resolve(kernel), _PRODUCTS[registry.BY_ID[kernel].name]

    def run(frame: Any, args: tuple[int, ...], pc: int) -> None:
        values = [frame.regs[r] for r in args[3:]]
        frame.regs[args[0]] = product(plain, precision, *values)
    return run


def _inplace_handler(kernel: int, precision: str) -> Callable:
    plain = registry.resolve_inplace(kernel)

    def run(frame: Any, args: tuple[int, ...], pc: int) -> None:
        a, b = frame.regs[args[1]], frame.regs[args[2]]
        if is_operand(a) and is_operand(b) and b.ndim > 1:
            result = rounded(a, precision) @ rounded(b, precision)
            if result.shape == a.shape:
                a[...] = result
                frame.regs[args[0]] = a
                return
        frame.regs[args[0]] = plain(a, b)
    return run


def _plain_product(function: Callable, precision: str, a: Any, b: Any, *rest: Any) -> Any:
    if is_operand(a) and is_operand(b):
        a, b = rounded(a, precision), rounded(b, precision)
    return function(a, b, *rest)


def _tensordot(function: Callable, precision: str, a: Any, b: Any, axes: Any = 2) -> Any:
    if is_operand(a) and is_operand(b):
        count = axes if isinstance(axes, (int, np.integer)) else np.size(axes[0])
        if 0 < count < min(a.ndim, b.ndim):
            a, b = rounded(a, precision), rounded(b, precision)
    return function(a, b, axes)


def _einsum(function: Callable, precision: str, subscripts: Any, operands: Any, *rest: Any) -> Any:
    """Pairs from left to right, as plans contract them; forms that plans do not take stay as they are."""
    arrays = list(operands)
    if isinstance(subscripts, str) and len(arrays) > 1 and all(map(is_operand, arrays)):
        left, arrow, target = subscripts.replace(" ", "").partition("->")
        terms = left.split(",")
        if "." not in left and len(terms) == len(arrays) and all(
                len(term) == x.ndim for term, x in zip(terms, arrays, strict=True)):
            target = target if arrow else implied_target(terms)
            while len(arrays) > 2:
                keep = first_pair(terms, target)
                arrays = [_einsum_pair(precision, terms[:2], keep, arrays), *arrays[2:]]
                terms = [keep, *terms[2:]]
            return function(f"{','.join(terms)}->{target}", _pair_operands(precision, terms, target, arrays), *rest)
    return function(subscripts, operands, *rest)


def _einsum_pair(precision: str, terms: Sequence[str], target: str, arrays: Sequence[np.ndarray]) -> Any:
    return np.asarray(np.einsum(f"{','.join(terms)}->{target}", *_pair_operands(precision, terms, target, arrays)))


def _pair_operands(precision: str, terms: Sequence[str], target: str,
                   arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    pair = arrays[:2]
    return tuple(rounded(x, precision) for x in pair) if contraction(terms, target) else tuple(pair)


_PRODUCTS: dict[str, Callable] = {
    **dict.fromkeys(("op.matmul", "np.matmul", "np.dot", "arr.dot", "np.inner", "np.vdot", "np.matvec"), _plain_product),
    "np.tensordot": _tensordot, "np.einsum": _einsum,
}
