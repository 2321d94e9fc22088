"""`check_plan`: the invariants of `steps`, for tests and between passes.

Types agree; views have their step's axes and stay inside their buffers; what is read was written. Extents are checked
by algebra where it answers, and at the extents at hand otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...templates.scalars import BY_NAME, NATIVE, REDUCTIONS
from ..errors import InternalError
from .extents import Atom, Expr, is_less_equal
from .steps import (
    ITEM_BYTES,
    Buffer,
    Contract,
    ForStep,
    IfStep,
    LoadStep,
    Nest,
    Plan,
    Step,
    StoreStep,
    View,
    WhileStep,
)
from .usage import accesses


def check_plan(plan: Plan) -> None:
    """Raise InternalError when the plan breaks an invariant; the message lists every fault."""
    faults = list(find_faults(plan))
    if faults:
        raise InternalError(f"plan '{plan.name}' is not well formed:\n  " + "\n  ".join(faults))


def find_faults(plan: Plan) -> Iterator[str]:
    """Every fault of a plan, as text."""
    yield from _Checker(plan).steps(plan.steps, "")


class _Checker:
    def __init__(self, plan: Plan) -> None:
        self.sample = plan.sample
        self.written: set[Buffer] = set()
        self.ranges: dict[Atom, tuple[int, int]] = {}  # loop variables at the extents at hand: first and last value

    def steps(self, steps: list[Step], path: str) -> Iterator[str]:
        for i, step in enumerate(steps):
            where = f"{path}{i}"
            name = f"step {where} ({type(step).__name__})"
            if isinstance(step, Nest):
                yield from (f"{name}: {fault}" for fault in self.nest(step))
            elif isinstance(step, Contract):
                yield from (f"{name}: {fault}" for fault in self.contract(step))
            elif isinstance(step, (LoadStep, StoreStep)) and step.view.shape:
                yield f"{name}: its view has axes"
            reads, writes = accesses(step)
            for view in reads:
                if view.buffer.kind != "arg" and view.buffer not in self.written:
                    yield f"{name}: {view!r} is read before it is written"
            for view in (*reads, *writes):
                yield from (f"{name}: {fault}" for fault in self.view(view))
            self.written.update(view.buffer for view in writes)
            if isinstance(step, ForStep):
                self._enter(step)
            if isinstance(step, (ForStep, WhileStep)):
                yield from self.steps(step.body, f"{where}.")
            elif isinstance(step, IfStep):
                before = set(self.written)
                yield from self.steps(step.then, f"{where}.then.")
                after, self.written = self.written, before
                yield from self.steps(step.orelse, f"{where}.else.")
                self.written |= after

    def _enter(self, step: ForStep) -> None:
        if step.var.expr is not None:
            start, stop, stride = (self._number(x) for x in (step.start, step.stop, step.step))
            if start is not None and stop is not None and stride:
                trips = range(start, stop, stride)
                if trips:
                    self.ranges[step.var.expr.terms[0][0][0]] = (trips[0], trips[-1])

    def nest(self, nest: Nest) -> Iterator[str]:
        n = len(nest.inputs)
        for i, item in enumerate(nest.inputs):
            if item.dtype not in NATIVE:
                yield f"input {i} has dtype {item.dtype}"
            if item.view is not None and item.view.shape != nest.axes:
                yield f"input {i} has axes {item.view.shape}, not {nest.axes}"
            if item.kind == "iota" and not 0 <= item.axis < len(nest.axes):
                yield f"input {i} counts along axis {item.axis}"
        for i, op in enumerate(nest.ops):
            slots = (*op.args, *(slot for slot, _, _ in op.indexes))
            if any(not 0 <= slot < n + i for slot in slots):
                yield f"operation {i} reads a later slot"
                continue
            if op.view is not None:
                if op.view.shape != nest.axes:
                    yield f"gather {i} has axes {op.view.shape}, not {nest.axes}"
                continue
            dtypes = [nest.slot_dtype(slot) for slot in op.args]
            if op.op == "cast":
                expected, result = [op.operand_dtype], op.dtype
            else:
                row = BY_NAME.get(op.op)
                if row is None or op.operand_dtype not in row.dtypes:
                    yield f"operation {i}: no {op.op} for {op.operand_dtype}"
                    continue
                expected = [op.operand_dtype] * row.arity
                if op.op == "select":
                    expected[0] = "bool"
                result = "bool" if row.predicate else op.operand_dtype
            if dtypes != expected or result != op.dtype:
                yield f"operation {i}: {op.op} of {dtypes} gives {op.dtype}"
        for i, out in enumerate(nest.outs):
            if not 0 <= out.slot < n + len(nest.ops):
                yield f"output {i} has no slot"
                continue
            if out.view.shape != nest.axes:
                yield f"output {i} has axes {out.view.shape}, not {nest.axes}"
                continue
            if out.reduce not in REDUCTIONS or (out.reduce == "store") != (out.reduced == 0):
                yield f"output {i}: {out.reduce} over mask {out.reduced}"
            if any(out.reduced >> axis & 1 and stride.value != 0 for axis, stride in enumerate(out.view.strides)):
                yield f"output {i} steps along a reduced axis"
            if out.reduce == "compress" and (out.mask < 0 or out.indexes or out.reduced != (1 << len(nest.axes)) - 1):
                yield f"output {i} compresses without a mask, or over some of the axes"
            if out.mask >= 0 and nest.slot_dtype(out.mask) != "bool":
                yield f"output {i} has a mask of {nest.slot_dtype(out.mask)}"

    @staticmethod
    def contract(step: Contract) -> Iterator[str]:
        shapes = (("a", step.a, (*step.batch, step.m, step.k)), ("b", step.b, (*step.batch, step.k, step.n)),
                  ("out", step.out, (*step.batch, step.m, step.n)))
        for name, view, shape in shapes:
            if view.shape != shape:
                yield f"{name} has axes {view.shape}, not {shape}"
            if view.dtype != step.dtype:
                yield f"{name} is {view.dtype} in a product of {step.dtype}"
        if step.bias is not None and (step.bias.shape != (step.n,) or step.bias.dtype != step.dtype):
            yield f"bias is {step.bias!r}"
        if step.residual is not None and (step.residual.shape != step.out.shape or step.residual.dtype != step.dtype):
            yield f"residual is {step.residual!r}"
        if step.out.buffer in (step.a.buffer, step.b.buffer, step.residual and step.residual.buffer):
            yield "the output may overlap an operand"

    def view(self, view: View) -> Iterator[str]:
        """Faults of a view against its buffer's size."""
        if len(view.shape) != len(view.strides):
            yield f"{view!r} has {len(view.strides)} strides"
            return
        size = view.buffer.size_bytes
        if size is None:
            return
        low = high = view.offset
        for extent, stride in zip(view.shape, view.strides, strict=True):
            reach = (extent - 1) * stride
            if stride.bounds()[0] >= 0:
                high = high + reach
            else:
                low = low + reach
        high = high + ITEM_BYTES[view.dtype]
        if is_less_equal(0, low) and is_less_equal(high, size):
            return
        for last in (False, True):
            numbers = [self._number(x, last) for x in (*view.shape, low, high, size)]
            if None in numbers or 0 in numbers[:len(view.shape)]:
                continue
            if numbers[-3] < 0 or numbers[-2] > numbers[-1]:  # type: ignore[operator]
                yield f"{view!r} reaches [{numbers[-3]}, {numbers[-2]}) of {numbers[-1]} bytes"
                return

    def _number(self, expr: Expr, last: bool = False) -> int | None:
        """Value at the extents at hand, in the first or last trip of the loops around; None when it is not known."""
        def look(atom: Atom) -> int:
            found = self.ranges.get(atom)
            return found[last] if found is not None else self.sample[str(atom.name)]
        try:
            return expr.evaluate(look)
        except (KeyError, TypeError):
            return None



