"""Quantized operators beside ONNX Runtime at odd shapes: the 8-bit GEMM, convolution and conversion tactics."""

import json
import pathlib
import re

import numpy as np
import onnx
import onnxruntime
import pytest
from harness import passes
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh
from single_op import run_op as run_node

RNG = np.random.default_rng(11)
TYPES = {np.uint8: T.UINT8, np.int8: T.INT8, np.int32: T.INT32, np.float32: T.FLOAT, np.int64: T.INT64}


def exact_session(model: pathlib.Path, x_type: type) -> onnxruntime.InferenceSession:
    """ONNX Runtime without the 16-bit sums of uint8 by int8, which saturate on a machine with AVX2 but without VNNI."""
    options = onnxruntime.SessionOptions()
    if x_type != np.int8:
        options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(model, options)


def run(
    folder: pathlib.Path, nodes: list, constants: dict, x: np.ndarray, outputs: dict, tactic: str, isa: str
) -> list:
    """The results of Carnot and of ONNX Runtime; |tactic| must be in the engine."""
    graph = h.make_graph(
        nodes,
        "g",
        [h.make_tensor_value_info("x", TYPES[x.dtype.type], x.shape)],
        [h.make_tensor_value_info(k, TYPES[v], None) for k, v in outputs.items()],
        [nh.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    opsets = [h.make_opsetid("", 17), h.make_opsetid("com.microsoft", 1)]
    onnx.save(h.make_model(graph, opset_imports=opsets, ir_version=8), folder / "m.onnx")
    np.save(folder / "x.npy", x)
    passes("build", folder / "m.onnx", "--output", folder / "m.plan", f"--isa={isa}", "--builderOptimizationLevel=0")
    passes("run", folder / "m.plan", "--input", folder / "x.npy", "--output-dir", folder / "out")
    facts = json.loads(passes("inspect", folder / "m.plan", "--json"))
    assert any(layer["TacticName"] == f"cpu_{tactic}_{isa}" for layer in facts["Layers"]), [
        layer["TacticName"] for layer in facts["Layers"]
    ]
    wanted = exact_session(folder / "m.onnx", x.dtype.type).run(None, {"x": x})
    return [(np.load(folder / "out" / f"{name}.npy"), want) for name, want in zip(outputs, wanted)]


def agree(got: np.ndarray, want: np.ndarray) -> None:
    """Equal, but for one result in a thousand that rounds to the neighbouring step."""
    assert got.shape == want.shape
    off = np.abs(got.astype(np.int64) - want.astype(np.int64))
    assert off.max() <= 1 and (off > 0).mean() < 1e-3, (off.max(), (off > 0).mean())


def numbers(dtype: type, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)


LEVELS = ["scalar", "avx2", "avx512"]
LEVELS = [level for level in LEVELS if re.search(rf"^ +{level} +usable", passes("device", "--no-measure"), flags=re.M)]


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("x_type", [np.uint8, np.int8])
@pytest.mark.parametrize(
    "shape", [(2, 3, 11, 9, 5, 3, 1), (1, 17, 8, 8, 33, 1, 1), (1, 16, 13, 7, 24, 3, 4), (3, 8, 6, 6, 16, 5, 2)]
)
def test_convolution(tmp_path: pathlib.Path, isa: str, x_type: type, shape: tuple) -> None:
    n, c, height, width, filters, k, group = shape
    zero = x_type(7)
    constants = {
        "xs": np.float32(0.02),
        "xz": zero,
        "w": numbers(np.int8, filters, c // group, k, k),
        "wz": np.zeros(filters, np.int8),
        "ws": (RNG.random(filters) * 0.01 + 0.001).astype(np.float32),
        "ys": np.float32(0.5),
        "yz": x_type(3),
        "b": RNG.integers(-9999, 9999, filters).astype(np.int32),
    }
    node = h.make_node(
        "QLinearConv",
        ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"],
        ["y"],
        group=group,
        pads=[k // 2, 0, k // 2, k // 2],
        strides=[1, 2],
    )
    tactic = "conv_few_u8s8" if c <= 4 else "conv_u8s8"
    for got, want in run(
        tmp_path, [node], constants, numbers(x_type, n, c, height, width), {"y": x_type}, tactic, isa
    ):
        agree(got, want)


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("x_type", [np.uint8, np.int8])
@pytest.mark.parametrize("channels", [1, 7, 40])
def test_depthwise_convolution(tmp_path: pathlib.Path, isa: str, x_type: type, channels: int) -> None:
    constants = {
        "xs": np.float32(0.02),
        "xz": x_type(11),
        "w": numbers(np.int8, channels, 1, 3, 3),
        "wz": np.zeros(channels, np.int8),
        "ws": (RNG.random(channels) * 0.01 + 0.001).astype(np.float32),
        "ys": np.float32(0.1),
        "yz": x_type(3),
        "b": RNG.integers(-9999, 9999, channels).astype(np.int32),
    }
    node = h.make_node(
        "QLinearConv",
        ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"],
        ["y"],
        group=channels,
        pads=[1, 1, 0, 1],
        strides=[2, 1],
    )
    for got, want in run(
        tmp_path,
        [node],
        constants,
        numbers(x_type, 2, channels, 13, 9),
        {"y": x_type},
        "depthwise_u8s8",
        isa,
    ):
        agree(got, want)


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("shape", [(2, 3, 11, 9, 5, 3, 1), (1, 17, 8, 8, 33, 1, 1), (1, 16, 13, 7, 24, 3, 4)])
def test_integer_convolution(tmp_path: pathlib.Path, isa: str, shape: tuple) -> None:
    """The zero point of the activations is computed in the network; that of the weights is 128."""
    n, c, height, width, filters, k, group = shape
    constants = {"w": numbers(np.uint8, filters, c // group, k, k), "wz": np.uint8(128)}
    nodes = [
        h.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        h.make_node("ConvInteger", ["q", "w", "z", "wz"], ["y"], group=group, pads=[k // 2] * 4, strides=[1, 2]),
    ]
    x = (RNG.standard_normal((n, c, height, width)) * 3 + 1).astype(np.float32)
    for got, want in run(tmp_path, nodes, constants, x, {"y": np.int32}, "conv_integer_u8s8", isa):
        assert np.array_equal(got, want)


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("x_type", [np.uint8, np.int8])
@pytest.mark.parametrize("shape", [(1, 1, 5, 3), (2, 7, 64, 48), (1, 129, 37, 130)])
def test_matrix_products(tmp_path: pathlib.Path, isa: str, x_type: type, shape: tuple) -> None:
    batch, m, k, n = shape
    constants = {
        "as": np.float32(0.03),
        "az": x_type(5),
        "b": numbers(np.int8, k, n),
        "bs": (RNG.random(n) * 0.02 + 0.001).astype(np.float32),
        "bz": np.zeros(n, np.int8),
        "ys": np.float32(0.9),
        "yz": x_type(1),
    }
    node = h.make_node("QLinearMatMul", ["x", "as", "az", "b", "bs", "bz", "ys", "yz"], ["y"])
    x = numbers(x_type, batch, m, k)
    if x_type is np.uint8:  # ONNX Runtime has no signed form with per-column scales
        for got, want in run(tmp_path, [node], constants, x, {"y": x_type}, "gemm_u8s8", isa):
            agree(got, want)
    node = h.make_node("MatMulInteger", ["x", "b", "az"], ["y"])
    for got, want in run(
        tmp_path, [node], {k: constants[k] for k in ("b", "az")}, x, {"y": np.int32}, "matmul_integer_u8s8", isa
    ):
        assert np.array_equal(got, want)


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_gemm_of_the_quantizer(tmp_path: pathlib.Path, isa: str, alpha: float) -> None:
    constants = {
        "as": np.float32(0.03),
        "az": np.uint8(9),
        "b": numbers(np.int8, 20, 31),
        "bs": (RNG.random(20) * 0.02 + 0.001).astype(np.float32),
        "bz": np.zeros(20, np.int8),
        "c": RNG.integers(-999, 999, 20).astype(np.int32),
        "ys": np.float32(0.7),
        "yz": np.uint8(128),
    }
    node = h.make_node(
        "QGemm",
        ["x", "as", "az", "b", "bs", "bz", "c", "ys", "yz"],
        ["y"],
        domain="com.microsoft",
        transB=1,
        alpha=alpha,
    )
    family = "gemm_u8s8" if alpha == 1 else "matmul_integer_u8s8"
    for got, want in run(tmp_path, [node], constants, numbers(np.uint8, 6, 31), {"y": np.uint8}, family, isa):
        agree(got, want)


@pytest.mark.parametrize("isa", LEVELS)
def test_dynamic_quantization_feeds_a_product(tmp_path: pathlib.Path, isa: str) -> None:
    nodes = [
        h.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        h.make_node("MatMulInteger", ["q", "b", "z"], ["y"]),
    ]
    x = (RNG.standard_normal((301, 70)) * 3).astype(np.float32)
    results = run(
        tmp_path,
        nodes,
        {"b": numbers(np.int8, 70, 19)},
        x,
        {"q": np.uint8, "s": np.float32, "z": np.uint8, "y": np.int32},
        "dynamic_quantize_f32",
        isa,
    )
    for got, want in results:
        assert np.array_equal(got, want)


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(
    "shape,axis", [((3, 64, 33, 17), 1), ((3, 64, 5, 17), 3), ((2, 3, 4), None), ((1, 100003), None), ((5, 7), 0)]
)
def test_conversions_and_places(tmp_path: pathlib.Path, isa: str, dtype: type, shape: tuple, axis: int | None) -> None:
    count = 1 if axis is None else shape[axis]
    scale, zero = (RNG.random(count) * 0.1 + 0.01).astype(np.float32), RNG.integers(0, 100, count).astype(dtype)
    constants = {"s": scale if axis is not None else scale[0], "z": zero if axis is not None else zero[0]}
    nodes = [
        h.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=axis or 0),
        h.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=axis or 0),
        h.make_node("ArgMin", ["x"], ["a"], axis=-1, select_last_index=1),
    ]
    x = np.round(RNG.standard_normal(shape) * 4, 1).astype(np.float32)
    for got, want in run(
        tmp_path, nodes, constants, x, {"q": dtype, "y": np.float32, "a": np.int64}, "quantize_f32", isa
    ):
        assert np.array_equal(got, want)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(
    ("dims", "attributes"),
    [
        ([2, 5, 9, 11], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ([1, 64, 20, 7], {"kernel_shape": [2, 5], "dilations": [2, 1], "ceil_mode": 1, "strides": [3, 2]}),
        ([3, 33, 40], {"kernel_shape": [4], "auto_pad": "SAME_UPPER"}),
        ([1, 1, 3, 3], {"kernel_shape": [3, 3]}),
        ([2, 17, 5, 9, 7], {"kernel_shape": [3, 3, 3], "pads": [1, 1, 1, 1, 1, 1]}),
        ([1, 33, 7, 6, 8], {"kernel_shape": [4, 2, 1], "dilations": [2, 1, 1], "strides": [1, 2, 2]}),
        ([1, 5, 4, 6, 6], {"kernel_shape": [2, 2, 2], "auto_pad": "SAME_LOWER", "strides": [2, 1, 2]}),
    ],
)
def test_the_largest_byte(dims: list, attributes: dict, dtype: type, tmp_path: pathlib.Path) -> None:
    x = np.random.default_rng(9).integers(np.iinfo(dtype).min, np.iinfo(dtype).max, dims, endpoint=True).astype(dtype)
    found, tactic = run_node(tmp_path, "MaxPool", x, dims, [], **attributes)
    wanted = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"]).run(
        None, {"x": x}
    )[0]
    assert np.array_equal(found, wanted) and tactic == "cpu_max_pool_bytes"
