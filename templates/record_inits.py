"""An `__init__` for each number of fields, for `records.record`, which replaces the names."""

# mypy: allow-untyped-defs

from __future__ import annotations


def init0(self):
    pass


def init1(self, a):
    self.a = a


def init2(self, a, b):
    self.a = a
    self.b = b


def init3(self, a, b, c):
    self.a = a
    self.b = b
    self.c = c


def init4(self, a, b, c, d):
    self.a = a
    self.b = b
    self.c = c
    self.d = d


def init5(self, a, b, c, d, e):
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e


def init6(self, a, b, c, d, e, f):
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e
    self.f = f


def init7(self, a, b, c, d, e, f, g):
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e
    self.f = f
    self.g = g


def init8(self, a, b, c, d, e, f, g, h):
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e
    self.f = f
    self.g = g
    self.h = h


def init9(self, a, b, c, d, e, f, g, h, i):
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e
    self.f = f
    self.g = g
    self.h = h
    self.i = i


def init10(self, a, b, c, d, e, f, g, h, i, j):
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e
    self.f = f
    self.g = g
    self.h = h
    self.i = i
    self.j = j


def init11(self, a, b, c, d, e, f, g, h, i, j, k):
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e
    self.f = f
    self.g = g
    self.h = h
    self.i = i
    self.j = j
    self.k = k


def init12(self, a, b, c, d, e, f, g, h, i, j, k, m):
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e
    self.f = f
    self.g = g
    self.h = h
    self.i = i
    self.j = j
    self.k = k
    self.m = m


def init13(self, a, b, c, d, e, f, g, h, i, j, k, m, n):
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e
    self.f = f
    self.g = g
    self.h = h
    self.i = i
    self.j = j
    self.k = k
    self.m = m
    self.n = n


def init14(self, a, b, c, d, e, f, g, h, i, j, k, m, n, p):
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e
    self.f = f
    self.g = g
    self.h = h
    self.i = i
    self.j = j
    self.k = k
    self.m = m
    self.n = n
    self.p = p


def init15(self, a, b, c, d, e, f, g, h, i, j, k, m, n, p, q):
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e
    self.f = f
    self.g = g
    self.h = h
    self.i = i
    self.j = j
    self.k = k
    self.m = m
    self.n = n
    self.p = p
    self.q = q


def init16(self, a, b, c, d, e, f, g, h, i, j, k, m, n, p, q, r):
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e
    self.f = f
    self.g = g
    self.h = h
    self.i = i
    self.j = j
    self.k = k
    self.m = m
    self.n = n
    self.p = p
    self.q = q
    self.r = r


def init17(self, a, b, c, d, e, f, g, h, i, j, k, m, n, p, q, r, s):
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e
    self.f = f
    self.g = g
    self.h = h
    self.i = i
    self.j = j
    self.k = k
    self.m = m
    self.n = n
    self.p = p
    self.q = q
    self.r = r
    self.s = s


def init18(self, a, b, c, d, e, f, g, h, i, j, k, m, n, p, q, r, s, t):
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e
    self.f = f
    self.g = g
    self.h = h
    self.i = i
    self.j = j
    self.k = k
    self.m = m
    self.n = n
    self.p = p
    self.q = q
    self.r = r
    self.s = s
    self.t = t


def init19(self, a, b, c, d, e, f, g, h, i, j, k, m, n, p, q, r, s, t, u):
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e
    self.f = f
    self.g = g
    self.h = h
    self.i = i
    self.j = j
    self.k = k
    self.m = m
    self.n = n
    self.p = p
    self.q = q
    self.r = r
    self.s = s
    self.t = t
    self.u = u


INITS = (
    init0, init1, init2, init3, init4, init5, init6, init7, init8,
    init9, init10, init11, init12, init13, init14, init15, init16, init17,
    init18, init19,
)
