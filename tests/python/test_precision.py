"""Precision: flags, requests of layers, strongly typed networks."""

import json

import carnot as trt
import numpy as np
import pytest
from conftest import Net
from models import TRT_LOGGER, infer, onnx_bytes
from onnx import helper

rng = np.random.default_rng(9)
W = (rng.standard_normal((64, 64)) / 8).astype(np.float32)


def two_products(logger, flags=0):
    net = Net(logger)
    net.network = net.builder.create_network(flags)
    x = net.input(rng.standard_normal((8, 64)).astype(np.float32))
    for name in ("first", "second"):
        none = trt.MatrixOperation.NONE
        layer = net.network.add_matrix_multiply(x, none, net.constant(W), none)
        layer.name = name
        x = layer.get_output(0)
    x.name = "y"
    net.network.mark_output(x)
    return net


def layers(engine):
    inspector = engine.create_engine_inspector()
    found = {}
    for i in range(engine.num_layers):
        layer = json.loads(inspector.get_layer_information(i, trt.LayerInformationFormat.JSON))
        found[layer["Name"]] = layer["Precision"]
    return found


def named(net, name):
    return next(layer for layer in net.network if layer.name == name)


def run(net, engine):
    return trt.Model(engine)(in0=net.arrays["in0"])["y"]


def wanted(net):
    return net.arrays["in0"].astype(np.float64) @ W @ W


@pytest.mark.parametrize("flag, dtype, told", [("FP16", trt.float16, "float16"), ("BF16", trt.bfloat16, "bfloat16")])
def test_requests_are_obeyed(logger, flag, dtype, told):
    net = two_products(logger)
    net.config.set_flag(trt.BuilderFlag[flag])
    net.config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
    named(net, "first").precision = dtype
    named(net, "second").precision = trt.float32
    assert named(net, "first").precision_is_set and named(net, "first").precision == dtype
    engine = net.engine()
    assert {"first": told, "second": "float32"}.items() <= layers(engine).items()
    error = np.abs(run(net, engine) - wanted(net)).max()
    assert 1e-5 < error < (0.02 if flag == "FP16" else 0.2), "half rounding shows, and no more than that"
    # Requests withdrawn: all in float32.
    named(net, "first").precision = trt.float32
    assert layers(net.engine()) == {"first": "float32", "second": "float32"}
    assert np.abs(run(net, net.engine()) - wanted(net)).max() < 1e-5


def test_output_types(logger):
    net = two_products(logger)
    net.config.set_flag(trt.BuilderFlag.FP16)
    net.config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
    layer = named(net, "first")
    layer.precision = named(net, "second").precision = trt.float32
    layer.set_output_type(0, trt.float16)
    assert layer.output_type_is_set(0) and layer.get_output_type(0) == trt.float16
    rounded = (net.arrays["in0"].astype(np.float64) @ W).astype(np.float16).astype(np.float64) @ W
    got = run(net, net.engine())
    assert np.abs(got - rounded).max() < np.abs(got - wanted(net)).max()
    np.testing.assert_allclose(got, rounded, atol=1e-4)
    layer.reset_output_type(0)
    assert not layer.output_type_is_set(0)
    assert np.abs(run(net, net.engine()) - wanted(net)).max() < 1e-5


def test_requests_without_constraints_are_not_read(logger):
    net = two_products(logger)
    named(net, "first").precision = trt.float16
    assert layers(net.engine())["first"] == "float32"


def test_prefer_says_what_it_left_out(logger):
    net = two_products(logger)
    net.config.set_flag(trt.BuilderFlag.PREFER_PRECISION_CONSTRAINTS)
    named(net, "first").precision = trt.float16
    assert layers(net.engine())["first"] == "float32"
    assert any("first" in msg for severity, msg in logger.lines if severity == trt.Logger.WARNING)


def test_strongly_typed(logger):
    strong = 1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    net = two_products(logger, strong)
    assert net.network.get_flag(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED) and net.network.flags == strong
    assert layers(net.engine()) == {"first": "float32", "second": "float32"}
    net.config.set_flag(trt.BuilderFlag.FP16)
    assert net.builder.build_serialized_network(net.network, net.config) is None
    assert "strong" in logger.errors()[-1].lower(), logger.errors()


@pytest.mark.parametrize("dtype", [trt.float16, trt.float32])
def test_types_of_inputs_and_outputs(logger, dtype):
    net = two_products(logger)
    net.network.get_input(0).dtype = dtype
    net.network.get_output(0).dtype = dtype
    engine = net.engine()
    assert engine.get_tensor_dtype("in0") == engine.get_tensor_dtype("y") == dtype
    x = net.arrays["in0"].astype(trt.nptype(dtype))
    got = trt.Model(engine)(in0=x)["y"]
    assert got.dtype == trt.nptype(dtype)
    np.testing.assert_allclose(got, x.astype(np.float64) @ W @ W, atol=1e-5 if dtype == trt.float32 else 5e-3)


@pytest.mark.parametrize("flag", ["INT8", "FP8", "INT4", "FP4"])
def test_what_is_not_available_says_so(logger, flag):
    net = two_products(logger)
    net.config.set_flag(trt.BuilderFlag[flag])
    assert net.builder.build_serialized_network(net.network, net.config) is None
    assert net.builder.build_engine(net.network, net.config) is None
    assert "nothing in the network is quantized" in logger.errors()[-1] and "calibration" in logger.errors()[-1]
    net.config.clear_flag(trt.BuilderFlag[flag])
    assert net.builder.build_serialized_network(net.network, net.config) is not None


def test_precision_requests(net):
    x = net.network.add_input("x", trt.float32, (2, 3))
    layer = net.network.add_unary(x, trt.UnaryOperation.EXP)
    assert not layer.precision_is_set and layer.precision == trt.float32
    layer.precision = trt.float16
    layer.set_output_type(0, trt.float32)
    assert layer.precision_is_set and layer.output_type_is_set(0) and layer.get_output_type(0) == trt.float32
    layer.reset_precision()
    layer.reset_output_type(0)
    assert not layer.precision_is_set and not layer.output_type_is_set(0)
    with pytest.raises(IndexError):
        layer.set_output_type(1, trt.float16)
    with pytest.raises(TypeError):
        layer.precision = 1


def test_strong_typing_and_flags():
    """Strong typing, and unsupported flags."""

    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    assert network.get_flag(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED)
    x = network.add_input("x", trt.float16, (2, 3))
    y = network.add_unary(x, trt.UnaryOperation.EXP).get_output(0)
    y.name = "y"
    network.mark_output(y)
    assert y.dtype == trt.float16
    config = builder.create_builder_config()
    engine = builder.build_engine(network, config)
    a = np.linspace(-1, 1, 6, dtype=np.float16).reshape(2, 3)
    got = infer(engine.create_execution_context(), {"x": a})["y"]
    assert got.dtype == np.float16 and np.abs(got.astype(np.float64) - np.exp(a.astype(np.float64))).max() < 2e-3
    config.set_flag(trt.BuilderFlag.INT8)
    assert builder.build_serialized_network(network, config) is None
    assert any("INT8" in m for m in TRT_LOGGER.errors())


@pytest.mark.parametrize("flag, bound", [("FP16", 2e-3), ("BF16", 2e-2)])
def test_precision_constraints(flag, bound):
    """Story C: layer normalization stays in float32 in an engine of half precision."""

    w1, w2 = ((rng.standard_normal((64, 64)) / 8).astype(np.float32) for _ in range(2))
    scale, bias = np.ones(64, np.float32), np.zeros(64, np.float32)
    model = onnx_bytes(
        [
            helper.make_node("MatMul", ["x", "w1"], ["a"], name="first"),
            helper.make_node("LayerNormalization", ["a", "scale", "bias"], ["n"], name="norm"),
            helper.make_node("MatMul", ["n", "w2"], ["y"], name="second"),
        ],
        [("x", 1, [32, 64])],
        [("y", 1, [32, 64])],
        [("w1", w1), ("w2", w2), ("scale", scale), ("bias", bias)],
    )
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(0)
    assert trt.OnnxParser(network, TRT_LOGGER).parse(model)
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
    config.set_flag(trt.BuilderFlag[flag])
    for i in range(network.num_layers):
        layer = network.get_layer(i)
        if layer.type == trt.LayerType.NORMALIZATION:
            layer.precision = trt.DataType.FLOAT
            layer.set_output_type(0, trt.DataType.FLOAT)
    engine = builder.build_engine(network, config)
    assert engine is not None, TRT_LOGGER.errors()
    x = (rng.standard_normal((32, 64)) * 3000).astype(np.float32)  # sums of squares overflow float16
    wide = x.astype(np.float64) @ w1
    wanted = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) @ w2
    got = infer(engine.create_execution_context(), {"x": x})["y"].astype(np.float64)
    assert np.linalg.norm(got - wanted) <= bound * np.linalg.norm(wanted)


def quantized(net):
    x = net.input(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))
    scale = net.network.add_constant((), np.array(0.01, np.float32)).get_output(0)
    q = net.network.add_quantize(x, scale).get_output(0)
    return net.network.add_dequantize(q, scale).get_output(0)


@pytest.mark.parametrize("flag", ["INT8", "FP8", "INT4", "FP4"])
def test_flags_of_quantized_types_are_permissions(net, flag):
    """A network with Q/DQ layers builds with the flags; what they allow is in the network."""
    out = quantized(net)
    net.config.set_flag(trt.BuilderFlag[flag])
    wanted = np.round(np.linspace(-1, 1, 12) / 0.01).reshape(3, 4) * 0.01
    np.testing.assert_allclose(net.run(out)[0], wanted, atol=0.0101)
