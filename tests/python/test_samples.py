"""Scripts in the style of TensorRT's introductory samples run unchanged on the alias; checked with ONNX Runtime."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from carnot import alias
from onnx import helper

pytestmark = pytest.mark.skipif(alias.has_driver(), reason="a CUDA driver is present: the stand-ins are not used")
SAMPLES = pathlib.Path(__file__).parent / "samples"
rng = np.random.default_rng(31)


def sample(name, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(alias.__file__).parents[2])}
    words = [sys.executable, "-m", "carnot.alias", SAMPLES / name, *arguments]
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and done.stdout.endswith("Passed\n"), done.stdout + done.stderr
    return done.stdout


def save(path, nodes, x_shape, y_shape, weights):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", 1, x_shape)],
        [helper.make_tensor_value_info("y", 1, y_shape)],
        [onnx.numpy_helper.from_array(w, n) for n, w in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def test_onnx_classifier(model, tmp_path):
    path = model("ultraface_rfb_320.onnx")
    x = rng.standard_normal((1, 3, 240, 320)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    sample("onnx_classifier.py", path, tmp_path / "x.npy", tmp_path / "y.npy")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    wanted = session.run(None, {session.get_inputs()[0].name: x})[0]
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), wanted.ravel(), atol=1e-4, rtol=1e-4)


def test_network_by_layers(tmp_path):
    shapes = {"conv1": (20, 1, 5, 5), "conv2": (50, 20, 5, 5), "fc1": (500, 800), "fc2": (10, 500)}
    weights = {}
    for name, shape in shapes.items():
        scale = np.sqrt(np.prod(shape[1:]))
        weights[name + ".weight"] = (rng.standard_normal(shape) / scale).astype(np.float32)
        weights[name + ".bias"] = rng.standard_normal(shape[0]).astype(np.float32)
    x = rng.standard_normal((1, 1, 28, 28)).astype(np.float32)
    np.savez(tmp_path / "w.npz", **weights)
    np.save(tmp_path / "x.npy", x)
    sample("network_by_layers.py", tmp_path / "w.npz", tmp_path / "x.npy", tmp_path / "y.npy")
    value = x.astype(np.float64)
    for name in ("conv1", "conv2"):
        windows = np.lib.stride_tricks.sliding_window_view(value, (5, 5), axis=(2, 3))
        value = np.einsum("ncxyij,kcij->nkxy", windows, weights[name + ".weight"].astype(np.float64))
        value += weights[name + ".bias"][:, None, None]
        n, c, h, w = value.shape
        value = value.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))
    value = np.maximum(weights["fc1.weight"].astype(np.float64) @ value.ravel() + weights["fc1.bias"], 0)
    value = weights["fc2.weight"].astype(np.float64) @ value + weights["fc2.bias"]
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), value, rtol=1e-4, atol=1e-4)


def test_onnx_custom_plugin(tmp_path):
    library = os.environ.get("CARNOT_PLUGIN_LIBRARY")
    if not library:
        pytest.skip("CARNOT_PLUGIN_LIBRARY does not name the example plugin")
    node = helper.make_node("ExampleHardSwish", ["x"], ["h"], "swish", shift=0.25)
    double = helper.make_node("Add", ["h", "h"], ["y"], "double")
    path = save(tmp_path / "m.onnx", [node, double], ["n", 5], ["n", 5], {})
    for length, said in ((3, "Passed\n"), (11, "Loaded\nPassed\n")):
        x = rng.standard_normal((length, 5)).astype(np.float32)
        np.save(tmp_path / "x.npy", x)
        paths = [tmp_path / "x.npy", tmp_path / "y.npy", tmp_path / "m.plan"]
        assert sample("onnx_custom_plugin.py", library, path, *paths).endswith(said)
        np.testing.assert_allclose(
            np.load(tmp_path / "y.npy"), 2 * x * np.clip(x / 6 + 0.25, 0, 1), rtol=1e-5, atol=1e-6
        )


def test_engine_refit(tmp_path):
    weights = {n: rng.standard_normal(s).astype(np.float32) for n, s in (("W_0", (16, 8)), ("B_0", (8,)))}
    nodes = [
        helper.make_node("MatMul", ["x", "W_0"], ["m"]),
        helper.make_node("Add", ["m", "B_0"], ["a"]),
        helper.make_node("Tanh", ["a"], ["y"]),
    ]
    other = {n: np.zeros_like(w) for n, w in weights.items()}
    path = save(tmp_path / "m.onnx", nodes, ["n", 16], ["n", 8], other)
    x = rng.standard_normal((10, 16)).astype(np.float32)
    np.savez(tmp_path / "w.npz", **weights)
    np.save(tmp_path / "x.npy", x)
    sample("engine_refit.py", path, tmp_path / "w.npz", tmp_path / "x.npy", tmp_path / "y.npz")
    found = np.load(tmp_path / "y.npz")
    wide = x.astype(np.float64)
    np.testing.assert_allclose(found["wrong"], np.tanh(wide @ np.ones((16, 8)) + 1), atol=1e-5)
    np.testing.assert_allclose(found["right"], np.tanh(wide @ weights["W_0"] + weights["B_0"]), atol=1e-5)
