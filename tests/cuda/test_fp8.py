"""GEMMs of FP8 operands by each tile size, and norms that quantize their result, against ONNX Runtime in float32.

With the stand-in driver only the tactic of the case runs on its device, by the formula of its parameters.
"""

import functools
from typing import Iterator

import numpy as np
import onnx
import pytest
from harness import Case, Device, compare, is_stand_in
from net import Net
from onnx import TensorProto, helper

TMA, PINGPONG = "gemm_tma", "gemm_tma_pingpong"
SIZES = [
    *[(TMA, 64, 32), (TMA, 64, 64), (TMA, 128, 64), (TMA, 128, 128), (TMA, 128, 160), (TMA, 128, 256)],
    *[(PINGPONG, 128, 128), (PINGPONG, 128, 160), (PINGPONG, 128, 192)],
]
if is_stand_in():
    SIZES = [(TMA, 64, 64), (PINGPONG, 128, 128)]
# Of the relative L2 error. Operands are the same numbers on both sides; tensor cores add FP8 products to fewer bits
# than float32 has, and a sum at the border between two FP8 numbers rounds to either.
LIMITS = {"fp16": 4e-3, "bf16": 1.6e-2, "float32": 4e-3}
LIMIT_FP8_RESULT = 2.5e-2


class Fp8Net(Net):
    def fp8(self, x: str, scale: float, axis: int | None = None) -> str:
        """|x| rounded to FP8, and back; with |axis| each slice of constant x by a scale of its own."""
        zero = f"z{len(self.weights)}"
        count = next(w.dims[axis] for w in self.weights if w.name == x) if axis is not None else 1
        scales = (scale * self.rng.uniform(0.5, 2, count)).astype(np.float32) if axis is not None else np.float32(scale)
        shape = [count] if axis is not None else []
        self.weights.append(helper.make_tensor(zero, TensorProto.FLOAT8E4M3FN, shape, [0.0] * count))
        name = self.constant(np.asarray(scales))
        attributes = {"axis": axis} if axis is not None else {}
        q = self.add("QuantizeLinear", x, name, zero, **attributes)
        return self.add("DequantizeLinear", q, name, zero, **attributes)


def gemm(rows: int, depth: int, columns: int, activation: str, residual: bool, quantizes: bool) -> onnx.ModelProto:
    """[rows, depth] by [depth, columns], as Gemm with transposed weights where it quantizes, else MatMul and Add."""
    net = Fp8Net(x=[rows, depth] if quantizes else [1, rows, depth], **({"r": [1, rows, columns]} if residual else {}))
    x = net.fp8("x", 1 / 100)
    if quantizes:
        w = net.fp8(net.weight(columns, depth, scale=depth**-0.5), depth**-0.5 / 100, axis=0)
        y = net.add("Gemm", x, w, net.weight(columns), transB=1)
    else:
        w = net.fp8(net.weight(depth, columns, scale=depth**-0.5), depth**-0.5 / 100, axis=1)
        y = net.add("Add", net.add("MatMul", x, w), net.weight(columns))
    if residual:
        y = net.add("Add", y, "r")
    y = net.activate(y, activation)
    return net.model(net.fp8(y, 1 / 50) if quantizes else y)


def problems(kind: str, rows: int, columns: int) -> list:
    """Arguments of gemm for one tile size."""
    if kind == PINGPONG:
        cases = [
            (66 * rows + 5, 32, columns, "Gelu", False, False),
            (34 * rows - 9, 16, columns + 32, "", True, False),
            (70 * rows, 48, columns, "Relu", False, True),
            (68 * rows + 1, 144, columns, "Gelu", False, True),
        ]
        if not is_stand_in():  # each block computes several tiles
            cases += [
                (200 * rows - 3, 400, 2 * columns, "silu", False, False),
                (90 * rows - 3, 2064, 3 * columns - 32, "Relu", True, False),
            ]
        return cases
    return [
        (rows // 2 + 3, 272, columns, "Gelu", False, False),
        (rows + 5, 128 * 9 + 16, columns + 8, "", True, False),
        (2 * rows, 128, columns + 8, "Sigmoid", False, True),
        (3 * rows + 1, 4096, columns, "Relu", False, True),
    ]


def cases() -> Iterator[Case]:
    for kind, rows, columns in SIZES:
        tactic = f"cuda_{kind}_{rows}x{columns}"
        for shape in problems(kind, rows, columns):
            yield Case(f"{tactic} {shape}", functools.partial(gemm, *shape), tactic)


@pytest.mark.concurrent
@pytest.mark.parametrize("precision", ["fp16", "bf16", "float32"])
@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_gemm(device: Device, case: Case, precision: str) -> str:
    *_, quantizes = case.make.args
    rivals = [f"cuda_{kind}_{rows}x{columns}" for kind, rows, columns in SIZES]
    left_out = [rival for rival in rivals if rival != case.tactic]
    tactics = f"{case.tactic},copies" if device.is_stand_in else "-" + ",".join(left_out)
    error, profile = compare(device, case.make(), precision, level=1, CARNOT_CUDA_TACTICS=tactics)
    line = f"{case.name} {precision}: relative L2 {error:.1e}"
    limit = LIMIT_FP8_RESULT if quantizes else LIMITS[precision]
    assert error <= limit and case.tactic in profile, f"{line}: {profile[-600:]}"
    return line


def norm(rows: int, size: int, to: str) -> onnx.ModelProto:
    """A GEMM in half precision, a norm, and a quantized GEMM behind it, whose residual is the norm's result."""
    net = Fp8Net(x=[1, rows, 64])
    x = net.add("MatMul", "x", net.weight(64, size, scale=0.125))
    y = net.add("LayerNormalization", x, net.weight(size), net.weight(size), axis=-1, epsilon=1e-5)
    if to == "fp8":
        q = net.fp8(y, 1 / 100)
        w = net.fp8(net.weight(size, size, scale=size**-0.5), size**-0.5 / 100, axis=1)
    else:
        scale, zero = net.constant(np.float32(0.04)), net.constant(np.dtype(to).type(121 if to == "uint8" else 3))
        q = net.add("DequantizeLinear", net.add("QuantizeLinear", y, scale, zero), scale, zero)
        weight_scale = net.constant((net.rng.uniform(0.5, 2, size) * size**-0.5 / 30).astype(np.float32))
        bytes_ = net.constant(net.rng.integers(-127, 128, (size, size)).astype(np.int8))
        w = net.add("DequantizeLinear", bytes_, weight_scale, axis=1)
    return net.model(net.add("Add", net.add("MatMul", q, w), y))


@pytest.mark.skipif(is_stand_in(), reason="the stand-in driver has no norms by warp")
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("to", ["fp8", "uint8", "int8"])
@pytest.mark.parametrize(("rows", "size"), [(3, 64), (128, 768), (5000, 1024), (77, 2048)])
def test_norm_quantizes(device: Device, rows: int, size: int, to: str, precision: str) -> None:
    error, profile = compare(device, norm(rows, size, to), precision)
    # A value at the border between two quantized numbers rounds to either where half precision moved it.
    assert error <= (3e-2 if precision == "bf16" else 1.2e-2), f"relative L2 {error:.1e}: {profile[-600:]}"
    names = [line for line in profile.splitlines() if "QuantizeLinear" in line or "quantize" in line.lower()]
    assert not any("cuda_pointwise" in line or "cuda_quantize" in line for line in names), profile[-1500:]
