"""Small functions, one for each kind of fault that systems like ours had; `CASES` holds the calls to make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Case(NamedTuple):
    """One call. arguments: makes them afresh; tape: whether the JIT runs it to its end by itself."""

    name: str
    function: Callable[..., Any]
    arguments: Callable[[], tuple]
    tape: bool = True


CASES: list[Case] = []


def case(name: str, function: Callable[..., Any], arguments: Callable[[], tuple], tape: bool = True) -> None:
    """Add a call."""
    CASES.append(Case(name, function, arguments, tape))


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


# --- 4: statistics of a partly filled bucket --------------------------------------------------------------------------

def moments(x):
    return x.mean(0), x.var(0)


for rows in (1, 3, 4, 5):
    case(f"4 statistics of {rows} rows", moments, lambda rows=rows: (rng().random((rows, 4)),))


# --- 5: a symbolic extent that is 1 -----------------------------------------------------------------------------------

def smaller(x, y):
    return np.minimum(x, y)


for rows in (1, 2, 3):
    case(f"5 broadcast of {rows} against 2", smaller, lambda rows=rows: (rng().random((rows, 4)), rng().random((2, 4))),
         tape=rows != 3)


# --- 6: zero extents --------------------------------------------------------------------------------------------------

def column_sums(x):
    return x.sum(0)


def doubled(x):
    return x * 2


def column_tops(x):
    return x.max(0)


def product(x, w):
    return x @ w


def empty() -> np.ndarray:
    return np.zeros((0, 4))


case("6 sum of nothing", column_sums, lambda: (empty(),))
case("6 double nothing", doubled, lambda: (empty(),))
case("6 maximum of nothing", column_tops, lambda: (empty(),), tape=False)
case("6 product of nothing", product, lambda: (empty(), rng().random((4, 3))))
case("6 product over nothing", product, lambda: (np.zeros((2, 0)), np.zeros((0, 3))))


# --- 7: layouts -------------------------------------------------------------------------------------------------------

def mixture(x):
    return (x * 2 - x.sum(axis=1, keepdims=True)) @ x.T


def layouts() -> dict[str, np.ndarray]:
    base = rng().random((6, 8))
    return {"C": base[:3, :4].copy(), "Fortran": np.asfortranarray(base[:3, :4]), "every second": base[::2, ::2],
            "reversed": base[:3, 4:][:, ::-1], "broadcast": np.broadcast_to(base[0, :4], (3, 4))}


for layout in layouts():
    case(f"7 layout {layout}", mixture, lambda layout=layout: (layouts()[layout],))


# --- 8: dtypes --------------------------------------------------------------------------------------------------------

def total(x):
    return x.sum()


def shifted(x):
    return x + 1.5


def added(x, s):
    return x + s


case("8 int8 product", product, lambda: (rng().integers(-99, 99, (3, 4)).astype(np.int8),
                                         rng().integers(-99, 99, (4, 2)).astype(np.int8)))
case("8 int8 sum", total, lambda: (np.full(9, 100, np.int8),))
case("8 float32 and a Python float", shifted, lambda: (rng().random(5).astype(np.float32),))
case("8 float32 and a float64 scalar", added, lambda: (rng().random(5).astype(np.float32), np.float64(0.1)))
case("8 float32 and a float32 scalar", added, lambda: (rng().random(5).astype(np.float32), np.float32(0.1)))
case("8 int32 and a Python float", shifted, lambda: (np.arange(5, dtype=np.int32),))
case("8 bool sum", total, lambda: (rng().random(9) > 0.5,))


# --- 9: aliases -------------------------------------------------------------------------------------------------------

def scale_and_add(x, y):
    x *= 2
    return x + y


def shift_right(a):
    a[1:] = a[:-1]
    return a


def shift_left(a):
    a[:-1] = a[1:]
    return a


def overlapping() -> tuple:
    b = np.ones(8)
    return b[:4], b[2:6]


case("9 arguments that overlap", scale_and_add, overlapping, tape=False)
case("9 arguments that are one", scale_and_add, lambda: (lambda b: (b, b))(np.ones(8)), tape=False)
case("9 arguments apart", scale_and_add, lambda: (np.ones(4), np.ones(4)))
case("9 shift right", shift_right, lambda: (np.arange(9.0),))
case("9 shift left", shift_left, lambda: (np.arange(9.0),))
case("9 shift rows", shift_right, lambda: (np.arange(12.0).reshape(4, 3),))


# --- 20: reductions past a threshold ----------------------------------------------------------------------------------

def reductions(x):
    return x.sum(), x.mean(), x.max(), np.argmax(x), np.argmin(x), x.sum(axis=0)


def rows_and_columns(x):
    return x.sum(0), x.sum(1), x.mean(0), np.argmax(x, axis=0), np.argmax(x, axis=1), x.min(1)


def row_softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


for length in (1, 7, 8, 9, 1023, 1024, 1025):
    for dtype in (np.float32, np.float64):
        case(f"20 reductions of {length} {np.dtype(dtype).name}", reductions,
             lambda length=length, dtype=dtype: (rng().random(length).astype(dtype),))
    case(f"20 reductions of {length} by 3", rows_and_columns, lambda length=length: (rng().random((length, 3)),))
for place in (0, 4, -1):
    def with_nan(place: int = place) -> tuple:
        x = rng().random(9)
        x[place] = np.nan
        return (x,)
    case(f"20 NaN at {place}", reductions, with_nan)
case("20 softmax of all -inf", row_softmax, lambda: (np.full((2, 5), -np.inf),))
case("20 softmax with one -inf", row_softmax, lambda: (np.where(np.eye(3) > 0, -np.inf, 1.0),))
case("20 extrema that tie", reductions, lambda: (np.array([1.0, 3.0, 3.0, 1.0]),))


# --- 21: the right side reads what the left side writes ---------------------------------------------------------------

def add_flipped(y, k, a):
    y[:k] += a * np.flip(y[:k])


def through_a_view(a, b):
    a[:] = (a.reshape(-1, 2) @ b).reshape(a.shape)


def time_step(e, h, c):
    for _ in range(3):
        e[1:] -= c * (h[1:] - h[:-1])
        h[:-1] += c * (e[1:] - e[:-1])


def paths(d):
    for k in range(d.shape[0]):
        d[:] = np.minimum(d, np.add.outer(d[:, k], d[k]))


def transpose_in_place(a):
    a[:] = a.T


def neighbours(a):
    a[1:-1] = a[:-2] + a[2:]


for k in (0, 1, 4, 5):
    case(f"21 flipped {k}", add_flipped, lambda k=k: (np.arange(5.0) + 1, k, 0.5))
case("21 product through a view", through_a_view, lambda: (rng().random((3, 4)), rng().random((2, 2))))
case("21 time steps", time_step, lambda: (rng().random(9), rng().random(9), 0.3))
case("21 shortest paths", paths, lambda: (rng().random((6, 6)),))
case("21 transpose in place", transpose_in_place, lambda: (rng().random((4, 4)),))
case("21 neighbours", neighbours, lambda: (rng().random(9),))


# --- 22: rebinding or mutation ----------------------------------------------------------------------------------------

def mutate(a, b):
    a += b


def rebind(a, b):
    a = a + b
    a += 1
    return a


def running_total(x):
    s = 0.0
    t = s
    for i in range(x.shape[0]):
        s += x[i]
    return s, t


def reuse_name(x):
    y = x.sum(axis=0)
    x = x.astype(np.float32)
    x = x[0]
    x += 1
    return x, y


def swap_in_loop(a, b):
    a = a.copy()
    b = b.copy()
    for i in range(3):
        a, b = b, a
        a[0] += i
    return a, b


def choose_and_write(a, b, c):
    z = a if c > 0 else b
    z = z + 0
    z += 1
    return z


case("22 mutation", mutate, lambda: (np.ones(3), np.arange(3.0)))
case("22 mutation of a float32 by a float64 array", mutate, lambda: (np.ones(3, np.float32), np.arange(3.0)))
case("22 rebinding", rebind, lambda: (np.ones(3), np.arange(3.0)))
case("22 a local scalar", running_total, lambda: (rng().random(5),))
case("22 a name reused", reuse_name, lambda: (rng().random((2, 3)),))
case("22 swapped in a loop", swap_in_loop, lambda: (np.zeros(3), np.ones(3)))
case("22 chosen and written", choose_and_write, lambda: (np.zeros(3), np.ones(3), 1.0))


# --- 23: re-association -----------------------------------------------------------------------------------------------

def scaled_product(alpha, a, b):
    return alpha * a @ b


def ratio(r, n):
    out = np.zeros(n)
    for i in range(n):
        out[i] = r * i / n
    return out


def wrapping(a, b):
    return a * b + a


case("23 scaled product", scaled_product, lambda: (3, np.full((2, 2), 2**30, np.int32), np.eye(2, dtype=np.int32)))
case("23 order of a ratio", ratio, lambda: (0.1, 7))
case("23 int32 wraps", wrapping, lambda: (np.full(3, 2**20, np.int32), np.full(3, 2**13, np.int32)))
case("23 uint8 wraps", wrapping, lambda: (np.full(3, 200, np.uint8), np.full(3, 100, np.uint8)))
case("23 int64 wraps", wrapping, lambda: (np.full(3, 2**62), np.full(3, 5)))
case("23 an integer product wraps", product, lambda: (np.full((2, 3), 100, np.int8), np.full((3, 2), 100, np.int8)))


# --- 24: two kinds of float32 scalar ----------------------------------------------------------------------------------

def halve(x):
    return x * 0.5


def both_widths(a, b):
    return halve(a), halve(b), halve(a[0]), halve(b[0])


case("24 a helper at both widths", both_widths, lambda: (rng().random(3).astype(np.float32), rng().random(3)))
case("24 a float64 scalar", added, lambda: (np.float32(0.1), np.float64(0.2)))
case("24 a float32 scalar and a Python float", shifted, lambda: (np.float32(0.1),))


# --- 25 and 26: shapes that change inside, and pieces of length zero --------------------------------------------------

def triangle(a):
    out = np.zeros(a.shape[0], a.dtype)
    for i in range(a.shape[0]):
        out[i] = a[i, :i] @ a[:i, i] + a[:i].sum() - a[i:, i].max()
    return out


def shrinking(x):
    sums = np.zeros(x.shape[0])
    k = 0
    while x.shape[0] > 1:
        sums[k] = x.sum()
        x = x[1:]
        k += 1
    return sums


def zero_norm(x):
    return x / np.linalg.norm(x)


def mean_of_selection(x, limit):
    return x[x > limit].mean()


def first_column(a, i, j, x):
    return a[:i, j] @ x[:i]


case("25 triangular slices", triangle, lambda: (rng().random((6, 6)),))
case("25 triangular slices of one", triangle, lambda: (rng().random((1, 1)),))
case("25 shrinking", shrinking, lambda: (rng().random(6),))
for i in (0, 1, 3):
    case(f"26 product of {i} elements", first_column, lambda i=i: (rng().random((3, 3)), i, 1, rng().random(3)))
case("26 zero norm", zero_norm, lambda: (np.zeros(3),))
case("26 mean of nothing", mean_of_selection, lambda: (rng().random(5), 2.0))
case("26 mean of some", mean_of_selection, lambda: (rng().random(5), 0.4))


# --- 27: complex numbers in place -------------------------------------------------------------------------------------

def square_in_place(z):
    np.multiply(z, z, out=z)
    z *= z
    return z


case("27 complex in place", square_in_place, lambda: (rng().random(4) + 1j * rng().random(4),))
case("27 real in place", square_in_place, lambda: (rng().random(4),))


# --- 28: what is returned ---------------------------------------------------------------------------------------------

def itself(x):
    return x


def view_of(x):
    return x[1:, ::2]


def turned(x):
    return x.T, x.reshape(-1)


case("28 the argument itself", itself, lambda: (rng().random((3, 4)),))
case("28 a view", view_of, lambda: (rng().random((3, 4)),))
case("28 views", turned, lambda: (rng().random((3, 4)),))
case("28 a copy where strides ask for one", turned, lambda: (rng().random((3, 8))[:, ::2],))
