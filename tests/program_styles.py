"""The same kinds of programs in other people's hands: helpers inside, `out=`, swapped buffers, tuple targets, keyword
defaults, errors with texts, module constants, iteration over rows and over `np.ndindex`."""

from __future__ import annotations

import math

import numpy as np
from program_table import complexes, matrix, positive_definite, program, values, vector

EARTH_RADIUS = 6371.0
SINGULAR = 1e-8


@program("array", lambda n, dt: tuple(vector(n, dt, i) for i in range(1, 5)), big=100_000)
def haversine(lat1, lon1, lat2, lon2, *, radius=EARTH_RADIUS):
    lat1, lon1, lat2, lon2 = map(np.radians, (lat1, lon1, lat2, lon2))
    half = np.sin((lat2 - lat1) / 2.0) ** 2 + np.cos(lat1) * np.cos(lat2) * np.sin((lon2 - lon1) / 2.0) ** 2
    return 2 * radius * np.arcsin(np.sqrt(half))


@program("array", lambda n, dt: (values((2, 3, n, n), dt, 1),), big=64)
def softmax_in_place(x):
    shifted = x - x.max(axis=-1)[..., np.newaxis]
    np.exp(shifted, out=shifted)
    shifted /= shifted.sum(axis=-1, keepdims=True)
    return shifted


@program("slices", lambda n, dt: (6, matrix(n, n, dt, 1), matrix(n, n, dt, 2)), big=500)
def jacobi_swapped(sweeps, a, b):
    old, new = a, b
    for _ in range(sweeps):
        new[1:-1, 1:-1] = 0.2 * (old[1:-1, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:] + old[2:, 1:-1] + old[:-2, 1:-1])
        old, new = new, old
    return old


@program("slices", lambda n, dt: (matrix(n, n, dt, 1), 7), big=500)
def heat_swapped(u, steps):
    u = u.copy()
    v = np.zeros_like(u)
    for _ in range(steps):
        v[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.1 * (u[2:, 1:-1] - 2 * u[1:-1, 1:-1] + u[:-2, 1:-1])
        u, v = v, u
    return u


@program("triangular", lambda n, dt: (positive_definite(n, dt, 1),), big=300)
def lu_pivoted(a):
    n = a.shape[0]
    order = np.arange(n)
    for k in range(n):
        pivot = k + int(np.argmax(np.abs(a[k:, k])))
        if pivot != k:
            a[[k, pivot], :] = a[[pivot, k], :]
            order[[k, pivot]] = order[[pivot, k]]
        if abs(a[k, k]) < SINGULAR:
            raise ValueError(f"singular at column {k}")
        a[k + 1:, k] /= a[k, k]
        a[k + 1:, k + 1:] -= a[k + 1:, k, None] * a[None, k, k + 1:]
    return order


@program("triangular", lambda n, dt: (matrix(n + 3, n, dt, 1),), big=200, dtypes=(np.float64,))
def orthonormal(a):
    m, n = a.shape
    left, q, r = a.copy(), np.zeros((m, n), dtype=a.dtype), np.zeros((n, n), dtype=a.dtype)
    for i in range(n):
        r[i, i] = np.linalg.norm(left[:, i])
        q[:, i] = left[:, i] / r[i, i]
        r[i, i + 1:] = q[:, i] @ left[:, i + 1:]
        left[:, i + 1:] -= np.outer(q[:, i], r[i, i + 1:])
    return q, r


@program("slices", lambda n, dt: (values((2, n, n, 3), dt, 1), values((2, 2, 3, 4), dt, 2), vector(4, dt, 3)), big=32)
def conv_over_indices(x, w, bias):
    k = w.shape[0]
    rows, columns = x.shape[1] - k + 1, x.shape[2] - k + 1
    out = np.ndarray((x.shape[0], rows, columns, w.shape[3]), dtype=x.dtype)
    for i, j in np.ndindex(rows, columns):
        out[:, i, j, :] = np.tensordot(x[:, i:i + k, j:j + k, :], w, axes=([1, 2, 3], [0, 1, 2]))
    return out + bias


@program("array", lambda n, dt: (matrix(n, 3, dt, 1), matrix(n, 3, dt, 2), vector(n, dt, 3).reshape(n, 1), 4), big=100,
         dtypes=(np.float64,))
def bodies(position, velocity, mass, steps, dt=0.01, softening=0.1):
    def acceleration(position, mass):
        x, y, z = position[:, 0:1], position[:, 1:2], position[:, 2:3]
        dx, dy, dz = x.T - x, y.T - y, z.T - z
        inverse = dx**2 + dy**2 + dz**2 + softening**2
        inverse[inverse > 0] = inverse[inverse > 0]**(-1.5)
        return np.hstack(((dx * inverse) @ mass, (dy * inverse) @ mass, (dz * inverse) @ mass))

    velocity -= np.mean(mass * velocity, 0) / np.mean(mass)
    pull = acceleration(position, mass)
    kinetic = np.ndarray(steps + 1, dtype=np.float64)
    kinetic[0] = 0.5 * np.sum(np.sum(mass * velocity**2))
    for i in range(steps):
        velocity += pull * dt / 2.0
        position += velocity * dt
        pull = acceleration(position, mass)
        velocity += pull * dt / 2.0
        kinetic[i + 1] = 0.5 * np.sum(np.sum(mass * velocity**2))
    return kinetic


@program("data", lambda n, dt: (-2.0, 0.5, -1.25, 1.25, n, n - 1, 12), big=100, dtypes=(np.float64,))
def mandelbrot_by_rows(xmin, xmax, ymin, ymax, xn, yn, limit, horizon=2.0):
    c = np.linspace(xmin, xmax, xn) + np.linspace(ymin, ymax, yn)[:, None] * 1j
    count, z = np.zeros(c.shape, dtype=np.int64), np.zeros(c.shape, dtype=np.complex128)
    for n in range(limit):
        inside = np.less(abs(z), horizon)
        count[inside] = n
        z[inside] = z[inside] ** 2 + c[inside]
    count[count == limit - 1] = 0
    return z, count


@program("data", lambda n, dt: (matrix(n, n, dt, 1), 0.999), big=100)
def first_above(a, limit):
    for i, row in enumerate(a):
        for j in range(row.shape[0]):
            if row[j] > limit:
                return i, j
    return None


@program("data", lambda n, dt: (vector(n, dt, 1),), big=100)
def bubble_sort(x):
    x = x.copy()
    n = len(x)
    swapped = True
    while swapped:
        swapped = False
        for i in range(n - 1):
            if x[i] > x[i + 1]:
                x[i], x[i + 1] = x[i + 1], x[i]
                swapped = True
        n -= 1
    return x


@program("array", lambda n, dt: (matrix(n, n, dt, 1) + n * np.eye(n, dtype=dt),), big=200, dtypes=(np.float64,))
def newton_inverse(a):
    x = a.T / (np.abs(a).sum(axis=0).max() * np.abs(a).sum(axis=1).max())
    eye = np.identity(a.shape[0], dtype=a.dtype)
    for _ in range(12):
        x = x @ (2 * eye - a @ x)
    return x


@program("slices", lambda n, dt: (vector(n, dt, 1), matrix(n, n, dt, 2)), big=200)
def runge_kutta(y, a, h=0.01, steps=3):
    f = lambda t, y: a @ y + np.sin(t)  # noqa: E731
    t = 0.0
    history = np.empty((steps + 1, y.shape[0]), dtype=y.dtype)
    history[0] = y
    for s in range(steps):
        k1 = f(t, y)
        k2 = f(t + h / 2, y + h / 2 * k1)
        k3 = f(t + h / 2, y + h / 2 * k2)
        k4 = f(t + h, y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        t += h
        history[s + 1] = y
    return history


@program("array", lambda n, dt: (matrix(n, 4, dt, 1), matrix(4, 4, dt, 2), matrix(4, 4, dt, 3), matrix(4, 4, dt, 4)), big=128,
         dtypes=(np.float32, np.float64))
def causal_attention(x, wq, wk, wv, heads=2, causal=True):
    n, d = x.shape

    def split(t):
        return t.reshape(n, heads, d // heads).transpose(1, 0, 2)

    q, k, v = split(x @ wq), split(x @ wk), split(x @ wv)
    score = q @ k.swapaxes(-1, -2) / math.sqrt(d // heads)
    if causal:
        score = np.where(np.tril(np.ones((n, n), dtype=bool)), score, -np.inf)
    score -= score.max(-1, keepdims=True)
    p = np.exp(score)
    p /= p.sum(-1, keepdims=True)
    return (p @ v).transpose(1, 0, 2).reshape(n, d)


@program("array", lambda n, dt: (np.random.default_rng(0).integers(0, 2**32, n, dtype=np.uint32),), big=100_000,
         dtypes=(np.float64,))
def xorshift(s):
    for _ in range(4):
        s ^= s << np.uint32(13)
        s ^= s >> np.uint32(17)
        s ^= s << np.uint32(5)
    return s, (s & 0xFF).astype(np.uint8)


@program("array", lambda n, dt: (complexes((n, n), dt, 1),), big=500)
def hadamard(psi):
    h = np.array([[1, 1], [1, -1]]) / np.sqrt(2)
    out = psi.copy()
    out[:2, :2] = h @ psi[:2, :2] @ h.conj().T
    chance = np.abs(out) ** 2
    return out / np.sqrt(chance.sum()), chance.real.sum(), out[0, 0]


@program("slices", lambda n, dt: (matrix(n, n, dt, 1), 4), big=500)
def block_sums(a, block):
    n, m = a.shape
    out = np.zeros(((n + block - 1) // block, (m + block - 1) // block), a.dtype)
    for bi, i in enumerate(range(0, n, block)):
        for bj, j in enumerate(range(0, m, block)):
            out[bi, bj] = a[i:min(i + block, n), j:min(j + block, m)].sum()
    return out
