"""Small programs of every construct that the frontend takes, each with arguments; any engine must do what Python does.

`CASES` lists (function, arguments). Arguments are made anew by `arguments()`, so that programs may write into them.
"""

# ruff: noqa: B905, C408, C409, C410, F842, RUF059, UP018

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
from numpy import sqrt as root
from numpy.linalg import norm

CASES: list[tuple[Callable, tuple]] = []
SCALE = 2.5
OFFSETS = (1, 2, 3)
TABLE = np.arange(12.0).reshape(3, 4)
DEBUG = False
UNTYPED = np.float32(0.5)


def case(*args: object) -> Callable[[Callable], Callable]:
    """Register a program with arguments; strings like 'f32[3,4]' stand for arrays."""
    def register(fn: Callable) -> Callable:
        CASES.append((fn, args))
        return fn
    return register


def array(text: str) -> np.ndarray:
    """'f32[3,4]' -> a reproducible array; 'i64', 'bool', 'c128' likewise."""
    kind, _, dims = text.partition("[")
    shape = tuple(int(d) for d in dims.rstrip("]").split(",") if d)
    rng = np.random.default_rng(sum(text.encode()))
    dtype = np.dtype({"f32": "f4", "f64": "f8", "f16": "f2", "i64": "i8", "i32": "i4", "u8": "u1", "i8": "i1",
                      "bool": "?", "c128": "c16"}[kind])
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    if dtype.kind == "c":
        return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(0, 10, shape).astype(dtype)


def arguments(args: tuple) -> list:
    """Fresh arguments of a case."""
    return [_fresh(a) for a in args]


def _fresh(value: object) -> object:
    if isinstance(value, str) and value.endswith("]"):
        return array(value)
    if callable(value):
        return value()
    if isinstance(value, (tuple, list)):
        return type(value)(_fresh(v) for v in value)
    if isinstance(value, dict):
        return {k: _fresh(v) for k, v in value.items()}
    return value


# --- expressions

@case("f32[3,4]", "f32[3,4]")
def arithmetic(a, b):
    return a + b, a - b, a * b, a / b, -a, +a, a // (b + 10), a % (b + 10), abs(a) ** 0.5


@case("i64[5]", "i64[5]")
def bitwise(a, b):
    return a & b, a | b, a ^ b, ~a, a << 2, b >> 1


@case("f64[3,4]", "f64[4,2]")
def products(a, b):
    return a @ b, np.dot(a, b), a.dot(b), np.matmul(a, b), np.einsum("ij,jk->ik", a, b), np.outer(a[0], b[:, 0])


@case("f64[6]")
def comparisons(a):
    return a > 0, a < 0.5, a >= a[0], a <= a[1], a == a[2], a != a[3], 0 < a.size < 10, 1 < a.size > 7


@case("f64[6]", None, 3)
def identity_tests(a, b, c):
    return a is None, b is None, b is not None, c in (1, 2, 3), c not in OFFSETS, "x" in {"x": 1}


@case("f64[2,3]", 0)
@case("f64[2,3]", 4)
def short_circuit(a, n):
    return n and 10 // n, n or 7, not n, (n > 1 and a.shape[0] > 1) or "none", n if n else -1


@case("f32[4]")
def literals(a):
    return 1, -1, 2.5, -2.5, 1 / 3, 2 ** 10, 1j, True, None, (), (1, (2.0, "C")), a * 1e-3, [1, a.size], 0.0, -0.0


@case("f64[4,5,6]")
def subscripts(x):
    return (x[0], x[-1], x[1:3], x[:, 1:], x[..., 0], x[None], x[:, ::-1], x[::2, 1:4:2], x[1, 2, 3], x[1, :, -1],
            x[..., np.newaxis].shape, x[:, :x.shape[1] // 2])


@case("f64[6,3]", "i64[4]", "bool[6]")
def fancy(x, i, m):
    j = i % 6
    return x[j], x[m], x[j, 1], x[m, 0], x[[0, 2]], x[j[:, None], [0, 2]], np.nonzero(m)[0]


@case("f64[3,4]")
def attributes(x):
    return x.shape, x.T, x.ndim, x.size, x.dtype == np.float64, x.T.shape[0], x.real, x.itemsize


@case("f32[3,4]")
def shape_reference(x):
    n, m = x.shape
    return x.shape[0] * x.shape[-1], n + m, len(x), x.shape[-2]


@case("f64[5]", True)
@case("f64[5]", False)
def conditional_expression(x, flag):
    y = x if flag else -x
    z = 1 if x.shape[0] > 3 else None
    return y, z, (x + 1 if not flag else x - 1)


@case("f64[4]", "f64[4]")
def displays(a, b):
    pair = (a, b)
    both = [a, b]
    named = {"a": a, "b": b, 3: 1.5}
    head = (*pair, 1)
    return pair[0], both[1], named["a"], named[3], head, [*both, a][2], dict(x=a)["x"], (0, *a.shape, 1)


@case("f64[5]")
def comprehensions(x):
    squares = [v * v for v in x]
    table = [[i * j for j in range(i)] for i in range(4)]
    even = [i for i in range(10) if i % 2 == 0 if i > 2]
    named = {i: i * i for i in range(3)}
    total = sum(i for i in range(5))
    i = 7
    return np.array(squares), table, even, named, total, max(v for v in x), any(v > 100 for v in x), i


@case(3, 4.5, "f64[3]")
def builtins_(n, v, x):
    return (len(x), abs(-n), min(n, v), max(n, v), min(OFFSETS), max([1, n]), sum([1, 2, n]), int(v), float(n), bool(n),
            round(v), round(v, 1), divmod(n, 2), pow(n, 2), tuple([1, n]), list((1, n)), sorted([3, n, 1]),
            all([n, v]), any([0, n]), complex(n, v), int(), list(range(n)), list(reversed([1, n])))


@case(2.0)
def mathematics(v):
    return (math.sqrt(v), math.exp(v), math.log(v), math.log(v, 10), math.pi * v, math.floor(v), math.ceil(-v),
            math.tanh(v), math.erf(v), math.hypot(v, 1.0), math.inf, math.isnan(v), math.atan2(v, 1.0),
            math.gcd(12, 18))


# --- NumPy functions

@case("f32[3,4]")
def ufuncs(x):
    y = np.abs(x) + 1
    return (np.exp(x), np.log(y), np.sqrt(y), np.tanh(x), np.maximum(x, 0), np.minimum(x, y), np.sign(x), np.square(x),
            np.floor(x), np.isnan(x), np.power(y, 2), np.logical_and(x > 0, y > 1), root(y), np.absolute(x),
            np.clip(x, -0.5, 0.5), np.clip(x, None, 1.0), np.clip(x, min=0), x.clip(0, 1), np.round(x, 2), x.round(1),
            np.fmax(x, y), np.hypot(x, y), np.mod(y, 1.5), np.true_divide(x, y), np.conj(x))


@case("f64[3,4]", "bool[3,4]")
def ufunc_keywords(x, m):
    out = np.zeros_like(x)
    a = np.add(x, 1, out=out)
    b = np.multiply(x, 2, where=m, out=np.ones_like(x))
    return a, out, b, np.exp(x, dtype=np.float64), np.add.reduce(x), np.add.reduce(x, axis=1), \
        np.add.outer(x[0], x[1]), np.multiply.accumulate(x[0]), np.maximum.reduce(x, axis=None), np.subtract(x, 1, x)


@case("i64[5]")
def ufunc_at(i):
    counts = np.zeros(10, dtype=np.int64)
    np.add.at(counts, i, 1)
    return counts


@case("f64[3,4]")
def reductions(x):
    return (np.sum(x), x.sum(), x.sum(axis=0), x.sum(0), x.sum(axis=(0, 1), keepdims=True), np.sum(x, 1), np.max(x),
            x.max(axis=1), np.min(x, axis=0, keepdims=True), x.mean(), x.mean(0), np.var(x, axis=1, ddof=1), x.std(),
            np.prod(x), np.any(x > 1), np.all(x > 1, axis=0), x.argmax(), np.argmin(x, axis=1), np.median(x),
            np.ptp(x), np.count_nonzero(x > 0), np.sum(x, axis=-1, keepdims=True, initial=1.0), np.average(x, axis=0),
            np.sum(x, where=x > 0), np.max(x, initial=0.0, where=x > 0), np.nanmax(x), np.sum(x, dtype=np.float32))


@case("f64[3,4]")
def scans(x):
    return x.cumsum(), np.cumsum(x, axis=1), np.cumprod(x, 0), np.diff(x), np.diff(x, axis=0), np.diff(x[0], 2), \
        np.diff(x[0], prepend=0.0)


@case("f64[2,3,4]")
def shapes(x):
    n = x.shape[0]
    return (x.reshape(6, 4), x.reshape((6, 4)), x.reshape(n, -1), np.reshape(x, (-1,)), x.ravel(), x.flatten(),
            x.transpose(), x.transpose(1, 0, 2), x.transpose((2, 0, 1)), np.transpose(x, (0, 2, 1)), x.swapaxes(0, 1),
            np.moveaxis(x, 0, -1), np.expand_dims(x, 0), x[None].squeeze(), np.squeeze(x[None], axis=0),
            np.broadcast_to(x[0], (5, 3, 4)), np.flip(x), np.flip(x, 1), np.roll(x, 1, axis=0), np.rot90(x[0]),
            x.reshape(*x.shape[:-1], 2, 2), x.reshape(6, 4, order="F"), np.atleast_2d(x[0, 0]), np.fliplr(x[0]))


@case("f64[2,3]", "f64[2,3]")
def joins(a, b):
    return (np.concatenate((a, b)), np.concatenate([a, b], axis=1), np.stack([a, b]), np.stack((a, b), axis=-1),
            np.vstack((a, b)), np.hstack((a, b)), np.dstack((a, b)), np.column_stack((a[0], b[0])),
            np.split(a, 3, axis=1), np.array_split(a[0], 2), np.tile(a, 2), np.tile(a, (2, 1)), np.repeat(a, 2, axis=0),
            a.repeat(2), np.pad(a, 1), np.pad(a, ((1, 0), (0, 2)), mode="constant", constant_values=3.0),
            np.pad(a, 1, mode="edge"), np.block([[a, b], [b, a]]), np.append(a, b))


@case(4)
def creation(n):
    return (np.zeros(n), np.zeros((n, 2), dtype=np.float32), np.ones((n,), int), np.ones(n, dtype="float32"),
            np.full((2, n), 1.5), np.full(n, 3, dtype=np.int32), np.arange(n), np.arange(1, n), np.arange(0, 10, n),
            np.arange(n, dtype=np.float32), np.linspace(0, 1, n), np.linspace(0, 1, num=n, endpoint=False), np.eye(n),
            np.identity(n), np.diag(np.arange(n)), np.tri(n), np.tril(np.ones((n, n))), np.triu(np.ones((n, n)), k=1),
            np.meshgrid(np.arange(n), np.arange(2)), np.mgrid[0:n, 0:2], np.indices((2, n)), np.array([1, 2, n]),
            np.array([[1.0, n], [2, 3]]), np.asarray((n, n)), np.zeros((2, n), order="F").flags.f_contiguous,
            np.float32(n), np.int64(2.5), np.bool_(n), np.arange(3.0), np.arange(stop=3, start=1), np.ix_([0, 1], [2]),
            np.zeros((), dtype=bool), np.geomspace(1, 8, n), np.zeros(shape=n))


@case("f64[3,4]")
def likes(x):
    a = np.zeros_like(x)
    b = np.ones_like(x, dtype=np.int32)
    c = np.full_like(x, 2)
    return a, b, c, x.copy(), np.copy(x), x.astype(np.float32), x.astype(int), x.astype("float32"), x.astype(bool), \
        x.astype(np.float64, copy=False) is x, x.astype(a.dtype), np.empty_like(x).shape


@case("f64[6]", "i64[6]")
def selection(x, i):
    return (np.where(x > 0, x, 0.0), np.where(x > 0), np.take(x, i % 6), x.take([0, 1]), np.argsort(x), np.sort(x),
            x.argsort(), np.unique(i), np.unique(i, return_counts=True), np.searchsorted(np.sort(x), 0.0),
            np.histogram(x, bins=4), np.bincount(i), np.argwhere(x > 0), np.flatnonzero(i), np.compress(x > 0, x),
            np.take_along_axis(x[None], np.argsort(x)[None], axis=1), np.select([x > 1, x > 0], [x, -x], default=9.0),
            np.partition(x, 2)[2], np.digitize(x, [0.0, 1.0]), np.isin(i, [1, 2]))


@case("f64[3,3]")
def linear_algebra(a):
    m = a @ a.T + 3 * np.eye(3)
    q, r = np.linalg.qr(m)
    u, s, vt = np.linalg.svd(m)
    w, v = np.linalg.eigh(m)
    return (np.linalg.solve(m, a[0]), np.linalg.inv(m), np.linalg.det(m), np.linalg.cholesky(m), q @ r, s, w,
            norm(a), np.linalg.norm(a, axis=1), np.linalg.norm(a, 1), np.trace(a), np.kron(a[:2, :2], a[:1, :1]),
            np.linalg.matrix_power(m, 2), np.cross(a[0], a[1]))


@case("f64[8]")
def transforms(x):
    f = np.fft.fft(x)
    return (np.abs(f), np.fft.ifft(f).real, np.fft.rfft(x), np.fft.irfft(np.fft.rfft(x)), np.fft.fftfreq(8),
            np.fft.fftshift(x))


@case("f64[4]")
def constants(x):
    return (x * np.pi, np.inf, np.e, np.finfo(np.float32).eps, np.iinfo(np.int32).max, np.float32(1.5) + x[0],
            np.dtype("float32") == np.float32, np.finfo(np.float64).tiny, np.nan is None)


@case("f64[4]")
def types(x):
    return isinstance(x, np.ndarray), isinstance(1, (int, float)), isinstance(x, tuple), x.dtype == np.float32


@case("f64[5]")
def in_place_sort(x):
    y = x.copy()
    y.sort()
    np.fill_diagonal(np.zeros((2, 2)), 1)
    np.copyto(x, y)
    return y


# --- statements

@case("f64[5]", "f64[5]")
def augmented(a, b):
    a += b
    a *= 2
    c = a
    c -= 1
    s = 0
    s += b[0]
    a[1:] += a[:-1]
    a[0] **= 2
    n = 7
    n //= 2
    n <<= 2
    n |= 1
    return a, c, s, n


@case("f64[3,3]", "f64[3,3]")
def augmented_product(a, b):
    c = a.copy()
    c @= b
    return c


@case("f64[4,4]")
def stores(x):
    x[0] = 1.0
    x[:, 1] = x[:, 2]
    x[1:3, ::2] = 7
    x[x > 6] = 0
    x[[0, 1], [1, 2]] = -1
    x[-1, -1], x[0, 0] = x[0, 0], x[-1, -1]
    items = [1, 2]
    items[0] = 5
    named = {}
    named["k"] = items
    return x, named


@case(1, 2)
def assignments(a, b):
    a, b = b, a
    c = d = a + b
    (e, f), g = (a, c), d
    [h, i] = [e, f]
    x: int = 3
    y: float
    a, b, c = c, a, b
    return a, b, c, d, e, f, g, h, i, x


@case("f64[4]")
def chained_mutable(x):
    a = b = np.zeros(2)
    a += 1
    p = q = []
    p.append(x[0])
    return a, b, len(q)


@case("f64[6]", 5)
@case("f64[6]", 1)
def branches(x, n):
    if n > 3:
        y = x + 1
    elif n == 2:
        y = x
    else:
        y = x - 1
        pass
    if not n:
        y = y * 2
    if n < 2 and x.shape[0] > 2:
        return y
    if DEBUG:
        y = y * 100
    if True:
        y = y + 0.5
    if n == 5:
        pass
    else:
        y = -y
    return y


@case(5)
@case(0)
def loops(n):
    total = 0
    for i in range(n):
        for j in range(i, n, 2):
            if j == 3:
                continue
            if j > 4:
                break
            total += i * j
    for k in range(n, 0, -1):
        total -= k
    for r in reversed(range(n)):
        total = total * 2 + r
    return total


@case("f64[3,2]", [1, 2, 3], (4.0, 5.0))
def iteration(x, items, pair):
    out = []
    for row in x:
        out.append(row.sum())
    for i, v in enumerate(items):
        out.append(i * v)
    for i, (a, b) in enumerate(zip(items, pair), 1):
        out.append(i + a * b)
    for a, b in zip(x, items):
        out.append(a[0] * b)
    for o in OFFSETS:
        out.append(o)
    for v in [9, 8]:
        out.append(v)
    for i, j in np.ndindex(2, 2):
        out.append(i * j)
    return out


@case({"b": "f64[2]", "a": "f64[3]"})
def dictionaries(params):
    total = 0.0
    for key, value in params.items():
        total = total + value.sum()
        if key == "a":
            total = total * 2
    for key in params:
        total = total + params[key].size
    for value in params.values():
        total = total - value[0]
    return total, params.get("c", 1), "a" in params


@case(10.0)
def while_loops(x):
    n = 0
    while x > 1:
        x = x / 2
        n += 1
    while n != 2:
        n -= 1
    while n < 5 and x < 100:
        n += 1
        x = x * 3
        if n == 4:
            continue
    while True:
        n += 1
        if n > 20:
            break
    return x, n


@case(3)
@case(50)
def endless_with_return(n):
    while True:
        n += 7
        if n % 10 == 0:
            return n
        if n > 1000:
            return None


@case(2)
def rebound_range(n):
    total = 0
    for i in range(n):
        n = n + 5
        i = i * 2
        total += i + n
    for v in [n, 1]:
        v += 1
        total += v
    return total


@case(0)
@case(3)
def maybe_unbound(n):
    for i in range(n):
        last = i
    return last


@case(True)
@case(False)
def maybe_unbound_if(flag):
    if flag:
        value = 1
    return value


@case(4)
def deleted(n):
    m = n
    del n
    return m


@case("f64[3]")
def implicit_none(x):
    x += 1


@case(-1)
@case(1)
def raises(n):
    if n < 0:
        raise ValueError(f"n is {n}, {n!r:>4}, and must not be negative")
    assert n > 0, "positive"
    return n


@case(3, 0)
def zero_division(a, b):
    return a // b


@case("f64[2,3]", "f64[4,3]")
def shape_error(a, b):
    return a + b


@case((1, 2, 3))
def unpack_error(t):
    a, b = t
    return a + b


@case("f64[3]")
def walrus(x):
    n = 1
    y = n + (n := 5) + n
    if (m := x.size) > 2:
        y += m
    return y, [k := 3, k + 1], m


@case("f64[3]")
def silent(x):
    """A docstring."""
    "another string"
    with np.errstate(divide="ignore", invalid="ignore"):
        y = x / 0.0
    return y


@case("f64[2,3]", "f64[6]")
def shape_stores(x, y):
    z = x
    x.shape = y.shape = (3, 2)
    return z.shape, x + y


@case("f32[3]", "i32[3]")
def machine_limits(x, i):
    return np.finfo(x.dtype).eps * x, np.iinfo(i.dtype).max, np.finfo(np.float64).max


# --- functions

def shift(x, by=1.0, *, times=1):
    return x + by * times


def early(x, limit=2):
    if x > limit:
        return x
    y = x * 10
    if y > 15:
        return y
    return -1


def find(items, wanted):
    for i in range(len(items)):
        if items[i] == wanted:
            return i
    return None


def find_pair(limit):
    for i in range(10):
        j = 0
        while j < i:
            if i * j > limit:
                return i, j
            j += 1
    return None


def first_over(limit):
    n = 0
    while True:
        n += 3
        for k in range(n):
            if k * n > limit:
                return n, k


def checked(n):
    if n < 0:
        raise ValueError("negative")
    elif n == 0:
        return 0.0
    else:
        return math.sqrt(n)


def accumulate(x, n):
    for _ in range(n):
        x = x * 2
    return x


def apply(f, x):
    return f(x)


def twice(f, x):
    return apply(f, apply(f, x))


def nothing(x):
    x[0] = 5.0


@case("f64[3]")
def helpers(x):
    a = shift(x)
    b = shift(x, 2, times=3)
    c = shift(by=1, x=x)
    return a, b, c, shift(shift(x)), accumulate(x, 3), nothing(a), a


@case(3)
@case(1)
@case(0)
def helpers_with_returns(n):
    return (early(n), early(n, limit=0), find((5, 3, 1), n), find_pair(n * 10), find_pair(1000), checked(n),
            first_over(n))


@case(4)
def helpers_in_loops(n):
    total = 0
    for i in range(n):
        total += early(i) + checked(i)
        if find([1, 2], i) is None:
            total += 100
        else:
            total += find([1, 2], i)
    return total


@case(-2)
def helper_raises(n):
    return checked(n) + 1


@case("f64[4]")
def function_arguments(x):
    act = np.tanh
    half = lambda v: v / 2  # noqa: E731
    return apply(np.exp, x), apply(lambda v: v * 2, x), twice(half, x), act(x), apply(act, x)


@case("f64[4]", 3)
def nested(x, n):
    scale = n * 2

    def inner(v, w=1):
        def innermost(u):
            return u * scale + n
        return innermost(v) + w

    a = inner(x)
    scale = 100
    return a, inner(x, w=2), [inner(v) for v in x]


@case("f32[4]")
def globals_(x):
    return x * SCALE + OFFSETS[1], x @ TABLE.T, UNTYPED * x, TABLE.shape[0]


@dataclass
class Dense:
    """A layer as a dataclass."""

    w: np.ndarray
    b: np.ndarray
    act: str = "relu"


@dataclass
class Model:
    """A stack of layers with methods."""

    layers: list = field(default_factory=list)
    scale: float = 1.0
    training: bool = False
    shared = 3

    def step(self, layer, x):
        y = x @ layer.w + layer.b
        if layer.act == "relu":
            return np.maximum(y, 0)
        return y

    @staticmethod
    def norm(x, eps=1e-6):
        return x / (np.abs(x).max() + eps)

    @classmethod
    def factor(cls, n):
        return cls.shared * n

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = self.step(layer, x)
            if i < len(self.layers) - 1 and not self.training:
                x = self.norm(x)
        return x * self.scale * self.factor(2) * self.shared


def model():
    return Model([Dense(array("f64[4,5]"), array("f64[5]")), Dense(array("f64[5,2]"), array("f64[2]"), "none")], 0.5)


CASES.append((Model.forward, (model, "f64[3,4]")))


@case(model, "f64[3,4]")
def containers(m, x):
    for layer in m.layers:
        x = np.tanh(x @ layer.w + layer.b)
    return x, m.layers[0].w.shape, [layer.b for layer in m.layers], Model.norm(x), Model.shared


@case({"w": "f64[4,2]", "inner": [{"b": "f64[2]"}]}, "f64[3,4]")
def parameter_tree(params, x):
    return x @ params["w"] + params["inner"][0]["b"]


@case(lambda: SimpleNamespace(x=array("f64[3]")))
def attribute_in_place(obj):
    obj.x[1] += 1
    obj.x[:2] = 0
    return obj.x.sum()


@case(1, 2)
@case(1)
def defaults(a, b=10, *, c=(1, 2), d=None, e="x"):
    return a, b, c, d, e


def make(scale, table):
    def inner(x):
        return x * scale + table[0]
    return inner


CASES.append((make(3.0, np.arange(4.0)), ("f64[4]",)))
square = lambda x: x * x  # noqa: E731
CASES.append((square, ("f64[4]",)))


# --- kinds of whole programs

@case("f64[8,8]", 4)
def heat(u, steps):
    for _ in range(steps):
        u[1:-1, 1:-1] += 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1])
    return u


@case("f64[5,5]", "f64[5]")
def back_substitution(a, b):
    m = a @ a.T + np.eye(5)
    x = np.zeros_like(b)
    for i in range(b.shape[0] - 1, -1, -1):
        x[i] = (b[i] - m[i, i + 1:] @ x[i + 1:]) / m[i, i]
    return x


@case("f64[6,4]")
def gram_schmidt(a):
    q = np.zeros_like(a)
    for k in range(a.shape[1]):
        v = a[:, k].copy()
        for j in range(k):
            v -= np.dot(q[:, j], a[:, k]) * q[:, j]
        q[:, k] = v / np.linalg.norm(v)
    return q


@case(12, 8)
def escape_time(n, limit):
    x = np.linspace(-2, 1, n)
    y = np.linspace(-1, 1, n)
    c = x[:, None] + 1j * y
    z = np.zeros_like(c)
    counts = np.zeros(c.shape, dtype=np.int64)
    for _ in range(limit):
        inside = np.abs(z) < 2
        z[inside] = z[inside] * z[inside] + c[inside]
        counts[inside] += 1
    return counts


@case("f64[7]", 1e-3)
def iterate(x, tol):
    err = 1.0
    count = 0
    while err > tol:
        y = 0.5 * (x + 1.0 / (np.abs(x) + 1.0))
        err = np.abs(y - x).max()
        x = y
        count += 1
        if count >= 50:
            break
    return x, count


@case("i64[9]", 0x1021)
def checksum(data, poly):
    crc = 0xFFFF
    for b in data:
        value = 0xFF & b
        for _ in range(8):
            if (crc & 1) ^ (value & 1):
                crc = (crc >> 1) ^ poly
            else:
                crc >>= 1
            value >>= 1
    crc = ~crc & 0xFFFF
    return ((crc << 8) | ((crc >> 8) & 0xFF)) & 0xFFFF


def match(a, b):
    if a + b == 3:
        return 1
    else:
        return 0


@case("i64[7]")
def folding(seq):
    n = seq.shape[0]
    table = np.zeros((n, n), np.int32)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            if j - 1 >= 0:
                table[i, j] = max(table[i, j], table[i, j - 1])
            if i + 1 < n:
                table[i, j] = max(table[i, j], table[i + 1, j])
            if j - 1 >= 0 and i + 1 < n:
                if i < j - 1:
                    table[i, j] = max(table[i, j], table[i + 1, j - 1] + match(seq[i], seq[j]))
                else:
                    table[i, j] = max(table[i, j], table[i + 1, j - 1])
            for k in range(i + 1, j):
                table[i, j] = max(table[i, j], table[i, k] + table[k + 1, j])
    return table


@case(lambda: np.array([0, 2, 3, 5]), lambda: np.array([0, 2, 1, 0, 2]), "f64[5]", "f64[3]")
def sparse_rows(rows, columns, values, x):
    y = np.empty(rows.size - 1, values.dtype)
    for i in range(rows.size - 1):
        at = columns[rows[i]:rows[i + 1]]
        v = values[rows[i]:rows[i + 1]]
        y[i] = v @ x[at]
    return y


@case("f64[30]", "f64[30]", 5)
def radial_bins(data, radius, n):
    radius = np.abs(radius)
    top = radius.max()
    result = np.zeros(n, np.float64)
    for i in range(n):
        r1 = top * i / n
        r2 = top * (i + 1) / n
        inside = np.logical_and(r1 <= radius, radius < r2)
        result[i] = data[inside].mean()
    return result


@case(3, 2, "c128[8]")
def butterfly(k, r, x):
    y = np.empty_like(x)
    y[:] = x
    rows, columns = np.mgrid[0:r, 0:r]
    roots = np.exp(-2.0j * np.pi * rows * columns / r)
    for i in range(k):
        yv = np.reshape(y, (r ** i, r, r ** (k - i - 1)))
        twiddle = np.empty((r, r ** i, r ** (k - i - 1)), dtype=np.complex128)
        ks = np.linspace(0, r ** (k - i - 1) - 1, r ** (k - i - 1))
        twiddle[:] = np.exp(-2.0j * np.pi * np.reshape(ks, (1, 1, -1)) * np.reshape(np.arange(r), (r, 1, 1)))
        rolled = np.transpose(yv, axes=(1, 0, 2))
        y[:] = np.reshape(roots @ np.reshape(rolled * twiddle, (r, r ** (k - 1))), (r ** k,))
    return y


@case("f64[6,6]", "f64[6,6]", "f64[6,6]", 3)
def cavity(u, v, p, steps):
    un = np.empty_like(u)
    b = np.zeros_like(u)

    def build(b, u, v):
        b[1:-1, 1:-1] = (u[1:-1, 2:] - u[1:-1, :-2]) / 2 - ((v[2:, 1:-1] - v[:-2, 1:-1]) / 2) ** 2

    for _ in range(steps):
        un = u.copy()
        vn = v.copy()
        build(b, u, v)
        pn = np.empty_like(p)
        for _q in range(2):
            pn = p.copy()
            p[1:-1, 1:-1] = (pn[1:-1, 2:] + pn[1:-1, :-2]) / 4 - b[1:-1, 1:-1]
            p[:, -1] = p[:, -2]
        u[1:-1, 1:-1] = un[1:-1, 1:-1] - un[1:-1, 1:-1] * 0.1 * (un[1:-1, 1:-1] - un[1:-1, :-2]) - p[1:-1, 2:]
        v[0, :] = vn[-1, :]
        v[:, 0] = 0


@case("f64[4]", "i64[4]")
def counters(y, n):
    r = y.copy()
    alpha, beta = -r[0], 1.0
    z = np.empty_like(r)
    z[0] = -r[0]
    for k in range(1, r.shape[0]):
        beta *= 1.0 - alpha * alpha
        alpha = -(r[k] + np.dot(np.flip(r[:k]), z[:k])) / beta
        z[:k] += alpha * np.flip(z[:k])
        z[k] = alpha
    return z, np.uint8(200) + n.astype(np.uint8), n % 3 == 1


@case("f64[5,5]")
def all_pairs(d):
    d = np.abs(d)
    for k in range(d.shape[0]):
        d[:] = np.minimum(d, np.add.outer(d[:, k], d[k]))
    return d


@case("f32[6,8]", "f32[8,8]", "f32[8,8]", "f32[8,8]", 2)
def attention(x, wq, wk, wv, heads):
    n, d = x.shape

    def split(v):
        return v.reshape(n, heads, d // heads).transpose(1, 0, 2)

    q, k, v = split(x @ wq), split(x @ wk), split(x @ wv)
    s = q @ k.transpose(0, 2, 1) / math.sqrt(d // heads)
    s = np.exp(s - s.max(axis=-1, keepdims=True))
    s /= s.sum(axis=-1, keepdims=True)
    return (s @ v).transpose(1, 0, 2).reshape(n, d)
