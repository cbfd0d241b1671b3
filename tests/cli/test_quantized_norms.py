"""Norms and softmax between quantized values are one step, equal to the bit to the steps they replace."""

import json
import pathlib

import numpy as np
import pytest
from harness import passes
from quantized_model import LEVELS, Model
from quantized_rule import F, numbers


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def layer_norm(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


SCALE, SHIFT = (np.linspace(0.5, 1.5, 37).astype(F), np.linspace(-1, 1, 37).astype(F))
OPERATORS = {
    "layer norm": (lambda m, x: m.node("LayerNormalization", x, m.constant(SCALE), m.constant(SHIFT)),
                   lambda x: layer_norm(x) * SCALE + SHIFT, 0.02, 120),
    "softmax": (lambda m, x: m.node("Softmax", x), lambda x: softmax(x, -1), 1 / 255, 0),
    "softmax of rows": (lambda m, x: m.node("Softmax", x, axis=1), lambda x: softmax(x, 1), 1 / 255, 0),
    "log softmax": (lambda m, x: m.node("LogSoftmax", x), lambda x: np.log(softmax(x, -1)), 0.07, 255),
}  # fmt: skip


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(("x_type", "y_type"), [(np.uint8, np.uint8), (np.int8, None), (None, np.uint8)])
def test_bytes_around_a_norm(
    tmp_path: pathlib.Path, isa: str, operator: str, x_type: type | None, y_type: type | None
) -> None:
    add, oracle, scale, zero = OPERATORS[operator]
    x = numbers(x_type or np.uint8, 3, 129, 37)
    x_zero = 7 if x_type else 0
    value = (x.astype(np.float64) - x_zero) * F(0.031)
    m = Model()
    if x_type:
        y = add(m, m.dequantize(m.input("x", x), F(0.031), x_type(x_zero)))
    else:
        y = add(m, m.input("x", value.astype(F)))
    if y_type:
        y = m.quantize(y, F(scale), y_type(zero))
    result = {y: y_type or np.float32}
    (got,), tactics = m.run(tmp_path, result, isa)
    assert len([t for t in tactics if "norm" in t or "softmax" in t]) == len(tactics) == 1
    (steps,), apart = m.run(tmp_path, result, isa, "--disablePasses=form_fusion_regions")
    assert len(apart) == 1 + (x_type is not None) + (y_type is not None)
    assert np.array_equal(got, steps)
    want = oracle(value)
    if y_type:
        want = np.clip(np.rint(want / F(scale)) + zero, 0, 255)
        off = np.abs(got.astype(int) - want)
        assert off.max() <= 1 and (off > 0).mean() < 1e-3
    else:
        assert np.abs(got - want).max() < 2e-5


def group_norm(x: np.ndarray, groups: int) -> np.ndarray:
    parts = x.reshape(x.shape[0], groups, -1)
    return ((parts - parts.mean(-1, keepdims=True)) / np.sqrt(parts.var(-1, keepdims=True) + 1e-5)).reshape(x.shape)


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("groups", [3, 12])
@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize(("x_type", "y_type"), [(np.uint8, np.uint8), (np.int8, None), (None, np.int8)])
def test_bytes_around_a_norm_of_channels(
    tmp_path: pathlib.Path, isa: str, groups: int, activation: str | None, channels_last: bool,
    x_type: type | None, y_type: type | None,
) -> None:  # fmt: skip
    x = numbers(x_type or np.uint8, 2, 12, 5, 7)
    x_zero, y_zero = -5 if x_type == np.int8 else 5, -3 if y_type == np.int8 else 90
    value = (x.astype(np.float64) - x_zero) * F(0.031)
    scale, shift = np.linspace(0.5, 1.5, 12).astype(F), np.linspace(-1, 1, 12).astype(F)
    m = Model()
    y = m.input("x", x if x_type else value.astype(F))
    if channels_last:  # the maximum of one pixel, which works on channels that are innermost
        y = m.node("MaxPool", y, kernel_shape=[1, 1])
    if x_type:
        y = m.dequantize(y, F(0.031), x_type(x_zero))
    y = m.node("GroupNormalization", y, m.constant(scale), m.constant(shift), num_groups=groups)
    if activation:
        y = m.node("Mul", y, m.node("Sigmoid", y))
    if y_type:
        y = m.quantize(y, F(0.03), y_type(y_zero))
    result = {y: y_type or np.float32}
    (got,), tactics = m.run(tmp_path, result, isa)
    assert not any("quantize" in t or "pointwise" in t for t in tactics)
    (steps,), _ = m.run(tmp_path, result, isa, "--disablePasses=form_fusion_regions")
    want = group_norm(value, groups) * scale[:, None, None] + shift[:, None, None]
    if activation:
        want = want / (1 + np.exp(-want))
    if not y_type:
        assert np.abs(got - steps).max() < 1e-6 and np.abs(got - want).max() < 2e-5
        return
    limits = np.iinfo(y_type)
    want = np.clip(np.rint(want / F(0.03)) + y_zero, limits.min, limits.max)
    for other in (steps, want):
        off = np.abs(got.astype(int) - other)
        assert off.max() <= 1 and (off > 0).mean() < 3e-3


@pytest.mark.parametrize("isa", LEVELS)
@pytest.mark.parametrize("reader", [None, "Neg"])
def test_a_norm_whose_float_result_is_read_too(tmp_path: pathlib.Path, isa: str, reader: str | None) -> None:
    """One step writes both, for a residual or the caller."""
    m = Model()
    x = m.dequantize(m.input("x", numbers(np.uint8, 50, 37)), F(0.03), np.uint8(100))
    y = m.node("LayerNormalization", x, m.constant(SCALE), m.constant(SHIFT))
    q = m.quantize(y, F(0.02), np.uint8(128))
    results = {q: np.uint8, m.node(reader, y) if reader else y: F}
    got, tactics = m.run(tmp_path, results, isa)
    assert not any("quantize" in t for t in tactics)
    steps, _ = m.run(tmp_path, results, isa, "--disablePasses=form_fusion_regions")
    assert all(np.array_equal(a, b) for a, b in zip(got, steps))


def test_a_float_result_that_is_read_before_keeps_its_conversion(tmp_path: pathlib.Path) -> None:
    m = Model()
    y = m.node("LayerNormalization", m.input("x", np.ones((5, 37), F)), m.constant(SCALE), m.constant(SHIFT))
    z = m.node("CumSum", y, m.constant(np.int64(0)))
    m.run(tmp_path, {m.quantize(y, F(0.02), np.uint8(128)): np.uint8, z: F}, LEVELS[-1])
    layers = json.loads(passes("inspect", tmp_path / "m.plan", "--json"))["Layers"]
    assert [layer.get("Unfused") for layer in layers if "quantize" in layer["TacticName"]] == [
        "LayerNormalization_0 computes in float32"
    ]


def test_quantize_nodes_of_several_branches_move(tmp_path: pathlib.Path) -> None:
    """Each of three branches is transposed in bytes, whatever the order of the nodes."""
    m = Model()
    x = m.input("x", numbers(np.uint8, 1, 6, 4, 8).astype(F))
    branches = [m.node("Add", x, m.constant(F(i))) for i in range(3)]
    branches = [m.node("Transpose", b, perm=p) for b, p in zip(branches, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 3, 1, 2]))]
    results = {m.quantize(b, F(2), np.uint8(i)): np.uint8 for i, b in enumerate(branches)}
    _, tactics = m.run(tmp_path, results, LEVELS[-1])
    assert not any("quantize" in t for t in tactics) and sum("pointwise" in t for t in tactics) == 3


def test_quantize_moves_with_what_is_computed_before_it(tmp_path: pathlib.Path) -> None:
    """A scale behind a transpose, and bytes of another scale: the transposes move bytes, at the end."""
    x = numbers(np.uint8, 1, 6, 4, 8)
    m = Model()
    value = m.dequantize(m.node("Transpose", m.input("x", x), perm=[0, 2, 3, 1]), F(0.02), np.uint8(7))
    y = m.quantize(m.node("Mul", value, m.constant(np.full((1, 1), 0.35, F))), F(0.011), np.uint8(9))
    z = m.quantize(value, F(0.031), np.uint8(0))
    got, tactics = m.run(tmp_path, {y: np.uint8, z: np.uint8}, LEVELS[-1])
    moved = ((x.astype(np.int32) - 7).astype(F) * F(0.02)).transpose(0, 2, 3, 1)
    assert np.array_equal(got[0], np.clip(np.rint(moved * F(0.35) / F(0.011)) + 9, 0, 255))
    assert np.array_equal(got[1], np.clip(np.rint(moved / F(0.031)), 0, 255))
    assert not any("quantize" in t for t in tactics)
