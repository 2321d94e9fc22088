"""Layers as objects: calls of what objects and containers hold, on every engine, and what follows when they change."""

from __future__ import annotations

import functools
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from bundle_project import load_module, run_beside
from dispatch_helpers import check as check_values

import prebake
from prebake.vm.run import bundle

X = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
check = functools.partial(check_values, rtol=2e-5)


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def relu(x):
    return np.maximum(x, 0)


class Linear:
    def __init__(self, n, m):
        self.w, self.b = weights(n, m), weights(m)

    def __call__(self, x):
        return x @ self.w + self.b


class Relu:
    def __call__(self, x):
        return np.maximum(x, 0)


class Dense:
    def __init__(self, n, m, act):
        self.w, self.act = weights(n, m), act

    def forward(self, x):
        return self.act(self.scaled(x) @ self.w)

    def scaled(self, x):
        return x * 2


class Sequential:
    def __init__(self, *layers):
        self.layers = list(layers)

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    @prebake.jit
    def run(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Net:
    def __init__(self):
        self.layers = [Dense(8, 8, np.tanh), Dense(8, 8, relu), Dense(8, 3, lambda x: x / 2)]
        self.head = {"a": Linear(3, 2), "b": Linear(2, 4)}

    @prebake.jit
    def run(self, x):
        for i, layer in enumerate(self.layers):
            x = layer.forward(x)
            x = self.layers[i].act(x)
        for head in self.head.values():
            x = head(x)
        return x


MODEL = Sequential(Linear(8, 4), Relu(), Linear(4, 2))
ACTS = {"relu": relu, "tanh": np.tanh}
halved = functools.partial(lambda x, k, b=0.0: x * k + b, k=0.5)


@prebake.jit
def of_module(x):
    return MODEL.layers[2](relu(MODEL.layers[0](x)))


@prebake.jit
def by_name(x, name):
    return ACTS[name](x)


@prebake.jit
def partially(x):
    return halved(x) + halved(x, b=1.0)


@prebake.jit
def applied(act, x):
    return act(x) + 1


@dataclass
class Params:
    w: np.ndarray
    scale: float = 2.0

    def apply(self, x):
        return (x @ self.w) * self.scale


class Pair(NamedTuple):
    w: np.ndarray
    b: np.ndarray

    def apply(self, x):
        return x @ self.w + self.b


@prebake.jit
def of_parameter(params, x):
    return params.apply(x)


@prebake.jit
def fields(pairs, x):
    for pair in pairs:
        x = np.tanh(x @ pair.w + pair.b)
    return x


def test_layers(engine: str) -> None:
    check(Sequential(Linear(8, 4), Relu()).run, X)
    check(Net().run, X)
    check(of_module, X)
    check(partially, X)
    check(of_parameter, Params(weights(8, 2)), X)
    check(of_parameter, Pair(weights(8, 2), weights(2)), X)
    check(fields, [Pair(weights(8, 8), weights(8)), Pair(weights(8, 2), weights(2))], X)
    for name in ("relu", "tanh", "relu"):
        check(by_name, X, name)


@prebake.jit
def items(pairs, x):
    for w, b in pairs:
        x = x @ w + b
    return x + pairs[0][1]


class Pairs(list):
    """A list of one's own."""


def test_items_of_named_tuples_and_lists_of_ones_own(engine: str) -> None:
    pairs = [Pair(weights(8, 8), weights(8)), Pair(weights(8, 8), weights(8))]
    check(items, pairs, X)
    check(items, Pairs(pairs), X)


class Doubled(list):
    def __iter__(self):
        for item in list.__iter__(self):
            yield item
            yield item


class Hidden(tuple):
    def __getitem__(self, at):
        return tuple.__getitem__(self, at) * 10.0


@prebake.jit
def of_all(parts, x):
    for part in parts:
        x = x * part
    return x


@prebake.jit
def of_last(parts, x):
    return x + parts[-1]


def test_sequences_that_read_their_items_in_their_own_way(engine: str) -> None:
    for parts in ((2.0, 3.0), [2.0, 3.0], Doubled([2.0, 3.0]), Hidden((2.0, 3.0))):
        check(of_all, parts, X)
        check(of_last, parts, X)


class Kept:
    act = staticmethod(np.tanh)

    @prebake.jit
    def run(self, x):
        return self.act(x) + 1

    @prebake.jit
    def other(self, kept, x):
        return kept.act(x) + 1


def test_static_methods_that_are_kernels(engine: str) -> None:
    check(Kept().run, X)
    check(Kept().other, Kept(), X)


class Optional:
    def __init__(self, norm):
        self.norm = norm

    def forward(self, x):
        if self.norm is not None:
            x = self.norm(x)
        return x + 1


class ByName:
    def __getattr__(self, name):
        if name == "forward":
            return np.tanh
        raise AttributeError(name)


def test_what_is_none_or_unknown_at_first_is_found_later(engine: str) -> None:
    @prebake.jit
    def through(layer, x):
        return layer.forward(x)

    @prebake.jit
    def other(layer, x):
        return layer.forward(x)

    with pytest.raises(prebake.UnsupportedError, match="forward"):
        other(ByName(), X)
    check(other, Dense(8, 4, relu), X)
    for norm in (None, relu, None, Linear(8, 8), Relu()):
        check(through, Optional(norm), X)
    broken = prebake.jit(lambda layer, x: layer.norm(x))
    for function in (broken, broken.__wrapped__):
        with pytest.raises(TypeError, match="'NoneType' object is not callable"):
            function(Optional(None), X)


def test_containers_inside_containers(engine: str) -> None:
    check(Sequential(Linear(8, 8), Sequential(Linear(8, 4), Sequential(Relu(), Linear(4, 2)))).run, X)


def test_functions_as_arguments(engine: str) -> None:
    for act in (np.tanh, relu, Linear(8, 3), Relu(), functools.partial(np.multiply, 3.0), halved, np.tanh, relu):
        check(applied, act, X)
    for wrong in (3, None, "tanh"):
        with pytest.raises((TypeError, prebake.UnsupportedError)):
            applied(wrong, X)


def test_what_changes_is_seen(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Net(), Net()
    check(one.run, X)
    one.layers[1].act = np.tanh  # compiled in already, for another layer
    check(one.run, X)
    for k in (3.0, 4.0):  # one source, two functions
        one.layers[1].act = (lambda x: x * 3) if k == 3.0 else lambda x: x * 4
        check(one.run, X)
    check(other.run, X)
    one.layers[0].forward = relu  # hides the method
    check(one.run, X)
    one.layers[0].forward = one.layers[1].forward  # of another object
    check(one.run, X)
    one.layers[0].scaled = relu
    del one.layers[0].forward
    check(one.run, X)
    monkeypatch.setattr(Dense, "scaled", lambda self, x: x * 5)
    check(other.run, X)
    monkeypatch.undo()
    check(other.run, X)
    one.layers[0].__class__ = type("Other", (Dense,), {"scaled": lambda self, x: x - 1})
    check(one.run, X)


def test_other_layers_get_programs_of_their_own() -> None:
    small, large = Sequential(Linear(8, 4)), Sequential(Relu(), Linear(8, 4), Dense(4, 4, relu).forward)
    before = Sequential.run.stats()
    for _ in range(3):
        check(small.run, X)
        check(Sequential(Relu(), Linear(8, 4), Relu()).run, X)
    stats = Sequential.run.stats()
    assert stats["jit"] - before["jit"] == 6
    check(large.run, X)  # a method of another object: interpreted, not refused
    assert Sequential.run.stats()["interpreter"] == before["interpreter"] + 1


def test_a_program_from_a_file_calls_nothing_else() -> None:
    @prebake.jit
    def applied(act, x):
        return act(x) + 1

    check(applied, relu, X)
    program = prebake.vm.lang.bytecode.Program.from_bytes(applied.bytecode.to_bytes())
    np.testing.assert_array_equal(program.run(relu, X), relu(X) + 1)
    seen: list[object] = []
    with pytest.raises(prebake.PrebakeError, match="was not made for"):
        program.run(seen.append, X)
    assert not seen


MODULE = """
import functools

import numpy as np
import prebake


class Linear:
    def __init__(self, n, m):
        self.w = np.linspace(-1, 1, n * m).reshape(n, m)

    def forward(self, x):
        return x @ self.w


class Act:
    def __init__(self, act):
        self.act = act

    def forward(self, x):
        return self.act(x)


NEGATED = {"f": lambda x: -x}


class Model:
    def __init__(self, act):
        self.layers = [Linear(4, 3), Act(act), Linear(3, 2), Act(NEGATED["f"]), Act(functools.partial(times, k=3.0)),
                       Act(functools.partial(np.multiply, 2.0))]

    @prebake.jit
    def run(self, x):
        for layer in self.layers:
            x = layer.forward(x)
        return x


def relu(x):
    return np.maximum(x, 0) + SHIFT


def scaled(x):
    return x * SCALE + SHIFT


def times(x, k):
    return x * k


SHIFT, SCALE = 1.0, 2.0
model, other = Model(relu), Model(scaled)
"""


SCRIPT = """
import sys
import numpy as np, prebake, layered

x = np.arange(8.0).reshape(2, 4)
for name in sys.argv[2:]:
    if name == "load":
        prebake.load_bundle(sys.argv[1])
    elif name == "edit":
        layered.relu.__code__ = (lambda x: x - 77.0).__code__
    else:
        model = getattr(layered, name)
        want = layered.Model.run.__wrapped__(model, x)
        np.testing.assert_allclose(layered.Model.run(model, x), want, rtol=1e-12)
stats = layered.Model.run.stats()
print(stats["prebuilt"], stats["jit"], stats["interpreter"])
"""


@pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler")
def test_bundles(tmp_path: Path) -> None:
    module = load_module(tmp_path, "layered", MODULE)
    x = np.arange(8.0).reshape(2, 4)
    try:
        run = module.Model.run
        with prebake.profile(tmp_path / "p.json"):
            check(run, module.model, x)
        prebake.plan(tmp_path / "p.json", tmp_path / "b.yaml", measure=False)
        prebake.build(tmp_path / "b.yaml", tmp_path / "bundle", targets=[bundle.usable_levels()[0]])
        cases = (("load model", "1 0 0"), ("load other model other", "1 2 0"), ("load model other model", "2 1 0"),
                            ("other load model other other", "1 3 0"), ("load model edit model", "1 1 0"))
        for names, want in cases:
            done = run_beside(tmp_path, SCRIPT, tmp_path / "bundle", *names.split())
            assert done.returncode == 0, done.stderr
            assert done.stdout.strip() == want
    finally:
        sys.modules.pop("layered")
