"""GEMMs of floats by packed weights of 2, 4 and 8 bits on a GPU: against float64, and what the engine keeps."""

import pathlib
import sys
from typing import NamedTuple

import numpy as np
import pytest
from harness import Device, is_stand_in
from onnx import TensorProto as T

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from quantized_rule import RNG, Model

NARROW = "cuda_gemm_weight_only_32"
WIDE = "cuda_gemm_weight_only_128"
DIRECT = [f"cuda_gemm_weight_only_direct_{columns}" for columns in (16, 32, 128)]
STREAM = "cuda_gemm_weight_only_stream_16"
TACTICS = [NARROW, WIDE, *DIRECT, STREAM]
# Of the sum of magnitudes: the rounding of x and of the result, and, of float32, of the sums.
EPSILON = {"": 2.0**-20, "--fp16": 2.0**-10, "--bf16": 2.0**-7}
FLAGS = list(EPSILON)


def command(tactic: str):
    device = Device()
    if device.why_absent():
        pytest.skip(device.why_absent())
    # The stand-in driver runs what it is given; on a GPU all others serve the rest.
    # The forms that are asked first take no float32: the others hold the region until its type is chosen.
    wanted = [tactic, NARROW, WIDE] if tactic in (*DIRECT, STREAM) else [tactic]
    choice = f"{tactic},copies" if is_stand_in() else "-" + ",".join(t for t in TACTICS if t not in wanted)

    def run(*arguments: object) -> str:
        done = device.run(*arguments, CARNOT_CUDA_TACTICS=choice)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def build_and_run(m: Model, folder: pathlib.Path, y: str, tactic: str, flag: str, dtype: type = np.float32):
    flags = ["--backend=cuda", "--builderOptimizationLevel=0", *([flag] if flag else [])]
    (got,), tactics = m.run(folder, {y: dtype}, command(tactic), *flags)
    assert tactic in tactics, tactics
    return got


class Weights(NamedTuple):
    q: np.ndarray  # [n, k]
    scales: np.ndarray  # [n, blocks]
    zeros: np.ndarray
    bits: int
    block: int

    def wide(self) -> np.ndarray:
        of = np.arange(self.q.shape[1]) // self.block
        return ((self.q - self.zeros[:, of]) * self.scales[:, of].astype(np.float64)).T


def weights(n: int, k: int, bits: int, block: int, zeros: bool, dtype: type = np.float32) -> Weights:
    blocks = -(-k // block)
    half = 2 ** (bits - 1)
    z = RNG.integers(0, 2 * half, (n, blocks), np.int16) if zeros else np.full((n, blocks), half, np.int16)
    scales = ((RNG.random((n, blocks)) + 0.01) / half).astype(dtype)
    return Weights(RNG.integers(0, 2 * half, (n, k), np.int16), scales, z, bits, block)


def pack(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Rows of numbers below 2**bits as bytes, the first number in the lowest bits."""
    each = 8 // bits
    rows = np.pad(numbers, [(0, 0), (0, -numbers.shape[1] % each)]).reshape(numbers.shape[0], -1, each)
    return (rows << (bits * np.arange(each, dtype=np.int16))).sum(-1, dtype=np.int16).astype(np.uint8)


def nbits(m: Model, x: str, w: Weights, zeros: bool) -> str:
    """MatMulNBits."""
    n, k = w.q.shape
    blocks = w.scales.shape[1]
    rows = np.pad(w.q, [(0, 0), (0, blocks * w.block - k)])
    inputs = [x, m.constant(pack(rows, w.bits).reshape(n, blocks, -1)), m.constant(w.scales.reshape(-1))]
    inputs += [m.constant(pack(w.zeros, w.bits).reshape(-1))] if zeros else []
    return m.node("MatMulNBits", *inputs, domain="com.microsoft", K=k, N=n, bits=w.bits, block_size=w.block)


def dequantized(m: Model, w: Weights, dtype: int) -> str:
    """DequantizeLinear of [n, k] along k, signed or not."""
    shift = 2 ** (w.bits - 1) if dtype in (T.INT4, T.INT8) else 0
    parts = [m.packed_constant(w.q - shift, dtype), m.constant(w.scales), m.packed_constant(w.zeros - shift, dtype)]
    return m.node("DequantizeLinear", *parts, axis=1, block_size=w.block)


def near(got: np.ndarray, x: np.ndarray, w: np.ndarray, flag: str, more: np.ndarray | float = 0.0) -> None:
    x = x.astype(np.float64)
    bound = EPSILON[flag] * (np.abs(x) @ np.abs(w) + np.abs(more))
    error = np.abs(got - (x @ w + more))
    assert (error <= bound).all(), (error / bound).max()


def activations(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(
    ("n", "k", "block", "bits"),
    [
        (96, 1024, 128, 4),
        (64, 2048, 32, 4),
        (33, 300, 16, 4),  # neither divides; the last block is cut
        (7, 70, 64, 4),
        (48, 513, 256, 4),
        (40, 96, 128, 4),  # one block a column
        (100, 1024, 128, 8),
        (17, 330, 16, 8),
        (31, 65, 32, 8),
        (20, 192, 32, 2),
    ],
)
def test_matmul_nbits(
    tmp_path: pathlib.Path, flag: str, zeros: bool, n: int, k: int, block: int, bits: int
) -> None:
    w = weights(n, k, bits, block, zeros)
    x = activations(3, k)
    m = Model()
    y = nbits(m, m.input("x", x), w, zeros)
    near(build_and_run(m, tmp_path, y, NARROW, flag), x, w.wide(), flag)


@pytest.mark.parametrize("is_bf16", [False, True])
@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(
    ("rows", "tactic"),
    [(1, STREAM), (8, STREAM), (3, DIRECT[0]), (5, DIRECT[1]), (13, DIRECT[1]), (49, DIRECT[2])],
)
@pytest.mark.parametrize(
    ("n", "k", "block", "bits"),
    [
        (96, 1024, 128, 4),
        (33, 2624, 64, 4),  # batches of tiles that the slices do not divide
        (17, 704, 32, 4),
        (7, 64, 64, 4),
        (40, 192, 256, 4),  # one block a column
        (100, 1024, 128, 8),
        (31, 1184, 32, 8),
        (20, 192, 32, 2),
    ],
)
def test_direct(
    tmp_path: pathlib.Path, is_bf16: bool, zeros: bool, rows: int, tactic: str, n: int, k: int, block: int, bits: int
) -> None:
    if is_bf16 and is_stand_in():
        pytest.skip("the stand-in driver does not run the casts to bfloat16, which are generated")
    dtype = np.float32 if is_bf16 else np.float16
    w = weights(n, k, bits, block, zeros, dtype)
    x = activations(rows, k).astype(dtype)
    m = Model()
    y = nbits(m, m.input("x", x), w, zeros)
    got = build_and_run(m, tmp_path, y, tactic, "--bf16" if is_bf16 else "", dtype)
    near(got, x, w.wide(), "--bf16" if is_bf16 else "--fp16")


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(
    ("rows", "tactic"),
    [
        *((rows, NARROW) for rows in (1, 2, 7, 8, 9, 16)),
        *((rows, WIDE) for rows in (9, 16, 17, 33, 64)),
    ],
)
def test_rows(tmp_path: pathlib.Path, tactic: str, flag: str, bits: int, rows: int) -> None:
    w = weights(200, 640, bits, 64, True)
    x = activations(rows, 640)
    m = Model()
    y = nbits(m, m.input("x", x), w, True)
    near(build_and_run(m, tmp_path, y, tactic, flag), x, w.wide(), flag)


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize(("rows", "k"), [(1, 130), (12, 257), (40, 1023)])
@pytest.mark.parametrize("dtype", [T.INT4, T.UINT4, T.INT8, T.UINT8])
@pytest.mark.parametrize("epilogue", ["", "Relu", "HardSwish", "residual"])
def test_dequantize_transposed(
    tmp_path: pathlib.Path, flag: str, rows: int, k: int, dtype: int, epilogue: str
) -> None:
    """DequantizeLinear, Transpose, MatMul, and what joins them: bias, residual, activation."""
    w = weights(50, k, 4 if dtype in (T.INT4, T.UINT4) else 8, 32, True)
    x, bias, residual = activations(rows, k), activations(50), activations(rows, 50)
    m = Model()
    y = m.node("MatMul", m.input("x", x), m.node("Transpose", dequantized(m, w, dtype)))
    more = 0.0
    if epilogue:
        y, more = m.node("Add", y, m.constant(bias)), bias.astype(np.float64)
    if epilogue == "residual":
        y, more = m.node("Add", y, m.input("r", residual)), more + residual
    tactic = NARROW if rows <= 16 else WIDE
    got = build_and_run(m, tmp_path, y if epilogue in ("", "residual") else m.node(epilogue, y), tactic, flag)
    want = x.astype(np.float64) @ w.wide() + more
    bound = EPSILON[flag] * (np.abs(x) @ np.abs(w.wide()) + np.abs(bias) + np.abs(residual))
    if epilogue == "Relu":
        want = np.maximum(want, 0)
    if epilogue == "HardSwish":
        want = want * np.clip(want / 6 + 0.5, 0, 1)
        bound = 2 * bound
    assert (np.abs(got - want) <= bound).all(), (np.abs(got - want) / bound).max()


@pytest.mark.parametrize("rows", [1, 5, 21])
@pytest.mark.parametrize("bits", [4, 8])
def test_stream_of_open_rows(tmp_path: pathlib.Path, bits: int, rows: int) -> None:
    """Blocks go round over more column groups than there are blocks, and over rows that do not fit at once."""
    n, k = 8200, 2048 if rows == 1 else 11264
    w = weights(n, k, bits, 256, True, np.float16)
    x = activations(rows, k).astype(np.float16)
    m = Model()
    y = nbits(m, m.input("x", x, ["rows", k]), w, True)
    flags = [f"--{end}Shapes=x:{size}x{k}" for end, size in (("min", 1), ("opt", 1), ("max", 32))]
    (got,), tactics = m.run(
        tmp_path, {y: np.float16}, command(STREAM), "--backend=cuda", "--builderOptimizationLevel=0", *flags
    )
    assert STREAM in tactics, tactics
    near(got, x, w.wide(), "--fp16")


@pytest.mark.parametrize("tactic", [NARROW, *DIRECT[:2], STREAM])
@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_float16_model(tmp_path: pathlib.Path, tactic: str, alpha: float) -> None:
    """Scales in float16 stay so, unless alpha joins them."""
    w = weights(80, 512, 4, 128, True, np.float16)
    x, bias = activations(1, 512).astype(np.float16), activations(80).astype(np.float16)
    m = Model()
    y = m.node("Gemm", m.input("x", x), dequantized(m, w, T.UINT4), m.constant(bias), transB=1, alpha=alpha)
    got = build_and_run(m, tmp_path, y, tactic, "", np.float16)
    near(got, x, alpha * w.wide(), "--fp16", bias.astype(np.float64))


@pytest.mark.skipif(is_stand_in(), reason="the stand-in driver does not run the casts to bfloat16, which are generated")
@pytest.mark.parametrize("tactic", [NARROW, *DIRECT[:2], STREAM])
@pytest.mark.parametrize("bits", [4, 8])
def test_bfloat16_scales(tmp_path: pathlib.Path, bits: int, tactic: str) -> None:
    """Scales in bfloat16 stay so beside an operand in bfloat16."""
    w = weights(80, 512, bits, 32, True)
    w = w._replace(scales=(w.scales.view(np.uint32) & 0xFFFF0000).view(np.float32))
    x = activations(3, 512)
    m = Model()
    dtype = T.UINT4 if bits == 4 else T.UINT8
    parts = [m.packed_constant(w.q, dtype), m.packed_constant(w.scales, T.BFLOAT16), m.packed_constant(w.zeros, dtype)]
    b = m.node("Transpose", m.node("DequantizeLinear", *parts, axis=1, block_size=32))
    y = m.node("Cast", m.node("MatMul", m.node("Cast", m.input("x", x), to=T.BFLOAT16), b), to=T.FLOAT)
    near(build_and_run(m, tmp_path, y, tactic, ""), x, w.wide(), "--bf16")


@pytest.mark.skipif(is_stand_in(), reason="the stand-in driver computes in float64")
def test_float32_is_exact_at_any_magnitude(tmp_path: pathlib.Path) -> None:
    """A float32 operand is three bfloat16 numbers: large, small and infinite ones survive."""
    w = weights(64, 512, 4, 64, True)
    x = activations(6, 512)
    x[1] *= np.float32(1e30)
    x[2] *= np.float32(1e-25)
    m = Model()
    y = nbits(m, m.input("x", x), w, True)
    near(build_and_run(m, tmp_path, y, NARROW, ""), x, w.wide(), "")
    x[:] = 0
    x[0, 5] = np.inf
    np.save(tmp_path / "x.npy", x)
    command(NARROW)("run", tmp_path / "m.plan", "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path / "out")
    got = np.load(tmp_path / "out" / f"{y}.npy")
    expected = w.wide()[5] * np.inf
    np.testing.assert_array_equal(got[0][w.wide()[5] != 0], expected[w.wide()[5] != 0])


def test_engine_holds_packed_weights(tmp_path: pathlib.Path) -> None:
    n, k = 1024, 1024
    w = weights(n, k, 4, 128, False)
    x = activations(1, k)
    m = Model()
    y = nbits(m, m.input("x", x), w, False)
    near(build_and_run(m, tmp_path, y, NARROW, ""), x, w.wide(), "")
    assert (tmp_path / "m.plan").stat().st_size < 1.05 * (n * k // 2 + 4 * n * k // 128) + 65536


@pytest.mark.parametrize(("rows", "block"), [(65, 64), (1, 48)])
def test_other_sizes_are_dequantized(tmp_path: pathlib.Path, rows: int, block: int) -> None:
    w = weights(64, 192, 8, block, True)
    x = activations(rows, 192)
    m = Model()
    y = m.node("MatMul", m.input("x", x), m.node("Transpose", dequantized(m, w, T.UINT8)))
    flags = ("--backend=cuda", "--builderOptimizationLevel=0")
    (got,), tactics = m.run(tmp_path, {y: np.float32}, command(WIDE if rows > 16 else NARROW), *flags)
    assert not any("weight_only" in t for t in tactics)
    near(got, x, w.wide(), "")
