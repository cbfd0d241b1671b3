"""Builds for GPUs that are absent: the engines that cuDNN supports are queried from the library itself."""

import json
import pathlib

import numpy as np
import onnx
import pytest
from harness import CARNOT, carnot, passes
from onnx import TensorProto, helper, numpy_helper

TACTICS = {"CARNOT_CUDA_TACTICS": "cuda_conv_cudnn,cuda_conv_direct,cuda_pointwise"}
ARCHITECTURES = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100"]


def needs_dnn() -> None:
    if not (pathlib.Path(CARNOT).parent.parent / "lib/libcarnot_cuda.so").exists():
        pytest.skip("built without the CUDA module")
    libraries = json.loads(passes("device", "--json", "--no-measure", "--backend=cuda:sm_90"))["libraries"]
    dnn = next(entry for entry in libraries if entry["name"] == "cuDNN")
    if dnn["missing"]:
        pytest.skip(dnn["missing"])
    if [int(n) for n in dnn["version"].split(".")[:2]] < [9, 8]:
        pytest.skip(f"cuDNN {dnn['version']} plans for no absent device, 9.8 does")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A residual block, and depthwise, grouped and odd-filter-count convolutions."""
    rng = np.random.default_rng(2)
    shapes = {"a": (64, 64, 3, 3), "b": (64, 64, 3, 3), "c": (64, 1, 3, 3), "d": (48, 16, 3, 3), "e": (7, 48, 3, 3)}
    weights = [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in shapes.items()]
    weights.append(numpy_helper.from_array(rng.standard_normal(64).astype(np.float32), "bias"))
    nodes = [
        helper.make_node("Conv", ["x", "a", "bias"], ["1"], "block.1", pads=[1] * 4),
        helper.make_node("Relu", ["1"], ["2"]),
        helper.make_node("Conv", ["2", "b", "bias"], ["3"], "block.2", pads=[1] * 4),
        helper.make_node("Add", ["3", "x"], ["4"]),
        helper.make_node("Relu", ["4"], ["5"]),
        helper.make_node("Conv", ["5", "c"], ["6"], "depthwise", group=64),
        helper.make_node("Conv", ["6", "d"], ["7"], "grouped", group=4),
        helper.make_node("Conv", ["7", "e"], ["y"], "odd"),
    ]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in (("x", [1, 64, 28, 28]), ("y", None))]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], weights)
    path = tmp_path_factory.mktemp("absent") / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


@pytest.mark.parametrize("flag", ["--fp16", "--bf16"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_what_the_library_can_do(model: pathlib.Path, architecture: str, flag: str, tmp_path: pathlib.Path) -> None:
    needs_dnn()
    plan = tmp_path / "m.plan"
    done = carnot("build", model, "--output", plan, f"--backend=cuda:{architecture}", flag, env=TACTICS)
    assert done.returncode == 0, done.stderr
    convolutions = [
        layer
        for layer in json.loads(passes("inspect", plan, "--json"))["Layers"]
        if layer["LayerType"] == "CONVOLUTION"
    ]
    assert len(convolutions) == 5
    for layer in convolutions:
        if architecture == "sm_75" and flag == "--bf16":  # Turing has no bfloat16
            assert layer["TacticName"] == "cuda_conv_direct" and "has no engine" in layer["Rejected"]
        else:
            assert layer["TacticName"] == "cuda_conv_cudnn", layer


def test_sizes_by_floats_stay_sizes(tmp_path: pathlib.Path) -> None:
    """Casts and multiplications that compute a size stay on the host; the layer with that size runs on the device."""
    if not (pathlib.Path(CARNOT).parent.parent / "lib/libcarnot_cuda.so").exists():
        pytest.skip("built without the CUDA module")
    values = {
        "half": np.array([1.5, 0.5], np.float32),
        "one": np.array([1.0], np.float32),
        "two": np.array([2]),
        "four": np.array([4]),
    }
    weights = [numpy_helper.from_array(a, n) for n, a in values.items()]
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "two", "four"], ["hw"]),
        helper.make_node("Cast", ["hw"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "half"], ["m"]),
        helper.make_node("Add", ["m", "one"], ["a"]),
        helper.make_node("Floor", ["a"], ["r"]),
        helper.make_node("Cast", ["r"], ["i"], to=TensorProto.INT64),
        helper.make_node("Slice", ["s", "zero", "two"], ["nc"]),
        helper.make_node("Concat", ["nc", "i"], ["sizes"], axis=0),
        helper.make_node("Resize", ["x", "", "", "sizes"], ["z"], "resize", mode="linear"),
        helper.make_node("Relu", ["z"], ["y"], "relu"),
    ]
    weights.append(numpy_helper.from_array(np.array([0]), "zero"))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])
    graph = helper.make_graph(nodes, "net", [x], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], weights)
    model, plan = tmp_path / "m.onnx", tmp_path / "m.plan"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), model)
    passes("build", model, "--output", plan, "--backend=cuda:sm_90", "--optShapes=x:1x3x32x32")
    tactics = {layer["Name"]: layer["TacticName"] for layer in json.loads(passes("inspect", plan, "--json"))["Layers"]}
    assert tactics["resize"].startswith("cuda_") and tactics["relu"].startswith("cuda_"), tactics
