"""Stencils and time steps: loops over slices of arrays that are read and written."""

from __future__ import annotations

from typing import Any

import numpy as np
from program_table import matrix, program, values, vector


@program("slices", lambda n, dt: (20 if n < 100 else 800, vector(n, dt, 1), vector(n, dt, 2)), big=3200)
def jacobi_1d(steps, a, b):
    for _ in range(1, steps):
        b[1:-1] = 0.33333 * (a[:-2] + a[1:-1] + a[2:])
        a[1:-1] = 0.33333 * (b[:-2] + b[1:-1] + b[2:])


@program("slices", lambda n, dt: (5 if n < 100 else 50, matrix(n, n, dt, 1), matrix(n, n, dt, 2)), big=150)
def jacobi_2d(steps, a, b):
    for _ in range(1, steps):
        b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])
        a[1:-1, 1:-1] = 0.2 * (b[1:-1, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:] + b[2:, 1:-1] + b[:-2, 1:-1])


@program("slices", lambda n, dt: (4 if n < 20 else 25, values((n, n, n), dt, 1), values((n, n, n), dt, 2)), big=25)
def heat_3d(steps, a, b):
    for _ in range(1, steps):
        b[1:-1, 1:-1, 1:-1] = (0.125 * (a[2:, 1:-1, 1:-1] - 2.0 * a[1:-1, 1:-1, 1:-1] + a[:-2, 1:-1, 1:-1])
                               + 0.125 * (a[1:-1, 2:, 1:-1] - 2.0 * a[1:-1, 1:-1, 1:-1] + a[1:-1, :-2, 1:-1])
                               + 0.125 * (a[1:-1, 1:-1, 2:] - 2.0 * a[1:-1, 1:-1, 1:-1] + a[1:-1, 1:-1, :-2])
                               + a[1:-1, 1:-1, 1:-1])
        a[1:-1, 1:-1, 1:-1] = (0.125 * (b[2:, 1:-1, 1:-1] - 2.0 * b[1:-1, 1:-1, 1:-1] + b[:-2, 1:-1, 1:-1])
                               + 0.125 * (b[1:-1, 2:, 1:-1] - 2.0 * b[1:-1, 1:-1, 1:-1] + b[1:-1, :-2, 1:-1])
                               + 0.125 * (b[1:-1, 1:-1, 2:] - 2.0 * b[1:-1, 1:-1, 1:-1] + b[1:-1, 1:-1, :-2])
                               + b[1:-1, 1:-1, 1:-1])


@program("slices", lambda n, dt: (3 if n < 40 else 8, matrix(n, n, dt, 1)), big=50)
def seidel_2d(steps, a):
    n = a.shape[0]
    for _ in range(steps - 1):
        for i in range(1, n - 1):
            a[i, 1:-1] += (a[i - 1, :-2] + a[i - 1, 1:-1] + a[i - 1, 2:] + a[i, 2:] + a[i + 1, :-2] + a[i + 1, 1:-1]
                           + a[i + 1, 2:])
            for j in range(1, n - 1):
                a[i, j] += a[i, j - 1]
                a[i, j] /= 9.0


def _fdtd(n: int, dtype: Any) -> tuple:
    return (4 if n < 100 else 20, matrix(n, n + 1, dtype, 1), matrix(n, n + 1, dtype, 2), matrix(n, n + 1, dtype, 3),
            vector(20, dtype, 4))


@program("slices", _fdtd, big=200)
def fdtd_2d(steps, ex, ey, hz, source):
    for t in range(steps):
        ey[0, :] = source[t]
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


@program("slices", lambda n, dt: (2 if n < 50 else 5, matrix(n, n, dt, 1)), big=100)
def adi(steps, u):
    """Alternating directions for the heat equation: a tridiagonal solve along rows, then along columns."""
    n = u.shape[0]
    v = np.zeros_like(u)
    p = np.zeros_like(u)
    q = np.zeros_like(u)
    a = -0.5 * steps / n
    b = 1.0 - 2.0 * a
    for _ in range(1, steps + 1):
        v[0, 1:n - 1] = 1.0
        p[1:n - 1, 0] = 0.0
        q[1:n - 1, 0] = v[0, 1:n - 1]
        for j in range(1, n - 1):
            p[1:n - 1, j] = -a / (a * p[1:n - 1, j - 1] + b)
            q[1:n - 1, j] = (-a * u[j, 0:n - 2] + (1.0 + 2.0 * a) * u[j, 1:n - 1] - a * u[j, 2:n]
                             - a * q[1:n - 1, j - 1]) / (a * p[1:n - 1, j - 1] + b)
        v[n - 1, 1:n - 1] = 1.0
        for j in range(n - 2, 0, -1):
            v[j, 1:n - 1] = p[1:n - 1, j] * v[j + 1, 1:n - 1] + q[1:n - 1, j]
        u[1:n - 1, 0] = 1.0
        p[1:n - 1, 0] = 0.0
        q[1:n - 1, 0] = u[1:n - 1, 0]
        for j in range(1, n - 1):
            p[1:n - 1, j] = -a / (a * p[1:n - 1, j - 1] + b)
            q[1:n - 1, j] = (-a * v[0:n - 2, j] + (1.0 + 2.0 * a) * v[1:n - 1, j] - a * v[2:n, j]
                             - a * q[1:n - 1, j - 1]) / (a * p[1:n - 1, j - 1] + b)
        u[1:n - 1, n - 1] = 1.0
        for j in range(n - 2, 0, -1):
            u[1:n - 1, j] = p[1:n - 1, j] * u[1:n - 1, j + 1] + q[1:n - 1, j]


def _hdiff(n: int, dtype: Any) -> tuple:
    return values((n + 4, n + 4, n - 2), dtype, 1), np.zeros((n, n, n - 2), dtype), values((n, n, n - 2), dtype, 2)


@program("array", _hdiff, big=64)
def hdiff(field, out, coefficient):
    rows, columns = out.shape[0], out.shape[1]
    laplace = 4.0 * field[1:rows + 3, 1:columns + 3, :] - (
        field[2:rows + 4, 1:columns + 3, :] + field[0:rows + 2, 1:columns + 3, :]
        + field[1:rows + 3, 2:columns + 4, :] + field[1:rows + 3, 0:columns + 2, :])
    step = laplace[1:, 1:columns + 1, :] - laplace[:-1, 1:columns + 1, :]
    flux_x = np.where(step * (field[2:rows + 3, 2:columns + 2, :] - field[1:rows + 2, 2:columns + 2, :]) > 0, 0, step)
    step = laplace[1:rows + 1, 1:, :] - laplace[1:rows + 1, :-1, :]
    flux_y = np.where(step * (field[2:rows + 2, 2:columns + 3, :] - field[2:rows + 2, 1:columns + 2, :]) > 0, 0, step)
    out[:, :, :] = field[2:rows + 2, 2:columns + 2, :] - coefficient * (
        flux_x[1:, :, :] - flux_x[:-1, :, :] + flux_y[:, 1:, :] - flux_y[:, :-1, :])


def _vadv(n: int, dtype: Any) -> tuple:
    shape = (n, n, max(n - 20, 4))
    return (values(shape, dtype, 1), values(shape, dtype, 2), values((n + 1, n, shape[2]), dtype, 3), values(shape, dtype, 4),
            values(shape, dtype, 5), 3.0 / 20)


@program("slices", _vadv, big=60)
def vadv(tend, pos, wcon, stage, utens, dt):
    """Implicit vertical advection: a Thomas solve along the last axis."""
    levels = tend.shape[2]
    ccol = np.zeros_like(tend)
    dcol = np.zeros_like(tend)
    data = np.zeros_like(tend)
    for k in range(1):
        gcv = 0.25 * (wcon[1:, :, k + 1] + wcon[:-1, :, k + 1])
        cs = gcv * 0.2
        ccol[:, :, k] = gcv * 0.8
        bcol = dt - ccol[:, :, k]
        correction = -cs * (stage[:, :, k + 1] - stage[:, :, k])
        dcol[:, :, k] = dt * pos[:, :, k] + utens[:, :, k] + tend[:, :, k] + correction
        divided = 1.0 / bcol
        ccol[:, :, k] = ccol[:, :, k] * divided
        dcol[:, :, k] = dcol[:, :, k] * divided
    for k in range(1, levels - 1):
        gav = -0.25 * (wcon[1:, :, k] + wcon[:-1, :, k])
        gcv = 0.25 * (wcon[1:, :, k + 1] + wcon[:-1, :, k + 1])
        as_ = gav * 0.2
        cs = gcv * 0.2
        acol = gav * 0.8
        ccol[:, :, k] = gcv * 0.8
        bcol = dt - acol - ccol[:, :, k]
        correction = -as_ * (stage[:, :, k - 1] - stage[:, :, k]) - cs * (stage[:, :, k + 1] - stage[:, :, k])
        dcol[:, :, k] = dt * pos[:, :, k] + utens[:, :, k] + tend[:, :, k] + correction
        divided = 1.0 / (bcol - ccol[:, :, k - 1] * acol)
        ccol[:, :, k] = ccol[:, :, k] * divided
        dcol[:, :, k] = (dcol[:, :, k] - dcol[:, :, k - 1] * acol) * divided
    for k in range(levels - 2, -1, -1):
        data[:, :, k] = dcol[:, :, k] - ccol[:, :, k] * data[:, :, k + 1]
        tend[:, :, k] = dt * (data[:, :, k] - pos[:, :, k])


# --- flow -------------------------------------------------------------------------------------------------------------


def pressure_source(b, rho, dt, u, v, dx, dy):
    b[1:-1, 1:-1] = rho * (1 / dt * ((u[1:-1, 2:] - u[1:-1, 0:-2]) / (2 * dx) + (v[2:, 1:-1] - v[0:-2, 1:-1]) / (2 * dy))
                           - ((u[1:-1, 2:] - u[1:-1, 0:-2]) / (2 * dx))**2
                           - 2 * ((u[2:, 1:-1] - u[0:-2, 1:-1]) / (2 * dy) * (v[1:-1, 2:] - v[1:-1, 0:-2]) / (2 * dx))
                           - ((v[2:, 1:-1] - v[0:-2, 1:-1]) / (2 * dy))**2)


def relax_pressure(sweeps, p, dx, dy, b):
    pn = np.empty_like(p)
    pn[:] = p.copy()
    for _ in range(sweeps):
        pn[:] = p.copy()
        p[1:-1, 1:-1] = (((pn[1:-1, 2:] + pn[1:-1, 0:-2]) * dy**2 + (pn[2:, 1:-1] + pn[0:-2, 1:-1]) * dx**2)
                         / (2 * (dx**2 + dy**2)) - dx**2 * dy**2 / (2 * (dx**2 + dy**2)) * b[1:-1, 1:-1])
        p[:, -1] = p[:, -2]
        p[0, :] = p[1, :]
        p[:, 0] = p[:, 1]
        p[-1, :] = 0


def _cavity(n: int, dtype: Any) -> tuple:
    ny, nx = n, n + n // 2
    u, v, p = (np.zeros((ny, nx), dtype) for _ in range(3))
    return nx, ny, 4 if n < 40 else 25, 5, u, v, 0.001, 2 / (nx - 1), 2 / (ny - 1), p, 1.0, 0.1


@program("slices", _cavity, big=41)
def cavity_flow(nx, ny, steps, sweeps, u, v, dt, dx, dy, p, rho, nu):
    un = np.empty_like(u)
    vn = np.empty_like(v)
    b = np.zeros((ny, nx), dtype=u.dtype)
    for _ in range(steps):
        un[:] = u.copy()
        vn[:] = v.copy()
        pressure_source(b, rho, dt, u, v, dx, dy)
        relax_pressure(sweeps, p, dx, dy, b)
        u[1:-1, 1:-1] = (un[1:-1, 1:-1] - un[1:-1, 1:-1] * dt / dx * (un[1:-1, 1:-1] - un[1:-1, 0:-2])
                         - vn[1:-1, 1:-1] * dt / dy * (un[1:-1, 1:-1] - un[0:-2, 1:-1])
                         - dt / (2 * rho * dx) * (p[1:-1, 2:] - p[1:-1, 0:-2])
                         + nu * (dt / dx**2 * (un[1:-1, 2:] - 2 * un[1:-1, 1:-1] + un[1:-1, 0:-2])
                                 + dt / dy**2 * (un[2:, 1:-1] - 2 * un[1:-1, 1:-1] + un[0:-2, 1:-1])))
        v[1:-1, 1:-1] = (vn[1:-1, 1:-1] - un[1:-1, 1:-1] * dt / dx * (vn[1:-1, 1:-1] - vn[1:-1, 0:-2])
                         - vn[1:-1, 1:-1] * dt / dy * (vn[1:-1, 1:-1] - vn[0:-2, 1:-1])
                         - dt / (2 * rho * dy) * (p[2:, 1:-1] - p[0:-2, 1:-1])
                         + nu * (dt / dx**2 * (vn[1:-1, 2:] - 2 * vn[1:-1, 1:-1] + vn[1:-1, 0:-2])
                                 + dt / dy**2 * (vn[2:, 1:-1] - 2 * vn[1:-1, 1:-1] + vn[0:-2, 1:-1])))
        u[0, :] = 0
        u[:, 0] = 0
        u[:, -1] = 0
        u[-1, :] = 1
        v[0, :] = 0
        v[-1, :] = 0
        v[:, 0] = 0
        v[:, -1] = 0


def relax_periodic(sweeps, p, dx, dy, b):
    pn = np.empty_like(p)
    for _ in range(sweeps):
        pn[:] = p.copy()
        p[1:-1, 1:-1] = (((pn[1:-1, 2:] + pn[1:-1, 0:-2]) * dy**2 + (pn[2:, 1:-1] + pn[0:-2, 1:-1]) * dx**2)
                         / (2 * (dx**2 + dy**2)) - dx**2 * dy**2 / (2 * (dx**2 + dy**2)) * b[1:-1, 1:-1])
        p[1:-1, -1] = (((pn[1:-1, 0] + pn[1:-1, -2]) * dy**2 + (pn[2:, -1] + pn[0:-2, -1]) * dx**2)
                       / (2 * (dx**2 + dy**2)) - dx**2 * dy**2 / (2 * (dx**2 + dy**2)) * b[1:-1, -1])
        p[1:-1, 0] = (((pn[1:-1, 1] + pn[1:-1, -1]) * dy**2 + (pn[2:, 0] + pn[0:-2, 0]) * dx**2)
                      / (2 * (dx**2 + dy**2)) - dx**2 * dy**2 / (2 * (dx**2 + dy**2)) * b[1:-1, 0])
        p[-1, :] = p[-2, :]
        p[0, :] = p[1, :]


def _channel(n: int, dtype: Any) -> tuple:
    return (5, np.zeros((n, n), dtype), np.zeros((n, n), dtype), 0.01, 2 / (n - 1), 2 / (n - 1), np.ones((n, n), dtype), 1.0, 0.1,
            1.0, 0.05 if n < 50 else 0.005)


@program("data", _channel, big=61)
def channel_flow(sweeps, u, v, dt, dx, dy, p, rho, nu, force, tolerance):
    """Until the flow hardly changes; periodic in x."""
    change = 1.0
    count = 0
    b = np.zeros_like(u)
    while change > tolerance:
        un = u.copy()
        vn = v.copy()
        pressure_source(b, rho, dt, u, v, dx, dy)
        relax_periodic(sweeps, p, dx, dy, b)
        u[1:-1, 1:-1] = (un[1:-1, 1:-1] - un[1:-1, 1:-1] * dt / dx * (un[1:-1, 1:-1] - un[1:-1, 0:-2])
                         - vn[1:-1, 1:-1] * dt / dy * (un[1:-1, 1:-1] - un[0:-2, 1:-1])
                         - dt / (2 * rho * dx) * (p[1:-1, 2:] - p[1:-1, 0:-2])
                         + nu * (dt / dx**2 * (un[1:-1, 2:] - 2 * un[1:-1, 1:-1] + un[1:-1, 0:-2])
                                 + dt / dy**2 * (un[2:, 1:-1] - 2 * un[1:-1, 1:-1] + un[0:-2, 1:-1])) + force * dt)
        v[1:-1, 1:-1] = (vn[1:-1, 1:-1] - un[1:-1, 1:-1] * dt / dx * (vn[1:-1, 1:-1] - vn[1:-1, 0:-2])
                         - vn[1:-1, 1:-1] * dt / dy * (vn[1:-1, 1:-1] - vn[0:-2, 1:-1])
                         - dt / (2 * rho * dy) * (p[2:, 1:-1] - p[0:-2, 1:-1])
                         + nu * (dt / dx**2 * (vn[1:-1, 2:] - 2 * vn[1:-1, 1:-1] + vn[1:-1, 0:-2])
                                 + dt / dy**2 * (vn[2:, 1:-1] - 2 * vn[1:-1, 1:-1] + vn[0:-2, 1:-1])))
        u[0, :] = 0
        u[-1, :] = 0
        v[0, :] = 0
        v[-1, :] = 0
        change = (np.sum(u) - np.sum(un)) / np.sum(u)
        count += 1
    return count


@program("slices", lambda n, dt: (0.25, matrix(2 * n, n, dt, 1)), big=200)
def deriche(alpha, image):
    """A recursive edge filter: forwards and backwards along each axis."""
    k = (1.0 - np.exp(-alpha)) * (1.0 - np.exp(-alpha)) / (1.0 + alpha * np.exp(-alpha) - np.exp(2.0 * alpha))
    a1 = a5 = k
    a2 = a6 = k * np.exp(-alpha) * (alpha - 1.0)
    a3 = a7 = k * np.exp(-alpha) * (alpha + 1.0)
    a4 = a8 = -k * np.exp(-2.0 * alpha)
    b1 = 2.0**(-alpha)
    b2 = -np.exp(-2.0 * alpha)
    c1 = c2 = 1
    y1 = np.empty_like(image)
    y2 = np.empty_like(image)
    y1[:, 0] = a1 * image[:, 0]
    y1[:, 1] = a1 * image[:, 1] + a2 * image[:, 0] + b1 * y1[:, 0]
    for j in range(2, image.shape[1]):
        y1[:, j] = a1 * image[:, j] + a2 * image[:, j - 1] + b1 * y1[:, j - 1] + b2 * y1[:, j - 2]
    y2[:, -1] = 0.0
    y2[:, -2] = a3 * image[:, -1]
    for j in range(image.shape[1] - 3, -1, -1):
        y2[:, j] = a3 * image[:, j + 1] + a4 * image[:, j + 2] + b1 * y2[:, j + 1] + b2 * y2[:, j + 2]
    out = c1 * (y1 + y2)
    y1[0, :] = a5 * out[0, :]
    y1[1, :] = a5 * out[1, :] + a6 * out[0, :] + b1 * y1[0, :]
    for i in range(2, image.shape[0]):
        y1[i, :] = a5 * out[i, :] + a6 * out[i - 1, :] + b1 * y1[i - 1, :] + b2 * y1[i - 2, :]
    y2[-1, :] = 0.0
    y2[-2, :] = a7 * out[-1, :]
    for i in range(image.shape[0] - 3, -1, -1):
        y2[i, :] = a7 * out[i + 1, :] + a8 * out[i + 2, :] + b1 * y2[i + 1, :] + b2 * y2[i + 2, :]
    out[:] = c2 * (y1 + y2)
    return out
