"""Reductions take lists of arrays and numbers as the arrays that NumPy makes of them."""

from __future__ import annotations

import linecache

import numpy as np
import pytest

import prebake

X = np.arange(6.0).reshape(2, 3)
NAMES = "sum mean max min prod std var argmax argmin any all cumsum ptp average median count_nonzero".split()  # noqa: SIM905
LISTS = ["[a, a * 2], axis=0", "[a, a * 2]", "(1, 2.5, 3)", "b", "[a > 1, a < 4], axis=1", "[a, a[0]]", "[]",
         "[a.astype(np.float32), a.astype(np.float32)], axis=0"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("items", LISTS)
@pytest.mark.parametrize("name", NAMES)
def test_lists(name: str, items: str) -> None:
    path, text = f"<list {name} {items}>", f"def f(a, b):\n    return np.{name}({items})\n"
    linecache.cache[path] = (len(text), None, text.splitlines(True), path)
    space: dict = {"np": np}
    exec(compile(text, path, "exec"), space)
    function = prebake.jit(space["f"])
    try:
        want: object = space["f"](X, [1, 2, 4])
    except Exception as error:
        with pytest.raises(type(error)):
            function(X, [1, 2, 4])
        return
    got = function(X, [1, 2, 4])
    assert type(got) is type(want)
    assert np.asarray(got).dtype == np.asarray(want).dtype
    np.testing.assert_allclose(got, want, rtol=1e-6)  # type: ignore[arg-type]
    assert items == "[]" or function.stats()["jit"] == 1


class Member:
    def __init__(self, k):
        self.k = k

    def predict(self, x):
        return x * self.k


def test_an_ensemble() -> None:
    @prebake.jit
    def predict(models, x):
        return np.mean([model.predict(x) for model in models], axis=0)

    np.testing.assert_allclose(predict([Member(1.0), Member(4.0)], X), X * 2.5)
    assert predict.stats()["jit"] == 1
