"""What the tests of the dispatcher share: functions to call, data, decorated copies."""

from __future__ import annotations

import gc
import types
from collections.abc import Callable

import numpy as np

import prebake
from prebake.vm.run import _dispatch


@prebake.jit
def affine(x, w, b=1.0):
    return np.maximum(x @ w + b, 0)


def jitted(fn):
    """A decorated copy with plans of its own."""
    return prebake.jit(fn.__wrapped__ if isinstance(fn, _dispatch.JitFunction) else fn)


def data(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def pack_stats():
    """(number, bytes) of the packs that live, without those that other tests left to the garbage collector."""
    gc.collect()
    return _dispatch.pack_stats()


def check(function: Callable, *args: object, rtol: float = 0) -> None:
    """A call, of a function or a bound method, gives what the original gives now: equal values, or near ones."""
    if isinstance(function, types.MethodType):
        function, args = function.__func__, (function.__self__, *args)
    got, want = function(*args), function.__wrapped__(*args)  # type: ignore[attr-defined]
    assert np.asarray(got).dtype == np.asarray(want).dtype
    if rtol:
        np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-6 * max(1, np.abs(want).max()))
    else:
        np.testing.assert_array_equal(got, want)


class Base:
    """What its method calls is overridden below: each class that overrides it makes a variant of `run`."""

    def step(self, x):
        return x + 1

    @prebake.jit
    def run(self, x):
        return self.step(x) * 2


class Plain(Base):
    pass


class Other(Base):
    def step(self, x):
        return x * 1000


class Third(Base):
    def step(self, x):
        return x - 1


SCALE = 2.0


@prebake.jit
def scaled(x):
    return x * SCALE


def np_free(x):
    return x + 1
