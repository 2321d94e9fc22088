"""Plans, loops, traps and random nests on the tape: the tests of the other back end (test_codegen.py) on tapes."""

from __future__ import annotations

import pytest
import tape_driver
import test_codegen
from test_codegen import (  # noqa: F401  # collected here again, with the fixture below
    test_counted_loops_in_both_directions_over_slices,
    test_early_exit_writes_its_results,
    test_floor_division_of_extents_matches_python,
    test_indices_wrap_and_trap,
    test_late_results_are_allocated_when_their_shape_is_known,
    test_loops_with_exits_and_changing_scalars,
    test_many_random_nests,
    test_many_random_plans,
    test_masked_stores_and_in_place,
    test_models,
    test_products_in_batches_with_bias_and_activation,
    test_random_nests,
    test_random_plans,
    test_reductions_at_every_size,
    test_reductions_over_different_axes_share_a_nest_with_an_in_place_store,
    test_strides_known_at_run_time_only,
    test_sums_are_at_least_as_exact_as_pairwise,
    test_traps_facts_and_arguments,
)

from prebake.templates.levels import runnable_levels


@pytest.fixture(autouse=True, params=[level.name for level in runnable_levels()])
def on_tape(request, monkeypatch):
    """Every driver that test_codegen makes runs a tape of one CPU level."""
    level = request.param
    made = []

    def driver(code, bounds=None):
        made.append(code)
        return tape_driver.driver(code, level=level)

    monkeypatch.setattr(test_codegen, "driver", driver)
    monkeypatch.setattr(test_codegen, "drivers", lambda codes: {name: driver(code) for name, code in codes.items()})
    yield
    assert made, "no tape was made: the test does not use the drivers any more"
