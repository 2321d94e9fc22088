"""Methods of ufuncs: reduce, accumulate, at. (outer: rules_linear.)"""

from __future__ import annotations

from .extents import Expr, const
from .planner_errors import PlanRefused
from .rules_elementwise import as_array, given, ufunc
from .rules_index import position_in
from .rules_reduce import running
from .steps import ForStep, ScalarReg, StoreStep, View
from .typed import NONE, RULES, Typer, rule
from .values import COMPUTE, Arr, Num, Seq, Value, python_int

_REDUCE = {"add": "np.sum", "multiply": "np.prod", "maximum": "np.max", "minimum": "np.min", "logical_and": "np.all",
           "logical_or": "np.any"}
_ACCUMULATE = {"add": "add", "multiply": "mul", "maximum": "maximum", "minimum": "minimum"}
_AT = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor")


def _register_reduce(name: str, kernel: str) -> None:
    def reduce(t: Typer, array: Value, axis: Value | None = None, dtype: Value = NONE, out: Value = NONE,
               keepdims: Value = NONE, initial: Value = NONE, where: Value = NONE) -> Value:
        axis = python_int(const(0)) if axis is None else axis
        arr = as_array(t, array)
        if name in ("logical_and", "logical_or"):
            if given(dtype) or given(initial):
                raise PlanRefused(f"np.{name}.reduce with dtype= or initial=", kind=f"kernel:np.{name}.reduce")
            return RULES[kernel](t, arr, axis, out, keepdims, where)
        if kernel in ("np.max", "np.min"):
            if given(dtype):
                raise PlanRefused(f"np.{name}.reduce with dtype=", kind=f"kernel:np.{name}.reduce")
            return RULES[kernel](t, arr, axis, out, keepdims, initial, where)
        return RULES[kernel](t, arr, axis, dtype, out, keepdims, initial, where)
    rule(f"np.{name}.reduce")(reduce)


for _name, _kernel in _REDUCE.items():
    _register_reduce(_name, _kernel)


def _register_accumulate(name: str, op: str) -> None:
    def accumulate(t: Typer, array: Value, axis: Value | None = None, dtype: Value = NONE, out: Value = NONE) -> Value:
        if axis is None or not given(axis):  # None is the only axis that there is, and no axes flattened into one
            if axis is not None and as_array(t, array).ndim != 1:
                raise PlanRefused(f"np.{name}.accumulate over axis None of an array that has not one axis", kind="axis-error")
            axis = python_int(const(0))
        return running(t, array, axis, dtype, out, op, f"{name}.accumulate")
    rule(f"np.{name}.accumulate")(accumulate)


for _name, _op in _ACCUMULATE.items():
    _register_accumulate(_name, _op)


def _register_at(name: str) -> None:
    def at(t: Typer, a: Value, indices: Value, b: Value = NONE) -> Value:
        """a[indices] OP= b, one element after another, so that equal indices add up."""
        if isinstance(indices, Seq) and len(indices.items) == 1:
            indices = indices.items[0]
        if not isinstance(a, Arr) or not isinstance(indices, Arr) or indices.ndim != 1 or indices.dtype[0] not in "iu":
            raise PlanRefused(f"np.{name}.at with these indices", kind=f"kernel:np.{name}.at")
        if not isinstance(b, (Arr, Num)) or (isinstance(b, Arr) and b.ndim > a.ndim):
            raise PlanRefused(f"np.{name}.at with this operand", kind=f"kernel:np.{name}.at")
        t.note_write(a)
        if indices.view.buffer is a.view.buffer:
            indices = t.copy(indices)
        if isinstance(b, Arr) and b.view.buffer is a.view.buffer:
            b = t.copy(b)
        n = indices.shape[0]
        rest = a.shape[1:]
        if isinstance(b, Arr):
            b = Arr(t.broadcast_view(b.view, (n, *rest)))
        var = ScalarReg("i64", "at")
        var.expr = t.facts.new_register("at", 0, n - 1)
        outer, t.steps = t.steps, []
        t.depth += 1
        place = position_in(t, t.int_expr(t.load(_row(indices, var.expr))), a.shape[0])
        target = _row(a, place)
        item: Value = b
        if isinstance(b, Arr):
            item = _row(b, var.expr)
        if rest:
            value = ufunc(t, name, [target, item])
            t.write_view(target, value)
        else:
            value = ufunc(t, name, [t.load(target), t.load(item) if isinstance(item, Arr) else item])
            assert isinstance(value, Num)
            body = t.scalar_body()
            slot = body.cast(t.scalar_slot(body, value), COMPUTE[a.dtype])
            t.emit(StoreStep(target.view, slot))
        t.depth -= 1
        inner, t.steps = t.steps, outer
        t.emit(ForStep(var, const(0), n, const(1), inner))
        return NONE
    rule(f"np.{name}.at")(at)


for _name in _AT:
    _register_at(_name)


def _row(a: Arr, index: Expr) -> Arr:
    v = a.view
    return Arr(View(v.buffer, v.dtype, v.shape[1:], v.strides[1:], v.offset + v.strides[0] * index))
