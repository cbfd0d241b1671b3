"""Layers of Caffe one at a time, against NumPy in float64 by Caffe's definitions."""

import pathlib
from collections.abc import Callable

import numpy as np
import pytest
from caffe_net import caffemodel, inputs_text, layer, run

R = np.random.default_rng(0)
Case = tuple[str, dict, list, Callable]


def windows(x: np.ndarray, k: tuple, s: tuple, p: tuple, rounds_up: bool = True):
    """Output size, and for each output pixel its clipped window and the count of its elements in the padded image."""
    sizes = []
    for d in range(2):
        n = x.shape[2 + d] + 2 * p[d] - k[d]
        size = (-(-n // s[d]) if rounds_up else n // s[d]) + 1
        if p[d] and (size - 1) * s[d] >= x.shape[2 + d] + p[d]:
            size -= 1
        sizes.append(size)
    for i in range(sizes[0]):
        for j in range(sizes[1]):
            at = (i, j)
            first = [at[d] * s[d] - p[d] for d in range(2)]
            last = [min(first[d] + k[d], x.shape[2 + d] + p[d]) for d in range(2)]
            count = (last[0] - first[0]) * (last[1] - first[1])
            part = x[:, :, max(first[0], 0) : min(last[0], x.shape[2]), max(first[1], 0) : min(last[1], x.shape[3])]
            yield sizes, at, part, count


def pool(x, k, s, p=(0, 0), kind="MAX", rounds_up=True):
    y = None
    for sizes, (i, j), part, count in windows(x, k, s, p, rounds_up):
        if y is None:
            y = np.zeros(x.shape[:2] + tuple(sizes))
        flat = part.reshape(*x.shape[:2], -1)
        if kind == "MAX":
            y[:, :, i, j] = flat.max(-1)
        elif kind == "AVE":
            y[:, :, i, j] = flat.sum(-1) / count
        else:
            y[:, :, i, j] = (flat**2).sum(-1) / np.maximum(flat.sum(-1), 1e-38)
    return y


def conv(x, w, b=None, s=1, p=0, d=1, g=1):
    """Any number of spatial dimensions."""
    n = x.ndim - 2
    s, p, d = ([v] * n if isinstance(v, int) else v for v in (s, p, d))
    x = np.pad(x, [(0, 0), (0, 0)] + [(v, v) for v in p])
    out = [(x.shape[2 + i] - d[i] * (w.shape[2 + i] - 1) - 1) // s[i] + 1 for i in range(n)]
    y = np.zeros((x.shape[0], w.shape[0], *out))
    per = w.shape[0] // g
    for tap in np.ndindex(*w.shape[2:]):
        part = x[(slice(None), slice(None)) + tuple(slice(tap[i] * d[i], tap[i] * d[i] + (out[i] - 1) * s[i] + 1, s[i]) for i in range(n))]
        for k in range(g):
            c = w.shape[1]
            y[:, k * per : (k + 1) * per] += np.einsum("nc...,oc->no...", part[:, k * c : (k + 1) * c], w[(slice(k * per, (k + 1) * per), slice(None)) + tap])
    return y if b is None else y + b.reshape(-1, *[1] * n)


def deconv(x, w, b=None, s=1, p=0, g=1):
    h, v = (x.shape[2] - 1) * s + w.shape[2], (x.shape[3] - 1) * s + w.shape[3]
    per = w.shape[1]
    y = np.zeros((x.shape[0], per * g, h, v))
    c = x.shape[1] // g
    for k in range(g):
        for i in range(x.shape[2]):
            for j in range(x.shape[3]):
                y[:, k * per : (k + 1) * per, i * s : i * s + w.shape[2], j * s : j * s + w.shape[3]] += np.einsum(
                    "nc,cohw->nohw", x[:, k * c : (k + 1) * c, i, j], w[k * c : (k + 1) * c]
                )
    y = y[:, :, p : h - p, p : v - p]
    return y if b is None else y + b.reshape(-1, 1, 1)


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def lrn(x, size, alpha, beta, k):
    y = np.zeros_like(x)
    for c in range(x.shape[1]):
        part = x[:, max(0, c - size // 2) : c + size // 2 + 1]
        y[:, c] = x[:, c] / (k + alpha / size * (part**2).sum(1)) ** beta
    return y


def arg_max(x, k, values, axis=None):
    if axis is None:
        flat = x.reshape(x.shape[0], -1)
        index = np.argsort(flat, -1, kind="stable")[:, ::-1][:, :k]
        y = np.stack([index, np.take_along_axis(flat, index, -1)], 1) if values else index[:, None]
        return y.reshape(*y.shape, *[1] * (max(3, x.ndim) - 3))
    index = np.flip(np.argsort(x, axis, kind="stable"), axis).take(range(k), axis)
    return np.take_along_axis(x, index, axis) if values else index


def mvn(x, axes, variance=True, eps=1e-9):
    y = x - x.mean(axes, keepdims=True)
    return y / (np.sqrt((y**2).mean(axes, keepdims=True)) + eps) if variance else y


def im2col(x, k, s, p):
    x = np.pad(x, [(0, 0), (0, 0), (p, p), (p, p)])
    h, w = (x.shape[2] - k) // s + 1, (x.shape[3] - k) // s + 1
    parts = [x[:, :, i : i + (h - 1) * s + 1 : s, j : j + (w - 1) * s + 1 : s] for i in range(k) for j in range(k)]
    return np.stack(parts, 2).reshape(x.shape[0], -1, h, w)


def spp(x, levels):
    parts = []
    for i in range(levels):
        n = 2**i
        k = [-(-x.shape[2 + d] // n) for d in range(2)]
        p = [(k[d] * n - x.shape[2 + d] + 1) // 2 for d in range(2)]
        parts.append(pool(x, k, k, p).reshape(x.shape[0], -1))
    return np.concatenate(parts, 1)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(x, cont, blobs, static=None, h=None, c=None):
    wx, b, *ws, wh = blobs
    size = wh.shape[1]
    h = np.zeros((x.shape[1], size)) if h is None else h[0]
    c = np.zeros((x.shape[1], size)) if c is None else c[0]
    out = []
    for t in range(len(x)):
        k = cont[t][:, None]
        g = x[t] @ wx.T + b + (h * k) @ wh.T + (static @ ws[0].T if static is not None else 0)
        i, f, o, u = (g[:, n * size : (n + 1) * size] for n in range(4))
        c = k * sigmoid(f) * c + sigmoid(i) * np.tanh(u)
        h = sigmoid(o) * np.tanh(c)
        out.append(h)
    return np.stack(out), h[None], c[None]


def rnn(x, cont, blobs):
    wx, b, wh, wo, bo = blobs
    h, out = np.zeros((x.shape[1], wh.shape[0])), []
    for t in range(len(x)):
        h = np.tanh((h * cont[t][:, None]) @ wh.T + x[t] @ wx.T + b)
        out.append(np.tanh(h @ wo.T + bo))
    return np.stack(out)


def bilinear(x, h, w):
    y = np.zeros((*x.shape[:2], h, w))
    for i in range(h):
        for j in range(w):
            a = i * (x.shape[2] - 1) / max(h - 1, 1)
            b = j * (x.shape[3] - 1) / max(w - 1, 1)
            i0, j0 = int(a), int(b)
            i1, j1 = min(i0 + 1, x.shape[2] - 1), min(j0 + 1, x.shape[3] - 1)
            y[:, :, i, j] = (
                x[:, :, i0, j0] * (1 - a + i0) * (1 - b + j0) + x[:, :, i1, j0] * (a - i0) * (1 - b + j0)
                + x[:, :, i0, j1] * (1 - a + i0) * (b - j0) + x[:, :, i1, j1] * (a - i0) * (b - j0)
            )
    return y


def shuffle(x, g):
    n, c, h, w = x.shape
    return x.reshape(n, g, c // g, h, w).swapaxes(1, 2).reshape(x.shape)


def roi_pool(x, rois, ph, pw, scale):
    y = np.zeros((len(rois), x.shape[1], ph, pw))
    for r, (n, *box) in enumerate(rois):
        x1, y1, x2, y2 = (int(np.floor(v * scale + 0.5)) for v in box)
        h, w = max(y2 - y1 + 1, 1), max(x2 - x1 + 1, 1)
        for i in range(ph):
            for j in range(pw):
                a = [min(max(int(np.floor(i * h / ph)) + y1, 0), x.shape[2]), min(max(int(np.ceil((i + 1) * h / ph)) + y1, 0), x.shape[2])]
                b = [min(max(int(np.floor(j * w / pw)) + x1, 0), x.shape[3]), min(max(int(np.ceil((j + 1) * w / pw)) + x1, 0), x.shape[3])]
                part = x[int(n), :, a[0] : a[1], b[0] : b[1]]
                y[r, :, i, j] = part.max((1, 2)) if part.size else 0
    return y


X = (2, 6, 7, 9)
E4 = "eltwise_param { operation: "
CASES: dict[str, Case] = {}


def case(name, text, inputs, blobs, expected):
    CASES[name] = (text, inputs, blobs, expected)


def w(*shape):
    return (R.standard_normal(shape) * 0.5).astype("f4").astype("f8")


def simple(name, kind, more, expected, shape=X, blobs=()):
    case(name, layer(kind, "x", "y", more), {"x": shape}, list(blobs), lambda b, x: expected(x, *b))


simple("convolution", "Convolution", "convolution_param { num_output: 4 kernel_size: 3 pad: 1 stride: 2 }", lambda x, a, b: conv(x, a, b, 2, 1), X, [w(4, 6, 3, 3), w(4)])
simple("convolution_sides", "Convolution", "convolution_param { num_output: 4 kernel_h: 3 kernel_w: 1 pad_h: 1 pad_w: 2 stride_h: 1 stride_w: 3 bias_term: false }", lambda x, a: conv(x, a, None, [1, 3], [1, 2]), X, [w(4, 6, 3, 1)])
simple("convolution_lists", "Convolution", "convolution_param { num_output: 4 kernel_size: [3, 2] pad: [0, 1] stride: [2, 1] dilation: [1, 3] }", lambda x, a, b: conv(x, a, b, [2, 1], [0, 1], [1, 3]), X, [w(4, 6, 3, 2), w(4)])
simple("convolution_groups", "Convolution", "convolution_param { num_output: 4 kernel_size: 3 group: 2 dilation: 2 }", lambda x, a, b: conv(x, a, b, 1, 0, 2, 2), X, [w(4, 3, 3, 3), w(4)])
simple("convolution_3d", "Convolution", "convolution_param { num_output: 3 kernel_size: 2 stride: 2 pad: 1 }", lambda x, a, b: conv(x, a, b, 2, 1), (1, 2, 4, 5, 6), [w(3, 2, 2, 2, 2), w(3)])
simple("convolution_1d", "Convolution", "convolution_param { num_output: 3 kernel_size: 3 force_nd_im2col: true }", lambda x, a, b: conv(x, a, b), (2, 2, 9), [w(3, 2, 3), w(3)])
simple("depthwise", "DepthwiseConvolution", "convolution_param { num_output: 6 kernel_size: 3 pad: 1 }", lambda x, a, b: conv(x, a, b, 1, 1, 1, 6), X, [w(6, 1, 3, 3), w(6)])
simple("depthwise_of_mobilenets", "ConvolutionDepthwise", "convolution_param { num_output: 6 kernel_size: 3 stride: 2 bias_term: false }", lambda x, a: conv(x, a, None, 2, 0, 1, 6), X, [w(6, 1, 3, 3)])
simple("deconvolution", "Deconvolution", "convolution_param { num_output: 4 kernel_size: 4 stride: 2 pad: 1 }", lambda x, a, b: deconv(x, a, b, 2, 1), X, [w(6, 4, 4, 4), w(4)])
simple("deconvolution_groups", "Deconvolution", "convolution_param { num_output: 6 kernel_size: 4 stride: 2 group: 3 bias_term: false }", lambda x, a: deconv(x, a, None, 2, 0, 3), X, [w(6, 2, 4, 4)])
for kind in ("MAX", "AVE"):
    simple(f"pool_{kind}_up", "Pooling", f"pooling_param {{ pool: {kind} kernel_size: 3 stride: 2 }}", lambda x, kind=kind: pool(x, (3, 3), (2, 2), (0, 0), kind), (2, 3, 8, 9))
    simple(f"pool_{kind}_pad", "Pooling", f"pooling_param {{ pool: {kind} kernel_size: 3 stride: 2 pad: 1 }}", lambda x, kind=kind: pool(x, (3, 3), (2, 2), (1, 1), kind), (2, 3, 8, 9))
    simple(f"pool_{kind}_clip", "Pooling", f"pooling_param {{ pool: {kind} kernel_size: 2 stride: 2 pad: 1 }}", lambda x, kind=kind: pool(x, (2, 2), (2, 2), (1, 1), kind), (2, 3, 7, 6))
    simple(f"pool_{kind}_sides", "Pooling", f"pooling_param {{ pool: {kind} kernel_h: 4 kernel_w: 2 stride_h: 3 stride_w: 2 pad_h: 2 pad_w: 1 }}", lambda x, kind=kind: pool(x, (4, 2), (3, 2), (2, 1), kind), (2, 3, 9, 8))
    simple(f"pool_{kind}_floor", "Pooling", f"pooling_param {{ pool: {kind} kernel_size: 3 stride: 2 round_mode: FLOOR }}", lambda x, kind=kind: pool(x, (3, 3), (2, 2), (0, 0), kind, False), (2, 3, 8, 9))
    simple(f"pool_{kind}_global", "Pooling", f"pooling_param {{ pool: {kind} global_pooling: true }}", lambda x, kind=kind: (x.max((2, 3), keepdims=True) if kind == "MAX" else x.mean((2, 3), keepdims=True)))
simple("pool_empty_windows", "Pooling", "pooling_param { kernel_size: 1 stride: 2 }", lambda x: np.pad(x[:, :, ::2, ::2], [(0, 0), (0, 0), (0, 1), (0, 1)], constant_values=np.finfo("f4").min), (2, 3, 8, 8))
simple("pool_subsample", "Pooling", "pooling_param { kernel_size: 1 stride: 2 }", lambda x: x[:, :, ::2, ::2], (2, 3, 7, 9))
case("pool_stochastic", layer("Pooling", "x", "y", "pooling_param { pool: STOCHASTIC kernel_size: 3 stride: 2 }"), {"x": (2, 3, 8, 9)}, [], lambda b, x: pool(x, (3, 3), (2, 2), (0, 0), "STOCHASTIC"))
simple("inner_product", "InnerProduct", "inner_product_param { num_output: 5 }", lambda x, a, b: x.reshape(2, -1) @ a.T + b, X, [w(5, 378), w(5)])
simple("inner_product_axis", "InnerProduct", "inner_product_param { num_output: 5 axis: -1 bias_term: false }", lambda x, a: x @ a.T, X, [w(5, 9)])
simple("inner_product_transposed", "InnerProduct", "inner_product_param { num_output: 5 axis: 2 transpose: true }", lambda x, a, b: x.reshape(2, 6, -1) @ a + b, X, [w(63, 5), w(5)])
simple("lrn", "LRN", "lrn_param { local_size: 3 alpha: 0.5 beta: 0.6 k: 2 }", lambda x: lrn(x, 3, 0.5, 0.6, 2))
simple("lrn_within", "LRN", "lrn_param { local_size: 3 alpha: 0.5 beta: 0.6 norm_region: WITHIN_CHANNEL }", lambda x: x * (1 + 0.5 * pool(x**2, (3, 3), (1, 1), (1, 1), "AVE")) ** -0.6)
V = np.abs(w(6)) + 0.5
simple("batch_norm", "BatchNorm", "batch_norm_param { eps: 0.01 }", lambda x, m, v, f: (x - (m / f).reshape(1, -1, 1, 1)) / np.sqrt((v / f).reshape(1, -1, 1, 1) + 0.01), X, [w(6), V, np.array([4.0])])
simple("batch_norm_factor_0", "BatchNorm", "", lambda x, m, v, f: x / np.sqrt(1e-5), X, [w(6), V, np.array([0.0])])
simple("batch_norm_nvcaffe", "BatchNorm", "", lambda x, m, v, f, s, b: (x - m.reshape(1, -1, 1, 1)) / np.sqrt(v.reshape(1, -1, 1, 1) + 1e-5) * s.reshape(1, -1, 1, 1) + b.reshape(1, -1, 1, 1), X, [w(6), V, np.array([1.0]), w(6), w(6)])
simple("scale", "Scale", "", lambda x, a: x * a.reshape(1, -1, 1, 1), X, [w(6)])
simple("scale_bias", "Scale", "scale_param { axis: 2 num_axes: 2 bias_term: true }", lambda x, a, b: x * a + b, X, [w(7, 9), w(7, 9)])
simple("scale_rest", "Scale", "scale_param { axis: 1 num_axes: -1 }", lambda x, a: x * a, X, [w(6, 7, 9)])
simple("scale_scalar", "Scale", "scale_param { num_axes: 0 }", lambda x, a: x * a, X, [np.float64(R.standard_normal()).reshape(())])
case("scale_two", layer("Scale", "x s", "y", "scale_param { axis: 0 bias_term: true }"), {"x": X, "s": (2, 6)}, [w(2, 6)], lambda b, x, s: x * s[:, :, None, None] + b[0][:, :, None, None])
simple("bias", "Bias", "", lambda x, a: x + a.reshape(1, -1, 1, 1), X, [w(6)])
case("bias_two", layer("Bias", "x s", "y", "bias_param { axis: 2 }"), {"x": X, "s": (7,)}, [], lambda b, x, s: x + s[:, None])
case("eltwise_sum", layer("Eltwise", "x a b"), {k: X for k in "xab"}, [], lambda _, x, a, b: x + a + b)
case("eltwise_coeff", layer("Eltwise", "x a", "y", E4 + "SUM coeff: 2 coeff: -0.5 }"), {k: X for k in "xa"}, [], lambda _, x, a: 2 * x - 0.5 * a)
case("eltwise_prod", layer("Eltwise", "x a", "y", E4 + "PROD stable_prod_grad: false }"), {k: X for k in "xa"}, [], lambda _, x, a: x * a)
case("eltwise_max", layer("Eltwise", "x a b", "y", E4 + "MAX }"), {k: X for k in "xab"}, [], lambda _, x, a, b: np.maximum(np.maximum(x, a), b))
case("concat", layer("Concat", "x a"), {"x": X, "a": (2, 3, 7, 9)}, [], lambda _, x, a: np.concatenate([x, a], 1))
case("concat_dim", layer("Concat", "x a", "y", "concat_param { concat_dim: 0 }"), {"x": X, "a": X}, [], lambda _, x, a: np.concatenate([x, a], 0))
simple("flatten", "Flatten", "", lambda x: x.reshape(2, -1))
simple("flatten_part", "Flatten", "flatten_param { axis: 1 end_axis: -2 }", lambda x: x.reshape(2, 42, 9))
simple("reshape", "Reshape", "reshape_param { shape { dim: 0 dim: -1 dim: 3 } }", lambda x: x.reshape(2, -1, 3))
simple("reshape_part", "Reshape", "reshape_param { shape { dim: 3 dim: 2 } axis: 1 num_axes: 1 }", lambda x: x.reshape(2, 3, 2, 7, 9))
simple("reshape_insert", "Reshape", "reshape_param { shape { dim: 1 } axis: -1 num_axes: 0 }", lambda x: x.reshape(2, 6, 7, 9, 1))
simple("permute", "Permute", "permute_param { order: 0 order: 3 }", lambda x: x.transpose(0, 3, 1, 2))
case("crop", layer("Crop", "x a", "y", "crop_param { axis: 2 offset: [1, 3] }"), {"x": X, "a": (1, 1, 4, 5)}, [], lambda _, x, a: x[:, :, 1:5, 3:8])
simple("tile", "Tile", "tile_param { axis: 2 tiles: 3 }", lambda x: np.tile(x, (1, 1, 3, 1)))
simple("softmax", "Softmax", "", lambda x: softmax(x, 1))
simple("softmax_axis", "Softmax", "softmax_param { axis: -1 }", lambda x: softmax(x, -1))
simple("softmax_loss", "SoftmaxWithLoss", "", lambda x: softmax(x, 1))
simple("argmax", "ArgMax", "", lambda x: arg_max(x, 1, False))
simple("argmax_values", "ArgMax", "argmax_param { out_max_val: true top_k: 4 }", lambda x: arg_max(x, 4, True), (3, 11))
simple("argmax_axis", "ArgMax", "argmax_param { axis: 1 top_k: 2 }", lambda x: arg_max(x, 2, False, 1))
simple("argmax_axis_values", "ArgMax", "argmax_param { axis: -1 out_max_val: true }", lambda x: arg_max(x, 1, True, 3))
for op, fn in {"SUM": lambda v: v.sum(-1), "ASUM": lambda v: np.abs(v).sum(-1), "SUMSQ": lambda v: (v**2).sum(-1), "MEAN": lambda v: v.mean(-1)}.items():
    simple(f"reduction_{op}", "Reduction", f"reduction_param {{ operation: {op} axis: 1 coeff: 2 }}", lambda x, fn=fn: 2 * fn(x.reshape(2, -1)))
simple("reduction_all", "Reduction", "", lambda x: x.sum())
simple("mvn", "MVN", "", lambda x: mvn(x, (2, 3)))
simple("mvn_across", "MVN", "mvn_param { across_channels: true eps: 0.1 }", lambda x: mvn(x, (1, 2, 3), True, 0.1))
simple("mvn_mean", "MVN", "mvn_param { normalize_variance: false }", lambda x: mvn(x, (2, 3), False))
simple("normalize", "Normalize", "norm_param { across_spatial: false channel_shared: false }", lambda x, a: x / np.sqrt((x**2).sum(1, keepdims=True) + 1e-10) * a.reshape(1, -1, 1, 1), X, [w(6)])
simple("normalize_whole", "Normalize", "", lambda x, a: x / np.sqrt((x**2).sum((1, 2, 3), keepdims=True) + 1e-10) * a, X, [w(1)])
simple("prelu", "PReLU", "", lambda x, a: np.where(x > 0, x, x * a.reshape(1, -1, 1, 1)), X, [w(6)])
simple("prelu_shared", "PReLU", "prelu_param { channel_shared: true }", lambda x, a: np.where(x > 0, x, x * a), X, [w(1)])
simple("relu", "ReLU", "", lambda x: np.maximum(x, 0))
simple("relu_slope", "ReLU", "relu_param { negative_slope: 0.1 }", lambda x: np.where(x > 0, x, 0.1 * x))
simple("relu6", "ReLU6", "", lambda x: np.clip(x, 0, 6))
simple("elu", "ELU", "elu_param { alpha: 0.7 }", lambda x: np.where(x > 0, x, 0.7 * (np.exp(x) - 1)))
simple("sigmoid", "Sigmoid", "", sigmoid)
simple("tanh", "TanH", "", np.tanh)
simple("absval", "AbsVal", "", np.abs)
simple("bnll", "BNLL", "", lambda x: np.log1p(np.exp(x)))
simple("power", "Power", "power_param { power: 3 scale: 0.5 shift: 1 }", lambda x: (1 + 0.5 * x) ** 3)
simple("power_linear", "Power", "power_param { scale: -2 shift: 3 }", lambda x: 3 - 2 * x)
simple("exp", "Exp", "", np.exp)
simple("exp_base", "Exp", "exp_param { base: 2 scale: 0.5 shift: 1 }", lambda x: 2 ** (1 + 0.5 * x))
simple("log_base", "Log", "log_param { base: 10 scale: 0.1 shift: 4 }", lambda x: np.log10(4 + 0.1 * x))
simple("threshold", "Threshold", "threshold_param { threshold: 0.3 }", lambda x: (x > 0.3) * 1.0)
simple("mish", "Mish", "", lambda x: x * np.tanh(np.log1p(np.exp(x))))
simple("swish", "Swish", "swish_param { beta: 2 }", lambda x: x * sigmoid(2 * x))
simple("clip", "Clip", "clip_param { min: -0.5 max: 0.25 }", lambda x: np.clip(x, -0.5, 0.25))
simple("dropout", "Dropout", "dropout_param { dropout_ratio: 0.4 }", lambda x: x)
simple("shuffle_channel", "ShuffleChannel", "shuffle_channel_param { group: 3 }", lambda x: shuffle(x, 3))
simple("im2col", "Im2col", "convolution_param { kernel_size: 3 stride: 2 pad: 1 }", lambda x: im2col(x, 3, 2, 1))
simple("spp", "SPP", "spp_param { pyramid_height: 3 pool: MAX }", lambda x: spp(x, 3))
simple("interp", "Interp", "interp_param { height: 11 width: 5 }", lambda x: bilinear(x, 11, 5))
simple("interp_zoom", "Interp", "interp_param { zoom_factor: 3 pad_beg: -1 pad_end: -2 }", lambda x: bilinear(x[:, :, 1:-2, 1:-2], 10, 16))
simple("interp_shrink", "Interp", "interp_param { shrink_factor: 2 }", lambda x: bilinear(x, 4, 5))
simple("upsample", "Upsample", "upsample_param { scale: 3 }", lambda x: x.repeat(3, 2).repeat(3, 3))
case("axpy", layer("Axpy", "a x b"), {"a": (2, 6, 1, 1), "x": X, "b": X}, [], lambda _, a, x, b: a * x + b)
case("parameter", layer("Parameter", "", "p", "parameter_param { shape { dim: 6 } }") + layer("Scale", "x p", "y", "", "scale"), {"x": X}, [w(6)], lambda b, x: x * b[0].reshape(1, -1, 1, 1))
case("dummy", layer("DummyData", "", "d", 'dummy_data_param { shape { dim: 7 } data_filler { type: "constant" value: 3 } }') + layer("Bias", "x d", "y", "bias_param { axis: 2 }", "b"), {"x": X}, [], lambda _, x: x + 3)
case("slice", layer("Slice", "x", "a b c", "slice_param { slice_point: 1 slice_point: 4 }") + layer("Concat", "c a b", "y", "", "cat"), {"x": X}, [], lambda _, x: np.concatenate([x[:, 4:], x[:, :4]], 1))
case("slice_equal", layer("Slice", "x", "a b c", "slice_param { slice_dim: 3 }") + layer("Eltwise", "a b c", "y", "", "e"), {"x": X}, [], lambda _, x: x[..., :3] + x[..., 3:6] + x[..., 6:])
case("split", layer("Split", "x", "a b") + layer("Eltwise", "a b", "y", E4 + "PROD }", "e"), {"x": X}, [], lambda _, x: x * x)
case("mask", layer("Pooling", "x", "p m", "pooling_param { kernel_size: 2 stride: 2 }") + layer("Upsample", "p m", "y", "upsample_param { scale: 2 }", "u"), {"x": (2, 3, 8, 6)}, [], lambda _, x: np.where(pool(x, (2, 2), (2, 2)).repeat(2, 2).repeat(2, 3) == x, x, 0))
case("lstm_static", layer("LSTM", "x cont s", "y", "recurrent_param { num_output: 5 }"), {"x": (6, 3, 4), "cont": (6, 3), "s": (3, 7)}, [w(20, 4), w(20), w(20, 7), w(20, 5)], lambda b, x, cont, s: lstm(x, cont, b, s)[0])
case("lstm_exposed", layer("LSTM", "x cont h c", "y hT cT", "recurrent_param { num_output: 5 expose_hidden: true }"), {"x": (6, 3, 4), "cont": (6, 3), "h": (1, 3, 5), "c": (1, 3, 5)}, [w(20, 4), w(20), w(20, 5)], lambda b, x, cont, h, c: dict(zip(("y", "hT", "cT"), lstm(x, cont, b, None, h, c))))
case("rnn", layer("RNN", "x cont", "y", "recurrent_param { num_output: 5 }"), {"x": (6, 3, 4), "cont": (6, 3)}, [w(5, 4), w(5), w(5, 5), w(5, 5), w(5)], lambda b, x, cont: rnn(x, cont, b))


@pytest.mark.parametrize("name", CASES)
def test_layer(tmp_path: pathlib.Path, name: str) -> None:
    text, inputs, blobs, expected = CASES[name]
    r = np.random.default_rng(1)
    feeds = {k: r.standard_normal(v).astype("f4") for k, v in inputs.items()}
    if "cont" in feeds:
        feeds["cont"] = (r.random(feeds["cont"].shape) > 0.3).astype("f4")
    if name == "pool_stochastic":
        feeds["x"] = np.abs(feeds["x"])
    found = run(tmp_path, inputs_text(inputs) + text, caffemodel({"layer": blobs}) if blobs else caffemodel({"other": []}), feeds)
    wanted = expected(blobs, *(v.astype("f8") for v in feeds.values()))
    for top, value in (wanted if isinstance(wanted, dict) else {"y": wanted}).items():
        value = np.asarray(value)
        assert found[top].shape == value.shape
        np.testing.assert_allclose(found[top], value, rtol=1e-4, atol=1e-4 * max(1, np.abs(value).max()))


def test_embed(tmp_path: pathlib.Path) -> None:
    ids, table, bias = np.array([[3, 0], [1, 4]], "f4"), w(5, 6), w(6)
    text = inputs_text({"x": (2, 2)}) + layer("Embed", "x", "y", "embed_param { input_dim: 5 num_output: 6 }")
    found = run(tmp_path, text, caffemodel({"layer": [table, bias]}), {"x": ids})["y"]
    np.testing.assert_allclose(found, table[ids.astype(int)] + bias, rtol=1e-5, atol=1e-6)


def test_batch_reindex_and_filter(tmp_path: pathlib.Path) -> None:
    x, index, chosen = R.standard_normal((4, 3)).astype("f4"), np.array([2, 0, 2], "f4"), np.array([0, 1, 0, 1], "f4")
    text = inputs_text({"x": (4, 3), "i": (3,), "s": (4,)}) + layer("BatchReindex", "x i", "a", "", "r") + layer("Filter", "x s", "b", "", "f")
    found = run(tmp_path, text, None, {"x": x, "i": index, "s": chosen})
    np.testing.assert_array_equal(found["a"], x[[2, 0, 2]])
    np.testing.assert_array_equal(found["b"], x[[1, 3]])


def test_roi_pooling(tmp_path: pathlib.Path) -> None:
    x = R.standard_normal((2, 3, 10, 12)).astype("f4")
    rois = np.array([[0, 0, 0, 40, 30], [1, 8, 12, 47, 39], [0, 20, 20, 21, 21]], "f4")
    text = inputs_text({"x": x.shape, "r": rois.shape}) + layer("ROIPooling", "x r", "y", "roi_pooling_param { pooled_h: 3 pooled_w: 4 spatial_scale: 0.25 }")
    np.testing.assert_array_equal(run(tmp_path, text, None, {"x": x, "r": rois})["y"], roi_pool(x, rois, 3, 4, 0.25))


def test_prior_box(tmp_path: pathlib.Path) -> None:
    more = "prior_box_param { min_size: 8 max_size: 20 aspect_ratio: 2 aspect_ratio: 1 flip: true clip: true variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 offset: 0.5 }"
    text = inputs_text({"x": (1, 2, 3, 4), "d": (1, 3, 24, 40)}) + layer("PriorBox", "x d", "p", more) + layer("Power", "p", "y", "", "copy")
    feeds = {"x": np.zeros((1, 2, 3, 4), "f4"), "d": np.zeros((1, 3, 24, 40), "f4")}
    sizes = [(8, 8), (np.sqrt(160), np.sqrt(160)), (8 * np.sqrt(2), 8 / np.sqrt(2)), (8 / np.sqrt(2), 8 * np.sqrt(2))]
    boxes = [
        [((j + 0.5) * 10 - a / 2) / 40, ((i + 0.5) * 8 - b / 2) / 24, ((j + 0.5) * 10 + a / 2) / 40, ((i + 0.5) * 8 + b / 2) / 24]
        for i in range(3) for j in range(4) for a, b in sizes
    ]
    found = run(tmp_path, text, None, feeds)["y"]
    assert found.shape == (1, 2, 3 * 4 * 4 * 4)
    np.testing.assert_allclose(found[0, 0].reshape(-1, 4), np.clip(boxes, 0, 1), atol=1e-6)
    np.testing.assert_allclose(found[0, 1].reshape(-1, 4), np.tile(np.array([0.1, 0.1, 0.2, 0.2]), (48, 1)), atol=1e-7)
