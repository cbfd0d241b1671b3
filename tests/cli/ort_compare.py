"""Runs a model of one operator beside ONNX Runtime, by a given tactic."""

import pathlib

import numpy as np
import onnx
import onnxruntime as ort
from harness import carnot
from onnx import helper, numpy_helper

RNG = np.random.default_rng(11)


def write(folder: pathlib.Path, op: str, inputs: dict, constants: dict, symbolic: bool, **attributes: object) -> list:
    """Writes a model of one node over |inputs| and |constants|, in this order; returns the arguments that run it."""

    def value(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim if symbolic else array.shape
        )

    kind = attributes.get("to") or helper.np_dtype_to_tensor_dtype(
        {**inputs, **constants}["values" if op == "OneHot" else "x"].dtype
    )
    graph = helper.make_graph(
        [helper.make_node(op, [*inputs, *constants], ["y"], op, **attributes)],
        "net",
        [value(k, v) for k, v in inputs.items()],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(v, k) for k, v in constants.items()],
    )
    model = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), model)
    arguments = ["run", model, "--output-dir", folder, "--backend=cpu", "--dumpProfile", "--threads=2"]
    for name, array in inputs.items():
        np.save(folder / f"{name}.npy", array)
        arguments.append(f"--input={name}={folder / f'{name}.npy'}")
    return arguments


def same(
    folder: pathlib.Path,
    tactic: str,
    op: str,
    inputs: dict,
    constants: dict | None = None,
    symbolic: bool = False,
    limit: float = 0,
    **attributes: object,
) -> np.ndarray:
    """Checks the result against ONNX Runtime, bit-exact where |limit| is 0, and that |tactic| ran."""
    done = carnot(*write(folder, op, inputs, constants or {}, symbolic, **attributes))
    assert done.returncode == 0, done.stderr
    found = np.load(folder / "y.npy")
    wanted = ort.InferenceSession(folder / "m.onnx", providers=["CPUExecutionProvider"]).run(None, inputs)[0]
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=limit, atol=limit * float(np.abs(wanted).max(initial=0)))
    assert tactic in done.stderr or not found.size, done.stderr
    return found


def normal(*dims: int, dtype: type = np.float32) -> np.ndarray:
    return (RNG.standard_normal(dims) * 20).astype(dtype)


def picks(limit: int, *dims: int, dtype: type = np.int64) -> np.ndarray:
    return RNG.integers(-limit, limit, dims).astype(dtype)
