"""Results that are written over an operand: right values on every ISA level, and a smaller arena."""

import json
import os
import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
from harness import carnot, passes
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(11)
CHANNELS, SIDE = 48, 12
X = [2, CHANNELS, SIDE, SIDE]
BYTES = int(np.prod(X)) * 4
WEIGHTS = {
    "one": RNG.standard_normal((CHANNELS, CHANNELS, 1, 1)) / 7,
    "three": RNG.standard_normal((CHANNELS, CHANNELS, 3, 3)) / 21,
    "wide": RNG.standard_normal((CHANNELS, 10 * CHANNELS, 3, 3)) / 65,
    "up": RNG.standard_normal((10 * CHANNELS, CHANNELS, 1, 1)) / 7,
    "matrix": RNG.standard_normal((SIDE, SIDE)) / 4,
    "deep": RNG.standard_normal((SIDE, 1000)) / 4,
    "back": RNG.standard_normal((1000, SIDE)) / 32,
    "channel": RNG.standard_normal((CHANNELS, 1, 1)),
    "scale": RNG.standard_normal(CHANNELS),
    "shape": np.array([2, CHANNELS, SIDE * SIDE], np.int64),
    "four": np.array(X, np.int64),
}
node = helper.make_node
START = [node("MaxPool", ["x"], ["a"], kernel_shape=[3, 3], pads=[1] * 4)]
END = [node("AveragePool", ["r"], ["y"], kernel_shape=[3, 3], pads=[1] * 4)]


def conv(x: str, w: str, y: str) -> onnx.NodeProto:
    return node("Conv", [x, w], [y], pads=[1 if w in ("three", "wide") else 0] * 4)


# name: nodes between START and END, from "a" to "r"
NETWORKS = {
    "residual": [
        conv("a", "three", "b"),
        conv("b", "one", "c"),
        node("Add", ["c", "a"], ["d"]),
        node("Relu", ["d"], ["r"]),
    ],
    "residual of three by three": [conv("a", "one", "b"), conv("b", "three", "c"), node("Add", ["a", "c"], ["r"])],
    "residual of a deep sum": [conv("a", "up", "b"), conv("b", "wide", "c"), node("Add", ["c", "a"], ["r"])],
    "residual and a function": [
        conv("a", "one", "b"),
        conv("b", "one", "c"),
        node("Add", ["c", "a"], ["d"]),
        node("HardSwish", ["d"], ["r"]),
    ],
    "residual is the operand": [conv("a", "three", "c"), node("Add", ["c", "a"], ["r"])],
    "residual is read later": [
        conv("a", "three", "b"),
        conv("b", "one", "c"),
        node("Add", ["c", "a"], ["d"]),
        conv("d", "three", "e"),
        node("Add", ["e", "a"], ["r"]),
    ],
    "factor, no residual": [conv("a", "one", "b"), conv("b", "one", "c"), node("Mul", ["c", "a"], ["r"])],
    "residual of a GEMM": [
        node("MatMul", ["a", "deep"], ["b"]),
        node("MatMul", ["b", "back"], ["c"]),
        node("Add", ["c", "a"], ["r"]),
    ],
    "residual of a small GEMM": [
        node("MatMul", ["a", "matrix"], ["b"]),
        node("MatMul", ["b", "matrix"], ["c"]),
        node("Add", ["c", "a"], ["r"]),
    ],
    "element-wise": [
        node("Softmax", ["a"], ["b"], axis=3),
        node("Mul", ["b", "channel"], ["c"]),
        node("Softmax", ["c"], ["d"], axis=3),
        node("Add", ["d", "b"], ["e"]),
        node("Sin", ["e"], ["f"]),
        node("Softmax", ["f"], ["r"], axis=3),
    ],
    "a normalization by channel": [
        conv("a", "three", "b"),
        node("InstanceNormalization", ["b", "scale", "scale"], ["c"]),
        node("Relu", ["c"], ["r"]),
    ],
    "a part of the operand": [
        node("Split", ["a"], ["p", "q"], axis=0, num_outputs=2),
        node("Softmax", ["p"], ["c"], axis=3),
        node("Softmax", ["q"], ["d"], axis=3),
        node("Concat", ["c", "d"], ["b"], axis=0),
        node("Mul", ["b", "c"], ["h"]),
        node("Softmax", ["h"], ["r"], axis=3),
    ],
    "a view of the operand": [
        node("Softmax", ["a"], ["b"], axis=3),
        node("Reshape", ["b", "shape"], ["c"]),
        node("Sin", ["c"], ["d"]),
        node("Reshape", ["d", "four"], ["e"]),
        node("Add", ["e", "b"], ["r"]),
    ],
}
# The values of the size of x that are alive at once, where that is known.
ALIVE = {"residual": 2, "residual of three by three": 2}


def save(path: pathlib.Path, name: str, batch: object = 2) -> pathlib.Path:
    nodes = START + NETWORKS[name] + END
    used = {i for n in nodes for i in n.input}
    arrays = {k: v if v.dtype == np.int64 else v.astype(np.float32) for k, v in WEIGHTS.items() if k in used}
    weights = [numpy_helper.from_array(v, k) for k, v in arrays.items()]
    shape = [batch, *X[1:]]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def levels() -> list[str]:
    flags = pathlib.Path("/proc/cpuinfo").read_text() if os.path.exists("/proc/cpuinfo") else ""
    wanted = {"scalar": "", "avx2": "avx2", "avx512": "avx512f", "avx512bf16": "avx512_bf16", "amxbf16": "amx_bf16"}
    return [k for k, flag in wanted.items() if flag in flags]


def run(model: pathlib.Path, x: np.ndarray, isa: str, *flags: str) -> np.ndarray:
    folder = model.parent
    np.save(folder / "x.npy", x)
    files = [f"--input=x={folder / 'x.npy'}", f"--output-dir={folder}"]
    done = carnot("run", model, *files, *flags, env={"CARNOT_ISA": isa})
    assert done.returncode == 0, done.stderr
    return np.load(folder / "y.npy")


@pytest.mark.parametrize("isa", levels())
@pytest.mark.parametrize("name", NETWORKS)
def test_values(tmp_path: pathlib.Path, name: str, isa: str) -> None:
    x = RNG.standard_normal(X).astype(np.float32)
    model = save(tmp_path / "m.onnx", name, 2 if name.startswith("a ") else "n")
    wanted = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    cases: list = [(["--builderOptimizationLevel=0"], 2e-6)]
    if isa == levels()[-1]:
        cases += [([], 2e-6), (["--bf16"], 2e-2)]
    for flags, error in cases:
        y = run(model, x, isa, *flags)
        assert np.linalg.norm(y - wanted) < error * np.linalg.norm(wanted), flags


@pytest.mark.parametrize("name", ALIVE)
def test_arena(tmp_path: pathlib.Path, name: str) -> None:
    plan = tmp_path / "m.plan"
    passes("build", save(tmp_path / "m.onnx", name), "--output", plan, "--builderOptimizationLevel=0")
    told = json.loads(passes("inspect", plan, "--json"))
    assert told["ActivationBytes"] == told["ActivationBoundBytes"] == ALIVE[name] * BYTES
