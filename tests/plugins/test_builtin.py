"""The built-in plugins against their documented formulas in NumPy, double precision."""
import math
import pathlib

import numpy as np
import onnx
import pytest
from harness import plugin, refusal
from onnx import helper
from onnx.reference import ReferenceEvaluator

RNG = np.random.default_rng(7)


def numbers(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def near(found: np.ndarray, wanted: np.ndarray, tolerance: float = 2e-5) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)


def normalized(x: np.ndarray, axes: tuple, eps: float) -> np.ndarray:
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def by_channel(v: np.ndarray, rank: int) -> np.ndarray:
    return v.astype(np.float64).reshape([1, -1] + [1] * (rank - 2))


def onnx_op(op: str, inputs: dict, attrs: dict, opset: int = 21) -> np.ndarray:
    """ONNX's own reference implementation."""
    infos = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in inputs.items()]
    node = helper.make_node(op, list(inputs), ["y"], **attrs)
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name="y")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return ReferenceEvaluator(proto).run(None, inputs)[0]


# ---- normalization ----


@pytest.mark.parametrize("shape", [(2, 6, 5), (3, 6, 4, 5), (2, 6, 3, 2, 4), (1, 6, 1, 1)])
@pytest.mark.parametrize("groups", [1, 3, 6])
def test_group_norm(tmp_path: pathlib.Path, shape: tuple, groups: int) -> None:
    x, scale, bias = numbers(*shape) * 3 + 1000, numbers(6), numbers(6)
    (y,) = plugin(tmp_path, "GroupNormalizationPlugin", {"x": x, "scale": scale, "bias": bias}, eps=1e-3, num_groups=groups)
    grouped = normalized(x.reshape(shape[0], groups, -1), (2,), 1e-3).reshape(shape)
    near(y, grouped * by_channel(scale, len(shape)) + by_channel(bias, len(shape)), 3e-4)


def test_group_norm_of_large_halves(tmp_path: pathlib.Path) -> None:
    x = (65000 + 100 * numbers(1, 4, 8, 8)).astype(np.float16)
    one, zero = np.ones(4, np.float16), np.zeros(4, np.float16)
    (y,) = plugin(tmp_path, "GroupNormalizationPlugin", {"x": x, "scale": one, "bias": zero}, num_groups=2)
    assert y.dtype == np.float16
    near(y, normalized(x.reshape(1, 2, -1), (2,), 1e-5).reshape(x.shape), 2e-3)


@pytest.mark.parametrize("version", ["1", "2", "3"])
@pytest.mark.parametrize("shape", [(2, 3, 7), (2, 3, 4, 5), (1, 3, 2, 3, 4)])
def test_instance_norm(tmp_path: pathlib.Path, version: str, shape: tuple) -> None:
    x, scale, bias = numbers(*shape), numbers(3), numbers(3)
    fields = {"epsilon": 1e-3, "scales": scale, "bias": bias, "relu": 1, "alpha": 0.25}
    (y,) = plugin(tmp_path, "InstanceNormalization_TRT", {"x": x}, version=version, **fields)
    wanted = normalized(x, tuple(range(2, len(shape))), 1e-3)
    wanted = wanted * by_channel(scale, len(shape)) + by_channel(bias, len(shape))
    near(y, np.where(wanted < 0, 0.25 * wanted, wanted))


@pytest.mark.parametrize("across", [0, 1])
@pytest.mark.parametrize("shared", [0, 1])
def test_normalize(tmp_path: pathlib.Path, across: int, shared: int) -> None:
    x = numbers(2, 5, 3, 4)
    weights = numbers(1 if shared else 5)
    fields = {"weights": weights, "acrossSpatial": across, "channelShared": shared, "nbWeights": len(weights), "eps": 1e-6}
    (y,) = plugin(tmp_path, "Normalize_TRT", {"x": x}, **fields)
    wide = x.astype(np.float64)
    norm = np.sqrt((wide**2).sum((1, 2, 3) if across else 1, keepdims=True) + 1e-6)
    near(y, wide / norm * by_channel(weights, 4))


# ---- BERT ----


def layer_norm(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    trail = [-1] + [1] * (x.ndim - 3)
    return normalized(x, tuple(range(2, x.ndim)), 0) * gamma.reshape(trail) + beta.reshape(trail)


@pytest.mark.parametrize("version", ["1", "2", "5", "6"])
@pytest.mark.parametrize("with_bias", [False, True])
def test_skip_layer_norm(tmp_path: pathlib.Path, version: str, with_bias: bool) -> None:
    x, skip, gamma, beta, bias = numbers(6, 2, 8, 1, 1), numbers(6, 2, 8, 1, 1), numbers(8), numbers(8), numbers(8)
    fields = {"type_id": 0, "ld": 8, "beta": beta, "gamma": gamma} | ({"bias": bias} if with_bias else {})
    (y,) = plugin(tmp_path, "CustomSkipLayerNormPluginDynamic", {"x": x, "skip": skip}, version=version, **fields)
    total = x.astype(np.float64) + skip + (bias.reshape(-1, 1, 1) if with_bias else 0)
    near(y, layer_norm(total, gamma, beta))


@pytest.mark.parametrize("version", ["1", "2", "4"])
@pytest.mark.parametrize("masked", [False, True])
def test_attention(tmp_path: pathlib.Path, version: str, masked: bool) -> None:
    length, batch, heads, size = 7, 3, 2, 4
    x = numbers(length, batch, 3 * heads * size, 1, 1)
    valid = np.array([7, 3, 1], np.int32)
    inputs = {"x": x} | ({"valid": valid} if masked else {})
    fields = {"type_id": 0, "hidden_size": heads * size, "num_heads": heads, "has_mask": int(masked)}
    (y,) = plugin(tmp_path, "CustomQKVToContextPluginDynamic", inputs, version=version, **fields)
    q, k, v = x.astype(np.float64).reshape(length, batch, heads, 3, size).transpose(3, 1, 2, 0, 4)
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(size)
    if masked:
        scores = np.where(np.arange(length) < valid[:, None, None, None], scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    context = weights / weights.sum(-1, keepdims=True) @ v
    near(y, context.transpose(2, 0, 1, 3).reshape(length, batch, heads * size, 1, 1))


def test_skip_layer_norm_of_tokens(tmp_path: pathlib.Path) -> None:
    x, skip, gamma, beta = numbers(9, 8, 1, 1), numbers(9, 8, 1, 1), numbers(8), numbers(8)
    (y,) = plugin(tmp_path, "CustomSkipLayerNormPluginDynamic", {"x": x, "skip": skip}, version="2", type_id=0, beta=beta, gamma=gamma)
    total = (x.astype(np.float64) + skip)[:, None, :, 0, 0]
    near(y, layer_norm(total, gamma, beta)[:, 0, :, None, None])


@pytest.mark.parametrize("version", ["2", "5"])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_of_sequences(tmp_path: pathlib.Path, version: str, masked: bool) -> None:
    heads, size, ends = 2, 4, [0, 3, 4, 9]
    x = numbers(9, 3 * heads * size, 1, 1)
    inputs = {"x": x} | ({"mask": np.zeros(1, np.int32)} if masked else {})
    inputs |= {"ends": np.array(ends, np.int32), "longest": np.zeros(5, np.int32)}
    fields = {"type_id": 0, "hidden_size": heads * size, "num_heads": heads, "has_mask": int(masked), "var_seqlen": 1}
    (y,) = plugin(tmp_path, "CustomQKVToContextPluginDynamic", inputs, version=version, **fields)
    wanted = np.zeros((9, heads, size))
    for first, end in zip(ends, ends[1:]):
        q, k, v = x[first:end, :, 0, 0].astype(np.float64).reshape(-1, heads, 3, size).transpose(2, 1, 0, 3)
        weights = np.exp(q @ k.transpose(0, 2, 1) / math.sqrt(size))
        wanted[first:end] = (weights / weights.sum(-1, keepdims=True) @ v).transpose(1, 0, 2)
    near(y, wanted.reshape(9, -1, 1, 1))


@pytest.mark.parametrize("version", ["2", "5"])
def test_embedding_of_sequences(tmp_path: pathlib.Path, version: str) -> None:
    words, types, positions, gamma, beta = numbers(11, 6), numbers(2, 6), numbers(9, 6), numbers(6), numbers(6)
    ids, segments = RNG.integers(0, 11, 8).astype(np.int32), RNG.integers(0, 2, 8).astype(np.int32)
    inputs = {"ids": ids, "segments": segments, "ends": np.array([0, 3, 4, 8], np.int32), "longest": np.zeros(4, np.int32)}
    prefix = "bert_embeddings_"
    fields = {prefix + "layernorm_beta": beta, prefix + "layernorm_gamma": gamma, prefix + "word_embeddings": words.ravel()}
    fields |= {prefix + "token_type_embeddings": types.ravel(), prefix + "position_embeddings": positions.ravel()}
    y, _ = plugin(tmp_path, "CustomEmbLayerNormPluginDynamic", inputs, 2, version, **fields)
    total = words[ids].astype(np.float64) + types[segments] + positions[[0, 1, 2, 0, 0, 1, 2, 3]]
    near(y, layer_norm(total[:, None], gamma, beta)[:, 0, :, None, None])


@pytest.mark.parametrize("version", ["1", "4"])
def test_embedding(tmp_path: pathlib.Path, version: str) -> None:
    words, types, positions, gamma, beta = numbers(11, 6), numbers(2, 6), numbers(9, 6), numbers(6), numbers(6)
    ids, segments = RNG.integers(0, 11, (5, 3)).astype(np.int32), RNG.integers(0, 2, (5, 3)).astype(np.int32)
    mask = (np.arange(5)[:, None] < np.array([5, 2, 1])).astype(np.int32)
    prefix = "bert_embeddings_"
    fields = {
        prefix + "layernorm_beta": beta,
        prefix + "layernorm_gamma": gamma,
        prefix + "word_embeddings": words.ravel(),
        prefix + "token_type_embeddings": types.ravel(),
        prefix + "position_embeddings": positions.ravel(),
    }
    inputs = {"ids": ids, "segments": segments, "mask": mask}
    y, lengths = plugin(tmp_path, "CustomEmbLayerNormPluginDynamic", inputs, 2, version, **fields)
    total = words[ids].astype(np.float64) + types[segments] + positions[:5, None]
    near(y, layer_norm(total, gamma, beta)[..., None, None])
    assert lengths.dtype == np.int32
    assert lengths.tolist() == [5, 2, 1]


def test_fc(tmp_path: pathlib.Path) -> None:
    x, w = numbers(4, 2, 6, 1, 1), numbers(5, 6)
    (y,) = plugin(tmp_path, "CustomFCPluginDynamic", {"x": x}, out_dims=5, type_id=0, W=w.ravel())
    near(y, (x.astype(np.float64)[..., 0, 0] @ w.T.astype(np.float64))[..., None, None])


@pytest.mark.parametrize("with_bias", [False, True])
def test_gelu(tmp_path: pathlib.Path, with_bias: bool) -> None:
    x, bias = numbers(4, 2, 6, 1, 1), numbers(6)
    (y,) = plugin(tmp_path, "CustomGeluPluginDynamic", {"x": x}, type_id=0, **({"bias": bias} if with_bias else {}))
    t = x.astype(np.float64) + (bias.reshape(-1, 1, 1) if with_bias else 0)
    near(y, 0.5 * t * (1 + np.tanh(math.sqrt(2 / math.pi) * (t + 0.044715 * t**3))))


@pytest.mark.parametrize("version", ["3", "7"])
def test_int8_layouts_are_refused(tmp_path: pathlib.Path, version: str) -> None:
    x = numbers(1, 8, 4, 1)
    said = refusal(
        tmp_path, "CustomSkipLayerNormPluginDynamic", {"x": x, "skip": x}, version=version, gamma=[1.0] * 8, beta=[0.0] * 8
    )
    assert "int8 interleaved" in said


# ---- shapes and elements ----


def test_clip_and_leaky_relu(tmp_path: pathlib.Path) -> None:
    x = numbers(3, 4)
    near(plugin(tmp_path, "Clip_TRT", {"x": x}, clipMin=-0.5, clipMax=0.75)[0], x.clip(-0.5, 0.75))
    near(plugin(tmp_path, "LReLU_TRT", {"x": x}, negSlope=0.1)[0], np.where(x < 0, np.float64(0.1) * x, x))


def test_split(tmp_path: pathlib.Path) -> None:
    x = numbers(2, 9, 3)
    for found, wanted in zip(plugin(tmp_path, "Split", {"x": x}, 3, dynamic=False, axis=1, output_lengths=[2, 3, 4]), np.split(x, [2, 5], 1)):
        assert np.array_equal(found, wanted)


def test_batch_tile(tmp_path: pathlib.Path) -> None:
    a, b = numbers(3, 2, 2, 2), numbers(1, 4, 2, 3)
    (y,) = plugin(tmp_path, "BatchTilePlugin_TRT", {"a": a, "b": b})
    assert np.array_equal(y, np.tile(b, (3, 1, 1, 1)))


def test_scatter_nd(tmp_path: pathlib.Path) -> None:
    data, at, updates = numbers(4, 3), np.array([[2], [0]], np.int32), numbers(2, 3)
    wanted = data.copy()
    wanted[[2, 0]] = updates
    node_type = "ScatterND"  # in ONNX's own domain it is the operator
    assert np.array_equal(plugin(tmp_path, node_type, {"data": data, "at": at, "updates": updates})[0], wanted)


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("version", ["1", "2"])
def test_scatter_elements(tmp_path: pathlib.Path, reduction: str, version: str) -> None:
    data, updates = numbers(3, 5), numbers(3, 4)
    at = np.stack([RNG.choice(5, 4) for _ in range(3)]).astype(np.int64)
    inputs = {"data": data, "at": at, "updates": updates}
    (y,) = plugin(tmp_path, "ScatterElements", inputs, version=version, axis=1, reduction=reduction)
    wanted = data.astype(np.float64)
    function = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[reduction]
    function.at(wanted, (np.arange(3)[:, None], at), updates)
    near(y, wanted, 1e-6)


@pytest.mark.parametrize("axis", [-1, 0])
@pytest.mark.parametrize("largest", [0, 1])
def test_top_k(tmp_path: pathlib.Path, axis: int, largest: int) -> None:
    x = numbers(6, 7)
    values, at = plugin(tmp_path, "TopkLastDim", {"x": x}, 2, type_id=0, k=3, is_largest=largest, axis=axis)
    order = np.argsort(-x if largest else x, axis, kind="stable").take(range(3), axis)
    assert at.dtype == np.int32
    assert np.array_equal(at, order)
    assert np.array_equal(values, np.take_along_axis(x, order, axis))


@pytest.mark.parametrize("version", ["1", "2"])
def test_reorg(tmp_path: pathlib.Path, version: str) -> None:
    x = numbers(2, 3, 6, 4)
    (y,) = plugin(tmp_path, "Reorg_TRT", {"x": x}, version=version, dynamic=False, stride=2)
    wanted = np.empty((2, 12, 3, 2), np.float32)
    for n, c, h, w in np.ndindex(wanted.shape):
        offset, channel = divmod(c, 3)
        wanted[n, c, h, w] = x[n, channel, 2 * h + offset // 2, 2 * w + offset % 2]
    assert np.array_equal(y, wanted)


@pytest.mark.parametrize("scale", [2.0, 1.5, 0.5])
def test_resize_nearest(tmp_path: pathlib.Path, scale: float) -> None:
    x = numbers(1, 2, 6, 4)
    (y,) = plugin(tmp_path, "ResizeNearest_TRT", {"x": x}, scale=scale)
    rows, columns = (np.floor(np.arange(int(n * scale)) / scale).astype(int) for n in (6, 4))
    assert np.array_equal(y, x[:, :, rows][:, :, :, columns])


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("shift", [0, 1])
def test_roi_align(tmp_path: pathlib.Path, version: str, shift: int) -> None:
    x = numbers(2, 3, 8, 9)
    rois = np.array([[0, 0, 10, 12], [3.3, 2.1, 14.2, 9.9]], np.float32)
    at = np.array([1, 0], np.int32)
    fields = {"output_height": 3, "output_width": 2, "sampling_ratio": 2, "spatial_scale": 0.5}
    inputs = {"x": x, "rois": rois, "at": at}
    (y,) = plugin(tmp_path, "ROIAlign_TRT", inputs, version=version, coordinate_transformation_mode=shift, mode=1, **fields)
    mode = "half_pixel" if shift else "output_half_pixel"
    wanted = onnx_op("RoiAlign", inputs | {"at": at.astype(np.int64)}, fields | {"coordinate_transformation_mode": mode, "mode": "avg"})
    near(y, wanted.astype(np.float64))


@pytest.mark.parametrize("version", ["1", "2"])
def test_modulated_deform_conv(tmp_path: pathlib.Path, version: str) -> None:
    x, weight, bias = numbers(1, 4, 7, 7), numbers(6, 2, 3, 3), numbers(6)
    offset, mask = numbers(1, 2 * 2 * 9, 4, 4), np.abs(numbers(1, 2 * 9, 4, 4))
    inputs = {"x": x, "offset": offset, "mask": mask, "weight": weight, "bias": bias}
    fields = {"stride": [2, 2], "padding": [1, 1], "dilation": [1, 1], "group": 2, "deformable_group": 2}
    (y,) = plugin(tmp_path, "ModulatedDeformConv2d", inputs, version=version, **fields)
    attrs = {"strides": [2, 2], "pads": [1] * 4, "dilations": [1, 1], "group": 2, "offset_group": 2, "kernel_shape": [3, 3]}
    order = {k: inputs[k] for k in ("x", "weight", "offset", "bias", "mask")}
    near(y, onnx_op("DeformConv", order, attrs).astype(np.float64), 1e-4)


def test_flatten_concat(tmp_path: pathlib.Path) -> None:
    a, b = numbers(2, 3, 2, 2), numbers(2, 1, 4, 1)
    (y,) = plugin(tmp_path, "FlattenConcat_TRT", {"a": a, "b": b}, axis=1, ignoreBatch=0)
    assert np.array_equal(y, np.concatenate([a.reshape(2, -1), b.reshape(2, -1)], 1)[:, :, None, None])


# ---- vision ----


def test_crop_and_resize(tmp_path: pathlib.Path) -> None:
    x = numbers(2, 3, 7, 9)
    boxes = RNG.uniform(-0.2, 1.2, (2, 4, 4)).astype(np.float32)
    for name, version, rois in (("CropAndResize", "1", boxes[..., None]), ("CropAndResizeDynamic", "2", boxes)):
        (y,) = plugin(tmp_path, name, {"x": x, "rois": rois}, version=version, crop_height=3, crop_width=4)
        wanted = np.zeros((2, 4, 3, 3, 4))
        for n, b, c, i, j in np.ndindex(wanted.shape):
            y1, x1, y2, x2 = boxes[n, b].astype(np.float64)
            row, column = (y1 + (y2 - y1) * i / 2) * 6, (x1 + (x2 - x1) * j / 3) * 8
            if not (0 <= row <= 6 and 0 <= column <= 8):
                continue
            top, left = int(row), int(column)
            bottom, right = min(top + 1, 6), min(left + 1, 8)
            p, dy, dx = x[n, c].astype(np.float64), row - top, column - left
            wanted[n, b, c, i, j] = (1 - dy) * ((1 - dx) * p[top, left] + dx * p[top, right]) + dy * (
                (1 - dx) * p[bottom, left] + dx * p[bottom, right]
            )
        near(y, wanted, 1e-4)


def test_coord_conv(tmp_path: pathlib.Path) -> None:
    x = numbers(2, 3, 5, 4)
    (y,) = plugin(tmp_path, "CoordConvAC", {"x": x})
    rows = np.broadcast_to(np.linspace(-1, 1, 5)[:, None], (2, 1, 5, 4))
    columns = np.broadcast_to(np.linspace(-1, 1, 4), (2, 1, 5, 4))
    near(y, np.concatenate([x, rows, columns], 1), 1e-6)


def test_region(tmp_path: pathlib.Path) -> None:
    x = numbers(2, 3 * 9, 2, 3)
    (y,) = plugin(tmp_path, "Region_TRT", {"x": x}, num=3, coords=4, classes=4)
    wanted = x.astype(np.float64).reshape(2, 3, 9, 2, 3)
    for at in (0, 1, 4):
        wanted[:, :, at] = 1 / (1 + np.exp(-wanted[:, :, at]))
    e = np.exp(wanted[:, :, 5:])
    wanted[:, :, 5:] = e / e.sum(2, keepdims=True)
    near(y, wanted.reshape(x.shape))


@pytest.mark.parametrize("version", ["1", "2"])
def test_multiscale_deformable_attention(tmp_path: pathlib.Path, version: str) -> None:
    shapes = np.array([[4, 5], [2, 3]], np.int32)
    starts = np.array([0, 20], np.int32)
    value, weights = numbers(2, 26, 2, 3), RNG.uniform(0, 1, (2, 4, 2, 2, 2)).astype(np.float32)
    locations = RNG.uniform(-0.1, 1.1, (2, 4, 2, 2, 2, 2)).astype(np.float32)
    inputs = {"value": value, "shapes": shapes, "starts": starts, "locations": locations, "weights": weights}
    (y,) = plugin(tmp_path, "MultiscaleDeformableAttnPlugin_TRT", inputs, version=version)
    wanted = np.zeros((2, 4, 2, 3))
    for b, q, m, level, p in np.ndindex(weights.shape):
        height, width = shapes[level]
        column, row = locations[b, q, m, level, p].astype(np.float64) * (width, height) - 0.5
        for i in (math.floor(row), math.floor(row) + 1):
            for j in (math.floor(column), math.floor(column) + 1):
                if 0 <= i < height and 0 <= j < width:
                    share = (1 - abs(row - i)) * (1 - abs(column - j))
                    wanted[b, q, m] += weights[b, q, m, level, p] * share * value[b, starts[level] + i * width + j, m]
    near(y, wanted, 1e-4)


@pytest.mark.parametrize("version", ["1", "2"])
def test_disentangled_attention(tmp_path: pathlib.Path, version: str) -> None:
    span, size, factor = 8, 21, 0.3
    c2c, c2p, p2c = numbers(2, size, size), numbers(2, size, 2 * span), numbers(2, size, 2 * span)
    inputs = {"c2c": c2c, "c2p": c2p, "p2c": p2c}
    (y,) = plugin(tmp_path, "DisentangledAttention_TRT", inputs, version=version, span=span, factor=factor)
    middle = span // 2
    wanted = np.zeros((2, size, size))
    for n, r, c in np.ndindex(wanted.shape):
        bucket = distance = r - c
        if abs(distance) > middle:
            scale = (middle - 1) / math.log((2 * span - 1) / middle) * (1 - 1e-7)
            bucket = (math.ceil(math.log(abs(distance) / middle) * scale) + middle) * (1 if distance > 0 else -1)
        at = min(max(bucket + span, 0), 2 * span - 1)
        wanted[n, r, c] = (np.float64(c2c[n, r, c]) + c2p[n, r, at] + p2c[n, c, at]) * factor
    near(y, wanted)


# ---- halves, and a plugin between operators ----


def test_kernels_take_halves(tmp_path: pathlib.Path) -> None:
    x = numbers(1, 2, 5, 5).astype(np.float16)
    (y,) = plugin(tmp_path, "CoordConvAC", {"x": x})
    assert y.dtype == np.float16
    assert np.array_equal(y[:, :2], x)
    near(y[0, 3], np.broadcast_to(np.linspace(-1, 1, 5), (5, 5)), 1e-3)


def test_fields_out_of_range_are_told(tmp_path: pathlib.Path) -> None:
    said = refusal(tmp_path, "GroupNormalizationPlugin", {"x": numbers(1, 4, 3), "s": numbers(4), "b": numbers(4)}, num_groups=2**40)
    assert "num_groups" in said
    assert "INT32" in said


def test_group_that_does_not_divide(tmp_path: pathlib.Path) -> None:
    inputs = {"x": numbers(1, 4, 3), "s": numbers(4), "b": numbers(4)}
    said = refusal(tmp_path, "GroupNormalizationPlugin", inputs, num_groups=0)
    assert "GroupNormalizationPlugin" in said
    assert "num_groups is 0" in said
