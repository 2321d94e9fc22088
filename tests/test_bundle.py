"""Bundles: found, checked, loaded and served from; everything that does not fit is refused by name and still served."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
import warnings
from dataclasses import replace

import numpy as np
import pytest
from dispatch_helpers import pack_stats

import prebake
from prebake.pgo.api import plan
from prebake.vm.lang import bytecode
from prebake.vm.run import _dispatch, bundle
from prebake.vm.run.manifest import (
    BundleFunction,
    BundleKernel,
    BundlePlan,
    BundleSource,
    Manifest,
    TargetFile,
)
from prebake.vm.version import MSBC_VERSION

MODULE = '''
    """A model."""
    import numpy as np
    import prebake
    from bundled_helper import shift

    @prebake.jit
    def score(x, w):
        return np.maximum(shift(x @ w), 0)

    @prebake.jit
    def plain(x):
        return np.tanh(x) * 2.0

    WEIGHTS = prebake.freeze(np.ones((6, 3), np.float32))

    @prebake.jit
    def fixed(x):
        return x @ WEIGHTS
'''
HELPER = '''
    def shift(x):
        return x + 1.5
'''

pytestmark = pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler")


def write(path, text):
    path.write_text(textwrap.dedent(text))


NAMES = ["bundled_model:fixed", "bundled_model:plain", "bundled_model:score"]


class App:
    """A folder with a module, its helper and a bundle; `load()` imports the module afresh."""

    def __init__(self, folder):
        self.folder, self.bundle = folder, folder / "__prebake__" / "app"

    def load(self):
        for name in ("bundled_model", "bundled_helper"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        sys.path.insert(0, str(self.folder))
        try:
            return importlib.import_module("bundled_model")
        finally:
            sys.path.remove(str(self.folder))

    def edit_manifest(self, change, *, seal=True):
        """Apply change(dict) to the manifest; seal: with a right digest."""
        path = self.bundle / "manifest.json"
        data = json.loads(path.read_text())
        data.pop("digest")
        change(data)
        rest = json.dumps(data, separators=(",", ":"), sort_keys=True)[1:].encode()
        path.write_bytes(b'{"digest": "' + (bundle.file_digest(rest).encode() if seal else b"0" * 64) + b'",\n' + rest)


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """An App, built once."""
    folder = tmp_path_factory.mktemp("built")
    write(folder / "bundled_model.py", MODULE)
    write(folder / "bundled_helper.py", HELPER)
    app = App(folder)
    module = app.load()
    rng = np.random.default_rng(0)
    w = prebake.freeze(rng.standard_normal((6, 5)).astype(np.float32))
    with prebake.profile(folder / "p.json"):
        for n in (4, 9, 4, 7):
            module.score(rng.standard_normal((n, 6)).astype(np.float32), w)
        for n in (3, 8):
            module.plain(np.ones(n))
            module.fixed(np.ones((n, 6), np.float32))
    yaml = folder / "buckets.yaml"
    plan(folder / "p.json", yaml, measure=False)
    write(yaml, """
        version: 1
        functions:
          "bundled_model:score":
            symbols: {b: "x.shape[0]"}
            buckets: [{b: 4}, {b: [5, 9]}]
          "bundled_model:plain":
            symbols: {n: "x.shape[0]"}
            buckets: [{n: [2, 100]}]
          "bundled_model:fixed":
            symbols: {n: "x.shape[0]"}
            buckets: [{n: [1, 64]}]
    """)
    level = bundle.usable_levels()[0]
    prebake.build(yaml, app.bundle, targets=[level], roots=[folder])
    return app


@pytest.fixture
def app(built, tmp_path):
    """A copy of the built App in a place of its own."""
    for name in ("bundled_model.py", "bundled_helper.py"):
        shutil.copy(built.folder / name, tmp_path / name)
    shutil.copytree(built.bundle, tmp_path / "__prebake__" / "app")
    bundle._reported.clear()
    yield App(tmp_path)
    for name in ("bundled_model", "bundled_helper"):
        sys.modules.pop(name, None)


def data(n, dtype=np.float32):
    return np.random.default_rng(n).standard_normal((n, 6)).astype(dtype)


W = prebake.freeze(np.random.default_rng(9).standard_normal((6, 5)).astype(np.float32))


def check_served(module, engine, reason=""):
    """Right results from `engine`, with the reason where it is not a prebuilt kernel."""
    x = data(7)
    np.testing.assert_allclose(module.score(x, W), module.score.__wrapped__(x, W), rtol=1e-5, atol=1e-6)
    stats = module.score.stats()
    assert stats[engine] == 1, stats
    assert {m["reason"] for m in stats["misses"]} == ({reason} if reason else set())


def refused(app, reason, field):
    """The module of a bundle that is refused with one warning that names the field."""
    module = app.load()
    with pytest.warns(RuntimeWarning, match=rf"(?s)(was not loaded|is not used for .*).*field +{field}") as caught:
        check_served(module, "jit", reason)
    assert len([w for w in caught if "kernel bundle" in str(w.message)]) == 1
    return module


# --- served ---------------------------------------------------------------------------------------------------------

def test_found_beside_the_module_and_served(app):
    module = app.load()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_served(module, "prebuilt")
    row = next(row for row in prebake.ready() if row["path"] == str(app.bundle))
    assert row["accepted"] and row["functions"] == NAMES and not row["reason"]


@pytest.mark.parametrize(("n", "engine"), [(0, "jit"), (3, "jit"), (4, "prebuilt"), (5, "prebuilt"), (9, "prebuilt"),
                                           (10, "jit")])
def test_bucket_bounds(app, n, engine):
    module = app.load()
    x = data(n)
    np.testing.assert_allclose(module.score(x, W), module.score.__wrapped__(x, W), rtol=1e-5, atol=1e-6)
    assert module.score.stats()[engine] == 1
    about = module.score.explain(x, W)
    assert about.engine == engine
    if engine == "jit":
        miss = module.score.stats()["misses"][0]
        assert miss["reason"] == "NO_BUCKET" == about.reason
        assert miss["nearest"] == about.nearest == ({"b": 4} if n < 4 else {"b": [5, 9]})
        assert about.yaml.startswith(f"- {{b: {n}")


def test_exact_kernels_come_first(app):
    module = app.load()
    assert module.score.explain(data(4), W).kernel != module.score.explain(data(5), W).kernel


def test_engine_prebuilt(app):
    module = app.load()
    with prebake.engine("prebuilt"):
        module.score(data(5), W)
        with pytest.raises(prebake.PrebakeError, match="NO_BUCKET"):
            module.score(data(50), W)
    with prebake.engine("jit"):
        module.score(data(5), W)
    assert (module.score.stats()["prebuilt"], module.score.stats()["jit"]) == (1, 1)


def test_other_dtypes_layouts_and_structures_are_misses_with_a_reason(app):
    module = app.load()
    for x, reason in ((data(7, np.float64), "DTYPE"), (np.asfortranarray(data(7)), "LAYOUT"),
                      (data(14)[::2], "LAYOUT")):
        assert module.score.explain(x, W).reason == reason
        np.testing.assert_allclose(module.score(x, W), module.score.__wrapped__(x, W), rtol=1e-5, atol=1e-6)
    other = prebake.freeze(np.ones((6, 8), np.float32))
    assert module.score.explain(data(7), other).reason == "GUARD"
    assert module.score.stats()["prebuilt"] == 0


def test_weights_that_may_change_are_served_unpacked(app):
    module, x, w = app.load(), data(7), np.array(W)
    before = pack_stats()[0]
    for factor in (1, 2, 3):
        w *= factor
        np.testing.assert_allclose(module.score(x, w), module.score.__wrapped__(x, w), rtol=1e-5, atol=1e-5)
    assert module.score.stats()["prebuilt"] == 3
    assert pack_stats()[0] == before
    frozen = prebake.freeze(w)
    np.testing.assert_allclose(module.score(x, frozen), module.score.__wrapped__(x, w), rtol=1e-5, atol=1e-5)
    assert pack_stats()[0] == before + 1


def test_a_call_loads_neither_frontend_nor_planner(app):
    code = f"""
import sys
sys.path.insert(0, {str(app.folder)!r})
import numpy as np, bundled_model, prebake
x, w = np.ones((7, 6), np.float32), prebake.freeze(np.ones((6, 5), np.float32))
bundled_model.score(x, w)
bundled_model.plain(np.ones(5))
assert bundled_model.score.stats()["prebuilt"] == 1 == bundled_model.plain.stats()["prebuilt"]
print(*[m for m in sys.modules if m.startswith("prebake.") or m in ("json", "subprocess", "tempfile")])
"""
    out = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False,
                         env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)})
    assert out.returncode == 0, out.stderr
    loaded = set(out.stdout.split())
    for name in ("json", "subprocess", "prebake.vm.lang.frontend", "prebake.vm.lang.bytecode",
                 "prebake.vm.plan.planner", "prebake.vm.plan.code", "prebake.vm.run.interpreter",
                 "prebake.vm.run.tape", "prebake.pgo", "prebake.vm.lang.source"):
        assert name not in loaded, name


def test_load_bundle_by_path(app, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    shutil.move(app.bundle, elsewhere)
    module = app.load()
    check_served(module, "jit", "NO_BUNDLE")
    loaded = prebake.load_bundle(elsewhere)
    try:
        assert loaded.accepted and loaded.functions == tuple(NAMES)
        module.score(data(7), W)
        assert module.score.stats()["prebuilt"] == 1
    finally:
        bundle._by_function.clear()


def test_a_bundle_built_again_is_loaded_again(app):
    loaded = prebake.load_bundle(app.bundle)
    assert prebake.load_bundle(app.bundle) is loaded
    app.edit_manifest(lambda m: m["stamp"].update(compiler="another"))
    try:
        again = prebake.load_bundle(app.bundle)
        assert again is not loaded and again.accepted and again.stamp["compiler"] == "another"
    finally:
        bundle._by_function.clear()


def test_found_in_the_packages_around(app, tmp_path):
    package = tmp_path / "pkg" / "inner"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    assert bundle.bundles_beside(str(package / "m.py")) == ()
    shutil.copytree(app.folder / "__prebake__", package.parent / "__prebake__")
    bundle._searched.clear()
    assert bundle.bundles_beside(str(package / "m.py")) == (str(package.parent / "__prebake__" / "app"),)
    assert bundle.bundles_beside(str(package / "archive.zip" / "m.py"))  # of a zip application


def test_a_script_uses_the_folder_beside_it(app):
    script = app.folder / "bundled_model.py"
    script.write_text(script.read_text() + "\nif __name__ == '__main__':\n    x = np.ones((7, 6), np.float32)\n"
                      "    score(x, prebake.freeze(np.ones((6, 5), np.float32)))\n"
                      "    print(score.stats()['prebuilt'], score.name)\n")
    out = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True,
                         env={**os.environ, "PYTHONSAFEPATH": "", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    assert out.stdout.split() == ["1", "bundled_model:score"]


def test_warmup(app):
    module = app.load()
    assert prebake.warmup(module.score, module.plain, module.fixed) == [
        {"function": "bundled_model:score", "plans": 1, "packs": 0, "reason": ""},
        {"function": "bundled_model:plain", "plans": 1, "packs": 0, "reason": ""},
        {"function": "bundled_model:fixed", "plans": 1, "packs": 1, "reason": ""}]
    before = pack_stats()
    module.fixed(data(3))
    assert module.fixed.stats()["prebuilt"] == 1
    assert pack_stats() == before


def test_ready_looks_at_bundles_before_any_call(app):
    module = app.load()
    assert str(app.bundle) in [row["path"] for row in prebake.ready()]
    assert module.score.stats()["calls"] == 0


def test_programs_of_functions_without_source_come_from_the_bundle(app):
    module = app.load()
    for name in ("bundled_model.py", "bundled_helper.py"):
        (app.folder / name).unlink()
    import linecache

    linecache.clearcache()
    x = data(7)
    expected = module.score.__wrapped__(x, W)
    np.testing.assert_allclose(module.score(x, W), expected, rtol=1e-5, atol=1e-6)
    assert module.score.stats()["prebuilt"] == 1
    with prebake.engine("interpreter"):
        np.testing.assert_allclose(module.score(x, W), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(module.score(data(30), W), module.score.__wrapped__(data(30), W), rtol=1e-5, atol=1e-6)
    assert module.score.stats()["jit"] == 1


# --- refused --------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("field", [name for name, rule in bundle.STAMP_FIELDS.items() if rule == "equal"])
@pytest.mark.parametrize("seal", [True, False])
def test_every_stamp_field_refuses_by_name(app, field, seal):
    app.edit_manifest(lambda m: m["stamp"].update({field: "another"}), seal=seal)
    refused(app, "STALE_STAMP", field)


def test_every_stamp_field_has_a_rule_and_the_host_a_value():
    assert set(bundle.STAMP_FIELDS.values()) <= {"equal", "ignore"}
    assert list(bundle.host_stamp()) == list(bundle.STAMP_FIELDS)
    assert MSBC_VERSION == bytecode.MSBC_VERSION


def test_the_compiler_is_only_told(app):
    app.edit_manifest(lambda m: m["stamp"].update(compiler="another"))
    check_served(app.load(), "prebuilt")


def test_cpu_level(app):
    app.edit_manifest(lambda m: m.update(targets={"x86-64-v9": next(iter(m["targets"].values()))}))
    refused(app, "CPU_LEVEL", "cpu_level")


def test_edits_of_the_manifest_are_noticed(app):
    app.edit_manifest(lambda m: m["functions"]["bundled_model:score"]["plans"][0]["kernels"][0].update(bucket={}),
                      seal=False)
    refused(app, "STALE_STAMP", "manifest digest")


def test_kernels_know_their_manifest(app):
    """A plan that was edited and sealed again would tell kernels lies about their arguments."""
    app.edit_manifest(lambda m: m["functions"]["bundled_model:score"]["plans"][0]["code"]["leaves"].reverse())
    refused(app, "STALE_STAMP", "functions")


@pytest.mark.parametrize("name", ["../app/kernels.so", "/etc/passwd", ".hidden", "", "a/b", 5, None, "a\x00b"])
def test_file_names_that_leave_the_folder(app, name):
    app.edit_manifest(lambda m: next(iter(m["targets"].values())).update(file=name))
    refused(app, "STALE_STAMP", "targets")


def truncations(size):
    some = range(0, size, 64) if size < 10_000 else range(0, 640, 64)
    return sorted({*some, size // 2, size - 64, size - 1})


@pytest.mark.parametrize("kind", ["manifest.json", ".so", ".msbc"])
def test_half_a_file(app, kind):
    path = next(p for p in app.bundle.iterdir() if p.name.endswith(kind))
    whole = path.read_bytes()
    for size in truncations(len(whole)):
        path.write_bytes(whole[:size])
        found = bundle.Bundle(str(app.bundle))
        assert not found.accepted and found.reason == "STALE_STAMP", size
    for at in range(min(len(whole), 160)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1:])
        assert not bundle.Bundle(str(app.bundle)).accepted, at
    path.write_bytes(whole[:len(whole) // 2])
    refused(app, "STALE_STAMP", ".*")


def test_plans_that_are_none_are_refused(app, monkeypatch):
    """Were it not for the kernels' own digest: what stands in a plan is looked at, a call is served, nothing crashes."""
    digest = bundle.records_digest((app.bundle / "manifest.json").read_bytes())
    monkeypatch.setattr(bundle, "records_digest", lambda manifest: digest)
    original = json.loads((app.bundle / "manifest.json").read_text())["functions"]["bundled_model:score"]["plans"][0]
    spoils = [
        lambda p: p["code"].update(n_regs=1), lambda p: p["code"].update(arena=10**6), lambda p: p.update(rows=[{}]),
        lambda p: p["code"]["leaves"][0].__setitem__(0, 99), lambda p: p["code"]["leaves"][0].__setitem__(1, 10**6),
        lambda p: p["code"]["outputs"][0].__setitem__(0, "f99"), lambda p: p["code"].update(result={"kind": "new"}),
        lambda p: p["code"].update(result={"kind": "arg", "row": 77}), lambda p: p["rows"][0].update(how="sideways"),
        lambda p: p["rows"][1].update(shape=[6]), lambda p: p["kernels"][0].update(bucket={"q": 3}),
        lambda p: p["kernels"][0].update(bucket={"x.shape[0]": "wide"}), lambda p: p["code"].pop("symbols"),
        lambda p: p["rows"][0].update(key=-4), lambda p: p["rows"][0].update(ndim="two"), lambda p: p.update(code=[]),
        lambda p: p["code"]["packs"].append([0, "f32", 1, 1, 0, 4, 4]), lambda p: p.update(kernels=None),
    ]
    for number, spoil in enumerate(spoils):
        plan = json.loads(json.dumps(original))
        spoil(plan)
        app.edit_manifest(lambda m, plan=plan: m["functions"]["bundled_model:score"].update(plans=[plan]))
        bundle._loaded.clear()
        bundle._reported.clear()
        module = app.load()
        with pytest.warns(RuntimeWarning, match="was not loaded"):
            check_served(module, "jit", "STALE_STAMP")
        assert number >= 0


def test_a_stale_source_is_refused(app):
    write(app.folder / "bundled_model.py", MODULE.replace("* 2.0", "* 3.0"))
    module = app.load()
    with pytest.warns(RuntimeWarning, match="bundled_model:plain"):
        np.testing.assert_allclose(module.plain(np.ones(5)), np.tanh(np.ones(5)) * 3)
    assert module.plain.stats()["misses"][0]["reason"] == "STALE_SOURCE"
    check_served(module, "prebuilt")  # the other function of the file is what it was


def test_a_path_without_a_bundle_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "nowhere", tmp_path / "file"):
        with pytest.raises(prebake.BundleError, match=r"this host (holds no folder there|has no such folder)") as caught:
            prebake.load_bundle(place)
        assert str(place) in str(caught.value) and caught.value.field == "path" and "built for" not in str(caught.value)


def test_misses_before_a_bundle_was_loaded_keep_their_reason(app, monkeypatch):
    elsewhere = app.folder / "elsewhere"
    shutil.move(app.bundle, elsewhere)
    module = app.load()
    module.plain(np.ones(5))
    prebake.load_bundle(elsewhere)
    try:
        module.plain(np.ones(5))
        module.plain(np.ones(500))
        stats = module.plain.stats()
        assert stats["prebuilt"] == 1
        assert sorted((m["shape"]["n"], m["reason"]) for m in stats["misses"]) == [(5, "NO_BUNDLE"), (500, "NO_BUCKET")]
        monkeypatch.setenv("PREBAKE_BUNDLES", "off")
        prebake.configure(max_plans=63)  # every function looks again
        module.plain(np.ones(5))
        module.plain(np.ones(500))
        assert sorted((m["shape"][s], m["reason"], m["count"]) for m in module.plain.stats()["misses"] for s in m["shape"]) == [
            (5, "BUNDLES_OFF", 1), (5, "NO_BUNDLE", 1), (500, "BUNDLES_OFF", 1), (500, "NO_BUCKET", 1)]
    finally:
        prebake.configure(max_plans=64)
        shutil.rmtree(elsewhere)
        bundle._by_function.clear()


def test_an_edited_helper_refuses_its_callers(app):
    write(app.folder / "bundled_helper.py", HELPER.replace("1.5", "2.5"))
    module = refused(app, "STALE_SOURCE", "source")
    assert module.score.explain(data(7), W).reason == "STALE_SOURCE"


def test_formatting_and_time_stamps_change_nothing(app):
    path = app.folder / "bundled_model.py"
    path.write_text("# a comment\n" + path.read_text().replace("def plain(x):", "def plain( x ):  # noqa"))
    os.utime(path, (1, 1))
    check_served(app.load(), "prebuilt")


def test_options_that_change_code_are_part_of_the_key(app):
    path = app.folder / "bundled_model.py"
    path.write_text(path.read_text().replace(
        "@prebake.jit\ndef score", "@prebake.jit(options={'disable_fusions': ['chain']})\ndef score"))
    refused(app, "STALE_STAMP", "functions.bundled_model:score.options")


def test_bundles_off(app, monkeypatch):
    monkeypatch.setenv("PREBAKE_BUNDLES", "off")
    check_served(app.load(), "jit", "BUNDLES_OFF")


def test_strict_raises(app):
    app.edit_manifest(lambda m: m["stamp"].update(platform="another"))
    module = app.load()
    try:
        prebake.configure(strict=True)
        with pytest.raises(prebake.BundleError) as caught:
            module.score(data(7), W)
    finally:
        prebake.configure(strict=None)
    error = caught.value
    assert (error.field, error.built, error.reason) == ("platform", "another", "STALE_STAMP")
    assert error.here == bundle.platform_tag() and error.fix and error.effect


# --- the manifest, kernels by extents -------------------------------------------------------------------------------

def test_manifest_round_trip_and_equal_bytes():
    manifest = Manifest(
        {"x86-64-v3": TargetFile("k.so", "ab")},
        {"m:f": BundleFunction("f.msbc", "12", "34", (("x", -1, 0),), (("global", "m", "W"),),
                               (BundleSource("m", "f", "56", "m.py", "78"),),
                               (BundlePlan([{"how": "arg"}], {"n_regs": 3},
                                           (BundleKernel("k", {"n": (1, 5), "m": 3}, 1.5),)),),
                               {"disable_fusions": ["chain"]}, {"x": "n"}, {"n": "x.shape[0]"})})
    data = manifest.to_bytes()
    assert Manifest.from_bytes(data) == manifest
    assert Manifest.from_bytes(data).to_bytes() == data
    assert bundle.parse_json(data)["stamp"] == manifest.stamp
    assert replace(manifest, stamp={**manifest.stamp, "compiler": "cc"}).to_bytes() != data


@pytest.mark.parametrize("text", [b"", b"{", b"{}x", b"[1,]", b"\xff", b"nul", b'{"a": 1, "a"', b"[" * 100_000])
def test_json_that_is_none(text):
    with pytest.raises((ValueError, RecursionError)):
        bundle.parse_json(text)


def test_choice_of_a_kernel_equals_a_linear_search():
    rng = np.random.default_rng(3)
    for n_kernels in (1, 3, 64, 65, 200):
        symbols = []
        for register in (0, 1, 2):
            intervals = []
            for _ in range(n_kernels):
                lo, size = int(rng.integers(0, 30)), int(rng.integers(0, 12))
                intervals.append(None if rng.random() < 0.2 else (lo, lo + size))
            symbols.append((register, intervals))
        for _ in range(300):
            values = [int(v) for v in rng.integers(-2, 45, 3)]
            expected = [k for k in range(n_kernels)
                        if all(i[k] is None or i[k][0] <= values[r] <= i[k][1] for r, i in symbols)]
            assert _dispatch.choose_all(n_kernels, symbols, values) == expected
