"""Plugins of version 3: tactics, shape inputs, data-dependent outputs, exceptions."""

import carnot as trt
import numpy as np
import pytest
from conftest import Net
from onnx import helper
from plugin_examples import CircPad, Scale, ScaleCreator, array_of

rng = np.random.default_rng(5)


def test_version_3(registry, logger):
    creator = ScaleCreator()
    assert registry.register_creator(creator, "mine") and not registry.register_creator(ScaleCreator(), "mine")
    assert registry.get_creator("Scale", "2", "mine") is creator
    fc = trt.PluginFieldCollection([trt.PluginField("factor", np.array([3.0]), trt.PluginFieldType.FLOAT64)])
    plugin = creator.create_plugin("s", fc, trt.TensorRTPhase.BUILD)
    plugin.offset = 0.5  # not a field: the network holds the object itself
    net = Net(logger)
    x = net.input(rng.standard_normal((2, 5)).astype(np.float32), shape=(-1, 5))
    layer = net.network.add_plugin_v3([x], [], plugin)
    assert layer.type == trt.LayerType.PLUGIN_V3 and layer.plugin is plugin and layer.num_outputs == 1
    Scale.calls.clear()
    (got,) = net.run(layer.get_output(0))
    np.testing.assert_allclose(got, net.arrays["in0"] * 3.0 + 0.5, rtol=1e-6)
    assert "configure" in Scale.calls and "attach" in Scale.calls and "shape (2, 5)" in Scale.calls
    # The faster tactic was stored, and the engine creates its plugins from fields.
    assert creator.phases[-1] == trt.TensorRTPhase.RUNTIME


def test_tactic_is_the_fastest(registry, logger):
    registry.register_creator(ScaleCreator(), "mine")
    net = Net(logger)
    layer = net.network.add_plugin_v3([net.input(np.ones((4,), np.float32))], [], Scale(2))
    seen = []
    enqueue = Scale.enqueue
    try:
        Scale.enqueue = lambda self, *a: (seen.append(self.tactic), enqueue(self, *a))[1]
        net.run(layer.get_output(0))
    finally:
        Scale.enqueue = enqueue
    assert set(seen) == {3, 7} and seen[-1] == 7


def test_without_creator(logger):
    net = Net(logger)
    layer = net.network.add_plugin_v3([net.input(np.ones((4,), np.float32))], [], Scale(2))
    net.network.mark_output(layer.get_output(0))
    assert net.builder.build_serialized_network(net.network, net.config) is None
    assert "Scale version 2 in namespace mine is needed and not registered" in logger.errors()[-1]


class Fill(Scale):
    """Ones, in the shape of a shape input."""

    def __init__(self):
        Scale.__init__(self, 1)
        self.plugin_name = "FillOnes"

    def get_valid_tactics(self):
        return []

    def get_output_shapes(self, inputs, shape_inputs, exprBuilder):
        assert len(inputs) == 1 and len(shape_inputs) == 1
        return [trt.DimsExprs([shape_inputs[0][0], shape_inputs[0][1]])]

    def on_shape_change(self, inp, out):
        assert len(inp) == 1

    def get_fields_to_serialize(self):
        return trt.PluginFieldCollection()

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        assert len(inputs) == 1
        array_of(output_desc[0], outputs[0])[...] = array_of(input_desc[0], inputs[0])[0]

    def clone(self):
        return Fill()


class FillCreator(ScaleCreator):
    def __init__(self):
        ScaleCreator.__init__(self)
        self.name = "FillOnes"

    def create_plugin(self, name, fc, phase):
        return Fill()


def test_shape_input(registry, logger):
    registry.register_creator(FillCreator(), "mine")
    net = Net(logger)
    value = net.input(np.array([2.5], np.float32))
    image = net.input(np.zeros((3, 4), np.float32), shape=(-1, -1))
    shape = net.network.add_shape(image).get_output(0)
    layer = net.network.add_plugin_v3([value], [shape], Fill())
    (got,) = net.run(layer.get_output(0))
    np.testing.assert_array_equal(got, np.full((3, 4), 2.5, np.float32))


class Positive(Scale):
    """The positive elements and their count."""

    def __init__(self):
        Scale.__init__(self, 1)
        self.plugin_name, self.num_outputs = "Positive", 2

    def get_valid_tactics(self):
        return []

    def get_output_data_types(self, input_types):
        return [input_types[0], trt.int32]

    def get_output_shapes(self, inputs, shape_inputs, exprBuilder):
        most = inputs[0][0]
        half = exprBuilder.operation(trt.DimensionOperation.CEIL_DIV, most, exprBuilder.constant(2))
        size = exprBuilder.declare_size_tensor(1, half, most)
        assert size.is_size_tensor() and not most.is_size_tensor()
        assert exprBuilder.constant(7).is_constant() and exprBuilder.constant(7).get_constant_value() == 7
        return [trt.DimsExprs([size]), trt.DimsExprs(0)]

    def supports_format_combination(self, pos, in_out, num_inputs):
        return in_out[pos].desc.type == [trt.float32, trt.float32, trt.int32][pos]

    def on_shape_change(self, inp, out):
        pass

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        x = array_of(input_desc[0], inputs[0])
        found = x[x > 0]
        array_of(output_desc[0], outputs[0])[: len(found)] = found
        array_of(output_desc[1], outputs[1])[...] = len(found)

    def clone(self):
        return Positive()


class PositiveCreator(FillCreator):
    def __init__(self):
        FillCreator.__init__(self)
        self.name = "Positive"

    def create_plugin(self, name, fc, phase):
        return Positive()


def test_size_that_the_run_finds_out(registry, logger):
    registry.register_creator(PositiveCreator(), "mine")
    net = Net(logger)
    layer = net.network.add_plugin_v3([net.input(rng.standard_normal(20).astype(np.float32))], [], Positive())
    found, count = net.run(layer.get_output(0), layer.get_output(1))
    x = net.arrays["in0"]
    np.testing.assert_array_equal(found, x[x > 0])
    assert count == (x > 0).sum()


@pytest.mark.parametrize("where", ["get_output_shapes", "supports_format_combination", "configure_plugin", "enqueue"])
def test_exceptions_surface(registry, logger, where):
    class Mine(Exception):
        pass

    class Broken(Scale):
        def clone(self):
            made = Broken(2)
            made.__dict__.update(self.__dict__)
            return made

    def raises(self, *arguments):
        raise Mine(where)

    setattr(Broken, where, raises)

    class BrokenCreator(ScaleCreator):
        def create_plugin(self, name, fc, phase):
            return Broken(2)

    registry.register_creator(BrokenCreator(), "mine")
    net = Net(logger)
    layer = net.network.add_plugin_v3([net.input(np.ones(4, np.float32))], [], Broken(2))
    with pytest.raises(Mine, match=where):
        net.run(layer.get_output(0))
    # Later builds work.
    other = Net(logger)
    (got,) = other.run(other.network.add_identity(other.input(np.ones(3, np.float32))).get_output(0))
    assert got.sum() == 3


def test_bad_plugins(registry, logger):
    net = Net(logger)
    x = net.input(np.ones(4, np.float32))
    assert net.network.add_plugin_v3([x], [], None) is None and "plugin is None" in logger.errors()[-1]
    with pytest.raises(TypeError, match="IPluginV3"):
        net.network.add_plugin_v3([x], [], object())
    with pytest.raises(TypeError, match="ITensor"):
        net.network.add_plugin_v2([object()], CircPad())
    with pytest.raises(TypeError, match="creator"):
        registry.register_creator(object())
    with pytest.raises(TypeError, match="PluginFieldType"):
        trt.PluginField("a", None, trt.DataType.FLOAT)
    assert registry.get_creator("CircPadPlugni", "1", "") is None
    assert registry.load_library("/nowhere/libplugin.so") is None
    assert not registry.deregister_creator(ScaleCreator())
    kept = []

    class Keeps(Scale):
        def get_output_shapes(self, inputs, shape_inputs, exprBuilder):
            kept.append((inputs[0][0], exprBuilder))
            return [trt.DimsExprs(inputs[0])]

        def clone(self):
            return Keeps(2)

    registry.register_creator(ScaleCreator(), "mine")
    net.network.add_plugin_v3([x], [], Keeps(2)).get_output(0).shape
    with pytest.raises(RuntimeError, match="live only while"):
        kept[0][1].constant(3)
    with pytest.raises(RuntimeError, match="live only while"):
        kept[0][0].is_constant()


def test_python_plugin_in_place_of_an_operator(registry, logger):
    """Story D: a plugin of the user's own replaces a built-in operator."""

    class Relu(Scale):
        def __init__(self):
            Scale.__init__(self, 2)
            self.plugin_name, self.plugin_version, self.plugin_namespace = "Relu", "1", ""

        def get_valid_tactics(self):
            return []

        def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
            array_of(output_desc[0], outputs[0])[...] = np.maximum(array_of(input_desc[0], inputs[0]), 0) + 10

        def clone(self):
            return Relu()

    class ReluCreator(trt.IPluginCreatorV3One):
        name, plugin_version, plugin_namespace = "Relu", "1", ""

        def create_plugin(self, name, fc, phase):
            return Relu()

    registry.register_creator(ReluCreator())
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", 1, [3])],
        [helper.make_tensor_value_info("y", 1, [3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    for override, wanted in ((False, [0, 0, 1]), (True, [10, 10, 11])):
        builder = trt.Builder(logger)
        network = builder.create_network(0)
        parser = trt.OnnxParser(network, logger)
        if override:
            parser.set_flag(trt.OnnxParserFlag.ENABLE_PLUGIN_OVERRIDE)
        assert parser.parse(model)
        engine = builder.build_engine(network, builder.create_builder_config())
        assert engine is not None, logger.errors()
        assert trt.Model(engine)(x=np.array([-1, 0, 1], np.float32))["y"].tolist() == wanted
