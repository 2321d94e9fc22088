"""Small programs on which an engine once differed from NumPy: value, dtype, shape, sharing, effects and exception type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from generator_expressions import NEAR
from oracles import Report, check_engines

import prebake

Y = np.arange(-3.0, 6.0)
M = np.arange(12.0).reshape(3, 4) / 4
N = np.arange(12).reshape(3, 4)
BOOL = np.array([True, False, True])

FOUND: dict[str, tuple[str, list[Any]]] = {
    # elements under a mask, changed before they are stored
    "mask in place": ("y[y < 2] *= 3\n    y[y > 4] += 1.5\n    return y", [Y]),
    "mask in place twice": ("s = y[y < 2]\n    s -= 1\n    s *= 2\n    y[y < 2] = s\n    return s, s.sum()", [Y]),
    "mask, another name": ("a = y[y < 2]\n    b = a\n    a *= 3\n    b += 1\n    y[y < 2] = a\n    return b", [Y]),
    "mask, a part": ("a = y[y < 2]\n    a[:1] = 7\n    y[y < 2] = a\n    return y.sum()", [Y]),
    "mask after a loop that was tried otherwise": (
        "s = 0.0\n    for i in range(3):\n        s += y[y > 1].sum()\n        if s > 12:\n            break\n"
        "    return s, y[y > 1]", [Y]),
    "mask sum in blocks": ("s = y[np.arange(y.shape[0]) % 2 == 0].sum(axis=0, keepdims=True)\n    return s ** 2",
                           [np.asfortranarray(M)]),
    "mask, what another array has there": ("y[y < 2] = z[z > 3]\n    return y", [np.arange(5.0), np.arange(2.0, 6.0)]),
    "mask, too few elements": ("y[y < 2] = z[z > 3]\n    return y", [np.arange(9.0), np.arange(2.0, 8.0)]),
    "mask, one element for all": ("y[y < 2] = z[z > 3]\n    return y", [Y.copy(), np.array([1.0, 5.0])]),
    "mask of rows": ("y[z] = y[z][::-1]\n    return y, y[~z]", [M.copy(), BOOL]),
    "mask of a turned array": ("y[y > 1] = -y.T[y.T > 1]\n    return y", [M.copy()]),
    "mask, small types": ("return y[y > 2], z[y > 2], np.nonzero(z), y[~(y > 2)].sum()", [np.arange(9, dtype=np.int8), Y > 0]),
    "arrays that shrink together": (
        "for i in range(4):\n        stays = y * z > i\n        y = y[stays]\n        z = z[stays] + 1\n    return y, z",
        [np.arange(9.0), np.arange(9.0) - 2]),
    "arrays that shrink apart": (
        "for i in range(4):\n        y = y[y > i]\n        if i > 1:\n            z = z[1:]\n    return y, z",
        [np.arange(9.0), np.arange(9)]),
    "one array shrinks, its like does not": (
        "for i in range(3):\n        y = y[y > i]\n    return y, z[:y.shape[0]]", [Y, np.arange(9)]),
    # einsum broadcasts extents of 1 between operands, never inside one; matmul and tensordot do not
    "einsum inner 1": ("return np.einsum('ij,jk->ik', y, z)", [np.ones((10, 1)), np.ones((2, 5))]),
    "einsum inner 1 on the right": ("return np.einsum('ij,jk->ik', y, z)", [np.ones((3, 4)), np.ones((1, 5))]),
    "einsum dot 1": ("return np.einsum('i,i->', y, z)", [np.ones(1, np.float32), np.arange(4, dtype=np.float32)]),
    "einsum differs": ("return np.einsum('i,i->', y, z)", [np.ones(2), np.ones(3)]),
    "einsum diagonal of 1": ("return np.einsum('ii->i', y)", [np.ones((1, 3))]),
    "einsum view": ("t = np.einsum('ij->ji', y)\n    return t", [M]),
    "tensordot 1": ("return np.tensordot(y, z, 1)", [np.ones((2, 1)), np.ones((3, 2))]),
    # integers beside index arrays count as index arrays: what stands between them puts the arrays' axes first
    "integer, slice, array": ("return y[0, :, z], y[:, 1, :, z], y[:, 0, z], y[..., 1, z]",
                              [np.arange(24.0).reshape(2, 3, 4), np.array([0, 1, 1, 0, 1])]),
    "integer, none, array": ("return y[1, None, z], y[None, 1, z], y[:, z, ..., 1], y[z, ..., z]",
                             [np.arange(24.0).reshape(2, 3, 4), np.array([0, 1, 1, 0, 1])]),
    "integer, slice, mask": ("y[1, :, z > 0] += y[0, :, z > 0]\n    y[0, :, z] = 5\n    return y",
                             [np.arange(24.0).reshape(2, 3, 4), np.array([0, 1, 1, 0])]),
    # what is stored over is not stored before
    "in place again and again": (
        "b = np.zeros_like(y)\n    b[1:-1] += y[2:]\n    b[1:-1] += y[:-2]\n    b[1:-1] *= 2\n    b[1:-1] -= b[1:-1] * y[1:-1]\n"
        "    y[:2] += 1\n    y[:2] += b[:2]\n    y[:2] *= y[:2]\n    return b, y", [Y.copy()]),
    "in place beside itself": (
        "y[1:] += y[:-1]\n    y[1:] += 1\n    y[:-1] += y[1:]\n    y[:-1] += y[:-1]\n    y[::-1] += y\n"
        "    y[1:] += z[y[1:] > 2]\n"
        "    return y", [Y.copy(), np.arange(8.0)]),
    "in place, read between": (
        "b = y * 1\n    b[:4] += 1\n    c = b[2] + b.sum()\n    b[:4] += c\n    b[:4] += z[:4]\n    b[:3] += 1\n    return b, c",
        [Y, np.arange(8, dtype=np.int32)]),
    # einsum's ellipsis
    "einsum ellipsis": (
        "return np.einsum('...ij,...jk->...ik', y, z), np.einsum('...ij->...ji', y), np.einsum('i...,i...', y, y), "
        "np.einsum('...i,...i->...', y, z[0, :2, :3]), np.einsum('...,...', y, 2.0), np.einsum('b...,...->b...', y, z[:, :3, 0])",
        [np.arange(24.0).reshape(2, 4, 3), np.arange(30.0).reshape(2, 3, 5)]),
    "einsum ellipsis of other axes": ("return np.einsum('...ij,jk->...ik', y, z), np.einsum('...ij,...jk', z, y)",
                                      [np.arange(12.0).reshape(1, 4, 3), np.arange(12.0).reshape(3, 4)]),
    "lists as arrays": ("return np.abs([y[0], -2.5]), y[:2] * [1, 2], [1, 2] + y[:2], np.concatenate(([True], y[1:] != y[:-1])), "
                        "np.maximum([1, 2.5], y[:2])", [Y]),
    # complex numbers, small integers, booleans: arguments that were passed over, dtypes and errors of their own
    "complex numbers into": ("a = y * 1j\n    b = a * 0\n    np.negative(a, out=b)\n    c = np.equal(a, b, out=a * 0)\n"
                             "    return b, c", [Y]),
    "complex differences": ("a = (y * 1j).astype(np.complex64)\n    return np.diff(a, prepend=2), np.diff(a, append=1j)", [Y]),
    "complex numbers joined as reals": ("return np.concatenate([y * 1j, y], dtype=np.float64)", [Y]),
    "vecdot of small integers": ("return np.vecdot(y, y), np.vecdot(y[0], z)",
                                 [np.arange(12, dtype=np.int16).reshape(3, 4), np.arange(4, dtype=np.uint8)]),
    "ediff1d of booleans": ("return np.ediff1d(y)", [BOOL]),
    "nan_to_num in place": ("z = y.astype(np.complex64)\n    np.nan_to_num(z, copy=False)\n    return z",
                             [np.array([1.0, np.inf, np.nan])]),
    # other forms of known functions
    "orders": ("return y.reshape(4, 3, order='F'), y.ravel('F'), y.flatten('F'), y.T.ravel(order='K'), "
               "y.T.flatten('A'), y[:, ::2].reshape(2, -1, order='A'), np.reshape(y, -1, order='F')", [M]),
    "modes of take": ("return np.take(y, [9, -1], mode='clip'), np.take(z, [5, -7], axis=1, mode='wrap'), "
                      "y.take([0, 11], mode='clip')",
                      [Y, M]),
    "places and pieces": (
        "a, b, c = np.unstack(y)\n    d = np.rollaxis(y[None], 2)\n    return a + b - c, d, np.atleast_3d(y), "
        "np.atleast_3d(y[0]), y[np.ix_([0, 2], [1, 3])], np.compress(z, y, axis=0), "
        "y.compress(z[:1], axis=1), np.vecmat(z * 1.0, y)", [M, BOOL]),
    "divmod": ("q, r = divmod(y, 2)\n    return q, r, np.divmod(z, 3), divmod(y[0], 2.5), "
               "divmod(7, y.shape[0]), pow(y, 2), pow(2, 5)",
               [Y, np.arange(-4, 5)]),
    "not finite": ("return np.where(y > 0, y, float('-inf')), np.minimum(y, float('nan')), float('1e3')", [Y]),
    "dtypes of ufuncs": ("return np.add(y, z, dtype=np.float64), np.sqrt(y * y, dtype=np.float64), "
                         "np.multiply(z, z, dtype=np.int64), "
                         "np.exp(z, dtype=np.float32)", [Y.astype(np.float32), np.arange(9, dtype=np.int16)]),
    "joined as another dtype": ("return np.concatenate([y, z], dtype=np.float32), np.argmax(y, keepdims=True), "
                                "np.repeat(y, z.astype(int) % 3), np.arange(0, 1.0, 0.3), np.geomspace(1, 8, 4)", [Y, Y * 2]),
    # operands that were passed over
    "ptp into": ("np.ptp(y, axis=0, out=z)\n    return z", [M, np.zeros(4)]),
    "dtype of functions composed": ("return np.heaviside(y, y, dtype=np.float64), np.multiply.outer(y, y, dtype=np.float64)",
                                    [Y.astype(np.float32)]),
    "pad widths by axis": ("return np.pad(y, ((1, 0), (0, 2))), np.pad(y, {0: 1}).shape", [M]),
    "diagonals": ("return np.diagonal(y, 1), np.trace(y, -1), np.diag(y, 2), np.diag(z, -1), np.diagonal(y, 9), y.trace(1, 1, 0)",
                  [M, np.arange(3.0)]),
    "the same array": ("a = y.astype(np.float64, copy=False)\n    a += 1\n    b = z.astype(np.float32, copy=False)\n"
                       "    b += 1\n    return a, b, y, z", [M.copy(), Y.copy()]),
    "limits and names of dtypes": (
        "e = np.finfo(y.dtype).eps\n    if np.issubdtype(z.dtype, np.integer) and y.dtype.kind == 'f':\n"
        "        return e, np.iinfo(z.dtype).min, z.dtype.itemsize, np.zeros(2, np.result_type(y, z))\n    return e",
        [Y.astype(np.float32), np.arange(3, dtype=np.int16)]),
    # copies and views
    "take copies": ("t = np.take(y, 0, axis=1)\n    t += 1\n    return t", [M]),
    "diag views": ("return np.diag(y)", [M]),
    "diag of a vector": ("d = np.diag(y)\n    d += 1\n    return d", [Y]),
    "diag written": ("d = np.diag(y)\n    d += 1\n    return y", [M]),
    "broadcast written": ("d = np.broadcast_to(y, (2, 9))\n    d[0, 0] = 1\n    return d", [Y]),
    "trace then write": ("s = np.trace(y)\n    y += s\n    return y", [M]),
    "reshape with 1": ("return y.T.reshape(-1)", [np.ones((1, 4))]),
    "reshape rows": ("return y.reshape(y.shape[0], -1)", [np.asfortranarray(M)]),
    "ravel of a slice": ("return y[:, :1].ravel(), y[:1].T.ravel()", [M]),
    "cast to itself": ("return np.float64(y), np.float32(y)", [Y]),
    # no copy where NumPy makes none, and one where it does
    "array without a copy": ("t = np.array(y, copy=False)\n    t[0] = 5\n    return np.array(y, copy=None), t", [Y]),
    "array that must be copied": ("return np.array(y, dtype=np.float32, copy=False)", [Y]),
    "asarray in C order": ("t = np.asarray(y, order='C')\n    y[0] = 5\n    return t", [np.asfortranarray(M)]),
    "tensordot over all axes": ("return np.tensordot(y, y, 2), np.tensordot(y[0], y[1], 1)", [M]),
    "histogram between edges": ("h, e = np.histogram(y, bins=z)\n    e += 1\n    return h, e", [Y, np.arange(3.0)]),
    "edges of a histogram": ("return np.histogram_bin_edges(y, bins=z)", [Y, np.arange(3.0)]),
    "first power of a matrix": ("t = np.linalg.matrix_power(y, 1)\n    t += 1\n    return t", [M[:, :3].copy()]),
    "uint64 of uint64": ("return np.uint64(y)", [N.astype(np.uint64)]),
    "complex ravel": ("t = y.ravel()\n    y[0, 0] = 5\n    return t, np.ravel(y), np.ascontiguousarray(y)", [M + 1j]),
    "complex ravel of a slice": ("return y[:, ::2].ravel(), y.T.ravel(), y.real.ravel()", [M + 1j]),
    "complex diagonal": ("return np.einsum('ii->i', y[:, :3]), np.einsum('ij->ji', y)", [M + 1j]),
    "complex cast to itself": (
        "t = y.astype(np.complex128, copy=False)\n    t[0] = 1\n    return np.complex128(y), y.astype(y.dtype)", [M + 1j]),
    "complex cast that is not safe": ("return y.astype(np.complex64, casting='safe')", [M + 1j]),
    "complex array with more axes": ("return np.array(y, ndmin=3), np.angle(y, deg=True)", [M + 1j]),
    "complex array in Fortran order": ("t = np.asarray(y, order='F')\n    y[0] = 5\n    return t", [M + 1j]),
    # Python's own numbers
    "NaN to integers": ("return np.int64(y)", [float("nan")]),
    "a float past int8": ("return np.int8(y)", [300.7]),
    "a constant past int8": ("return np.int8(300.7) + y", [1]),
    "real part of a boolean": ("return y.real", [True]),
    "functions of Python's complex numbers": ("return np.multiply(y, 1j), np.square(z), np.conj(z), z * 2", [2.5, 1j]),
    "methods of Python's complex numbers": ("return y.conj()", [1j]),
    "conjugates of Python's numbers": (
        "return y.conjugate(), z.conjugate(), x.conjugate()", [1 - 2j, True, np.complex64(1 - 2j)]),
    "conjugate of a text": ("return y.conjugate()", ["abc"]),
    "list of None": ("return list(y)", [None]),
    "tuple of None": ("return tuple(y)", [None]),
    "matrices turned": ("return y.mT, y[0].mT, z.mT, y.T", [np.arange(24.0).reshape(2, 3, 4), np.ones((2, 3, 4), complex)]),
    "a vector turned": ("return y.mT", [Y]),
    "a number turned": ("return y[0, 0].mT", [M]),
    # positions are checked though nothing is moved
    "index of nothing": ("return y[[0, 0]]", [np.zeros((0, 0))]),
    "take of nothing": ("return np.take(y, z, axis=0)", [np.zeros((3, 0)), np.array([1, 5])]),
    "take of no rows": ("return np.take(y, z, axis=1), np.take(y, 7, axis=1)", [np.zeros((0, 3)), np.array([1, 5])]),
    "take of no rows at floats": ("return np.take(y, z, axis=1)", [np.zeros((0, 3)), np.ones(2)]),
    "store into nothing": ("y[[0, 9]] = 1\n    return y", [np.zeros((3, 0))]),
    "index by nothing": ("return y[z]", [np.zeros((0, 3)), np.zeros(0, np.int64)]),
    "effect before an error in a block": (
        "w = z * 2\n    r = np.sum(w[y], axis=0, keepdims=True)\n    x[x < 1] = r.shape[0]\n    w[w < w.max()] *= 2\n"
        "    return w", [np.array([0, 9]), Y, np.zeros(4)]),
    "effect before an error": ("h = y[z[0]]\n    z *= 2\n    return h", [Y, np.array([20, 1])]),
    "index of nothing read": ("i = 1 // z\n    h = y[i]\n    return i + 1", [np.ones(1), np.array([0, 1, 5])]),
    # a name that stands for one of several arrays
    "one of two arrays": ("x = y * 1\n    w = y * 2\n    if y.sum() > 0:\n        w = x\n    w[0] = 5\n    return x", [Y]),
    "one of two arrays in a loop": (
        "x = y * 1\n    for i in range(y.shape[0]):\n        w = y * 2\n        if y[i] > 0:\n            w = x\n"
        "        w[i] = 7\n    return x", [Y]),
    "two names of one array": (
        "x = y * 1\n    w = x\n    for i in range(y.shape[0]):\n        if y[i] > 13:\n            w = y * 2\n"
        "    w[0] = 7\n    return x, w", [Y]),
    "arrays that change places": (
        "x = y * 1\n    w = y * 3\n    for i in range(y.shape[0]):\n        if y[i] > 2:\n            x, w = w, x\n"
        "        w[i] = 7\n    return x, w", [Y]),
    "perhaps the argument": (
        "w = y\n    for i in range(3):\n        if y[i] > 3:\n            w = y * 2\n"
        "        if y[i] > 5:\n            w = y * 3\n    w[0] = 9\n    return w.sum()", [Y]),
    "written before it has a second name": (
        "x = y * 1\n    w = y * 2\n    for i in range(y.shape[0]):\n        x[i] = 5\n        s = w.sum()\n"
        "        if y[i] > 0:\n            w = x\n    return x, s", [Y]),
    # numbers stored into integers
    "NaN into integers": ("z[-1] = y.sum() / 0\n    return z", [np.zeros(3), np.arange(3)]),
    "big number into small integers": ("z[1:] = y.sum()\n    return z", [Y * 100, np.arange(3, dtype=np.int8)]),
    "number into chosen integers": ("z[[0, 1]] = y.sum()\n    return z", [Y * 100, np.arange(3, dtype=np.int8)]),
    # scalars
    "matmul of numbers": ("return y @ z", [np.float64(1), np.float64(2)]),
    "np.matmul of numbers": ("return np.matmul(y, z)", [np.float64(1), np.float64(2)]),
    "matmul in place": ("y @= z\n    return y", [np.ones((3, 2)), np.eye(2)]),
    "matmul in place, vectors": ("y @= z\n    return y", [np.ones(2), np.ones(2)]),
    "methods of Python numbers": ("return float(y[0]).sum()", [Y]),
    "attributes of Python numbers": ("return float(y[0]).shape", [Y]),
    "views of a number": ("s = y.sum()\n    return np.flip(s), np.transpose(s), np.squeeze(s), s.copy()", [Y]),
    "views of no axes": ("return np.flip(y), np.transpose(y), np.squeeze(y)", [np.array(1.5)]),
    "contiguous number": ("return np.ascontiguousarray(y.sum())", [Y]),
    "keepdims of a number": ("return np.sum(y[0], keepdims=True), np.max(y[0], keepdims=True)", [Y]),
    "float of one element": ("return float(y)", [np.ones(1)]),
    "dot with a number": ("return np.dot(y, 0.5), np.inner(y, 2)", [np.ones(3, np.float32)]),
    "nan_to_num of a number": ("return np.copysign(y, np.nan_to_num(0))", [np.ones(3, np.float32)]),
    "round of integers": ("return np.round(3), np.round(y, 1)", [np.array(2)]),
    "invert the truth of a number": ("for i in range(y.shape[0]):\n        t = bool(i)\n    return ~t, y - ~bool(i - 20)", [Y]),
    # a loop that is typed again after an inner one; numbers of the source that a loop loads first
    "written, then another array": (
        "for i in range(1, y.shape[0]):\n        y[i] = y[i] * 2\n        c = 0\n        while c < 2:\n"
        "            y = np.swapaxes(z, 0, -1).mean(axis=0)\n            c += 1\n    return c", [M, N.copy()]),
    "number of a loop's test": (
        "c = 0\n    while y.max() > 1 and c < 4:\n        y = y * 0.25\n        c += 1\n    return c, [z[k] for k in (0, -1)][1]",
        [M * 9, M]),
    "number assigned in a branch of a loop": (
        "for i in range(y.shape[0]):\n        if y[i] > 0:\n            t = 2\n        elif i > 1:\n            y[i] = t\n"
        "    return t, y",
        [np.array([1.0, 0, 0, 5])]),
    "stack of nothing": ("return np.stack([r + 1 for r in y])", [np.zeros((0, 3))]),
    "concatenate nothing": ("return np.concatenate([r for r in y])", [np.zeros((0, 3))]),
    "row that a loop is left with": (
        "c = 0\n    while c < 3:\n        s = 0.0\n        for w in y[::-1]:\n            if w.sum() > 2:\n"
        "                break\n"
        "            s = w.sum() - s\n        if c > 1:\n            break\n        c += 1\n    return s, w, y", [M]),
    "row of two loops": (
        "for i in range(z.shape[0]):\n        for w in y:\n            if w.sum() > i:\n                break\n    return w, y",
        [M.copy(), M]),
    # iteration over rows whose number only the arrays know
    "enumerate rows": ("s = 0\n    for i, r in enumerate(y, 1):\n        s += i * r.sum()\n    return s, i", [M]),
    "enumerate no rows": ("s = 0\n    for i, r in enumerate(y):\n        s += i * r.sum()\n    return s", [np.zeros((0, 3))]),
    "zip of two lengths": ("s = 0.0\n    for a, b in zip(y, z):\n        s += a * b\n    return s, a", [Y, Y[:4]]),
    "zip strict": ("s = 0.0\n    for a, b in zip(y, z, strict=True):\n        s += a * b\n    return s, a", [Y, Y[:4]]),
    "zip and enumerate": ("for i, (a, b) in enumerate(zip(y, z)):\n        a += b * i\n    return y", [M.copy(), M + 1]),
    "zip with a range": ("s = 0\n    for k, a in zip(range(y.shape[0]), z):\n        s += k * a\n    return s", [Y[:3], Y]),
    "reversed rows": ("for a in reversed(y):\n        z += a\n    return z", [Y, M.copy()]),
    "round to integers": ("return round(y[0]), round(z), round(y.shape[0]), round(y[1].astype(np.float32))", [Y * 1.1, -2.5]),
    "round of NumPy's integers": ("return round(y[0]), round(y[1].astype(np.uint8))", [np.arange(3, 6)]),
    "round of NumPy's bool": ("return round(y[0])", [BOOL]),
    "average of no columns": ("return np.average(y, axis=0)", [np.zeros((3, 0))]),
    "complex powers in a loop": (
        "s = 0j\n    for i in range(7):\n        s += np.power(y[i % 4], z - i) + np.power(1.5 + 2j, i) + y[0] ** i\n"
        "    return s",
        [np.array([1.5 + 0.5j, 2j, -1 + 1j, 0.1 - 3j]), 3]),
    "complex powers of zero and infinity": ("return [np.power(y[i % 2], z - i) for i in range(6)]",
                                            [np.array([0j, np.inf + 0j]), 3]),
    "large complex power": ("return np.power(y[0], z)", [np.array([1.01 + 0.5j]), 150]),
    "integers beside floats": (
        "n = y.shape[0]\n    r = [n < 3.0, n <= 2.5, n > 2.5, n >= 3.5, 3.5 > n, n == 3.0, n != 2.5, 0.5 < n, n < 1e300]\n"
        "    for i in range(n):\n        r[0] = i < 1.5\n        y[i] += (i >= 1.0) + (1.5 > i)\n    return r, y", [np.zeros(3)]),
    "number of NumPy's that begins as Python's": (
        "s = 0\n    for w in y[::-1]:\n        s = w * 2 - s\n    return s", [np.arange(4)]),
    "convolve with infinities": ("return np.convolve(y, z), np.convolve(z, y, 'same'), np.convolve(y, z[1:], 'valid')",
                                 [Y, np.array([np.inf, 2.0, -np.inf])]),
    "convolve infinities": ("return np.convolve(y, z), np.convolve(z, y, 'same')", [np.array([1.0, np.inf, 2, 3]), np.ones(2)]),
    "polyval of nothing": ("return np.polyval(y, z)", [np.zeros(0), np.ones(3, np.float32)]),
    "polyval of what a mask takes": ("return np.polyval(y[y > 1], z), np.polyval(y[y > 100], z)", [Y, np.ones(3, np.float32)]),
    "rows of no axes": ("s = 0.0\n    for w in np.squeeze(y):\n        s += w\n    return s", [np.ones((1, 1))]),
    "invert True": ("return ~(y.shape[0] > 2)", [Y]),
    "smallest of two types": ("return -min(np.float64(0.1), 1e-3)", [Y]),
    # the object's shape is set, under all its names
    "shape set": ("a = y * 2\n    b = a\n    a.shape = a.size\n    a[3] = 7\n    return a, b", [M]),
    "shapes set": ("i, j = np.mgrid[0:3, 0:4]\n    i.shape = j.shape = 12\n    return i + j, y[i // 2, j]", [M]),
    "shape of complex numbers set": ("c = y + 1j * y\n    c.shape = (4, 3)\n    return c @ y", [M]),
    "shape of an argument set": ("y.shape = 12\n    return y + 1", [M.copy()]),
    "shape of a transposed array set": ("t = (y * 1).T\n    t.shape = 12\n    return t", [M]),
    "shape in a list set": ("t = [y * 1]\n    t[0].shape = 12\n    return t[0] + 1", [M]),
    "powers of complex numbers": (
        "c = y + 1j * z\n    return [c ** n for n in (-2, -1, 0, 1, 5)], np.power(c, -1), np.power(c, 0), np.reciprocal(c)",
        [Y, Y[::-1] * (Y != 0)]),
    "powers of a complex number": ("c = (y + 1j * z)[2]\n    return c ** -1, np.power(c, -3), np.power(c, 0), c ** 4", [Y, Y]),
    "square of bool": ("return y ** 2, np.outer(y, y) ** 2, np.power(y, 2)", [BOOL]),
    "diff along no axis": ("return np.diff(y, axis=None)", [Y]),
    "split of a number": ("return np.split(y[0], 2)", [Y]),
}


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    """Every engine, twice: the second call finds a plan."""
    body, args = FOUND[name]
    parameters = ("y", "z", "x")[:len(args)]
    source = f"import numpy as np\n\ndef f({', '.join(parameters)}):\n    {body}\n"
    report = Report()
    assert check_engines(source, [args, args], grade=NEAR, report=report) == []
    assert not report.refused


def test_plans_of_other_layouts() -> None:
    """A plan made for one layout is not taken where NumPy would return a view instead of a copy."""
    source = "def f(y):\n    return y.ravel()\n"
    for first, second in ((np.asfortranarray(M), M), (M[::-1], M), (M[:, ::2], np.ones((1, 4))), (M.T, np.ones((4, 1)).T)):
        assert check_engines(source, [[first], [second], [first]]) == []


SWEEP = "    b[1:-1] = 0.5 * (a[:-2] + a[2:])\n"
TURNS = {
    "swapped": f"for t in range(n):\n{SWEEP}    a, b = b, a\nreturn a",
    "by a third name": f"for t in range(n):\n{SWEEP}    c = a\n    a = b\n    b = c\nreturn a, b, n",
    "of three": f"c = a * 2\nfor t in range(n):\n{SWEEP}    c[0] += b[1] + t\n    a, b, c = b, c, a\nreturn a",
    "temporaries":
        "u, v = a.copy(), a * 0\nfor t in range(1, n + 1):\n    v[1:-1] = u[:-2] * t + u[2:]\n    u, v = v, u\nreturn u",
    "beside a sum": f"s = 0.0\nfor t in range(n):\n{SWEEP}    s += np.abs(a - b).sum() * t\n    a, b = b, a\nreturn s, a",
    "over rows": "for r in a:\n    b[0] += r\n    a, b = b, a\nreturn a",
    "backwards": f"for t in range(n, 0, -1):\n{SWEEP}    if t > 2:\n        b += t\n    a, b = b, a\nreturn b.sum()",
}


@pytest.mark.parametrize("name", TURNS)
def test_arrays_that_change_places(name: str) -> None:
    """Ping-pong buffers: the arguments themselves are written in turn, on the tape, for every number of trips."""
    source = "import numpy as np\n\ndef f(a, b, n):\n" + "".join(f"    {line}\n" for line in TURNS[name].split("\n"))
    report = Report()
    arguments = [[M.copy(), np.zeros((3, 4)), n] for n in (0, 1, 2, 3, 6, 7)]
    assert check_engines(source, arguments, grade=NEAR, report=report) == []
    assert report.on_tape >= report.calls["jit"] - (name == "beside a sum"), report.text()  # no trip: s is Python's own


@pytest.mark.parametrize("n", (1, 700, 5000))
def test_tiles_without_a_mask_are_left_out(n: int) -> None:
    """What is summed, stored or taken under one mask, where it holds nowhere, at one place, in one tile, and everywhere."""
    source = ("import numpy as np\n\ndef f(x, y, low):\n    m = x > low\n    s = y[m].mean() if m.sum() > 0 else 0.0\n"
              "    y[m] = -y[m]\n    return s, x[m], np.nonzero(m)[0], np.where(m, y, 0).sum(), np.where(m, y, -0.0)\n")
    rng = np.random.default_rng(n)
    cases = []
    for places in ([], [n - 1], range(n // 3, n // 3 + 40), range(n)):
        x = np.zeros(n)
        x[[p for p in places if p < n]] = 1
        cases.append([x, rng.standard_normal(n), 0.5])
    assert check_engines(source, cases, grade=NEAR) == []


def store_whole(x):
    x[...] = x


def store_reversed(x):
    x[::-1][:] = x[::-1]


def store_turned(x):
    x.T[...] = x.T


@pytest.mark.parametrize("f", (store_whole, store_reversed, store_turned))
@pytest.mark.parametrize("x", (M.copy(), np.zeros((0, 3)), M + 1j, np.arange(5)), ids=("2d", "empty", "complex", "1d"))
def test_stores_that_move_nothing_are_refused_by_what_is_read_only(f: Any, x: np.ndarray) -> None:
    g = prebake.jit(f)
    for is_writable in (False, True, False):
        y = x.copy()
        y.flags.writeable = is_writable
        if is_writable:
            g(y)
        else:
            with pytest.raises(ValueError, match="read-only"):
                g(y)
        np.testing.assert_array_equal(x, y)


def square_after_a_store(x, d):
    x += 1
    y = x / d**2
    x *= 2
    return y


@pytest.mark.parametrize("d", (2.0, -0.0, 1e-170, 1e200, -1e200, np.inf, np.nan), ids=repr)
def test_squares_of_python_floats_overflow_as_pythons_do(d: float) -> None:
    x, y = np.ones(4), np.ones(4)
    with prebake.engine("jit"), np.errstate(all="ignore"):
        try:
            want: Any = square_after_a_store(x, d)
        except (OverflowError, ZeroDivisionError) as error:
            with pytest.raises(type(error)):
                prebake.jit(square_after_a_store)(y, d)
        else:
            np.testing.assert_array_equal(prebake.jit(square_after_a_store)(y, d), want)
    np.testing.assert_array_equal(y, x)
