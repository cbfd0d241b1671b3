"""Networks: inputs, outputs, tensors, edits of a parsed network."""

import carnot as trt
import numpy as np
import onnx
from conftest import Net
from models import TRT_LOGGER, conv_model, infer, onnx_bytes, ort_run
from onnx import helper

rng = np.random.default_rng(21)


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


def test_dimension_names(net):
    x = net.network.add_input("x", trt.float32, (-1, 3))
    y = net.network.add_input("y", trt.float32, (-1, 3))
    x.set_dimension_name(0, "batch")
    y.set_dimension_name(0, "batch")
    total = net.network.add_elementwise(x, y, trt.ElementWiseOperation.SUM).get_output(0)
    assert total.shape == (-1, 3) and total.get_dimension_name(0) == x.get_dimension_name(0) == "batch"


def test_network_without_output(net):
    net.network.add_input("x", trt.float32, (1,))
    assert net.builder.build_serialized_network(net.network, net.config) is None
    assert "no output" in net.logger.errors()[-1]


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


def test_mnist_by_layers():
    """An MNIST-like network by layers, in the manner of network_api_pytorch_mnist."""

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


def test_edit_a_parsed_network():
    """Edits of a parsed network before the build."""

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


def test_io_types():
    """Types of inputs and outputs in a weakly typed network."""

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


def test_decomposed_layer_normalization():
    """A decomposed layer normalization becomes one layer, named after its last node."""

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


def test_two_models_in_one_network():
    """Two models and layers in one network."""

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


def test_no_bare_index_error(net, monkeypatch):
    """An IndexError while a layer is emitted becomes a message that names the layer."""
    x = net.input(np.ones((2, 3), np.float32))
    layer = net.network.add_identity(x)
    layer.name = "bad"
    monkeypatch.setattr(type(layer), "_emit", lambda self, e: [][1])
    assert layer.get_output(0).is_shape_tensor is False
    net.network.mark_output(layer.get_output(0))
    assert net.builder.build_serialized_network(net.network, net.config) is None
    assert "layer bad" in net.logger.errors()[-1] and "IndexError" in net.logger.errors()[-1]
