"""Layer functions: against definitions written out element by element; compiled and run, the same bits."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from prebake.templates.registry import BY_NAME
from prebake.vm import ops
from prebake.vm.lang.frontend import compile_function
from prebake.vm.lang.verifier import check_program
from prebake.vm.run.interpreter import run_program

RNG = np.random.default_rng(7)


def f32(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def close(a, b):
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def correlate(x, w, bias, stride, padding, dilation, groups):
    """Cross-correlation by its definition."""
    n, _, h, width = x.shape
    o, per, kh, kw = w.shape
    (sh, sw), (ph, pw), (dh, dw) = stride, padding, dilation
    oh, ow = (h + 2 * ph - dh * (kh - 1) - 1) // sh + 1, (width + 2 * pw - dw * (kw - 1) - 1) // sw + 1
    y = np.zeros((n, o, oh, ow))
    for b, f, i, j in itertools.product(range(n), range(o), range(oh), range(ow)):
        total = 0.0 if bias is None else float(bias[f])
        for c, u, v in itertools.product(range(per), range(kh), range(kw)):
            r, s = i * sh + u * dh - ph, j * sw + v * dw - pw
            if 0 <= r < h and 0 <= s < width:
                total += float(x[b, f // (o // groups) * per + c, r, s]) * float(w[f, c, u, v])
        y[b, f, i, j] = total
    return y


@pytest.mark.parametrize("stride, padding, dilation, groups", [
    (1, 0, 1, 1), (2, 1, 1, 1), ((1, 2), (2, 0), (2, 1), 1), (1, 1, 1, 2), (2, 1, 2, 4),
])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_conv2d(stride, padding, dilation, groups, layout):
    x, w, bias = f32(2, 4, 7, 6), f32(8, 4 // groups, 3, 2), f32(8)

    def pair(v):
        return v if isinstance(v, tuple) else (v, v)

    want = correlate(x, w, bias, pair(stride), pair(padding), pair(dilation), groups)
    given = x.transpose(0, 2, 3, 1) if layout == "NHWC" else x
    got = ops.conv2d(given, w, bias, stride, padding, dilation, groups, layout)
    assert got.dtype == np.float32
    close(got.transpose(0, 3, 1, 2) if layout == "NHWC" else got, want)


def test_depthwise_and_conv1d():
    x, w = f32(2, 3, 5, 5), f32(6, 1, 3, 3)
    close(ops.depthwise(x, w, padding=1), correlate(x, w, None, (1, 1), (1, 1), (1, 1), 3))
    x, w = f32(2, 4, 9), f32(6, 2, 3)
    want = correlate(x[:, :, None], w[:, :, None], None, (1, 2), (0, 1), (1, 2), 2)[:, :, 0]
    close(ops.conv1d(x, w, stride=2, padding=1, dilation=2, groups=2), want)
    close(ops.conv1d(x.transpose(0, 2, 1), w, stride=2, padding=1, dilation=2, groups=2, layout="NLC"),
          want.transpose(0, 2, 1))


@pytest.mark.parametrize("size, stride, padding", [(2, None, 0), (3, 2, 1), ((2, 3), (1, 2), (1, 0))])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_pooling(size, stride, padding, layout):
    x = f32(2, 3, 7, 8)
    kh, kw = size if isinstance(size, tuple) else (size, size)
    sh, sw = (kh, kw) if stride is None else stride if isinstance(stride, tuple) else (stride, stride)
    ph, pw = padding if isinstance(padding, tuple) else (padding, padding)
    low = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)), constant_values=-np.inf)
    zero = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    oh, ow = (low.shape[2] - kh) // sh + 1, (low.shape[3] - kw) // sw + 1
    windows = [[(..., slice(i * sh, i * sh + kh), slice(j * sw, j * sw + kw)) for j in range(ow)] for i in range(oh)]
    top = np.array([[low[w].max((2, 3)) for w in row] for row in windows])
    mid = np.array([[zero[w].mean((2, 3)) for w in row] for row in windows])
    given = x.transpose(0, 2, 3, 1) if layout == "NHWC" else x
    back = (0, 3, 1, 2) if layout == "NHWC" else (0, 1, 2, 3)
    close(ops.max_pool2d(given, size, stride, padding, layout).transpose(back), top.transpose(2, 3, 0, 1))
    got = ops.avg_pool2d(given, size, stride, padding, layout)
    assert got.dtype == np.float32
    close(got.transpose(back), mid.transpose(2, 3, 0, 1))


def test_global_avg_pool():
    x = f32(2, 3, 4, 5)
    close(ops.global_avg_pool(x), x.reshape(2, 3, -1).mean(-1))
    close(ops.global_avg_pool(x.transpose(0, 2, 3, 1), layout="NHWC"), x.reshape(2, 3, -1).mean(-1))


def test_activations():
    x = np.linspace(-6, 6, 101, dtype=np.float32)
    wide = x.astype(np.float64)
    close(ops.relu(x), np.where(x > 0, x, 0))
    close(ops.sigmoid(x), 1 / (1 + np.exp(-wide)))
    close(ops.silu(x), wide / (1 + np.exp(-wide)))
    close(ops.tanh(x), np.tanh(wide))
    exact = np.array([0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in wide])
    close(ops.gelu(x, approximate=False), exact)
    assert np.abs(ops.gelu(x) - exact).max() < 2e-3
    for fn in (ops.relu, ops.sigmoid, ops.silu, ops.tanh, ops.gelu, ops.softmax, ops.log_softmax, ops.layer_norm,
               ops.rms_norm):
        assert fn(x).dtype == np.float32, fn.__name__
        assert fn(wide).dtype == np.float64, fn.__name__


def test_softmax():
    x = f32(3, 5) * 100
    for axis in (0, 1, -1):
        got = ops.softmax(x, axis)
        close(got.sum(axis), np.ones(got.sum(axis).shape))
        close(np.exp(ops.log_softmax(x, axis)), got)
    assert np.array_equal(ops.softmax(x).argmax(1), x.argmax(1))


def test_norms():
    x, g, b = f32(4, 8), f32(8), f32(8)
    wide = x.astype(np.float64)
    deviation = np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    close(ops.layer_norm(x, g, b), (wide - wide.mean(1, keepdims=True)) / deviation * g + b)
    close(ops.rms_norm(x, g), wide / np.sqrt((wide ** 2).mean(1, keepdims=True) + 1e-6) * g)
    images, mean, var, w, bias = f32(2, 3, 4, 5), f32(3), np.abs(f32(3)), f32(3), f32(3)
    want = np.stack([(images[:, c] - mean[c]) / np.sqrt(var[c] + 1e-5) * w[c] + bias[c] for c in range(3)], 1)
    close(ops.batch_norm(images, mean, var, w, bias), want)
    close(ops.batch_norm(images.transpose(0, 2, 3, 1), mean, var, w, bias, layout="NHWC"), want.transpose(0, 2, 3, 1))
    close(ops.batch_norm(images[:, :, 0], mean, var), (want[:, :, 0] - bias[:, None]) / w[:, None])
    close(ops.batch_norm(images[:, :, 0, 0], mean, var), ((want - bias[:, None, None]) / w[:, None, None])[:, :, 0, 0])


def test_lookups():
    ids, table = RNG.integers(0, 9, (3, 4)), f32(9, 5)
    close(ops.embedding(ids, table), np.array([[table[i] for i in row] for row in ids]))
    weights = f32(3, 4)
    close(ops.embedding_bag(ids, table), np.array([sum(table[i] for i in row) for row in ids]))
    close(ops.embedding_bag(ids, table, mode="mean"), np.array([sum(table[i] for i in row) / 4 for row in ids]))
    close(ops.embedding_bag(ids, table, weights),
          np.array([sum(table[i] * w for i, w in zip(r, ws, strict=True)) for r, ws in zip(ids, weights, strict=True)]))


def test_attention():
    q, k, v = f32(2, 3, 4), f32(2, 5, 4), f32(2, 5, 6)
    mask = np.where(RNG.random((3, 5)) > 0.3, 0, -np.inf).astype(np.float32)
    mask[:, 0] = 0

    def reference(b, i, keep):
        weights = np.array([math.exp(float(q[b, i] @ k[b, j]) / 2) * keep[j] for j in range(5)])
        return (weights / weights.sum()) @ v[b]

    full = np.array([[reference(b, i, np.ones(5)) for i in range(3)] for b in range(2)])
    masked = np.array([[reference(b, i, np.exp(mask[i])) for i in range(3)] for b in range(2)])
    causal = np.array([[reference(b, i, np.arange(5) <= i + 2) for i in range(3)] for b in range(2)])
    assert ops.attention(q, k, v).dtype == np.float32
    close(ops.attention(q, k, v), full)
    close(ops.attention(q, k, v, mask), masked)
    close(ops.attention(q, k, v, causal=True), causal)
    close(ops.attention(q, k, v, scale=0.5), full)


def sigma(v):
    return 1 / (1 + np.exp(-v))


def test_recurrent_cells():
    x, h, c = f32(2, 3), f32(2, 4), f32(2, 4)
    wx, wh, b = f32(3, 16), f32(4, 16), f32(16)
    i, f, g, o = np.split(x @ wx + h @ wh + b, 4, axis=1)
    c_want = sigma(f) * c + sigma(i) * np.tanh(g)
    h_got, c_got = ops.lstm_cell(x, h, c, wx, wh, b)
    close(c_got, c_want)
    close(h_got, sigma(o) * np.tanh(c_want))
    wx, wh, bx, bh = f32(3, 12), f32(4, 12), f32(12), f32(12)
    rx, zx, nx = np.split(x @ wx + bx, 3, axis=1)
    rh, zh, nh = np.split(h @ wh + bh, 3, axis=1)
    z = sigma(zx + zh)
    close(ops.gru_cell(x, h, wx, wh, bx, bh), (1 - z) * np.tanh(nx + sigma(rx + rh) * nh) + z * h)


def test_resize():
    x = f32(2, 3, 4, 6)
    close(ops.resize(x, (8, 12)), x.repeat(2, 2).repeat(2, 3))
    close(ops.resize(x, (2, 3)), x[:, :, ::2, ::2])
    close(ops.resize(x, (4, 6), mode="bilinear"), x)
    ramp = np.broadcast_to(np.arange(6, dtype=np.float32), (1, 1, 4, 6))
    want = np.clip((np.arange(12) + 0.5) / 2 - 0.5, 0, 5)
    got = ops.resize(ramp, (8, 12), mode="bilinear")
    assert got.dtype == np.float32
    close(got, np.broadcast_to(want, (1, 1, 8, 12)))
    close(ops.resize(x.transpose(0, 2, 3, 1), 5, layout="NHWC").transpose(0, 3, 1, 2), ops.resize(x, (5, 5)))


def test_pad():
    x = f32(2, 3)
    assert np.array_equal(ops.pad(x, ((1, 0), (0, 2)), value=4.0), np.pad(x, ((1, 0), (0, 2)), constant_values=4.0))
    assert np.array_equal(ops.pad(x, 1, mode="edge"), np.pad(x, 1, mode="edge"))


COMPILED = {
    "attention": (f32(2, 3, 4), f32(2, 5, 4), f32(2, 5, 6), None, None, True),
    "avg_pool2d": (f32(1, 2, 6, 6), 2), "batch_norm": (f32(2, 3, 4, 4), f32(3), np.abs(f32(3))),
    "conv1d": (f32(2, 4, 9), f32(6, 2, 3), None, 2, 1, 2, 2),
    "conv2d": (f32(2, 4, 6, 6), f32(4, 4, 3, 3), f32(4), 2, 1),
    "dense": (f32(3, 4), f32(4, 2), f32(2)), "depthwise": (f32(1, 2, 5, 5), f32(2, 1, 3, 3)),
    "embedding": (np.array([1, 0, 2]), f32(3, 4)), "embedding_bag": (np.array([[1, 0], [2, 2]]), f32(3, 4)),
    "gelu": (f32(9),), "global_avg_pool": (f32(1, 2, 3, 3),),
    "gru_cell": (f32(2, 3), f32(2, 4), f32(3, 12), f32(4, 12)),
    "layer_norm": (f32(2, 8), f32(8), f32(8)), "log_softmax": (f32(2, 5),),
    "lstm_cell": (f32(2, 3), f32(2, 4), f32(2, 4), f32(3, 16), f32(4, 16)), "max_pool2d": (f32(1, 2, 6, 6), 3, 2, 1),
    "pad": (f32(2, 3), ((1, 1), (0, 2))), "relu": (f32(7),), "resize": (f32(1, 2, 4, 4), (6, 7), "bilinear"),
    "rms_norm": (f32(2, 8), f32(8)), "sigmoid": (f32(7),), "silu": (f32(7),), "softmax": (f32(3, 4),),
    "tanh": (f32(5),),
}


def through_erf(x):
    return ops.gelu(x, approximate=False) + ops.erf(x)


@pytest.mark.parametrize("name", [n for n in ops.__all__ if n != "erf"])
def test_compiled_layers_are_their_references(name):
    fn, args = getattr(ops, name), COMPILED[name]
    program = compile_function(fn)
    check_program(program)
    got, want = run_program(program, args), fn(*args)
    for a, b in zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]:
        assert a.dtype == b.dtype and np.array_equal(a, b)


def test_erf_is_a_kernel():
    x = f32(5)
    program = compile_function(through_erf)
    assert 0x8D01 in program.kernels
    assert np.array_equal(run_program(program, (x,)), through_erf(x))


def test_options_given_as_literals_leave_no_branch():
    def f(x, w, b):
        return ops.batch_norm(ops.conv1d(x, w, stride=2), w[:, 0, 0], b, layout="NHWC")

    program = compile_function(f)
    assert BY_NAME["py.isinstance"].id not in program.kernels  # of stride
    assert "ndim" not in program.constants  # looked at for NCHW only
