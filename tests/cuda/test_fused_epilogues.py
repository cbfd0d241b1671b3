"""Fusion on the GPU: small networks at odd sizes in half precision, against ONNX Runtime in float32.

Each case names the tactic that must run it. With CARNOT_CUDA_TACTICS=copies (stand-in driver) the reference tactics
compute the networks after the passes, and tactics are not checked.
"""

import functools
import os
from typing import Callable

import onnx
import pytest
from harness import HALF_TYPES, LIMITS, Case, Device, compare
from networks import (
    attention,
    branches,
    broadcast,
    channels_inside,
    depthwise,
    depthwise_sequence,
    feed_forward,
    group_norm,
    heads,
    mixed,
    normalized,
    packed,
    patches,
    pooled,
    reduced,
    reduced_product,
    rotary,
    selected_heads,
    shifted_windows,
    squeezed,
    two_orders,
    window_attention,
    windows,
)


def cases(
    name: str, make: Callable[..., onnx.ModelProto], tactic: str, shapes: list[tuple], forbidden: tuple[str, ...] = ()
) -> list[Case]:
    return [Case(f"{name} {shape}", functools.partial(make, *shape), tactic, forbidden) for shape in shapes]


ATTENTION = [
    *[(1, 37, 5, 40, True), (3, 128, 2, 64, True), (2, 197, 3, 64, False), (2, 65, 2, 128, True)],
    *[(1, 1, 2, 32, False), (5, 130, 4, 8, True), (2, 300, 2, 72, True)],
]
FEED_FORWARD = [(1, 37, 64, 256, "none"), (4, 128, 96, 384, "none"), (2, 65, 72, 200, "tanh"), (1, 5, 40, 36, "none")]
HEADS = [
    *[(1, 12, 128, 128, 64, "off", 1, 1, 1, 128), (1, 12, 197, 197, 64), (1, 16, 384, 384, 64, "log", 1, 1, 384, 384)],
    *[(1, 12, 1, 1024, 64, "off", 1, 1, 1, 1024), (2, 3, 1, 1, 32), (3, 2, 65, 37, 40, "bias", 3, 1, 65, 37)],
    *[(1, 4, 17, 257, 80, "bias", 17, 257), (2, 2, 1, 77, 128, "bias", 77)],
    *[(1, 140, 65, 65, 128, "log", 140, 65, 65), (2, 80, 64, 77, 80, "off", 2, 80, 64, 77)],
    *[(24, 12, 211, 210, 64, "off", 24, 1, 211, 210), (24, 12, 100, 63, 32, "log", 24, 1, 1, 63)],
    *[(24, 12, 128, 66, 64, "bias", 12, 1, 66), (24, 12, 5, 197, 24)],
]
GROUP_NORM = [
    *[(1, 320, 32, 16, True), (3, 24, 3, 7, True), (2, 1280, 32, 5, False), (1, 40, 4, 33, True)],
    *[(2, 72, 6, 1, False), (2, 24, 24, 9, True), (1, 48, 24, 12, False)],
]
GROUP_NORM_CLUSTER = [(1, 320, 32, 64, True), (2, 640, 32, 31, False), (3, 64, 32, 40, True), (1, 16, 2, 130, False)]
DEPTHWISE = [  # several results per thread in the last ones, on any device in the very last
    *[(1, 32, 3, 1, 17, "relu6"), (3, 24, 5, 2, 14, "silu"), (2, 8, 3, 2, 9, "HardSwish"), (1, 96, 7, 1, 7, "Relu")],
    *[(2, 40, 3, 1, 5, ""), (2, 96, 3, 1, 30, "Relu"), (3, 72, 3, 2, 39, "silu"), (1, 64, 5, 1, 30, "HardSwish")],
    *[(3, 64, 5, 2, 41, "relu6"), (8, 96, 3, 1, 80, "Sigmoid")],
    *[(2, 54, 3, 1, 13, "relu6"), (2, 22, 3, 2, 18, ""), (1, 162, (3, 1), 1, 9, "silu", 2)],  # channels in pairs
]
# By tiles: channels that fill no block, pictures of one tile and of several, windows of any rows.
DEPTHWISE_TILES = [
    *[(1, 96, 7, 1, 14, "Gelu"), (2, 40, 7, 1, 31, ""), (1, 768, 7, 1, 7, ""), (3, 72, 9, 1, 17, "Relu")],
    *[(1, 64, 11, 1, 20, "silu"), (2, 24, 7, 2, 29, "relu6"), (1, 200, 9, 2, 15, ""), (2, 64, 11, 2, 23, "Relu")],
    *[(1, 48, (11, 1), 1, 13, ""), (2, 16, (1, 11), 1, 19, "Relu"), (1, 8, (5, 7), 2, 10, ""), (1, 128, 3, 1, 9, "")],
    *[(2, 72, 3, 2, 33, "HardSwish"), (1, 96, 5, 1, 5, "Relu"), (2, 56, 5, 2, 12, ""), (1, 72, (3, 7), 1, 22, "", 3)],
]
DEPTHWISE_SEQUENCES = [(1, 256, 31, 1, 100, "Relu"), (3, 72, 5, 2, 57, "silu"), (2, 16, 3, 1, 9, "")]
SQUEEZE = [
    ("GlobalAveragePool", 1, 32, 8, 111, "silu", "Sigmoid"),
    ("ReduceMean", 1, 144, 6, 56, "silu", "Sigmoid"),
    ("GlobalAveragePool", 3, 1152, 48, 7, "silu", "Sigmoid"),
    ("ReduceMean", 12, 672, 28, 14, "Relu", "HardSigmoid"),
    ("GlobalAveragePool", 9, 72, 23, 29, "HardSwish", "Sigmoid"),
    ("GlobalAveragePool", 20, 8, 1, 3, "Relu", "HardSigmoid"),
    ("GlobalAveragePool", 2, 2048, 128, 5, "Relu", "Sigmoid"),
    ("ReduceMean", 9, 2056, 130, 4, "Gelu", "Sigmoid"),
    ("GlobalAveragePool", 33, 96, 4, 60, "silu", "Sigmoid"),
    ("GlobalAveragePool", 1, 40, 10, 1, "Relu", "HardSigmoid"),
]
HALF = [
    *cases("attention", attention, "cuda_attention", ATTENTION),
    *cases("feed forward", feed_forward, "cuda_", FEED_FORWARD),
    *cases("heads", heads, "cuda_attention", HEADS),
    *cases("packed", packed, "cuda_attention", [(3, 19, 4, 16), (1, 70, 3, 64), (2, 5, 2, 40)]),
    *cases(
        "windows",
        window_attention,
        "cuda_attention",
        [(1, 4, 9, 2, 16, False), (3, 4, 49, 3, 32, False), (2, 3, 16, 2, 32, True)],
        ("cuda_softmax",),
    ),
    *cases("group norm", group_norm, "cuda_group_norm", GROUP_NORM),
    Case("group norm of 36 channels", functools.partial(group_norm, 2, 36, 3, 1, False), "cuda_norm"),
    *cases("branches", branches, "cuda_", [(24, 3, 1, 1, 9), (16, 5, 2, 1, 12), (32, 5, 1, 32, 11)], ("cuda_pointwise_",)),
    *cases("group norm", group_norm, "cuda_group_norm", GROUP_NORM_CLUSTER),
    *cases("squeeze", squeezed, "cuda_squeeze_excite", SQUEEZE),
]
# cuDNN's attention, run as the only tactic. No shape has batch 1: the sanitizers, which report errors inside
# libraries too, take only cases of batch 1.
LIBRARY = [
    *cases(
        "library's attention", attention, "cuda_attention_cudnn", [(2, 197, 3, 64, False), (3, 1024, 2, 128, False)]
    ),
    *cases("library's attention", attention, "cuda_attention_cudnn", [(2, 65, 2, 40, False)]),
    *cases("library's heads", heads, "cuda_attention_cudnn", [(2, 3, 100, 513, 64), (24, 12, 1, 197, 24)]),
    *cases("library's packed", packed, "cuda_attention_cudnn", [(3, 70, 4, 64)]),
]
# Tiles of 128 and of 192 queries, several of them for a block; masks that all queries share, and dense ones, whose
# tiles of keys may be masked out.
ATTENTION_TMA = [
    *cases(
        "attention by TMA",
        attention,
        "cuda_attention_tma",
        [
            *[(1, 257, 5, 40, True), (2, 300, 2, 72, True), (3, 384, 2, 64, True), (2, 261, 3, 64, False)],
            *[(2, 265, 2, 128, True), (44, 384, 6, 8, True), (9, 400, 2, 24, False)],
        ],
    ),
    *cases(
        "attention by TMA, heads",
        heads,
        "cuda_attention_tma",
        [
            *[(1, 16, 384, 384, 64, "log", 1, 1, 384, 384), (3, 2, 65, 307, 40, "bias", 3, 1, 65, 307)],
            *[(1, 4, 17, 257, 80, "bias", 17, 257), (2, 2, 77, 260, 128, "bias", 260)],
            *[(1, 20, 65, 265, 128, "log", 20, 65, 265), (2, 8, 64, 277, 80, "off", 2, 8, 64, 277)],
            *[(12, 12, 211, 420, 64, "off", 12, 1, 211, 420), (24, 11, 192, 270, 8, "off", 24, 1, 192, 270)],
            *[(8, 12, 100, 263, 32, "log", 8, 1, 1, 263), (8, 12, 128, 266, 64, "bias", 12, 1, 266)],
        ],
    ),
    *cases("attention by TMA, packed", packed, "cuda_attention_tma", [(3, 270, 4, 16), (1, 300, 3, 64), (2, 340, 2, 40)]),
]
RIVALS = "-cuda_attention$,cuda_attention_cudnn,cuda_attention_generic"
MASKS = cases(
    "exported mask",
    functools.partial(attention, exported=True),
    "cuda_attention",
    [(1, 128, 2, 64, True), (3, 37, 2, 32, True)],
    forbidden=("cuda_gather_nd",),
)
MOVES = ("cuda_slice", "cuda_concat")
COPIES = ("cuda_reformat", "cuda_transpose")  # no layer of these networks needs them in half precision
POOLED = [
    *[("GlobalAveragePool", 1, 32, 112), ("GlobalAveragePool", 3, 1152, 7), ("GlobalMaxPool", 2, 40, 33)],
    *[("ReduceSum", 1, 96, 56), ("ReduceMin", 5, 24, 9), ("ReduceMean", 2, 18, 21)],
]
REDUCED = [
    *[("ReduceMean", [3, 197, 96], 1), ("ReduceMax", [1, 1031, 37], 1), ("ReduceL2", [2, 65, 64], 1)],
    *[("ReduceMean", [7, 5, 777], 2), ("ReduceSumSquare", [2, 12, 12, 40], 1)],
]
WINDOWS = [
    ("MaxPool", 64, 23, {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("MaxPool", 8, 12, {"kernel_shape": [5, 4], "strides": [1, 3], "ceil_mode": 1, "dilations": [2, 1]}),
    ("AveragePool", 16, 17, {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [1, 1, 1, 1]}),
    ("AveragePool", 40, 9, {"kernel_shape": [2, 5], "pads": [0, 2, 1, 2], "count_include_pad": 1}),
    ("AveragePool", 12, 9, {"kernel_shape": [2, 2], "strides": [2, 2]}),
]
ALL_TYPES = [
    *cases("two orders", two_orders, "cuda_pointwise", [(2, 40, 5), (3, 72, 11), (1, 24, 19)]),
    *cases("broadcast", broadcast, "cuda_pointwise", [(4, 7, 3, 49), (2, 16, 3, 6), (8, 64, 3, 2401)]),
    *cases("mixed types", mixed, "cuda_pointwise", [(2, 3, 37), (4, 5, 6, 7), (129,), (8, 1, 260)], ("cuda_cast",)),
    *[Case(f"{c[0]} of pixels {c[1:]}", functools.partial(pooled, *c), "cuda_reduce", COPIES) for c in POOLED],
    *[Case(f"{c[0]} {c[1:]}", functools.partial(reduced, *c), "cuda_reduce") for c in REDUCED],
    *[
        Case(f"{op} {channels} {side} {a}", functools.partial(windows, op, channels, side, **a), "cuda_pool", COPIES)
        for op, channels, side, a in WINDOWS
    ],
    *cases(
        "patches",
        patches,
        "cuda_conv_patch_embed",
        [(1, 16, 96, 64, True), (3, 14, 40, 45, True), (2, 8, 24, 31, False)],
        COPIES,
    ),
    *cases("shifted windows", shifted_windows, "cuda_gather", [(14, 7, 3, 24), (8, 4, 2, 5)], MOVES),
    *cases("rotary", rotary, "cuda_gather", [(17, 3, 32, False), (9, 2, 16, True)], MOVES),
    *cases("selected heads", selected_heads, "cuda_gather", [(33, 4, 24)], MOVES),
    *cases("normalized", normalized, "cuda_l2_norm", [(7, 32, 1e-12), (13, 200, 0.3), (5, 3, 1e-6)], ("cuda_reduce",)),
    *cases("norm over channels", channels_inside, "cuda_norm", [(48, 13), (20, 9), (104, 5), (64, 50), (8, 9)], COPIES),
    *cases(
        "columns of a product",
        reduced_product,
        "cuda_reduce",
        [("ReduceL2", 2, 300, 160), ("ReduceSumSquare", 3, 37, 24), ("ReduceL2", 1, 9, 33), ("ReduceL1", 2, 70, 40)],
    ),
]
if "CARNOT_CUDA_TACTICS" in os.environ:  # it names the tactics, so a library's cannot be forced
    LIBRARY = []


def name_of(case: Case) -> str:
    return case.name


def check(device: Device, case: Case, precision: str, **environment: str) -> str:
    error, profile = compare(device, case.make(), precision, **environment)
    line = f"{case.name} {precision}: relative L2 {error:.1e}, limit {LIMITS[precision]:.0e}"
    assert error <= LIMITS[precision], f"{line}: {profile[-1200:]}"
    if device.tactics != "copies":
        assert case.tactic in profile, f"{line}: not by {case.tactic}: {profile[-1200:]}"
        found = [tactic for tactic in case.forbidden if tactic in profile and precision in HALF_TYPES]
        assert not found, f"{line}: needs no {found}: {profile[-1200:]}"
    return line


@pytest.mark.concurrent
@pytest.mark.parametrize("precision", HALF_TYPES)
@pytest.mark.parametrize("case", [*HALF, *MASKS], ids=name_of)
def test_half(device: Device, case: Case, precision: str) -> str:
    return check(device, case, precision)


@pytest.mark.concurrent
@pytest.mark.parametrize("precision", HALF_TYPES)
@pytest.mark.parametrize("case", ATTENTION_TMA, ids=name_of)
def test_attention_tma(device: Device, case: Case, precision: str) -> str:
    return check(device, case, precision, CARNOT_CUDA_TACTICS=case.tactic if device.is_stand_in else RIVALS)


@pytest.mark.concurrent
@pytest.mark.parametrize("precision", HALF_TYPES)
@pytest.mark.parametrize("case", LIBRARY, ids=name_of)
def test_library(device: Device, case: Case, precision: str) -> str:
    return check(device, case, precision, CARNOT_CUDA_TACTICS=case.tactic)


@pytest.mark.concurrent
@pytest.mark.parametrize("precision", HALF_TYPES)
@pytest.mark.parametrize(
    "case",
    [
        *cases("depthwise", depthwise, "cuda_depthwise", DEPTHWISE),
        *cases("depthwise sequence", depthwise_sequence, "cuda_depthwise", DEPTHWISE_SEQUENCES),
        *cases("depthwise tiles", depthwise, "cuda_depthwise_tile", DEPTHWISE_TILES),
        *cases("depthwise tiles of a sequence", depthwise_sequence, "cuda_depthwise_tile", DEPTHWISE_SEQUENCES),
    ],
    ids=name_of,
)
def test_depthwise(device: Device, case: Case, precision: str) -> str:
    """With the named tactic alone: of pictures this small any tactic may win the race."""
    return check(device, case, precision, CARNOT_CUDA_TACTICS=case.tactic)


@pytest.mark.concurrent
@pytest.mark.parametrize("precision", [*HALF_TYPES, "float32"])
@pytest.mark.parametrize("case", ALL_TYPES, ids=name_of)
def test_all_types(device: Device, case: Case, precision: str) -> str:
    return check(device, case, precision)


def test_merged_projections(device: Device, tmp_path: os.PathLike) -> None:
    """The Q, K and V projections of every layer are one GEMM: 4 matmuls per layer are left of 6."""
    layers = 5
    onnx.save(attention(2, 24, 3, 16, masked=True, layers=layers), f"{tmp_path}/net.onnx")
    flags = ("--backend=cuda:sm_90", "--fp16", "--dumpGraph=fuse_qkv_projections")
    done = device.run("build", f"{tmp_path}/net.onnx", "--output", f"{tmp_path}/net.plan", *flags)
    assert done.returncode == 0, done.stderr
    assert sum(" = matmul(" in line for line in done.stderr.splitlines()) == 4 * layers
