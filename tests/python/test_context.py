"""Execution contexts: bindings, profiles, threads, data-dependent outputs, debug tensors."""

import ctypes
import threading

import carnot as trt
import numpy as np
import onnx
import pytest
from models import TRT_LOGGER, build_engine, build_plan, conv_model, infer, matmul_model, onnx_bytes, ort_run
from onnx import TensorProto, helper

rng = np.random.default_rng(21)


@pytest.mark.parametrize("way", ["execute", "execute_v2", "execute_async", "execute_async_v2"])
def test_context_by_bindings(logger, way):
    engine = build_engine(logger, matmul_model())
    context = engine.create_execution_context()
    x, y = rng.standard_normal((2, 4)).astype(np.float32), np.zeros((2, 4), np.float32)
    pointers = [x.ctypes.data, y.ctypes.data]
    assert context.set_binding_shape(0, (2, 4)) and context.get_strides(0) == (4, 1)
    done = {
        "execute": lambda: context.execute(1, pointers),
        "execute_v2": lambda: context.execute_v2(pointers),
        "execute_async": lambda: context.execute_async(1, pointers, 0),
        "execute_async_v2": lambda: context.execute_async_v2(pointers, 0),
    }[way]()
    assert done, logger.errors()
    np.testing.assert_array_equal(y, np.maximum(x, 0))
    assert context.get_tensor_address("x") == x.ctypes.data
    assert not context.execute_v2([1]) and "bindings" in logger.errors()[-1]


def test_context_state(logger):
    engine = build_engine(logger, matmul_model())
    context = engine.create_execution_context()
    assert context.active_optimization_profile == 0 and context.all_shape_inputs_specified
    with pytest.raises(RuntimeError):
        context.active_optimization_profile = 3
    assert not context.debug_sync and context.device_memory == 0 and context.temporary_allocator is None
    assert context.nvtx_verbosity == trt.ProfilingVerbosity.LAYER_NAMES_ONLY and context.persistent_cache_limit == 0
    assert not context.unfused_tensors_debug_state and context.set_debug_listener(None)
    assert context.get_debug_listener() is None and not context.get_debug_state("m")
    assert not context.set_tensor_debug_state("m", True), "no debug tensor"
    assert context.set_input_consumed_event(7) and context.get_input_consumed_event() == 7
    assert context.set_aux_streams([1]) is None and not context.set_communicator(None)
    assert isinstance(context.get_runtime_config(), trt.IRuntimeConfig)
    context.set_device_memory(0, 0)
    assert context.update_device_memory_size_for_shapes() == engine.device_memory_size


def test_two_profiles():
    """Dynamic shapes with two profiles, by names and by bindings."""

    model = conv_model()
    plan = build_plan(
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
    engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(build_plan(model))
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


def test_contexts_in_threads():
    """Contexts of one engine in threads."""

    model = conv_model()
    engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(
        build_plan(model, profiles=[((1, 3, 8, 8), (2, 3, 8, 8), (8, 3, 8, 8))])
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


def test_data_dependent_output():
    """A data-dependent output, through an output allocator."""

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
    engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(build_plan(model))
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


@pytest.mark.parametrize("is_async", [False, True])
def test_output_grows(is_async):
    """An output that outgrows what the allocator gave last asks again; notify_shape in each run."""

    class Allocator(trt.IOutputAllocator):
        def __init__(self):
            trt.IOutputAllocator.__init__(self)
            self.memory, self.asked, self.shapes = None, [], []

        def give(self, memory, size):
            assert memory == (0 if self.memory is None else self.memory.ctypes.data)
            self.asked.append(size)
            if self.memory is None or self.memory.nbytes < size:
                self.memory = np.zeros(size, np.uint8)
            return self.memory.ctypes.data

        def reallocate_output(self, tensor_name, memory, size, alignment):
            assert not is_async
            return self.give(memory, size)

        def notify_shape(self, tensor_name, shape):
            self.shapes.append(tuple(shape))

    class AsyncAllocator(Allocator):
        def reallocate_output_async(self, tensor_name, memory, size, alignment, stream):
            return self.give(memory, size)

    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Concat", ["a", "x"], ["y"], axis=1)]
    model = onnx_bytes(nodes, [("x", 1, ["n", 5])], [("y", 1, ["n", 10])])
    engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(build_plan(model))
    context, allocator = engine.create_execution_context(), AsyncAllocator() if is_async else Allocator()
    context.set_output_allocator("y", allocator)
    batches = [1, 2, 4, 3, 8]
    for n in batches:
        x = rng.standard_normal((n, 5)).astype(np.float32)
        assert context.set_input_shape("x", x.shape)
        context.set_tensor_address("x", x.ctypes.data)
        assert context.execute_async_v3(0)
        got = allocator.memory[: n * 40].view(np.float32).reshape(n, 10)
        np.testing.assert_array_equal(got, np.concatenate([np.maximum(x, 0), x], axis=1))
    assert allocator.shapes == [(n, 10) for n in batches] and allocator.asked == [n * 40 for n in batches]


def test_debug_tensors():
    """Debug tensors."""

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


def test_profiler_names_all_parts():
    """A fused layer is reported by all its parts, those without a name of their own too."""

    class Profiler(trt.IProfiler):
        def __init__(self):
            trt.IProfiler.__init__(self)
            self.names = []

        def report_layer_time(self, layer_name, ms):
            self.names.append(layer_name)

    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(0)
    x = network.add_input("x", trt.float32, (1, 3, 8, 8))
    conv = network.add_convolution_nd(x, 4, (3, 3), np.ones((4, 3, 3, 3), np.float32))
    conv.name = "conv1"
    network.mark_output(network.add_activation(conv.get_output(0), trt.ActivationType.RELU).get_output(0))
    engine = builder.build_engine_with_config(network, builder.create_builder_config())
    context, profiler = engine.create_execution_context(), Profiler()
    context.profiler = profiler
    arrays = [np.ones(tuple(engine.get_tensor_shape(engine.get_tensor_name(i))), np.float32) for i in range(2)]
    assert context.execute_v2([a.ctypes.data for a in arrays])
    assert "conv1 + (Unnamed Layer* 1) [Activation]" in profiler.names
    inspected = engine.create_engine_inspector().get_engine_information(trt.LayerInformationFormat.ONELINE)
    assert "conv1 + (Unnamed Layer* 1) [Activation]" in inspected
