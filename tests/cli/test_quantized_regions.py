"""Q/DQ networks run in integers: regions to the bit against the documented rounding rule, and which steps remain."""

import json
import pathlib

import numpy as np
import pytest
from harness import passes
from quantized_model import LEVELS, LEVELS_AND_TILES, Model, is_tactic
from quantized_rule import RNG, F, conv_sums, integer_rule, matmul_sums, numbers, round_to, twice_rule


@pytest.mark.parametrize("isa", LEVELS_AND_TILES)
@pytest.mark.parametrize(
    ("x_type", "r_type", "y_type", "x_zero", "r_zero", "y_zero"),
    [(np.uint8, np.uint8, np.uint8, 128, 0, 255), (np.int8, np.uint8, np.int8, -128, 255, -128)],
)
@pytest.mark.parametrize("bound", [None, "Relu", "Clip"])
@pytest.mark.parametrize("shape", [(2, 16, 9, 7, 19, 3, 1), (1, 3, 11, 11, 33, 5, 1), (1, 24, 8, 8, 24, 3, 24), (1, 8, 5, 6, 12, 1, 2)])
def test_convolution_with_its_epilogue(
    tmp_path: pathlib.Path, isa: str, x_type: type, r_type: type, y_type: type, x_zero: int, r_zero: int, y_zero: int,
    bound: str | None, shape: tuple,
) -> None:  # fmt: skip
    n, c, height, width, filters, k, group = shape
    x, w = numbers(x_type, n, c, height, width), numbers(np.int8, filters, c // group, k, k)
    w[0] = -128
    x[0, :, : height // 2] = np.iinfo(x_type).max
    w_scale = (RNG.random(filters) * 0.01 + 0.001).astype(F)
    x_scale, r_scale, y_scale = F(0.0217), F(0.31), F(0.83)
    bias = RNG.standard_normal(filters).astype(F) * 9
    sums = conv_sums(x, x_zero, w, group, k // 2, 2)
    r = numbers(r_type, *sums.shape)
    m = Model()
    a = m.dequantize(m.input("x", x), x_scale, x_type(x_zero))
    b = m.dequantize(m.constant(w), w_scale, np.zeros(filters, np.int8), axis=0)
    y = m.node("Conv", a, b, m.constant(bias), group=group, pads=[k // 2] * 4, strides=[2, 2])
    y = m.node("Add", m.dequantize(m.input("r", r), r_scale, r_type(r_zero)), y)
    limits = {None: None, "Relu": (0, np.inf), "Clip": (-3.5, 6)}[bound]
    if bound == "Relu":
        y = m.node("Relu", y)
    if bound == "Clip":
        y = m.node("Clip", y, m.constant(F(-3.5)), m.constant(F(6)))
    y = m.quantize(y, y_scale, y_type(y_zero))
    (got,), tactics = m.run(tmp_path, {y: y_type}, isa)
    want = integer_rule(sums, (x_scale, w_scale, y_scale), bias, (r, r_scale, r_zero), limits, y_zero, y_type, 1)
    assert np.array_equal(got, want), np.abs(got.astype(int) - want).max()
    family = "depthwise" if group == c == filters else "conv_few" if c <= 4 else "conv"
    (tactic,) = [t for t in tactics if "reformat" not in t]
    assert is_tactic(tactic, family, isa), tactic


@pytest.mark.parametrize("isa", LEVELS_AND_TILES)
def test_a_sum_that_is_quantized_before_the_residual(tmp_path: pathlib.Path, isa: str) -> None:
    x, w, r = numbers(np.uint8, 1, 16, 5, 6), numbers(np.int8, 24, 16, 3, 3), numbers(np.uint8, 1, 24, 5, 6)
    m = Model()
    y = m.node("Conv", m.dequantize(m.input("x", x), F(0.02), np.uint8(3)), m.dequantize(m.constant(w), F(0.01), np.int8(0)), pads=[1] * 4)  # fmt: skip
    y = m.dequantize(m.quantize(y, F(0.37), np.uint8(119)), F(0.37), np.uint8(119))
    y = m.node("Relu", m.node("Add", y, m.dequantize(m.input("r", r), F(0.31), np.uint8(7))))
    y = m.quantize(y, F(0.21), np.uint8(2))
    (got,), _ = m.run(tmp_path, {y: np.uint8}, isa)
    sums = conv_sums(x, 3, w, 1, 1, 1)
    assert np.array_equal(got, twice_rule(sums, (F(0.02), F(0.01)), (F(0.37), 119), (r, F(0.31), 7), 0.21, 2))


@pytest.mark.parametrize("isa", LEVELS_AND_TILES)
@pytest.mark.parametrize(("k", "n"), [(1, 1), (37, 130), (65536, 5)])
@pytest.mark.parametrize(("x_scale", "y_scale"), [(0.02, 0.9), (1e-30, 1e-30), (1e30, 1e30), (1e-20, 1e15)])
def test_gemm_at_extremes(
    tmp_path: pathlib.Path, isa: str, k: int, n: int, x_scale: float, y_scale: float
) -> None:
    x, w = numbers(np.uint8, 19, k), numbers(np.int8, n, k)
    x[0], w[0] = 255, -128
    m = Model()
    a = m.dequantize(m.input("x", x), F(x_scale), np.uint8(0))
    b = m.dequantize(m.constant(w), F(0.011), np.int8(0))
    y = m.quantize(m.node("Gemm", a, b, transB=1), F(y_scale), np.uint8(7))
    (got,), tactics = m.run(tmp_path, {y: np.uint8}, isa)
    want = integer_rule(matmul_sums(x, 0, w.T), (F(x_scale), F(0.011), F(y_scale)), None, None, None, 7, np.uint8, 1)
    assert np.array_equal(got, want)
    assert len(tactics) == 1 and is_tactic(tactics[0], "gemm", isa), tactics


@pytest.mark.parametrize("isa", LEVELS)
def test_bytes_between_element_wise_operators(tmp_path: pathlib.Path, isa: str) -> None:
    a, b = numbers(np.uint8, 2, 37, 5, 3), numbers(np.int8, 2, 37, 5, 3)
    m = Model()
    x = m.dequantize(m.input("a", a), F(0.04), np.uint8(131))
    y = m.dequantize(m.input("b", b), F(0.07), np.int8(-9))
    y = m.quantize(m.node("Relu", m.node("Add", x, y)), F(0.05), np.uint8(3))
    (got,), tactics = m.run(tmp_path, {y: np.uint8}, isa)
    sums = (a.astype(np.int32) - 131).astype(F) * F(0.04) + (b.astype(np.int32) + 9).astype(F) * F(0.07)
    want = round_to(np.maximum(sums, F(0)) / F(0.05), 3, 0, 255, np.uint8)
    assert np.array_equal(got, want)
    assert tactics == [f"cpu_pointwise_f32_{isa.replace('vnni', '')}"]


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("shape", [(2, 70, 7, 5), (1, 3, 200, 181)])
@pytest.mark.parametrize("quantized", [False, True])
def test_mean_of_bytes(tmp_path: pathlib.Path, channels_last: bool, shape: tuple, quantized: bool) -> None:
    x = numbers(np.int8, *shape)
    m = Model()
    y = m.input("x", x)
    if channels_last:  # the maximum of one pixel, which works on channels that are innermost
        y = m.node("MaxPool", y, kernel_shape=[1, 1])
    y = m.node("GlobalAveragePool", m.dequantize(y, F(0.04), np.int8(11)))
    if quantized:
        y = m.quantize(y, F(0.006), np.uint8(100))
    (got,), tactics = m.run(tmp_path, {y: np.uint8 if quantized else F}, LEVELS_AND_TILES[-1])
    count = shape[2] * shape[3]
    sums = (x.astype(np.int64) - 11).sum((2, 3), keepdims=True).astype(F)
    if quantized:
        want = round_to(sums * F(np.float64(F(0.04)) / (count * np.float64(F(0.006)))), 100, 0, 255, np.uint8)
    else:
        want = sums * F(np.float64(F(0.04)) / count)
    assert np.array_equal(got, want)
    assert "cpu_mean_bytes" in tactics and not any("quantize" in t for t in tactics)
    assert channels_last or not any("reformat" in t for t in tactics)


def test_moves_stay_in_bytes(tmp_path: pathlib.Path) -> None:
    """Reshape, transpose, slice, concat and the maximum between quantized values move bytes; nothing is computed."""
    x = numbers(np.uint8, 2, 6, 8, 8)
    scale, zero = F(0.03), np.uint8(9)
    m = Model()
    q = m.input("x", x)

    def requantize(value: str) -> str:
        return m.dequantize(m.quantize(value, scale, zero), scale, zero)

    y = m.dequantize(q, scale, zero)
    y = requantize(m.node("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2]))
    y = requantize(m.node("Transpose", y, perm=[0, 2, 3, 1]))
    y = requantize(m.node("Reshape", y, m.constant(np.array([2, 16, 6], np.int64))))
    y = requantize(m.node("Slice", y, *(m.constant(np.array([v], np.int64)) for v in (1, 9, 1))))
    y = m.quantize(m.node("Concat", y, y, axis=2), scale, zero)
    (got,), tactics = m.run(tmp_path, {y: np.uint8}, LEVELS_AND_TILES[-1])
    pooled = x.reshape(2, 6, 4, 2, 4, 2).max((3, 5)).transpose(0, 2, 3, 1).reshape(2, 16, 6)[:, 1:9]
    assert np.array_equal(got, np.concatenate([pooled, pooled], 2))
    assert not any("quantize" in t or "pointwise" in t for t in tactics)


def test_what_is_read_twice_stays_fused(tmp_path: pathlib.Path) -> None:
    """One dequantized value feeds two products and the result."""
    x, w = numbers(np.uint8, 4, 24), numbers(np.int8, 24, 9)
    m = Model()
    a = m.dequantize(m.input("x", x), F(0.02), np.uint8(5))
    outputs = {}
    for scale in (0.004, 0.008):
        b = m.dequantize(m.constant(w), F(scale), np.int8(0))
        outputs[m.quantize(m.node("MatMul", a, b), F(0.3), np.uint8(128))] = np.uint8
    outputs[a] = np.float32
    got, tactics = m.run(tmp_path, outputs, LEVELS_AND_TILES[-1])
    for result, scale in zip(got, (0.004, 0.008)):
        want = integer_rule(matmul_sums(x, 5, w), (F(0.02), F(scale), F(0.3)), None, None, None, 128, np.uint8, 1)
        assert np.array_equal(result, want)
    assert sum("gemm_u8s8" in t or "gemm_s8" in t for t in tactics) == 2 and sum("dequantize" in t for t in tactics) == 1


@pytest.mark.parametrize("flags", [(), ("--noPasses",)])
def test_what_integers_cannot_hold_runs_in_float(tmp_path: pathlib.Path, flags: tuple) -> None:
    """uint8 weights around a zero point that int8 does not reach: the result is still right."""
    x, w = numbers(np.uint8, 5, 40), numbers(np.uint8, 40, 7)
    m = Model()
    a = m.dequantize(m.input("x", x), F(0.02), np.uint8(5))
    b = m.dequantize(m.constant(w), F(0.004), np.uint8(3))
    y = m.quantize(m.node("MatMul", a, b), F(0.9), np.uint8(128))
    (got,), tactics = m.run(tmp_path, {y: np.uint8}, LEVELS_AND_TILES[-1], *flags)
    exact = (x.astype(np.float64) - 5) @ (w.astype(np.float64) - 3) * 0.02 * 0.004 / 0.9 + 128
    assert np.abs(got - np.clip(exact, 0, 255)).max() < 0.51
    assert not any("s8" in t for t in tactics)


def test_the_engine_holds_the_integers(tmp_path: pathlib.Path) -> None:
    x, w = numbers(np.uint8, 1, 512), numbers(np.int8, 512, 1024)
    m = Model()
    a = m.dequantize(m.input("x", x), F(0.02), np.uint8(5))
    b = m.dequantize(m.constant(w), F(0.004), np.int8(0))
    y = m.quantize(m.node("MatMul", a, b), F(0.9), np.uint8(128))
    m.run(tmp_path, {y: np.uint8}, LEVELS_AND_TILES[-1])
    assert (tmp_path / "m.plan").stat().st_size < 1.05 * w.size


def test_inspect_says_why_a_conversion_is_not_fused(tmp_path: pathlib.Path) -> None:
    m = Model()
    a = m.quantize(m.input("a", numbers(np.uint8, 3, 8).astype(F)), F(1), np.uint8(0))
    b = m.input("b", numbers(np.uint8, 8, 5))
    a, b = m.dequantize(a, F(0.02), np.uint8(5)), m.dequantize(b, F(0.03), np.uint8(6))
    y = m.quantize(m.node("CumSum", m.node("MatMul", a, b), m.constant(np.int64(0))), F(0.004), np.uint8(0))
    m.run(tmp_path, {m.dequantize(y, F(0.004), np.uint8(0)): np.float32}, LEVELS_AND_TILES[-1])
    layers = json.loads(passes("inspect", tmp_path / "m.plan", "--json"))["Layers"]
    reasons = [layer.get("Unfused") for layer in layers]
    assert reasons.count("MatMul_3 (matmul): the second operand is no constant matrix") == 2
    assert "its operand is an input of the network" in reasons and "CumSum_4 computes in float32" in reasons
    assert "its result is an output of the network" in reasons
    text = passes("inspect", tmp_path / "m.plan")
    assert "not fused: CumSum_4 computes in float32" in text
    assert text.count("not fused: ") == sum("quantize" in layer["TacticName"] for layer in layers) == 5


@pytest.mark.parametrize("op", ["QuantizeLinear", "DequantizeLinear"])
def test_wrong_numbers_of_scales_end_with_an_error(tmp_path: pathlib.Path, op: str) -> None:
    m = Model()
    x = numbers(np.uint8, 4, 6) if op[0] == "D" else np.zeros((4, 6), F)
    y = m.node(op, m.input("x", x), m.constant(np.ones(5, F)), m.constant(np.zeros(5, np.uint8)), axis=1)
    with pytest.raises(AssertionError, match="scale has 5 elements; dimension 1 of x is 6"):
        m.run(tmp_path, {y: np.float32 if op[0] == "D" else np.uint8}, LEVELS_AND_TILES[-1])


@pytest.mark.parametrize("isa", LEVELS_AND_TILES)
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("quantized", [False, True])
def test_bias_behind_a_quantized_product(
    tmp_path: pathlib.Path, isa: str, residual: bool, relu: bool, quantized: bool
) -> None:
    """As onnxruntime.quantization writes MatMul and Add as QLinearMatMul, DequantizeLinear and Add: one step."""
    m = Model()
    x, w, bias = numbers(np.uint8, 35, 70), numbers(np.int8, 70, 37), RNG.standard_normal(37).astype(F)
    scales = [F(0.031), F(0.0047), F(0.27), F(0.19)]
    zero = m.constant(np.uint8(121))
    product = [m.constant(v) for v in (scales[0], np.uint8(9), w, scales[1], np.int8(0), scales[2])]
    y = m.node("QLinearMatMul", m.input("x", x), *product, zero)
    y = m.node("Add", m.node("DequantizeLinear", y, m.constant(scales[2]), zero), m.constant(bias))
    sums = ((x.astype(np.int32) - 9) @ w.astype(np.int32)).astype(F)
    scale = F(float(scales[0]) * float(scales[1]) / float(scales[2]))
    want = np.clip(np.rint(sums * scale), -121, 255 - 121).astype(F) * scales[2] + bias
    if residual:
        r = RNG.standard_normal((35, 37)).astype(F)
        y, want = m.node("Add", y, m.input("r", r)), want + r
    if relu:
        y, want = m.node("Relu", y), np.maximum(want, 0)
    if quantized:
        y = m.quantize(y, scales[3], np.uint8(30))
        want = np.clip(np.rint(want / scales[3]) + 30, 0, 255).astype(np.uint8)
    (got,), tactics = m.run(tmp_path, {y: np.uint8 if quantized else F}, isa)
    assert len(tactics) == 1 and is_tactic(tactics[0], "gemm", isa), tactics
    assert np.array_equal(got, want)
