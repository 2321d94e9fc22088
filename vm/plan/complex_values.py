"""Complex numbers as pairs of real parts: what a kernel does to both parts, and what it does to their product.

An array argument is read and written through two strided views of its memory; temporaries keep their parts apart.
Kernels that only move elements, and linear reductions, apply to each part; products are four real ones. Arithmetic by elements
is in `complex_arithmetic.py`, powers are in `complex_powers.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...templates.records import replace
from ...templates.registry import BY_NAME
from .complex_arithmetic import (
    PART_OF,
    WIDE,
    common_dtype,
    complex_dtype,
    divided,
    is_python,
    multiplied,
    of_parts,
    parts_of,
    unary,
)
from .extents import const
from .planner_errors import PlanRefused
from .steps import ITEM_BYTES, AllocStep, Buffer, Literal, View, contiguous_strides
from .values import Arr, Cplx, Map, Num, Seq, Static, Value, python_float, python_int

# each part by itself; zeros stand for the imaginary part of a real operand
_PARTWISE = {
    "subscript", "np.reshape", "arr.reshape", "np.ravel", "arr.ravel", "arr.flatten", "np.transpose", "arr.transpose",
    "np.permute_dims", "np.matrix_transpose", "np.swapaxes", "arr.swapaxes", "np.moveaxis", "np.expand_dims",
    "np.squeeze", "arr.squeeze", "np.broadcast_to", "np.atleast_1d", "np.atleast_2d", "np.flip", "np.flipud",
    "np.fliplr", "np.rot90", "np.diagonal", "arr.diagonal", "np.diag", "np.tril", "np.triu", "np.copy", "arr.copy",
    "np.ascontiguousarray", "np.concatenate", "np.stack", "np.vstack", "np.hstack", "np.column_stack", "np.dstack",
    "np.repeat", "arr.repeat", "np.tile", "np.roll", "np.take", "arr.take", "np.append", "np.zeros_like",
    "np.empty_like", "np.sum", "arr.sum", "np.mean", "arr.mean", "np.cumsum", "arr.cumsum", "np.trace", "arr.trace",
    "np.diff", "np.add.reduce", "op.pos", "np.positive", "np.negative", "op.neg", "np.where", "np.extract",
    "np.lib.stride_tricks.sliding_window_view", "np.add", "np.subtract", "op.add", "op.sub",
}
# views of what is C-ordered: the order of the parts, which have gaps, says nothing about that
_AS_THEY_LIE = {"np.ravel", "arr.ravel", "np.ascontiguousarray"}
_BILINEAR = {"np.matmul", "op.matmul", "np.dot", "arr.dot", "np.inner", "np.outer", "np.multiply.outer", "np.tensordot"}
_PRODUCTS = {"op.mul", "np.multiply"}
_QUOTIENTS = {"op.truediv", "np.divide"}
# kernels whose dtype argument may ask for complex numbers, and its place
_CREATORS = {"np.zeros": 1, "np.ones": 1, "np.empty": 1, "np.zeros_like": 1, "np.ones_like": 1, "np.empty_like": 1,
             "np.full": 2, "arr.astype": 1, "np.array": 1, "np.asarray": 1}
_CASTS = {"np.complex64": "c64", "np.complex128": "c128"}
_MAY_CREATE = frozenset((*_CREATORS, *_CASTS, "py.complex"))


def _pair(parts: Iterable[Value], dtype: str, python: str = "") -> Cplx:
    re, im = parts
    return Cplx(re, im, dtype, python)


def _holds_complex(value: Value) -> bool:
    return isinstance(value, Cplx) or (isinstance(value, Seq) and any(map(_holds_complex, value.items)))


def is_complex_call(name: str, values: Sequence[Value]) -> bool:
    """Whether a kernel has complex operands, or makes complex numbers."""
    for value in values:
        if isinstance(value, (Cplx, Seq)) and _holds_complex(value):
            return not name.startswith(("py.list", "py.tuple", "py.zip", "py.enumerate", "py.dict")) and not (
                name in ("subscript", "store") and not isinstance(values[0], Cplx) and not (
                    name == "store" and isinstance(values[0], Arr)))
    if name not in _MAY_CREATE:
        return False
    at = _CREATORS.get(name)
    if at is not None and len(values) > at:
        return complex_dtype(values[at]) is not None
    return at is None


def real_part(value: Value) -> Value:
    """The real part of anything: structure and real values stay."""
    if isinstance(value, Cplx):
        return value.re
    return Seq([real_part(v) for v in value.items], value.kind) if isinstance(value, Seq) and _holds_complex(value) else value


def _imaginary(t: Any, value: Value) -> Value:
    """The imaginary part of an operand, zero for a real one."""
    if isinstance(value, Cplx):
        return value.im
    if isinstance(value, Num):
        return python_float(0.0) if value.python else Num(Literal(0.0, "f64"), "f64")
    if isinstance(value, Arr):
        from .rules_create import filled
        return filled(t, value.shape, "f32" if value.dtype == "f32" else "f64", python_int(const(0)))
    return value


def _has_defaults(name: str, values: Sequence[Value], places: Iterable[int], *others: object) -> bool:
    """Whether these operands of a kernel are what it takes when they are left out, or one of `others`."""
    for i in places:
        value = values[i] if i < len(values) else None
        if value is None:
            continue
        if name not in BY_NAME or not (isinstance(value, Static) or (isinstance(value, Num) and value.is_constant)):
            return False
        constant = value.value if isinstance(value, Static) else value.constant
        usual = (BY_NAME[name].parameters[i].default, *others)
        # a dtype may equal None
        if constant is not ... and not any(
                constant is one or (isinstance(constant, (int, float, str)) and constant == one) for one in usual):
            return False
    return True


def _cast(t: Any, value: Value, dtype: str) -> Value:
    """A number or array as complex numbers of a dtype, fresh."""
    part = PART_OF[dtype]
    if not isinstance(value, (Arr, Num, Cplx)):
        raise PlanRefused("complex numbers of a sequence", kind="array-like")
    made = of_parts(t, [value], lambda body, re, im: (body.cast(re, part), body.cast(im, part)), dtype)
    made.python = ""
    return made


def complex_kernel(t: Any, name: str, values: Sequence[Value]) -> Value:
    """A kernel of complex operands, or one that makes complex numbers."""
    value = _complex_kernel(t, name, values)
    if name.startswith("np.") and isinstance(value, Cplx) and value.python:
        return Cplx(value.re, value.im, value.dtype)  # NumPy's functions of Python's numbers make NumPy's
    return value


def _complex_kernel(t: Any, name: str, values: Sequence[Value]) -> Value:
    from .typed import NONE, RULES
    if name == "store":
        return _store(t, *values)
    at = _CREATORS.get(name)
    wanted = complex_dtype(values[at]) if at is not None and len(values) > at else None
    if name in _CASTS:
        source = values[0] if values else python_float(0.0)
        if isinstance(source, Cplx) and isinstance(source.re, Arr) and source.dtype == _CASTS[name]:
            return source
        return _cast(t, source, _CASTS[name])
    if name == "py.complex":
        raise PlanRefused("complex() is not planned", kind="kernel:py.complex")
    if at is not None and (wanted is not None or name in ("np.array", "np.asarray", "np.full", "np.ones_like")):
        return _create(t, name, list(values), wanted)
    first = values[0] if values else NONE
    if isinstance(first, Cplx) and _has_defaults(name, values, range(1, len(values))):
        done = unary(t, name, first)
        if done is not None:
            return done
    if name in _PRODUCTS | _QUOTIENTS | {"np.add", "np.subtract", "np.negative", "np.positive"} and len(values) > 2:
        return _into(t, complex_kernel(t, name, values[:2]), values[2], values[3:])
    if name == "arr.set_shape":
        return RULES[name](t, first, *values[1:])
    if name in ("py.len", "np.shape", "np.ndim", "np.size"):
        return RULES[name](t, real_part(first), *values[1:])
    if name in _PRODUCTS:
        return multiplied(t, *values)
    if name in _QUOTIENTS:
        return divided(t, *values)
    if name in ("op.pow", "np.power"):
        from .complex_powers import power
        return power(t, values[0], values[1], is_operator=name == "op.pow")
    if (name in ("np.equal", "np.not_equal") and not _has_defaults(name, values, range(2, len(values)))) or (
            name in ("np.negative", "np.positive") and not _has_defaults(name, values, range(1, len(values)))):
        raise PlanRefused(f"{name} of complex numbers with these arguments", kind="dtype")
    if name in ("np.equal", "np.not_equal"):
        return complex_compare(t, "==" if name == "np.equal" else "!=", values[0], values[1])
    if name in _BILINEAR:
        return _bilinear(t, name, values)
    if name == "np.einsum" and isinstance(values[1], Seq) and len(values[1].items) <= 2:
        return _einsum(t, values)
    if name in _PARTWISE:
        return _partwise(t, name, values, RULES)
    raise PlanRefused(f"{name} of complex numbers is not planned", kind="dtype")


def _partwise(t: Any, name: str, values: Sequence[Value], rules: dict[str, Any]) -> Value:
    from .rules_elementwise import given
    from .typed import NONE
    if name in ("np.add", "np.subtract", "op.add", "op.sub") or name in ("np.negative", "np.positive", "op.neg"):
        dtype = common_dtype(values)
        part = PART_OF[dtype]
        words = {"add": "add", "subtract": "sub", "sub": "sub", "negative": "neg", "neg": "neg", "positive": "mov"}
        op = words[name.split(".")[1]]
        if len(values) == 1:
            return of_parts(t, values, lambda body, re, im: (body.op(op, part, re), body.op(op, part, im)), dtype)
        return of_parts(t, values, lambda body, ar, ai, br, bi: (
            body.op(op, part, ar, br), body.op(op, part, ai, bi)), dtype)
    if name == "np.where":
        condition, x, y = values
        dtype = common_dtype([x, y])
        part = PART_OF[dtype]
        if isinstance(condition, Cplx):
            raise PlanRefused("a complex condition", kind="dtype")
        both = [[_as(t, p, part) for p in parts_of(t, v, part)] for v in (x, y)]
        return _pair((rules[name](t, condition, p, q) for p, q in zip(*both, strict=True)), dtype)
    if name in ("np.concatenate", "np.stack", "np.vstack", "np.hstack", "np.column_stack", "np.dstack", "np.append"):
        if any(given(v) for p, v in zip(BY_NAME[name].parameters, values, strict=False) if p.name in ("out", "dtype")):
            raise PlanRefused(f"{name} of complex numbers into another dtype or array", kind="dtype")
        items = list(t.children(values[0])) if name != "np.append" else list(values[:2])
        items = [_strong(t, v) for v in items]
        dtype = common_dtype(items)
        wide = [v if isinstance(v, Cplx) and v.dtype == dtype else _cast(t, v, dtype) for v in items]
        whole = [Seq([getattr(w, side) for w in wide], "tuple") for side in ("re", "im")]
        if name == "np.append":
            return _pair((rules[name](t, *w.items, *values[2:]) for w in whole), dtype)
        return _pair((rules[name](t, w, *values[1:]) for w in whole), dtype)
    first = values[0]
    if name in _AS_THEY_LIE and isinstance(first, Cplx):
        from .rules_view import is_contiguous
        view = whole_view(first)
        if view is not None and is_contiguous(t, view):
            return split_view(rules[name](t, Arr(view), *values[1:]).view)
    if not isinstance(first, Cplx) or any(map(_holds_complex, values[1:])):
        raise PlanRefused(f"{name} of these complex operands is not planned", kind="dtype")
    given_names = {p.name: i for i, p in enumerate(BY_NAME[name].parameters) if i < len(values) and given(values[i])
                   } if name in BY_NAME else {}
    if name.endswith("_like") and "dtype" in given_names:  # of a real dtype, or it were no matter of parts
        return rules[name](t, first.re, *values[1:])
    if given_names.keys() & {"dtype", "out", "prepend", "append"}:  # what comes before or behind has parts of its own
        raise PlanRefused(f"{name} of complex numbers into another dtype or array", kind="dtype")
    if name in ("np.mean", "arr.mean"):  # NumPy divides by a complex number
        from .rules_reduce import count_of_axes
        if "where" in given_names:
            raise PlanRefused("a mean of some complex numbers", kind="reduce-option:where")
        count = count_of_axes(t, first.re, values[1] if len(values) > 1 else NONE)
        return divided(t, _partwise(t, "np.sum", values, rules), count)
    if "initial" in given_names:
        rest = [NONE if i == given_names["initial"] else v for i, v in enumerate(values) if i]
        return Cplx(rules[name](t, first.re, *values[1:]), rules[name](t, first.im, *rest), first.dtype)
    return _both(first, lambda part: rules[name](t, part, *values[1:]))


def _both(value: Cplx, rule: Callable[[Value], Value]) -> Cplx:
    """What a rule makes of each part. Parts that lie together stay together, whatever the first one's plan found out."""
    re, whole = rule(value.re), whole_view(value)
    if whole is not None and isinstance(re, Arr) and re.view.buffer is whole.buffer:
        v, step = re.view, ITEM_BYTES[PART_OF[value.dtype]]
        return Cplx(re, Arr(v.window(v.shape, v.strides, v.offset + step)), value.dtype)
    return Cplx(re, rule(value.im), value.dtype)


def _strong(t: Any, value: Value) -> Value:
    """A Python number as functions that begin with np.asarray take it: its dtype counts."""
    from .rules_elementwise import as_numpy
    if isinstance(value, Num) and value.python:
        return as_numpy(t, value)
    return Cplx(value.re, value.im, "c128") if isinstance(value, Cplx) and value.python else value


def _as(t: Any, value: Value, part: str) -> Value:
    """A real value in the dtype of the parts."""
    from .rules_elementwise import elementwise
    if value.dtype == part and not (isinstance(value, Num) and value.python):  # type: ignore[union-attr]
        return value
    return elementwise(t, [value], part, lambda body, s: body.cast(s[0], part))


def _combined(t: Any, a: Value, b: Value, sign: str) -> Value:
    from .rules_elementwise import as_array, ufunc
    value = ufunc(t, sign, [a, b])
    return as_array(t, value) if isinstance(a, Arr) else value  # an array without axes stays one


def _bilinear(t: Any, name: str, values: Sequence[Value]) -> Value:
    """A product of two operands, as real products of their parts."""
    from .rules_elementwise import given
    from .typed import RULES
    a, b, *rest = values if name == "op.matmul" else [_strong(t, v) for v in values]
    if rest and name.rpartition(".")[2] in ("matmul", "dot", "outer") and given(rest[0]):
        raise PlanRefused(f"{name} of complex numbers with out=", kind=f"kernel:{name}")
    dtype = common_dtype([a, b])
    part = PART_OF[dtype]

    def product(x: Value, y: Value) -> Value:
        return RULES[name](t, _as(t, x, part), _as(t, y, part), *rest)
    return _four(t, a, b, product, dtype)


def _four(t: Any, a: Value, b: Value, product: Callable[[Value, Value], Value], dtype: str) -> Cplx:
    with t.unrounded():
        if not isinstance(b, Cplx):
            assert isinstance(a, Cplx)
            return Cplx(product(a.re, b), product(a.im, b), dtype)
        if not isinstance(a, Cplx):
            return Cplx(product(a, b.re), product(a, b.im), dtype)
        return Cplx(_combined(t, product(a.re, b.re), product(a.im, b.im), "subtract"),
                    _combined(t, product(a.re, b.im), product(a.im, b.re), "add"), dtype)


def _einsum(t: Any, values: Sequence[Value]) -> Value:
    from .typed import RULES
    subscripts, operands, *rest = values
    items = t.children(operands)
    if len(items) == 1:
        return _both(items[0], lambda part: RULES["np.einsum"](t, subscripts, Seq([part], "tuple"), *rest))
    dtype = common_dtype(items)
    part = PART_OF[dtype]

    def product(x: Value, y: Value) -> Value:
        return RULES["np.einsum"](t, subscripts, Seq([_as(t, x, part), _as(t, y, part)], "tuple"), *rest)
    return _four(t, items[0], items[1], product, dtype)


def _create(t: Any, name: str, values: list[Value], wanted: str | None) -> Value:
    """Arrays of complex numbers."""
    from .rules_elementwise import given
    from .typed import NONE, RULES
    at = _CREATORS[name]
    if isinstance(values[0], (Arr, Cplx)) and isinstance(real_part(values[0]), Arr) and not real_part(values[0]).ndim:  # type: ignore[union-attr]
        raise PlanRefused(f"{name} of complex numbers without axes", kind="array-like")
    if name == "arr.astype":
        assert wanted is not None
        if not _has_defaults(name, values, (2, 3, 4), "C"):
            raise PlanRefused("astype with these arguments", kind="kernel:arr.astype")
        if not _has_defaults(name, values, (5,)):
            if not (isinstance(values[0], Cplx) and values[0].dtype == wanted):
                raise PlanRefused("astype with these arguments", kind="kernel:arr.astype")
            return values[0]
        return _cast(t, values[0], wanted)
    if wanted is None and len(values) > at and given(values[at]):
        raise PlanRefused("complex numbers become real ones", kind="dtype")
    if name in ("np.array", "np.asarray"):
        source = values[0]
        if not _has_defaults(name, values, range(2, len(values))):
            raise PlanRefused(f"{name} of complex numbers with these arguments", kind=f"kernel:{name}")
        if isinstance(source, Seq):
            items = t.children(source)
            strong = [replace(v, python="") if isinstance(v, (Num, Cplx)) else v for v in items]  # of the item, an array
            common = wanted or common_dtype(strong)
            if not all(isinstance(v, (Num, Cplx)) for v in items):
                raise PlanRefused("an array of sequences of complex numbers", kind="array-like")
            both = [parts_of(t, v, PART_OF[common]) for v in items]
            return _pair((RULES["np.array"](t, Seq([_as(t, p[i], PART_OF[common]) for p in both], "list")) for i in (0, 1)),
                         common)
        if isinstance(source, Cplx) and name == "np.asarray" and wanted in (None, source.dtype):
            return source
        return _cast(t, source, wanted or source.dtype)  # type: ignore[union-attr]
    like = name.endswith("_like")
    dtype: str | None = wanted or values[0].dtype if like else wanted  # type: ignore[union-attr]
    fill: Value = NONE
    if name == "np.full":
        fill = values[1]
        dtype = wanted or (fill.dtype if isinstance(fill, Cplx) else None)
    if dtype is None or dtype not in PART_OF:
        raise PlanRefused(f"{name} of complex numbers", kind="dtype")
    part = Static(np.dtype(np.float32 if dtype == "c64" else np.float64))
    values += [NONE] * (at + 1 - len(values))
    values[at] = part
    values[0] = real_part(values[0])
    if name == "np.full":
        whole = parts_of(t, fill, PART_OF[dtype])
        return _pair((RULES[name](t, values[0], _as(t, p, PART_OF[dtype]), part, *values[3:]) for p in whole), dtype)
    other = {"np.ones": "np.zeros", "np.ones_like": "np.zeros_like"}.get(name, name)
    return Cplx(RULES[name](t, *values), RULES[other](t, *values), dtype)


def _store(t: Any, base: Value, index: Value, value: Value) -> Value:
    """base[index] = value: both parts of the right side are complete before the first is stored."""
    from .typed import NONE, RULES
    if not isinstance(base, Cplx):
        raise PlanRefused("complex numbers are stored into an array of real ones", kind="dtype")
    if isinstance(value, (Seq, Map, Static)):
        raise PlanRefused("a sequence is stored into an array", kind="array-like")
    re, im = parts_of(t, value, PART_OF[base.dtype])
    if isinstance(im, Arr) and isinstance(base.re, Arr) and im.view.buffer is base.re.view.buffer and not (
            isinstance(base.im, Arr) and im.view.is_same(base.im.view)):
        im = t.copy(im)
    from .rules_index import only_mask
    mask = only_mask(t, index)
    if mask is not None and isinstance(base.re, Arr) and isinstance(base.im, Arr):
        from .rules_select import dense_under, spread_mask
        dense = [dense_under(t, base.re, mask, re), dense_under(t, base.im, mask, im)]  # before the first is stored
        if dense[0] is not None and dense[1] is not None:
            over = spread_mask(base.re, mask)
            if dense[1].view.buffer is base.re.view.buffer:
                dense[1] = t.copy(dense[1])
            t.write_view(base.re, dense[0], over)
            t.write_view(base.im, dense[1], over)
            return NONE
    RULES["store"](t, base.re, index, re)
    RULES["store"](t, base.im, index, im)
    return NONE


def _into(t: Any, value: Value, out: Value, rest: Sequence[Value]) -> Value:
    """Store a value into `out=`."""
    from .rules_elementwise import given
    if isinstance(out, Seq) and len(out.items) == 1:
        out = out.items[0]
    if not given(out):
        return value
    if not isinstance(out, Cplx) or not isinstance(value, Cplx) or any(
            given(v) and not (isinstance(v, Static) or (isinstance(v, Num) and v.is_constant and v.constant)) for v in rest):
        raise PlanRefused("out= of complex numbers with these arguments", kind="ufunc-where")
    if out.dtype == "c64" and value.dtype == "c128":
        raise PlanRefused("out= of a narrower dtype", kind="ufunc-types")
    _store(t, out, Static(...), value)
    return out


def complex_inplace(t: Any, op: str, a: Value, b: Value) -> Value:
    """a OP= b."""
    if isinstance(a, Arr):
        raise PlanRefused("complex numbers are stored into an array of real ones", kind="dtype")
    value = t.apply(op, a, b)
    if isinstance(a, Cplx) and isinstance(a.re, Arr):
        assert isinstance(value, Cplx)
        if value.dtype != a.dtype and a.dtype == "c64":
            raise PlanRefused("an in-place operator that narrows", kind="ufunc-types")
        shape = value.re.shape if isinstance(value.re, Arr) else ()
        if len(shape) != a.re.ndim or not all(t.facts.ask_equal(x, y) for x, y in zip(shape, a.re.shape, strict=True)):
            raise PlanRefused("an in-place operator that does not broadcast", kind="shape-error")
        _store(t, a, Static(...), value)
        return a
    return value


def complex_compare(t: Any, op: str, a: Value, b: Value) -> Value:
    """== and != of complex numbers."""
    if op not in ("==", "!=") or not all(isinstance(v, (Arr, Num, Cplx)) for v in (a, b)):
        raise PlanRefused("complex numbers have no order", kind="dtype")
    from .rules_elementwise import elementwise
    part = PART_OF[common_dtype([a, b])]
    flat = [p for v in (a, b) for p in parts_of(t, v, part)]
    word, join = ("eq", "and") if op == "==" else ("ne", "or")

    def build(body: Any, s: list[Any]) -> Any:
        ar, ai, br, bi = (body.cast(x, part) for x in s)
        return body.op(join, "bool", body.op(word, part, ar, br), body.op(word, part, ai, bi))
    value = elementwise(t, flat, "bool", build)
    if isinstance(value, Num) and is_python(a) and is_python(b):
        value.python = "bool"
    return value


def complex_attribute(t: Any, value: Cplx, name: str) -> Value:
    """real, imag, and what follows from shape and dtype."""
    from .typed import ATTRIBUTES
    if name == "real":
        return value.re
    if name == "imag":
        return value.im
    if name in ("T", "mT"):
        return Cplx(ATTRIBUTES[name](t, value.re), ATTRIBUTES[name](t, value.im), value.dtype)
    if name == "dtype":
        return Static(WIDE[value.dtype])
    if name == "itemsize":
        return python_int(const(ITEM_BYTES[value.dtype]))
    if name == "nbytes":
        return python_int(t.int_expr(ATTRIBUTES["size"](t, value.re)) * ITEM_BYTES[value.dtype])
    if name in ("shape", "ndim", "size"):
        return ATTRIBUTES[name](t, value.re)
    raise PlanRefused(f"attribute {name!r} of complex numbers", kind="attribute")


# --- results ----------------------------------------------------------------------------------------------------------

def whole_view(value: Cplx) -> View | None:
    """The view of complex memory that both parts are views of; None where they lie apart."""
    if not isinstance(value.re, Arr) or not isinstance(value.im, Arr):
        return None
    a, b = value.re.view, value.im.view
    if a.buffer is not b.buffer or a.buffer.dtype != value.dtype or a.shape != b.shape or a.strides != b.strides or (
            (b.offset - a.offset).value != ITEM_BYTES[a.dtype]):
        return None
    return View(a.buffer, value.dtype, a.shape, a.strides, a.offset, a.is_read_only)


def split_view(view: View) -> Cplx:
    """The complex numbers of a view of complex memory."""
    part = PART_OF[view.dtype]
    parts = [Arr(View(view.buffer, part, view.shape, view.strides, view.offset + i * ITEM_BYTES[part], view.is_read_only))
             for i in (0, 1)]
    return Cplx(parts[0], parts[1], view.dtype)


def interleaved(t: Any, value: Cplx, kind: str = "out") -> View:
    """A fresh buffer ('out' or 'temp') that holds both parts as NumPy does."""
    assert isinstance(value.re, Arr) and isinstance(value.im, Arr)
    shape = tuple(t.facts.norm(e) for e in value.re.shape)
    item, part = ITEM_BYTES[value.dtype], PART_OF[value.dtype]
    size = const(item)
    for extent in shape:
        upper = t.facts.upper_entry(extent)
        if upper is None:
            raise PlanRefused("no bound for a complex result", kind="unbounded-temp")
        size = size * upper
    buffer = Buffer(kind, value.dtype, size)
    buffer.home = View(buffer, value.dtype, shape, contiguous_strides(shape, item), const(0))
    if kind == "out" and not all(e.is_entry for e in shape):
        t.emit(AllocStep(buffer))
    for i, source in enumerate((value.re, value.im)):
        t.write_view(Arr(View(buffer, part, shape, buffer.home.strides, const(i * ITEM_BYTES[part]))), source)
    return buffer.home
