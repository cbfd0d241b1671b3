"""Dynamic quantization is one step with the GEMM before or behind it, equal to the bit to the steps it replaces."""

import pathlib

import numpy as np
import pytest
from quantized_model import LEVELS, LEVELS_AND_TILES, Model, is_tactic
from quantized_rule import RNG, F, numbers
from test_quantized import exact_session

TACTIC = "cpu_dynamic_gemm_u8s8_"


def network(x: np.ndarray, w: np.ndarray, w_scale: np.ndarray, bias: np.ndarray | None, readers: int = 1) -> tuple:
    """As onnxruntime.quantization.quantize_dynamic writes it, with |readers| GEMMs of one quantized value."""
    m = Model()
    q, scale, zero = m.node("DynamicQuantizeLinear", m.input("x", x), outputs=3)
    results = {}
    for reader in range(readers):
        weights = m.constant(np.roll(w, reader, axis=-1))  # of equal ones, or scales, one would be left
        y = m.node("MatMulInteger", q, weights, zero, m.constant(np.zeros(np.shape(w_scale), np.int8)))
        y = m.node("Mul", m.node("Cast", y, to=1), m.node("Mul", scale, m.constant(w_scale * F(2**reader))))
        results[y if bias is None else m.node("Add", m.constant(bias), y)] = F
    return m, results


@pytest.mark.parametrize("isa", LEVELS_AND_TILES)
@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 37, 19), (130, 384, 130), (3, 65536, 5)])
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_range_quantization_gemm_scale_and_bias(
    tmp_path: pathlib.Path, isa: str, shape: tuple, each: bool, biased: bool
) -> None:
    rows, depth, columns = shape
    x = (RNG.standard_normal((1, rows, depth)) * 3 - 1).astype(F)
    w = numbers(np.int8, depth, columns)
    w_scale = (RNG.random(columns if each else ()) * 0.01 + 0.001).astype(F)
    bias = RNG.standard_normal(columns).astype(F) if biased else None
    m, results = network(x, w, w_scale, bias)
    (got,), tactics = m.run(tmp_path, results, isa)
    assert len(tactics) == 1 and is_tactic(tactics[0], "dynamic_gemm", isa), tactics
    (steps,), apart = m.run(tmp_path, results, isa, "--disablePasses=form_fusion_regions")
    assert len(apart) > 3 and np.array_equal(got, steps)
    (want,) = exact_session(tmp_path / "m.onnx", F).run(None, {"x": x})
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()


@pytest.mark.parametrize("isa", LEVELS_AND_TILES)
@pytest.mark.parametrize(
    "shape",
    [
        (2, 5, 9, 7, 9, 3, 1, 1),
        (1, 40, 13, 11, 21, 3, 2, 1),
        (1, 70, 6, 9, 33, 1, 1, 1),
        (2, 3, 33, 35, 18, 7, 2, 1),  # a first layer
        (1, 3, 48, 33, 20, 16, 16, 1),  # patches: more taps than a kernel takes
        (1, 40, 9, 7, 40, 3, 2, 40),  # depthwise
        (1, 34, 8, 8, 36, 3, 1, 2),
    ],
)
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("relu", [False, True])
def test_range_quantization_convolution_scale_bias_and_relu(
    tmp_path: pathlib.Path, isa: str, shape: tuple, each: bool, biased: bool, relu: bool
) -> None:
    n, c, height, width, filters, k, stride, group = shape
    x = (RNG.standard_normal((n, c, height, width)) * 3 - 1).astype(F)
    m = Model()
    q, scale, zero = m.node("DynamicQuantizeLinear", m.input("x", x), outputs=3)
    w = m.constant(numbers(np.int8, filters, c // group, k, k))
    y = m.node("ConvInteger", q, w, zero, pads=[k // 2] * 4, strides=[stride, stride], group=group)
    w_scale = (RNG.random((filters, 1, 1) if each else ()) * 0.01 + 0.001).astype(F)
    y = m.node("Mul", m.node("Cast", y, to=1), m.node("Mul", scale, m.constant(w_scale)))
    if biased:
        y = m.node("Add", y, m.constant(RNG.standard_normal((1, filters, 1, 1)).astype(F)))
    if relu:
        y = m.node("Relu", y)
    (got,), tactics = m.run(tmp_path, {y: F}, isa)
    assert sum(is_tactic(t, "dynamic_conv", isa) for t in tactics) == 1, tactics
    assert all("reformat" in t or is_tactic(t, "dynamic_conv", isa) for t in tactics), tactics
    (steps,), apart = m.run(tmp_path, {y: F}, isa, "--disablePasses=form_fusion_regions")
    assert len(apart) > len(tactics) and np.array_equal(got, steps)
    (want,) = exact_session(tmp_path / "m.onnx", F).run(None, {"x": x})
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()


@pytest.mark.parametrize("isa", LEVELS)
def test_one_quantization_for_several_gemms(tmp_path: pathlib.Path, isa: str) -> None:
    x = RNG.standard_normal((5, 64)).astype(F)
    m, results = network(x, numbers(np.int8, 64, 33), np.float32(0.01), np.zeros(33, F), readers=3)
    got, tactics = m.run(tmp_path, results, isa)
    level = isa.replace("vnni", "")
    assert tactics == [f"cpu_dynamic_quantize_f32_{level}"] + [TACTIC + level] * 3
    assert all(np.array_equal(y, np.roll(got[0], reader, axis=-1) * 2**reader) for reader, y in enumerate(got))


@pytest.mark.parametrize("isa", LEVELS_AND_TILES)
@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 37, 19), (130, 384, 130), (3, 65536, 5)])
@pytest.mark.parametrize("x_type", [np.uint8, np.int8])
@pytest.mark.parametrize(("w_type", "zero"), [(np.uint8, 113), (np.uint8, None), (np.int8, -7), (np.uint8, 128)])
@pytest.mark.parametrize("each", [False, True])
def test_weights_with_zero_points(
    tmp_path: pathlib.Path, isa: str, shape: tuple, x_type: type, w_type: type, zero: int | None, each: bool
) -> None:
    """MatMulInteger of uint8 weights, as onnxruntime.quantization writes them for weight_type=QUInt8."""
    rows, depth, columns = shape
    x, w = numbers(x_type, rows, depth), numbers(w_type, depth, columns)
    m = Model()
    operands = [m.input("x", x), m.constant(w), m.constant(x_type(5))]
    zeros = np.asarray(0 if zero is None else zero, w_type)
    if zero is not None and each:
        zeros = numbers(w_type, columns)
    if zero is not None:
        operands.append(m.constant(zeros))
    y = m.node("MatMulInteger", *operands)
    (got,), tactics = m.run(tmp_path, {y: np.int32}, isa)
    assert len(tactics) == 1 and is_tactic(tactics[0], "matmul_integer", isa), tactics
    assert np.array_equal(got, (x.astype(np.int64) - 5) @ (w.astype(np.int64) - zeros))


@pytest.mark.parametrize("isa", LEVELS_AND_TILES)
@pytest.mark.parametrize("zero", [128, 121])
def test_dynamic_gemm_of_uint8_weights(tmp_path: pathlib.Path, isa: str, zero: int) -> None:
    x, w = (RNG.standard_normal((9, 64)) * 2).astype(F), numbers(np.uint8, 64, 48)
    m = Model()
    q, scale, x_zero = m.node("DynamicQuantizeLinear", m.input("x", x), outputs=3)
    y = m.node("MatMulInteger", q, m.constant(w), x_zero, m.constant(np.uint8(zero)))
    y = m.node("Mul", m.node("Cast", y, to=1), m.node("Mul", scale, m.constant(F(0.01))))
    (got,), tactics = m.run(tmp_path, {y: F}, isa)
    assert any(is_tactic(t, "dynamic_gemm" if zero == 128 else "matmul_integer", isa) for t in tactics), tactics
    (want,) = exact_session(tmp_path / "m.onnx", F).run(None, {"x": x})
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max()


@pytest.mark.parametrize("value", [0, np.nan, np.inf, -np.inf])
def test_values_that_give_no_range(tmp_path: pathlib.Path, value: float) -> None:
    x = np.full((3, 8), 0.5 if value else 0, F)
    x[1, 2] = value
    m, results = network(x, numbers(np.int8, 8, 4), np.float32(0.01), None)
    (got,), _ = m.run(tmp_path, results, LEVELS[-1])
    (steps,), _ = m.run(tmp_path, results, LEVELS[-1], "--disablePasses=form_fusion_regions")
    assert np.array_equal(got, steps, equal_nan=True)


def test_sums_that_meet_another_operator_keep_their_steps(tmp_path: pathlib.Path) -> None:
    x = RNG.standard_normal((5, 64)).astype(F)
    m, results = network(x, numbers(np.int8, 64, 33), np.float32(0.01), None)
    m.nodes[-1].op_type = "Add"  # the scale is added
    (got,), tactics = m.run(tmp_path, results, LEVELS[-1])
    assert not any(t.startswith(TACTIC) for t in tactics) and np.isfinite(got).all()


def dynamic_layer(m: Model, quantized: tuple, w: np.ndarray, rank: int) -> str:
    """A GEMM, or a 3x3 convolution where |rank| is 4, of what |quantized| names, with its scales and a bias."""
    q, scale, zero = quantized
    channels = (w.shape[0], 1, 1) if rank == 4 else (w.shape[1],)
    if rank == 4:
        y = m.node("ConvInteger", q, m.constant(w), zero, pads=[1] * 4)
    else:
        y = m.node("MatMulInteger", q, m.constant(w), zero)
    scales = m.node("Mul", scale, m.constant((RNG.random(channels) * 0.01 + 0.001).astype(F)))
    y = m.node("Mul", m.node("Cast", y, to=1), scales)
    return m.node("Add", y, m.constant(RNG.standard_normal(channels).astype(F)))


@pytest.mark.parametrize("isa", LEVELS_AND_TILES)
@pytest.mark.parametrize("shape", [(7, 37, 19), (2, 70, 96), (2, 40, 9, 7), (1, 66, 24, 13)])
@pytest.mark.parametrize("activation", ["Relu", "Gelu", None])
@pytest.mark.parametrize("added", [False, True])
def test_residual_activation_and_quantization_of_the_result(
    tmp_path: pathlib.Path, isa: str, shape: tuple, activation: str | None, added: bool
) -> None:
    """Two layers: the first adds its input, activates and quantizes; its float32 result is read once more, or not."""
    rank, depth = len(shape), shape[1] if len(shape) == 4 else shape[-1]
    m = Model()
    x = m.input("x", (RNG.standard_normal(shape) * 3 - 1).astype(F))
    w = [numbers(np.int8, *(depth, depth) + (3, 3) * (rank == 4)) for _ in range(2)]
    y = m.node("Add", dynamic_layer(m, m.node("DynamicQuantizeLinear", x, outputs=3), w[0], rank), x)
    if activation:
        y = m.node(activation, y)
    z = dynamic_layer(m, m.node("DynamicQuantizeLinear", y, outputs=3), w[1], rank)
    if added:
        z = m.node("Add", z, y)
    (got,), tactics = m.run(tmp_path, {z: F}, isa)
    kind = "dynamic_conv" if rank == 4 else "dynamic_gemm"
    assert sum(is_tactic(t, kind, isa) for t in tactics) == 2, tactics
    assert all("reformat" in t or is_tactic(t, kind, isa) for t in tactics), tactics
    (steps,), apart = m.run(tmp_path, {z: F}, isa, "--disablePasses=form_fusion_regions")
    assert len(apart) > 2 + len(tactics)
    if activation != "Gelu":  # rounds as the kernel of its step does
        assert np.array_equal(got, steps)
    (want,) = exact_session(tmp_path / "m.onnx", F).run(None, {"x": m.inputs["x"]})
    # One value may be rounded to the next integer where GELU differs in the last bit.
    step = 0.011 * 127 * np.abs(want).max() / 100 if activation == "Gelu" else 0
    assert np.abs(got - want).max() <= 1e-5 * np.abs(want).max() + step


@pytest.mark.parametrize("isa", LEVELS)
def test_gemms_of_equal_scales_are_each_one_step(tmp_path: pathlib.Path, isa: str) -> None:
    """The product of equal scales is left once; each GEMM takes it in."""
    m = Model()
    quantized = m.node("DynamicQuantizeLinear", m.input("x", RNG.standard_normal((5, 64)).astype(F)), outputs=3)
    w, results = numbers(np.int8, 64, 33), {}
    w_scale = m.constant(np.float32(0.01))
    for reader in range(3):
        y = m.node("MatMulInteger", quantized[0], m.constant(np.roll(w, reader, axis=-1)), quantized[2])
        results[m.node("Mul", m.node("Cast", y, to=1), m.node("Mul", quantized[1], w_scale))] = F
    got, tactics = m.run(tmp_path, results, isa)
    level = isa.replace("vnni", "")
    assert tactics == [f"cpu_dynamic_quantize_f32_{level}"] + [TACTIC + level] * 3
    assert all(np.array_equal(y, np.roll(got[0], reader, axis=-1)) for reader, y in enumerate(got))


def test_a_reshape_between_gemm_and_activation(tmp_path: pathlib.Path) -> None:
    """As ONNX Runtime's optimizer flattens MatMul and Add to Gemm."""
    m = Model()
    x = m.input("x", RNG.standard_normal((6, 40)).astype(F))
    w = [numbers(np.int8, 40, 40) for _ in range(2)]
    y = dynamic_layer(m, m.node("DynamicQuantizeLinear", x, outputs=3), w[0], 2)
    y = m.node("Relu", m.node("Reshape", y, m.constant(np.array([2, 3, 40]))))
    for flat in ([1, 6, 40], [6, 40]):
        y = m.node("Reshape", y, m.constant(np.array(flat)))
    z = dynamic_layer(m, m.node("DynamicQuantizeLinear", y, outputs=3), w[1], 2)
    (got,), tactics = m.run(tmp_path, {z: F}, LEVELS[-1])
    assert len([t for t in tactics if t != "view"]) == 2, tactics
    (steps,), _ = m.run(tmp_path, {z: F}, LEVELS[-1], "--disablePasses=form_fusion_regions")
    assert np.array_equal(got, steps)
