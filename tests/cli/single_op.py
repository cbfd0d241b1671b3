"""Runs a model of one operator and returns which tactic computed it."""

import json
import pathlib

import numpy as np
import onnx
from harness import passes
from onnx import helper, numpy_helper


def run_op(
    folder: pathlib.Path, op: str, x: np.ndarray, dims: list, lists: list, **attributes: object
) -> tuple[np.ndarray, str]:
    """The result and the tactic of one node; all inputs but x are constants."""
    weights = [numpy_helper.from_array(a, f"c{i}") for i, a in enumerate(lists)]
    dtype = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [helper.make_node(op, ["x", *[w.name for w in weights]], ["y"], op, **attributes)],
        "net",
        [helper.make_tensor_value_info("x", dtype, dims)],
        [helper.make_tensor_value_info("y", dtype, None)],
        weights,
    )
    model, plan = folder / "m.onnx", folder / "m.plan"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), model)
    np.save(folder / "x.npy", x)
    shape = "x".join(map(str, x.shape))
    passes("build", model, "--output", plan, *[f"--shapes=x:{shape}"] * (None in dims))
    passes("run", plan, f"--input=x={folder / 'x.npy'}", "--output-dir", folder / "out")
    layers = json.loads(passes("inspect", plan, "--json"))["Layers"]
    return np.load(folder / "out" / "y.npy"), next(
        (layer["TacticName"] for layer in layers if layer["Name"] == op), "nothing"
    )


def numbers(dtype: type, *dims: int) -> np.ndarray:
    return (np.random.default_rng(5).standard_normal(dims) * 20).astype(dtype)
