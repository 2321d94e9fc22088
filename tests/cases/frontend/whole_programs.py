"""Kinds of whole programs: any engine must do what Python does."""

from __future__ import annotations

import math

import numpy as np
from frontend_table import case


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
