"""Convolutions with few input channels (stem layers, 1x1) by each of their CUDA tactics, at odd sizes.

The reference is ONNX Runtime in float32. With the stand-in driver only the tactic of the case runs on its device.
"""

import functools

import onnx
import pytest
from harness import HALF_TYPES, LIMITS, Case, Device, compare, is_stand_in
from net import Net

RIVALS = ["cuda_conv_cudnn", "cuda_conv_patch_embed", "cuda_conv_stem", "cuda_gemm_multistage", "cuda_gemm_tma"]


def first(
    batch: int,
    channels: int,
    filters: int,
    sides: tuple[int, int],
    kernel: tuple[int, int],
    step: int,
    pads: list[int],
    activation: str,
    bias: bool,
    inside: bool = False,
) -> onnx.ModelProto:
    """A stem convolution. |inside|: it follows another layer, so its input is in half precision and channels-last."""
    net = Net(x=[batch, 6 if inside else channels, *sides])
    x = net.add("Conv", "x", net.weight(channels, 6, 1, 1), net.weight(channels)) if inside else "x"
    weights = [net.weight(filters, channels, *kernel, scale=(channels * kernel[0] * kernel[1]) ** -0.5)]
    y = net.add("Conv", x, *weights, *([net.weight(filters)] if bias else []), strides=[step, step], pads=pads)
    return net.model(net.activate(y, activation))


def thin(
    batch: int, channels: int, filters: int, sides: tuple[int, int], activation: str, residual: bool
) -> onnx.ModelProto:
    """A 1x1 convolution with few channels."""
    net = Net(x=[batch, 5, *sides])
    x = net.add("Conv", "x", net.weight(channels, 5, 1, 1), net.weight(channels))
    y = net.add("Conv", x, net.weight(filters, channels, 1, 1, scale=channels**-0.5), net.weight(filters))
    if residual:
        y = net.add("Add", y, net.add("Conv", "x", net.weight(filters, 5, 1, 1), net.weight(filters)))
    return net.model(net.activate(y, activation))


ALONG, NONE = [1, 1, 1, 1], [0, 0, 0, 0]
FIRST = [
    (2, 3, 64, (37, 45), (7, 7), 2, [3, 3, 3, 3], "Relu", True),
    (3, 1, 40, (19, 23), (5, 3), 1, [1, 0, 2, 1], "silu", True),
    (1, 4, 96, (20, 5), (3, 5), 2, [2, 2, 1, 2], "relu6", False),
    (2, 2, 8, (9, 1), (3, 1), 1, NONE, "", True),
    (5, 3, 32, (64, 31), (3, 3), 2, ALONG, "HardSwish", True),
    (1, 4, 320, (16, 17), (3, 3), 1, ALONG, "", True),
    (1, 3, 24, (8, 300), (8, 8), 1, [0, 4, 0, 3], "Sigmoid", True),
    (1, 3, 72, (5, 3), (1, 1), 1, NONE, "Gelu", True),
    (2, 4, 48, (21, 18), (3, 3), 1, ALONG, "Relu", True, True),
    (1, 3, 8, (9, 40), (7, 5), 2, [0, 2, 1, 0], "", True, True),
    (2, 3, 64, (67, 63), (11, 11), 4, [2, 2, 2, 2], "Relu", True),
    (1, 2, 24, (40, 29), (3, 9), 3, [0, 4, 1, 3], "silu", True),
    (1, 4, 40, (31, 26), (12, 12), 1, [5, 6, 6, 5], "", False, True),
]
THIN = [
    *[(3, 16, 96, (40, 35), "relu6", False), (1, 24, 72, (64, 65), "silu", True), (2, 64, 40, (51, 41), "Relu", True)],
    *[(1, 96, 24, (128, 33), "", False), (5, 120, 40, (37, 23), "HardSwish", True)],
    *[(1, 8, 8, (90, 46), "Sigmoid", False)],
]
CASES = [Case(f"first {c}", functools.partial(first, *c), "cuda_conv_stem") for c in FIRST]
CASES += [Case(f"thin {c}", functools.partial(thin, *c), "cuda_conv1x1_small") for c in THIN]
if not is_stand_in():  # it does not run these tactics
    OTHERS = {
        "cuda_conv_direct": (2, 3, 12, (11, 13), (3, 3), 1, ALONG, "Relu", True),
        "cuda_conv_cudnn": (3, 3, 40, (21, 13), (3, 3), 2, ALONG, "silu", True),
    }
    CASES += [Case(f"first {c}", functools.partial(first, *c), tactic) for tactic, c in OTHERS.items()]


@pytest.mark.concurrent
@pytest.mark.parametrize("precision", HALF_TYPES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_few_channels(device: Device, case: Case, precision: str) -> str:
    tactics = case.tactic if device.is_stand_in else "-" + ",".join(r for r in RIVALS if r != case.tactic)
    error, profile = compare(device, case.make(), precision, level=1, CARNOT_CUDA_TACTICS=tactics)
    line = f"{case.name} {precision}: relative L2 {error:.1e}"
    assert error <= LIMITS[precision] and case.tactic in profile, f"{line}: not by {case.tactic}: {profile[-600:]}"
    return line
