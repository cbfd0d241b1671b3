"""The plugin registry: built-in creators, shared objects, fields, resources."""

import gc
import os

import carnot as trt
import numpy as np
import pytest
from conftest import Net

rng = np.random.default_rng(5)


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
    from carnot.plugin.types import PluginField, c_fields

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
