"""Plugins of version 2: classes, ONNX models, a new process."""

import os
import pathlib
import subprocess
import sys

import carnot as trt
import numpy as np
import pytest
from conftest import Net
from onnx import helper
from plugin_examples import CircPad, CircPadCreator, pads_field

rng = np.random.default_rng(5)


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
from plugin_examples import CircPadCreator
assert trt.get_plugin_registry().register_creator(CircPadCreator())
net = trt.Model(runtime.deserialize_cuda_engine(plan))
np.save(sys.argv[1] + "/y.npy", net(x=np.load(sys.argv[1] + "/x.npy"))["y"])
"""
    path = os.pathsep.join([str(pathlib.Path(trt.__file__).parents[1]), str(pathlib.Path(__file__).parent)])
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, env={**os.environ, "PYTHONPATH": path})
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), wanted)


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
