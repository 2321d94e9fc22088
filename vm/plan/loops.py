"""Loops while typing: containers unroll, the rest runs at run time and keeps what it carries in cells.

A cell's type is found by trying: the body is typed, and typed again when a carried type changed (the first trip is
then peeled off). The cells themselves: `loop_cells.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...templates.records import replace
from ..lang.opcodes import Op
from .cells import is_same, join_types
from .complex_values import real_part
from .extents import Expr, compare, const, mod
from .liveness import bits
from .loop_cells import LoopCells
from .planner_errors import PlanRefused
from .steps import BreakStep, ContinueStep, ForStep, IfStep, ScalarReg, WhileStep, walk
from .typer_state import Loop, NeedRuntimeLoop, NeedUnroll, Retry
from .values import Arr, Cplx, Num, Range, Seq, Value, Zipped, python_int

_UNROLL_TRIPS = 4  # loops of constant, few trips are unrolled: their slices become constant
_LONGEST_TURN = 4
_STATIC_TRIPS = 512  # a loop over containers unrolls at most this often


class Loops(LoopCells):
    """LOOP_RANGE, LOOP_EACH, LOOP_WHILE and the ways out of them."""

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
                dict(self.written), dict(self.stored), set(self.read_only), len(self.compactions), len(self.mask_places),
                [(s, list(s.items)) for s in self._lists()])

    def _lists(self) -> list[Seq]:
        return [v for v in self.regs if isinstance(v, Seq) and v.kind == "list"]

    def _restore(self, saved: tuple) -> None:
        regs, steps, n, loops, depth, returns, written, stored, read_only, compactions, places, lists = saved
        del self.compactions[compactions:], self.mask_places[places:]
        self.regs, self.steps, self.depth = list(regs), steps, depth
        del self.steps[n:], self.loops[loops:], self.returns[returns:]
        self.written.clear()
        self.written.update(written)
        self.stored = dict(stored)
        self.read_only.clear()
        self.read_only.update(read_only)
        for seq, items in lists:
            seq.items[:] = items

    def _prefers_unrolling(self, pc: int) -> bool:
        ins = self.code[pc]
        if ins.op == Op.LOOP_EACH:
            return self.is_sequence(self.get(ins.args[1])) and not isinstance(self.get(ins.args[1]), (Range, Zipped))
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
                if not seq.ndim:
                    raise PlanRefused("iteration over an array with no axes", kind="python-error")
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
            return self._try_types(pc, lambda loop: self._while(pc, loop))
        seq: Arr | Cplx | Zipped | None = None
        if ins.op == Op.LOOP_EACH:
            over = self.get(ins.args[1])
            if isinstance(over, Range):
                start, stop, step = over.start, over.stop, over.step
            elif isinstance(over, Zipped):
                seq = over
                start, stop, step = const(0), over.length, const(1)
            elif isinstance(over, (Arr, Cplx)) and isinstance(real_part(over), Arr) and real_part(over).ndim:  # type: ignore[union-attr]
                seq = over
                start, stop, step = const(0), real_part(over).shape[0], const(1)  # type: ignore[union-attr]
            else:
                raise NeedUnroll
        else:
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
        return self._try_types(pc, lambda loop: self._for(pc, seq, start, stop, step, up, empty is False, loop))

    def _try_types(self, pc: int, attempt: Callable[[Loop], str]) -> str:
        """Type the loop until its cells fit what the body leaves in them: a scalar's cell may hold both of two types;
        where that is not enough, the first trip is peeled off."""
        exit_pc = self.code[pc].args[-1]
        assigned = 0
        for i in range(pc, exit_pc):
            assigned |= self.writes[i]
        assigned &= ~self.constant_regs
        ins = self.code[pc]
        own = 0 if ins.op == Op.LOOP_WHILE else 1 << ins.args[0]  # the head writes the loop variable in each trip
        carried = tuple(bits(assigned & (self.live[pc + 1] & ~own | self.live[exit_pc])))
        array_cells: set[int] = set()
        joined: dict[int, tuple[str, str]] = {}
        loose: set[int] = set()
        apart: set[int] = set()
        peel, turn = False, 1
        for _ in range(2 + 4 * len(carried)):
            saved = self._save()
            loop = Loop(False, exit_pc, carried, array_cells=array_cells, joined=joined, loose=loose, apart=apart,
                        live=self.live[pc + 1] | self.live[exit_pc], turn=turn)
            loop.runtime_ifs = 0
            try:
                return attempt(loop) if not peel else self._peeled(pc, attempt, loop)
            except Retry as retry:
                self._restore(saved)
                if turn > 1 and retry.why != "type":
                    turn = 0
                elif retry.why == "turn":
                    turn = loop.turn
                elif retry.why == "array" and retry.reg not in array_cells:
                    array_cells.add(retry.reg)
                elif retry.why == "shape" and retry.reg not in loose:
                    loose.add(retry.reg)
                elif retry.why == "apart" and retry.reg not in apart:
                    apart.add(retry.reg)
                elif (retry.why == "type" and retry.joined is not None and not peel
                      and joined.get(retry.reg) != retry.joined):
                    joined[retry.reg] = retry.joined
                else:
                    self._retry_outside(retry)
                    if retry.why == "shape":
                        raise PlanRefused("an array changes its shape from trip to trip", kind="loop-shape") from None
                    if retry.why != "type" or peel:
                        raise PlanRefused("a value changes its type in a loop", kind="loop-type") from None
                    peel = True
            except PlanRefused as refused:
                if turn > 1:
                    self._restore(saved)
                    turn = 0
                    continue
                if refused.kind != "two-types" or peel:
                    raise
                self._restore(saved)
                joined = {}
                peel = True
        raise PlanRefused("the types of a loop do not settle", kind="loop-type")

    def _retry_outside(self, retry: Retry) -> None:
        """A cell of an enclosing loop that may hold both types, where its own entry value allows that."""
        for loop in reversed(self.loops):
            entry = loop.entry.get(retry.reg)
            if isinstance(entry, Num) and isinstance(retry.value, Num) and retry.reg not in loop.joined:
                joined = join_types(entry, retry.value)
                if joined is not None:
                    raise Retry(retry.reg, "type", joined, retry.value)

    def _peeled(self, pc: int, attempt: Callable[[Loop], str], loop: Loop) -> str:
        self._peel_first = True
        try:
            return attempt(loop)
        finally:
            self._peel_first = False

    _peel_first = False

    def item(self, value: Value, index: Expr) -> Value:
        """What iteration over an array, a range or what was zipped yields at an index."""
        if isinstance(value, Zipped):
            return Seq([self.item(column, index) for column in value.columns], "tuple")
        if isinstance(value, Range):
            return python_int(value.start + value.step * index)
        return self.subscript(value, python_int(index))

    def _for(self, pc: int, seq: Arr | Cplx | Zipped | None, start: Expr, stop: Expr, step: Expr, up: bool, runs: bool,
             loop: Loop) -> str:
        ins = self.code[pc]
        var_reg, body, end = ins.args[0], pc + 1, ins.args[-1] - 1
        if self._peel_first:
            self._peel_first = False
            if not runs:
                raise PlanRefused("a value changes its type in a loop that may not run", kind="loop-type")
            self.loops.append(Loop(True, loop.exit))
            self.regs[var_reg] = python_int(start) if seq is None else self.item(seq, start)
            if self.run_block(body, end) not in ("fall", "continue"):
                raise PlanRefused("the first trip leaves a loop whose types change", kind="loop-type")
            self.loops.pop()
            start = start + step
            runs = False
            if (self.facts.is_less_equal(stop, start) if up else self.facts.is_less_equal(start, stop)):
                return "fall"
        if loop.turn > 1:
            start = self._odd_trips(pc, seq, start, stop, step, loop)
            if self.facts.ask_equal(start, stop):
                return "fall"
            runs = True
        loop.late = loop.runs = runs
        pre = self._enter(loop, pc)
        loop.began = self.clock
        var = ScalarReg("i64", f"i{pc}")
        one = step.value in (1, -1)
        last = stop - step * max(loop.turn, 1) if one else (stop - 1 if up else stop + 1)
        var.expr = self.facts.new_register(f"i{pc}", start if up else last, last if up else start)
        index = python_int(var.expr)
        outer, self.steps = self.steps, []
        self.loops.append(loop)
        self.depth += 1
        self.regs[var_reg] = index if seq is None else self.item(seq, var.expr)
        signal = self.run_block(body, end)
        for more in range(1, loop.turn):
            if signal == "fall":
                index = python_int(var.expr + step * more)
                self.regs[var_reg] = index if seq is None else self.item(seq, var.expr + step * more)
                signal = self.run_block(body, end)
        if loop.turn == 1 and one and signal == "fall" and start.is_entry and stop.is_entry:
            self._look_for_turn(pc, loop)
        self._finish_trip(loop, signal)
        inner, self.steps = self.steps, outer
        self.steps.extend(pre)
        self.steps.append(ForStep(var, start, stop, step * max(loop.turn, 1), inner))
        return self._after(loop)

    def _odd_trips(self, pc: int, seq: Arr | Cplx | Zipped | None, start: Expr, stop: Expr, step: Expr, loop: Loop) -> Expr:
        """The trips by which the loop's number of trips is no multiple of its turn, one by one; where the rest begins."""
        ins = self.code[pc]
        for _ in range(self.facts.value_of(mod((stop - start) * step, const(loop.turn)))):
            self.loops.append(Loop(True, loop.exit))
            self.regs[ins.args[0]] = python_int(start) if seq is None else self.item(seq, start)
            try:
                signal = self.run_block(pc + 1, ins.args[-1] - 1)
            except (NeedRuntimeLoop, NeedUnroll):
                signal = "break"
            if signal != "fall":
                raise Retry(-1, "turn")
            self.loops.pop()
            start = start + step
        return start

    def _look_for_turn(self, pc: int, loop: Loop) -> None:
        """Where carried arrays only change places (`a, b = b, a`), several trips are one that leaves them as they were."""
        held = {reg: cell for reg, cell in loop.cells.items() if isinstance(cell, (Arr, Cplx)) and reg not in loop.array_cells}
        goes: dict[int, int] = {}
        for reg, cell in held.items():
            value = self.regs[reg]
            if value is None or is_same(cell, value):
                continue
            origin = [other for other, place in held.items() if is_same(place, value)]
            if len(origin) != 1:
                return
            goes[reg] = origin[0]
        if not goes or set(goes.values()) != set(goes) or any(
                self.code[at].op == Op.CONTINUE for at in range(pc + 1, self.code[pc].args[-1] - 1)):
            return
        turn, now = 1, dict(goes)
        while any(reg != origin for reg, origin in now.items()) and turn <= _LONGEST_TURN:
            turn, now = turn + 1, {reg: goes[origin] for reg, origin in now.items()}
        if turn <= _LONGEST_TURN:
            loop.turn = turn
            raise Retry(-1, "turn")

    def _while(self, pc: int, loop: Loop) -> str:
        if self._peel_first:
            self._peel_first = False
            return self._peeled_while(pc, loop)
        end = self.code[pc].args[-1] - 1
        pre = self._enter(loop, pc)
        loop.began = self.clock
        outer, self.steps = self.steps, []
        self.loops.append(loop)
        self.depth += 1
        self._finish_trip(loop, self.run_block(pc + 1, end))
        inner, self.steps = self.steps, outer
        self.steps.extend(pre)
        self.steps.append(WhileStep(inner))
        return self._after(loop)

    def _peeled_while(self, pc: int, loop: Loop) -> str:
        """The first trip by itself, then the loop: both in a region of one trip, which every way out leaves.

        What is read after the loop lives in cells of the region: there its types must agree.
        """
        exit_pc = self.code[pc].args[-1]
        after = tuple(reg for reg in loop.carried if self.live[exit_pc] >> reg & 1)
        region = Loop(False, exit_pc, after, live=self.live[exit_pc])
        outer, self.steps = self.steps, []
        self.loops.append(region)
        self.depth += 1
        if self.run_block(pc + 1, exit_pc - 1) != "fall" or any(
                isinstance(step, ContinueStep) for step in walk(self.steps)):
            raise PlanRefused("the first trip leaves a loop whose types change", kind="loop-type")
        self._while(pc, loop)
        self._write_back(region)
        self.steps.append(BreakStep())
        inner, self.steps = self.steps, outer
        self.steps.append(WhileStep(inner))
        return self._after(region)

    def _finish_trip(self, loop: Loop, signal: str) -> None:
        if signal == "fall":
            self._write_back(loop)
        elif signal != "dead":
            raise PlanRefused("unexpected control flow", kind="control")

    def _after(self, loop: Loop) -> str:
        self.depth -= 1
        self.loops.pop()
        for reg in bits(self.constant_regs & self.live[loop.exit]):
            if self.regs[reg] is None:
                self.regs[reg] = self.constant(self.constant_of[reg])
        for reg in loop.carried:
            cell = loop.cells.get(reg)
            self.regs[reg] = cell if cell is not None else None
            if reg in loop.joined and loop.runs and reg not in loop.unsure | loop.kept and isinstance(cell, Num):
                self.regs[reg] = replace(cell, maybe="")  # the last trip left a NumPy scalar
            if reg in loop.array_cells and isinstance(cell, Arr) and loop.runs and reg not in loop.kept:
                self.read_only.discard(cell.view.buffer)  # every way out of the loop left a fresh array in it
        return "fall"

    def _test(self, ins: Any) -> str:
        """LOOP_TEST and LOOP_UNTIL_TENSOR_EQ: leave the innermost loop."""
        if ins.op == Op.LOOP_TEST:
            stays = self.truth(self.get(ins.args[0]))
        else:
            stays = self.truth(self.compare("!=", self.get(ins.args[0]), self.get(ins.args[1])))
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
