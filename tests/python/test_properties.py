"""Every property of every layer reads, and reads back what was set."""

import numpy as np

import carnot as trt


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
