"""Inputs and references of the plugin tests: NumPy in double precision, and ONNX's own operators."""

import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

RNG = np.random.default_rng(7)


def numbers(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def near(found: np.ndarray, wanted: np.ndarray, tolerance: float = 2e-5) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)


def normalized(x: np.ndarray, axes: tuple, eps: float) -> np.ndarray:
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def by_channel(v: np.ndarray, rank: int) -> np.ndarray:
    return v.astype(np.float64).reshape([1, -1] + [1] * (rank - 2))


def onnx_op(op: str, inputs: dict, attrs: dict, opset: int = 21) -> np.ndarray:
    """ONNX's own reference implementation."""
    infos = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in inputs.items()
    ]
    node = helper.make_node(op, list(inputs), ["y"], **attrs)
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name="y")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return ReferenceEvaluator(proto).run(None, inputs)[0]
