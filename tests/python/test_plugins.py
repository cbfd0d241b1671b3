"""Plugins in Python: the classes of version 2 and 3, functions, the registry, and C plugins from Python."""

import gc
import os
import pathlib
import subprocess
import sys

import numpy as np
import numpy.typing as npt
import pytest
from onnx import TensorProto, helper

import carnot as trt
import carnot.plugin as trtp

from conftest import Net

ROOT = pathlib.Path(__file__).resolve().parents[2]
rng = np.random.default_rng(5)


def array_of(desc, pointer):
    """The operand in memory, as a CPU plugin reads and writes it."""
    return np.asarray(trtp.Tensor(desc, pointer))


@pytest.fixture
def registry():
    """The registry, without what the test added to it."""
    found = trt.get_plugin_registry()
    before = found.all_creators
    yield found
    gc.collect()
    for creator in found.all_creators:
        if creator not in before and not type(creator).__name__.startswith("Native"):
            assert found.deregister_creator(creator), creator.name
    for namespace in vars(trtp.op).values():
        for definition in vars(namespace).values() if hasattr(namespace, "affine") else ():
            if hasattr(definition, "creator"):
                definition.creator = None


# ---- version 2, in the manner of the circular padding sample ----


class CircPad(trt.IPluginV2DynamicExt):
    made = 0

    def __init__(self, fc=None):
        trt.IPluginV2DynamicExt.__init__(self)
        self.pads = []
        self.num_outputs = 1
        self.plugin_namespace = ""
        self.plugin_type = "CircPadPlugin"
        self.plugin_version = "1"
        CircPad.made += 1
        if fc is not None:
            assert fc[0].name == "pads" and fc[0].type == trt.PluginFieldType.INT32 and fc[0].size == len(fc[0].data)
            self.pads = fc[0].data

    def get_output_datatype(self, index, input_types):
        return input_types[0]

    def get_output_dimensions(self, output_index, inputs, exprBuilder):
        output_dims = trt.DimsExprs(inputs[0])
        for i in range(len(self.pads) // 2):
            at = len(output_dims) - i - 1
            output_dims[at] = exprBuilder.operation(
                trt.DimensionOperation.SUM,
                inputs[0][at],
                exprBuilder.constant(self.pads[i * 2] + self.pads[i * 2 + 1]),
            )
        return output_dims

    def serialize(self):
        return ",".join(str(p) for p in self.pads)

    def configure_plugin(self, inp, out):
        assert list(inp[0].min) <= list(inp[0].opt) <= list(inp[0].max) and len(out) == 1
        assert inp[0].desc.type == trt.float32

    def supports_format_combination(self, pos, in_out, num_inputs):
        assert num_inputs == 1 and pos < len(in_out)
        desc = in_out[pos]
        return desc.format == trt.TensorFormat.LINEAR and desc.type == trt.DataType.FLOAT

    def get_workspace_size(self, input_desc, output_desc):
        return 4 * trt.volume(input_desc[0].dims)

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        import ctypes

        x, y = array_of(input_desc[0], inputs[0]), array_of(output_desc[0], outputs[0])
        scratch = np.ctypeslib.as_array((ctypes.c_float * x.size).from_address(workspace)).reshape(x.shape)
        scratch[...] = x
        pads = [(0, 0)] * (x.ndim - len(self.pads) // 2)
        pads += [(self.pads[2 * i], self.pads[2 * i + 1]) for i in reversed(range(len(self.pads) // 2))]
        y[...] = np.pad(scratch, pads, mode="wrap")

    def clone(self):
        cloned = CircPad()
        cloned.__dict__.update(self.__dict__)
        return cloned


class CircPadCreator(trt.IPluginCreator):
    def __init__(self):
        trt.IPluginCreator.__init__(self)
        self.name = "CircPadPlugin"
        self.plugin_namespace = ""
        self.plugin_version = "1"
        self.field_names = trt.PluginFieldCollection([trt.PluginField("pads", np.array([]), trt.PluginFieldType.INT32)])

    def create_plugin(self, name, fc):
        return CircPad(fc)

    def deserialize_plugin(self, name, data):
        deserialized = CircPad()
        deserialized.pads = [int(p) for p in data.decode("utf-8").split(",")]
        return deserialized


def pads_field(*pads):
    return trt.PluginFieldCollection(
        [trt.PluginField("pads", np.array(pads, dtype=np.int32), trt.PluginFieldType.INT32)]
    )


def test_version_2(registry, logger):
    assert registry.register_creator(CircPadCreator(), "")
    creator = registry.get_plugin_creator("CircPadPlugin", "1", "")
    assert isinstance(creator, CircPadCreator) and creator in registry.plugin_creator_list
    net = Net(logger)
    x = net.input(rng.standard_normal((2, 3, 4)).astype(np.float32), shape=(-1, 3, -1))
    layer = net.network.add_plugin_v2([x], creator.create_plugin("pad", pads_field(1, 2, 1, 0)))
    assert layer.type == trt.LayerType.PLUGIN_V2 and isinstance(layer.plugin, CircPad)
    assert layer.get_output(0).shape == (-1, 4, -1)
    layer.name = "my pad"
    relu = net.network.add_activation(layer.get_output(0), trt.ActivationType.RELU)
    profile = net.builder.create_optimization_profile()
    profile.set_shape("in0", (1, 3, 1), (2, 3, 4), (4, 3, 9))
    net.config.add_optimization_profile(profile)
    (got,) = net.run(relu.get_output(0))
    wanted = np.maximum(np.pad(net.arrays["in0"], [(0, 0), (1, 0), (1, 2)], mode="wrap"), 0)
    np.testing.assert_array_equal(got, wanted)


def test_version_2_in_onnx_and_in_a_new_process(registry, logger, tmp_path):
    registry.register_creator(CircPadCreator(), "")
    graph = helper.make_graph(
        [helper.make_node("CircPadPlugin", ["x"], ["y"], name="pad", pads=[2, 1])],
        "g",
        [helper.make_tensor_value_info("x", 1, ["n", 4])],
        [helper.make_tensor_value_info("y", 1, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    assert trt.OnnxParser(network, logger).parse(model.SerializeToString()), logger.errors()
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    (tmp_path / "m.plan").write_bytes(plan)
    x = rng.standard_normal((3, 4)).astype(np.float32)
    wanted = np.pad(x, [(0, 0), (2, 1)], mode="wrap")
    np.testing.assert_array_equal(trt.Model(trt.Runtime(logger).deserialize_cuda_engine(plan))(x=x)["y"], wanted)
    np.save(tmp_path / "x.npy", x)
    script = """
import sys, numpy as np, carnot as trt
from conftest import Messages
logger = Messages()
runtime = trt.Runtime(logger)
plan = open(sys.argv[1] + "/m.plan", "rb").read()
assert runtime.deserialize_cuda_engine(plan) is None
assert "CircPadPlugin version 1" in logger.errors()[-1] and "not registered" in logger.errors()[-1], logger.errors()
from test_plugins import CircPadCreator
assert trt.get_plugin_registry().register_creator(CircPadCreator())
net = trt.Model(runtime.deserialize_cuda_engine(plan))
np.save(sys.argv[1] + "/y.npy", net(x=np.load(sys.argv[1] + "/x.npy"))["y"])
"""
    path = os.pathsep.join([str(pathlib.Path(trt.__file__).parents[1]), str(pathlib.Path(__file__).parent)])
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, env={**os.environ, "PYTHONPATH": path})
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), wanted)


# ---- version 3 ----


class Scale(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuildV2, trt.IPluginV3OneRuntime):
    """y = factor · x; the second tactic computes it another way."""

    calls = []

    def __init__(self, factor, offset=0.0):
        trt.IPluginV3.__init__(self)
        trt.IPluginV3OneCore.__init__(self)
        trt.IPluginV3OneBuildV2.__init__(self)
        trt.IPluginV3OneRuntime.__init__(self)
        self.plugin_name, self.plugin_version, self.plugin_namespace = "Scale", "2", "mine"
        self.num_outputs = 1
        self.timing_cache_id = "scale"
        self.factor, self.offset, self.tactic = float(factor), offset, 0

    def get_capability_interface(self, type):
        return self

    def get_output_data_types(self, input_types):
        return [input_types[0]]

    def get_output_shapes(self, inputs, shape_inputs, exprBuilder):
        return [trt.DimsExprs(inputs[0])]

    def supports_format_combination(self, pos, in_out, num_inputs):
        desc = in_out[pos].desc
        return desc.format == trt.TensorFormat.LINEAR and desc.type == in_out[0].desc.type

    def configure_plugin(self, inp, out):
        Scale.calls.append("configure")

    def on_shape_change(self, inp, out):
        assert inp[0].dims == out[0].dims
        Scale.calls.append(f"shape {tuple(inp[0].dims)}")

    def get_valid_tactics(self):
        return [3, 7]

    def set_tactic(self, tactic):
        self.tactic = tactic

    def get_fields_to_serialize(self):
        return trt.PluginFieldCollection(
            [
                trt.PluginField("factor", np.array([self.factor]), trt.PluginFieldType.FLOAT64),
                trt.PluginField("offset", np.array([self.offset], np.float32), trt.PluginFieldType.FLOAT32),
            ]
        )

    def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
        assert self.tactic in (3, 7)
        x, y = array_of(input_desc[0], inputs[0]), array_of(output_desc[0], outputs[0])
        if self.tactic == 3:
            import time

            time.sleep(0.002)
        y[...] = x * self.factor + self.offset

    def attach_to_context(self, context):
        assert context.error_recorder is None and context.gpu_allocator is None
        Scale.calls.append("attach")
        return self.clone()

    def clone(self):
        made = Scale(0)
        made.__dict__.update(self.__dict__)
        return made


class ScaleCreator(trt.IPluginCreatorV3One):
    def __init__(self):
        trt.IPluginCreatorV3One.__init__(self)
        self.name, self.plugin_version, self.plugin_namespace = "Scale", "2", "mine"
        self.field_names = trt.PluginFieldCollection([trt.PluginField("factor", None, trt.PluginFieldType.FLOAT64)])
        self.phases = []

    def create_plugin(self, name, fc, phase):
        self.phases.append(phase)
        fields = {f.name: f.data[0] for f in fc}
        return Scale(fields["factor"], fields.get("offset", 0.0))


def test_version_3(registry, logger):
    creator = ScaleCreator()
    assert registry.register_creator(creator, "mine") and not registry.register_creator(ScaleCreator(), "mine")
    assert registry.get_creator("Scale", "2", "mine") is creator
    fc = trt.PluginFieldCollection([trt.PluginField("factor", np.array([3.0]), trt.PluginFieldType.FLOAT64)])
    plugin = creator.create_plugin("s", fc, trt.TensorRTPhase.BUILD)
    plugin.offset = 0.5  # state that the creator does not know: the object itself is what the network holds
    net = Net(logger)
    x = net.input(rng.standard_normal((2, 5)).astype(np.float32), shape=(-1, 5))
    layer = net.network.add_plugin_v3([x], [], plugin)
    assert layer.type == trt.LayerType.PLUGIN_V3 and layer.plugin is plugin and layer.num_outputs == 1
    Scale.calls.clear()
    (got,) = net.run(layer.get_output(0))
    np.testing.assert_allclose(got, net.arrays["in0"] * 3.0 + 0.5, rtol=1e-6)
    assert "configure" in Scale.calls and "attach" in Scale.calls and "shape (2, 5)" in Scale.calls
    # The tactic that took less time was stored, and the engine's plugins come from its fields.
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


# ---- shape inputs, sizes that the run finds out, outputs in place ----


class Fill(Scale):
    """Ones, of the shape that an input tells."""

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
    """The positive elements, and how many there are."""

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


# ---- failures ----


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
    # What follows is not harmed.
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


# ---- C plugins from Python ----


def test_builtin_creators(registry, logger):
    creator = registry.get_plugin_creator("GroupNormalizationPlugin", "1", "")
    assert [f.name for f in creator.field_names] == ["eps", "num_groups"] and creator.plugin_version == "1"
    fields = [
        trt.PluginField("eps", np.array([1e-5], np.float32), trt.PluginFieldType.FLOAT32),
        trt.PluginField("num_groups", np.array([2], np.int32), trt.PluginFieldType.INT32),
    ]
    x = rng.standard_normal((2, 4, 5)).astype(np.float32)
    scale, bias = (rng.standard_normal(4).astype(np.float32) for _ in range(2))
    groups = x.astype(np.float64).reshape(2, 2, -1)
    norm = (groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + 1e-5)
    wanted = norm.reshape(x.shape) * scale[:, None] + bias[:, None]
    plugin = creator.create_plugin("gn", trt.PluginFieldCollection(fields))
    again = creator.deserialize_plugin("gn", plugin.serialize())
    for one in (plugin, again, plugin.clone()):
        net = Net(logger)
        tensors = [net.input(x), net.input(scale), net.input(bias)]
        layer = net.network.add_plugin_v2(tensors, one)
        np.testing.assert_allclose(net.run(layer.get_output(0))[0], wanted, atol=1e-5)
        net = Net(logger)
        tensors = [net.input(x), net.constant(scale), net.constant(bias)]
        layer = net.network.add_plugin_v3(tensors, [], one)
        np.testing.assert_allclose(net.run(layer.get_output(0))[0], wanted, atol=1e-5)
    three = trt.PluginField("num_groups", np.array([3], np.int32), trt.PluginFieldType.INT32)
    net = Net(logger)
    layer = net.network.add_plugin_v2(
        [net.input(x), net.input(scale), net.input(bias)], creator.create_plugin("gn", [three])
    )
    net.network.mark_output(layer.get_output(0))
    assert net.builder.build_serialized_network(net.network, net.config) is None
    assert "num_groups is 3, must divide the channels" in logger.errors()[-1]


def test_library(registry, logger):
    library = os.environ.get("CARNOT_PLUGIN_LIBRARY")
    if not library:
        pytest.skip("CARNOT_PLUGIN_LIBRARY does not name the example plugin")
    assert registry.get_creator("ExampleHardSwish", "1") is None
    handle = registry.load_library(library)
    assert handle is not None
    creator = registry.get_creator("ExampleHardSwish", "1")
    net = Net(logger)
    x = net.input(rng.standard_normal((3, 4)).astype(np.float32))
    plugin = creator.create_plugin("h", trt.PluginFieldCollection(), trt.TensorRTPhase.BUILD)
    (got,) = net.run(net.network.add_plugin_v3([x], [], plugin).get_output(0))
    wanted = net.arrays["in0"] * np.clip(net.arrays["in0"] / 6 + 0.5, 0, 1)
    np.testing.assert_allclose(got, wanted, rtol=1e-6)
    assert not registry.deregister_library(handle)  # a plugin lives
    del plugin, net, x
    gc.collect()
    assert registry.deregister_library(handle)
    assert registry.get_creator("ExampleHardSwish", "1") is None
    with pytest.raises(trt.CarnotError, match="ExampleHardSwish"):
        creator.create_plugin("h", [])


def test_fields():
    kinds = trt.PluginFieldType
    field = trt.PluginField("text", "abc", kinds.CHAR)
    assert field.size == 3 and bytes(field._array()) == b"abc"
    assert trt.PluginField("n", [1, 2], kinds.INT64).size == 2 and trt.PluginField("x").size == 0
    assert trt.PluginField("d", trt.Dims((1, 2)), kinds.DIMS).size == 1
    collection = trt.PluginFieldCollection([field])
    collection.append(trt.PluginField("b", b"\0\1", kinds.UNKNOWN))
    assert collection[1].size == len(collection) == 2 and trt.PluginFieldCollection_ is trt.PluginFieldCollection
    from carnot.plugin.native import NativeCreator
    from carnot.plugin.types import c_fields
    from carnot.plugin.types import PluginField

    values = {
        kinds.FLOAT16: np.array([0.5, 2], np.float16),
        kinds.FLOAT32: np.array([0.5], np.float32),
        kinds.FLOAT64: np.array([0.25]),
        kinds.INT8: np.array([-3], np.int8),
        kinds.INT16: np.array([300], np.int16),
        kinds.INT32: np.array([1 << 20], np.int32),
        kinds.INT64: np.array([1 << 40]),
        kinds.BF16: np.array([0x3F80], np.uint16),
        kinds.FP8: np.array([9], np.uint8),
        kinds.INT4: np.array([0x21], np.uint8),
        kinds.FP4: np.array([0x43], np.uint8),
    }
    keep = []
    made = c_fields([trt.PluginField(kind.name, value, kind) for kind, value in values.items()], keep)
    for i, (kind, value) in enumerate(values.items()):
        back = PluginField._of_c(made[i])
        assert back.name == kind.name and back.type == kind
        np.testing.assert_array_equal(back.data, value)
    dims = PluginField._of_c(c_fields([trt.PluginField("d", [(1, 2), (3,)], kinds.DIMS)], keep)[0])
    assert dims.data == [(1, 2), (3,)] and NativeCreator is not None


def test_resources(registry):
    class Table(trt.IPluginResource):
        live = 0

        def clone(self):
            Table.live += 1
            return Table()

        def release(self):
            Table.live -= 1

    first = registry.acquire_plugin_resource("table", Table())
    assert registry.acquire_plugin_resource("table", Table()) is first and Table.live == 1
    assert registry.release_plugin_resource("table") and Table.live == 1
    assert registry.release_plugin_resource("table") and Table.live == 0
    assert not registry.release_plugin_resource("table")


# ---- functions ----


@trtp.register("tests::affine", lazy_register=True)
def affine_desc(
    x: trtp.TensorDesc, y: trtp.TensorDesc, factor: float, shifts: npt.NDArray[np.float32]
) -> trtp.TensorDesc:
    return x.like()


@trtp.autotune("tests::affine")
def affine_autotune(x: trtp.TensorDesc, y: trtp.TensorDesc, outputs) -> list:
    return [trtp.AutoTuneCombination("FP32|FP16, FP32|FP16, FP32|FP16", "LINEAR", [1, 2])]


@trtp.impl("tests::affine")
def affine_impl(x: trtp.Tensor, y: trtp.Tensor, factor: float, shifts, outputs, stream: int, tactic: int) -> None:
    assert tactic in (1, 2) and stream == 0 and x.numel() == outputs[0].numel() and x.dtype == trt.float32
    np.asarray(outputs[0])[...] = np.asarray(x) * factor + np.asarray(y) + shifts


@trtp.register("tests::repeat", lazy_register=True)
def repeat_desc(x: trtp.TensorDesc, times: int, name: str, up: bool):
    assert name == "r" and up
    out = x.like()
    out.shape_expr[0] = trtp.max(x.shape_expr[0] * times, trtp.cdiv(x.shape_expr[0], 2)) + 0
    return out, trtp.from_shape_expr((x.shape_expr.numel(), 1), trt.int32)


@trtp.impl("tests::repeat")
def repeat_impl(x, times, outputs, stream):
    np.asarray(outputs[0])[...] = np.tile(np.asarray(x), (times, 1))
    np.asarray(outputs[1])[...] = np.arange(x.numel())[:, None]


@trtp.register("tests::positive", lazy_register=True)
def positive_desc(x: trtp.TensorDesc):
    size = trtp.size_tensor(x.shape_expr[0] // 2, x.shape_expr[0])
    return trtp.from_shape_expr((size.expr(),), x.dtype), size


@trtp.impl("tests::positive")
def positive_impl(x, outputs, stream):
    found = np.asarray(x)[np.asarray(x) > 0]
    np.asarray(outputs[0])[: len(found)] = found
    np.asarray(outputs[1])[...] = len(found)


@trtp.register("tests::add_one", lazy_register=True)
def add_one_desc(x: trtp.TensorDesc) -> trtp.TensorDesc:
    return x.aliased()


@trtp.impl("tests::add_one")
def add_one_impl(x, outputs, stream):
    assert x.data_ptr == outputs[0].data_ptr
    np.asarray(outputs[0])[...] += 1


def test_functions(registry, logger):
    net = Net(logger)
    x, y = (net.input(rng.standard_normal((3, 4)).astype(np.float32), shape=(-1, 4)) for _ in range(2))
    shifts = np.arange(4, dtype=np.float32)
    layer = net.network.add_plugin(trtp.op.tests.affine(x, y, factor=0.5, shifts=shifts))
    repeat = net.network.add_plugin(trtp.op.tests.repeat(layer.get_output(0), times=3, name="r", up=True))
    assert repeat.get_output(0).shape == (-1, 4) and repeat.get_output(1).dtype == trt.int32
    got, order = net.run(repeat.get_output(0), repeat.get_output(1))
    a, b = net.arrays.values()
    np.testing.assert_allclose(got, np.tile(a * 0.5 + b + shifts, (3, 1)), rtol=1e-6)
    np.testing.assert_array_equal(order, np.arange(12)[:, None])


def test_function_with_size_and_alias(registry, logger):
    net = Net(logger)
    x = net.input(rng.standard_normal(9).astype(np.float32))
    layer = net.network.add_plugin(trtp.op.tests.positive(x))
    alias = net.network.add_plugin(
        trtp.op.tests.add_one(net.network.add_unary(x, trt.UnaryOperation.NEG).get_output(0))
    )
    found, count, one = net.run(layer.get_output(0), layer.get_output(1), alias.get_output(0))
    a = net.arrays["in0"]
    np.testing.assert_array_equal(found, a[a > 0])
    assert count == (a > 0).sum()
    np.testing.assert_array_equal(one, 1 - a)
    np.testing.assert_array_equal(net.arrays["in0"], a)


def test_functions_that_do_not_fit(registry, logger):
    with pytest.raises(ValueError, match="NAMESPACE::NAME"):
        trtp.register("nothing")(affine_desc)
    with pytest.raises(ValueError, match="parameter x"):
        trtp.register("tests::untyped")(lambda x: x)
    with pytest.raises(ValueError, match="not registered"):
        trtp.impl("tests::absent")(affine_impl)
    with pytest.raises(ValueError, match="parameters"):
        trtp.impl("tests::affine")(lambda z, outputs: None)
    with pytest.raises(ValueError, match="registered already"):
        trtp.register("tests::affine")(affine_desc)
    net = Net(logger)
    x = net.input(np.ones(3, np.float32))
    with pytest.raises(ValueError, match="2 tensors"):
        trtp.op.tests.affine(x, factor=1.0)
    with pytest.raises(ValueError, match="factor must be float"):
        trtp.op.tests.affine(x, x, factor=1, shifts=np.zeros(4, np.float32))
    with pytest.raises(AttributeError, match="absent"):
        trtp.op.tests.absent

    @trtp.register("tests::compiled", lazy_register=True)
    def _(x: trtp.TensorDesc) -> trtp.TensorDesc:
        return x.like()

    @trtp.aot_impl("tests::compiled")
    def _(x, outputs, tactic):
        params = trtp.KernelLaunchParams()
        params.grid_x = trtp.cdiv(x.shape_expr.numel(), 32)
        params.block_x, params.shared_mem = 32, 0
        extra = trtp.SymIntExprs(1)
        extra[0] = trtp.SymInt32(x.shape_expr.numel())
        return "kernel", b"", params, extra

    with pytest.raises(ValueError, match="needs a GPU"):
        net.network.add_plugin(trtp.op.tests.compiled(x))


def test_function_in_onnx(registry, logger):
    trtp.op.tests.affine.know()
    graph = helper.make_graph(
        [
            helper.make_node(
                "affine", ["x", "y"], ["z"], factor=2.0, shifts=[1.0, 2.0], plugin_namespace="tests", domain="any"
            )
        ],
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3, 2]) for n in "xy"],
        [helper.make_tensor_value_info("z", 1, [3, 2])],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("any", 1)], ir_version=9
    )
    x, y = (rng.standard_normal((3, 2)).astype(np.float32) for _ in range(2))
    got = trt.Model(trt.Runtime(logger).deserialize_cuda_engine(trt.build(model.SerializeToString(), level=0)))(
        x=x, y=y
    )
    np.testing.assert_allclose(got["z"], x * 2 + y + np.array([1, 2]), rtol=1e-6)


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
