#!/usr/bin/env python3
"""Small networks at odd sizes whose layers the half-precision CUDA rows fuse, against ONNX Runtime in float32.

Usage: fused_rows.py [--only=TEXT ..] [--untimed] CARNOT..     The command may be several words (compute-sanitizer
before it, under which times say nothing: --untimed takes the first row that fits).
Each case names the tactic that must have run it. With the stand-in driver and CARNOT_CUDA_ROWS=copies the
reference rows compute what the passes made; tactics are not looked at then.
"""
import argparse
import concurrent.futures
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(7)
LIMITS = {"--fp16": 2e-3, "--bf16": 1.6e-2}
LIMIT_FLOAT = 1e-5
PATIENCE_S = 150  # for one build and run, under compute-sanitizer too


class Net:
    """Nodes and float32 weights of one network."""

    def __init__(self, **inputs: list[int]) -> None:
        self.inputs, self.nodes, self.weights = inputs, [], []

    def constant(self, array: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, *dims: int, scale: float = 1.0) -> str:
        return self.constant((RNG.standard_normal(dims) * scale).astype(np.float32))

    def add(self, op: str, *inputs: str, **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def model(self, result: str) -> onnx.ModelProto:
        tensors = [helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in self.inputs.items()]
        out = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "net", tensors, [out], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def exported_mask(net: Net, batch: int, length: int) -> str:
    """Flags of keys [batch, length] by index arithmetic, as transformers' export writes it."""
    places = np.stack(np.meshgrid(np.arange(batch), np.arange(length), indexing="ij"), -1)
    y = net.add("GatherND", net.add("Cast", "mask", to=TensorProto.BOOL), net.constant(places[:, None, None]))
    y = net.add("And", net.constant(np.ones((1, 1, length, 1), bool)), y)
    return net.add("Where", y, net.constant(np.float32(0)), net.constant(np.float32(-3.4e38)))


def attention(batch: int, length: int, heads: int, size: int, masked: bool, hidden: int = 48,
              layers: int = 1, exported: bool = False) -> onnx.ModelProto:
    inputs = {"x": [batch, length, hidden]}
    if masked:
        inputs["mask"] = [batch, length] if exported else [batch, 1, 1, length]
    net = Net(**inputs)
    x = "x"
    for _ in range(layers):
        parts = []
        for _ in range(3):
            y = net.add("Add", net.add("MatMul", x, net.weight(hidden, heads * size, scale=hidden**-0.5)),
                        net.weight(heads * size, scale=0.1))
            y = net.add("Reshape", y, net.constant(np.array([0, 0, heads, size])))
            parts.append(net.add("Transpose", y, perm=[0, 2, 1, 3]))
        q, k, v = parts
        scores = net.add("MatMul", q, net.add("Transpose", k, perm=[0, 1, 3, 2]))
        scores = net.add("Mul", scores, net.constant(np.float32(size**-0.5)))
        if exported:
            scores = net.add("Add", scores, exported_mask(net, batch, length))
        elif masked:
            off = net.add("Sub", net.constant(np.float32(1)), "mask")
            scores = net.add("Add", scores, net.add("Mul", off, net.constant(np.float32(-3.4e38))))
        y = net.add("MatMul", net.add("Softmax", scores, axis=-1), v)
        y = net.add("Reshape", net.add("Transpose", y, perm=[0, 2, 1, 3]), net.constant(np.array([0, 0, heads * size])))
        y = net.add("Add", net.add("MatMul", y, net.weight(heads * size, hidden, scale=(heads * size) ** -0.5)),
                    net.weight(hidden))
        x = net.add("LayerNormalization", net.add("Add", y, x), net.weight(hidden), net.weight(hidden), axis=-1)
    return net.model(x)


def feed_forward(batch: int, length: int, hidden: int, inner: int, approximate: str) -> onnx.ModelProto:
    net = Net(x=[batch, length, hidden])
    y = net.add("Add", net.add("MatMul", "x", net.weight(hidden, inner, scale=hidden**-0.5)), net.weight(inner, scale=0.5))
    y = net.add("Gelu", y, approximate=approximate)
    y = net.add("Add", net.add("MatMul", y, net.weight(inner, hidden, scale=inner**-0.5)), net.weight(hidden))
    return net.model(net.add("Add", y, "x"))


def packed(batch: int, length: int, heads: int, size: int) -> onnx.ModelProto:
    """PyTorch's MultiheadAttention as it is exported: [S,B,..] inside, one projection for all."""
    hidden = heads * size
    net = Net(x=[batch, length, hidden])
    y = net.add("Transpose", "x", perm=[1, 0, 2])
    y = net.add("Add", net.add("MatMul", y, net.weight(hidden, 3 * hidden, scale=hidden**-0.5)), net.weight(3 * hidden))
    y = net.add("Reshape", y, net.constant(np.array([length, batch, 3, hidden])))
    y = net.add("Transpose", net.add("Unsqueeze", y, net.constant(np.array([0]))), perm=[3, 1, 2, 0, 4])
    y = net.add("Squeeze", y, net.constant(np.array([3])))
    parts = []
    for i in range(3):
        z = net.add("Gather", y, net.constant(np.array(i)), axis=0)
        z = net.add("Reshape", z, net.constant(np.array([length, batch * heads, size])))
        z = net.add("Transpose", z, perm=[1, 0, 2])
        parts.append(net.add("Reshape", z, net.constant(np.array([batch, heads, length, size]))))
    q, k, v = parts
    scores = net.add("MatMul", net.add("Mul", q, net.constant(np.float32(size**-0.5))),
                     net.add("Transpose", k, perm=[0, 1, 3, 2]))
    y = net.add("Transpose", net.add("MatMul", net.add("Softmax", scores, axis=-1), v), perm=[2, 0, 1, 3])
    y = net.add("Reshape", y, net.constant(np.array([length * batch, hidden])))
    y = net.add("Gemm", y, net.weight(hidden, hidden, scale=hidden**-0.5), net.weight(hidden), transB=1)
    y = net.add("Reshape", y, net.constant(np.array([length, batch, hidden])))
    return net.model(net.add("Add", net.add("Transpose", y, perm=[1, 0, 2]), "x"))


def heads(batch: int, count: int, queries: int, keys: int, size: int, kind: str = "", *mask: int) -> onnx.ModelProto:
    """softmax(q k' + mask) v. Masked keys are far below ("off"), at -inf behind a guard ("log"), or shifted ("bias")."""
    inputs = {"x": [batch, queries, 16], "z": [batch, keys, 16]}
    net = Net(**inputs | ({"bias" if kind == "bias" else "mask": list(mask)} if kind else {}))
    shape = net.constant(np.array([0, 0, count, size]))

    def project(x: str, *perm: int) -> str:
        y = net.add("MatMul", x, net.weight(16, count * size, scale=0.25))
        return net.add("Transpose", net.add("Reshape", y, shape), perm=perm)

    scores = net.add("MatMul", project("x", 0, 2, 1, 3), project("z", 0, 2, 3, 1))
    scores = net.add("Mul", scores, net.constant(np.float32(size**-0.5)))
    if kind == "bias":
        scores = net.add("Add", scores, "bias")
    elif kind == "log":
        scores = net.add("Add", scores, net.add("Log", "mask"))
    elif kind:
        off = net.add("Sub", net.constant(np.float32(1)), "mask")
        scores = net.add("Add", scores, net.add("Mul", off, net.constant(np.float32(-3.4e38))))
    weights = net.add("Softmax", scores, axis=-1)
    if kind == "log":
        weights = net.add("Where", net.add("IsNaN", weights), net.constant(np.float32(0)), weights)
    y = net.add("Transpose", net.add("MatMul", weights, project("z", 0, 2, 1, 3)), perm=[0, 2, 1, 3])
    y = net.add("Reshape", y, net.constant(np.array([0, 0, count * size])))
    return net.model(net.add("MatMul", y, net.weight(count * size, 16, scale=(count * size) ** -0.5)))


def group_norm(batch: int, channels: int, groups: int, side: int, silu: bool) -> onnx.ModelProto:
    net = Net(x=[batch, 5, side, side + 1])
    y = net.add("Conv", "x", net.weight(channels, 5, 3, 3, scale=0.15), net.weight(channels), pads=[1, 1, 1, 1])
    y = net.add("GroupNormalization", y, net.weight(channels), net.weight(channels), num_groups=groups)
    if silu:
        y = net.add("Mul", y, net.add("Sigmoid", y))
    return net.model(net.add("Conv", y, net.weight(8, channels, 1, 1, scale=channels**-0.5), net.weight(8)))


def depthwise(batch: int, channels: int, kernel: int, step: int, side: int, activation: str) -> onnx.ModelProto:
    net = Net(x=[batch, 3, side, side + 3])
    y = net.add("Conv", "x", net.weight(channels, 3, 1, 1), net.weight(channels))
    y = net.add("Conv", y, net.weight(channels, 1, kernel, kernel, scale=1 / kernel), net.weight(channels),
                group=channels, strides=[step, step], pads=[kernel // 2] * 4)
    if activation == "silu":
        y = net.add("Mul", y, net.add("Sigmoid", y))
    elif activation == "relu6":
        y = net.add("Clip", y, net.constant(np.float32(0)), net.constant(np.float32(6)))
    elif activation:
        y = net.add(activation, y)
    z = net.add("Conv", y, net.weight(channels, channels, 1, 1, scale=channels**-0.5), net.weight(channels))
    return net.model(net.add("Add", z, y))


def pooled(op: str, batch: int, channels: int, side: int) -> onnx.ModelProto:
    """A reduction over all pixels, and the channels scaled by what a small network makes of it."""
    net = Net(x=[batch, 3, side, side + 1])
    y = net.add("Conv", "x", net.weight(channels, 3, 1, 1), net.weight(channels))
    z = net.add(op, y) if op.startswith("Global") else net.add(op, y, net.constant(np.array([2, 3])), keepdims=1)
    z = net.add("Mul", z, net.constant(np.float32(1 / (side * side) if op == "ReduceSum" else 1)))
    z = net.add("Conv", z, net.weight(channels, channels, 1, 1, scale=channels**-0.5), net.weight(channels))
    y = net.add("Mul", y, net.add("Sigmoid", z))
    return net.model(net.add("Conv", y, net.weight(8, channels, 1, 1, scale=channels**-0.5), net.weight(8)))


def squeezed(op: str, batch: int, channels: int, hidden: int, side: int, inner: str, outer: str) -> onnx.ModelProto:
    """Squeeze and excitation behind a convolution, the hidden layer with a bias, the outer one without if it is odd."""
    net = Net(x=[batch, 3, side, side + 1])
    y = net.add("Conv", "x", net.weight(channels, 3, 1, 1), net.weight(channels))
    z = net.add(op, y) if op.startswith("Global") else net.add(op, y, net.constant(np.array([-1, -2])), keepdims=1)
    z = net.add("Conv", z, net.weight(hidden, channels, 1, 1, scale=4 * channels**-0.5), net.weight(hidden))
    z = net.add("Mul", z, net.add("Sigmoid", z)) if inner == "silu" else net.add(inner, z)
    z = net.add("Conv", z, net.weight(channels, hidden, 1, 1, scale=2 * hidden**-0.5),
                *([] if hidden % 2 else [net.weight(channels)]))
    y = net.add("Mul", net.add(outer, z), y)
    return net.model(net.add("Conv", y, net.weight(8, channels, 1, 1, scale=channels**-0.5), net.weight(8)))


def reduced(op: str, dims: list[int], axis: int) -> onnx.ModelProto:
    net = Net(x=dims)
    return net.model(net.add(op, "x", net.constant(np.array([axis])), keepdims=0))


def windows(op: str, channels: int, side: int, **attributes: object) -> onnx.ModelProto:
    net = Net(x=[2, 3, side, side + 2])
    y = net.add("Conv", "x", net.weight(channels, 3, 1, 1), net.weight(channels))
    y = net.add(op, y, **attributes)
    return net.model(net.add("Conv", y, net.weight(8, channels, 1, 1, scale=channels**-0.5), net.weight(8)))


def patches(batch: int, size: int, filters: int, side: int, bias: bool) -> onnx.ModelProto:
    """The patch embedding of a vision transformer: the result is read as [batch, patches, filters]."""
    net = Net(x=[batch, 3, side, side + size])
    weights = [net.weight(filters, 3, size, size, scale=0.5 / size), *([net.weight(filters)] if bias else [])]
    y = net.add("Conv", "x", *weights, strides=[size, size])
    y = net.add("Reshape", y, net.constant(np.array([0, 0, -1])))
    y = net.add("Transpose", y, perm=[0, 2, 1])
    return net.model(net.add("LayerNormalization", y, net.weight(filters), net.weight(filters), axis=-1))


def channels_inside(channels: int, side: int) -> onnx.ModelProto:
    """ConvNeXt's norm: over the channels, between two transposes that move nothing channels last."""
    net = Net(x=[2, 3, side, side])
    y = net.add("Conv", "x", net.weight(channels, 3, 3, 3, scale=0.2), net.weight(channels))
    y = net.add("Transpose", y, perm=[0, 2, 3, 1])
    y = net.add("LayerNormalization", y, net.weight(channels), net.weight(channels), axis=-1)
    y = net.add("Transpose", y, perm=[0, 3, 1, 2])
    return net.model(net.add("Conv", y, net.weight(8, channels, 3, 3, scale=channels**-0.5), net.weight(8)))


def mixed(*dims: int) -> onnx.ModelProto:
    """A chain through comparisons, bool and integers; one side of each is far from where it turns."""
    net = Net(x=[*dims], mask=[*dims])
    wide = net.add("Cast", net.add("Mul", "x", net.constant(np.float32(100))), to=TensorProto.INT32)
    high = net.add("Greater", net.add("Cast", net.add("Cast", "mask", to=TensorProto.INT64), to=TensorProto.FLOAT),
                   net.constant(np.float32(0.5)))
    both = net.add("And", high, net.add("Cast", "mask", to=TensorProto.BOOL))
    y = net.add("Where", both, net.add("Mul", "x", net.constant(np.float32(0.5))), net.add("Neg", "x"))
    return net.model(net.add("Add", y, net.add("Mul", net.add("Cast", net.add("Sign", wide), to=TensorProto.FLOAT), "mask")))


CASES = [(f"attention {c}", attention(*c), "cuda_attention") for c in [
    (1, 37, 5, 40, True), (3, 128, 2, 64, True), (2, 197, 3, 64, False), (2, 65, 2, 128, True), (1, 1, 2, 32, False),
    (5, 130, 4, 8, True), (2, 300, 2, 72, True)]]
CASES += [(f"feed forward {c}", feed_forward(*c), "cuda_") for c in [
    (1, 37, 64, 256, "none"), (4, 128, 96, 384, "none"), (2, 65, 72, 200, "tanh"), (1, 5, 40, 36, "none")]]
CASES += [(f"heads {c}", heads(*c), "cuda_attention") for c in [
    (1, 12, 128, 128, 64, "off", 1, 1, 1, 128), (1, 12, 197, 197, 64), (1, 16, 384, 384, 64, "log", 1, 1, 384, 384),
    (1, 12, 1, 1024, 64, "off", 1, 1, 1, 1024), (2, 3, 1, 1, 32), (3, 2, 65, 37, 40, "bias", 3, 1, 65, 37),
    (1, 4, 17, 257, 80, "bias", 17, 257), (2, 2, 1, 77, 128, "bias", 77), (1, 140, 65, 65, 128, "log", 140, 65, 65),
    (2, 80, 64, 77, 80, "off", 2, 80, 64, 77), (24, 12, 211, 210, 64, "off", 24, 1, 211, 210),
    (24, 12, 100, 63, 32, "log", 24, 1, 1, 63), (24, 12, 128, 66, 64, "bias", 12, 1, 66), (24, 12, 5, 197, 24)]]
CASES += [(f"packed {c}", packed(*c), "cuda_attention") for c in [(3, 19, 4, 16), (1, 70, 3, 64), (2, 5, 2, 40)]]
CASES += [(f"group norm {c}", group_norm(*c), "cuda_group_norm") for c in [
    (1, 320, 32, 16, True), (3, 24, 3, 7, True), (2, 1280, 32, 5, False), (1, 40, 4, 33, True), (2, 72, 6, 1, False),
    (2, 24, 24, 9, True), (1, 48, 24, 12, False)]]
CASES += [("group norm of 36 channels", group_norm(2, 36, 3, 1, False), "cuda_norm")]
CASES += [(f"depthwise {c}", depthwise(*c), "cuda_depthwise") for c in [
    (1, 32, 3, 1, 17, "relu6"), (3, 24, 5, 2, 14, "silu"), (2, 8, 3, 2, 9, "HardSwish"), (1, 96, 7, 1, 7, "Relu"),
    (2, 40, 3, 1, 5, ""), (2, 96, 3, 1, 30, "Relu"), (3, 72, 3, 2, 39, "silu"), (1, 64, 5, 1, 30, "HardSwish"),
    (3, 64, 5, 2, 41, "relu6"), (8, 96, 3, 1, 80, "Sigmoid")]]  # several results a thread, the last on any device
CASES += [(f"group norm {c}", group_norm(*c), "cuda_group_norm") for c in [
    (1, 320, 32, 64, True), (2, 640, 32, 31, False), (3, 64, 32, 40, True), (1, 16, 2, 130, False)]]
CASES += [(f"squeeze {c}", squeezed(*c), "cuda_squeeze") for c in [
    ("GlobalAveragePool", 1, 32, 8, 111, "silu", "Sigmoid"), ("ReduceMean", 1, 144, 6, 56, "silu", "Sigmoid"),
    ("GlobalAveragePool", 3, 1152, 48, 7, "silu", "Sigmoid"), ("ReduceMean", 12, 672, 28, 14, "Relu", "HardSigmoid"),
    ("GlobalAveragePool", 9, 72, 23, 29, "HardSwish", "Sigmoid"), ("GlobalAveragePool", 20, 8, 1, 3, "Relu", "HardSigmoid"),
    ("GlobalAveragePool", 2, 2048, 128, 5, "Relu", "Sigmoid"), ("ReduceMean", 9, 2056, 130, 4, "Gelu", "Sigmoid"),
    ("GlobalAveragePool", 33, 96, 4, 60, "silu", "Sigmoid"), ("GlobalAveragePool", 1, 40, 10, 1, "Relu", "HardSigmoid")]]
# One row alone, and never of one batch: sanitizers, which find what libraries do, take those.
LIBRARY = [(f"library's {name} {c}", make(*c), "cuda_attention_cudnn") for name, make, c in [
    ("attention", attention, (2, 197, 3, 64, False)), ("attention", attention, (3, 1024, 2, 128, False)),
    ("attention", attention, (2, 65, 2, 40, False)), ("heads", heads, (2, 3, 100, 513, 64)),
    ("heads", heads, (24, 12, 1, 197, 24)), ("packed", packed, (3, 70, 4, 64))]]
MASKS = [(f"exported mask {c}", attention(*c, exported=True), "cuda_attention", ("cuda_gather_nd",)) for c in [
    (1, 128, 2, 64, True), (3, 37, 2, 32, True)]]
COPIES = ("cuda_reformat", "cuda_transpose")  # no layer of these networks needs them in halves
MIXED = [(2, 3, 37), (4, 5, 6, 7), (129,), (8, 1, 260)]
ALL_TYPES = [(f"mixed types {c}", mixed(*c), "cuda_pointwise", ("cuda_cast",)) for c in MIXED]
ALL_TYPES += [(f"{c[0]} of pixels {c[1:]}", pooled(*c), "cuda_reduce", COPIES) for c in [
    ("GlobalAveragePool", 1, 32, 112), ("GlobalAveragePool", 3, 1152, 7), ("GlobalMaxPool", 2, 40, 33),
    ("ReduceSum", 1, 96, 56), ("ReduceMin", 5, 24, 9), ("ReduceMean", 2, 18, 21)]]
ALL_TYPES += [(f"{c[0]} {c[1:]}", reduced(*c), "cuda_reduce", ()) for c in [
    ("ReduceMean", [3, 197, 96], 1), ("ReduceMax", [1, 1031, 37], 1), ("ReduceL2", [2, 65, 64], 1),
    ("ReduceMean", [7, 5, 777], 2), ("ReduceSumSquare", [2, 12, 12, 40], 1)]]
ALL_TYPES += [(f"{op} {channels} {side} {a}", windows(op, channels, side, **a), "cuda_pool", COPIES)
              for op, channels, side, a in [
    ("MaxPool", 64, 23, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("MaxPool", 8, 12, {"kernel_shape": [5, 4], "strides": [1, 3], "ceil_mode": 1, "dilations": [2, 1]}),
    ("AveragePool", 16, 17, {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [1, 1, 1, 1]}),
    ("AveragePool", 40, 9, {"kernel_shape": [2, 5], "pads": [0, 2, 1, 2], "count_include_pad": 1}),
    ("AveragePool", 12, 9, {"kernel_shape": [2, 2], "strides": [2, 2]})]]
ALL_TYPES += [(f"patches {c}", patches(*c), "cuda_conv_patch", COPIES) for c in [
    (1, 16, 96, 64, True), (3, 14, 40, 45, True), (2, 8, 24, 31, False)]]
ALL_TYPES += [(f"norm over channels {c}", channels_inside(*c), "cuda_norm", COPIES) for c in [(48, 13), (20, 9)]]


def finished(command: list[str], env: dict[str, str]) -> tuple[int, str, str]:
    """Exit status and both outputs. What takes too long is ended, with all that it started."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
                          start_new_session=True) as process:
        try:
            told, warned = process.communicate(timeout=PATIENCE_S)
            return process.returncode, told, warned
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return 124, f"no end in {PATIENCE_S} s", ""


def told(line: str) -> None:
    """Prints |line| in one piece: checks run on many threads, and their lines are counted."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def error(
    carnot: list[str], model: onnx.ModelProto, flag: str, folder: pathlib.Path, level: int = 3, **more: str
) -> tuple[float, str]:
    """Relative L2 and the profile, or infinity and why it did not run. Level 1: the first row that fits, untimed."""
    path = str(folder / "net.onnx")
    onnx.save(model, path)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1  # many checks run at once
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {}
    rng = np.random.default_rng(11)
    for value in session.get_inputs():
        random = rng.standard_normal(value.shape).astype(np.float32)
        if value.name == "mask":
            random = (random > -0.5).astype(np.float32)
            keys = value.shape[-1]
            random[..., : keys // 2], random[..., keys - keys // 5 :] = 1, 0
            if os.environ.get("CARNOT_CUDA_ROWS") != "copies":  # the reference rows keep masks as halves
                rows = random.reshape(-1, keys)
                rows[1 : len(rows) // 4 : 3] = 0
        feeds[value.name] = random
        np.save(folder / f"{value.name}.npy", feeds[value.name])
    wanted = session.run(None, feeds)[0].astype(np.float64)
    flags = [f"--input={n}={folder}/{n}.npy" for n in feeds]
    command = [*carnot, "run", path, "--backend=cuda", *[flag] * bool(flag), *flags, "--dumpProfile", "--threads=1",
               f"--builderOptimizationLevel={level}", f"--output-dir={folder}/out"]
    code, text, warned = finished(command, os.environ | more)
    if code:
        return np.inf, f"{text[-1200:]} {warned[-400:]}"
    got = np.load(next((folder / "out").glob("*.npy"))).astype(np.float64)
    if got.shape != wanted.shape:
        return np.inf, f"shape {got.shape}, must be {wanted.shape}"
    off = float(np.linalg.norm(got - wanted) / np.linalg.norm(wanted))
    return off, "any tactic" if os.environ.get("CARNOT_CUDA_ROWS") == "copies" else warned


def arguments() -> argparse.Namespace:
    """only: texts that a case's name and flag must have all. untimed. carnot: the command."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--untimed", action="store_true")
    parser.add_argument("carnot", nargs=argparse.REMAINDER)
    return parser.parse_args()


def check_merged(carnot: list[str], layers: int) -> bool:
    """Queries, keys and values of every layer are one product: two are left of its four, and the attention's two."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "net.onnx"
        onnx.save(attention(2, 24, 3, 16, masked=True, layers=layers), path)
        done = subprocess.run([*carnot, "build", str(path), "--output", f"{folder}/net.plan", "--backend=cuda:sm_90",
                               "--fp16", "--dumpGraph=fuse_qkv_projections"], capture_output=True, text=True)
    count = sum(" = matmul(" in line for line in done.stderr.splitlines())
    good = done.returncode == 0 and count == 4 * layers
    print(f"{'passed' if good else 'FAILED'} {layers} layers with {count} products, must be {4 * layers}")
    return good


def main() -> int:
    asked = arguments()

    def check(case: tuple[str, onnx.ModelProto, str, tuple[str, ...]], flag: str) -> bool:
        name, model, tactic, copies = case
        limit = LIMITS.get(flag, LIMIT_FLOAT)
        with tempfile.TemporaryDirectory() as folder:
            alone = {"CARNOT_CUDA_ROWS": tactic} if name.startswith("library") else {}
            off, text = error(asked.carnot, model, flag, pathlib.Path(folder), level=1 if asked.untimed else 3, **alone)
        needless = [c for c in copies if flag and c in text]
        good = off <= limit and (text == "any tactic" or (tactic in text and not needless))
        why = "" if good else f" (wanted {tactic}, no {needless}): {text[-1200:]}"
        told(f"{'passed' if good else 'FAILED'} {name} {flag or 'float32'}: relative L2 {off:.1e}, "
             f"limit {limit:.0e}{why}")
        return good

    cases = [*CASES, *LIBRARY]
    if "CARNOT_CUDA_ROWS" in os.environ:
        cases = CASES
        told(f"skipped {len(LIBRARY)} of libraries: CARNOT_CUDA_ROWS chooses the rows")
    jobs = [(c, f) for c in [*[(*c, ()) for c in cases], *MASKS] for f in LIMITS] + [(c, f) for c in ALL_TYPES for f in (*LIMITS, "")]
    jobs = [j for j in jobs if all(word in f"{j[0][0]} {j[1]}" for word in asked.only)]
    with concurrent.futures.ThreadPoolExecutor(max(8, os.cpu_count() or 1)) as pool:
        done = list(pool.map(check, *zip(*jobs)))
    return not all([*done, check_merged(asked.carnot, 5)])


if __name__ == "__main__":
    sys.exit(main())
