"""Elementwise rules: ufuncs and functions of elements on arrays and NumPy scalars, dtypes decided by NumPy itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from . import unsigned_arithmetic
from .body import NestBody, for_memory, result_dtype, truth, wrap
from .extents import Expr, compare
from .halves import as_half, rounded
from .planner_errors import PlanRefused
from .signature import DTYPE_NAMES, NUMPY_DTYPES
from .steps import Literal, Nest, NestOp, NestOut, ScalarReg
from .typed import NONE, RULES, Typer, attribute, rule
from .values import COMPUTE, HALVES, ODD, Arr, Num, Selected, Seq, Static, Value, is_float, is_python, python_float

# ufunc -> scalar operation on the dtype that NumPy's loop computes in
DIRECT = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "floor_divide": "floordiv",
    "remainder": "mod", "fmod": "fmod", "power": "pow", "negative": "neg", "positive": "mov", "absolute": "abs",
    "fabs": "abs", "sign": "sign", "square": "square", "sqrt": "sqrt", "cbrt": "cbrt", "reciprocal": "reciprocal",
    "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10",
    "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "arcsin", "arccos": "arccos",
    "arctan": "arctan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "arcsinh": "arcsinh", "arccosh": "arccosh",
    "arctanh": "arctanh", "arctan2": "arctan2", "hypot": "hypot", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
    "rint": "rint", "copysign": "copysign", "logaddexp": "logaddexp", "maximum": "maximum", "minimum": "minimum",
    "fmax": "fmax", "fmin": "fmin", "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le",
    "greater": "gt", "greater_equal": "ge", "logical_not": "not", "logical_and": "and", "logical_or": "or",
    "logical_xor": "xor", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "invert": "invert",
    "left_shift": "shl", "right_shift": "shr", "isnan": "isnan", "isinf": "isinf", "isfinite": "isfinite",
    "signbit": "signbit", "conjugate": "mov",
}
# on bool operands these loops are logic
_ON_BOOL = {"add": "or", "multiply": "and", "absolute": "mov", "positive": "mov", "invert": "not", "square": "and"}
_LOGICAL = ("logical_not", "logical_and", "logical_or", "logical_xor")
_CLASSES = frozenset(("isfinite", "isnan", "isinf"))  # of which integers know the answer
_INTEGER_ROUNDING = ("floor", "ceil", "trunc", "rint")
_COMPARING = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
_PYTHON_TYPES = {"int": int, "float": float}
_WEAK: dict[str, Any] = {"int": 0, "float": 0.0, "bool": True}  # a scalar of each of Python's types, for np.result_type


@lru_cache(maxsize=4096)
def resolve_dtypes(ufunc: str, operands: tuple[object, ...]) -> tuple[str, ...]:
    """Memory dtypes (operands, result) of the loop that NumPy would run, by NEP 50. Raises PlanRefused.

    operands: a dtype, its memory dtype name, or a Python type (or its name) for a weak scalar.
    """
    function = getattr(np, ufunc)
    operands = tuple([_PYTHON_TYPES.get(x) or NUMPY_DTYPES[x] if isinstance(x, str) else x for x in operands])
    try:
        found = function.resolve_dtypes((*operands, *([None] * function.nout)))
    except TypeError as error:
        raise PlanRefused(f"np.{ufunc}: {error}", kind="ufunc-types") from None
    names = [DTYPE_NAMES.get(dtype, "") for dtype in found]
    if any(n not in COMPUTE for n in names):
        raise PlanRefused(f"np.{ufunc} computes in {found[-1]}, which is not planned", kind="dtype")
    return tuple(names)


def weak_dtype(value: Value) -> object:
    """What `resolve_dtypes` takes for a value: a dtype, or a Python type for a weak scalar."""
    if isinstance(value, Arr):
        return NUMPY_DTYPES[value.dtype]
    if isinstance(value, Num):
        return _PYTHON_TYPES.get(value.python) or NUMPY_DTYPES[value.dtype]
    raise PlanRefused("a value that is neither array nor scalar is computed with", kind="operand")


def check_weak(t: Typer, value: Value, dtype: str) -> None:
    """A Python int that meets a small integer dtype must fit it: NumPy raises OverflowError."""
    if isinstance(value, Num) and value.python == "int" and dtype[0] in "iu":
        info = np.iinfo(NUMPY_DTYPES[dtype])
        assert isinstance(value.operand, Expr)
        lo, hi = value.operand.bounds()
        if dtype == "i64" or (lo >= info.min and hi <= info.max):
            return
        if value.operand.value is not None or hi < info.min or lo > info.max:
            raise PlanRefused("a Python int does not fit the array's dtype", kind="int-range")
        outside = compare("lt", value.operand, int(info.min))
        if info.max < 2**63:  # no integer of a plan is past that
            outside = outside + compare("lt", int(info.max), value.operand)
        t.trap("OVERFLOW", outside, f"Python integer out of bounds for {info.dtype}")


def weak_name(value: Value) -> str:
    """The name of `weak_dtype`, which costs less to look up."""
    if isinstance(value, Arr):
        return value.view.dtype
    if isinstance(value, Num):
        return value.python if value.python in _PYTHON_TYPES else value.dtype
    raise PlanRefused("a value that is neither array nor scalar is computed with", kind="operand")


Expression = Callable[[Any, list[Any]], Any]


# operations and result slot of what `elementwise` was told the name of, by that name and the inputs' native dtypes
_known: dict[tuple[object, ...], tuple[tuple[NestOp, ...], int]] = {}


def elementwise(t: Typer, operands: list[Value], dtype: str, expression: Expression,
                name: object = None) -> Value:
    """Compute expression(body, slots) at each point of the operands' broadcast shape; result of memory `dtype`.

    Without any axis the result is a NumPy scalar, as NumPy returns it. name: of an expression that dtypes alone decide,
    and of `dtype`.
    """
    if dtype not in COMPUTE:
        raise PlanRefused(f"dtype {dtype} is not planned", kind="dtype")
    t.has_odd = t.has_odd or dtype in ODD
    if dtype in HALVES:
        operands = [as_half(t, v, dtype) if isinstance(v, Num) and v.dtype not in (dtype, "bool") else v for v in operands]
    arrays, shapes = [], []
    for v in operands:
        if isinstance(v, Arr):
            arrays.append(v)
            shapes.append(v.view.shape)
    shape = t.broadcast(*shapes) if shapes else ()
    if not shape:
        body = t.scalar_body()
        slots = [t.scalar_slot(body, t.load(v) if isinstance(v, Arr) else v) for v in operands]
        slot = expression(body, slots)
        if dtype in HALVES:
            return rounded(t, body, slot, dtype)
        if isinstance(slot, ScalarReg) and slot.expr is not None:
            return Num(slot.expr, dtype)
        if isinstance(slot, Expr) and slot.value is None:
            return Num(slot, dtype)
        if isinstance(slot, Expr):
            return Num(Literal(slot.const, "i64"), dtype)
        return Num(slot, dtype)
    nest = NestBody()
    slots = []
    for v in operands:
        slots.append(nest.view(t.broadcast_view(v.view, shape)) if isinstance(v, Arr) else t.scalar_slot(nest, v))
    made = key = None
    if name is not None and not nest.pending and len(nest.inputs) == len(operands):
        key = (name, *[item.dtype for item in nest.inputs])
        made = _known.get(key)
    if made is None:
        slot = nest.only(for_memory(nest, expression(nest, slots), dtype))
        made = tuple(nest.finish()), nest.number(slot)
        if key is not None and len(nest.inputs) == len(operands):
            _known[key] = made
    ops, number = made
    result = t.new_temp(shape, dtype)
    view = result.view
    t.emit(Nest(view.shape, nest.inputs, [*ops], [NestOut(number, "store", view)], t.pc))
    if arrays[0].origin is not None and all([a.origin is not None for a in arrays]):
        result.origin = _selected_alike(t, operands, arrays, result, expression)
    return result


def _selected_alike(t: Typer, operands: list[Value], arrays: list[Arr], result: Arr, expression: Expression) -> Selected | None:
    """An elementwise value of arrays that all come from under one mask comes from under it too."""
    from .rules_select import is_same_mask, selected
    origins = [selected(t, a) for a in arrays]
    first = origins[0]
    if first is None or not all(o is not None and is_same_mask(t, o.mask, first.mask) and a.ndim == arrays[0].ndim
                                for o, a in zip(origins, arrays, strict=True)):
        return None
    if any(isinstance(v, Num) and v.cell is not None for v in operands):
        return None  # a register that control flow assigns may change
    made: list[Arr] = []
    under = dict(zip(map(id, arrays), origins, strict=True))

    def dense() -> Arr:
        if not made:
            value = elementwise(t, [under[id(v)].dense() if isinstance(v, Arr) else v for v in operands],  # type: ignore[union-attr]
                                result.dtype, expression)
            made.append(as_array(t, value))
        return made[0]

    sources = {s: None for o in origins if o is not None for s in o.sources}
    sources[result.view.buffer, t.serial.get(result.view.buffer, 0)] = None
    return Selected(dense, first.mask, tuple(sources), first.region)


def ufunc(t: Typer, name: str, operands: list[Value], out: Value = NONE, where: Value | None = None) -> Value:
    """A ufunc call with NumPy's promotion."""
    scalars = [v for v in operands if isinstance(v, Num)]
    if scalars:
        if any(v.maybe for v in scalars):
            require_one_type(name, operands)
        if len(scalars) == len(operands) and all(v.python for v in scalars):  # np.exp(2.0): float64 scalars
            operands = [as_numpy(t, v) for v in scalars]
    dtypes = resolve_dtypes(name, tuple([weak_name(v) for v in operands]))
    if name in _COMPARING and dtypes[0][0] in "iu":  # a Python int outside the dtype is compared by its value
        operands = [Num(v.operand, "i64") if isinstance(v, Num) and v.python == "int" else v for v in operands]
        dtypes = resolve_dtypes(name, tuple(map(weak_dtype, operands)))
    if scalars:
        for value, dtype in zip(operands, dtypes, strict=False):
            check_weak(t, value, dtype)
        if dtypes[0] in HALVES:  # a comparison: where the result is one, `elementwise` does it
            operands = [as_half(t, v, dtypes[0]) if isinstance(v, Num) and v.dtype != dtypes[0] else v for v in operands]
    if name == "power" and dtypes[0][0] in "iu":
        exponent = operands[1]
        if not (isinstance(exponent, Num) and exponent.is_constant and exponent.constant >= 0):
            raise PlanRefused("an integer power whose exponent may be negative", kind="int-power")
    def expression(body: Any, slots: list[Any]) -> Any:
        return ufunc_expression(name, dtypes, operands)(body, slots)

    # a power and operations of uint64 depend on the constants as well
    alike = None if name == "power" or "u64" in dtypes else (name, dtypes, t.has_odd and tuple(map(_is_u64, operands)))
    value = elementwise(t, operands, dtypes[-1], expression, name=alike)
    if dtypes[-1] == "bool" and isinstance(value, Arr):
        from .rules_select import mask_key
        value.key = mask_key(t, name, operands)
    if isinstance(out, Static) and out.value is None and where is None:
        return value
    return into_out(t, value, out, where)


def require_one_type(name: str, operands: list[Value]) -> None:
    """Refuse a ufunc whose loop depends on whether a scalar of two types is NumPy's or Python's."""
    def as_python(value: Value) -> object:
        return _PYTHON_TYPES[value.maybe] if isinstance(value, Num) and value.maybe else weak_dtype(value)

    weak = [as_python(v) for v in operands]
    if all(isinstance(w, type) for w in weak):  # NumPy makes arrays of them
        weak = [np.dtype(np.float64 if w is float else np.int64) for w in weak]
    if resolve_dtypes(name, tuple(map(weak_dtype, operands))) != resolve_dtypes(name, tuple(weak)):
        raise PlanRefused("a scalar that is NumPy's on one path and Python's on another decides a dtype", kind="two-types")


def as_numpy(t: Typer, value: Num) -> Num:
    """A Python scalar as the NumPy scalar that np.asarray makes of it."""
    body = t.scalar_body()
    slot = t.scalar_slot(body, value)
    return Num(slot, value.dtype)  # type: ignore[arg-type]


def into_out(t: Typer, value: Value, out: Value, where: Value | None) -> Value:
    """Store a ufunc's value into its `out=` array, where `where=` holds."""
    if isinstance(out, Seq) and len(out.items) == 1:
        out = out.items[0]
    if not isinstance(out, Arr):
        raise PlanRefused("where= without an out= array leaves elements undefined", kind="ufunc-where")
    dtype = value.dtype  # type: ignore[union-attr]
    if not np.can_cast(NUMPY_DTYPES[dtype], NUMPY_DTYPES[out.dtype], "same_kind"):
        raise PlanRefused("out= of a dtype that NumPy refuses", kind="ufunc-types")
    mask = where if isinstance(where, Arr) else None
    if mask is not None and mask.dtype != "bool":
        raise PlanRefused("where= that is no bool array", kind="ufunc-where")
    t.write_view(out, value, mask)
    return out


def ufunc_expression(name: str, dtypes: tuple[str, ...], operands: list[Value]) -> Expression:
    """The scalar expression of a ufunc's loop over memory dtypes (operands..., result)."""
    loop = dtypes[0] if len(dtypes) == 2 else dtypes[0] if dtypes[0] == dtypes[1] else None
    unsigned = list(map(_is_u64, operands))
    if len(dtypes) == 3 and dtypes[:2] in _BY_ORDER and DIRECT[name] in unsigned_arithmetic.ORDER:
        return lambda body, slots: unsigned_arithmetic.compare(
            body, DIRECT[name], body.cast(slots[0], "i64"), body.cast(slots[1], "i64"), dtypes[:-1])
    if loop is None:
        raise PlanRefused(f"np.{name} mixes {dtypes[0]} and {dtypes[1]}", kind="dtype")

    last = operands[-1]
    known = int(last.constant) if loop == "u64" and isinstance(last, Num) and last.is_constant else None
    if known is not None and known < 0:  # the bits of a large one
        known = None

    def expression(body: Any, slots: list[Any]) -> Any:
        if name in _LOGICAL:
            slots = [truth(body, s) for s in slots]
            return body.op(DIRECT[name], "bool", *slots)
        native = COMPUTE[loop]
        slots = [unsigned_arithmetic.to_float(body, s, native) if u and native[0] == "f" else body.cast(s, native)
                 for s, u in zip(slots, unsigned, strict=True)]
        if loop == "u64" and len(slots) == 2:
            found = unsigned_arithmetic.binary(body, DIRECT[name], slots[0], slots[1], known)
            if found is not None:
                return found
        if name == "power":
            fast = power_by_constant(body, native, slots, operands[1])
            if fast is not None:
                return wrap(body, fast, dtypes[-1])
        if native == "bool" and name in _ON_BOOL:
            if name == "square":
                return body.op("and", "bool", slots[0], slots[0])
            return body.op(_ON_BOOL[name], "bool", *slots)
        if native[0] != "f" and name in _CLASSES:
            return body.op("eq" if name == "isfinite" else "ne", native, slots[0], slots[0])
        if native in ("i32", "i64") and name in _INTEGER_ROUNDING:
            return slots[0]
        op = DIRECT[name]
        if loop == "f16" and op in ("maximum", "minimum", "fmax", "fmin"):
            slots.reverse()  # of two zeros NumPy's loops of float16 keep the first, its others the second
        result = body.op(op, native, *slots)
        return result if result_dtype(op, native) == "bool" and native != "bool" else wrap(body, result, dtypes[-1])

    return expression


_BY_ORDER = (("u64", "u64"), ("u64", "i64"), ("i64", "u64"))


def _is_u64(value: Value) -> bool:
    return isinstance(value, (Arr, Num)) and value.dtype == "u64"


def power_by_constant(body: Any, native: str, slots: list[Any], exponent: Value) -> Any:
    """x ** k for the constants that NumPy or exact products serve without pow; None for others."""
    if not (isinstance(exponent, Num) and exponent.is_constant):
        return None
    k, x = exponent.constant, slots[0]
    if k == 2:
        return body.op("mul", native, x, x)
    if k == 1:
        return x
    if k == 0:
        return body.const(1.0 if native[0] == "f" else 1, native)
    if native[0] == "f" and k == 0.5:
        return body.op("sqrt", native, x)
    if native[0] == "f" and k == -1:
        return body.op("reciprocal", native, x)
    if k in (3, 4):
        square = body.op("mul", native, x, x)
        return body.op("mul", native, square, x if k == 3 else square)
    return None


# --- registration -----------------------------------------------------------------------------------------------------

def given(value: Value | None) -> bool:
    """Whether an optional argument was given."""
    return value is not None and not (isinstance(value, Static) and (value.value is None or value.value is ...))


def only_defaults(name: str, rest: Sequence[Value]) -> None:
    """Refuse any of a ufunc's out, where, casting and dtype that says something."""
    for value, default in zip(rest, (None, True, "same_kind", None), strict=False):
        known: object = value.value if isinstance(value, Static) else 0
        if isinstance(value, Num) and value.is_constant:
            known = value.constant
        if given(value) and (type(known) is not type(default) or known != default):
            raise PlanRefused(f"np.{name} with these arguments", kind=f"kernel:np.{name}")


def _in_dtype(t: Typer, name: str, operands: list[Value], dtype: str) -> list[Value]:
    """The operands cast as `dtype=` asks, where that is the dtype in which the ufunc computes and what it makes."""
    if resolve_dtypes(name, (NUMPY_DTYPES[dtype],) * len(operands)) != (dtype,) * (len(operands) + 1):
        raise PlanRefused(f"np.{name} with this dtype=", kind="ufunc-dtype")
    arrays = [as_array(t, v) for v in operands if isinstance(v, Arr) or t.is_sequence(v)]
    if len(arrays) != len(operands) or not all(
            np.can_cast(NUMPY_DTYPES[v.dtype], NUMPY_DTYPES[dtype], "same_kind") for v in arrays):
        raise PlanRefused(f"np.{name} with dtype= of such operands", kind="ufunc-dtype")
    return [RULES["arr.astype"](t, v, Static(NUMPY_DTYPES[dtype])) for v in arrays]


def _register(name: str) -> None:
    arity = getattr(np, name).nin

    def ufunc_rule(t: Typer, *args: Value) -> Value:
        operands, rest = list(args[:arity]), args[arity:]
        out = rest[0] if rest and given(rest[0]) else NONE
        where = rest[1] if len(rest) > 1 else None
        if isinstance(where, Num) and where.is_constant and where.constant:
            where = None
        if len(rest) > 2 and given(rest[2]) and not (isinstance(rest[2], Static) and rest[2].value == "same_kind"):
            raise PlanRefused(f"np.{name} with casting= is not planned", kind="ufunc-dtype")
        if len(rest) > 3 and given(rest[3]):
            operands = _in_dtype(t, name, operands, t.numpy_dtype(rest[3]))
        operands = [as_array(t, v) if t.is_sequence(v) else v for v in operands]
        return ufunc(t, name, operands, out, where)

    RULES[f"np.{name}"] = ufunc_rule


for _name in DIRECT:
    _register(_name)

@rule("np.where")
def where(t: Typer, cond: Value, x: Value | None = None, y: Value | None = None) -> Value:
    if x is None or y is None or not given(x) or not given(y):
        return RULES["np.nonzero"](t, cond)
    if all(is_python(v) for v in (x, y)):
        x, y = as_numpy(t, x), as_numpy(t, y)  # type: ignore[arg-type]
    dtype = common_dtype(t, [x, y])

    def expression(body: Any, slots: list[Any]) -> Any:
        native = COMPUTE[dtype]
        return body.op("select", native, truth(body, slots[0]), body.cast(slots[1], native), body.cast(slots[2], native))

    result = elementwise(t, [cond, x, y], dtype, expression)
    return result if isinstance(result, Arr) else as_array(t, result)


def common_dtype(t: Typer, values: list[Value]) -> str:
    """np.result_type of values, weak Python scalars included."""
    if any(isinstance(v, Num) and v.maybe for v in values):
        other = [Num(v.operand, v.dtype, v.maybe) if isinstance(v, Num) and v.maybe else v for v in values]
        values = [Num(v.operand, v.dtype) if isinstance(v, Num) and v.maybe else v for v in values]
        if not any(isinstance(v, Arr) for v in values) or common_dtype(t, other) != common_dtype(t, values):
            raise PlanRefused("a scalar that is NumPy's on one path and Python's on another decides a dtype", kind="two-types")
    strong = [NUMPY_DTYPES[v.dtype] for v in values if isinstance(v, (Arr, Num)) and not is_python(v)]
    weak: list[Any] = [_WEAK[v.python] for v in values
                       if isinstance(v, Num) and v.python]
    try:
        name = DTYPE_NAMES.get(np.result_type(*strong, *weak))
    except TypeError as error:
        raise PlanRefused(str(error), kind="ufunc-types") from None
    if name is None or name not in COMPUTE:
        raise PlanRefused("a common dtype that is not planned", kind="dtype")
    for v in values:
        check_weak(t, v, name)
    return name


def as_array(t: Typer, value: Value) -> Arr:
    """A value as an array: scalars become arrays with no axes."""
    if isinstance(value, Arr):
        return value
    if t.is_sequence(value):
        return as_array(t, t.apply("np.array", value))
    if not isinstance(value, Num):
        raise PlanRefused("a value that is neither array nor scalar", kind="array-like")
    if value.maybe and value.dtype not in ("f64", "i64", "bool"):
        raise PlanRefused("an array of a scalar that is NumPy's on one path and Python's on another", kind="two-types")
    out = t.new_temp((), value.dtype)
    t.write_view(out, value)
    return out


@rule("np.clip", "arr.clip")
def clip(t: Typer, a: Value, *args: Value) -> Value:
    lo = args[0] if len(args) > 0 else NONE
    hi = args[1] if len(args) > 1 else NONE
    if len(args) > 3:  # np.clip(a, min=, max=)
        lo = args[3] if given(args[3]) else lo
        hi = args[4] if len(args) > 4 and given(args[4]) else hi
    out = args[2] if len(args) > 2 else NONE
    if isinstance(a, Num) and a.python:
        a = as_numpy(t, a)  # np.clip makes an array of it: its dtype counts
    value = a
    if given(lo) and given(hi):
        # np.clip is one ufunc over (a, lo, hi): the common dtype decides
        dtypes = {v.dtype for v in (a, lo, hi) if isinstance(v, (Arr, Num)) and not is_python(v)}
        if "bf16" in dtypes and dtypes - {"bf16", "f32"}:
            raise PlanRefused("clip of bfloat16 beside other dtypes", kind="dtype")
        dtype = "f32" if "bf16" in dtypes else common_dtype(t, [a, lo, hi])  # there is no loop of bfloat16
        native = COMPUTE[dtype]
        # NumPy compares with two scalars, and keeps a zero that equals a bound; of arrays it takes maximum and minimum
        keeps = dtype == "f16" or all(not isinstance(v, Arr) or not v.ndim for v in (lo, hi))

        def both(body: Any, slots: list[Any]) -> Any:
            x, low, high = (body.cast(s, native) for s in slots)
            if keeps:
                return body.op("minimum", native, high, body.op("maximum", native, low, x))
            return body.op("minimum", native, body.op("maximum", native, x, low), high)
        value = elementwise(t, [a, lo, hi], dtype, both)
    elif given(lo):
        value = ufunc(t, "maximum", [a, lo])
    elif given(hi):
        value = ufunc(t, "minimum", [a, hi])
    return into_out(t, value, out, None) if given(out) else value


@rule("np.round", "np.around", "arr.round")
def round_(t: Typer, a: Value, decimals: Value = NONE, out: Value = NONE) -> Value:
    places = t.known_int(decimals) if given(decimals) else 0
    if given(out) or abs(places) > 15:
        raise PlanRefused("rounding into out=, or to many decimals", kind="kernel:np.round")
    if isinstance(a, (Arr, Num)) and a.dtype[0] in "iu":
        if places < 0:
            raise PlanRefused("rounding integers to tens", kind="kernel:np.round")
        if isinstance(a, Arr):
            return t.copy(a) if a.ndim else t.load(a)
        return as_numpy(t, a) if a.python else a
    if isinstance(a, (Arr, Num)) and a.dtype == "bool":
        raise PlanRefused("rounding of bool", kind="kernel:np.round")
    if places:  # NumPy scales, rounds and scales back
        there, back = ("multiply", "divide") if places > 0 else ("divide", "multiply")
        factor = python_float(10.0 ** abs(places))
        return ufunc(t, back, [ufunc(t, "rint", [ufunc(t, there, [a, factor])]), factor])
    return ufunc(t, "rint", [a])


@rule("ops.erf")
def erf(t: Typer, x: Value) -> Value:
    """The error function; floats keep their dtype, everything else becomes float64."""
    if isinstance(x, Num) and x.python:
        x = as_numpy(t, x)
    if not isinstance(x, (Arr, Num)):
        raise PlanRefused("erf of what is neither array nor scalar", kind="operand")
    dtype = x.dtype if x.dtype[0] == "f" else "f64"
    native = COMPUTE[dtype]
    return elementwise(t, [x], dtype, lambda body, slots: body.op("erf", native, body.cast(slots[0], native)))


@rule("np.degrees", "np.rad2deg")
def degrees(t: Typer, x: Value) -> Value:
    return _scaled(t, x, 180.0 / np.pi)


@rule("np.radians", "np.deg2rad")
def radians(t: Typer, x: Value) -> Value:
    return _scaled(t, x, np.pi / 180.0)


def _scaled(t: Typer, x: Value, factor: float) -> Value:
    dtype = resolve_dtypes("sqrt", (weak_dtype(x),))[0]
    if dtype == "f32":
        factor = float(np.float32(factor))
    return elementwise(t, [x], dtype, lambda body, s: body.op(
        "mul", dtype, body.cast(s[0], dtype), body.const(factor, dtype)))


@rule("arr.astype")
def astype(t: Typer, a: Value, dtype: Value, *rest: Value) -> Value:
    name = t.numpy_dtype(dtype)
    if len(rest) > 3 and isinstance(rest[3], Num) and rest[3].is_constant and not rest[3].constant:
        rest = rest[:3]
        if isinstance(a, Arr) and a.dtype == name and isinstance(rest[0], Static) and rest[0].value == "K":
            return a  # copy=False: the array itself
    if rest and any(given(v) and not (isinstance(v, Static) and v.value in ("K", "C", "unsafe"))
                    and not (isinstance(v, Num) and v.is_constant and v.constant) for v in rest):
        raise PlanRefused("astype with these arguments", kind="kernel:arr.astype")
    is_u64 = _is_u64(a)

    def converted(body: Any, slots: list[Any]) -> Any:
        x = slots[0]
        if is_u64 and is_float(name):
            x = unsigned_arithmetic.to_float(body, x, COMPUTE[name])
        elif name == "u64" and body.dtype(x)[0] == "f":
            x = unsigned_arithmetic.from_float(body, x)
        return cast_to(body, x, name)

    value = elementwise(t, [a], name, converted)
    return as_array(t, value) if isinstance(a, Arr) and not isinstance(value, Arr) else value


def cast_to(body: Any, slot: Any, memory: str) -> Any:
    """A slot converted as astype would: small integers truncate."""
    if memory in ("i8", "i16", "u8", "u16") and body.dtype(slot) == "i64":
        return wrap(body, body.cast(slot, "i32"), memory)
    return wrap(body, for_memory(body, slot, memory), memory)


@attribute("real")
def real(t: Typer, a: Value) -> Value:
    if isinstance(a, Num) and a.python == "bool":
        return t.apply("op.pos", a)  # Python's own booleans answer with an integer
    return a


@attribute("dtype")
def dtype_attribute(t: Typer, a: Value) -> Value:
    return Static(NUMPY_DTYPES[a.dtype])  # type: ignore[union-attr]
