"""Where sources are looked for, and what is said of those that changed or are not there."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from bundle_project import load_module, write_project

from prebake.pgo import build as build_module
from prebake.pgo.build import build
from prebake.pgo.check import check_bundle
from prebake.pgo.freshness import find_source, project_roots
from prebake.vm.errors import BundleError, ConfigError
from prebake.vm.lang.frontend import compile_function
from prebake.vm.run.bundle import Bundle

TEXT = "def half(x):\n    return x * 0.5\n"
CHANGED = "def half(x):\n    return x * 0.25\n"


def project(folder: Path, sources: Path, name: str) -> Path:
    """A project whose module `name` lies in `sources`, not loaded; returns its YAML."""
    sources.mkdir(parents=True, exist_ok=True)
    module = load_module(sources, name, TEXT)
    try:
        return write_project(folder, [(module.half, (np.ones((2, 3)),), {"b": "x.shape[0]"}, [{"b": (1, 9)}])])
    finally:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(("where", "table"), [
    (".", ""), ("src", ""), ("lib/python", '[tool.setuptools.packages.find]\nwhere = ["lib/python"]\n'),
    ("code", '[tool.setuptools]\npackage-dir = {"" = "code"}\n')])
def test_edited_sources_of_every_layout_stop_the_build(tmp_path: Path, where: str, table: str,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "project"
    path = project(root, root / where, "fresh_layout")
    (root / "pyproject.toml").write_text(table)
    elsewhere = tmp_path / "installed"  # an older copy that Python would import
    elsewhere.mkdir()
    (elsewhere / "fresh_layout.py").write_text(TEXT)
    monkeypatch.syspath_prepend(str(elsewhere))
    bundle = build(path, root / "build" / "bundle", pure=True)
    assert check_bundle(bundle).findings == []
    changed = root / where / "fresh_layout.py"
    changed.write_text(CHANGED)
    with pytest.raises(ConfigError) as caught:
        build(path, root / "build" / "bundle", pure=True)
    assert str(changed.resolve()) in str(caught.value)
    findings = check_bundle(bundle).findings
    assert [f.kind for f in findings] == ["freshness"] and str(changed.resolve()) in str(findings[0])
    assert "record" in str(findings[0]) and "plan" in str(findings[0])


def test_sources_that_are_not_here_are_said_to_be_unchecked(tmp_path: Path) -> None:
    path = project(tmp_path, tmp_path / "elsewhere", "fresh_missing")
    with pytest.warns(RuntimeWarning, match=r"fresh_missing:half .*not found, freshness not checked"):
        bundle = build(path, tmp_path / "build" / "bundle", pure=True)
    findings = check_bundle(bundle).findings
    assert [f.kind for f in findings] == ["freshness"] and "freshness not checked" in str(findings[0])
    assert "project's folder" in str(findings[0]) and "PYTHONPATH" in str(findings[0])


@pytest.mark.parametrize("pure", [True, False])
def test_a_stale_bundle_that_was_allowed_is_refused_at_run_time(tmp_path: Path, pure: bool) -> None:
    path = project(tmp_path, tmp_path, "fresh_allowed")
    source = tmp_path / "fresh_allowed.py"
    source.write_text(CHANGED)
    folder = build(path, tmp_path / "bundle", pure=pure, allow_stale=True, targets=None if pure else ["generic"],
                   verify=False)
    with pytest.raises(BundleError, match="another text") as caught:
        Bundle(str(folder)).check_fresh("fresh_allowed:half", str(source))
    assert caught.value.reason == "STALE_SOURCE"
    source.write_text(TEXT + "# a comment\n")  # the function is what was recorded again
    Bundle(str(folder)).check_fresh("fresh_allowed:half", str(source))


def test_a_bucket_behind_a_wider_one_is_warned_about(tmp_path: Path) -> None:
    path = project(tmp_path, tmp_path, "fresh_hidden")
    path.write_text(path.read_text() + "      - {b: 3}\n")
    line = len(path.read_text().splitlines())
    with pytest.warns(RuntimeWarning, match=rf"b.*\.yaml:{line}: bucket \{{b: 3\}} of fresh_hidden:half is never reached"):
        build(path, tmp_path / "bundle", pure=True)


def test_the_project_of_the_working_folder_is_looked_at_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = project(tmp_path / "elsewhere", tmp_path / "project" / "src", "fresh_cwd")
    (tmp_path / "project" / "src" / "fresh_cwd.py").write_text(CHANGED)
    monkeypatch.chdir(tmp_path / "project")
    with pytest.raises(ConfigError, match=r"fresh_cwd:half in /.*/project/src/fresh_cwd\.py"):
        build(path, tmp_path / "elsewhere" / "bundle", pure=True)


def test_a_script_is_found_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "my-script.py").write_text(TEXT)
    module = load_module(tmp_path, "fresh_script", TEXT)
    source = compile_function(module.half).functions[0]
    sys.modules.pop("fresh_script")
    script = type(source)("__main__", source.qualname, source.digest, "my-script.py", 1, source.lines)
    assert find_source(script, [tmp_path]) == tmp_path / "my-script.py"
    assert find_source(script, [tmp_path / "nowhere"]) is None


def test_a_broken_pyproject_says_nothing_about_the_layout(tmp_path: Path) -> None:
    for text in ("[tool.setuptools\n", "[tool]\nsetuptools = 3\n", '[tool.setuptools]\npackages = ["a"]\n'):
        (tmp_path / "pyproject.toml").write_text(text)
        assert project_roots(tmp_path) == (tmp_path.resolve(), tmp_path.resolve() / "src")


def test_no_helper_of_the_build_changes_the_search_path(tmp_path: Path) -> None:
    path = project(tmp_path, tmp_path, "fresh_path")
    before = list(sys.path)
    build_module.build(path, tmp_path / "bundle", pure=True)
    assert sys.path == before
    shutil.rmtree(tmp_path / "bundle")
