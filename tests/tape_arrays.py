"""Seeded arrays, layouts and sizes that the tests of the tape share."""

from __future__ import annotations

import numpy as np
from tape_helper import NATIVE_NUMPY

COUNTS = [0, 1, 2, 7, 8, 9, 31, 63, 64, 65, 1023, 1024, 1025, 2047, 2048, 2049, 5000]
NUMPY_REDUCE = {
    "sum": np.sum,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "any": np.any,
    "all": np.all,
    "argmax": np.argmax,
    "argmin": np.argmin,
}


def values(shape, dtype="f32", seed=0):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) < 0.7
    if dtype[0] in "iu":
        return rng.integers(0 if dtype[0] == "u" else -50, 50, shape).astype(NATIVE_NUMPY.get(dtype, np.int8))
    return rng.standard_normal(shape).astype(NATIVE_NUMPY[dtype])


def layouts(shape, dtype="f32", seed=0):
    """One content in the layouts that a view may have."""
    base = values(shape, dtype, seed)
    yield "C", base
    if base.ndim:
        yield "F", np.asfortranarray(base)
        wide = np.zeros((*shape[:-1], shape[-1] * 2 + 1), base.dtype)
        wide[..., 1::2] = base
        yield "step", wide[..., 1::2]
        back = np.ascontiguousarray(base[..., ::-1])
        yield "reversed", back[..., ::-1]
        down = np.ascontiguousarray(base[::-1])
        yield "rows-reversed", down[::-1]
