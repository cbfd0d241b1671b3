"""Rotary embedding of the heads of a packed projection by one kernel, against ONNX Runtime in float32."""

import numpy as np
import onnx
import pytest
from harness import HALF_TYPES, LIMITS, Device, compare
from net import Net

SHAPES = [  # batch, rows, heads, size of a head, rows that do not turn
    (2, 17, 3, 64, 1),
    (1, 9, 2, 16, 0),
    (3, 5, 1, 32, 2),
    (8, 257, 3, 64, 1),
]
RESTRICTED = "copies,cuda_rotary_pairs,cuda_rotary"


def turned(net: Net, x: str, still: int, cosines: str, sines: str, shape: list[int]) -> str:
    """As timm writes it: pairs side by side, the first rows stay."""
    one, two, most = (net.constant(np.array([n])) for n in (1, 2, np.iinfo(np.int64).max))
    zero, last = net.constant(np.array([0])), net.constant(np.array([3]))
    rest = net.add("Slice", x, net.constant(np.array([still])), most, two) if still else x
    odd, even = (net.add("Slice", rest, start, most, last, two) for start in (one, zero))
    pairs = [net.add("Unsqueeze", part, net.constant(np.array([-1]))) for part in (net.add("Neg", odd), even)]
    stacked = net.add("Reshape", net.add("Concat", *pairs, axis=-1), net.constant(np.array(shape)))
    y = net.add("Add", net.add("Mul", rest, cosines), net.add("Mul", stacked, sines))
    return net.add("Concat", net.add("Slice", x, zero, net.constant(np.array([still])), two), y, axis=2) if still else y


def heads_of(net: Net, packed: str, by: str) -> list[str]:
    """q, k and v by Gather, or by Split and Squeeze."""
    if by == "gather":
        return [net.add("Gather", packed, net.constant(np.int64(i)), axis=0) for i in range(3)]
    names = ["first", "second", "third"]
    net.nodes.append(onnx.helper.make_node("Split", [packed, net.constant(np.array([1, 1, 1]))], names, axis=0))
    return [net.add("Squeeze", name, net.constant(np.array([0]))) for name in names]


def network(batch: int, rows: int, heads: int, size: int, still: int, by: str) -> onnx.ModelProto:
    """q, k and v of one input; all three go out, since attention is not what is tested."""
    net, width = Net(x=[batch, rows, heads * size]), heads * size
    packed = net.add("MatMul", "x", net.weight(width, 3 * width, scale=width**-0.5))
    packed = net.add("Reshape", packed, net.constant(np.array([batch, rows, 3, heads, size])))
    packed = net.add("Transpose", packed, perm=[2, 0, 3, 1, 4])
    q, k, v = heads_of(net, packed, by)
    angles = np.repeat(net.rng.uniform(0, 6, (rows - still, size // 2)), 2, axis=1)
    cosines, sines = net.constant(np.cos(angles).astype(np.float32)), net.constant(np.sin(angles).astype(np.float32))
    shape = [batch, heads, rows - still, size]
    q, k = (turned(net, part, still, cosines, sines, shape) for part in (q, k))
    return net.model(net.add("Concat", q, k, v, axis=3))


@pytest.mark.concurrent
@pytest.mark.parametrize("precision", [*HALF_TYPES, "float32"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("by", ["gather", "split"])
def test_packed_rotary(device: Device, by: str, shape: tuple, precision: str) -> str:
    error, profile = compare(device, network(*shape, by), precision, CARNOT_CUDA_TACTICS=RESTRICTED)
    line = f"{shape}: relative L2 {error:.1e}"
    assert error <= LIMITS[precision], f"{line}: {profile[-1500:]}"
    tactic = "cuda_rotary_pairs" if precision in HALF_TYPES else "cuda_rotary "
    assert profile.count(tactic) == 1, f"{line}: {profile[-1500:]}"
    return line
