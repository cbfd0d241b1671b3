"""Decoders with caches, as ONNX, onnxruntime-genai and PyTorch write them, against ONNX Runtime."""

import pathlib
import sys

import carnot
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import decoder_graphs  # noqa: E402

onnxruntime = pytest.importorskip("onnxruntime")
SIZE = decoder_graphs.Size(layers=2, hidden=64, heads=4, kv_heads=2, middle=96, vocabulary=300, positions=96)
PROMPT, STEPS, CAPACITY = 40, 8, 64
FORMS = ["genai", "genai4", "concat", "scatter"]


@pytest.fixture(scope="module")
def path(request, tmp_path_factory):
    file = tmp_path_factory.mktemp("decoder") / f"{request.param}.onnx"
    decoder_graphs.FORMS[request.param](SIZE, file)
    return file


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def inputs(form, ids, caches):
    """A run of |ids| behind what the caches hold."""
    past = 0 if caches is None else caches[0]
    feeds = decoder_graphs.feeds(form, SIZE, past, ids.shape[1], CAPACITY)
    feeds["input_ids"] = ids
    if caches is not None:
        feeds |= caches[1]
    return feeds


def greedy(form, run):
    """Logits of each of the steps, the most likely token being the next; |run|: feeds to a list of outputs."""
    ids = np.arange(PROMPT).reshape(1, -1) % SIZE.vocabulary
    caches, found, past = None, [], 0
    names = [name for i in range(SIZE.layers) for name in decoder_graphs.caches(i, "past_key_values")]
    for _ in range(STEPS):
        logits, *presents = run(inputs(form, ids, caches))
        past += ids.shape[1]
        caches = (past, dict(zip(names, (np.array(x) for x in presents))))
        found.append(np.array(logits[:, -1]))
        ids = found[-1].argmax(-1).reshape(1, 1)
    return np.stack(found)


@pytest.mark.parametrize("form, path", [(form, form) for form in FORMS], indirect=["path"])
def test_greedy_decoding_equals_onnxruntime(form, path):
    oracle = session(path)
    names = [output.name for output in oracle.get_outputs()]
    net = carnot.load(carnot.build(str(path), backend="cpu"))

    def run(feeds):
        got = net(**feeds)
        return [got[name] for name in names]

    want = greedy(form, lambda feeds: oracle.run(None, feeds))
    got = greedy(form, run)
    np.testing.assert_allclose(got, want, atol=1e-4)
    assert (got.argmax(-1) == want.argmax(-1)).all()


def bind(context, engine, feeds, shared):
    """Binds arrays to all tensors; outputs whose names |shared| maps to inputs are in their memory."""
    arrays = {name: np.ascontiguousarray(x) for name, x in feeds.items()}
    for name, x in list(arrays.items()):
        assert context.set_input_shape(name, x.shape)
        assert context.set_tensor_address(name, x.ctypes.data)
    for i in range(engine.num_io_tensors):
        name = engine.get_tensor_name(i)
        if name not in feeds:
            shape = tuple(context.get_tensor_shape(name))
            arrays[name] = arrays[shared[name]] if name in shared else np.empty(shape, np.float32)
            assert context.set_tensor_address(name, arrays[name].ctypes.data)
    return arrays


def load(path, **options):
    engine = carnot.Runtime(carnot.Logger(carnot.Logger.ERROR)).deserialize_cuda_engine(
        carnot.build(str(path), backend="cpu", **options)
    )
    return engine, engine.create_execution_context()


def shared_names():
    ends = [decoder_graphs.caches(i, "present") for i in range(SIZE.layers)]
    return {name: name.replace("present", "past_key_values") for names in ends for name in names}


@pytest.mark.parametrize("form, path", [(form, form) for form in ("genai", "scatter")], indirect=["path"])
def test_a_cache_may_be_its_own_result(form, path):
    engine, context = load(path)
    feeds = decoder_graphs.feeds(form, SIZE, 11, 1, CAPACITY)
    want = session(path).run(["logits", "present.1.key"], feeds)
    arrays = bind(context, engine, {name: x.copy() for name, x in feeds.items()}, shared_names())
    assert context.execute_async_v3(0)
    np.testing.assert_allclose(arrays["logits"], want[0], atol=1e-4)
    np.testing.assert_allclose(arrays["past_key_values.1.key"][:, :, :12], want[1][:, :, :12], atol=1e-5)


@pytest.mark.parametrize("path", ["concat"], indirect=True)
def test_a_cache_that_grows_may_not(path, capfd):
    engine, context = load(path)
    feeds = decoder_graphs.feeds("concat", SIZE, 11, 1)
    bind(context, engine, feeds, shared_names())
    assert not context.execute_async_v3(0)
    assert "output present.0.key (1536 bytes) shares memory with input past_key_values.0.key (1408 bytes)" in capfd.readouterr().err


@pytest.mark.parametrize("path", ["scatter"], indirect=True)
def test_another_cache_is_no_place_for_a_result(path, capfd):
    engine, context = load(path)
    feeds = decoder_graphs.feeds("scatter", SIZE, 11, 1, CAPACITY)
    bind(context, engine, feeds, {"present.0.key": "past_key_values.0.value"})
    assert not context.execute_async_v3(0)
    assert "output present.0.key" in capfd.readouterr().err


def group_query(path, heads=4, kv_heads=2, columns=8, sines=8):
    """One GroupQueryAttention over packed operands with a cache of 12 rows."""
    tables = [np.ones((32, n), np.float32) for n in (columns, sines)]
    types = {"qkv": [1, 1, 128], "past_k": [1, kv_heads, 12, 16], "past_v": [1, kv_heads, 12, 16]}
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in types.items()]
    values.append(helper.make_tensor_value_info("seqlens", TensorProto.INT32, [1]))
    weights = [numpy_helper.from_array(x, n) for x, n in zip([*tables, np.array(7, np.int32)], ["cos", "sin", "total"])]
    node = helper.make_node("GroupQueryAttention", ["qkv", "", "", "past_k", "past_v", "seqlens", "total", "cos", "sin"],
                            ["y", "k", "v"], "gqa", domain="com.microsoft", num_heads=heads, kv_num_heads=kv_heads, do_rotary=1)
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "k", "v")]
    graph = helper.make_graph([node], "gqa", values, results, weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), str(path))
    return str(path)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"kv_heads": 3}, "num_heads is 4 and kv_num_heads 3; the first must be a multiple of the second"),
        ({"columns": 9, "sines": 9}, "cos_cache has 9 columns; at most 8 for heads of 16"),
        ({"sines": 4}, "cos_cache has 8 columns and sin_cache 4; they must be equal"),
    ],
)
def test_wrong_models_are_refused(options, message, tmp_path):
    with pytest.raises(carnot.CarnotError, match=message):
        carnot.build(group_query(tmp_path / "gqa.onnx", **options), backend="cpu")


@pytest.mark.parametrize("last, message", [(12, "1 steps from place 12 of sample 0 do not fit into 12"), (11, ""), (40, "do not fit")])
def test_lengths_beyond_the_cache_are_refused(last, message, tmp_path):
    net = carnot.load(carnot.build(group_query(tmp_path / "gqa.onnx"), backend="cpu"))
    zeros = {name: np.zeros([1, 2, 12, 16], np.float32) for name in ("past_k", "past_v")}
    feeds = {"qkv": np.ones((1, 1, 128), np.float32), "seqlens": np.array([last], np.int32)} | zeros
    if not message:
        assert np.isfinite(net(**feeds)["y"]).all()
        return
    with pytest.raises(carnot.CarnotError, match=message):
        net(**feeds)


def test_positions_beyond_the_tables_are_refused(tmp_path):
    file = tmp_path / "scatter.onnx"
    decoder_graphs.FORMS["scatter"](SIZE, file)
    feeds = decoder_graphs.feeds("scatter", SIZE, 11, 1, CAPACITY)
    feeds["position_ids"][:] = SIZE.positions
    with pytest.raises(carnot.CarnotError, match=r"position 96 is outside \[0, 96\)"):
        carnot.load(str(file))(**feeds)


def quantized_query(path, new=1, capacity=12, cache=TensorProto.INT8, scales=(1,), dtype=TensorProto.FLOAT, **attributes):
    """GroupQueryAttention of 4 heads over 2 of 16 with a cache of integers or FP8."""
    types = {name: (dtype, [1, new, 16 * heads]) for name, heads in (("q", 4), ("k", 2), ("v", 2))}
    types |= {name: (cache, [1, 2, capacity, 16]) for name in ("past_k", "past_v")}
    types |= {name: (TensorProto.INT32, [1]) for name in ("seqlens", "total")}
    types |= {name: (TensorProto.FLOAT, list(scales)) for name in ("k_scale", "v_scale")}
    names = ["q", "k", "v", "past_k", "past_v", "seqlens", "total", "", "", "", "", "", "k_scale", "v_scale"]
    kind = "PER_TENSOR" if scales == (1,) else "PER_CHANNEL"
    attributes = {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": 8} | attributes
    node = helper.make_node("GroupQueryAttention", names, ["y", "new_k", "new_v"], "gqa", domain="com.microsoft", num_heads=4,
                            kv_num_heads=2, **attributes)
    values = [helper.make_tensor_value_info(name, *of) for name, of in types.items()]
    results = [helper.make_tensor_value_info(name, of, None) for name, of in (("y", dtype), ("new_k", cache), ("new_v", cache))]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(helper.make_graph([node], "gqa", values, results), opset_imports=opsets, ir_version=10), str(path))
    return str(path)


@pytest.mark.parametrize("new, past, capacity", [(1, 7, 12), (5, 0, 12), (3, 4, 12), (3, 4, 4)])
@pytest.mark.parametrize("scales", [(1,), (1, 2, 1, 16), (32,)])
def test_caches_of_integers(new, past, capacity, scales, tmp_path):
    file, random = quantized_query(tmp_path / "gqa.onnx", new, capacity, scales=scales), np.random.default_rng(3)
    feeds = {name: random.standard_normal((1, new, 16 * heads), np.float32) for name, heads in (("q", 4), ("k", 2), ("v", 2))}
    feeds |= {name: random.integers(-128, 128, (1, 2, capacity, 16)).astype(np.int8) for name in ("past_k", "past_v")}
    feeds |= {name: (0.01 + 0.02 * random.random(scales)).astype(np.float32) for name in ("k_scale", "v_scale")}
    feeds |= {"seqlens": np.array([past + new - 1], np.int32), "total": np.array([past + new], np.int32)}
    want, *presents = session(file).run(None, feeds)
    got = carnot.load(carnot.build(file, backend="cpu"))(**feeds)
    np.testing.assert_allclose(got["y"], want, atol=1e-5)
    for name, present in zip(("new_k", "new_v"), presents):
        np.testing.assert_array_equal(np.asarray(got[name])[:, :, : past + new], present[:, :, : past + new])


def test_caches_of_fp8(tmp_path):
    """They saturate; the model shows them as float32."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    new, past, capacity, fp8 = 3, 4, 12, TensorProto.FLOAT8E4M3FN
    model = onnx.load(quantized_query(tmp_path / "gqa.onnx", new, capacity, cache=fp8))
    graph = model.graph
    for node, name, to in [(helper.make_node("Cast", [f"{x}_float"], [x], to=fp8), x, graph.input) for x in ("past_k", "past_v")] + [
        (helper.make_node("Cast", [x], [f"{x}_float"], to=TensorProto.FLOAT), x, graph.output) for x in ("new_k", "new_v")
    ]:
        value = next(v for v in to if v.name == name)
        value.name, value.type.tensor_type.elem_type = f"{name}_float", TensorProto.FLOAT
        graph.node.insert(0 if to is graph.input else len(graph.node), node)
    onnx.save(model, str(tmp_path / "casts.onnx"))
    random = np.random.default_rng(3)
    rounded = lambda x: np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)  # noqa: E731
    feeds = {name: random.standard_normal((1, new, 16 * heads), np.float32) for name, heads in (("q", 4), ("k", 2), ("v", 2))}
    caches = [rounded(random.standard_normal((1, 2, capacity, 16), np.float32)) for _ in range(2)]
    feeds |= {"past_k_float": caches[0], "past_v_float": caches[1]}
    scales = {"k_scale": np.array([0.004], np.float32), "v_scale": np.array([0.5], np.float32)}
    feeds |= scales | {"seqlens": np.array([past + new - 1], np.int32), "total": np.array([past + new], np.int32)}
    got = carnot.load(carnot.build(str(tmp_path / "casts.onnx"), backend="cpu"))(**feeds)
    whole = []
    for cache, name in zip(caches, "kv"):
        rows = feeds[name].reshape(1, new, 2, 16).swapaxes(1, 2)
        cache[:, :, past : past + new] = rounded(rows / scales[f"{name}_scale"])
        np.testing.assert_array_equal(got[f"new_{name}_float"], cache)
        whole.append(np.repeat(cache * scales[f"{name}_scale"], 2, 1).astype(np.float64))
    scores = feeds["q"].reshape(1, new, 4, 16).swapaxes(1, 2) @ whole[0].swapaxes(2, 3) / 4
    weights = np.exp(np.where(np.arange(capacity) <= past + np.arange(new)[:, None], scores, -np.inf))
    want = weights @ whole[1] / weights.sum(-1, keepdims=True)
    np.testing.assert_allclose(got["y"], want.swapaxes(1, 2).reshape(1, new, 64), atol=1e-5)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"kv_cache_bit_width": 4}, "attribute kv_cache_bit_width is 4; only 8 is supported where k_quant_type is PER_TENSOR"),
        ({"v_quant_type": "NONE"}, "attribute v_quant_type is NONE, and input v_scale is given"),
        ({"k_quant_type": "PER_TOKEN"}, "attribute k_quant_type is PER_TOKEN; NONE, PER_TENSOR and PER_CHANNEL are supported"),
        ({"cache": TensorProto.UINT8}, "past_key is uint8; int8 and float8e4m3fn are supported with scales"),
        ({"sliding_window_cache": 1}, "attribute sliding_window_cache is 1; only 0 is supported"),
    ],
)
def test_other_quantized_caches_are_refused(options, message, tmp_path):
    with pytest.raises(carnot.CarnotError, match=message):
        carnot.build(quantized_query(tmp_path / "gqa.onnx", **options), backend="cpu")
