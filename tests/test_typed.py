"""Typing: expressions, stores and loops that are planned, each on the tape and against NumPy."""

from __future__ import annotations

import copy
import linecache
from typing import Any

import numpy as np
import pytest

import prebake


def values() -> dict[str, Any]:
    """The operands that expressions name."""
    rng = np.random.default_rng(0)
    x = rng.random((4, 6))
    z = rng.random((4, 6)) - 0.5 + 1j * (rng.random((4, 6)) - 0.5)
    n = rng.integers(1, 9, (4, 6))
    return {"x": x, "v": rng.random(6), "i": rng.integers(0, 4, 5), "b": x > 0.5, "n": n, "f": x.astype(np.float32),
            "i8": n.astype(np.int8), "z": z, "w": z[::-1] * 2 + 1j, "c": z.astype(np.complex64), "a": x.copy(),
            "v4": rng.random(int((x > 0.5).sum()))}


def compiled(body: str, names: list[str]) -> Any:
    """A function of the named operands."""
    source = f"import numpy as np\n\n\ndef fn({', '.join(names)}):\n    {body}\n"
    name = f"<typed {body}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    scope: dict[str, Any] = {"__name__": "typed_case"}
    exec(compile(source, name, "exec"), scope)
    return scope["fn"]


def names_in(text: str) -> list[str]:
    """The operands that a text names."""
    import re
    words = set(re.findall(r"(?<![.\w\"'])[A-Za-z_]\w*", re.sub(r'"[^"]*"', "", text)))
    return [name for name in values() if name in words]


def same(got: Any, want: Any) -> bool:
    """Equal in type, dtype, shape and value."""
    if isinstance(want, (tuple, list)):
        return type(got) is type(want) and len(got) == len(want) and all(map(same, got, want))
    if type(got) is not type(want):
        return False
    if not isinstance(want, (np.ndarray, np.generic)):
        return bool(got == want)
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    single = want.dtype in (np.float32, np.complex64)
    return np.allclose(got, want, rtol=1e-5 if single else 1e-12, atol=1e-6 if single else 1e-14, equal_nan=True)


def check(fn: Any, args: list[Any], tape: bool = True) -> None:
    """One call on the JIT against NumPy: result and arguments."""
    want_args, got_args = copy.deepcopy(args), copy.deepcopy(args)
    with np.errstate(all="ignore"):
        want = fn(*want_args)
        function = prebake.jit(fn)
        with prebake.engine("jit"):
            got = function(*got_args)
    assert same(got, want), f"got {got!r}, expected {want!r}"
    assert all(map(same, got_args, want_args))
    assert function.stats()["jit"] == tape


# on real operands
EXPRESSIONS = """
np.add.reduce(x)
np.add.reduce(x, axis=1)
np.maximum.reduce(x, axis=0)
np.multiply.reduce(v)
np.logical_and.reduce(b, axis=0)
np.add.accumulate(v)
np.maximum.accumulate(v)
np.minimum.accumulate(x, axis=1)
np.add.at(v, i, 1.0)
np.subtract.at(v, i, 1.0)
np.add(v, 1, out=v)
np.add(x, v, x)
np.multiply(x, 2, out=x, where=b)
np.divide(x, v, out=np.zeros_like(x), where=v>0.5)
np.sum(x, axis=(0,1))
np.sum(x, initial=2.0)
np.sum(x, where=b)
np.mean(x, where=b)
np.max(x, axis=0, initial=0.5)
np.max(x, where=b, initial=0.0)
x.sum(axis=0, out=np.empty(6))
x[[0,2]]
x[[0,2],[1,3]]
x[:, [1,0]]
x[np.array([True,False,True,False])]
x[b]
x[b].max()
x[b].mean()
x[:, v>0.5]
x[i]
x[i, i]
x[i][:, None]
x[..., ::-1]
n ** 2
n ** -1.0
n // 3
n % 3
n << 1
n / 2
~b
x @ x.T
n @ n.T
np.dot(v, v)
np.linalg.norm(x, axis=1)
np.linalg.norm(x)
np.cumsum(x, axis=0)
np.cumsum(n)
np.diff(v)
np.diff(x, axis=0)
np.trapezoid(v)
np.clip(x, 0.2, 0.8)
np.clip(n, 2, 5)
np.where(b, x, 0)
np.where(b)
np.nonzero(v > .5)
np.isnan(x)
np.nan_to_num(x)
np.nansum(x)
np.nanmean(x, axis=0)
np.round(x, 2)
np.fix(x)
np.sign(x)
np.floor(x)
np.heaviside(x, 0.5)
np.hypot(x, x)
np.logaddexp(x, x)
np.float_power(x, 2)
np.tril(x)
np.triu(x, k=1)
np.eye(4)
np.diag(v)
np.trace(x)
np.tri(4)
np.meshgrid(v, v)
np.mgrid[0:3, 0:4]
np.indices((2,3))
np.arange(10.0)
np.arange(0, 1, 0.1)
np.linspace(0, 1, 11)
np.concatenate([x, x])
np.concatenate((v, v), axis=0)
np.stack([v, v])
np.vstack([v, v])
np.hstack([v, v])
np.dstack([x, x])
np.append(v, 1.0)
np.append(v, v)
np.split(v, 2)
np.array_split(v, 4)
np.hsplit(x, 2)
np.repeat(v, 2)
np.tile(v, 2)
np.tile(v, (2, 2))
np.roll(v, 1)
np.roll(x, 1, axis=0)
np.roll(x, (1, 2), axis=(0, 1))
np.flip(x)
np.rot90(x)
np.pad(x, 1)
np.pad(x, 1, mode="edge")
np.pad(v, (1, 2), mode="reflect")
np.take(x, i, axis=0)
np.select([v > .5, v > .2], [v, -v])
np.fill_diagonal(x, 0.0)
np.copyto(v, 1.0)
np.putmask(v, v > .5, 0.0)
v.fill(2.0)
np.any(b)
np.all(x > 0, axis=1)
np.allclose(x, x)
np.array_equal(x, x)
np.isclose(x, x)
np.count_nonzero(b)
np.argmax(x)
np.argmax(x, axis=1)
np.ptp(x)
np.average(x)
np.average(v, weights=v)
np.outer(v, v)
np.convolve(v, v)
np.einsum("ij,ij->", x, x)
np.tensordot(x, x, axes=([0], [0]))
x.astype(np.float32)
x.astype(int)
x.astype(np.complex128)
x.reshape(-1)
x.T.reshape(-1)
x.ravel()
x.T.copy()
x.flatten()
x.squeeze()
x.swapaxes(0, 1)
x.item(0)
x.dot(v)
x.std(axis=0, ddof=1)
x.var()
x.prod()
x.min(axis=1)
x.clip(0.1)
x.round()
x.cumsum()
x.trace()
x.diagonal()
x.repeat(2)
x.conj()
x.real
x.size
x.nbytes
len(x)
sum(v)
min(3, len(v))
abs(x)
float(v[0])
int(v[0] * 10)
bool(v[0])
c * 2
c @ c.T
abs(c)
np.exp(c)
c.real
i8 @ i8.T
i8.sum()
i8 + 1
i8 * i8
f * 2.0
f * v[0]
f + np.float64(1)
f + np.float32(1)
np.arctan2(f, f)
np.power(f, 3)
f ** 0.5
f ** 1.7
np.lib.stride_tricks.sliding_window_view(v, 3)
np.broadcast_to(v, (3, 6))
np.expand_dims(v, 0)
np.moveaxis(x, 0, 1)
np.zeros((2, 3))
np.full((2, 2), 7)
np.ones_like(x)
np.empty((3,)).shape
np.array([1, 2, 3])
np.array([[1.0, v[0]], [v[1], 2.0]])
np.asarray(x)
np.atleast_2d(v)
np.cbrt(x)
np.angle(c)
""".strip().splitlines()

# on complex operands
COMPLEX = """
z + w
z - 1
z * w
z * 2.0
2.0 * z
z * x
x * 1j
z / w
z / 2
x / z
1 / z
z ** 2
z ** 3
-z
+z
abs(z)
np.abs(z)
np.conj(z)
z.conj()
np.exp(z)
np.exp(-2j * np.pi * x)
np.angle(z)
np.real(z)
np.imag(z)
z.real
z.imag
z.real ** 2 + z.imag ** 2
z.sum(axis=0)
z.mean(axis=1)
z.cumsum(axis=0)
z @ w.T
z @ x.T
x @ z.T
np.dot(z, w.T)
np.outer(z[0], w[0])
np.einsum("ij,kj->ik", z, w)
np.tensordot(z, w, axes=([1],[1]))
z[1:, ::2]
z[::-1]
z[b]
z[i]
z[[0, 2]]
z.T
z.reshape(-1)
z.T.reshape(-1)
z.ravel()
z.copy()
z.astype(np.complex64)
x.astype(np.complex128)
x.astype(complex)
np.zeros((2, 3), dtype=complex)
np.ones((2, 3), dtype=np.complex64)
np.empty_like(z) * 0
np.zeros_like(z)
np.ones_like(z)
np.full((2,), 1j)
np.full((2,), 2.0, dtype=complex)
np.array([1j, 2.0])
np.array(z)
np.asarray(z)
np.concatenate([z, w])
np.concatenate([z, x])
np.stack([z, w])
np.where(b, z, 0)
np.where(b, z, w)
np.isnan(z)
np.isfinite(z)
z == w
z != z
np.square(z)
np.multiply(z, z, out=z)
np.roll(z, 1, axis=0)
np.flip(z)
z.shape
len(z)
np.diff(z, axis=0)
np.tile(z, 2)
np.trace(z) * 0 == 0
f * 1j
c + f
c * c
c / c
c @ c.T
c * 2.0
c * np.float64(2)
c + z
abs(c)
np.exp(c)
c.sum(axis=0)
z[0, 0].real
abs(z[0, 0])
z[0] * z[1, 1]
""".strip().splitlines()

# stores into a real array
STORES = """
a += 1
a *= v
a[:, 0] = 3
a[1] = v
a[b] = 0
a[b] = a[b] * 2 + 1
a[b] = v4
a[[0, 2]] = 1.0
a[i] = 2.0
a[i, i] = 5
a[:, v > 0.5] = 0
np.add.at(a, i, 1.0)
np.add(a, 1, out=a)
np.multiply(a, 2, out=a, where=b)
np.copyto(a, 2.0)
np.copyto(a, v)
np.putmask(a, b, 0.0)
a.fill(2.0)
np.fill_diagonal(a, 0.0)
a.sum(axis=0, out=a[0])
np.cumsum(a, axis=0, out=a)
a[::2] -= a[1::2]
a[...] = a[::-1]
a.T[0] = 7
a.reshape(-1)[3:5] = 9
""".strip().splitlines()

# stores into a complex array
COMPLEX_STORES = """
z *= w
z += 1
z *= 2.0
z /= w
z[1:] = z[:-1]
z[:, 0] = 1j
z[0, 0] = 2
z[b] = z[b]**2 + w[b]
z[b] = 0
z.real[...] = z.imag
z[:] = z * 1j
z[i] = w[i]
z[1:-1] += 0.5 * (z[2:] - z[:-2])
z[...] = z.conj()
""".strip().splitlines()


@pytest.mark.parametrize("expression", EXPRESSIONS + COMPLEX)
def test_expression(expression):
    names = names_in(expression)
    check(compiled(f"return {expression}", names), [values()[name] for name in names])


@pytest.mark.parametrize("statement", STORES + COMPLEX_STORES)
def test_store(statement):
    names = names_in(statement)
    check(compiled(f"{statement}; return {names[0]}", names), [values()[name] for name in names])


@pytest.mark.parametrize("statement", STORES + COMPLEX_STORES)
def test_store_into_a_strided_array(statement):
    names = names_in(statement)
    args = []
    for name in names:
        value = values()[name]
        if value.ndim == 2:
            wide = np.zeros((8, 12), value.dtype)
            wide[::2, ::2] = value
            value = wide[::2, ::2]
        args.append(value)
    check(compiled(f"{statement}; return {names[0]}", names), args)


# --- scalars that change their type -----------------------------------------------------------------------------------

def cholesky(a):
    lower = np.zeros_like(a)
    for i in range(a.shape[0]):
        for j in range(i + 1):
            s = 0.0
            for k in range(j):
                s += lower[i, k] * lower[j, k]
            if i == j:
                lower[i, j] = np.sqrt(a[i, i] - s)
            else:
                lower[i, j] = (a[i, j] - s) / lower[j, j]
    return lower


def alignment(a, b):
    score = np.zeros((len(a) + 1, len(b) + 1), np.int32)
    best = 0
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            gain = 2 if a[i - 1] == b[j - 1] else -1
            score[i, j] = max(0, score[i - 1, j - 1] + gain, score[i - 1, j] - 1, score[i, j - 1] - 1)
            if score[i, j] > best:
                best = score[i, j]
    return score, int(best)


def until_settled(x, tolerance):
    change = 1.0
    count = 0
    while change > tolerance:
        y = 0.5 * (x + 1)
        change = np.abs(y - x).max()
        x[:] = y
        count += 1
    return count


def largest(x):
    best = -1.0
    for i in range(x.shape[0]):
        if x[i] > best:
            best = x[i]
    return float(best)


def spiral(z, turns):
    out = np.zeros(turns, z.dtype)
    here = z
    for i in range(turns):
        here = here * (0.5 + 0.5j)
        out[i] = here[0]
    return out, here


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scalars_of_two_types(dtype):
    rng = np.random.default_rng(1)
    m = rng.random((6, 6))
    check(cholesky, [(m @ m.T + np.eye(6)).astype(dtype)])
    check(until_settled, [m.astype(dtype), 1e-3])
    for n in (0, 1, 9):
        check(largest, [rng.random(n).astype(dtype)])
    check(alignment, [rng.integers(0, 4, 8), rng.integers(0, 4, 9)])
    check(spiral, [np.array([1 + 1j, 2]), 4])


# --- what loops carry -------------------------------------------------------------------------------------------------

def row_by_counter(m, n):
    k = 0
    a = m[0]
    while k < n:
        k += 1
        a = m[k]
    return a * 1


def last_row(m, n):
    k = 0
    a = m[0]
    for _ in range(n):
        a = m[k + 1]
        k += 1
    return a * 1


def row_beside_its_number(m, n):
    pair = (0, m[0])
    for i in range(1, n):
        pair = (i, m[i])
    return pair[0], pair[1] + 1


def shrinking(x, limit):
    sums = np.zeros(20)
    y = x * 1.0
    z = x * 2
    for i in range(6):
        sums[i] = y.sum()
        keep = y > limit * i
        y = y[keep]
        z = z[keep] + y
        sums[10 + i] = z.sum()
    return sums, y, z


def halving(x):
    sums = np.zeros(x.shape[0])
    k = 0
    while x.shape[0] > 1:
        sums[k] = x.sum()
        x = x[::2] + x[:(x.shape[0] + 1) // 2]
        k += 1
    return sums, x * 1


def test_values_carried_through_loops():
    """Views and extents that later trips change: what is kept is what the last trip left."""
    m = np.arange(30.0).reshape(10, 3)
    for n in (1, 5):
        check(row_by_counter, [m, n])
        check(last_row, [m, n])
        check(row_beside_its_number, [m, n])
    x = np.random.default_rng(0).random(17)
    check(shrinking, [x, 0.1])
    check(halving, [x])


def test_a_python_scalar_on_one_path_decides_a_dtype():
    """Where it matters whether a scalar is Python's or NumPy's, the interpreter answers."""
    def scaled(x, y):
        s = 1.0
        for i in range(y.shape[0]):
            if y[i] > 0.5:
                s = y[i]
        return x * s

    x = np.ones(3, np.float32)
    check(scaled, [x, np.zeros(2)], tape=False)  # float32: s stays Python's
    check(scaled, [x, np.ones(2)], tape=False)   # float64: s is a NumPy scalar


def test_integers_that_do_not_fit():
    def stored(a, k):
        a[0] = k
        return a

    a = np.zeros(2, np.int8)
    for k in (100, 300):
        want_error = None
        try:
            stored(a.copy(), k)
        except OverflowError as error:
            want_error = type(error)
        function = prebake.jit(stored)
        with prebake.engine("jit"):
            if want_error is None:
                assert function(a.copy(), k)[0] == k
            else:
                with pytest.raises(want_error):
                    function(a.copy(), k)
