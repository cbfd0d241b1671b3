"""Built-in transformer plugins: skip layer norm, attention, embedding, fully connected, GELU."""

import math
import pathlib

import numpy as np
import pytest
from harness import plugin, refusal
from reference import near, normalized, numbers

RNG = np.random.default_rng(7)


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
    (y,) = plugin(
        tmp_path,
        "CustomSkipLayerNormPluginDynamic",
        {"x": x, "skip": skip},
        version="2",
        type_id=0,
        beta=beta,
        gamma=gamma,
    )
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
    inputs = {
        "ids": ids,
        "segments": segments,
        "ends": np.array([0, 3, 4, 8], np.int32),
        "longest": np.zeros(4, np.int32),
    }
    prefix = "bert_embeddings_"
    fields = {
        prefix + "layernorm_beta": beta,
        prefix + "layernorm_gamma": gamma,
        prefix + "word_embeddings": words.ravel(),
    }
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
        tmp_path,
        "CustomSkipLayerNormPluginDynamic",
        {"x": x, "skip": x},
        version=version,
        gamma=[1.0] * 8,
        beta=[0.0] * 8,
    )
    assert "int8 interleaved" in said


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
