"""Attention of few queries over whole caches on a GPU, and caches that grow, against float64."""

import ctypes
import os
import pathlib
import sys

import numpy as np
import pytest
from harness import Device
from runtime import Context, Dims, Runtime

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from quantized_rule import RNG, Model

TACTIC = "cuda_attention_cached"
BOUNDS = {np.float32: 2e-6, np.float16: 2e-3}


def run(m: Model, folder: pathlib.Path, outputs: dict) -> tuple[list, list]:
    device = Device()
    if device.why_absent():
        pytest.skip(device.why_absent())

    def command(*arguments: object) -> str:
        done = device.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return m.run(folder, outputs, command, "--backend=cuda", "--builderOptimizationLevel=0")


def normal(dtype: type, *dims: int) -> np.ndarray:
    return RNG.standard_normal(dims).astype(dtype)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, seen: np.ndarray, softcap: float = 0.0, mask=0.0) -> np.ndarray:
    """|seen| [B,1 or H,S,K]: whether a query sees a key; one that sees none gives zeros."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3])
    scores = softcap * np.tanh(scores / softcap) if softcap else scores
    scores = np.where(seen, scores + mask, -np.inf)
    top = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(top), top, 0))
    return weights @ v / np.maximum(weights.sum(-1, keepdims=True), 1e-300)


def near(got: np.ndarray, want: np.ndarray, dtype: type) -> None:
    assert got.shape == want.shape
    assert np.linalg.norm(got - want) <= BOUNDS[dtype] * np.linalg.norm(want)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 37), (3, 300), (17, 130)])
@pytest.mark.parametrize(("size", "value_size"), [(64, 64), (16, 128)])
@pytest.mark.parametrize("form", ["plain", "causal", "mask", "bool mask", "softcap", "flat"])
def test_attention(
    tmp_path: pathlib.Path, dtype: type, queries: int, keys: int, size: int, value_size: int, form: str
) -> None:
    """With lengths: Attention without them is computed as GEMMs and softmax, or by another kernel."""
    q, k, v = normal(dtype, 2, 6, queries, size), normal(dtype, 2, 2, keys, size), normal(dtype, 2, 2, keys, value_size)
    lengths = np.array([keys, max(1, keys - 5)], np.int64)
    seen = np.broadcast_to(np.arange(keys) < lengths[:, None, None, None], (2, 6, queries, keys)).copy()
    mask, softcap, given, attributes = 0.0, 0.0, "", {}
    m, inputs = Model(24), []
    flat = form == "flat"
    for name, x in (("q", q), ("k", k), ("v", v)):
        inputs.append(m.input(name, x.swapaxes(1, 2).reshape(2, x.shape[2], -1) if flat else x))
    if flat:
        attributes = {"q_num_heads": 6, "kv_num_heads": 2}
    if form == "causal":
        at = lengths[:, None] - queries + np.arange(queries)
        attributes, seen = {"is_causal": 1}, seen & (np.arange(keys) <= at[:, None, :, None])
    if form == "softcap":
        attributes, softcap = {"softcap": 2.0}, 2.0
    if form == "mask":
        mask = normal(dtype, 2, 1, queries, keys)
        given, mask = m.constant(mask), mask.astype(np.float64)
    if form == "bool mask":
        allowed = RNG.random((2, 6, queries, keys)) < 0.7
        allowed[1, 2, 0] = False
        given, seen = m.constant(allowed), seen & allowed
    y = m.node("Attention", *inputs, given, "", "", m.constant(lengths), **attributes)
    (got,), tactics = run(m, tmp_path, {y: dtype})
    assert TACTIC in tactics, tactics
    want = attention(q, k, v, seen, softcap, mask)
    near(got, want.swapaxes(1, 2).reshape(got.shape) if flat else want, dtype)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize(("room", "new"), [(0, 1), (0, 5), (9, 1), (20, 3)])
@pytest.mark.parametrize(("window", "size"), [(-1, 32), (8, 32), (-1, 22)])
def test_group_query_attention(
    tmp_path: pathlib.Path, dtype: type, room: int, new: int, window: int, size: int
) -> None:
    """Samples of several lengths; without room the result is longer than the cache. Rows of 22 are no 16-byte loads."""
    batch, heads, kv_heads, past = 3, 4, 2, 40
    lengths = np.array([past + new, past + new - 7, new + 2], np.int64)  # with the new tokens
    total = past + new
    caches = [normal(dtype, batch, kv_heads, past + room, size) for _ in range(2)]
    q = normal(dtype, batch, new, heads * size)
    fresh = [normal(dtype, batch, new, kv_heads * size) for _ in range(2)]
    m = Model()
    names = [m.input("q", q), m.input("k", fresh[0]), m.input("v", fresh[1])]
    names += [m.input("past_k", caches[0]), m.input("past_v", caches[1])]
    names += [m.constant((lengths - 1).astype(np.int32)), m.constant(np.array(total, np.int32))]
    attributes = {"num_heads": heads, "kv_num_heads": kv_heads, "local_window_size": window}
    results = m.node("GroupQueryAttention", *names, domain="com.microsoft", outputs=3, **attributes)
    got, tactics = run(m, tmp_path, dict.fromkeys(results, dtype))
    assert (TACTIC if size == 32 else "cuda_generic_attention") in tactics, tactics
    assert tactics.count("cuda_tensor_scatter") == 2, tactics
    kept = max(past + room, total)
    present = [np.zeros((batch, kv_heads, kept, size), dtype) for _ in range(2)]
    for cache, update, to in zip(caches, fresh, present):
        to[:, :, : past + room] = cache
        for b in range(batch):
            rows = update[b].reshape(new, kv_heads, size).swapaxes(0, 1)
            to[b, :, lengths[b] - new : lengths[b]] = rows
    for have, want in zip(got[1:], present):
        np.testing.assert_array_equal(have, want)
    at = (lengths[:, None] - new + np.arange(new))[:, None, :, None]
    seen = (np.arange(kept) <= at) & ((window < 0) | (np.arange(kept) > at - window))
    want = attention(q.reshape(batch, new, heads, size).swapaxes(1, 2), *present, seen)
    near(got[0], want.swapaxes(1, 2).reshape(batch, new, heads * size), dtype)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize("room", [0, 9])
def test_caches_of_integers(tmp_path: pathlib.Path, dtype: type, by_channel: bool, room: int) -> None:
    """Written as round(k / scale), attended as cache * scale, by programs that the stand-in does not run."""
    if Device().is_stand_in:
        pytest.skip("programs are not run")
    heads, kv_heads, size, past, new = 4, 2, 32, 40, 3
    dims = (1, kv_heads, 1, size) if by_channel else (1,)
    scales = [(0.01 + 0.02 * RNG.random(dims)).astype(np.float32) for _ in range(2)]
    caches = [RNG.integers(-128, 128, (1, kv_heads, past + room, size)).astype(np.int8) for _ in range(2)]
    q = normal(dtype, 1, new, heads * size)
    fresh = [normal(dtype, 1, new, kv_heads * size) for _ in range(2)]
    m = Model()
    names = [m.input("q", q), m.input("k", fresh[0]), m.input("v", fresh[1])]
    names += [m.input("past_k", caches[0]), m.input("past_v", caches[1])]
    names += [m.constant(np.array([past + new - 1], np.int32)), m.constant(np.array(past + new, np.int32))]
    names += ["", "", "", "", "", m.constant(scales[0]), m.constant(scales[1])]
    kind = "PER_CHANNEL" if by_channel else "PER_TENSOR"
    attributes = {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": 8}
    results = m.node(
        "GroupQueryAttention",
        *names,
        domain="com.microsoft",
        outputs=3,
        num_heads=heads,
        kv_num_heads=kv_heads,
        **attributes,
    )
    (got, *presents), tactics = run(m, tmp_path, dict(zip(results, (dtype, np.int8, np.int8))))
    assert TACTIC in tactics, tactics
    whole = []
    for cache, update, scale, present in zip(caches, fresh, scales, presents):
        want = np.zeros((1, kv_heads, past + max(room, new), size), np.int8)
        want[:, :, : past + room] = cache
        rows = update.astype(np.float32).reshape(1, new, kv_heads, size).swapaxes(1, 2)
        want[:, :, past : past + new] = np.clip(np.rint(rows / scale), -128, 127)
        np.testing.assert_array_equal(present, want)
        whole.append((want * scale).astype(dtype))
    seen = (np.arange(whole[0].shape[2]) <= past + np.arange(new)[:, None])[None, None]
    want = attention(q.reshape(1, new, heads, size).swapaxes(1, 2), *whole, seen)
    near(got, want.swapaxes(1, 2).reshape(1, new, heads * size), dtype)


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize(("heads", "kv_heads"), [(3, 3), (4, 2), (6, 2), (16, 2), (7, 1)])
@pytest.mark.parametrize(("queries", "keys", "size"), [(1, 1500, 128), (5, 700, 128), (1, 3000, 32), (2, 900, 8)])
def test_tiles_and_shares(
    tmp_path: pathlib.Path, dtype: type, heads: int, kv_heads: int, queries: int, keys: int, size: int
) -> None:
    """Heads that share keys fill tiles wholly or in part; the blocks of a tile share long caches."""
    q = normal(dtype, 2, heads, queries, size)
    k, v = (normal(dtype, 2, kv_heads, keys, size) for _ in range(2))
    lengths = np.array([keys, keys // 3], np.int64)
    m = Model(24)
    names = [m.input("q", q), m.input("k", k), m.input("v", v), "", "", "", m.constant(lengths)]
    y = m.node("Attention", *names, is_causal=1)
    (got,), tactics = run(m, tmp_path, {y: dtype})
    assert TACTIC in tactics, tactics
    at = lengths[:, None] - queries + np.arange(queries)
    near(got, attention(q, k, v, np.arange(keys) <= at[:, None, :, None]), dtype)


def test_unseen_values_may_be_anything(tmp_path: pathlib.Path) -> None:
    """Behind the length, and where a mask makes weights 0. The stand-in's kernel multiplies them by 0."""
    if Device().is_stand_in:
        pytest.skip("the kernel is not this one")
    q, k, v = (normal(np.float32, 1, 2, rows, 32) for rows in (3, 700, 700))
    v[:, :, 600:], v[:, :, :300] = np.nan, np.inf
    mask = np.where(np.arange(700) < 300, np.finfo(np.float32).min, 0)[None].astype(np.float32)
    m = Model(24)
    lengths = m.constant(np.array([600], np.int64))
    names = [m.input("q", q), m.input("k", k), m.input("v", v), m.constant(mask)]
    y = m.node("Attention", *names, "", "", lengths)
    (got,), tactics = run(m, tmp_path, {y: np.float32})
    assert TACTIC in tactics, tactics
    near(got, attention(q, k[:, :, 300:600], v[:, :, 300:600], np.ones((1, 1, 3, 300), bool)), np.float32)


class Memory:
    """Arrays in device memory, by the driver."""

    def __init__(self) -> None:
        self.driver = ctypes.CDLL(os.environ.get("CARNOT_CUDA_DRIVER", "libcuda.so.1"))
        context = ctypes.c_void_p()
        for name, *arguments in (
            ("cuInit", 0),
            ("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0),
            ("cuCtxSetCurrent", context),
        ):
            self.call(name, *arguments)

    def call(self, name: str, *arguments: object) -> None:
        assert getattr(self.driver, name)(*arguments) == 0, name

    def put(self, array: np.ndarray) -> ctypes.c_void_p:
        at = ctypes.c_void_p()
        self.call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(array.nbytes))
        data = np.ascontiguousarray(array).ctypes.data_as(ctypes.c_void_p)
        self.call("cuMemcpyHtoDAsync_v2", at, data, ctypes.c_size_t(array.nbytes), None)
        return at

    def get(self, at: ctypes.c_void_p, like: np.ndarray) -> np.ndarray:
        out = np.empty_like(like)
        self.call("cuMemcpyDtoHAsync_v2", out.ctypes.data_as(ctypes.c_void_p), at, ctypes.c_size_t(out.nbytes), None)
        return out


@pytest.mark.parametrize("way", ["one buffer", "two buffers", "odd addresses", "overlap"])
def test_a_cache_may_be_its_own_result(tmp_path: pathlib.Path, way: str) -> None:
    """In device memory: at one address nothing is copied, at overlapping ones the run is refused. Odd addresses are no
    multiples of 16."""
    q, new = normal(np.float32, 1, 4, 1, 32), normal(np.float32, 1, 2, 1, 32)
    caches = normal(np.float32, 2, 1, 2, 64, 32)
    m = Model(24)
    written, lengths = m.constant(np.array([40], np.int64)), m.constant(np.array([41], np.int64))
    names = [m.input(f"past_{i}", cache) for i, cache in enumerate(caches)]
    fresh = m.input("new", new)
    presents = [m.node("TensorScatter", name, fresh, written, axis=2) for name in names]
    y = m.node("Attention", m.input("q", q), *presents, "", "", "", lengths)
    (want, *kept), tactics = run(m, tmp_path, dict.fromkeys([y, *presents], np.float32))
    assert tactics.count("cuda_tensor_scatter") == 2, tactics

    library = pathlib.Path(Device().command[-1]).resolve().parents[1] / "lib"
    runtime = Runtime(str(next(library.glob("libcarnot_runtime.so*"))))
    memory, context = Memory(), Context(runtime, runtime.load(str(tmp_path / "m.plan")))

    def bind(name: str, at: int, array: np.ndarray) -> None:
        place = ctypes.c_void_p(at), ctypes.c_size_t(array.nbytes)
        runtime.call("carnot_context_set_tensor_address", context.handle, name.encode(), *place)

    for name, array in m.inputs.items():
        dims = Dims(array.ndim, array.shape)
        runtime.call("carnot_context_set_input_shape", context.handle, name.encode(), ctypes.byref(dims))
    result = memory.put(want)
    shift = 4 if way == "odd addresses" else 0
    room, other = ([memory.put(np.roll(np.tile(x.ravel(), 2), shift // 4)) for x in caches] for _ in range(2))
    bind("q", memory.put(q).value, q)
    bind("new", memory.put(new).value, new)
    bind(y, result.value, want)
    offset = 256 if way == "overlap" else shift
    outputs = [ctypes.c_void_p(at.value + offset) for at in (room if way in ("one buffer", "overlap") else other)]
    for i, cache in enumerate(caches):
        bind(f"past_{i}", room[i].value + shift, cache)
        bind(presents[i], outputs[i].value, cache)
    if way == "overlap":
        with pytest.raises(RuntimeError, match=f"output {presents[0]} .* shares memory with input past_0"):
            runtime.call("carnot_context_run", context.handle)
        return
    runtime.call("carnot_context_run", context.handle)
    np.testing.assert_array_equal(memory.get(result, want), want)
    for at, cache in zip(outputs, kept):
        np.testing.assert_array_equal(memory.get(at, cache), cache)


def test_nan_stays(tmp_path: pathlib.Path) -> None:
    """One of the queries has it; the others do not see it."""
    q, k, v = (normal(np.float32, 1, 2, rows, 32) for rows in (3, 40, 40))
    q[0, 1, 2, 7] = np.nan
    m = Model(24)
    lengths = m.constant(np.array([39], np.int64))
    y = m.node("Attention", m.input("q", q), m.input("k", k), m.input("v", v), "", "", "", lengths)
    (got,), tactics = run(m, tmp_path, {y: np.float32})
    assert TACTIC in tactics, tactics
    assert np.isnan(got[0, 1, 2]).all()
    assert np.isfinite(got[0, 0]).all() and np.isfinite(got[0, 1, :2]).all()


def test_heads_that_no_load_divides(tmp_path: pathlib.Path) -> None:
    """They take the generic kernel."""
    q, k, v = (normal(np.float32, 1, 2, rows, 24) for rows in (3, 7, 7))
    m = Model(24)
    lengths = m.constant(np.array([6], np.int64))
    y = m.node("Attention", m.input("q", q), m.input("k", k), m.input("v", v), "", "", "", lengths)
    (got,), tactics = run(m, tmp_path, {y: np.float32})
    assert "cuda_generic_attention" in tactics, tactics
    near(got, attention(q, k, v, np.arange(7) < np.full((1, 1, 3, 1), 6)), np.float32)
