"""Networks whose channels are no multiples of eight and are padded at build (pass pad_channels), against ONNX Runtime."""

from typing import Callable

import numpy as np
import onnx
import pytest
from harness import HALF_TYPES, LIMITS, Device, compare
from net import Net


def conv(net: Net, x: str, inputs: int, outputs: int, size: int = 1, group: int = 1) -> str:
    weights = net.weight(outputs, inputs // group, size, size, scale=(inputs // group * size * size) ** -0.5)
    pads = [size // 2] * 4
    return net.add("Conv", x, weights, net.weight(outputs, scale=0.3), pads=pads, group=group)


def cut(net: Net, x: str, begin: int, end: int) -> str:
    axis = net.constant(np.array([1]))
    return net.add("Slice", x, net.constant(np.array([begin])), net.constant(np.array([end])), axis)


def inverted_residual() -> onnx.ModelProto:
    """Depthwise convolution with squeeze-and-excitation; the sum covers the first channels only, as in ReXNet."""
    net = Net(x=[2, 16, 9, 10])
    first = conv(net, "x", 16, 27)
    y = net.activate(conv(net, first, 27, 58), "silu")
    y = net.activate(conv(net, y, 58, 58, 3, 58), "relu6")
    mean = net.add("ReduceMean", y, net.constant(np.array([2, 3])), keepdims=1)
    gate = net.activate(conv(net, mean, 58, 6), "Relu")
    y = net.add("Mul", y, net.add("Sigmoid", conv(net, gate, 6, 58)))
    y = conv(net, y, 58, 38)
    y = net.add("Concat", net.add("Add", cut(net, y, 0, 27), first), cut(net, y, 27, 38), axis=1)
    return net.model(conv(net, y, 38, 24, 3))


def chain_of_parts(sizes: list[int], by_sizes: bool) -> onnx.ModelProto:
    """Each part is convolved with what the one before gave, as in Res2Net."""
    net = Net(x=[1, 16, 8, 12])
    whole = net.activate(conv(net, "x", 16, sum(sizes)), "Relu")
    names = [f"part{i}" for i in range(len(sizes))]
    given = [net.constant(np.array(sizes))] if by_sizes else []
    attributes = {} if by_sizes else {"num_outputs": len(sizes)}
    net.nodes.append(onnx.helper.make_node("Split", [whole, *given], names, axis=1, **attributes))
    made, before = [], ""
    for name, size in zip(names, sizes):
        y = net.add("Add", name, before) if before and size == sizes[0] else name
        before = net.activate(conv(net, y, size, size, 3), "Relu")
        made.append(before)
    pooled = net.add("MaxPool", net.add("Concat", *made, axis=1), kernel_shape=[3, 3], pads=[1] * 4)
    return net.model(conv(net, pooled, sum(sizes), 8))


def read_by_others() -> onnx.ModelProto:
    """Channels that a softmax over them reads stay as they are."""
    net = Net(x=[1, 16, 8, 8])
    y = conv(net, conv(net, "x", 16, 12), 12, 20)
    return net.model(net.add("Mul", net.add("Softmax", y, axis=1), y))


def concat_with_constant() -> onnx.ModelProto:
    """A constant's channels, such as a class token's row, stay as they are, and so do those beside them."""
    net = Net(x=[1, 16, 6, 8])
    y = net.add("Concat", net.weight(1, 5, 6, 8), conv(net, "x", 16, 14), axis=1)
    return net.model(conv(net, conv(net, y, 19, 20, 3), 20, 8))


CASES = {
    "inverted residual": inverted_residual,
    "equal parts": lambda: chain_of_parts([26] * 4, False),
    "parts of given sizes": lambda: chain_of_parts([13, 13, 22], True),
    "read by others": read_by_others,
    "concat with a constant": concat_with_constant,
}


@pytest.mark.concurrent
@pytest.mark.parametrize("precision", HALF_TYPES)
@pytest.mark.parametrize("make", CASES.values(), ids=CASES.keys())
def test_padded_channels(device: Device, make: Callable[[], onnx.ModelProto], precision: str) -> str:
    error, profile = compare(device, make(), precision)
    assert error <= LIMITS[precision], profile
    return f"{error:.1e}"
