"""Habits of TensorRT's bindings that scripts rely on."""

import gc
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import carnot as trt


def test_dims():
    d = trt.Dims((1, 3, 224, 224))
    assert d == (1, 3, 224, 224) and d == [1, 3, 224, 224] and d != (1, 3) and len(d) == 4
    assert d[-1] == 224 and d[1:3] == (3, 224) and tuple(d) == (1, 3, 224, 224) and 3 in d
    d[0], d[2:4] = -1, (8, 9)
    assert d == (-1, 3, 8, 9) and str(d) == "(-1, 3, 8, 9)" and trt.volume(d[1:]) == 216
    assert trt.Dims.MAX_DIMS == 8 and trt.DimsHW(2, 5).h == 2 and trt.DimsHW((2, 5)).w == 5
    assert trt.Dims2(1, 2) == (1, 2) and trt.Dims3(1, 2, 3) == (1, 2, 3) and len(trt.Dims4()) == 4
    assert np.zeros(trt.Dims((2, 3))).shape == (2, 3) and trt.Permutation([1, 0])[0] == 1
    with pytest.raises(ValueError):
        trt.Dims(range(9))
    with pytest.raises(ValueError):
        trt.Dims3(1, 2)
    with pytest.raises(IndexError):
        d[4]


def test_enums():
    assert trt.float32 is trt.DataType.FLOAT and int(trt.DataType.BF16) == 7 and [0, 1][trt.DataType.HALF] == 1
    assert 1 << int(trt.BuilderFlag.TF32) == 64 and trt.BuilderFlag(0) is trt.BuilderFlag.FP16
    assert trt.BuilderFlag.FP16 != trt.DataType.FLOAT and trt.LayerType["NORMALIZATION"].value == 45
    assert "ERROR" in trt.Logger.Severity.__members__ and trt.Logger.ERROR is trt.ILogger.Severity.ERROR
    assert str(trt.float16) == "DataType.HALF" and repr(trt.float16) == "<DataType.HALF: 1>"
    assert trt.EngineCapability.DEFAULT is trt.EngineCapability.STANDARD
    assert getattr(trt.MatrixOperation, "__entries")["NONE"][0] is trt.MatrixOperation.NONE
    assert {trt.TensorIOMode.INPUT: 1}[trt.TensorIOMode(1)] == 1
    with pytest.raises(ValueError):
        trt.PoolingType(7)


def test_types():
    assert trt.nptype(trt.int64) is np.int64 and trt.DataType.FP8.itemsize == 1 and trt.DataType.INT4.itemsize == 0.5
    for lacking in (trt.bfloat16, trt.fp8, trt.int4, trt.fp4, trt.e8m0):
        with pytest.raises(TypeError):
            trt.nptype(lacking)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    weights = trt.Weights(array)
    assert len(weights) == weights.size == 6 and weights.nbytes == 24 and weights.dtype == trt.float32
    assert np.shares_memory(weights.numpy(), array) and trt.Weights().size == 0
    borrowed = trt.Weights(trt.float32, array.ctypes.data, 6)
    assert np.shares_memory(borrowed.numpy(), array)
    with pytest.raises(ValueError):
        trt.Weights(array.T)


def test_version_and_modules():
    assert trt.__version__.startswith("10.") and "+carnot" + trt.carnot_version in trt.__version__
    assert trt.get_nv_onnx_parser_version() >= 100000 and trt.init_libnvinfer_plugins(None, "")
    assert trt.get_plugin_registry() is trt.get_plugin_registry() and trt.PluginFieldCollection([trt.PluginField("a")])


def test_logger(logger, capfd):
    with pytest.raises(TypeError):
        trt.Builder(None)
    with pytest.raises(TypeError):
        trt.Logger(3)
    plain = trt.Logger()
    plain.log(trt.Logger.INFO, "quiet")
    plain.log(trt.Logger.ERROR, "loud")
    assert "loud" in capfd.readouterr().err and plain.min_severity == trt.Logger.WARNING

    class Forgets(trt.ILogger):
        pass

    with pytest.raises(NotImplementedError):
        Forgets().log(trt.Logger.ERROR, "")


def test_network_habits(net):
    network = net.network
    x = network.add_input("x", trt.float32, [2, 3])
    layer = network.add_activation(x, trt.ActivationType.RELU)
    assert network.get_layer(0) is layer and network[0] is layer and list(network) == [layer] and len(network) == 1
    assert network.get_layer(1) is None and network.get_input(0) is x and network.get_input(3) is None
    assert {layer: 1, x: 2}[layer] == 1 and layer.get_input(0) is x and layer.get_output(7) is None
    assert layer.name == "(Unnamed Layer* 0) [Activation]" and layer.type == trt.ActivationType.RELU
    layer.__class__ = trt.IUnaryLayer
    assert layer.type == trt.LayerType.ACTIVATION and not any(n.startswith("_p") for n in dir(layer))
    layer.__class__ = trt.IActivationLayer
    assert x.is_network_input and not x.is_network_output and not x.is_shape_tensor and x.is_execution_tensor
    shape = network.add_shape(x).get_output(0)
    assert shape.is_shape_tensor and shape.dtype == trt.int64
    x.name = "renamed"
    assert x.name == "renamed" and network.name == "" and not network.has_implicit_batch_dimension
    network.name = "mine"
    layer.metadata = "note"
    assert network.name == "mine" and layer.metadata == "note" and network.builder is net.builder
    x.set_dynamic_range(-1, 1)
    assert x.dynamic_range == (-1, 1) and x.location == trt.TensorLocation.DEVICE and x.allowed_formats == 1


def test_precision_requests(net):
    x = net.network.add_input("x", trt.float32, (2, 3))
    layer = net.network.add_unary(x, trt.UnaryOperation.EXP)
    assert not layer.precision_is_set and layer.precision == trt.float32
    layer.precision = trt.float16
    layer.set_output_type(0, trt.float32)
    assert layer.precision_is_set and layer.output_type_is_set(0) and layer.get_output_type(0) == trt.float32
    layer.reset_precision()
    layer.reset_output_type(0)
    assert not layer.precision_is_set and not layer.output_type_is_set(0)
    with pytest.raises(IndexError):
        layer.set_output_type(1, trt.float16)
    with pytest.raises(TypeError):
        layer.precision = 1


def test_dimension_names(net):
    x = net.network.add_input("x", trt.float32, (-1, 3))
    y = net.network.add_input("y", trt.float32, (-1, 3))
    x.set_dimension_name(0, "batch")
    y.set_dimension_name(0, "batch")
    total = net.network.add_elementwise(x, y, trt.ElementWiseOperation.SUM).get_output(0)
    assert total.shape == (-1, 3) and total.get_dimension_name(0) == x.get_dimension_name(0) == "batch"


def test_failures_are_told_not_raised(net):
    network, logger = net.network, net.logger
    x = network.add_input("x", trt.float32, (1, 3, 8, 8))
    assert network.add_input("x", trt.float32, (1,)) is None and "x" in logger.errors()[-1]
    assert network.add_elementwise(x, None, trt.ElementWiseOperation.SUM) is None
    assert network.add_constant((2, 2), np.zeros(3, np.float32)) is None and "3 weights" in logger.errors()[-1]
    with pytest.raises(TypeError):
        network.add_elementwise(x, 3, trt.ElementWiseOperation.SUM)
    with pytest.raises(TypeError):
        network.add_activation(x, trt.ActivationType.RELU).type = trt.PoolingType.MAX
    conv = network.add_convolution_nd(x, 4, (3, 3), np.zeros(7, np.float32))
    conv.name = "wrong"
    with pytest.raises(ValueError):
        len(conv.get_output(0).shape)
    network.mark_output(conv.get_output(0))
    assert net.builder.build_serialized_network(network, net.config) is None
    assert "wrong" in logger.errors()[-1] and "7 elements" in logger.errors()[-1] and "108" in logger.errors()[-1]
    conv.kernel = np.ones(108, np.float32)
    assert conv.get_output(0).shape == (1, 4, 6, 6) and net.builder.is_network_supported(network, net.config)
    network.mark_output(x)
    assert "x is an input" in logger.errors()[-1]
    conv.set_input(0, conv.get_output(0))
    assert net.builder.build_serialized_network(network, net.config) is None
    assert "its own output" in logger.errors()[-1]


def test_network_without_output(net):
    net.network.add_input("x", trt.float32, (1,))
    assert net.builder.build_serialized_network(net.network, net.config) is None
    assert "no output" in net.logger.errors()[-1]


def test_error_recorder(net):
    class Recorder(trt.IErrorRecorder):
        def __init__(self):
            trt.IErrorRecorder.__init__(self)
            self.errors = []

        def report_error(self, code, description):
            self.errors.append((code, description))
            return True

    net.network.error_recorder = recorder = Recorder()
    net.network.add_constant((2,), np.zeros(3, np.float32))
    assert recorder.errors and isinstance(recorder.errors[0][0], trt.ErrorCodeTRT)
    assert net.network.error_recorder is recorder
    with pytest.raises(TypeError):
        net.network.error_recorder = 3


def test_config_keeps_what_it_is_told(net):
    config = net.config
    assert not config.get_flag(trt.BuilderFlag.TF32)
    for flag in trt.BuilderFlag:
        config.set_flag(flag)
        assert config.get_flag(flag)
        config.clear_flag(flag)
    assert config.flags == 0
    for pool in trt.MemoryPoolType:
        config.set_memory_pool_limit(pool, 1 << 20)
        assert config.get_memory_pool_limit(pool) == 1 << 20
    assert config.max_workspace_size == 1 << 20
    config.builder_optimization_level = 9
    assert config.builder_optimization_level == 0 and "9" in net.logger.errors()[-1]
    config.set_preview_feature(trt.PreviewFeature.PROFILE_SHARING_0806, True)
    assert config.get_preview_feature(trt.PreviewFeature.PROFILE_SHARING_0806)
    config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
    assert config.default_device_type == trt.DeviceType.GPU and config.DLA_core == -1
    assert config.engine_capability == trt.EngineCapability.STANDARD and config.get_tactic_sources()
    assert not config.can_run_on_DLA(None) and config.get_timing_cache() is None
    config.reset()
    assert config.profiling_verbosity == trt.ProfilingVerbosity.LAYER_NAMES_ONLY
    assert net.builder.platform_has_fast_fp16 and not net.builder.platform_has_fast_int8


def test_profiles(net):
    profile = net.builder.create_optimization_profile()
    profile.set_shape("x", (1, 3), (2, 3), (4, 3))
    profile.set_shape_input("s", (1,), (2,), (3,))
    assert (
        profile
        and profile.get_shape("x") == [(1, 3), (2, 3), (4, 3)]
        and profile.get_shape_input("s") == [[1], [2], [3]]
    )
    with pytest.raises(RuntimeError, match="min <= opt <= max"):
        profile.set_shape("x", (3, 3), (2, 3), (4, 3))
    assert net.config.add_optimization_profile(profile) == 0 and net.config.num_optimization_profiles == 1
    x = net.network.add_input("y", trt.float32, (-1, 3))
    net.network.mark_output(net.network.add_identity(x).get_output(0))
    assert net.builder.build_serialized_network(net.network, net.config) is None
    assert "names x" in net.logger.errors()[-1]


def test_host_memory(net):
    x = net.network.add_input("x", trt.float32, (-1, 3))
    y = net.network.add_unary(x, trt.UnaryOperation.EXP).get_output(0)
    y.name = "y"
    net.network.mark_output(y)
    memory = net.builder.build_serialized_network(net.network, net.config)
    assert isinstance(memory, trt.IHostMemory) and memory and len(bytes(memory)) == memory.nbytes == len(memory)
    view = memoryview(memory)
    assert view.nbytes == memory.nbytes and memory.dtype == trt.int8
    held = np.frombuffer(memory, np.uint8)
    copy = bytes(memory)
    del memory, view
    gc.collect()
    assert bytes(held) == copy
    engine = trt.Runtime(net.logger).deserialize_cuda_engine(copy)
    # Without a profile every size is allowed, and what is asked is finite.
    low, opt, high = engine.get_tensor_profile_shape("x", 0)
    assert low[1] == opt[1] == high[1] == 3 and 1 <= opt[0] <= high[0]
    assert engine.get_tensor_mode("nobody") == trt.TensorIOMode.NONE and "nobody" in net.logger.errors()[-1]
    context = engine.create_execution_context()
    assert not context.execute_async_v3(0) and "x" in net.logger.errors()[-1]
    assert not context.set_input_shape("x", (1, 4)) and not context.set_tensor_address("z", 0)
    assert context.set_input_shape("x", (5, 3)) and context.get_tensor_shape("y") == (5, 3)
    assert context.get_tensor_strides("y") == (3, 1) and context.get_max_output_size("y") == 60
    with pytest.raises(IndexError):
        engine.get_binding_name(9)


def test_streams(net):
    class Reader(trt.IStreamReader):
        def __init__(self, data):
            trt.IStreamReader.__init__(self)
            self.data = data

        def read(self, size):
            part, self.data = self.data[:size], self.data[size:]
            return part

    class Writer(trt.IStreamWriter):
        def __init__(self):
            trt.IStreamWriter.__init__(self)
            self.data = b""

        def write(self, data):
            self.data += data
            return len(data)

    x = net.network.add_input("x", trt.float32, (2,))
    net.network.mark_output(net.network.add_identity(x).get_output(0))
    writer = Writer()
    assert net.builder.build_serialized_network_to_stream(net.network, net.config, writer)
    engine = trt.Runtime(net.logger).deserialize_cuda_engine(Reader(writer.data))
    assert engine.num_io_tensors == 2 and bytes(engine.serialize()) == writer.data


def test_torch_and_dlpack(net):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = net.network.add_input("x", trt.float32, (2, 3))
    y = net.network.add_unary(x, trt.UnaryOperation.NEG).get_output(0)
    y.name = "y"
    net.network.mark_output(y)
    tensor, out = torch.randn(2, 3), torch.empty(2, 3)
    engine = net.engine()
    context = engine.create_execution_context()
    context.set_tensor_address("x", tensor.data_ptr())
    context.set_tensor_address("y", out.data_ptr())
    assert context.execute_async_v3(0) and torch.equal(out, -tensor)
    assert np.array_equal(trt.Model(engine)(x=tensor)["y"], -tensor.numpy())

    class OnDevice:
        __cuda_array_interface__ = {}

    with pytest.raises(ValueError, match="GPU"):
        trt.Model(engine)(x=OnDevice())


GROWTH = """
import ctypes, gc, resource
import numpy as np
import carnot as trt

logger = trt.Logger(trt.Logger.ERROR)
builder = trt.Builder(logger)
config = builder.create_builder_config()
config.builder_optimization_level = 0


def cycle():
    network = builder.create_network(0)
    x = network.add_input("x", trt.float32, (64, 64))
    y = network.add_unary(x, trt.UnaryOperation.EXP).get_output(0)
    network.mark_output(y)
    engine = trt.Runtime(logger).deserialize_cuda_engine(builder.build_serialized_network(network, config))
    trt.Model(engine)(x=np.zeros((64, 64), np.float32))


def resident():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what is free and kept is no growth
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


for _ in range(500):
    cycle()
before = resident()
for _ in range(1000):
    cycle()
print(resident() - before)
"""


def test_no_growth():
    """A thousand builds, runs and destroys do not grow the process."""
    package = pathlib.Path(trt.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", GROWTH],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(package), "CARNOT_THREADS": "1"},
        check=True,
    )
    assert int(done.stdout) < 1 << 20
