"""3-D convolutions beside ONNX Runtime, at each ISA level."""

import json
import os
import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
from harness import passes
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(31)


def array(*dims: int) -> np.ndarray:
    return RNG.standard_normal(dims).astype(np.float32)


@pytest.mark.parametrize("isa", ["scalar", "avx2", ""])
@pytest.mark.parametrize(
    ("dims", "filters", "attributes"),
    [
        ([1, 16, 8, 12, 13], [16, 16, 3, 3, 3], {"pads": [1] * 6}),
        ([2, 6, 5, 7, 9], [10, 3, 2, 1, 3], {"group": 2, "strides": [1, 2, 2], "pads": [1, 0, 0, 0, 2, 1]}),
        (
            [1, 3, 9, 16, 17],
            [24, 3, 3, 5, 5],
            {"strides": [2, 2, 2], "dilations": [2, 1, 2], "pads": [2, 2, 3, 1, 1, 2]},
        ),
        ([1, 40, 4, 5, 6], [7, 40, 1, 1, 1], {}),
        ([3, 8, 3, 3, 3], [8, 1, 3, 3, 3], {"group": 8, "auto_pad": "SAME_UPPER"}),
        ([2, 4, 1, 6, 6], [4, 4, 1, 3, 3], {"pads": [0, 1, 1, 0, 1, 1]}),
    ],
)
def test_conv3d(
    dims: list, filters: list, attributes: dict, isa: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isa:
        monkeypatch.setitem(os.environ, "CARNOT_ISA", isa)
    weights = [
        numpy_helper.from_array(array(*filters) / np.float32(np.prod(filters[1:]) ** 0.5), "w"),
        numpy_helper.from_array(array(filters[0]), "b"),
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv", **attributes),
        helper.make_node("Sigmoid", ["c"], ["s"]),
        helper.make_node("Mul", ["c", "s"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        weights,
    )
    model, plan = tmp_path / "m.onnx", tmp_path / "m.plan"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), model)
    x = array(*dims)
    np.save(tmp_path / "x.npy", x)
    passes("build", model, "--output", plan)
    passes("run", plan, f"--input=x={tmp_path / 'x.npy'}", "--output-dir", tmp_path)
    wanted = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    found = np.load(tmp_path / "y.npy")
    assert found.shape == wanted.shape and np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()
    tactics = [layer["TacticName"] for layer in json.loads(passes("inspect", plan, "--json"))["Layers"]]
    assert any(t.startswith("cpu_conv_f32") for t in tactics) and "reference" not in tactics
