"""Builds plans the way typing does - one step an operation, fresh temporaries - for tests of passes and lowering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from prebake.vm.plan.extents import Expr, as_expr, const, register, symbol
from prebake.vm.plan.signature import Row, Signature
from prebake.vm.plan.steps import (
    ITEM_BYTES,
    Buffer,
    Contract,
    Fact,
    ForStep,
    Literal,
    LoadStep,
    Nest,
    NestInput,
    NestOp,
    NestOut,
    Operand,
    Plan,
    Result,
    ScalarReg,
    Step,
    View,
    contiguous_strides,
)

COMPUTE = {"bool": "bool", "i8": "i32", "i32": "i32", "i64": "i64", "f16": "f32", "f32": "f32", "f64": "f64"}
PREDICATES = {"eq", "ne", "lt", "le", "gt", "ge", "isnan"}


class Builder:
    """A plan under construction. Arrays are Views; `steps` is the region being written."""

    def __init__(self, name: str = "built") -> None:
        self.name = name
        self.rows: list[Row] = []
        self.steps: list[Step] = []
        self.facts: list[Fact] = []
        self.results: list[Result] = []
        self.sample: dict[str, int] = {}
        self.shapes: dict[int, tuple[Expr, ...]] = {}  # of array rows

    # --- inputs -----------------------------------------------------------------------------------------------------

    def arg(self, name: str, shape: Sequence[Expr | int | None], dtype: str = "f32", *, layout: str = "C",
            constant: bool = False, writable: bool = False) -> View:
        """An array argument; extents None become symbols of its own."""
        index = len(self.rows)
        extents = tuple(symbol(f"{name}.shape[{d}]") if n is None else as_expr(n) for d, n in enumerate(shape))
        self.shapes[index] = extents
        fixed = tuple(e.const for e in extents) if constant else None
        self.rows.append(Row("arg", -1, index, "array", name, dtype=dtype, ndim=len(extents), layout=layout,
                             constant=constant, shape=fixed, writable=writable))
        if layout == "C":
            strides = contiguous_strides(extents, ITEM_BYTES[dtype])
        else:
            strides = tuple(symbol(f"{name}.strides[{d}]", -2**47, 2**47) for d in range(len(extents)))
        buffer = Buffer("arg", dtype, None, row=index, constant=constant, name=name)
        return View(buffer, dtype, extents, strides, const(0))

    def integer(self, name: str) -> Expr:
        """An integer argument."""
        self.rows.append(Row("arg", -1, len(self.rows), "scalar", name, dtype="i64", python="int"))
        return symbol(name, -2**47, 2**47)

    def real(self, name: str, dtype: str = "f32") -> ScalarReg:
        """A floating-point argument."""
        self.rows.append(Row("arg", -1, len(self.rows), "scalar", name, dtype=dtype))
        return ScalarReg(dtype, name, row=len(self.rows) - 1)

    # --- arrays -----------------------------------------------------------------------------------------------------

    def temp(self, shape: Sequence[Expr], dtype: str) -> View:
        """A fresh array."""
        shape = tuple(shape)
        size = const(ITEM_BYTES[dtype])
        for extent in shape:
            size = size * extent
        return View(Buffer("temp", dtype, size), dtype, shape, contiguous_strides(shape, ITEM_BYTES[dtype]), const(0))

    def nest(self, axes: Sequence[Expr], inputs: Sequence[Any], ops: Sequence[tuple], out: View, *, slot: int = -1,
             reduce: str = "store", reduced: int = 0, mask: int = -1) -> View:
        """A nest over inputs (Views already broadcast, or operands as (operand, dtype), or ('iota', axis)).

        ops: (name, operand dtype, args) or ('cast', from, to, args).
        """
        items = []
        for item in inputs:
            if isinstance(item, View):
                items.append(NestInput("view", COMPUTE[item.dtype], view=item))
            elif item[0] == "iota":
                items.append(NestInput("iota", "i64", axis=item[1]))
            else:
                items.append(NestInput("scalar", item[1], operand=item[0]))
        nodes = []
        for op in ops:
            if op[0] == "cast":
                nodes.append(NestOp("cast", op[2], op[1], tuple(op[3])))
            else:
                nodes.append(NestOp(op[0], "bool" if op[0] in PREDICATES else op[1], op[1], tuple(op[2])))
        slot = slot if slot >= 0 else len(items) + len(nodes) - 1
        self.steps.append(Nest(tuple(axes), items, nodes, [NestOut(slot, reduce, out, reduced, mask)]))
        return out

    def unary(self, name: str, a: View) -> View:
        """name(a)."""
        dtype = COMPUTE[a.dtype]
        return self.nest(a.shape, [a], [(name, dtype, (0,))],
                         self.temp(a.shape, "bool" if name in PREDICATES else a.dtype))

    def binary(self, name: str, a: View, b: View | float | Operand) -> View:
        """a op b, broadcast; b may be a number or a scalar operand of a's dtype."""
        dtype = COMPUTE[a.dtype]
        to = "bool" if name in PREDICATES else a.dtype
        if not isinstance(b, View):
            if isinstance(b, (int, float)):
                b = Literal(b, dtype)
            return self.nest(a.shape, [a, (b, dtype)], [(name, dtype, (0, 1))], self.temp(a.shape, to))
        shape = broadcast(a.shape, b.shape)
        return self.nest(shape, [spread(a, shape), spread(b, shape)], [(name, dtype, (0, 1))], self.temp(shape, to))

    def where(self, cond: View, a: View, b: View) -> View:
        """np.where."""
        shape = broadcast(broadcast(cond.shape, a.shape), b.shape)
        views = [spread(v, shape) for v in (cond, a, b)]
        return self.nest(shape, views, [("select", COMPUTE[a.dtype], (0, 1, 2))], self.temp(shape, a.dtype))

    def cast(self, a: View, dtype: str) -> View:
        """a.astype(dtype)."""
        if COMPUTE[a.dtype] == COMPUTE[dtype]:
            return self.nest(a.shape, [a], [], self.temp(a.shape, dtype))
        return self.nest(a.shape, [a], [("cast", COMPUTE[a.dtype], COMPUTE[dtype], (0,))], self.temp(a.shape, dtype))

    def reduce(self, name: str, a: View, axes: Sequence[int], keepdims: bool = True) -> View:
        """A reduction over some axes."""
        mask = sum(1 << axis for axis in axes)
        kept = tuple(const(1) if i in axes else n for i, n in enumerate(a.shape))
        dtype = {"any": "bool", "all": "bool", "argmax": "i64", "argmin": "i64"}.get(name, a.dtype)
        out = self.temp(kept if keepdims else [n for i, n in enumerate(a.shape) if i not in axes], dtype)
        strides, rest = [], list(out.strides)
        for i in range(a.ndim):
            if i in axes:
                strides.append(const(0))
                if keepdims:
                    rest.pop(0)
            else:
                strides.append(rest.pop(0))
        to = View(out.buffer, out.dtype, a.shape, tuple(strides), const(0))
        self.nest(a.shape, [a], [], to, slot=0, reduce=name, reduced=mask)
        return out

    def mean(self, a: View, axis: int, keepdims: bool = True) -> View:
        """a.mean(axis): a sum, then a division by the extent."""
        total = self.reduce("sum", a, [axis], keepdims)
        dtype = COMPUTE[a.dtype]
        return self.nest(total.shape, [total, (a.shape[axis], "i64")],
                         [("cast", "i64", dtype, (1,)), ("div", dtype, (0, 2))], self.temp(total.shape, a.dtype))

    def matmul(self, a: View, b: View) -> View:
        """a @ b; batch axes broadcast."""
        batch = broadcast(a.shape[:-2], b.shape[:-2])
        m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
        out = self.temp((*batch, m, n), a.dtype)
        self.steps.append(Contract(batch, m, n, k, spread(a, (*batch, m, k)), spread(b, (*batch, k, n)), out, a.dtype))
        return out

    def transpose(self, a: View, order: Sequence[int]) -> View:
        """The view with its axes in another order."""
        return View(a.buffer, a.dtype, tuple(a.shape[i] for i in order), tuple(a.strides[i] for i in order), a.offset)

    def slice(self, a: View, axis: int, start: Expr | int, stop: Expr | int) -> View:
        """a[..., start:stop, ...] along one axis."""
        shape = list(a.shape)
        shape[axis] = as_expr(stop) - as_expr(start)
        return View(a.buffer, a.dtype, tuple(shape), a.strides, a.offset + a.strides[axis] * as_expr(start))

    def store(self, target: View, value: View) -> None:
        """target[...] = value (already complete)."""
        self.nest(target.shape, [spread(value, target.shape)], [], target, slot=0)

    def load(self, a: View) -> ScalarReg:
        """The one element of a 0-axis array."""
        reg = ScalarReg(COMPUTE[a.dtype], "load")
        if reg.dtype == "i64":
            reg.expr = register("load")
        self.steps.append(LoadStep(reg, View(a.buffer, a.dtype, (), (), a.offset)))
        return reg

    # --- control ----------------------------------------------------------------------------------------------------

    def loop(self, stop: Expr, start: Expr | int = 0, step: int = 1) -> _Loop:
        """`with builder.loop(n) as i:` a counted loop; i is an expression."""
        return _Loop(self, as_expr(start), stop, as_expr(step))

    # --- results ----------------------------------------------------------------------------------------------------

    def ret(self, *values: View) -> None:
        """Return copies of arrays (temporaries are copied into result buffers)."""
        for value in values:
            out = self.temp(value.shape, value.dtype)
            out.buffer.kind = "out"
            self.store(out, value)
            self.results.append(Result("new", view=out))

    def give(self, *values: View) -> None:
        """Return temporaries themselves, as typing does: their buffers become results."""
        for value in values:
            value.buffer.kind = "out"
            self.results.append(Result("new", view=value))

    def ret_scalar(self, reg: Operand) -> None:
        """Return a scalar."""
        dtype = "i64" if isinstance(reg, Expr) else reg.dtype
        self.results.append(Result("scalar", operand=reg, dtype=dtype))

    def plan(self) -> Plan:
        """The finished plan."""
        result = self.results[0] if len(self.results) == 1 else Result("tuple", items=tuple(self.results))
        return Plan(self.name, self.steps, result, self.facts, Signature(tuple(self.rows)), dict(self.sample))


class _Loop:
    def __init__(self, builder: Builder, start: Expr, stop: Expr, step: Expr) -> None:
        self.builder, self.start, self.stop, self.step = builder, start, stop, step

    def __enter__(self) -> Expr:
        self.var = ScalarReg("i64", "i", register("i"))
        self.outer, self.builder.steps = self.builder.steps, []
        assert self.var.expr is not None
        return self.var.expr

    def __exit__(self, *_: object) -> None:
        body, self.builder.steps = self.builder.steps, self.outer
        self.builder.steps.append(ForStep(self.var, self.start, self.stop, self.step, body))


def broadcast(a: tuple[Expr, ...], b: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Broadcast shape of shapes that are equal or 1 by normal form."""
    n = max(len(a), len(b))
    a, b = (const(1),) * (n - len(a)) + a, (const(1),) * (n - len(b)) + b
    out = []
    for x, y in zip(a, b, strict=True):
        assert x is y or x.value == 1 or y.value == 1, (x, y)
        out.append(y if x.value == 1 else x)
    return tuple(out)


def spread(view: View, shape: tuple[Expr, ...]) -> View:
    """The view broadcast to a shape."""
    lead = len(shape) - view.ndim
    strides = [const(0)] * lead
    for extent, stride, target in zip(view.shape, view.strides, shape[lead:], strict=True):
        strides.append(stride if extent is target else const(0))
    return View(view.buffer, view.dtype, shape, tuple(strides), view.offset)


def arrays_for(builder: Builder, extents: dict[str, int], rng: np.random.Generator) -> dict[int, Any]:
    """Random leaves for a builder's rows; extents: symbol name -> value."""
    leaves: dict[int, Any] = {}
    for i, row in enumerate(builder.rows):
        if row.kind == "scalar":
            leaves[i] = extents.get(row.path, 3) if row.dtype == "i64" else np.dtype(
                {"f32": "f4", "f64": "f8"}[row.dtype]).type(rng.standard_normal())
            continue
        shape = tuple(extent.evaluate(extents) for extent in builder.shapes[i])
        leaves[i] = random_array(row, shape, rng)
    return leaves


NUMPY = {"bool": "?", "i8": "i1", "i32": "i4", "i64": "i8", "f16": "f2", "f32": "f4", "f64": "f8"}


def random_array(row: Row, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """An array that fits a row: C order, or (layout 'S') every other element of a larger one, reversed."""
    def fill(dims: tuple[int, ...]) -> np.ndarray:
        if row.dtype == "bool":
            return rng.integers(0, 2, dims).astype("?")
        if row.dtype.startswith("i"):
            return rng.integers(-5, 6, dims).astype(NUMPY[row.dtype])
        return rng.standard_normal(dims).astype(NUMPY[row.dtype])
    if row.layout == "C" or not shape:
        return fill(shape)
    return fill(tuple(2 * n for n in shape))[tuple(slice(None, None, -2) for _ in shape)]
