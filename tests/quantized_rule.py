"""Small Q/DQ networks, and what they give by the rounding rule of tactic/problem/quantized.h, in NumPy."""

import json
import pathlib
from typing import Callable, Sequence

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

RNG = np.random.default_rng(23)
TYPES = {np.uint8: T.UINT8, np.int8: T.INT8, np.int32: T.INT32, np.float32: T.FLOAT, np.float16: T.FLOAT16}
F = np.float32


class Model:
    """Nodes over quantized operands, with an initializer for each array."""

    def __init__(self, opset: int = 21) -> None:
        self.opset = opset
        self.nodes: list = []
        self.constants: dict = {}
        self.inputs: dict = {}
        self.dims: dict = {}

    def packed_constant(self, array: np.ndarray, dtype: int) -> str:
        """Integers of a type that NumPy lacks, such as INT4."""
        name = f"c{len(self.constants)}"
        self.constants[name] = h.make_tensor(name, dtype, array.shape, array.reshape(-1).tolist())
        return name

    def constant(self, array: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def node(self, op: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: object) -> str | list:
        """The name of the result, or their names."""
        names = [f"{op}_{len(self.nodes)}{'' if i == 0 else f'_{i}'}" for i in range(outputs)]
        self.nodes.append(h.make_node(op, inputs, names, names[0], domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def input(self, name: str, array: np.ndarray, dims: Sequence[int | str] | None = None) -> str:
        """|dims|: the array's, or names where they are open."""
        self.inputs[name] = array
        self.dims[name] = dims or array.shape
        return name

    def dequantize(self, x: str, scale: object, zero: object, **attributes: object) -> str:
        return self.node("DequantizeLinear", x, self.constant(scale), self.constant(zero), **attributes)

    def quantize(self, x: str, scale: object, zero: object) -> str:
        return self.node("QuantizeLinear", x, self.constant(scale), self.constant(zero))

    def run(self, folder: pathlib.Path, outputs: dict, command: Callable[..., str], *flags: str) -> tuple[list, list]:
        """The outputs, and the tactics of the layers in order. |command| runs carnot and returns what it prints."""
        graph = h.make_graph(
            self.nodes,
            "g",
            [h.make_tensor_value_info(k, TYPES[v.dtype.type], self.dims[k]) for k, v in self.inputs.items()],
            [h.make_tensor_value_info(k, TYPES[v], None) for k, v in outputs.items()],
            [v if isinstance(v, T) else nh.from_array(v, k) for k, v in self.constants.items()],
        )
        opsets = [h.make_opsetid("", self.opset), h.make_opsetid("com.microsoft", 1)]
        onnx.save(h.make_model(graph, opset_imports=opsets, ir_version=10), folder / "m.onnx")
        plan = folder / "m.plan"
        command("build", folder / "m.onnx", "--output", plan, *flags)
        given = []
        for name, array in self.inputs.items():
            np.save(folder / f"{name}.npy", array)
            given += ["--input", f"{name}={folder / name}.npy"]
        command("run", plan, *given, "--output-dir", folder / "out")
        layers = json.loads(command("inspect", plan, "--json"))["Layers"]
        return [np.load(folder / "out" / f"{name}.npy") for name in outputs], [layer["TacticName"] for layer in layers]


def numbers(dtype: type, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


def round_to(v: np.ndarray, zero: int, low: int, high: int, dtype: type) -> np.ndarray:
    v = np.where(np.isnan(v), F(0), np.rint(v))
    return np.clip(v + F(zero), low, high).astype(dtype)


def integer_rule(
    sums: np.ndarray,
    scales: tuple,
    bias: np.ndarray | None,
    residual: tuple | None,
    bound: tuple | None,
    y_zero: int,
    dtype: type,
    axis: int,
) -> np.ndarray:
    """The rule of tactic/problem/quantized.h for exact int64 |sums|; channels along |axis|."""
    x_scale, w_scale, y_scale = scales
    shape = [1] * sums.ndim
    shape[axis] = -1
    w = np.broadcast_to(np.asarray(w_scale, F), sums.shape[axis]).reshape(shape).astype(np.float64)
    product = np.float64(x_scale) * w
    if bias is not None:
        sums = sums + np.rint(np.asarray(bias, F).reshape(shape).astype(np.float64) / product).astype(np.int64)
    with np.errstate(all="ignore"):
        v = sums.astype(F) * (product / np.float64(y_scale)).astype(F)
        if residual is not None:
            r, r_scale, r_zero = residual
            v = v + (r.astype(np.int32) - int(r_zero)).astype(F) * F(np.float64(r_scale) / np.float64(y_scale))
        limits = np.iinfo(dtype)
        low, high = limits.min, limits.max
        if bound is not None:
            low, high = (int(np.clip(np.rint(F(b) / F(y_scale)) + F(y_zero), low, high)) for b in bound)
        return round_to(v, y_zero, low, high, dtype)


def matmul_sums(x: np.ndarray, x_zero: int, w: np.ndarray) -> np.ndarray:
    return (x.astype(np.int64) - int(x_zero)) @ w.astype(np.int64)


def conv_sums(x: np.ndarray, x_zero: int, w: np.ndarray, group: int, pad: int, stride: int) -> np.ndarray:
    centered = np.pad(x.astype(np.int64) - int(x_zero), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    n, c, height, width = centered.shape
    filters, each, r, s = w.shape
    rows, columns = (height - r) // stride + 1, (width - s) // stride + 1
    out = np.zeros((n, filters, rows, columns), np.int64)
    for i in range(r):
        for j in range(s):
            part = centered[:, :, i : i + rows * stride : stride, j : j + columns * stride : stride]
            part = part[:, :, :rows, :columns].reshape(n, group, each, rows, columns)
            taps = w[:, :, i, j].astype(np.int64).reshape(group, filters // group, each)
            out += np.einsum("ngchw,gkc->ngkhw", part, taps).reshape(out.shape)
    return out


def twice_rule(sums: np.ndarray, scales: tuple, inner: tuple, residual: tuple, y_scale: float, y_zero: int) -> np.ndarray:
    """The rule with an inner quantization to uint8 before the residual and a ReLU; channels along axis 1."""
    inner_scale, inner_zero = inner
    t = integer_rule(sums, (*scales, inner_scale), None, None, None, inner_zero, np.uint8, 1)
    r, r_scale, r_zero = residual
    v = (t.astype(np.int32) - int(inner_zero)).astype(F) * F(inner_scale)
    v = v + (r.astype(np.int32) - int(r_zero)).astype(F) * F(r_scale)
    return round_to(np.maximum(v, F(0)) / F(y_scale), y_zero, 0, 255, np.uint8)
