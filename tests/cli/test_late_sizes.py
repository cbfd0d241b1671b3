"""Dimensions that only the run knows: tactics are timed at guessed sizes, and right at those that arrive."""

import itertools
import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
from harness import passes
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(5)
WEIGHTS = {"three": RNG.standard_normal((64, 32, 3, 3)) / 17, "matrix": RNG.standard_normal((64, 48)) / 8}


def model(path: pathlib.Path) -> None:
    """The rows of x that are kept, convolved, averaged and multiplied: [kept, 48]."""
    nodes = [
        helper.make_node("Compress", ["x", "keep"], ["kept"], axis=0),
        helper.make_node("Conv", ["kept", "three"], ["wide"], pads=[1] * 4),
        helper.make_node("Relu", ["wide"], ["positive"]),
        helper.make_node("GlobalAveragePool", ["positive"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["rows"]),
        helper.make_node("MatMul", ["rows", "matrix"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [40, 32, 14, 14]), helper.make_tensor_value_info("keep", TensorProto.BOOL, [40])]
    weights = [numpy_helper.from_array(w.astype(np.float32), name) for name, w in WEIGHTS.items()]
    graph = helper.make_graph(nodes, "late", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["kept", 48])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def test_tactics_are_timed(tmp_path: pathlib.Path) -> None:
    model(tmp_path / "m.onnx")
    passes("build", tmp_path / "m.onnx", "--backend=cpu", f"--output={tmp_path / 'm.plan'}", "--threads=1")
    why = passes("inspect", tmp_path / "m.plan", "--why")
    kinds = ["cpu_conv_"]
    if "avx512f" in pathlib.Path("/proc/cpuinfo").read_text():
        kinds.append("cpu_gemm_")  # where AVX2 is the best ISA level a GEMM has one tactic to choose from
    for kind in kinds:
        reasons = itertools.takewhile(lambda line: "not taken:" in line, why[why.index(kind) :].splitlines()[1:])
        assert any("took" in line or "not timed" in line for line in reasons), why


@pytest.mark.parametrize("kept", [0, 1, 7, 16, 40])
def test_any_number_is_right(tmp_path: pathlib.Path, kept: int) -> None:
    model(tmp_path / "m.onnx")
    passes("build", tmp_path / "m.onnx", "--backend=cpu", f"--output={tmp_path / 'm.plan'}", "--threads=2")
    x, keep = RNG.standard_normal((40, 32, 14, 14), np.float32), np.arange(40) < kept
    (want,) = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"]).run(None, {"x": x, "keep": keep})
    np.save(tmp_path / "x.npy", x), np.save(tmp_path / "keep.npy", keep)
    given = [f"--input={name}={tmp_path / name}.npy" for name in ("x", "keep")]
    passes("run", tmp_path / "m.plan", "--threads=2", *given, f"--output-dir={tmp_path}")
    got = np.load(tmp_path / "y.npy")
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_constants_that_do_not_fit_a_guess(tmp_path: pathlib.Path) -> None:
    """Row 30 of the rows that are kept: no guess has so many."""
    nodes = [
        helper.make_node("Compress", ["x", "keep"], ["kept"], axis=0),
        helper.make_node("Gather", ["kept", "thirty"], ["y"], axis=0),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [40, 8]), helper.make_tensor_value_info("keep", TensorProto.BOOL, [40])]
    weights = [numpy_helper.from_array(np.array([30, 2]), "thirty")]
    graph = helper.make_graph(nodes, "late", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 8])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    x, keep = RNG.standard_normal((40, 8), np.float32), np.arange(40) % 8 > 0
    np.save(tmp_path / "x.npy", x), np.save(tmp_path / "keep.npy", keep)
    given = [f"--input={name}={tmp_path / name}.npy" for name in ("x", "keep")]
    passes("build", tmp_path / "m.onnx", "--backend=cpu", f"--output={tmp_path / 'm.plan'}")
    passes("run", tmp_path / "m.plan", *given, f"--output-dir={tmp_path}")
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x[keep][[30, 2]])
