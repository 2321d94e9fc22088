"""What the tests of the dispatcher share: functions to call, data, decorated copies."""

from __future__ import annotations

import gc

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


SCALE = 2.0


@prebake.jit
def scaled(x):
    return x * SCALE


def np_free(x):
    return x + 1
