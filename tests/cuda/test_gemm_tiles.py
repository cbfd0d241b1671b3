"""GEMM and convolution by each tile size of the built-in kernels, at odd sizes, against ONNX Runtime in float32.

With the stand-in driver only the tactic of the case runs on its device, and one kernel serves all sizes.
"""

import functools
from typing import Iterator

import onnx
import pytest
from harness import HALF_TYPES, LIMITS, Case, Device, compare, is_stand_in
from net import Net

MULTISTAGE, TMA, PINGPONG = "gemm_multistage", "gemm_tma", "gemm_tma_pingpong"
SIZES = [
    *[(MULTISTAGE, 16, 64), (MULTISTAGE, 32, 64), (MULTISTAGE, 64, 32), (MULTISTAGE, 64, 64)],
    *[(MULTISTAGE, 64, 128), (MULTISTAGE, 128, 32), (MULTISTAGE, 128, 64), (MULTISTAGE, 128, 128)],
    *[(TMA, 64, 32), (TMA, 64, 64), (TMA, 128, 64), (TMA, 128, 128), (TMA, 128, 160), (TMA, 128, 256)],
    *[(PINGPONG, 128, 128), (PINGPONG, 128, 160), (PINGPONG, 128, 192)],
]
if is_stand_in():
    STAND_IN = [(TMA, 64, 64), (TMA, 128, 160), (PINGPONG, 128, 128)]
    SIZES = [size for size in SIZES if size[0] == MULTISTAGE or size in STAND_IN]
GEMV = "cuda_gemv"
OTHERS = ["cuda_gemm_cublaslt", "cuda_conv_cudnn", "cuda_conv_patch_embed"]


def gemm(rows: int, depth: int, columns: int, activation: str, residual: bool, is_gemm: bool) -> onnx.ModelProto:
    """[rows, depth] by [depth, columns], as Gemm with transposed weights or as MatMul and Add."""
    net = Net(x=[rows, depth] if is_gemm else [1, rows, depth], **({"r": [1, rows, columns]} if residual else {}))
    if is_gemm:
        y = net.add("Gemm", "x", net.weight(columns, depth, scale=depth**-0.5), net.weight(columns), transB=1)
    else:
        y = net.add("Add", net.add("MatMul", "x", net.weight(depth, columns, scale=depth**-0.5)), net.weight(columns))
    if residual:
        y = net.add("Add", y, "r")
    return net.model(net.activate(y, activation))


def convolution(
    batch: int,
    channels: int,
    filters: int,
    side: int,
    kernel: int,
    step: int,
    dilation: int,
    activation: str,
    residual: bool,
    groups: int = 1,
) -> onnx.ModelProto:
    net = Net(x=[batch, 3, side, side + 2])
    x = net.add("Conv", "x", net.weight(channels, 3, 1, 1), net.weight(channels))
    read = channels // groups
    scale = (read * kernel * kernel) ** -0.5
    same = dict(strides=[step, step], pads=[kernel // 2 * dilation] * 4, dilations=[dilation, dilation], group=groups)
    y = net.add("Conv", x, net.weight(filters, read, kernel, kernel, scale=scale), net.weight(filters), **same)
    if residual:
        z = net.add("Conv", "x", net.weight(filters, 3, 1, 1), net.weight(filters), strides=[step, step])
        y = net.add("Add", y, z)
    return net.model(net.activate(y, activation))


def sequence(batch: int, channels: int, filters: int, length: int, kernel: int, step: int, activation: str) -> onnx.ModelProto:
    """A convolution over [batch, channels, length]."""
    net = Net(x=[batch, 3, length])
    x = net.add("Conv", "x", net.weight(channels, 3, 1), net.weight(channels))
    scale = (channels * kernel) ** -0.5
    same = dict(strides=[step], pads=[kernel // 2] * 2)
    y = net.add("Conv", x, net.weight(filters, channels, kernel, scale=scale), net.weight(filters), **same)
    return net.model(net.activate(y, activation))


def persistent_problems(rows: int, columns: int) -> tuple[list, list]:
    """Problems of the persistent kernels: output channels by 32, at least half as many tiles as multiprocessors."""
    gemms = [
        (66 * rows + 5, 24, columns, "Gelu", False, False),
        (34 * rows - 9, 16, columns + 32, "", True, False),
        (70 * rows, 8, columns - 32, "silu", False, True),
        (25 * rows + 1, 40, 3 * columns - 64, "Relu", True, False),
    ]
    convolutions = [(2, 64, columns + 32, 133, 1, 2, 1, "", True), (1, 104, columns + 32, 99, 1, 1, 1, "Relu", True)]
    if not is_stand_in():  # each block computes several tiles
        gemms += [
            (200 * rows - 3, 200, 2 * columns, "Gelu", False, False),
            (90 * rows - 3, 1032, 3 * columns - 32, "", True, False),
        ]
        convolutions += [
            (3, 64, columns, 53, 3, 1, 1, "relu6", False),
            (3, 128, 2 * columns, 97, 3, 1, 2, "Relu", True),
            (9, 64, columns + 64, 101, 3, 2, 1, "silu", False),
        ]
    return gemms, convolutions


def problems(kind: str, rows: int, columns: int) -> tuple[list, list]:
    """Arguments of gemm and of convolution for one tile size."""
    if kind == PINGPONG:
        return persistent_problems(rows, columns)
    least = 1 if rows == 16 else rows // 2 + 3
    wide = columns + 8
    side = {16: 5, 32: 6, 64: 9, 128: 14}[rows]
    gemms = [
        (least, 136, columns, "Gelu", False, False),
        (rows + 5, 64 * 9 + 8, wide, "", True, False),
        (2 * rows, 64, wide, "Sigmoid", False, True),
        (3 * rows + 1, 2048, columns, "Relu", True, False),
    ]
    if kind == MULTISTAGE:
        return [*gemms, (2 * rows + 3, 72, columns - 1, "Gelu", True, False)], [
            (1, 24, wide, side, 3, 1, 1, "relu6", False),
            (1, 128, columns, side, 3, 1, 2, "silu", True),
            (3, 40, wide, side, 3, 2, 1, "HardSwish", False),
            (1, 8, columns, side, 1, 1, 1, "Relu", True),
            (1, 3 * columns, 3 * columns, side, 3, 1, 1, "silu", True, 3),  # a group is a tile
            (2, 3 * columns // 2, 3 * columns // 2, side, 3, 2, 1, "relu6", False, 3 * columns // 8),  # groups of four share one
            (1, 64, 6 * columns + 48, side, 3, 1, 1, "", False, 2),  # a group has a part of a tile
            (1, 24, columns - 5, side, 3, 1, 1, "Relu", True),  # filters that are no eights
        ]
    convolutions = [  # input channels by 64
        (1, 64, wide, side, 3, 1, 1, "relu6", False),
        (1, 128, columns, side, 3, 1, 2, "silu", True),
        (3, 64, wide, side, 3, 2, 1, "HardSwish", False),
        (2, 64, wide, side, 1, 2, 1, "", True),
        (2, 72, wide, side, 1, 1, 1, "Relu", True),  # one tap takes channels by eights
        (2, 24, wide, side, 1, 2, 1, "silu", False),
    ]
    convolutions += [(2, 64, columns + 16, side, 3, 1, 1, "silu", True, 4)]  # groups as one
    if not is_stand_in():  # more tiles than multiprocessors
        convolutions += [(rows // 16, 128, 2 * columns, 50, 3, 1, 1, "", True)]
    return gemms, convolutions


def few_rows() -> Iterator[Case]:
    """Products of up to four rows: any number of columns, more and fewer vectors along K than a warp reads at once."""
    gemms = [
        (1, 8, 3, "Relu", False, True),
        (1, 776, 64, "Gelu", True, True),
        (2, 2056, 37, "", True, False),
        (3, 1024, 130, "silu", False, True),
        (4, 264, 1000, "Sigmoid", True, False),
    ]
    convolutions = [(1, 40, 21, 1, 1, 1, 1, "silu", True), (1, 64, 48, 1, 1, 1, 1, "", False)]
    for make, shapes in ((gemm, gemms), (convolution, convolutions)):
        for shape in shapes:
            yield Case(f"{GEMV} {shape}", functools.partial(make, *shape), GEMV)


def cases() -> Iterator[Case]:
    yield from few_rows()
    for kind, rows, columns in SIZES:
        tactic = f"cuda_{kind}_{rows}x{columns}"
        for make, shapes in zip((gemm, convolution), problems(kind, rows, columns)):
            for shape in shapes:
                yield Case(f"{tactic} {kind} {shape}", functools.partial(make, *shape), tactic)
        if kind != PINGPONG and rows >= 64:
            shape = (2, 64, columns + 8, 2 * rows + 5, 5, 2, "Relu")
            yield Case(f"{tactic} sequence {shape}", functools.partial(sequence, *shape), tactic)


@pytest.mark.concurrent
@pytest.mark.parametrize("precision", HALF_TYPES)
@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_tile(device: Device, case: Case, precision: str) -> str:
    rivals = [GEMV, *(f"cuda_{kind}_{rows}x{columns}" for kind, rows, columns in SIZES)]
    left_out = OTHERS + [rival for rival in rivals if rival != case.tactic]
    tactics = case.tactic if device.is_stand_in else "-" + ",".join(left_out)
    error, profile = compare(device, case.make(), precision, level=1, CARNOT_CUDA_TACTICS=tactics)
    line = f"{case.name} {precision}: relative L2 {error:.1e}"
    assert error <= LIMITS[precision] and case.tactic in profile, f"{line}: {profile[-600:]}"
    return line
