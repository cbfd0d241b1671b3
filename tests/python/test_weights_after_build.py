"""Builds release the weights of an imported model; whoever reads the network next finds them again."""

import carnot as trt
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

WIDTH, COUNT = 32, 120


@pytest.fixture
def model(tmp_path):
    """A chain of 1.5 MB: weights over a page each that begin at any byte, which the import copies to be aligned."""
    rng = np.random.default_rng(5)
    shape = (WIDTH, WIDTH, 3, 3)
    weights = [(rng.standard_normal(shape) / WIDTH).astype(np.float32) for _ in range(COUNT)]
    names = [f"w{i}" + "x" * (i % 5) for i in range(COUNT)]
    nodes = [
        helper.make_node("Conv", [f"v{i}", names[i]], [f"v{i + 1}"], f"conv{i}", pads=[1] * 4) for i in range(COUNT)
    ]
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("v0", TensorProto.FLOAT, [1, WIDTH, 4, 4])],
        [helper.make_tensor_value_info(f"v{COUNT}", TensorProto.FLOAT, [1, WIDTH, 4, 4])],
        [numpy_helper.from_array(w, name) for w, name in zip(weights, names)],
    )
    path = tmp_path / "chain.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return str(path), weights


def parse(path, logger):
    builder = trt.Builder(logger)
    network = builder.create_network()
    assert trt.OnnxParser(network, logger).parse_from_file(path)
    return builder, network


def kernels(network):
    layers = (network.get_layer(i) for i in range(network.num_layers))
    return [layer.kernel for layer in layers if layer.type == trt.LayerType.CONVOLUTION]


def build(builder, network):
    config = builder.create_builder_config()
    config.builder_optimization_level = 0  # no timing: equal builds give equal bytes
    return bytes(builder.build_serialized_network(network, config))


def test_weights_read_after_a_build(model, logger):
    path, weights = model
    builder, network = parse(path, logger)
    first = build(builder, network)
    read = kernels(network)
    assert len(read) == COUNT
    for mine, theirs in zip(weights, read):
        np.testing.assert_array_equal(mine.ravel(), np.asarray(theirs).ravel())
    assert build(builder, network) == first


def test_weights_read_before_a_build_stay(model, logger):
    path, weights = model
    builder, network = parse(path, logger)
    read = kernels(network)
    build(builder, network)
    for mine, theirs in zip(weights, read):
        np.testing.assert_array_equal(mine.ravel(), np.asarray(theirs).ravel())


def test_second_build_without_a_read(model, logger):
    path, _ = model
    builder, network = parse(path, logger)
    assert build(builder, network) == build(builder, network)
