"""Random plans: what functions over a few arrays might be typed to, with views, stores, reductions, loops, products."""

from __future__ import annotations

import random

from plan_build import Builder, broadcast

from prebake.vm.plan.extents import const, floordiv, symbol
from prebake.vm.plan.steps import ExitStep, IfStep, LoadStep, Nest, ScalarOpStep, ScalarReg, View

UNARY = ("neg", "abs", "square", "exp", "tanh", "sqrt")
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum")


def random_plan(seed: int, size: int = 14) -> Builder:
    """A builder with a random program; extents are x.shape[0] (n) and x.shape[1] (m)."""
    rng = random.Random(seed)
    b = Builder(f"random{seed}")
    n, m = symbol("x.shape[0]"), symbol("x.shape[1]")
    dtype = rng.choice(("f32", "f64"))
    pool = [b.arg("x", [n, m], dtype, writable=rng.random() < 0.3),
            b.arg("y", [n, m], dtype, layout=rng.choice("CS")),
            b.arg("v", [m], dtype), b.arg("w", [m, 4], dtype, constant=False), b.arg("c", [4], dtype)]
    writable = [pool[0]] if b.rows[0].writable else []
    for _ in range(size):
        step(rng, b, pool, writable, n, m)
    fresh = [v for v in pool if v.buffer.kind == "temp" and v.buffer.size_bytes is not None] or pool[:1]
    for value in rng.sample(fresh, min(len(fresh), rng.randint(1, 3))):
        if value.buffer.kind == "temp" and is_whole(value) and rng.random() < 0.5 and value.buffer not in {
                r.view.buffer for r in b.results if r.view is not None}:
            from prebake.vm.plan.steps import Result
            value.buffer.kind = "out"  # as typing does: the temporary itself is the result
            b.results.append(Result("new", view=value))
        else:
            b.ret(value)
    if writable:
        b.ret(writable[0])
    return b


def is_whole(view: View) -> bool:
    """Whether the view is its buffer in C order."""
    fresh = Builder().temp(view.shape, view.dtype)
    return (fresh.strides == view.strides and view.offset.value == 0
            and fresh.buffer.size_bytes is view.buffer.size_bytes)


def step(rng: random.Random, b: Builder, pool: list[View], writable: list[View], n: object, m: object,
         depth: int = 0) -> None:
    """One random operation."""
    kind = rng.choice(("unary", "binary", "binary", "binary", "scalar", "where", "reduce", "mean", "matmul",
                       "transpose", "slice", "store", "loop", "softmax", "norm", "iota", "copy", "fill", "bias",
                       "scalar-use", "exit"))
    a = rng.choice(pool[-6:] if rng.random() < 0.7 else pool)
    if kind == "unary":
        pool.append(b.unary(rng.choice(UNARY), a))
    elif kind in ("binary", "where"):
        other = rng.choice(pool)
        if fits(a, other):
            if kind == "binary":
                pool.append(b.binary(rng.choice(BINARY), a, other))
            else:
                pool.append(b.where(b.binary("lt", a, 0.25), a, other))
    elif kind == "scalar":
        pool.append(b.binary(rng.choice(BINARY), a, rng.choice((0.0, 0.5, 2.0))))
    elif kind in ("reduce", "mean") and a.ndim:
        axis = rng.randrange(a.ndim)
        if kind == "mean":
            pool.append(b.mean(a, axis, rng.random() < 0.7))
        else:
            pool.append(b.reduce("sum", a, [axis], rng.random() < 0.7))
    elif kind == "matmul":
        other = rng.choice(pool)
        if a.ndim >= 2 and other.ndim >= 2 and a.shape[-1] is other.shape[-2] and fits(a, other, 2):
            pool.append(b.matmul(a, other))
    elif kind == "bias" and a.ndim == 2 and a.shape[-1] is m:
        h = b.binary("add", b.matmul(a, pool[3]), pool[4])
        pool.append(b.binary("maximum", h, 0.0) if rng.random() < 0.6 else h)
    elif kind == "transpose" and a.ndim == 2:
        pool.append(b.transpose(a, (1, 0)))
    elif kind == "slice" and a.ndim:
        axis = rng.randrange(a.ndim)
        half = floordiv(a.shape[axis], 2)
        if a.shape[axis].value != 1:
            pool.append(b.slice(a, axis, 0, half) if rng.random() < 0.5 else b.slice(a, axis, half, half * 2))
    elif kind == "store" and writable and fits(a, writable[0]):
        target = writable[0]
        value = b.binary(rng.choice(BINARY), target, a) if rng.random() < 0.6 else b.unary("neg", a)
        if broadcast(value.shape, target.shape) == target.shape:
            b.store(target, value)
    elif kind == "copy":
        to = b.temp(a.shape, a.dtype)
        b.store(to, a)
        pool.append(to)
    elif kind == "fill":
        to = b.temp(a.shape, a.dtype)
        from prebake.vm.plan.steps import Literal
        b.nest(a.shape, [(Literal(0.5, a.dtype), a.dtype)], [], to, slot=0)
        if a.ndim and rng.random() < 0.5:  # partly overwritten: two writers
            half = b.slice(to, 0, 0, floordiv(to.shape[0], 2))
            b.store(half, b.unary("neg", b.slice(a, 0, 0, floordiv(a.shape[0], 2))))
        pool.append(to)
    elif kind == "softmax" and a.ndim == 2:
        e = b.unary("exp", b.binary("sub", a, b.reduce("max", a, [1]))) if a.shape[1].value != 0 else a
        pool.append(b.binary("div", e, b.reduce("sum", e, [1])))
    elif kind == "norm" and a.ndim == 2:
        d = b.binary("sub", a, b.mean(a, 1))
        var = b.mean(b.binary("mul", d, d), 1)
        pool.append(b.binary("div", d, b.unary("sqrt", b.binary("add", var, 1e-5))))
    elif kind == "iota" and a.ndim:
        to = b.temp(a.shape, a.dtype)
        b.nest(a.shape, [a, ("iota", rng.randrange(a.ndim))],
               [("cast", "i64", a.dtype, (1,)), ("mul", a.dtype, (0, 2))], to)
        pool.append(to)
    elif kind == "scalar-use" and a.ndim:
        total = b.reduce("sum", a, range(a.ndim), keepdims=False)
        pool.append(b.binary("mul", a, b.load(total)))
    elif kind == "exit" and depth == 0 and rng.random() < 0.4:
        flag, value = ScalarReg("bool", "flag"), ScalarReg(pool[0].dtype, "value")
        total = b.reduce("sum", pool[0], range(pool[0].ndim), keepdims=False)
        b.steps.append(LoadStep(value, View(total.buffer, total.dtype, (), (), total.offset)))
        from prebake.vm.plan.steps import Literal
        b.steps.append(ScalarOpStep("gt", flag, (value, Literal(1e30, value.dtype)), value.dtype))
        b.steps.append(IfStep(flag, [ExitStep()], []))
    elif kind == "loop" and depth < 2 and a.ndim == 2:
        out = b.temp(a.shape, a.dtype)
        carried = b.temp((a.shape[1],), a.dtype)
        b.store(carried, b.reduce("sum", a, [0], keepdims=False))
        with b.loop(a.shape[0]) as i:
            row = View(a.buffer, a.dtype, (a.shape[1],), (a.strides[1],), a.offset + a.strides[0] * i)
            inner = [row, carried, *(v for v in pool if v.ndim == 1)]
            for _ in range(rng.randint(1, 4)):
                step(rng, b, inner, [], n, m, depth + 1)
            same = [v for v in inner if v.shape == row.shape]
            b.store(View(out.buffer, out.dtype, row.shape, (out.strides[1],), out.strides[0] * i), same[-1])
            if rng.random() < 0.5:
                b.store(carried, b.binary("add", carried, row))
        pool.append(out)
        pool.append(carried)


def fits(a: View, other: View, skip: int = 0) -> bool:
    """Whether two views broadcast."""
    x, y = (a.shape, other.shape) if not skip else (a.shape[:-skip], other.shape[:-skip])
    one = const(1)
    k = max(len(x), len(y))
    x, y = (one,) * (k - len(x)) + x, (one,) * (k - len(y)) + y
    return all(p is q or p is one or q is one for p, q in zip(x, y, strict=True))


__all__ = ["Nest", "random_plan"]
