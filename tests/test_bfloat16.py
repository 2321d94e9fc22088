"""bfloat16: every operation rounds as ml_dtypes' does, on the tape and in C; promotions are those that it registered."""

from __future__ import annotations

import copy
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_build import results_in_c
from test_half import _words
from test_typed import compiled

import prebake
from prebake.pgo.buckets import Limits
from prebake.pgo.planning import plan as plan_buckets
from prebake.vm.run.bundle import usable_levels
from prebake.vm.run.packs import load_packs

ml_dtypes = pytest.importorskip("ml_dtypes")
bfloat16 = ml_dtypes.bfloat16


def values() -> dict[str, Any]:
    """The operands that expressions name."""
    rng = np.random.default_rng(7)
    x: Any = rng.normal(size=(5, 37)).astype(bfloat16)
    x[0, :5] = [np.inf, np.nan, -0.0, 1e-40, 3e38]
    return {"x": x, "v": rng.normal(size=37).astype(bfloat16), "f": rng.normal(size=(5, 37)).astype(np.float32),
            "h": rng.normal(size=(5, 37)).astype(np.float16), "a": rng.normal(size=(5, 37)) * 1000,
            "n": rng.integers(-9, 9, (5, 37)), "i8": np.arange(-18, 19, dtype=np.int8), "i16": np.arange(37, dtype=np.int16),
            "b": x.astype(np.float32) > 0, "i": bfloat16(0.1)}


# results are compared bit for bit (every NaN alike)
EXACT = """
x + v
x * v - x
x / v + x
(x + v) * (x - v)
x * 3 + 1
x + 257
x * 0.1
x < 0.1
x < 1
x == v
-x
abs(x)
x // v, x % v
x // 2, np.fmod(x, v)
np.maximum(x, 0), np.maximum(0, x), np.minimum(x, v), np.fmax(v, x), np.fmin(x, 0)
np.sqrt(np.abs(x)), np.square(x), np.reciprocal(v)
x ** 2
np.floor(x), np.ceil(x), np.rint(x), np.trunc(x)
np.sign(x), np.copysign(x, v)
np.isnan(x), np.isfinite(x), np.isinf(x), np.signbit(x)
np.logical_and(x, v), np.logical_not(x)
x.astype(np.float32) * 0.1, x.astype(np.float64), x.astype(np.float16)
np.nan_to_num(f).astype(np.int32), v.astype(np.int32), v.astype(np.int64), v.astype(bool)
a.astype("bfloat16"), f.astype("bfloat16") + x, h.astype("bfloat16"), n.astype("bfloat16"), i8.astype("bfloat16")
np.asarray(a, dtype="bfloat16"), np.array(f, dtype="bfloat16")
x + f
x + h
x + n
x + a
x + i8
x + i16
x + b
x * i
i * i + i
i + 1
i + 1.0
i / 3
i < 0.1
float(i) + 1.0, int(v[3]), bool(i), v.item(3), x.item(2)
x.astype(np.uint64), v + n.astype(np.uint64)
x[1, 2] * x[2, 3] + x[3, 1]
float(x[1, 2]) + 1.0
np.where(b, x, 0), np.where(b, x, v)
np.where(b, x, 0.1)
np.clip(x, -1, 1)
np.clip(x, v, 1)
np.clip(x, -0.5, f), np.clip(i, 0, 1), np.clip(x, 0, None)
np.full((3, 2), 0.1, dtype="bfloat16"), np.full_like(x, 3)
np.zeros(4, "bfloat16") + 1, np.ones_like(x), np.zeros_like(f, dtype="bfloat16")
np.concatenate([x, f]), np.stack([v, v])
v.max(), x[1:].max(axis=1), x[1:].min(), np.argmax(x, axis=0), np.any(x, axis=0), np.argmin(v)
x.max(axis=1), x.min(axis=0)
x[b], x[::-1, 1:], x.T.copy(), x.reshape(37, 5), np.roll(x, 3, axis=1)
np.count_nonzero(x), np.nonzero(v)
v.sum(), x[1:].sum(axis=0), np.sum(x[1:], axis=1), x[1:].mean(axis=1), np.mean(v)
np.cumsum(v), np.prod(v)
x[1:].var(axis=0), np.std(v)
np.sum(v, dtype=np.float32)
f.sum(axis=0, dtype="bfloat16")
v @ v, x @ v
np.matmul(x, x.T), x @ n.T, x @ f.T
np.dot(x, v)
np.sort(v), np.median(v)
""".strip().splitlines()

# ml_dtypes takes C's float32 functions: the last place of those may round to the next bfloat16
NEAR = """
np.exp(x) * 2
np.tanh(x + v)
np.log(np.abs(x) + 1)
1 / (1 + np.exp(-x))
np.power(np.abs(x), v)
np.hypot(x, v), np.arctan2(x, v)
np.exp(v - v.max())
""".strip().splitlines()


def same(got: Any, want: Any, places: int = 0) -> bool:
    """The same types, dtypes, shapes and bits, every NaN alike; places: how far numbers may be apart."""
    if isinstance(want, tuple):
        return len(got) == len(want) and all(same(g, w, places) for g, w in zip(got, want, strict=True))
    g, w = np.asarray(got), np.asarray(want)
    if type(got) is not type(want) or g.dtype != w.dtype or g.shape != w.shape:
        return False
    if g.dtype.kind not in "fV":
        return bool(np.array_equal(g, w))
    wide = [v.astype(np.float64) for v in (g, w)]
    if places:
        return bool(np.allclose(*wide, rtol=places * 2.0**-7, atol=0, equal_nan=True))
    return bool(np.array_equal(*wide, equal_nan=True)
                and np.array_equal(*(np.signbit(np.nan_to_num(v)) for v in wide)))


def _called(text: str) -> tuple[Any, list[Any]]:
    names = [name for name in values() if name in set(_words(text))]
    return compiled(text, names), [values()[name] for name in names]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("expression", EXACT + NEAR)
def test_on_the_tape(expression: str) -> None:
    fn, args = _called(f"return {expression}")
    want = fn(*copy.deepcopy(args))
    jitted = prebake.jit(fn)
    with prebake.engine("jit"):
        got = jitted(*copy.deepcopy(args))
    assert same(got, want, int(expression in NEAR)), f"got {got!r}, expected {want!r}"
    assert jitted.stats()["jit"] == 1, jitted.explain(*args).detail
    with prebake.engine("interpreter"):
        assert same(prebake.jit(fn)(*copy.deepcopy(args)), want)


STORES = """
x += v
x *= 3
x *= 0.1
x[1:] = x[:-1] * 3
x[0] = 0.1
x[b] = 1
x[:, 0] = a[:, 0]
x[:] = h
x[:] = i16
n[:] = np.nan_to_num(f)
x[[1, 2]] += i
f[:] = x * 3
f += x
for k in range(1, 5): x[k] = x[k - 1] * 2 + v * i
for k in range(5): i = i * 2 + x[k, 4]; v[k] = i
np.add(x, v, out=x)
""".strip().splitlines()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("statement", STORES)
def test_stores(statement: str) -> None:
    fn, args = _called(statement)
    want_args, got_args = copy.deepcopy(args), copy.deepcopy(args)
    fn(*want_args)
    jitted = prebake.jit(fn)
    with prebake.engine("jit"):
        jitted(*got_args)
    assert all(map(same, got_args, want_args)), f"got {got_args}, expected {want_args}"
    assert jitted.stats()["jit"] == 1, jitted.explain(*args).detail


@pytest.mark.parametrize("expression", ["x & x", "~x", "x << 1", "np.concatenate([x, h])", "x[i]", "round(i)"])
@pytest.mark.parametrize("engine", ["jit", "interpreter"])
def test_refusals_are_ml_dtypes(expression: str, engine: str) -> None:
    fn, args = _called(f"return {expression}")
    with pytest.raises(Exception) as want:
        fn(*args)
    with prebake.engine(engine), pytest.raises(want.type):
        prebake.jit(fn)(*args)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_as_c() -> None:
    for expression, got, want in results_in_c((e, *_called(f"return {e}")) for e in EXACT):
        assert same(got, want), f"{expression}: got {got!r}, expected {want!r}"


def test_every_bit_pattern_moves_both_ways() -> None:
    """Widening and narrowing of all bfloat16, and narrowing of float32 beside every tie."""
    bits = np.arange(1 << 16, dtype=np.uint32)
    f = np.concatenate([((bits << 16) + k).view(np.float32) for k in (0, 1, 0x7fff, 0x8000, 0x8001, 0xffff)])

    @prebake.jit
    def there_and_back(f: Any) -> Any:
        x = f.astype(bfloat16)
        return x, x.astype(np.float32)

    with prebake.engine("jit"):
        x, wide = there_and_back(f)
    assert there_and_back.stats()["jit"] == 1
    want = f.astype(bfloat16)
    assert np.array_equal(x.view(np.uint16), want.view(np.uint16))
    assert np.array_equal(wide.view(np.uint32), want.astype(np.float32).view(np.uint32))


def test_named_in_every_way() -> None:
    @prebake.jit
    def made(x: Any) -> Any:
        return (x.astype(ml_dtypes.bfloat16), np.zeros(3, bfloat16), np.asarray(x, dtype=np.dtype(bfloat16)),
                np.full(2, 0.1, dtype="bfloat16"))

    x = np.linspace(0, 1, 7, dtype=np.float32)
    with prebake.engine("jit"):
        assert same(made(x), made.__wrapped__(x))
    assert made.stats()["jit"] == 1


MODULE = """
import numpy as np
import prebake


@prebake.jit
def layer(x, w, s):
    h = np.maximum(x * w + s, 0)
    return h / (h.max(axis=1, keepdims=True) + 1), h.sum(axis=0), np.exp(h), x @ w.T


@prebake.jit
def other(x):
    return np.sqrt(x) + 1
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "served_halves.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("served_halves")
    del sys.modules["served_halves"]


def run_elsewhere(text: str, folder: Path) -> None:
    """Run text in a process of its own that finds the modules of a folder, away from the checkout's `prebake/`."""
    path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    subprocess.run([sys.executable, "-c", text], check=True, env={**os.environ, "PYTHONPATH": path}, cwd=folder)


def test_is_optional(tmp_path: Path, module: Any) -> None:
    """Nothing loads ml_dtypes before a bfloat16 is there."""
    text = ("import sys, numpy as np, prebake\nfrom served_halves import other\n"
            "with prebake.engine('jit'):\n    for d in ('e', 'f', 'd'): other(np.ones(3, d))\n"
            "assert other.stats()['jit'] == 3 and 'ml_dtypes' not in sys.modules")
    run_elsewhere(text, tmp_path)


@pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_prebuilt(tmp_path: Path, module: Any) -> None:
    """Recorded, planned, built, verified and served; another dtype of the same size is not served by it."""
    rng = np.random.default_rng(1)

    def args(n: int) -> list[Any]:
        x = rng.normal(size=(n, 9)).astype(bfloat16)
        x[0, 0] = np.nan
        return [x, rng.normal(size=(n, 9)).astype(bfloat16), bfloat16(0.3)]

    with prebake.profile(str(tmp_path / "profile.json")):
        for n in (3, 8, 20):
            module.layer(*args(n))
    plan_buckets(str(tmp_path / "profile.json"), str(tmp_path / "buckets.yaml"),
                 limits=Limits(max_kernels=100, max_bytes=1 << 40, max_build_s=1e9, min_share=0.0))
    prebake.build(str(tmp_path / "buckets.yaml"), str(tmp_path / "bundle"), targets=usable_levels()[:1])
    assert prebake.load_bundle(str(tmp_path / "bundle")).accepted
    layer = prebake.jit(module.layer.__wrapped__)
    for n in (3, 8, 20):
        given = args(n)
        with prebake.engine("prebuilt"):
            got = layer(*given)
        want = module.layer.__wrapped__(*given)
        assert same(got[:2], want[:2])
        assert same(got[2:], want[2:], 1)
    assert layer.stats()["prebuilt"] == 3
    layer(*[np.asarray(v).astype(np.float16)[()] for v in given])
    assert layer.stats()["prebuilt"] == 3
    with prebake.profile(str(tmp_path / "profile.json")):
        for dtype in (np.float32, bfloat16):
            module.other(np.ones(3, dtype))
    plan_buckets(str(tmp_path / "profile.json"), str(tmp_path / "buckets.yaml"),
                 limits=Limits(max_kernels=100, max_bytes=1 << 40, max_build_s=1e9, min_share=0.0))
    prebake.build(str(tmp_path / "buckets.yaml"), str(tmp_path / "bundle"), targets=usable_levels()[:1])
    text = ("import sys, numpy as np, prebake\nsys.modules['ml_dtypes'] = None\n"  # as if it were not installed
            f"prebake.load_bundle({str(tmp_path / 'bundle')!r})\nfrom served_halves import other\n"
            "with prebake.engine('prebuilt'): other(np.ones(3, np.float32))\nassert other.stats()['prebuilt'] == 1")
    run_elsewhere(text, tmp_path)


def test_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays beside the weights of products keep their dtype on the disk."""
    text = ("import numpy as np, ml_dtypes\nMODEL = {'w': np.ones((40, 70), np.float32),\n"
            "         'b': np.linspace(0, 1, 70).astype(ml_dtypes.bfloat16)}\n")
    (tmp_path / "halves_to_pack.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    prebake.pack("halves_to_pack:MODEL", tmp_path / "packs")
    got = load_packs(tmp_path / "packs")["['b']"]
    assert got.dtype == bfloat16 and same(got, sys.modules["halves_to_pack"].MODEL["b"])
    del sys.modules["halves_to_pack"]
