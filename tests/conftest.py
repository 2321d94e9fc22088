"""What every test has: a private cache folder, and processes that import the installed prebake.

The whole suite runs in several processes (pytest-xdist), each file in one of them; a few files run in the process at hand, and
so does everything with `-n 0`.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pytest

# A checkout holds folders named like the packages they become: neither `python -m pytest` in it, nor a started process,
# must import them from the working directory.
os.environ["PYTHONSAFEPATH"] = "1"
sys.path[:] = [place for place in sys.path if Path(place).resolve() != Path(__file__).resolve().parents[1]]

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads of several processes would wait for each other
MAX_PROCESSES = 4


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Give the whole suite a process for each processor."""
    option = config.option
    if hasattr(config, "workerinput") or not config.pluginmanager.hasplugin("xdist"):
        return
    if option.numprocesses is None and not option.usepdb and any(Path(arg).is_dir() for arg in config.args):
        processes = min(len(os.sched_getaffinity(0)), MAX_PROCESSES)
        if processes > 1:
            option.numprocesses, option.dist = processes, "loadfile"


def pytest_collection_finish():
    """Ten thousand tests are no garbage: what is there by now is left out of the collections that tests ask for."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _private_cache(tmp_path_factory):
    """Build objects of the whole run go into one folder of its own; a test that needs an empty one makes it."""
    before = os.environ.get("PREBAKE_CACHE_DIR")
    os.environ["PREBAKE_CACHE_DIR"] = str(tmp_path_factory.mktemp("prebake-cache"))
    yield
    if before is None:
        del os.environ["PREBAKE_CACHE_DIR"]
    else:
        os.environ["PREBAKE_CACHE_DIR"] = before


@pytest.fixture(autouse=True)
def _same_import_path():
    """Commands put the working directory on the import path, as a user wants; the next test must not see it."""
    before = list(sys.path)
    yield
    sys.path[:] = before


@pytest.fixture(params=["jit", "interpreter"])
def engine(request):
    """The engine that serves a test's calls; a file whose tests all want it says `pytestmark = pytest.mark.usefixtures`."""
    import prebake

    with prebake.engine(request.param):
        yield request.param
