"""A builder of small ONNX networks with random weights."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Net:
    """Nodes and float32 weights of one network. Weights are drawn from a generator of the network's own."""

    def __init__(self, **inputs: list) -> None:
        self.inputs, self.nodes, self.weights = inputs, [], []
        self.rng = np.random.default_rng(7)

    def constant(self, array: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, *dims: int, scale: float = 1.0) -> str:
        return self.constant((self.rng.standard_normal(dims) * scale).astype(np.float32))

    def add(self, op: str, *inputs: str, **attributes: object) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attributes))
        return name

    def activate(self, y: str, activation: str) -> str:
        """|activation|: an ONNX operator, "silu", "relu6", or "" for none."""
        if activation == "silu":
            return self.add("Mul", y, self.add("Sigmoid", y))
        if activation == "relu6":
            return self.add("Clip", y, self.constant(np.float32(0)), self.constant(np.float32(6)))
        return self.add(activation, y) if activation else y

    def model(self, result: str) -> onnx.ModelProto:
        tensors = [helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in self.inputs.items()]
        out = helper.make_tensor_value_info(result, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "net", tensors, [out], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
