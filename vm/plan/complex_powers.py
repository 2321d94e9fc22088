"""Powers of complex numbers to integers, by NumPy's products; what is known only while the program runs is chosen bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np

from .complex_arithmetic import PART_OF, divided, multiplied, of_parts, positive, reciprocal
from .extents import Expr, compare, const, floordiv, mod, select
from .planner_errors import PlanRefused
from .values import Arr, Cplx, Num, Value, python_float

_LIMIT = 100  # from here on NumPy calls cpow
_BITS = _LIMIT.bit_length()


def power(t: Any, base: Value, exponent: Value, is_operator: bool) -> Cplx:
    """base to an integer that is known, by NumPy's products; of arrays, `** -1` is `np.reciprocal`."""
    if not isinstance(base, Cplx) or not isinstance(exponent, Num) or not exponent.is_constant:
        return power_at_run_time(t, base, exponent, is_operator)
    n = exponent.constant
    if n != int(n) or not -100 < n < 100 or (n < 1 and base.python):
        raise PlanRefused("a complex power of this exponent", kind="kernel:np.power")
    if n == 1:
        return positive(t, base)
    if n == -1 and is_operator and isinstance(base.re, Arr) and base.re.ndim:
        return reciprocal(t, base)
    part = PART_OF[base.dtype]
    if n == 0:
        return of_parts(t, [base], lambda body, re, im: (body.const(1.0, part), body.const(0.0, part)), base.dtype)
    one = Cplx(python_float(1.0), python_float(0.0), base.dtype)
    out, square, left = one if not 0 < n < 4 else None, base, abs(int(n))
    while left:
        if left & 1:
            out = square if out is None else multiplied(t, out, square)
        left >>= 1
        if left:
            square = multiplied(t, square, square)
    assert out is not None
    if n > 0:
        return out
    inverse = divided(t, one, out)

    def known(body: Any, re: Any, im: Any, x: Any, y: Any) -> tuple[Any, Any]:  # a negative power of 0 is NaN + NaN j
        zero = body.const(0.0, part)
        nothing = body.op("and", "bool", body.op("eq", part, x, zero), body.op("eq", part, y, zero))
        return tuple(body.op("select", part, nothing, body.const(np.nan, part), side)
                     for side in (re, im))
    return of_parts(t, [inverse, base], known, base.dtype)


def power_at_run_time(t: Any, base: Value, exponent: Value, is_operator: bool) -> Cplx:
    """base ** exponent; outside of (-100, 100), and where Python's own complex numbers may raise, the interpreter's."""
    if not isinstance(base, Cplx) or not isinstance(base.re, Num) or not isinstance(exponent, Num):
        raise PlanRefused("a complex power that is no constant", kind="kernel:np.power")
    if exponent.native not in ("i32", "i64") or (not exponent.python and base.dtype != "c128"):
        raise PlanRefused("a complex power of an exponent that is no integer", kind="kernel:np.power")
    if not is_operator:
        base = Cplx(base.re, base.im, base.dtype)  # np.power gives NumPy's scalars
    n: Expr = t.int_expr(exponent)
    least = 1 if base.python else 1 - _LIMIT
    t.trap("INTERPRET", compare("lt", n, least) + compare("le", _LIMIT, n))
    size = select(compare("lt", n, 0), -n, n)
    one = Cplx(python_float(1.0), python_float(0.0), base.dtype, base.python)
    out, square = one, base
    for k in range(_BITS):
        if k:
            square = multiplied(t, square, square)
        product = square if not k else _choice(t, compare("eq", mod(size, const(1 << k)), 0), square, multiplied(t, out, square))
        out = _choice(t, mod(floordiv(size, const(1 << k)), const(2)), product, out)
    if base.python:
        return out
    inverse = divided(t, one, out)
    part = PART_OF[base.dtype]

    def known(body: Any, re: Any, im: Any, x: Any, y: Any) -> tuple[Any, Any]:  # a negative power of 0 is NaN + NaN j
        zero = body.const(0.0, part)
        nothing = body.op("and", "bool", body.op("eq", part, x, zero), body.op("eq", part, y, zero))
        return tuple(body.op("select", part, nothing, body.const(np.nan, part), side)
                     for side in (re, im))
    return _choice(t, compare("lt", n, 0), of_parts(t, [inverse, base], known, base.dtype), out)


def _choice(t: Any, cond: Expr, a: Cplx, b: Cplx) -> Cplx:
    """a where cond is 1, else b."""
    part = PART_OF[a.dtype]

    def build(body: Any, ar: Any, ai: Any, br: Any, bi: Any) -> tuple[Any, Any]:
        test = t.scalar_slot(body, Num(cond, "bool", "bool"))
        return body.op("select", part, test, ar, br), body.op("select", part, test, ai, bi)
    return of_parts(t, [a, b], build, a.dtype)
