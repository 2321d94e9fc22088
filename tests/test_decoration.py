"""Parameters of the decorator are looked at where it stands; decorating never fails, each call raises what was told."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import warnings

import numpy as np
import pytest

import prebake

LINE = sys._getframe().f_lineno + 3


def scaled(x, w):
    return x @ w


WRONG = [
    ({"shapes": "b d"}, "shapes", "'b d'", "shapes={'x': 'b d'}"),
    ({"shapes": ["b d"]}, "shapes", "['b d']", "shapes={'x': 'b d'}"),
    ({"shapes": {"X": "b d"}}, "shapes", "'X'", "parameters are x, w"),
    ({"shapes": {"x": 3}}, "shapes.x", "found 3", "shapes={'x': 'b d'}"),
    ({"shapes": {"x": "b (d"}}, "shapes.x", "'(d'", "separated by blanks"),
    ({"shapes": {"x": "b 'd'"}}, "shapes.x", "''d''", "separated by blanks"),
    ({"shapes": {"x": "b 1.5"}}, "shapes.x", "'1.5'", "separated by blanks"),
    ({"shapes": {"x": "b \0"}}, "shapes.x", "no name", "separated by blanks"),
    ({"shapes": {"x": "... b ..."}}, "shapes.x", "'... b ...'", "'b ... d'"),
    ({"shapes": {"x": "b 2*k"}}, "shapes.x", "'k'", "call an axis 'k'"),
    ({"options": "strict"}, "options", "str", ""),
    ({"options": {"strickt": True}}, "options", "'strickt'", "did you mean 'strict'"),
    ({"options": {"engine": "jitt"}}, "engine", "'jitt'", "did you mean 'jit'"),
    ({"options": {"disable_fusions": ["chains"]}}, "disable_fusions", "'chains'", "did you mean 'chain'"),
    ({"options": {"result_pool_bytes": 3}}, "result_pool_bytes", "whole process", "prebake.configure"),
    ({"fallback": "pyhton"}, "fallback", "'pyhton'", "did you mean 'python'"),
    ({"fallback": None}, "fallback", "None", "fallback='python'"),
    ({"fallback": ["python"]}, "fallback", "['python']", "fallback='python'"),
    ({"threads": "4"}, "threads", "'4'", ""),
    ({"threads": 0}, "threads", "found 0", ""),
    ({"tier_up": "yes"}, "tier_up", "'yes'", "tier_up=True"),
]


@pytest.mark.parametrize(("given", "key", "value", "cure"), WRONG, ids=[f"{key}-{n}" for n, (_, key, _, _) in enumerate(WRONG)])
def test_wrong_parameters_are_told_where_the_decorator_stands(given, key, value, cure):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        f = prebake.jit(scaled, **given)
    (warning,) = told
    assert warning.filename == __file__
    text = str(warning.message)
    assert f"{__file__}:{LINE}: {key}: " in text and value in text and cure in text and "'scaled'" in text
    for use in (lambda: f(np.ones((2, 3)), np.ones((3, 4))), lambda: f.explain(np.ones((2, 3)), np.ones((3, 4)))):
        with pytest.raises(prebake.ConfigError) as caught:
            use()
        assert str(caught.value) in text and caught.value.key == key and caught.value.line == LINE
    stats = f.stats()
    assert (stats["calls"], stats["refused"]) == (0, 1)


def test_right_parameters_are_not_told_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for given in ({}, {"shapes": {}}, {"shapes": {"x": "b 2*d", "w": "(2*d) d"}}, {"fallback": "python"},
                      {"options": {"threads": 1}}, {"threads": 1}, {"shapes": {"x": "... d", "w": "d 4"}}):
            prebake.jit(scaled, **given)


def test_strict_raises_where_the_decorator_stands(monkeypatch):
    prebake.configure(strict=True)
    try:
        with pytest.raises(prebake.ConfigError, match="did you mean 'jit'"):
            prebake.jit(scaled, options={"engine": "jitt"})
    finally:
        prebake.configure(strict=None)
    code = "import prebake\ntry:\n    prebake.jit(lambda x: x, threads=0)\nexcept prebake.ConfigError as e:\n    print(e)"
    monkeypatch.setenv("PREBAKE_STRICT", "1")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "threads: found 0" in done.stdout, done.stderr


def test_what_is_changed_later_in_the_options_changes_nothing():
    options = {"engine": "interpreter"}
    f = prebake.jit(scaled, options=options)
    options["engine"] = "nonsense"
    f(np.ones((2, 3)), np.ones((3, 4)))
    prebake.configure(max_plans=64)  # it looks at its options again
    f(np.ones((2, 3)), np.ones((3, 4)))
    assert f.stats()["interpreter"] == 2


def test_functions_with_wrong_parameters_pickle_as_they_are():
    with pytest.warns(RuntimeWarning, match="tier_up"):
        f = prebake.jit(scaled, tier_up="yes")
    with pytest.warns(RuntimeWarning, match=re.escape("tier_up: found 'yes'")):
        g = pickle.loads(pickle.dumps(f))
    with pytest.raises(prebake.ConfigError):
        g(np.ones((2, 3)), np.ones((3, 4)))


def test_calls_that_end_before_an_engine_serves_them_are_counted():
    def endless(x):
        while True:
            x = x + 1

    def generator(x):
        yield x

    for function in (endless, generator):
        f = prebake.jit(function)
        for _ in range(2):
            with pytest.raises((prebake.UnsupportedError, prebake.VerifyError)):
                f(np.ones(3))
        assert (f.stats()["calls"], f.stats()["refused"]) == (0, 2)
    def product(x, w):
        return x @ w

    f = prebake.jit(product)
    with prebake.engine("prebuilt"), pytest.raises(prebake.PrebakeError, match="NO_BUNDLE"):
        f(np.ones((2, 3)), np.ones((3, 4)))
    f(np.ones((2, 3)), np.ones((3, 4)))
    assert (f.stats()["calls"], f.stats()["refused"]) == (1, 1)
    assert f'prebake_refused_calls_total{{function="{f.name}"}} 1' in prebake.metrics()
