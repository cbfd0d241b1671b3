"""Scripts as users of TensorRT write them, each a whole."""

import ctypes
import json
import threading

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import carnot as trt

from conftest import Messages

TRT_LOGGER = Messages()
rng = np.random.default_rng(3)


def onnx_bytes(nodes, inputs, outputs, weights=(), opset=17):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs],
        [helper.make_tensor_value_info(n, t, s) for n, t, s in outputs],
        [onnx.numpy_helper.from_array(w, n) for n, w in weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9).SerializeToString()


def conv_model(weights=None, batch="n"):
    w = rng.standard_normal((4, 3, 3, 3)).astype(np.float32) if weights is None else weights
    bn = [(n, (np.abs(rng.standard_normal(4)) + 0.5).astype(np.float32)) for n in ("scale", "bias", "mean", "var")]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1] * 4),
        helper.make_node("BatchNormalization", ["c", "scale", "bias", "mean", "var"], ["b"], name="bn"),
        helper.make_node("Relu", ["b"], ["y"], name="relu"),
    ]
    return onnx_bytes(nodes, [("x", 1, [batch, 3, 8, 8])], [("y", 1, [batch, 4, 8, 8])], [("w", w), *bn])


def ort_run(model, feeds):
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def build(model, flags=(), profiles=(), cache=None, monitor=None):
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    parser = trt.OnnxParser(network, TRT_LOGGER)
    assert parser.parse(model), [parser.get_error(i).desc() for i in range(parser.num_errors)]
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 30)
    config.builder_optimization_level = 1
    for flag in flags:
        config.set_flag(flag)
    for shapes in profiles:
        profile = builder.create_optimization_profile()
        profile.set_shape("x", *shapes)
        config.add_optimization_profile(profile)
    if cache is not None:
        config.set_timing_cache(cache, ignore_mismatch=False)
    if monitor is not None:
        config.progress_monitor = monitor
    return builder.build_serialized_network(network, config)


def infer(context, feeds):
    """The loop over tensors that every sample has."""
    engine = context.engine
    outputs, keep = {}, []
    for name, array in feeds.items():
        assert context.set_input_shape(name, array.shape)
        keep.append(np.ascontiguousarray(array))
        assert context.set_tensor_address(name, keep[-1].ctypes.data)
    for i in range(engine.num_io_tensors):
        name = engine.get_tensor_name(i)
        if engine.get_tensor_mode(name) == trt.TensorIOMode.OUTPUT:
            outputs[name] = np.empty(context.get_tensor_shape(name), dtype=trt.nptype(engine.get_tensor_dtype(name)))
            context.set_tensor_address(name, outputs[name].ctypes.data)
    context.buffers = keep, outputs  # the context borrows them for further runs
    assert context.execute_async_v3(0), TRT_LOGGER.errors()
    return outputs


# 1. Build from ONNX and run the whole of a real model.
@pytest.mark.parametrize("name", ["ultraface_rfb_320.onnx", "squeezenet_fp16.onnx"])
def test_build_from_onnx_file(model, name, tmp_path):
    with (
        trt.Builder(TRT_LOGGER) as builder,
        builder.create_network(1) as network,
        trt.OnnxParser(network, TRT_LOGGER) as parser,
        builder.create_builder_config() as config,
    ):
        config.max_workspace_size = 1 << 28
        assert parser.parse_from_file(model(name))
        config.builder_optimization_level = 0
        plan = builder.build_serialized_network(network, config)
    (tmp_path / "m.plan").write_bytes(plan)
    with open(tmp_path / "m.plan", "rb") as f, trt.Runtime(TRT_LOGGER) as runtime:
        engine = runtime.deserialize_cuda_engine(f.read())
    x_name = engine.get_tensor_name(0)
    x = rng.standard_normal(tuple(max(1, d) for d in engine.get_tensor_shape(x_name)))
    x = x.astype(trt.nptype(engine.get_tensor_dtype(x_name)))
    got = infer(engine.create_execution_context(), {x_name: x})
    for y, wanted in zip(got.values(), ort_run(model(name), {x_name: x})):
        scale = np.abs(wanted.astype(np.float64)).max()
        assert np.abs(y.astype(np.float64) - wanted).max() <= (1e-4 if x.dtype == np.float32 else 4e-3) * scale


# 2. An MNIST-like network by layers, in the manner of network_api_pytorch_mnist.
def test_mnist_by_layers():
    weights = {
        "conv1.weight": rng.standard_normal((20, 1, 5, 5)),
        "conv1.bias": rng.standard_normal(20),
        "conv2.weight": rng.standard_normal((50, 20, 5, 5)) / 20,
        "conv2.bias": rng.standard_normal(50),
        "fc1.weight": rng.standard_normal((500, 800)) / 28,
        "fc1.bias": rng.standard_normal(500),
        "fc2.weight": rng.standard_normal((10, 500)) / 22,
        "fc2.bias": rng.standard_normal(10),
    }
    weights = {k: v.astype(np.float32) for k, v in weights.items()}
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(0)
    config = builder.create_builder_config()

    def add_matmul_as_fc(net, input, outputs, w, b):
        m, k = outputs, int(w.size / outputs)
        input_reshape = net.add_shuffle(input)
        input_reshape.reshape_dims = trt.Dims2(-1, k)
        filter_const = net.add_constant(trt.Dims2(m, k), w)
        mm = net.add_matrix_multiply(
            input_reshape.get_output(0),
            trt.MatrixOperation.NONE,
            filter_const.get_output(0),
            trt.MatrixOperation.TRANSPOSE,
        )
        bias_const = net.add_constant(trt.Dims2(1, m), b)
        bias_add = net.add_elementwise(mm.get_output(0), bias_const.get_output(0), trt.ElementWiseOperation.SUM)
        output_reshape = net.add_shuffle(bias_add.get_output(0))
        output_reshape.reshape_dims = trt.Dims4(-1, m, 1, 1)
        return output_reshape

    data = network.add_input(name="data", dtype=trt.float32, shape=(1, 1, 28, 28))
    conv1 = network.add_convolution_nd(
        input=data, num_output_maps=20, kernel_shape=(5, 5), kernel=weights["conv1.weight"], bias=weights["conv1.bias"]
    )
    conv1.stride_nd = (1, 1)
    pool1 = network.add_pooling_nd(input=conv1.get_output(0), type=trt.PoolingType.MAX, window_size=(2, 2))
    pool1.stride_nd = trt.Dims2(2, 2)
    conv2 = network.add_convolution_nd(pool1.get_output(0), 50, (5, 5), weights["conv2.weight"], weights["conv2.bias"])
    conv2.stride_nd = (1, 1)
    pool2 = network.add_pooling_nd(conv2.get_output(0), trt.PoolingType.MAX, (2, 2))
    pool2.stride_nd = trt.Dims2(2, 2)
    fc1 = add_matmul_as_fc(network, pool2.get_output(0), 500, weights["fc1.weight"], weights["fc1.bias"])
    relu1 = network.add_activation(input=fc1.get_output(0), type=trt.ActivationType.RELU)
    fc2 = add_matmul_as_fc(network, relu1.get_output(0), 10, weights["fc2.weight"], weights["fc2.bias"])
    fc2.get_output(0).name = "prob"
    network.mark_output(tensor=fc2.get_output(0))
    plan = builder.build_serialized_network(network, config)
    engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(plan)
    x = rng.standard_normal((1, 1, 28, 28)).astype(np.float32)
    y = infer(engine.create_execution_context(), {"data": x})["prob"].reshape(10)

    w = {k: v.astype(np.float64) for k, v in weights.items()}

    def conv(a, k, b):
        view = np.lib.stride_tricks.sliding_window_view(a, k.shape[2:], (1, 2))
        return np.einsum("chwrs,kcrs->khw", view, k) + b[:, None, None]

    def pool(a):
        return a.reshape(a.shape[0], a.shape[1] // 2, 2, a.shape[2] // 2, 2).max((2, 4))

    a = pool(conv(x[0].astype(np.float64), w["conv1.weight"], w["conv1.bias"]))
    a = pool(conv(a, w["conv2.weight"], w["conv2.bias"])).reshape(-1)
    a = np.maximum(w["fc1.weight"] @ a + w["fc1.bias"], 0)
    a = w["fc2.weight"] @ a + w["fc2.bias"]
    np.testing.assert_allclose(y, a, rtol=1e-5, atol=1e-5 * np.abs(a).max())


# 3. Refit by weight names, from an ONNX file, under a live context.
def test_refit():
    model = conv_model(batch=1)
    x = rng.standard_normal((1, 3, 8, 8)).astype(np.float32)
    engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(build(model, [trt.BuilderFlag.REFIT]))
    assert engine.refittable
    context = engine.create_execution_context()
    np.testing.assert_allclose(infer(context, {"x": x})["y"], ort_run(model, {"x": x})[0], rtol=1e-4, atol=1e-4)
    refitter = trt.Refitter(engine, TRT_LOGGER)
    assert set(refitter.get_all_weights()) >= {"w", "scale", "bias", "mean", "var"}
    other = onnx.load_from_string(model)
    new = (rng.standard_normal((4, 3, 3, 3))).astype(np.float32)
    other.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(new, "w"))
    assert refitter.set_named_weights("w", trt.Weights(new))
    assert not refitter.set_named_weights("w", np.zeros(3, np.float32))
    assert refitter.get_missing_weights() == []
    assert refitter.refit_cuda_engine()
    np.testing.assert_allclose(
        infer(context, {"x": x})["y"], ort_run(other.SerializeToString(), {"x": x})[0], rtol=1e-4, atol=1e-4
    )
    back = trt.OnnxParserRefitter(refitter, TRT_LOGGER)
    assert back.refit_from_bytes(model) and refitter.refit_cuda_engine()
    np.testing.assert_allclose(infer(context, {"x": x})["y"], ort_run(model, {"x": x})[0], rtol=1e-4, atol=1e-4)


# 4. Refit by layer and role, of a network made by layers.
def test_refit_by_layer_and_role():
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(0)
    x = network.add_input("x", trt.float32, (1, 2, 4, 4))
    w = rng.standard_normal((3, 2, 1, 1)).astype(np.float32)
    layer = network.add_convolution_nd(x, 3, (1, 1), w, np.zeros(3, np.float32))
    layer.name = "point"
    layer.get_output(0).name = "y"
    network.mark_output(layer.get_output(0))
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.REFIT)
    engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(builder.build_serialized_network(network, config))
    refitter = trt.Refitter(engine, TRT_LOGGER)
    assert ("point", trt.WeightsRole.KERNEL) in list(zip(*refitter.get_all()))
    assert refitter.set_weights("point", trt.WeightsRole.KERNEL, w * 2)
    assert refitter.set_weights("point", trt.WeightsRole.BIAS, np.ones(3, np.float32))
    assert refitter.refit_cuda_engine()
    a = rng.standard_normal((1, 2, 4, 4)).astype(np.float32)
    wanted = np.einsum("kc,nchw->nkhw", 2 * w[:, :, 0, 0].astype(np.float64), a) + 1
    np.testing.assert_allclose(infer(engine.create_execution_context(), {"x": a})["y"], wanted, rtol=1e-5, atol=1e-5)


# 5. Strip the weights, give them back.
def test_strip_weights():
    model = conv_model(batch=1)
    x = rng.standard_normal((1, 3, 8, 8)).astype(np.float32)
    runtime = trt.Runtime(TRT_LOGGER)
    whole, stripped = (build(model, [flag]) for flag in (trt.BuilderFlag.REFIT, trt.BuilderFlag.STRIP_PLAN))
    assert stripped.nbytes < whole.nbytes
    engine = runtime.deserialize_cuda_engine(stripped)
    refitter = trt.Refitter(engine, TRT_LOGGER)
    assert "w" in refitter.get_missing_weights()
    assert trt.OnnxParserRefitter(refitter, TRT_LOGGER).refit_from_bytes(model)
    assert refitter.refit_cuda_engine()
    full = runtime.deserialize_cuda_engine(engine.serialize())
    config = engine.create_serialization_config()
    config.set_flag(trt.SerializationFlag.EXCLUDE_WEIGHTS)
    assert len(engine.serialize_with_config(config)) < whole.nbytes
    for e in (engine, full):
        np.testing.assert_allclose(
            infer(e.create_execution_context(), {"x": x})["y"], ort_run(model, {"x": x})[0], rtol=1e-4, atol=1e-4
        )


# 6. Dynamic shapes with two profiles, by names and by bindings.
def test_two_profiles():
    model = conv_model()
    plan = build(
        model, profiles=[((1, 3, 8, 8), (1, 3, 8, 8), (2, 3, 8, 8)), ((4, 3, 8, 8), (8, 3, 8, 8), (16, 3, 8, 8))]
    )
    engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(plan)
    assert engine.num_optimization_profiles == 2 and engine.get_tensor_shape("x") == (-1, 3, 8, 8)
    assert engine.get_tensor_profile_shape("x", 1) == [(4, 3, 8, 8), (8, 3, 8, 8), (16, 3, 8, 8)]
    context = engine.create_execution_context()
    assert not context.all_binding_shapes_specified and context.infer_shapes() == ["x"]
    for profile, count in ((0, 2), (1, 5), (1, 16), (0, 1)):
        context.set_optimization_profile_async(profile, 0)
        x = rng.standard_normal((count, 3, 8, 8)).astype(np.float32)
        np.testing.assert_allclose(infer(context, {"x": x})["y"], ort_run(model, {"x": x})[0], rtol=1e-4, atol=1e-4)
    assert not context.set_input_shape("x", (3, 3, 8, 8))
    assert any("x" in m and "3" in m for m in TRT_LOGGER.errors())
    with pytest.raises(RuntimeError):
        context.set_optimization_profile_async(2, 0)


def test_bindings_of_8_6():
    model = conv_model(batch=1)
    engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(build(model))
    bindings, host = [], {}
    for binding in engine:
        size = trt.volume(engine.get_binding_shape(binding)) * 1
        host[binding] = np.empty(size, trt.nptype(engine.get_binding_dtype(binding)))
        bindings.append(int(host[binding].ctypes.data))
    x = rng.standard_normal((1, 3, 8, 8)).astype(np.float32)
    assert engine.binding_is_input("x") and engine["y"] == 1 and engine.num_bindings == 2
    np.copyto(host["x"], x.ravel())
    context = engine.create_execution_context()
    assert context.execute_async_v2(bindings=bindings, stream_handle=0)
    np.testing.assert_allclose(host["y"].reshape(1, 4, 8, 8), ort_run(model, {"x": x})[0], rtol=1e-4, atol=1e-4)


# 7. Profiler and inspector.
def test_profiler_and_inspector():
    class Times(trt.IProfiler):
        def __init__(self):
            trt.IProfiler.__init__(self)
            self.layers = {}

        def report_layer_time(self, layer_name, ms):
            self.layers[layer_name] = self.layers.get(layer_name, 0) + ms

    engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(build(conv_model(batch=1)))
    context = engine.create_execution_context()
    context.profiler = Times()
    infer(context, {"x": np.ones((1, 3, 8, 8), np.float32)})
    inspector = engine.create_engine_inspector()
    inspector.execution_context = context
    info = json.loads(inspector.get_engine_information(trt.LayerInformationFormat.JSON))
    names = [layer["Name"] for layer in info["Layers"]]
    assert (
        names and set(context.profiler.layers) == set(names) and all(ms >= 0 for ms in context.profiler.layers.values())
    )
    assert info["Bindings"] == ["x", "y"] and len(names) == engine.num_layers
    one = json.loads(inspector.get_layer_information(0, trt.LayerInformationFormat.JSON))
    assert {"Name", "LayerType", "Inputs", "Outputs", "TacticValue"} <= set(one)
    assert names[0] in inspector.get_engine_information(trt.LayerInformationFormat.ONELINE)
    context.enqueue_emits_profile = False
    context.profiler.layers.clear()
    context.execute_async_v3(0)
    assert not context.profiler.layers
    assert context.report_to_profiler() and context.profiler.layers


def test_exception_of_a_callback_surfaces():
    class Broken(trt.IProfiler):
        def report_layer_time(self, layer_name, ms):
            raise KeyError("mine")

    engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(build(conv_model(batch=1)))
    context = engine.create_execution_context()
    infer(context, {"x": np.ones((1, 3, 8, 8), np.float32)})
    context.profiler = Broken()
    with pytest.raises(KeyError, match="mine"):
        context.execute_async_v3(0)
    context.profiler = None
    assert context.execute_async_v3(0)


# 8. Timing cache: two builds with one cache give the same bytes.
def test_timing_cache(tmp_path):
    model = conv_model(batch=1)
    config = trt.Builder(TRT_LOGGER).create_builder_config()
    cache = config.create_timing_cache(b"")
    first = build(model, cache=cache)
    with cache.serialize() as buffer:
        (tmp_path / "timing.cache").write_bytes(buffer)
    again = config.create_timing_cache((tmp_path / "timing.cache").read_bytes())
    assert bytes(build(model, cache=again)) == bytes(first)
    merged = config.create_timing_cache(b"")
    assert merged.combine(again, ignore_mismatch=False) and bytes(merged.serialize()) == bytes(again.serialize())
    assert config.create_timing_cache(b"nonsense") is None
    assert merged.reset() and merged.queryKeys() == []


# 9. Contexts of one engine in threads.
def test_contexts_in_threads():
    model = conv_model()
    engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(
        build(model, profiles=[((1, 3, 8, 8), (2, 3, 8, 8), (8, 3, 8, 8))])
    )
    wrong = []

    def work(seed):
        mine = np.random.default_rng(seed)
        context = engine.create_execution_context()
        for _ in range(10):
            x = mine.standard_normal((int(mine.integers(1, 9)), 3, 8, 8)).astype(np.float32)
            if not np.allclose(infer(context, {"x": x})["y"], ort_run(model, {"x": x})[0], 1e-4, 1e-4):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# 10. An output whose size only the run knows, through an output allocator.
def test_data_dependent_output():
    class Allocator(trt.IOutputAllocator):
        def __init__(self):
            trt.IOutputAllocator.__init__(self)
            self.memory, self.shape = None, None

        def reallocate_output(self, tensor_name, memory, size, alignment):
            self.memory = ctypes.create_string_buffer(max(size, 1))
            return ctypes.addressof(self.memory)

        def notify_shape(self, tensor_name, shape):
            self.shape = tuple(shape)

    model = onnx_bytes(
        [helper.make_node("NonZero", ["x"], ["i"])], [("x", 1, [4, 6])], [("i", TensorProto.INT64, [2, "n"])]
    )
    engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(build(model))
    context, allocator = engine.create_execution_context(), Allocator()
    assert context.set_output_allocator("i", allocator) and context.get_output_allocator("i") is allocator
    for density in (0.5, 1.0, 0.0):
        x = np.ascontiguousarray((rng.random((4, 6)) < density).astype(np.float32))
        context.set_tensor_address("x", x.ctypes.data)
        assert context.execute_async_v3(0)
        wanted = np.stack(np.nonzero(x))
        assert allocator.shape == wanted.shape
        got = np.frombuffer(allocator.memory, np.int64, wanted.size).reshape(wanted.shape)
        assert (got == wanted).all()


# 11. Progress, and a build that the user cancels.
def test_progress_and_cancel():
    class Monitor(trt.IProgressMonitor):
        def __init__(self, stop_after=None):
            trt.IProgressMonitor.__init__(self)
            self.open, self.steps, self.stop_after = [], 0, stop_after

        def phase_start(self, phase_name, parent_phase, num_steps):
            assert num_steps >= 0
            self.open.append(phase_name)

        def step_complete(self, phase_name, step):
            self.steps += 1
            return self.stop_after is None or self.steps < self.stop_after

        def phase_finish(self, phase_name):
            self.open.remove(phase_name)

    monitor = Monitor()
    assert build(conv_model(batch=1), monitor=monitor) is not None
    assert monitor.steps > 0 and monitor.open == []
    monitor = Monitor(stop_after=1)
    assert build(conv_model(batch=1), monitor=monitor) is None and monitor.open == []

    class Broken(Monitor):
        def step_complete(self, phase_name, step):
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        build(conv_model(batch=1), monitor=Broken())


# 12. Strong typing, and flags that are not there yet.
def test_strong_typing_and_flags():
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    assert network.get_flag(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    x = network.add_input("x", trt.float16, (2, 3))
    y = network.add_unary(x, trt.UnaryOperation.EXP).get_output(0)
    y.name = "y"
    network.mark_output(y)
    assert y.dtype == trt.float16
    config = builder.create_builder_config()
    engine = builder.build_engine(network, config)
    a = np.linspace(-1, 1, 6, dtype=np.float16).reshape(2, 3)
    got = infer(engine.create_execution_context(), {"x": a})["y"]
    assert got.dtype == np.float16 and np.abs(got.astype(np.float64) - np.exp(a.astype(np.float64))).max() < 2e-3
    config.set_flag(trt.BuilderFlag.INT8)
    assert builder.build_serialized_network(network, config) is None
    assert any("INT8" in m for m in TRT_LOGGER.errors())


# 13. Loops and conditionals in TensorRT's flat form.
@pytest.mark.parametrize("kind, axis", [("CONCATENATE", 0), ("CONCATENATE", 1), ("REVERSE", 0)])
def test_loop_with_count(net, kind, axis):
    x = rng.standard_normal((5, 3)).astype(np.float32)
    loop = net.network.add_loop()
    loop.add_trip_limit(net.constant(np.array(5, np.int32)), trt.TripLimit.COUNT)
    step = loop.add_iterator(net.input(x), 0, False)
    total = loop.add_recurrence(net.constant(np.zeros(3, np.float32)))
    added = net.network.add_elementwise(total.get_output(0), step.get_output(0), trt.ElementWiseOperation.SUM)
    total.set_input(1, added.get_output(0))
    last = loop.add_loop_output(total.get_output(0), trt.LoopOutput.LAST_VALUE)
    every = loop.add_loop_output(added.get_output(0), trt.LoopOutput[kind], axis)
    every.set_input(1, net.constant(np.array(5, np.int32)))
    a, b = net.run(last.get_output(0), every.get_output(0))
    sums = np.cumsum(x.astype(np.float64), 0)
    np.testing.assert_allclose(a, sums[-1], rtol=1e-5, atol=1e-5)
    wanted = {"CONCATENATE": sums if axis == 0 else sums.T, "REVERSE": sums[::-1]}[kind]
    np.testing.assert_allclose(b, wanted, rtol=1e-5, atol=1e-5)


def test_loop_while(net):
    start = np.array([1, 1], np.float32)
    loop = net.network.add_loop()
    value = loop.add_recurrence(net.input(start))
    total = net.network.add_reduce(value.get_output(0), trt.ReduceOperation.SUM, 1, False).get_output(0)
    less = net.network.add_elementwise(total, net.constant(np.array(100, np.float32)), trt.ElementWiseOperation.LESS)
    loop.add_trip_limit(less.get_output(0), trt.TripLimit.WHILE)
    doubled = net.network.add_elementwise(value.get_output(0), value.get_output(0), trt.ElementWiseOperation.SUM)
    value.set_input(1, doubled.get_output(0))
    (y,) = net.run(loop.add_loop_output(value.get_output(0), trt.LoopOutput.LAST_VALUE).get_output(0))
    assert y.tolist() == [64, 64]


@pytest.mark.parametrize("flag", [True, False])
def test_conditional(net, flag):
    x = rng.standard_normal((2, 3)).astype(np.float32)
    choice = net.network.add_if_conditional()
    choice.set_condition(net.input(np.array(flag)))
    entry = choice.add_input(net.input(x)).get_output(0)
    yes = net.network.add_unary(entry, trt.UnaryOperation.EXP).get_output(0)
    no = net.network.add_unary(entry, trt.UnaryOperation.NEG).get_output(0)
    (y,) = net.run(choice.add_output(yes, no).get_output(0))
    np.testing.assert_allclose(y, np.exp(x) if flag else -x, rtol=1e-6)


# 14. A parsed network is edited before it is built.
def test_edit_a_parsed_network():
    model = conv_model(batch=1)
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(0)
    assert trt.OnnxParser(network, TRT_LOGGER).parse(model)
    conv = next(layer for layer in network if layer.type == trt.LayerType.CONVOLUTION)
    assert conv.kernel_size_nd == (3, 3) and conv.num_output_maps == 4 and conv.padding_nd == (1, 1)
    conv.stride_nd = (2, 2)
    assert network.get_output(0).shape == (1, 4, 4, 4)
    out = network.get_output(0)
    network.unmark_output(out)
    tail = network.add_activation(out, trt.ActivationType.TANH).get_output(0)
    tail.name = "tail"
    network.mark_output(tail)
    network.mark_output(conv.get_output(0))
    network.get_input(0).shape = (2, 3, 8, 8)
    engine = builder.build_engine(network, builder.create_builder_config())
    x = rng.standard_normal((2, 3, 8, 8)).astype(np.float32)
    got = infer(engine.create_execution_context(), {"x": x})
    edited = onnx.load_from_string(model)
    edited.graph.node[0].attribute.append(helper.make_attribute("strides", [2, 2]))
    del edited.graph.output[:]
    edited.graph.output.append(helper.make_tensor_value_info("y", 1, [2, 4, 4, 4]))
    edited.graph.output.append(helper.make_tensor_value_info("c", 1, [2, 4, 4, 4]))
    edited.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 2
    y, c = ort_run(edited.SerializeToString(), {"x": x})
    np.testing.assert_allclose(got["tail"], np.tanh(y), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(got["c"], c, rtol=1e-4, atol=1e-5)


# 15. Types of inputs and outputs in a weakly typed network.
def test_io_types():
    model = conv_model(batch=1)
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(0)
    assert trt.OnnxParser(network, TRT_LOGGER).parse(model)
    network.get_input(0).dtype = trt.float16
    network.get_output(0).dtype = trt.float16
    engine = builder.build_engine(network, builder.create_builder_config())
    assert engine.get_tensor_dtype("x") == trt.float16 and engine.get_tensor_dtype("y") == trt.float16
    x = rng.standard_normal((1, 3, 8, 8)).astype(np.float16)
    wanted = ort_run(model, {"x": x.astype(np.float32)})[0]
    got = infer(engine.create_execution_context(), {"x": x})["y"]
    np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=1e-3, atol=1e-3)


# 16. Debug tensors.
def test_debug_tensors():
    class Listener(trt.IDebugListener):
        def __init__(self):
            trt.IDebugListener.__init__(self)
            self.seen = {}

        def process_debug_tensor(self, addr, location, type, shape, name, stream):
            array = np.ctypeslib.as_array((ctypes.c_float * trt.volume(shape)).from_address(addr))
            self.seen[name] = array.reshape(tuple(shape)).copy()
            return True

    model = conv_model(batch=1)
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(0)
    assert trt.OnnxParser(network, TRT_LOGGER).parse(model)
    assert network.mark_debug(network[0].get_output(0)) and network.is_debug_tensor(network[0].get_output(0))
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(plan)
    assert engine.num_io_tensors == 2 and engine.is_debug_tensor("c")
    context, listener = engine.create_execution_context(), Listener()
    context.set_debug_listener(listener)
    x = rng.standard_normal((1, 3, 8, 8)).astype(np.float32)
    infer(context, {"x": x})
    assert listener.seen == {}
    assert context.set_all_tensors_debug_state(True)
    infer(context, {"x": x})
    shown = onnx.load_from_string(model)
    shown.graph.output.append(helper.make_tensor_value_info("c", 1, [1, 4, 8, 8]))
    np.testing.assert_allclose(
        listener.seen["c"], ort_run(shown.SerializeToString(), {"x": x})[1], rtol=1e-4, atol=1e-4
    )


# 17. What a parser says of a model that it cannot read.
def test_parser_errors():
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="fine"),
        helper.make_node("FancyOp", ["a"], ["b"], name="fancy", domain="my.domain"),
        helper.make_node("Exp", ["b"], ["y"], name="after"),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, [2])], [helper.make_tensor_value_info("y", 1, [2])]
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("my.domain", 1)], ir_version=9
    ).SerializeToString()
    logger = Messages()
    parser = trt.OnnxParser(trt.Builder(logger).create_network(0), logger)
    assert not parser.parse(model) and parser.num_errors == 1
    error = parser.get_error(0)
    assert error.code() == trt.ErrorCode.UNSUPPORTED_NODE and error.node() == 1
    assert (error.node_name(), error.node_operator()) == ("fancy", "FancyOp") and "FancyOp" in logger.errors()[0]
    parser.clear_errors()
    supported, parts = parser.supports_model(model)
    assert not supported and parts == [([0], True), ([1], False), ([2], True)]
    assert parser.num_subgraphs == 3 and parser.get_subgraph_nodes(1) == [1] and not parser.is_subgraph_supported(1)
    assert parser.supports_operator("Conv") and not parser.supports_operator("FancyOp")
    assert not parser.parse(b"not a model") and not parser.parse_from_file("/nowhere/model.onnx")


# 18. Layer normalization written as its parts is one layer, named as the last of them.
def test_decomposed_layer_normalization():
    w, b = (rng.standard_normal(8).astype(np.float32) for _ in range(2))
    ops = [
        ("ReduceMean", ["x"], "mean", {"axes": [-1]}),
        ("Sub", ["x", "mean"], "d", {}),
        ("Pow", ["d", "two"], "p", {}),
        ("ReduceMean", ["p"], "v", {"axes": [-1]}),
        ("Add", ["v", "eps"], "ve", {}),
        ("Sqrt", ["ve"], "s", {}),
        ("Div", ["d", "s"], "n", {}),
        ("Mul", ["n", "w"], "nw", {}),
        ("Add", ["nw", "b"], "y", {}),
    ]
    model = onnx_bytes(
        [helper.make_node(op, i, [o], name="node_" + o, **a) for op, i, o, a in ops],
        [("x", 1, [2, 8])],
        [("y", 1, [2, 8])],
        [("two", np.float32(2)), ("eps", np.float32(1e-5)), ("w", w), ("b", b)],
        opset=13,
    )
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(0)
    assert trt.OnnxParser(network, TRT_LOGGER).parse(model)
    assert [(layer.type, layer.name) for layer in network] == [(trt.LayerType.NORMALIZATION, "node_y")]
    network[0].precision = trt.float32
    engine = builder.build_engine(network, builder.create_builder_config())
    x = rng.standard_normal((2, 8)).astype(np.float32) * 100 + 1000
    wide = x.astype(np.float64)
    wanted = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * w + b
    np.testing.assert_allclose(infer(engine.create_execution_context(), {"x": x})["y"], wanted, rtol=1e-4, atol=1e-4)


# 19. A shape that the user gives as values.
def test_shape_as_values():
    model = onnx_bytes(
        [helper.make_node("Reshape", ["x", "s"], ["y"])],
        [("x", 1, [6]), ("s", TensorProto.INT64, [2])],
        [("y", 1, ["a", "b"])],
    )
    net = trt.Model(trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(build(model)))
    x = np.arange(6, dtype=np.float32)
    for shape in ((2, 3), (3, 2), (1, 6)):
        got = net(s=np.array(shape, np.int64), x=x)["y"]
        assert got.shape == shape and (got.ravel() == x).all()


# 20. Two models and layers in one network.
def test_two_models_in_one_network():
    def scaled(name, factor):
        return onnx_bytes(
            [helper.make_node("Mul", [name, "f"], [name + "_out"])],
            [(name, 1, [2, 2])],
            [(name + "_out", 1, [2, 2])],
            [("f", np.float32(factor))],
        )

    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(0)
    for name, factor in (("a", 2), ("b", 3)):
        assert trt.OnnxParser(network, TRT_LOGGER).parse(scaled(name, factor))
    assert network.num_inputs == network.num_outputs == 2
    total = network.add_elementwise(network.get_output(0), network.get_output(1), trt.ElementWiseOperation.SUM)
    total.get_output(0).name = "a"
    network.mark_output(total.get_output(0))
    config = builder.create_builder_config()
    assert builder.build_serialized_network(network, config) is None and "called a" in TRT_LOGGER.errors()[-1]
    total.get_output(0).name = "total"
    engine = builder.build_engine(network, config)
    a, b = np.eye(2, dtype=np.float32), np.ones((2, 2), np.float32)
    got = infer(engine.create_execution_context(), {"a": a, "b": b})
    assert (got["total"] == 2 * a + 3 * b).all() and (got["a_out"] == 2 * a).all()


# 21. Story C: layer normalization stays in float32 in an engine of half precision.
@pytest.mark.parametrize("flag, bound", [("FP16", 2e-3), ("BF16", 2e-2)])
def test_precision_constraints(flag, bound):
    w1, w2 = ((rng.standard_normal((64, 64)) / 8).astype(np.float32) for _ in range(2))
    scale, bias = np.ones(64, np.float32), np.zeros(64, np.float32)
    model = onnx_bytes(
        [
            helper.make_node("MatMul", ["x", "w1"], ["a"], name="first"),
            helper.make_node("LayerNormalization", ["a", "scale", "bias"], ["n"], name="norm"),
            helper.make_node("MatMul", ["n", "w2"], ["y"], name="second"),
        ],
        [("x", 1, [32, 64])],
        [("y", 1, [32, 64])],
        [("w1", w1), ("w2", w2), ("scale", scale), ("bias", bias)],
    )
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(0)
    assert trt.OnnxParser(network, TRT_LOGGER).parse(model)
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
    config.set_flag(trt.BuilderFlag[flag])
    for i in range(network.num_layers):
        layer = network.get_layer(i)
        if layer.type == trt.LayerType.NORMALIZATION:
            layer.precision = trt.DataType.FLOAT
            layer.set_output_type(0, trt.DataType.FLOAT)
    engine = builder.build_engine(network, config)
    assert engine is not None, TRT_LOGGER.errors()
    x = (rng.standard_normal((32, 64)) * 3000).astype(np.float32)  # squared sums pass 65504
    wide = x.astype(np.float64) @ w1
    wanted = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) @ w2
    got = infer(engine.create_execution_context(), {"x": x})["y"].astype(np.float64)
    assert np.linalg.norm(got - wanted) <= bound * np.linalg.norm(wanted)


def test_foreign_and_broken_engines():
    logger = Messages()
    runtime = trt.Runtime(logger)
    assert runtime.deserialize_cuda_engine(b"ftrt" + bytes(100)) is None
    assert "rebuild from ONNX" in logger.errors()[-1]
    plan = bytearray(build(conv_model(batch=1)))
    plan[200] ^= 255
    assert runtime.deserialize_cuda_engine(bytes(plan)) is None
    assert runtime.deserialize_cuda_engine(b"") is None


def test_easy_layer(model):
    net = trt.load(model("ultraface_rfb_320.onnx"), level=0)
    x = rng.standard_normal((1, 3, 240, 320)).astype(np.float32)
    got, wanted = net(input=x), ort_run(model("ultraface_rfb_320.onnx"), {"input": x})
    for name, array in zip(("scores", "boxes"), wanted):
        np.testing.assert_allclose(got[name], array, atol=1e-5)
    report = net.engine.profile()
    assert report.total_ms > 0 and "<table>" in net._repr_html_() and "<table>" in report._repr_html_()
    with pytest.raises(TypeError, match="float64"):
        net(input=x.astype(np.float64))
    with pytest.raises(trt.CarnotError, match="outpost"):
        net(outpost=x)


def test_destroyed_in_any_order():
    import gc

    for order in range(6):
        model = conv_model(batch=1)
        plan = build(model)
        runtime = trt.Runtime(TRT_LOGGER)
        engine = runtime.deserialize_cuda_engine(plan)
        context = engine.create_execution_context()
        things = {"plan": plan, "runtime": runtime, "engine": engine}
        del plan, runtime, engine
        for name in [list(things)[(i + order) % 3] for i in range(3)]:
            del things[name]
            gc.collect()
        assert infer(context, {"x": np.ones((1, 3, 8, 8), np.float32)})["y"].shape == (1, 4, 8, 8)
