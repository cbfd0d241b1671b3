"""Element types and operator forms of the generic CUDA kernels, at odd sizes, against ONNX's reference evaluator.

Each case names the tactic that must have run it, where CARNOT_CUDA_TACTICS allows it.
"""

import pathlib
import tempfile

import numpy as np
import onnx
import pytest
from harness import Device, relative_l2
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

RNG = np.random.default_rng(11)
LIMITS = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-5, np.dtype(np.float16): 2e-3}


def real(dtype: type, *dims: int) -> np.ndarray:
    return RNG.standard_normal(dims).astype(dtype)


def whole(dtype: type, low: int, high: int, *dims: int) -> np.ndarray:
    return RNG.integers(low, high, dims).astype(dtype)


class Chain:
    """A chain of nodes over |x|; arrays among the inputs of a node become constants. |tactic| must run it."""

    def __init__(self, name: str, tactic: str, x: np.ndarray, opset: int = 23) -> None:
        self.name, self.tactic, self.x, self.opset = name, tactic, x, opset
        self.nodes, self.weights, self.last = [], [], "x"

    def then(self, op: str, *inputs: object, outputs: int = 1, **attributes: object) -> "Chain":
        names = [self.last]
        for array in inputs:
            names.append("" if array is None else f"w{len(self.weights)}")
            if array is not None:
                self.weights.append(array if isinstance(array, onnx.TensorProto) else numpy_helper.from_array(array))
                self.weights[-1].name = names[-1]
        made = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, names, made, **attributes))
        self.last = made[-1]
        return self

    def model(self) -> onnx.ModelProto:
        given = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(self.x.dtype), self.x.shape)
        graph = helper.make_graph(self.nodes, "net", [given], [onnx.ValueInfoProto(name=self.last)], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=11)


def kv(dtype: type, heads: int, keys: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    return real(dtype, 2, heads, keys, size), real(dtype, 2, heads, keys, size)


def packed(kind: int, low: int, high: int, *dims: int) -> onnx.TensorProto:
    return helper.make_tensor("w", kind, dims, RNG.integers(low, high, dims).ravel())


T, F64 = onnx.TensorProto, np.float64
CASES = [
    Chain("matmul f64", "cuda_gemm_simt_32x32", real(F64, 2, 3, 37, 41))
    .then("MatMul", real(F64, 41, 29))
    .then("Add", real(F64, 29))
    .then("Tanh"),
    Chain("gemm f64", "cuda_gemm_simt_32x32", real(F64, 41, 37)).then(
        "Gemm", real(F64, 29, 41), real(F64, 29), transA=1, transB=1, alpha=0.5, beta=2.0
    ),
    *[
        Chain(f"matmul {np.dtype(t)}", "cuda_gemm_simt_32x32", whole(t, 0, 1 << 30, 3, 35, 67)).then(
            "MatMul", whole(t, 0, 1 << 30, 67, 5)
        )
        for t in (np.int32, np.int64, np.uint32, np.uint64)
    ],
    Chain("conv f64", "cuda_conv_direct", real(F64, 2, 6, 13, 17))
    .then("Conv", real(F64, 4, 3, 3, 3), real(F64, 4), group=2, strides=[2, 1], pads=[1, 0, 2, 1])
    .then("Exp"),
    Chain("softmax f64", "cuda_softmax", real(F64, 3, 1030, 5)).then("Softmax", axis=1),
    Chain("layer norm f64", "cuda_norm", real(F64, 7, 333)).then("LayerNormalization", real(F64, 333), real(F64, 333)),
    Chain("rms norm, scale in turn", "cuda_norm", real(np.float32, 7, 3, 11)).then(
        "RMSNormalization", real(np.float32, 11), axis=1
    ),
    Chain("rms norm, types differ", "cuda_generic_norm", real(np.float16, 7, 3, 11))
    .then("RMSNormalization", real(np.float32, 1, 3, 1), axis=1)
    .then("Cast", to=T.FLOAT16),
    Chain("max pool f64", "cuda_pool", real(F64, 2, 3, 19, 23)).then(
        "MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]
    ),
    Chain("max pool u8", "cuda_pool", whole(np.uint8, 0, 255, 2, 3, 19, 23)).then("MaxPool", kernel_shape=[3, 2]),
    *[
        Chain(f"reduce {how} {np.dtype(t)}", "cuda_reduce", whole(t, 0, 100, 3, 70, 33)).then(
            how, np.array([1]), keepdims=0
        )
        for how, t in (
            ("ReduceMax", np.uint8),
            ("ReduceMin", np.int8),
            ("ReduceSum", np.uint64),
            ("ReduceMax", np.uint32),
        )
    ],
    *[
        Chain(f"attention {np.dtype(t)}", "cuda_generic_attention", real(t, 2, 6, 37, 24)).then(
            "Attention", *kv(t, 2, 61, 24), is_causal=1, softcap=3.0
        )
        for t in (np.float32, F64, np.float16)
    ],
    Chain("matmul integer", "cuda_quantized_matmul", whole(np.uint8, 0, 255, 2, 33, 515)).then(
        "MatMulInteger", whole(np.int8, -128, 127, 515, 7), np.uint8(7), np.int8(-3)
    ),
    Chain("conv integer", "cuda_quantized_conv", whole(np.uint8, 0, 255, 2, 3, 15, 11)).then(
        "ConvInteger", whole(np.uint8, 0, 255, 4, 3, 3, 3), np.uint8(9), np.uint8(5), pads=[1, 1, 1, 1]
    ),
    Chain("int4 by blocks", "cuda_dequantize_linear", real(np.float32, 5, 7))
    .then("QuantizeLinear", real(np.float32, 5, 7) ** 2 + 0.1, packed(T.INT4, -8, 7, 5, 7), axis=1, block_size=1)
    .then("DequantizeLinear", real(np.float32, 5, 7), axis=1, block_size=1),
    *[
        Chain(f"cast to {T.DataType.Name(kind)}", "cuda_cast", real(np.float32, 3, 11))
        .then("Cast", to=kind)
        .then("Cast", to=T.FLOAT)
        for kind in (T.FLOAT8E4M3FN, T.FLOAT8E5M2FNUZ, T.FLOAT4E2M1, T.INT4, T.UINT4)
    ],
    Chain("lp pool", "cuda_pool", real(np.float32, 2, 3, 17)).then("LpPool", kernel_shape=[4], p=3),
    Chain("det", "cuda_det", real(F64, 5, 7, 7)).then("Det"),
]


@pytest.mark.concurrent
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_generic(device: Device, case: Chain) -> str:
    with tempfile.TemporaryDirectory() as name:
        folder, model = pathlib.Path(name), case.model()
        path = folder / "net.onnx"
        onnx.save(model, path)
        np.save(folder / "x.npy", case.x)
        wanted = ReferenceEvaluator(model).run(None, {"x": case.x})[0]
        flags = (f"--input=x={folder}/x.npy", f"--output-dir={folder}/out")
        done = device.run("run", path, "--backend=cuda", *flags)
        assert done.returncode == 0, done.stderr[-400:]
        got = np.load(next((folder / "out").glob("*.npy")))
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
        profile = device.run("inspect", path, "--backend=cuda").stdout
    kinds = [case.x.dtype, *[numpy_helper.to_array(w).dtype for w in case.weights]]
    limit = max((LIMITS[k] for k in kinds if k in LIMITS), default=0.0)
    error = relative_l2(got, wanted)
    line = f"{case.name}: relative L2 {error:.1e}, limit {limit:.0e}"
    assert error <= limit, line
    allowed = not device.tactics or any(case.tactic.startswith(t) for t in device.tactics.split(","))
    assert case.tactic in profile or not allowed, f"{line}: not by {case.tactic}: {profile[-600:]}"
    return line
