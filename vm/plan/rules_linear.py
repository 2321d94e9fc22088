"""Products: matmul, dot, inner, outer, einsum, tensordot. Floating ones become Contract, all others a reducing nest."""

from __future__ import annotations

import string
from math import prod

from .body import NestBody
from .contraction import contraction, first_pair, implied_target
from .extents import Expr, const
from .planner_errors import PlanRefused
from .rules_elementwise import as_array, as_numpy, given, only_defaults, resolve_dtypes, ufunc
from .rules_view import expand_dims, is_contiguous, permute, ravel, reshaped
from .steps import ITEM_BYTES, Contract, Nest, NestOut, View, contiguous_strides
from .typed import NONE, Typer, rule
from .values import COMPUTE, Arr, Num, Static, Value, python_int


@rule("op.matmul")
def at_operator(t: Typer, a: Value, b: Value) -> Value:
    return matmul(t, a, b)


@rule("np.matmul")
def matmul(t: Typer, a: Value, b: Value, out: Value = NONE, casting: Value = NONE, dtype: Value = NONE) -> Value:
    if not given(dtype) and any(isinstance(x, Num) or (isinstance(x, Arr) and not x.ndim) for x in (a, b)):
        raise PlanRefused("a matrix product of a number", kind="value-error")
    if given(dtype) or not isinstance(a, Arr) or not isinstance(b, Arr):
        raise PlanRefused("np.matmul with dtype= or scalars", kind="kernel:np.matmul")
    result = product(t, a, b)
    if given(out):
        from .rules_elementwise import into_out
        return into_out(t, result, out, None)
    return result


def product(t: Typer, a: Arr, b: Arr) -> Value:
    """a @ b with NumPy's rules for vectors and batches."""
    lead_a, lead_b = a.ndim == 1, b.ndim == 1
    if lead_a:
        a = expand_dims(t, a, python_int(const(0)))  # type: ignore[assignment]
    if lead_b:
        b = expand_dims(t, b, python_int(const(1)))  # type: ignore[assignment]
    if not t.must_equal(a.shape[-1], b.shape[-2], "VALUE"):
        raise PlanRefused("matmul of extents that differ", kind="shape-error")
    batch = t.broadcast(a.shape[:-2], b.shape[:-2])
    m, k, n = a.shape[-2], t.facts.norm(a.shape[-1]), b.shape[-1]
    av = t.broadcast_view(a.view, (*batch, m, k))
    bv = t.broadcast_view(b.view, (*batch, k, n))
    out = contract(t, batch, m, n, k, av, bv, a.dtype, b.dtype, vector=lead_a and lead_b)
    drop = ([out.ndim - 2] if lead_a else []) + ([out.ndim - 1] if lead_b else [])
    if not drop:
        return out
    left = permute(out, tuple(i for i in range(out.ndim) if i not in drop))
    if left.ndim:
        left.view.buffer.home = left.view
        return left
    return t.load(left)


def contract(t: Typer, batch: tuple[Expr, ...], m: Expr, n: Expr, k: Expr, av: View, bv: View, a_dtype: str,
             b_dtype: str, vector: bool = False) -> Arr:
    """out[batch, m, n] = sum over k of a[batch, m, k] * b[batch, k, n], fresh and C-ordered."""
    from .signature import NUMPY_DTYPES
    dtype = resolve_dtypes("matmul", (NUMPY_DTYPES[a_dtype], NUMPY_DTYPES[b_dtype]))[-1]
    out = t.new_temp((*batch, m, n), dtype)
    rounding = t.rounding if dtype == "f32" else ""
    if dtype in ("f32", "f64") and a_dtype == b_dtype and (rounding or not vector):
        t.emit(Contract(batch, t.facts.norm(m), t.facts.norm(n), t.facts.norm(k), av, bv, out.view, dtype,
                        position=t.pc, rounding=rounding))
        return out
    # two vectors are a reduction, other dtypes wrap exactly as NumPy's loops: a nest that reduces over k
    native = COMPUTE[dtype]
    zero = const(0)
    nb = len(batch)
    axes = (*batch, m, n, k)
    left = View(av.buffer, av.dtype, axes, (*av.strides[:nb], av.strides[nb], zero, av.strides[nb + 1]), av.offset)
    right = View(bv.buffer, bv.dtype, axes, (*bv.strides[:nb], zero, bv.strides[nb + 1], bv.strides[nb]), bv.offset)
    nest = NestBody()
    x, y = nest.cast(nest.view(left), native), nest.cast(nest.view(right), native)
    if native == "bool":
        slot, kind = nest.op("and", "bool", x, y), "any"
    else:
        slot, kind = nest.op("mul", native, x, y), "sum"
    target = View(out.view.buffer, dtype, axes, (*out.view.strides, zero), const(0))
    ops = nest.finish()
    t.emit(Nest(axes, nest.inputs, ops, [NestOut(nest.number(slot), kind, target, reduced=1 << (nb + 2))], t.pc))
    return out


@rule("np.dot", "arr.dot")
def dot(t: Typer, a: Value, b: Value, out: Value = NONE) -> Value:
    if not isinstance(a, Arr) or not isinstance(b, Arr) or not a.ndim or not b.ndim:
        result = _scaled(t, a, b)
    elif b.ndim <= 2 and (a.ndim <= 2 or b.ndim == 1):
        result = product(t, a, b)
    elif b.ndim == 2:
        rows = reshaped(t, a, (t.facts.norm(prod(a.shape[:-1], start=const(1))), a.shape[-1]))
        flat = product(t, rows, b)
        assert isinstance(flat, Arr)
        result = reshaped(t, flat, (*a.shape[:-1], b.shape[-1]))
    else:
        raise PlanRefused("np.dot of more than two axes on the right", kind="kernel:np.dot")
    if given(out):
        from .rules_elementwise import into_out
        if not isinstance(out, Arr) or not out.ndim or out.dtype != result.dtype or not is_contiguous(t, out.view):  # type: ignore[union-attr]
            raise PlanRefused("np.dot into an array that NumPy refuses", kind="ufunc-types")
        return into_out(t, result, out, None)
    return result


def _scaled(t: Typer, a: Value, b: Value) -> Value:
    """A product with a number, which is made an array: it promotes as one."""
    return ufunc(t, "multiply", [as_numpy(t, v) if isinstance(v, Num) and v.python else v for v in (a, b)])


@rule("np.vecdot")
def vecdot(t: Typer, a: Value, b: Value, axis: Value = NONE) -> Value:
    from .signature import NUMPY_DTYPES
    from .typed import RULES
    both = ufunc(t, "multiply", [a, b])
    dtype = Static(NUMPY_DTYPES[both.dtype])  # type: ignore[union-attr]  # unlike a sum's
    return RULES["np.sum"](t, both, axis if given(axis) else python_int(const(-1)), dtype)


@rule("np.inner")
def inner(t: Typer, a: Value, b: Value) -> Value:
    if not isinstance(a, Arr) or not isinstance(b, Arr) or not a.ndim or not b.ndim:
        return _scaled(t, a, b)
    if b.ndim == 1:
        return product(t, a, b)
    if b.ndim == 2 and a.ndim <= 2:
        return product(t, a, permute(b, (1, 0)))
    raise PlanRefused("np.inner of more than two axes", kind="kernel:np.inner")


@rule("np.vdot")
def vdot(t: Typer, a: Value, b: Value) -> Value:
    return product(t, ravel(t, as_array(t, a)), ravel(t, as_array(t, b)))  # type: ignore[arg-type]


@rule("np.outer")
def outer(t: Typer, a: Value, b: Value, out: Value = NONE, *rest: Value) -> Value:
    return _outer(t, "multiply", ravel(t, as_array(t, a)), ravel(t, as_array(t, b)), out, rest)


def _outer(t: Typer, name: str, a: Value, b: Value, out: Value, rest: tuple[Value, ...]) -> Value:
    only_defaults(f"{name}.outer", (out, *rest))
    x, y = as_array(t, a), as_array(t, b)
    v = x.view
    ones = (const(1),) * y.ndim
    wide = Arr(View(v.buffer, v.dtype, (*v.shape, *ones), (*v.strides, *((const(0),) * y.ndim)), v.offset))
    return ufunc(t, name, [wide, y])


def _register_outer(name: str) -> None:
    def rule_outer(t: Typer, a: Value, b: Value, out: Value = NONE, *rest: Value) -> Value:
        return _outer(t, name, a, b, out, rest)
    rule(f"np.{name}.outer")(rule_outer)


for _name in ("multiply", "add", "subtract", "divide", "maximum", "minimum", "power", "less", "less_equal", "greater",
              "greater_equal", "equal", "not_equal", "floor_divide", "remainder", "hypot", "arctan2", "bitwise_and",
              "bitwise_or", "bitwise_xor", "logical_and", "logical_or"):
    _register_outer(_name)


@rule("np.tensordot")
def tensordot(t: Typer, a: Value, b: Value, axes: Value = NONE) -> Value:
    x, y = as_array(t, a), as_array(t, b)
    if t.is_sequence(axes):
        first, second = t.children(axes)
        left = [t.axis_of(v, x.ndim) for v in (t.children(first) if t.is_sequence(first) else [first])]
        right = [t.axis_of(v, y.ndim) for v in (t.children(second) if t.is_sequence(second) else [second])]
    else:
        count = t.known_int(axes) if given(axes) else 2
        left, right = list(range(x.ndim - count, x.ndim)), list(range(count))
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    xs, ys = [next(letters) for _ in range(x.ndim)], [next(letters) for _ in range(y.ndim)]
    if len(left) != len(right) or len(set(left)) != len(left) or len(set(right)) != len(right):
        raise PlanRefused("tensordot axes that do not pair", kind="axis-error")
    for i, j in zip(left, right, strict=True):
        if not t.must_equal(x.shape[i], y.shape[j], "VALUE"):
            raise PlanRefused("tensordot of extents that differ", kind="shape-error")
        ys[j] = xs[i]
    target = [c for i, c in enumerate(xs) if i not in left] + [c for j, c in enumerate(ys) if j not in right]
    return as_array(t, einsum_of(t, ["".join(xs), "".join(ys)], "".join(target), [x, y]))  # one without axes too


@rule("np.einsum")
def einsum(t: Typer, subscripts: Value, operands: Value, out: Value = NONE, dtype: Value = NONE,
           optimize: Value = NONE) -> Value:
    if not isinstance(subscripts, Static) or not isinstance(subscripts.value, str) or given(out) or given(dtype):
        raise PlanRefused("np.einsum in this form", kind="kernel:np.einsum")
    text = subscripts.value.replace(" ", "")
    arrays = [as_array(t, v) for v in t.children(operands)]
    left, arrow, target = text.partition("->")
    terms = left.split(",")
    if "..." in text and len(terms) == len(arrays):
        found = _without_ellipsis(t, terms, target if arrow else None, arrays)
        terms, target, arrays, arrow = *found, "->"
    if "." in ",".join([*terms, target]) or len(terms) != len(arrays) or any(
            len(s) != a.ndim for s, a in zip(terms, arrays, strict=True)):
        raise PlanRefused("np.einsum with an ellipsis or terms that do not fit", kind="kernel:np.einsum")
    if not arrow:
        target = implied_target(terms)
    if len(arrays) > 2:
        return _einsum_chain(t, terms, target, arrays)
    return einsum_of(t, terms, target, arrays)


def _without_ellipsis(t: Typer, terms: list[str], target: str | None, arrays: list[Arr]) -> tuple[list[str], str, list[Arr]]:
    """The terms with letters in place of `...`, which stands for the last of as many axes as it has anywhere."""
    used = set("".join(terms)) | set(target or "")
    counts = [a.ndim - len(term.replace("...", "")) if "..." in term else 0 for term, a in zip(terms, arrays, strict=True)]
    if min(counts) < 0:
        raise PlanRefused("einsum terms that do not fit", kind="value-error")
    letters = "".join([c for c in string.ascii_letters if c not in used][:max(counts)])
    if len(letters) < max(counts) or (target is not None and letters and "..." not in target):
        raise PlanRefused("einsum with an ellipsis of this kind", kind="kernel:np.einsum")
    if target is None:  # the axes of the ellipsis come first
        target = "..." + implied_target([term.replace("...", "") for term in terms])
    found = [term.replace("...", letters[len(letters) - n:]) for term, n in zip(terms, counts, strict=True)]
    return found, target.replace("...", letters), arrays


def _einsum_chain(t: Typer, terms: list[str], target: str, arrays: list[Arr]) -> Value:
    """More than two operands, left to right in pairs."""
    while len(arrays) > 2:
        keep = first_pair(terms, target)
        arrays = [as_array(t, einsum_of(t, terms[:2], keep, arrays[:2])), *arrays[2:]]
        terms = [keep, *terms[2:]]
    return einsum_of(t, terms, target, arrays)


def einsum_of(t: Typer, terms: list[str], target: str, arrays: list[Arr]) -> Value:
    """One or two operands: a Contract when the labels allow it, else a reducing nest."""
    extents: dict[str, Expr] = {}
    views: list[dict[str, Expr]] = []
    for term, arr in zip(terms, arrays, strict=True):
        own: dict[str, Expr] = {}
        strides: dict[str, Expr] = {}
        for label, extent, stride in zip(term, arr.shape, arr.view.strides, strict=True):
            if label in own and not t.must_equal(own[label], extent, "VALUE"):
                raise PlanRefused("einsum extents that differ", kind="shape-error")
            own.setdefault(label, t.facts.norm(extent))
            strides[label] = strides.get(label, const(0)) + stride
        views.append(strides)
        for label, extent in own.items():  # between operands an extent of 1 broadcasts
            known = extents.setdefault(label, extent)
            if known is extent or t.must_equal(known, extent):
                continue
            if t.facts.ask_equal(extent, 1):
                strides[label] = const(0)
            elif t.facts.ask_equal(known, 1):
                extents[label] = extent
                for earlier in views[:-1]:
                    if label in earlier:
                        earlier[label] = const(0)
            else:
                raise PlanRefused("einsum extents that differ", kind="shape-error")
    if any(c not in extents for c in target) or len(set(target)) != len(target):
        raise PlanRefused("einsum output labels", kind="kernel:np.einsum")
    if len(arrays) == 1 and set(terms[0]) == set(target):  # a view, as NumPy returns it
        v = arrays[0].view
        return Arr(v.window(tuple(extents[c] for c in target), tuple(views[0][c] for c in target)))
    if len(arrays) == 2 and arrays[0].dtype == arrays[1].dtype and arrays[0].dtype in ("f32", "f64"):
        result = _einsum_contract(t, terms, target, arrays, extents, views)
        if result is not None:
            return result
    return _einsum_nest(t, target, arrays, extents, views)


def _einsum_contract(t: Typer, terms: list[str], target: str, arrays: list[Arr], extents: dict[str, Expr],
                     strides: list[dict[str, Expr]]) -> Value | None:
    """Two operands as one product over labels of each kind taken together; None where that is none."""
    labels = contraction(terms, target)
    if labels is None:
        return None
    batch, m, n, k = labels
    shape = tuple(extents[c] for c in batch)

    def size(labels: list[str]) -> Expr:
        return t.facts.norm(prod((extents[c] for c in labels), start=const(1)))

    def view(i: int, rows: list[str], columns: list[str]) -> View:
        v, s = arrays[i].view, strides[i]
        steps = [_one_stride(t, labels, extents, s) for labels in (rows, columns)]
        if None in steps:
            order = [*(c for c in batch if c in terms[i]), *rows, *columns]
            v = t.copy(permute(arrays[i], tuple(terms[i].index(c) for c in order))).view
            s = dict(zip(order, v.strides, strict=True))
            steps = [s[rows[-1]], s[columns[-1]]]
        return View(v.buffer, v.dtype, (*shape, size(rows), size(columns)),
                    (*(s.get(c, const(0)) for c in batch), *steps), v.offset)  # type: ignore[arg-type]

    out = contract(t, shape, size(m), size(n), size(k), view(0, m, k), view(1, k, n), arrays[0].dtype, arrays[1].dtype)
    order = [*batch, *m, *n]
    if len(m) > 1 or len(n) > 1:
        out = reshaped(t, out, tuple(extents[c] for c in order))
        out.view.buffer.home = out.view
    return permute(out, tuple(order.index(c) for c in target)) if order != list(target) else out


def _one_stride(t: Typer, labels: list[str], extents: dict[str, Expr], strides: dict[str, Expr]) -> Expr | None:
    """The stride of several labels taken as one axis; None where they do not lie one inside the other."""
    for outer, inner in zip(labels, labels[1:], strict=False):
        if not t.facts.is_equal(strides[outer], strides[inner] * extents[inner]):
            return None
    return strides[labels[-1]]


def _einsum_nest(t: Typer, target: str, arrays: list[Arr], extents: dict[str, Expr],
                 strides: list[dict[str, Expr]]) -> Value:
    summed = [c for c in extents if c not in target]
    labels = [*target, *summed]
    axes = tuple(extents[c] for c in labels)
    from .rules_elementwise import common_dtype
    dtype = common_dtype(t, list(arrays))
    if dtype in ("bool", "u8", "u16", "u32"):
        raise PlanRefused(f"np.einsum in {dtype}", kind="dtype")
    native = COMPUTE[dtype]
    zero = const(0)
    nest = NestBody()
    slot = None
    for arr, s in zip(arrays, strides, strict=True):
        v = arr.view
        x = nest.cast(nest.view(View(v.buffer, v.dtype, axes, tuple(s.get(c, zero) for c in labels), v.offset)), native)
        slot = x if slot is None else nest.op("mul", native, slot, x)
    shape = tuple(extents[c] for c in target)
    out = t.new_temp(shape, dtype)
    mask = sum(1 << i for i in range(len(target), len(labels)))
    view = View(out.view.buffer, dtype, axes, (*contiguous_strides(shape, ITEM_BYTES[dtype]), *([zero] * len(summed))),
                const(0))
    ops = nest.finish()
    t.emit(Nest(axes, nest.inputs, ops,
                [NestOut(nest.number(slot), "sum" if summed else "store", view, reduced=mask)], t.pc))
    return out if shape else t.load(out)


@rule("np.matvec")
def matvec(t: Typer, a: Value, b: Value) -> Value:
    if not isinstance(a, Arr) or not isinstance(b, Arr) or b.ndim != 1:
        raise PlanRefused("np.matvec of stacked vectors", kind="kernel:np.matvec")
    return product(t, a, b)
