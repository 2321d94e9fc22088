"""Random nests: views of every layout, a random DAG, stores and reductions mixed. For both emitters of nests."""

from __future__ import annotations

import numpy as np
from plan_build import COMPUTE, Builder

from prebake.vm.plan.extents import Expr, const
from prebake.vm.plan.steps import ITEM_BYTES as ITEM
from prebake.vm.plan.steps import (
    Literal,
    LoadStep,
    Nest,
    NestInput,
    NestOp,
    NestOut,
    Result,
    ScalarReg,
    View,
    contiguous_strides,
)

ARITHMETIC = {
    "f32": ("add", "sub", "mul", "maximum", "minimum", "neg", "abs", "square"),
    "f64": ("add", "sub", "mul", "maximum", "minimum", "neg", "abs", "square"),
    "i64": ("add", "sub", "mul", "maximum", "minimum", "neg", "xor"),
    "i32": ("add", "sub", "mul", "maximum", "minimum", "neg", "and"),
    "bool": ("and", "or", "not", "xor"),
}
UNARY = {"neg", "abs", "square", "not"}
COMPARE = ("lt", "ge", "eq")
NARROW = {"i32": "i8", "f32": "f16"}  # memory that is not native
REDUCE = {"f32": ("sum", "max", "min", "argmax", "argmin"), "f64": ("sum", "prod", "max", "min", "argmax"),
          "i64": ("sum", "prod", "max", "argmin"), "i32": ("sum", "max", "min"), "bool": ("any", "all")}


def random_nest(seed: int) -> tuple[Builder, tuple[str, ...]]:
    """A builder with one random nest over 0 to 3 axes, and the names of its axes' symbols."""
    rng = np.random.default_rng(seed)
    b = Builder(f"fuzz{seed}")
    ndim = int(rng.integers(0, 4))
    first = b.arg("a", [None] * ndim, str(rng.choice(["f32", "f64", "i64", "f16"])), layout=str(rng.choice(["C", "S"])))
    axes: tuple[Expr, ...] = tuple(const(int(rng.integers(1, 6))) if rng.random() < 0.2 else e for e in first.shape)
    fixed = {d: e.value for d, e in enumerate(axes) if e.value is not None}
    for d, n in fixed.items():
        b.sample[f"a.shape[{d}]"] = int(n or 0)
    first = View(first.buffer, first.dtype, axes, first.strides, first.offset)
    inputs: list[NestInput] = [NestInput("view", COMPUTE[first.dtype], view=first)]
    for k in range(int(rng.integers(0, 3))):
        inputs.append(random_input(b, rng, axes, f"x{k}"))
    if ndim and rng.random() < 0.3:
        inputs.append(NestInput("iota", "i64", axis=int(rng.integers(0, ndim))))
    ops = random_ops(rng, inputs)
    dtypes = [i.dtype for i in inputs] + [o.dtype for o in ops]
    outs: list[NestOut] = []
    masks: list[int] = []
    for _ in range(int(rng.integers(1, 4))):
        slot = int(rng.integers(max(len(dtypes) - 4, 0), len(dtypes)))
        if ndim and rng.random() < 0.6:
            mask = int(rng.integers(1, 1 << ndim)) if not masks or rng.random() < 0.3 else masks[-1]
            reduce = str(rng.choice(REDUCE[dtypes[slot]]))
            if reduce.startswith("arg"):
                mask = mask & -mask
            masks.append(mask)
            out = _reduction(b, rng, axes, slot, dtypes[slot], reduce, mask)
        else:
            out = _store(b, rng, axes, slot, dtypes[slot])
        outs.append(out)
    holds = [slot for slot, dtype in enumerate(dtypes) if dtype == "bool"]
    taken: list[tuple[NestOut, View]] = []
    if ndim and holds and rng.random() < 0.6:
        mask = int(rng.choice(holds))
        ops.append(NestOp("cast", "i64", "bool", (mask,)))
        cell = b.temp((), "i64")
        everywhere = View(cell.buffer, "i64", axes, (const(0),) * ndim, const(0))
        outs.append(NestOut(len(dtypes), "sum", everywhere, (1 << ndim) - 1))
        for _ in range(int(rng.integers(1, 4))):
            slot = int(rng.integers(0, len(dtypes)))
            taken.append(_compression(b, rng, axes, slot, dtypes[slot], mask))
    b.steps.append(Nest(axes, inputs, ops, [*outs, *(out for out, _ in taken)]))
    for _, whole in taken:
        _show_taken(b, whole, outs[-1])
    return b, tuple(f"a.shape[{d}]" for d in range(ndim) if d not in fixed)


def random_input(b: Builder, rng: np.random.Generator, axes: tuple[Expr, ...], name: str) -> NestInput:
    """A view with the nest's axes: a permutation of an argument's, some broadcast."""
    dtype = str(rng.choice(["f32", "f32", "i8", "bool", "i32"]))
    order = list(rng.permutation(len(axes))) if rng.random() < 0.3 else list(range(len(axes)))
    keep = [d for d in order if rng.random() < 0.7]
    arg = b.arg(name, [axes[d] for d in keep], dtype, layout=str(rng.choice(["C", "S"])))
    strides = [const(0)] * len(axes)
    for position, d in enumerate(keep):
        strides[d] = arg.strides[position]
    return NestInput("view", COMPUTE[dtype], view=View(arg.buffer, dtype, axes, tuple(strides), const(0)))


def random_ops(rng: np.random.Generator, inputs: list[NestInput]) -> list[NestOp]:
    """A DAG of up to eight operations."""
    dtypes = [i.dtype for i in inputs]
    ops: list[NestOp] = []
    for _ in range(int(rng.integers(0, 8))):
        a = int(rng.integers(0, len(dtypes)))
        dtype = dtypes[a]
        same = [s for s, d in enumerate(dtypes) if d == dtype]
        draw = rng.random()
        if draw < 0.2 and dtype != "bool":
            to = str(rng.choice(["f64", "f32", "i64"] if dtype != "i32" else ["f64", "i64", "f32"]))
            if to == dtype or (to.startswith("i") and dtype.startswith("f")):
                continue
            op = NestOp("cast", to, dtype, (a,))
        elif draw < 0.35 and dtype != "bool":
            op = NestOp(str(rng.choice(COMPARE)), "bool", dtype, (a, int(rng.choice(same))))
        elif draw < 0.45 and "bool" in dtypes:
            c = int(rng.choice([s for s, d in enumerate(dtypes) if d == "bool"]))
            op = NestOp("select", dtype, dtype, (c, a, int(rng.choice(same))))
        else:
            name = str(rng.choice(ARITHMETIC[dtype]))
            op = NestOp(name, dtype, dtype, (a,) if name in UNARY else (a, int(rng.choice(same))))
        ops.append(op)
        dtypes.append(op.dtype)
    return ops


def _store(b: Builder, rng: np.random.Generator, axes: tuple[Expr, ...], slot: int, dtype: str) -> NestOut:
    out = b.temp(axes, dtype)
    out.buffer.kind = "out"
    b.results.append(Result("new", view=out))
    if len(axes) > 1 and rng.random() < 0.3:  # the result's own order is another
        order = list(rng.permutation(len(axes)))
        shape = tuple(axes[d] for d in order)
        own = View(out.buffer, dtype, shape, contiguous_strides(shape, ITEM[dtype]), const(0))
        b.results[-1] = Result("new", view=own)
        strides = [own.strides[order.index(d)] for d in range(len(axes))]
        return NestOut(slot, "store", View(out.buffer, dtype, axes, tuple(strides), const(0)))
    return NestOut(slot, "store", out)


def _reduction(b: Builder, rng: np.random.Generator, axes: tuple[Expr, ...], slot: int, dtype: str, reduce: str,
               mask: int) -> NestOut:
    kept = [d for d in range(len(axes)) if not mask >> d & 1]
    to = "i64" if reduce.startswith("arg") else dtype
    own = b.temp([axes[d] for d in kept], to)
    own.buffer.kind = "out"
    b.results.append(Result("new", view=own))
    strides = [const(0)] * len(axes)
    for position, d in enumerate(kept):
        strides[d] = own.strides[position]
    return NestOut(slot, reduce, View(own.buffer, to, axes, tuple(strides), const(0)), mask)


def _compression(b: Builder, rng: np.random.Generator, axes: tuple[Expr, ...], slot: int, dtype: str,
                 mask: int) -> tuple[NestOut, View]:
    """What a mask takes, in memory that has room for everything."""
    total = const(1)
    for extent in axes:
        total = total * extent
    to = NARROW.get(dtype, dtype) if rng.random() < 0.3 else dtype
    own = b.temp((total,), to)
    everywhere = View(own.buffer, to, axes, (const(0),) * len(axes), const(0))
    return NestOut(slot, "compress", everywhere, (1 << len(axes)) - 1, mask), own


def _show_taken(b: Builder, whole: View, count: NestOut) -> None:
    """A result for a compression: what was taken, and zeros behind it, where anything may stand."""
    taken = ScalarReg("i64", "taken")
    b.steps.append(LoadStep(taken, View(count.view.buffer, "i64", (), (), const(0))))
    native = COMPUTE[whole.dtype]
    zero: bool | int | float = False if native == "bool" else 0 if native[0] == "i" else 0.0
    shown = b.temp(whole.shape, whole.dtype)
    shown.buffer.kind = "out"
    b.results.append(Result("new", view=shown))
    inputs = [NestInput("view", native, view=whole), NestInput("iota", "i64", axis=0), NestInput("scalar", "i64", operand=taken),
              NestInput("scalar", native, operand=Literal(zero, native))]
    ops = [NestOp("lt", "bool", "i64", (1, 2)), NestOp("select", native, native, (4, 0, 3))]
    b.steps.append(Nest(whole.shape, inputs, ops, [NestOut(5, "store", shown)]))
