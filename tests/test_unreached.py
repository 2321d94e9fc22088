"""What could not work in Python either, where it may never be reached: Python's own error, in the call that reaches it alone."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from dispatch_helpers import check

import prebake

X = np.arange(6.0).reshape(2, 3)
missing_module = None


def both(function, *args) -> None:
    """The same result, or the same error, of a function and what it was made from; twice."""
    for _ in range(2):
        try:
            want = function.__wrapped__(*args)
        except Exception as error:
            with pytest.raises(type(error)) as caught:
                function(*args)
            assert str(caught.value).splitlines()[0] == str(error)
        else:
            np.testing.assert_allclose(function(*args), want, rtol=1e-13)


def two(a, b):
    return a * b


def with_all(a, /, b, *, c=1.0):
    return a * b + c


class Scaled:
    def by(self, x, k):
        return x * k

    @prebake.jit
    def run(self, x, wrong):
        if wrong:
            return self.by(x)
        return self.by(x, 2.0)


@prebake.jit
def starred(items):
    return two(*items)


@prebake.jit
def named(items):
    return two(**items)


@prebake.jit
def chosen(x, way):
    if way == 1:
        return two(x)
    if way == 2:
        return two(x, x, x)
    if way == 3:
        return two(x, c=x)
    if way == 4:
        return two(x, x, b=x)
    if way == 5:
        return with_all(a=x, b=x)
    if way == 6:
        return with_all(x, x, x)
    if way == 7:
        return (lambda k, m: k)(x)
    return with_all(x, b=x, c=2.0)


def test_arguments_that_do_not_fit(engine: str) -> None:
    for items in ((X, X), (X, X, X), (X,), [X, X], ()):
        both(starred, items)
    for items in ({"a": X, "b": X}, {"a": X, "c": X}, {"a": X}, {"b": X, "a": X}):
        both(named, items)
    for way in range(9):
        both(chosen, X, way)
    for wrong in (False, True, False):
        both(Scaled.run, Scaled(), X, wrong)


@prebake.jit
def folded(x, n):
    return functools.reduce(two, [x + i for i in range(n)])


def test_reduce_of_nothing(engine: str) -> None:
    for n in (2, 0, 1, 0):
        both(folded, X, n)


@prebake.jit
def undefined(x, way):
    if way == "call":
        return nowhere(x) + 1  # noqa: F821
    if way == "value":
        x = nothing + x  # noqa: F821
    if way == "module":
        return np.no_such_name(x)
    if x.sum() > 100:
        return elsewhere(x)  # noqa: F821
    return x * 2


def test_names_that_nothing_defines(engine: str) -> None:
    for way in ("", "call", "", "value"):
        both(undefined, X, way)
    both(undefined, X * 100, "")
    with pytest.raises(AttributeError, match="no_such_name"):
        undefined(X, "module")
    globals()["elsewhere"] = np.cos
    globals()["nowhere"] = np.sin
    try:
        both(undefined, X, "call")  # compiled again
        both(undefined, X, "")
    finally:
        del globals()["elsewhere"], globals()["nowhere"]
    both(undefined, X, "call")


@prebake.jit
def newest(x):
    if hasattr(np, "trapezoid"):
        return np.trapezoid(x)
    return np.trapz(x)


@prebake.jit
def optional(x):
    if missing_module is not None:
        return missing_module.exp(missing_module.asarray(x))
    return np.exp(x)


def test_what_another_version_or_machine_has(engine: str) -> None:
    check(newest, X, rtol=1e-12)
    check(optional, X, rtol=1e-12)


@prebake.jit
def negative(x, way):
    if way == 0:
        return np.zeros(-1) + x
    if way == 1:
        return np.ones((2, -3), dtype=np.float32)
    if way == 2:
        return np.empty(shape=(-1,))
    return x * 2


def test_extents_below_zero(engine: str) -> None:
    for way in (3, 0, 1, 2):
        both(negative, X, way)


def test_explain_knows_that_a_product_of_numbers_raises() -> None:
    product = prebake.jit(lambda x, w: x @ w)
    for args in ((3, 4), (X, 4.0), (np.array(1.0), X)):
        assert "matrix product of a number" in product.explain(*args).raises
        both(product, *args)
