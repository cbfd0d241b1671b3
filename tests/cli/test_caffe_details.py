"""What Caffe's layers do at their edges: parameters in rare forms, ties, empty results, arrangements of the forks."""

import pathlib

import numpy as np
import pytest
from caffe_net import caffemodel, inputs_text, layer, run
from test_caffe_layers import conv, lstm, pool, sigmoid, softmax, w

R = np.random.default_rng(5)


def image(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype("f4")


def one(folder: pathlib.Path, kind: str, more: str, *bottoms: np.ndarray, blobs: tuple = (), tops: str = "y") -> dict[str, np.ndarray]:
    """The tops of one layer; its bottoms are b0, b1, ..."""
    feeds = {f"b{i}": a for i, a in enumerate(bottoms)}
    text = inputs_text({k: a.shape for k, a in feeds.items()}) + layer(kind, " ".join(feeds), tops, more)
    return run(folder, text, caffemodel({"layer": list(blobs)}) if blobs else caffemodel({"other": []}), feeds)


def near(found: np.ndarray, wanted: np.ndarray) -> None:
    wanted = np.asarray(wanted)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * max(1, np.abs(wanted).max(initial=0)))


# ---- windows ----


def scatter_deconv(x: np.ndarray, a: np.ndarray, b: np.ndarray, stride: list, pad: list, dilation: list, groups: int) -> np.ndarray:
    """Any number of spatial dimensions: every input pixel adds its weights at its place in the output."""
    spatial = x.ndim - 2
    full = [stride[d] * (x.shape[2 + d] - 1) + dilation[d] * (a.shape[2 + d] - 1) + 1 for d in range(spatial)]
    per_in, per_out = x.shape[1] // groups, a.shape[1]
    y = np.zeros((x.shape[0], per_out * groups, *full))
    for at in np.ndindex(*x.shape[2:]):
        for tap in np.ndindex(*a.shape[2:]):
            to = tuple(stride[d] * at[d] + dilation[d] * tap[d] for d in range(spatial))
            for g in range(groups):
                source, channels = x[(slice(None), slice(g * per_in, (g + 1) * per_in), *at)], slice(g * per_out, (g + 1) * per_out)
                y[(slice(None), channels, *to)] += source @ a[(slice(g * per_in, (g + 1) * per_in), slice(None), *tap)]
    y = y[(slice(None), slice(None), *(slice(pad[d], full[d] - pad[d]) for d in range(spatial)))]
    return y + b.reshape(-1, *[1] * spatial)


@pytest.mark.parametrize(
    ("shape", "kernel", "more", "stride", "pad", "dilation", "groups"),
    [
        ((2, 4, 5, 6), (3, 2), "num_output: 6 kernel_h: 3 kernel_w: 2 stride_h: 1 stride_w: 3 pad_h: 1 pad_w: 0", [1, 3], [1, 0], [1, 1], 1),
        ((1, 4, 5, 4), (3, 3), "num_output: 6 kernel_size: 3 stride: 2 pad: 2 dilation: 2", [2, 2], [2, 2], [2, 2], 1),
        ((1, 4, 5, 4), (3, 2), "num_output: 6 kernel_size: 3 kernel_size: 2 dilation: 1 dilation: 3 group: 2", [1, 1], [0, 0], [1, 3], 2),
        ((1, 4, 3, 4, 2), (2, 2, 2), "num_output: 6 kernel_size: 2 stride: 2 pad: 1", [2] * 3, [1] * 3, [1] * 3, 1),
    ],
)
def test_deconvolution(tmp_path: pathlib.Path, shape: tuple, kernel: tuple, more: str, stride: list, pad: list, dilation: list, groups: int) -> None:
    x, a, b = image(*shape), w(4, 6 // groups, *kernel), w(6)
    wanted = scatter_deconv(x.astype("f8"), a, b, stride, pad, dilation, groups)
    near(one(tmp_path, "Deconvolution", f"convolution_param {{ {more} }}", x, blobs=(a, b))["y"], wanted)


def test_convolution_of_two_bottoms_shares_its_weights(tmp_path: pathlib.Path) -> None:
    x, z, a, b = image(2, 3, 6, 5), image(2, 3, 6, 5), w(4, 3, 3, 3), w(4)
    found = one(tmp_path, "Convolution", "convolution_param { num_output: 4 kernel_size: 3 }", x, z, blobs=(a, b), tops="y z")
    near(found["y"], conv(x.astype("f8"), a, b))
    near(found["z"], conv(z.astype("f8"), a, b))


def test_parameters_that_do_not_change_results(tmp_path: pathlib.Path) -> None:
    x, a, b = image(2, 3, 6, 5), w(4, 3, 3, 3), w(4)
    more = 'param { name: "shared" lr_mult: 1 decay_mult: 1e-3 } param { lr_mult: 2 } loss_weight: 0 propagate_down: 1 convolution_param { num_output: 0x4 kernel_size: 3 bias_term: 1 engine: CAFFE weight_filler { type: "gaussian" std: .01f variance_norm: FAN_IN } bias_filler < type: "constant" value: -1e-2 > }'
    near(one(tmp_path, "Convolution", more, x, blobs=(a, b))["y"], conv(x.astype("f8"), a, b))


@pytest.mark.parametrize("kind", ["MAX", "AVE"])
@pytest.mark.parametrize(("size", "k", "s", "p"), [((7, 6), (3, 2), (3, 2), (1, 1)), ((5, 9), (3, 3), (1, 3), (1, 0)), ((8, 8), (2, 3), (3, 1), (0, 2)), ((4, 4), (4, 4), (3, 3), (3, 3))])
def test_pooling(tmp_path: pathlib.Path, kind: str, size: tuple, k: tuple, s: tuple, p: tuple) -> None:
    x = image(2, 3, *size) - 2  # mostly negative: a pad of 0 would show in a maximum
    number = {"MAX": 0, "AVE": 1}[kind]  # an enumeration's number is as good as its name
    more = f"pooling_param {{ pool: {number} kernel_h: {k[0]} kernel_w: {k[1]} stride_h: {s[0]} stride_w: {s[1]} pad_h: {p[0]} pad_w: {p[1]} }}"
    near(one(tmp_path, "Pooling", more, x)["y"], pool(x.astype("f8"), k, s, p, kind))


def test_pooling_mask_is_the_index_in_the_image(tmp_path: pathlib.Path) -> None:
    x = image(2, 3, 5, 6)
    found = one(tmp_path, "Pooling", "pooling_param { kernel_size: 3 stride: 2 pad: 1 }", x, tops="y m")
    assert found["m"].shape == found["y"].shape
    np.testing.assert_array_equal(np.take_along_axis(x.reshape(2, 3, -1), found["m"].reshape(2, 3, -1).astype(int), -1).reshape(found["y"].shape), found["y"])


def test_global_pooling_ignores_the_rounding(tmp_path: pathlib.Path) -> None:
    x = image(2, 3, 5, 6)
    near(one(tmp_path, "Pooling", "pooling_param { pool: AVE global_pooling: true stride: 1 round_mode: FLOOR }", x)["y"], x.mean((2, 3), keepdims=True))


def test_im2col_dilated_and_uneven(tmp_path: pathlib.Path) -> None:
    x = image(1, 2, 7, 8)
    found = one(tmp_path, "Im2col", "convolution_param { kernel_h: 2 kernel_w: 3 stride_h: 1 stride_w: 2 pad_h: 1 pad_w: 0 dilation: 2 }", x)["y"]
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (0, 0)])
    taps = [padded[:, :, 2 * i : 2 * i + 7, 2 * j : 2 * j + 3 : 2] for i in range(2) for j in range(3)]
    taps = [t[..., : min(t.shape[-1], 2)] for t in taps]
    np.testing.assert_array_equal(found, np.stack(taps, 2).reshape(1, 12, 7, 2))


def test_spp_of_one_level_is_a_pool_of_four_dimensions(tmp_path: pathlib.Path) -> None:
    x = image(2, 3, 5, 6)
    near(one(tmp_path, "SPP", "spp_param { pyramid_height: 1 pool: MAX }", x)["y"], x.max((2, 3), keepdims=True))


def test_spp_of_averages(tmp_path: pathlib.Path) -> None:
    x = image(2, 3, 8, 8)
    parts = [x.reshape(2, 3, n, 8 // n, n, 8 // n).mean((3, 5)).reshape(2, -1) for n in (1, 2, 4)]
    near(one(tmp_path, "SPP", "spp_param { pyramid_height: 3 pool: AVE }", x)["y"], np.concatenate(parts, 1))


# ---- normalizations ----


def test_batch_norm_by_the_batch(tmp_path: pathlib.Path) -> None:
    x = image(4, 3, 5, 6)
    found = one(tmp_path, "BatchNorm", "batch_norm_param { use_global_stats: false eps: 0.01 }", x, blobs=(w(3), np.abs(w(3)), np.ones(1)))["y"]
    mean, variance = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
    near(found, (x - mean) / np.sqrt(variance + 0.01))


def test_batch_norm_of_a_matrix(tmp_path: pathlib.Path) -> None:
    x, m, v = image(4, 3), w(3), np.abs(w(3)) + 0.5
    near(one(tmp_path, "BatchNorm", "", x, blobs=(m, v, np.full(1, 2.0)))["y"], (x - m / 2) / np.sqrt(v / 2 + 1e-5))


def test_lrn_within_a_channel_has_no_k(tmp_path: pathlib.Path) -> None:
    x = image(1, 2, 6, 7)
    more = "lrn_param { local_size: 5 alpha: 2 beta: 0.5 k: 7 norm_region: WITHIN_CHANNEL }"
    mean = pool(x.astype("f8") ** 2, (5, 5), (1, 1), (2, 2), "AVE")
    near(one(tmp_path, "LRN", more, x)["y"], x / np.sqrt(1 + 2 * mean))


def test_mvn_of_a_constant_channel_is_zero(tmp_path: pathlib.Path) -> None:
    x = np.full((1, 2, 3, 3), 2, "f4")
    np.testing.assert_array_equal(one(tmp_path, "MVN", "", x)["y"], np.zeros_like(x))


def test_scale_by_a_scalar_bottom_and_negative_axes(tmp_path: pathlib.Path) -> None:
    x, s = image(2, 3, 4, 5), image(4, 5)
    near(one(tmp_path, "Scale", "scale_param { axis: -2 }", x, s)["y"], x * s)
    b = w(4)
    near(one(tmp_path, "Bias", "bias_param { axis: -2 num_axes: 1 }", x, blobs=(b,))["y"], x + b[:, None])


# ---- pointwise ----


@pytest.mark.parametrize(
    ("kind", "more", "wanted"),
    [
        ("Log", "", lambda x: np.log(x)),
        ("Log", "log_param { base: 0.5 shift: 1 }", lambda x: np.log(x + 1) / np.log(0.5)),
        ("Exp", "exp_param { base: 0.25 scale: -1 }", lambda x: 0.25**-x),
        ("Power", "power_param { power: 0 scale: 3 }", lambda x: np.ones_like(x)),
        ("Power", "power_param { power: -1.5 shift: 0.5 }", lambda x: (x + 0.5) ** -1.5),
        ("Power", "power_param { scale: 0 shift: 4 power: 2 }", lambda x: np.full_like(x, 16)),
        ("ELU", "", lambda x: x),
        ("Swish", "", lambda x: x * sigmoid(x)),
        ("BNLL", "", lambda x: np.log1p(np.exp(x))),
        ("ReLU", "relu_param { negative_slope: -0.5 engine: CUDNN }", lambda x: x),
        ("Softmax", "softmax_param { axis: 0 }", lambda x: softmax(x, 0)),
    ],
)
def test_pointwise(tmp_path: pathlib.Path, kind: str, more: str, wanted) -> None:
    x = np.abs(image(2, 3, 4)) + np.float32(0.1)
    near(one(tmp_path, kind, more, x)["y"], wanted(x.astype("f8")))


def test_relu_with_a_negative_slope_below_zero(tmp_path: pathlib.Path) -> None:
    x = image(3, 40)
    near(one(tmp_path, "ReLU", "relu_param { negative_slope: -0.5 }", x)["y"], np.maximum(x, 0) - 0.5 * np.minimum(x, 0))


def test_large_numbers_stay_finite(tmp_path: pathlib.Path) -> None:
    x = np.array([[-200, -90, 0, 90, 200]], "f4")
    np.testing.assert_allclose(one(tmp_path, "BNLL", "", x)["y"], np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x.astype("f8")))), rtol=1e-6, atol=1e-30)
    np.testing.assert_allclose(one(tmp_path, "Sigmoid", "", x)["y"], [[0, 0, 0.5, 1, 1]], atol=1e-30)
    near(one(tmp_path, "Softmax", "", x)["y"], softmax(x.astype("f8"), 1))


def test_threshold_is_strict(tmp_path: pathlib.Path) -> None:
    x = np.array([[0.5, 0.25, np.nextafter(np.float32(0.5), np.float32(1))]], "f4")
    np.testing.assert_array_equal(one(tmp_path, "Threshold", "threshold_param { threshold: 0.5 }", x)["y"], [[0, 0, 1]])


def test_eltwise_reads_a_bottom_twice(tmp_path: pathlib.Path) -> None:
    x = image(2, 5)
    text = inputs_text({"x": x.shape}) + layer("Eltwise", "x x x", "y", "eltwise_param { coeff: 1 coeff: -3 coeff: 0.5 }")
    near(run(tmp_path, text, None, {"x": x})["y"], -1.5 * x)


# ---- reductions and movement ----


def test_arg_max_of_equal_elements_takes_the_last(tmp_path: pathlib.Path) -> None:
    x = np.array([[1, 3, 3, 0], [2, 2, 2, 2]], "f4")
    np.testing.assert_array_equal(one(tmp_path, "ArgMax", "argmax_param { top_k: 2 }", x)["y"], [[[2, 1]], [[3, 2]]])


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize(("name", "of"), [("SUM", np.sum), ("ASUM", lambda v, a: np.abs(v).sum(a)), ("SUMSQ", lambda v, a: (v**2).sum(a)), ("MEAN", np.mean)])
def test_reduction(tmp_path: pathlib.Path, axis: int, name: str, of) -> None:
    x = image(2, 3, 4)
    found = one(tmp_path, "Reduction", f"reduction_param {{ operation: {name} axis: {axis} coeff: -0.5 }}", x)["y"]
    near(found, -0.5 * of(x.astype("f8"), tuple(range(axis % 3, 3))))


def test_filter_that_keeps_nothing(tmp_path: pathlib.Path) -> None:
    x, s = image(3, 4), np.zeros((3, 1), "f4")
    assert one(tmp_path, "Filter", "", x, s)["y"].shape == (0, 4)


def test_filter_of_several_bottoms(tmp_path: pathlib.Path) -> None:
    x, z, s = image(3, 4), image(3, 2, 2), np.array([1, 0, 2], "f4")
    found = one(tmp_path, "Filter", "", x, z, s, tops="y z")
    np.testing.assert_array_equal(found["y"], x[[0, 2]])
    np.testing.assert_array_equal(found["z"], z[[0, 2]])


def test_crop_of_one_offset_for_all_axes(tmp_path: pathlib.Path) -> None:
    x, like = image(2, 4, 6, 7), image(1, 2, 3, 4)
    np.testing.assert_array_equal(one(tmp_path, "Crop", "crop_param { axis: 1 offset: 2 }", x, like)["y"], x[:, 2:4, 2:5, 2:6])
    np.testing.assert_array_equal(one(tmp_path, "Crop", "crop_param { axis: -1 }", x, like)["y"], x[..., :4])


def test_slice_along_the_batch_by_negative_axis(tmp_path: pathlib.Path) -> None:
    x = image(3, 2, 5)
    found = one(tmp_path, "Slice", "slice_param { axis: -3 slice_point: [1] }", x, tops="y z")
    np.testing.assert_array_equal(found["y"], x[:1])
    np.testing.assert_array_equal(found["z"], x[1:])


@pytest.mark.parametrize(("more", "shape"), [("axis: 2", (2, 3, 20)), ("axis: 0", (120,)), ("axis: -2 end_axis: -1", (2, 3, 20)), ("axis: 0 end_axis: 1", (6, 4, 5))])
def test_flatten(tmp_path: pathlib.Path, more: str, shape: tuple) -> None:
    x = image(2, 3, 4, 5)
    np.testing.assert_array_equal(one(tmp_path, "Flatten", f"flatten_param {{ {more} }}", x)["y"], x.reshape(shape))


@pytest.mark.parametrize(
    ("more", "shape"),
    [
        ("shape { dim: 0 dim: -1 } axis: 1", (2, 3, 20)),
        ("shape { dim: 5 dim: -1 } axis: -3 num_axes: 2", (2, 3, 5, 4)),  # -1 is behind the last axis
        ("shape { dim: 2 dim: 2 } axis: 2 num_axes: 1", (2, 3, 2, 2, 5)),
        ("shape {} axis: 0 num_axes: 0", (2, 3, 4, 5)),
        ("shape { dim: 120 }", (120,)),
    ],
)
def test_reshape(tmp_path: pathlib.Path, more: str, shape: tuple) -> None:
    x = image(2, 3, 4, 5)
    np.testing.assert_array_equal(one(tmp_path, "Reshape", f"reshape_param {{ {more} }}", x)["y"], x.reshape(shape))


def darknet_reorg(x: np.ndarray, stride: int) -> np.ndarray:
    """As YOLO's ports have it: the image is read as one of C / stride^2 channels and sides times |stride|."""
    n, c, h, v = x.shape
    few = c // stride**2
    wide = x.reshape(n, few, h * stride, v * stride)
    y = np.empty_like(x)
    for k in range(c):
        i, j = divmod(k // few, stride)
        y[:, k] = wide[:, k % few, i::stride, j::stride]
    return y.reshape(n, c * stride**2, h // stride, v // stride)


@pytest.mark.parametrize(("shape", "stride"), [((2, 8, 4, 6), 2), ((1, 9, 3, 6), 3)])
def test_reorg_arranges_as_yolo(tmp_path: pathlib.Path, shape: tuple, stride: int) -> None:
    x = image(*shape)
    np.testing.assert_array_equal(one(tmp_path, "Reorg", f"reorg_param {{ stride: {stride} }}", x)["y"], darknet_reorg(x, stride))


@pytest.mark.parametrize(
    ("more", "size"),
    [
        ("upsample_h: 9 upsample_w: 11", (9, 11)),
        ("scale: 2 pad_out_h: true", (9, 12)),
        ("scale: 2 pad_out_w: true", (10, 11)),
        ("scale_h: 2 scale_w: 3", (10, 18)),
    ],
)
def test_upsample_of_segnet(tmp_path: pathlib.Path, more: str, size: tuple) -> None:
    x, mask = image(1, 2, 5, 6), np.stack([R.permutation(9 * 11)[:30] for _ in range(2)]).reshape(1, 2, 5, 6).astype("f4")
    wanted = np.zeros((2, size[0] * size[1]), "f4")
    np.put_along_axis(wanted, mask.reshape(2, -1).astype(int), x.reshape(2, -1), -1)
    np.testing.assert_array_equal(one(tmp_path, "Upsample", f"upsample_param {{ {more} }}", x, mask)["y"], wanted.reshape(1, 2, *size))


def test_dummy_data_in_the_old_form(tmp_path: pathlib.Path) -> None:
    x = image(2, 3, 4, 5)
    text = inputs_text({"x": x.shape})
    text += layer("DummyData", "", "d e", "dummy_data_param { num: 2 channels: [3, 3] height: 4 width: 5 data_filler { value: 2 } data_filler { value: -1 } }", "d")
    text += layer("Eltwise", "x d e", "y", "eltwise_param { operation: PROD }", "m")
    near(run(tmp_path, text, None, {"x": x})["y"], -2 * x)


# ---- recurrence ----


def test_rnn_with_static_input_and_exposed_state(tmp_path: pathlib.Path) -> None:
    x, static, start = image(5, 2, 3), image(2, 4), image(1, 2, 6)
    cont = np.array([[1, 0], [1, 1], [0, 1], [1, 1], [1, 0]], "f4")
    wx, b, ws, wh, wo, bo = w(6, 3), w(6), w(6, 4), w(6, 6), w(6, 6), w(6)
    found = one(tmp_path, "RNN", "recurrent_param { num_output: 6 expose_hidden: true }", x, cont, static, start, blobs=(wx, b, ws, wh, wo, bo), tops="y h")
    h, out = start[0].astype("f8"), []
    for t in range(5):
        h = np.tanh((h * cont[t][:, None]) @ wh.T + x[t] @ wx.T + b + static @ ws.T)
        out.append(np.tanh(h @ wo.T + bo))
    near(found["y"], np.stack(out))
    near(found["h"], h[None])


def test_lstm_with_static_input_and_exposed_state(tmp_path: pathlib.Path) -> None:
    x, static, h, c = image(4, 2, 3, 2), image(2, 5), image(1, 2, 6), image(1, 2, 6)
    cont = np.array([[1, 0], [1, 1], [0, 1], [1, 1]], "f4")
    blobs = w(24, 6), w(24), w(24, 5), w(24, 6)
    found = one(tmp_path, "LSTM", "recurrent_param { num_output: 6 expose_hidden: true }", x, cont, static, h, c, blobs=blobs, tops="y h c")
    wanted = lstm(x.reshape(4, 2, 6).astype("f8"), cont, list(blobs), static.astype("f8"), h.astype("f8"), c.astype("f8"))
    for top, value in zip(("y", "h", "c"), wanted):
        near(found[top], value)
