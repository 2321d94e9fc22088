"""Ordinary Python around arrays: match, else of loops, stars, texts as keys, operators as functions; beside Python itself."""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Callable

import numpy as np
import pytest

import prebake

X = np.random.default_rng(0).integers(-4, 5, (3, 4)).astype(float)
CONFIG = {"a": 2.0, "b": 0.5}


pytestmark = pytest.mark.usefixtures("engine")


def outcome(function: Callable, args: tuple) -> tuple[object, tuple]:
    args = copy.deepcopy(args)
    try:
        return function(*args), args
    except Exception as error:
        return (type(error), str(error)), args


def check(function: Callable, *args: object) -> None:
    """The same result, or error, and the same effect on arguments; no call is interpreted under engine 'jit'."""
    before = function.stats()["interpreter"]  # type: ignore[attr-defined]
    got, want = outcome(function, args), outcome(function.__wrapped__, args)  # type: ignore[attr-defined]
    assert type(got[0]) is type(want[0])
    if isinstance(want[0], tuple) and isinstance(want[0][0], type):
        assert got[0] == want[0]
    else:
        np.testing.assert_equal(got, want)
        with prebake.engine("jit"):
            function(*copy.deepcopy(args))
        assert function.stats()["interpreter"] - before <= 1  # type: ignore[attr-defined]


@prebake.jit
def matched(x, mode):
    match mode:
        case "sum" | "total":
            return x.sum(-1)
        case None:
            x = x * 2
        case 3 if x.ndim == 2:
            x = x + 3
        case int() as n:
            return x * n
        case other:
            return x if other == "same" else -x
    return x


@prebake.jit
def matched_rank(x):
    match(x.ndim):
        case 1:
            y = x[None]
        case 2 as rank:
            y = x * rank
        case _:
            raise ValueError(f"{x.ndim} axes")
    return y


def test_match() -> None:
    for x in (X[0], X, X[None]):
        check(matched_rank, x)


def test_patterns_that_are_not_rewritten() -> None:
    with pytest.raises(prebake.UnsupportedError, match="match"):
        matched(X, 3)


@prebake.jit
def found(x, limit):
    for i in range(x.shape[0]):
        if x[i] > limit:
            for _ in range(2):
                break
            break
        elif x[i] < -100:
            continue
    else:
        return x * 0
    return x + i


@prebake.jit
def searched(x, limit):
    i = 0
    while i < 3:
        for _ in range(2):
            if x[i] > limit:
                break
        else:
            x[i] = 7.0
        i += 1
    else:
        x[0] = -1.0
    return x


@prebake.jit
def left_at_once(x, limit):
    for i in range(x.shape[0]):
        x[i] = limit
        break
    else:
        x[...] = 100.0
    return x


@prebake.jit
def left_from_else(x, limit):
    n = 5
    while n > 0:
        n -= 1
        if n == 3:
            for i in range(2):
                x += 1
                if x[i] > limit:
                    break
            else:
                x -= 50
                break
            continue
        if n < 3:
            break
    else:
        x *= 7
    return x


def test_loops_with_else() -> None:
    check(left_at_once, np.zeros(0), 1.0)
    for limit in (-9.0, 0.0, 9.0):
        check(left_at_once, X[0].copy(), limit)
        check(left_from_else, X[0].copy(), limit)
        check(found, X[0].copy(), limit)
        check(searched, X[0].copy(), limit)


@prebake.jit
def first_and_rest(x):
    first, *rest = x.shape
    (*_, last), n = x.shape, len(rest)
    return x.reshape(first, -1) * last, n


@prebake.jit
def both_ends(items):
    a, *middle, z = items
    return a + z * len(middle), middle


def test_starred_targets() -> None:
    for x in (X[0], X, X[None]):
        check(first_and_rest, x)
    for count in range(5):
        check(both_ends, [X[0] + i for i in range(count)])


def polynomial(x, *coefficients, scale=1.0):
    y = 0
    for c in coefficients:
        y = y * x + c
    return y * scale


def configured(x, **options):
    return x * options.get("scale", 1.0) + options.get("bias", 0.0)


def affine(x, a, b=0.0):
    return x * a + b


@prebake.jit
def starred_helpers(x, pair):
    return polynomial(x) + polynomial(x, 1.0, 2.0, 3.0, scale=0.5) + configured(x, scale=3.0) + affine(x, *pair)


@prebake.jit
def spread(x, pair, config):
    return affine(x, *pair), affine(x, **config), np.clip(x, *pair), np.sum(*(x,), **{"axis": 0}), passed_on(x, *pair, **CONFIG)


def passed_on(x, *args, **kwargs):
    return affine(x, *args) + affine(x, **kwargs)


def test_stars_in_calls() -> None:
    check(starred_helpers, X, (2.0, 1.0))
    check(starred_helpers, X, (2.0,))
    check(spread, X, (2.0, 3.0), {"b": 1.0, "a": 4.0})
    check(spread, X, (2.0, 3.0), {"a": 4.0})


@prebake.jit
def keyed(weights, x):
    for i in range(3):
        x = np.maximum(x @ weights[f"w{i}"] + weights["layers." + str(i) + ".b"], 0)
    return x * weights[f"w{0}"][0]


@prebake.jit
def merged(a, x):
    state = {**a, "x": x, **{"k": 3.0}}
    other = dict(a, y=2.0, **CONFIG)
    return state["w"] @ state["x"] * state["k"], other


def test_keys() -> None:
    weights = {**{f"w{i}": X[:, :3] for i in range(3)}, **{f"layers.{i}.b": X[0, :3] for i in range(3)}}
    check(keyed, weights, X[:, :3])
    check(merged, {"w": X, "k": 1.0}, X.T.copy())


@prebake.jit
def folded(weights, x):
    return functools.reduce(lambda a, w: np.maximum(a @ w, 0), weights, x), functools.reduce(np.add, weights)


@prebake.jit
def operated(x, y):
    return operator.add(x, y) * operator.mul(x, 2), operator.matmul(x, y.T)


def test_functions_of_the_library() -> None:
    check(folded, [np.eye(4), X.T @ X], X)
    check(operated, X, X + 1)


@prebake.jit
def told(x):
    if x.ndim != 2:
        raise ValueError(f"bad shape {x.shape} of {x.ndim:d} axes")
    return x


def test_messages() -> None:
    check(told, X)
    check(told, X[0])
