"""Names that were compiled in and stand for something else later: cells that run again, other modules, subclasses."""

from __future__ import annotations

import importlib
import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from dispatch_helpers import Base, Other, Plain, check

import prebake
from prebake.vm import bindings
from prebake.vm.run import bundle

X = np.arange(-3.0, 4.0)
MODULE = '''
import os
import numpy as np
import prebake
import bound_other

DT = np.dtype(os.environ.get("BOUND_DTYPE", "float32"))
act = bound_other.double if os.environ.get("BOUND_ACT", "double") == "double" else bound_other.triple
RED = np.sum


def clip(x, high=float(os.environ.get("BOUND_HIGH", "1"))):
    return np.minimum(x, high)


@prebake.jit
def cast(x):
    return x.astype(DT)


@prebake.jit
def acted(x):
    return act(x) + bound_other.SCALE.sum()


@prebake.jit
def clipped(x):
    return RED(clip(x))


''' + "\n\n".join(inspect.getsource(cls) for cls in (Base, Plain, Other))
OTHER = '''
import numpy as np

SCALE = np.ones(3)


def double(x):
    return x * 2


def triple(x):
    return x * 3
'''


def write(folder: Path) -> None:
    (folder / "bound_module.py").write_text(MODULE)
    (folder / "bound_other.py").write_text(OTHER)


@pytest.fixture
def module(tmp_path, monkeypatch):
    write(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("bound_module", "bound_other"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    yield importlib.import_module("bound_module")
    for name in ("bound_module", "bound_other"):
        sys.modules.pop(name, None)


def test_what_a_name_stands_for_is_recorded(module: ModuleType) -> None:
    rows = {(b.scope, b.module, b.path): b.meaning for b in module.clipped.bytecode.bindings}
    assert rows["global", "bound_module", "clip"] == "bound_module:clip"
    assert rows["global", "bound_module", "RED"] == "numpy.sum"
    assert rows["default", "bound_module", "clip(high)"] == "value 1.0"
    assert {b.meaning for b in module.cast.bytecode.bindings} >= {"dtype float32"}
    assert ("self", "bound_module", "Base.step") in {(b.scope, b.module, b.path) for b in module.Base.run.bytecode.bindings}
    assert all(b.scope in bindings.SCOPES for b in module.acted.bytecode.bindings)


def test_rebound_names_are_compiled_again(module: ModuleType) -> None:
    for function in (module.cast, module.acted, module.clipped):
        check(function, X)
    module.DT = np.dtype("float64")
    module.act = module.bound_other.triple
    module.RED = np.max
    for function in (module.cast, module.acted, module.clipped):
        check(function, X)
        check(function, X)
        assert function.stats()["jit"] + function.stats()["interpreter"] == 3

    def clip(x, high=5.0):
        return np.minimum(x, high) - 1

    module.clip = clip
    check(module.clipped, X)


def test_a_rebound_name_that_is_not_supported_is_refused_then_served_again(module: ModuleType) -> None:
    check(module.acted, X)
    good, module.act = module.act, lambda x: {x.shape}
    with pytest.raises(prebake.UnsupportedError):
        module.acted(X)
    module.act = good
    check(module.acted, X)


def test_members_of_classes_and_names_that_are_gone(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    class Tools:
        @staticmethod
        def shift(x):
            return x + 1

    monkeypatch.setitem(globals(), "Tools", Tools)
    Tools.__qualname__ = "Tools"  # as a class of the module
    function = prebake.jit(_shifting)
    check(function, X)
    Tools.shift = staticmethod(lambda x: x * 9)
    check(function, X)
    good = Tools
    monkeypatch.delitem(globals(), "Tools")
    with pytest.raises(prebake.UnsupportedError, match="Tools"):
        function(X)
    monkeypatch.setitem(globals(), "Tools", good)
    check(function, X)


def _shifting(x):
    return Tools.shift(x)  # noqa: F821 - a test puts it there


@pytest.mark.parametrize("first", ["Base", "Plain", "Other"])
def test_a_subclass_that_overrides_a_method_has_a_program_of_its_own(module: ModuleType, first: str) -> None:
    run, objects = module.Base.run, {name: getattr(module, name)() for name in ("Base", "Plain", "Other")}
    for name in [first, *objects] * 3:
        with prebake.engine("jit"):
            np.testing.assert_array_equal(run(objects[name], X), run.__wrapped__(objects[name], X))
    stats = run.stats()
    assert (stats["calls"], stats["jit"]) == (12, 12)
    assert len(run._state.variants) == 1, "classes that override nothing share the program"
    assert "no method" not in str(run.explain(objects["Other"], X))
    module.Base.step = lambda self, x: x - 1
    for name in objects:
        np.testing.assert_array_equal(run(objects[name], X), run.__wrapped__(objects[name], X))
    assert run.stats()["calls"] == 15


def test_variants_are_bounded_and_their_counts_are_kept(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from prebake.vm.run import variants

    monkeypatch.setattr(variants, "MAX_VARIANTS", 2)
    run, made = module.Base.run, [type(f"Made{i}", (module.Base,), {"step": _adding(i)}) for i in range(4)]
    for _ in range(2):
        for i, cls in enumerate(made):
            np.testing.assert_array_equal(run(cls(), X), (X + i) * 2)
    assert len(run._state.variants) == 2
    assert run.stats()["calls"] == 8
    assert sum(row["count"] for row in run.stats()["misses"]) == 8


def _adding(n):
    def step(self, x, n=n):
        return x + n
    return step


SERVE = '''
import sys
import warnings
import numpy as np
import prebake
import bound_module
warnings.simplefilter("error" if sys.argv[1] == "fits" else "ignore")
prebake.load_bundle("bundle")
x = np.arange(-3.0, 4.0)
for f in (bound_module.cast, bound_module.acted, bound_module.clipped):
    np.testing.assert_array_equal(f(x), f.__wrapped__(x))
    assert np.asarray(f(x)).dtype == np.asarray(f.__wrapped__(x)).dtype
    stats = f.stats()
    print(stats["prebuilt"], {m["reason"] for m in stats["misses"]} or "")
'''


@pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler")
def test_bundles_are_refused_where_names_stand_for_something_else(tmp_path: Path, module: ModuleType) -> None:
    with prebake.profile(tmp_path / "p.json"):
        for function in (module.cast, module.acted, module.clipped):
            function(X)
    prebake.plan(tmp_path / "p.json", tmp_path / "b.yaml", measure=False)
    prebake.build(tmp_path / "b.yaml", tmp_path / "bundle", targets=[bundle.usable_levels()[0]])
    (tmp_path / "serve.py").write_text(SERVE)

    def serve(kind: str, **changes: str) -> list[str]:
        path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
        done = subprocess.run([sys.executable, "serve.py", kind], cwd=tmp_path, capture_output=True, text=True,
                              env=os.environ | {"PYTHONPATH": path} | changes, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stdout.split("\n")[:3]

    assert serve("fits") == ["2 ", "2 ", "2 "]
    assert serve("differs", BOUND_DTYPE="float64") == ["0 {'GUARD'}", "2 ", "2 "]
    assert serve("differs", BOUND_ACT="triple") == ["2 ", "0 {'GUARD'}", "2 "]
    assert serve("differs", BOUND_HIGH="3") == ["2 ", "2 ", "0 {'GUARD'}"]
