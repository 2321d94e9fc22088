"""Names that several things have: arguments and globals, variables of two modules, two modules; and names of libraries."""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import math
import shutil
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import prebake
from prebake.vm.run import bundle

X = np.arange(1.0, 5.0)
OTHER = '''
import math
import numpy as np

w = np.arange(3.0)
v = np.arange(12.0)[::2]
k = 2.0
n = 2


def helper(x):
    return abs(x) * k + w.sum() + math.pi


def head(x):
    return x[:n] * w[:2]
'''
MODULE = '''
import numpy as np
import prebake
import namesakes_other
from namesakes_other import head, helper

w = np.arange(5.0) * 10
v = np.arange(6.0)
k = 7.0
n = 3


@prebake.jit
def of_modules(x):
    y = np.tanh(x) * k + helper(x) + w.sum() + np.linalg.norm(x)
    return y, w[1:] * w.shape[0], namesakes_other.w * 2, v + namesakes_other.v


@prebake.jit
def of_arguments(k, w, n):
    return helper(w) * k, w[:n], head(w), w + namesakes_other.w.shape[0]


class Box:
    def __init__(self):
        self.w = np.ones(2)


@prebake.jit
def of_objects(namesakes_other, x):
    return helper(x) + namesakes_other.w.sum() + w.sum(), head(x), namesakes_other.w * 2
'''


def check(function: object, *args: object) -> None:
    got, want = function(*args), function.__wrapped__(*args)  # type: ignore[attr-defined, operator]
    for one, other in zip(*((v if isinstance(v, tuple) else (v,)) for v in (got, want)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13, strict=True)


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[types.ModuleType, types.ModuleType]]:
    (tmp_path / "namesakes_other.py").write_text(OTHER)
    (tmp_path / "namesakes.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    module = importlib.import_module("namesakes")
    yield module, sys.modules["namesakes_other"]
    for name in ("namesakes", "namesakes_other"):
        sys.modules.pop(name, None)


def check_all(module: types.ModuleType) -> None:
    check(module.of_modules, X)
    check(module.of_arguments, 3.0, X, 1)
    check(module.of_objects, module.Box(), X)


def change(module: types.ModuleType, other: types.ModuleType) -> Iterator[None]:
    """Values, libraries and built-ins change one after the other, and back."""
    other.w, module.w, other.n = np.arange(6.0), np.arange(2.0), 1
    yield
    other.k, module.k, module.n = 11.0, 13.0, 2
    yield
    for home, name, value in ((np, "tanh", np.sin), (np.linalg, "norm", np.sum), (math, "pi", 3.0), (builtins, "abs", np.square)):
        before = getattr(home, name)
        try:
            setattr(home, name, value)
            yield
        finally:
            setattr(home, name, before)
        yield
    other.abs = np.exp
    yield
    del other.abs
    yield


@pytest.mark.parametrize("engine", ["jit", "interpreter"])
def test_in_process(modules: tuple[types.ModuleType, types.ModuleType], engine: str) -> None:
    with prebake.engine(engine):
        check_all(modules[0])
        for _ in change(*modules):
            check_all(modules[0])
    assert modules[0].of_modules.stats()[engine] == 13


@pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler")
def test_in_bundles(modules: tuple[types.ModuleType, types.ModuleType], tmp_path: Path) -> None:
    module, other = modules
    with prebake.profile(tmp_path / "p.json"):
        check_all(module)
    prebake.plan(tmp_path / "p.json", tmp_path / "b.yaml", measure=False)
    prebake.build(tmp_path / "b.yaml", tmp_path / "bundle", targets=[bundle.usable_levels()[0]])
    prebake.load_bundle(tmp_path / "bundle")
    for name in ("of_modules", "of_arguments", "of_objects"):
        module.__dict__[name].__wrapped__.__globals__[name] = prebake.jit(module.__dict__[name].__wrapped__)  # not compiled
    check_all(module)
    assert [module.__dict__[name].stats()["prebuilt"] for name in ("of_modules", "of_arguments", "of_objects")] == [1, 1, 1]
    for _ in change(module, other):
        check_all(module)


def from_file(path: Path, name: str) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_modules_that_the_interpreter_does_not_list(tmp_path: Path) -> None:
    path = tmp_path / "unlisted.py"
    path.write_text("k = 2.0\nw = 1.5\n\n\ndef scale(x):\n    return x * k\n")
    config = from_file(path, "unlisted_config")

    @prebake.jit
    def f(x):
        return config.scale(x) + config.w

    check(f, X)
    config.k, config.w = 3.0, 0.25
    check(f, X)
    other = from_file(path, "unlisted_config")
    sys.modules["unlisted_config"] = other  # imported anew: what was imported before keeps its own variables
    try:
        @prebake.jit
        def g(x):
            return config.scale(x) + config.w

        @prebake.jit
        def of_both(x):
            return config.scale(x) + other.w

        check(g, X)
        with pytest.raises(prebake.UnsupportedError, match="two modules 'unlisted_config'"):
            of_both(X)
    finally:
        del sys.modules["unlisted_config"]


def test_a_function_that_its_module_gets_later() -> None:
    late = types.ModuleType("late")

    @prebake.jit(fallback="python")
    def f(x):
        return late.act(x)

    for _ in range(2):
        with pytest.raises((AttributeError, prebake.UnsupportedError)):
            f(X)
    late.act = np.sin  # type: ignore[attr-defined]
    check(f, X)
    assert f.stats()["jit"] == 1
