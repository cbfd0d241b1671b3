"""carnot debug precision --int8: errors layer by layer, beside NumPy in float64."""

import pathlib
import re

import numpy as np
import onnx
import pytest
from harness import carnot, fails, passes
from onnx import helper as h
from onnx import numpy_helper as nh

RNG = np.random.default_rng(23)
X = RNG.standard_normal((64, 16)).astype(np.float32)
WEIGHTS = {k: (RNG.standard_normal((16, 16)) / 4).astype(np.float32) for k in "abc"}
# Scales of the layers' inputs: that of the second one is far too coarse.
SCALES = dict(zip("abc", np.float32([4 / 127, 30 / 127, 5 / 127])))
INPUTS = dict(zip("abc", ("x", "q", "s")))
FAST = ("--builderOptimizationLevel=0",)


@pytest.fixture
def given(tmp_path: pathlib.Path) -> tuple:
    """Three layers, a cache of their ranges, an input."""
    nodes = [
        h.make_node("MatMul", ["x", "a"], ["p"], name="first"),
        h.make_node("Relu", ["p"], ["q"]),
        h.make_node("MatMul", ["q", "b"], ["r"], name="second"),
        h.make_node("Relu", ["r"], ["s"]),
        h.make_node("MatMul", ["s", "c"], ["y"], name="third"),
    ]
    x, y = (h.make_tensor_value_info(k, 1, ["n", 16]) for k in "xy")
    graph = h.make_graph(nodes, "g", [x], [y], [nh.from_array(w, k) for k, w in WEIGHTS.items()])
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    lines = [f"{INPUTS[k]}: {np.frombuffer(scale.tobytes(), '<u4')[0]:08x}" for k, scale in SCALES.items()]
    (tmp_path / "cache").write_text("TRT-8601-MinMaxCalibration\n" + "\n".join(lines) + "\n")
    np.save(tmp_path / "x.npy", X)
    return tmp_path / "m.onnx", "--int8", f"--calib={tmp_path / 'cache'}", "--input", f"x={tmp_path / 'x.npy'}", *FAST


def run(quantized: str) -> np.ndarray:
    """The network with these layers in 8 bits."""
    x = X.astype(np.float64)
    for k in "abc":
        w = WEIGHTS[k].astype(np.float64)
        if k in quantized:
            scale, columns = float(SCALES[k]), np.abs(w).max(0) / 127
            x = np.clip(np.rint(x / scale), -128, 127) * scale
            w = np.rint(w / columns) * columns
        x = x @ w if k == "c" else np.maximum(x @ w, 0)
    return x


def error(quantized: str) -> float:
    wanted = run("")
    return 100 * float(np.linalg.norm(run(quantized) - wanted) / np.linalg.norm(wanted))


def rows(text: str) -> dict:
    return {
        name: (verdict, float(e))
        for verdict, e, name in re.findall(r"^(ok|FAIL)\s+([\d.]+)% .*  (\S.*)$", text, flags=re.M)
    }


def test_each_layer_alone_by_its_error(given):
    text = passes("debug", "precision", *given, "--each", "--rtol=0", "--atol=100")
    found = rows(text)
    wanted = {"all layers in int8": error("abc"), "first": error("a"), "second": error("b"), "third": error("c")}
    for name, value in wanted.items():
        assert found[name] == ("ok", pytest.approx(value, rel=0.02)), (name, text)
    assert found["all layers in float32"][1] < 1e-3
    assert list(found)[2:] == sorted(wanted.keys() - {"all layers in int8"}, key=lambda name: -wanted[name])
    assert "every layer may be int8" in text


def test_the_fewest_layers_that_are_enough(given):
    limit = 1.2 * float(np.abs(run("ac") - run("")).max())
    assert limit < float(np.abs(run("b") - run("")).max())
    text = passes("debug", "precision", *given, "--each", "--rtol=0", f"--atol={limit}")
    assert text.endswith("enough in float32: --layerPrecisions=second:fp32\n"), text
    shorter = passes("debug", "precision", *given, "--rtol=0", f"--atol={limit}")
    assert shorter.endswith("--each finds the layers that must stay in float32\n") and "first" not in shorter


def test_wrong_use(given, tmp_path):
    model, _, cache, *rest = given
    assert "--int8 needs ranges here" in fails("debug", "precision", model, "--int8", code=2)
    (tmp_path / "cache").write_text("TRT-8601-MinMaxCalibration\ny: 3c010a14\n")
    assert "no layer of the model can be quantized" in fails("debug", "precision", *given, code=2)
    done = carnot("debug", "precision", model, "--int8", cache, "--shapes=x:3x16")
    assert "the inputs are made up" in done.stderr
