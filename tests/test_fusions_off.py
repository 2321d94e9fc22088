"""Every fusion can be switched off, alone and together, and the results stay: on the tape and in a bundle."""

from __future__ import annotations

import numpy as np
import pytest
from fusion_functions import FUNCTIONS

import prebake
from prebake.templates import levels
from prebake.vm.options import FUSIONS

BATCHES = (1, 2, 19)


def assert_close(got, want):
    if isinstance(want, tuple):
        for g, w in zip(got, want, strict=True):
            assert_close(g, w)
        return
    assert type(got) is type(want) and got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5)


def off_sets():
    return [(), FUSIONS, *((name,) for name in FUSIONS)]


@pytest.mark.parametrize("off", off_sets(), ids=lambda off: "+".join(off) if len(off) < 3 else "all")
def test_on_the_tape(off):
    for function, arguments in FUNCTIONS.values():
        fast = prebake.jit(function, options={"disable_fusions": list(off)})
        with prebake.engine("jit"):
            for batch in BATCHES:
                assert_close(fast(*arguments(batch)), function(*arguments(batch)))
        assert fast.stats()["jit"] == len(BATCHES), function.__name__


@pytest.mark.parametrize("off", [(), FUSIONS], ids=["on", "off"])
def test_in_a_bundle(off, tmp_path):
    options = {"disable_fusions": list(off)}
    recorded = [prebake.jit(function, options=options) for function, _ in FUNCTIONS.values()]
    with prebake.profile(str(tmp_path / "profile.json")), prebake.engine("jit"):
        for fast, (_, arguments) in zip(recorded, FUNCTIONS.values(), strict=True):
            for batch in BATCHES:
                fast(*arguments(batch))
    planned = prebake.plan(str(tmp_path / "profile.json"), str(tmp_path / "buckets.yaml"), measure=False)
    assert planned.hit_rate == 1.0
    prebake.load_bundle(str(prebake.build(str(tmp_path / "buckets.yaml"), str(tmp_path / "bundle"),
                                          targets=[levels.host_level().name])))
    with prebake.engine("prebuilt"):
        for function, arguments in FUNCTIONS.values():
            fast = prebake.jit(function, options=options)
            for batch in BATCHES:
                assert_close(fast(*arguments(batch)), function(*arguments(batch)))
            assert fast.stats()["prebuilt"] == len(BATCHES)
