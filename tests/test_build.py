"""Builds of bundles: what is in them, same bytes, the cache, stale sources, verification, clear refusals."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from bundle_project import MODEL, floats, load_module, plain_name, write_project

from prebake.pgo import build as build_module
from prebake.pgo import object_cache, toolchain
from prebake.pgo.buckets_text import read_buckets
from prebake.pgo.build import build, choose_levels
from prebake.pgo.codegen import Module
from prebake.pgo.drive import Driver, Trapped, find_kernel, open_capsule
from prebake.pgo.kernels import plan_kernels
from prebake.pgo.schema import Recordings
from prebake.templates import levels
from prebake.vm.errors import ConfigError, InternalError, PlanError
from prebake.vm.run.bundle import Bundle
from prebake.vm.run.manifest import Manifest

HOST = [levels.host_level().name]  # one level: the tests are about everything else


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One cache for the tests of this file, empty before them."""
    monkeypatch.setenv("PREBAKE_CACHE_DIR", str(_cache(tmp_path_factory)))


_folders: list[Path] = []


def _cache(factory: pytest.TempPathFactory) -> Path:
    if not _folders:
        _folders.append(factory.mktemp("cache"))
    return _folders[0]


@pytest.fixture
def model(tmp_path: Path) -> Any:
    module = load_module(tmp_path, "build_model")
    yield module
    sys.modules.pop("build_model", None)


def items(model: ModuleType) -> list[Any]:
    return [
        (model.score, (floats(4, 6), floats(6, 5), floats(5)), {"b": "x.shape[0]", "d": ["x.shape[1]", "w.shape[0]"]},
         [{"b": (0, 32)}, {"b": (33, 64), "d": (6, 6)}]),
        (model.branch, (floats(4, 3),), {"b": "x.shape[0]"}, [{"b": (1, 20)}]),
        (model.running, (np.arange(4.0),), {"n": "x.shape[0]"}, [{"n": (0, 50)}]),
        (model.shift, (np.arange(4.0),), {"n": "y.shape[0]"}, [{"n": (1, 50)}]),
        (model.rows, (floats(9, 4), np.array([1, 2, 3])), {"n": "t.shape[0]"}, [{"n": (4, 50)}]),
        (model.largest, (floats(9, 4),), {"n": "x.shape[0]", "m": "x.shape[1]"}, [{"n": (0, 9), "m": (4, 4)}]),
    ]


def kernels_of(bundle: Path, path: Path, qualname: str) -> list[Driver]:
    """Drivers of a function's kernels in the bundle, in order."""
    library = next(bundle.glob("*.so"))
    table, module = open_capsule(library)
    config = read_buckets(path)
    function = next(f for f in config.functions if f.qualname == qualname)
    made = [Driver(p.code, table, find_kernel(table, k.kernel.name))
            for p in plan_kernels(config, function).plans for k in p.kernels]
    for driver in made:
        driver.module = module  # type: ignore[attr-defined]
    return made


def test_every_kernel_of_a_bundle_computes_what_python_does(tmp_path: Path, model: ModuleType) -> None:
    path = write_project(tmp_path, items(model))
    bundle = build(path, tmp_path / "out", targets=HOST)
    assert sorted(plain_name(p.name) for p in bundle.iterdir()) == sorted(
        ["manifest.json", f"kernels_{HOST[0]}.abi3.so",
         *(f"build_model-{n}.msbc" for n in ("score", "branch", "running", "shift", "rows", "largest"))])
    opened = Bundle(str(bundle))
    assert opened.error is None and opened.level == levels.host_level().target
    assert len(opened.functions) == 6 and opened.entries("build_model:score", 10)
    x, w, b = floats(64, 6), floats(6, 5, seed=1), floats(5, seed=2)
    small, large = kernels_of(bundle, path, "build_model:score")
    np.testing.assert_allclose(large({0: x, 1: w, 2: b}), model.score(x, w, b), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(small({0: x[:0], 1: w, 2: b}), model.score(x[:0], w, b))
    # both sides of a branch on a shape are kernels of the one bucket
    two = kernels_of(bundle, path, "build_model:branch")
    assert len(two) == 2
    table, index = floats(9, 4), np.array([0, -9, 8])
    (rows,) = kernels_of(bundle, path, "build_model:rows")
    np.testing.assert_array_equal(rows({0: table, 1: index}), model.rows(table, index))
    with pytest.raises(Trapped, match="INDEX"):
        rows({0: table, 1: np.array([9])})


def test_a_bundle_built_anew_in_its_place_is_loaded_beside_the_old_one(tmp_path: Path, model: ModuleType) -> None:
    path = write_project(tmp_path, items(model)[1:2])
    assert Bundle(str(build(path, tmp_path / "out", targets=HOST))).error is None
    path.write_text(path.read_text().replace("b: [1, 20]", "b: [1, 40]"))
    again = Bundle(str(build(path, tmp_path / "out", targets=HOST)))
    assert again.error is None and "40" in str(again.records["build_model:branch"]["plans"][0]["kernels"])


def test_manifest_says_what_was_built(tmp_path: Path, model: ModuleType) -> None:
    path = write_project(tmp_path, items(model)[:2])
    bundle = build(path, tmp_path / "out", targets=HOST)
    manifest = Manifest.from_bytes((bundle / "manifest.json").read_bytes())
    assert list(manifest.targets) == [levels.host_level().target]
    assert manifest.stamp["compiler"] == toolchain.find_toolchain().version
    score = manifest.functions["build_model:score"]
    assert [s.qualname for s in score.sources] == ["score", "softmax"] and all(s.file_digest for s in score.sources)
    buckets = [dict(k.bucket) for plan in score.plans for k in plan.kernels]
    assert buckets[0] == {"x.shape[0]": (0, 32)}
    assert buckets[-1]["x.shape[1]"] == 6 and buckets[-1]["x.shape[0]"] == (33, 64)
    assert score.symbols == {"b": "x.shape[0]", "d": ["x.shape[1]", "w.shape[0]"]}


def test_the_same_tree_in_two_folders_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for name in ("one", "a_longer_name"):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.setenv("PREBAKE_CACHE_DIR", str(folder / "cache"))
        module = load_module(folder, "build_model")
        path = write_project(folder, items(module)[:1])
        bundle = build(path, folder / "out", targets=HOST, roots=[folder])
        made.append({p.name: p.read_bytes() for p in bundle.iterdir()})
    assert made[0] == made[1]
    for data in made[0].values():
        assert str(tmp_path).encode() not in data and os.getcwd().encode() not in data


def test_a_second_build_runs_no_compiler(tmp_path: Path, model: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_project(tmp_path, items(model)[:1])
    first = build(path, tmp_path / "out", targets=HOST)
    before = {p.name: p.read_bytes() for p in first.iterdir()}

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a compiler was started")

    monkeypatch.setattr(toolchain.Toolchain, "compile", refuse)
    monkeypatch.setattr(toolchain, "compile_cython", refuse)
    again = build(path, tmp_path / "again", targets=HOST)
    assert {p.name: p.read_bytes() for p in again.iterdir()} == before
    monkeypatch.setenv("CFLAGS", "-DSOMETHING")
    with pytest.raises(AssertionError):  # other flags are another object
        build(path, tmp_path / "third", targets=HOST)


def test_flags_of_the_environment_add_and_do_not_replace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CFLAGS", "-g0 -O0 -ffast-math")
    level = levels.host_level()
    flags = toolchain.find_toolchain().flags(level.flags, level.target)
    assert flags.index("-O3") > flags.index("-O0") and flags.index("-fwrapv") > flags.index("-ffast-math")
    assert "-g0" in flags


def test_stale_sources_fail_the_build(tmp_path: Path, model: ModuleType) -> None:
    path = write_project(tmp_path, items(model)[:1])
    changed = MODEL.replace("e / e.sum(axis=1, keepdims=True)", "e / e.sum(axis=1, keepdims=False)")
    (tmp_path / "build_model.py").write_text(changed)
    with pytest.raises(ConfigError, match=r"build_model:softmax in /.*/build_model\.py"):
        build(path, tmp_path / "out", targets=HOST)
    assert not (tmp_path / "out").exists()
    build(path, tmp_path / "out", targets=HOST, allow_stale=True)
    (tmp_path / "build_model.py").write_text("# a comment more\n" + MODEL)
    build(path, tmp_path / "out", targets=HOST)


def test_shapes_of_another_program_are_refused(tmp_path: Path, model: ModuleType) -> None:
    path = write_project(tmp_path, items(model)[:1])
    side = next((tmp_path / "buckets.msbc").glob("*.json"))
    old = Recordings.from_bytes(side.read_bytes(), "build_model:score")
    side.write_bytes(Recordings(old.function, "0" * 32, old.signatures).to_bytes())
    with pytest.raises(PlanError, match="another program"):
        build(path, tmp_path / "out", targets=HOST)
    program = next((tmp_path / "buckets.msbc").glob("*.msbc"))
    program.write_bytes(program.read_bytes()[:-9])
    with pytest.raises(PlanError, match="damaged"):
        build(path, tmp_path / "out", targets=HOST)


def test_corners_that_no_kernel_serves_are_noted_and_whole_buckets_refused(tmp_path: Path, model: ModuleType) -> None:
    path = write_project(tmp_path, items(model)[5:])
    config = read_buckets(path)
    built = plan_kernels(config, config.functions[0])
    served = [corner["x.shape[0]"] for plan in built.plans for kernel in plan.kernels for corner in kernel.corners]
    assert 9 in served and 1 in served  # np.max of nothing raises: left to the interpreter
    path.write_text(path.read_text().replace("n: [0, 9]", "n: 0"))
    if 0 not in served:
        assert built.notes
        with pytest.raises(PlanError, match=r"build_model:largest, bucket \{n: 0, m: 4\}"):
            build(path, tmp_path / "out", targets=HOST)


def test_a_bucket_that_needs_too_many_plans_is_built_as_far_as_it_goes(tmp_path: Path, model: ModuleType) -> None:
    """Eight ways through three branches; six plans are made, the rest is said and left to the JIT."""
    args = tuple(floats(n) for n in (3, 4, 5))
    path = write_project(tmp_path, [(model.ways, args, {n: f"{n}.shape[0]" for n in "xyz"}, [dict.fromkeys("xyz", (1, 20))])])
    with pytest.warns(RuntimeWarning, match=r"ways, bucket \{x: \[1, 20\].*6 plans do not cover it"):
        bundle = build(path, tmp_path / "out", targets=HOST)
    drivers = kernels_of(bundle, path, "build_model:ways")
    assert len(drivers) == 6
    np.testing.assert_allclose(drivers[0](dict(enumerate(args))), model.ways(*args), rtol=1e-5)  # the recorded shape comes first


def test_a_kernel_that_computes_something_else_does_not_ship(tmp_path: Path, model: ModuleType,
                                                             monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_project(tmp_path, items(model)[:1])
    text = Module.text
    monkeypatch.setattr(Module, "text", lambda self: text(self).replace("pb_v_exp_f32(", "pb_v_expm1_f32("))
    with pytest.raises(InternalError, match=r"differs from the interpreter(.|\n)*pb_build_model__score_p0_b0"):
        build(path, tmp_path / "out", targets=HOST)
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob(".out-*"))
    monkeypatch.setattr(Module, "text", lambda self: text(self).replace("goto done;", "__builtin_trap();"))
    with pytest.raises(InternalError, match=r"crashed(.|\n)*running pb_build_model__score_p0_b0"):
        build(path, tmp_path / "out", targets=HOST)


def test_corners_that_the_reference_cannot_afford_shrink(tmp_path: Path, model: ModuleType) -> None:
    path = write_project(tmp_path, [(model.pairs, (floats(4),), {"n": "x.shape[0]"}, [{"n": (1, 1_000_000)}])])
    (driver,) = kernels_of(build(path, tmp_path / "out", targets=HOST), path, "build_model:pairs")  # 4 TB at the corner
    x = floats(300)
    assert driver({0: x}) == model.pairs(x)


def test_no_compiler_is_said_clearly_or_asked_for(tmp_path: Path, model: ModuleType,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_project(tmp_path, items(model)[:1])
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(ConfigError, match=r"no C compiler: 'no-such-compiler' cannot be run(.|\n)*pure = true"):
        build(path, tmp_path / "out")
    bundle = build(path, tmp_path / "out", pure=True)
    assert sorted(p.name for p in bundle.iterdir()) == ["build_model-score.msbc", "manifest.json"]
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="none of gcc, clang, cc"):
        toolchain.find_toolchain()


def test_output_folders_are_replaced_but_nothing_else_is(tmp_path: Path, model: ModuleType) -> None:
    path = write_project(tmp_path, items(model)[2:3])
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="is no bundle"):
        build(path, tmp_path / "precious", targets=HOST)
    bundle = build(path, tmp_path / "out", targets=HOST)
    (bundle / "left.over").write_text("")
    build(path, tmp_path / "out", targets=HOST)
    assert not (bundle / "left.over").exists() and (bundle / "manifest.json").exists()
    assert (tmp_path / "precious" / "thesis.txt").read_text() == "mine"


@pytest.mark.parametrize("killed", [False, True])
def test_builders_of_one_bundle_at_the_same_time(tmp_path: Path, model: ModuleType, killed: bool) -> None:
    path = write_project(tmp_path, items(model)[2:3])
    code = f"from prebake.pgo.build import build; build({str(path)!r}, {str(tmp_path / 'out')!r}, targets={HOST!r})"
    runs = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) for _ in range(4)]
    if killed:
        runs[0].kill()
    for i, run in enumerate(runs):
        assert run.communicate()[1] == b"" or killed
        assert run.returncode == 0 or (killed and i == 0)
    assert Bundle(str(tmp_path / "out")).error is None


def test_levels_and_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [level.name for level in choose_levels(None)]
    assert names == (["v4", "v3", "v2"] if levels.is_x86() else ["generic"])
    best = levels.built_levels()[0]
    assert choose_levels(["generic", best.target, best.name]) == tuple(dict.fromkeys([levels.LEVELS["generic"], best]))
    with pytest.raises(ConfigError, match="unknown CPU level 'x86-64-v9'"):
        choose_levels(["x86-64-v9"])
    assert build_module._job_count(3) == 3
    monkeypatch.setenv("PREBAKE_BUILD_JOBS", "2")
    assert build_module._job_count(None) == 2
    monkeypatch.setenv("PREBAKE_BUILD_JOBS", "many")
    with pytest.raises(ConfigError, match="PREBAKE_BUILD_JOBS"):
        build_module._job_count(None)


def test_damaged_cache_entries_are_misses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREBAKE_CACHE_DIR", str(tmp_path))
    key = object_cache.key_of(["a", b"b"])
    assert key != object_cache.key_of(["ab", b""]) and object_cache.read(key) is None
    payload = os.urandom(1000)
    object_cache.write(key, payload)
    assert object_cache.read(key) == payload
    (entry,) = object_cache.cache_folder().iterdir()
    whole = entry.read_bytes()
    for length in range(0, len(whole), 64):
        entry.write_bytes(whole[:length])
        assert object_cache.read(key) is None
    entry.write_bytes(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
    assert object_cache.read(key) is None
    entry.write_bytes(whole)
    object_cache.write(object_cache.key_of(["c"]), payload)
    object_cache.trim(object_cache.cache_folder(), limit_bytes=1100)
    assert len(list(object_cache.cache_folder().iterdir())) == 1
    monkeypatch.setenv("PREBAKE_CACHE_DIR", "/proc/nowhere")
    object_cache.write(key, payload)  # no place: no error
    assert object_cache.read(key) is None
