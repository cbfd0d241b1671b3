"""Transposed convolutions as convolution, shuffle and crop, against ONNX Runtime in float32.

On the stand-in driver the convolution itself runs on the host: the rewriting and the kernels that move are tested.
"""

import itertools
from typing import NamedTuple

import numpy as np
import onnx
import pytest
from harness import LIMITS, Device, compare
from net import Net


class Shape(NamedTuple):
    kernel: tuple
    strides: tuple
    pads: tuple = ()
    extra: tuple = ()
    group: int = 1
    channels: int = 16
    filters: int = 8
    pixels: tuple = (5, 6, 3)
    settings: tuple = ()


SHAPES = [
    Shape((2, 2), (2, 2)),
    Shape((4, 4), (2, 2), (1, 1, 1, 1), channels=32),
    Shape((3, 3), (2, 2), (1, 1, 1, 1), (1, 1)),
    Shape((5, 5), (2, 2), (2, 2, 2, 2), (1, 1), filters=5),
    Shape((3, 3), (1, 1), (1, 1, 1, 1)),
    Shape((2, 2), (3, 3), (), (1, 0)),
    Shape((7, 7), (4, 4), (1, 2, 3, 0), filters=3),
    Shape((8, 8), (4, 4), (5, 5, 5, 5)),
    Shape((4, 3), (2, 1), (1, 1, 1, 1)),
    Shape((4, 4), (2, 2), (1, 1, 1, 1), group=4),
    Shape((4, 4), (2, 2), (1, 1, 1, 1), group=16, filters=16),
    Shape((4,), (2,), (1, 1)),
    Shape((8,), (4,), (2, 2), group=2),
    Shape((2, 2, 2), (2, 2, 2)),
    Shape((3, 3, 3), (2, 2, 2), (1,) * 6, (1, 1, 1)),
    Shape((3, 3), (2, 2), settings=(("auto_pad", "SAME_UPPER"),)),
    Shape((4, 4), (2, 2), settings=(("auto_pad", "SAME_LOWER"),)),
]
ACTIVATIONS = ("", "Relu", "silu", "relu6")


def network(shape: Shape, activation: str) -> onnx.ModelProto:
    rank = len(shape.kernel)
    net = Net(x=[2, shape.channels, *shape.pixels[:rank]])
    weight = net.weight(shape.channels, shape.filters // shape.group, *shape.kernel, scale=(shape.channels * np.prod(shape.kernel)) ** -0.5)
    settings = dict(shape.settings) | {"strides": list(shape.strides), "group": shape.group}
    settings |= {"pads": list(shape.pads)} if shape.pads else {}
    settings |= {"output_padding": list(shape.extra)} if shape.extra else {}
    y = net.add("ConvTranspose", "x", weight, net.weight(shape.filters), **settings)
    return net.model(net.activate(y, activation))


@pytest.mark.concurrent
@pytest.mark.parametrize("precision", ["fp16", "float32"])
@pytest.mark.parametrize("case", [*zip(SHAPES, itertools.cycle(ACTIVATIONS))], ids=lambda c: f"{c[0].kernel} by {c[0].strides} {c[1]}")
def test_conv_transpose(device: Device, case: tuple, precision: str) -> str:
    error, profile = compare(device, network(*case), precision)
    line = f"{case} {precision}: relative L2 {error:.1e}"
    assert error <= LIMITS[precision], f"{line}: {profile[-1500:]}"
    assert "conv_transpose" not in profile, f"{line}: not decomposed: {profile[-1500:]}"
    return line
