"""What the other tests do not touch of the interface, by class: values, defaults, and what refuses."""

import copy
import os

import numpy as np
import onnx
import pytest
from onnx import helper

import carnot as trt

from conftest import Net

rng = np.random.default_rng(21)


def model(shape=(2, 4), dynamic=False, weight=None):
    w = np.eye(4, dtype=np.float32) if weight is None else weight
    dims = ["n", 4] if dynamic else list(shape)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"], "product"), helper.make_node("Relu", ["m"], ["y"], "relu")],
        "g",
        [helper.make_tensor_value_info("x", 1, dims)],
        [helper.make_tensor_value_info("y", 1, dims)],
        [onnx.numpy_helper.from_array(w, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


def build(logger, data, *flags, profiles=()):
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    assert trt.OnnxParser(network, logger).parse(data)
    config = builder.create_builder_config()
    config.builder_optimization_level = 0
    for flag in flags:
        config.set_flag(flag)
    for shapes in profiles:
        profile = builder.create_optimization_profile()
        profile.set_shape("x", *shapes)
        config.add_optimization_profile(profile)
    engine = builder.build_engine_with_config(network, config)
    assert engine is not None, logger.errors()
    return engine


# ---- values ----


def test_dims_and_permutations():
    for kind in (trt.Dims, trt.Permutation):
        d = kind((3, 1, 2))
        assert len(d) == 3 and d[0] == 3 and d[-1] == 2 and d[1:] == (1, 2) and d == (3, 1, 2) and d == [3, 1, 2]
        d[0] = 7
        assert str(d) == repr(d) == "(7, 1, 2)" and d != (3, 1, 2)
        with pytest.raises(IndexError):
            d[3]
    with pytest.raises(ValueError):
        trt.Dims([1] * 9)
    assert trt.DimsHW(3, 4).h == 3 and trt.DimsHW((3, 4)).w == 4
    assert len(trt.Weights(np.zeros((2, 3), np.float32))) == 6
    exprs = trt.DimsExprs(2)
    exprs[0] = 4
    assert len(exprs) == 2 and exprs[0] == 4 and exprs[1] is None
    with pytest.raises(TypeError):
        exprs[1] = "a"
    syms = trt.ISymExprs(1)
    syms[0] = trt.ISymExpr()
    assert len(syms) == syms.nbSymExprs == 1 and syms[0].dtype == trt.PluginArgDataType.INT32
    assert syms[0].type == trt.PluginArgType.INT and syms[0].expr is None
    params = trt.KernelLaunchParams()
    assert (params.grid_x, params.grid_y, params.grid_z, params.block_x, params.block_y, params.block_z) == (1,) * 6
    fields = trt.FieldCollection([trt.FieldMap("a", 3, trt.FieldType.INT32)])
    assert fields.num_fields == 1 and fields.fields[0].length == 1
    assert trt.PluginFieldCollection_([trt.PluginField("a")]).__len__() == 1
    assert trt.PluginFieldCollection_([trt.PluginField("a")]).__getitem__(0).name == "a"
    assert isinstance(trt.DynamicPluginTensorDesc().desc, trt.PluginTensorDesc)
    with pytest.raises(RuntimeError, match="live only"):
        trt.IExprBuilder().constant(3)
    assert isinstance(trt.IDimensionExpr, type) and isinstance(trt.get_plugin_registry(), trt.IPluginRegistry)
    desc = trt.DynamicPluginTensorDesc()
    desc.min, desc.max = (1, 2), (3, 4)
    assert desc.max == (3, 4) and desc.opt == () and desc.desc.scale == 0.0
    assert trt.DataType.FLOAT.itemsize == 4 and trt.DataType.INT4.itemsize == 0.5


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


def test_old_plugin_classes():
    plugin = trt.IPluginV2Ext()
    assert plugin.supports_format(trt.float32, trt.TensorFormat.LINEAR) and plugin.initialize() == 0
    assert plugin.get_output_data_type(0, [trt.float16]) == trt.float16 and plugin.serialization_size == 0
    assert plugin.detach_from_context() is None and plugin.terminate() is None and plugin.tensorrt_version
    assert plugin.configure_with_format([], [], trt.float32, trt.TensorFormat.LINEAR, 1) is None
    for call in (lambda: plugin.get_output_shape(0, []), lambda: plugin.execute_async(1, [], [], 0, 0)):
        with pytest.raises(NotImplementedError):
            call()
    dynamic = trt.IPluginV2DynamicExt()
    assert dynamic.FORMAT_COMBINATION_LIMIT == 100 and dynamic.get_serialization_size() == 0
    assert isinstance(dynamic, trt.IPluginV2DynamicExtBase)
    build_ = trt.IPluginV3OneBuildV2()
    assert build_.format_combination_limit == trt.IPluginV3OneBuild.DEFAULT_FORMAT_COMBINATION_LIMIT
    assert build_.metadata_string is None and build_.get_aliased_input(0) == -1
    assert issubclass(trt.IPluginV3QuickAOTBuild, trt.IPluginV3QuickBuild) and trt.IPluginV3QuickCore().plugin_version
    assert isinstance(trt.IPluginV3QuickRuntime(), trt.IPluginCapability)
    assert trt.IPluginCreator().tensorrt_version and isinstance(
        trt.IPluginCreatorV3Quick(), trt.IPluginCreatorInterface
    )
    assert trt.IPluginResourceContext().gpu_allocator is None


# ---- builder and configuration ----


def test_builder(logger):
    builder = trt.Builder(logger)
    builder.max_batch_size = 4
    assert builder.max_batch_size == 4 and any("max_batch_size" in msg for _, msg in logger.lines)
    assert builder.max_DLA_batch_size == builder.num_DLA_cores == 0 and not builder.platform_has_tf32
    builder.max_threads = 2
    assert builder.max_threads == 2 and builder.gpu_allocator is None
    for thing in ("Builder", "INetworkDefinition", "IBuilderConfig", "OnnxParser", "Runtime", "ICudaEngine"):
        assert getattr(trt, thing).__enter__ and callable(getattr(trt, thing).__del__)
    assert trt.IExecutionContext.__enter__ and trt.IHostMemory.__enter__ and trt.Refitter.__del__


def test_config_keeps_what_has_no_effect_here(logger):
    network = trt.Builder(logger).create_network(0)
    config = network.builder.create_builder_config()
    layer = network.add_identity(network.add_input("x", trt.float32, (2,)))
    given = {
        "avg_timing_iterations": 3,
        "min_timing_iterations": 2,
        "build_route": "route",
        "hardware_compatibility_level": trt.HardwareCompatibilityLevel.AMPERE_PLUS,
        "l2_limit_for_tiling": 5,
        "max_aux_streams": 4,
        "max_num_tactics": 7,
        "plugins_to_serialize": ["a.so"],
        "profile_stream": 9,
        "remote_auto_tuning_config": "r",
        "runtime_platform": trt.RuntimePlatform.WINDOWS_AMD64,
        "tiling_optimization_level": trt.TilingOptimizationLevel.FAST,
        "algorithm_selector": trt.IAlgorithmSelector(),
    }
    for name, value in given.items():
        assert getattr(config, name) != value
        setattr(config, name, value)
        assert getattr(config, name) == value
    assert config.all_build_routes == "[]"
    flag = trt.QuantizationFlag.CALIBRATE_BEFORE_FUSION
    config.set_quantization_flag(flag)
    assert config.get_quantization_flag(flag) and config.quantization_flags == 1
    config.clear_quantization_flag(flag)
    assert not config.get_quantization_flag(flag)
    config.set_device_type(layer, trt.DeviceType.DLA)
    assert config.get_device_type(layer) == trt.DeviceType.DLA and config.is_device_type_set(layer)
    config.reset_device_type(layer)
    assert config.get_device_type(layer) == trt.DeviceType.GPU and not config.is_device_type_set(layer)
    profile = network.builder.create_optimization_profile()
    assert (
        isinstance(profile, trt.IOptimizationProfile)
        and bool(profile)
        and profile.__bool__()
        and profile.__nonzero__()
        and profile.extra_memory_target == 1.0
    )
    assert config.set_calibration_profile(profile) and config.get_calibration_profile() is profile
    assert config.get_tactic_sources() == sum(1 << int(source) for source in trt.TacticSource.__members__.values())
    sources = 1 << int(trt.TacticSource.CUDNN)
    assert config.set_tactic_sources(sources) and config.get_tactic_sources() == sources


def test_plugins_to_serialize(logger, tmp_path):
    """A library that the engine shall carry is put into it."""
    library = os.environ.get("CARNOT_PLUGIN_LIBRARY")
    if not library:
        pytest.skip("CARNOT_PLUGIN_LIBRARY does not name the example plugin")
    net = Net(logger)
    net.network.mark_output(net.network.add_identity(net.input(np.ones(3, np.float32))).get_output(0))
    plain = net.builder.build_serialized_network(net.network, net.config).nbytes
    net.config.plugins_to_serialize = [library]
    assert net.builder.build_serialized_network(net.network, net.config).nbytes >= plain + os.path.getsize(library)
    net.config.plugins_to_serialize = [str(tmp_path / "absent.so")]
    assert net.builder.build_serialized_network(net.network, net.config) is None
    assert "absent.so" in logger.errors()[-1]


# ---- networks ----


def test_network(logger):
    net = Net(logger)
    network = net.network
    x = net.input(rng.standard_normal((1, 3, 8, 8)).astype(np.float32))
    conv = network.add_convolution(x, 4, (3, 3), rng.standard_normal((4, 3, 3, 3)).astype(np.float32))
    pad = network.add_padding(conv.get_output(0), (1, 0), (0, 2))
    assert pad.pre_padding_nd == (1, 0) and pad.post_padding_nd == (0, 2) and conv.kernel_size == (3, 3)
    ones = np.ones(4, np.float32)
    scale = network.add_scale_nd(pad.get_output(0), trt.ScaleMode.CHANNEL, ones, 2 * ones, ones, 1)
    back = network.add_deconvolution(scale.get_output(0), 3, (3, 3), np.ones((4, 3, 3, 3), np.float32))
    assert len(network) == 4 and network[1] is pad and network.__getitem__(-1) is back and network.__len__() == 4
    assert not network.has_explicit_precision
    y = back.get_output(0)
    assert network.mark_debug(y) and network.is_debug_tensor(y) and network.unmark_debug(y)
    assert network.mark_unfused_tensors_as_debug_tensors() and network.is_debug_tensor(conv.get_output(0))
    assert network.unmark_unfused_tensors_as_debug_tensors() and not network.is_debug_tensor(conv.get_output(0))
    (name,) = [n for n in network._all_weight_names() if "KERNEL" in n and "Conv" in n and "De" not in n]
    assert network.mark_weights_refittable(name) and network.are_weights_marked_refittable(name)
    assert network.unmark_weights_refittable(name) and not network.are_weights_marked_refittable(name)
    assert not network.mark_weights_refittable("none such") and "none such" in logger.errors()[-1]
    assert network.set_weights_name(conv._p["kernel"], "my kernel") and "my kernel" in network._all_weight_names()
    shape = network.add_shape(y).get_output(0)
    assert network.mark_output_for_shapes(shape) and network.unmark_output_for_shapes(shape)
    assert not network.unmark_output_for_shapes(shape)
    spare = network.add_input("spare", trt.float32, (1,))
    network.remove_tensor(spare)
    assert network.num_inputs == 1
    x.set_dynamic_range(-1, 1)
    x.reset_dynamic_range()
    assert x.dynamic_range is None and not x.broadcast_across_batch
    scaled = net.run(y)[0]
    assert scaled.shape == tuple(y.shape) and np.isfinite(scaled).all()
    for refused in (
        network.add_dynamic_quantize(y, 1, 16, trt.DataType.FP8, trt.float32),
        network.add_dynamic_quantize_v2(y, (1, 16), trt.DataType.FP8, trt.float32),
        network.add_dist_collective(y, trt.CollectiveOperation.ALL_REDUCE, trt.ReduceOperation.SUM, -1, []),
    ):
        assert refused is None and "not available" in logger.errors()[-1]


def test_layer_properties(logger):
    net = Net(logger)
    network = net.network
    x = net.input(rng.standard_normal((1, 4, 6, 6)).astype(np.float32))
    q = network.add_quantize(x, net.constant(np.float32(0.1)))
    assert q.to_type == trt.int8 and q.block_shape is not False
    d = network.add_dequantize(q.get_output(0), net.constant(np.float32(0.1)))
    assert d.to_type == trt.float32 and d.block_shape is not False
    assert network.add_cast(x, trt.float16).to_type == trt.float16
    assert network.add_einsum([x], "abcd->ab").equation == "abcd->ab"
    assert network.add_non_zero(x, trt.int64).indices_type == trt.int64
    assert network.add_topk(x, trt.TopKOperation.MAX, 2, 2, trt.int64).indices_type == trt.int64
    pool = network.add_pooling(x, trt.PoolingType.MAX, (2, 2))
    assert pool.window_size_nd == (2, 2) and pool.num_ranks == 1
    assert network.add_shuffle(x).zero_is_placeholder
    resize = network.add_resize(x)
    resize.cubic_coeff = -0.5
    assert resize.cubic_coeff == -0.5
    grid = network.add_grid_sample(x, net.input(np.zeros((1, 2, 2, 2), np.float32)))
    grid.interpolation_mode = trt.InterpolationMode.NEAREST
    assert grid.interpolation_mode == trt.InterpolationMode.NEAREST
    lens = net.input(np.array([2], np.int32))
    reverse = network.add_reverse_sequence(x, lens)
    reverse.batch_axis, reverse.sequence_axis = 0, 1
    assert (reverse.batch_axis, reverse.sequence_axis) == (0, 1)
    fill = network.add_fill((3,), trt.FillOperation.LINSPACE, trt.int64)
    assert fill.to_type == trt.int64 and not fill.is_alpha_beta_int64()
    axis = net.constant(np.array(0, np.int32))
    assert network.add_cumulative(x, axis, trt.CumulativeOperation.SUM, True, False).exclusive
    three = np.ones((1, 4, 1, 1), np.float32)
    assert network.add_normalization_v2(x, net.constant(three), net.constant(three), 12).is_v2
    full = network.add_fully_connected(x, 5, np.ones((5, 144), np.float32))
    assert full.num_output_channels == 5
    assert network.add_deconvolution(x, 2, (2, 2), np.ones((4, 2, 2, 2), np.float32)).kernel_size == (2, 2)
    boxes, scores = (net.input(np.zeros(s, np.float32)) for s in ((1, 5, 1, 4), (1, 5, 2)))
    nms = network.add_nms(boxes, scores, net.constant(np.array(3, np.int32)))
    nms.bounding_box_format, nms.topk_box_limit = trt.BoundingBoxFormat.CENTER_SIZES, 9
    assert nms.bounding_box_format == trt.BoundingBoxFormat.CENTER_SIZES and nms.topk_box_limit == 9
    assert nms.indices_type == trt.int32
    condition = network.add_if_conditional()
    layer = condition.set_condition(net.input(np.array(True)))
    assert layer.conditional is condition
    rnn = network.add_rnn_v2(net.input(np.zeros((1, 3, 4), np.float32)), 1, 5, 3, trt.RNNOperation.RELU)
    weights = np.ones((5, 4), np.float32)
    rnn.set_weights_for_gate(0, trt.RNNGateType.INPUT, True, weights)
    rnn.set_bias_for_gate(0, trt.RNNGateType.INPUT, True, np.ones(5, np.float32))
    assert np.array_equal(np.ravel(rnn.get_weights_for_gate(0, trt.RNNGateType.INPUT, True)), weights.ravel())
    assert np.ravel(rnn.get_bias_for_gate(0, trt.RNNGateType.INPUT, True)).sum() == 5
    assert rnn.input_mode == trt.RNNInputMode.LINEAR and rnn.max_seq_length == 3 and rnn.data_length == 4


def test_classes_of_layers(logger):
    """What each add_* method gives, and that two questions give the same object."""
    net = Net(logger)
    n = net.network
    x = net.input(rng.standard_normal((1, 4, 6, 6)).astype(np.float32))
    ids = net.input(np.array([0, 1], np.int32))
    flag = net.input(np.ones((1, 4, 6, 6), bool))
    one = net.constant(np.array(1, np.int32))
    small = net.constant(np.float32(0.1))
    pair = net.constant(np.array([0, 1], np.float32))
    rows = net.input(np.zeros((2, 5), np.float32))
    made = {
        "IAssertionLayer": n.add_assertion(flag, "m"),
        "ICastLayer": n.add_cast(x, trt.int32),
        "IConcatenationLayer": n.add_concatenation([x, x]),
        "IConstantLayer": n.add_constant((1,), np.ones(1, np.float32)),
        "ICumulativeLayer": n.add_cumulative(x, one, trt.CumulativeOperation.SUM, False, False),
        "IDeconvolutionLayer": n.add_deconvolution(x, 2, (2, 2), np.ones((4, 2, 2, 2), np.float32)),
        "IQuantizeLayer": n.add_quantize(x, small),
        "IEinsumLayer": n.add_einsum([x], "abcd->ab"),
        "IElementWiseLayer": n.add_elementwise(x, x, trt.ElementWiseOperation.SUM),
        "IFillLayer": n.add_fill((2,), trt.FillOperation.LINSPACE),
        "IFullyConnectedLayer": n.add_fully_connected(x, 5, np.ones((5, 144), np.float32)),
        "IGridSampleLayer": n.add_grid_sample(x, net.input(np.zeros((1, 2, 2, 2), np.float32))),
        "IIdentityLayer": n.add_identity(x),
        "INonZeroLayer": n.add_non_zero(x),
        "IOneHotLayer": n.add_one_hot(ids, pair, one, -1),
        "IPaddingLayer": n.add_padding_nd(x, (1, 1), (0, 0)),
        "IParametricReLULayer": n.add_parametric_relu(x, net.constant(np.ones((1, 4, 1, 1), np.float32))),
        "IRaggedSoftMaxLayer": n.add_ragged_softmax(rows, net.input(np.zeros((2, 1), np.int32))),
        "IReverseSequenceLayer": n.add_reverse_sequence(x, ids),
        "IScatterLayer": n.add_scatter(x, n.add_cast(x, trt.int32).get_output(0), x, trt.ScatterMode.ELEMENT),
        "ISelectLayer": n.add_select(flag, x, x),
        "IShapeLayer": n.add_shape(x),
        "IShuffleLayer": n.add_shuffle(x),
        "ISoftMaxLayer": n.add_softmax(x),
        "ISqueezeLayer": n.add_squeeze(x, net.constant(np.array([0], np.int64))),
        "IUnsqueezeLayer": n.add_unsqueeze(x, net.constant(np.array([0], np.int64))),
        "IRNNv2Layer": n.add_rnn_v2(net.input(np.zeros((1, 3, 4), np.float32)), 1, 5, 3, trt.RNNOperation.RELU),
        "IRotaryEmbeddingLayer": n.add_rotary_embedding(x, rows, rows, False, 0),
        "IKVCacheUpdateLayer": n.add_kv_cache_update(x, x, ids, trt.KVCacheMode.LINEAR),
        "INMSLayer": n.add_nms(x, x, one),
        "IAttention": n.add_attention(x, x, x, trt.AttentionNormalizationOp.SOFTMAX, False),
    }
    made["IDequantizeLayer"] = n.add_dequantize(made["IQuantizeLayer"].get_output(0), small)
    for i, (name, layer) in enumerate(made.items()):
        assert isinstance(layer, getattr(trt, name)) and isinstance(layer, trt.ILayer), name
        assert layer.get_output(0) is layer.get_output(0) and layer in list(n)
    loop, branch = n.add_loop(), n.add_if_conditional()
    assert isinstance(loop, trt.ILoop) and isinstance(branch, trt.IIfConditional)
    parts = {
        "ITripLimitLayer": loop.add_trip_limit(one, trt.TripLimit.COUNT),
        "IIteratorLayer": loop.add_iterator(x),
        "IRecurrenceLayer": loop.add_recurrence(x),
        "ILoopOutputLayer": loop.add_loop_output(x, trt.LoopOutput.LAST_VALUE),
        "IConditionLayer": branch.set_condition(net.input(np.array(True))),
        "IIfConditionalInputLayer": branch.add_input(x),
        "IIfConditionalOutputLayer": branch.add_output(x, x),
    }
    for name, layer in parts.items():
        assert isinstance(layer, getattr(trt, name)), name
    assert isinstance(parts["IIfConditionalInputLayer"], trt.IIfConditionalBoundaryLayer)
    for name in ("IAttentionInputLayer", "IAttentionOutputLayer", "IDistCollectiveLayer", "IPluginV2Layer"):
        assert issubclass(getattr(trt, name), trt.ILayer)
    quantize = trt.IDynamicQuantizeLayer(n)
    quantize.axis, quantize.block_size, quantize.scale_type = 1, 16, trt.float32
    assert (quantize.axis, quantize.block_size, quantize.scale_type) == (1, 16, trt.float32)
    assert issubclass(trt.IPluginV3Layer, trt.ILayer) and issubclass(trt.IPluginV2, object)


def test_attention_properties(logger):
    net = Net(logger)
    q, k, v = (net.input(rng.standard_normal((1, 2, 5, 4)).astype(np.float32)) for _ in range(3))
    for causal, kind in ((False, "NONE"), (True, "UPPER_LEFT")):
        attention = net.network.add_attention(q, k, v, trt.AttentionNormalizationOp.SOFTMAX, causal)
        assert attention.causal == causal and attention.causal_kind == trt.CausalMaskKind[kind]
    attention = net.network.add_attention_v2(q, k, v, trt.AttentionNormalizationOp.SOFTMAX, trt.CausalMaskKind.NONE)
    assert attention.norm_op == trt.AttentionNormalizationOp.SOFTMAX
    attention.decomposable = True
    assert attention.decomposable and attention.query_form == trt.AttentionIOForm.PADDED_BHND
    assert attention.key_value_form == trt.AttentionIOForm.PADDED_BHND
    assert attention.query_lengths is None and attention.key_value_lengths is None
    assert attention.normalization_quantize_scale is None and attention.normalization_quantize_to_type is not False
    cos, sin = (net.input(np.zeros((5, 2), np.float32)) for _ in range(2))
    assert net.network.add_rotary_embedding(q, cos, sin, False, 0).rotary_embedding_dim == 0
    update = net.network.add_kv_cache_update(q, k, net.input(np.array([0], np.int32)), trt.KVCacheMode.LINEAR)
    assert (
        update.cache_mode == trt.KVCacheMode.LINEAR
        and hasattr(update, "update_form")
        and hasattr(update, "update_lengths")
    )


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


# ---- engines and contexts ----


def test_engine(logger):
    engine = build(logger, model(dynamic=True), profiles=[((1, 4), (2, 4), (8, 4))] * 2)
    assert engine.num_bindings == len(engine) == 4 and engine[0] == "x" and engine["y"] == 1
    assert engine.get_binding_name(2) == "x [profile 1]" and engine.get_binding_index("y [profile 1]") == 3
    assert engine.get_binding_format(0) == engine.get_tensor_format("x") == trt.TensorFormat.LINEAR
    assert "linear" in engine.get_binding_format_desc(0) and "linear" in engine.get_tensor_format_desc("y")
    assert engine.get_binding_bytes_per_component(0) == engine.get_tensor_bytes_per_component("x") == 4
    assert engine.get_binding_components_per_element(0) == engine.get_tensor_components_per_element("x") == 1
    assert engine.get_binding_vectorized_dim(0) == engine.get_tensor_vectorized_dim("x") == -1
    assert engine.get_location("x") == trt.TensorLocation.DEVICE and engine.get_profile_shape(1, 0)[2] == (8, 4)
    assert engine.get_profile_shape_input(0, 0) == [] and engine.get_aliased_input_tensor("y") is None
    assert engine.get_device_memory_size_for_profile(0) == engine.get_device_memory_size_for_profile_v2(1)
    assert engine.device_memory_size_v2 == engine.device_memory_size and engine.max_batch_size == 1
    assert engine.hardware_compatibility_level == trt.HardwareCompatibilityLevel.NONE and engine.num_aux_streams == 0
    assert engine.streamable_weights_size == engine.minimum_weight_streaming_budget == engine.tactic_sources == 0
    assert engine.weight_streaming_scratch_memory_size == engine.get_weight_streaming_automatic_budget() == 0
    engine.weight_streaming_budget = engine.weight_streaming_budget_v2 = 0
    assert isinstance(engine.create_engine_inspector(), trt.EngineInspector)
    assert isinstance(engine.create_serialization_config(), trt.ISerializationConfig)
    assert engine.get_engine_stat(trt.EngineStat.TOTAL_WEIGHTS_SIZE) > 0
    config = engine.create_runtime_config()
    strategy = trt.ExecutionContextAllocationStrategy.USER_MANAGED
    config.set_execution_context_allocation_strategy(strategy)
    assert config.get_execution_context_allocation_strategy() == strategy
    assert engine.create_execution_context_without_device_memory() is not None
    assert engine.get_tensor_name(9) == "" and engine.get_tensor_profile_shape("none", 0) == []
    assert "there is no tensor none" in logger.errors()[-1]


@pytest.mark.parametrize("way", ["execute", "execute_v2", "execute_async", "execute_async_v2"])
def test_context_by_bindings(logger, way):
    engine = build(logger, model())
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
    engine = build(logger, model())
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


# ---- parser, runtime, refitter, timing cache ----


def test_parser(logger):
    network = trt.Builder(logger).create_network(0)
    parser = trt.OnnxParser(network, logger)
    assert parser.set_builder_config(network.builder.create_builder_config())
    assert not parser.parse_model_proto() and "load_model_proto" in logger.errors()[-1]
    assert parser.load_model_proto(model()) and parser.parse_model_proto()
    assert parser.get_layer_output_tensor("relu", 0).name == "y" and parser.get_layer_output_tensor("none", 0) is None
    assert parser.get_used_vc_plugin_libraries() == [] and parser.supports_model_v2(model())
    assert not parser.load_initializer("w", b"", 0)
    other = trt.OnnxParser(trt.Builder(logger).create_network(0), logger)
    assert other.parse_with_weight_descriptors(model())
    assert not trt.OnnxParser(trt.Builder(logger).create_network(0), logger).parse(b"nothing")
    broken = onnx.load_from_string(model())
    broken.graph.node[1].op_type = "NoSuch"
    parser = trt.OnnxParser(trt.Builder(logger).create_network(0), logger)
    assert not parser.parse(broken.SerializeToString())
    error = parser.get_error(0)
    assert isinstance(error, trt.ParserError) and isinstance(error.code(), trt.ErrorCode)
    assert error.node() == 1 and "NoSuch" in str(error) and str(error) == repr(error)
    assert error.func() == error.file() == "" and error.line() == 0
    assert error.local_function_stack() == [] and error.local_function_stack_size() == 0


def test_runtime(logger):
    runtime = trt.Runtime(logger)
    runtime.max_threads, runtime.temporary_directory = 2, "/tmp"
    assert runtime.max_threads == 2 and runtime.temporary_directory == "/tmp" and runtime.num_DLA_cores == 0
    assert not runtime.engine_host_code_allowed and runtime.tempfile_control_flags == 3
    assert runtime.load_runtime("lean.so") is runtime and "lean.so" in logger.lines[-1][1]
    assert runtime.get_plugin_registry() is trt.get_plugin_registry()


def test_refitter(logger, tmp_path):
    engine = build(logger, model(), trt.BuilderFlag.REFIT)
    refitter = trt.Refitter(engine, logger)
    refitter.max_threads = 2
    assert refitter.max_threads == 2 and refitter.weights_validation in (True, False)
    assert refitter.get_missing() == ([], []) and refitter.get_tensors_with_dynamic_range() == []
    assert refitter.get_dynamic_range("x") == (0.0, 0.0) and not refitter.set_dynamic_range("x", (0, 1))
    assert (
        refitter.get_weights_prototype("w").size == 16 and refitter.get_weights_location("w") == trt.TensorLocation.HOST
    )
    twice = 2 * np.eye(4, dtype=np.float32)
    assert refitter.set_named_weights("w", twice) and refitter.get_named_weights("w").numpy().sum() == 8
    assert refitter.unset_named_weights("w") and not refitter.unset_named_weights("w")
    assert refitter.set_named_weights("w", twice) and refitter.refit_cuda_engine_async(0)
    x = rng.standard_normal((2, 4)).astype(np.float32)
    np.testing.assert_allclose(trt.Model(engine)(x=x)["y"], np.maximum(2 * x, 0))
    (tmp_path / "m.onnx").write_bytes(model(weight=3 * np.eye(4, dtype=np.float32)))
    parser = trt.OnnxParserRefitter(refitter, logger)
    assert parser.refit_from_file(str(tmp_path / "m.onnx")) and refitter.refit_cuda_engine()
    np.testing.assert_allclose(trt.Model(engine)(x=x)["y"], np.maximum(3 * x, 0))
    assert not parser.refit_model_proto() and not parser.load_initializer("w", b"", 0)
    assert parser.load_model_proto(model()) and parser.refit_model_proto() and refitter.refit_cuda_engine()
    np.testing.assert_allclose(trt.Model(engine)(x=x)["y"], np.maximum(x, 0))
    assert not parser.refit_from_file(str(tmp_path / "absent.onnx"))


def test_timing_cache(logger):
    net = Net(logger)
    net.config.builder_optimization_level = 3
    cache = net.config.create_timing_cache(b"")
    net.config.set_timing_cache(cache, False)
    x = net.input(rng.standard_normal((64, 64)).astype(np.float32))
    none = trt.MatrixOperation.NONE
    net.run(net.network.add_matrix_multiply(x, none, net.constant(np.eye(64, dtype=np.float32)), none).get_output(0))
    keys = cache.queryKeys()
    assert isinstance(cache, trt.ITimingCache) and isinstance(keys[0], trt.TimingCacheKey)
    assert keys and str(keys[0])
    value = cache.query(keys[0])
    assert isinstance(value, trt.TimingCacheValue) and value.timingMSec >= 0 and isinstance(value.tacticHash, int)
    assert copy.copy(keys[0]) is not None
