"""Ten thousand pictures and a plan for them, for the tests of Ray and Spark (make test-scale)."""

import json
import os
import pathlib
import subprocess
import sys

import carnot
import numpy as np
import onnx
import pytest
from onnx import helper
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[2]
CARNOT = os.environ["CARNOT"]
ROWS = 10_000
# Workers import the examples and the package too, with this Python.
sys.path.insert(0, str(ROOT / "examples"))
os.environ["PYTHONPATH"] = f"{ROOT / 'examples'}:{pathlib.Path(carnot.__file__).parents[1]}"
os.environ["PYSPARK_PYTHON"] = sys.executable


def model_bytes() -> bytes:
    """Convolution, ReLU and mean of [n, 1, 28, 28]: five numbers a picture."""
    w = np.random.default_rng(1).standard_normal((5, 1, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("ReduceMean", ["r", "axes"], ["y"], keepdims=0),
    ]
    weights = [onnx.numpy_helper.from_array(w, "w"), onnx.numpy_helper.from_array(np.array([2, 3]), "axes")]
    inputs = [helper.make_tensor_value_info("x", 1, ["n", 1, 28, 28])]
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", 1, ["n", 5])], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


@pytest.fixture(scope="session")
def plan(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "small.plan"
    path.write_bytes(bytes(carnot.build(model_bytes(), shapes={"x": ((1, 1, 28, 28), (64, 1, 28, 28), (64, 1, 28, 28))})))
    return path


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """PNG files 00000.png, …, no two alike."""
    folder = tmp_path_factory.mktemp("pictures")
    levels = np.random.default_rng(2).integers(0, 256, (ROWS, 28, 28), np.uint8)
    for i, picture in enumerate(levels):
        Image.fromarray(picture).save(folder / f"{i:05}.png", compress_level=1)
    return folder


@pytest.fixture(scope="session")
def wanted(plan, pictures):
    """The outputs by file name, of one process; a sample of them is compared with `carnot run`."""
    paths = sorted(pictures.iterdir())
    x = np.stack([np.asarray(Image.open(path), np.float32) for path in paths])[:, None] / 255
    y = carnot.load(plan)
    rows = np.concatenate([y(x=x[at : at + 64])["y"] for at in range(0, ROWS, 64)])
    for i in range(0, ROWS, ROWS // 20):
        picture = [f"--input=x={paths[i]}", "--shapes=x:1x1x28x28", f"--scale={1 / 255}"]
        command = [CARNOT, "run", plan, *picture, "--json"]
        printed = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        np.testing.assert_allclose(rows[i], np.ravel(numbers(printed)), atol=1e-6)
    return {path.name: row for path, row in zip(paths, rows)}


def numbers(printed):
    """The list of numbers in what `carnot run --json` prints of its one output."""
    (output,) = printed["outputs"]
    return output["values"]


def check(results, wanted):
    """Every picture once, with its numbers."""
    found = {pathlib.Path(row["path"]).name: row["y"] for row in results}
    assert len(results) == ROWS and len(found) == ROWS
    for name, row in wanted.items():
        np.testing.assert_allclose(found[name], row, atol=1e-6)
