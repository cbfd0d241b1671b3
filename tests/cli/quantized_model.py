"""Builds small quantized ONNX models, runs them with the command line on one ISA level and tells their tactics."""

import json
import pathlib
import re

import numpy as np
import onnx
from harness import passes
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

RNG = np.random.default_rng(23)
TYPES = {np.uint8: T.UINT8, np.int8: T.INT8, np.float32: T.FLOAT}
LEVELS = ["scalar", "avx2", "avx512", "avx512vnni"]
LEVELS = [level for level in LEVELS if re.search(rf"^ +{level} +usable", passes("device", "--no-measure"), flags=re.M)]


class Model:
    """Nodes over quantized operands, with an initializer for each array."""

    def __init__(self) -> None:
        self.nodes: list = []
        self.constants: dict = {}
        self.inputs: dict = {}

    def packed_constant(self, array: np.ndarray, dtype: int) -> str:
        """Integers of a type that NumPy lacks, such as INT4."""
        name = f"c{len(self.constants)}"
        self.constants[name] = h.make_tensor(name, dtype, array.shape, array.reshape(-1).tolist())
        return name

    def constant(self, array: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def node(self, op: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: object) -> str | list:
        """The name of the result, or their names."""
        names = [f"{op}_{len(self.nodes)}{'' if i == 0 else f'_{i}'}" for i in range(outputs)]
        self.nodes.append(h.make_node(op, inputs, names, names[0], domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def input(self, name: str, array: np.ndarray) -> str:
        self.inputs[name] = array
        return name

    def dequantize(self, x: str, scale: object, zero: object, **attributes: object) -> str:
        return self.node("DequantizeLinear", x, self.constant(scale), self.constant(zero), **attributes)

    def quantize(self, x: str, scale: object, zero: object) -> str:
        return self.node("QuantizeLinear", x, self.constant(scale), self.constant(zero))

    def run(self, folder: pathlib.Path, outputs: dict, isa: str, *flags: str) -> tuple[list, list]:
        """The outputs, and the tactics of the layers in order."""
        graph = h.make_graph(
            self.nodes,
            "g",
            [h.make_tensor_value_info(k, TYPES[v.dtype.type], v.shape) for k, v in self.inputs.items()],
            [h.make_tensor_value_info(k, TYPES[v], None) for k, v in outputs.items()],
            [v if isinstance(v, T) else nh.from_array(v, k) for k, v in self.constants.items()],
        )
        opsets = [h.make_opsetid("", 21), h.make_opsetid("com.microsoft", 1)]
        onnx.save(h.make_model(graph, opset_imports=opsets, ir_version=10), folder / "m.onnx")
        plan = folder / "m.plan"
        passes("build", folder / "m.onnx", "--output", plan, f"--isa={isa}", "--builderOptimizationLevel=0", *flags)
        given = []
        for name, array in self.inputs.items():
            np.save(folder / f"{name}.npy", array)
            given += ["--input", f"{name}={folder / name}.npy"]
        passes("run", plan, *given, "--output-dir", folder / "out")
        layers = json.loads(passes("inspect", plan, "--json"))["Layers"]
        return [np.load(folder / "out" / f"{name}.npy") for name in outputs], [layer["TacticName"] for layer in layers]


def numbers(dtype: type, *shape: int) -> np.ndarray:
    limits = np.iinfo(dtype)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(dtype)
