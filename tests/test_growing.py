"""Programs that grow: a function that is called with other layers and functions later, on every engine and in bundles."""

from __future__ import annotations

import functools
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from bundle_project import load_module, run_beside
from dispatch_helpers import check as check_values

import prebake
from prebake.vm.run import bundle

X = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
check = functools.partial(check_values, rtol=2e-5)


def relu(x):
    return np.maximum(x, 0)


class Linear:
    def __init__(self, n, m):
        self.w = np.random.default_rng(n + m).standard_normal((n, m)).astype(np.float32)

    def __call__(self, x):
        return x @ self.w


class Relu:
    def __call__(self, x):
        return np.maximum(x, 0)


class Sequential:
    def __init__(self, *layers):
        self.layers = list(layers)


@prebake.jit
def applied(act, x):
    return act(x) + 1


GROWING = """
import numpy as np
import prebake


class Relu:
    def __call__(self, x):
        return np.maximum(x, 0)


class Scale:
    def __init__(self, k):
        self.k = k

    def __call__(self, x):
        return x * self.k


class Linear:
    __slots__ = ("w",)

    def __init__(self):
        self.w = np.linspace(-1, 1, 16).reshape(4, 4)

    def __call__(self, x):
        return x @ self.w


def third(x):
    return x / 3


LAYERS = [Relu(), Scale(2.0), Linear(), np.tanh, third, [Relu(), np.exp]]
ACTS = {"relu": Relu(), "tanh": np.tanh, "third": third}


@prebake.jit
def apply(x, layer):
    if isinstance(layer, list):
        for one in layer:
            x = one(x)
        return x
    return layer(x) + 1


@prebake.jit
def by_name(x, name):
    return ACTS[name](x) + 2
"""

SERVE = """
import sys
import numpy as np, prebake, growing

x = np.arange(8.0).reshape(2, 4)
prebake.load_bundle(sys.argv[1])
if sys.argv[2] == "swapped":
    growing.third.__code__ = (lambda x: x / 4).__code__
    growing.LAYERS.reverse()
for layer in growing.LAYERS[::-1]:
    np.testing.assert_allclose(growing.apply(x, layer), growing.apply.__wrapped__(x, layer), rtol=1e-12)
for name in growing.ACTS:
    np.testing.assert_allclose(growing.by_name(x, name), growing.by_name.__wrapped__(x, name), rtol=1e-12)
print(growing.apply.stats()["prebuilt"], growing.by_name.stats()["prebuilt"])
if sys.argv[2] == "swapped":
    sys.exit()
growing.apply(x, np.cos)
print(growing.apply.stats()["jit"])
with prebake.profile(sys.argv[2]) as session:
    growing.apply(x, np.tanh)
scale = growing.Scale.__call__
for call in (lambda self, x: x - self.k, scale):  # a method is another one: what was recorded holds no longer
    growing.Scale.__call__ = call
    for layer in growing.LAYERS:
        np.testing.assert_allclose(growing.apply(x, layer), growing.apply.__wrapped__(x, layer), rtol=1e-12)
"""


@pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler")
def test_a_bundle_holds_every_callee_that_was_recorded(tmp_path: Path) -> None:
    """In one process, and in two that each saw some of them and more."""
    module = load_module(tmp_path, "growing", GROWING)
    x = np.arange(8.0).reshape(2, 4)
    try:
        with prebake.profile(tmp_path / "few.json"):
            check(module.apply, x, module.LAYERS[0])
        with prebake.profile(tmp_path / "all.json"):
            for layer in module.LAYERS:
                check(module.apply, x, layer)
            for name in module.ACTS:
                check(module.by_name, x, name)
        assert module.apply.stats()["jit"] == len(module.LAYERS) + 1
        planned = prebake.plan([tmp_path / "few.json", tmp_path / "all.json"], tmp_path / "b.yaml", measure=False)
        assert planned.hit_rate == 1.0
        prebake.build(tmp_path / "b.yaml", tmp_path / "bundle", targets=[bundle.usable_levels()[0]])
        serve = functools.partial(run_beside, tmp_path, SERVE, tmp_path / "bundle")
        done = serve("swapped")  # a function that has another one's code before the first call
        assert done.returncode == 0 and "growing:third with the code of <lambda>" in done.stderr, done.stderr
        assert done.stdout.split() == ["0", "0"]
        done = serve(tmp_path / "live.json")
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [str(len(module.LAYERS)), str(len(module.ACTS)), "1"]
        assert prebake.check(tmp_path / "bundle", tmp_path / "live.json", max_miss=0)
    finally:
        sys.modules.pop("growing")


def test_a_program_grows_so_far_and_no_further(tmp_path: Path) -> None:
    """What it was not made for gets programs of its own, and `plan` says that no kernel covers those calls."""
    made = [lambda x, k=float(k): x * k + 1 for k in range(24)]
    grown = prebake.jit(lambda act, x: act(x))
    with prebake.profile(tmp_path / "p.json"):
        for _ in range(2):
            for act in made:
                check(grown, act, X)
    assert grown.stats()["jit"] == 2 * len(made)
    assert len(grown.bytecode.functions) <= 17
    notes = prebake.plan(tmp_path / "p.json", tmp_path / "b.yaml", measure=False).notes
    assert any("16 calls are in no plan" in note for note in notes), notes


def test_a_function_keeps_no_arguments_of_calls(engine: str) -> None:
    """Only what they are made of is kept, for programs that grow."""
    import gc
    import weakref

    @prebake.jit
    def through(x, net):
        for layer in net.layers:
            x = layer(x)
        return x

    net = Sequential(Linear(8, 4), Relu())
    dies = [weakref.ref(net), weakref.ref(net.layers[0]), weakref.ref(net.layers[0].w)]
    check(through, X, net)
    del net
    gc.collect()
    assert all(ref() is None for ref in dies)
    check(through, X, Sequential(Relu(), Linear(8, 2)))


class Counted:
    made = 0

    def __new__(cls, *_):
        cls.made += 1
        return object.__new__(cls)

    def __init__(self, k):
        self.k = k

    def __getattribute__(self, name):
        return object.__getattribute__(self, name)

    def __setattr__(self, name, value):
        assert isinstance(value, float)
        object.__setattr__(self, name, value)

    def __call__(self, x):
        return x * self.k


def test_prototypes_run_no_code_of_users(engine: str) -> None:
    Counted.made = 0
    counted = Counted(2.0)
    for act in (counted, relu, counted):
        np.testing.assert_array_equal(applied(act, X), act(X) + 1)
    assert Counted.made == 1


@prebake.jit
def in_turn(x, layers):
    for layer in layers:
        x = layer(x)
    return x * 2


@prebake.jit
def by_key(x, heads, name):
    if name in heads:
        x = heads[name](x)
    return x


class Wide:
    def __call__(self, x, y):
        return x + y


class Odd:
    def __call__(self, x):
        return eval("x + 1")


def test_what_is_empty_at_the_first_call_refuses_nothing_later(engine: str) -> None:
    for layers in ([], [Relu()], (), [Linear(8, 4), Relu()], []):
        check(in_turn, X, layers)
    for heads in ({}, {"a": relu}, {"b": Relu()}, {"a": np.tanh, "b": relu}):
        for name in "abc":
            check(by_key, X, heads, name)


def test_a_candidate_that_cannot_be_compiled_refuses_its_own_calls_alone(engine: str) -> None:
    applied = prebake.jit(lambda act, x: act(x))
    for bad in (Wide(), lambda x, y: x, functools.partial(relu, y=1)):
        with pytest.raises((TypeError, prebake.UnsupportedError)):
            applied(bad, X)
        check(applied, relu, X)
        with pytest.raises((TypeError, prebake.UnsupportedError)):
            applied(bad, X)
    through = prebake.jit(lambda x, layers: [layer(x) for layer in layers])
    check(through, X, [relu, Odd()])  # interpreted: one of them is called as Python calls it
    check(through, X, [relu, Relu()])
    with pytest.raises(TypeError, match="argument"):
        through(X, [relu, Wide()])
    check(through, X, [Relu(), relu])


class Root:
    pass


class Leaf(Root):
    pass


class Stem:
    pass


@prebake.jit
def by_class(x, item):
    if isinstance(item, Root):
        return x + 1
    if isinstance(item, (Stem, float)):
        return x * 2
    return x - 1


def test_classes_of_objects_are_told_apart(engine: str) -> None:
    for item in (Leaf(), Stem(), 2.0, 3, None, Root(), X, [Leaf()], (1,), {}, "text", np.float64(1), Leaf()):
        before = by_class.stats()["interpreter"]
        check(by_class, X, item)
        assert engine == "interpreter" or isinstance(item, np.float64) or by_class.stats()["interpreter"] == before


class Model:
    def step(self, x):
        return x + 1

    @prebake.jit
    def run(self, x):
        return self.step(x)


class Other(Model):
    def step(self, x):
        return x * 2


def test_explain_tells_what_happens() -> None:
    """Before and after the call, for the function's own program, grown or not, for variants and for what is refused."""
    acts = [lambda x, k=float(k): x * k for k in range(18)]
    kept = [lambda act, x: act(x), lambda act, x: [one(x) for one in act]]
    calls: list[tuple] = [(prebake.jit(kept[0]), act, X) for act in (relu, *acts[:2], relu, Wide(), Linear(8, 2), np.tanh, 3)]
    grown = prebake.jit(kept[0])
    calls += [(grown, act, X) for act in (*acts, acts[0], acts[-1])]
    through = prebake.jit(kept[1])
    calls += [(through, act, X) for act in ([relu], [], [relu, Odd()], [np.tanh, Wide()], (np.tanh, Relu()))]
    calls += [(Model.run, Model(), X), (Model.run, Other(), X), (Model.run, Model(), X)]
    for function, *args in calls:
        for _ in range(2):
            told = function.explain(*args)
            before = function.stats()
            try:
                function(*args)
            except (TypeError, prebake.UnsupportedError):
                assert told.engine in ("none", "interpreter"), str(told)
                continue
            served = [name for name, count in function.stats().items() if isinstance(count, int) and name in (
                "prebuilt", "jit", "interpreter", "python") and count > before[name]]
            assert served == [told.engine], f"{args[0]}: {served}, {told}"
    assert "program of its own" in grown.explain(acts[-1], X).detail


class Scaled:
    def __init__(self, k=2.0):
        self.k = k

    def __call__(self, x):
        return x * self.k

    def go(self, x):
        return x - self.k


OTHER = Scaled(100.0)


class OfStatic(Scaled):
    @staticmethod
    def __call__(x):
        return x * 7

    go = staticmethod(np.tanh)


class OfAnother(Scaled):
    __call__ = OTHER.__call__
    go = OTHER.go


class OfClass(Scaled):
    k = 3.0

    @classmethod
    def __call__(cls, x):
        return x + cls.k

    @classmethod
    def go(cls, x):
        return x / cls.k


class OfProperty(Scaled):
    @property
    def __call__(self):
        return np.negative

    @property
    def go(self):
        return np.square


def through_all(x, layers):
    for layer in layers:
        x = layer(x)
    return x


def go_through(x, layers):
    for layer in layers:
        x = layer.go(x)
    return x


@pytest.mark.parametrize("kind", (OfStatic, OfAnother, OfClass, OfProperty))
@pytest.mark.parametrize("f", (through_all, go_through))
def test_members_that_are_no_methods_of_their_object(f, kind, engine: str) -> None:
    g = prebake.jit(f, fallback="python")
    for layers in ([kind()], [Scaled(), kind()], [Scaled(3.0)], [kind(), kind()]):
        np.testing.assert_allclose(g(X, layers), f(X, layers), rtol=2e-5)
