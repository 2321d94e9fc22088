"""Tensors of other libraries, by DLPack, in any argument position: their memory is what the function works on."""

from __future__ import annotations

import collections
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import prebake

Pair = collections.namedtuple("Pair", "w b")


class Tensor:
    """A tensor as other libraries make them: no array, but memory that DLPack hands out. device: 2 is another one."""

    def __init__(self, data: Any, device: int = 1) -> None:
        self.data, self.device = np.asarray(data), device

    def __dlpack__(self, **options: Any) -> Any:
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0


@dataclass
class Layer:
    w: Any
    b: Any

    def apply(self, x):
        return x @ self.w + self.b

    @prebake.jit
    def run(self, x):
        return self.apply(x)


class Net:
    def __init__(self, *layers):
        self.layers = list(layers)


pytestmark = pytest.mark.usefixtures("engine")


@prebake.jit
def add(x, y):
    return x * 2 + y


@prebake.jit
def accumulate(x, y):
    x += y
    return x


@prebake.jit
def layered(net, x):
    for layer in net.layers:
        x = x @ layer.w + layer.b
    return x


@prebake.jit
def keyed(p, x):
    return p["pair"].w @ x + p["rest"][0]


A, V = np.arange(9.0).reshape(3, 3), np.arange(3.0)


def test_in_any_position(engine: str) -> None:
    before = add.stats()[engine]
    for x, y in ((Tensor(A), A), (A, Tensor(V)), (Tensor(A.T), Tensor(A)), (Tensor(A), 1), (Tensor(A[:, ::-1]), Tensor(A[:1]))):
        got = add(x, y)
        assert type(got) is np.ndarray
        held = [v.data if isinstance(v, Tensor) else v for v in (x, y)]
        np.testing.assert_array_equal(got, add.__wrapped__(*held))
    assert add.stats()[engine] == before + 5, "a call is counted once"


def test_writes_are_in_the_tensor_and_arguments_come_back_as_they_are() -> None:
    tensor = Tensor(A.copy())
    assert accumulate(tensor, Tensor(V)) is tensor
    np.testing.assert_array_equal(tensor.data, A + V)
    again = Tensor(A.copy())
    accumulate(again, again)
    np.testing.assert_array_equal(again.data, A * 2)


def test_inside_of_containers_and_objects() -> None:
    net = Net(Layer(Tensor(A), V), Layer(A, Tensor(V)))
    np.testing.assert_array_equal(layered(net, Tensor(V)), (V @ A + V) @ A + V)
    assert type(net.layers[0].w) is Tensor, "the caller's objects stay as they are"
    np.testing.assert_array_equal(net.layers[0].run(V), V @ A + V)
    p = {"pair": Pair(Tensor(A), 1), "rest": (Tensor(V),)}
    np.testing.assert_array_equal(keyed(p, V), A @ V + V)


def test_what_numpy_cannot_look_at_is_refused() -> None:
    with pytest.raises(prebake.UnsupportedError, match=r"'y' is a .*Tensor that NumPy cannot look at: it is not in") as caught:
        add(A, Tensor(A, device=2))
    assert caught.value.kind == "tensor"
    python = prebake.jit(lambda x: x.device, fallback="python")
    with pytest.warns(RuntimeWarning, match="cannot look at"):
        assert python(Tensor(A, device=2)) == 2
    assert "cannot look at" in str(add.explain(A, Tensor(A, device=2)))
    assert add.explain(A, Tensor(A)).engine in ("jit", "interpreter")
