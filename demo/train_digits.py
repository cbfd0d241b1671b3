#!/usr/bin/env python3
"""Trains a small convolutional reader of digits with NumPy and writes it as ONNX.

The data are scikit-learn's 1,797 digits of 8 x 8 pixels. The model takes a picture [1, 1, H, W] of any size with values
0 ... 255. Inside it, the picture is averaged down to 16 x 16, its border tells whether the digit is dark on light or
light on dark, and contrast is brought to 0 ... 1; two convolutions and a linear layer give ten logits, then Softmax.

Usage: train_digits.py [OUTPUT]   (default: digits.onnx beside this file)
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

SIDE = 16
RNG = np.random.default_rng(7)


def resize(pictures: np.ndarray, side: int) -> np.ndarray:
    """[N, H, W] to [N, side, side], linear between pixel centres (ONNX Resize, half_pixel, antialias off)."""

    def axis_weights(size: int) -> np.ndarray:
        at = np.clip((np.arange(side) + 0.5) * size / side - 0.5, 0, size - 1)
        low = np.floor(at).astype(int)
        weights = np.zeros((side, size))
        weights[np.arange(side), low] += 1 - (at - low)
        weights[np.arange(side), np.minimum(low + 1, size - 1)] += at - low
        return weights

    return np.einsum("yh,nhw,xw->nyx", axis_weights(pictures.shape[1]), pictures, axis_weights(pictures.shape[2]))


def shifted(pictures: np.ndarray) -> np.ndarray:
    """Each picture scaled, sheared and moved a little at random, on a canvas of SIDE x SIDE."""
    n = len(pictures)
    y, x = np.mgrid[0:SIDE, 0:SIDE] + 0.5
    zoom = RNG.uniform(0.75, 1.25, (2, n, 1, 1))
    shear = RNG.uniform(-0.25, 0.25, (n, 1, 1))
    move = RNG.uniform(-1.5, 1.5, (2, n, 1, 1))
    cy = (y - SIDE / 2 - move[0]) / zoom[0] + SIDE / 2 - 0.5
    cx = (x - SIDE / 2 - move[1]) / zoom[1] + shear * (y - SIDE / 2) + SIDE / 2 - 0.5
    padded = np.pad(pictures, ((0, 0), (8, 8), (8, 8)))
    iy, ix = np.floor(cy).astype(int), np.floor(cx).astype(int)
    fy, fx = cy - iy, cx - ix
    which = np.arange(n)[:, None, None]

    def at(dy: int, dx: int) -> np.ndarray:
        return padded[which, np.clip(iy + dy + 8, 0, SIDE + 15), np.clip(ix + dx + 8, 0, SIDE + 15)]

    top = at(0, 0) * (1 - fx) + at(0, 1) * fx
    bottom = at(1, 0) * (1 - fx) + at(1, 1) * fx
    return top * (1 - fy) + bottom * fy


# ---- the network: conv 3x3 s2, ReLU, conv 3x3 s2, ReLU, linear ----

SHAPES = {"conv1": (16, 1, 3, 3), "bias1": (16,), "conv2": (32, 16, 3, 3), "bias2": (32,), "linear": (512, 10), "bias3": (10,)}


def columns(x: np.ndarray) -> np.ndarray:
    """[N, C, H, W] to [N, H/2, W/2, C*9]: the windows of a 3 x 3 convolution of stride 2 with one pixel of padding."""
    x = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(*windows.shape[:1], *windows.shape[2:4], -1)


def scatter(d: np.ndarray, channels: int, side: int) -> np.ndarray:
    """The transpose of |columns|."""
    n, h, w, _ = d.shape
    d = d.reshape(n, h, w, channels, 3, 3)
    out = np.zeros((n, channels, side + 2, side + 2), d.dtype)
    for r in range(3):
        for s in range(3):
            out[:, :, r : r + 2 * h : 2, s : s + 2 * w : 2] += d[:, :, :, :, r, s].transpose(0, 3, 1, 2)
    return out[:, :, 1:-1, 1:-1]


def forward(p: dict[str, np.ndarray], x: np.ndarray):
    c1 = columns(x)
    h1 = np.maximum(c1 @ p["conv1"].reshape(16, -1).T + p["bias1"], 0)
    c2 = columns(h1.transpose(0, 3, 1, 2))
    h2 = np.maximum(c2 @ p["conv2"].reshape(32, -1).T + p["bias2"], 0)
    flat = h2.transpose(0, 3, 1, 2).reshape(len(x), -1)
    return flat @ p["linear"] + p["bias3"], (c1, h1, c2, h2, flat)


def gradients(p: dict[str, np.ndarray], x: np.ndarray, label: np.ndarray) -> dict[str, np.ndarray]:
    logits, (c1, h1, c2, h2, flat) = forward(p, x)
    e = np.exp(logits - logits.max(1, keepdims=True))
    d = e / e.sum(1, keepdims=True)
    d[np.arange(len(x)), label] -= 1
    d /= len(x)
    g = {"linear": flat.T @ d, "bias3": d.sum(0)}
    d = (d @ p["linear"].T).reshape(len(x), 32, 4, 4).transpose(0, 2, 3, 1) * (h2 > 0)
    g["conv2"] = (d.reshape(-1, 32).T @ c2.reshape(-1, c2.shape[-1])).reshape(SHAPES["conv2"])
    g["bias2"] = d.sum((0, 1, 2))
    d = scatter(d @ p["conv2"].reshape(32, -1), 16, 8).transpose(0, 2, 3, 1) * (h1 > 0)
    g["conv1"] = (d.reshape(-1, 16).T @ c1.reshape(-1, c1.shape[-1])).reshape(SHAPES["conv1"])
    g["bias1"] = d.sum((0, 1, 2))
    return g


def normalised(x: np.ndarray) -> np.ndarray:
    low, high = x.min((1, 2), keepdims=True), x.max((1, 2), keepdims=True)
    return (x - low) / (high - low + 1e-3)


def train(pictures: np.ndarray, labels: np.ndarray, epochs: int) -> dict[str, np.ndarray]:
    p = {k: (RNG.standard_normal(s) * np.sqrt(2 / max(1, np.prod(s[1:] if len(s) > 2 else s[:1]))) if len(s) > 1 else np.zeros(s)).astype(np.float32)
         for k, s in SHAPES.items()}
    m, v = ({k: np.zeros_like(a) for k, a in p.items()} for _ in range(2))
    step = 0
    for epoch in range(epochs):
        order = RNG.permutation(len(pictures))
        moved = normalised(shifted(pictures[order])).astype(np.float32)
        rate = 3e-3 * 0.5 * (1 + np.cos(np.pi * epoch / epochs))
        for at in range(0, len(order), 64):
            g = gradients(p, moved[at : at + 64, None], labels[order[at : at + 64]])
            step += 1
            for k in p:  # Adam
                m[k] += 0.1 * (g[k] - m[k])
                v[k] += 0.01 * (g[k] ** 2 - v[k])
                p[k] -= rate * (m[k] / (1 - 0.9**step)) / (np.sqrt(v[k] / (1 - 0.99**step)) + 1e-8)
    return p


def to_onnx(p: dict[str, np.ndarray]) -> onnx.ModelProto:
    constants = {k: a.astype(np.float32) for k, a in p.items()}
    inner = np.ones((1, 1, SIDE, SIDE), np.float32)
    inner[:, :, 1:-1, 1:-1] = 0
    constants |= {"border": inner / inner.sum(), "half": np.float32(0.5), "tiny": np.float32(1e-3), "one": np.float32(1),
                  "sizes": np.array([1, 1, SIDE, SIDE], np.int64), "picture_axes": np.array([1, 2, 3], np.int64)}
    n = helper.make_node
    nodes = [
        n("Resize", ["x", "", "", "sizes"], ["small"], "shrink", mode="linear", coordinate_transformation_mode="half_pixel", antialias=1),
        n("ReduceMin", ["small", "picture_axes"], ["low"], "darkest"), n("ReduceMax", ["small", "picture_axes"], ["high"], "lightest"),
        n("Sub", ["small", "low"], ["above"], "above"), n("Sub", ["high", "low"], ["range"], "range"), n("Add", ["range", "tiny"], ["span"], "span"),
        n("Div", ["above", "span"], ["grey"], "contrast"),
        # A light border means a dark digit: the picture is turned over.
        n("Mul", ["grey", "border"], ["edge"], "edge"), n("ReduceSum", ["edge", "picture_axes"], ["paper"], "paper"),
        n("Greater", ["paper", "half"], ["dark"], "dark_digit"), n("Sub", ["one", "grey"], ["turned"], "turn_over"),
        n("Where", ["dark", "turned", "grey"], ["ink"], "ink"),
        n("Conv", ["ink", "conv1", "bias1"], ["c1"], "conv1", strides=[2, 2], pads=[1, 1, 1, 1]), n("Relu", ["c1"], ["h1"], "relu1"),
        n("Conv", ["h1", "conv2", "bias2"], ["c2"], "conv2", strides=[2, 2], pads=[1, 1, 1, 1]), n("Relu", ["c2"], ["h2"], "relu2"),
        n("Flatten", ["h2"], ["flat"], "flatten"), n("Gemm", ["flat", "linear", "bias3"], ["logits"], "linear"),
        n("Softmax", ["logits"], ["digit"], "softmax", axis=1),
    ]
    graph = helper.make_graph(nodes, "digits", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, "height", "width"])],
                              [helper.make_tensor_value_info("digit", TensorProto.FLOAT, [1, 10])],
                              [numpy_helper.from_array(np.asarray(a), k) for k, a in constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9, producer_name="train_digits.py")
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> int:
    output = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).with_name("digits.onnx")
    digits = load_digits()
    order = np.random.default_rng(1).permutation(len(digits.target))
    pictures, labels = resize(digits.images / 16.0, SIDE)[order], digits.target[order]
    # The digits fill their 8 x 8 frame; drawn ones have a margin, so half of the training shows them smaller.
    small = np.pad(resize(digits.images / 16.0, 12)[order], ((0, 0), (2, 2), (2, 2)))
    held = 297
    train_x, train_y = np.concatenate([pictures[held:], small[held:]]), np.concatenate([labels[held:]] * 2)
    p = train(train_x, train_y, epochs=40)
    for name, x in (("full", pictures[:held]), ("small", small[:held])):
        logits, _ = forward(p, normalised(x).astype(np.float32)[:, None])
        print(f"held out, {name}: {(logits.argmax(1) == labels[:held]).mean():.4f} of {held} read rightly")
    model = to_onnx(p)
    onnx.save(model, output)
    print(f"{output}: {output.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
