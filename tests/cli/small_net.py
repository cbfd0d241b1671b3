"""Builds small ONNX networks node by node, and runs their engines."""

import json
import pathlib

import numpy as np
import onnx
from harness import passes
from onnx import TensorProto, helper, numpy_helper


class Net:
    def __init__(self) -> None:
        self.nodes, self.weights = [], []

    def constant(self, array: object) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(array), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def number(self, value: float) -> str:
        return self.constant(np.float32(value))

    def add(self, op: str, *inputs: str, **attributes: object) -> str:
        self.nodes.append(
            helper.make_node(op, list(inputs), [f"v{len(self.nodes)}"], f"n{len(self.nodes)}", **attributes)
        )
        return self.nodes[-1].output[0]

    def save(self, path: pathlib.Path, result: str, **inputs: list) -> pathlib.Path:
        self.nodes.append(helper.make_node("Identity", [result], ["y"]))
        values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in inputs.items()]
        graph = helper.make_graph(
            self.nodes, "net", values, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], self.weights
        )
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
        return path


def layers(plan: pathlib.Path) -> list:
    return [layer for layer in json.loads(passes("inspect", plan, "--json"))["Layers"] if layer["TacticName"] != "view"]


def run_plan(plan: pathlib.Path, folder: pathlib.Path, **arrays: np.ndarray) -> np.ndarray:
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    passes("run", plan, *[f"--input={n}={folder / n}.npy" for n in arrays], "--output-dir", folder / "out")
    return np.load(folder / "out" / "y.npy")
