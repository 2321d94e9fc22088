"""Call-outs: kernels that a plan does not compute itself but asks the library for, in the middle of its own code.

A rule (`callout_rules*.py`) declares what such a kernel makes, from dtypes and extents of its operands; `call_out`
emits the step and gives the values. What is made is checked against the declaration at each call, and the rules are
compared with NumPy over many dtypes and ranks by a test.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ...templates.records import fresh, record
from ...templates.registry import BY_NAME, REQUIRED
from .encoded import encode_value
from .extents import Expr, as_expr, const, register
from .planner_errors import PlanRefused
from .signature import NUMPY_DTYPES
from .steps import (
    ITEM_BYTES,
    Buffer,
    CallArg,
    CallResult,
    CallStep,
    Literal,
    ScalarReg,
    View,
    contiguous_strides,
)
from .values import COMPUTE, ODD, Arr, Cplx, Lazy, Num, Range, Seq, SliceV, Static, Value

PARTS = {"c64": "f32", "c128": "f64"}


@record
class Unknown:
    """An extent that is read from the result: between `low` and `high` (None: no bound)."""

    low: Expr | int = 0
    high: Expr | int | None = None


@record
class Made:
    """What a kernel makes: an array of `dtype` and `shape`; a scalar where shape is None, of Python's type `python` or
    NumPy's own. dtype '': nothing that a program could use (None)."""

    dtype: str
    shape: tuple[Expr | Unknown, ...] | None = None
    python: str = ""


@record
class Itself:
    """The operand of this name, the same array: nothing is made."""

    name: str


@record
class Several:
    """A sequence of results. fields: their names, where the kernel returns a named tuple."""

    items: Sequence[Made | Itself]
    kind: str = "tuple"
    fields: tuple[str, ...] = ()


Outcome: TypeAlias = "Made | Itself | Several"


@record
class Question:
    """A call whose outcome a rule is asked for: operands by parameter name."""

    t: Any
    name: str
    values: dict[str, Any]
    written: set[str] = fresh(factory=set)  # parameters whose arrays the kernel writes

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def is_given(self, name: str) -> bool:
        """Whether the kernel has such an operand, and it is there and not None."""
        value = self.values.get(name)
        if isinstance(value, Static):
            value = value.value
        return not (value is None or value is ...)  # by identity: a dtype may equal None

    def refuse(self, why: str) -> PlanRefused:
        """The refusal of this call."""
        return PlanRefused(f"{self.name} {why}", kind=f"kernel:{self.name}")


CallRule = Callable[[Question], Outcome]
CALL_RULES: dict[str, CallRule] = {}
# what plans compute themselves in most forms and call out for in others
EITHER = frozenset((
    "np.allclose", "np.arange", "np.array_equal", "np.cumulative_sum", "np.cumulative_prod", "np.average", "np.convolve",
    "np.copyto", "np.diff", "np.divmod", "np.fill_diagonal", "np.repeat", "arr.repeat", "np.dot", "arr.dot", "np.uint64",
    "np.linalg.norm", "np.nanmean", "np.nanprod", "np.nansum", "np.ptp", "np.putmask", "np.trapezoid"))


def calls(*names: str) -> Callable[[CallRule], CallRule]:
    """Register the rule of kernels that are called out to."""
    def add(function: CallRule) -> CallRule:
        for name in names:
            CALL_RULES[name] = function
        return function
    return add


def outcome_of(t: Any, name: str, values: Sequence[Value]) -> tuple[Outcome, Question]:
    """What the kernel makes of these operands. Raises PlanRefused."""
    from . import (  # noqa: F401  (most plans need none of them)
        callout_rules,
        callout_rules_linalg,
        callout_rules_sets,
        callout_rules_ufuncs,
    )
    found = CALL_RULES.get(name)
    if found is None:
        raise PlanRefused(f"{name} is not planned", kind=f"kernel:{name}")
    given: dict[str, Any] = {}
    for i, parameter in enumerate(BY_NAME[name].parameters):
        if i < len(values):
            given[parameter.name] = values[i]
        elif parameter.default is REQUIRED:
            raise PlanRefused(f"{name} misses an operand", kind=f"kernel:{name}")
        else:
            given[parameter.name] = t.constant(parameter.default)
    question = Question(t, name, given)
    return found(question), question


def call_out(t: Any, name: str, values: Sequence[Value]) -> Value:
    """Emit a call of the kernel; the values of what it makes. Raises PlanRefused for a call without a rule."""
    name = {"op.neg": "np.negative", "op.invert": "np.invert"}.get(name, name)  # instructions of their own
    outcome, question = outcome_of(t, name, values)
    written = [question.values[parameter] for parameter in question.written]
    args = tuple(_operand(t, value, any(value is other for other in written)) for value in values)
    made: list[CallResult] = []
    out: list[Value] = []
    extents: dict[int, ScalarReg] = {}
    items = outcome.items if isinstance(outcome, Several) else (outcome,)
    for item in items:
        if isinstance(item, Itself):
            made.append(CallResult("ignored"))
            out.append(question[item.name])
            continue
        result, value = _result(t, item, extents)
        made.append(result)
        out.append(value)
    for value in written:
        for part in (value.re, value.im) if isinstance(value, Cplx) else (value,):
            t.note_write(part)
    t.emit(CallStep(BY_NAME[name].id, args, tuple(made), isinstance(outcome, Several), t.pc))
    if not isinstance(outcome, Several):
        return out[0]
    return Seq(out, outcome.kind, fields=outcome.fields)


# --- operands ---------------------------------------------------------------------------------------------------------

def _operand(t: Any, value: Value, is_written: bool) -> CallArg:
    if isinstance(value, Arr):
        return CallArg("array", view=value.view, is_written=is_written)
    if isinstance(value, Num):
        if value.maybe:
            raise PlanRefused("a scalar that is NumPy's on one path and Python's on another", kind="two-types")
        if value.is_constant:
            number: Any = value.constant
            if value.python:
                return CallArg("const", value={"int": int, "float": float, "bool": bool}[value.python](number))
            return CallArg("const", value=NUMPY_DTYPES[value.dtype].type(number))
        if isinstance(value.operand, Expr):
            t.facts.check_int(value.operand)
        return CallArg("scalar", operand=value.operand, dtype=value.dtype, python=value.python)
    if isinstance(value, Cplx):
        return _complex_operand(t, value, is_written)
    if isinstance(value, Static):
        try:
            encode_value(value.value)
        except TypeError:
            raise PlanRefused("an operand of a call-out that is no constant", kind="operand") from None
        return CallArg("const", value=value.value)
    if isinstance(value, (SliceV, Range)):
        raise PlanRefused("a slice or range goes to a call-out", kind="operand")
    if t.is_sequence(value) and not (isinstance(value, Lazy) and value.kind == "mapping"):
        kind = value.kind if isinstance(value, Seq) else "list"
        if isinstance(value, Lazy):
            kind = {"builtins:list": "list", "builtins:tuple": "tuple"}.get(t.reader.rows[value.row].type_name, "")
        if kind:
            return CallArg(kind, items=tuple(_operand(t, item, is_written) for item in t.children(value)))
    raise PlanRefused("an operand that does not go to a call-out", kind="operand")


def _complex_operand(t: Any, value: Cplx, is_written: bool) -> CallArg:
    from .complex_values import interleaved, whole_view

    if isinstance(value.re, Num) and isinstance(value.im, Num):
        part = PARTS[value.dtype]
        body = t.scalar_body()
        numbers = [body.cast(t.scalar_slot(body, x), part) for x in (value.re, value.im)]
        return CallArg("complex", operand=numbers[0], imag=numbers[1], dtype=value.dtype, python=value.python)
    view = whole_view(value)
    if view is None:
        if is_written:
            raise PlanRefused("complex numbers in two arrays are written by a call-out", kind="operand")
        view = interleaved(t, value, "temp")
    return CallArg("array", view=view, is_written=is_written)


# --- results ----------------------------------------------------------------------------------------------------------

def _result(t: Any, made: Made, extents: dict[int, ScalarReg]) -> tuple[CallResult, Value]:
    if not made.dtype:
        return CallResult("ignored"), Static(None)
    t.has_odd = t.has_odd or made.dtype in ODD
    if made.shape is None:
        return _scalar(t, made)
    if made.dtype not in COMPUTE and made.dtype not in PARTS:
        raise PlanRefused(f"dtype {made.dtype} is not planned", kind="dtype")
    shape: list[Expr] = []
    regs: list[ScalarReg | None] = []
    for extent in made.shape:
        if isinstance(extent, Unknown):
            reg = extents.get(id(extent))
            if reg is None:
                reg = extents[id(extent)] = ScalarReg("i64", "n")
                reg.expr = _extent(t, extent)
            assert reg.expr is not None
            regs.append(reg)
            shape.append(reg.expr)
        else:
            regs.append(None)
            shape.append(t.facts.norm(extent))
    return CallResult("array", made.dtype, view := new_array(t, tuple(shape), made.dtype), tuple(regs)), _array(view)


def _extent(t: Any, extent: Unknown) -> Expr:
    if extent.high is not None:
        return t.facts.new_register("n", extent.low, extent.high)
    expr = register("n", 0, 2**47)  # no array is larger; that bounds numbers, and no allocation
    t.facts.bounds_of[expr.terms[0][0][0]] = (as_expr(extent.low), None)
    return expr


def new_array(t: Any, shape: tuple[Expr, ...], dtype: str) -> View:
    """The whole of a fresh 'out' buffer, C-ordered, not yet allocated."""
    item = ITEM_BYTES[dtype]
    size = const(item)
    for extent in shape:
        size = size * extent
    buffer = Buffer("out", dtype, size)
    t.clock += 1
    t.born[buffer] = t.clock
    buffer.home = View(buffer, dtype, shape, contiguous_strides(shape, item), const(0))
    return buffer.home


def _array(view: View) -> Value:
    if view.dtype not in PARTS:
        return Arr(view)
    from .complex_values import split_view
    return split_view(view)


def _scalar(t: Any, made: Made) -> tuple[CallResult, Value]:
    if made.dtype in PARTS:
        part = PARTS[made.dtype]
        regs = [ScalarReg(part, "call") for _ in range(2)]
        numbers = [Num(reg, part) for reg in regs]
        return (CallResult("complex", made.dtype, dst=regs[0], imag=regs[1], python=made.python),
                Cplx(numbers[0], numbers[1], made.dtype, made.python))
    if made.dtype not in COMPUTE:
        raise PlanRefused(f"dtype {made.dtype} is not planned", kind="dtype")
    reg = ScalarReg(COMPUTE[made.dtype], "call")
    if reg.dtype == "i64":
        reg.expr = t.facts.new_register("call", *((0, 2**32 - 1) if made.dtype == "u32" else (None, None)))
    return (CallResult("scalar", made.dtype, dst=reg, python=made.python),
            Num(reg.expr if reg.expr is not None else reg, made.dtype, made.python))


def constant_value(value: Value) -> object:
    """The value of an operand that is a constant of the program: a number, None, text, or tuples and lists of these.

    Raises PlanRefused for one that is known only when the program runs.
    """
    if isinstance(value, Static):
        return value.value
    if isinstance(value, Num) and value.is_constant:
        return {"int": int, "float": float, "bool": bool}.get(value.python, NUMPY_DTYPES[value.dtype].type)(value.constant)
    if isinstance(value, Seq):
        items = [constant_value(item) for item in value.items]
        return tuple(items) if value.kind == "tuple" else items
    if isinstance(value, Num) and isinstance(value.operand, Literal):
        return value.operand.value
    raise PlanRefused("an operand decides what a call-out makes, and is known only while the program runs", kind="operand")
