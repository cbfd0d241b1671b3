#!/usr/bin/env python3
"""Operators of types and forms that plain CUDA kernels compute, at odd sizes, against ONNX's reference evaluator.

Usage: plain_rows.py CARNOT..     The command may be several words (compute-sanitizer before it).
Each case names the tactic that must have run it, where CARNOT_CUDA_ROWS lets it.
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from fused_rows import told
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

RNG = np.random.default_rng(11)
LIMITS = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-5, np.dtype(np.float16): 2e-3}


def real(dtype: type, *dims: int) -> np.ndarray:
    return RNG.standard_normal(dims).astype(dtype)


def whole(dtype: type, low: int, high: int, *dims: int) -> np.ndarray:
    return RNG.integers(low, high, dims).astype(dtype)


class Case:
    """Nodes in a row over |x|; arrays among a node's inputs become constants."""

    def __init__(self, name: str, tactic: str, x: np.ndarray, opset: int = 23) -> None:
        self.name, self.tactic, self.x, self.opset = name, tactic, x, opset
        self.nodes, self.weights, self.last = [], [], "x"

    def then(self, op: str, *inputs: object, outputs: int = 1, **attributes: object) -> "Case":
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
    Case("matmul f64", "cuda_gemm_32x32", real(F64, 2, 3, 37, 41)).then("MatMul", real(F64, 41, 29)).then("Add", real(F64, 29)).then("Tanh"),
    Case("gemm f64", "cuda_gemm_32x32", real(F64, 41, 37)).then("Gemm", real(F64, 29, 41), real(F64, 29), transA=1, transB=1, alpha=0.5, beta=2.0),
    *[Case(f"matmul {np.dtype(t)}", "cuda_gemm_32x32", whole(t, 0, 1 << 30, 3, 35, 67)).then("MatMul", whole(t, 0, 1 << 30, 67, 5))
      for t in (np.int32, np.int64, np.uint32, np.uint64)],
    Case("conv f64", "cuda_conv_direct", real(F64, 2, 6, 13, 17)).then("Conv", real(F64, 4, 3, 3, 3), real(F64, 4), group=2, strides=[2, 1], pads=[1, 0, 2, 1]).then("Exp"),
    Case("softmax f64", "cuda_softmax", real(F64, 3, 1030, 5)).then("Softmax", axis=1),
    Case("layer norm f64", "cuda_norm", real(F64, 7, 333)).then("LayerNormalization", real(F64, 333), real(F64, 333)),
    Case("rms norm, scale in turn", "cuda_norm", real(np.float32, 7, 3, 11)).then("RMSNormalization", real(np.float32, 11), axis=1),
    Case("rms norm, types differ", "cuda_norm_plain", real(np.float16, 7, 3, 11)).then("RMSNormalization", real(np.float32, 1, 3, 1), axis=1).then("Cast", to=T.FLOAT16),
    Case("max pool f64", "cuda_pool", real(F64, 2, 3, 19, 23)).then("MaxPool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
    Case("max pool u8", "cuda_pool", whole(np.uint8, 0, 255, 2, 3, 19, 23)).then("MaxPool", kernel_shape=[3, 2]),
    *[Case(f"reduce {how} {np.dtype(t)}", "cuda_reduce", whole(t, 0, 100, 3, 70, 33)).then(how, np.array([1]), keepdims=0)
      for how, t in (("ReduceMax", np.uint8), ("ReduceMin", np.int8), ("ReduceSum", np.uint64), ("ReduceMax", np.uint32))],
    *[Case(f"attention {np.dtype(t)}", "cuda_attention_plain", real(t, 2, 6, 37, 24)).then("Attention", *kv(t, 2, 61, 24), is_causal=1, softcap=3.0)
      for t in (np.float32, F64, np.float16)],
    Case("matmul integer", "cuda_quantized_matmul", whole(np.uint8, 0, 255, 2, 33, 515)).then(
        "MatMulInteger", whole(np.int8, -128, 127, 515, 7), np.uint8(7), np.int8(-3)),
    Case("conv integer", "cuda_quantized_conv", whole(np.uint8, 0, 255, 2, 3, 15, 11)).then(
        "ConvInteger", whole(np.uint8, 0, 255, 4, 3, 3, 3), np.uint8(9), np.uint8(5), pads=[1, 1, 1, 1]),
    Case("int4 by blocks", "cuda_dequantize_linear", real(np.float32, 5, 7)).then(
        "QuantizeLinear", real(np.float32, 5, 7) ** 2 + 0.1, packed(T.INT4, -8, 7, 5, 7), axis=1, block_size=1).then(
        "DequantizeLinear", real(np.float32, 5, 7), axis=1, block_size=1),
    *[Case(f"cast to {T.DataType.Name(kind)}", "cuda_cast", real(np.float32, 3, 11)).then("Cast", to=kind).then("Cast", to=T.FLOAT)
      for kind in (T.FLOAT8E4M3FN, T.FLOAT8E5M2FNUZ, T.FLOAT4E2M1, T.INT4, T.UINT4)],
    Case("lp pool", "cuda_pool", real(np.float32, 2, 3, 17)).then("LpPool", kernel_shape=[4], p=3),
    Case("det", "cuda_det", real(F64, 5, 7, 7)).then("Det"),
]


def error(carnot: list[str], case: Case, folder: pathlib.Path) -> tuple[float, str]:
    path, model = str(folder / "net.onnx"), case.model()
    onnx.save(model, path)
    np.save(folder / "x.npy", case.x)
    wanted = ReferenceEvaluator(model).run(None, {"x": case.x})[0]
    done = subprocess.run([*carnot, "run", path, "--backend=cuda", f"--input=x={folder}/x.npy", f"--output-dir={folder}/out"],
                          capture_output=True, text=True)
    if done.returncode:
        return np.inf, done.stderr[-400:]
    got = np.load(next((folder / "out").glob("*.npy")))
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return np.inf, f"{got.dtype}{got.shape}, must be {wanted.dtype}{wanted.shape}"
    profile = subprocess.run([*carnot, "inspect", path, "--backend=cuda"], capture_output=True, text=True).stdout
    off = np.linalg.norm(got.astype(F64) - wanted.astype(F64)) / np.linalg.norm(wanted.astype(F64))
    return float(off), profile


def check(carnot: list[str], case: Case) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        off, text = error(carnot, case, pathlib.Path(folder))
    rows = os.environ.get("CARNOT_CUDA_ROWS", "")
    ran = case.tactic in text or (rows and not any(case.tactic.startswith(r) for r in rows.split(",")))
    kinds = [case.x.dtype, *[numpy_helper.to_array(w).dtype for w in case.weights]]
    limit = max((LIMITS[k] for k in kinds if k in LIMITS), default=0.0)
    good = off <= limit and ran
    why = "" if good else f" (wanted {case.tactic}): {text[-600:]}"
    told(f"{'passed' if good else 'FAILED'} {case.name}: relative L2 {off:.1e}, limit {limit:.0e}{why}")
    return good


def main() -> int:
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        done = list(pool.map(lambda case: check(sys.argv[1:], case), CASES))
    return not all(done)


if __name__ == "__main__":
    sys.exit(main())
