"""Resize, grid sample, NMS, fill, quantization and assertion layers."""

import carnot as trt
import numpy as np
import pytest
from reference import F, close, floats, needs_torch, t64

rng = np.random.default_rng(7)


@needs_torch
@pytest.mark.parametrize("mode, torch_mode", [("NEAREST", "nearest"), ("LINEAR", "bilinear"), ("CUBIC", "bicubic")])
def test_resize(net, mode, torch_mode):
    x = floats(1, 2, 5, 6)
    layer = net.network.add_resize(net.input(x))
    layer.shape, layer.resize_mode = (1, 2, 10, 9), trt.InterpolationMode[mode]
    if mode != "NEAREST":
        layer.coordinate_transformation = trt.ResizeCoordinateTransformation.HALF_PIXEL
    (y,) = net.run(layer.get_output(0))
    align = {} if mode == "NEAREST" else {"align_corners": False}
    close(y, F.interpolate(t64(x), (10, 9), mode=torch_mode, **align), 1e-4)


def test_resize_by_scales_and_by_tensor(net):
    x = floats(1, 1, 4, 4)
    tx = net.input(x)
    scaled, sized = net.network.add_resize(tx), net.network.add_resize(tx)
    scaled.scales = [1, 1, 2, 2]
    sized.set_input(1, net.constant(np.array([1, 1, 8, 8], np.int32)))
    a, b = net.run(scaled.get_output(0), sized.get_output(0))
    close(a, x.repeat(2, 2).repeat(2, 3))
    close(b, a)


@needs_torch
def test_grid_sample(net):
    x, grid = floats(1, 2, 5, 5), rng.uniform(-1.2, 1.2, (1, 3, 4, 2)).astype(np.float32)
    layer = net.network.add_grid_sample(net.input(x), net.input(grid))
    layer.sample_mode, layer.align_corners = trt.SampleMode.CLAMP, True
    (y,) = net.run(layer.get_output(0))
    close(y, F.grid_sample(t64(x), t64(grid), "bilinear", "border", True), 1e-4)


def test_nms(net):
    boxes = np.array([[[0, 0, 1, 1], [0, 0, 1, 1.1], [3, 3, 4, 4]]], np.float32)
    scores = np.array([[[0.9], [0.8], [0.7]]], np.float32)
    layer = net.network.add_nms(net.input(boxes), net.input(scores), net.constant(np.array(10, np.int32)))
    layer.set_input(3, net.constant(np.array(0.5, np.float32)))
    chosen, count = net.run(layer.get_output(0), layer.get_output(1))
    assert chosen.tolist() == [[0, 0, 0], [0, 0, 2]] and count == 2 and count.dtype == np.int32


def test_fill(net):
    line = net.network.add_fill((3, 4), trt.FillOperation.LINSPACE)
    line.alpha = 1.5
    line.set_input(2, net.constant(np.array([10, 0.5], np.float32)))
    uniform = net.network.add_fill((50, 40), trt.FillOperation.RANDOM_UNIFORM)
    uniform.alpha, uniform.beta = 2.0, 4.0
    normal = net.network.add_fill((50, 40), trt.FillOperation.RANDOM_NORMAL)
    normal.alpha, normal.beta = 1.0, 3.0
    a, b, c = net.run(line.get_output(0), uniform.get_output(0), normal.get_output(0))
    close(a, 1.5 + 10 * np.arange(3)[:, None] + 0.5 * np.arange(4))
    assert 2 <= b.min() and b.max() < 4 and abs(b.mean() - 3) < 0.1
    assert abs(c.mean() - 1) < 0.3 and abs(c.std() - 3) < 0.3


@pytest.mark.parametrize("per_channel", [False, True])
def test_quantize_dequantize(net, per_channel):
    x = floats(2, 3, 4) * 20
    scale = np.array([0.1, 0.2, 0.3], np.float32) if per_channel else np.array(0.15, np.float32)
    ts = net.constant(scale)
    quantize = net.network.add_quantize(net.input(x), ts)
    quantize.axis = 1
    back = net.network.add_dequantize(quantize.get_output(0), ts)
    back.axis = 1
    assert quantize.get_output(0).dtype == trt.int8
    (y,) = net.run(back.get_output(0))
    wide = scale.reshape(1, 3, 1) if per_channel else scale
    close(y, np.clip(np.rint(x / wide), -128, 127) * wide)


def test_assertion(net):
    x = net.input(floats(2, 3))
    net.network.add_assertion(net.constant(np.array([False])), "the width must be even")
    net.network.mark_output(net.network.add_identity(x).get_output(0))
    assert net.builder.build_serialized_network(net.network, net.config) is None
    assert any("the width must be even" in m for m in net.logger.errors())
