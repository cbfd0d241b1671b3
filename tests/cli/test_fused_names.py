"""A fused layer is called by all its parts in order: profiles, inspector, exports, errors, requests for types."""

import json
import pathlib
import re

import numpy as np
import onnx
import pytest
from harness import carnot, fails, passes
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(5)


def save(path: pathlib.Path, nodes: list, shape: list, weights: dict) -> pathlib.Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(v, np.float32), k) for k, v in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.fixture
def convs(tmp_path: pathlib.Path) -> pathlib.Path:
    """conv1, bn1, relu1; conv2, add2 with the input, relu2; pool1 alone."""
    node, four = helper.make_node, RNG.random(4)
    weight = RNG.standard_normal((4, 4, 3, 3)) / 6
    nodes = [
        node("Conv", ["x", "w"], ["a"], "conv1", pads=[1] * 4),
        node("BatchNormalization", ["a", "s", "b", "m", "v"], ["n"], "bn1"),
        node("Relu", ["n"], ["r"], "relu1"),
        node("Conv", ["r", "w"], ["c"], "conv2", pads=[1] * 4),
        node("Add", ["c", "x"], ["d"], "add2"),
        node("Relu", ["d"], ["e"], "relu2"),
        node("MaxPool", ["e"], ["y"], "pool1", kernel_shape=[2, 2]),
    ]
    return save(tmp_path / "convs.onnx", nodes, [1, 4, 8, 8], {"w": weight, "s": four, "b": four, "m": four, "v": four})


NAMES = {"conv1 + bn1 + relu1", "conv2 + add2 + relu2", "pool1"}


def test_profile_exports_and_inspector(convs: pathlib.Path, tmp_path: pathlib.Path) -> None:
    profile, layers, plan = tmp_path / "profile.json", tmp_path / "layers.json", tmp_path / "m.plan"
    text = passes(
        "exec",
        f"--onnx={convs}",
        "--duration=0",
        "--iterations=1",
        "--dumpProfile",
        "--verbose",
        f"--exportProfile={profile}",
        f"--exportLayerInfo={layers}",
        f"--saveEngine={plan}",
    )
    for name in NAMES:
        assert re.search(rf" {re.escape(name)}$", text, re.M), f"{name} is not in the table of --dumpProfile"
    assert NAMES <= {row.get("name") for row in json.loads(profile.read_text())}
    assert NAMES <= set(json.loads(layers.read_text())["Layers"])
    assert NAMES <= {layer["Name"] for layer in json.loads(passes("inspect", plan, "--json"))["Layers"]}


def test_matmul_and_activations(tmp_path: pathlib.Path) -> None:
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "w"], ["a"], "matmul1"),
        node("Add", ["a", "b"], ["c"], "bias1"),
        node("Div", ["c", "root"], ["d"], "g1"),  # GELU as exporters write it
        node("Erf", ["d"], ["e"], "g2"),
        node("Add", ["e", "one"], ["f"], "g3"),
        node("Mul", ["c", "f"], ["g"], "g4"),
        node("Mul", ["g", "half"], ["y"], "g5"),
    ]
    weights = {"w": RNG.random((32, 32)), "b": RNG.random(32), "root": np.sqrt(2), "one": 1, "half": 0.5}
    model = save(tmp_path / "m.onnx", nodes, [4, 32], weights)
    text = passes("exec", f"--onnx={model}", "--duration=0", "--iterations=1", "--dumpProfile")
    assert re.search(r" matmul1 \+ bias1 \+ g1 \+ g2 \+ g3 \+ g4 \+ g5$", text, re.M), text


def test_many_parts_are_counted(tmp_path: pathlib.Path) -> None:
    nodes, value = [], "x"
    for i in range(12):
        out = "y" if i == 11 else f"v{i}"
        nodes.append(helper.make_node("Sin" if i % 2 else "Cos", [value], [out], f"act{i}"))
        value = out
    model = save(tmp_path / "m.onnx", nodes, [64, 64], {})
    text = passes("exec", f"--onnx={model}", "--duration=0", "--iterations=1", "--dumpProfile")
    names = " + ".join(f"act{i}" for i in range(7))
    assert re.search(rf" {re.escape(names)} \+ 4 more \+ act11$", text, re.M), text


def test_requests_match_any_part(convs: pathlib.Path, tmp_path: pathlib.Path) -> None:
    def types(request: str) -> dict:
        done = carnot(
            "exec", f"--onnx={convs}", "--skipInference", "--fp16", "--verbose", f"--layerPrecisions={request}"
        )
        assert done.returncode == 0 and "no layer of that name" not in done.stderr, done.stderr
        return dict(re.findall(r"Layer\(\w+\): (.+?), Precision: (\w+)", done.stdout + done.stderr))

    for request in ("conv1:fp16", "conv1 + bn1 + relu1:fp16"):  # a part, and the name as a profile has it
        assert types(request)["conv1 + bn1 + relu1"] == "float16"
    assert "layer conv1 cannot obey" in fails(
        "build",
        convs,
        "--output",
        tmp_path / "m.plan",
        "--layerPrecisions=conv1 + bn1 + relu1:fp16",
        "--precisionConstraints=obey",
    )


def test_requests_match_parts_that_import_joined(tmp_path: pathlib.Path) -> None:
    node = helper.make_node
    nodes = [
        node("ReduceMean", ["x"], ["mean"], "mean1", axes=[-1]),
        node("Sub", ["x", "mean"], ["c"], "sub1"),
        node("Pow", ["c", "two"], ["q"], "pow1"),
        node("ReduceMean", ["q"], ["v"], "mean2", axes=[-1]),
        node("Add", ["v", "eps"], ["s"], "eps1"),
        node("Sqrt", ["s"], ["r"], "sqrt1"),
        node("Div", ["c", "r"], ["y"], "div1"),
    ]
    model = save(tmp_path / "m.onnx", nodes, [4, 32], {"two": 2, "eps": 1e-5})
    for part in ("mean1", "sub1", "pow1", "sqrt1", "div1"):
        done = carnot(
            "exec", f"--onnx={model}", "--skipInference", "--fp16", "--verbose", f"--layerPrecisions={part}:fp16"
        )
        assert done.returncode == 0 and "no layer of that name" not in done.stderr, part
        name = "mean1 + sub1 + pow1 + mean2 + eps1 + sqrt1 + div1"
        assert f"Layer(NORMALIZATION): {name}, Precision:" in done.stdout + done.stderr, done.stdout + done.stderr
