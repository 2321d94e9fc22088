"""One table of options and one of environment variables: values are checked, misspellings are helped."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import prebake
from prebake.vm import flags, options

ROOT = Path(__file__).resolve().parent.parent


def test_every_option_is_ruled_on_and_documented():
    for name, option in options.OPTIONS.items():
        assert option.name == name
        assert option.in_key in (True, False)
        assert len(option.doc) > 10
        assert option.check(option.default) == option.default
        assert option.json_schema()["description"] == option.doc


def test_every_option_is_on_its_page():
    page = (ROOT / "docs" / "options.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE) == list(options.OPTIONS)


@pytest.mark.parametrize(("name", "value"), [
    ("engine", "warp"), ("engine", 3), ("strict", 1), ("strict", None), ("disable_fusions", "chain"),
    ("disable_fusions", ["chains"]), ("precision", "float8"), ("jit_timeout_ms", 0), ("jit_timeout_ms", True),
    ("jit_timeout_ms", 2.5), ("threads", 0), ("memory_bytes", -1), ("max_plans", 0), ("max_shapes", "many"),
])
def test_wrong_values_name_the_option(name, value):
    with pytest.raises(prebake.ConfigError) as caught:
        options.OPTIONS[name].check(value)
    assert caught.value.key == name
    assert repr(value if not isinstance(value, list) else value[0]) in str(caught.value)


def test_options_of_the_process_are_no_function_s_own():
    with pytest.raises(prebake.ConfigError, match=r"prebake\.configure\(result_pool_bytes"):
        options.check_options({"result_pool_bytes": 0})


def test_unknown_names_get_a_suggestion():
    with pytest.raises(prebake.ConfigError, match="did you mean 'threads'"):
        prebake.configure(treads=2)
    with pytest.raises(prebake.ConfigError, match="did you mean 'row_softmax'"):
        prebake.configure(disable_fusions=["row_sofmax"])
    with pytest.raises(prebake.ConfigError, match="options are"):
        prebake.configure(zzzzzz=2)


def test_configure_changes_nothing_when_one_value_is_wrong():
    before = prebake.configure()
    with pytest.raises(prebake.ConfigError):
        prebake.configure(strict=True, threads=0)
    assert prebake.configure() == before


def test_own_options_come_before_configured_ones():
    try:
        assert prebake.configure(threads=3, disable_fusions={"layout", "chain"})["threads"] == 3
        assert options.effective({"threads": 2})["threads"] == 2
        assert options.effective({})["disable_fusions"] == ("chain", "layout")
    finally:
        prebake.configure(threads=None, disable_fusions=None)
    assert options.effective({}) == {name: option.default for name, option in options.OPTIONS.items()}


def test_key_options_are_those_that_change_code():
    assert options.key_options({"threads": 2, "disable_fusions": ("chain",), "precision": "float32"}) == {
        "disable_fusions": ["chain"]}


def test_disabled_fusions_do_not_change_results():
    import numpy as np

    def layer(x, w):
        y = np.tanh(x @ w + 1.0)
        return y / y.sum(axis=1, keepdims=True)

    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((5, 6)), rng.standard_normal((6, 4))
    f = prebake.jit(layer, options={"disable_fusions": list(options.FUSIONS)})
    np.testing.assert_allclose(f(x, w), layer(x, w), rtol=1e-12)
    assert f.stats()["jit"] == 1


def test_every_environment_variable_that_the_run_time_reads_is_in_the_table():
    named = set()
    for folder in ("prebake", "vm", "templates", "pgo"):
        for path in (ROOT / folder).rglob("*.py"):
            named |= set(re.findall(r'(?:environ\.get\(|environ\[|getenv\(|read\(|is_on\()"(PREBAKE_\w+)"',
                                    path.read_text()))
    assert named <= set(flags.FLAGS), named - set(flags.FLAGS)


def test_flags(monkeypatch):
    monkeypatch.setenv("PREBAKE_BUNDLES", "off")
    assert not flags.is_on("PREBAKE_BUNDLES")
    monkeypatch.setenv("PREBAKE_BUNDLES", "")
    assert flags.is_on("PREBAKE_BUNDLES")
    assert flags.read("PREBAKE_ENGINE") == "auto"
    with pytest.raises(KeyError):
        flags.read("PREBAKE_NOTHING")


def test_a_wrong_engine_in_the_environment_is_raised_at_the_call():
    import os
    import subprocess
    import sys

    code = ("import numpy, prebake\n@prebake.jit\ndef f(x):\n    return x\ntry:\n    f(numpy.ones(2))\n"
            "except prebake.ConfigError as error:\n    print(error)")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                         env={**os.environ, "PREBAKE_ENGINE": "jitt",
                              "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    assert "PREBAKE_ENGINE: unknown engine 'jitt'" in out.stdout and "did you mean 'jit'" in out.stdout


@pytest.mark.parametrize(("name", "value", "said"), [
    ("PREBAKE_BUNDLES", "banana", "it counts as on"), ("PREBAKE_BUNDLES", "offf", "did you mean 'off'?"),
    ("PREBAKE_STRICT", "2", "allowed are 1, on"), ("PREBAKE_DUMP", "plan, bytecod", "did you mean 'bytecode'?"),
    ("PREBAKE_PROFILE_INTERVAL", "soon", "it counts as 10")])
def test_values_of_variables_that_say_nothing_are_warned_about_once(name, value, said, monkeypatch):
    monkeypatch.setenv(name, value)
    (fault,) = flags.faults()
    assert fault.startswith(f"{name}=") and said in fault
    code = "import numpy, prebake; f = prebake.jit(lambda x: x * 2); f(numpy.ones(3)); f(numpy.ones(4))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
                          env={**os.environ, name: value})
    assert done.stderr.count(said) == 1, done.stderr


def test_values_that_are_fine_are_not_warned_about(monkeypatch):
    for name, value in (("PREBAKE_BUNDLES", "OFF"), ("PREBAKE_STRICT", "1"), ("PREBAKE_DUMP", "plan, times,code"),
                        ("PREBAKE_PROFILE_INTERVAL", "0.5"), ("PREBAKE_LOG", "/tmp/x")):
        monkeypatch.setenv(name, value)
    assert flags.faults() == [] and flags.words("PREBAKE_DUMP") == ["plan", "times", "code"]
    for name in ("PREBAKE_BUNDLES", "PREBAKE_STRICT", "PREBAKE_DUMP", "PREBAKE_PROFILE_INTERVAL"):
        monkeypatch.setenv(name, "")
    assert flags.faults() == []
