"""Plugins in place of layers of Caffe networks: the factory of the Caffe parser."""

import gc

import numpy as np
import pytest
from plugin_examples import CircPad, CircPadCreator, Scale, ScaleCreator
from test_parser_caffe import MODEL, PROTOTXT, B, Recorder, W, X, field, probabilities

import carnot as trt

PADDED = """
name: "net"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 5 kernel_size: 1 } }
layer { name: "relu" type: "MyLayer" bottom: "conv" top: "pad" my_param { pads: 1 } }
layer { name: "prob" type: "Softmax" bottom: "pad" top: "prob" }
"""


class Factory(trt.ICaffePluginFactoryV2):
    """Makes |plugin| for layer |name|."""

    def __init__(self, name: str, plugin: object) -> None:
        super().__init__()
        self.name, self.plugin = name, plugin
        self.asked: list = []
        self.weights: list | None = None

    def is_plugin_v2(self, layer_name: str) -> bool:
        self.asked.append(layer_name)
        return layer_name == self.name

    def create_plugin(self, layer_name: str, weights: list) -> object:
        assert layer_name == self.name
        self.weights = weights
        return self.plugin() if callable(self.plugin) else self.plugin


def pad(*pads: int) -> CircPad:
    made = CircPad()
    made.pads = list(pads)
    return made


def parse(factory: Factory, text: str, model: bytes = MODEL, name_space: str = "") -> tuple:
    """The network, its blobs, and what the error recorder got."""
    builder, parser, recorder = trt.Builder(trt.Logger(trt.Logger.INTERNAL_ERROR)), trt.CaffeParser(), Recorder()
    parser.plugin_factory_v2, parser.plugin_namespace, parser.error_recorder = factory, name_space, recorder
    network = builder.create_network()
    return builder, network, parser.parse_buffer(text.encode(), model, network, trt.float32), recorder.messages


def result(builder: trt.Builder, network: trt.INetworkDefinition, tensor: trt.ITensor) -> np.ndarray:
    network.mark_output(tensor)
    gc.collect()
    model = trt.load(bytes(builder.build_serialized_network(network, builder.create_builder_config())))
    return model(data=X)[tensor.name]


def softmax(y: np.ndarray) -> np.ndarray:
    return np.exp(y) / np.exp(y).sum(1, keepdims=True)


def conv() -> np.ndarray:
    return np.einsum("nchw,oc->nohw", X.astype("f8"), W[:, :, 0, 0]) + B.reshape(-1, 1, 1)


def test_a_layer_of_an_unknown_type(registry) -> None:
    registry.register_creator(CircPadCreator(), "")
    factory = Factory("relu", lambda: pad(1, 2))
    builder, network, blobs, _ = parse(factory, PADDED)
    assert factory.asked == ["data", "conv", "relu", "prob"] and factory.weights == []
    layer = next(one for one in network if one.name == "relu")
    assert isinstance(layer.plugin, CircPad) and tuple(blobs.find("pad").shape) == (2, 5, 4, 7)
    wanted = softmax(np.pad(conv(), [(0, 0)] * 3 + [(1, 2)], mode="wrap"))
    np.testing.assert_allclose(result(builder, network, blobs.find("prob")), wanted, rtol=1e-4)


def test_a_layer_that_caffe_knows_and_its_weights(registry) -> None:
    # The plugin stands in for the ReLU, in place; the layer has a blob of its own in the caffemodel.
    registry.register_creator(ScaleCreator(), "mine")
    weights = field(7, field(7, field(1, b"\x02")) + field(5, np.array([3, -4], "<f4").tobytes()))
    factory = Factory("relu", lambda: Scale(3, -4))
    builder, network, blobs, _ = parse(factory, PROTOTXT, MODEL + field(100, field(1, b"relu") + weights))
    assert [w.numpy().tolist() for w in factory.weights] == [[3, -4]] and factory.weights[0].dtype == trt.float32
    np.testing.assert_allclose(result(builder, network, blobs.find("prob")), softmax(conv() * 3 - 4), rtol=1e-4)


def test_a_plugin_of_a_library() -> None:
    creator = trt.get_plugin_registry().get_plugin_creator("LReLU_TRT", "1", "")
    slope = trt.PluginField("negSlope", np.array([0.5], np.float32), trt.PluginFieldType.FLOAT32)
    factory = Factory("relu", creator.create_plugin("", trt.PluginFieldCollection([slope])))
    builder, network, blobs, _ = parse(factory, PROTOTXT)
    wanted = softmax(np.where(conv() > 0, conv(), 0.5 * conv()))
    np.testing.assert_allclose(result(builder, network, blobs.find("prob")), wanted, rtol=1e-4)


def test_layers_that_the_factory_leaves(registry) -> None:
    builder, network, blobs, _ = parse(Factory("none", None), PROTOTXT)
    np.testing.assert_allclose(result(builder, network, blobs.find("prob")), probabilities(), rtol=1e-4)


def test_the_namespace_of_the_parser(registry) -> None:
    made = CircPadCreator()
    made.plugin_namespace = "ours"
    registry.register_creator(made, "ours")
    plugin = pad(1, 2)
    builder, network, blobs, _ = parse(Factory("relu", plugin), PADDED, name_space="ours")
    assert plugin.plugin_namespace == "ours"
    assert result(builder, network, blobs.find("pad")).shape == (2, 5, 4, 7)


def two_outputs() -> CircPad:
    made = pad(1, 2)
    made.num_outputs = 2
    return made


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (lambda: None, 'layer "relu" (MyLayer): the factory made no plugin'),
        (two_outputs, "1 tops; the layer's plugin CircPadPlugin has 2 outputs"),
        (lambda: Scale(2), "plugin Scale version 2 in namespace mine is needed and not registered"),
    ],
)
def test_refused(registry, plugin: object, message: str) -> None:
    registry.register_creator(CircPadCreator(), "")
    _, _, blobs, messages = parse(Factory("relu", plugin), PADDED)
    assert blobs is None and message in messages[0]


def test_an_exception_of_the_factory(registry) -> None:
    def fail() -> None:
        raise KeyError("weights")

    with pytest.raises(KeyError, match="weights"):
        parse(Factory("relu", fail), PADDED)
