"""Small networks of one operator and what follows it: every anchor of a fusion region with every epilogue.

A group is one ONNX model with all epilogues of an anchor, each on inputs of its own; the nodes of a pattern bear its
name. All are float32; a build converts them.
"""

from __future__ import annotations

from typing import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Pattern:
    """Nodes of one pattern under its name, with inputs and random weights."""

    def __init__(self, name: str) -> None:
        self.name, self.inputs, self.nodes, self.weights = name, [], [], []
        self.rng = np.random.default_rng(3)

    def input(self, *dims: int) -> str:
        name = f"{self.name}/x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, dims))
        return name

    def constant(self, array: np.ndarray) -> str:
        name = f"{self.name}/w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, *dims: int) -> str:
        return self.constant(self.rng.standard_normal(dims).astype(np.float32))

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def add(self, op: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        name = f"{self.name}/{len(self.nodes)}"
        names = [name, *(f"{name}_{i}" for i in range(1, outputs))]
        self.nodes.append(helper.make_node(op, list(inputs), names, name=name, **attributes))
        return name

    def graph(self, outputs: list) -> onnx.GraphProto:
        return helper.make_graph(self.nodes, "pattern", self.inputs, outputs, self.weights)

    def dims(self, value: str) -> list[int]:
        found = onnx.shape_inference.infer_shapes(model_of(self.graph([unknown(value)]))).graph.output[0]
        return [d.dim_value for d in found.type.tensor_type.shape.dim]


def unknown(value: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(value, TensorProto.FLOAT, None)


def model_of(graph: onnx.GraphProto) -> onnx.ModelProto:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def conv(channels: int, results: int, *kernel: int, group: int = 1, side: int = 14, **attributes: object) -> Callable:
    def make(p: Pattern) -> str:
        x = p.input(1, channels, *[side] * len(kernel))
        pads = [k // 2 for k in kernel] * 2
        return p.add(
            "Conv", x, p.weight(results, channels // group, *kernel), p.weight(results), group=group, pads=pads, **attributes
        )  # fmt: skip

    return make


def conv_transpose(channels: int, results: int, *kernel: int, group: int = 1, **attributes: object) -> Callable:
    def make(p: Pattern) -> str:
        x = p.input(1, channels, *[9] * len(kernel))
        weight = p.weight(channels, results // group, *kernel)
        return p.add("ConvTranspose", x, weight, p.weight(results), group=group, **attributes)

    return make


def matmul(*dims: int, columns: int = 48, constant: bool = True) -> Callable:
    def make(p: Pattern) -> str:
        x = p.input(*dims)
        w = p.weight(dims[-1], columns) if constant else p.input(*dims[:-2], dims[-1], columns)
        return p.add("MatMul", x, w)

    return make


def gemm(bias: bool = True, **attributes: object) -> Callable:
    def make(p: Pattern) -> str:
        rows = (64, 24) if attributes.get("transA") else (24, 64)
        w = p.weight(*((48, 64) if attributes.get("transB") else (64, 48)))
        return p.add("Gemm", p.input(*rows), w, *[p.weight(48)] * bias, **attributes)

    return make


def unary(op: str, *dims: int, **attributes: object) -> Callable:
    return lambda p: p.add(op, p.input(*dims), **attributes)


def norm(op: str, *dims: int, **attributes: object) -> Callable:
    def make(p: Pattern) -> str:
        count = dims[-1] if op in ("LayerNormalization", "RMSNormalization") else dims[1]
        return p.add(op, p.input(*dims), p.weight(count), p.weight(count), **attributes)

    return make


def batch_norm(*dims: int) -> Callable:
    def make(p: Pattern) -> str:
        c = dims[1]
        mean, variance = p.weight(c), p.constant(np.abs(p.rng.standard_normal(c)).astype(np.float32) + 0.5)
        return p.add("BatchNormalization", p.add("Relu", p.input(*dims)), p.weight(c), p.weight(c), mean, variance)

    return make


def attention(*batch: int, rows: int = 24, keys: int = 24, size: int = 32, mask: tuple | None = None) -> Callable:
    def make(p: Pattern) -> str:
        q, k, v = p.input(*batch, rows, size), p.input(*batch, keys, size), p.input(*batch, keys, size)
        order = [*range(len(batch)), len(batch) + 1, len(batch)]
        scores = p.add("Mul", p.add("MatMul", q, p.add("Transpose", k, perm=order)), p.constant(np.float32(size**-0.5)))
        if mask is not None:
            scores = p.add("Add", scores, p.input(*mask))
        return p.add("MatMul", p.add("Softmax", scores, axis=-1), v)

    return make


def packed_attention(*batch: int, rows: int, heads: int, size: int) -> Callable:
    """q, k and v of one product, split behind a transpose to [3, batch, heads, rows, size]."""

    def make(p: Pattern) -> str:
        x = p.input(*batch, rows, heads * size)
        packed = p.add("MatMul", x, p.weight(heads * size, 3 * heads * size))
        packed = p.add("Reshape", packed, p.ints(*batch, rows, 3, heads, size))
        n = len(batch)
        packed = p.add("Transpose", packed, perm=[n + 1, *range(n), n + 2, n, n + 3])
        q, k, v = (p.add("Gather", packed, p.constant(np.int64(i)), axis=0) for i in range(3))
        order = [*range(n + 1), n + 2, n + 1]
        scores = p.add("Mul", p.add("MatMul", q, p.add("Transpose", k, perm=order)), p.constant(np.float32(size**-0.5)))
        heads_of = p.add("MatMul", p.add("Softmax", scores, axis=-1), v)
        joined = p.add("Transpose", heads_of, perm=[*range(n), n + 1, n, n + 2])
        return p.add("Reshape", joined, p.ints(*batch, rows, heads * size))

    return make


def talking_heads(batch: int, rows: int, heads: int, size: int) -> Callable:
    """Scores are multiplied over the heads before and behind the softmax."""

    def make(p: Pattern) -> str:
        x = p.input(batch, rows, heads * size)
        packed = p.add("MatMul", x, p.weight(heads * size, 3 * heads * size))
        packed = p.add("Transpose", p.add("Reshape", packed, p.ints(batch, rows, 3, heads, size)), perm=[2, 0, 3, 1, 4])
        q, k, v = (p.add("Gather", packed, p.constant(np.int64(i)), axis=0) for i in range(3))
        scores = p.add("MatMul", p.add("Mul", q, p.constant(np.float32(size**-0.5))), p.add("Transpose", k, perm=[0, 1, 3, 2]))
        for softmax in (True, False):
            mixed = p.add("MatMul", p.add("Transpose", scores, perm=[0, 2, 3, 1]), p.weight(heads, heads))
            scores = p.add("Transpose", p.add("Add", mixed, p.weight(heads)), perm=[0, 3, 1, 2])
            scores = p.add("Softmax", scores, axis=-1) if softmax else scores
        joined = p.add("Transpose", p.add("MatMul", scores, v), perm=[0, 2, 1, 3])
        return p.add("Reshape", joined, p.ints(batch, rows, heads * size))

    return make


def sampled(*dims: int, mode: str, **attributes: object) -> Callable:
    def make(p: Pattern) -> str:
        x, grid = p.input(*dims), p.input(dims[0], *dims[2:], len(dims) - 2)
        return p.add("GridSample", x, grid, mode=mode, **attributes)

    return make


def resized(*dims: int, mode: str) -> Callable:
    def make(p: Pattern) -> str:
        scales = p.constant(np.array([1, 1, *[2] * (len(dims) - 2)], np.float32))
        return p.add("Resize", p.input(*dims), "", scales, mode=mode)

    return make


def reduced(op: str, *dims: int, axes: tuple) -> Callable:
    return lambda p: p.add(op, p.input(*dims), p.ints(*axes), keepdims=1)


def joined(*dims: int) -> Callable:
    return lambda p: p.add("Concat", p.input(*dims), p.add("Relu", p.input(*dims)), axis=1)


def padded(*dims: int, mode: str) -> Callable:
    return lambda p: p.add("Pad", p.input(*dims), p.ints(*[1] * (2 * len(dims))), mode=mode)


def dense(*dims: int) -> Callable:
    """Two layers of a dense block."""

    def make(p: Pattern) -> str:
        x, c = p.input(*dims), dims[1]
        for _ in range(2):
            y = p.add("Relu", p.add("Conv", x, p.weight(32, c, 3, 3), pads=[1, 1, 1, 1]))
            x, c = p.add("Concat", x, y, axis=1), c + 32
        return x

    return make


def recurrent(op: str, gates: int) -> Callable:
    def make(p: Pattern) -> str:
        return p.add(op, p.input(9, 2, 16), p.weight(1, gates * 24, 16), p.weight(1, gates * 24, 24), hidden_size=24)

    return make


def moved(*dims: int) -> Callable:
    return lambda p: p.add("Transpose", p.input(*dims), perm=[0, *range(2, len(dims)), 1])


def gathered(*dims: int, axis: int) -> Callable:
    return lambda p: p.add("Gather", p.input(*dims), p.ints(2, 0, 1), axis=axis)


ANCHORS: dict[str, Callable[[Pattern], str]] = {
    "conv 1x1": conv(64, 96, 1, 1),
    "conv 3x3": conv(64, 64, 3, 3),
    "conv 3x3 stride 2": conv(32, 64, 3, 3, strides=[2, 2]),
    "conv 3x3 dilated": conv(32, 32, 3, 3, dilations=[2, 2]),
    "conv 7x7 of a picture": conv(3, 64, 7, 7, side=32, strides=[2, 2]),
    "conv of odd channels": conv(5, 7, 3, 3),
    "conv 1d": conv(64, 64, 3),
    "conv 1d dilated": conv(64, 128, 3, dilations=[4]),
    "conv 3d": conv(16, 32, 3, 3, 3, side=6),
    "conv in groups": conv(64, 64, 3, 3, group=4),
    "depthwise 3x3": conv(64, 64, 3, 3, group=64),
    "depthwise 7x7": conv(96, 96, 7, 7, group=96),
    "depthwise 1d": conv(64, 64, 31, group=64),
    "depthwise 3d": conv(32, 32, 3, 3, 3, group=32, side=6),
    "depthwise by two": conv(32, 64, 3, 3, group=32),
    "patches": conv(3, 64, 8, 8, side=32, strides=[8, 8]),
    "transposed conv 2x2": conv_transpose(64, 32, 2, 2, strides=[2, 2]),
    "transposed conv 3x3": conv_transpose(32, 32, 3, 3, strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]),
    "transposed conv 4x4": conv_transpose(64, 32, 4, 4, strides=[2, 2], pads=[1, 1, 1, 1]),
    "transposed conv 5x5 of odd channels": conv_transpose(6, 5, 5, 5, strides=[3, 3]),
    "transposed conv in groups": conv_transpose(32, 32, 4, 4, strides=[2, 2], group=4),
    "transposed conv 1d": conv_transpose(64, 32, 4, strides=[2]),
    "transposed conv 3d": conv_transpose(16, 16, 2, 2, 2, strides=[2, 2, 2]),
    "matmul of rank 2": matmul(24, 64),
    "matmul of rank 3": matmul(2, 24, 64),
    "matmul of rank 4": matmul(2, 3, 24, 64),
    "matmul of rank 5": matmul(2, 2, 3, 24, 64),
    "matmul of odd sizes": matmul(3, 13, 37, columns=29),
    "matmul of two values": matmul(6, 24, 64, constant=False),
    "matmul of two values of rank 4": matmul(2, 3, 24, 64, constant=False),
    "matmul of two values of rank 5": matmul(2, 2, 3, 24, 64, constant=False),
    "gemm": gemm(transB=1),
    "gemm transposed": gemm(transA=1),
    "gemm scaled": gemm(alpha=0.5, beta=2.0),
    "gemm without bias": gemm(bias=False),
    "attention of rank 3": attention(4),
    "attention of rank 4": attention(2, 4),
    "attention of rank 5": attention(2, 3, 4),
    "attention with a mask": attention(2, 4, mask=(2, 1, 1, 24)),
    "attention with biases": attention(2, 4, rows=49, keys=49, mask=(1, 4, 49, 49)),
    "attention of windows with biases": attention(4, 3, rows=49, keys=49, mask=(1, 3, 49, 49)),
    "attention of rank 5 with a mask": attention(2, 4, 3, rows=49, keys=49, mask=(1, 4, 1, 49, 49)),
    "attention of heads of 36": attention(2, 4, size=36),
    "attention of heads of 256": attention(1, 2, size=256),
    "attention of one query": attention(1, 4, rows=1, keys=50),
    "packed attention": packed_attention(2, rows=24, heads=2, size=32),
    "packed attention of windows": packed_attention(2, 4, rows=16, heads=2, size=32),
    "talking heads": talking_heads(2, rows=24, heads=4, size=32),
    "layer norm": norm("LayerNormalization", 2, 24, 64),
    "layer norm of rank 4": norm("LayerNormalization", 2, 7, 7, 64),
    "group norm of rank 3": norm("GroupNormalization", 2, 32, 14, num_groups=4),
    "group norm": norm("GroupNormalization", 2, 64, 14, 14, num_groups=8),
    "group norm of one group": norm("GroupNormalization", 1, 64, 14, 14, num_groups=1),
    "group norm of rank 5": norm("GroupNormalization", 1, 16, 6, 6, 6, num_groups=4),
    "instance norm": norm("InstanceNormalization", 2, 32, 14, 14),
    "instance norm of rank 3": norm("InstanceNormalization", 2, 32, 14),
    "batch norm behind relu": batch_norm(1, 64, 14, 14),
    "batch norm of rank 3": batch_norm(1, 64, 14),
    "batch norm of rank 5": batch_norm(1, 16, 6, 6, 6),
    "l2 norm": unary("LpNormalization", 2, 24, 64, axis=-1, p=2),
    "local response norm": unary("LRN", 1, 32, 14, 14, size=5),
    "softmax": unary("Softmax", 2, 24, 50, axis=-1),
    "softmax over channels": unary("Softmax", 2, 24, 14, 14, axis=1),
    "log softmax": unary("LogSoftmax", 2, 24, 50, axis=-1),
    "max pool 3x3": unary("MaxPool", 1, 64, 14, 14, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    "average pool 3x3": unary("AveragePool", 1, 64, 14, 14, kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    "average pool 1d": unary("AveragePool", 1, 64, 14, kernel_shape=[3]),
    "max pool 3d": unary("MaxPool", 1, 16, 6, 6, 6, kernel_shape=[2, 2, 2], strides=[2, 2, 2]),
    "global average pool": unary("GlobalAveragePool", 1, 64, 14, 14),
    "mean over rows": reduced("ReduceMean", 2, 24, 64, axes=(1,)),
    "mean over columns": reduced("ReduceMean", 2, 24, 64, axes=(-1,)),
    "l2 length": reduced("ReduceL2", 2, 24, 64, axes=(-1,)),
    "max over pixels": reduced("ReduceMax", 2, 24, 14, 14, axes=(2, 3)),
    "resize nearest": resized(1, 32, 9, 9, mode="nearest"),
    "resize linear": resized(1, 32, 9, 9, mode="linear"),
    "resize cubic": resized(1, 32, 9, 9, mode="cubic"),
    "resize linear 1d": resized(1, 32, 9, mode="linear"),
    "resize linear 3d": resized(1, 8, 5, 5, 5, mode="linear"),
    "grid sample linear": sampled(1, 8, 9, 9, mode="linear"),
    "grid sample cubic": sampled(1, 8, 9, 9, mode="cubic", padding_mode="reflection"),
    "grid sample 3d": sampled(1, 4, 5, 5, 5, mode="nearest"),
    "concat": joined(1, 32, 14, 14),
    "dense block": dense(1, 32, 14, 14),
    "pad with zeros": padded(1, 8, 9, 9, mode="constant"),
    "pad by reflection": padded(1, 8, 9, 9, mode="reflect"),
    "transpose": moved(1, 32, 14, 14),
    "gather": gathered(4, 24, 64, axis=1),
    "depth to space": unary("DepthToSpace", 1, 64, 9, 9, blocksize=2),
    "space to depth": unary("SpaceToDepth", 1, 16, 8, 8, blocksize=2),
    "lstm": recurrent("LSTM", 4),
    "gru": recurrent("GRU", 3),
}


def channel_bias(p: Pattern, y: str) -> str:
    dims = p.dims(y)
    at = 1 if p.name.split(":")[0] in CHANNELS_FIRST else len(dims) - 1
    return p.add("Add", y, p.weight(*[n if d == at else 1 for d, n in enumerate(dims)]))


def residual(p: Pattern, y: str) -> str:
    return p.add("Relu", p.add("Add", y, p.input(*p.dims(y))))


def clipped(p: Pattern, y: str) -> str:
    return p.add("Clip", p.add("Gelu", y), p.constant(np.float32(0)), p.constant(np.float32(6)))


def gated(p: Pattern, y: str) -> str:
    return p.add("Mul", p.add("Tanh", y), p.add("Sigmoid", p.input(*p.dims(y))))


EPILOGUES: dict[str, Callable[[Pattern, str], str]] = {
    "relu": lambda p, y: p.add("Relu", y),
    "bias": channel_bias,
    "residual": residual,
    "gate": gated,
    "clip of gelu": clipped,
}
CHANNELS_FIRST = {name for name in ANCHORS if any(w in name for w in ("conv", "depthwise", "patches", "pool", "group norm"))}


def names(anchor: str, only: str = "") -> dict[str, Callable]:
    """The epilogues of an anchor by the names of the patterns, of those that contain |only|."""
    return {f"{anchor}:{e}": follow for e, follow in EPILOGUES.items() if only in f"{anchor}:{e}"}


def group(anchor: str, only: str = "") -> onnx.ModelProto:
    inputs, nodes, weights, outputs = [], [], [], []
    for name, follow in names(anchor, only).items():
        p = Pattern(name)
        outputs.append(unknown(follow(p, ANCHORS[anchor](p))))
        inputs, nodes, weights = inputs + p.inputs, nodes + p.nodes, weights + p.weights
    return model_of(helper.make_graph(nodes, "patterns", inputs, outputs, weights))
