"""Profiles: merging is a fold, bytes are canonical, damage is named."""

from __future__ import annotations

import io
import itertools
import json
import sys
import types

import profile_helpers as made
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prebake.pgo.profile import (
    Profile,
    compare_profiles,
    expand_paths,
    merge_paths,
    merge_profiles,
    overlap_of,
    parse_profile,
    read_profile,
    show_profile,
    write_atomically,
)
from prebake.vm.errors import PlanError

_shapes = st.dictionaries(st.tuples(st.integers(0, 5), st.integers(0, 2)), st.integers(1, 9), min_size=1, max_size=6)


def _profiles(counts):
    return [made.profile(made.function_profile(made.doubling(), shapes, other=i)) for i, shapes in enumerate(counts)]


@settings(deadline=None, max_examples=40)
@given(st.lists(_shapes, min_size=3, max_size=3))
def test_merging_commutes_and_associates_to_the_byte(counts):
    a, b, c = _profiles(counts)
    expected = merge_profiles(merge_profiles(a, b), c).to_bytes()
    for x, y, z in itertools.permutations((a, b, c)):
        assert merge_profiles(x, merge_profiles(y, z)).to_bytes() == expected
        assert merge_profiles(merge_profiles(x, y), z).to_bytes() == expected


def test_an_empty_profile_is_neutral():
    one = made.profile(made.function_profile(made.doubling(), {(3, 4): 2}))
    assert merge_profiles(one, Profile()).to_bytes() == merge_profiles(Profile(), one).to_bytes() == one.to_bytes()


def test_a_weight_counts_a_profile_that_often():
    a, b = _profiles([{(1, 1): 2}, {(1, 1): 3, (2, 2): 1}])
    threefold = merge_profiles(merge_profiles(merge_profiles(a, b), b), b)
    assert merge_profiles(a, b, weight=3).to_bytes() == threefold.to_bytes()
    with pytest.raises(PlanError, match="weight"):
        merge_profiles(a, b, weight=-1)


def test_reading_gives_back_what_was_written(tmp_path):
    one = made.profile(made.function_profile(made.branching(), {(3, 4): 2, (1, 4): 7}, unplanned=5, names={"x": "n d"}))
    path = tmp_path / "p.json"
    write_atomically(path, one.to_bytes())
    again = read_profile(path)
    assert again.to_bytes() == one.to_bytes()
    function = again.functions["shop:branch"]
    assert (function.calls, function.unplanned, function.planned, function.shapes) == (14, 5, 9, {"x": "n d"})


def test_a_profile_of_another_program_is_refused_by_name():
    one = made.profile(made.function_profile(made.branching(threshold=128), {(3, 4): 2}))
    two = made.profile(made.function_profile(made.branching(threshold=64), {(3, 4): 2}))
    with pytest.raises(PlanError, match="'shop:branch' is another program") as caught:
        merge_profiles(one, two)
    assert one.functions["shop:branch"].digest[:16] in str(caught.value)


def test_a_file_cut_anywhere_is_named(tmp_path):
    data = made.profile(made.function_profile(made.doubling(), {(3, 4): 2})).to_bytes()
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_bytes(data)
    for length in range(0, len(data) - 1, max(len(data) // 40, 1)):
        bad.write_bytes(data[:length])
        with pytest.raises(PlanError, match=r"bad\.json"):
            merge_paths([good, bad])


@pytest.mark.parametrize("change", [
    lambda d: d.update(version=99), lambda d: d.update(functions=[]),
    lambda d: d["functions"]["shop:double"].pop("digest"),
    lambda d: d["functions"]["shop:double"].update(msbc="?"),
    lambda d: d["functions"]["shop:double"]["signatures"][0]["shapes"].append([1]),
    lambda d: d["functions"]["shop:double"]["signatures"][0]["shapes"].append([1, 1, -1, 0, 0]),
    lambda d: d["functions"]["shop:double"]["signatures"][0]["rows"].append({"how": "arg"}),
])
def test_damage_inside_is_named(change):
    document = json.loads(made.profile(made.function_profile(made.doubling(), {(3, 4): 2})).to_bytes())
    change(document)
    with pytest.raises(PlanError, match=r"^fleet-7\.json: "):
        parse_profile(json.dumps(document).encode(), "fleet-7.json")


def test_folders_and_left_over_shards_are_read(tmp_path):
    data = made.profile(made.function_profile(made.doubling(), {(3, 4): 2})).to_bytes()
    (tmp_path / "many").mkdir()
    for i in range(5):
        (tmp_path / "many" / f"{i}.json").write_bytes(data)
    assert merge_paths([tmp_path / "many"]).calls == 10
    (tmp_path / "p.json").write_bytes(data)
    (tmp_path / "p.json.d").mkdir()
    (tmp_path / "p.json.d" / "host-1-2.json").write_bytes(data)
    assert len(list(expand_paths([tmp_path / "p.json"]))) == 2
    assert merge_paths([tmp_path / "p.json"], weights=[3]).calls == 12


def test_a_url_needs_fsspec_and_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(PlanError, match=r"s3://bucket/p\.json.*needs fsspec"):
        merge_paths(["s3://bucket/p.json"])


def test_urls_are_read_through_fsspec(monkeypatch):
    data = made.profile(made.function_profile(made.doubling(), {(3, 4): 2})).to_bytes()
    opened = []

    def fake_open(url, mode):
        opened.append((url, mode))
        if "missing" in url:
            raise FileNotFoundError(2, "No such object", url)
        if url.startswith("gopher"):
            raise ValueError("Protocol not known: gopher")
        return io.BytesIO(data)

    monkeypatch.setitem(sys.modules, "fsspec", types.SimpleNamespace(open=fake_open))
    assert merge_paths(["s3://bucket/a.json", "gs://bucket/b.json"]).calls == 4
    assert opened == [("s3://bucket/a.json", "rb"), ("gs://bucket/b.json", "rb")]
    for url in ("s3://bucket/missing.json", "gopher://x/a.json"):
        with pytest.raises(PlanError, match=url):
            merge_paths([url])


def test_overlap_and_diff():
    a = made.profile(made.function_profile(made.doubling(), {(1, 1): 1, (2, 2): 3}))
    b = made.profile(made.function_profile(made.doubling(), {(1, 1): 3, (2, 2): 1}))
    assert overlap_of(compare_profiles(a, a)) == 1.0
    (difference,) = compare_profiles(a, b)
    assert difference.overlap == 0.5 and difference.changed[0][1:] in ((0.25, 0.75), (0.75, 0.25))
    other = made.profile(made.function_profile(made.branching("shop:double"), {(1, 1): 1}))
    assert compare_profiles(a, other)[0].note.startswith("another program")
    assert overlap_of(compare_profiles(a, Profile())) == 0.0


def _weighted(counts, width=10):
    """A profile of x(n, 64), w(64, width) and its strides, for n -> calls."""
    rows = [made.array_row("x", 2), made.array_row("w", 2, 1)]
    symbols = ["x.shape[0]", "x.shape[1]", "w.shape[0]", "w.shape[1]", "w.strides[0]"]
    return made.profile(made.function_profile(made.doubling(), {(n, 64, 64, width, 40): c for n, c in counts.items()},
                                              rows=rows, symbols=symbols))


def test_what_never_varies_is_shown_once():
    lines = show_profile(_weighted({3: 5, 4: 9})).splitlines()
    assert [line for line in lines if "w(" in line] == ["    in every shape: w(64, 10)"]
    assert lines[-1].endswith("  x(3, 64)") and lines[-2].endswith("  x(4, 64)")
    one = show_profile(_weighted({3: 5}))  # nothing varies: everything is said
    assert one.endswith("  x(3, 64) w(64, 10)") and "every" not in one
    (same,) = compare_profiles(_weighted({3: 5, 4: 9}), _weighted({3: 9, 4: 5}))
    assert [text for text, *_ in same.changed] == ["x(3, 64)", "x(4, 64)"]
    (wider,) = compare_profiles(_weighted({3: 5, 4: 9}), _weighted({3: 5, 4: 9}, width=11))
    assert wider.overlap == 0.0 and {text for text, *_ in wider.changed} == {
        f"x({n}, 64) w(64, {width})" for n in (3, 4) for width in (10, 11)}


def test_shapes_that_differ_in_strides_alone_are_one_in_a_comparison():
    rows = [made.array_row("x", 1)]
    a = made.profile(made.function_profile(made.doubling(), {(3, 4): 1, (3, 8): 1, (4, 4): 2}, rows=rows,
                                           symbols=["x.shape[0]", "x.strides[0]"]))
    (same,) = compare_profiles(a, a)
    assert same.overlap == 1.0 and same.changed == ()


def test_show_names_what_matters():
    text = show_profile(made.profile(made.function_profile(
        made.doubling(), {(i, 4): 100 - i for i in range(1, 20)}, other=3, unplanned=2)), top=3)
    assert "shop:double" in text and "x: float32[:, :]" in text and "x(1, 4)" in text
    assert "in 16 more shapes" in text and "without a plan" in text and "5.0 us" in text
