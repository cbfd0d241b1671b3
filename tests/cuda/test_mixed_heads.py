"""Attention whose heads are mixed before and behind the softmax (talking heads), and attention between channels
(cross-covariance), against ONNX Runtime in float32."""

import functools
from typing import Callable, Iterator, NamedTuple

import numpy as np
import onnx
import pytest
from harness import HALF_TYPES, LIMITS, Device, compare
from net import Net


def mixed(net: Net, x: str, heads: int, bias: bool) -> str:
    """A product over the last axis."""
    y = net.add("MatMul", x, net.weight(heads, heads, scale=heads**-0.5))
    return net.add("Add", y, net.weight(heads)) if bias else y


def talking(batch: int, rows: int, heads: int, size: int, before: bool, behind: bool, bias: bool) -> onnx.ModelProto:
    """q, k and v of one product; the scores are turned to [batch, rows, keys, heads] where they are mixed."""
    net = Net(x=[batch, rows, heads * size])
    packed = net.add("MatMul", "x", net.weight(heads * size, 3 * heads * size, scale=(heads * size) ** -0.5))
    packed = net.add("Reshape", packed, net.constant(np.array([batch, rows, 3, heads, size])))
    packed = net.add("Transpose", packed, perm=[2, 0, 3, 1, 4])
    q, k, v = (net.add("Gather", packed, net.constant(np.int64(i)), axis=0) for i in range(3))
    q = net.add("Mul", q, net.constant(np.float32(size**-0.5)))
    scores = net.add("MatMul", q, net.add("Transpose", k, perm=[0, 1, 3, 2]))
    if before:
        scores = net.add("Transpose", mixed(net, net.add("Transpose", scores, perm=[0, 2, 3, 1]), heads, bias), perm=[0, 3, 1, 2])
    scores = net.add("Softmax", scores, axis=-1)
    if behind:
        scores = net.add("Transpose", mixed(net, net.add("Transpose", scores, perm=[0, 2, 3, 1]), heads, bias), perm=[0, 3, 1, 2])
    joined = net.add("Transpose", net.add("MatMul", scores, v), perm=[0, 2, 1, 3])
    return net.model(net.add("Reshape", joined, net.constant(np.array([batch, rows, heads * size]))))


def mixed_alone(batch: int, rows: int, keys: int, heads: int) -> onnx.ModelProto:
    net = Net(x=[batch, heads, rows, keys])
    x = net.add("Relu", "x")
    y = net.add("Transpose", mixed(net, net.add("Transpose", x, perm=[0, 2, 3, 1]), heads, True), perm=[0, 3, 1, 2])
    return net.model(net.add("Relu", y))


def cross_covariance(batch: int, rows: int, heads: int, size: int, slices: bool) -> onnx.ModelProto:
    """q, k and v turned to [batch, heads, size, rows]; q and k are divided by their lengths."""
    net = Net(x=[batch, rows, heads * size])
    packed = net.add("MatMul", "x", net.weight(heads * size, 3 * heads * size, scale=(heads * size) ** -0.5))
    packed = net.add("Reshape", packed, net.constant(np.array([batch, rows, 3, heads, size])))
    packed = net.add("Transpose", packed, perm=[2, 0, 3, 4, 1])
    if slices:
        starts = [net.constant(np.array([i])) for i in range(4)]
        parts = [net.add("Slice", packed, starts[i], starts[i + 1], starts[0]) for i in range(3)]
        q, k, v = (net.add("Squeeze", part, starts[0]) for part in parts)
    else:
        q, k, v = (net.add("Gather", packed, net.constant(np.int64(i)), axis=0) for i in range(3))
    bound = net.constant(np.float32(1e-12))
    last = net.constant(np.array([-1]))
    q, k = (net.add("Div", t, net.add("Max", net.add("ReduceL2", t, last, keepdims=1), bound)) for t in (q, k))
    scores = net.add("MatMul", q, net.add("Transpose", k, perm=[0, 1, 3, 2]))
    weights = net.add("Softmax", net.add("Mul", scores, net.weight(heads, 1, 1, scale=3)), axis=-1)
    joined = net.add("Transpose", net.add("MatMul", weights, v), perm=[0, 3, 1, 2])
    return net.model(net.add("Reshape", joined, net.constant(np.array([batch, rows, heads * size]))))


class Network(NamedTuple):
    name: str
    make: Callable[[], onnx.ModelProto]
    tactic: str


def networks() -> Iterator[Network]:
    for shape in [
        (1, 49, 4, 48, True, True, True),
        (2, 23, 3, 16, True, True, False),
        (1, 7, 16, 8, True, True, True),
        (3, 20, 2, 32, True, False, True),
        (1, 33, 5, 24, False, True, True),
        (2, 1, 4, 64, True, True, True),
        (9, 40, 8, 128, True, True, True),
    ]:
        yield Network(f"attention {shape}", functools.partial(talking, *shape), "cuda_attention_mixed")
    for cross in [(8, 196, 4, 32, True), (11, 70, 3, 12, False), (16, 7, 2, 48, True), (16, 65, 2, 64, False), (7, 130, 5, 20, True)]:
        yield Network(f"cross-covariance {cross}", functools.partial(cross_covariance, *cross), "cuda_cross_covariance")
    yield Network("too many heads", functools.partial(talking, 1, 12, 24, 8, True, True, True), "cuda_mix_heads")
    yield Network("alone", functools.partial(mixed_alone, 2, 5, 9, 6), "cuda_mix_heads")


@pytest.mark.concurrent
@pytest.mark.parametrize("precision", HALF_TYPES)
@pytest.mark.parametrize("network", list(networks()), ids=lambda network: network.name)
def test_mixed_heads(device: Device, network: Network, precision: str) -> str:
    tactics = {"CARNOT_CUDA_TACTICS": network.tactic} if device.is_stand_in else {}
    error, profile = compare(device, network.make(), precision, level=1, **tactics)
    line = f"{network.name} {precision}: relative L2 {error:.1e}"
    assert error <= LIMITS[precision] and network.tactic in profile, f"{line}: {profile[-600:]}"
    return line
