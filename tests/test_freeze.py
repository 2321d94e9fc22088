"""`prebake.freeze`: every array of a model becomes unchangeable, sharing stays sharing."""

from __future__ import annotations

import gc
import pickle
from collections import OrderedDict, namedtuple
from dataclasses import dataclass

import numpy as np
import pytest

import prebake
from prebake.vm.plan.signature import is_constant
from prebake.vm.run import _dispatch

Pair = namedtuple("Pair", "a b")


@dataclass(frozen=True)
class Locked:
    w: np.ndarray
    name: str


class Slotted:
    __slots__ = ("__private", "w")

    def __init__(self, w):
        self.w, self.__private = w, w * 2

    def private(self):
        return self.__private


class Model:
    def __init__(self):
        self.w = np.arange(12.0).reshape(3, 4)
        self.tied = self.w
        self.row = self.w[1]
        self.layers = [{"w": np.ones((2, 2), np.float32)}, (np.zeros(3), 5, "text")]
        self.ordered = OrderedDict(a=np.arange(3))
        self.pair = Pair(np.ones(2), [np.ones(3)])
        self.locked = Locked(np.ones(4), "n")
        self.slotted = Slotted(np.ones(5))
        self.itself = self


def test_an_array_gives_a_frozen_copy():
    x = np.arange(6.0).reshape(2, 3)
    y = prebake.freeze(x)
    assert y is not x and is_constant(y) and y.ctypes.data % 64 == 0
    np.testing.assert_array_equal(x, y)
    x[0] = 9  # the old memory is the caller's still
    assert y[0, 0] == 0


def test_nothing_unlocks_it():
    y = prebake.freeze(np.arange(6.0))
    for array in (y, y[1:], y.reshape(2, 3), y.view(np.int64)):
        with pytest.raises(ValueError):
            array.flags.writeable = True
        with pytest.raises(ValueError):
            array[...] = 0
    assert memoryview(y.base).readonly
    with pytest.raises(TypeError):
        memoryview(y.base)[0] = 1


def test_a_whole_model_in_place():
    model = Model()
    expected = model.w.copy()
    assert prebake.freeze(model) is model
    arrays = [model.w, model.tied, model.row, model.layers[0]["w"], model.layers[1][0], model.ordered["a"],
              model.pair.a, model.pair.b[0], model.locked.w, model.slotted.w, model.slotted.private()]
    assert all(is_constant(a) for a in arrays)
    assert model.tied is model.w
    assert np.shares_memory(model.row, model.w)
    np.testing.assert_array_equal(model.row, expected[1])
    assert type(model.pair) is Pair and type(model.ordered) is OrderedDict
    assert model.layers[1][1:] == (5, "text") and model.itself is model


def test_freezing_again_changes_nothing():
    model = Model()
    prebake.freeze(model)
    before = model.w, model.layers[1]
    prebake.freeze(model)
    assert model.w is before[0] and model.layers[1] is before[1]


@pytest.mark.parametrize("make", [
    lambda: np.asfortranarray(np.arange(12.0).reshape(3, 4)), lambda: np.arange(12.0)[::2],
    lambda: np.arange(12.0)[::-1],
    lambda: np.float32(3) * np.ones(()), lambda: np.zeros((0, 4)), lambda: np.broadcast_to(np.ones(3), (2, 3)),
    lambda: np.array(["a", "bc"]), lambda: np.ones(3, np.complex128), lambda: np.zeros(3, [("a", "i4"), ("b", "f8")]),
])
def test_every_kind_of_array(make):
    x = make()
    y = prebake.freeze(x)
    assert y.dtype == x.dtype and y.shape == x.shape
    np.testing.assert_array_equal(x, y)
    assert x.size == 0 or is_constant(y)
    assert y.flags.f_contiguous == x.flags.f_contiguous or not x.flags.f_contiguous


def test_views_of_fortran_order_and_reversed_views_share():
    base = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    model = {"all": base, "part": base[1:, ::2], "turned": base[::-1]}
    expected = {k: v.copy() for k, v in model.items()}
    prebake.freeze(model)
    for name, value in expected.items():
        np.testing.assert_array_equal(model[name], value)
        assert np.shares_memory(model[name], model["all"])


def test_two_views_of_a_base_with_gaps():
    base = np.arange(40.0)[::4]
    model = [base[:5], base[5:]]
    expected = [v.copy() for v in model]
    prebake.freeze(model)
    for found, value in zip(model, expected, strict=True):
        np.testing.assert_array_equal(found, value)
        assert is_constant(found)


def test_arrays_of_objects_are_refused():
    model = {"good": np.ones(3), "bad": np.array([object()])}
    with pytest.raises(TypeError, match="objects"):
        prebake.freeze(model)
    assert model["good"].flags.writeable


def test_pickles_and_is_released():
    y = prebake.freeze(np.arange(5.0))
    z = pickle.loads(pickle.dumps(y))
    np.testing.assert_array_equal(y, z)
    frozen = y.base
    assert type(frozen) is _dispatch.Frozen and len(frozen) == 40
    again = pickle.loads(pickle.dumps(frozen))
    assert bytes(again) == bytes(frozen)
    import weakref

    reference = weakref.ref(frozen)
    del y, frozen
    gc.collect()
    assert reference() is None


def test_keep_false_lives_in_a_file_and_reads_the_same():
    rng = np.random.default_rng(0)
    w = rng.standard_normal((200, 300)).astype(np.float32)
    frozen = prebake.freeze(w, keep=False)
    assert is_constant(frozen)

    @prebake.jit
    def product(x, w):
        return x @ w

    x = rng.standard_normal((7, 200)).astype(np.float32)
    np.testing.assert_allclose(product(x, frozen), x @ w, rtol=1e-4, atol=1e-4)
    assert frozen.base.let_go()
    np.testing.assert_array_equal(frozen, w)  # read back from the file
    np.testing.assert_allclose(product(x, frozen), x @ w, rtol=1e-4, atol=1e-4)


def test_keep_false_without_disk_warns_and_keeps(monkeypatch):
    import tempfile

    def full(**kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.warns(RuntimeWarning, match="No space left"):
        y = prebake.freeze(np.arange(5.0), keep=False)
    np.testing.assert_array_equal(y, np.arange(5.0))


def test_proxies_deques_sets_and_partial_functions_are_walked():
    from collections import deque
    from functools import partial
    from types import MappingProxyType, SimpleNamespace

    inner = {"w": np.ones(3)}
    layer = SimpleNamespace(w=np.ones(2))
    model = {"proxy": MappingProxyType(inner), "queue": deque([np.ones(4), 1]), "set": {_Hashed(np.ones(5))},
             "partial": partial(np.add, np.ones(6), out=layer), "nested": MappingProxyType({"p": MappingProxyType(inner)})}
    frozen = prebake.freeze(model)
    assert isinstance(frozen["proxy"], MappingProxyType) and isinstance(frozen["partial"], partial)
    arrays = [frozen["proxy"]["w"], frozen["queue"][0], next(iter(frozen["set"])).w, frozen["partial"].args[0], layer.w,
              frozen["nested"]["p"]["w"]]
    assert all(map(is_constant, arrays)) and arrays[0] is arrays[-1]
    assert inner["w"].flags.writeable, "what else holds the dictionary keeps its own"
    assert list(frozen["proxy"]) == ["w"] and frozen["queue"][1] == 1
    again = prebake.freeze(frozen)
    assert again["proxy"] is frozen["proxy"] and again["partial"] is frozen["partial"]


class _Hashed:
    def __init__(self, w):
        self.w = w


class _Tensor:
    def __dlpack__(self, **kwargs):
        return np.ones(3).__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return (1, 0)


@pytest.mark.parametrize(("held", "kind", "cure"), [
    (_Tensor(), "_Tensor", "np.from_dlpack"), (np.ma.masked_array([1.0, 2.0], [True, False]), "MaskedArray", "a plain array"),
    (np.matrix([[1.0]]), "matrix", "a plain array")])
def test_what_cannot_be_frozen_is_told_and_stays(held, kind, cure):
    model = {"layers": [{"w": held, "b": np.ones(3)}]}
    with pytest.warns(RuntimeWarning, match=rf"left a value as it is, .*\['layers'\]\[0\]\['w'\].*{kind}.*{cure}") as told:
        frozen = prebake.freeze(model)
    assert len(told) == 1 and told[0].filename == __file__
    assert frozen["layers"][0]["w"] is held and is_constant(frozen["layers"][0]["b"])
    with pytest.warns(RuntimeWarning, match=rf"the object: a .*{kind}"):
        assert prebake.freeze(held) is held


def test_files_of_arrays_and_functions_are_told(tmp_path):
    np.savez(tmp_path / "w.npz", w=np.ones(3))
    with np.load(tmp_path / "w.npz") as file:
        with pytest.warns(RuntimeWarning, match=r"NpzFile makes its arrays anew.*dict\(\)"):
            prebake.freeze(file)
        assert is_constant(prebake.freeze(dict(file))["w"])
    for function in (prebake.jit(lambda x: x), lambda x: x, Slotted(np.ones(2)).private):
        with pytest.warns(RuntimeWarning, match="name the object that holds its weights"):
            prebake.freeze(function)


def test_what_holds_no_arrays_is_silent():
    import warnings
    from collections import UserDict, UserList

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for value in ([], {}, 3, "text", None, {"f": np.tanh, "g": len}, Slotted(1.0), UserDict(), range(3), {1, 2}):
            prebake.freeze(value)
        held = prebake.freeze([UserDict(w=np.ones(3)), UserList([np.ones(2)])])
    assert is_constant(held[0]["w"]) and is_constant(held[1][0])


def test_an_array_of_objects_is_named():
    with pytest.raises(TypeError, match=r"names.*is an array of Python objects"):
        prebake.freeze({"names": np.array(["a", None], object)})
