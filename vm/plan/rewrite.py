"""Rewriting every expression of a plan at once."""

from __future__ import annotations

from collections.abc import Callable

from .extents import Expr
from .steps import (
    Buffer,
    CallStep,
    Contract,
    ForStep,
    IfStep,
    LoadStep,
    Nest,
    Result,
    ScalarOpStep,
    SetStep,
    Step,
    StoreStep,
    TrapStep,
    View,
    walk,
)


def substitute_plan(steps: list[Step], result: Result, change: Callable[[Expr], Expr]) -> None:
    """Apply `change` to every extent, stride, offset and integer operand, in place."""
    memo: dict[Expr, Expr] = {}
    tuples: dict[tuple[Expr, ...], tuple[Expr, ...]] = {}
    seen: set[View | Buffer] = set()

    def expr(value: Expr) -> Expr:
        found = memo.get(value)
        if found is None:
            found = memo[value] = change(value)
        return found

    def exprs(values: tuple[Expr, ...]) -> tuple[Expr, ...]:
        found = tuples.get(values)
        if found is None:
            found = tuples[values] = tuple([memo.get(value) or expr(value) for value in values])
        return found

    def operand(value: object) -> object:
        return expr(value) if isinstance(value, Expr) else value

    def view(item: View | None) -> None:
        if item is None or item in seen:
            return
        seen.add(item)
        item.shape, item.strides = tuples.get(item.shape) or exprs(item.shape), tuples.get(item.strides) or exprs(item.strides)
        if item.offset.terms:
            item.offset = expr(item.offset)
        buffer = item.buffer
        if buffer not in seen:
            seen.add(buffer)
            if buffer.size_bytes is not None:
                buffer.size_bytes = expr(buffer.size_bytes)

    def indexes(items: tuple) -> tuple:
        return items and tuple((slot, expr(extent), expr(stride)) for slot, extent, stride in items)

    for step in walk(steps):
        if isinstance(step, Nest):
            step.axes = exprs(step.axes)
            for item in step.inputs:
                if item.view is not None:
                    view(item.view)
                else:
                    item.operand = operand(item.operand)  # type: ignore[assignment]
            for op in step.ops:
                if op.view is not None:
                    view(op.view)
                    op.indexes = indexes(op.indexes)
            for out in step.outs:
                view(out.view)
                out.indexes = indexes(out.indexes)
        elif isinstance(step, Contract):
            step.batch, step.m, step.n, step.k = exprs(step.batch), expr(step.m), expr(step.n), expr(step.k)
            for item_view in (step.a, step.b, step.out, step.bias, step.residual):
                view(item_view)
        elif isinstance(step, CallStep):
            pending = list(step.args)
            while pending:
                arg = pending.pop()
                pending.extend(arg.items)
                view(arg.view)
                arg.operand, arg.imag = operand(arg.operand), operand(arg.imag)  # type: ignore[assignment]
            for made in step.made():
                view(made)
        elif isinstance(step, ScalarOpStep):
            step.args = tuple(map(operand, step.args))  # type: ignore[arg-type]
        elif isinstance(step, (LoadStep, StoreStep)):
            view(step.view)
            if isinstance(step, StoreStep):
                step.value = operand(step.value)  # type: ignore[assignment]
        elif isinstance(step, SetStep):
            step.value = operand(step.value)  # type: ignore[assignment]
        elif isinstance(step, (TrapStep, IfStep)):
            step.cond = operand(step.cond)  # type: ignore[assignment]
        elif isinstance(step, ForStep):
            step.start, step.stop, step.step = expr(step.start), expr(step.stop), expr(step.step)
    stack = [result]
    while stack:
        part = stack.pop()
        view(part.view)
        part.operand = operand(part.operand)  # type: ignore[assignment]
        stack.extend(part.items)
