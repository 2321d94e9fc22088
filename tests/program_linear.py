"""Linear algebra as NumPy users write it: products, solvers, triangular loops."""

from __future__ import annotations

from typing import Any

import numpy as np
from program_table import matrix, positive_definite, program, vector


def _gemm(n: int, dtype: Any) -> tuple:
    return 1.5, 1.2, matrix(n, n + 2, dtype, 1), matrix(n + 1, n + 2, dtype, 2), matrix(n, n + 1, dtype, 3)


@program("array", _gemm, big=300)
def gemm(alpha, beta, c, b, a):
    c[:] = alpha * a @ b + beta * c


def _k2mm(n: int, dtype: Any) -> tuple:
    return (1.5, 1.2, matrix(n, n + 1, dtype, 1), matrix(n + 1, n + 2, dtype, 2), matrix(n + 2, n + 3, dtype, 3),
            matrix(n, n + 3, dtype, 4))


@program("array", _k2mm, big=800)
def k2mm(alpha, beta, a, b, c, d):
    d[:] = alpha * a @ b @ c + beta * d


def _k3mm(n: int, dtype: Any) -> tuple:
    return matrix(n, n + 1, dtype, 1), matrix(n + 1, n + 2, dtype, 2), matrix(n + 2, n + 3, dtype, 3), matrix(n + 3, n, dtype, 4)


@program("array", _k3mm, big=400)
def k3mm(a, b, c, d):
    return a @ b @ c @ d


def _gemver(n: int, dtype: Any) -> tuple:
    return (1.5, 1.2, matrix(n, n, dtype, 1), *(vector(n, dtype, i) for i in range(2, 10)))


@program("array", _gemver, big=1000)
def gemver(alpha, beta, a, u1, v1, u2, v2, w, x, y, z):
    a += np.outer(u1, v1) + np.outer(u2, v2)
    x += beta * y @ a + z
    w += alpha * a @ x


@program("array", lambda n, dt: (1.5, 1.2, matrix(n, n, dt, 1), matrix(n, n, dt, 2), vector(n, dt, 3)), big=2000)
def gesummv(alpha, beta, a, b, x):
    return alpha * a @ x + beta * b @ x


@program("array", lambda n, dt: (matrix(n, n + 1, dt, 1), vector(n + 1, dt, 2)), big=4000)
def atax(a, x):
    return (a @ x) @ a


@program("array", lambda n, dt: (matrix(n + 1, n, dt, 1), vector(n, dt, 2), vector(n + 1, dt, 3)), big=4000)
def bicg(a, p, r):
    return r @ a, a @ p


@program("array", lambda n, dt: (vector(n, dt, 1), vector(n, dt, 2), vector(n, dt, 3), vector(n, dt, 4), matrix(n, n, dt, 5)),
         big=4000)
def mvt(x1, x2, y1, y2, a):
    x1 += a @ y1
    x2 += y2 @ a


def _doitgen(n: int, dtype: Any) -> tuple:
    return matrix(n, (n + 1) * (n + 2), dtype, 1).reshape(n, n + 1, n + 2), matrix(n + 2, n + 2, dtype, 2)


@program("array", _doitgen, big=60)
def doitgen(a, c4):
    nr, nq, nk = a.shape
    a[:] = np.reshape(np.reshape(a, (nr, nq, 1, nk)) @ c4, (nr, nq, nk))


# --- triangular loops -------------------------------------------------------------------------------------------------


@program("triangular", lambda n, dt: (positive_definite(n, dt),), big=60)
def lu(a):
    for i in range(a.shape[0]):
        for j in range(i):
            a[i, j] -= a[i, :j] @ a[:j, j]
            a[i, j] /= a[j, j]
        for j in range(i, a.shape[0]):
            a[i, j] -= a[i, :i] @ a[:i, j]


@program("triangular", lambda n, dt: (positive_definite(n, dt), vector(n, dt, 2)), big=60)
def ludcmp(a, b):
    x = np.zeros_like(b)
    y = np.zeros_like(b)
    n = a.shape[0]
    for i in range(n):
        for j in range(i):
            a[i, j] = (a[i, j] - a[i, :j] @ a[:j, j]) / a[j, j]
        for j in range(i, n):
            a[i, j] -= a[i, :i] @ a[:i, j]
    for i in range(n):
        y[i] = b[i] - a[i, :i] @ y[:i]
    for i in range(n - 1, -1, -1):
        x[i] = (y[i] - a[i, i + 1:] @ x[i + 1:]) / a[i, i]
    return x, y


@program("triangular", lambda n, dt: (positive_definite(n, dt),), big=100)
def cholesky(a):
    a[0, 0] = np.sqrt(a[0, 0])
    for i in range(1, a.shape[0]):
        for j in range(i):
            a[i, j] -= np.dot(a[i, :j], a[j, :j])
            a[i, j] /= a[j, j]
        a[i, i] -= np.dot(a[i, :i], a[i, :i])
        a[i, i] = np.sqrt(a[i, i])


@program("call-out", lambda n, dt: (positive_definite(n, dt),), big=1000)
def cholesky_library(a):
    a[:] = np.linalg.cholesky(a) + np.triu(a, k=1)


@program("triangular", lambda n, dt: (np.tril(positive_definite(n, dt)), np.zeros(n, dt), vector(n, dt, 2)), big=2000)
def trisolv(lower, x, b):
    for i in range(x.shape[0]):
        x[i] = (b[i] - lower[i, :i] @ x[:i]) / lower[i, i]


@program("triangular", lambda n, dt: (vector(n, dt, 1) / n,), big=1000)
def durbin(r):
    y = np.empty_like(r)
    alpha = -r[0]
    beta = 1.0
    y[0] = alpha
    for k in range(1, r.shape[0]):
        beta *= 1.0 - alpha * alpha
        alpha = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / beta
        y[:k] += alpha * np.flip(y[:k])
        y[k] = alpha
    return y


@program("triangular", lambda n, dt: (matrix(n + 3, n, dt, 1),), big=60)
def gramschmidt(a):
    q = np.zeros_like(a)
    r = np.zeros((a.shape[1], a.shape[1]), dtype=a.dtype)
    for k in range(a.shape[1]):
        length = np.dot(a[:, k], a[:, k])
        r[k, k] = np.sqrt(length)
        q[:, k] = a[:, k] / r[k, k]
        for j in range(k + 1, a.shape[1]):
            r[k, j] = np.dot(q[:, k], a[:, j])
            a[:, j] -= q[:, k] * r[k, j]
    return q, r


@program("triangular", lambda n, dt: (1.5, 1.2, matrix(n, n, dt, 1), matrix(n, n + 2, dt, 2)), big=70)
def syrk(alpha, beta, c, a):
    for i in range(a.shape[0]):
        c[i, :i + 1] *= beta
        for k in range(a.shape[1]):
            c[i, :i + 1] += alpha * a[i, k] * a[:i + 1, k]


@program("triangular", lambda n, dt: (1.5, 1.2, matrix(n, n, dt, 1), matrix(n, n + 2, dt, 2), matrix(n, n + 2, dt, 3)), big=50)
def syr2k(alpha, beta, c, a, b):
    for i in range(a.shape[0]):
        c[i, :i + 1] *= beta
        for k in range(a.shape[1]):
            c[i, :i + 1] += a[:i + 1, k] * alpha * b[i, k] + b[:i + 1, k] * alpha * a[i, k]


@program("triangular", lambda n, dt: (1.5, 1.2, matrix(n, n + 1, dt, 1), matrix(n, n, dt, 2), matrix(n, n + 1, dt, 3)), big=45)
def symm(alpha, beta, c, a, b):
    row = np.empty((c.shape[1],), dtype=c.dtype)
    c *= beta
    for i in range(c.shape[0]):
        for j in range(c.shape[1]):
            c[:i, j] += alpha * b[i, j] * a[i, :i]
            row[j] = b[:i, j] @ a[i, :i]
        c[i, :] += alpha * b[i, :] * a[i, i] + alpha * row


@program("triangular", lambda n, dt: (1.5, matrix(n, n, dt, 1), matrix(n, n + 1, dt, 2)), big=70)
def trmm(alpha, a, b):
    for i in range(b.shape[0]):
        for j in range(b.shape[1]):
            b[i, j] += np.dot(a[i + 1:, i], b[i + 1:, j])
    b *= alpha


# --- statistics -------------------------------------------------------------------------------------------------------


@program("array", lambda n, dt: (float(n), matrix(n, n + 2, dt, 1)), big=500)
def covariance(count, data):
    data -= np.mean(data, axis=0)
    cov = np.zeros((data.shape[1], data.shape[1]), dtype=data.dtype)
    for i in range(data.shape[1]):
        cov[i:, i] = cov[i, i:] = data[:, i] @ data[:, i:] / (count - 1.0)
    return cov


@program("array", lambda n, dt: (float(n), matrix(n, n + 2, dt, 1)), big=500)
def correlation(count, data):
    mean = np.mean(data, axis=0)
    spread = np.std(data, axis=0)
    spread[spread <= 0.1] = 1.0
    data -= mean
    data /= np.sqrt(count) * spread
    corr = np.eye(data.shape[1], dtype=data.dtype)
    for i in range(data.shape[1] - 1):
        corr[i + 1:, i] = corr[i, i + 1:] = data[:, i] @ data[:, i + 1:]
    return corr


@program("array", lambda n, dt: (matrix(n, n, dt, 1) + 5,), big=200)
def floyd_warshall(path):
    for k in range(path.shape[0]):
        path[:] = np.minimum(path, np.add.outer(path[:, k], path[k, :]))


@program("array", lambda n, dt: ((matrix(n, n, np.float64, 1) * 40 + 50).astype(np.int32),), big=200)
def floyd_warshall_integers(path):
    for k in range(path.shape[0]):
        path[:] = np.minimum(path[:], np.add.outer(path[:, k], path[k, :]))
