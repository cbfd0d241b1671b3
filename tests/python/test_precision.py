"""Precision flags and requests of Python reach the build; those that are not available are refused."""

import json

import numpy as np
import pytest

import carnot as trt

from conftest import Net

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
    # Withdrawn, and with all in float32.
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
    assert f"BuilderFlag.{flag} is not available" in logger.errors()[-1]
    net.config.clear_flag(trt.BuilderFlag[flag])
    assert net.builder.build_serialized_network(net.network, net.config) is not None


def test_calibrator_is_refused(logger):
    class Calibrator(trt.IInt8EntropyCalibrator2):
        def get_batch_size(self):
            return 1

        def get_batch(self, names):
            return None

        def read_calibration_cache(self):
            return None

        def write_calibration_cache(self, cache):
            pass

    net = two_products(logger)
    net.config.int8_calibrator = Calibrator()
    assert net.config.int8_calibrator.get_algorithm() == trt.CalibrationAlgoType.ENTROPY_CALIBRATION_2
    net.config.set_flag(trt.BuilderFlag.INT8)
    assert net.builder.build_serialized_network(net.network, net.config) is None
    assert "INT8" in logger.errors()[-1] and not net.builder.platform_has_fast_int8
