"""What called kernels of linear algebra make."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .callout_rules import Like, axes_in, exprs, flag, inexact, like, made, option, real, sequence
from .callouts import Itself, Made, Question, Several, Unknown, calls
from .extents import Expr, emax, emin
from .planner_errors import PlanRefused
from .signature import DTYPE_NAMES, NUMPY_DTYPES
from .values import HALVES


def _solved(*dtypes: str) -> str:
    """The dtype in which LAPACK computes: integers are float64."""
    if not HALVES.isdisjoint(dtypes):
        raise PlanRefused("linear algebra of 16-bit floats", kind="dtype")
    is_double = any(d not in ("f32", "c64") for d in dtypes)
    if any(d[0] == "c" for d in dtypes):
        return "c128" if is_double else "c64"
    return "f64" if is_double else "f32"


def _matrix(q: Question, name: str = "a") -> tuple[str, tuple[Expr, ...], Expr, Expr]:
    """(dtype of the result, batch, rows, columns)."""
    a = like(q, name)
    if a.ndim < 2:
        raise PlanRefused(f"{q.name} of an array with {a.ndim} axes", kind="axis-error")
    return _solved(a.dtype), a.shape[:-2], a.shape[-2], a.shape[-1]


@calls("np.linalg.solve")
def _solve(q: Question) -> Made:
    dtype, batch, m, _ = _matrix(q)
    b = like(q, "b")
    dtype = _solved(dtype, b.dtype)
    if b.ndim == 1:
        return Made(dtype, (*batch, m))
    return Made(dtype, (*q.t.broadcast(batch, b.shape[:-2]), m, b.shape[-1]))


@calls("np.linalg.inv", "np.linalg.cholesky")
def _inv(q: Question) -> Made:
    dtype, batch, m, n = _matrix(q)
    return Made(dtype, (*batch, m, n))


@calls("np.linalg.pinv")
def _pinv(q: Question) -> Made:
    dtype, batch, m, n = _matrix(q)
    if q.is_given("rcond") and like(q, "rcond").ndim:
        raise q.refuse("with an array of tolerances")
    if any(extent.is_entry and q.t.facts.ask_equal(extent, 0) for extent in (m, n)):
        dtype = like(q, "a").dtype
    return Made(dtype, (*batch, n, m))


@calls("np.linalg.det")
def _det(q: Question) -> Made:
    dtype, batch, _, _ = _matrix(q)
    return made(dtype, batch)


@calls("np.linalg.slogdet")
def _slogdet(q: Question) -> Several:
    dtype, batch, _, _ = _matrix(q)
    return Several([made(dtype, batch), made(real(dtype), batch)], fields=("sign", "logabsdet"))


@calls("np.linalg.qr")
def _qr(q: Question) -> Made | Several:
    dtype, batch, m, n = _matrix(q)
    mode = str(option(q, "mode"))
    k = emin(m, n)
    if mode == "r":
        return Made(dtype, (*batch, k, n))
    if mode == "complete":
        k = m
    elif mode != "reduced":
        raise q.refuse("with such a mode")
    return Several([Made(dtype, (*batch, m, k)), Made(dtype, (*batch, k, n))], fields=("Q", "R"))


@calls("np.linalg.svd", "np.linalg.svdvals")
def _svd(q: Question) -> Made | Several:
    dtype, batch, m, n = _matrix(q, "a" if q.name.endswith("svd") else "x")
    k = emin(m, n)
    values = Made(real(dtype), (*batch, k))
    if q.name.endswith("svdvals"):
        return values
    if flag(q, "hermitian"):
        raise q.refuse("with hermitian=")
    if not flag(q, "compute_uv"):
        return values
    left, right = (m, n) if flag(q, "full_matrices") else (k, k)
    return Several([Made(dtype, (*batch, m, left)), values, Made(dtype, (*batch, right, n))], fields=("U", "S", "Vh"))


@calls("np.linalg.eigh", "np.linalg.eigvalsh")
def _eigh(q: Question) -> Made | Several:
    dtype, batch, m, _ = _matrix(q)
    values = Made(real(dtype), (*batch, m))
    if q.name.endswith("eigvalsh"):
        return values
    return Several([values, Made(dtype, (*batch, m, m))], fields=("eigenvalues", "eigenvectors"))


@calls("np.linalg.eig", "np.linalg.eigvals")
def _eig(q: Question) -> Made | Several:
    dtype, batch, m, _ = _matrix(q)
    if dtype[0] != "c":
        raise q.refuse("of real matrices: what they hold decides whether it is complex")
    values = Made(dtype, (*batch, m))
    if q.name.endswith("eigvals"):
        return values
    return Several([values, Made(dtype, (*batch, m, m))], fields=("eigenvalues", "eigenvectors"))


@calls("np.linalg.lstsq")
def _lstsq(q: Question) -> Several:
    dtype, batch, m, n = _matrix(q)
    b = like(q, "b")
    if batch or b.ndim not in (1, 2):
        raise q.refuse("of such operands")
    dtype = _solved(dtype, b.dtype)
    columns = () if b.ndim == 1 else (b.shape[1],)
    return Several([Made(dtype, (n, *columns)), Made(real(dtype), (Unknown(0, columns[0] if columns else 1),)),
                    Made("i32"), Made(real(dtype), (emin(m, n),))])


@calls("np.linalg.matrix_power")
def _matrix_power(q: Question) -> Made | Itself:
    a, n = like(q, "a"), option(q, "n")
    if not isinstance(n, int) or isinstance(n, bool) or a.ndim < 2:
        raise q.refuse("with such an exponent")
    if n == 1:
        return Itself("a")
    return Made(_solved(a.dtype) if n < 0 else a.dtype, a.shape)


@calls("np.linalg.matrix_rank")
def _matrix_rank(q: Question) -> Made:
    _, batch, _, _ = _matrix(q, "A")
    if q.is_given("tol") and like(q, "tol").ndim:
        raise q.refuse("with an array of tolerances")
    return made("i64", batch)


@calls("np.linalg.cond")
def _cond(q: Question) -> Made:
    dtype, batch, _, _ = _matrix(q, "x")
    return made(real(dtype), batch)


def _norm_dtype(dtype: str) -> str:
    return real(inexact(dtype))


@calls("np.linalg.norm")
def _norm(q: Question) -> Made:
    x, order, axis = like(q, "x"), option(q, "ord"), option(q, "axis")
    dtype = _norm_dtype(x.dtype)
    axes = axes_in(q, axis, x.ndim)
    if axis is None and order is not None and x.ndim not in (1, 2):
        raise q.refuse("of such an order over all axes")
    if len(axes) == 2 and order in (2, -2, "nuc"):
        dtype = real(_solved(x.dtype))
    if len(axes) == 1 and order == 0:
        raise q.refuse("of order 0")
    return _norm_over(q, x, dtype, axes)


def _norm_over(q: Question, x: Like, dtype: str, axes: tuple[int, ...]) -> Made:
    if flag(q, "keepdims"):
        return made(dtype, exprs([1 if i in axes else n for i, n in enumerate(x.shape)]))
    return made(dtype, tuple(n for i, n in enumerate(x.shape) if i not in axes))


@calls("np.linalg.vector_norm")
def _vector_norm(q: Question) -> Made:
    x = like(q, "x")
    if option(q, "ord") == 0:
        raise q.refuse("of order 0")
    return _norm_over(q, x, _norm_dtype(x.dtype), axes_in(q, option(q, "axis"), x.ndim))


@calls("np.linalg.matrix_norm")
def _matrix_norm(q: Question) -> Made:
    x = like(q, "x")
    if x.ndim < 2:
        raise PlanRefused("matrix_norm of a vector", kind="axis-error")
    dtype = real(_solved(x.dtype)) if option(q, "ord") in (2, -2, "nuc") else _norm_dtype(x.dtype)
    return _norm_over(q, x, dtype, (x.ndim - 2, x.ndim - 1))


@calls("np.linalg.multi_dot")
def _multi_dot(q: Question) -> Made:
    from .callout_rules import _like, common, without

    without(q, "out")
    items = [_like(q, value) for value in sequence(q, "arrays")]
    if len(items) < 2 or any(item.ndim != 2 for item in items[1:-1]) or any(item.ndim not in (1, 2) for item in items):
        raise q.refuse("of such operands")
    shape = (*items[0].shape[:-1], *(items[-1].shape[1:]))
    return made(common(*[item.dtype for item in items]), shape)


def _refuse_rounded(q: Question, a: Like, b: Like) -> None:
    """NumPy's own products know nothing of option `precision`."""
    if q.t.rounding and a.dtype == b.dtype == "f32":
        raise q.refuse("of this form in reduced precision")


@calls("np.dot", "arr.dot")
def _dot(q: Question) -> Made:
    from .callout_rules import common, without

    without(q, "out")
    a, b = like(q, "a"), like(q, "b")
    if not a.ndim or not b.ndim:
        raise q.refuse("of numbers")
    _refuse_rounded(q, a, b)
    return made(common(a.dtype, b.dtype), (*a.shape[:-1], *b.shape[:-2], *(b.shape[-1:] if b.ndim > 1 else ())))


@calls("np.matmul", "op.matmul")
def _matmul(q: Question) -> Made:
    from .callout_rules import without

    without(q, "out dtype")
    a, b = (like(q, name) for name in (("x1", "x2") if q.name == "np.matmul" else ("a", "b")))
    if not a.ndim or not b.ndim:
        raise q.refuse("of numbers")
    _refuse_rounded(q, a, b)
    batch = q.t.broadcast(a.shape[:-2], b.shape[:-2])
    dtype = DTYPE_NAMES.get(np.matmul.resolve_dtypes((NUMPY_DTYPES[a.dtype], NUMPY_DTYPES[b.dtype], None))[-1])
    if dtype is None:
        raise q.refuse("of such dtypes")
    return made(dtype, (*batch, *a.shape[-2:-1], *(b.shape[-1:] if b.ndim > 1 else ())))


# --- indices of triangles ---------------------------------------------------------------------------------------------

def _triangle(size: Callable[[Question], tuple[Expr, Expr]]) -> Callable[[Question], Several]:
    def rule(q: Question) -> Several:
        n, m = size(q)
        count = Unknown(0, emax(n, 0) * emax(m, 0))
        return Several([Made("i64", (count,)), Made("i64", (count,))])
    return rule


def _from_numbers(q: Question) -> tuple[Expr, Expr]:
    n = q.t.int_expr(q["n"])
    return n, q.t.int_expr(q["m"]) if q.is_given("m") else n


def _from_array(q: Question) -> tuple[Expr, Expr]:
    a = like(q, "arr")
    if a.ndim != 2:
        raise PlanRefused(f"{q.name} of an array with {a.ndim} axes", kind="value-error")
    return a.shape[0], a.shape[1]


calls("np.triu_indices", "np.tril_indices")(_triangle(_from_numbers))
calls("np.triu_indices_from", "np.tril_indices_from")(_triangle(_from_array))


