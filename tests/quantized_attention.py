"""Attention between quantized values: networks, and what they give by the rule of tactic/problem/int8_attention.h."""

from typing import Callable

import numpy as np
from quantized_rule import F, Model, numbers, round_to, RNG


class Case:
    """Types and zero points of q, k and v, and what the network quantizes besides."""

    def __init__(
        self, types: tuple, zeros: tuple, scores: bool = True, out: bool = True, p: object = np.uint8(0),
        every: bool = False,
    ) -> None:  # fmt: skip
        self.types, self.zeros, self.scores, self.out, self.p = types, zeros, scores, out, p
        self.every = every  # scores behind factor and mask are quantized too


U, S = np.uint8, np.int8
CASES = {
    "u8": Case((U, U, U), (118, 131, 255)),
    "s8": Case((S, S, S), (0, 0, 0), p=np.int8(-128)),
    "mixed": Case((U, S, U), (0, -128, 3)),
    "float scores and result": Case((U, U, U), (7, 255, 0), scores=False, out=False),
    "every score": Case((U, U, U), (118, 131, 255), every=True),
    "scores behind the factor": Case((U, S, U), (9, -3, 30), scores=False, every=True),
    "weights around a zero": Case((S, U, S), (127, 1, -128), p=np.uint8(9)),
}
SHAPES = [(2, 3, 7, 19, 32), (1, 2, 130, 257, 37), (1, 2, 3, 2, 5), (1, 5, 65, 16, 64)]


def operands(case: Case, shape: tuple) -> list:
    """q, k, v: [batch, rows, heads, elements], as the projections write them."""
    batch, heads, rows, keys, elements = shape
    return [numbers(t, batch, n, heads, elements) for t, n in zip(case.types, (rows, keys, keys))]


def open_first_key(batch: int, keys: int) -> np.ndarray:
    mask = np.where(RNG.random((batch, 1, 1, keys)) < 0.3, np.finfo(F).min, 0).astype(F)
    mask[..., 0] = 0
    return mask


def network(m: Model, case: Case, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, divide: bool) -> str:
    """The name of the result, in |m|."""
    views = []
    for name, x, perm, dtype, zero, scale in zip(
        "qkv", (q, k, v), ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]), case.types, case.zeros, (0.011, 0.013, 0.02)
    ):
        views.append(m.dequantize(m.node("Transpose", m.input(name, x), perm=perm), F(scale), dtype(zero)))
    y = m.node("MatMul", views[0], views[1])
    if case.scores:
        y = m.dequantize(m.quantize(y, F(0.37), U(125)), F(0.37), U(125))
    y = m.node("Div" if divide else "Mul", y, m.constant(F(5.5 if divide else 0.18)))
    if case.every:
        y = m.dequantize(m.quantize(y, F(0.071), S(-7)), F(0.071), S(-7))
    if mask is not None:
        y = m.node("Add", y, m.input("mask", mask))
        if case.every:
            y = m.dequantize(m.quantize(y, F(0.083), U(201)), F(0.083), U(201))
    y = m.node("Softmax", y)
    y = m.dequantize(m.quantize(y, F(1 / 250), case.p), F(1 / 250), case.p)
    y = m.node("MatMul", y, views[2])
    if case.out:
        y = m.quantize(y, F(0.03), U(101))
    return m.node("Transpose", y, perm=[0, 2, 1, 3])


def there_and_back(x: np.ndarray, scale: F, zero: int, dtype: type) -> np.ndarray:
    limits = np.iinfo(dtype)
    with np.errstate(over="ignore"):
        x = round_to(x / scale, zero, limits.min, limits.max, dtype)
    return (x.astype(np.int32) - zero).astype(F) * scale


def expected(
    case: Case, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, divide: bool,
    quantized_softmax: Callable[[np.ndarray, F, object], np.ndarray],
) -> np.ndarray:  # fmt: skip
    """What the network gives. quantized_softmax(scores, scale, zero): the softmax in float32, quantized."""
    centered = [np.moveaxis(x.astype(np.int64) - z, 1, 2) for x, z in zip((q, k, v), case.zeros)]
    sums = centered[0] @ np.moveaxis(centered[1], -1, -2)
    scale = np.float64(F(0.011)) * np.float64(F(0.013))
    if case.scores:
        scores = round_to(sums.astype(F) * F(scale / np.float64(F(0.37))), 125, 0, 255, U)
        scores = (scores.astype(np.int32) - 125).astype(F) * F(0.37)
    else:
        scores = sums.astype(F) * F(scale)
    scores = scores / F(5.5) if divide else scores * F(0.18)
    if case.every:
        scores = there_and_back(scores, F(0.071), -7, S)
    if mask is not None:
        scores = scores + mask
        if case.every:
            scores = there_and_back(scores, F(0.083), 201, U)
    weights = quantized_softmax(scores, F(1 / 250), case.p)
    sums = (weights.astype(np.int64) - int(case.p)) @ centered[2]
    scale = np.float64(F(1 / 250)) * np.float64(F(0.02))
    if case.out:
        want = round_to(sums.astype(F) * F(scale / np.float64(F(0.03))), 101, 0, 255, U)
    else:
        want = sums.astype(F) * F(scale)
    return np.moveaxis(want, 1, 2)
