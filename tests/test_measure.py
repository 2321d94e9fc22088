"""Measured cost models: what is timed, what is not, and that figures reach the YAML."""

from __future__ import annotations

import math

import profile_helpers as made
import pytest

from prebake.pgo.buckets import Candidate, Group, Point, propose
from prebake.pgo.measure import MeasuredModel, measure_candidates, worth_building
from prebake.pgo.planning import plan
from prebake.pgo.schema import UNBOUNDED

CELLS = ((0, UNBOUNDED),)


def _group(points):
    return Group("m:f", 0, ("b",), CELLS, tuple(Point((b,), n, t) for b, n, t in points),
                 elements=lambda values: values["b"] * 64)


def test_a_point_takes_the_ratio_of_the_shape_nearest_in_size():
    group = _group([(1, 1, 1.0), (500, 1, 1.0)])
    widest, *narrow = propose([group])
    model = MeasuredModel({(0, widest.text()): [(math.log1p(64), 0.5), (math.log1p(64 * 512), 0.9)]},
                          {0: (0, widest.text())})
    assert [model.ratio(group, widest, p) for p in group.points] == [0.5, 0.9]
    # a narrow candidate that was not timed gains nothing over the widest
    assert [model.ratio(group, c, group.points[i]) for i, c in enumerate(narrow)] == [0.5, 0.9]
    # and without any figure at all the prior's ranged kernel stands
    assert MeasuredModel().ratio(group, narrow[0], group.points[0]) == 0.8


def test_only_candidates_that_could_pay_are_built():
    group = _group([(1, 1, 1.0), (2, 999, 1.0), (3, 10, 1.0)])
    chosen = worth_building([group], propose([group]))
    assert [c.text() for c in chosen] == ["{b: [1, 4]}", "{b: 2}", "{b: 3}"]


def test_kernels_are_timed_against_the_tape():
    shapes = {(b, 64): 20 for b in (1, 2, 8, 32)}
    planned = plan(made.profile(made.function_profile(made.doubling(), shapes)), measure=measure_candidates)
    assert planned.measured and "measured here" in planned.summary()
    buckets = planned.config.functions[0].buckets
    assert all(b.gain.tape > 1 for b in buckets), "one without gain is not emitted"
    assert all(b.gain.wider >= 1.05 for b in buckets if b.extents["b"][0] == b.extents["b"][1])


def test_each_side_of_a_branch_is_timed_in_its_own_plan():
    shapes = {(b, 64): 20 for b in (2, 8, 200, 300)}
    seen = made.profile(made.function_profile(made.branching(), shapes))
    recorded = []

    def measure(functions, groups, candidates):
        model = measure_candidates(functions, groups, candidates)
        recorded.append((groups, candidates, model))
        return model

    plan(seen, measure=measure)
    ((groups, candidates, model),) = recorded
    assert len(groups) == 2
    widest = [c for c in candidates if not c.fixed]
    assert {c.group for c in widest} == {0, 1}
    for candidate in widest:
        assert len(model.ratios[candidate.group, candidate.text()]) >= 2
        assert all(0 < ratio < 100 for _, ratio in model.ratios[candidate.group, candidate.text()])


def test_without_a_compiler_nothing_is_measured_and_no_gain_is_stated(monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    planned = plan(made.profile(made.function_profile(made.doubling(), {(3, 4): 6})), measure=measure_candidates)
    assert not planned.measured and "not measured: no C compiler" in planned.summary()
    assert all(b.gain is None for f in planned.config.functions for b in f.buckets)


def test_a_candidate_is_known_by_group_and_box():
    model = MeasuredModel({(1, "{b: 2}"): [(0.0, 0.25)]})
    group = _group([(2, 1, 1.0)])
    assert model.ratio(group, Candidate(1, {"b": (2, 2)}, (0,), ("b",)), group.points[0]) == 0.25
    assert model.ratio(group, Candidate(0, {"b": (2, 2)}, (0,), ("b",)), group.points[0]) == pytest.approx(0.8)
