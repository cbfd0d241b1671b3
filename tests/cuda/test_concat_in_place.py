"""Concatenations whose parts are written in place, against ONNX Runtime in float32.

Each network is built of one tactic, which writes parts and reads them: their pixels lie as far apart as those of the
whole. The plan must say that every part lies in the whole, but for those of a network that cannot, and the numbers must be
right.
"""

import functools
import json
import tempfile
from typing import Callable, Iterator, NamedTuple

import onnx
import pytest
from harness import HALF_TYPES, LIMITS, Device, compare
from net import Net

OTHERS = ["cuda_gemm_cublaslt", "cuda_conv_cudnn"]
COPIES = ["cuda_concat", "cuda_pool"]


def conv(net: Net, x: str, channels: int, filters: int, kernel: int, group: int = 1) -> str:
    scale = (channels // group * kernel * kernel) ** -0.5
    weights = net.weight(filters, channels // group, kernel, kernel, scale=scale)
    y = net.add("Conv", x, weights, net.weight(filters), pads=[kernel // 2] * 4, group=group)
    return net.add("Relu", y)


def dense_block(batch: int, kernel: int, growth: int) -> onnx.ModelProto:
    """Each layer reads all before it: every list of parts is the beginning of the next."""
    net = Net(x=[batch, 64, 9, 11])
    parts, channels = [conv(net, "x", 64, 64, 1)], 64
    for _ in range(3):
        x = net.add("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]
        parts.append(conv(net, x, channels, growth, kernel))
        channels += growth
    return net.model(conv(net, net.add("Concat", *parts, axis=1), channels, 64, 1))


def one_shot(batch: int, kernel: int) -> onnx.ModelProto:
    """Each layer reads the one before, and all are concatenated."""
    net = Net(x=[batch, 64, 9, 11])
    parts = [conv(net, "x", 64, 64, 1)]
    for _ in range(3):
        parts.append(conv(net, parts[-1], 64, 64, kernel))
    return net.model(conv(net, net.add("Concat", *parts, axis=1), 256, 64, 1))


def branches(batch: int) -> onnx.ModelProto:
    """Two convolutions and two pools side by side."""
    net = Net(x=[batch, 64, 10, 12])
    x = conv(net, "x", 64, 64, 1)
    window = dict(kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    parts = [conv(net, x, 64, 24, 1), conv(net, x, 64, 40, 3), net.add("MaxPool", x, **window)]
    parts.append(net.add("AveragePool", parts[0], **window))
    return net.model(conv(net, net.add("Concat", *parts, axis=1), 152, 64, 1))


def pixels(batch: int) -> onnx.ModelProto:
    """Two convolutions of single pixels in a row, of many."""
    net = Net(x=[batch, 64, 65, 66])
    parts = [conv(net, "x", 64, 64, 1)]
    parts.append(conv(net, parts[0], 64, 40, 1))
    return net.model(conv(net, net.add("Concat", *parts, axis=1), 104, 64, 1))


def ghosts(batch: int, kernel: int) -> onnx.ModelProto:
    """A depthwise convolution of a part is the other part."""
    net = Net(x=[batch, 64, 13, 9])
    parts = [conv(net, "x", 64, 64, 3, group=64)]
    parts.append(conv(net, parts[0], 64, 64, kernel, group=64))
    x = net.add("Concat", *parts, axis=1)
    return net.model(conv(net, x, 128, 128, kernel, group=128))


def shared_part(batch: int) -> onnx.ModelProto:
    """One value is a part of two lists: it lies in the later one and is copied from there to the other."""
    net = Net(x=[batch, 64, 9, 11])
    a, b = conv(net, "x", 64, 64, 1), conv(net, "x", 64, 64, 3)
    first = conv(net, net.add("Concat", a, b, axis=1), 128, 64, 1)
    return net.model(conv(net, net.add("Concat", b, first, axis=1), 128, 64, 1))


class Network(NamedTuple):
    name: str
    make: Callable[[], onnx.ModelProto]
    tactic: str  # that computes the convolutions
    copied: int = 0  # parts


def networks() -> Iterator[Network]:
    for batch in (1, 2):
        for tactic in ("gemm_multistage", "gemm_tma"):
            growth = 64 if "tma" in tactic else 24
            for kernel in (1, 3):
                made = functools.partial(dense_block, batch, kernel, growth)
                yield Network(f"dense block {tactic} {batch} {kernel}", made, tactic)
                yield Network(f"one shot {tactic} {batch} {kernel}", functools.partial(one_shot, batch, kernel), tactic)
        shared = functools.partial(shared_part, batch)
        yield Network(f"shared part {batch}", shared, "gemm_multistage", copied=1)
        yield Network(f"branches {batch}", functools.partial(branches, batch), "gemm_multistage")
        yield Network(f"pixels {batch}", functools.partial(pixels, batch), "conv1x1_small")
        for tactic in ("depthwise", "depthwise_tile"):
            for kernel in (3, 7):
                yield Network(f"ghosts {tactic} {batch} {kernel}", functools.partial(ghosts, batch, kernel), tactic)


def in_place(device: Device, model: onnx.ModelProto, precision: str, **environment: str) -> list[tuple[str, bool]]:
    """The parts of all concatenations of the plan, and whether they lie in them."""
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        onnx.save(model, file.name)
        flags = ["--backend=cuda", f"--{precision}", "--json", "--builderOptimizationLevel=1"]
        done = device.run("inspect", file.name, *flags, **environment)
    assert done.returncode == 0, done.stderr[-600:]
    layers = json.loads(done.stdout)["Layers"]
    concats = [layer for layer in layers if layer["Operators"] and layer["Operators"][0]["Operator"] == "concat"]
    return [(part["Name"], part.get("PartOf") == c["Outputs"][0]["Name"]) for c in concats for part in c["Inputs"]]


@pytest.mark.concurrent
@pytest.mark.parametrize("precision", HALF_TYPES)
@pytest.mark.parametrize("network", list(networks()), ids=lambda network: network.name)
def test_parts_are_written_in_place(device: Device, network: Network, precision: str) -> str:
    tactic = f"cuda_{network.tactic}"
    if device.is_stand_in:
        tactics = ",".join([tactic, *COPIES])
    else:
        rivals = ["gemm_tma", "gemm_multistage"] if "gemm" in tactic else ["depthwise"]
        others = [f"cuda_{rival}" for rival in rivals if not network.tactic.startswith(rival)]
        tactics = "-" + ",".join(OTHERS + others)
    model = network.make()
    parts = in_place(device, model, precision, CARNOT_CUDA_TACTICS=tactics)
    copied = [name for name, lies in parts if not lies]
    assert parts and len(copied) == network.copied, f"copied: {copied}"
    error, profile = compare(device, model, precision, level=1, CARNOT_CUDA_TACTICS=tactics)
    line = f"{network.name} {precision}: relative L2 {error:.1e}"
    assert error <= LIMITS[precision], f"{line}: {profile[-600:]}"
    return line
