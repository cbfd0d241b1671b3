"""INT8 by calibration: dynamic ranges, calibrators, caches, beside integer arithmetic in NumPy."""

import struct

import carnot as trt
import numpy as np
import pytest
from conftest import Net

rng = np.random.default_rng(23)
W = (rng.standard_normal((24, 16)) / 5).astype(np.float32)
BIAS = rng.standard_normal(16).astype(np.float32)
X = rng.standard_normal((32, 24)).astype(np.float32)
CALIBRATORS = {
    "IInt8EntropyCalibrator": "EntropyCalibration",
    "IInt8EntropyCalibrator2": "EntropyCalibration2",
    "IInt8MinMaxCalibrator": "MinMaxCalibration",
    "IInt8LegacyCalibrator": "LegacyCalibration",
}


def network(logger, x=X[:8]):
    """y = x W + BIAS, by the network API."""
    net = Net(logger)
    none = trt.MatrixOperation.NONE
    product = net.network.add_matrix_multiply(net.input(x), none, net.constant(W), none)
    product.name = "product"
    total = net.network.add_elementwise(
        product.get_output(0), net.constant(BIAS[None]), trt.ElementWiseOperation.SUM
    ).get_output(0)
    total.name = "y"
    net.network.mark_output(total)
    net.config.set_flag(trt.BuilderFlag.INT8)
    net.config.builder_optimization_level = 0
    return net


def quantized(x, scale):
    """The network with x in int8 of |scale| and weights in int8 by column, in float64."""
    q = np.clip(np.rint(x / np.float32(scale)), -128, 127).astype(np.int64)
    w_scale = (np.abs(W).max(0) / np.float32(127)).astype(np.float32)
    qw = np.clip(np.rint(W / w_scale), -128, 127).astype(np.int64)
    return (q @ qw) * (float(scale) * w_scale.astype(np.float64)) + BIAS


def run(memory, x=X[:8]):
    return trt.load(bytes(memory))(in0=x)["y"]


def agrees(got, scale, x=X[:8]):
    want = quantized(x, scale)
    # A bias in int32 steps and float32 arithmetic; a wrong step of x would be scale * |w|.
    np.testing.assert_allclose(got, want, atol=2e-4 * np.abs(want).max())
    exact = x.astype(np.float64) @ W + BIAS
    assert np.abs(got - exact).max() > 1e-3 * np.abs(exact).max()  # it was quantized


def calibrator_of(name, batches, **more):
    class Calibrator(getattr(trt, name)):
        def __init__(self):
            super().__init__()
            self.left, self.cache, self.names, self.calls = list(batches), None, None, 0

        def get_batch_size(self):
            return len(batches[0]) if batches else 1

        def get_batch(self, names):
            self.names, self.calls = names, self.calls + 1
            if not self.left:
                return None
            self.held = np.ascontiguousarray(self.left.pop(0))
            return [self.held.ctypes.data]

        def read_calibration_cache(self):
            return self.cache

        def write_calibration_cache(self, cache):
            self.cache = bytes(cache)

    for key, value in more.items():
        setattr(Calibrator, key, value)
    return Calibrator()


def scale_in(cache, name):
    line = next(line for line in cache.decode().splitlines() if line.startswith(f"{name}: "))
    return struct.unpack(">f", bytes.fromhex(line.rsplit(" ", 1)[1]))[0]


BATCHES = [X[:8], X[8:16], X[16:24]]


def test_dynamic_ranges(logger):
    net = network(logger)
    assert net.network.get_input(0).set_dynamic_range(-3.0, 2.5)
    agrees(run(net.builder.build_serialized_network(net.network, net.config)), np.float32(3 / 127))


def test_a_layer_without_a_range_is_named(logger):
    net = network(logger)
    next(layer for layer in net.network if layer.name == "product").get_output(0).set_dynamic_range(-1, 1)
    memory = net.builder.build_serialized_network(net.network, net.config)
    np.testing.assert_allclose(run(memory), X[:8].astype(np.float64) @ W + BIAS, atol=1e-5)
    assert any("without a range" in text and "product" in text for _, text in logger.lines)


@pytest.mark.parametrize("name", CALIBRATORS)
def test_calibrators(logger, name):
    net = network(logger)
    net.config.int8_calibrator = calibrator = calibrator_of(name, BATCHES)
    first = bytes(net.builder.build_serialized_network(net.network, net.config))
    assert calibrator.names == ["in0"] and calibrator.calls == 4
    assert calibrator.cache.startswith(f"TRT-8601-{CALIBRATORS[name]}\n".encode())
    scale = scale_in(calibrator.cache, "in0")
    largest = np.abs(X[:24]).max()
    assert 0.5 * largest / 127 < scale <= np.float32(largest / 127)
    if name == "IInt8MinMaxCalibrator":
        assert scale == np.float32(float(largest) / 127)
    agrees(run(first), scale)
    again = network(logger)
    again.config.int8_calibrator = reader = calibrator_of(name, [])
    reader.cache = calibrator.cache
    assert bytes(again.builder.build_serialized_network(again.network, again.config)) == first
    assert reader.calls == 0


def test_batching_order_and_threads_do_not_matter(logger, monkeypatch):
    caches = set()
    for threads in ("1", "2"):
        monkeypatch.setenv("CARNOT_THREADS", threads)
        for batches in (BATCHES, BATCHES[::-1]):
            net = network(logger)
            net.config.int8_calibrator = calibrator = calibrator_of("IInt8EntropyCalibrator2", batches)
            assert net.builder.build_serialized_network(net.network, net.config)
            caches.add(calibrator.cache)
    assert len(caches) == 1


def test_a_cache_of_tensorrt_is_honoured_to_the_bit(logger):
    net = network(logger)
    net.config.int8_calibrator = calibrator = calibrator_of("IInt8EntropyCalibrator2", [])
    calibrator.cache = b"TRT-8203-EntropyCalibration2\nin0: 3c010a14\nother:0: 3c010a14\n"
    memory = net.builder.build_serialized_network(net.network, net.config)
    agrees(run(memory), struct.unpack(">f", bytes.fromhex("3c010a14"))[0])
    assert any("without a tensor in the network: other:0" in text for _, text in logger.lines)


def test_dynamic_ranges_override_the_calibrator(logger):
    net = network(logger)
    net.config.int8_calibrator = calibrator_of("IInt8MinMaxCalibrator", BATCHES)
    net.network.get_input(0).dynamic_range = (-2.0, 2.0)
    agrees(run(net.builder.build_serialized_network(net.network, net.config)), np.float32(2 / 127))


def test_open_dimensions_take_the_calibration_profile(logger):
    net = Net(logger)
    x = net.network.add_input("in0", trt.float32, (-1, 24))
    none = trt.MatrixOperation.NONE
    y = net.network.add_matrix_multiply(x, none, net.constant(W), none).get_output(0)
    y.name = "y"
    net.network.mark_output(y)
    net.config.set_flag(trt.BuilderFlag.INT8)
    profile = net.builder.create_optimization_profile()
    profile.set_shape("in0", (1, 24), (8, 24), (16, 24))
    net.config.add_optimization_profile(profile)
    net.config.set_calibration_profile(profile)
    net.config.int8_calibrator = calibrator = calibrator_of("IInt8MinMaxCalibrator", BATCHES)
    assert net.builder.build_serialized_network(net.network, net.config)
    assert scale_in(calibrator.cache, "in0") == np.float32(float(np.abs(X[:24]).max()) / 127)


def test_samples_of_the_convenience_build(tmp_path):
    import onnx
    from onnx import helper, numpy_helper

    graph = helper.make_graph(
        [helper.make_node("Gemm", ["in0", "w", "b"], ["y"])],
        "g",
        [helper.make_tensor_value_info("in0", 1, ["n", 24])],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(W, "w"), numpy_helper.from_array(BIAS, "b")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    memory = trt.build(tmp_path / "m.onnx", int8=[{"in0": part} for part in BATCHES], backend="cpu")
    exact = X.astype(np.float64) @ W + BIAS
    got = run(memory, X)
    error = np.abs(got - exact).max() / np.abs(exact).max()
    assert 1e-4 < error < 0.03, error
    with pytest.raises(ValueError, match="a calibration sample has wrong; the inputs are in0"):
        trt.build(tmp_path / "m.onnx", int8=[{"wrong": X}], backend="cpu")


def nothing(self, names):
    return None


def two(self, names):
    return [1, 2]


def wrong(self, names):
    raise KeyError("lost")


@pytest.mark.parametrize(
    ("get_batch", "said"),
    [(nothing, "neither a cache nor a batch"), (two, "returned 2 addresses for 1 inputs: in0")],
)
def test_calibrators_that_give_no_data(logger, get_batch, said):
    net = network(logger)
    net.config.int8_calibrator = calibrator_of("IInt8MinMaxCalibrator", BATCHES, get_batch=get_batch)
    assert net.builder.build_serialized_network(net.network, net.config) is None
    assert said in logger.errors()[-1]


def test_an_exception_of_the_calibrator_reaches_the_caller(logger):
    net = network(logger)
    net.config.int8_calibrator = calibrator_of("IInt8MinMaxCalibrator", BATCHES, get_batch=wrong)
    with pytest.raises(KeyError, match="lost"):
        net.builder.build_serialized_network(net.network, net.config)


def test_nan_names_the_tensor_and_the_sample(logger):
    bad = X[:8].copy()
    bad[3, 4] = np.nan
    net = network(logger)
    net.config.int8_calibrator = calibrator_of("IInt8MinMaxCalibrator", [X[8:16], bad])
    assert net.builder.build_serialized_network(net.network, net.config) is None
    assert "sample 1, tensor in0: element 76 is NaN" in logger.errors()[-1]


def test_a_cache_that_is_none(logger):
    net = network(logger)
    net.config.int8_calibrator = calibrator = calibrator_of("IInt8MinMaxCalibrator", [])
    calibrator.cache = b"hello"
    assert net.builder.build_serialized_network(net.network, net.config) is None
    assert "no calibration cache" in logger.errors()[-1]
