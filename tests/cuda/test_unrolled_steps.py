"""Loops that were unrolled, one computation for each step, against ONNX Runtime in float32."""

import functools
from typing import Callable, Iterator, NamedTuple

import numpy as np
import onnx
import pytest
from harness import HALF_TYPES, LIMITS, Device, compare
from net import Net


def state_space(batch: int, steps: int, channels: int, states: int, swapped: bool) -> onnx.ModelProto:
    """h = a * h + b of each step, a product with what the step reads, a sum over states; all stacked."""
    net = Net(x=[batch, steps, channels])
    wide = net.add("Unsqueeze", net.add("Sigmoid", "x"), net.constant(np.array([3])))
    a = net.add("Mul", wide, net.constant(np.linspace(0.5, 0.9, channels * states, dtype=np.float32).reshape(channels, states)))
    read = net.add("MatMul", "x", net.weight(channels, states, scale=channels**-0.5))
    b = net.add("Mul", net.add("Unsqueeze", "x", net.constant(np.array([3]))), net.add("Unsqueeze", read, net.constant(np.array([2]))))
    h = net.constant(np.full((batch, channels, states), 0.25, np.float32))
    first, last, seen = net.constant(np.array([1])), net.constant(np.array([-1])), []
    for t in range(steps):
        at = net.constant(np.int64(t))
        at_a, at_b = net.add("Gather", a, at, axis=1), net.add("Gather", b, at, axis=1)
        product = net.add("Mul", *((h, at_a) if swapped else (at_a, h)))
        h = net.add("Add", *((at_b, product) if swapped else (product, at_b)))
        c = net.add("Unsqueeze", net.add("Gather", read, at, axis=1), first)
        y = net.add("ReduceSum", net.add("Mul", h, c), last, keepdims=0)
        seen.append(net.add("Unsqueeze", y, first))
    return net.model(net.add("Concat", *seen, axis=1))


def mapped(batch: int, steps: int, channels: int) -> onnx.ModelProto:
    """Steps that do not depend on one another."""
    net = Net(x=[batch, steps, channels])
    w, half = net.weight(channels, 24, scale=channels**-0.5), net.constant(np.float32(0.5))
    first, seen = net.constant(np.array([1])), []
    for t in range(steps):
        x = net.add("Gather", "x", net.constant(np.int64(t)), axis=1)
        y = net.add("Tanh", net.add("Add", net.add("MatMul", x, w), half))
        seen.append(net.add("Unsqueeze", y, first))
    return net.model(net.add("Concat", *seen, axis=1))


class Network(NamedTuple):
    name: str
    make: Callable[[], onnx.ModelProto]
    tactic: str


def networks() -> Iterator[Network]:
    for shape in [(1, 12, 24, 8, False), (3, 9, 8, 4, True), (2, 33, 16, 1, False)]:
        yield Network(f"state space {shape}", functools.partial(state_space, *shape), "cuda_linear_scan")
    yield Network("steps of their own", functools.partial(mapped, 2, 7, 16), "")


@pytest.mark.concurrent
@pytest.mark.parametrize("precision", HALF_TYPES)
@pytest.mark.parametrize("network", list(networks()), ids=lambda network: network.name)
def test_unrolled_steps(device: Device, network: Network, precision: str) -> str:
    tactics = {"CARNOT_CUDA_TACTICS": network.tactic or "copies"} if device.is_stand_in else {}
    error, profile = compare(device, network.make(), precision, level=1, **tactics)
    line = f"{network.name} {precision}: relative L2 {error:.1e}"
    steps = [row for row in profile.splitlines() if "cpu_" in row or "reference" in row or "cuda_" in row]
    assert error <= LIMITS[precision] and network.tactic in profile, f"{line}: {profile[-600:]}"
    assert len(steps) < 30, f"{line}: {len(steps)} steps"
    return line
