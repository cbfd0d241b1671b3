"""Attention between quantized values on a GPU is one step: the rule of tactic/problem/int8_attention.h, whose softmax
is held against float64."""

import pathlib
import sys

import numpy as np
import pytest
from harness import Device

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from quantized_attention import CASES, SHAPES, U, expected, network, open_first_key, operands
from quantized_rule import F, Model, numbers

EVERY_SIZE = [*SHAPES, (2, 2, 70, 200, 128), (1, 3, 64, 64, 100), (3, 1, 33, 129, 20)]


def command(*arguments: object) -> str:
    device = Device()
    if device.why_absent():
        pytest.skip(device.why_absent())
    done = device.run(*arguments, CARNOT_CUDA_TACTICS="cuda_attention_int8,copies")
    assert done.returncode == 0, done.stderr
    return done.stdout


def softmax_in_bytes(scores: np.ndarray, scale: F, zero: object) -> np.ndarray:
    x = np.exp(scores.astype(np.float64) - scores.max(-1, keepdims=True))
    limits = np.iinfo(type(zero))
    v = np.rint(x / x.sum(-1, keepdims=True) / np.float64(scale)) + int(zero)
    return np.clip(v, limits.min, limits.max).astype(type(zero))


def run(m: Model, folder: pathlib.Path, y: str, dtype: type, *flags: str) -> np.ndarray:
    (got,), tactics = m.run(folder, {y: dtype}, command, "--backend=cuda", "--builderOptimizationLevel=0", *flags)
    assert tactics == ["cuda_attention_int8"], tactics
    return got


@pytest.mark.parametrize("flags", [(), ("--fp16",)])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("shape", EVERY_SIZE)
@pytest.mark.parametrize("masked", [False, True])
def test_attention_in_bytes(tmp_path: pathlib.Path, flags: tuple, name: str, shape: tuple, masked: bool) -> None:
    case = CASES[name]
    q, k, v = operands(case, shape)
    mask = open_first_key(shape[0], shape[3]) if masked else None
    m = Model()
    y = network(m, case, q, k, v, mask, divide=masked)
    got = run(m, tmp_path, y, U if case.out else F, *flags)
    want = expected(case, q, k, v, mask, masked, softmax_in_bytes)
    # A weight at the middle between two integers may round to either: one step of it is worth, at most,
    # |v - zero| times the scales.
    step = 1 if case.out else 255 * 0.02 / 250
    error = np.abs(got.astype(np.float64) - want)
    assert error.max() <= step * 1.0001 and (error > step * 1e-3).mean() <= 1e-3, (error.max(), (error > 0).mean())


def test_queries_without_an_open_key_see_all(tmp_path: pathlib.Path) -> None:
    """Scores of float32's lowest number for every key: all weights are the same."""
    case = CASES["u8"]
    q, k, v = operands(case, (1, 2, 5, 40, 32))
    mask = np.full((1, 1, 1, 40), np.finfo(F).min, F)
    m = Model()
    y = network(m, case, q, k, v, mask, divide=False)
    got = run(m, tmp_path, y, U)
    assert np.array_equal(got, expected(case, q, k, v, mask, False, softmax_in_bytes))


@pytest.mark.parametrize("elements", [32, 48, 128, 100])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("keys", [380, 700, 1100])
def test_many_keys(tmp_path: pathlib.Path, elements: int, masked: bool, keys: int) -> None:
    case = CASES["s8"]
    q, k, v = operands(case, (1, 2, 67, keys, elements))
    k //= 16  # many weights reach a step
    mask = open_first_key(1, keys) if masked else None
    m = Model()
    y = network(m, case, q, k, v, mask, divide=True)
    got = run(m, tmp_path, y, U)
    error = np.abs(got.astype(int) - expected(case, q, k, v, mask, True, softmax_in_bytes))
    assert error.max() <= 1 and (error > 0).mean() <= 1e-3


def test_longer_heads_are_left_to_others(tmp_path: pathlib.Path) -> None:
    q, k, v = (numbers(U, 1, n, 1, 136) for n in (4, 6, 6))
    m = Model()
    y = network(m, CASES["u8"], q, k, v, None, divide=False)
    (got,), tactics = m.run(tmp_path, {y: U}, command, "--backend=cuda", "--builderOptimizationLevel=0")
    assert "cuda_attention_int8" not in tactics
    want = expected(CASES["u8"], q, k, v, None, False, softmax_in_bytes)
    assert np.abs(got.astype(int) - want).max() <= 1
