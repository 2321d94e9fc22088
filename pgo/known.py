"""`Known`: what is known about integer registers while code is printed: constants, ranges, equal values.

Registers map to `Expr`s of the plan's own integer algebra (vm/plan/extents.py), whose atoms are values at a moment: a
register that is assigned again gets a new atom. So "this stride is that extent times four" is decided by normal form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from math import inf

from ..vm.plan import extents as ex
from ..vm.plan.code import (
    Call,
    Cast,
    Code,
    For,
    If,
    Instr,
    Int,
    Load,
    Move,
    Reg,
    Scalar,
    While,
)
from ..vm.plan.extents import Bound, Expr

_INTEGERS = ("i64", "i32", "bool")


class Known:
    """Register -> Expr. Unknown registers get a fresh atom at the first question, which holds until `forget`."""

    def __init__(self) -> None:
        self._values: dict[Reg, Expr] = {}

    def __getitem__(self, reg: Reg) -> Expr:
        found = self._values.get(reg)
        if found is None:
            found = self._values[reg] = ex.register(reg)
        return found

    def constant(self, reg: Reg) -> int | None:
        """The register's value where it is one number, else None."""
        found = self._values.get(reg)
        if found is None:
            return None
        if found.value is not None:
            return found.value
        lo, hi = found.bounds()
        return int(lo) if lo == hi and lo not in (inf, -inf) else None

    def copy(self) -> Known:
        """An independent copy."""
        other = Known()
        other._values = dict(self._values)
        return other

    def set_range(self, reg: Reg, lo: Bound, hi: Bound) -> None:
        """The register holds some integer in [lo, hi]."""
        self._values[reg] = ex.const(int(lo)) if lo == hi else ex.register(reg, lo, hi)

    def forget(self, regs: Iterable[Reg]) -> None:
        """These registers are assigned: what was known is past."""
        for reg in regs:
            self._values.pop(reg, None)

    def assign(self, instr: Int) -> None:
        """dst = a op b."""
        self._values[instr.dst] = self._evaluate(instr)

    def move(self, dst: Reg, src: Reg) -> None:
        """dst = src."""
        self._values[dst] = self[src]

    def _evaluate(self, instr: Int) -> Expr:
        a, b = self[instr.a], self[instr.b]
        try:
            if instr.op == "select":
                return ex.select(self[instr.c], a, b)
            if instr.op in ("ne", "and", "or"):
                x, y = a.value, b.value
                if x is not None and y is not None:
                    return ex.const(int({"ne": x != y, "and": bool(x and y), "or": bool(x or y)}[instr.op]))
                if instr.op == "and" and 0 in (x, y):
                    return ex.const(0)
                if instr.op == "or" and (x or y):
                    return ex.const(1)
                return ex.register(instr.dst, 0, 1)
            if instr.op in ("eq", "lt", "le"):
                decided = ex.is_equal(a, b) if instr.op == "eq" else ex.is_less_equal(a + (instr.op == "lt"), b)
                return ex.compare(instr.op, a, b) if decided is None else ex.const(int(decided))
            return _ARITHMETIC[instr.op](a, b)
        except OverflowError:  # too large a sum of products
            return ex.register(instr.dst)


_ARITHMETIC: dict[str, Callable[[Expr, Expr], Expr]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "floordiv": ex.floordiv,
    "mod": ex.mod, "min": ex.emin, "max": ex.emax,
}


def assigned(body: Iterable[Instr]) -> Iterator[Reg]:
    """Every register that the instructions write, regions included."""
    for instr in body:
        if isinstance(instr, (Int, Scalar, Cast, Load, Move)):
            yield instr.dst
        elif isinstance(instr, Call):
            yield from instr.writes
        elif isinstance(instr, For):
            yield instr.var
            yield from assigned(instr.body)
        elif isinstance(instr, While):
            yield from assigned(instr.body)
        elif isinstance(instr, If):
            yield from assigned(instr.then)
            yield from assigned(instr.orelse)


def entry_known(code: Code, bounds: Mapping[str, tuple[int, int]]) -> Known:
    """What is known when `bind` starts: constants, extents that are not negative, and the bucket's bounds by symbol."""
    known = Known()
    for leaf in code.leaves:
        for reg in leaf.extents:
            known.set_range(reg, 0, 2**47)
    for reg, value in code.consts.items():
        if code.types[reg] in _INTEGERS:
            known.set_range(reg, int(value), int(value))
    for name, (lo, hi) in bounds.items():
        found = code.symbols.get(name)
        if found is not None and found not in code.consts:
            known.set_range(found, lo, min(hi, 2**62))
    return known

