"""Every layer of the network API against NumPy in double precision or torch."""

import math

import numpy as np
import pytest

import carnot as trt

try:
    import torch

    F = torch.nn.functional
except ImportError:
    torch = F = None
needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed")
rng = np.random.default_rng(7)


def floats(*shape):
    return rng.standard_normal(shape).astype(np.float32)


def close(got, wanted, tolerance=2e-5):
    wanted = wanted.double().numpy() if torch and isinstance(wanted, torch.Tensor) else np.asarray(wanted)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)


def t64(array):
    return torch.from_numpy(np.asarray(array)).double()


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


ACTIVATIONS = (
    {}
    if torch is None
    else {
        "RELU": (0, 0, F.relu),
        "SIGMOID": (0, 0, torch.sigmoid),
        "TANH": (0, 0, torch.tanh),
        "LEAKY_RELU": (0.1, 0, lambda x: F.leaky_relu(x, 0.1)),
        "ELU": (0.7, 0, lambda x: F.elu(x, 0.7)),
        "SELU": (1.6732632, 1.0507010, F.selu),
        "SOFTSIGN": (0, 0, F.softsign),
        "SOFTPLUS": (1, 1, F.softplus),
        "CLIP": (-0.5, 0.8, lambda x: x.clamp(-0.5, 0.8)),
        "HARD_SIGMOID": (0.2, 0.5, lambda x: (0.2 * x + 0.5).clamp(0, 1)),
        "SCALED_TANH": (1.5, 0.5, lambda x: 1.5 * torch.tanh(0.5 * x)),
        "THRESHOLDED_RELU": (0.3, 0, lambda x: torch.where(x > 0.3, x, torch.zeros_like(x))),
        "GELU_ERF": (0, 0, F.gelu),
        "GELU_TANH": (0, 0, lambda x: F.gelu(x, approximate="tanh")),
    }
)


@needs_torch
@pytest.mark.parametrize("name", list(trt.ActivationType.__members__))
def test_activation(net, name):
    alpha, beta, wanted = ACTIVATIONS[name]
    x = floats(3, 50)
    layer = net.network.add_activation(net.input(x), trt.ActivationType[name])
    layer.alpha, layer.beta = alpha, beta
    (y,) = net.run(layer.get_output(0))
    close(y, wanted(t64(x)))


UNARIES = {
    "EXP": np.exp,
    "LOG": np.log,
    "SQRT": np.sqrt,
    "RECIP": np.reciprocal,
    "ABS": np.abs,
    "NEG": np.negative,
    "SIN": np.sin,
    "COS": np.cos,
    "TAN": np.tan,
    "SINH": np.sinh,
    "COSH": np.cosh,
    "ASIN": np.arcsin,
    "ACOS": np.arccos,
    "ATAN": np.arctan,
    "ASINH": np.arcsinh,
    "ACOSH": lambda x: np.arccosh(x + 1),
    "ATANH": np.arctanh,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "SIGN": np.sign,
    "ROUND": np.round,
    "ERF": np.vectorize(math.erf),
    "ISINF": np.isinf,
    "ISNAN": np.isnan,
}


@pytest.mark.parametrize("name", [n for n in trt.UnaryOperation.__members__ if n != "NOT"])
def test_unary(net, name):
    x = rng.uniform(0.05, 0.95, (4, 9)).astype(np.float32)
    given = x + np.float32(1) if name == "ACOSH" else x
    if name in ("ISINF", "ISNAN"):
        given = x.copy()
        given[0, :3] = [np.inf, -np.inf, np.nan]
    (y,) = net.run(net.network.add_unary(net.input(given), trt.UnaryOperation[name]).get_output(0))
    if name in ("ISINF", "ISNAN"):
        assert (y == UNARIES[name](given)).all()
    else:
        close(y, UNARIES[name]((given - (name == "ACOSH")).astype(np.float64)))


def test_logic(net):
    a, b = rng.integers(0, 2, (2, 8)).astype(bool), rng.integers(0, 2, (2, 8)).astype(bool)
    ta, tb = net.input(a), net.input(b)
    made = [net.network.add_unary(ta, trt.UnaryOperation.NOT)]
    made += [net.network.add_elementwise(ta, tb, trt.ElementWiseOperation[n]) for n in ("AND", "OR", "XOR")]
    got = net.run(*[layer.get_output(0) for layer in made])
    for y, wanted in zip(got, (~a, a & b, a | b, a ^ b)):
        assert (y == wanted).all()


ELEMENTWISE = {
    "SUM": np.add,
    "PROD": np.multiply,
    "MAX": np.maximum,
    "MIN": np.minimum,
    "SUB": np.subtract,
    "DIV": np.divide,
    "POW": np.power,
    "FLOOR_DIV": np.floor_divide,
    "EQUAL": np.equal,
    "GREATER": np.greater,
    "LESS": np.less,
}


@pytest.mark.parametrize("name", list(ELEMENTWISE))
def test_elementwise(net, name):
    a, b = rng.uniform(0.5, 3, (2, 3, 4)).astype(np.float32), rng.uniform(0.5, 3, (1, 3, 1)).astype(np.float32)
    b[0, 0] = a[0, 0, 0]
    (y,) = net.run(
        net.network.add_elementwise(net.input(a), net.input(b), trt.ElementWiseOperation[name]).get_output(0)
    )
    wanted = ELEMENTWISE[name](a.astype(np.float64), b.astype(np.float64))
    assert (y == wanted).all() if wanted.dtype == bool else close(y, wanted) is None


@pytest.mark.parametrize("mode", ["UNIFORM", "CHANNEL", "ELEMENTWISE"])
def test_scale(net, mode):
    x = np.abs(floats(2, 3, 4, 5))
    shape = {"UNIFORM": (), "CHANNEL": (3,), "ELEMENTWISE": (3, 4, 5)}[mode]
    shift, scale, power = (np.abs(rng.standard_normal(shape)).astype(np.float32) for _ in range(3))
    layer = net.network.add_scale(net.input(x), trt.ScaleMode[mode], shift, scale, power)
    (y,) = net.run(layer.get_output(0))
    wide = [
        np.asarray(v, np.float64).reshape(shape + (1, 1) if mode == "CHANNEL" else shape) for v in (shift, scale, power)
    ]
    close(y, (x * wide[1] + wide[0]) ** wide[2])


def test_prelu_select_identity_cast(net):
    x, slopes, condition = floats(2, 3, 4), floats(1, 3, 1), rng.integers(0, 2, (2, 3, 4)).astype(bool)
    tx = net.input(x)
    made = [
        net.network.add_parametric_relu(tx, net.input(slopes)),
        net.network.add_select(net.input(condition), tx, net.constant(np.zeros((1, 1, 1), np.float32))),
        net.network.add_identity(tx),
        net.network.add_cast(tx, trt.int32),
    ]
    got = net.run(*[layer.get_output(0) for layer in made])
    wanted = np.where(x < 0, x * slopes, x), np.where(condition, x, 0), x, x.astype(np.int32)
    for y, w in zip(got, wanted):
        close(y, w)
    assert got[3].dtype == np.int32


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


MATRIX = trt.MatrixOperation


@pytest.mark.parametrize(
    "op0, op1, a, b, einsum",
    [
        (MATRIX.NONE, MATRIX.NONE, (2, 3, 4), (2, 4, 5), "bij,bjk->bik"),
        (MATRIX.TRANSPOSE, MATRIX.NONE, (2, 4, 3), (1, 4, 5), "bji,cjk->bik"),
        (MATRIX.NONE, MATRIX.TRANSPOSE, (2, 3, 4), (2, 5, 4), "bij,bkj->bik"),
        (MATRIX.VECTOR, MATRIX.NONE, (2, 4), (2, 4, 5), "bj,bjk->bk"),
        (MATRIX.NONE, MATRIX.VECTOR, (2, 3, 4), (2, 4), "bij,bj->bi"),
    ],
)
def test_matrix_multiply(net, op0, op1, a, b, einsum):
    a, b = floats(*a), floats(*b)
    (y,) = net.run(net.network.add_matrix_multiply(net.input(a), op0, net.input(b), op1).get_output(0))
    close(y, np.einsum(einsum, a.astype(np.float64), b.astype(np.float64)))


def test_einsum_softmax_reduce(net):
    a, b = floats(2, 3, 4), floats(2, 4, 5)
    ta = net.input(a)
    softmax = net.network.add_softmax(ta)
    assert softmax.axes == 1
    softmax.axes = 1 << 2
    made = [
        net.network.add_einsum([ta, net.input(b)], "bij,bjk->bik"),
        softmax,
        net.network.add_reduce(ta, trt.ReduceOperation.AVG, 0b101, True),
        net.network.add_reduce(ta, trt.ReduceOperation.MAX, 0b10, False),
        net.network.add_reduce(ta, trt.ReduceOperation.PROD, 0b100, False),
    ]
    got = net.run(*[layer.get_output(0) for layer in made])
    a, b = a.astype(np.float64), b.astype(np.float64)
    close(got[0], a @ b)
    close(got[1], np.exp(a) / np.exp(a).sum(2, keepdims=True))
    close(got[2], a.mean((0, 2), keepdims=True))
    close(got[3], a.max(1))
    close(got[4], a.prod(2))


def test_ragged_softmax(net):
    x, bounds = floats(2, 3, 5), np.array([[[1], [5], [3]], [[2], [4], [5]]], np.int32)
    (y,) = net.run(net.network.add_ragged_softmax(net.input(x), net.input(bounds)).get_output(0))
    e = np.exp(x.astype(np.float64)) * (np.arange(5) < bounds)
    close(y, e / e.sum(2, keepdims=True))


@pytest.mark.parametrize("kind", ["layer", "instance", "group", "group_v1"])
def test_normalization(net, kind):
    x = floats(2, 6, 5, 4) * 3 + 10
    groups = 3 if kind.startswith("group") else 1
    width = {"layer": (1, 1, 5, 4), "instance": (1, 6, 1, 1), "group": (1, 6, 1, 1), "group_v1": (1, 3, 1, 1)}[kind]
    scale, bias = floats(*width), floats(*width)
    layer = net.network.add_normalization(net.input(x), net.input(scale), net.input(bias), 0b1100)
    layer.num_groups, layer.epsilon = groups, 1e-3
    (y,) = net.run(layer.get_output(0))
    wide = x.astype(np.float64)
    if groups > 1:
        wide = wide.reshape(2, 3, -1)
        wide = ((wide - wide.mean(2, keepdims=True)) / np.sqrt(wide.var(2, keepdims=True) + 1e-3)).reshape(x.shape)
        if kind == "group_v1":
            scale, bias = scale.repeat(2, 1), bias.repeat(2, 1)
    else:
        wide = (wide - wide.mean((2, 3), keepdims=True)) / np.sqrt(wide.var((2, 3), keepdims=True) + 1e-3)
    close(y, wide * scale + bias, 1e-4)


def test_topk_and_cumulative(net):
    x = rng.permutation(24).astype(np.float32).reshape(2, 3, 4)
    tx = net.input(x)
    topk = net.network.add_topk(tx, trt.TopKOperation.MIN, 2, 1 << 2)
    total = net.network.add_cumulative(tx, net.constant(np.array(1, np.int32)), trt.CumulativeOperation.SUM, True, True)
    values, indices, sums = net.run(topk.get_output(0), topk.get_output(1), total.get_output(0))
    close(values, np.sort(x, 2)[..., :2])
    assert indices.dtype == np.int32 and (indices == np.argsort(x, 2)[..., :2]).all()
    close(sums, np.stack([x[:, 1] + x[:, 2], x[:, 2], np.zeros_like(x[:, 0])], 1))


@needs_torch
def test_attention_is_not_scaled(net):
    q, k, v = floats(2, 4, 5, 8), floats(2, 2, 6, 8), floats(2, 2, 6, 8)
    mask = rng.integers(0, 2, (2, 1, 5, 6)).astype(bool)
    mask[..., 0] = True
    layer = net.network.add_attention(
        net.input(q), net.input(k), net.input(v), trt.AttentionNormalizationOp.SOFTMAX, False
    )
    layer.mask = net.input(mask)
    (y,) = net.run(layer.get_output(0))
    close(
        y,
        F.scaled_dot_product_attention(
            t64(q), t64(k).repeat_interleave(2, 1), t64(v).repeat_interleave(2, 1), torch.from_numpy(mask), scale=1.0
        ),
        1e-4,
    )


def test_rotary_and_cache(net):
    x, angle = floats(1, 2, 3, 8), floats(5, 4)
    positions = np.array([[4, 0, 2]], np.int64)
    rotary = net.network.add_rotary_embedding(
        net.input(x), net.input(np.cos(angle)), net.input(np.sin(angle)), False, 0
    )
    rotary.set_input(3, net.input(positions))
    cache, update = floats(2, 1, 6, 4), floats(2, 1, 2, 4)
    kept = net.network.add_kv_cache_update(
        net.input(cache), net.input(update), net.input(np.array([1, 3], np.int32)), trt.KVCacheMode.LINEAR
    )
    turned, filled = net.run(rotary.get_output(0), kept.get_output(0))
    cos, sin = np.cos(angle)[positions[0]], np.sin(angle)[positions[0]]
    a, b = x[..., :4], x[..., 4:]
    close(turned, np.concatenate([a * cos - b * sin, b * cos + a * sin], -1))
    wanted = cache.copy()
    wanted[0, :, 1:3], wanted[1, :, 3:5] = update[0], update[1]
    close(filled, wanted)


def test_shuffle_in_any_order_of_setting(net):
    x = floats(2, 3, 4)
    layer = net.network.add_shuffle(net.input(x))
    layer.second_transpose = (1, 0)
    layer.reshape_dims = (0, -1)
    layer.first_transpose = (2, 0, 1)
    assert layer.get_output(0).shape == (6, 4)
    assert layer.reshape_dims == (0, -1) and layer.first_transpose[:3] == (2, 0, 1)
    (y,) = net.run(layer.get_output(0))
    close(y, x.transpose(2, 0, 1).reshape(4, 6).T)


def test_shuffle_by_tensor(net):
    x = floats(2, 6)
    layer = net.network.add_shuffle(net.input(x))
    layer.set_input(1, net.constant(np.array([3, 4], np.int32)))
    (y,) = net.run(layer.get_output(0))
    close(y, x.reshape(3, 4))


def test_squeeze_unsqueeze_concatenation_shape(net):
    x = floats(2, 1, 3)
    tx = net.input(x)
    join = net.network.add_concatenation([tx, tx])
    assert join.axis == 0
    join.axis = 2
    made = [
        net.network.add_squeeze(tx, net.constant(np.array([1], np.int64))),
        net.network.add_unsqueeze(tx, net.constant(np.array([0, 4], np.int64))),
        join,
        net.network.add_shape(tx),
    ]
    got = net.run(*[layer.get_output(0) for layer in made])
    close(got[0], x[:, 0])
    close(got[1], x[None, ..., None])
    close(got[2], np.concatenate([x, x], 2))
    assert got[3].tolist() == [2, 1, 3]


@pytest.mark.parametrize(
    "mode, pad", [("FILL", "constant"), ("CLAMP", "edge"), ("WRAP", "wrap"), ("REFLECT", "reflect")]
)
def test_slice_modes(net, mode, pad):
    x = floats(4, 5)
    layer = net.network.add_slice(net.input(x), (-1, 1), (3, 4), (2, 2))
    layer.mode = trt.SampleMode[mode]
    (y,) = net.run(layer.get_output(0))
    around = np.pad(x, ((1, 0), (0, 3)), pad)
    close(y, around[0:5:2, 1:8:2])


def test_slice_backwards_with_axes_and_computed_bounds(net):
    x = floats(4, 5)
    tx = net.input(x)
    some = net.network.add_slice(tx, (4,), (3,), (-2,))
    some.axes = (1,)
    computed = net.network.add_slice(tx, (0, 0), (1, 1), (1, 1))
    computed.set_input(1, net.constant(np.array([3, 0], np.int32)))
    computed.set_input(2, net.constant(np.array([4, 3], np.int32)))
    computed.set_input(3, net.constant(np.array([-1, 2], np.int32)))
    got = net.run(some.get_output(0), computed.get_output(0))
    close(got[0], x[:, 4::-2])
    close(got[1], x[::-1, 0:5:2])


def test_slice_out_of_bounds_is_an_error(net):
    layer = net.network.add_slice(net.input(floats(4, 5)), (0, 2), (4, 4), (1, 1))
    layer.name = "window"
    net.network.mark_output(layer.get_output(0))
    assert net.builder.build_serialized_network(net.network, net.config) is None
    assert any("window" in m and "dimension 1, which has 5" in m for m in net.logger.errors())


def test_gather_scatter_onehot_nonzero_reverse(net):
    x = floats(3, 4)
    tx, rows = net.input(x), net.constant(np.array([2, 0], np.int32))
    nd = net.network.add_gather_v2(tx, net.constant(np.array([[0, 1], [2, 3]], np.int64)), trt.GatherMode.ND)
    element = net.network.add_gather_v2(tx, net.constant(np.array([[1, 0, 2, 2]], np.int64)), trt.GatherMode.ELEMENT)
    scatter = net.network.add_scatter(
        tx, net.constant(np.array([[1], [0]], np.int32)), net.constant(np.ones((2, 4), np.float32)), trt.ScatterMode.ND
    )
    onehot = net.network.add_one_hot(
        rows, net.constant(np.array([0, 5], np.float32)), net.constant(np.array(3, np.int32)), -1
    )
    nonzero = net.network.add_non_zero(net.network.add_activation(tx, trt.ActivationType.RELU).get_output(0))
    reverse = net.network.add_reverse_sequence(tx, net.constant(np.array([1, 3, 2, 0], np.int64)))
    made = [net.network.add_gather(tx, rows, 0), nd, element, scatter, onehot, nonzero, reverse]
    got = net.run(*[layer.get_output(0) for layer in made])
    close(got[0], x[[2, 0]])
    close(got[1], x[[0, 2], [1, 3]])
    close(got[2], x[[1, 0, 2, 2], range(4)][None])
    wanted = x.copy()
    wanted[:2] = 1
    close(got[3], wanted)
    close(got[4], np.eye(3)[[2, 0]] * 5)
    assert got[5].dtype == np.int32 and (got[5] == np.stack(np.nonzero(x > 0))).all()
    wanted = x.copy()
    for column, count in enumerate([1, 3, 2, 0]):
        wanted[:count, column] = x[:count, column][::-1]
    close(got[6], wanted)


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


@needs_torch
@pytest.mark.parametrize(
    "kind, direction", [("LSTM", "UNIDIRECTION"), ("GRU", "BIDIRECTION"), ("TANH", "UNIDIRECTION")]
)
def test_rnn_v2(net, kind, direction):
    batch, steps, width, hidden, levels = 2, 5, 4, 3, 2
    both = direction == "BIDIRECTION"
    module = {"LSTM": torch.nn.LSTM, "GRU": torch.nn.GRU, "TANH": torch.nn.RNN}[kind](
        width, hidden, levels, batch_first=True, bidirectional=both
    ).double()
    gates = {"LSTM": ["INPUT", "FORGET", "CELL", "OUTPUT"], "GRU": ["RESET", "UPDATE", "HIDDEN"], "TANH": ["INPUT"]}[
        kind
    ]
    x = floats(batch, steps, width)
    layer = net.network.add_rnn_v2(net.input(x), levels, hidden, steps, trt.RNNOperation[kind])
    layer.direction = trt.RNNDirection[direction]
    for name, p in module.named_parameters():
        what, is_input, level = name.split("_")[0], "ih" in name, int(name.split("_l")[1][0])
        level = level * (1 + both) + name.endswith("reverse")
        for gate, part in zip(gates, p.detach().float().split(hidden)):
            give = layer.set_weights_for_gate if what == "weight" else layer.set_bias_for_gate
            give(level, trt.RNNGateType[gate], is_input, np.ascontiguousarray(part.numpy()))
    got = net.run(*[layer.get_output(i) for i in range(layer.num_outputs)])
    wanted, state = module(t64(x))
    close(got[0], wanted.detach())
    states = state if kind == "LSTM" else (state,)
    for y, s in zip(got[1:], states):
        close(y, s.detach().transpose(0, 1))
