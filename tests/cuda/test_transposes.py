"""Transposes against ONNX Runtime: tiles, and vectors of eight 16-bit elements on either side."""

import numpy as np
import onnx
import pytest
from harness import LIMITS, Device, compare
from net import Net

CASES = [  # dims, perm
    ([2, 3, 300, 8], [0, 1, 3, 2]),
    ([2, 3, 8, 300], [0, 1, 3, 2]),
    ([37, 8], [1, 0]),
    ([8, 8], [1, 0]),
    ([5, 2, 9, 16], [0, 1, 3, 2]),
    ([3, 8, 9, 10], [0, 2, 3, 1]),
]


def network(dims: list[int], perm: list[int]) -> onnx.ModelProto:
    """Behind a product, which half precision stores."""
    net = Net(x=[*dims[:-1], 16])
    y = net.add("MatMul", "x", net.weight(16, dims[-1], scale=0.25))
    return net.model(net.add("Relu", net.add("Transpose", y, perm=perm)))


@pytest.mark.concurrent
@pytest.mark.parametrize("precision", ["fp16", "bf16", "float32"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_transpose(device: Device, case: tuple, precision: str) -> str:
    error, profile = compare(device, network(*case), precision, CARNOT_CUDA_TACTICS="copies,cuda_transpose")
    line = f"{case} {precision}: relative L2 {error:.1e}"
    assert error <= LIMITS[precision], f"{line}: {profile[-1200:]}"
    assert "cuda_transpose" in profile, f"{line}: {profile[-1200:]}"
    return line
