"""Story D: instance normalization, versions, and finding the failing node."""

import gc
import re

import numpy as np
import onnx
import pytest
from onnx import helper

import carnot as trt
import carnot.plugin

from story import build_and_load, command, run_script, save_model

rng = np.random.default_rng(4)
SHAPES = [(2, 3, 9), (2, 3, 5, 6), (1, 3, 4, 5, 3)]


def oracle(x, scale, bias, eps=1e-3):
    axes, wide = tuple(range(2, x.ndim)), x.astype(np.float64)
    unit = (wide - wide.mean(axes, keepdims=True)) / np.sqrt(wide.var(axes, keepdims=True) + eps)
    per_channel = (1, -1, *[1] * len(axes))
    return unit * scale.astype(np.float64).reshape(per_channel) + bias.astype(np.float64).reshape(per_channel)


@pytest.fixture(params=SHAPES, ids=["1d", "2d", "3d"])
def case(request, tmp_path):
    x = (rng.standard_normal(request.param) * 5 + 20).astype(np.float32)
    scale, bias = (rng.standard_normal(3).astype(np.float32) for _ in range(2))
    node = helper.make_node("InstanceNormalization", ["x", "scale", "bias"], ["y"], "norm", epsilon=1e-3)
    shape = list(request.param)
    return (
        save_model(tmp_path / "m.onnx", [node], {"x": shape}, {"y": shape}, {"scale": scale, "bias": bias}),
        x,
        oracle(x, scale, bias),
    )


SCRIPT = """
import sys
import numpy as np
IMPORT

TRT_LOGGER = trt.Logger(trt.Logger.WARNING)
builder = trt.Builder(TRT_LOGGER)
network = builder.create_network(1)
parser = trt.OnnxParser(network, TRT_LOGGER)
FLAG
assert parser.parse_from_file(sys.argv[1])
print(*[network.get_layer(i).type for i in range(network.num_layers)])
config = builder.create_builder_config()
config.builder_optimization_level = 0  # untimed, so both builds select the same kernels
with open(sys.argv[2], "wb") as f:
    f.write(builder.build_serialized_network(network, config))
"""
FLAGS = {
    "default": "",
    "native": "parser.set_flag(trt.OnnxParserFlag.NATIVE_INSTANCENORM)",
    "plugin": "parser.clear_flag(trt.OnnxParserFlag.NATIVE_INSTANCENORM)",
}


@pytest.mark.parametrize("alias", [False, True])
def test_native_and_plugin(case, tmp_path, alias):
    model, x, wanted = case
    found = {}
    for name, flag in FLAGS.items():
        script = SCRIPT.replace("IMPORT", "import tensorrt as trt" if alias else "import carnot as trt")
        run_script(script.replace("FLAG", flag), tmp_path, model, tmp_path / f"{name}.plan", alias=alias)
        engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine((tmp_path / f"{name}.plan").read_bytes())
        found[name] = trt.Model(engine)(x=x)["y"]
        np.testing.assert_allclose(found[name], wanted, rtol=2e-5, atol=2e-5)
    assert np.array_equal(found["native"], found["plugin"]) and np.array_equal(found["native"], found["default"])


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_plugin_versions_and_fields(logger, version):
    creator = trt.get_plugin_registry().get_creator("InstanceNormalization_TRT", version, "")
    x = rng.standard_normal((2, 3, 5, 6)).astype(np.float32)
    scale, bias = (rng.standard_normal(3).astype(np.float32) for _ in range(2))
    kinds = trt.PluginFieldType
    fields = [
        trt.PluginField("epsilon", np.array([1e-3], np.float32), kinds.FLOAT32),
        trt.PluginField("scales", scale, kinds.FLOAT32),
        trt.PluginField("bias", bias, kinds.FLOAT32),
        trt.PluginField("relu", np.array([1], np.int32), kinds.INT32),
        trt.PluginField("alpha", np.array([0.1], np.float32), kinds.FLOAT32),
    ]
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    plugin = creator.create_plugin("norm", trt.PluginFieldCollection(fields))
    tensor = network.add_input("x", trt.float32, x.shape)
    layer = network.add_plugin_v2([tensor], plugin) if version < "3" else network.add_plugin_v3([tensor], [], plugin)
    layer.get_output(0).name = "y"
    network.mark_output(layer.get_output(0))
    engine = build_and_load(network, builder.create_builder_config(), logger)
    normal = oracle(x, scale, bias)
    wanted = np.where(normal < 0, normal * 0.1, normal)
    np.testing.assert_allclose(trt.Model(engine)(x=x)["y"], wanted, rtol=2e-5, atol=2e-5)


# ---- versions and plugins that do not match ----


def plugin_model(path, op, **attrs):
    node = helper.make_node(op, ["x"], ["y"], "lonely", domain="trt.plugins", **attrs)
    return save_model(path, [node], {"x": [2, 3, 4]}, {"y": [2, 3, 4]})


@pytest.mark.parametrize("by", ["command", "python"])
def test_missing_plugin(logger, tmp_path, by):
    model = plugin_model(tmp_path / "m.onnx", "InstanceNormalisation_TRT")
    if by == "command":
        said = command("exec", f"--onnx={model}", check=False).stderr
    else:
        parser = trt.OnnxParser(trt.Builder(logger).create_network(0), logger)
        assert not parser.parse_from_file(str(model))
        error = parser.get_error(0)
        assert error.node() == 0 and error.node_name() == "lonely"
        assert error.node_operator() == "InstanceNormalisation_TRT" and error.code() == trt.ErrorCode.INVALID_NODE
        said = f"{error.node_name()}: {error.desc()}"
    for part in (
        "lonely",
        "InstanceNormalisation_TRT version 1",
        *(f"InstanceNormalization_TRT version {v}" for v in "123"),
    ):
        assert part in said, said


@pytest.mark.parametrize("by", ["command", "python"])
def test_missing_version(logger, tmp_path, by):
    model = plugin_model(tmp_path / "m.onnx", "InstanceNormalization_TRT", plugin_version="9")
    if by == "command":
        said = command("exec", f"--onnx={model}", check=False).stderr
    else:
        assert not trt.OnnxParser(trt.Builder(logger).create_network(0), logger).parse_from_file(str(model))
        said = logger.errors()[-1]
    assert "InstanceNormalization_TRT version 9" in said
    for version in "123":
        assert f"InstanceNormalization_TRT version {version}" in said
    assert "lonely" in said


def test_engine_of_another_version(logger, tmp_path):
    model = save_model(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], {"x": [4]}, {"y": [4]})
    plan = bytearray(trt.build(str(model), level=0))
    version = int.from_bytes(plan[8:12], "little")  # behind the 8 bytes of the magic
    plan[8:12] = (99).to_bytes(4, "little")
    assert trt.Runtime(logger).deserialize_cuda_engine(bytes(plan)) is None
    assert re.search(rf"version 99.*reads {version}\b", logger.errors()[-1]), logger.errors()
    (tmp_path / "m.plan").write_bytes(plan)
    assert "99" in command("run", tmp_path / "m.plan", check=False).stderr


def test_engine_whose_plugin_is_absent_refuses_at_load(logger, tmp_path):
    """Named with the node that needs it, when the engine is loaded and not while it runs."""

    class Twice(trt.IPluginV3, trt.IPluginV3OneCore, trt.IPluginV3OneBuild, trt.IPluginV3OneRuntime):
        plugin_name = "Twice"

        def get_capability_interface(self, type):
            return self

        def get_output_shapes(self, inputs, shape_inputs, exprBuilder):
            return [inputs[0]]

        def supports_format_combination(self, pos, in_out, num_inputs):
            return in_out[pos].desc.format == trt.TensorFormat.LINEAR

        def enqueue(self, input_desc, output_desc, inputs, outputs, workspace, stream):
            x = carnot.plugin.Tensor(input_desc[0], inputs[0])
            np.multiply(x, 2, out=np.asarray(carnot.plugin.Tensor(output_desc[0], outputs[0])))

    class TwiceCreator(trt.IPluginCreatorV3One):
        name = "Twice"

        def create_plugin(self, name, fc, phase):
            return Twice()

    creator = TwiceCreator()
    registry = trt.get_plugin_registry()
    assert registry.register_creator(creator)
    model = plugin_model(tmp_path / "m.onnx", "Twice")
    plan = trt.build(str(model), level=0)
    x = rng.standard_normal((2, 3, 4)).astype(np.float32)
    assert np.array_equal(trt.Model(trt.Runtime(logger).deserialize_cuda_engine(plan))(x=x)["y"], 2 * x)
    gc.collect()
    assert registry.deregister_creator(creator)
    assert trt.Runtime(logger).deserialize_cuda_engine(plan) is None
    assert "Twice version 1" in logger.errors()[-1] and "lonely" in logger.errors()[-1], logger.errors()
    (tmp_path / "m.plan").write_bytes(plan)
    done = command("run", tmp_path / "m.plan", check=False)
    assert done.returncode == 1 and "Twice version 1" in done.stderr and "lonely" in done.stderr


# ---- finding the node ----


@pytest.fixture
def net(tmp_path):
    """The output of the third of four layers overflows float16."""
    nodes = [
        helper.make_node("InstanceNormalization", ["x", "scale", "bias"], ["n"], "norm"),
        helper.make_node("Relu", ["n"], ["r"], "relu"),
        helper.make_node("Mul", ["r", "large"], ["l"], "enlarge"),
        helper.make_node("Mul", ["l", "small"], ["y"], "shrink"),
    ]
    weights = {
        "scale": np.ones(3, np.float32),
        "bias": np.zeros(3, np.float32),
        "large": np.float32(1e6),
        "small": np.float32(1e-6),
    }
    return save_model(tmp_path / "net.onnx", nodes, {"x": [1, 3, 8, 8]}, {"y": [1, 3, 8, 8]}, weights)


def test_debug(net, tmp_path):
    assert "layers agree" in command("debug", "compare", net).stdout
    text = command("debug", "precision", net, "--fp16", "--each", "--atol=1e-2").stdout
    assert "enlarge" in text, text
    command("debug", "split", net, "--at=r", f"--output-dir={tmp_path / 'two'}")
    assert len(list((tmp_path / "two").glob("*.onnx"))) == 2


def test_debug_reduce_and_first_divergence(net, tmp_path):
    x = rng.standard_normal((1, 3, 8, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    unit = (x - x.mean((2, 3), keepdims=True)) / np.sqrt(x.var((2, 3), keepdims=True) + 1e-5)
    saved = tmp_path / "saved"
    saved.mkdir()
    relu = np.maximum(unit, 0)
    for name, value in {"n": unit, "r": relu + 0.5, "l": relu * 1e6, "y": relu}.items():
        np.save(saved / f"{name}.npy", value.astype(np.float32))
    words = ["debug", "compare", net, "--input", f"x={tmp_path / 'x.npy'}", f"--against={saved}", "--noPasses"]
    done = command(*words, "--atol=1e-3", check=False)
    assert done.returncode == 1 and "the first is relu" in done.stdout + done.stderr, done.stdout + done.stderr


def test_int64_is_kept(logger, tmp_path):
    """Values past int32 stay; nothing is narrowed unless asked for."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "large"], ["y"], "add")],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.INT64, [3])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.INT64, [3])],
        [onnx.numpy_helper.from_array(np.array([1 << 40], np.int64), "large")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    engine = trt.Runtime(logger).deserialize_cuda_engine(trt.build(model.SerializeToString(), level=0))
    assert engine.get_tensor_dtype("x") == engine.get_tensor_dtype("y") == trt.int64
    x = np.array([1, -5, (1 << 62)], np.int64)
    assert (trt.Model(engine)(x=x)["y"] == x + (1 << 40)).all()
    assert not logger.lines, "no word of narrowing"
