"""Bundle folders whose files are no files, are half written, or change while somebody reads them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from prebake.pgo.build import _replace
from prebake.vm.run import bundle
from prebake.vm.run.manifest import BundleFunction, Manifest


def write_bundle(folder, text=b"a program"):
    """A bundle of one program and no kernels."""
    folder.mkdir(parents=True)
    (folder / "f.msbc").write_bytes(text)
    record = BundleFunction("f.msbc", bundle.file_digest(text), "", (), (), (), ())
    (folder / "manifest.json").write_bytes(Manifest({}, {"m:f": record}).to_bytes())
    return folder


def in_a_fresh_process(code, *arguments):
    """Output of Python code; pytest has imported `json` and more here, which a server has not."""
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)], capture_output=True,
                         text=True, timeout=120, env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_half_a_manifest_without_the_json_module(tmp_path):
    out = in_a_fresh_process("""
        import sys
        import numpy as np
        from prebake.vm.run.bundle import Bundle

        folder = sys.argv[1]
        whole = open(folder + "/manifest.json", "rb").read()
        assert Bundle(folder).accepted
        for size in range(0, len(whole), 16):
            with open(folder + "/manifest.json", "wb") as file:
                file.write(whole[:size])
            assert Bundle(folder).error.field.startswith("manifest"), size
        assert "json" not in sys.modules
        print("read", len(whole))
    """, write_bundle(tmp_path / "b"))
    assert out.startswith("read")


@pytest.mark.parametrize("name", ["manifest.json", "f.msbc"])
def test_what_is_no_regular_file_is_not_read(tmp_path, name):
    path = write_bundle(tmp_path / "b") / name
    path.unlink()
    os.mkfifo(path)  # a reader of it would wait for ever
    assert "no regular file" in str(bundle.Bundle(str(tmp_path / "b")).error)
    path.unlink()
    path.symlink_to("/dev/zero")  # has no end
    assert "no regular file" in str(bundle.Bundle(str(tmp_path / "b")).error)


def test_a_folder_that_is_built_again_and_again_is_read_whole_each_time(tmp_path):
    place = write_bundle(tmp_path / "place", b"0")
    done = threading.Event()

    def build():
        for n in range(60):
            _replace(place, write_bundle(tmp_path / f"new{n}" / "b", str(n).encode()))
            time.sleep(0.002)
        done.set()

    writer = threading.Thread(target=build)
    writer.start()
    readings = 0
    try:
        while not done.is_set() or not readings:
            found = bundle.Bundle(str(place))
            assert found.accepted, found.error
            readings += 1
    finally:
        writer.join()


def test_damage_after_loading_is_noticed_by_load_bundle(tmp_path):
    folder = write_bundle(tmp_path / "b")
    try:
        first = bundle.load_bundle(folder)
        assert first.accepted and bundle.load_bundle(folder) is first
        (folder / "f.msbc").write_bytes(b"half")
        with pytest.warns(RuntimeWarning, match="functions.m:f.msbc digest"):
            assert not bundle.load_bundle(folder).accepted
        assert bundle.find_bundle("m:f", None) == (None, "STALE_STAMP")  # not the one that was there before
        (folder / "f.msbc").write_bytes(b"a program")
        assert bundle.load_bundle(folder).accepted
        assert bundle.find_bundle("m:f", None)[1] == ""
    finally:
        bundle._by_function.clear()
        bundle._refused.clear()
