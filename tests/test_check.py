"""`check`: each kind of finding, on a bundle that is built here once."""

from __future__ import annotations

import json
import shutil

import profile_helpers as made
import pytest

from prebake.pgo import api
from prebake.pgo.check import check_bundle, parse_share
from prebake.pgo.cli import FINDING, FINE, main
from prebake.vm.errors import PlanError

SHAPES = {(b, 64): 10 for b in range(1, 33)}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A bundle of `shop:double` for 1 to 32 rows."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "shop.py").write_text(made.SHOP)
    api.plan(_profile(SHAPES), folder / "b.yaml", measure=False)
    return api.build(folder / "b.yaml", folder / "bundle")


@pytest.fixture
def bundle(built, tmp_path):
    """A copy that a test may damage, its source beside it."""
    (tmp_path / "shop.py").write_text(made.SHOP)
    return shutil.copytree(built, tmp_path / "bundle")


def _profile(shapes, function=None, **more):
    return made.profile(made.function_profile(function or made.doubling(), shapes, **more))


def test_a_good_bundle_has_no_findings(bundle):
    report = check_bundle(bundle, _profile(SHAPES))
    assert report and report.findings == [] and report.miss_rate == 0.0 and report.kernels >= 1
    assert report.functions == ["shop:double"] and "fine" in str(report)


def test_drift_is_counted_to_the_call(bundle):
    new = dict(SHAPES) | {(1000, 64): 5, (2000, 64): 15, (3, 65): 20}
    report = check_bundle(bundle, _profile(new), max_miss=0.5)
    assert report and report.miss_rate == pytest.approx(40 / 360)
    assert [calls for _, calls in report.misses] == [20, 15, 5]
    assert "x(3, 65)" in report.misses[0][0]
    for limit, fine in ((0.12, True), ("12%", True), (None, False), ("11%", False), (40 / 360, True)):
        assert bool(check_bundle(bundle, _profile(new), max_miss=limit)) is fine


def test_calls_whose_shapes_are_not_known_count_as_misses(bundle):
    report = check_bundle(bundle, _profile(SHAPES, unplanned=10, other=30), max_miss=1.0)
    assert report.miss_rate == pytest.approx(40 / 360)


def test_misses_leave_out_what_never_varies_and_always_fits(tmp_path):
    def profile(*shapes):
        rows = [made.array_row("x", 2), made.array_row("w", 1, 1)]
        two = made.program("shop:two", ["x", "w"], [], ("LOAD_TENSOR", 0, 0), ("LOAD_TENSOR", 1, 1),
                           ("BINARY_ADD_TENSOR", 2, 0, 1), ("RETURN", 2))
        return made.profile(made.function_profile(two, dict.fromkeys(shapes, 5), rows=rows))

    api.plan(profile(*((n, 64, 64) for n in (1, 2, 8))), tmp_path / "b.yaml", measure=False)
    bundle = api.build(tmp_path / "b.yaml", tmp_path / "bundle", targets=["generic"], verify=False, quiet=True)
    missing = check_bundle(bundle, profile((9_000, 64, 64), (9_001, 64, 64))).misses
    assert [text for text, _ in missing] == ["shop:two x(9000, 64)", "shop:two x(9001, 64)"]
    other = check_bundle(bundle, profile((1, 65, 65), (2, 65, 65))).misses
    assert [text for text, _ in other] == ["shop:two x(1, 65) w(65)", "shop:two x(2, 65) w(65)"]


def test_another_signature_and_a_function_that_is_not_there_miss(bundle):
    doubles = _profile({(3, 64): 7}, rows=[made.array_row("x", 2, dtype="f64")])
    assert check_bundle(bundle, doubles).miss_rate == 1.0
    report = check_bundle(bundle, _profile({(3, 64): 7}, made.branching()))
    assert report.miss_rate == 1.0 and "not in the bundle" in str(report)


def test_a_profile_of_another_program_is_a_finding(bundle):
    report = check_bundle(bundle, _profile(SHAPES, made.branching("shop:double")))
    assert [f.kind for f in report.findings] == ["freshness", "drift"] and "another program" in str(report)


def test_a_bundle_that_is_not_there_is_said_to_be_none(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "nowhere", tmp_path / "file"):
        report = check_bundle(place)
        assert [f.kind for f in report.findings] == ["integrity"] and f"{place} is no folder" in str(report)
        assert "field" not in str(report) and "fine" not in str(report)


def test_a_changed_source_is_a_finding(bundle, tmp_path):
    (tmp_path / "shop.py").write_text("def double(x):\n    return x + x + 1\n")
    report = check_bundle(bundle)
    assert [f.kind for f in report.findings] == ["freshness"] and "shop:double" in str(report)


def test_every_damaged_file_is_a_finding_and_nothing_is_raised(bundle):
    for path in sorted(bundle.iterdir()):
        data = path.read_bytes()
        for broken in (data[:len(data) // 2], data[:-1], b"", data[:40] + bytes([data[40] ^ 1]) + data[41:]):
            path.unlink()  # a new file: the old one may be mapped by this process
            path.write_bytes(broken)
            report = check_bundle(bundle)  # shared objects of levels that this machine does not use are looked at too
            assert not report and report.findings[0].kind in ("integrity", "fit"), path.name
        path.unlink()
        path.write_bytes(data)
    assert check_bundle(bundle)


def test_no_bundle_at_all(tmp_path):
    assert [f.kind for f in check_bundle(tmp_path / "nowhere").findings] == ["integrity"]


def test_the_command_answers_with_its_exit_code(bundle, tmp_path, capsys):
    (tmp_path / "same.json").write_bytes(_profile(SHAPES).to_bytes())
    (tmp_path / "new.json").write_bytes(_profile({(900, 64): 1}).to_bytes())
    assert main(["check", str(bundle)]) == FINE
    assert main(["check", str(bundle), "--profile", str(tmp_path / "same.json"), "--max-miss", "1%"]) == FINE
    assert main(["check", str(bundle), "--profile", str(tmp_path / "new.json"), "--max-miss", "1%"]) == FINDING
    assert main(["check", str(bundle), "--profile", str(tmp_path / "missing.json")]) == FINDING
    assert "drift" in capsys.readouterr().out


def test_shares():
    assert parse_share("1%") == parse_share(0.01) == parse_share("0.01") == 0.01
    for bad in ("x", "-1%", "101%", 2):
        with pytest.raises(PlanError):
            parse_share(bad)


def test_plan_and_build_from_python(tmp_path, monkeypatch):
    (tmp_path / "shop.py").write_text(made.SHOP)
    (tmp_path / "p.json").write_bytes(_profile(SHAPES).to_bytes())
    monkeypatch.chdir(tmp_path)
    planned = api.plan(tmp_path / "p.json", measure=False)
    assert planned.path is None and not (tmp_path / "buckets.yaml").exists()
    place = api.build(planned, tmp_path / "out")
    manifest = json.loads((place / "manifest.json").read_bytes())
    assert list(manifest["functions"]) == ["shop:double"]
    with pytest.raises(TypeError, match="not written"):
        planned.__fspath__()
    api.plan(tmp_path / "p.json", tmp_path / "b.yaml", measure=False)
    assert api.build(tmp_path / "b.yaml", tmp_path / "out2") and check_bundle(tmp_path / "out2")
