"""Convolutions and GEMMs by oneDNN against float64 and against ONNX Runtime."""

import json

import numpy as np
import onnxruntime
import pytest
from harness import build, carnot, inspect, model, needs_library, run
from onnx import helper

pytestmark = needs_library
RNG = np.random.default_rng(11)


def weight(*dims: int) -> np.ndarray:
    return (RNG.standard_normal(dims) / np.sqrt(np.prod(dims[1:]))).astype(np.float32)


def tactics(plan) -> list[str]:
    return [layer["TacticName"] for layer in inspect(plan)["Layers"] if "onednn" in layer["TacticName"]]


def expect(onnx_file, x: np.ndarray) -> np.ndarray:
    return onnxruntime.InferenceSession(onnx_file, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


# Sizes, window and attributes of convolutions that are cut in several ways: by images, by rows with padding at one end
# or both, by rows and by columns of a GEMM.
CONVS = {
    "rows": ([1, 67, 61, 59], [73, 67, 3, 3], dict(pads=[1, 1, 1, 1])),
    "rows_strided": ([1, 24, 61, 43], [40, 24, 5, 3], dict(pads=[2, 0, 1, 2], strides=[2, 3])),
    "rows_dilated": ([1, 20, 51, 37], [33, 20, 3, 3], dict(pads=[3, 2, 3, 2], dilations=[3, 2])),
    "images": ([9, 16, 19, 17], [48, 16, 3, 3], dict(pads=[1, 1, 1, 1])),
    "images_few": ([3, 16, 33, 31], [48, 16, 3, 3], dict(pads=[1, 1, 1, 1])),
    "grouped": ([1, 64, 27, 29], [96, 32, 3, 3], dict(pads=[1, 1, 1, 1], group=2)),
    "depthwise": ([1, 67, 33, 35], [67, 1, 3, 3], dict(pads=[1, 1, 1, 1], group=67, strides=[2, 2])),
    "point_rows": ([1, 96, 37, 41], [53, 96, 1, 1], {}),
    "point_columns": ([1, 300, 5, 9], [1100, 300, 1, 1], {}),
    "point_strided": ([2, 40, 22, 23], [72, 40, 1, 1], dict(strides=[2, 2])),
    "one_dimension": ([2, 24, 301], [40, 24, 5], dict(pads=[2, 2])),
    "beyond": ([1, 64, 30, 41], [96, 64, 3, 3], dict(pads=[40, 1, 40, 1])),
    "first": ([1, 3, 61, 59], [32, 3, 7, 7], dict(pads=[3, 3, 3, 3], strides=[2, 2])),
}
ACTIVATIONS = ["", "Relu", "relu6", "silu", "residual", "residual_relu"]


def network(path, shape, dims, attributes, activation, leads=False):
    """The convolution and what follows it; |leads|: behind one that may store BF16."""
    nodes, weights, x, last = [], {"w": weight(*dims), "b": weight(dims[0], 1)[:, 0]}, "x", "c"
    if leads:
        weights["w0"] = weight(shape[1], shape[1], 1, 1)
        nodes = [helper.make_node("Conv", ["x", "w0"], ["x0"]), helper.make_node("Relu", ["x0"], ["x1"])]
        x = "x1"
    if activation.startswith("residual"):
        weights["w2"] = weight(*dims)
        nodes.append(helper.make_node("Conv", [x, "w2"], ["r"], **attributes))
    nodes.append(helper.make_node("Conv", [x, "w", "b"], ["c"], **attributes))
    if activation.startswith("residual"):
        nodes.append(helper.make_node("Add", ["c", "r"], ["s"]))
        last, activation = "s", "Relu" if activation.endswith("relu") else ""
    if activation == "relu6":
        weights.update(low=np.float32(0), high=np.float32(0.75))
        nodes.append(helper.make_node("Clip", [last, "low", "high"], ["y"]))
    elif activation == "silu":
        nodes += [helper.make_node("Sigmoid", [last], ["g"]), helper.make_node("Mul", [last, "g"], ["y"])]
    else:
        nodes.append(helper.make_node(activation or "Identity", [last], ["y"]))
    return model(path, shape, nodes, weights)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("name", CONVS)
def test_conv(tmp_path, name, activation):
    shape, dims, attributes = CONVS[name]
    net = network(tmp_path / "net.onnx", shape, dims, attributes, activation)
    plan = build(net)
    assert "cpu_conv_onednn_f32_avx2" in tactics(plan)
    x = RNG.standard_normal(shape).astype(np.float32)
    wanted = expect(net, x)
    np.testing.assert_allclose(run(plan, x), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows, depth, columns", [(1, 37, 51), (7, 300, 1100), (150, 131, 97), (333, 64, 40)])
@pytest.mark.parametrize("activation", ["", "Relu", "Gelu"])
def test_gemm(tmp_path, rows, depth, columns, activation):
    b, c = weight(columns, depth), weight(columns, 1)[:, 0]
    nodes = [helper.make_node("Gemm", ["x", "b", "c"], ["t"], transB=1)]
    if activation == "Gelu":
        half = [helper.make_node("Mul", ["t", "root"], ["u"]), helper.make_node("Erf", ["u"], ["e"])]
        half += [helper.make_node("Add", ["e", "one"], ["f"]), helper.make_node("Mul", ["t", "f"], ["g"])]
        nodes += [*half, helper.make_node("Mul", ["g", "half"], ["y"])]
    else:
        nodes.append(helper.make_node(activation or "Identity", ["t"], ["y"]))
    constants = {"b": b, "c": c, "root": 0.5**0.5, "one": 1, "half": 0.5}
    net = model(tmp_path / "net.onnx", [rows, depth], nodes, constants)
    plan = build(net)
    assert tactics(plan) == ["cpu_gemm_onednn_f32_avx2"]
    x = RNG.standard_normal((rows, depth)).astype(np.float32)
    np.testing.assert_allclose(run(plan, x), expect(net, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("name", ["rows", "images", "grouped", "point_rows", "point_columns", "rows_strided"])
def test_conv_bf16(tmp_path, name, activation):
    """Values between layers are BF16 where the processor has AMX."""
    shape, dims, attributes = CONVS[name]
    net = network(tmp_path / "net.onnx", shape, dims, attributes, activation, leads=True)
    plan = build(net, "--bf16")
    if not any("amx" in layer["TacticName"] for layer in inspect(plan)["Layers"]):
        pytest.skip("the processor has no AMX")
    assert "cpu_conv_onednn_bf16_amxbf16" in tactics(plan)
    x = RNG.standard_normal(shape).astype(np.float32)
    wanted = expect(net, x)
    assert np.abs(run(plan, x) - wanted).max() <= 0.02 * np.abs(wanted).max()


@pytest.mark.parametrize("rows, depth, columns", [(40, 96, 130), (128, 320, 1152), (333, 160, 96)])
def test_gemm_bf16(tmp_path, rows, depth, columns):
    """Behind a normalization, which stores BF16: with GELU to BF16, and with a residual in float32."""
    nodes = [helper.make_node("LayerNormalization", ["x", "scale"], ["n"], axis=-1)]
    nodes += [helper.make_node("MatMul", ["n", "b1"], ["t0"]), helper.make_node("Add", ["t0", "c1"], ["t"])]
    nodes += [helper.make_node("Div", ["t", "root"], ["u"]), helper.make_node("Erf", ["u"], ["e"])]
    nodes += [helper.make_node("Add", ["e", "one"], ["f"]), helper.make_node("Mul", ["t", "f"], ["g"])]
    nodes += [helper.make_node("Mul", ["g", "half"], ["h"]), helper.make_node("MatMul", ["h", "b2"], ["v"])]
    nodes.append(helper.make_node("Add", ["v", "x"], ["y"]))
    constants = {"b1": weight(columns, depth).T, "b2": weight(depth, columns).T, "c1": weight(columns, 1)[:, 0]}
    constants.update(scale=np.ones(depth), root=2**0.5, one=1, half=0.5)
    net = model(tmp_path / "net.onnx", [rows, depth], nodes, constants)
    plan = build(net, "--bf16")
    if not any("amx" in layer["TacticName"] for layer in inspect(plan)["Layers"]):
        pytest.skip("the processor has no AMX")
    assert tactics(plan).count("cpu_gemm_onednn_bf16_amxbf16") >= 1
    x = RNG.standard_normal((rows, depth)).astype(np.float32)
    wanted = expect(net, x)
    assert np.abs(run(plan, x) - wanted).max() <= 0.01 * np.abs(wanted).max()


def test_threads_give_the_same_bits(tmp_path):
    for name in ("rows", "images_few", "point_columns"):
        shape, dims, attributes = CONVS[name]
        net = network(tmp_path / "net.onnx", shape, dims, attributes, "residual_relu")
        plan = build(net)
        x = RNG.standard_normal(shape).astype(np.float32)
        one, three = run(plan, x, "--threads=1"), run(plan, x, "--threads=3")
        assert np.array_equal(one, three)


@pytest.mark.parametrize("activation", ["Relu", "relu6", "silu"])
def test_nan_passes_activations(tmp_path, activation):
    """The library's own ReLU and clip turn NaN into a number."""
    shape, dims, attributes = CONVS["rows"]
    net = network(tmp_path / "net.onnx", shape, dims, attributes, activation)
    plan = build(net)
    assert "cpu_conv_onednn_f32_avx2" in tactics(plan)
    x = RNG.standard_normal(shape).astype(np.float32)
    x[0, 3, 20, 20] = np.nan
    y = run(plan, x)
    assert np.isnan(y[0, :, 19:22, 19:22]).all() and np.isnan(y).sum() == y.shape[1] * 9


def profile(least: list, usual: list, most: list) -> list[str]:
    sizes = [("min", least), ("opt", usual), ("max", most)]
    return [f"--{name}Shapes=x:{'x'.join(map(str, shape))}" for name, shape in sizes]


@pytest.mark.parametrize("flags", [[], ["--bf16"]])
@pytest.mark.parametrize("name", ["rows", "grouped", "depthwise", "point_rows", "point_columns", "point_strided", "beyond", "first"])
def test_open_sizes(tmp_path, name, flags):
    """One layout of the weights serves every size, or is changed when sizes are set."""
    shape, dims, attributes = CONVS[name]
    c = shape[1]
    net = network(tmp_path / "net.onnx", ["n", c, "h", "w"], dims, attributes, "Relu", leads=bool(flags))
    plan = build(net, *profile([1, c, 5, 7], shape, [9, c, 70, 70]), *flags)
    assert flags or "cpu_conv_onednn_f32_avx2" in tactics(plan)
    for sizes in ([1, 7, 7], [1, 13, 70], [9, 20, 21], shape[:1] + shape[2:], [1, 7, 7]):
        x = RNG.standard_normal([sizes[0], c, *sizes[1:]]).astype(np.float32)
        wanted = expect(net, x)
        bound = (0.02 if flags else 1e-5) * max(1, np.abs(wanted).max())
        assert np.abs(run(plan, x) - wanted).max() <= bound, sizes


@pytest.mark.parametrize("c, k, flags", [(64, 64, []), (512, 40, []), (128, 256, ["--bf16"])])
def test_open_sizes_in_another_layout(tmp_path, c, k, flags):
    """oneDNN 3.2 has no fast code for these weights as they are packed at some of the sizes."""
    net = network(tmp_path / "net.onnx", ["n", c, "h", "w"], [k, c, 3, 3], dict(pads=[1] * 4), "Relu", leads=bool(flags))
    plan = build(net, *profile([1, c, 4, 4], [1, c, 28, 28], [16, c, 112, 112]), *flags)
    for n, size in ((1, 4), (1, 14), (16, 7), (1, 112), (1, 56)):
        x = RNG.standard_normal([n, c, size, size]).astype(np.float32)
        wanted = expect(net, x)
        assert np.abs(run(plan, x) - wanted).max() <= (0.02 if flags else 1e-5) * np.abs(wanted).max(), (n, size)


def test_open_rows_of_a_gemm(tmp_path):
    nodes = [helper.make_node("Gemm", ["x", "b"], ["t"], transB=1), helper.make_node("Relu", ["t"], ["y"])]
    net = model(tmp_path / "net.onnx", ["rows", 300], nodes, {"b": weight(1100, 300)})
    plan = build(net, *profile([1, 300], [64, 300], [2000, 300]))
    assert "cpu_gemm_onednn_f32_avx2" in tactics(plan)
    for rows in (1, 2, 17, 64, 1999):
        x = RNG.standard_normal((rows, 300)).astype(np.float32)
        np.testing.assert_allclose(run(plan, x), expect(net, x), rtol=1e-5, atol=1e-5)


def test_refit_packs_weights_again(tmp_path):
    shape, dims, attributes = CONVS["rows"]
    net = network(tmp_path / "net.onnx", shape, dims, attributes, "Relu")
    plan = build(net, "--refit")
    assert "cpu_conv_onednn_f32_avx2" in tactics(plan)
    other = network(tmp_path / "other.onnx", shape, dims, attributes, "Relu")
    x = RNG.standard_normal(shape).astype(np.float32)
    x.tofile(tmp_path / "x.raw")
    arguments = [f"--loadEngine={plan}", f"--refitFromOnnx={other}", f"--loadInputs=x:{tmp_path / 'x.raw'}"]
    carnot("exec", *arguments, "--iterations=1", "--duration=0", f"--exportOutput={tmp_path / 'y.json'}")
    y = np.float32(json.loads((tmp_path / "y.json").read_text())[0]["values"])
    np.testing.assert_allclose(y.ravel(), expect(other, x).ravel(), rtol=1e-5, atol=1e-5)
