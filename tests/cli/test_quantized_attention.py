"""Attention between quantized values is one step, equal to the bit to the rule of attention_u8s8.h."""

import pathlib

import numpy as np
import pytest
from quantized_model import LEVELS, Model
from quantized_attention import CASES, SHAPES, U, expected, network, open_first_key, operands
from quantized_rule import F, numbers


def softmax_in_bytes(folder: pathlib.Path, scores: np.ndarray, scale: F, zero: object, isa: str) -> np.ndarray:
    """The softmax of |scores| by the level's own kernel, which another test holds against float64."""
    m = Model()
    y = m.quantize(m.node("Softmax", m.input("x", scores)), scale, zero)
    (got,), _ = m.run(folder, {y: type(zero)}, isa)
    return got


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("masked", [False, True])
def test_attention_in_bytes(tmp_path: pathlib.Path, isa: str, name: str, shape: tuple, masked: bool) -> None:
    case = CASES[name]
    q, k, v = operands(case, shape)
    mask = open_first_key(shape[0], shape[3]) if masked else None
    m = Model()
    y = network(m, case, q, k, v, mask, divide=masked)
    (got,), tactics = m.run(tmp_path, {y: U if case.out else F}, isa)
    assert tactics == [f"cpu_attention_u8s8_{isa.replace('vnni', '')}"]
    folder = tmp_path / "softmax"
    folder.mkdir()
    want = expected(case, q, k, v, mask, masked, lambda *given: softmax_in_bytes(folder, *given, isa))
    assert np.array_equal(got, want)


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
        m = Model()
        y = network(m, CASES["u8"], q, k, v, None, divide=False)
        (got,), _ = m.run(tmp_path, {y: U}, LEVELS[-1], f"--threads={threads}")
        results.append(got)
    assert np.array_equal(*results)
