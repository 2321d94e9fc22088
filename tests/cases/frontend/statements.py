"""Statements of every kind: any engine must do what Python does."""

# ruff: noqa: B905, F842

from __future__ import annotations

import numpy as np
from frontend_table import case

OFFSETS = (1, 2, 3)
DEBUG = False


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
