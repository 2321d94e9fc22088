"""Plans of known models, one step an operation, as typing makes them."""

from __future__ import annotations

from plan_build import Builder

from prebake.vm.plan.extents import const, symbol
from prebake.vm.plan.steps import View


def layer_norm(b: Builder, x: View, gain: View, shift: View) -> View:
    """(x - mean) / sqrt(var + eps) * gain + shift over the last axis."""
    axis = x.ndim - 1
    centred = b.binary("sub", x, b.mean(x, axis))
    again = b.binary("sub", x, b.mean(x, axis))  # x.var() computes its own mean
    var = b.mean(b.binary("mul", again, again), axis)
    scaled = b.binary("div", centred, b.unary("sqrt", b.binary("add", var, 1e-5)))
    return b.binary("add", b.binary("mul", scaled, gain), shift)


def softmax(b: Builder, x: View) -> View:
    """Over the last axis."""
    axis = x.ndim - 1
    e = b.unary("exp", b.binary("sub", x, b.reduce("max", x, [axis])))
    return b.binary("div", e, b.reduce("sum", e, [axis]))


def gelu(b: Builder, x: View) -> View:
    """tanh form."""
    cube = b.binary("mul", b.binary("mul", x, x), x)
    inner = b.binary("mul", b.binary("add", x, b.binary("mul", cube, 0.044715)), 0.7978845608)
    return b.binary("mul", b.binary("mul", x, 0.5), b.binary("add", b.unary("tanh", inner), 1.0))


def reshape(x: View, shape: tuple, strides: tuple) -> View:
    """A view with other axes."""
    return View(x.buffer, x.dtype, shape, strides, x.offset)


def transformer_layer(d: int = 8, heads: int = 2, hidden: int = 16) -> Builder:
    """x (s, d) -> (s, d): attention and feed-forward, both with residual and layer norm."""
    b = Builder("transformer_layer")
    s = symbol("x.shape[0]")
    x = b.arg("x", [s, d])

    def linear(value: View, name: str, n: int) -> View:
        w = b.arg(f"w{name}", [value.shape[1].const, n], constant=True)
        return b.binary("add", b.matmul(value, w), b.arg(f"b{name}", [n], constant=True))

    width = d // heads
    split = []
    for name in "qkv":
        y = linear(x, name, d)
        split.append(reshape(y, (const(heads), s, const(width)), (const(4 * width), const(4 * d), const(4))))
    q, k, v = split
    scores = b.binary("mul", b.matmul(q, b.transpose(k, (0, 2, 1))), width ** -0.5)
    mixed = b.matmul(softmax(b, scores), v)
    flat = b.temp((s, const(d)), "f32")
    b.store(reshape(flat, (const(heads), s, const(width)), (const(4 * width), const(4 * d), const(4))), mixed)
    g1, h1 = b.arg("g1", [d], constant=True), b.arg("h1", [d], constant=True)
    y = layer_norm(b, b.binary("add", linear(flat, "o", d), x), g1, h1)
    z = linear(gelu(b, linear(y, "1", hidden)), "2", d)
    g2, h2 = b.arg("g2", [d], constant=True), b.arg("h2", [d], constant=True)
    b.ret(layer_norm(b, b.binary("add", z, y), g2, h2))
    return b


def mlp(sizes: tuple[int, ...] = (6, 8, 5)) -> Builder:
    """x (b, n) through dense layers with relu, then softmax over rows."""
    b = Builder("mlp")
    x = b.arg("x", [symbol("x.shape[0]"), sizes[0]])
    for i, n in enumerate(sizes[1:]):
        w = b.arg(f"w{i}", [sizes[i], n], constant=True)
        x = b.binary("add", b.matmul(x, w), b.arg(f"b{i}", [n], constant=True))
        if i < len(sizes) - 2:
            x = b.binary("maximum", x, 0.0)
    b.ret(softmax(b, x))
    return b


def row_softmax() -> Builder:
    """x (b, n), both symbolic."""
    b = Builder("row_softmax")
    b.ret(softmax(b, b.arg("x", [None, None])))
    return b
