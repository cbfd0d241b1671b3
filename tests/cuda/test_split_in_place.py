"""Parts of splits that are read where they lie in the whole, against ONNX Runtime in float32.

The plan must say which parts lie in the whole, and the numbers must be right: readers meet rows that are farther apart
than they are long.
"""

import functools
import json
import tempfile
from typing import Callable, Iterator, NamedTuple

import numpy as np
import onnx
import pytest
from harness import HALF_TYPES, LIMITS, Device, compare
from net import Net

TACTICS = "cuda_norm,cuda_split,cuda_concat,copies"


def normal(net: Net, x: str, *dims: int) -> str:
    return net.add("LayerNormalization", x, net.weight(*dims), net.weight(*dims), axis=-len(dims))


def parts_of(net: Net, x: str, sizes: list[int], rank: int, slices: bool) -> list[str]:
    """By Split, or by a Slice a part, the last first."""
    if not slices:
        names = [f"part{i}" for i in range(len(sizes))]
        net.nodes.append(onnx.helper.make_node("Split", [x, net.constant(np.array(sizes))], names, axis=-1))
        return names
    bounds = np.cumsum([0, *sizes])
    axis = net.constant(np.array([rank - 1]))
    made = [net.add("Slice", x, net.constant(bounds[[i]]), net.constant(bounds[[i + 1]]), axis) for i in reversed(range(len(sizes)))]
    return made[::-1]


def projection(net: Net, width: int) -> str:
    return normal(net, net.add("MatMul", "x", net.weight(64, width, scale=0.125)), width)


def norms(shape: list[int], sizes: list[int], slices: bool) -> onnx.ModelProto:
    """A norm of each part."""
    net = Net(x=[*shape, 64])
    parts = parts_of(net, projection(net, sum(sizes)), sizes, len(shape) + 1, slices)
    return net.model(net.add("Concat", *(normal(net, part, size) for part, size in zip(parts, sizes)), axis=-1))


def planes(shape: list[int], sizes: list[int]) -> onnx.ModelProto:
    """Norms of the last two axes: a group is several rows of the whole."""
    net = Net(x=[*shape, 64])
    parts = parts_of(net, projection(net, sum(sizes)), sizes, len(shape) + 1, False)
    return net.model(net.add("Concat", *(normal(net, part, shape[-1], size) for part, size in zip(parts, sizes)), axis=-1))


def nested(shape: list[int]) -> onnx.ModelProto:
    """A part is cut again."""
    net = Net(x=[*shape, 64])
    first, second = parts_of(net, projection(net, 96), [32, 64], len(shape) + 1, False)
    names = ["inner", "outer"]
    net.nodes.append(onnx.helper.make_node("Split", [second, net.constant(np.array([16, 48]))], names, axis=-1))
    return net.model(net.add("Concat", normal(net, first, 32), normal(net, names[0], 16), normal(net, names[1], 48), axis=-1))


def gated(shape: list[int], width: int) -> onnx.ModelProto:
    """silu(a) * b of the halves of a projection."""
    net = Net(x=[*shape, 64])
    both = net.add("MatMul", "x", net.weight(64, 2 * width, scale=0.1))
    a, b = parts_of(net, both, [width, width], len(shape) + 1, True)
    return net.model(net.add("MatMul", net.add("Mul", net.activate(a, "silu"), b), net.weight(width, 64, scale=0.1)))


class Network(NamedTuple):
    name: str
    make: Callable[[], onnx.ModelProto]
    copied: int = 0  # parts
    stand_in: bool = True  # its kernels run without a GPU


def networks() -> Iterator[Network]:
    for slices in (False, True):
        for sizes in ([64, 64], [24, 40, 64], [1032, 520], [8, 4096]):
            what = f"norms of {'slices' if slices else 'parts'} {sizes}"
            yield Network(what, functools.partial(norms, [3, 7], sizes, slices))
    yield Network("one row", functools.partial(norms, [1], [64, 192], False))
    yield Network("odd sizes", functools.partial(norms, [3, 7], [12, 52], False), copied=2)
    yield Network("planes", functools.partial(planes, [2, 3, 5], [16, 48]))
    yield Network("nested", functools.partial(nested, [2, 5]))
    yield Network("gated", functools.partial(gated, [2, 9], 128), stand_in=False)


def in_place(device: Device, model: onnx.ModelProto, precision: str) -> list[tuple[str, bool]]:
    """The parts of all splits of the plan, and whether they lie in the whole."""
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        onnx.save(model, file.name)
        flags = ["--backend=cuda", *([f"--{precision}"] if precision in HALF_TYPES else []), "--json", "--builderOptimizationLevel=1"]
        done = device.run("inspect", file.name, *flags)
    assert done.returncode == 0, done.stderr[-600:]
    layers = json.loads(done.stdout)["Layers"]
    splits = [layer for layer in layers if layer["Operators"] and layer["Operators"][0]["Operator"] == "split"]
    return [(part["Name"], part.get("PartOf") == s["Inputs"][0]["Name"]) for s in splits for part in s["Outputs"]]


@pytest.mark.concurrent
@pytest.mark.parametrize("precision", [*HALF_TYPES, "float32"])
@pytest.mark.parametrize("network", list(networks()), ids=lambda network: network.name)
def test_parts_are_read_in_place(device: Device, network: Network, precision: str) -> str:
    if device.is_stand_in and not network.stand_in:
        pytest.skip("its kernels are compiled at run time")
    model = network.make()
    parts = in_place(device, model, precision)
    copied = [name for name, lies in parts if not lies]
    expected = 0 if network.name == "odd sizes" and precision == "float32" else network.copied
    assert parts and len(copied) == expected, f"{parts}"
    environment = {"CARNOT_CUDA_TACTICS": TACTICS} if device.is_stand_in else {}
    error, profile = compare(device, model, precision, level=1, **environment)
    line = f"{network.name} {precision}: relative L2 {error:.1e}"
    assert error <= LIMITS[precision], f"{line}: {profile[-600:]}"
    return line
