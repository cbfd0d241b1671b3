"""LSTM, GRU and RNN by clusters, in float32 and on tensor cores in 16 bits, against ONNX Runtime in float32."""

import numpy as np
import onnx
import pytest
from harness import HALF_TYPES, LIMITS, Device, compare
from net import Net

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
WIDE = ("LSTM", 3, 2, 1024, 1024, "forward")  # weights beyond the shared memory of a cluster
LAYERS = [  # steps, sequences, inputs, hidden units, direction
    ("LSTM", 9, 2, 16, 24, "forward"),
    ("GRU", 7, 1, 80, 256, "bidirectional"),
    ("GRU", 5, 3, 13, 37, "reverse"),
    ("LSTM", 11, 5, 40, 96, "bidirectional"),
    ("RNN", 6, 2, 20, 33, "bidirectional"),
    ("LSTM", 4, 17, 64, 512, "forward"),
    ("GRU", 12, 8, 512, 256, "bidirectional"),
    ("RNN", 5, 9, 24, 320, "reverse"),
    ("GRU", 4, 3, 600, 40, "forward"),
    WIDE,
    ("GRU", 3, 1, 8, 3, "forward"),
]


def network(op: str, steps: int, batch: int, inputs: int, hidden: int, direction: str, given: bool) -> onnx.ModelProto:
    net = Net(x=[steps, batch, inputs])
    ways, rows = 1 + (direction == "bidirectional"), GATES[op] * hidden
    operands = ["x", net.weight(ways, rows, inputs, scale=inputs**-0.5), net.weight(ways, rows, hidden, scale=hidden**-0.5)]
    operands += [net.weight(ways, 2 * rows, scale=0.3), "", *[net.weight(ways, batch, hidden)] * given]
    operands += [net.weight(ways, batch, hidden)] * (given and op == "LSTM")
    settings = {"linear_before_reset": 1} if op == "GRU" else {}
    name = net.add(op, *operands, hidden_size=hidden, direction=direction, **settings)
    net.nodes[-1].output.append("last")
    sums = [net.add("ReduceSumSquare", value, net.constant(np.array([0, 1], np.int64)), keepdims=0) for value in ("last",)]
    return net.model(net.add("Add", net.add("Mul", name, net.constant(np.float32(1))), sums[0]))


@pytest.mark.concurrent
@pytest.mark.parametrize("precision", ["float32", *HALF_TYPES])
@pytest.mark.parametrize("given", [False, True], ids=["from zero", "from a state"])
@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_recurrent(device: Device, layer: tuple, given: bool, precision: str) -> str:
    fits = layer != WIDE
    tactic = "cuda_recurrent_mma" if precision in HALF_TYPES and fits else "cuda_recurrent_cluster"
    error, profile = compare(device, network(*layer, given), precision, CARNOT_CUDA_TACTICS=tactic)
    line = f"{layer}: relative L2 {error:.1e}"
    assert error <= LIMITS[precision], f"{line}: {profile[-1500:]}"
    assert tactic in profile, f"{line}: {profile[-1500:]}"
    return line
