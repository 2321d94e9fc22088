"""Control-flow graph of a program: nesting, reachability, endings, and registers defined on every edge.

Control flow is structured, so one pass in program order is the whole data-flow analysis: an edge into a join only
ever removes registers from what is defined there, and the back edge of a loop removes none (its body starts with
what the head had). A state is a bit set of defined registers; -1, all bits, stands for "unreachable" and is the
neutral element of the join `&`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .bytecode import Instruction, Program
from .opcodes import BY_CODE, TABLE, Op

Report = Callable[[int, str, str, str], None]  # instruction, what, cause, cure
DEAD = -1
MAX_NESTING = 200

# Positions of fixed operands read and written, and the position from which a `srcs`/`dsts` operand runs (0: none).
READS: dict[int, tuple[int, ...]] = {}
WRITES: dict[int, tuple[int, ...]] = {}
READS_FROM: dict[int, int] = {}
WRITES_FROM: dict[int, int] = {}
for _row in TABLE:
    READS[_row.code] = tuple(i for i, (_, kind) in enumerate(_row.operands) if kind == "src")
    WRITES[_row.code] = tuple(i for i, (_, kind) in enumerate(_row.operands) if kind == "dst")
    READS_FROM[_row.code] = next((i + 1 for i, (_, kind) in enumerate(_row.operands) if kind == "srcs"), 0)
    WRITES_FROM[_row.code] = next((i + 1 for i, (_, kind) in enumerate(_row.operands) if kind == "dsts"), 0)

_IF = frozenset((Op.IF_TRUE, Op.IF_TENSOR_GT))
_LOOP = frozenset((Op.LOOP_RANGE, Op.LOOP_EACH, Op.LOOP_WHILE))
_LOOP_EXIT = frozenset((Op.LOOP_TEST, Op.LOOP_UNTIL_TENSOR_EQ))
CONTROL = frozenset(row.code for row in TABLE if row.group == "control")
# End a branch or a body wherever it ends, even when nothing falls into them.
_CLOSERS = frozenset((Op.LOOP_NEXT, Op.JUMP))


class _Construct:
    """An open branch or loop. end: index of its JUMP or LOOP_NEXT, for a branch without one the index of the join."""

    __slots__ = ("end", "exits", "head", "kind", "returns", "saved")

    def __init__(self, kind: str, head: int, end: int, saved: int) -> None:
        self.kind, self.head, self.end, self.saved = kind, head, end, saved
        self.exits = DEAD  # join of the states in which a loop is left early
        self.returns = 0  # returns that were reached before the construct began


class FlowCheck:
    """One pass over a program; faults go to `report`.

    constant_truth(register): True or False where the register is one constant throughout, else None.
    """

    def __init__(self, program: Program, report: Report, constant_truth: Callable[[int], bool | None],
                 malformed: Iterable[int] = ()) -> None:
        self.code: tuple[Instruction, ...] = program.code
        self.constants = program.constants
        self.report, self.constant_truth = report, constant_truth
        self.malformed = frozenset(malformed)
        self.stack: list[_Construct] = []
        self.state = 0
        self.said_dead = False
        self.returns = 0

    def run(self) -> None:
        code, total = self.code, len(self.code)
        malformed, stack = self.malformed, self.stack
        for index, ins in enumerate(code):
            while stack and stack[-1].end == index and stack[-1].kind in ("then", "else"):
                self.state &= stack.pop().saved
            op = ins.op
            if self.state == DEAD:
                if op not in _CLOSERS and not self.said_dead and not self._is_epilogue(index):
                    self.said_dead = True
                    self._unreachable(index)
            else:
                self.said_dead = False
            if index in malformed:
                continue
            args = ins.args
            state = self.state
            for position in READS[op]:
                if not state >> args[position] & 1:
                    state = self._undefined(index, args[position])
            start = READS_FROM[op]
            if start:
                for register in args[start:]:
                    if not state >> register & 1:
                        state = self._undefined(index, register)
            if op in CONTROL:
                self._control(index, op, args)
            else:
                for position in WRITES[op]:
                    state |= 1 << args[position]
                start = WRITES_FROM[op]
                if start:
                    for register in args[start:]:
                        state |= 1 << register
                self.state = state
        while stack and stack[-1].end == total and stack[-1].kind in ("then", "else"):
            self.state &= stack.pop().saved
        if self.state != DEAD or code[-1].op != Op.RETURN:
            self.report(total - 1, "a path runs off the end of the program",
                        "the last instruction of every path is a RETURN; here control falls out of the code",
                        "return a value (or None) on every path")

    # --- one instruction

    def _control(self, index: int, op: int, args: tuple[int, ...]) -> None:
        if op in _IF:
            self._if(index, args[-1])
        elif op in _LOOP:
            self._loop(index, op, args)
        elif op == Op.LOOP_NEXT:
            self._loop_next(index, args[0])
        elif op == Op.JUMP:
            self._jump(index, args[0])
        elif op == Op.RETURN:
            self.returns += self.state != DEAD
            self.state = DEAD
        elif op in _LOOP_EXIT:
            self._loop_exit(index, op, args)
        else:
            self._leave(index, op, args[0])

    def _limit(self) -> int:
        return self.stack[-1].end if self.stack else len(self.code)

    def _open(self, construct: _Construct) -> bool:
        if len(self.stack) >= MAX_NESTING:
            self.report(construct.head, f"constructs nest deeper than {MAX_NESTING}",
                        "branches and loops inside one another are limited, so that no tool that reads them overflows",
                        "split the function")
            return False
        construct.returns = self.returns
        self.stack.append(construct)
        return True

    def _if(self, index: int, target: int) -> None:
        if not index < target <= self._limit():
            self._bad_target(index, target, index + 1, self._limit(), "the else target of a branch")
            return
        before = target - 1
        if before > index and self.code[before].op == Op.JUMP and before not in self.malformed:
            self._open(_Construct("then-else", index, before, self.state))
        else:
            self._open(_Construct("then", index, target, self.state))

    def _jump(self, index: int, target: int) -> None:
        top = self.stack[-1] if self.stack else None
        if top is None or top.kind != "then-else" or top.end != index:
            self.report(index, "JUMP outside the end of a then-branch",
                        "a JUMP stands directly before the else target of its IF and nowhere else",
                        "use BREAK, CONTINUE or RETURN, or nest the branch")
            return
        self.stack.pop()
        if not index < target <= self._limit():
            self._bad_target(index, target, index + 1, self._limit(), "the join after an else-branch")
            self.state &= top.saved
            return
        after_then, self.state = self.state, top.saved
        self._open(_Construct("else", top.head, target, after_then))

    def _loop(self, index: int, op: int, args: tuple[int, ...]) -> None:
        exit_ = args[-1]
        closing = exit_ - 1
        if not index + 1 < exit_ <= self._limit():
            self._bad_target(index, exit_, index + 2, self._limit(), "the exit of a loop")
        elif self.code[closing].op != Op.LOOP_NEXT or self.code[closing].args != (index,):
            self.report(index, f"the loop has no LOOP_NEXT 0x{index:02X} before its exit 0x{exit_:02X}",
                        "the back edge of a loop is the instruction directly before its exit",
                        "let the body end in LOOP_NEXT and the exit follow it")
        else:
            kind = "while" if op == Op.LOOP_WHILE else "for"
            self._open(_Construct(kind, index, closing, self.state))
        if op != Op.LOOP_WHILE and self.state != DEAD:
            self.state |= 1 << args[0]

    def _loop_next(self, index: int, head: int) -> None:
        top = self.stack[-1] if self.stack else None
        if top is None or top.end != index or top.kind not in ("for", "while"):
            self.report(index, f"LOOP_NEXT 0x{head:02X} closes no loop",
                        "a back edge goes to the head of the loop that it ends",
                        "remove it, or give the loop this exit")
            return
        self.stack.pop()
        if top.kind == "for":
            self.state = top.saved & top.exits
            return
        self.state = top.exits
        if top.exits == DEAD and self.returns == top.returns and top.saved != DEAD:
            self.report(top.head, "this while loop never ends",
                        "no LOOP_TEST, LOOP_UNTIL_TENSOR_EQ, BREAK or RETURN inside it can be reached, so no shape and "
                        "no value ever leaves it",
                        "test something that changes (`while err > tol:`), or leave with `break` or `return`")
            self.state = top.saved  # what follows is judged as if the loop ended

    def _innermost_loop(self) -> _Construct | None:
        for construct in reversed(self.stack):
            if construct.kind in ("for", "while"):
                return construct
        return None

    def _loop_exit(self, index: int, op: int, args: tuple[int, ...]) -> None:
        name = BY_CODE[op].name
        loop = self._innermost_loop()
        if loop is None or loop.kind != "while":
            self.report(index, f"{name} is not inside a while loop",
                        "it leaves the innermost loop, which must be a LOOP_WHILE",
                        "use IF and BREAK in a counted loop")
        elif args[-1] != loop.end + 1:
            self.report(index, f"{name} leaves to 0x{args[-1]:02X}, its loop ends at 0x{loop.end + 1:02X}",
                        "the exit of a loop is the instruction after its LOOP_NEXT", "jump to the loop's own exit")
        elif op != Op.LOOP_TEST or self.constant_truth(args[0]) is not True:
            loop.exits &= self.state

    def _leave(self, index: int, op: int, target: int) -> None:
        name = BY_CODE[op].name
        loop = self._innermost_loop()
        if loop is None:
            self.report(index, f"{name} outside a loop", "there is no loop to leave or to continue", "remove it")
            return
        wanted = loop.end + 1 if op == Op.BREAK else loop.end
        if target != wanted:
            self.report(index, f"{name} goes to 0x{target:02X}, expected 0x{wanted:02X}",
                        "BREAK goes to the exit of the innermost loop, CONTINUE to its LOOP_NEXT",
                        "leave an outer loop by a flag that is tested after the inner one")
        if op == Op.BREAK:
            loop.exits &= self.state
        self.state = DEAD

    # --- wording

    def _bad_target(self, index: int, target: int, low: int, high: int, role: str) -> None:
        expected = f"0x{low:02X} to 0x{high:02X}" if low <= high else "nothing fits there"
        self.report(index, f"target 0x{target:02X} is outside its construct",
                    f"{role} lies inside the construct around it ({expected})",
                    "close inner branches and loops before outer ones")

    def _undefined(self, index: int, register: int) -> int:
        self.report(index, f"register r{register} is read, but not assigned on every path that leads here",
                    "some edge into this instruction comes from code that never wrote it",
                    f"assign r{register} before the branch, or in every branch")
        self.state |= 1 << register  # once is enough
        return self.state

    def _unreachable(self, index: int) -> None:
        self.report(index, "this instruction can never run",
                    "every path before it ends, leaves the loop or jumps past it",
                    "remove the code after `return`, `break`, `continue` or an endless loop")

    def _is_epilogue(self, index: int) -> bool:
        """The implicit `return None` that ends a function, which may follow a loop that only returns."""
        code = self.code
        first = index if index == len(code) - 2 else index - 1
        if first != len(code) - 2 or first < 0:
            return False
        load, leave = code[first], code[first + 1]
        return (load.op == Op.LOAD_CONST and leave.op == Op.RETURN and len(load.args) == 2
                and leave.args == load.args[:1] and load.args[1] < len(self.constants)
                and self.constants[load.args[1]] is None)
