"""Planning: groups, choice, limits, edges, names, hand edits."""

from __future__ import annotations

import itertools
import random

import profile_helpers as made
import pytest

from prebake.pgo.buckets import (
    Candidate,
    Group,
    Limits,
    Point,
    PriorModel,
    by_priority,
    choose_kernels,
    default_kernels,
    propose,
)
from prebake.pgo.buckets_text import read_buckets
from prebake.pgo.edges import branch_edges
from prebake.pgo.naming import declared_names, name_symbols
from prebake.pgo.planning import plan
from prebake.pgo.schema import UNBOUNDED
from prebake.vm.errors import ConfigError, PlanError
from prebake.vm.plan.signature import Row

FREE = ((0, UNBOUNDED), (0, UNBOUNDED))


def _group(points, names=("b",), cells=None, **more):
    found = tuple(Point(e if isinstance(e, tuple) else (e,), n, t) for e, n, t in points)
    return Group("m:f", 0, names, cells or FREE[:len(names)], found, **more)


class Table:
    """A cost model read from a table: share of the tape's time by number of fixed symbols."""

    def __init__(self, *ratios):
        self.ratios = ratios

    def ratio(self, group, candidate, point):
        return self.ratios[len(candidate.fixed)]


def _total(groups, chosen, model):
    total = 0.0
    for index, group in enumerate(groups):
        for i, point in enumerate(group.points):
            total += point.calls * point.time_ns * min(
                [1.0, *(model.ratio(group, c, point) for c in chosen if c.group == index and i in c.members)])
    return total


# --- choosing

def test_the_widest_kernel_comes_first_and_serves_everything():
    group = _group([(b, 1, 1000.0) for b in range(3, 200, 7)])
    selection = choose_kernels([group], propose([group]), PriorModel(), Limits(max_kernels=1))
    (choice,) = selection.choices
    assert choice.candidate.box == {"b": (1, 256)} and selection.served_calls == selection.calls
    assert selection.expected_ns == pytest.approx(0.8 * selection.tape_ns)


def test_a_limit_that_leaves_functions_out_says_so():
    groups = [_group([(b, 1, 1000.0 + 100 * i)]) for i, b in enumerate((3, 40, 500))]
    selection = choose_kernels(groups, propose(groups), PriorModel(), Limits(max_kernels=2))
    assert len(selection.choices) == 2
    assert selection.next_choice is not None and selection.next_choice.candidate.group == 0
    assert default_kernels(3) == 32 and default_kernels(50) == 200


@pytest.mark.parametrize("seed", range(12))
def test_with_one_varying_symbol_the_choice_beside_the_widest_is_exact(seed):
    rng = random.Random(seed)
    group = _group([(b, rng.randint(1, 50), rng.uniform(100, 5000)) for b in rng.sample(range(1, 40), 7)])
    candidates, model = propose([group]), Table(0.8, rng.choice([0.75, 0.7]))
    assert not candidates[0].fixed and all(c.fixed for c in candidates[1:])
    for budget in (1, 2, 3, 4):
        limits = Limits(max_kernels=budget, min_gain=0.0, min_share=0.0)
        chosen = choose_kernels([group], candidates, model, limits)
        best = min(_total([group], [candidates[0], *subset], model)
                   for subset in itertools.combinations(candidates[1:], budget - 1))
        assert chosen.expected_ns == pytest.approx(best)


@pytest.mark.parametrize("seed", range(4))
def test_with_two_symbols_the_choice_is_near_the_best(seed):
    rng = random.Random(seed)
    shapes = {(rng.choice([1, 2, 4, 8]), rng.choice([16, 32, 64])) for _ in range(9)}
    group = _group([(s, rng.randint(1, 50), 1000.0) for s in sorted(shapes)], ("b", "d"))
    candidates, model = propose([group]), Table(0.8, 0.7, 0.5)
    for budget in (1, 2, 3):
        limits = Limits(max_kernels=budget, min_gain=0.0, min_share=0.0)
        chosen = choose_kernels([group], candidates, model, limits)
        best = min(_total([group], subset, model) for subset in itertools.combinations(candidates, budget))
        saved, possible = chosen.tape_ns - chosen.expected_ns, chosen.tape_ns - best
        assert saved >= (1 - 1 / 2.718281828) * possible - 1e-6


def test_giving_up_coverage_takes_a_real_gain():
    group = _group([(b, 100, 1000.0) for b in (1, 2)])
    limits = Limits(max_kernels=2)
    boxes = [c.candidate.box["b"] for c in choose_kernels([group], propose([group]), Table(0.8, 0.75), limits).choices]
    assert boxes == [(1, 2), (1, 1)]
    boxes = [c.candidate.box["b"] for c in choose_kernels([group], propose([group]), Table(0.8, 0.2), limits).choices]
    assert boxes == [(1, 1), (2, 2)]


def test_a_kernel_without_gain_is_not_emitted():
    group = _group([(b, 100, 1000.0) for b in (1, 2, 3)])
    assert len(choose_kernels([group], propose([group]), Table(0.8, 0.795), Limits()).choices) == 1
    assert len(choose_kernels([group], propose([group]), Table(0.8, 0.7), Limits()).choices) == 4
    assert choose_kernels([group], propose([group]), Table(1.3, 1.4), Limits()).choices == ()
    slower = choose_kernels([group], propose([group]), Table(1.3, 0.9), Limits())
    assert [len(c.candidate.fixed) for c in slower.choices] == [1, 1, 1]
    # a little slower is noise, and the widest kernel saves planning: it stays
    covered = choose_kernels([group], propose([group]), Table(1.05, 0.9), Limits())
    assert [len(c.candidate.fixed) for c in covered.choices] == [0, 1, 1, 1]


def test_what_the_next_kernel_would_buy():
    group = _group([(1, 100, 1000.0), (2, 50, 1000.0), (3, 10, 1000.0)])
    model = Table(0.6, 0.58)
    selection = choose_kernels([group], propose([group]), model, Limits(max_kernels=2, min_gain=0.02))
    assert [c.candidate.box["b"] for c in selection.choices] == [(1, 4), (1, 1)]
    assert selection.next_choice.candidate.box["b"] == (2, 2)
    assert selection.next_choice.saving_ns == pytest.approx(50 * 1000 * 0.02)
    more = choose_kernels([group], propose([group]), model, Limits(max_kernels=3, min_gain=0.02))
    assert more.expected_ns == pytest.approx(selection.expected_ns - selection.next_choice.saving_ns)


def test_every_limit_limits():
    group = _group([(b, 100, 1000.0) for b in range(1, 9)])
    for limits in (Limits(max_kernels=3), Limits(max_bytes=3 * 6000), Limits(max_build_s=3 * 0.12 + 0.01)):
        assert len(choose_kernels([group], propose([group]), Table(0.8, 0.5), limits).choices) == 3
    with pytest.raises(PlanError, match="no kernel"):
        choose_kernels([group], propose([group]), Table(0.8), Limits(max_bytes=10))


def test_kept_buckets_count_against_the_limit_and_leave_no_second_gain():
    group = _group([(b, 100, 1000.0) for b in (1, 2, 3)])
    kept = Candidate(0, {"b": (2, 2)}, (1,), ("b",))
    selection = choose_kernels([group], propose([group]), Table(0.6, 0.56), Limits(max_kernels=2), [kept])
    assert [c.candidate.box["b"] for c in selection.choices] == [(2, 2), (1, 4)]


def test_narrow_kernels_are_tried_first():
    group = _group([((b, d), 10, 1000.0) for b in (1, 2) for d in (8, 16)], ("b", "d"))
    choices = choose_kernels([group], propose([group]), Table(0.8, 0.7, 0.5), Limits()).choices
    assert [len(c.candidate.fixed) for c in by_priority(choices)] == sorted(
        (len(c.candidate.fixed) for c in choices), reverse=True)


def test_a_range_is_not_widened_past_an_edge_or_the_facts():
    points = [(b, 1, 1.0) for b in (5, 60, 100)]
    (widest, *_) = propose([_group(points, cells=((3, 110),))])
    assert widest.box == {"b": (3, 110)}
    (widest, *_) = propose([_group(points, holds=lambda values: values["b"] > 1)])
    assert widest.box == {"b": (2, 128)}


def test_a_range_ends_where_the_facts_do():
    points = [(b, 1, 1.0) for b in (60, 61, 99)]
    (widest, *_) = propose([_group(points, holds=lambda values: 40 <= values["b"] <= 107)])
    assert widest.box == {"b": (40, 107)}


def test_symbols_that_are_equal_in_a_group_are_fixed_and_widened_together():
    group = _group([((n, 4, n), 5, 1000.0) for n in (3, 5, 9)], ("b", "d", "k"), ((0, UNBOUNDED),) * 3,
                   holds=lambda values: values["b"] == values["k"] > 1)
    widest, *narrow = propose([group])
    assert widest.box == {"b": (2, 16), "d": (4, 4), "k": (2, 16)}
    assert [c.box["b"] == c.box["k"] and c.fixed == ("b", "k") for c in narrow] == [True] * 3


# --- edges

def test_thresholds_of_branches_are_edges():
    assert branch_edges(made.branching(threshold=128)) == {"x.shape[0]": [129]}
    compared = made.program("m:f", ["x"], [4], ("LOAD_TENSOR", 0, 0), ("LOAD_ATTR", 1, 0, 1), ("LOAD_CONST", 2, 0),
                            ("VIEW_TENSOR", 3, 1, 2), ("COMPARE_TENSOR", 4, 2, 3, 2), ("RETURN", 4))
    object.__setattr__(compared, "constants", (4, "shape"))
    assert branch_edges(compared) == {"x.shape[4]": [5]}  # 4 < x.shape[4]
    number = made.program("m:f", ["n"], [7], ("LOAD_TENSOR", 0, 0), ("LOAD_CONST", 1, 0), ("IF_TENSOR_GT", 0, 1, 4),
                          ("MOVE", 0, 1), ("RETURN", 0))
    assert branch_edges(number) == {"n": [8]}
    for op, edges in enumerate(([7, 8], [7, 8], [7], [8], [8], [7])):  # == != < <= > >=
        code = made.program("m:f", ["x"], [7], ("LOAD_TENSOR", 0, 0), ("TENSOR_SHAPE_REF", 1, 0, 0),
                            ("LOAD_CONST", 2, 0), ("COMPARE_TENSOR", 3, 1, 2, op), ("RETURN", 3))
        assert branch_edges(code) == {"x.shape[0]": edges}


def test_no_bucket_spans_a_branch(tmp_path):
    shapes = {(b, 64): 1 + b % 3 for b in range(1, 300, 3)}
    planned = plan(made.profile(made.function_profile(made.branching(threshold=128), shapes)), max_kernels=8)
    spans = [b.extents["b"] for f in planned.config.functions for b in f.buckets]
    assert (1, 128) in spans and (129, 512) in spans
    assert all(hi <= 128 or lo >= 129 for lo, hi in spans)


# --- names

def test_names_follow_axes_and_ties():
    rows = [made.array_row("x", 2), made.array_row("w", 2, 1)]
    seen = made.function_profile(made.doubling(), {(3, 8, 8, 5): 1, (4, 8, 8, 5): 1}, rows=rows)
    assert name_symbols(seen) == {"b": ("x.shape[0]",), "d": ("x.shape[1]", "w.shape[0]"), "k": ("w.shape[1]",)}


def test_names_of_an_earlier_file_win_over_declared_ones():
    seen = made.function_profile(made.doubling(), {(3, 8): 1, (4, 9): 1}, names={"x": "rows cols"})
    assert list(name_symbols(seen)) == ["rows", "cols"]
    assert name_symbols(seen, {"n": ["x.shape[0]"]}) == {"n": ("x.shape[0]",), "cols": ("x.shape[1]",)}


def test_axes_that_vary_alike_share_a_name_but_constants_of_one_array_do_not():
    seen = made.function_profile(made.doubling(), {(3, 3): 1, (5, 5): 1})
    assert name_symbols(seen) == {"b": ("x.shape[0]", "x.shape[1]")}
    assert len(name_symbols(made.function_profile(made.doubling(), {(3, 3): 1}))) == 2


def test_integer_arguments_keep_their_names():
    number = Row(how="arg", parent=-1, key=1, kind="scalar", path="n", dtype="i64", python="int")
    rows = [made.array_row("x", 1), number]
    seen = made.function_profile(made.doubling(), {(3, 7): 1, (5, 6): 1}, rows=rows, symbols=["x.shape[0]", "n"])
    assert name_symbols(seen) == {"k": ("x.shape[0]",), "n": ("n",)}


def test_declared_names_leave_expressions_out():
    assert declared_names({"x": "b d", "w": "d//2 k", "y": "... n", "z": "keep q"}) == {
        "x.shape[0]": "b", "x.shape[1]": "d", "w.shape[1]": "k", "z.shape[1]": "q"}


# --- the whole step

def _planned(tmp_path, shapes, **more):
    return plan(made.profile(made.function_profile(made.doubling(), shapes)), tmp_path / "b.yaml", **more)


def test_a_plan_is_written_with_its_neighbours_and_reads_back(tmp_path):
    planned = _planned(tmp_path, {(b, 64): 3 for b in range(1, 100)})
    assert planned.hit_rate == 1.0
    assert repr(planned) == (f"<prebake.Planned 1 functions, {len(planned.selection.choices)} kernels, hit rate 100.0%, "
                             f"written to '{tmp_path / 'b.yaml'}'>")
    config = read_buckets(tmp_path / "b.yaml")
    (function,) = config.functions
    assert config.load_program(function) == made.doubling().to_bytes()
    recordings = config.load_recordings(function)
    assert recordings.digest == made.doubling().digest
    for bucket in function.buckets:
        sample = function.sample(bucket, recordings.signatures[bucket.signature])
        assert all(lo <= sample[s] <= hi for s, (lo, hi) in function.bounds(bucket).items())


def test_planning_is_deterministic(tmp_path):
    shapes = {(random.Random(i).randint(1, 50), 8 * (1 + i % 3)): i + 1 for i in range(40)}
    texts = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        items = list(shapes.items())
        random.Random(name).shuffle(items)
        texts.append(_planned(tmp_path / name, dict(items)).text)
    assert texts[0] == texts[1]


def test_calls_without_a_plan_and_unkept_shapes_lower_the_predicted_hit_rate():
    seen = made.function_profile(made.doubling(), {(3, 4): 6}, unplanned=2, other=2)
    assert plan(made.profile(seen)).hit_rate == pytest.approx(0.6)


def test_hand_edits_survive_planning_again(tmp_path):
    shapes = {(b, 64): 3 for b in range(1, 100)}
    _planned(tmp_path, shapes)
    path = tmp_path / "b.yaml"
    text = path.read_text().replace("b:", "rows:")
    text = text.replace("    buckets:\n", "    options: {disable_fusions: [row_softmax]}\n    buckets:\n"
                        "      # for the nightly job\n      - {rows: [1, 5000], d: 64}  # asked for\n")
    path.write_text("# ours\n" + text)
    _planned(tmp_path, shapes)
    (function,) = read_buckets(path).functions
    (first,) = (b for b in function.buckets if b.keep)
    assert first.extents == {"rows": (1, 5000), "d": (64, 64)} and first.keep
    assert len(function.buckets) > 1 and not function.unreachable()  # a name alone is no edit of the others
    assert first.comments == ("for the nightly job",) and first.tail == "asked for"
    assert list(function.options["disable_fusions"]) == ["row_softmax"]
    assert read_buckets(path).comments == ("ours",)
    again = path.read_text()
    _planned(tmp_path, shapes)
    assert path.read_text() == again  # planning once more changes nothing


def test_renaming_symbols_edits_and_removes_no_bucket(tmp_path):
    shapes = {(b, 64): 3 for b in range(1, 100)}
    before = _planned(tmp_path, shapes)
    path = tmp_path / "b.yaml"
    path.write_text(path.read_text().replace("b: ", "batch: ").replace("d: ", "width: "))
    after = _planned(tmp_path, shapes)
    assert "by hand" not in after.summary() and "keep: true" not in after.text
    assert after.text == before.text.replace("b: ", "batch: ").replace("d: ", "width: ")
    path.write_text("".join(line for line in after.text.splitlines(keepends=True) if "gain" in line or "- {" not in line)
                    .replace("buckets:\n", "buckets: []\n"))
    third = _planned(tmp_path, shapes)
    assert "removed by hand: {batch: " in third.summary() and "x.shape" not in third.summary()


def test_short_names_in_what_lies_beside_the_file_are_read_too(tmp_path):
    shapes = {(b, 64): 3 for b in range(1, 100)}
    before = _planned(tmp_path, shapes)
    (side,) = (tmp_path / "b.msbc").glob("*.json")
    text = side.read_text()
    assert '"0 {x.shape[0]: [1, 128], x.shape[1]: 64}"' in text
    side.write_text(text.replace("x.shape[0]: ", "b: ").replace("x.shape[1]: ", "d: "))
    assert _planned(tmp_path, shapes).text == before.text


def test_a_removed_bucket_of_a_signature_whose_number_changes_stays_removed(tmp_path):
    def both(*calls):
        one, two = (made.function_profile(made.doubling(), {shape: n}, rows=[made.array_row("x", len(shape))])
                    for shape, n in zip([(3,), (3, 4)], calls, strict=True))
        one.signatures |= two.signatures
        one.calls += two.calls
        return plan(made.profile(one), tmp_path / "b.yaml")

    first = both(9, 5)
    lines = first.text.splitlines(keepends=True)
    (tmp_path / "b.yaml").write_text("".join(line for line in lines if "signature: 1" not in line))
    (function,) = both(5, 9).config.functions  # what was signature 1 is 0 now
    assert function.buckets and all(b.signature == 1 for b in function.buckets)


def test_comments_survive_planning_again(tmp_path):
    shapes = {(b, 64): 3 for b in range(1, 100)}
    _planned(tmp_path, shapes)
    path = tmp_path / "b.yaml"
    text = "# yaml-language-server: $schema=x\n\n" + path.read_text()
    for entry in ("version: 1", "functions:", '  "shop:double":', "    symbols:", "    buckets:"):
        at = text.index(entry)
        end = text.index("\n", at)
        indent = entry[:len(entry) - len(entry.lstrip())]
        name = entry.strip(' ":1')
        text = f"{text[:at]}{indent}# above {name}\n\n{text[at:end]}  # behind {name}{text[end:]}"
    path.write_text(text + "# the end\n")
    _planned(tmp_path, shapes)
    once = path.read_text()
    assert once.startswith("# yaml-language-server: $schema=x\n#: ") and once.endswith("\n# the end\n")
    for name in ("version", "functions", "shop:double", "symbols", "buckets"):
        (line,) = (line for line in once.splitlines() if line.endswith(f"# behind {name}"))
        assert f"# above {name}\n{line}\n" in once, name
    _planned(tmp_path, shapes)
    assert path.read_text() == once


def test_a_bucket_removed_by_hand_does_not_come_back(tmp_path):
    shapes = {(b, 64): 3 for b in range(1, 100)}
    _planned(tmp_path, shapes)
    path = tmp_path / "b.yaml"
    lines = [line for line in path.read_text().splitlines(keepends=True) if "[1, 128]" not in line]
    path.write_text("".join(lines).replace("buckets:\n", "buckets: []\n"))
    planned = _planned(tmp_path, shapes)
    assert all(b.extents["b"] != (1, 128) for f in planned.config.functions for b in f.buckets)
    assert "removed by hand" in planned.summary()


def test_a_symbol_that_was_never_recorded_is_refused_with_its_place(tmp_path):
    shapes = {(b, 64): 3 for b in range(1, 100)}
    _planned(tmp_path, shapes)
    path = tmp_path / "b.yaml"
    text = path.read_text()
    for wrong in ("x.shape[7]", "x.shpe[0]", "k"):
        path.write_text(text.replace("x.shape[0]", wrong))
        config = read_buckets(path)
        place = next((n, line.index(f'"{wrong}"')) for n, line in enumerate(path.read_text().splitlines())
                     if f'"{wrong}"' in line)
        for replan in (False, True):
            with pytest.raises(ConfigError, match=r"is no symbol of the recorded signatures") as caught:
                _planned(tmp_path, shapes) if replan else config.load_recordings(config.functions[0])
            assert (caught.value.line, caught.value.column) == (place[0] + 1, place[1] + 1)
            assert caught.value.key == "functions.shop:double.symbols.b" and "x.shape[" in caught.value.hint


def test_a_misspelt_function_gets_a_suggestion(tmp_path):
    _planned(tmp_path, {(3, 4): 6})
    path = tmp_path / "b.yaml"
    path.write_text(path.read_text().replace("shop:double", "shop:doubel"))
    config = read_buckets(path)
    for load in (config.load_program, config.load_recordings):
        with pytest.raises(ConfigError, match=r"nothing was recorded of 'shop:doubel'(.|\n)*did you mean 'shop:double'\?"):
            load(config.functions[0])


def test_a_bucket_cannot_limit_what_its_signature_lacks(tmp_path):
    rows = [[made.array_row("x", n)] for n in (1, 2)]
    one, two = (made.function_profile(made.doubling(), {shape: calls}, rows=r)
                for shape, calls, r in zip([(3,), (3, 4)], [9, 5], rows, strict=True))
    one.signatures |= two.signatures
    one.calls += two.calls
    path = tmp_path / "b.yaml"
    plan(made.profile(one), path)
    config = read_buckets(path)
    assert len(config.load_recordings(config.functions[0]).signatures) == 2
    path.write_text(path.read_text() + "      - {d: 4}\n")
    config = read_buckets(path)
    with pytest.raises(ConfigError, match=r"recorded signature 0 has no 'x\.shape\[1\]'"):
        config.load_recordings(config.functions[0])


def test_names_of_symbols_that_are_not_recorded_any_more_leave_the_file(tmp_path):
    path = tmp_path / "b.yaml"
    _planned(tmp_path, {(3, 4, b): 6 for b in range(1, 9)})
    path.write_text(path.read_text() + "      - {d: [1, 77]}\n")
    _planned(tmp_path, {(3, 4): 6})
    (function,) = read_buckets(path).functions
    assert read_buckets(path).load_recordings(function)
    assert {s for tied in function.symbols.values() for s in tied} <= {"x.shape[0]", "x.shape[1]"}


def test_functions_that_the_new_profile_lacks_are_left_alone(tmp_path):
    path = tmp_path / "b.yaml"
    plan(made.profile(made.function_profile(made.branching(), {(3, 4): 6})), path)
    plan(made.profile(made.function_profile(made.doubling(), {(3, 4): 6})), path)
    config = read_buckets(path)
    assert [f.qualname for f in config.functions] == ["shop:branch", "shop:double"]
    assert config.load_program(config.functions[0]) == made.branching().to_bytes()


# --- refusals

def test_an_empty_profile_is_refused():
    with pytest.raises(PlanError, match="no call was recorded"):
        plan(made.profile())


def test_a_program_that_is_not_the_one_that_was_counted_is_refused():
    seen = made.function_profile(made.doubling(), {(3, 4): 6})
    seen.digest = made.branching().digest
    with pytest.raises(PlanError, match="not the one that was counted"):
        plan(made.profile(seen))
    seen.digest, seen.msbc = made.doubling().digest, made.doubling().to_bytes()[:-1]
    with pytest.raises(PlanError, match="damaged"):
        plan(made.profile(seen))


def test_a_profile_of_an_older_source_is_refused_and_may_be_allowed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").write_text("def double(x):\n    return x + x + 1\n")
    seen = made.profile(made.function_profile(made.doubling(), {(3, 4): 6}))
    with pytest.raises(PlanError, match=r"another program.*shop:double"):
        plan(seen)
    assert plan(seen, allow_stale=True).hit_rate == 1.0
