"""The option `precision`: products whose operands are rounded to 16 bits, on every engine, whatever can change."""

from __future__ import annotations

import numpy as np
import pytest
from bundle_project import floats

import prebake
from prebake.templates import levels
from prebake.vm import options
from prebake.vm.plan.code import PRODUCT_DTYPES
from prebake.vm.run import _dispatch
from prebake.vm.run.precision import rounded

HOST = [levels.host_level().name]

PRECISIONS = ("bfloat16", "float16")
# how far an operand moves when its last float32 bit decides how it is rounded: 2**-8, 2**-11, relative
MOVE = {"bfloat16": 2.0**-8, "float16": 2.0**-11}


def net(w, x):
    y = np.maximum(x @ w["in"] + w["bias"], 0)
    return (y @ w["mid"] + y) @ w["out"]


def attention(q, k, v):
    s = q @ k.transpose(0, 2, 1) * np.float32(0.125)
    s = np.exp(s - s.max(-1, keepdims=True))
    return s / s.sum(-1, keepdims=True) @ v


def products(x, y, z):
    x2 = x.copy()
    x2 @= z
    return (np.einsum("ij,kj->ik", x, y), np.einsum("ij,kj,kl->il", x, y, x), np.einsum("ij,ij->ij", x, y),
            x[0] @ y[0], np.tensordot(x, y, ([1], [1])), np.dot(x, y.T), np.inner(x, y), np.vdot(x, y), x2,
            np.outer(x[0], y[0]), np.sum(x * y), x.astype(np.float64) @ y.T.astype(np.float64), (x + 1j * y) @ x.T)


def weights():
    return {"in": floats(40, 70), "bias": floats(70, seed=1), "mid": floats(70, 70, seed=2), "out": floats(70, 3, seed=3)}


def assert_close(got, want, bound):
    if isinstance(want, tuple):
        for g, w in zip(got, want, strict=True):
            assert_close(g, w, bound)
        return
    assert type(got) is type(want) and got.dtype == want.dtype and np.shape(got) == np.shape(want)
    np.testing.assert_allclose(got, want, rtol=bound, atol=bound * (np.abs(want).max(initial=0) + 1e-30))


def by_hand(w, x, precision):
    def product(a, b):
        return rounded(a, precision) @ rounded(b, precision)
    y = np.maximum(product(x, w["in"]) + w["bias"], 0)
    return product(product(y, w["mid"]) + y, w["out"])


@pytest.mark.parametrize("precision", PRECISIONS)
def test_weights_that_can_change_and_weights_that_cannot(precision):
    """The same bits on the tape, packed or not, and the reference's up to how its own intermediate results are rounded."""
    fast = prebake.jit(net, options={"precision": precision})
    live = weights()
    frozen = prebake.freeze(weights())
    for rows in (0, 1, 2, 3, 5, 8, 33):
        x = floats(rows, 40, seed=rows)
        with prebake.engine("interpreter"):
            want = fast(live, x)
        np.testing.assert_array_equal(want, by_hand(live, x, precision))
        with prebake.engine("jit"):
            got = fast(frozen, x)
            np.testing.assert_array_equal(fast(live, x), got)
        assert_close(got, want, 8 * MOVE[precision])
        if rows:
            assert np.abs(got - net(live, x)).max() > 1e-6 * np.abs(want).max()  # the option does something


@pytest.mark.parametrize("precision", PRECISIONS)
def test_kinds_of_products(precision):
    """One product each: nothing but the order of float32 sums differs from the reference."""
    fast = prebake.jit(products, options={"precision": precision})
    for rows in (1, 4, 17):
        x, y, z = floats(rows, 24), floats(rows, 24, seed=1), floats(24, 24, seed=2)
        with prebake.engine("interpreter"):
            want = fast(x, y, z)
        with prebake.engine("jit"):
            got = fast(x, y, z)
        assert_close(got[:1] + got[2:], want[:1] + want[2:], 1e-5)
        assert_close(got[1], want[1], 8 * MOVE[precision])
        exact = products(x, y, z)
        for i in (2, 9, 10, 11, 12):  # none of what the option names
            assert_close(want[i], exact[i], 1e-6)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_attention_and_fusions_off(precision):
    q, k, v = (floats(3, 20, 16, seed=s) for s in range(3))
    for off in ((), options.FUSIONS):
        fast = prebake.jit(attention, options={"precision": precision, "disable_fusions": off})
        with prebake.engine("interpreter"):
            want = fast(q, k, v)
        with prebake.engine("jit"):
            assert_close(fast(q, k, v), want, 8 * MOVE[precision])


def test_explain_and_default():
    w, x = prebake.freeze(weights()), floats(2, 40)
    told = prebake.jit(net, options={"precision": "bfloat16"}).explain(w, x)
    assert any("3 products round their operands to bfloat16" in rule for rule in told.rules)
    assert not any("precision" in rule for rule in prebake.jit(net).explain(w, x).rules)
    with pytest.raises(prebake.ConfigError, match="float32, bfloat16, float16"):
        prebake.jit(net, options={"precision": "float8"})(w, x)
    assert options.key_options({"precision": "bfloat16"}) == {"precision": "bfloat16"}
    assert options.key_options({"precision": "float32"}) == {}
    assert _dispatch.PRODUCT_DTYPES == PRODUCT_DTYPES


def test_configure_drops_plans_of_another_precision():
    w, x = prebake.freeze(weights()), floats(2, 40)
    fast = prebake.jit(net)
    try:
        with prebake.engine("jit"):
            exact = fast(w, x)
            prebake.configure(precision="bfloat16")
            coarse = fast(w, x)
            prebake.configure(precision=None)
            again = fast(w, x)
    finally:
        prebake.configure(precision=None)
    np.testing.assert_array_equal(exact, again)
    assert (exact != coarse).any()
    assert_close(coarse, by_hand(weights(), x, "bfloat16"), 8 * MOVE["bfloat16"])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("where", ["decorator", "yaml"])
def test_in_a_bundle(precision, where, tmp_path):
    own = {"precision": precision} if where == "decorator" else None
    frozen, live = prebake.freeze(weights()), weights()
    recorded = prebake.jit(net, options=own)
    with prebake.profile(str(tmp_path / "profile.json")), prebake.engine("jit"):
        for rows in (1, 9):
            recorded(frozen, floats(rows, 40))
    path = tmp_path / "buckets.yaml"
    prebake.plan(str(tmp_path / "profile.json"), str(path), measure=False)
    if where == "yaml":
        text = path.read_text()
        head, line, tail = text.partition("    buckets:")
        path.write_text(f"{head}    options: {{precision: {precision}}}\n{line}{tail}")
    built = str(prebake.build(str(path), str(tmp_path / "bundle"), targets=HOST))
    fast = prebake.jit(net, options=own)
    prebake.load_bundle(built)
    for rows in (1, 9):
        x = floats(rows, 40)
        with prebake.engine("prebuilt"):
            got = fast(frozen, x)
            np.testing.assert_array_equal(fast(live, x), got)
        assert_close(got, by_hand(live, x, precision), 8 * MOVE[precision])
    other = prebake.jit(net, options={"precision": "float32"}) if where == "decorator" else None
    if other is not None:
        assert other.explain(frozen, floats(1, 40)).reason == "STALE_STAMP"
    else:
        with prebake.engine("interpreter"):  # the YAML's options are the function's on every engine
            np.testing.assert_array_equal(fast(frozen, x), by_hand(live, x, precision))


def test_a_bundle_is_not_served_under_another_configured_precision(tmp_path):
    frozen, x = prebake.freeze(weights()), floats(3, 40)
    recorded = prebake.jit(net)
    with prebake.profile(str(tmp_path / "profile.json")), prebake.engine("jit"):
        recorded(frozen, x)
    prebake.plan(str(tmp_path / "profile.json"), str(tmp_path / "buckets.yaml"), measure=False)
    prebake.load_bundle(str(prebake.build(str(tmp_path / "buckets.yaml"), str(tmp_path / "bundle"), targets=HOST)))
    fast = prebake.jit(net)
    fast(frozen, x)
    assert fast.stats()["prebuilt"] == 1
    prebake.configure(precision="float16")
    try:
        with pytest.warns(Warning, match="precision"):
            got = fast(frozen, x)
        assert fast.explain(frozen, x).reason == "STALE_STAMP"
    finally:
        prebake.configure(precision=None)
    assert_close(got, by_hand(weights(), x, "float16"), 8 * MOVE["float16"])


def test_the_interpreter_prepares_a_program_once_for_each_precision(monkeypatch):
    from prebake.vm.run import precision as module

    made = []
    real = module.handlers
    monkeypatch.setattr(module, "handlers", lambda *args: made.append(args[2]) or real(*args))
    x = np.ones((3, 4), np.float32)
    f = prebake.jit(lambda x: x @ x.T + 1, options={"engine": "interpreter", "precision": "bfloat16"})
    g = prebake.jit(f.fn, options={"engine": "interpreter"})
    for _ in range(3):
        f(x)
        g(x)
    assert made == ["bfloat16"]
