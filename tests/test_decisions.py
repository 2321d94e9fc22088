"""Noise of a busy machine neither picks nor drops kernels, and what was decided is told."""

from __future__ import annotations

import math
import random
from types import SimpleNamespace

import profile_helpers as made
import pytest

from prebake.pgo import measure
from prebake.pgo.buckets import Group, Limits, Point, choose_kernels, propose
from prebake.pgo.decisions import decisions
from prebake.pgo.measure import MeasuredModel
from prebake.pgo.planning import plan
from prebake.pgo.schema import UNBOUNDED
from prebake.pgo.spread import Spread, compared, spread_of


@pytest.mark.parametrize("count", [1, 2, 3, 9, 10, 41])
def test_the_range_holds_the_median_and_narrows(count):
    values = [float((7 * i) % count) for i in range(count)]
    found = spread_of(values)
    assert min(values) <= found.low <= found.middle <= found.high <= max(values)
    assert found.middle == sum(sorted(values)[(count - 1) // 2:count // 2 + 1]) / (2 - count % 2)
    if count == 41:
        assert found.high - found.low <= 14
    assert spread_of([v + 1 for v in values]).inverse().low == pytest.approx(1 / (found.high + 1))


def test_the_range_misses_the_truth_one_time_in_twenty():
    rng = random.Random(3)
    missed = sum(not found.low <= 1.0 <= found.high for found in (
        spread_of([rng.lognormvariate(0, 0.3) for _ in range(21)]) for _ in range(1000)))
    assert missed < 100


def test_slow_moments_fall_on_both_sides():
    slow = [1.0, 1.0, 7.0, 1.0, 30.0, 1.0, 1.0, 9.0, 1.0]
    found = compared([0.8 * s for s in slow], slow)
    assert (found.low, found.middle, found.high) == pytest.approx((0.8, 0.8, 0.8))


def noisy_plan(monkeypatch, seed, wide, narrow):
    """Boxes chosen for b in 1..3 where the kernels' true shares of the tape's time are these, on a machine with noise."""
    rng = random.Random(seed)
    group = Group("m:f", 0, ("b",), ((0, UNBOUNDED),), tuple(Point((b,), 100, 1000.0) for b in (1, 2, 3)),
                  elements=lambda values: values["b"] * 64)
    candidates = propose([group])

    class Contestant:
        def __init__(self, share):
            self.share = share

        def __call__(self, leaves):
            moment = rng.choice((3, 10)) if rng.random() < 0.2 else 1
            self.nanoseconds = 1000 * self.share * rng.lognormvariate(0, 0.02) * moment

    def time_shape(built, buckets, extents, table, timer, widest):
        contestants = {at: Contestant(wide if at == widest else narrow) for at in range(len(buckets))} | {-1: Contestant(1.0)}
        rounds = {at: [] for at in contestants}
        while len(rounds[-1]) < measure._MOST_ROUNDS:
            for at, contestant in contestants.items():
                contestant(None)
                rounds[at].append(contestant.nanoseconds)
            if len(rounds[-1]) >= measure._ROUNDS and measure._is_decided(rounds, widest):
                break
        return rounds

    monkeypatch.setattr(measure, "_time_shape", time_shape)
    monkeypatch.setattr(measure, "recorded_signature", lambda signature: SimpleNamespace(sample={}))
    built = SimpleNamespace(buckets=SimpleNamespace(buckets=list(range(len(candidates)))))
    function = SimpleNamespace(signatures=[None], symbols={"b": ("x.shape[0]",)})
    model = MeasuredModel(widest={0: (0, candidates[0].text())})
    measure._time_group(model, built, function, 0, group, list(zip(candidates, range(9), strict=False)), None, None, 200.0)
    selection = choose_kernels([group], candidates, model, Limits())
    lines = decisions("m:f", [group], candidates, selection, Limits(), model.spreads)
    return [c.candidate.text() for c in selection.choices], lines


@pytest.mark.parametrize(("wide", "narrow", "kernels"), [
    (0.8, 0.8, 1), (0.8, 0.79, 1), (0.8, 0.6, 4), (1.0, 1.0, 1), (1.05, 1.05, 1), (0.5, 0.3, 4)])
def test_picks_are_the_same_whatever_the_noise(monkeypatch, wide, narrow, kernels):
    found = {tuple(sorted(noisy_plan(monkeypatch, seed, wide, narrow)[0])) for seed in range(25)}
    assert [len(boxes) for boxes in found] == [kernels]
    assert all("{b: [1, 4]}" in boxes for boxes in found), "the covering one is among them"


def test_a_covering_kernel_that_is_left_out_is_told_of(monkeypatch):
    boxes, lines = noisy_plan(monkeypatch, 1, 1.6, 1.6)
    assert boxes == [] and lines[0].startswith("no kernel covers {b: [1, 4]}: measured at 0.6")
    boxes, lines = noisy_plan(monkeypatch, 1, 0.8, 0.8)
    assert boxes == ["{b: [1, 4]}"] and len(lines) == 3
    assert all(line.startswith("not worth a kernel: {b: ") and " to " in line for line in lines)


def slow(functions, groups, candidates):
    """A model of kernels that take half again the tape's time."""
    widest = {c.group: (c.group, c.text()) for c in candidates if not c.fixed}
    return MeasuredModel({key: [(math.log1p(64), 1.5)] for key in widest.values()}, widest, spreads={
        key: Spread(0.65, 0.67, 0.7) for key in widest.values()})


def test_what_was_decided_stands_in_the_file_and_in_the_summary():
    seen = made.profile(made.function_profile(made.doubling(), {(b, 64): 20 for b in (1, 2, 8)}))
    planned = plan(seen, measure=slow)
    said = "no kernel covers {b: [1, 8], d: 64}: measured at 0.67x (0.65 to 0.70) the tape"
    assert said in planned.text and said in planned.summary()
    assert planned.hit_rate == 0


def test_a_limit_that_leaves_out_a_covering_kernel_is_told_of():
    seen = made.profile(made.function_profile(made.branching(), {(b, 64): 20 for b in (2, 8, 200, 300)}))
    planned = plan(seen, max_kernels=1)
    assert len(planned.selection.choices) == 1
    assert "no kernel covers" in planned.text and "1 kernels are allowed, and others save more" in planned.summary()
