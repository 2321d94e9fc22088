"""Option `strict` and bundles that do not fit: `load_bundle` refuses them, and calls that raise are counted."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import numpy as np
import pytest
from bundle_project import load_module, write_project

import prebake
from prebake.pgo.build import build
from prebake.vm.run import bundle

TEXT = "import prebake\n\n@prebake.jit\ndef half(x):\n    return x * 0.5\n"
CHANGED = TEXT.replace("0.5", "0.25")
X = np.ones((2, 3))


@pytest.fixture(autouse=True)
def strict():
    gc.collect()  # functions of other tests
    yield
    prebake.configure(strict=None)
    for table in (bundle._loaded, bundle._by_function, bundle._refused, bundle._reported):
        table.clear()


@pytest.fixture
def project(tmp_path: Path):
    """(folder with the module `strict_model`, its bundle); the module is not loaded."""
    module = load_module(tmp_path, "strict_model", TEXT)
    path = write_project(tmp_path, [(module.half.__wrapped__, (X,), {"b": "x.shape[0]"}, [{"b": (1, 9)}])])
    del sys.modules["strict_model"]
    yield tmp_path, build(path, tmp_path / "bundle", pure=True)
    sys.modules.pop("strict_model", None)


def check_refused(folder: Path, place: Path, *said: str) -> None:
    with pytest.raises(prebake.BundleError) as caught:
        prebake.load_bundle(place)
    for text in ("strict_model:half", "fix  ", "option strict", *said):
        assert text in str(caught.value), text
    (row,) = [row for row in prebake.ready() if row["path"] == str(place)]
    assert not row["accepted"] and row["reason"] == caught.value.reason


def test_a_stale_source_is_refused_at_load(project):
    folder, place = project
    module = load_module(folder, "strict_model", CHANGED)
    prebake.configure(strict=True)
    check_refused(folder, place, str(folder / "strict_model.py"), "record, plan and build again", "nothing was loaded")
    np.testing.assert_array_equal(module.half(X), X * 0.25)  # it was not loaded
    assert module.half.stats()["jit"] == 1
    (folder / "strict_model.py").write_text(TEXT)
    check_refused(folder, place, "another one in this process")  # what runs here is what was edited
    module = load_module(folder, "strict_model", TEXT)
    gc.collect()
    assert prebake.load_bundle(place).accepted
    np.testing.assert_array_equal(module.half(X), X * 0.5)


def test_a_source_that_is_not_loaded_is_looked_at_too(project, monkeypatch):
    folder, place = project
    (folder / "strict_model.py").write_text(CHANGED)
    monkeypatch.syspath_prepend(str(folder))
    prebake.configure(strict=True)
    check_refused(folder, place, str(folder / "strict_model.py"))
    assert "strict_model" not in sys.modules


def test_a_function_that_asks_for_it_itself(project):
    folder, place = project
    module = load_module(folder, "strict_model", CHANGED.replace("prebake.jit", "prebake.jit(options={'strict': True})"))
    check_refused(folder, place, str(folder / "strict_model.py"))
    assert module.half(X)[0, 0] == 0.25


def test_another_way_of_decorating_is_refused_at_load(project):
    folder, place = project
    module = load_module(folder, "strict_model", TEXT)
    module.half = prebake.jit(module.half.__wrapped__, shapes={"x": "b d"})
    prebake.configure(strict=True)
    check_refused(folder, place, "functions.strict_model:half.shapes")


def test_without_it_a_warning_is_enough(project):
    folder, place = project
    module = load_module(folder, "strict_model", CHANGED)
    assert prebake.load_bundle(place).accepted
    with pytest.warns(RuntimeWarning, match="strict_model:half"):
        np.testing.assert_array_equal(module.half(X), X * 0.25)
    assert module.half.stats()["misses"][0]["reason"] == "STALE_SOURCE"


def test_calls_that_raise_are_counted(project):
    """Loaded while all was well; then the file changes, and whoever looks again finds it."""
    folder, place = project
    prebake.configure(strict=True)
    module = load_module(folder, "strict_model", TEXT)
    prebake.load_bundle(place)
    (folder / "strict_model.py").write_text(CHANGED)
    prebake.configure(max_plans=64)
    for _ in range(3):
        with pytest.raises(prebake.BundleError, match=r"option strict is on; without it calls to 'strict_model:half'"):
            module.half(X)
    stats = module.half.stats()
    assert (stats["calls"], stats["refused"]) == (0, 3)
    assert "and 3 that ended in an error" in str(stats)
    (folder / "strict_model.py").write_text(TEXT)
    module.half(X)
    assert (module.half.stats()["calls"], module.half.stats()["refused"]) == (1, 3)
