"""`lower_plan`: from a plan's steps to register code, the last thing that both back ends share.

Views become a base pointer, a byte offset register and stride registers; extents become registers; facts become guards
in `bind`. Temporaries are offsets into the arena (`memory.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import InternalError
from .code import (
    ARENA,
    Alloc,
    Break,
    Call,
    CallOperand,
    CallOutcome,
    CallSite,
    Cast,
    Code,
    Continue,
    ContractCode,
    Exit,
    For,
    If,
    In,
    Instr,
    LeafRegs,
    Load,
    Move,
    NestCode,
    NodeOp,
    Out,
    Output,
    Pack,
    Ref,
    Reg,
    ResultSpec,
    Scalar,
    Store,
    Trap,
    While,
)
from .extents import Atom, Expr, floordiv
from .memory import ALIGN_BYTES, Slots, assign_slots
from .registers import Registers
from .signature import Row
from .steps import (
    ITEM_BYTES,
    AllocStep,
    BreakStep,
    Buffer,
    CallArg,
    CallResult,
    CallStep,
    ContinueStep,
    Contract,
    ExitStep,
    ForStep,
    IfStep,
    Literal,
    LoadStep,
    Nest,
    Operand,
    Plan,
    Result,
    ScalarOpStep,
    ScalarReg,
    SetStep,
    Step,
    StoreStep,
    TrapStep,
    View,
    WhileStep,
    walk,
)


def lower_plan(plan: Plan) -> Code:
    """Register code of a plan. Raises InternalError on a plan that breaks the invariants of `steps`."""
    return _Lowering(plan).run()


class _Leaf:
    """Registers of one signature row while they are being found out."""

    __slots__ = ("extents", "ptr", "scalar", "strides")

    def __init__(self) -> None:
        self.ptr: Reg = -1
        self.extents: list[Reg] = []
        self.strides: list[Reg] = []
        self.scalar: Reg = -1


class _Lowering:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rows: tuple[Row, ...] = plan.signature.rows
        self.paths = {row.path: i for i, row in enumerate(self.rows)}
        self.regs = Registers(self._resolve)
        self.leaves: dict[int, _Leaf] = {}
        self.symbols: dict[str, Reg] = {}
        self.slots: Slots = assign_slots(plan)
        self.slot_offsets: list[Reg] = []
        self.outputs: list[Output] = []
        self.output_of: dict[Buffer, int] = {}
        self.shapes_of: dict[Buffer, tuple[Expr, ...]] = {}
        self.late: list[tuple[Operand, Reg]] = []  # result values that are known only when the body ends
        self.packs: dict[Pack, int] = {}
        self.calls: list[CallSite] = []
        self.places: dict[int, int] = {}
        self.trap_texts: dict[tuple[str, int, str], None] = {}
        self.refs: dict[tuple[Buffer, Expr, tuple[Expr, ...]], Ref] = {}

    def run(self) -> Code:
        """The whole lowering, in the order in which registers become known."""
        plan, regs = self.plan, self.regs
        for fact in plan.facts:
            regs.guard(fact.expr, fact.answer, fact.text)
        self._declare_outputs(plan.result)
        arena = self._lay_out_arena()
        result = self._result(plan.result)
        regs.open()
        self._steps(plan.steps)
        self._finish_results()
        body = regs.close()
        leaves = tuple(LeafRegs(row, leaf.ptr, tuple(leaf.extents), tuple(leaf.strides), leaf.scalar)
                       for row, leaf in sorted(self.leaves.items()))
        return Code(plan.name, regs.types, regs.consts, leaves, tuple(regs.entry.code), tuple(regs.guards), arena,
                    tuple(self.outputs), result, tuple(self.packs), body, self.symbols, tuple(self.calls),
                    tuple(self.trap_texts), self.places)

    # --- leaves -----------------------------------------------------------------------------------------------------

    def _leaf(self, index: int) -> _Leaf:
        leaf = self.leaves.get(index)
        if leaf is None:
            leaf = self.leaves[index] = _Leaf()
        return leaf

    def _resolve(self, atom: Atom) -> Reg:
        """Register of an entry symbol, named after a row: `x.shape[0]`, `x.strides[0]`, `x.data`, `n`."""
        name = str(atom.name)
        index = self.paths.get(name)
        if index is not None and self.rows[index].kind == "scalar":
            return self._scalar_leaf(index, "i64")
        if name.endswith(".data"):
            index = self.paths.get(name[:-5])
            if index is not None:
                reg = self.symbols[name] = self.regs.new("i64")
                self.regs.entry.code.append(Move(reg, self._pointer(index)))
                return reg
        elif name.endswith("]"):
            for what in (".shape[", ".strides["):
                path, found, axis = name.rpartition(what)
                if found and path in self.paths:
                    return self._array_leaf(self.paths[path], what, int(axis[:-1]))
        raise InternalError(f"plan '{self.plan.name}' uses the symbol {name!r}, which no row of its signature defines")

    def _array_leaf(self, index: int, what: str, axis: int) -> Reg:
        row, leaf = self.rows[index], self._leaf(index)
        found = leaf.extents if what == ".shape[" else leaf.strides
        if not found:  # all axes at once: the dispatcher reads the whole shape anyway
            for d in range(row.ndim):
                reg = self.regs.new("i64")
                found.append(reg)
                self.symbols[f"{row.path}{what}{d}]"] = reg
        return found[axis]

    def _scalar_leaf(self, index: int, dtype: str) -> Reg:
        leaf = self._leaf(index)
        if leaf.scalar < 0:
            leaf.scalar = self.regs.new(dtype)
            if dtype == "i64":
                self.symbols[self.rows[index].path] = leaf.scalar
        return leaf.scalar

    def _pointer(self, index: int) -> Reg:
        leaf = self._leaf(index)
        if leaf.ptr < 0:
            leaf.ptr = self.regs.new("ptr")
        return leaf.ptr

    # --- outputs and results ----------------------------------------------------------------------------------------

    def _declare_outputs(self, result: Result) -> None:
        """An output for each 'out' buffer: what call-outs make, then in the order of the result tree, then of the steps."""
        for step in walk(self.plan.steps):
            if isinstance(step, CallStep):
                for view in step.made():
                    self._declare_output(view.buffer, view.shape, is_made=True)
        pending = [result]
        while pending:
            item = pending.pop(0)
            pending[:0] = item.items
            if item.kind == "new" and item.view is not None and item.view.buffer not in self.output_of:
                self._declare_output(item.view.buffer, item.view.shape)
        pending = [result]
        while pending:
            item = pending.pop()
            pending.extend(item.items)
            if item.view is not None and item.view.buffer.kind == "out":
                self._declare_flat(item.view.buffer)
        for step in walk(self.plan.steps):
            for view in _written(step):
                if view.buffer.kind == "out":
                    self._declare_flat(view.buffer)

    def _declare_flat(self, buffer: Buffer) -> None:
        """An 'out' buffer that the caller sees through views alone: its base is a flat array."""
        if buffer not in self.output_of:
            assert buffer.size_bytes is not None
            self._declare_output(buffer, (floordiv(buffer.size_bytes, ITEM_BYTES[buffer.dtype]),))

    def _declare_output(self, buffer: Buffer, shape: tuple[Expr, ...], is_made: bool = False) -> None:
        regs = self.regs
        early = not is_made and all(extent.is_entry for extent in shape)
        shape_regs = tuple(regs.bound(extent) if extent.is_entry else regs.new("i64") for extent in shape)
        self.output_of[buffer] = len(self.outputs)
        self.shapes_of[buffer] = shape
        self.outputs.append(Output(buffer.dtype, shape_regs, regs.new("ptr"), early))

    def _result(self, result: Result) -> ResultSpec:
        kind, view = result.kind, result.view
        if kind in ("tuple", "list", "dict", "choice", "complex"):
            reg = -1 if result.operand is None else self._result_reg(result.operand)
            return ResultSpec(kind, items=tuple(self._result(item) for item in result.items), keys=result.keys, reg=reg,
                              dtype=result.dtype, python=result.python)
        if kind == "new":
            assert view is not None
            return ResultSpec(kind, output=self.output_of[view.buffer], dtype=view.dtype,
                              shape=self.outputs[self.output_of[view.buffer]].shape)
        if kind == "view":
            assert view is not None
            output = self.output_of.get(view.buffer, -1)
            return ResultSpec(kind, output=output, row=view.buffer.row if output < 0 else -1,
                              offset=self._result_reg(view.offset), dtype=view.dtype,
                              shape=tuple(self._result_reg(x) for x in view.shape),
                              strides=tuple(self._result_reg(x) for x in view.strides), is_read_only=view.is_read_only)
        if kind == "scalar":
            assert result.operand is not None
            return ResultSpec(kind, reg=self._result_reg(result.operand), dtype=result.dtype, python=result.python)
        return ResultSpec(kind, row=result.row, value=result.value, dtype=result.dtype, python=result.python)

    def _result_reg(self, operand: Operand) -> Reg:
        """A register that holds the value when the body has ended, whichever exit it takes."""
        if isinstance(operand, Literal):
            return self.regs.literal(operand)
        if isinstance(operand, Expr):
            if operand.is_entry:
                return self.regs.bound(operand)
            reg = self.regs.new("i64")
        elif operand.row >= 0:
            return self._operand(operand)
        else:
            reg = self.regs.new(operand.dtype)
        self.late.append((operand, reg))
        return reg

    def _finish_results(self) -> None:
        for operand, reg in self.late:
            if self.plan.result.kind != "choice" or self.regs.has_value(operand):  # else it is another exit's
                self.regs.move(reg, self._operand(operand))

    # --- memory -----------------------------------------------------------------------------------------------------

    def _lay_out_arena(self) -> Reg:
        """Offsets of the slots; returns the register of the arena's size."""
        regs = self.regs
        total = regs.int_const(0)
        align = regs.int_const(ALIGN_BYTES)
        for members in self.slots.sizes:
            self.slot_offsets.append(total)
            size = regs.bound(members[0])
            for other in members[1:]:
                size = regs.op("max", size, regs.bound(other), 0)
            lines = regs.op("floordiv", regs.op("add", size, regs.int_const(ALIGN_BYTES - 1), 0), align, 0)
            total = regs.op("add", total, regs.op("mul", lines, align, 0), 0)
        return total

    def _ref(self, view: View) -> Ref:
        key = (view.buffer, view.offset, view.strides)
        ref = self.refs.get(key)
        if ref is not None:
            return ref
        buffer, regs = view.buffer, self.regs
        offset = -1 if view.offset.value == 0 else regs.value(view.offset)
        if buffer.kind == "temp":
            start = self.slot_offsets[self.slots.slot_of[buffer]]
            offset = start if offset < 0 else regs.op("add", start, offset, regs.level_of(view.offset))
            if regs.consts.get(offset) == 0:
                offset = -1
            base = ARENA
        elif buffer.kind == "out":
            base = self.outputs[self.output_of[buffer]].ptr
        else:
            base = self._pointer(buffer.row)
        ref = Ref(base, offset, regs.values(view.strides))
        if view.offset.is_entry:
            for stride in view.strides:
                if not stride.is_entry:
                    return ref
            self.refs[key] = ref
        return ref

    # --- steps ------------------------------------------------------------------------------------------------------

    def _operand(self, operand: Operand) -> Reg:
        if isinstance(operand, ScalarReg) and operand.row >= 0:
            return self._scalar_leaf(operand.row, operand.dtype)
        return self.regs.operand(operand)

    def _region(self, steps: list[Step]) -> tuple[Instr, ...]:
        self.regs.open()
        self._steps(steps)
        return self.regs.close()

    def _steps(self, steps: list[Step]) -> None:
        for step in steps:
            _LOWER[type(step)](self, step)

    def _nest(self, nest: Nest) -> None:
        regs = self.regs
        inputs = []
        for item in nest.inputs:
            if item.view is not None:
                inputs.append(In("view", item.dtype, _memory(item.view), self._ref(item.view)))
            elif item.operand is not None:
                inputs.append(In("scalar", item.dtype, reg=self._operand(item.operand)))
            else:
                inputs.append(In("iota", item.dtype, axis=item.axis))
        ops = []
        for op in nest.ops:
            if op.view is None:
                ops.append(NodeOp(op.op, op.dtype, op.operand_dtype, op.args))
            else:
                ops.append(NodeOp(op.op, op.dtype, op.operand_dtype, op.args, _memory(op.view), self._ref(op.view),
                                  self._indexes(op.indexes), op.position))
        outs = [Out(out.slot, out.reduce, _memory(out.view), self._ref(out.view), out.reduced, out.mask,
                    self._indexes(out.indexes) if out.indexes else (), out.position) for out in nest.outs]
        made = NestCode(regs.values(nest.axes), tuple(inputs), tuple(ops), tuple(outs))
        self.places[id(made)] = nest.position
        regs.emit(made)

    def _indexes(self, indexes: tuple[tuple[int, Expr, Expr], ...]) -> tuple[tuple[int, Reg, Reg], ...]:
        value = self.regs.value
        return tuple((slot, value(extent), value(stride)) for slot, extent, stride in indexes)

    def _contract(self, step: Contract) -> None:
        value = self.regs.value
        a, b, out = self._ref(step.a), self._ref(step.b), self._ref(step.out)
        bias = self._ref(step.bias) if step.bias is not None else None
        residual = self._ref(step.residual) if step.residual is not None else None
        batch = tuple(value(extent) for extent in step.batch)
        made = ContractCode(step.dtype, batch, value(step.m), value(step.n), value(step.k), a, b, out, self._pack(step),
                            bias, step.act, residual, step.rounding)
        self.places[id(made)] = step.position
        self.regs.emit(made)

    def _pack(self, step: Contract) -> int:
        """Slot of the packed right operand: a constant argument whose shape is known, one matrix for all batches."""
        view = step.b
        if not view.buffer.constant or view.buffer.kind != "arg" or view.dtype != step.dtype:
            return -1
        if any(stride.value != 0 for stride in view.strides[:-2]):
            return -1
        numbers = [x.value for x in (step.k, step.n, view.offset, view.strides[-2], view.strides[-1])]
        if None in numbers or not numbers[0] or not numbers[1]:
            return -1
        pack = Pack(view.buffer.row, step.rounding or step.dtype, *numbers)  # type: ignore[arg-type]
        return self.packs.setdefault(pack, len(self.packs))

    def _call(self, step: CallStep) -> None:
        regs, reads, writes = self.regs, list[Reg](), list[Reg]()
        defined: set[ScalarReg] = set()  # by an earlier result: two results share an extent

        def operand(arg: CallArg) -> CallOperand:
            if arg.view is not None:
                ref = self._ref(arg.view)
                shape = tuple(regs.value(extent) for extent in arg.view.shape)
                reads.extend((ref.base, ref.offset, *ref.strides, *shape))
                return CallOperand(arg.kind, arg.view.dtype, ref, shape, arg.is_written)
            numbers = [-1 if item is None else self._operand(item) for item in (arg.operand, arg.imag)]
            reads.extend(numbers)
            native = regs.types[numbers[0]] if numbers[0] >= 0 else ""
            return CallOperand(arg.kind, arg.dtype, reg=numbers[0], imag=numbers[1], native=native, python=arg.python,
                               value=arg.value, items=tuple(map(operand, arg.items)))

        def outcome(result: CallResult) -> CallOutcome:
            if result.view is None:
                numbers = [-1 if reg is None else regs.define(reg) for reg in (result.dst, result.imag)]
                writes.extend(numbers)
                native = "" if result.dst is None else result.dst.dtype
                return CallOutcome(result.kind, result.dtype, reg=numbers[0], imag=numbers[1], native=native,
                                   python=result.python)
            shape, is_known = [], []
            for extent, reg in zip(result.view.shape, result.extents, strict=True):
                is_known.append(reg is None or reg in defined)
                shape.append(regs.value(extent) if reg is None else regs.define(reg))
                (reads if reg is None else writes).append(shape[-1])
                if reg is not None:
                    defined.add(reg)
            output = self.output_of[result.view.buffer]
            writes.append(self.outputs[output].ptr)
            return CallOutcome(result.kind, result.dtype, output, tuple(shape), tuple(is_known))

        args = tuple(map(operand, step.args))
        known = {id(result): outcome(result) for result in step.results if not result.registers()}
        results = tuple([known.get(id(result)) or outcome(result) for result in step.results])
        regs.emit(Call(len(self.calls), tuple(sorted({reg for reg in reads if reg > 0})),
                       tuple(sorted({reg for reg in writes if reg >= 0}))))
        for view in step.made():
            output = self.outputs[self.output_of[view.buffer]]
            for extent, reg in zip(self.shapes_of[view.buffer], output.shape, strict=True):
                if not extent.is_entry:
                    regs.move(reg, regs.value(extent))
        self.calls.append(CallSite(step.kernel, args, results, step.is_tuple, step.position))

    def _scalar_op(self, step: ScalarOpStep) -> None:
        args = tuple([self._operand(arg) for arg in step.args])
        dst = self.regs.define(step.dst)
        if step.op == "cast":
            self.regs.emit(Cast(dst, step.dst.dtype, args[0], step.operand_dtype))
        else:
            self.regs.emit(Scalar(step.op, step.operand_dtype, dst, args))

    def _load(self, step: LoadStep) -> None:
        ref = self._ref(step.view)
        self.regs.emit(Load(self.regs.define(step.dst), step.dst.dtype, _memory(step.view), ref.base, ref.offset))

    def _store(self, step: StoreStep) -> None:
        ref = self._ref(step.view)
        dtype = "i64" if isinstance(step.value, Expr) else step.value.dtype
        self.regs.emit(Store(self._operand(step.value), dtype, _memory(step.view), ref.base, ref.offset))

    def _set(self, step: SetStep) -> None:
        src = self._operand(step.value)
        self.regs.move(self.regs.define(step.dst), src)

    def _trap(self, step: TrapStep) -> None:
        cond = -1 if step.cond is None else self._operand(step.cond)
        if step.text:
            self.trap_texts.setdefault((step.code, step.position, step.text))
        self.regs.emit(Trap(step.code, cond, step.position))

    def _alloc(self, step: AllocStep) -> None:
        if step.buffer not in self.output_of:
            return  # nobody writes it any more
        index = self.output_of[step.buffer]
        output = self.outputs[index]
        for extent, reg in zip(self.shapes_of[step.buffer], output.shape, strict=True):
            if not extent.is_entry:
                self.regs.move(reg, self.regs.value(extent))
        if not output.early:
            self.regs.emit(Alloc(index))

    def _for(self, step: ForStep) -> None:
        regs = self.regs
        start, stop, stride = regs.value(step.start), regs.value(step.stop), regs.value(step.step)
        self._enter_loop(step.body)
        regs.open()
        var = regs.define_loop_variable(step.var)
        self._steps(step.body)
        body = regs.close()
        regs.emit(For(var, start, stop, stride, body))

    def _while(self, step: WhileStep) -> None:
        self._enter_loop(step.body)
        body = self._region(step.body)
        self.regs.emit(While(body))

    def _enter_loop(self, body: list[Step]) -> None:
        """What was computed before the loop from a scalar that the loop changes does not hold inside."""
        for step in walk(body):
            changed = ([step.dst] if isinstance(step, (ScalarOpStep, LoadStep, SetStep)) else
                       [reg for result in step.results for reg in result.registers()] if isinstance(step, CallStep) else [])
            for reg in changed:
                if reg.expr is not None:
                    self.regs.forget(reg)

    def _if(self, step: IfStep) -> None:
        cond = self._operand(step.cond)
        then = self._region(step.then)
        orelse = self._region(step.orelse)
        self.regs.emit(If(cond, then, orelse))

    def _break(self, step: BreakStep) -> None:
        self.regs.emit(Break())

    def _continue(self, step: ContinueStep) -> None:
        self.regs.emit(Continue())

    def _exit(self, step: ExitStep) -> None:
        self._finish_results()
        self.regs.emit(Exit())


def _memory(view: View) -> str:
    """Memory dtype of a view's elements for nests and registers: of uint64 the bits."""
    return "i64" if view.dtype == "u64" else view.dtype


def _written(step: Step) -> list[View]:
    if isinstance(step, Nest):
        return [out.view for out in step.outs]
    if isinstance(step, Contract):
        return [step.out]
    if isinstance(step, StoreStep):
        return [step.view]
    return step.views(written=True) if isinstance(step, CallStep) else []


_LOWER: dict[type, Callable[[Any, Any], None]] = {
    Nest: _Lowering._nest, Contract: _Lowering._contract, CallStep: _Lowering._call,
    ScalarOpStep: _Lowering._scalar_op, LoadStep: _Lowering._load,
    StoreStep: _Lowering._store, SetStep: _Lowering._set, TrapStep: _Lowering._trap, AllocStep: _Lowering._alloc,
    ForStep: _Lowering._for, WhileStep: _Lowering._while, IfStep: _Lowering._if, BreakStep: _Lowering._break,
    ContinueStep: _Lowering._continue, ExitStep: _Lowering._exit,
}
