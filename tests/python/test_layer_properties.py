"""Properties and classes of layers."""

import carnot as trt
import numpy as np
from conftest import Net

rng = np.random.default_rng(21)


def layers_of(net):
    """One layer of each kind that can be added."""
    n = net.network
    x = n.add_input("x", trt.float32, (1, 4, 8, 8))
    i = net.constant(np.array([0, 1], np.int32))
    f = net.constant(np.ones((1, 4, 1, 1), np.float32))
    flag = net.constant(np.array(True))
    w = np.ones((4, 4, 3, 3), np.float32)
    yield n.add_convolution_nd(x, 4, (3, 3), w)
    yield n.add_deconvolution_nd(x, 4, (3, 3), w)
    yield n.add_pooling_nd(x, trt.PoolingType.MAX, (2, 2))
    yield n.add_fully_connected(x, 2, np.ones((2, 256), np.float32))
    yield n.add_padding_nd(x, (1, 1), (1, 1))
    yield n.add_lrn(x, 3, 1.0, 0.75, 2.0)
    yield n.add_activation(x, trt.ActivationType.RELU)
    yield n.add_elementwise(x, f, trt.ElementWiseOperation.SUM)
    yield n.add_unary(x, trt.UnaryOperation.EXP)
    yield n.add_parametric_relu(x, f)
    yield n.add_select(flag, x, f)
    yield n.add_scale(x, trt.ScaleMode.UNIFORM, np.ones(1, np.float32))
    yield n.add_identity(x)
    yield n.add_cast(x, trt.float16)
    yield n.add_constant((2,), np.ones(2, np.float32))
    yield n.add_matrix_multiply(x, trt.MatrixOperation.NONE, x, trt.MatrixOperation.TRANSPOSE)
    yield n.add_einsum([x, x], "abcd,abed->abce")
    yield n.add_softmax(x)
    yield n.add_normalization(x, f, f, 0b1100)
    yield n.add_reduce(x, trt.ReduceOperation.SUM, 2, True)
    yield n.add_topk(x, trt.TopKOperation.MAX, 2, 8)
    yield n.add_cumulative(x, net.constant(np.array(1, np.int32)), trt.CumulativeOperation.SUM, False, False)
    yield n.add_attention(x, x, x, trt.AttentionNormalizationOp.SOFTMAX, False)
    yield n.add_shape(x)
    yield n.add_shuffle(x)
    yield n.add_concatenation([x, x])
    yield n.add_slice(x, (0, 0, 0, 0), (1, 1, 1, 1), (1, 1, 1, 1))
    yield n.add_gather(x, i, 1)
    yield n.add_one_hot(i, net.constant(np.array([0, 1], np.float32)), net.constant(np.array(3, np.int32)), -1)
    yield n.add_non_zero(x)
    yield n.add_resize(x)
    yield n.add_grid_sample(x, net.constant(np.zeros((1, 2, 2, 2), np.float32)))
    yield n.add_fill((2, 2), trt.FillOperation.RANDOM_UNIFORM)
    yield n.add_quantize(x, net.constant(np.array(1, np.float32)))
    yield n.add_reverse_sequence(x, net.constant(np.array([1, 1, 1, 1], np.int32)))
    yield n.add_rnn_v2(x, 1, 4, 8, trt.RNNOperation.LSTM)
    yield n.add_assertion(flag, "fine")


def same(a, b):
    return np.array_equal(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else a == b or a is b


def test_every_property(net):
    count = 0
    for layer in layers_of(net):
        for name in [n for n in dir(layer) if not n.startswith("_")]:
            value = getattr(layer, name)
            declared = getattr(type(layer), name, None)
            if callable(value) or not isinstance(declared, property) or declared.fset is None or value is None:
                continue
            if name in ("hidden_state", "cell_state", "seq_lengths", "mask"):
                continue
            setattr(layer, name, value)
            assert same(getattr(layer, name), value), (layer, name)
            count += 1
    assert count > 150


def test_properties_that_scripts_set(net):
    made = {type(layer).__name__: layer for layer in layers_of(net)}
    values = {
        "IConvolutionLayer": {"stride_nd": (2, 2), "dilation_nd": (2, 2), "num_groups": 2, "padding": (1, 1)},
        "IPoolingLayer": {"type": trt.PoolingType.AVERAGE, "window_size": (3, 3), "blend_factor": 0.5},
        "ILRNLayer": {"window_size": 5, "alpha": 2.0, "beta": 0.5, "k": 1.0},
        "IScaleLayer": {"mode": trt.ScaleMode.CHANNEL, "channel_axis": 1},
        "IMatrixMultiplyLayer": {"op0": trt.MatrixOperation.TRANSPOSE, "op1": trt.MatrixOperation.NONE},
        "IResizeLayer": {
            "resize_mode": trt.InterpolationMode.LINEAR,
            "selector_for_single_pixel": trt.ResizeSelector.UPPER,
            "nearest_rounding": trt.ResizeRoundMode.CEIL,
            "scales": [1.0, 1.0, 2.0, 2.0],
            "exclude_outside": True,
        },
        "ISliceLayer": {"start": (0, 1, 0, 0), "shape": (1, 2, 1, 1), "mode": trt.SampleMode.FILL},
        "ITopKLayer": {"k": 3, "axes": 4, "op": trt.TopKOperation.MIN},
        "IReduceLayer": {"axes": 4, "keep_dims": False, "op": trt.ReduceOperation.MAX},
        "IGatherLayer": {"axis": 2, "mode": trt.GatherMode.ELEMENT, "num_elementwise_dims": 1},
        "INormalizationLayer": {"epsilon": 0.5, "num_groups": 2, "compute_precision": trt.float16},
    }
    for kind, pairs in values.items():
        for name, value in pairs.items():
            setattr(made[kind], name, value)
            assert getattr(made[kind], name) == value, (kind, name)


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
    """The class of each add_* method's layer; repeated queries return the same object."""
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
