"""Helpers, methods, containers, captures and defaults: any engine must do what Python does."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
from frontend_table import CASES, array, case

SCALE = 2.5
OFFSETS = (1, 2, 3)
TABLE = np.arange(12.0).reshape(3, 4)
UNTYPED = np.float32(0.5)


def shift(x, by=1.0, *, times=1):
    return x + by * times


def early(x, limit=2):
    if x > limit:
        return x
    y = x * 10
    if y > 15:
        return y
    return -1


def find(items, wanted):
    for i in range(len(items)):
        if items[i] == wanted:
            return i
    return None


def find_pair(limit):
    for i in range(10):
        j = 0
        while j < i:
            if i * j > limit:
                return i, j
            j += 1
    return None


def first_over(limit):
    n = 0
    while True:
        n += 3
        for k in range(n):
            if k * n > limit:
                return n, k


def checked(n):
    if n < 0:
        raise ValueError("negative")
    elif n == 0:
        return 0.0
    else:
        return math.sqrt(n)


def accumulate(x, n):
    for _ in range(n):
        x = x * 2
    return x


def apply(f, x):
    return f(x)


def twice(f, x):
    return apply(f, apply(f, x))


def nothing(x):
    x[0] = 5.0


@case("f64[3]")
def helpers(x):
    a = shift(x)
    b = shift(x, 2, times=3)
    c = shift(by=1, x=x)
    return a, b, c, shift(shift(x)), accumulate(x, 3), nothing(a), a


@case(3)
@case(1)
@case(0)
def helpers_with_returns(n):
    return (early(n), early(n, limit=0), find((5, 3, 1), n), find_pair(n * 10), find_pair(1000), checked(n),
            first_over(n))


@case(4)
def helpers_in_loops(n):
    total = 0
    for i in range(n):
        total += early(i) + checked(i)
        if find([1, 2], i) is None:
            total += 100
        else:
            total += find([1, 2], i)
    return total


@case(-2)
def helper_raises(n):
    return checked(n) + 1


@case("f64[4]")
def function_arguments(x):
    act = np.tanh
    half = lambda v: v / 2  # noqa: E731
    return apply(np.exp, x), apply(lambda v: v * 2, x), twice(half, x), act(x), apply(act, x)


@case("f64[4]", 3)
def nested(x, n):
    scale = n * 2

    def inner(v, w=1):
        def innermost(u):
            return u * scale + n
        return innermost(v) + w

    a = inner(x)
    scale = 100
    return a, inner(x, w=2), [inner(v) for v in x]


@case("f32[4]")
def globals_(x):
    return x * SCALE + OFFSETS[1], x @ TABLE.T, UNTYPED * x, TABLE.shape[0]


@dataclass
class Dense:
    """A layer as a dataclass."""

    w: np.ndarray
    b: np.ndarray
    act: str = "relu"


@dataclass
class Model:
    """A stack of layers with methods."""

    layers: list = field(default_factory=list)
    scale: float = 1.0
    training: bool = False
    shared = 3

    def step(self, layer, x):
        y = x @ layer.w + layer.b
        if layer.act == "relu":
            return np.maximum(y, 0)
        return y

    @staticmethod
    def norm(x, eps=1e-6):
        return x / (np.abs(x).max() + eps)

    @classmethod
    def factor(cls, n):
        return cls.shared * n

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = self.step(layer, x)
            if i < len(self.layers) - 1 and not self.training:
                x = self.norm(x)
        return x * self.scale * self.factor(2) * self.shared


def model():
    return Model([Dense(array("f64[4,5]"), array("f64[5]")), Dense(array("f64[5,2]"), array("f64[2]"), "none")], 0.5)


CASES.append((Model.forward, (model, "f64[3,4]")))


@case(model, "f64[3,4]")
def containers(m, x):
    for layer in m.layers:
        x = np.tanh(x @ layer.w + layer.b)
    return x, m.layers[0].w.shape, [layer.b for layer in m.layers], Model.norm(x), Model.shared


@case({"w": "f64[4,2]", "inner": [{"b": "f64[2]"}]}, "f64[3,4]")
def parameter_tree(params, x):
    return x @ params["w"] + params["inner"][0]["b"]


@case(lambda: SimpleNamespace(x=array("f64[3]")))
def attribute_in_place(obj):
    obj.x[1] += 1
    obj.x[:2] = 0
    return obj.x.sum()


@case(1, 2)
@case(1)
def defaults(a, b=10, *, c=(1, 2), d=None, e="x"):
    return a, b, c, d, e


def make(scale, table):
    def inner(x):
        return x * scale + table[0]
    return inner


CASES.append((make(3.0, np.arange(4.0)), ("f64[4]",)))
square = lambda x: x * x  # noqa: E731
CASES.append((square, ("f64[4]",)))
