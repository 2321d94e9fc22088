"""Control flow while typing: decided tests pick a side, containers unroll, the rest becomes regions.

A loop that runs at run time keeps what it carries from trip to trip in cells: scalar registers, and arena arrays for
rebound names. A cell's type is found by trying: the body is typed, and typed again when a carried type changed
(the first trip is then peeled off).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..lang.bytecode import UNBOUND, Program
from ..lang.opcodes import Op
from .body import set_all
from .extents import Expr, compare, const
from .liveness import bits, live_registers
from .planner_errors import PlanRefused
from .rewrite import substitute_plan
from .steps import (
    BreakStep,
    ContinueStep,
    ExitStep,
    ForStep,
    IfStep,
    Literal,
    Operand,
    Result,
    ScalarReg,
    Step,
    WhileStep,
)
from .values import Arr, Lazy, Map, Num, Range, Seq, Static, Value, python_int

if TYPE_CHECKING:
    from .facts import Facts

_UNROLL_TRIPS = 4  # loops of constant, few trips are unrolled: their slices become constant
_STATIC_TRIPS = 512  # a loop over containers unrolls at most this often
_CELL_LIMIT = 2**31  # a Python int that control flow assigns stays inside, or the interpreter takes over


class NeedRuntimeLoop(Exception):
    """A loop that was being unrolled has an exit that is decided only at run time."""


class NeedUnroll(Exception):
    """A loop body indexes a container with its variable: the loop must unroll."""


@dataclass
class Retry(Exception):
    """A carried register changed in a way that its cell does not allow."""

    reg: int
    why: str  # 'array' (needs an array cell) | 'type'


@dataclass
class Loop:
    """The innermost loops being typed. static: unrolling; else carried registers and their cells."""

    static: bool
    exit: int
    carried: tuple[int, ...] = ()
    cells: dict[int, Value] = field(default_factory=dict)
    array_cells: set[int] = field(default_factory=set)
    runtime_ifs: int = 0
    late: bool = True  # cells may be made when they are first written
    runs: bool = False  # at least one trip is certain
    kept: set[int] = field(default_factory=set)  # carried arrays that some trip leaves as they were, or shares


@dataclass
class ReturnSite:
    """A RETURN that was reached: its value and where its result must be written."""

    value: Value
    steps: list[Step]
    index: int
    conditional: bool


class Control:
    """The executor of structured code; `Typer` adds the rules."""

    facts: Facts
    reader: Any
    written: dict
    read_only: set
    subscript: Callable[[Value, Value], Value]
    children: Callable[[Value], list[Value]]
    is_sequence: Callable[[Value], bool]
    get: Callable[[int], Value]
    int_expr: Callable[[Value], Expr]
    step_instruction: Callable[[Any], None]
    scalar_body: Callable[[], Any]
    scalar_slot: Callable[[Any, Value], Any]
    load: Callable[[Arr], Num]
    new_temp: Callable[..., Arr]
    copy: Callable[[Arr], Arr]
    write_view: Callable[..., None]
    trap: Callable[[str, Any], None]

    def __init__(self, program: Program) -> None:
        self.program = program
        self.code = program.code
        self.regs: list[Value | None] = [None] * program.n_regs
        self.steps: list[Step] = []
        self.pc = 0
        self.loops: list[Loop] = []
        self.depth = 0  # enclosing run-time regions
        self.returns: list[ReturnSite] = []
        self.live, self.writes = live_registers(program)

    # --- blocks -------------------------------------------------------------------------------------------------------

    def run_block(self, pc: int, end: int) -> str:
        """Execute [pc, end): 'fall', 'dead' (control left), or 'break' / 'continue' of an unrolling loop."""
        code = self.code
        while pc < end:
            ins = code[pc]
            self.pc = pc
            op = ins.op
            if op > Op.RETURN:
                self.step_instruction(ins)
                pc += 1
                continue
            if op in (Op.IF_TRUE, Op.IF_TENSOR_GT):
                signal, pc = self._if(pc)
            elif op in (Op.LOOP_RANGE, Op.LOOP_EACH, Op.LOOP_WHILE):
                signal, pc = self._loop(pc)
            elif op in (Op.LOOP_TEST, Op.LOOP_UNTIL_TENSOR_EQ):
                signal = self._test(ins)
                pc += 1
            elif op == Op.BREAK:
                return self._leave("break")
            elif op == Op.CONTINUE:
                return self._leave("continue")
            elif op == Op.RETURN:
                return self._return(self.get(ins.args[0]))
            else:
                raise PlanRefused("unexpected control flow", kind="control")
            if signal != "fall":
                return signal
        return "fall"

    def truth(self, value: Value) -> bool | Operand:
        """Python truth: decided, or an operand to branch on."""
        if isinstance(value, Num):
            operand = value.operand
            if isinstance(operand, Literal):
                return bool(operand.value)
            if isinstance(operand, Expr):
                operand = self.facts.norm(operand)
                if operand.value is not None:
                    return bool(operand.value)
                lo, hi = operand.bounds()
                if lo > 0 or hi < 0:
                    return True
                if operand.is_entry:
                    return self.facts.ask(operand)
                return operand
            if value.native == "bool":
                return operand
            body = self.scalar_body()
            return body.op("ne", value.native, operand, body.const(0, value.native))  # type: ignore[no-any-return]
        if isinstance(value, Static):
            return bool(value.value)
        if isinstance(value, Arr):
            if all(self.facts.ask_equal(e, 1) for e in value.shape):
                return self.truth(self.load(value))
            raise PlanRefused("the truth of an array with several elements", kind="array-truth")
        if isinstance(value, Lazy) and value.kind == "object":
            return True
        return len(self.children(value)) > 0

    def compare_gt(self, a: Value, b: Value) -> bool | Operand:
        """Truth of a > b."""
        from .typed import RULES
        return self.truth(RULES["compare"](self, ">", a, b))

    # --- if -----------------------------------------------------------------------------------------------------------

    def _if(self, pc: int) -> tuple[str, int]:
        ins = self.code[pc]
        other = ins.args[-1]
        last = self.code[other - 1]
        if last.op == Op.JUMP and other - 1 > pc:
            then, orelse, join = (pc + 1, other - 1), (other, last.args[0]), last.args[0]
        else:
            then, orelse, join = (pc + 1, other), (other, other), other
        if ins.op == Op.IF_TENSOR_GT:
            cond = self.compare_gt(self.get(ins.args[0]), self.get(ins.args[1]))
        else:
            cond = self.truth(self.get(ins.args[0]))
        if isinstance(cond, bool):
            return self.run_block(*(then if cond else orelse)), join
        return self._runtime_if(cond, then, orelse, join), join

    def _runtime_if(self, cond: Operand, then: tuple[int, int], orelse: tuple[int, int], join: int) -> str:
        before, outer = list(self.regs), self.steps
        if self.loops:
            self.loops[-1].runtime_ifs += 1
        self.depth += 1
        sides = []
        for span in (then, orelse):
            self.regs, self.steps = list(before), []
            signal = self.run_block(*span)
            if signal not in ("fall", "dead"):
                raise NeedRuntimeLoop
            sides.append((signal, self.regs, self.steps))
        self.depth -= 1
        if self.loops:
            self.loops[-1].runtime_ifs -= 1
        self.steps = outer
        (sig_a, regs_a, steps_a), (sig_b, regs_b, steps_b) = sides
        if sig_a == "dead" and sig_b == "dead":
            self.steps.append(IfStep(cond, steps_a, steps_b))
            return "dead"
        if sig_a == "dead" or sig_b == "dead":
            self.regs = regs_b if sig_a == "dead" else regs_a
            self.steps.append(IfStep(cond, steps_a, steps_b))
            return "fall"
        merged = list(before)
        for reg in range(len(merged)):
            a, b = regs_a[reg], regs_b[reg]
            if a is b:
                merged[reg] = a
            elif self.live[join] >> reg & 1:
                merged[reg] = self._merge(reg, a, b, steps_a, steps_b)
            else:
                merged[reg] = None
        self.regs = merged
        self.steps.append(IfStep(cond, steps_a, steps_b))
        return "fall"

    def _merge(self, reg: int, a: Value | None, b: Value | None, steps_a: list[Step], steps_b: list[Step]) -> Value | None:
        """One value for a register that two branches left differently."""
        unbound = [v is None or (isinstance(v, Static) and v.value is UNBOUND) for v in (a, b)]
        if any(unbound):
            return None  # reading it is left to the interpreter
        assert a is not None and b is not None
        if _same(a, b):
            return a
        if isinstance(a, Num) and isinstance(b, Num):
            cell = self._scalar_cell(a, f"r{reg}", b)
            for value, steps in ((a, steps_a), (b, steps_b)):
                steps_before, self.steps = self.steps, steps
                self._guard_cell(cell, value)
                set_all(steps, [(_cell_reg(cell), self._operand_as(value, cell))])
                self.steps = steps_before
            return cell
        if isinstance(a, Arr) and isinstance(b, Arr):
            if a.dtype != b.dtype or a.ndim != b.ndim or not self._same_shape(a, b):
                raise PlanRefused("a value test chooses between arrays of different shape or dtype", kind="merge")
            cell_array = self.new_temp(a.shape, a.dtype)
            for value, steps in ((a, steps_a), (b, steps_b)):
                steps_before, self.steps = self.steps, steps
                self._copy_into(cell_array, value)
                self.steps = steps_before
            return cell_array
        if isinstance(a, Seq) and isinstance(b, Seq) and a.kind == b.kind and len(a.items) == len(b.items):
            items = [self._merge(reg, x, y, steps_a, steps_b) for x, y in zip(a.items, b.items, strict=True)]
            return Seq(items, a.kind)  # type: ignore[arg-type]
        raise PlanRefused("a value test chooses between values of different kinds", kind="merge")

    def _same_shape(self, a: Arr, b: Arr) -> bool:
        """Equal extents, asked where they are known at entry."""
        return all(self.facts.can_equal(x, y) for x, y in zip(a.shape, b.shape, strict=True))

    def _copy_into(self, cell: Arr, value: Arr) -> None:
        """Copy a value into a cell; from then on the copy stands for it, so neither may be written in place."""
        if value.view.buffer.kind == "arg" or value.row >= 0:
            self.read_only.add(cell.view.buffer)
        self.read_only.add(value.view.buffer)
        if value.view.buffer.kind == "arg" and value.view.buffer.row in self.written:
            raise PlanRefused("a written argument is also chosen by a value test or a loop", kind="alias")
        allowed = cell.view.buffer in self.read_only
        self.read_only.discard(cell.view.buffer)
        self.write_view(cell, value)
        if allowed:
            self.read_only.add(cell.view.buffer)

    def _scalar_cell(self, value: Num, name: str, other: Num | None = None) -> Num:
        """A register that holds values like `value` (and `other`)."""
        if other is not None and (value.python != other.python or value.dtype != other.dtype):
            raise PlanRefused("a scalar has different types on two paths", kind="merge")
        reg = ScalarReg(value.native, name)
        if reg.dtype == "i64":
            lo, hi = (-_CELL_LIMIT, _CELL_LIMIT) if value.python == "int" else (None, None)
            bounds = [v.operand.bounds() for v in (value, other) if v is not None and isinstance(v.operand, Expr)]
            if other is not None and len(bounds) == 2 and lo is not None and hi is not None:
                lo = int(max(lo, min(b[0] for b in bounds)))
                hi = int(min(hi, max(b[1] for b in bounds)))
            reg.expr = self.facts.new_register(name, lo, hi)
        return Num(reg.expr if reg.expr is not None else reg, value.dtype, value.python, cell=reg)

    def _guard_cell(self, cell: Num, value: Num) -> None:
        """A Python int in a cell must not pass 64 bits unseen: outside the cell's bounds the interpreter takes over."""
        if value.python == "int" and isinstance(value.operand, Expr) and isinstance(cell.operand, Expr):
            lo, hi = cell.operand.bounds()
            if self.facts.lower_bound(value.operand - int(lo)) < 0 or self.facts.lower_bound(
                    const(int(hi)) - value.operand) < 0:
                self.facts.check_int(value.operand)
                outside = compare("lt", value.operand, int(lo)) + compare("lt", int(hi), value.operand)
                self.trap("INTERPRET", outside)

    def _operand_as(self, value: Num, cell: Num) -> Operand:
        body = self.scalar_body()
        return body.cast(self.scalar_slot(body, value), cell.native)  # type: ignore[no-any-return]

    # --- loops --------------------------------------------------------------------------------------------------------

    def _loop(self, pc: int) -> tuple[str, int]:
        exit_pc = self.code[pc].args[-1]
        saved = self._save()
        first: Callable[[int], str]
        second: Callable[[int], str]
        if self._prefers_unrolling(pc):
            first, second = self._static_loop, self._runtime_loop
        else:
            first, second = self._runtime_loop, self._static_loop
        try:
            return first(pc), exit_pc
        except (NeedRuntimeLoop, NeedUnroll):
            self._restore(saved)
            self.pc = pc
        try:
            return second(pc), exit_pc
        except (NeedRuntimeLoop, NeedUnroll):
            raise PlanRefused("a loop that can neither be unrolled nor run as a loop", kind="loop") from None

    def _save(self) -> tuple:
        return (list(self.regs), self.steps, len(self.steps), len(self.loops), self.depth, len(self.returns),
                dict(self.written), set(self.read_only), [(s, list(s.items)) for s in self._lists()])

    def _lists(self) -> list[Seq]:
        return [v for v in self.regs if isinstance(v, Seq) and v.kind == "list"]

    def _restore(self, saved: tuple) -> None:
        regs, steps, n, loops, depth, returns, written, read_only, lists = saved
        self.regs, self.steps, self.depth = list(regs), steps, depth
        del self.steps[n:], self.loops[loops:], self.returns[returns:]
        self.written.clear()
        self.written.update(written)
        self.read_only.clear()
        self.read_only.update(read_only)
        for seq, items in lists:
            seq.items[:] = items

    def _prefers_unrolling(self, pc: int) -> bool:
        ins = self.code[pc]
        if ins.op == Op.LOOP_EACH:
            return self.is_sequence(self.get(ins.args[1])) and not isinstance(self.get(ins.args[1]), Range)
        if ins.op == Op.LOOP_RANGE:
            start, stop, step = (self.facts.norm(self.int_expr(self.get(r))).value for r in ins.args[1:4])
            if start is None or stop is None or step is None or step == 0:
                return False
            return len(range(start, stop, step)) <= _UNROLL_TRIPS
        return True  # `while`: decided tests first

    def _static_loop(self, pc: int) -> str:
        """Unroll: every trip is typed by itself."""
        ins = self.code[pc]
        exit_pc = ins.args[-1]
        loop = Loop(True, exit_pc)
        self.loops.append(loop)
        depth = len(self.loops)
        trips: Any
        if ins.op == Op.LOOP_RANGE:
            start, stop, step = (self.facts.value_of(self.int_expr(self.get(r))) for r in ins.args[1:4])
            if step == 0:
                raise PlanRefused("range() with step 0", kind="value-error")
            trips = [python_int(const(i)) for i in range(start, stop, step)]
        elif ins.op == Op.LOOP_EACH:
            seq = self.get(ins.args[1])
            if isinstance(seq, Arr):
                count = self.facts.value_of(seq.shape[0])
                trips = (self.subscript(seq, python_int(const(i))) for i in range(min(count, _STATIC_TRIPS + 1)))
            else:
                trips = self.children(seq)
        else:
            trips = range(_STATIC_TRIPS + 1)
        signal = "fall"
        asked = len(self.facts.asked)
        for count, value in enumerate(trips):
            if ins.op == Op.LOOP_WHILE and count >= _UNROLL_TRIPS and len(self.facts.asked) > asked:
                raise NeedRuntimeLoop  # each trip would become a fact about the arguments
            if count >= _STATIC_TRIPS:
                raise NeedRuntimeLoop if ins.op == Op.LOOP_WHILE else PlanRefused("a loop unrolls too far", kind="loop")
            if ins.op != Op.LOOP_WHILE:
                self.regs[ins.args[0]] = value
            if len(self.steps) > 20_000:
                raise PlanRefused("a program that unrolls too far", kind="loop")
            signal = self.run_block(pc + 1, exit_pc - 1)
            if signal in ("break", "dead"):
                break
            signal = "fall"
        del self.loops[depth - 1:]
        return "dead" if signal == "dead" else "fall"

    def _runtime_loop(self, pc: int) -> str:
        ins = self.code[pc]
        if ins.op == Op.LOOP_WHILE:
            return self._try_types(pc, lambda peel: self._while(pc, peel))
        if ins.op == Op.LOOP_EACH:
            seq = self.get(ins.args[1])
            if isinstance(seq, Range):
                start, stop, step = seq.start, seq.stop, seq.step
                seq = None  # type: ignore[assignment]
            elif isinstance(seq, Arr) and seq.ndim:
                start, stop, step = const(0), seq.shape[0], const(1)
            else:
                raise NeedUnroll
        else:
            seq = None  # type: ignore[assignment]
            start, stop, step = (self.facts.norm(self.int_expr(self.get(r))) for r in ins.args[1:4])
        if not step.is_entry:
            raise PlanRefused("a range whose step changes while the program runs", kind="loop")
        if self.facts.ask_equal(step, 0):
            raise PlanRefused("range() with step 0", kind="value-error")
        up = self.facts.ask_less_equal(0, step)
        empty = self.facts.is_less_equal(stop, start) if up else self.facts.is_less_equal(start, stop)
        if empty is None and start.is_entry and stop.is_entry:
            empty = not self.facts.ask(compare("lt", start, stop) if up else compare("lt", stop, start))
        if empty:
            return "fall"
        return self._try_types(pc, lambda peel: self._for(pc, seq, start, stop, step, up, empty is False, peel))

    def _try_types(self, pc: int, attempt: Callable[[Loop], str]) -> str:
        """Type the loop until its cells fit what the body leaves in them."""
        exit_pc = self.code[pc].args[-1]
        assigned = 0
        for i in range(pc, exit_pc):
            assigned |= self.writes[i]
        ins = self.code[pc]
        own = 0 if ins.op == Op.LOOP_WHILE else 1 << ins.args[0]  # the head writes the loop variable in each trip
        carried = tuple(bits(assigned & (self.live[pc + 1] & ~own | self.live[exit_pc])))
        array_cells: set[int] = set()
        peel = False
        for _ in range(2 + len(carried)):
            saved = self._save()
            loop = Loop(False, exit_pc, carried, array_cells=array_cells)
            loop.runtime_ifs = 0
            try:
                return attempt(loop) if not peel else self._peeled(pc, attempt, loop)
            except Retry as retry:
                self._restore(saved)
                if retry.why == "array" and retry.reg not in array_cells:
                    array_cells.add(retry.reg)
                elif retry.why == "type" and not peel:
                    peel = True
                else:
                    raise PlanRefused("a value changes its type in a loop", kind="loop-type") from None
        raise PlanRefused("the types of a loop do not settle", kind="loop-type")

    def _peeled(self, pc: int, attempt: Callable[[Loop], str], loop: Loop) -> str:
        self._peel_first = True
        try:
            return attempt(loop)
        finally:
            self._peel_first = False

    _peel_first = False

    def _for(self, pc: int, seq: Arr | None, start: Expr, stop: Expr, step: Expr, up: bool, runs: bool, loop: Loop) -> str:
        ins = self.code[pc]
        var_reg, body, end = ins.args[0], pc + 1, ins.args[-1] - 1
        if self._peel_first:
            self._peel_first = False
            if not runs:
                raise PlanRefused("a value changes its type in a loop that may not run", kind="loop-type")
            self.loops.append(Loop(True, loop.exit))
            self.regs[var_reg] = python_int(start) if seq is None else self.subscript(seq, python_int(start))
            if self.run_block(body, end) not in ("fall", "continue"):
                raise PlanRefused("the first trip leaves a loop whose types change", kind="loop-type")
            self.loops.pop()
            start = start + step
            runs = False
            if (self.facts.is_less_equal(stop, start) if up else self.facts.is_less_equal(start, stop)):
                return "fall"
        loop.late = loop.runs = runs
        pre = self._enter(loop)
        var = ScalarReg("i64", f"i{pc}")
        one = step.value in (1, -1)
        last = stop - step if one else (stop - 1 if up else stop + 1)
        var.expr = self.facts.new_register(f"i{pc}", start if up else last, last if up else start)
        index = python_int(var.expr)
        outer, self.steps = self.steps, []
        self.loops.append(loop)
        self.depth += 1
        self.regs[var_reg] = index if seq is None else self.subscript(seq, index)
        self._finish_trip(loop, self.run_block(body, end))
        inner, self.steps = self.steps, outer
        self.steps.extend(pre)
        self.steps.append(ForStep(var, start, stop, step, inner))
        return self._after(loop)

    def _while(self, pc: int, loop: Loop) -> str:
        if self._peel_first:
            raise PlanRefused("a value changes its type in a while loop", kind="loop-type")
        end = self.code[pc].args[-1] - 1
        pre = self._enter(loop)
        outer, self.steps = self.steps, []
        self.loops.append(loop)
        self.depth += 1
        self._finish_trip(loop, self.run_block(pc + 1, end))
        inner, self.steps = self.steps, outer
        self.steps.extend(pre)
        self.steps.append(WhileStep(inner))
        return self._after(loop)

    def _finish_trip(self, loop: Loop, signal: str) -> None:
        if signal == "fall":
            self._write_back(loop)
        elif signal != "dead":
            raise PlanRefused("unexpected control flow", kind="control")

    def _after(self, loop: Loop) -> str:
        self.depth -= 1
        self.loops.pop()
        for reg in loop.carried:
            cell = loop.cells.get(reg)
            self.regs[reg] = cell if cell is not None else None
            if reg in loop.array_cells and isinstance(cell, Arr) and loop.runs and reg not in loop.kept:
                self.read_only.discard(cell.view.buffer)  # every way out of the loop left a fresh array in it
        return "fall"

    def _enter(self, loop: Loop) -> list[Step]:
        """Make cells from the values at entry; the steps that fill them."""
        outer, self.steps = self.steps, []
        pairs: list[tuple[ScalarReg, Operand]] = []
        body_live = self.live[self.pc + 1] if self.pc + 1 < len(self.live) else 0
        for reg in loop.carried:
            value = self.regs[reg]
            if value is None or (isinstance(value, Static) and value.value is UNBOUND):
                continue
            if not body_live >> reg & 1 and loop.late:
                continue  # written before it is read in every trip, and there is one
            if isinstance(value, Num):
                cell = self._scalar_cell(value, f"r{reg}")
                self._guard_cell(cell, value)
                pairs.append((_cell_reg(cell), self._operand_as(value, cell)))
                self.regs[reg] = loop.cells[reg] = cell
            elif isinstance(value, Arr) and reg in loop.array_cells:
                array = self.new_temp(value.shape, value.dtype)
                self._copy_into(array, value)
                self.regs[reg] = loop.cells[reg] = array
            else:
                loop.cells[reg] = value
        set_all(self.steps, pairs)
        pre, self.steps = self.steps, outer
        return pre

    def _write_back(self, loop: Loop) -> None:
        """At the end of a trip, and wherever the loop is left: carried values go into their cells."""
        pairs: list[tuple[ScalarReg, Operand]] = []
        copies: list[tuple[Arr, Arr]] = []
        for reg in loop.carried:
            value = self.regs[reg]
            if value is None or (isinstance(value, Static) and value.value is UNBOUND):
                continue
            cell = loop.cells.get(reg)
            if cell is None:
                if not loop.late:
                    continue  # a name first assigned in a loop that may not run: reading it later is refused
                if isinstance(value, Num):
                    cell = loop.cells[reg] = self._scalar_cell(value, f"r{reg}")
                else:
                    loop.cells[reg] = value
                    continue
            if _same(cell, value):
                loop.kept.add(reg)
                continue
            if isinstance(cell, Num) and isinstance(value, Num):
                if cell.python != value.python or cell.dtype != value.dtype:
                    raise Retry(reg, "type")
                self._guard_cell(cell, value)
                pairs.append((_cell_reg(cell), self._operand_as(value, cell)))
            elif isinstance(cell, Arr) and isinstance(value, Arr):
                if reg not in loop.array_cells:
                    raise Retry(reg, "array")
                if cell.dtype != value.dtype or cell.ndim != value.ndim:
                    raise Retry(reg, "type")
                if not self._same_shape(cell, value):
                    raise PlanRefused("an array changes its shape from trip to trip", kind="loop-shape")
                if value.view.buffer.kind != "temp" or any(v.view.buffer is value.view.buffer for _, v in copies):
                    loop.kept.add(reg)
                copies.append((cell, value))
            else:
                raise Retry(reg, "type")
        set_all(self.steps, pairs)
        if len(copies) > 1:
            buffers = {cell.view.buffer for cell, _ in copies}
            copies = [(cell, self.copy(v) if v.view.buffer in buffers else v) for cell, v in copies]
        for cell_array, value_array in copies:
            self._copy_into(cell_array, value_array)

    def _test(self, ins: Any) -> str:
        """LOOP_TEST and LOOP_UNTIL_TENSOR_EQ: leave the innermost loop."""
        if ins.op == Op.LOOP_TEST:
            stays = self.truth(self.get(ins.args[0]))
        else:
            from .typed import RULES
            stays = self.truth(RULES["compare"](self, "!=", self.get(ins.args[0]), self.get(ins.args[1])))
        loop = self.loops[-1]
        if isinstance(stays, bool):
            return "fall" if stays else self._leave("break")
        if loop.static:
            raise NeedRuntimeLoop
        outer, self.steps = self.steps, []
        saved = list(self.regs)
        self._write_back(loop)
        self.steps.append(BreakStep())
        leave, self.steps = self.steps, outer
        self.regs = saved
        self.steps.append(IfStep(stays, [], leave))
        return "fall"

    def _leave(self, how: str) -> str:
        """BREAK or CONTINUE."""
        loop = self.loops[-1]
        if loop.static:
            if loop.runtime_ifs:
                raise NeedRuntimeLoop
            return how
        self._write_back(loop)
        self.steps.append(BreakStep() if how == "break" else ContinueStep())
        return "dead"

    # --- returns ------------------------------------------------------------------------------------------------------

    def _return(self, value: Value) -> str:
        if self.depth and any(loop.static for loop in self.loops):
            pass  # an unrolled loop inside a region: the ExitStep ends it all the same
        self.returns.append(ReturnSite(value, self.steps, len(self.steps), self.depth > 0))
        if self.depth:
            self.steps.append(ExitStep())
        return "dead"

    def finish_returns(self) -> Result:
        """The result tree; several returns write the same results."""
        from .results import build_result
        return build_result(self)

    def apply_equalities(self, result: Result) -> None:
        """Write every extent in its simplest known form, so that equal extents are the same expression."""
        if self.facts.equal:
            substitute_plan(self.steps, result, self.facts.norm)


def _cell_reg(cell: Value) -> ScalarReg:
    assert isinstance(cell, Num) and cell.cell is not None
    return cell.cell


def _same(a: Value, b: Value) -> bool:
    """Whether two values are the same object or constant."""
    if a is b:
        return True
    if isinstance(a, Num) and isinstance(b, Num):
        if a.python != b.python or a.dtype != b.dtype:
            return False
        if isinstance(a.operand, Literal) and isinstance(b.operand, Literal):
            return repr(a.operand.value) == repr(b.operand.value)
        return a.operand is b.operand
    if isinstance(a, Arr) and isinstance(b, Arr):
        return a.view.is_same(b.view)
    if isinstance(a, Static) and isinstance(b, Static):
        return a.value is b.value or (type(a.value) is type(b.value) and a.value == b.value)
    if isinstance(a, Lazy) and isinstance(b, Lazy):
        return a.row == b.row
    if isinstance(a, Seq) and isinstance(b, Seq):
        return (a.kind == b.kind == "tuple" and len(a.items) == len(b.items)
                and all(_same(x, y) for x, y in zip(a.items, b.items, strict=True)))
    return False


__all__ = ["Control", "Loop", "Map", "NeedRuntimeLoop", "NeedUnroll", "ReturnSite"]
