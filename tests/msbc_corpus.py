"""Programs that tests of bytes, text, verifier and interpreter start from: compiled functions, an assembled text."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from prebake.vm.lang.assembler import assemble
from prebake.vm.lang.bytecode import Program
from prebake.vm.lang.frontend import compile_function

SCALE = 0.5

# every opcode once or more; takes x (n, d) and n
ALL_OPCODES = """
.program "corpus:everything"
.registers 24
.param x
.param n default=3
.symbol "x.shape[0]"
.const None
.const int 0
.const int 1
.const int 2
.const float 0.5
.const dtype float32
.const str "shape"
.const int 4
.capture global "msbc_corpus" "SCALE"
LOAD_TENSOR r0 p0 : float32 s0
LOAD_TENSOR r1 p1
LOAD_CONST r2 c0
LOAD_CONST r3 c1
LOAD_CONST r4 c2
LOAD_CONST r5 c3
LOAD_CONST r6 c5
LOAD_CAPTURE r7 g0
LOAD_ATTR r8 r0 c6
UNPACK r8 (r9 r10)
TENSOR_SHAPE_REF r11 r0 0 : ? s1
BUILD r12 0 (r9 r10)
ALLOC_BUFFER r13 r12 1 r6 : float32 s0
BUILD r14 2 (r2 r4)
STORE_TENSOR r13 r14 r7
BINARY_ADD_TENSOR r13 r13 r0
BINARY_SUB_TENSOR r15 r13 r7
BINARY_MUL_TENSOR r15 r15 r0
BINARY_DIV_TENSOR r15 r15 r5
INPLACE_TENSOR r15 r15 r4 0x8b01
UNARY_NEG_TENSOR r16 r15
CAST_TENSOR r16 r16 r6 : float32 s0
COMPARE_TENSOR r17 r16 r3 <
UNARY_NOT_TENSOR r18 r17
SELECT_TENSOR r16 r18 r16 r15
REDUCE_SUM_TENSOR r19 r16 r3 1
REDUCE_MAX_TENSOR r20 r16 r2 0
MOVE r21 r20
outer:
LOOP_RANGE r22 r3 r1 r4 after
IF_TENSOR_GT r22 r5 small
CONTINUE next
small:
IF_TRUE r21 other
INPLACE_TENSOR r21 r21 r22 0x8b01
JUMP join
other:
INPLACE_TENSOR r21 r21 r4 0x8b01
join:
VIEW_TENSOR r23 r0 r22
next:
LOOP_NEXT outer
after:
each:
LOOP_EACH r22 r8 done
IF_TRUE r22 leave
BREAK done
leave:
LOOP_NEXT each
done:
spin:
LOOP_WHILE end
LOOP_UNTIL_TENSOR_EQ r1 r3 end
BINARY_SUB_TENSOR r1 r1 r4
COMPARE_TENSOR r23 r1 r3 >=
LOOP_TEST r23 end
LOOP_NEXT spin
end:
SYNC_DEVICE
CALL_KERNEL r20 0x8108 (r19)
BUILD r20 0 (r20 r16 r21 r11 r1)
RETURN r20
"""


def mlp(x, w, b):
    h = np.maximum(x @ w + b, 0)
    if x.shape[0] > 3:
        h = h * SCALE
    return h - h.mean(axis=-1, keepdims=True)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def loops(x, n):
    total = 0
    out = np.zeros((n, x.shape[1]), dtype=x.dtype)
    for i in range(n):
        if i == 4:
            break
        row = x[i % x.shape[0]]
        if row.sum() < 0:
            continue
        out[i, 1:] = row[:-1] * 2
        total += float(row[0])
    while total > 1:
        total = total / 2
    return out, total


def create(x, n):
    a = np.arange(n * 2).reshape(2, n)
    b = np.concatenate([np.ones((1, n)), np.eye(n), np.full((1, n), 3.0)], axis=0)
    c = np.pad(x, ((0, 1), (1, 0)))
    d = np.repeat(x, 2, axis=0)
    e = np.tile(x, (2, 1))
    return a.sum(), b.T, c, d + e, np.linspace(0, 1, n), np.outer(x[0], x[1])


def structure(x, params):
    items = []
    for i, (w, b) in enumerate(zip(params["w"], params["b"], strict=True)):
        items.append(x[:, i:i + 1] * w + b)
    return np.stack(items), {"n": len(items), "t": (n_items(items), x.T)}


def n_items(items):
    if len(items) > 1:
        return len(items)
    return -1


def integers(n, k):
    bits = (n << k) ^ (n * 3)
    bits **= 2
    return bits % 1000, divmod(bits, 7), -n // 2, [0] * k, (bits,) * 2 + (n,), max(n, k)


def search(x, n):
    order = np.argsort(x, axis=0)
    top = np.take_along_axis(x, order, axis=0)[:2]
    mask = x > 0
    x = x.copy()
    x[mask] = 0
    return top, np.where(mask, x, -x), np.einsum("ij,kj->ik", x, x), np.bincount(np.arange(n)), np.unique(x)


class Case(NamedTuple):
    """A program and a maker of fresh arguments for it."""

    name: str
    program: Program
    make_args: object

    def args(self) -> tuple:
        return self.make_args()  # type: ignore[operator]


def _x(rows: int = 3, columns: int = 4) -> np.ndarray:
    return (np.arange(rows * columns, dtype=np.float32).reshape(rows, columns) - 4) / 3


@lru_cache(maxsize=1)
def corpus() -> tuple[Case, ...]:
    """Every program of the corpus with its arguments."""
    params = {"w": [np.float32(2), np.ones(1, np.float32)], "b": [1.0, 2.0]}
    functions = [
        (mlp, lambda: (_x(), np.ones((4, 5), np.float32), np.zeros(5, np.float32))), (softmax, lambda: (_x(),)),
        (loops, lambda: (_x(), 6)), (create, lambda: (_x(), 4)), (structure, lambda: (_x(), params)),
        (integers, lambda: (5, 3)), (search, lambda: (_x(), 4)),
    ]
    cases = [Case(fn.__name__, compile_function(fn), args) for fn, args in functions]
    cases.append(Case("everything", assemble(ALL_OPCODES), lambda: (_x(),)))
    return tuple(cases)


FUNCTIONS = {fn.__name__: fn for fn in (mlp, softmax, loops, create, structure, integers, search)}
