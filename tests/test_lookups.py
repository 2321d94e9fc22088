"""What names and attributes lead to may change between two calls: every engine sees what Python would see."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable

import numpy as np
import pytest
from dispatch_helpers import check

import prebake
import prebake.vm.lang.bytecode
from prebake.vm.bindings import first_change

X = np.arange(-3.0, 4.0)


pytestmark = pytest.mark.usefixtures("engine")


def refused(function: Callable, *args: object) -> None:
    with pytest.raises(prebake.UnsupportedError):
        function(*args)


def model() -> type:
    class Model:
        k = 2.0

        def __init__(self):
            self.w = np.ones(7)

        def h(self, x):
            return x * self.k

        @staticmethod
        def s(x):
            return x + 1

        @classmethod
        def c(cls, x):
            return x * cls.k

        @property
        def p(self):
            return self.w * 3

        @prebake.jit
        def f(self, x):
            return self.h(x) + self.s(x) + self.c(x)

        @prebake.jit
        def g(self, x):
            return self.p + x * self.k

        @prebake.jit
        def writes(self, x):
            self.w[0] = x[0]
            return self.p + x

    return Model


# --- attributes of self ----------------------------------------------------------------------------------------------

def test_an_instance_shadows_methods() -> None:
    cls = model()
    one, other = cls(), cls()
    check(one.f, X)
    one.h = lambda x: x * 100
    check(one.f, X)
    check(other.f, X)
    del one.h
    check(one.f, X)
    one.s = lambda x: x * 7
    one.c = types.MethodType(_times_w, one)
    for who in (one, other, one):
        check(who.f, X)


def _times_w(self, x):
    return x * self.w


def test_members_of_a_class_change() -> None:
    cls = model()
    one = cls()
    check(one.f, X)
    for name, member in (("h", lambda self, x: x - 5), ("s", staticmethod(lambda x: x * 3)),
                         ("c", classmethod(lambda cls, x: x - 9)), ("h", staticmethod(lambda x: x + 40)),
                         ("p", property(lambda self: self.w - 1)), ("k", 5.0)):
        setattr(cls, name, member)
        check(one.f, X)
        check(one.g, X)
    one.k = 9.0  # class methods go on to read the class
    cls.c = classmethod(lambda cls, x: x * cls.k)
    check(one.f, X)


def test_subclasses_and_super() -> None:
    base = model()

    class Overrides(base):
        def h(self, x):
            return x * 1000

    class Constant(base):
        k = 11.0

    class Calls(Overrides):
        def h(self, x):
            return super().h(x) + 1

    class Mixin:
        def h(self, x):
            return x - 0.5

    class Mixed(Overrides, Mixin):
        def h(self, x):
            return super().h(x) - 1

    class Reordered(Calls, Mixin):
        pass

    for _ in range(2):
        for cls in (base, Overrides, Constant, Calls, Mixed, Reordered):
            check(cls().f, X)
    Overrides.h = lambda self, x: x * 2000
    for cls in (Calls, Mixed, Reordered):
        check(cls().f, X)


def test_super_follows_the_class_of_self() -> None:
    class Root:
        def h(self, x):
            return x + 1

    class Left(Root):
        @prebake.jit
        def f(self, x):
            return super().h(x) * 2

    class Right(Root):
        def h(self, x):
            return x + 100

    class Both(Left, Right):
        pass

    for who in (Left(), Both(), Left(), Both()):
        check(Left.f, who, X)
    check(Left().f, X)


def test_properties() -> None:
    cls = model()
    one, other = cls(), cls()
    got = one.writes(X)
    np.testing.assert_array_equal(got, cls.writes.__wrapped__(other, X))  # read after the write
    np.testing.assert_array_equal(one.w, other.w)
    one.w = np.arange(7.0)
    check(one.g, X)


class Holder:
    def __init__(self, inner):
        self.inner = inner


class Inner:
    def __init__(self):
        self.w = np.ones(7)

    @property
    def total(self):
        return self.w.sum()

    @functools.cached_property
    def twice(self):
        return self.w * 2


@prebake.jit
def _late(holder, x):
    holder.inner.w[0] = x[0]
    return holder.inner.total + x


@prebake.jit
def _cached(holder, x):
    return holder.inner.twice + x + holder.inner.twice


def test_properties_of_other_objects_are_read_when_the_program_reads_them() -> None:
    one, other = Holder(Inner()), Holder(Inner())
    np.testing.assert_array_equal(_late(one, X), _late.__wrapped__(other, X))
    np.testing.assert_array_equal(_late(one, X + 1), _late.__wrapped__(other, X + 1))
    check(_cached, Holder(Inner()), X)


class Acting:
    def __init__(self, act):
        self.act = act

    @prebake.jit
    def f(self, x):
        return self.act(x) + 1

    @prebake.jit
    def passed(self, x):
        return _apply(self.act, x)


def _apply(act, x):
    return act(x) * 2


def test_functions_that_an_instance_keeps() -> None:
    one, other = Acting(np.tanh), Acting(np.sin)
    for _ in range(2):
        for who in (one, other):
            check(who.f, X)
            check(who.passed, X)
    one.act = _double
    check(one.f, X)
    check(one.passed, X)
    one.act = functools.partial(_helper, k=4.0)
    check(one.f, X)
    one.act = Inner()  # no function at all
    with pytest.raises((prebake.UnsupportedError, TypeError)):
        one.f(X)
    check(other.f, X)
    one.act = np.sin
    check(one.f, X)


def test_attributes_that_code_makes() -> None:
    base = model()

    class Always(base):
        def __getattribute__(self, name):
            if name == "h":
                return _double
            return object.__getattribute__(self, name)

    class Anew(base):
        def __getattribute__(self, name):
            if name == "h":
                return lambda x: x * 7
            return object.__getattribute__(self, name)

    class Missing:
        def __getattr__(self, name):
            if name == "k":
                return 4.0
            raise AttributeError(name)

        @prebake.jit
        def f(self, x):
            return x * self.k

    check(base().f, X)
    check(Always().f, X)
    refused(Anew().f, X)
    python = prebake.jit(base.f.__wrapped__, fallback="python")
    with pytest.warns(RuntimeWarning, match="another object each time"):
        check(python, Anew(), X)
    check(python, base(), X)
    who = Missing()
    check(who.f, X)
    who.k = 9.0
    check(who.f, X)


def test_slots() -> None:
    class Slotted:
        __slots__ = ("w",)

        def __init__(self):
            self.w = np.ones(7)

        def h(self, x):
            return x * 2

        @prebake.jit
        def f(self, x):
            return self.h(x) + self.w

    one = Slotted()
    check(one.f, X)
    one.w = X
    check(one.f, X)
    Slotted.h = lambda self, x: x * 8
    check(one.f, X)


class Config:
    eps = 0.5


@prebake.jit
def _configured(x):
    return x + Config.eps


def test_constants_of_classes(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    before = _configured.stats()[engine]
    check(_configured, X)
    monkeypatch.setattr(Config, "eps", 0.25)
    check(_configured, X)
    monkeypatch.setattr(Config, "eps", np.float32(3))
    check(_configured, X)
    assert _configured.stats()[engine] == before + 3, "no other engine is needed"


# --- functions -------------------------------------------------------------------------------------------------------

def _double(x):
    return x * 2


def _triple(x):
    return x * 3


def _helper(x, k=2.0, *, j=1.0):
    return x * k + j


@prebake.jit
def _helped(x):
    return _helper(x)


def test_defaults_and_code_of_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    check(_helped, X)
    monkeypatch.setattr(_helper, "__defaults__", (5.0,))
    check(_helped, X)
    monkeypatch.setitem(_helper.__kwdefaults__, "j", 9.0)
    check(_helped, X)
    monkeypatch.setattr(_helper, "__kwdefaults__", {"j": 12.0})
    check(_helped, X)
    monkeypatch.setattr(_helper, "__code__", _other_helper.__code__)
    check(_helped, X)


def _other_helper(x, k=2.0, *, j=1.0):
    return x - k - j


def _around(inner):
    def outer(x):
        return inner(x) * 2
    return outer


_wrapped = _around(_double)
_wrapped_twice = _around(_wrapped)


@prebake.jit
def _uses_wrapped(x):
    return _wrapped_twice(x)


def test_cells_of_helpers() -> None:
    check(_uses_wrapped, X)
    cell = _wrapped.__closure__[0]
    cell.cell_contents = _triple
    check(_uses_wrapped, X)
    cell.cell_contents = np.abs
    check(_uses_wrapped, X)
    cell.cell_contents = _double
    check(_uses_wrapped, X)
    paths = {b.path: b.meaning for b in _uses_wrapped.bytecode.bindings}
    assert paths["_wrapped_twice|inner|inner"].endswith(":_double"), "a bundle compares them too"
    rows = [(b.scope, b.module, b.path, b.meaning) for b in _uses_wrapped.bytecode.bindings]
    assert first_change(_uses_wrapped.__wrapped__, rows) is None
    cell.cell_contents = _triple
    changed = first_change(_uses_wrapped.__wrapped__, rows)
    assert changed is not None
    assert changed[2].endswith(":_triple")
    cell.cell_contents = _double


def test_own_cells_and_code() -> None:
    act = _double

    @prebake.jit
    def f(x):
        return act(x)

    check(f, X)
    act = _triple
    check(f, X)
    act = np.sin
    check(f, X)

    def g(x):
        return x + 1

    fast = prebake.jit(g)
    check(fast, X)
    g.__code__ = (lambda x: x * 9).__code__
    check(fast, X)
    check(fast, X)
    g.__code__ = (lambda x, y: x * y).__code__
    check(fast, X, X)
    check(fast, X, X)


@prebake.jit
def _uses_builtins(x):
    return abs(x) + len(x)


def test_a_module_hides_a_builtin(monkeypatch: pytest.MonkeyPatch) -> None:
    check(_uses_builtins, X)
    monkeypatch.setitem(globals(), "abs", _double)
    check(_uses_builtins, X)
    monkeypatch.delitem(globals(), "abs")
    check(_uses_builtins, X)


first_module, second_module = types.ModuleType("first_module"), types.ModuleType("second_module")
first_module.act, second_module.act = _double, _triple
module = first_module


@prebake.jit
def _uses_module(x):
    return module.act(x)


def test_names_of_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    check(_uses_module, X)
    monkeypatch.setattr(first_module, "act", np.sin)
    check(_uses_module, X)
    monkeypatch.setitem(globals(), "module", second_module)
    check(_uses_module, X)
    monkeypatch.setattr(second_module, "act", _helper)
    check(_uses_module, X)


def test_a_look_that_compiles_again_meanwhile() -> None:
    base = model()

    class Restless(base):
        def __getattribute__(self, name):
            if name == "h":
                base.f(base(), X)  # the same function, for another class, in the middle of a look
            return object.__getattribute__(self, name)

    for _ in range(3):
        check(Restless().f, X)
        check(base().f, X)


def _scaling(k, table):
    def scaled(x):
        return x * k + table.sum()
    return scaled


_scaled = _scaling(3.0, np.arange(4))
_rescaled = _around(_scaled)


@prebake.jit
def _uses_scaled(x):
    return _scaled(x) - _rescaled(x)


def test_values_in_cells_of_helpers(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    before = _uses_scaled.stats()[engine]
    check(_uses_scaled, X)
    k, table = (_scaled.__closure__[_scaled.__code__.co_freevars.index(name)] for name in ("k", "table"))
    k.cell_contents = 5.0
    check(_uses_scaled, X)
    k.cell_contents = np.float32(2)
    table.cell_contents = np.ones(3)
    check(_uses_scaled, X)
    table.cell_contents[0] = 9
    check(_uses_scaled, X)
    assert _uses_scaled.stats()[engine] == before + 4
    monkeypatch.setitem(globals(), "_scaled", _scaling(7, np.ones(2)))
    check(_uses_scaled, X)
    local = _scaling(2, np.ones(3))

    @prebake.jit
    def f(x):
        return local(x)

    check(f, X)
    local = _scaling(4, np.ones(5))
    check(f, X)
    program = prebake.vm.lang.bytecode.Program.from_bytes(f.bytecode.to_bytes())
    assert [c.name for c in program.captures] == ["local|k", "local|table"]


class Tally:
    """Methods with the names of arrays' methods and parameters of their own."""

    def sum(self, x, scale=3):
        return x * scale

    def copy(self):
        return np.ones(7)


@prebake.jit
def _sums(tally, x):
    return tally.sum(x)


@prebake.jit
def _copies(tally, x):
    return tally.copy() + x


def test_methods_of_other_objects_are_not_taken_for_those_of_arrays() -> None:
    check(_copies, Tally(), X)
    check(_sums, X, 0)
    with pytest.raises(TypeError, match="'sum' of 'Tally' is no array method"):
        _sums(Tally(), X)


class TestNamesThatAreGone:
    """The error is Python's own: which one depends on how the name is read."""

    def check(self, f: Callable, module: types.ModuleType, name: str, engine: str) -> None:
        want = f(X)
        value = module.__dict__.pop(name)
        try:
            with pytest.raises((NameError, AttributeError)) as expected:
                f.__wrapped__(X)  # type: ignore[attr-defined]
            with pytest.raises((NameError, AttributeError)) as found:
                f(X)
            assert (type(found.value), str(found.value)) == (type(expected.value), str(expected.value))
            assert f.explain(X).raises in ("" if engine == "interpreter" else str(found.value),)  # type: ignore[attr-defined]
        finally:
            module.__dict__[name] = value
        before = f.stats()[engine]  # type: ignore[attr-defined]
        np.testing.assert_array_equal(f(X), want)
        assert f.stats()[engine] == before + 1  # type: ignore[attr-defined]

    def test_a_modules_attribute(self, engine: str) -> None:
        m = types.ModuleType("constants_of_a_test")
        m.k = np.arange(7.0)  # type: ignore[attr-defined]
        source = "def f(x):\n    return x * m.k\n"
        self.check(_from_text(source, "gone_one", {"m": m}), m, "k", engine)

    def test_a_global_of_a_helper_s_module(self, engine: str) -> None:
        helper = _module("gone_helper", "G = 3.0\ndef h(x):\n    return x * G\n")
        self.check(_from_text("def f(x):\n    return h(x)\n", "gone_two", {"h": helper.h}), helper, "G", engine)

    def test_a_name_that_is_never_read(self) -> None:
        m = types.ModuleType("constants_of_a_test")
        m.k = 2.0  # type: ignore[attr-defined]
        f = _from_text("def f(x):\n    if x.shape[0] > 100:\n        return x * m.k\n    return x\n", "gone_three", {"m": m})
        f(X)
        del m.k  # type: ignore[attr-defined]
        check(f, X)


def _module(name: str, text: str) -> types.ModuleType:
    """A module whose text `inspect` and prebake find."""
    import linecache

    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module = types.ModuleType(name)
    exec(compile(text, file, "exec"), module.__dict__)
    return module


def _from_text(text: str, name: str, space: dict) -> Callable:
    module = _module(name, text)
    module.__dict__.update(space)
    return prebake.jit(module.f)


class Counting:
    """Whose attribute is another one at each look."""

    looks = 0

    @property
    def w(self):
        Counting.looks += 1
        return np.ones(7) * Counting.looks


class Invented:
    looks = 0

    def __getattr__(self, name):
        if name != "w":
            raise AttributeError(name)
        Invented.looks += 1
        return np.ones(7) * Invented.looks


class Watching:
    looks = 0

    def __init__(self):
        self.w = np.ones(7)

    def __getattribute__(self, name):
        Watching.looks += name == "w"
        return object.__getattribute__(self, name)


def test_what_runs_when_an_attribute_is_read_runs_as_often_as_in_python() -> None:
    for cls in (Counting, Invented, Watching):
        use = prebake.jit(lambda holder, x: x * holder.w + holder.w)
        for _ in range(3):
            cls.looks, holder = 0, cls()
            got = use(holder, X)
            assert cls.looks == 2
            cls.looks = 0
            np.testing.assert_array_equal(got, use.__wrapped__(holder, X))


class Shape:
    def __init__(self, dim, heads):
        self.dim, self.heads = dim, heads

    @property
    def size(self):
        return self.dim // self.heads

    @functools.cached_property
    def scale(self):
        return 1.0 / self.size


class Wider(Shape):
    @property
    def size(self):
        return 1


@prebake.jit
def _split(config, x):
    return x.reshape(config.heads, -1, config.size) * config.scale


def test_properties_of_a_configuration_are_planned(engine: str) -> None:
    x = np.arange(12.0)
    configs = [Shape(12, 3), Wider(12, 3), Shape(12, 4)]
    for _ in range(2):
        for config in configs:
            check(_split, config, x)
    before = _split.stats()["interpreter"]
    for config in configs:
        check(_split, config, x)
    assert engine == "interpreter" or _split.stats()["interpreter"] == before
