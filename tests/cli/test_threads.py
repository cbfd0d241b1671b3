"""One engine gives the same bits on any number of threads; above four the number decides how work is cut in parts."""

import pathlib
from typing import Callable

import numpy as np
import onnx
import pytest
from harness import carnot
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(3)


def weight(name: str, *shape: int) -> onnx.TensorProto:
    scale = np.prod(shape[1:] if len(shape) > 2 else shape[:1]) ** -0.5
    return numpy_helper.from_array((RNG.standard_normal(shape) * scale).astype(np.float32), name)


def model(nodes: list, weights: list, shape: list[int]) -> onnx.ModelProto:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", shape), ("y", None)))
    graph = helper.make_graph(nodes, "net", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def gemm() -> onnx.ModelProto:
    """Two GEMMs of 203 rows: 39 million multiplications each."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "v"], ["y"]),
    ]
    return model(nodes, [weight("w", 264, 728), weight("v", 728, 260)], [203, 264])


def convolution(kernel: int, stride: int, group: int = 1) -> Callable[[], onnx.ModelProto]:
    def make() -> onnx.ModelProto:
        attributes = {"pads": [kernel // 2] * 4, "strides": [stride] * 2, "group": group}
        nodes = [
            helper.make_node("Conv", ["x", "w"], ["h"], pads=[0] * 4),
            helper.make_node("Relu", ["h"], ["r"]),
            helper.make_node("Conv", ["r", "v"], ["y"], **attributes),
        ]
        return model(nodes, [weight("w", 96, 40, 1, 1), weight("v", 136, 96 // group, kernel, kernel)], [2, 40, 37, 35])

    return make


def quantized() -> onnx.ModelProto:
    """A 3x3 convolution between quantized values."""
    scale, zero = numpy_helper.from_array(np.float32(0.03), "scale"), numpy_helper.from_array(np.uint8(128), "zero")
    weights = numpy_helper.from_array(RNG.integers(-90, 90, (136, 96, 3, 3)).astype(np.int8), "w")
    by = [numpy_helper.from_array(np.float32(0.001), "w_scale"), numpy_helper.from_array(np.int8(0), "w_zero")]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["v"]),
        helper.make_node("Conv", ["d", "v"], ["h"], pads=[1] * 4),
        helper.make_node("QuantizeLinear", ["h", "scale", "zero"], ["r"]),
        helper.make_node("DequantizeLinear", ["r", "scale", "zero"], ["y"]),
    ]
    return model(nodes, [weights, scale, zero, *by], [2, 96, 37, 35])


def attention() -> onnx.ModelProto:
    """Six heads of 150 queries; 16 threads cut them."""
    split = [helper.make_node("MatMul", ["x", f"w{i}"], [f"m{i}"]) for i in "qkv"]
    split += [helper.make_node("Reshape", [f"m{i}", "heads"], [f"r{i}"]) for i in "qkv"]
    split += [helper.make_node("Transpose", [f"r{i}"], [f"t{i}"], perm=[0, 2, 3, 1] if i == "k" else [0, 2, 1, 3]) for i in "qkv"]
    nodes = [
        *split,
        helper.make_node("MatMul", ["tq", "tk"], ["s"]),
        helper.make_node("Mul", ["s", "scale"], ["d"]),
        helper.make_node("Softmax", ["d"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "tv"], ["y"]),
    ]
    heads, scale = numpy_helper.from_array(np.array([0, 0, 6, 32]), "heads"), numpy_helper.from_array(np.float32(32**-0.5), "scale")
    return model(nodes, [*(weight(f"w{i}", 192, 192) for i in "qkv"), heads, scale], [1, 150, 192])


def inverted_residual() -> onnx.ModelProto:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["h"]),
        helper.make_node("Clip", ["h", "low", "high"], ["a"]),
        helper.make_node("Conv", ["a", "d"], ["f"], pads=[1] * 4, group=144),
        helper.make_node("Clip", ["f", "low", "high"], ["b"]),
        helper.make_node("Conv", ["b", "v"], ["p"]),
        helper.make_node("Add", ["p", "x"], ["y"]),
    ]
    bounds = [numpy_helper.from_array(np.float32(v), n) for n, v in (("low", 0), ("high", 6))]
    return model(nodes, [weight("w", 144, 24, 1, 1), weight("d", 144, 1, 3, 3), weight("v", 24, 144, 1, 1), *bounds], [1, 24, 56, 52])


def transposed() -> onnx.ModelProto:
    return model([helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2])], [weight("w", 64, 40, 2, 2)], [1, 64, 37, 35])


NETS = {
    "attention": attention,
    "inverted residual": inverted_residual,
    "transposed convolution": transposed,
    "quantized convolution": quantized,
    "gemm": gemm,
    "convolution 1x1": convolution(1, 1),
    "convolution 3x3": convolution(3, 1),
    "convolution 3x3 stride 2": convolution(3, 2),
    "convolution in groups": convolution(3, 1, 8),
}
FLAGS = [[], ["--bf16"], ["--fp32=fast"], ["--isa=avx512"], ["--isa=avx2"], ["--isa=scalar"]]


@pytest.mark.parametrize("flags", FLAGS, ids=lambda flags: " ".join(flags) or "default")
@pytest.mark.parametrize("make", NETS.values(), ids=NETS.keys())
def test_threads_change_no_bits(tmp_path: pathlib.Path, make: Callable[[], onnx.ModelProto], flags: list[str]) -> None:
    net = make()
    onnx.save(net, tmp_path / "net.onnx")
    shape = [d.dim_value for d in net.graph.input[0].type.tensor_type.shape.dim]
    np.save(tmp_path / "x.npy", RNG.standard_normal(shape).astype(np.float32))
    built = carnot("build", tmp_path / "net.onnx", "--output", tmp_path / "net.plan", "--backend=cpu", "--threads=2", *flags)
    assert built.returncode == 0, built.stderr
    results = {}
    for threads in (1, 2, 5, 8, 16):
        out = tmp_path / f"out{threads}"
        run = carnot(
            "run", tmp_path / "net.plan", "--input", f"x={tmp_path / 'x.npy'}", f"--threads={threads}", "--output-dir", out
        )
        assert run.returncode == 0, run.stderr
        results[threads] = np.load(out / "y.npy")
    for threads, got in results.items():
        assert np.isfinite(got).all() and np.array_equal(got, results[1]), f"{threads} threads differ from 1"
