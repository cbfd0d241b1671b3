"""Interfaces that users implement, loggers, error recorders, and how errors reach the caller."""

import carnot as trt
import numpy as np
import pytest
from models import TRT_LOGGER, build_plan, conv_model, infer


def test_interfaces():
    info = trt.InterfaceInfo("IThing", 1, 2)
    assert (info.kind, info.major, info.minor) == ("IThing", 1, 2)

    class Allocator(trt.IOutputAllocator):
        pass

    assert Allocator().api_language == trt.APILanguage.PYTHON and Allocator().interface_info.major == 1
    assert Allocator().tensorrt_version // 10000 == 10
    with pytest.raises(NotImplementedError, match="reallocate_output"):
        Allocator().reallocate_output("a", 0, 1, 1)
    for kind in (trt.IGpuAllocator, trt.IGpuAsyncAllocator):
        one = kind()
        for call in ("allocate", "allocate_async", "deallocate", "deallocate_async"):
            assert callable(getattr(one, call)), call
    assert callable(trt.IGpuAllocator().reallocate)
    selector = trt.IAlgorithmSelector()
    assert list(selector.select_algorithms(None, ["a", "b"]) or []) in ([], [0, 1])
    assert selector.report_algorithms([], []) is None
    for name in ("get_algorithm_io_info", "algorithm_variant", "timing_msec", "workspace_size"):
        assert hasattr(trt.IAlgorithm, name)
    for name in ("components_per_element", "tensor_format", "vectorized_dim"):
        assert hasattr(trt.IAlgorithmIOInfo, name)
    recorder = trt.IErrorRecorder()
    assert recorder.MAX_DESC_LENGTH == 127
    assert isinstance(trt.IAlgorithmContext, type) and isinstance(trt.IAlgorithmVariant, type)
    assert isinstance(trt.FallbackString(), object) and issubclass(trt.IOutputAllocator, trt.IVersionedInterface)
    for call in (recorder.num_errors, recorder.has_overflowed, recorder.clear):
        with pytest.raises(NotImplementedError):
            call()
    for call in (recorder.get_error_code, recorder.get_error_desc):
        with pytest.raises(NotImplementedError):
            call(0)
    assert trt.Logger.VERBOSE.value > trt.Logger.INTERNAL_ERROR.value == 0
    with pytest.raises(NotImplementedError):
        trt.IStreamReaderV2().seek(0, trt.SeekPosition.SET)
    for kind in ("IInt8Calibrator", "IInt8LegacyCalibrator", "IInt8EntropyCalibrator", "IInt8MinMaxCalibrator"):
        assert getattr(trt, kind)().get_algorithm() in trt.CalibrationAlgoType
    assert issubclass(trt.IAttentionBoundaryLayer, trt.ILayer) and issubclass(trt.ILoopBoundaryLayer, trt.ILayer)
    assert trt.__version__.split(".")[0] in ("8", "10", "11") and trt.carnot_version in trt.__version__
    assert trt.init_libnvinfer_plugins(None, "") and trt.shutdown_protobuf_library() is None
    assert trt.get_builder_plugin_registry(trt.EngineCapability.STANDARD) is trt.get_plugin_registry()
    assert trt.get_plugin_registry().parent_search_enabled and trt.get_plugin_registry().all_creators_recursive


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


def test_exception_of_a_callback_surfaces():
    class Broken(trt.IProfiler):
        def report_layer_time(self, layer_name, ms):
            raise KeyError("mine")

    engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(build_plan(conv_model(batch=1)))
    context = engine.create_execution_context()
    infer(context, {"x": np.ones((1, 3, 8, 8), np.float32)})
    context.profiler = Broken()
    with pytest.raises(KeyError, match="mine"):
        context.execute_async_v3(0)
    context.profiler = None
    assert context.execute_async_v3(0)
