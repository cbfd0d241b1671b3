"""Resize between convolutions in half precision, against ONNX Runtime in float32."""

import numpy as np
import onnx
import pytest
from harness import HALF_TYPES, LIMITS, Device, compare
from net import Net

PICTURES = [
    ("nearest", (2.0, 2.0), 16, {}),
    ("nearest", (1.5, 0.7), 8, {"nearest_mode": "ceil", "coordinate_transformation_mode": "half_pixel"}),
    ("nearest", (2.0, 3.0), 24, {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}),
    ("linear", (2.0, 2.0), 32, {}),
    ("linear", (2.0, 3.0), 8, {"coordinate_transformation_mode": "align_corners"}),
    ("linear", (0.4, 0.6), 16, {"antialias": 1}),
    ("cubic", (2.0, 1.5), 8, {"coordinate_transformation_mode": "pytorch_half_pixel"}),
    ("cubic", (0.7, 2.0), 40, {"exclude_outside": 1, "cubic_coeff_a": -0.5}),
]
OTHERS = [("linear", (2.0, 2.0), 12, {})]  # channels that are no eights: one element a thread


def network(mode: str, scales: tuple, channels: int, settings: dict) -> onnx.ModelProto:
    net = Net(x=[2, 5, 9, 11])
    y = net.add("Conv", "x", net.weight(channels, 5, 3, 3, scale=0.15), net.weight(channels), pads=[1, 1, 1, 1])
    y = net.add("Resize", y, "", net.constant(np.array([1, 1, *scales], np.float32)), mode=mode, **settings)
    return net.model(net.add("Conv", y, net.weight(8, channels, 1, 1, scale=channels**-0.5), net.weight(8)))


@pytest.mark.concurrent
@pytest.mark.parametrize("precision", HALF_TYPES)
@pytest.mark.parametrize("case", [*PICTURES, *OTHERS], ids=str)
def test_resize(device: Device, case: tuple, precision: str) -> str:
    error, profile = compare(device, network(*case), precision)
    line = f"{case} {precision}: relative L2 {error:.1e}, limit {LIMITS[precision]:.0e}"
    assert error <= LIMITS[precision], f"{line}: {profile[-1200:]}"
    wanted = "cuda_resize_nhwc" if case in PICTURES else "cuda_resize "
    assert wanted in profile, f"{line}: not by {wanted}: {profile[-1200:]}"
    return line
