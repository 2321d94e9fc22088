"""Expressions of every kind, and NumPy functions: any engine must do what Python does."""

# ruff: noqa: C408, C409, C410, RUF059, UP018

from __future__ import annotations

import math

import numpy as np
from frontend_table import case
from numpy import sqrt as root
from numpy.linalg import norm

OFFSETS = (1, 2, 3)


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
