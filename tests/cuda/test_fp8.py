"""GEMMs of FP8 operands by each tile size, and norms that quantize their result, against ONNX Runtime in float32.

With the stand-in driver only the tactic of the case runs on its device, by the formula of its parameters.
"""

import functools
import json
import pathlib
from typing import Iterator

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from harness import Case, Device, compare, is_stand_in, random_inputs, relative_l2
from net import Net
from onnx import TensorProto, helper, numpy_helper

TMA, PINGPONG, LIBRARY = "gemm_tma", "gemm_tma_pingpong", "cuda_gemm_fp8_cublaslt"
SIZES = [
    *[(TMA, 64, 32), (TMA, 64, 64), (TMA, 128, 64), (TMA, 128, 128), (TMA, 128, 160), (TMA, 128, 256)],
    *[(PINGPONG, 128, 128), (PINGPONG, 128, 160), (PINGPONG, 128, 192)],
]
if is_stand_in():
    SIZES = [(TMA, 64, 64), (PINGPONG, 128, 128)]
TILES = [f"cuda_{kind}_{rows}x{columns}" for kind, rows, columns in SIZES]
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
    left_out = [rival for rival in [*TILES, LIBRARY] if rival != case.tactic]
    tactics = f"{case.tactic},copies" if device.is_stand_in else "-" + ",".join(left_out)
    error, profile = compare(device, case.make(), precision, level=1, CARNOT_CUDA_TACTICS=tactics)
    line = f"{case.name} {precision}: relative L2 {error:.1e}"
    limit = LIMIT_FP8_RESULT if quantizes else LIMITS[precision]
    assert error <= limit and case.tactic in profile, f"{line}: {profile[-600:]}"
    return line


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_layers_that_share_weights(device: Device, precision: str) -> None:
    """Three MatMuls, one behind the other, by one FP8 matrix, as in ALBERT, multiply FP8 each."""
    net = Fp8Net(x=[2, 40, 128])
    weights = net.fp8(net.weight(128, 128, scale=128**-0.5), 128**-0.5 / 100, axis=1)
    y = "x"
    for _ in range(3):
        y = net.add("Add", net.add("MatMul", net.fp8(y, 1 / 100), weights), net.weight(128))
    tactics = f"cuda_{TMA}_64x64,copies" if device.is_stand_in else "-cuda_gemm_multistage"
    error, profile = compare(device, net.model(y), precision, level=0, CARNOT_CUDA_TACTICS=tactics)
    gemms = [line for line in profile.splitlines() if "gemm" in line]
    assert len(gemms) == 3 and all(f"node_of_{weights} " in line for line in gemms), profile[-1500:]
    assert error <= 4e-2, f"relative L2 {error:.1e}: {profile[-600:]}"


SLOW = f"cuda_{TMA}_128x256"


@pytest.mark.skipif(is_stand_in(), reason="the stand-in of cuBLASLt computes nothing")
@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("shape", [(128, 3072, 768), (300, 4096, 1024), (4096, 768, 2304), (4099, 2064, 784)])
def test_gemm_by_the_library(device: Device, shape: tuple, residual: bool, precision: str) -> None:
    """Where |SLOW| is the only tile, which the library is faster than. The tile is needed: regions are formed in float32."""
    tactics = "-" + ",".join(tile for tile in TILES if tile != SLOW)
    error, profile = compare(device, gemm(*shape, "", residual, False), precision, CARNOT_CUDA_TACTICS=tactics)
    assert error <= LIMITS[precision] and LIBRARY in profile, f"relative L2 {error:.1e}: {profile[-600:]}"


def quantized_gemm(net: Fp8Net, y: str, size: int, to: str, scale: float) -> str:
    """|y| in |to| by a GEMM with [size, size] weights."""
    if to == "fp8":
        q = net.fp8(y, scale)
        w = net.fp8(net.weight(size, size, scale=size**-0.5), size**-0.5 / 100, axis=1)
    else:
        scale, zero = net.constant(np.float32(scale)), net.constant(np.dtype(to).type(121 if to == "uint8" else 3))
        q = net.add("DequantizeLinear", net.add("QuantizeLinear", y, scale, zero), scale, zero)
        weight_scale = net.constant((net.rng.uniform(0.5, 2, size) * size**-0.5 / 30).astype(np.float32))
        bytes_ = net.constant(net.rng.integers(-127, 128, (size, size)).astype(np.int8))
        w = net.add("DequantizeLinear", bytes_, weight_scale, axis=1)
    return net.add("MatMul", q, w)


def norm(rows: int, size: int, to: str) -> onnx.ModelProto:
    """A GEMM in half precision, a norm, and a quantized GEMM behind it, whose residual is the norm's result."""
    net = Fp8Net(x=[1, rows, 64])
    x = net.add("MatMul", "x", net.weight(64, size, scale=0.125))
    y = net.add("LayerNormalization", x, net.weight(size), net.weight(size), axis=-1, epsilon=1e-5)
    return net.model(net.add("Add", quantized_gemm(net, y, size, to, 0.01 if to == "fp8" else 0.04), y))


def attention(batch: int, rows: int, heads: int, size: int, to: str, sign: float = 1) -> onnx.ModelProto:
    """GEMMs and attention in half precision, and a quantized GEMM behind it. |sign|: of the scores' scale."""
    net, width = Fp8Net(x=[batch, rows, 64]), heads * size

    def part(*axes: int) -> str:
        y = net.add("MatMul", "x", net.weight(64, width, scale=0.125))
        y = net.add("Reshape", y, net.constant(np.array([batch, rows, heads, size])))
        return net.add("Transpose", y, perm=axes)

    scores = net.add("MatMul", part(0, 2, 1, 3), part(0, 2, 3, 1))
    scores = net.add("Mul", scores, net.constant(np.float32(sign * size**-0.5)))
    y = net.add("MatMul", net.add("Softmax", scores, axis=-1), part(0, 2, 1, 3))
    y = net.add("Reshape", net.add("Transpose", y, perm=(0, 2, 1, 3)), net.constant(np.array([batch, rows, width])))
    return net.model(quantized_gemm(net, y, width, to, 0.005))


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


# Sizes that each of the kernels takes.
ATTENTION = [(1, 16, 2, 128), (2, 9, 3, 24), (3, 65, 2, 32), (1, 33, 2, 80), (1, 40, 2, 128), (1, 7, 3, 64, -1)]
if not is_stand_in():
    ATTENTION += [(1, 128, 12, 64), (40, 128, 12, 64), (1, 197, 3, 64)]


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("to", ["fp8", "uint8", "int8"])
@pytest.mark.parametrize("shape", ATTENTION)
def test_attention_quantizes(device: Device, shape: tuple, to: str, precision: str) -> None:
    tactics = {"CARNOT_CUDA_TACTICS": "cuda_attention,copies"} if device.is_stand_in else {}
    model = attention(*shape[:4], to, *shape[4:])
    error, profile = compare(device, model, precision, **tactics)
    assert error <= (3e-2 if precision == "bf16" else 1.2e-2), f"relative L2 {error:.1e}: {profile[-600:]}"
    quantize = next(node for node in model.graph.node if node.op_type == "QuantizeLinear").output[0]
    others = [line for line in profile.splitlines() if "cuda_attention" not in line]
    assert "cuda_attention" in profile, profile[-1500:]
    assert not any(f"node_of_{quantize}" in line for line in others), profile[-1500:]


def attention_of_fp8(
    batch: int, rows: int, heads: int, size: int, mask: str, to: str, fp8_projections: bool = False
) -> onnx.ModelProto:
    """Attention whose queries, keys, values and softmax are rounded to FP8, between GEMMs. |mask|: "", "keys": one
    for all queries, or "dense". |to|: what its result is rounded to, "" or fp8. |fp8_projections|: these are GEMMs in
    FP8 with a bias each, and it is their results that are rounded."""
    masks = {"": {}, "keys": {"mask": [batch, 1, 1, rows]}, "dense": {"mask": [1, 1, rows, rows]}}[mask]
    net, width = Fp8Net(x=[batch, rows, 64], **masks), heads * size

    x = net.fp8("x", 1 / 100) if fp8_projections else "x"

    def part(*axes: int) -> str:
        w = net.weight(64, width, scale=0.125)
        if fp8_projections:
            y = net.add("MatMul", x, net.fp8(w, 0.125 / 100, axis=1))
            y = net.fp8(net.add("Add", y, net.weight(width)), 1 / 80)
        else:
            y = net.add("MatMul", x, w)
        y = net.add("Reshape", y, net.constant(np.array([batch, rows, heads, size])))
        y = net.add("Transpose", y, perm=axes)
        return y if fp8_projections else net.fp8(y, 1 / 80)

    scores = net.add("MatMul", part(0, 2, 1, 3), part(0, 2, 3, 1))
    scores = net.add("Mul", scores, net.constant(np.float32(size**-0.5)))
    if mask:
        scores = net.add("Add", scores, "mask")
    weights = net.fp8(net.add("Softmax", scores, axis=-1), 1 / 448)
    y = net.add("MatMul", weights, part(0, 2, 1, 3))
    y = net.add("Reshape", net.add("Transpose", y, perm=(0, 2, 1, 3)), net.constant(np.array([batch, rows, width])))
    if to == "fp8":
        return net.model(quantized_gemm(net, y, width, to, 0.005))
    return net.model(net.add("MatMul", y, net.weight(width, 64, scale=width**-0.5)))


FP8_ATTENTION = [(1, 40, 2, 64, ""), (2, 65, 3, 32, "keys"), (1, 130, 2, 128, "dense"), (3, 77, 2, 96, "")]
if not is_stand_in():
    FP8_ATTENTION += [(40, 192, 8, 64, "keys"), (24, 300, 12, 64, "dense"), (9, 400, 12, 128, ""), (2, 1024, 4, 48, "")]


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("to", ["", "fp8"])
@pytest.mark.parametrize("shape", FP8_ATTENTION)
def test_attention_of_fp8(device: Device, shape: tuple, to: str, precision: str) -> None:
    tactics = "cuda_attention_fp8_tma,copies" if device.is_stand_in else "-cuda_attention_generic"
    error, profile = compare(device, attention_of_fp8(*shape, to), precision, CARNOT_CUDA_TACTICS=tactics)
    assert "cuda_attention_fp8_tma" in profile, profile[-1500:]
    # The kernels round weights relative to their greatest, not to softmax's scale: the results are two FP8 roundings
    # apart, and where they are rounded to FP8 again, another two.
    assert error <= (7e-2 if to else 4e-2), f"relative L2 {error:.1e}: {profile[-600:]}"


def tactics_of_projections(device: Device) -> str:
    return "cuda_attention_fp8_tma,cuda_gemm_tma_64x64,copies" if device.is_stand_in else "-cuda_attention_generic"


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("shape", FP8_ATTENTION)
def test_fp8_projections_are_one_gemm(device: Device, shape: tuple, precision: str) -> None:
    """Queries, keys and values that are quantized with one scale: one GEMM writes their bytes, attention reads them
    where they are, and only the GEMM behind it is left."""
    model = attention_of_fp8(*shape, "", fp8_projections=True)
    error, profile = compare(device, model, precision, CARNOT_CUDA_TACTICS=tactics_of_projections(device))
    assert "cuda_attention_fp8_tma" in profile, profile[-1500:]
    assert sum("gemm" in line for line in profile.splitlines()) == 2, profile[-1500:]
    assert error <= 4e-2, f"relative L2 {error:.1e}: {profile[-600:]}"


def test_projections_that_refit_may_change_apart(device: Device, tmp_path: pathlib.Path) -> None:
    """Projections with a scale tensor each are one GEMM, but not where refit may give them different numbers."""
    model = attention_of_fp8(1, 40, 2, 64, "", "", fp8_projections=True)
    source, engine, changed = tmp_path / "net.onnx", tmp_path / "net.plan", tmp_path / "changed.onnx"
    onnx.save(model, source)
    flags = ["--backend=cuda:sm_90", "--fp16", "--dumpGraph=fuse_qkv_projections", "--builderOptimizationLevel=0"]
    for refit, matmuls in [([], 4), (["--refit"], 6)]:
        tactics = {"CARNOT_CUDA_TACTICS": tactics_of_projections(device)}
        done = device.run("build", source, "--output", engine, *flags, *refit, **tactics)
        assert done.returncode == 0, done.stderr
        assert sum(" = matmul(" in line for line in done.stderr.splitlines()) == matmuls, refit

    weights = [w for w in model.graph.initializer if list(w.dims) == [64, 128]]  # of queries, keys and values
    assert len(weights) == 3
    weights[1].CopyFrom(numpy_helper.from_array(-3 * numpy_helper.to_array(weights[1]), weights[1].name))
    onnx.save(model, changed)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(changed), options, providers=["CPUExecutionProvider"])
    feeds = random_inputs(session, device)
    feeds["x"].tofile(tmp_path / "x.bin")
    flags = [f"--loadInputs=x:{tmp_path / 'x.bin'}", f"--exportOutput={tmp_path / 'out.json'}", "--warmUp=0"]
    done = device.run("exec", f"--loadEngine={engine}", f"--refitFromOnnx={changed}", "--iterations=1", *flags)
    assert done.returncode == 0, done.stdout + done.stderr
    got = np.array(json.loads((tmp_path / "out.json").read_text())[0]["values"])
    wanted = session.run(None, feeds)[0]
    assert relative_l2(got.reshape(wanted.shape), wanted) <= 4e-2
