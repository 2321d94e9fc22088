"""The same faults against prebuilt kernels: one bundle for every function that can be planned."""

from __future__ import annotations

import numpy as np
import pytest
from fault_functions import CASES
from test_values import check

import prebake
from prebake.templates import levels


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    """Functions that a bundle serves, by name: profiled with the cases' own calls, planned, built, loaded."""
    folder = tmp_path_factory.mktemp("faults")
    recorded = {case.function.__name__: prebake.jit(case.function) for case in CASES}
    with prebake.profile(str(folder / "profile.json")), prebake.engine("jit"), np.errstate(all="ignore"):
        for case in CASES:
            if case.tape:
                for _ in range(2):
                    recorded[case.function.__name__](*case.arguments())
    prebake.plan(str(folder / "profile.json"), str(folder / "buckets.yaml"))
    prebake.build(str(folder / "buckets.yaml"), str(folder / "bundle"), targets=[levels.host_level().name])
    prebake.load_bundle(str(folder / "bundle"))
    return {name: prebake.jit(function.__wrapped__) for name, function in recorded.items()}


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(CASES)), ids=[case.name for case in CASES])
def test_prebuilt(functions, number):
    case = CASES[number]
    check(case, functions[case.function.__name__])


@pytest.mark.slow
def test_most_calls_are_prebuilt(functions):
    """Coverage of the bundle does not shrink unseen."""
    served = total = 0
    for case in CASES:
        if case.tape:
            function = functions[case.function.__name__]
            before = function.stats()["prebuilt"]
            check(case, function)
            served += function.stats()["prebuilt"] - before
            total += 1
    assert served >= 0.6 * total, f"{served} of {total}"  # a kernel without gain is not built
