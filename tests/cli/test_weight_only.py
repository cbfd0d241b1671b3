"""GEMMs of float32 activations by weights of 2, 4 and 8 bits: against float64, and what the engine keeps."""

import pathlib

import numpy as np
import pytest
from harness import carnot
from onnx import TensorProto as T
from quantized_model import LEVELS, Model
from quantized_rule import RNG

SIGNED = {4: T.INT4, 8: T.INT8}


def pack(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Rows of numbers below 2**bits as bytes, the first number in the lowest bits."""
    each = 8 // bits
    rows = np.pad(numbers, [(0, 0), (0, -numbers.shape[1] % each)]).reshape(numbers.shape[0], -1, each)
    return (rows << (bits * np.arange(each))).sum(-1).astype(np.uint8)


def activations(m: int, k: int) -> np.ndarray:
    return RNG.standard_normal((m, k)).astype(np.float32)


def near(got: np.ndarray, x: np.ndarray, w: np.ndarray, more: np.ndarray | float = 0.0) -> None:
    """|got| is x w + more within a few roundings of the sum of magnitudes."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    bound = 6 * np.finfo(np.float32).eps * (np.abs(x) @ np.abs(w) + np.abs(more))
    assert (np.abs(got - (x @ w + more)) <= bound).all()


class NBits:
    """A MatMulNBits with its weights in float64."""

    def __init__(self, n: int, k: int, block: int, bits: int, zeros: bool, groups: np.ndarray | None = None) -> None:
        self.blocks = -(-k // block)
        self.q = RNG.integers(0, 2**bits, (n, self.blocks * block))
        self.scales = RNG.random((n, self.blocks)).astype(np.float32)
        self.zeros = RNG.integers(0, 2**bits, (n, self.blocks)) if zeros else np.full((n, self.blocks), 2 ** (bits - 1))
        of = np.arange(k) // block if groups is None else groups
        self.w = ((self.q[:, :k] - self.zeros[:, of]) * self.scales[:, of].astype(np.float64)).T
        self.given = (n, k, block, bits, zeros, groups)

    def add(self, m: Model, x: str, bias: np.ndarray | None = None, **attributes: int) -> str:
        n, k, block, bits, zeros, groups = self.given
        packed = pack(self.q, bits).reshape(n, self.blocks, -1)
        inputs = [x, m.constant(packed), m.constant(self.scales.reshape(-1))]
        inputs += [m.constant(pack(self.zeros, bits).reshape(-1)) if zeros else ""]
        inputs += [m.constant(groups.astype(np.int32)) if groups is not None else ""]
        inputs += [m.constant(bias) if bias is not None else ""]
        return m.node("MatMulNBits", *inputs, domain="com.microsoft", K=k, N=n, bits=bits, block_size=block, **attributes)


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize(
    ("rows", "n", "k", "block", "bits", "zeros"),
    [
        (1, 100, 256, 32, 4, False),
        (1, 64, 300, 16, 4, True),  # the last block is cut
        (3, 33, 130, 128, 8, True),
        (7, 70, 96, 32, 4, True),
        (40, 50, 80, 16, 8, False),
        (2, 20, 64, 16, 2, True),
    ],
)
def test_matmul_nbits(
    tmp_path: pathlib.Path, isa: str, rows: int, n: int, k: int, block: int, bits: int, zeros: bool
) -> None:
    model, layer = Model(), NBits(n, k, block, bits, zeros)
    x, bias = activations(rows, k), RNG.standard_normal(n).astype(np.float32)
    y = layer.add(model, model.input("x", x), bias)
    (got,), tactics = model.run(tmp_path, {y: np.float32}, isa)
    assert tactics == [f"cpu_gemm_dequant_f32_{isa.removesuffix('vnni')}"]
    near(got, x, layer.w, bias.astype(np.float64))


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize(
    ("rows", "n", "k", "block", "bits", "zeros"),
    [(1, 100, 256, 32, 4, False), (9, 70, 300, 16, 4, True), (6, 33, 130, 128, 8, True), (5, 20, 64, 16, 2, True)],
)
def test_activations_in_8_bits_where_the_model_asks(
    tmp_path: pathlib.Path, isa: str, rows: int, n: int, k: int, block: int, bits: int, zeros: bool
) -> None:
    """accuracy_level 4: each block of a row is rounded with its own scale, 127 for the largest magnitude."""
    model, layer = Model(), NBits(n, k, block, bits, zeros)
    x = activations(rows, k)
    x[0, :block] = 0
    (got,), tactics = model.run(tmp_path, {layer.add(model, model.input("x", x), accuracy_level=4): np.float32}, isa)
    assert tactics == [f"cpu_gemm_dequant_s8_{isa.removesuffix('vnni')}"]
    blocks = np.split(x, range(block, k, block), axis=1)
    scales = [np.abs(b).max(1, keepdims=True) / np.float32(127) for b in blocks]
    with np.errstate(divide="ignore"):
        inverses = [np.where(s > 0, np.float32(1) / s, np.float32(0)) for s in scales]
    rounded = [np.rint(b * i).astype(np.float64) * s for b, i, s in zip(blocks, inverses, scales, strict=True)]
    near(got, np.concatenate(rounded, 1), layer.w)
    assert np.abs(got - x.astype(np.float64) @ layer.w).max() > 1e-4  # they were rounded


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("rows", [1, 9])
def test_groups_of_any_columns(tmp_path: pathlib.Path, rows: int, even: bool) -> None:
    """g_idx: each column of B has a block of its own choice."""
    k, block = 96, 32
    groups = RNG.permutation(np.arange(k) // block) if even else RNG.integers(0, 3, k)
    model, layer = Model(), NBits(24, k, block, 4, True, groups)
    x = activations(rows, k)
    (got,), tactics = model.run(tmp_path, {layer.add(model, model.input("x", x)): np.float32}, LEVELS[-1])
    assert any("gemm_dequant" in tactic for tactic in tactics)
    near(got, x, layer.w)


def test_a_group_that_does_not_exist(tmp_path: pathlib.Path) -> None:
    groups = np.zeros(64, np.int64)
    layer = NBits(8, 64, 32, 4, False, groups)
    groups[5] = 2
    model = Model()
    y = layer.add(model, model.input("x", activations(1, 64)))
    with pytest.raises(AssertionError, match=r"g_idx\[5\] is 2; blocks are 0 to 1"):
        model.run(tmp_path, {y: np.float32}, LEVELS[-1])


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("rows", [1, 12])
@pytest.mark.parametrize(
    ("bits", "axis", "scales", "turned", "gemm"),
    [
        (4, 0, (3, 71), False, False),  # blocks of 32; rows of weights begin inside of a byte
        (4, 1, (40, 3), True, False),  # behind a transpose
        (8, 1, (40, 3), True, True),  # Gemm with transB
        (8, 1, (40,), False, False),  # one scale a column
        (8, 0, (), False, True),  # one scale
    ],
)
def test_dequantize_before_a_gemm(
    tmp_path: pathlib.Path, isa: str, rows: int, bits: int, axis: int, scales: tuple, turned: bool, gemm: bool
) -> None:
    """DequantizeLinear of INT4 and INT8 with followers: a residual, SiLU."""
    n = scales[1 - axis] if len(scales) == 2 else 40
    k, block = 96, 32 if len(scales) == 2 else 0
    q = RNG.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), (n, k) if turned else (k, n))
    s = RNG.random(scales).astype(np.float32)
    z = RNG.integers(-3, 4, scales)
    of = np.repeat(s, block, axis) if block else s
    zero = np.repeat(z, block, axis) if block else z
    w = (q - zero) * of.astype(np.float64)
    x, residual = activations(rows, k), activations(rows, n)
    model = Model()
    packed = [model.packed_constant(q, SIGNED[bits]), model.constant(s), model.packed_constant(z, SIGNED[bits])]
    wide = model.node("DequantizeLinear", *packed, axis=axis, **({"block_size": block} if block else {}))
    name = model.input("x", x)
    if gemm:
        y = model.node("Gemm", name, wide, model.constant(residual[0]), transB=int(turned), alpha=0.5)
    else:
        y = model.node("MatMul", name, model.node("Transpose", wide) if turned else wide)
        y = model.node("Add", y, model.input("r", residual))
    (got,), tactics = model.run(tmp_path, {y: np.float32}, isa)
    assert tactics == [f"cpu_gemm_dequant_f32_{isa.removesuffix('vnni')}"]
    w = w.T if turned else w
    near(got, x, w * 0.5 if gemm else w, residual[0].astype(np.float64) if gemm else residual.astype(np.float64))


def test_embedding_and_projection_share_weights(tmp_path: pathlib.Path) -> None:
    """The projection keeps its integers though a Gather reads the same numbers."""
    n, k = 30, 64
    q, s = RNG.integers(-8, 8, (n, k)), RNG.random((n, 2)).astype(np.float32)
    w = q * np.repeat(s, 32, 1).astype(np.float64)
    model, x = Model(), activations(1, k)
    wide = model.node("DequantizeLinear", model.packed_constant(q, T.INT4), model.constant(s), axis=1, block_size=32)
    row = model.node("Gather", wide, model.constant(np.array([3], np.int64)))
    y = model.node("MatMul", model.input("x", x), model.node("Transpose", wide))
    (got, picked), tactics = model.run(tmp_path, {y: np.float32, row: np.float32}, LEVELS[-1])
    assert any("gemm_dequant" in tactic for tactic in tactics)
    near(got, x, w.T)
    np.testing.assert_array_equal(picked, w[3:4].astype(np.float32))


def test_engine_is_as_large_as_packed_weights(tmp_path: pathlib.Path) -> None:
    """Weights whose float32 form exceeds the limit of constant folding: packed, not dequantized in the run."""
    n, k = 4096, 4352
    model, layer = Model(), NBits(n, k, 128, 4, False)
    x = activations(1, k)
    (got,), tactics = model.run(tmp_path, {layer.add(model, model.input("x", x)): np.float32}, LEVELS[-1])
    assert len(tactics) == 1 and "gemm_dequant" in tactics[0]
    near(got, x, layer.w)
    packed = n * k // 2 + 4 * n * k // 128
    assert (tmp_path / "m.plan").stat().st_size < 1.05 * packed + 65536


def test_bits_do_not_depend_on_threads(tmp_path: pathlib.Path) -> None:
    model, layer = Model(), NBits(1000, 512, 32, 4, True)
    results = []
    x = activations(1, 512)
    y = layer.add(model, model.input("x", x))
    model.run(tmp_path, {y: np.float32}, LEVELS[-1])
    for threads in (1, 2, 3):
        out = tmp_path / f"out{threads}"
        given = ["--input", f"x={tmp_path / 'x.npy'}", "--output-dir", out]
        assert carnot("run", tmp_path / "m.plan", *given, env={"CARNOT_THREADS": str(threads)}).returncode == 0
        results.append(np.load(out / f"{y}.npy"))
    assert all(np.array_equal(results[0], other) for other in results)
