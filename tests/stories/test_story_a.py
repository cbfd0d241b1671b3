"""Story A: group normalization as a plugin."""

import json

import numpy as np
import pytest
from onnx import helper

import carnot as trt

from story import build_and_load, command, save_model

rng = np.random.default_rng(1)


def oracle(x, scale, bias, groups, eps=1e-5):
    wide = x.astype(np.float64)
    parts = wide.reshape(x.shape[0], groups, -1)
    centred = parts - parts.mean(2, keepdims=True)
    unit = (centred / np.sqrt((centred**2).mean(2, keepdims=True) + eps)).reshape(x.shape)
    per_channel = (1, -1, *[1] * (x.ndim - 2))
    return unit * scale.astype(np.float64).reshape(per_channel) + bias.astype(np.float64).reshape(per_channel)


def make_plugin(groups, eps=1e-5):
    creator = trt.get_plugin_registry().get_plugin_creator("GroupNormalizationPlugin", "1", "")
    assert creator is not None
    eps_field = trt.PluginField("eps", np.array([eps], dtype=np.float32), trt.PluginFieldType.FLOAT32)
    groups_field = trt.PluginField("num_groups", np.array([groups], dtype=np.int32), trt.PluginFieldType.INT32)
    return creator.create_plugin("group_norm", trt.PluginFieldCollection([eps_field, groups_field]))


def network_of(logger, x, groups, add="v2", dtype=trt.float32, computed=False, after=None):
    """x, scale, bias -> plugin; scale and bias as inputs or |computed| in the network."""
    builder = trt.Builder(logger)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    data = network.add_input("x", dtype, [-1, x.shape[1], *[-1] * (x.ndim - 2)])
    scale = network.add_input("scale", dtype, (x.shape[1],))
    bias = network.add_input("bias", dtype, (x.shape[1],))
    if computed:
        scale = network.add_unary(scale, trt.UnaryOperation.NEG).get_output(0)
        bias = network.add_elementwise(bias, bias, trt.ElementWiseOperation.SUM).get_output(0)
    tensors = [data, scale, bias]
    plugin = make_plugin(groups)
    layer = network.add_plugin_v2(tensors, plugin) if add == "v2" else network.add_plugin_v3(tensors, [], plugin)
    y = layer.get_output(0)
    if after == "silu":
        sigmoid = network.add_activation(y, trt.ActivationType.SIGMOID).get_output(0)
        y = network.add_elementwise(y, sigmoid, trt.ElementWiseOperation.PROD).get_output(0)
    elif after == "relu":
        y = network.add_activation(y, trt.ActivationType.RELU).get_output(0)
    elif after == "residual":
        y = network.add_elementwise(y, data, trt.ElementWiseOperation.SUM).get_output(0)
    y.name = "y"
    network.mark_output(y)
    config = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    spatial = x.shape[2:]
    profile.set_shape(
        "x", (1, x.shape[1], *[1] * len(spatial)), x.shape, (8, x.shape[1], *[max(64, d) for d in spatial])
    )
    config.add_optimization_profile(profile)
    return build_and_load(network, config, logger)


@pytest.mark.parametrize("add", ["v2", "v3"])
@pytest.mark.parametrize("shape, groups", [((2, 6, 7), 3), ((2, 8, 5, 6), 4), ((1, 4, 3, 4, 5), 2)])
def test_any_rank_and_dynamic_shapes(logger, add, shape, groups):
    x = rng.standard_normal(shape).astype(np.float32)
    scale, bias = (rng.standard_normal(shape[1]).astype(np.float32) for _ in range(2))
    run = trt.Model(network_of(logger, x, groups, add))
    for batch, grow in ((2, 1), (1, 2), (3, 1)):
        other = rng.standard_normal((batch, shape[1], *[d * grow for d in shape[2:]])).astype(np.float32)
        got = run(x=other, scale=scale, bias=bias)["y"]
        np.testing.assert_allclose(got, oracle(other, scale, bias, groups), atol=2e-5)


@pytest.mark.parametrize(
    "name",
    [
        "mean much greater than deviation",
        "one channel a group",
        "one group",
        "one pixel",
        "constant",
        "half near 65504",
    ],
)
def test_where_it_is_hard(logger, name):
    x = rng.standard_normal((2, 8, 6, 6)).astype(np.float32)
    groups, dtype, bound = 4, trt.float32, 2e-5
    if name == "mean much greater than deviation":
        x = (x + 4096).astype(np.float32)
        bound = 3e-3  # float32 input of 4096 has steps of 4.9e-4
    elif name == "one channel a group":
        groups = 8
    elif name == "one group":
        groups = 1
    elif name == "one pixel":
        x = x[:, :, :1, :1].copy()
    elif name == "constant":
        x = np.full_like(x, 3.25)
    else:
        x, dtype, bound = (x * 15000).clip(-65504, 65504).astype(np.float16), trt.float16, 4e-3
        x.flat[0] = 65504
    scale, bias = (rng.standard_normal(8).astype(trt.nptype(dtype)) for _ in range(2))
    got = trt.Model(network_of(logger, x, groups, dtype=dtype))(x=x, scale=scale, bias=bias)["y"]
    assert got.dtype == trt.nptype(dtype)
    np.testing.assert_allclose(got.astype(np.float64), oracle(x, scale, bias, groups), rtol=bound, atol=bound)


def test_bfloat16_storage(logger):
    """Storage in bfloat16, statistics in float32."""
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    tensors = [network.add_input(n, trt.float32, s) for n, s in (("x", (2, 8, 5)), ("scale", (8,)), ("bias", (8,)))]
    casts = [network.add_cast(t, trt.bfloat16).get_output(0) for t in tensors]
    out = network.add_plugin_v2(casts, make_plugin(2)).get_output(0)
    assert out.dtype == trt.bfloat16
    y = network.add_cast(out, trt.float32).get_output(0)
    y.name = "y"
    network.mark_output(y)
    engine = build_and_load(network, builder.create_builder_config(), logger)
    x = (rng.standard_normal((2, 8, 5)) + 100).astype(np.float32)
    rounded = ((x.view(np.uint32) + 0x7FFF + (x.view(np.uint32) >> 16 & 1)) & 0xFFFF0000).view(np.float32)
    ones, zeros = np.ones(8, np.float32), np.zeros(8, np.float32)
    got = trt.Model(engine)(x=x, scale=ones, bias=zeros)["y"]
    np.testing.assert_allclose(got, oracle(rounded, ones, zeros, 2), rtol=8e-3, atol=8e-3)


@pytest.mark.parametrize("after", ["silu", "relu", "residual"])
def test_computed_scale_and_what_follows(logger, after):
    x = rng.standard_normal((2, 8, 6, 6)).astype(np.float32)
    scale, bias = (rng.standard_normal(8).astype(np.float32) for _ in range(2))
    engine = network_of(logger, x, 4, computed=True, after=after)
    normal = oracle(x, -scale, 2 * bias, 4)
    wanted = {
        "silu": lambda: normal / (1 + np.exp(-normal)),
        "relu": lambda: np.maximum(normal, 0),
        "residual": lambda: normal + x,
    }[after]()
    np.testing.assert_allclose(trt.Model(engine)(x=x, scale=scale, bias=bias)["y"], wanted, atol=3e-5)


def test_stateless(logger):
    """Two runs with others in between give equal bits; batch entries are independent."""
    x = rng.standard_normal((4, 8, 6, 6)).astype(np.float32)
    scale, bias = (rng.standard_normal(8).astype(np.float32) for _ in range(2))
    run = trt.Model(network_of(logger, x, 4))
    first = run(x=x, scale=scale, bias=bias)["y"]
    run(x=x * 1000 - 7, scale=bias, bias=scale)
    assert np.array_equal(run(x=x, scale=scale, bias=bias)["y"], first)
    changed = x.copy()
    changed[1:] = 1e6
    assert np.array_equal(run(x=changed, scale=scale, bias=bias)["y"][0], first[0])


def test_onnx_node_by_command_line(logger, tmp_path):
    node = helper.make_node(
        "GroupNormalizationPlugin",
        ["x", "scale", "bias"],
        ["n"],
        name="norm",
        domain="trt.plugins",
        plugin_version="1",
        plugin_namespace="",
        eps=1e-3,
        num_groups=2,
    )
    relu = helper.make_node("Relu", ["n"], ["y"], name="relu")
    scale, bias = (rng.standard_normal(4).astype(np.float32) for _ in range(2))
    model = save_model(
        tmp_path / "m.onnx", [node, relu], {"x": ["n", 4, "h"]}, {"y": ["n", 4, "h"]}, {"scale": scale, "bias": bias}
    )
    plan = tmp_path / "m.plan"
    shapes = [f"--{end}Shapes=x:{n}x4x{h}" for end, n, h in (("min", 1, 1), ("opt", 2, 5), ("max", 4, 9))]
    said = command(
        "exec", f"--onnx={model}", f"--saveEngine={plan}", *shapes, "--dumpLayerInfo", "--iterations=1"
    ).stdout
    assert "PASSED" in said
    x = rng.standard_normal((3, 4, 7)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    command("run", plan, "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path / "out")
    wanted = np.maximum(oracle(x, scale, bias, 2, eps=1e-3), 0)
    np.testing.assert_allclose(np.load(tmp_path / "out" / "y.npy"), wanted, atol=2e-5)
    engine = trt.Runtime(logger).deserialize_cuda_engine(plan.read_bytes())
    layers = json.loads(engine.create_engine_inspector().get_engine_information(trt.LayerInformationFormat.JSON))[
        "Layers"
    ]
    assert len(layers) == 1, [layer["Name"] for layer in layers]  # the Relu is fused into the norm
