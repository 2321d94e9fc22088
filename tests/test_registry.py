"""The kernel registry: stable ids, parameters that NumPy has, reference callables."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

from prebake.templates import registry
from prebake.templates.registry import BY_ID, BY_NAME, GROUPS, KERNELS, REQUIRED, resolve, resolve_inplace

NUMPY = [k for k in KERNELS if k.name.startswith("np.")]


def test_ids_and_names_are_unique_and_lie_in_their_group():
    assert len(BY_ID) == len(BY_NAME) == len(KERNELS)
    assert BY_NAME["np.matmul"].id == 0x8001
    for kernel in KERNELS:
        assert 0x8000 <= kernel.id <= 0xFFFF
        if kernel.id < 0x9000:
            assert GROUPS[kernel.id >> 8] == kernel.group
        else:
            assert kernel.group == "ufunc"


@pytest.mark.parametrize("kernel", KERNELS, ids=[k.name for k in KERNELS])
def test_every_kernel_resolves(kernel):
    assert callable(resolve(kernel.id))
    names = [p.name for p in kernel.parameters]
    assert len(set(names)) == len(names)
    defaults = [p.default is not REQUIRED for p in kernel.parameters if p.collect != "*"]
    assert defaults == sorted(defaults), "an optional operand stands before a required one"


@pytest.mark.parametrize("kernel", NUMPY, ids=[k.name for k in NUMPY])
def test_parameters_are_numpys_own(kernel):
    target = np
    for part in kernel.name.split(".")[1:]:
        target = getattr(target, part)
    if isinstance(target, type | np.ufunc) or kernel.name in ("np.mgrid", "np.ogrid", "np.r_", "np.c_") \
            or ("." in kernel.name[3:] and isinstance(getattr(np, kernel.name.split(".")[1]), np.ufunc)):
        return  # no signature to compare with, or one written by hand
    real = list(inspect.signature(target).parameters.values())
    by_keyword = {p.name for p in real if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    swallows = any(p.kind == p.VAR_KEYWORD for p in real)
    by_place = [p.name for p in real if p.kind != p.KEYWORD_ONLY]
    for at, parameter in enumerate(kernel.parameters):
        if parameter.default is REQUIRED or parameter.collect or kernel.params.endswith("/"):
            continue
        assert parameter.name in by_keyword or swallows, f"{kernel.name} has no keyword {parameter.name}"
        if parameter.name in by_place:
            assert by_place.index(parameter.name) == at, f"{kernel.name}: {parameter.name} is not operand {at}"


@pytest.mark.parametrize("kernel", NUMPY, ids=[k.name for k in NUMPY])
def test_defaults_are_numpys_own(kernel):
    """Leaving an operand out, and giving its default, are the same."""
    target = np
    for part in kernel.name.split(".")[1:]:
        target = getattr(target, part)
    try:
        real = inspect.signature(target).parameters
    except (TypeError, ValueError):
        return
    for parameter in kernel.parameters:
        theirs = real.get(parameter.name)
        if parameter.default in (REQUIRED, None, ...) or parameter.collect or theirs is None \
                or theirs.default is inspect.Parameter.empty or "no value" in repr(theirs.default).lower():
            continue
        assert parameter.default == theirs.default, f"{kernel.name}: {parameter.name}"


def test_operands_are_positions():
    x = np.arange(6.0).reshape(2, 3)
    total = resolve(BY_NAME["np.sum"].id)
    assert np.array_equal(total(x, 1, None, None, True), x.sum(1, keepdims=True))
    assert total(x, None, None, None, False, ..., x > 2) == x.sum(where=x > 2)
    assert np.array_equal(resolve(BY_NAME["arr.reshape"].id)(x, (3, -1), "F"), x.reshape(3, -1, order="F"))
    assert np.array_equal(resolve(BY_NAME["arr.transpose"].id)(x), x.T)
    assert np.array_equal(resolve(BY_NAME["arr.transpose"].id)(x, (1, 0)), x.T)
    assert resolve(BY_NAME["arr.item"].id)(x, (1, 2)) == 5.0
    assert np.array_equal(resolve(BY_NAME["np.einsum"].id)("ij->ji", (x,)), x.T)
    assert [a.shape for a in resolve(BY_NAME["np.meshgrid"].id)((x[0], x[:, 0]), True, False, "ij")] == [(3, 2), (3, 2)]
    assert np.array_equal(resolve(BY_NAME["np.arange"].id)(3), np.arange(3))
    assert np.array_equal(resolve(BY_NAME["np.mgrid"].id)(slice(0, 3, None)), np.arange(3))
    assert resolve(BY_NAME["py.max"].id)((1, 5, 2)) == 5
    assert resolve(BY_NAME["math.log"].id)(8.0, 2) == 3.0
    assert resolve(BY_NAME["np.add.reduce"].id)(x, 1, None, None, True).shape == (2, 1)


def test_inplace_operators_write_in_place():
    a = np.ones(3)
    for name in registry.INPLACE:
        assert callable(resolve_inplace(BY_NAME[name].id))
    assert resolve_inplace(BY_NAME["op.add"].id)(a, 2) is a and a[0] == 3
    with pytest.raises(KeyError):
        resolve_inplace(BY_NAME["op.not"].id)


def test_erf_keeps_dtypes():
    erf = resolve(BY_NAME["ops.erf"].id)
    x = np.linspace(-3, 3, 7, dtype=np.float32)
    assert erf(x).dtype == np.float32
    assert np.allclose(erf(x), [math.erf(v) for v in x])
    assert erf(np.arange(3)).dtype == np.float64
    assert erf(1.0) == math.erf(1.0)
    with pytest.raises(TypeError):
        erf(np.ones(2, complex))


def test_programs_from_files_cannot_reach_pythons_machinery():
    for name in ("py.getattr", "py.hasattr"):
        with pytest.raises(AttributeError):
            resolve(BY_NAME[name].id)(np.ones(2), "__class__")
    with pytest.raises(ValueError):
        resolve(BY_NAME["py.format"].id)(1, ">99999999999", "")
    with pytest.raises(ValueError):
        resolve(BY_NAME["py.raise"].id)("eval")
    with pytest.raises(ValueError):
        resolve(BY_NAME["py.isinstance"].id)(1, ("os.PathLike",))
