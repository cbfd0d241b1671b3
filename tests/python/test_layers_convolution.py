"""Layers with sliding windows: convolution, deconvolution, pooling, LRN; fully connected; padding."""

import carnot as trt
import pytest
from reference import F, close, floats, needs_torch, t64


@needs_torch
def test_convolution_with_everything(net):
    x, w, b = floats(2, 6, 13, 11), floats(8, 3, 3, 2), floats(8)
    layer = net.network.add_convolution_nd(net.input(x), 8, (3, 2), trt.Weights(w), trt.Weights(b))
    layer.stride_nd, layer.dilation_nd, layer.num_groups = (2, 1), (1, 2), 2
    layer.pre_padding, layer.post_padding = (1, 0), (2, 1)
    assert layer.get_output(0).shape == (2, 8, 7, 10)
    assert (layer.kernel == w.reshape(-1)).all() and layer.stride == (2, 1)
    (y,) = net.run(layer.get_output(0))
    close(y, F.conv2d(F.pad(t64(x), (0, 1, 1, 2)), t64(w), t64(b), (2, 1), 0, (1, 2), 2))


@needs_torch
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolution_ranks(net, rank):
    x, w = floats(1, 4, *[7] * rank), floats(5, 4, *[3] * rank)
    layer = net.network.add_convolution_nd(net.input(x), 5, [3] * rank, w)
    layer.padding_nd = [1] * rank
    (y,) = net.run(layer.get_output(0))
    close(y, getattr(F, f"conv{rank}d")(t64(x), t64(w), padding=1))


@needs_torch
def test_convolution_same_upper(net):
    x, w = floats(1, 3, 10, 10), floats(4, 3, 3, 3)
    layer = net.network.add_convolution_nd(net.input(x), 4, (3, 3), w)
    layer.stride_nd, layer.padding_mode = (2, 2), trt.PaddingMode.SAME_UPPER
    (y,) = net.run(layer.get_output(0))
    close(y, F.conv2d(F.pad(t64(x), (0, 1, 0, 1)), t64(w), stride=2))


@needs_torch
def test_convolution_kernel_as_tensor(net):
    x, w = floats(1, 3, 8, 8), floats(4, 3, 3, 3)
    layer = net.network.add_convolution_nd(net.input(x), 4, (3, 3), trt.Weights())
    layer.set_input(1, net.input(w))
    (y,) = net.run(layer.get_output(0))
    close(y, F.conv2d(t64(x), t64(w)))


@needs_torch
def test_deconvolution(net):
    x, w, b = floats(1, 4, 5, 6), floats(4, 3, 3, 3), floats(6)
    layer = net.network.add_deconvolution_nd(net.input(x), 6, (3, 3), w, b)
    layer.num_groups, layer.stride_nd, layer.padding_nd = 2, (2, 2), (1, 1)
    (y,) = net.run(layer.get_output(0))
    close(y, F.conv_transpose2d(t64(x), t64(w), t64(b), 2, 1, groups=2))


@needs_torch
def test_fully_connected(net):
    x, w, b = floats(2, 3, 4, 5), floats(7, 60), floats(7)
    (y,) = net.run(net.network.add_fully_connected(net.input(x), 7, w, b).get_output(0))
    close(y, (t64(x).reshape(2, 60) @ t64(w).T + t64(b)).reshape(2, 7, 1, 1))


@needs_torch
@pytest.mark.parametrize("kind", ["MAX", "AVERAGE", "MAX_AVERAGE_BLEND"])
def test_pooling(net, kind):
    x = floats(1, 3, 9, 9)
    layer = net.network.add_pooling_nd(net.input(x), trt.PoolingType[kind], (3, 3))
    layer.stride_nd, layer.padding_nd, layer.blend_factor = (2, 2), (1, 1), 0.25
    (y,) = net.run(layer.get_output(0))
    most = F.max_pool2d(t64(x), 3, 2, 1)
    mean = F.avg_pool2d(t64(x), 3, 2, 1, count_include_pad=False)
    close(y, {"MAX": most, "AVERAGE": mean, "MAX_AVERAGE_BLEND": 0.25 * mean + 0.75 * most}[kind])


@needs_torch
def test_pooling_rounds_up_and_counts_padding(net):
    x = floats(1, 2, 8, 8)
    layer = net.network.add_pooling(net.input(x), trt.PoolingType.AVERAGE, trt.DimsHW(3, 3))
    layer.stride, layer.padding, layer.average_count_excludes_padding = (2, 2), (1, 1), False
    (y,) = net.run(layer.get_output(0))
    close(y, F.avg_pool2d(t64(x), 3, 2, 1))


@needs_torch
def test_lrn(net):
    x = floats(1, 7, 4, 4)
    (y,) = net.run(net.network.add_lrn(net.input(x), 5, 0.001, 0.75, 2.0).get_output(0))
    close(y, F.local_response_norm(t64(x), 5, 0.001, 0.75, 2.0))


@needs_torch
def test_padding_crops_too(net):
    x = floats(1, 2, 5, 6)
    (y,) = net.run(net.network.add_padding_nd(net.input(x), (1, -2), (2, 1)).get_output(0))
    close(y, F.pad(t64(x), (-2, 1, 1, 2)))
