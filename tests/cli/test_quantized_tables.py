"""A function of one byte is a table: every byte, against the function in float64 and alike on all levels."""

import math
import pathlib
from typing import Callable

import numpy as np
import pytest
from quantized_model import LEVELS, LEVELS_AND_TILES, Model
from quantized_rule import F


def each(f: Callable[[float], float]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: np.array([f(v) for v in x.ravel()]).reshape(x.shape)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


FUNCTIONS = {
    "requantize": (lambda m, x: x, lambda x: x),
    "gelu": (lambda m, x: m.node("Gelu", x), each(lambda v: v / 2 * (1 + math.erf(v / math.sqrt(2))))),
    "sigmoid": (lambda m, x: m.node("Sigmoid", x), sigmoid),
    "silu": (lambda m, x: m.node("Mul", x, m.node("Sigmoid", x)), lambda x: x * sigmoid(x)),
    "tanh": (lambda m, x: m.node("Tanh", x), np.tanh),
    "erf": (lambda m, x: m.node("Erf", x), each(math.erf)),
    "square root": (lambda m, x: m.node("Sqrt", x), np.sqrt),
    "chain": (
        lambda m, x: m.node("Exp", m.node("Div", m.node("Neg", x), m.constant(np.full((1, 1), 3, F)))),
        lambda x: np.exp(-x / 3),
    ),
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    ("x_type", "x_zero", "y_type", "y_zero"), [(np.uint8, 131, np.uint8, 40), (np.int8, -128, np.int8, 127)]
)
def test_table_of_a_function(
    tmp_path: pathlib.Path, function: str, x_type: type, x_zero: int, y_type: type, y_zero: int
) -> None:
    add, oracle = FUNCTIONS[function]
    x = np.arange(256, dtype=np.uint8).view(x_type).reshape(2, 128)
    results = []
    for isa in LEVELS_AND_TILES:
        m = Model()
        y = add(m, m.dequantize(m.input("x", x), F(0.041), x_type(x_zero)))
        y = m.quantize(y, F(0.017), y_type(y_zero))
        (got,), tactics = m.run(tmp_path, {y: y_type}, isa)
        assert tactics == ["cpu_table_bytes"]
        results.append(got)
        assert np.array_equal(got, results[0])
    limits = np.iinfo(y_type)
    with np.errstate(all="ignore"):
        steps = oracle((x.astype(np.float64) - x_zero) * F(0.041)) / F(0.017)
    steps = np.where(np.isnan(steps), 0, steps)
    want = np.clip(np.rint(steps) + y_zero, limits.min, limits.max)
    near_tie = np.abs(steps - np.floor(steps) - 0.5) < 1e-4
    assert np.array_equal(results[0][~near_tie], want[~near_tie])
    assert np.abs(results[0] - want).max() <= 1


def silu_in_steps(m: Model, x: str) -> tuple[str, str]:
    """x * sigmoid(x) as onnxruntime.quantization writes it, and the sigmoid's bytes."""
    gate = m.quantize(m.node("Sigmoid", m.dequantize(x, F(0.041), np.uint8(131))), F(1 / 255), np.uint8(0))
    y = m.node("Mul", m.dequantize(x, F(0.041), np.uint8(131)), m.dequantize(gate, F(1 / 255), np.uint8(0)))
    return m.quantize(y, F(0.02), np.uint8(17)), gate


def test_a_function_with_quantizations_of_its_own_is_one_table(tmp_path: pathlib.Path) -> None:
    x = np.arange(256, dtype=np.uint8).reshape(2, 128)
    m = Model()
    y, _ = silu_in_steps(m, m.input("x", x))
    (got,), tactics = m.run(tmp_path, {y: np.uint8}, LEVELS[-1])
    assert tactics == ["cpu_table_bytes"]
    (steps,), apart = m.run(tmp_path, {y: np.uint8}, LEVELS[-1], "--disablePasses=form_fusion_regions")
    assert len(apart) > 3 and np.array_equal(got, steps)
    value = (x.astype(F) - 131) * F(0.041)
    gate = np.rint(sigmoid(value.astype(np.float64)) * 255)
    want = np.clip(np.rint(value.astype(np.float64) * gate * (1 / 255) / F(0.02)) + 17, 0, 255)
    assert np.abs(got - want).max() <= 1 and (got != want).mean() < 0.02


def test_bytes_on_the_way_that_others_read_stay(tmp_path: pathlib.Path) -> None:
    """The sigmoid is an output too; a second operand makes no table."""
    x, r = np.arange(256, dtype=np.uint8).reshape(2, 128), np.full((2, 128), 7, np.uint8)
    m = Model()
    y, gate = silu_in_steps(m, m.input("x", x))
    total = m.node("Add", m.dequantize(y, F(0.02), np.uint8(17)), m.dequantize(m.input("r", r), F(0.1), np.uint8(3)))
    z = m.quantize(total, F(0.03), np.uint8(5))
    wanted = {z: np.uint8, gate: np.uint8}
    got, tactics = m.run(tmp_path, wanted, LEVELS[-1])
    assert len(tactics) == 3 and tactics[0] == "cpu_table_bytes"
    steps, _ = m.run(tmp_path, wanted, LEVELS[-1], "--disablePasses=form_fusion_regions")
    assert all(np.array_equal(a, b) for a, b in zip(got, steps, strict=True))


def test_a_table_of_many_bytes(tmp_path: pathlib.Path) -> None:
    """More than one part, in channels that a convolution left innermost."""
    x = np.random.default_rng(3).integers(0, 256, (1, 70, 41, 37)).astype(np.uint8)
    m = Model()
    y = m.quantize(m.node("Tanh", m.dequantize(m.input("x", x), F(0.01), np.uint8(99))), F(0.006), np.uint8(128))
    (got,), _ = m.run(tmp_path, {y: np.uint8}, LEVELS[-1])
    want = np.rint(np.tanh((x.astype(np.float64) - 99) * F(0.01)) / F(0.006)) + 128
    assert np.abs(got - np.clip(want, 0, 255)).max() <= 1


def test_an_operand_for_each_channel_is_no_table(tmp_path: pathlib.Path) -> None:
    x = np.arange(256, dtype=np.uint8).reshape(4, 64)
    m = Model()
    y = m.node("Add", m.dequantize(m.input("x", x), F(0.5), np.uint8(0)), m.constant(np.arange(64, dtype=F)))
    (got,), tactics = m.run(tmp_path, {m.quantize(y, F(1), np.uint8(0)): np.uint8}, LEVELS[-1])
    assert np.array_equal(got, np.clip(np.rint(x * 0.5 + np.arange(64)), 0, 255))
    assert tactics == [f"cpu_pointwise_f32_{LEVELS[-1].replace('vnni', '')}"]
