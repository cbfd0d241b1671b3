"""Quantized regions on a GPU by each tile size: to the bit against the documented rounding rule."""

import math
import pathlib
import sys

import numpy as np
import pytest
from harness import Device, is_stand_in

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from quantized_rule import RNG, F, Model, conv_sums, integer_rule, matmul_sums, numbers, round_to, twice_rule

TILES = {
    16: ["16x64", "32x64", "64x32", "64x64", "64x128", "128x32", "128x64", "128x128", "128x256"],
    8: ["64x32", "64x64", "128x64"],
    4: ["64x32", "64x64", "128x32", "128x64"],
}
TMA = ["64x32", "64x64", "128x64", "128x128"]
PINGPONG = ["128x64", "128x96", "128x128", "128x192"]
EVERY = [(load, tile) for load, tiles in TILES.items() for tile in tiles]


def command(tactic: str):
    device = Device()
    if device.why_absent():
        pytest.skip(device.why_absent())

    def run(*arguments: object) -> str:
        done = device.run(*arguments, CARNOT_CUDA_TACTICS=tactic)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


needs_programs = pytest.mark.skipif(is_stand_in(), reason="the stand-in driver has neither programs nor this kernel")


def has_run(m: Model, folder: pathlib.Path, outputs: dict, tactic: str) -> list:
    """The results, all of the one kernel besides copies."""
    flags = ("--backend=cuda", "--builderOptimizationLevel=0")
    others = [f"cuda_gemm_int8_{tile}_{load}" for load, tile in EVERY]
    others += [f"cuda_gemm_int8_pingpong_{tile}" for tile in PINGPONG]
    others += [f"cuda_gemm_int8_tma_{tile}" for tile in TMA]
    others += ["cuda_conv_stem_int8", "cuda_gemm_int8_small"]
    # A region grows from a convolution with a float32 result, which some tactics reject; they stand before the
    # others, and level 0 takes the first.
    generals = {"stem": ["64x32_4"], "pingpong": ["64x32_16"], "small": ["64x32_8", "64x32_16"]}
    wanted = [tactic, *(f"cuda_gemm_int8_{g}" for word, tiles in generals.items() if word in tactic for g in tiles)]
    choice = ",".join([*wanted, "copies"]) if is_stand_in() else "-" + ",".join(t for t in others if t not in wanted)
    got, tactics = m.run(folder, outputs, command(choice), *flags)
    assert tactic in tactics and not any("quantize" in t for t in tactics), tactics
    return got


@pytest.mark.parametrize(("load", "tile"), EVERY)
@pytest.mark.parametrize(
    ("x_type", "r_type", "y_type", "x_zero", "r_zero", "y_zero"),
    [(np.uint8, np.uint8, np.uint8, 128, 0, 255), (np.int8, np.uint8, np.int8, -128, 255, -128)],
)
@pytest.mark.parametrize("bound", [None, "Relu", "Clip"])
@pytest.mark.parametrize(("k", "stride"), [(1, 1), (3, 2), (5, 1)])
def test_convolution_with_its_epilogue(
    tmp_path: pathlib.Path, load: int, tile: str, x_type: type, r_type: type, y_type: type, x_zero: int, r_zero: int,
    y_zero: int, bound: str | None, k: int, stride: int,
) -> None:  # fmt: skip
    rows, columns = map(int, tile.split("x"))
    c, filters = {16: 48, 8: 24, 4: 3}[load], max(columns // 2 + 8, 40) if columns > 32 else 40
    side = {16: 5, 32: 9}.get(rows, 17)
    x, w = numbers(x_type, 2, c, side, side - 2), numbers(np.int8, filters, c, k, k)
    w[0] = -128
    x[0, :, : side // 2] = np.iinfo(x_type).max
    w_scale = (RNG.random(filters) * 0.01 + 0.001).astype(F)
    x_scale, r_scale, y_scale = F(0.0217), F(0.31), F(0.83)
    bias = RNG.standard_normal(filters).astype(F) * 9
    sums = conv_sums(x, x_zero, w, 1, k // 2, stride)
    r = numbers(r_type, *sums.shape)
    m = Model()
    a = m.dequantize(m.input("x", x), x_scale, x_type(x_zero))
    b = m.dequantize(m.constant(w), w_scale, np.zeros(filters, np.int8), axis=0)
    y = m.node("Conv", a, b, m.constant(bias), pads=[k // 2] * 4, strides=[stride] * 2)
    y = m.node("Add", m.dequantize(m.input("r", r), r_scale, r_type(r_zero)), y)
    limits = {None: None, "Relu": (0, np.inf), "Clip": (-3.5, 6)}[bound]
    if bound == "Relu":
        y = m.node("Relu", y)
    if bound == "Clip":
        y = m.node("Clip", y, m.constant(F(-3.5)), m.constant(F(6)))
    y = m.quantize(y, y_scale, y_type(y_zero))
    (got,) = has_run(m, tmp_path, {y: y_type}, f"cuda_gemm_int8_{tile}_{load}")
    want = integer_rule(sums, (x_scale, w_scale, y_scale), bias, (r, r_scale, r_zero), limits, y_zero, y_type, 1)
    assert np.array_equal(got, want), np.abs(got.astype(int) - want).max()


@pytest.mark.parametrize(("load", "tile"), EVERY)
def test_a_sum_that_is_quantized_before_the_residual(tmp_path: pathlib.Path, load: int, tile: str) -> None:
    c, filters = {16: 32, 8: 40, 4: 5}[load], max(int(tile.split("x")[1]) // 2 + 8, 40)
    side = 5 if int(tile.split("x")[0]) <= 32 else 13
    x, w = numbers(np.uint8, 1, c, side, side), numbers(np.int8, filters, c, 3, 3)
    r = numbers(np.uint8, 1, filters, side, side)
    m = Model()
    a, b = m.dequantize(m.input("x", x), F(0.02), np.uint8(3)), m.dequantize(m.constant(w), F(0.01), np.int8(0))
    y = m.node("Conv", a, b, pads=[1] * 4)
    y = m.dequantize(m.quantize(y, F(0.37), np.uint8(119)), F(0.37), np.uint8(119))
    y = m.node("Relu", m.node("Add", y, m.dequantize(m.input("r", r), F(0.31), np.uint8(7))))
    y = m.quantize(y, F(0.21), np.uint8(2))
    (got,) = has_run(m, tmp_path, {y: np.uint8}, f"cuda_gemm_int8_{tile}_{load}")
    sums = conv_sums(x, 3, w, 1, 1, 1)
    assert np.array_equal(got, twice_rule(sums, (F(0.02), F(0.01)), (F(0.37), 119), (r, F(0.31), 7), 0.21, 2))


@pytest.mark.parametrize("rows", [3, 200])
@pytest.mark.parametrize(("k", "n"), [(1, 8), (37, 136), (65536, 8), (1000, 1000)])
@pytest.mark.parametrize(("x_scale", "y_scale"), [(0.02, 0.9), (1e-30, 1e-30), (1e30, 1e30), (1e-20, 1e15)])
def test_gemm_at_extremes(
    tmp_path: pathlib.Path, rows: int, k: int, n: int, x_scale: float, y_scale: float
) -> None:
    x, w = numbers(np.uint8, rows, k), numbers(np.int8, n, k)
    x[0], w[0] = 255, -128
    m = Model()
    a = m.dequantize(m.input("x", x), F(x_scale), np.uint8(0))
    b = m.dequantize(m.constant(w), F(0.011), np.int8(0))
    y = m.quantize(m.node("Gemm", a, b, transB=1), F(y_scale), np.uint8(7))
    load = 16 if k % 16 == 0 else 8 if k % 8 == 0 else 4
    got = has_run(m, tmp_path, {y: np.uint8}, f"cuda_gemm_int8_64x32_{load}")
    want = integer_rule(matmul_sums(x, 0, w.T), (F(x_scale), F(0.011), F(y_scale)), None, None, None, 7, np.uint8, 1)
    assert np.array_equal(got[0], want)


def epilogues(
    x: np.ndarray, x_zero: int, w: np.ndarray, window: tuple[int, int, int], epilogue: str, is_wide: bool = False
) -> tuple[str, np.ndarray, Model]:
    """A convolution with one of the three epilogues: its output, what it must be, and the model.

    With |is_wide| the sums of the last channel exceed 2^22.
    """
    _, stride, pad = window
    w_scale = (RNG.random(len(w)) * 0.01 + 0.001).astype(F)
    m = Model()
    a = m.dequantize(m.input("x", x), F(0.0217), x.dtype.type(x_zero))
    b = m.dequantize(m.constant(w), w_scale, np.zeros(len(w), np.int8), axis=0)
    bias = np.zeros(len(w), F)
    bias[-1] = 1000 if is_wide else 0
    y = m.node("Conv", a, b, m.constant(bias), pads=[pad] * 4, strides=[stride] * 2)
    sums = conv_sums(x, x_zero, w, 1, pad, stride)
    sums += np.rint(bias / (np.float64(F(0.0217)) * w_scale)).astype(sums.dtype)[:, None, None]
    assert is_wide == (np.abs(sums).max() >= 2**22) or w[0].size > 400
    r = numbers(np.uint8, *sums.shape)
    residual, scales = (r, F(0.31), 7), (F(0.0217), w_scale)
    if epilogue == "requantize":
        y = m.quantize(m.node("Relu", y), F(0.83), np.uint8(9))
        want = integer_rule(sums, (*scales, F(0.83)), None, None, (0, np.inf), 9, np.uint8, 1)
    elif epilogue == "residual":
        y = m.quantize(m.node("Add", m.dequantize(m.input("r", r), F(0.31), np.uint8(7)), y), F(0.83), np.int8(-9))
        want = integer_rule(sums, (*scales, F(0.83)), None, residual, None, -9, np.int8, 1)
    else:
        y = m.dequantize(m.quantize(y, F(0.37), np.uint8(119)), F(0.37), np.uint8(119))
        y = m.node("Relu", m.node("Add", y, m.dequantize(m.input("r", r), F(0.31), np.uint8(7))))
        y = m.quantize(y, F(0.21), np.uint8(2))
        want = twice_rule(sums, scales, (F(0.37), 119), residual, 0.21, 2)
    return y, want, m


@pytest.mark.parametrize("is_wide", [False, True])
@pytest.mark.parametrize("tile", PINGPONG)
@pytest.mark.parametrize("epilogue", ["requantize", "residual", "twice"])
@pytest.mark.parametrize(
    ("c", "window", "x_type", "x_zero"),
    [
        (16, (1, 1, 0), np.uint8, 77),
        (144, (1, 1, 0), np.int8, -3),
        (48, (1, 2, 0), np.uint8, 255),
        (64, (3, 1, 1), np.uint8, 0),
        (272, (3, 2, 1), np.int8, 0),
        (128, (5, 1, 2), np.uint8, 0),
    ],
)
def test_pingpong_convolution(
    tmp_path: pathlib.Path, tile: str, epilogue: str, c: int, window: tuple[int, int, int], x_type: type, x_zero: int,
    is_wide: bool,
) -> None:  # fmt: skip
    side = (13 if is_stand_in() else 67) * window[1]  # the tactics want a tile for every other multiprocessor
    filters = int(tile.split("x")[1]) + (24 if epilogue == "requantize" else 16)
    x, w = numbers(x_type, 2, c, side, side), numbers(np.int8, filters, c, window[0], window[0])
    y, want, m = epilogues(x, x_zero, w, window, epilogue, is_wide)
    (got,) = has_run(m, tmp_path, {y: want.dtype.type}, f"cuda_gemm_int8_pingpong_{tile}")
    assert np.array_equal(got, want), np.abs(got.astype(int) - want).max()


@pytest.mark.parametrize("tile", TMA)
@pytest.mark.parametrize("epilogue", ["requantize", "residual", "twice"])
@pytest.mark.parametrize(
    ("c", "window", "x_type", "x_zero"),
    [
        (16, (1, 1, 0), np.uint8, 77),
        (144, (1, 1, 0), np.int8, -3),
        (48, (1, 2, 0), np.uint8, 255),
        (64, (3, 1, 1), np.uint8, 0),
        (320, (3, 2, 1), np.int8, 0),
        (128, (5, 1, 2), np.uint8, 0),
        (512, (3, 1, 1), np.int8, 0),
    ],
)
def test_convolution_by_tma(
    tmp_path: pathlib.Path, tile: str, epilogue: str, c: int, window: tuple[int, int, int], x_type: type, x_zero: int
) -> None:
    side, filters = 9 * window[1], int(tile.split("x")[1]) + 24
    x, w = numbers(x_type, 2, c, side, side), numbers(np.int8, filters, c, window[0], window[0])
    y, want, m = epilogues(x, x_zero, w, window, epilogue)
    (got,) = has_run(m, tmp_path, {y: want.dtype.type}, f"cuda_gemm_int8_tma_{tile}")
    assert np.array_equal(got, want), np.abs(got.astype(int) - want).max()


@pytest.mark.parametrize("tile", TMA)
@pytest.mark.parametrize(("rows", "k"), [(100, 16), (197, 400), (130, 8192), (3000, 768)])
@pytest.mark.parametrize(("x_scale", "y_scale"), [(0.02, 0.9), (1e-30, 1e-30), (1e30, 1e30)])
def test_gemm_by_tma(tmp_path: pathlib.Path, tile: str, rows: int, k: int, x_scale: float, y_scale: float) -> None:
    x, w = numbers(np.uint8, rows, k), numbers(np.int8, int(tile.split("x")[1]) * 2 - 8, k)
    x[0], w[0] = 255, -128
    m = Model()
    a = m.dequantize(m.input("x", x), F(x_scale), np.uint8(31))
    b = m.dequantize(m.constant(w), F(0.011), np.int8(0))
    y = m.quantize(m.node("Gemm", a, b, transB=1), F(y_scale), np.uint8(7))
    got = has_run(m, tmp_path, {y: np.uint8}, f"cuda_gemm_int8_tma_{tile}")
    want = integer_rule(matmul_sums(x, 31, w.T), (F(x_scale), F(0.011), F(y_scale)), None, None, None, 7, np.uint8, 1)
    assert np.array_equal(got[0], want)


@pytest.mark.parametrize("is_wide", [False, True])
@pytest.mark.parametrize("epilogue", ["requantize", "residual", "twice"])
@pytest.mark.parametrize(("x_type", "x_zero"), [(np.uint8, 77), (np.int8, -128)])
@pytest.mark.parametrize(("c", "filters"), [(8, 8), (24, 144), (32, 16), (64, 256), (88, 40), (128, 104)])
def test_convolution_of_small_depth(
    tmp_path: pathlib.Path, c: int, filters: int, x_type: type, x_zero: int, epilogue: str, is_wide: bool
) -> None:
    x, w = numbers(x_type, 2, c, 37, 29), numbers(np.int8, filters, c, 1, 1)
    y, want, m = epilogues(x, x_zero, w, (1, 1, 0), epilogue, is_wide)
    (got,) = has_run(m, tmp_path, {y: want.dtype.type}, "cuda_gemm_int8_small")
    assert np.array_equal(got, want), np.abs(got.astype(int) - want).max()


@pytest.mark.parametrize("tile", PINGPONG)
@pytest.mark.parametrize(("k", "y_scale"), [(16, 0.9), (400, 0.9), (400, 3e-4)])
def test_pingpong_gemm(tmp_path: pathlib.Path, tile: str, k: int, y_scale: float) -> None:
    """The last scale multiplies sums by 0.73: what bounds results is the sums, not the range of int32."""
    x, w = numbers(np.uint8, 300 if is_stand_in() else 16400, k), numbers(np.int8, int(tile.split("x")[1]) * 2 - 8, k)
    m = Model()
    a = m.dequantize(m.input("x", x), F(0.02), np.uint8(31))
    b = m.dequantize(m.constant(w), F(0.011), np.int8(0))
    y = m.quantize(m.node("Gemm", a, b, transB=1), F(y_scale), np.uint8(7))
    got = has_run(m, tmp_path, {y: np.uint8}, f"cuda_gemm_int8_pingpong_{tile}")
    want = integer_rule(matmul_sums(x, 31, w.T), (F(0.02), F(0.011), F(y_scale)), None, None, None, 7, np.uint8, 1)
    assert np.array_equal(got[0], want)


@pytest.mark.parametrize(("x_type", "zero"), [(np.uint8, 114), (np.int8, -7)])
@pytest.mark.parametrize(
    ("c", "filters", "k", "stride"), [(3, 64, 7, 2), (3, 32, 3, 2), (1, 8, 5, 1), (4, 104, 8, 2), (2, 40, 1, 1)]
)
@pytest.mark.parametrize("y_zero", [0, 31])
@pytest.mark.parametrize("is_wide", [False, True])
def test_stem(
    tmp_path: pathlib.Path, x_type: type, zero: int, c: int, filters: int, k: int, stride: int, y_zero: int,
    is_wide: bool,
) -> None:  # fmt: skip
    x, w = numbers(x_type, 3, c, 75, 66), numbers(np.int8, filters, c, k, k)
    x[0], w[0] = np.iinfo(x_type).max, -128 if is_wide else 3
    bias, w_scale = RNG.standard_normal(filters).astype(F) * 9, (RNG.random(filters) * 0.01 + 0.001).astype(F)
    if is_wide:
        bias[-1] = 1000
    m = Model()
    a = m.dequantize(m.input("x", x), F(0.02), x_type(zero))
    b = m.dequantize(m.constant(w), w_scale, np.zeros(filters, np.int8), axis=0)
    y = m.node("Relu", m.node("Conv", a, b, m.constant(bias), pads=[k // 2] * 4, strides=[stride] * 2))
    y = m.quantize(y, F(0.4), np.uint8(y_zero))
    (got,) = has_run(m, tmp_path, {y: np.uint8}, "cuda_conv_stem_int8")
    sums = conv_sums(x, zero, w, 1, k // 2, stride)
    want = integer_rule(sums, (F(0.02), w_scale, F(0.4)), bias, None, (0, np.inf), y_zero, np.uint8, 1)
    assert np.array_equal(got, want), np.abs(got.astype(int) - want).max()


@pytest.mark.parametrize(("x_type", "zero"), [(np.uint8, 200), (np.int8, -7)])
@pytest.mark.parametrize(("k", "stride", "dilation"), [(3, 1, 1), (3, 2, 1), (5, 1, 1), (5, 2, 1), (3, 1, 2), (4, 1, 1)])
def test_depthwise(tmp_path: pathlib.Path, x_type: type, zero: int, k: int, stride: int, dilation: int) -> None:
    x, w = numbers(x_type, 2, 24, 15, 12), numbers(np.int8, 24, 1, k, k)
    m = Model()
    a = m.dequantize(m.input("x", x), F(0.02), x_type(zero))
    b = m.dequantize(m.constant(w), F(0.013), np.int8(0))
    pad = k // 2 * dilation
    y = m.node("Conv", a, b, group=24, pads=[pad] * 4, strides=[stride] * 2, dilations=[dilation] * 2)
    y = m.quantize(m.node("Relu", y), F(0.4), np.uint8(0))
    (got,) = has_run(m, tmp_path, {y: np.uint8}, "cuda_depthwise_int8")
    wide = np.zeros((24, 1, (k - 1) * dilation + 1, (k - 1) * dilation + 1), np.int8)
    wide[:, :, ::dilation, ::dilation] = w
    sums = conv_sums(x, zero, wide, 24, pad, stride)
    want = integer_rule(sums, (F(0.02), F(0.013), F(0.4)), None, None, (0, np.inf), 0, np.uint8, 1)
    assert np.array_equal(got, want)


@pytest.mark.parametrize(("k", "stride"), [(3, 1), (3, 2), (5, 1), (5, 2)])
def test_depthwise_with_four_results_a_thread(tmp_path: pathlib.Path, k: int, stride: int) -> None:
    images, side = (1, 43 * stride) if is_stand_in() else (16, 111 * stride)
    x, w = numbers(np.uint8, images, 24, side, side - 2), numbers(np.int8, 24, 1, k, k)
    m = Model()
    a = m.dequantize(m.input("x", x), F(0.02), np.uint8(130))
    b = m.dequantize(m.constant(w), F(0.013), np.int8(0))
    y = m.node("Conv", a, b, group=24, pads=[k // 2] * 4, strides=[stride] * 2)
    y = m.quantize(m.node("Relu", y), F(0.4), np.uint8(0))
    (got,) = has_run(m, tmp_path, {y: np.uint8}, "cuda_depthwise_int8")
    sums = conv_sums(x, 130, w, 24, k // 2, stride)
    want = integer_rule(sums, (F(0.02), F(0.013), F(0.4)), None, None, (0, np.inf), 0, np.uint8, 1)
    assert np.array_equal(got, want)


@needs_programs
def test_bytes_between_element_wise_operators(tmp_path: pathlib.Path) -> None:
    a, b = numbers(np.uint8, 2, 37, 5, 3), numbers(np.int8, 2, 37, 5, 3)
    m = Model()
    x = m.dequantize(m.input("a", a), F(0.04), np.uint8(131))
    y = m.dequantize(m.input("b", b), F(0.07), np.int8(-9))
    y = m.quantize(m.node("Relu", m.node("Add", x, y)), F(0.05), np.uint8(3))
    (got,) = has_run(m, tmp_path, {y: np.uint8}, "cuda_pointwise")
    sums = (a.astype(np.int32) - 131).astype(F) * F(0.04) + (b.astype(np.int32) + 9).astype(F) * F(0.07)
    assert np.array_equal(got, round_to(np.maximum(sums, F(0)) / F(0.05), 3, 0, 255, np.uint8))


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("shape", [(2, 140, 7, 5), (1, 20, 63, 65)])
def test_mean_of_bytes(tmp_path: pathlib.Path, shape: tuple, dtype: type) -> None:
    x = numbers(dtype, *shape)
    m = Model()
    y = m.node("GlobalAveragePool", m.dequantize(m.input("x", x), F(0.04), dtype(11)))
    y = m.quantize(y, F(0.006), np.uint8(100))
    (got,) = has_run(m, tmp_path, {y: np.uint8}, "cuda_mean_bytes")
    sums = (x.astype(np.int64) - 11).sum((2, 3), keepdims=True)
    factor = F(np.float64(F(0.04)) / (shape[2] * shape[3] * np.float64(F(0.006))))
    want = round_to(sums.astype(F) * factor, 100, 0, 255, np.uint8)
    assert np.array_equal(got, want)


@needs_programs
@pytest.mark.parametrize("x_type", [np.uint8, np.int8])
@pytest.mark.parametrize("channels", [32, 12])
def test_maximum_of_bytes(tmp_path: pathlib.Path, x_type: type, channels: int) -> None:
    x = numbers(x_type, 2, channels, 9, 8)
    m = Model()
    y = m.dequantize(m.input("x", x), F(0.04), x_type(3))
    y = m.quantize(m.node("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), F(0.04), x_type(3))
    (got,) = has_run(m, tmp_path, {y: x_type}, "cuda_pool")
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=np.iinfo(x_type).min)
    views = [padded[:, :, i : i + 9 : 2, j : j + 8 : 2] for i in range(3) for j in range(3)]
    rows, columns = min(v.shape[2] for v in views), min(v.shape[3] for v in views)
    want = np.max([v[:, :, :rows, :columns] for v in views], axis=0)
    assert np.array_equal(got, want[:, :, : got.shape[2], : got.shape[3]])


@pytest.mark.parametrize("tactic", ["cuda_gemm_int8_64x64_16", "cuda_gemm_int8_128x32_16", "cuda_gemm_int8_tma_64x64"])
@pytest.mark.parametrize("function", [None, "Gelu", "Relu"])
@pytest.mark.parametrize("shape", [(70, 64, 72), (130, 48, 40)])
def test_bias_and_function_behind_an_inner_quantization(
    tmp_path: pathlib.Path, tactic: str, function: str | None, shape: tuple
) -> None:
    """onnxruntime quantizes a MatMul apart from the Add and the function that follow it."""
    rows, k, n = shape
    x, w = numbers(np.uint8, rows, k), numbers(np.int8, k, n)
    bias = RNG.standard_normal(n).astype(F) * 9
    m = Model()
    a, b = m.dequantize(m.input("x", x), F(0.02), np.uint8(131)), m.dequantize(m.constant(w), F(0.011), np.int8(0))
    y = m.dequantize(m.quantize(m.node("MatMul", a, b), F(0.9), np.uint8(117)), F(0.9), np.uint8(117))
    y = m.node("Add", y, m.constant(bias))
    if function:
        y = m.node(function, y)
    y = m.quantize(y, F(0.7), np.int8(-20))
    (got,) = has_run(m, tmp_path, {y: np.int8}, tactic)
    factor = F(np.float64(F(0.02)) * np.float64(F(0.011)) / np.float64(F(0.9)))
    inner = round_to(matmul_sums(x, 131, w).astype(F) * factor, 117, 0, 255, np.uint8)
    v = (inner.astype(np.int32) - 117).astype(F) * F(0.9) + bias
    if function == "Relu":
        v = np.maximum(v, F(0))
    if function == "Gelu":
        wide = v.astype(np.float64)
        v = (wide * 0.5 * (1 + np.vectorize(math.erf)(wide / math.sqrt(2)))).astype(F)
    error = np.abs(got.astype(int) - round_to(v / F(0.7), -20, -128, 127, np.int8))
    assert error.max() <= (function == "Gelu") and (error > 0).mean() <= 1e-3


@needs_programs
@pytest.mark.parametrize("op", ["LayerNormalization", "RMSNormalization"])
@pytest.mark.parametrize("size", [4, 100, 768, 5120])
@pytest.mark.parametrize("is_read", [False, True])
def test_norm_of_float32_with_a_quantized_result(tmp_path: pathlib.Path, op: str, size: int, is_read: bool) -> None:
    x = RNG.standard_normal((2, 7, size)).astype(F) * 3 + 1
    scale = RNG.standard_normal(size).astype(F)
    m = Model(opset=23)
    y = m.node(op, m.input("x", x), m.constant(scale), epsilon=1e-5)
    q = m.quantize(y, F(0.03), np.uint8(120))
    outputs = {q: np.uint8, y: F} if is_read else {q: np.uint8}
    got = has_run(m, tmp_path, outputs, "cuda_norm")
    wide = x.astype(np.float64)
    if op == "LayerNormalization":
        wide -= wide.mean(-1, keepdims=True)
    want = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5) * scale
    error = np.abs(got[0].astype(int) - round_to(want / np.float64(F(0.03)), 120, 0, 255, np.uint8))
    assert error.max() <= 1 and (error > 0).mean() <= 1e-3
    if is_read:
        assert np.abs(got[1] - want).max() < 1e-5 * np.abs(want).max()


@pytest.mark.parametrize(("x_type", "y_type"), [(np.uint8, np.uint8), (np.int8, np.uint8), (np.uint8, np.int8)])
@pytest.mark.parametrize("shape", [(2, 37, 5, 3), (1, 64, 40, 40), (1, 1, 1, 1)])
def test_function_of_one_byte(tmp_path: pathlib.Path, x_type: type, y_type: type, shape: tuple) -> None:
    """x * sigmoid(x), quantized on the way: one step, with the bits of the processor's table."""
    x = numbers(x_type, *shape)
    m = Model()
    a = m.dequantize(m.input("x", x), F(0.04), x_type(3))
    b = m.node("Sigmoid", a)
    b = m.dequantize(m.quantize(b, F(1 / 256), np.uint8(0)), F(1 / 256), np.uint8(0))
    y = m.quantize(m.node("Mul", a, b), F(0.03), y_type(9))
    (got,) = has_run(m, tmp_path, {y: y_type}, "cuda_table_bytes")
    on_host = tmp_path / "host"
    on_host.mkdir()
    (want,), tactics = m.run(on_host, {y: y_type}, command("all"), "--backend=cpu")
    assert tactics == ["cpu_table_bytes"] and np.array_equal(got, want)
    v = (x.astype(np.int32) - 3).astype(F) * F(0.04)
    half = np.rint(1 / (1 + np.exp(-v.astype(np.float64))) * 256) / 256
    limits = np.iinfo(y_type)
    assert np.abs(want.astype(int) - round_to(v * half / F(0.03), 9, limits.min, limits.max, y_type)).max() <= 1
