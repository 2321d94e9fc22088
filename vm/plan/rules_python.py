"""Rules of Python's builtins and of `math` on Python scalars."""

from __future__ import annotations

from math import prod
from typing import Any

from ..bindings import partial_key, stable_class
from .cells import join_types
from .extents import Expr, compare, const, emax, emin, select
from .planner_errors import PlanRefused
from .rules_elementwise import given, ufunc
from .steps import Literal, ScalarReg
from .typed import NONE, Typer, rule
from .typer_state import DeadEnd, NeedUnroll
from .values import (
    COMPUTE,
    SOME_TEXT,
    Arr,
    Cplx,
    Lazy,
    Map,
    Num,
    Range,
    Seq,
    SliceV,
    Static,
    Value,
    Zipped,
    is_float,
    python_bool,
    python_float,
    python_int,
)


@rule("py.len")
def length(t: Typer, obj: Value) -> Value:
    if isinstance(obj, Arr):
        if not obj.ndim:
            raise PlanRefused("len() of an array with no axes", kind="python-error")
        return python_int(t.facts.norm(obj.shape[0]))
    return python_int(const(len(t.children(obj))))


@rule("py.range")
def range_(t: Typer, start: Value, stop: Value, step: Value) -> Value:
    return Range(*(t.int_expr(v) for v in (start, stop, step)))


@rule("py.enumerate")
def enumerate_(t: Typer, iterable: Value, start: Value = NONE) -> Value:
    if is_long(t, iterable):
        counted = t.int_expr(start) if given(start) else const(0)
        n = length_of(t, iterable)
        return Zipped([Range(counted, counted + n, const(1)), iterable], n)
    first = t.known_int(start) if given(start) else 0
    items = _rows(t, iterable)
    return Seq([Seq([python_int(const(i)), v], "tuple") for i, v in enumerate(items, first)], "list")


@rule("py.zip")
def zip_(t: Typer, iterables: Value, strict: Value = NONE) -> Value:
    given_columns = t.children(iterables)
    if any(is_long(t, v) for v in given_columns) and all(is_long(t, v) or isinstance(v, (Arr, Range)) for v in given_columns):
        lengths = [length_of(t, v) for v in given_columns]
        shortest = lengths[0]
        for n in lengths[1:]:
            if not t.facts.can_equal(shortest, n):
                if given(strict) and t.is_true(strict):
                    raise PlanRefused("zip(strict=True) of lengths that may differ", kind="python-error")
                shortest = emin(shortest, n)
        return Zipped(given_columns, shortest)
    columns = [_rows(t, v) for v in given_columns]
    if given(strict) and t.is_true(strict) and len({len(c) for c in columns}) > 1:
        raise PlanRefused("zip(strict=True) of different lengths", kind="python-error")
    return Seq([Seq(list(row), "tuple") for row in zip(*columns, strict=False)], "list")


def is_long(t: Typer, value: Value) -> bool:
    """Whether what is iterated has more items than a plan lists, or a number of them that it does not know."""
    if isinstance(value, Cplx) and isinstance(value.re, Arr):
        return is_long(t, value.re)
    if isinstance(value, Arr) and value.ndim:
        count = t.facts.norm(value.shape[0]).value
        return count is None or count > 64
    if isinstance(value, Range):
        return any(e.value is None for e in (value.start, value.stop)) and value.step.value == 1
    return isinstance(value, Zipped)


def length_of(t: Typer, value: Value) -> Expr:
    """How many items an array, a range of step 1, or what was zipped has."""
    if isinstance(value, Zipped):
        return value.length
    if isinstance(value, Range):
        return emax(const(0), t.facts.norm(value.stop - value.start))
    array = value.re if isinstance(value, Cplx) else value
    return t.facts.norm(array.shape[0])  # type: ignore[union-attr]


def _rows(t: Typer, value: Value) -> list[Value]:
    """The items that iterating a value yields, when their number is known."""
    if isinstance(value, Arr):
        count = t.facts.norm(value.shape[0]).value if value.ndim else None
        if count is None or count > 64:
            raise PlanRefused("enumerate() or zip() over the rows of an array", kind="iterate")
        return [t.subscript(value, python_int(const(i))) for i in range(count)]
    return t.children(value)


@rule("py.reversed")
def reversed_(t: Typer, sequence: Value) -> Value:
    if isinstance(sequence, Arr) and is_long(t, sequence):
        return t.subscript(sequence, SliceV(NONE, NONE, python_int(const(-1))))
    return Seq(list(reversed(_rows(t, sequence))), "list")


@rule("py.tuple")
def tuple_(t: Typer, iterable: Value = NONE) -> Value:
    return Seq([] if iterable is NONE else list(_rows(t, iterable)), "tuple")


@rule("py.list")
def list_(t: Typer, iterable: Value = NONE) -> Value:
    return Seq([] if iterable is NONE else list(_rows(t, iterable)), "list")


def _changes(t: Typer, seq: Value) -> Seq:
    if not isinstance(seq, Seq) or seq.kind != "list" or seq.row >= 0:
        raise PlanRefused("a list of the caller is changed", kind="list-store")
    if t.loops and not t.loops[-1].static:
        raise NeedUnroll  # a list has as many items as the trips of a loop that is unrolled
    if t.depth:
        raise PlanRefused("a list is changed inside a run-time region", kind="list-store")
    return seq


@rule("py.list_append")
def append(t: Typer, seq: Value, item: Value) -> Value:
    _changes(t, seq).items.append(item)
    return NONE


@rule("py.list_extend")
def extend(t: Typer, seq: Value, items: Value) -> Value:
    _changes(t, seq).items.extend(_rows(t, items))
    return NONE


@rule("py.list_pop")
def pop(t: Typer, seq: Value, index: Value = NONE) -> Value:
    return _changes(t, seq).items.pop(t.known_int(index) if given(index) else -1)


@rule("py.list_reverse")
def reverse(t: Typer, seq: Value) -> Value:
    _changes(t, seq).items.reverse()
    return NONE


@rule("py.dict_items")
def dict_items(t: Typer, mapping: Value) -> Value:
    return Seq([Seq([t.constant(k), v], "tuple") for k, v in _entries(t, mapping)], "list")


@rule("py.dict_values")
def dict_values(t: Typer, mapping: Value) -> Value:
    return Seq([v for _, v in _entries(t, mapping)], "list")


@rule("py.dict_keys")
def dict_keys(t: Typer, mapping: Value) -> Value:
    return Seq([t.constant(k) for k, _ in _entries(t, mapping)], "list")


@rule("py.dict_get")
def dict_get(t: Typer, mapping: Value, key: Value, default: Value = NONE) -> Value:
    wanted = key.value if isinstance(key, Static) else t.known_int(key)
    for k, v in _entries(t, mapping):
        if k == wanted and type(k) is type(wanted):
            return v
    return default


def _entries(t: Typer, mapping: Value) -> list[tuple[object, Value]]:
    if isinstance(mapping, Map):
        return list(mapping.items.items())
    if isinstance(mapping, Lazy) and mapping.kind == "mapping":
        return [(k, t.leaf("item", mapping.row, k)) for k in t.reader.keys(mapping.row)]
    raise PlanRefused("a dict method on something that is no dict", kind="operand")


# --- numbers ----------------------------------------------------------------------------------------------------------

def _extreme(name: str, op: str) -> None:
    pick = emin if name == "min" else emax

    def extreme(t: Typer, args: Value) -> Value:
        items = t.children(args)
        if len(items) == 1:
            items = _rows(t, items[0])
        if not items:
            raise PlanRefused(f"{name}() of nothing", kind="python-error")
        if all(isinstance(v, Num) and v.python == "int" for v in items):
            out = items[0].operand  # type: ignore[union-attr]
            for v in items[1:]:
                out = pick(t.facts.norm(out), t.facts.norm(v.operand))  # type: ignore[arg-type, union-attr]
            return python_int(out)  # type: ignore[arg-type]
        if not all(isinstance(v, Num) for v in items):
            raise PlanRefused(f"{name}() of arrays", kind="operand")
        first: Any = items[0]
        python, dtype, maybe = first.python, first.dtype, first.maybe
        for v in items[1:]:
            if (python, dtype, maybe) != (v.python, v.dtype, v.maybe):  # type: ignore[union-attr]
                joined = join_types(Num(first.operand if python else Literal(0, dtype), dtype, python, maybe=maybe), v)  # type: ignore[arg-type]
                if joined is None:
                    raise PlanRefused(f"{name}() of different types", kind="operand")
                python, (dtype, maybe) = "", joined
        native = COMPUTE[dtype]
        body = t.scalar_body()
        result = body.cast(t.scalar_slot(body, items[0]), native)
        for v in items[1:]:
            slot = body.cast(t.scalar_slot(body, v), native)
            # Python keeps the earlier one unless the later compares: NaN and signed zeros follow that
            result = body.op("select", native, body.op(op, native, slot, result), slot, result)
        out = _num(result, dtype, python)
        out.maybe = maybe
        return out
    rule(f"py.{name}")(extreme)


_extreme("min", "lt")
_extreme("max", "gt")


def _num(slot: Any, dtype: str, python: str) -> Num:
    if isinstance(slot, ScalarReg) and slot.expr is not None:
        return Num(slot.expr, dtype, python)
    return Num(slot, dtype, python)


@rule("py.abs")
def abs_(t: Typer, x: Value) -> Value:
    if isinstance(x, Num) and x.python:
        if x.python == "float":
            body = t.scalar_body()
            return Num(body.op("abs", "f64", t.scalar_slot(body, x)), "f64", "float")
        e = t.int_expr(x)
        known = t.facts.is_less_equal(0, e)
        if known is not None:
            return python_int(e if known else -e)
        return python_int(select(compare("lt", e, 0), -e, e))
    return ufunc(t, "absolute", [x])


@rule("py.int")
def int_(t: Typer, x: Value = NONE) -> Value:
    if isinstance(x, Arr):
        if x.ndim:
            raise PlanRefused("int() of an array", kind="operand")
        x = t.load(x)
    if not isinstance(x, Num):
        raise PlanRefused("int() of something that is no number", kind="operand")
    if not is_float(x.dtype):
        return python_int(t.int_expr(x)) if x.native != "bool" else _bool_to_int(t, x)
    if isinstance(x.operand, Literal):
        try:
            return python_int(const(int(x.operand.value)))
        except (ValueError, OverflowError) as error:
            raise PlanRefused(str(error), kind="python-error") from None
    body = t.scalar_body()
    wide = body.cast(x.operand, "f64")
    limit = body.const(2.0**31, "f64")
    inside = body.op("lt", "f64", body.op("abs", "f64", wide), limit)
    t.trap("INTERPRET", body.op("not", "bool", inside))  # NaN, infinities and big values: Python's own answer
    reg = body.cast(wide, "i64")
    reg.expr = t.facts.new_register("int", -(2**31), 2**31)
    return python_int(reg.expr)


def _bool_to_int(t: Typer, x: Num) -> Num:
    if isinstance(x.operand, Expr):
        return python_int(x.operand)
    if isinstance(x.operand, Literal):
        return python_int(const(int(x.operand.value)))
    body = t.scalar_body()
    reg = body.cast(x.operand, "i64")
    return python_int(reg.expr)


@rule("py.float")
def float_(t: Typer, x: Value = NONE) -> Value:
    if isinstance(x, Arr):
        if x.ndim:
            raise PlanRefused("float() of an array", kind="operand")
        x = t.load(x)
    if isinstance(x, Static) and isinstance(x.value, str):
        try:
            return python_float(float(x.value))
        except ValueError:
            raise PlanRefused("float() of a text that is no number", kind="value-error") from None
    if not isinstance(x, Num):
        raise PlanRefused("float() of something that is no number", kind="operand")
    body = t.scalar_body()
    return Num(body.cast(t.scalar_slot(body, x), "f64"), "f64", "float")


@rule("py.bool")
def bool_(t: Typer, x: Value = NONE) -> Value:
    side = t.truth(x)
    if isinstance(side, Expr):  # an integer: a bool's register holds 0 or 1
        side = compare("lt", 0, side) + compare("lt", side, 0)
    return python_bool(side) if isinstance(side, bool) else Num(side, "bool", "bool")


@rule("py.round")
def round_(t: Typer, number: Value, ndigits: Value = NONE) -> Value:
    """round(x): the nearest integer, ties to even."""
    if given(ndigits) or not isinstance(number, Num) or number.maybe:
        raise PlanRefused("round() to digits, or of an array", kind="kernel:py.round")
    if number.python in ("int", "bool"):
        return int_(t, number)
    if not is_float(number.dtype) or number.dtype == "bf16":
        if number.dtype == "bf16":
            raise PlanRefused("round() of ml_dtypes' numbers", kind="python-error")
        if number.dtype == "bool":
            raise PlanRefused("round() of NumPy's bool", kind="python-error")
        return int_(t, number)
    body = t.scalar_body()
    return int_(t, Num(body.op("rint", number.native, t.scalar_slot(body, number)), number.dtype, number.python))


@rule("py.isinstance")
def isinstance_(t: Typer, obj: Value, types: Value) -> Value:
    names = {str(v.value) for v in t.children(types) if isinstance(v, Static)}
    if isinstance(obj, Arr):
        return python_bool("numpy.ndarray" in names)
    if isinstance(obj, Num) and obj.python:
        return python_bool(f"builtins.{obj.python}" in names or (obj.python == "bool" and "builtins.int" in names))
    if isinstance(obj, Seq):
        return python_bool(f"builtins.{obj.kind}" in names)
    if isinstance(obj, Static) and (obj.value is None or type(obj.value) is str):
        return python_bool(obj.value is not None and "builtins.str" in names)
    if isinstance(obj, Map):
        return python_bool("builtins.dict" in names)
    if isinstance(obj, Lazy):
        is_named = obj.kind == "sequence" and t.reader.rows[obj.row].type_name in ("builtins:tuple", "builtins:list")
        if is_named or obj.kind != "sequence":  # objects are of none of these classes (`signature.describe`)
            own = {"mapping": "dict", "sequence": t.reader.rows[obj.row].type_name.partition(":")[2]}.get(obj.kind, "")
            return python_bool(f"builtins.{own}" in names)
    raise PlanRefused("isinstance of this value", kind="operand")


@rule("py.calls")
def calls(t: Typer, obj: Value, type_name: Value = NONE, name: Value = NONE, key: Value = NONE) -> Value:
    """Whether an object's attribute, or the object itself, is what the program was compiled with: a row decides."""
    if given(type_name) and _class_of(t, obj) != type_name.value:  # type: ignore[union-attr]
        return python_bool(False)
    if given(name):
        if not isinstance(obj, Lazy):
            return python_bool(False)
        obj = t.leaf("attr", obj.row, name.value)  # type: ignore[union-attr]
    return python_bool(_key_of(t, obj) == key.value)  # type: ignore[union-attr]


def _class_of(t: Typer, value: Value) -> str:
    return stable_class(t.reader.rows[value.row].type_name) if isinstance(value, Lazy) else ""


def _key_of(t: Typer, value: Value) -> str:
    """`bindings.called_key` of a value, of its rows."""
    if not isinstance(value, Lazy):
        return ""
    if value.kind == "callee":
        return t.reader.rows[value.row].type_name
    if _class_of(t, value) == "functools:partial":
        function, args, names = (t.leaf("attr", value.row, name) for name in ("func", "args", "keywords"))
        return partial_key(_key_of(t, function), t.reader.length(args.row), t.reader.keys(names.row))  # type: ignore[union-attr]
    return f"object {_class_of(t, value)}"


@rule("py.call_other")
def call_other(t: Typer, obj: Value, name: Value = NONE, args: Value = NONE, names: Value = NONE) -> Value:
    raise PlanRefused("an object is called that the program was not made for", kind="callee")


@rule("py.make")
def make(t: Typer, cls: Value, args: Value = NONE, names: Value = NONE) -> Value:
    raise PlanRefused("the program makes an object; return a tuple or dict and make it in the caller, and the rest is planned",
                      kind="object")


@rule("py.set_attribute")
def set_attribute(t: Typer, obj: Value, name: Value, value: Value) -> Value:
    shown = name.value if isinstance(name, Static) else "an attribute"
    raise PlanRefused(f"the program assigns '{shown}' of an object; return the value and assign it in the caller, and the rest "
                      "is planned", kind="attribute-store")


@rule("py.assert")
def assert_(t: Typer, condition: Value, message: Value = NONE) -> Value:
    side = t.truth(condition)
    if side is True:
        return NONE
    if side is False:
        raise PlanRefused("an assertion that fails", kind="python-error")
    body = t.scalar_body()
    is_int = isinstance(side, Expr)
    t.trap("INTERPRET", compare("eq", side, 0) if is_int else body.op("not", "bool", side))  # type: ignore[arg-type]
    return NONE


@rule("py.raise")
def raise_(t: Typer, kind: Value, message: Value = NONE) -> Value:
    if not t.depth:
        raise PlanRefused("the program raises", kind="python-error")
    t.trap("RAISE", None)
    raise DeadEnd


@rule("py.format")
def format_(t: Typer, value: Value, spec: Value = NONE, conversion: Value = NONE) -> Value:
    known: object = SOME_TEXT
    if isinstance(value, Num) and value.python in ("int", "bool") and value.is_constant:
        known = int(value.constant) if value.python == "int" else bool(value.constant)
    elif isinstance(value, Static) and (value.value is None or isinstance(value.value, str)):
        known = value.value
    if known is SOME_TEXT or (isinstance(conversion, Static) and conversion.value not in ("", None, "s")):
        return Static(SOME_TEXT)
    if isinstance(spec, Static) and spec.value not in ("", None):
        return Static(SOME_TEXT)
    return Static(str(known))


@rule("py.text")
def text(t: Typer, parts: Value) -> Value:
    texts = [part.value if isinstance(part, Static) else SOME_TEXT for part in t.children(parts)]
    if not all(isinstance(part, str) for part in texts):
        return Static(SOME_TEXT)
    return Static("".join(texts))  # type: ignore[arg-type]


@rule("py.dict_update")
def dict_update(t: Typer, mapping: Value, other: Value) -> Value:
    if not isinstance(mapping, Map) or mapping.row >= 0 or t.depth:
        raise PlanRefused("a dict of the caller is changed, or inside a run-time region", kind="list-store")
    mapping.items.update(_entries(t, other))
    return NONE


@rule("py.getattr")
def getattr_(t: Typer, obj: Value, name: Value, default: Value = NONE) -> Value:
    if not isinstance(obj, Lazy) or obj.kind != "object" or not isinstance(name, Static) or not isinstance(name.value, str):
        raise PlanRefused("an attribute whose name is known only while the program runs", kind="attribute")
    return t.leaf("attr", obj.row, name.value)


# --- math -------------------------------------------------------------------------------------------------------------

def _math(name: str, op: str, domain: str = "") -> None:
    """A math function whose errors are decided by a comparison: (domain) traps ValueError where it holds."""
    def rule_math(t: Typer, x: Value) -> Value:
        if not isinstance(x, (Num, Arr)) or (isinstance(x, Arr) and x.ndim):
            raise PlanRefused(f"math.{name} of an array", kind="operand")
        number = t.load(x) if isinstance(x, Arr) else x
        body = t.scalar_body()
        slot = body.cast(t.scalar_slot(body, number), "f64")
        if domain:
            bad = body.op(domain, "f64", slot, body.const(0.0, "f64"))
            if isinstance(bad, Literal) and bad.value:
                raise PlanRefused("math domain error", kind="python-error")
            if not isinstance(bad, Literal):
                t.trap("VALUE", bad, "math domain error")
        return Num(body.op(op, "f64", slot), "f64", "float")
    rule(f"math.{name}")(rule_math)


_math("sqrt", "sqrt", "lt")
_math("fabs", "abs")
_math("tanh", "tanh")
_math("atan", "arctan")
_math("asinh", "arcsinh")


@rule("math.prod")
def math_prod(t: Typer, iterable: Value, start: Value | None = None) -> Value:
    from .typed import RULES
    items = _rows(t, iterable)
    if all(isinstance(v, Num) and v.python == "int" for v in items) and start is None:
        return python_int(prod((v.operand for v in items), start=const(1)))  # type: ignore[union-attr, type-var, arg-type]
    total: Value = t.constant(1) if start is None else start
    for v in items:
        total = RULES["op.mul"](t, total, v)
    return total


def _round_down(name: str, op: str) -> None:
    def rule_round(t: Typer, x: Value) -> Value:
        if isinstance(x, Num) and x.python == "int":
            return x
        if not isinstance(x, Num) or x.python != "float":
            raise PlanRefused(f"math.{name} of this value", kind="operand")
        body = t.scalar_body()
        return int_(t, Num(body.op(op, "f64", t.scalar_slot(body, x)), "f64", "float"))
    rule(f"math.{name}")(rule_round)


_round_down("floor", "floor")
_round_down("ceil", "ceil")
_round_down("trunc", "trunc")

