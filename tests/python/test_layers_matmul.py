"""Matrix multiplication, softmax, normalization, reduction, top-k, attention, mixture of experts, RNN."""

import carnot as trt
import numpy as np
import pytest
from conftest import Net
from reference import F, close, floats, needs_torch, t64, torch

rng = np.random.default_rng(7)
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


@pytest.mark.parametrize("act", ["SILU", "NONE"])
def test_mixture_of_experts(logger, act):
    """Token by token, expert by expert, in float64."""
    net = Net(logger)
    b, s, h, inner, experts, k = 2, 3, 4, 6, 5, 2
    x = rng.standard_normal((b, s, h)).astype(np.float32)
    selected = np.stack([rng.permutation(experts)[:k] for _ in range(b * s)]).reshape(b, s, k).astype(np.int32)
    scores = rng.random((b, s, k)).astype(np.float32)
    shapes = [(experts, h, inner), (experts, h, inner), (experts, inner, h)]
    weights = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    biases = [rng.standard_normal((experts, shape[2])).astype(np.float32) for shape in shapes]
    layer = net.network.add_moe(net.input(x), net.input(selected), net.input(scores))
    assert layer.type == trt.LayerType.MOE and isinstance(layer, trt.IMoELayer)
    layer.set_gated_weights(*[net.constant(w) for w in weights], trt.MoEActType[act])
    layer.set_gated_biases(*[net.constant(w) for w in biases])
    layer.set_swiglu_params(1.5, 1.7, 0.25)
    assert (layer.swiglu_param_limit, layer.swiglu_param_alpha, layer.swiglu_param_beta) == (1.5, 1.7, 0.25)
    assert layer.activation_type == trt.MoEActType[act] and layer.quantization_to_type == trt.float32
    assert len(layer.quantization_block_shape) == 0 and layer.dyn_q_output_scale_type == trt.float32
    (got,) = net.run(layer.get_output(0))
    wanted = np.zeros((b, s, h))
    for i, j, n in np.ndindex(b, s, k):
        e, token = selected[i, j, n], x[i, j].astype(np.float64)
        gate, up = (token @ weights[m][e] + biases[m][e] for m in (0, 1))
        if act == "SILU":
            gate, up = np.minimum(gate, 1.5), np.clip(up, -1.5, 1.5) + 0.25
            gate = gate / (1 + np.exp(-1.7 * gate))
        wanted[i, j] += scores[i, j, n] * ((gate * up) @ weights[2][e] + biases[2][e])
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
    layer.set_quantization_static(None, trt.DataType.FP8)
    assert "quantization of experts" in logger.errors()[-1]
    layer.set_quantization_dynamic_dbl_q(None, trt.DataType.FP4, (1, 16), trt.DataType.FP8)
    bare = net.network.add_moe(*[layer.get_input(i) for i in range(3)])
    net.network.mark_output(bare.get_output(0))
    assert net.builder.build_serialized_network(net.network, net.config) is None
    assert "set_gated_weights" in logger.errors()[-1]
