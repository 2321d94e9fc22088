"""Networks, physics, images, strings: whole-array expressions, gathers, masks and data-dependent loops."""

from __future__ import annotations

from typing import Any

import numpy as np
from program_table import complexes, matrix, program, values, vector


@program("array", lambda n, dt: tuple(vector(n, dt, i) for i in range(1, 5)), big=100_000)
def arc_distance(theta_1, phi_1, theta_2, phi_2):
    part = (np.sin((theta_2 - theta_1) / 2)**2
            + np.cos(theta_1) * np.cos(theta_2) * np.sin((phi_2 - phi_1) / 2)**2)
    return 2 * np.arctan2(np.sqrt(part), np.sqrt(1 - part))


@program("array", lambda n, dt: (values((max(n // 8, 1), n // 8 + 2, n, n), dt, 1),), big=128, dtypes=(np.float32, np.float64))
def softmax(x):
    top = np.max(x, axis=-1, keepdims=True)
    e = np.exp(x - top)
    return e / np.sum(e, axis=-1, keepdims=True)


def _clip(n: int, dtype: Any) -> tuple:
    rng = np.random.default_rng(1)
    return rng.integers(0, 1000, (n, n)), rng.integers(0, 1000, (n, n)), np.int64(4), np.int64(3), np.int64(9)


@program("array", _clip, big=1000)
def compute(x, y, a, b, c):
    return np.clip(x, 2, 10) * a + y * b + c


@program("slices", lambda n, dt: (matrix(n, n, dt, 1),), big=2000)
def go_fast(a):
    trace = 0.0
    for i in range(a.shape[0]):
        trace += np.tanh(a[i, i])
    return a + trace


def _conv(n: int, dtype: Any) -> tuple:
    channels = 3 if n < 20 else 16
    return values((2 if n < 20 else 8, n, n, 3), dtype, 1), values((2, 2, 3, channels), dtype, 2), vector(channels, dtype, 3)


def convolve(x, w):
    k = w.shape[0]
    rows = x.shape[1] - k + 1
    columns = x.shape[2] - k + 1
    out = np.empty((x.shape[0], rows, columns, w.shape[3]), dtype=x.dtype)
    for i in range(rows):
        for j in range(columns):
            out[:, i, j, :] = np.sum(x[:, i:i + k, j:j + k, :, np.newaxis] * w[np.newaxis, :, :, :], axis=(1, 2, 3))
    return out


@program("slices", _conv, big=32, dtypes=(np.float32, np.float64))
def conv2d_bias(x, w, bias):
    return convolve(x, w) + bias


def relu(x):
    return np.maximum(x, 0)


def max_pool(x):
    out = np.empty((x.shape[0], x.shape[1] // 2, x.shape[2] // 2, x.shape[3]), dtype=x.dtype)
    for i in range(x.shape[1] // 2):
        for j in range(x.shape[2] // 2):
            out[:, i, j, :] = np.max(x[:, 2 * i:2 * i + 2, 2 * j:2 * j + 2, :], axis=(1, 2))
    return out


def _lenet(n: int, dtype: Any) -> tuple:
    side = ((n - 4) // 2 - 4) // 2
    return (values((2, n, n, 1), dtype, 1), values((5, 5, 1, 6), dtype, 2), vector(6, dtype, 3), values((5, 5, 6, 16), dtype, 4),
            vector(16, dtype, 5), matrix(side * side * 16, 12, dtype, 6), vector(12, dtype, 7), matrix(12, 10, dtype, 8),
            vector(10, dtype, 9))


@program("slices", _lenet, big=28, dtypes=(np.float32,))
def lenet(x, c1, b1, c2, b2, f1, b3, f2, b4):
    x = max_pool(relu(convolve(x, c1) + b1))
    x = max_pool(relu(convolve(x, c2) + b2))
    x = np.reshape(x, (x.shape[0], x.shape[1] * x.shape[2] * x.shape[3]))
    x = relu(x @ f1 + b3)
    return x @ f2 + b4


def normalise(x, eps=1e-5):
    mean = np.mean(x, axis=0, keepdims=True)
    std = np.std(x, axis=0, keepdims=True)
    return (x - mean) / np.sqrt(std + eps)


def _resnet(n: int, dtype: Any) -> tuple:
    wide, narrow = (8, 4) if n < 12 else (32, 8)
    return (values((4, n, n, wide), dtype, 1), values((1, 1, wide, narrow), dtype, 2), values((3, 3, narrow, narrow), dtype, 3),
            values((1, 1, narrow, wide), dtype, 4))


@program("slices", _resnet, big=14, dtypes=(np.float32,))
def resnet_block(x, w1, w2, w3):
    padded = np.zeros((x.shape[0], x.shape[1] + 2, x.shape[2] + 2, w1.shape[3]), dtype=x.dtype)
    padded[:, 1:-1, 1:-1, :] = convolve(x, w1)
    h = relu(normalise(padded))
    h = relu(normalise(convolve(h, w2)))
    h = normalise(convolve(h, w3))
    return relu(h + x)


def _mlp(n: int, dtype: Any) -> tuple:
    return (matrix(8, 3, dtype, 1), matrix(3, 3 * n, dtype, 2), vector(3 * n, dtype, 3), matrix(3 * n, n, dtype, 4),
            vector(n, dtype, 5), matrix(n, n, dtype, 6), vector(n, dtype, 7))


@program("array", _mlp, big=1000, dtypes=(np.float32, np.float64))
def mlp(x, w1, b1, w2, b2, w3, b3):
    x = relu(x @ w1 + b1)
    x = relu(x @ w2 + b2)
    x = x @ w3 + b3
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


# --- physics ----------------------------------------------------------------------------------------------------------


def acceleration(pos, mass, g, softening):
    x = pos[:, 0:1]
    y = pos[:, 1:2]
    z = pos[:, 2:3]
    dx = x.T - x
    dy = y.T - y
    dz = z.T - z
    inverse = dx**2 + dy**2 + dz**2 + softening**2
    inverse[inverse > 0] = inverse[inverse > 0]**(-1.5)
    ax = g * (dx * inverse) @ mass
    ay = g * (dy * inverse) @ mass
    az = g * (dz * inverse) @ mass
    return np.hstack((ax, ay, az))


def energy(pos, vel, mass, g):
    kinetic = 0.5 * np.sum(mass * vel**2)
    x = pos[:, 0:1]
    y = pos[:, 1:2]
    z = pos[:, 2:3]
    inverse = np.sqrt((x.T - x)**2 + (y.T - y)**2 + (z.T - z)**2)
    inverse[inverse > 0] = 1.0 / inverse[inverse > 0]
    return kinetic, g * np.sum(np.triu(-(mass * mass.T) * inverse, 1))


def _bodies(n: int, dtype: Any) -> tuple:
    return matrix(n, 1, dtype, 1), matrix(n, 3, dtype, 2), matrix(n, 3, dtype, 3), 3 if n < 20 else 40, 0.05, 1.0, 0.1


@program("slices", _bodies, big=25)
def nbody(mass, pos, vel, steps, dt, g, softening):
    vel -= np.mean(mass * vel, axis=0) / np.mean(mass)
    acc = acceleration(pos, mass, g, softening)
    kinetic = np.empty(steps + 1)
    potential = np.empty(steps + 1)
    kinetic[0], potential[0] = energy(pos, vel, mass, g)
    for i in range(steps):
        vel += acc * dt / 2.0
        pos += vel * dt
        acc[:] = acceleration(pos, mass, g, softening)
        vel += acc * dt / 2.0
        kinetic[i + 1], potential[i + 1] = energy(pos, vel, mass, g)
    return kinetic, potential


@program("data", lambda n, dt: (vector(n, dt, 1), vector(n, dt, 2), max(n // 400, 5)), big=400_000)
def azimint_naive(data, radius, bins):
    top = radius.max()
    out = np.zeros(bins)
    for i in range(bins):
        low = top * i / bins
        high = top * (i + 1) / bins
        ring = np.logical_and(low <= radius, radius < high)
        inside = data[ring]
        out[i] = inside.mean()
    return out


@program("call-out", lambda n, dt: (vector(n, dt, 1), vector(n, dt, 2), 20), big=400_000)
def azimint_histogram(data, radius, bins):
    counts, _ = np.histogram(radius, bins)
    sums, _ = np.histogram(radius, bins, weights=data)
    return sums / counts


def bin_index(x, edges):
    n = edges.shape[0] - 1
    if x == edges[-1]:
        return n - 1
    b = int(n * (x - edges[0]) / (edges[-1] - edges[0]))
    return b


@program("data", lambda n, dt: (vector(n, dt, 1), vector(n, dt, 2), 10), big=100_000)
def histogram_loop(a, weights, bins):
    edges = np.linspace(a.min(), a.max(), bins + 1)
    counts = np.zeros(bins, dtype=np.int64)
    sums = np.zeros(bins, dtype=a.dtype)
    for i in range(a.shape[0]):
        b = bin_index(a[i], edges)
        counts[b] += 1
        sums[b] += weights[i]
    return counts, sums


def _scatter(n: int, dtype: Any) -> tuple:
    k, e, q, w, a, o = 2, n, 2, 2, 3, 3
    return (np.zeros((k, e, a, o, o), dtype), values((k, e, a, o, o), dtype, 1), values((a, 4, 2, o, o), dtype, 2),
            values((q, w, a, 4, 2, 2), dtype, 3), np.random.default_rng(4).integers(0, a, (a, 4)))


@program("slices", _scatter, big=6)
def scattering(sigma, g, dh, d, neighbours):
    for k in range(g.shape[0]):
        for e in range(g.shape[1]):
            for q in range(d.shape[0]):
                for w in range(d.shape[1]):
                    for i in range(2):
                        for j in range(2):
                            for a in range(neighbours.shape[0]):
                                for b in range(neighbours.shape[1]):
                                    if e - w >= 0:
                                        dhg = g[k, e - w, neighbours[a, b]] @ dh[a, b, i]
                                        dhd = dh[a, b, j] * d[q, w, a, b, i, j]
                                        sigma[k, e, a] += dhg @ dhd


@program("array", lambda n, dt: (values((n, n), dt, 1), values((n, n, 3), dt, 2)), big=60)
def einsum_mix(a, b):
    return np.einsum("ij,jkc->ikc", a, b), np.einsum("ij,ij->i", a, a), np.einsum("ii->i", a)


# --- complex ----------------------------------------------------------------------------------------------------------


def _plane(n: int, dtype: Any) -> tuple:
    wide = np.complex64 if np.dtype(dtype) == np.float32 else np.complex128
    return -1.75, 0.25, -1.0, 1.0, n, n, 60 if n > 50 else 20, 2.0, np.dtype(wide)


@program("data", _plane, big=125, dtypes=(np.float64,))
def mandelbrot(xmin, xmax, ymin, ymax, xn, yn, limit, horizon, dtype):
    x = np.linspace(xmin, xmax, xn)
    y = np.linspace(ymin, ymax, yn)
    c = x + y[:, None] * 1j
    n = np.zeros(c.shape, dtype=np.int64)
    z = np.zeros(c.shape, dtype=np.complex128)
    for k in range(limit):
        inside = np.less(abs(z), horizon)
        n[inside] = k
        z[inside] = z[inside]**2 + c[inside]
    n[n == limit - 1] = 0
    return z, n


@program("data", lambda n, dt: (n, 12 if n < 50 else 60, 2.0), big=125, dtypes=(np.float64,))
def mandelbrot_shrinking(side, limit, horizon):
    """Points leave as soon as they escape: arrays shrink from trip to trip."""
    columns, rows = np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
    c = np.linspace(-2.0, 0.5, side)[columns] + 1j * np.linspace(-1.25, 1.25, side)[rows]
    out = np.zeros((side, side), dtype=np.int64)
    columns = columns.reshape(-1)
    rows = rows.reshape(-1)
    c = c.reshape(-1)
    z = np.zeros(c.shape, np.complex128)
    for i in range(limit):
        if len(z) == 0:
            break
        z = z * z + c
        escaped = abs(z) > horizon
        out[columns[escaped], rows[escaped]] = i + 1
        stays = ~escaped
        z = z[stays]
        c = c[stays]
        columns = columns[stays]
        rows = rows[stays]
    return out


def _fft(n: int, dtype: Any) -> tuple:
    k = max(int(n).bit_length() - 1, 1)
    return 2**k, 2, k, complexes((2**k,), np.float64, 1)


@program("slices", _fft, big=2**15, dtypes=(np.float64,))
def stockham_fft(size, radix, stages, x):
    """A self-sorting transform: radix products, twiddles, transposes."""
    i, j = np.mgrid[0:radix, 0:radix]
    roots = np.exp(-2.0j * np.pi * i * j / radix)
    y = x.copy()
    for stage in range(stages):
        left, right = radix**stage, radix**(stages - stage - 1)
        block = y.reshape(radix, left, right)
        p, q = np.mgrid[0:radix, 0:left]
        twiddle = np.exp(-2.0j * np.pi * p * q / (left * radix))
        block = np.reshape(block, (radix, left, right)) * twiddle.reshape(radix, left, 1)
        y = np.swapaxes(np.tensordot(roots, block, axes=1).reshape(radix, left, right), 0, 0).reshape(size)
        y = y.reshape(radix * left, right).copy().reshape(size)
    return y


def _contour(n: int, dtype: Any) -> tuple:
    rng = np.random.default_rng(1)
    return (complexes((2, n, n), np.float64, 1), np.exp(2j * np.pi * rng.random(8)) * 1.1, complexes((n, 3), np.float64, 2))


@program("call-out", _contour, big=50, dtypes=(np.float64,))
def contour_integral(ham, points, y):
    p0 = np.zeros((ham.shape[1], y.shape[1]), dtype=np.complex128)
    p1 = np.zeros((ham.shape[1], y.shape[1]), dtype=np.complex128)
    for z in points:
        t = np.zeros((ham.shape[1], ham.shape[1]), dtype=np.complex128)
        for k in range(ham.shape[0]):
            t += z**(1 - k) * ham[k]
        x = np.linalg.solve(t, y)
        if abs(z) < 1.0:
            x[...] = -x
        p0 += x
        p1 += z * x
    return p0, p1


# --- integers and graphs ----------------------------------------------------------------------------------------------


@program("data", lambda n, dt: (np.random.default_rng(1).integers(0, 256, n).astype(np.uint8),), big=1600)
def crc16(data, poly=0x8408):
    crc = 0xFFFF
    for b in data:
        cur = 0xFF & b
        for _ in range(8):
            if (crc & 0x0001) ^ (cur & 0x0001):
                crc = (crc >> 1) ^ poly
            else:
                crc >>= 1
            cur >>= 1
    crc = ~crc & 0xFFFF
    crc = (crc << 8) | ((crc >> 8) & 0xFF)
    return crc & 0xFFFF


def match(b1, b2):
    if b1 + b2 == 3:
        return 1
    return 0


@program("data", lambda n, dt: (n, np.random.default_rng(1).integers(0, 4, n).astype(np.int32)), big=60)
def nussinov(n, seq):
    """Pairs of an RNA strand, by dynamic programming over intervals."""
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


def _csr(n: int, dtype: Any) -> tuple:
    rng = np.random.default_rng(1)
    per_row = rng.integers(0, 5, n)
    start = np.zeros(n + 1, np.uint32)
    start[1:] = np.cumsum(per_row)
    total = int(start[-1])
    return start, rng.integers(0, n, total).astype(np.uint32), rng.random(total).astype(dtype), vector(n, dtype, 2)


@program("data", _csr, big=4096)
def spmv(start, columns, nonzero, x):
    y = np.empty(start.size - 1, nonzero.dtype)
    for i in range(start.size - 1):
        where = columns[start[i]:start[i + 1]]
        weights = nonzero[start[i]:start[i + 1]]
        y[i] = weights @ x[where]
    return y


@program("slices", lambda n, dt: (vector(n, dt, 1) - 0.5, 0.9), big=10_000)
def leaky_scan(x, decay):
    out = np.empty_like(x)
    state = 0.0
    for i in range(x.shape[0]):
        state = decay * state + x[i]
        out[i] = state
    return np.cumsum(x), out


@program("data", lambda n, dt: (matrix(n, n, dt, 1) + n * np.eye(n, dtype=dt), vector(n, dt, 2), 1e-3), big=200)
def jacobi_solve(a, b, tolerance):
    x = np.zeros_like(b)
    d = np.diag(a)
    while True:
        residual = b - a @ x
        if np.sqrt(np.sum(residual * residual)) < tolerance:
            break
        x = x + residual / d
    return x


@program("data", lambda n, dt: (matrix(n, 3, dt, 1), matrix(4, 3, dt, 2)), big=5000)
def kmeans_step(points, centres):
    d = ((points[:, None, :] - centres[None, :, :])**2).sum(axis=2)
    label = np.argmin(d, axis=1)
    out = np.zeros_like(centres)
    for k in range(centres.shape[0]):
        member = label == k
        count = np.sum(member)
        if count > 0:
            out[k] = points[member].sum(axis=0) / count
    return label, out


@program("data", lambda n, dt: (n,), big=100_000, dtypes=(np.float64,))
def sieve(n):
    keep = np.ones(n + 1, dtype=np.bool_)
    keep[:2] = False
    i = 2
    while i * i <= n:
        if keep[i]:
            keep[i * i::i] = False
        i += 1
    return np.nonzero(keep)[0]


@program("data", lambda n, dt: (matrix(n, n, dt, 1) > 0.6,), big=200)
def game_of_life(cells):
    for _ in range(5):
        count = np.zeros(cells.shape, dtype=np.int32)
        count[1:-1, 1:-1] = (cells[:-2, :-2].astype(np.int32) + cells[:-2, 1:-1] + cells[:-2, 2:] + cells[1:-1, :-2]
                             + cells[1:-1, 2:] + cells[2:, :-2] + cells[2:, 1:-1] + cells[2:, 2:])
        cells = (count == 3) | (cells & (count == 2))
    return cells
