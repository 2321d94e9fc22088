"""prebake's own build: what is rebuilt is decided by contents, so that an edit while it runs is not missed."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import pytest
import setuptools

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def command(tmp_path, monkeypatch):
    """(a command over one extension made from one header, the header): compiling is writing a file."""
    monkeypatch.setattr(setuptools, "setup", lambda **given: None)
    here = os.getcwd()
    try:
        script = runpy.run_path(str(ROOT / "setup.py"))
    finally:
        os.chdir(here)
    header = tmp_path / "a.h"
    header.write_text("1")
    made = []

    class Command(script["BuildExt"]):
        during = None

        def get_ext_fullpath(self, name):
            return str(tmp_path / "a.so")

        def write_c(self, ext):
            return header.read_text()

    def compile_it(self, ext):
        made.append(ext.sources[0])
        (tmp_path / "a.so").write_text("")
        if self.during:
            self.during()

    monkeypatch.setattr(script["build_ext"], "build_extension", compile_it)

    def run(during=None):
        built = Command(setuptools.Distribution())
        built.inplace, built.force, built.parallel, built.build_temp, built.during = False, False, None, str(tmp_path), during
        extension = setuptools.Extension("a", [], depends=[str(header)])
        extension.prebake_render = None
        built.extensions = [extension]
        made.clear()
        built.build_extensions()
        return list(made)

    return run, header


def test_nothing_changed_nothing_is_built(command):
    run, header = command
    assert run() == ["1"] and run() == []
    os.utime(header)  # another time, the same contents
    assert run() == []


def test_an_edit_is_built_also_one_while_it_compiles(command):
    run, header = command
    run()
    header.write_text("2")
    assert run(during=lambda: header.write_text("3")) == ["2"]
    assert run() == ["3"] and run() == []


def test_without_a_stamp_times_decide(command, tmp_path):
    run, header = command
    (tmp_path / "a.so").write_text("")
    os.utime(header, (0, 0))
    assert run() == []
    os.utime(header, (1 << 32, 1 << 32))
    assert run() == ["1"]
