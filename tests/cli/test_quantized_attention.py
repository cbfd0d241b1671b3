"""Attention between quantized values is one step, equal to the bit to the rule of attention_u8s8.h."""

import pathlib

import numpy as np
import pytest
from quantized_model import LEVELS, Model
from quantized_rule import RNG, F, numbers, round_to


def softmax_in_bytes(folder: pathlib.Path, scores: np.ndarray, scale: F, zero: object, isa: str) -> np.ndarray:
    """The softmax of |scores| by the level's own kernel, which another test holds against float64."""
    m = Model()
    y = m.quantize(m.node("Softmax", m.input("x", scores)), scale, zero)
    (got,), _ = m.run(folder, {y: type(zero)}, isa)
    return got


class Case:
    """Types and zero points of q, k and v, and what the network quantizes besides."""

    def __init__(
        self, types: tuple, zeros: tuple, scores: bool = True, out: bool = True, p: object = np.uint8(0)
    ) -> None:
        self.types, self.zeros, self.scores, self.out, self.p = types, zeros, scores, out, p


U, S = np.uint8, np.int8
CASES = {
    "u8": Case((U, U, U), (118, 131, 255)),
    "s8": Case((S, S, S), (0, 0, 0), p=np.int8(-128)),
    "mixed": Case((U, S, U), (0, -128, 3)),
    "float scores and result": Case((U, U, U), (7, 255, 0), scores=False, out=False),
    "weights around a zero": Case((S, U, S), (127, 1, -128), p=np.uint8(9)),
}
SHAPES = [(2, 3, 7, 19, 32), (1, 2, 130, 257, 37), (1, 2, 3, 2, 5), (1, 5, 65, 16, 64)]


def network(case: Case, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, divide: bool) -> tuple:
    """q, k, v are [batch, rows, heads, elements], as the projections write them."""
    m = Model()
    views = []
    for name, x, perm, dtype, zero, scale in zip(
        "qkv", (q, k, v), ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]), case.types, case.zeros, (0.011, 0.013, 0.02)
    ):
        views.append(m.dequantize(m.node("Transpose", m.input(name, x), perm=perm), F(scale), dtype(zero)))
    y = m.node("MatMul", views[0], views[1])
    if case.scores:
        y = m.dequantize(m.quantize(y, F(0.37), U(125)), F(0.37), U(125))
    y = m.node("Div" if divide else "Mul", y, m.constant(F(5.5 if divide else 0.18)))
    if mask is not None:
        y = m.node("Add", y, m.input("mask", mask))
    y = m.node("Softmax", y)
    y = m.dequantize(m.quantize(y, F(1 / 250), case.p), F(1 / 250), case.p)
    y = m.node("MatMul", y, views[2])
    if case.out:
        y = m.quantize(y, F(0.03), U(101))
    return m, m.node("Transpose", y, perm=[0, 2, 1, 3])


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("masked", [False, True])
def test_attention_in_bytes(tmp_path: pathlib.Path, isa: str, name: str, shape: tuple, masked: bool) -> None:
    case = CASES[name]
    batch, heads, rows, keys, elements = shape
    q, k, v = (numbers(t, batch, n, heads, elements) for t, n in zip(case.types, (rows, keys, keys)))
    mask = None
    if masked:
        mask = np.where(RNG.random((batch, 1, 1, keys)) < 0.3, np.finfo(F).min, 0).astype(F)
        mask[..., 0] = 0
    m, y = network(case, q, k, v, mask, divide=masked)
    (got,), tactics = m.run(tmp_path, {y: U if case.out else F}, isa)
    assert tactics == [f"cpu_attention_u8s8_{isa.replace('vnni', '')}"]

    centered = [np.moveaxis(x.astype(np.int64) - z, 1, 2) for x, z in zip((q, k, v), case.zeros)]
    sums = centered[0] @ np.moveaxis(centered[1], -1, -2)
    scale = np.float64(F(0.011)) * np.float64(F(0.013))
    if case.scores:
        scores = round_to(sums.astype(F) * F(scale / np.float64(F(0.37))), 125, 0, 255, U)
        scores = (scores.astype(np.int32) - 125).astype(F) * F(0.37)
    else:
        scores = sums.astype(F) * F(scale)
    scores = scores / F(5.5) if masked else scores * F(0.18)
    if mask is not None:
        scores = scores + mask
    folder = tmp_path / "softmax"
    folder.mkdir()
    weights = softmax_in_bytes(folder, scores, F(1 / 250), case.p, isa)
    sums = (weights.astype(np.int64) - int(case.p)) @ centered[2]
    scale = np.float64(F(1 / 250)) * np.float64(F(0.02))
    if case.out:
        want = round_to(sums.astype(F) * F(scale / np.float64(F(0.03))), 101, 0, 255, U)
    else:
        want = sums.astype(F) * F(scale)
    assert np.array_equal(got, np.moveaxis(want, 1, 2))


def test_attention_whose_weights_stay_float_keeps_its_steps(tmp_path: pathlib.Path) -> None:
    q, k, v = (numbers(U, 1, 2, 6, 8) for _ in range(3))
    m = Model()
    q, k, v = (m.dequantize(m.input(n, x), F(0.02), U(5)) for n, x in zip("qkv", (q, k.swapaxes(2, 3), v)))
    y = m.node("MatMul", m.node("Softmax", m.node("MatMul", q, k)), v)
    (got,), tactics = m.run(tmp_path, {y: F}, LEVELS[-1])
    assert not any("attention_u8s8" in t for t in tactics) and np.isfinite(got).all()


def test_threads_give_the_same_bits(tmp_path: pathlib.Path) -> None:
    q, k, v = (numbers(U, 1, 200, 3, 32) for _ in range(3))
    results = []
    for threads in (1, 2):
        m, y = network(CASES["u8"], q, k, v, None, divide=False)
        (got,), _ = m.run(tmp_path, {y: U}, LEVELS[-1], f"--threads={threads}")
        results.append(got)
    assert np.array_equal(*results)
