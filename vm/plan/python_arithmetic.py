"""Arithmetic of Python's own scalars: exact integers as expressions, floats in registers, errors where Python raises."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import ceil, floor, inf, isfinite
from typing import Any

from .extents import Bound, Expr, compare, const, floordiv, mod
from .facts import equality
from .planner_errors import PlanRefused
from .steps import Literal, Operand, ScalarReg, SetStep
from .typer_state import NeedUnroll
from .values import Num, python_bool, python_float, python_int

_FOLD: dict[str, Callable[[Any, Any], Any]] = {
    "op.add": operator.add, "op.sub": operator.sub, "op.mul": operator.mul, "op.truediv": operator.truediv,
    "op.floordiv": operator.floordiv, "op.mod": operator.mod, "op.pow": operator.pow, "op.lshift": operator.lshift,
    "op.rshift": operator.rshift, "op.and": operator.and_, "op.or": operator.or_, "op.xor": operator.xor,
}
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_SMALL = 2**31 - 1
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_SCALAR = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def python_value(t: Any, value: object) -> Num:
    """A Python number that is known."""
    if isinstance(value, (bool, int, float)):
        return t.constant(value)
    raise PlanRefused("a Python number that is not planned", kind="dtype")


def python_binary(t: Any, op: str, a: Num, b: Num) -> Num:
    """a OP b on Python scalars."""
    if a.is_constant and b.is_constant:
        try:
            if op in ("op.pow", "op.lshift") and abs(b.constant) > 64:
                raise PlanRefused("a large power of constants", kind="big-int")
            return python_value(t, _FOLD[op](_constant(a), _constant(b)))
        except (ArithmeticError, TypeError, ValueError) as error:
            raise PlanRefused(f"{type(error).__name__}: {error}", kind="python-error") from None
    a, b = _as_int(t, a), _as_int(t, b)
    if a.python == "int" and b.python == "int":
        x, y = t.int_expr(a), t.int_expr(b)
        try:
            result = _int_binary(t, op, x, y)
        except PlanRefused as refused:
            if refused.kind != "big-int":
                raise
            small = _small(t, x), _small(t, y)
            if small == (x, y):
                raise
            result = _int_binary(t, op, *small)
        if result is not None:
            return result
    return _float_binary(t, op, a, b)


def _small(t: Any, expr: Expr) -> Expr:
    """An integer of which nothing is known in a register of known bounds: outside them the interpreter takes over."""
    lo, hi = expr.bounds()
    if expr.is_entry or (lo >= -_SMALL and hi <= _SMALL):
        return expr
    t.trap("INTERPRET", compare("lt", expr, -_SMALL) + compare("lt", _SMALL, expr))
    reg = ScalarReg("i64", "small")
    reg.expr = t.facts.new_register("small", -_SMALL, _SMALL)
    t.emit(SetStep(reg, expr))
    return reg.expr


def _constant(value: Num) -> Any:
    return bool(value.constant) if value.python == "bool" else value.constant


def _as_int(t: Any, value: Num) -> Num:
    if value.python != "bool":
        return value
    if value.is_constant:
        return python_int(const(int(value.constant)))
    body = t.scalar_body()
    slot = body.cast(t.scalar_slot(body, value), "i64")
    return python_int(slot.expr if hasattr(slot, "expr") and slot.expr is not None else slot)


def _int_binary(t: Any, op: str, a: Expr, b: Expr) -> Num | None:
    if op == "op.add":
        return python_int(t.facts.check_int(a + b))
    if op == "op.sub":
        return python_int(t.facts.check_int(a - b))
    if op == "op.mul":
        return python_int(t.facts.check_int(a * b))
    if op in ("op.floordiv", "op.mod"):
        _divisor(t, b)
        return python_int((floordiv if op == "op.floordiv" else mod)(t.facts.norm(a), t.facts.norm(b)))
    if op == "op.pow":
        a, b = t.facts.norm(a), t.facts.norm(b)
        k = b.value
        if k is None or not 0 <= k <= 4:
            if not a.is_entry or not b.is_entry:
                if t.loops:
                    raise NeedUnroll  # unrolled, the exponent may be a number
                raise PlanRefused("a power of run-time integers", kind="int-power")
            base, k = t.facts.value_of(a), t.facts.value_of(b)
            if k < 0 or abs(base) ** min(k, 64) >= 2**62:
                raise PlanRefused("a power that is no 62-bit integer", kind="int-power")
            return python_int(const(base**k))
        out = const(1)
        for _ in range(k):
            out = out * a
        return python_int(t.facts.check_int(out))
    if op in ("op.lshift", "op.rshift") and b.value is not None and 0 <= b.value < 62:
        factor = const(1 << b.value)
        return python_int(t.facts.check_int(a * factor) if op == "op.lshift" else floordiv(a, factor))
    if op in ("op.and", "op.or", "op.xor", "op.lshift", "op.rshift"):
        if op == "op.and" and b.value == 1:
            return python_int(mod(a, 2))
        if op not in ("op.and", "op.or", "op.xor"):
            raise PlanRefused("a shift by a run-time integer", kind="operand")
        body = t.scalar_body()
        slot = body.op(op[3:], "i64", a, b)
        slot.expr = t.facts.new_register(op[3:], *_bit_bounds(op, a, b))
        return python_int(slot.expr)
    if op == "op.truediv":
        return None
    raise PlanRefused(f"{op} on Python integers", kind="operand")


def _bit_bounds(op: str, a: Expr, b: Expr) -> tuple[int | None, int | None]:
    """Bounds of a bitwise operation's result."""
    (alo, ahi), (blo, bhi) = a.bounds(), b.bounds()
    if op == "op.and" and (alo >= 0 or blo >= 0):
        high = min(ahi if alo >= 0 else inf, bhi if blo >= 0 else inf)
        return 0, None if high == inf else int(high)
    widest: Bound = max(abs(alo), abs(ahi), abs(blo), abs(bhi))
    if widest == inf:
        return None, None
    limit = 1 << int(widest).bit_length()
    return 0 if alo >= 0 and blo >= 0 else -limit, limit - 1


def _divisor(t: Any, b: Expr) -> None:
    """Division by zero: decided where it can be, else a trap."""
    b = t.facts.norm(b)
    lo, hi = b.bounds()
    if lo > 0 or hi < 0:
        return
    if b.is_entry:
        if t.facts.ask_equal(b, 0):
            raise PlanRefused("integer division by zero", kind="python-error")
    elif t.facts.lower_bound(b) <= 0 and t.facts.lower_bound(-b) <= 0:
        t.trap("ZERO_DIVISION", compare("eq", b, 0))


def _float_binary(t: Any, op: str, a: Num, b: Num) -> Num:
    body = t.scalar_body()
    x, y = (body.cast(t.scalar_slot(body, v), "f64") for v in (a, b))
    if op in ("op.truediv", "op.floordiv", "op.mod"):
        if isinstance(y, Literal):
            if y.value == 0:
                raise PlanRefused("division by zero", kind="python-error")
        else:
            t.trap("ZERO_DIVISION", body.op("eq", "f64", y, body.const(0.0, "f64")))
    names = {"op.add": "add", "op.sub": "sub", "op.mul": "mul", "op.truediv": "div", "op.floordiv": "floordiv",
             "op.mod": "mod"}
    if op == "op.pow":
        if isinstance(y, Literal) and y.value == 2.0:
            square = body.op("mul", "f64", x, x)
            overflows = body.op("gt", "bool", body.op("isfinite", "f64", x), body.op("isfinite", "f64", square))
            t.trap("OVERFLOW", overflows, "Numerical result out of range")
            return Num(square, "f64", "float")
        return _float_power(t, x, y)
    if op not in names:
        raise PlanRefused(f"{op} on Python floats", kind="operand")
    return Num(body.op(names[op], "f64", x, y), "f64", "float")


def _float_power(t: Any, x: Operand, y: Operand) -> Num:
    """x ** y on Python floats; zeros, negative bases and overflow are Python's own to answer."""
    body = t.scalar_body()
    out = body.op("pow", "f64", x, y)
    zero = body.const(0.0, "f64")
    if not (isinstance(x, Literal) and x.value > 0):
        t.trap("INTERPRET", body.op("not", "bool", body.op("gt", "f64", x, zero)))
    t.trap("INTERPRET", body.op("not", "bool", body.op("isfinite", "f64", out)))
    return Num(out, "f64", "float")


def python_negative(t: Any, a: Num) -> Num:
    """-a on a Python scalar."""
    if a.is_constant:
        return python_value(t, -_constant(a))
    a = _as_int(t, a)
    if a.python == "int":
        assert isinstance(a.operand, Expr)
        return python_int(-a.operand)
    body = t.scalar_body()
    return Num(body.op("neg", "f64", a.operand), "f64", "float")


def python_compare(t: Any, op: str, a: Num, b: Num) -> Num:
    """a OP b on Python scalars, as a Python bool."""
    if a.is_constant and b.is_constant:
        return python_bool(_COMPARE[op](_constant(a), _constant(b)))
    a, b = _as_int(t, a), _as_int(t, b)
    if a.python == "int" and b.python == "int":
        return Num(_int_compare(t, op, a.operand, b.operand), "bool", "bool")  # type: ignore[arg-type]
    if a.python == "int" and b.is_constant and isfinite(b.constant):
        return _int_beside_float(t, op, a, float(b.constant))
    if b.python == "int" and a.is_constant and isfinite(a.constant):
        return _int_beside_float(t, _MIRRORED.get(op, op), b, float(a.constant))
    body = t.scalar_body()
    x, y = (body.cast(t.scalar_slot(body, v), "f64") for v in (a, b))
    return Num(body.op(_SCALAR[op], "f64", x, y), "bool", "bool")


def _int_beside_float(t: Any, op: str, a: Num, b: float) -> Num:
    """An integer compared with a float that is known: what an integer beside it says."""
    if abs(b) >= 2**62:
        return python_bool({"==": False, "!=": True, "<": b > 0, "<=": b > 0, ">": b < 0, ">=": b < 0}[op])
    if op in ("==", "!=") and not b.is_integer():
        return python_bool(op == "!=")
    edge = ceil(b) if op in ("<", ">=") else floor(b)  # a < 2.5 is a < 3, a <= 2.5 is a <= 2
    return Num(_int_compare(t, op, t.int_expr(a), const(edge)), "bool", "bool")


def _int_compare(t: Any, op: str, a: Expr, b: Expr) -> Operand:
    a, b = t.facts.norm(a), t.facts.norm(b)
    if op in ("==", "!="):
        known = t.facts.is_equal(a, b)
        if known is not None:
            return const(int(known == (op == "==")))
        equal = equality(a, b)
        return equal if op == "==" else const(1) - equal
    if op in (">", ">="):
        a, b, op = b, a, {">": "<", ">=": "<="}[op]
    known = t.facts.is_less_equal(a + 1 if op == "<" else a, b)
    if known is not None:
        return const(int(known))
    return compare("lt" if op == "<" else "le", a, b)


__all__ = ["python_binary", "python_compare", "python_float", "python_negative", "python_value"]
