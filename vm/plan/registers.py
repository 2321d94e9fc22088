"""Registers and integer code: each `Expr` becomes a register, computed once, at the outermost place where it is known.

What depends on entry symbols alone goes into `bind`; what holds loop variables or runtime scalars is computed in the
body, at the level of the loop that defines them. Equal computations share a register (value numbering).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..errors import InternalError
from .code import Guard, Instr, Int, Move, Reg
from .extents import OPAQUE, Atom, Expr
from .steps import Literal, Operand, ScalarReg

_INT_FOLD = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "ne": lambda a, b: int(a != b),
    **OPAQUE,
}
_LEFT_NEUTRAL = {"mul": 1, "add": 0}
_RIGHT_NEUTRAL = {"mul": 1, "floordiv": 1, "add": 0, "sub": 0}
_COMMUTES = frozenset(("add", "mul", "min", "max", "eq", "ne"))
_Key = tuple[str, Reg, Reg, Reg]


class Scope:
    """One region being written: its instructions, and what has been computed in it so far."""

    __slots__ = ("code", "exprs", "numbers")

    def __init__(self) -> None:
        self.code: list[Instr] = []
        self.numbers: dict[_Key, Reg] = {}
        self.exprs: dict[Expr, Reg] = {}


class Registers:
    """Register file under construction, with the code that computes integers."""

    def __init__(self, resolve: Callable[[Atom], Reg]) -> None:
        """resolve: the register that the dispatcher fills with an entry symbol."""
        self._resolve = resolve
        self.types: list[str] = ["ptr"]  # register 0: the arena
        self.consts: dict[Reg, int | float] = {}
        self.entry = Scope()  # scopes[0]: `bind`
        self.scopes: list[Scope] = [self.entry]
        self.guards: list[str] = []
        self._const_regs: dict[tuple[str, str], Reg] = {}
        self._int_regs: dict[int, Reg] = {}
        self._int_values: dict[Reg, int] = {}
        self._atoms: dict[Atom, Reg] = {}  # symbols, loop variables, i64 scalars
        self._levels: dict[Atom, int] = {}  # loop variables: index of the scope in which they are fixed
        self._scalars: dict[ScalarReg, Reg] = {}
        self._tuples: dict[tuple[Expr, ...], tuple[Reg, ...]] = {}  # of `values` that `bind` computes

    # --- allocation -------------------------------------------------------------------------------------------------

    def new(self, type_name: str) -> Reg:
        """A fresh register."""
        self.types.append(type_name)
        return len(self.types) - 1

    def int_const(self, value: int) -> Reg:
        """Register that holds an i64 constant."""
        reg = self._int_regs.get(value)
        if reg is None:
            reg = self._int_regs[value] = self.new("i64")
            self.consts[reg] = value
            self._int_values[reg] = value
        return reg

    def literal(self, literal: Literal) -> Reg:
        """Register that holds a constant of a native dtype; -0.0 and NaN are constants of their own."""
        if literal.dtype == "i64":
            return self.int_const(int(literal.value))
        is_float = literal.dtype in ("f32", "f64")
        value: int | float = float(literal.value) if is_float else int(literal.value)
        key = (literal.dtype, value.hex() if isinstance(value, float) else str(value))
        reg = self._const_regs.get(key)
        if reg is None:
            reg = self._const_regs[key] = self.new(literal.dtype)
            self.consts[reg] = value
        return reg

    def define(self, scalar: ScalarReg) -> Reg:
        """Register of a runtime scalar that a step writes next; what was computed from its old value is forgotten."""
        reg = self._scalars.get(scalar)
        if reg is None:
            reg = self._scalars[scalar] = self.new(scalar.dtype)
            if scalar.expr is not None:
                self._atoms[scalar.expr.atom] = reg  # type: ignore[index]
        if scalar.expr is not None:
            self.forget(scalar)
        return reg

    def define_loop_variable(self, scalar: ScalarReg) -> Reg:
        """Register of a loop variable: it does not change inside the scope that is open now."""
        reg = self.define(scalar)
        if scalar.expr is not None:
            self._levels[scalar.expr.atom] = len(self.scopes) - 1  # type: ignore[index]
        return reg

    def forget(self, changed: ScalarReg) -> None:
        """Drop what the body has computed from a scalar that an expression may hold: it changes."""
        written = self._scalars.get(changed)
        if written is None or changed.expr is None:
            return  # nothing was computed from it
        atom, stale = changed.expr.atom, {written}
        for scope in self.scopes[1:]:  # what depends on a value was computed after it
            for expr in [expr for expr in scope.exprs if atom in expr.atoms]:
                del scope.exprs[expr]
            for key, reg in [*scope.numbers.items()]:
                if not stale.isdisjoint(key[1:]):
                    stale.add(reg)
                    del scope.numbers[key]

    # --- scopes -----------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Start a region."""
        self.scopes.append(Scope())

    def close(self) -> tuple[Instr, ...]:
        """End the innermost region; its instructions."""
        return tuple(self.scopes.pop().code)

    def emit(self, instr: Instr) -> None:
        """Append to the innermost region."""
        self.scopes[-1].code.append(instr)

    # --- operands ---------------------------------------------------------------------------------------------------

    def operand(self, operand: Operand) -> Reg:
        """Register of a scalar operand, computed here when it is an expression."""
        if isinstance(operand, ScalarReg):
            reg = self._scalars.get(operand)
            if reg is None:
                if operand.expr is not None:
                    return self.value(operand.expr)
                raise InternalError(f"scalar register {operand} is read before it is written")
            return reg
        if isinstance(operand, Literal):
            return self.literal(operand)
        return self.value(operand)

    def has_value(self, operand: Operand) -> bool:
        """Whether a scalar operand has been assigned anywhere up to here."""
        if isinstance(operand, ScalarReg) and operand.expr is None:
            return operand in self._scalars
        expr = operand.expr if isinstance(operand, ScalarReg) else operand
        return not isinstance(expr, Expr) or all(atom.op != "reg" or atom in self._atoms for atom in expr.atoms)

    def value(self, expr: Expr) -> Reg:
        """Register that holds the expression at this point of the body."""
        if expr.is_entry:
            return self.bound(expr)
        for scope in self.scopes:
            reg = scope.exprs.get(expr)
            if reg is not None:
                return reg
        reg = self._runtime_sum(expr)
        self.scopes[-1].exprs[expr] = reg
        return reg

    def bound(self, expr: Expr) -> Reg:
        """Register that `bind` computes; the expression holds entry symbols alone."""
        reg = self.entry.exprs.get(expr)
        if reg is None:
            if expr.atom is not None:
                reg = self._atom(expr.atom, 0)
            elif not expr.terms:
                reg = self.int_const(expr.const)
            else:
                total = -1
                for product, coef in expr.terms:
                    if coef < 0 <= total:
                        total = self.op("sub", total, self._product(product, -coef, 0), 0)
                        continue
                    term = self._product(product, coef, 0)
                    total = term if total < 0 else self.op("add", total, term, 0)
                reg = self.op("add", total, self.int_const(expr.const), 0) if expr.const else total
            self.entry.exprs[expr] = reg
        return reg

    def values(self, exprs: tuple[Expr, ...]) -> tuple[Reg, ...]:
        """Registers of several expressions: the extents of a nest, the strides of a view."""
        found = self._tuples.get(exprs)
        if found is None:
            found = tuple([self.value(expr) for expr in exprs])
            if all([expr.is_entry for expr in exprs]):
                self._tuples[exprs] = found
        return found

    def _product(self, product: Sequence[Atom], coef: int, level: int) -> Reg:
        reg = self._atom(product[0], level)
        for atom in product[1:]:
            reg = self.op("mul", reg, self._atom(atom, level), level)
        return reg if coef == 1 else self.op("mul", reg, self.int_const(coef), level)

    def _atom(self, atom: Atom, level: int) -> Reg:
        if not atom.args:
            reg = self._atoms.get(atom)
            if reg is None:
                if atom.op == "reg":
                    raise InternalError(f"the plan uses {atom!r} where it has no value")
                reg = self._atoms[atom] = self._resolve(atom)
            return reg
        args = list(map(self.bound if atom.is_entry else self.value, atom.args))
        if atom.op == "select":
            choice, first, second = args
            return self.op("select", first, second, level, choice)
        return self.op(atom.op, args[0], args[1], level)

    def _runtime_sum(self, expr: Expr) -> Reg:
        """The entry part and the entry factor of each term in `bind`, the rest from the outermost loop inwards."""
        total, at = -1, 0
        pending: list[tuple[int, list[Atom], list[Atom], int]] = []
        for product, coef in expr.terms:
            runtime = [atom for atom in product if not atom.is_entry]
            if runtime:
                pending.append((max(map(self._level, runtime)), [atom for atom in product if atom.is_entry], runtime, coef))
            else:
                term = self._product(product, coef, 0)
                total = term if total < 0 else self.op("add", total, term, 0)
        if expr.const:
            constant = self.int_const(expr.const)
            total = constant if total < 0 else self.op("add", total, constant, 0)
        pending.sort(key=lambda item: item[0])
        for level, entry, runtime, coef in pending:
            at = max(at, level)
            is_minus = coef < 0 <= total
            if is_minus:
                coef = -coef
            factor = self._product(entry, coef, 0) if entry else self.int_const(coef)
            term = self._product(runtime, 1, level)
            term = self.op("mul", factor, term, level)
            total = term if total < 0 else self.op("sub" if is_minus else "add", total, term, at)
        return total

    def level_of(self, expr: Expr) -> int:
        """Index of the outermost scope in which the expression's value is fixed."""
        if expr.is_entry:
            return 0
        return max([self._level(atom) for product, _ in expr.terms for atom in product], default=0)

    def _level(self, atom: Atom) -> int:
        if atom.is_entry:
            return 0
        if atom.op == "reg":
            return min(self._levels.get(atom, len(self.scopes) - 1), len(self.scopes) - 1)
        return max(map(self.level_of, atom.args))

    def op(self, op: str, a: Reg, b: Reg, level: int = -1, c: Reg = -1) -> Reg:
        """Register of `a op b` ('select': a if c else b) computed in scope `level`: folded, shared, or emitted."""
        values = self._int_values
        if c >= 0:
            if c in values:
                return a if values[c] else b
        else:
            x, y = values.get(a), values.get(b)
            if x is not None:
                if y is not None:
                    return self.int_const(_INT_FOLD[op](x, y))
                if _LEFT_NEUTRAL.get(op) == x:
                    return b
            elif y is not None and _RIGHT_NEUTRAL.get(op) == y:
                return a
        if level < 0:
            level = len(self.scopes) - 1
        if a > b and op in _COMMUTES:
            a, b = b, a
        key = (op, a, b, c)
        reg = self.entry.numbers.get(key)
        if reg is not None:
            return reg
        scope = self.entry
        if level:
            for scope in self.scopes[1:level + 1]:  # the last one is the level's own
                reg = scope.numbers.get(key)
                if reg is not None:
                    return reg
        types = self.types
        reg = scope.numbers[key] = len(types)
        types.append("i64")
        scope.code.append(Int(op, reg, a, b, c))
        return reg

    # --- facts ------------------------------------------------------------------------------------------------------

    def guard(self, expr: Expr, answer: bool, text: str) -> None:
        """The plan holds only when `expr` is non-zero (answer) or zero (not answer)."""
        if expr.value is not None:
            if bool(expr.value) != answer:
                raise InternalError(f"a plan relies on something false: {text}")
            return
        reg = self.bound(expr)
        if not answer:
            reg = self.op("eq", reg, self.int_const(0), 0)
        self.entry.code.append(Guard(reg))
        self.guards.append(text)

    def move(self, dst: Reg, src: Reg) -> None:
        """dst = src, here."""
        if dst != src:
            self.emit(Move(dst, src))
