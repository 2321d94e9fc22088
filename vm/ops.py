"""Layer functions for inference: plain NumPy references, written so that the frontend compiles them like any helper.

Arrays keep their dtype (float32 stays float32). Images are NCHW unless `layout="NHWC"`; convolution weights are
(out channels, in channels / groups, height, width) in both layouts; dense weights are (in, out).
Sizes, strides, paddings and dilations are an int or a (height, width) tuple.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..templates.registry import BY_NAME, resolve

Array = Any  # np.ndarray of any float dtype
Pair = int | tuple[int, int]

__all__ = [
    "attention", "avg_pool2d", "batch_norm", "conv1d", "conv2d", "dense", "depthwise", "embedding", "embedding_bag",
    "erf", "gelu", "global_avg_pool", "gru_cell", "layer_norm", "log_softmax", "lstm_cell", "max_pool2d", "pad", "relu",
    "resize", "rms_norm", "sigmoid", "silu", "softmax", "tanh",
]


def dense(x: Array, w: Array, bias: Array | None = None) -> Array:
    """`x @ w + bias`: x (..., in), w (in, out), bias (out,)."""
    y = x @ w
    if bias is not None:
        y = y + bias
    return y


# --- activations

def relu(x: Array) -> Array:
    """max(x, 0)."""
    return np.maximum(x, 0)


def erf(x: Array) -> Array:
    """The error function, elementwise (NumPy has none); a kernel of its own in compiled code."""
    return resolve(BY_NAME["ops.erf"].id)(x)


def gelu(x: Array, approximate: bool = True) -> Array:
    """Gaussian error linear unit: by tanh as most transformers use it, or exactly by erf."""
    if approximate:
        return 0.5 * x * (1.0 + np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
    return 0.5 * x * (1.0 + erf(x * 0.7071067811865476))


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + np.exp(-x))


def silu(x: Array) -> Array:
    """x * sigmoid(x)."""
    return x / (1.0 + np.exp(-x))


def tanh(x: Array) -> Array:
    """Hyperbolic tangent."""
    return np.tanh(x)


def softmax(x: Array, axis: int = -1) -> Array:
    """exp(x) normalised to a sum of 1 along an axis, safe for large values."""
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


def log_softmax(x: Array, axis: int = -1) -> Array:
    """log(softmax(x)) without computing the quotient."""
    shifted = x - np.max(x, axis=axis, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))


# --- normalisation

def layer_norm(x: Array, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5,
               axis: int = -1) -> Array:
    """x centred and scaled to unit variance along an axis, then `* weight + bias`."""
    centred = x - np.mean(x, axis=axis, keepdims=True)
    variance = np.mean(centred * centred, axis=axis, keepdims=True)
    y = centred / np.sqrt(variance + eps)
    if weight is not None:
        y = y * weight
    if bias is not None:
        y = y + bias
    return y


def rms_norm(x: Array, weight: Array | None = None, eps: float = 1e-6, axis: int = -1) -> Array:
    """x divided by its root mean square along an axis, then `* weight`."""
    y = x / np.sqrt(np.mean(x * x, axis=axis, keepdims=True) + eps)
    if weight is not None:
        y = y * weight
    return y


def batch_norm(x: Array, mean: Array, var: Array, weight: Array | None = None, bias: Array | None = None,
               eps: float = 1e-5, layout: str = "NCHW") -> Array:
    """Normalisation by stored statistics per channel (inference): channels last for NHWC and 2-d x, else second."""
    scale = 1.0 / np.sqrt(var + eps)
    if weight is not None:
        scale = scale * weight
    shift = -mean * scale
    if bias is not None:
        shift = shift + bias
    if layout == "NCHW" and x.ndim == 4:
        return x * scale.reshape(-1, 1, 1) + shift.reshape(-1, 1, 1)
    if layout == "NCHW" and x.ndim == 3:
        return x * scale.reshape(-1, 1) + shift.reshape(-1, 1)
    return x * scale + shift


# --- convolution and pooling

def _pair(value: Pair) -> tuple[int, int]:
    if isinstance(value, tuple):
        return value[0], value[1]
    return value, value


def _pad_image(x: Array, ph: int, pw: int, value: float) -> Array:
    """x (n, c, h, w) with a border of `value`; x itself without one."""
    if ph == 0 and pw == 0:
        return x
    n, c, h, w = x.shape
    padded = np.full((n, c, h + 2 * ph, w + 2 * pw), value, dtype=x.dtype)
    padded[:, :, ph:ph + h, pw:pw + w] = x
    return padded


def conv2d(x: Array, w: Array, bias: Array | None = None, stride: Pair = 1, padding: Pair = 0, dilation: Pair = 1,
           groups: int = 1, layout: str = "NCHW") -> Array:
    """Cross-correlation: x (n, c, h, w), w (o, c / groups, kh, kw), bias (o,) -> (n, o, oh, ow), or NHWC throughout."""
    sh, sw = _pair(stride)
    ph, pw = _pair(padding)
    dh, dw = _pair(dilation)
    images = x.transpose(0, 3, 1, 2) if layout == "NHWC" else x
    padded = _pad_image(images, ph, pw, 0.0)
    n, c, h, width = padded.shape
    o, per_group, kh, kw = w.shape
    oh = (h - dh * (kh - 1) - 1) // sh + 1
    ow = (width - dw * (kw - 1) - 1) // sw + 1
    columns = np.empty((n, c, kh, kw, oh, ow), dtype=x.dtype)
    for i in range(kh):
        for j in range(kw):
            columns[:, :, i, j] = padded[:, :, i * dh:i * dh + (oh - 1) * sh + 1:sh,
                                         j * dw:j * dw + (ow - 1) * sw + 1:sw]
    columns = columns.reshape(n, groups, per_group * kh * kw, oh * ow)
    y = w.reshape(groups, o // groups, per_group * kh * kw) @ columns
    y = y.reshape(n, o, oh, ow)
    if bias is not None:
        y = y + bias.reshape(-1, 1, 1)
    if layout == "NHWC":
        y = y.transpose(0, 2, 3, 1)
    return y


def depthwise(x: Array, w: Array, bias: Array | None = None, stride: Pair = 1, padding: Pair = 0, dilation: Pair = 1,
              layout: str = "NCHW") -> Array:
    """One filter (or several) per channel: w (c * multiplier, 1, kh, kw)."""
    channels = x.shape[3] if layout == "NHWC" else x.shape[1]
    return conv2d(x, w, bias, stride, padding, dilation, channels, layout)


def conv1d(x: Array, w: Array, bias: Array | None = None, stride: int = 1, padding: int = 0, dilation: int = 1,
           groups: int = 1, layout: str = "NCL") -> Array:
    """Cross-correlation along one axis: x (n, c, l), w (o, c / groups, k) -> (n, o, ol), or NLC throughout."""
    signal = x.transpose(0, 2, 1) if layout == "NLC" else x
    y = conv2d(signal[:, :, None, :], w[:, :, None, :], bias, (1, stride), (0, padding), (1, dilation), groups)
    y = y[:, :, 0, :]
    if layout == "NLC":
        y = y.transpose(0, 2, 1)
    return y


def max_pool2d(x: Array, size: Pair, stride: Pair | None = None, padding: Pair = 0, layout: str = "NCHW") -> Array:
    """The maximum of each window; the border counts as minus infinity. stride: the window's size when None."""
    kh, kw = _pair(size)
    sh, sw = _pair(size if stride is None else stride)
    ph, pw = _pair(padding)
    images = x.transpose(0, 3, 1, 2) if layout == "NHWC" else x
    padded = _pad_image(images, ph, pw, -np.inf)
    h, width = padded.shape[2], padded.shape[3]
    oh = (h - kh) // sh + 1
    ow = (width - kw) // sw + 1
    y = padded[:, :, 0:(oh - 1) * sh + 1:sh, 0:(ow - 1) * sw + 1:sw].copy()
    for i in range(kh):
        for j in range(kw):
            y = np.maximum(y, padded[:, :, i:i + (oh - 1) * sh + 1:sh, j:j + (ow - 1) * sw + 1:sw])
    if layout == "NHWC":
        y = y.transpose(0, 2, 3, 1)
    return y


def avg_pool2d(x: Array, size: Pair, stride: Pair | None = None, padding: Pair = 0, layout: str = "NCHW") -> Array:
    """The mean of each window; the border counts as zeros."""
    kh, kw = _pair(size)
    sh, sw = _pair(size if stride is None else stride)
    ph, pw = _pair(padding)
    images = x.transpose(0, 3, 1, 2) if layout == "NHWC" else x
    padded = _pad_image(images, ph, pw, 0.0)
    n, c, h, width = padded.shape
    oh = (h - kh) // sh + 1
    ow = (width - kw) // sw + 1
    y = np.zeros((n, c, oh, ow), dtype=x.dtype)
    for i in range(kh):
        for j in range(kw):
            y += padded[:, :, i:i + (oh - 1) * sh + 1:sh, j:j + (ow - 1) * sw + 1:sw]
    y = y / (kh * kw)
    if layout == "NHWC":
        y = y.transpose(0, 2, 3, 1)
    return y


def global_avg_pool(x: Array, layout: str = "NCHW") -> Array:
    """The mean over height and width: (n, c)."""
    if layout == "NHWC":
        return np.mean(x, axis=(1, 2))
    return np.mean(x, axis=(2, 3))


# --- lookups

def embedding(ids: Array, table: Array) -> Array:
    """Rows of a table (v, d) for integer ids of any shape: (..., d)."""
    return table[ids]


def embedding_bag(ids: Array, table: Array, weights: Array | None = None, mode: str = "sum") -> Array:
    """The sum or mean over each bag's rows: ids (b, l), weights (b, l) or None -> (b, d)."""
    rows = table[ids]
    if weights is not None:
        rows = rows * weights[:, :, None]
    if mode == "mean":
        return np.mean(rows, axis=1)
    return np.sum(rows, axis=1)


# --- attention and recurrent cells

def attention(q: Array, k: Array, v: Array, mask: Array | None = None, scale: float | None = None,
              causal: bool = False) -> Array:
    """softmax(q k^T * scale + mask) v: q (..., n, d), k (..., m, d), v (..., m, e) -> (..., n, e).

    mask: added to the scores (0 keeps, -inf drops), broadcast to (..., n, m). scale: 1 / sqrt(d) when None.
    causal: query i sees keys up to i + m - n.
    """
    factor = 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = q @ k.swapaxes(-1, -2) * factor
    if mask is not None:
        scores = scores + mask
    if causal:
        n, m = q.shape[-2], k.shape[-2]
        visible = np.arange(m)[None, :] <= np.arange(n)[:, None] + (m - n)
        scores = np.where(visible, scores, -np.inf)
    return softmax(scores) @ v


def lstm_cell(x: Array, h: Array, c: Array, w_x: Array, w_h: Array, bias: Array | None = None) -> tuple[Array, Array]:
    """One step of an LSTM: x (b, i), h and c (b, n), w_x (i, 4n), w_h (n, 4n), bias (4n,) -> (h, c).

    Gates stand in the order input, forget, cell, output.
    """
    gates = x @ w_x + h @ w_h
    if bias is not None:
        gates = gates + bias
    n = h.shape[1]
    c_next = sigmoid(gates[:, n:2 * n]) * c + sigmoid(gates[:, :n]) * np.tanh(gates[:, 2 * n:3 * n])
    h_next = sigmoid(gates[:, 3 * n:]) * np.tanh(c_next)
    return h_next, c_next


def gru_cell(x: Array, h: Array, w_x: Array, w_h: Array, b_x: Array | None = None, b_h: Array | None = None) -> Array:
    """One step of a GRU: x (b, i), h (b, n), w_x (i, 3n), w_h (n, 3n) -> h. Gates: reset, update, new.

    The reset gate is applied after the hidden product, as in PyTorch and cuDNN.
    """
    from_x = x @ w_x
    from_h = h @ w_h
    if b_x is not None:
        from_x = from_x + b_x
    if b_h is not None:
        from_h = from_h + b_h
    n = h.shape[1]
    reset = sigmoid(from_x[:, :n] + from_h[:, :n])
    update = sigmoid(from_x[:, n:2 * n] + from_h[:, n:2 * n])
    new = np.tanh(from_x[:, 2 * n:] + reset * from_h[:, 2 * n:])
    return (1.0 - update) * new + update * h


# --- images

def _source_positions(out: int, size: int, dtype: Any) -> Array:
    """Centre of each output sample in input coordinates, clipped to the image."""
    position = (np.arange(out, dtype=dtype) + 0.5) * (size / out) - 0.5
    return np.clip(position, 0.0, size - 1.0)


def resize(x: Array, size: Pair, mode: str = "nearest", layout: str = "NCHW") -> Array:
    """An image scaled to size (h, w), by nearest neighbour or bilinear weights (half-pixel centres)."""
    oh, ow = _pair(size)
    images = x.transpose(0, 3, 1, 2) if layout == "NHWC" else x
    h, w = images.shape[2], images.shape[3]
    if mode == "nearest":
        rows = np.arange(oh) * h // oh
        columns = np.arange(ow) * w // ow
        y = images[:, :, rows][:, :, :, columns]
    else:
        v = _source_positions(oh, h, x.dtype)
        u = _source_positions(ow, w, x.dtype)
        top = np.floor(v).astype(np.int64)
        left = np.floor(u).astype(np.int64)
        bottom = np.minimum(top + 1, h - 1)
        right = np.minimum(left + 1, w - 1)
        fv = (v - np.floor(v))[:, None]
        fu = u - np.floor(u)
        upper = images[:, :, top] * (1.0 - fv) + images[:, :, bottom] * fv
        y = upper[:, :, :, left] * (1.0 - fu) + upper[:, :, :, right] * fu
    if layout == "NHWC":
        y = y.transpose(0, 2, 3, 1)
    return y


def pad(x: Array, width: Any, mode: Any = "constant", value: float = 0.0) -> Array:
    """x with a border, as np.pad: width ((before, after), ...) per axis, mode 'constant', 'edge', 'reflect', ..."""
    if mode == "constant":
        return np.pad(x, width, mode="constant", constant_values=value)
    return np.pad(x, width, mode=mode)
