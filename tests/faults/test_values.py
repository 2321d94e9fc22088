"""Faults of values: every engine gives what NumPy gives, for the kinds that other systems got wrong."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from fault_functions import CASES, Case

import prebake

BY_NAME = {case.name: case for case in CASES}


def outcome(function: Any, args: tuple) -> tuple[Any, type[BaseException] | None]:
    """(result, exception type) of a call."""
    with np.errstate(all="ignore"):
        try:
            return function(*args), None
        except Exception as error:
            return None, type(error)


def same(got: Any, want: Any) -> bool:
    """Equal in type, dtype, shape and value (floats to a few units in the last place)."""
    if isinstance(want, tuple):
        return isinstance(got, tuple) and len(got) == len(want) and all(map(same, got, want))
    if type(got) is not type(want):
        return False
    if not isinstance(want, (np.ndarray, np.generic)):
        return bool(got == want)
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    if want.dtype.kind not in "fc":
        return np.array_equal(got, want)
    eps = float(np.finfo(want.dtype).eps)
    return np.allclose(got, want, rtol=64 * eps, atol=64 * eps, equal_nan=True)


def places(value: Any, args: tuple) -> list[Any]:
    """Of each array of a result: which argument's memory it is, and with what strides."""
    if isinstance(value, tuple):
        return [place for item in value for place in places(item, args)]
    if not isinstance(value, np.ndarray):
        return [None]
    for number, arg in enumerate(args):
        if isinstance(arg, np.ndarray) and np.may_share_memory(value, arg):
            offset = value.__array_interface__["data"][0] - arg.__array_interface__["data"][0]
            return [(number, offset, value.strides, value is arg)]
    return [None]


def check(case: Case, function: Any) -> None:
    """One call against NumPy: result, memory of the result, exception, effect on the arguments."""
    want_args, got_args = case.arguments(), case.arguments()
    want, want_error = outcome(case.function, want_args)
    got, got_error = outcome(function, got_args)
    if want_error is not None or got_error is not None:
        assert want_error is not None and got_error is not None and issubclass(want_error, got_error), (
            f"raised {got_error}, expected {want_error}")
    else:
        assert same(got, want), f"got {got!r}, expected {want!r}"
        assert places(got, got_args) == places(want, want_args)
    for g, w in zip(got_args, want_args, strict=True):
        assert same(g, w) if isinstance(g, np.ndarray) else g == w


@pytest.mark.parametrize("name", BY_NAME)
def test_interpreter(name):
    case = BY_NAME[name]
    function = prebake.jit(case.function)
    with prebake.engine("interpreter"):
        check(case, function)
    assert function.stats()["interpreter"] == 1


@pytest.mark.parametrize("name", BY_NAME)
def test_jit(name):
    case = BY_NAME[name]
    function = prebake.jit(case.function)
    with prebake.engine("jit"):
        check(case, function)
    assert function.stats()["jit"] == case.tape


@pytest.mark.parametrize("name", BY_NAME)
def test_jit_after_another_call(name):
    """A plan that another call of the function made either fits or is not used."""
    case = BY_NAME[name]
    function = prebake.jit(case.function)
    with prebake.engine("jit"):
        for other in CASES:
            if other.function is case.function and other is not case:
                check(other, function)
        check(case, function)


def test_no_planning_for_shapes_inside(monkeypatch):
    """Temporaries whose shape changes at each iteration are no reason to plan: one plan serves all sizes."""
    import prebake.vm.plan.planner as planner

    plans = []
    original = planner.plan_live
    monkeypatch.setattr(planner, "plan_live", lambda *args, **kwargs: plans.append(1) or original(*args, **kwargs))
    case = BY_NAME["25 triangular slices"]
    function = prebake.jit(case.function)
    with prebake.engine("jit"):
        for n in (6, 9, 17, 30):
            a = np.random.default_rng(n).random((n, n))
            assert same(function(a), case.function(a))
    assert function.stats()["jit"] == 4
    assert len(plans) == 1


def test_arguments_stay_apart_from_copies():
    """`copy.deepcopy` of a decorated function answers alike."""
    function = copy.deepcopy(prebake.jit(BY_NAME["22 rebinding"].function))
    check(BY_NAME["22 rebinding"], function)
