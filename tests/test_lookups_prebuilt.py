"""What is looked up at run time, in bundles: cells of helpers, constants of classes, properties; who is not served by them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from bundle_project import load_module
from dispatch_helpers import check

import prebake
from prebake.vm.run import bundle

pytestmark = pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler")
X = np.arange(3.0)
MODULE = '''
import numpy as np
import prebake


def scaling(k, table):
    def scaled(x):
        return x * k + table.sum()
    return scaled


scaled = scaling(3.0, np.arange(4))


class Config:
    eps = 0.5


@prebake.jit
def f(x):
    return scaled(x) + 1 + Config.eps


class Model:
    k = 3.0

    def __init__(self):
        self.w = np.ones(3)

    @property
    def p(self):
        return self.w * 2

    def h(self, x):
        return x + self.p

    @classmethod
    def c(cls, x):
        return x * cls.k

    @prebake.jit
    def run(self, x):
        return self.h(x) + self.c(x)


class Other(Model):
    def h(self, x):
        return x * 9
'''


def test_bundles(tmp_path: Path) -> None:
    module = load_module(tmp_path, "looked_up", MODULE)
    try:
        f, run, model = module.f, module.Model.run, module.Model()
        with prebake.profile(tmp_path / "p.json"):
            check(f, X)
            check(run, model, X)
        prebake.plan(tmp_path / "p.json", tmp_path / "b.yaml", measure=False)
        prebake.build(tmp_path / "b.yaml", tmp_path / "bundle", targets=[bundle.usable_levels()[0]])
        prebake.load_bundle(tmp_path / "bundle")
        module.scaled.__closure__[0].cell_contents = 7.0
        module.Config.eps = 0.25
        module.Model.k = 2.0
        check(f, X)
        check(run, model, X)
        assert (f.stats()["prebuilt"], run.stats()["prebuilt"]) == (1, 1)
        model.h = lambda x: x - 1
        for who in (module.Other(), model):
            check(run, who, X)
            with prebake.engine("prebuilt"), pytest.raises(prebake.PrebakeError, match="GUARD"):
                run(who, X)
        del model.h
        check(run, model, X)
        stats = run.stats()
        assert (stats["prebuilt"], stats["jit"]) == (2, 3)
        assert {row["reason"] for row in stats["misses"]} == {"NO_BUNDLE", "GUARD"}
    finally:
        sys.modules.pop("looked_up")
