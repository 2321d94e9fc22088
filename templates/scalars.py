"""The scalar operations: one row each, shared by stencils, bundles and scalar registers.

A row names a C inline function `pb_<name>_<dtype>(a[, b[, c]])` in `include/pb_scalar.h`, written once; where loops over it must
vectorise it has no branches, or vector variants. The result dtype is the operand dtype, or `bool` for predicates. Ids are
stable: tapes hold them.
"""

from __future__ import annotations

from .records import record

# Arithmetic is native in these; every other dtype converts at loads and stores.
NATIVE: tuple[str, ...] = ("bool", "i32", "i64", "f32", "f64")
# Memory dtypes that a view may have, with NumPy's typestring (bf16: of what ml_dtypes registers) and size in bytes.
MEMORY: dict[str, tuple[str, int]] = {
    "bool": ("?", 1), "i8": ("i1", 1), "i16": ("i2", 2), "i32": ("i4", 4), "i64": ("i8", 8),
    "u8": ("u1", 1), "u16": ("u2", 2), "u32": ("u4", 4), "u64": ("u8", 8), "f16": ("f2", 2),
    "bf16": ("V2", 2), "f32": ("f4", 4), "f64": ("f8", 8),
}
_F = ("f32", "f64")
_I = ("i32", "i64")
_N = _I + _F
_B = ("bool",)


@record(eq=True)
class ScalarOp:
    """One operation: id, name, arity, operand dtypes it is defined for, whether the result is bool."""

    id: int
    name: str
    arity: int
    dtypes: tuple[str, ...]
    predicate: bool = False


def _ops(rows: list[tuple[str, int, tuple[str, ...], bool]]) -> tuple[ScalarOp, ...]:
    return tuple(ScalarOp(i, *row) for i, row in enumerate(rows))


# In `select` the first operand is bool, the others of the row's dtype. `mov` copies.
OPS: tuple[ScalarOp, ...] = _ops([
    ("mov", 1, _B + _N, False), ("add", 2, _N, False), ("sub", 2, _N, False), ("mul", 2, _N, False),
    ("div", 2, _F, False), ("floordiv", 2, _N, False), ("mod", 2, _N, False), ("fmod", 2, _N, False),
    ("pow", 2, _N, False), ("neg", 1, _N, False), ("abs", 1, _N, False), ("sign", 1, _N, False),
    ("square", 1, _N, False), ("sqrt", 1, _F, False), ("cbrt", 1, _F, False), ("reciprocal", 1, _F, False),
    ("exp", 1, _F, False), ("exp2", 1, _F, False), ("expm1", 1, _F, False), ("log", 1, _F, False),
    ("log2", 1, _F, False), ("log10", 1, _F, False), ("log1p", 1, _F, False), ("sin", 1, _F, False),
    ("cos", 1, _F, False), ("tan", 1, _F, False), ("arcsin", 1, _F, False), ("arccos", 1, _F, False),
    ("arctan", 1, _F, False), ("sinh", 1, _F, False), ("cosh", 1, _F, False), ("tanh", 1, _F, False),
    ("arcsinh", 1, _F, False), ("arccosh", 1, _F, False), ("arctanh", 1, _F, False), ("arctan2", 2, _F, False),
    ("hypot", 2, _F, False), ("floor", 1, _F, False), ("ceil", 1, _F, False), ("trunc", 1, _F, False),
    ("rint", 1, _F, False), ("copysign", 2, _F, False), ("logaddexp", 2, _F, False),
    ("maximum", 2, _B + _N, False), ("minimum", 2, _B + _N, False), ("fmax", 2, _N, False), ("fmin", 2, _N, False),
    ("eq", 2, _B + _N, True), ("ne", 2, _B + _N, True), ("lt", 2, _B + _N, True), ("le", 2, _B + _N, True),
    ("gt", 2, _B + _N, True), ("ge", 2, _B + _N, True),
    ("not", 1, _B, True), ("and", 2, _B + _I, False), ("or", 2, _B + _I, False), ("xor", 2, _B + _I, False),
    ("invert", 1, _I, False), ("shl", 2, _I, False), ("shr", 2, _I, False),
    ("isnan", 1, _F, True), ("isinf", 1, _F, True), ("isfinite", 1, _F, True), ("signbit", 1, _F, True),
    ("select", 3, _B + _N, False), ("erf", 1, _F, False),
])
BY_NAME: dict[str, ScalarOp] = {op.name: op for op in OPS}

# Operations with vector variants of their own (include/pb_guarded.h), compiled where a translation unit asks for them.
GUARDED: tuple[str, ...] = ("pow", "sin", "cos", "tan")

# Reductions of a nest's output, in descriptor order. `argmax`/`argmin` yield i64 indices along one reduced axis
# (the first NaN wins, then the first extremum), `any`/`all` take and yield bool. `compress` appends the points where the
# output's mask holds, in C order.
REDUCTIONS: tuple[str, ...] = ("store", "sum", "prod", "max", "min", "any", "all", "argmax", "argmin", "compress")
