"""Control flow while typing: decided tests pick a side, what depends on run-time values becomes a region."""

from __future__ import annotations

from ..lang.opcodes import Op
from .cells import Side
from .extents import Expr
from .loops import Loops
from .planner_errors import PlanRefused, let_interrupt
from .rewrite import substitute_plan
from .steps import ExitStep, IfStep, Literal, Operand, Result, Step
from .typer_state import DeadEnd, NeedRuntimeLoop, ReturnSite
from .values import Arr, Lazy, Num, Static, Value

# kinds of refusals that say: NumPy or Python raises here
RAISING = frozenset(("shape-error", "index-error", "unbound", "axis-error", "value-error", "python-error", "lookup-error",
                      "attribute", "int-range", "ufunc-types", "array-truth"))


class Control(Loops):
    """The executor of structured code; `Typer` adds the rules of the other instructions."""

    # --- blocks -------------------------------------------------------------------------------------------------------

    def run_block(self, pc: int, end: int) -> str:
        """Execute [pc, end): 'fall', 'dead' (control left), or 'break' / 'continue' of an unrolling loop."""
        code, last_control = self.code, int(Op.RETURN)
        while pc < end:
            ins = code[pc]
            self.pc = pc
            op = ins.op
            if op > last_control:
                let_interrupt()
                try:
                    self.step_instruction(pc)
                except DeadEnd:
                    return "dead"
                pc += 1
                continue
            if op in (Op.IF_TRUE, Op.IF_TENSOR_GT):
                signal, pc = self._if(pc, end)
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
            return body.op("ne", value.native, operand, body.const(0, value.native))
        if isinstance(value, Static):
            return bool(value.value)
        if isinstance(value, Arr):
            if all(self.facts.ask_equal(e, 1) for e in value.shape):
                return self.truth(self.load(value))
            raise PlanRefused("the truth of an array with several elements", kind="array-truth")
        if isinstance(value, Lazy) and value.kind in ("object", "callee"):
            return True
        return len(self.children(value)) > 0

    def compare_gt(self, a: Value, b: Value) -> bool | Operand:
        """Truth of a > b."""
        return self.truth(self.compare(">", a, b))

    # --- if -----------------------------------------------------------------------------------------------------------

    def _if(self, pc: int, end: int) -> tuple[str, int]:
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
        self.rests.append((join, end))
        try:
            if isinstance(cond, bool):
                return self.run_block(*(then if cond else orelse)), join
            return self._runtime_if(cond, then, orelse, join), join
        finally:
            del self.rests[-1:]

    def _runtime_if(self, cond: Operand, then: tuple[int, int], orelse: tuple[int, int], join: int) -> str:
        before, outer = list(self.regs), self.steps
        if self.loops:
            self.loops[-1].runtime_ifs += 1
        self.depth += 1
        sides = []
        for span in (then, orelse):
            self.regs, self.steps = list(before), []
            signal = self._side(*span)
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
        if self.splits and not self.loops and not self._merges(regs_a, regs_b, self.live[join]):
            return self._rest_twice(cond, sides)
        merged = list(before)
        ways = [Side(steps, regs, self.live[join]) for _, regs, steps in sides]
        for reg in range(len(merged)):
            a, b = regs_a[reg], regs_b[reg]
            if a is b:
                merged[reg] = a
            elif self.live[join] >> reg & 1:
                merged[reg] = self._merge(reg, a, b, *ways)
            else:
                merged[reg] = None
        self.regs = merged
        self.steps.append(IfStep(cond, steps_a, steps_b))
        return "fall"

    def _side(self, pc: int, end: int) -> str:
        """One side of a run-time branch. What raises there in NumPy is left to the interpreter, if it comes to that."""
        saved = self._save()
        try:
            return self.run_block(pc, end)
        except PlanRefused as refused:
            if refused.kind not in RAISING or (refused.kind == "unbound" and self.loops):
                raise
            self._restore(saved)
            self.trap("INTERPRET", None)
            return "dead"

    def _merges(self, a: list[Value | None], b: list[Value | None], live: int) -> bool:
        """Whether what two sides left can be read after them as values of one kind."""
        return all(x is y or not live >> reg & 1 or self.is_alike(x, y)
                   for reg, (x, y) in enumerate(zip(a, b, strict=True)))

    def _rest_twice(self, cond: Operand, sides: list[tuple[str, list[Value | None], list[Step]]]) -> str:
        """Type the rest of the program behind each side by itself: nothing has to be merged."""
        self.splits -= 1
        rests, self.depth = self.rests, self.depth + 1
        for signal, regs, steps in sides:
            self.regs, outer, self.steps = list(regs), self.steps, steps
            for at in range(len(rests) - 1, -1, -1):
                if signal == "dead":
                    break
                self.rests = rests[:at]
                signal = self._side(*rests[at])
            self.steps = outer
        self.rests, self.depth = rests, self.depth - 1
        self.steps.append(IfStep(cond, sides[0][2], sides[1][2]))
        return "dead"

    # --- returns ------------------------------------------------------------------------------------------------------

    def _return(self, value: Value) -> str:
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
