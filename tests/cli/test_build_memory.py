"""Peak memory of builds, and what engines store of weights."""

import pathlib
import subprocess
import sys

import numpy as np
import onnx
import pytest
from harness import CARNOT, ROOT
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(ROOT / "bench"))
import build_scale  # noqa: E402

# The peak of a child begins at that of its parent, so the parent is a small process.
MEASURE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""


def chain(path: pathlib.Path, count: int, width: int, shared: bool = False) -> pathlib.Path:
    """|count| matrix multiplications of |width| x |width|, with names that leave the weights at any byte.

    With |shared| all have the weights of the first.
    """
    rng, nodes, weights, value = np.random.default_rng(1), [], [], "x"
    for i in range(count):
        out = "y" if i == count - 1 else f"v{i}"
        nodes.append(helper.make_node("MatMul", [value, "w0" if shared else f"w{i}"], [out], f"matmul{i}"))
        value = out
        if shared and i:
            continue
        array = rng.standard_normal((width, width)).astype(np.float32) / np.sqrt(width)
        weights.append(numpy_helper.from_array(array.astype(np.float32), f"w{i}"))
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, width])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, width])],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def peak(model: pathlib.Path) -> int:
    words = [CARNOT, "build", model, "--output", model.with_suffix(".plan"), "--builderOptimizationLevel=0"]
    done = subprocess.run([sys.executable, "-c", MEASURE, *map(str, words)], capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_peak_of_large_weights(tmp_path: pathlib.Path) -> None:
    base = peak(chain(tmp_path / "small.onnx", 2, 8))
    model = chain(tmp_path / "large.onnx", 12, 1024)
    assert peak(model) - base <= 1.6 * model.stat().st_size


def test_peak_of_many_small_weights(tmp_path: pathlib.Path) -> None:
    base = peak(chain(tmp_path / "small.onnx", 2, 8))
    model = chain(tmp_path / "many.onnx", 2000, 64)
    assert peak(model) - base <= 2.5 * model.stat().st_size


@pytest.mark.parametrize("kind", ["conv", "attention"])
def test_peak_of_many_layers(tmp_path: pathlib.Path, kind: str) -> None:
    """Chains of layers with 9 and 16 kB of weights: what a build keeps of each layer is small beside them."""
    base = peak(chain(tmp_path / "small.onnx", 2, 8))
    model = tmp_path / f"{kind}.onnx"
    build_scale.make(kind, 4000, model)
    assert peak(model) - base <= 2.4 * model.stat().st_size


def test_weights_of_several_layers_are_stored_once(tmp_path: pathlib.Path) -> None:
    model = chain(tmp_path / "shared.onnx", 12, 512, shared=True)
    engine = model.with_suffix(".plan")
    subprocess.run([CARNOT, "build", model, "--output", engine, "--backend=cpu"], check=True, capture_output=True)
    # Six bytes a weight where parts of bfloat16 hold it.
    assert engine.stat().st_size <= 1.6 * model.stat().st_size
    x = np.random.default_rng(2).standard_normal((1, 512)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    words = [CARNOT, "run", engine, "--backend=cpu", "--input", f"x={tmp_path / 'x.npy'}", f"--output-dir={tmp_path}"]
    subprocess.run(words, check=True, capture_output=True)
    weights = numpy_helper.to_array(onnx.load(model).graph.initializer[0]).astype(np.float64)
    wanted = x.astype(np.float64) @ np.linalg.matrix_power(weights, 12)
    found = np.load(tmp_path / "y.npy")
    assert np.linalg.norm(found - wanted) <= 1e-5 * np.linalg.norm(wanted)
