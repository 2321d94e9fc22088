"""`explain` and `stats` against a bundle: names as in buckets.yaml, what differs, what mends it; options of the YAML."""

from __future__ import annotations

import importlib
import re
import shutil
import sys
import warnings

import numpy as np
import pytest

import prebake
from prebake.pgo.api import plan
from prebake.pgo.buckets_text import read_buckets
from prebake.pgo.cli import FINE, main
from prebake.vm.run import bundle

pytestmark = pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler")

MODEL = '''
import numpy as np
import prebake


class Net:
    def __init__(self):
        self.w = np.ones((4, 3), np.float32)

    @prebake.jit
    def score(self, ids, mask, params):
        return (ids * mask @ self.w) * params["scale"]


NET = Net()
PARAMS = {"scale": np.ones(3, np.float32)}
'''


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder with a module, its buckets.yaml and a bundle; `(module, path of the YAML)`."""
    folder = tmp_path_factory.mktemp("explained")
    (folder / "explained_model.py").write_text(MODEL)
    sys.path.insert(0, str(folder))
    module = importlib.import_module("explained_model")
    with prebake.profile(folder / "p.json"):
        for n in (3, 9, 5):
            module.NET.score(*call(n), module.PARAMS)
    plan(folder / "p.json", folder / "buckets.yaml", measure=False)
    yield module, folder / "buckets.yaml"
    sys.path.remove(str(folder))
    del sys.modules["explained_model"]


@pytest.fixture
def served(project, tmp_path):
    """`build(option line)`: the module, served from a bundle of the YAML with that line added."""
    module, yaml = project

    def build(line=""):
        text = yaml.read_text().replace('  "explained_model:Net.score":\n', f'  "explained_model:Net.score":\n{line}')
        copy = tmp_path / "buckets.yaml"
        copy.write_text(text)
        if not (tmp_path / "buckets.msbc").exists():
            shutil.copytree(yaml.with_suffix(".msbc"), tmp_path / "buckets.msbc")
        prebake.build(copy, tmp_path / "bundle", targets=[bundle.usable_levels()[0]], roots=[yaml.parent])
        assert prebake.load_bundle(tmp_path / "bundle").accepted
        return module

    yield build
    bundle._by_function.clear()
    bundle._loaded.clear()
    for state in list(prebake.vm.run.function.states):
        state.function._unready()


def call(n, dtype=np.float32):
    return np.ones((n, 4), dtype), np.ones((n, 4), np.float32)


def test_equal_symbols_have_one_name_and_the_line_can_be_pasted(served, tmp_path):
    module = served()
    held = module.Net.score.explain(module.NET, *call(4), module.PARAMS)
    assert held.engine == "prebuilt" and held.shape["b"] == 4 and "mask.shape[0]" not in str(held)
    missed = module.Net.score.explain(module.NET, *call(5000), module.PARAMS)
    assert (missed.engine, missed.reason) == ("jit", "NO_BUCKET")
    assert missed.shape == {"b": 5000, "d": 4} and set(missed.nearest) >= {"b", "d"}
    assert "explained_model:Net.score" in str(missed) and "prebake build" in str(missed)
    yaml = tmp_path / "buckets.yaml"
    yaml.write_text(yaml.read_text().rstrip() + f"\n      {missed.yaml}\n")
    assert any(b.extents["b"] == (5000, 5000) for b in read_buckets(yaml).functions[0].buckets)
    module.NET.score(*call(5000), module.PARAMS)
    (row,) = [m for m in module.Net.score.stats()["misses"] if m["shape"].get("b") == 5000]
    assert row["shape"]["d"] == 4 and "mask.shape[0]" not in row["shape"]


def test_a_method_is_explained_through_its_class(project):
    module, _ = project
    with pytest.raises(TypeError, match=r"Class\.method\.explain\(instance"):
        module.NET.score.explain(*call(4), module.PARAMS)


def test_one_name_for_extents_that_differ(served):
    module = served()
    about = module.Net.score.explain(module.NET, np.ones((4, 4), np.float32), np.ones((1, 4), np.float32),
                                     module.PARAMS)
    assert about.shape == {"b": 4, "d": 4, "mask.shape[0]": 1}


@pytest.mark.parametrize(("change", "reason", "said"), [
    (lambda m: (m.NET, *call(4, np.float64), m.PARAMS), "DTYPE",
     "ids: float32[:, :], C-contiguous expected, found float64[4, 4]"),
    (lambda m: (m.NET, np.ones((4, 8), np.float32)[:, ::2], call(4)[1], m.PARAMS), "LAYOUT",
     "ids: float32[:, :], C-contiguous expected, found float32[4, 4], not C-contiguous"),
    (lambda m: (m.NET, *call(4), {"scale": m.PARAMS["scale"], "more": 1}), "GUARD",
     "params: a dict with keys 'scale' expected, found a dict with keys 'more', 'scale'"),
    (lambda m: (m.NET, *call(4), {"scale": np.float32(2)}), "DTYPE",
     "params['scale']: float32[:], C-contiguous expected, found a NumPy float32 scalar"),
])
def test_what_differs_is_said(served, change, reason, said):
    module = served()
    about = module.Net.score.explain(*change(module))
    assert about.reason == reason and said in about.detail, about
    assert "record" in str(about)


@pytest.mark.parametrize(("change", "said"), [
    (lambda m: (m.NET, *call(4, np.float64), m.PARAMS),
     [r"\(DTYPE\)", "because   ids: float32.* found float64", "nearest   ", "fix       record calls"]),
    (lambda m: (m.NET, *call(5000), m.PARAMS),
     [r"\(NO_BUCKET\)", r"nearest   \{b: ", r"fix       - \{b: 5000, d: 4\}", "buckets.yaml"]),
])
def test_the_error_of_engine_prebuilt_says_what_explain_says(served, change, said):
    module = served()
    planned = module.Net.score._entries()[1]
    with prebake.engine("prebuilt"), pytest.raises(prebake.PrebakeError) as caught:
        module.Net.score(*change(module))
    for pattern in said:
        assert re.search(pattern, str(caught.value)), f"{pattern}\n{caught.value}"
    assert module.Net.score._entries()[1] == planned  # nothing was planned for the sake of a message


def test_notes_that_fusions_share_are_said_once(served):
    module = served()
    about = module.Net.score.explain(module.NET, *call(5000), module.PARAMS)
    idle = [line for line in str(about).splitlines() if "no place for it" in line or "not implemented" in line]
    assert about.rules and len(idle) <= 2


@pytest.mark.parametrize(("line", "engine"), [
    ("    options: {disable_fusions: [row_softmax, chain]}\n", "prebuilt"),
    ("    options: {jit_timeout_ms: 100, max_shapes: 8}\n", "prebuilt"),
    ("    options: {engine: jit}\n", "jit"),
])
def test_options_of_the_yaml_are_those_of_its_bundle(served, line, engine):
    """Options added by hand never refuse the bundle, and hold for the function while the bundle serves it."""
    module = served(line)
    state = module.Net.score._state
    before = module.Net.score.stats()[engine]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module.NET.score(*call(4), module.PARAMS)
    assert module.Net.score.stats()[engine] == before + 1
    settings = read_buckets(state.bundle.path.replace("bundle", "buckets.yaml")).functions[0].options
    assert settings and {name: state.settings[name] for name in settings} == dict(settings)


def test_arguments_that_a_module_holds(served, capsys, tmp_path, monkeypatch):
    served()
    monkeypatch.chdir(tmp_path)  # `prebake explain` looks for modules in the working directory
    monkeypatch.syspath_prepend(tmp_path)
    sized = ["--arg", "ids=float32[4,4]", "--arg", "mask=float32[4,4]"]
    assert main(["explain", "explained_model:Net.score", "--arg", "self=explained_model:NET",
                 "--arg", "params=explained_model:PARAMS", *sized]) == FINE
    assert "prebuilt" in capsys.readouterr().out
    main(["explain", "explained_model:Net.score", *sized])
    assert "self=MODULE:NAME" in capsys.readouterr().err


def test_warnings_point_at_the_caller(served, tmp_path):
    module = served()
    (tmp_path / "bundle" / "manifest.json").write_bytes(b"half")
    bundle._reported.clear()
    with pytest.warns(RuntimeWarning, match="was not loaded") as caught:
        prebake.load_bundle(tmp_path / "bundle")
    assert caught[0].filename == __file__
    module.NET.score(*call(4), module.PARAMS)
    bundle._refused.clear()


def test_a_function_that_cannot_be_compiled_is_not_sent_to_build_a_bundle():
    def lazy(x):
        return (v for v in x)

    x = np.ones(3)
    for fallback, engine in (("python", "python"), ("error", "none")):
        found = prebake.jit(fallback=fallback)(lazy).explain(x)
        assert found.engine == engine and "prebake profile" not in str(found) and "- {" not in str(found)
        assert found.instead and f"fix       {found.instead}" in str(found)
    with prebake.engine("python"):
        asked = prebake.jit(_fine).explain(x)
    assert "engine 'python' was asked for" in str(asked) and "fix" not in str(asked)
    assert "fix" in str(prebake.jit(_fine).explain(x))


def _fine(x):
    return x * 2
