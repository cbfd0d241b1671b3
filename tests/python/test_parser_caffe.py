"""The Caffe parser: TensorRT 8.6's flow on a small network."""

import pathlib
import struct

import numpy as np
import pytest

import carnot as trt

PROTOTXT = """
name: "net"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 4 dim: 4 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 5 kernel_size: 1 } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "prob" type: "Softmax" bottom: "conv" top: "prob" }
"""
R = np.random.default_rng(0)
W, B = R.standard_normal((5, 3, 1, 1)).astype("f4"), R.standard_normal(5).astype("f4")
X = R.standard_normal((2, 3, 4, 4)).astype("f4")


def field(number: int, data: bytes) -> bytes:
    out, n = bytearray(), len(data)
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    head = number << 3 | 2
    tag = bytes([head]) if head < 128 else bytes([head & 127 | 128, head >> 7])
    return tag + bytes(out) + bytes([n]) + data


def blob(a: np.ndarray) -> bytes:
    return field(7, field(1, bytes(a.shape))) + field(5, a.astype("<f4").tobytes())


MODEL = field(100, field(1, b"conv") + field(7, blob(W)) + field(7, blob(B)))


def probabilities() -> np.ndarray:
    y = np.maximum(np.einsum("nchw,oc->nohw", X.astype("f8"), W[:, :, 0, 0]) + B.reshape(-1, 1, 1), 0)
    return np.exp(y) / np.exp(y).sum(1, keepdims=True)


@pytest.mark.parametrize("from_memory", [False, True])
def test_the_flow_of_tensorrt_8(tmp_path: pathlib.Path, from_memory: bool) -> None:
    logger = trt.Logger(trt.Logger.WARNING)
    with trt.Builder(logger) as builder, builder.create_network() as network, trt.CaffeParser() as parser:
        if from_memory:
            tensors = parser.parse_buffer(PROTOTXT.encode(), MODEL, network, trt.float32)
        else:
            (tmp_path / "deploy.prototxt").write_text(PROTOTXT)
            (tmp_path / "net.caffemodel").write_bytes(MODEL)
            paths = str(tmp_path / "deploy.prototxt"), str(tmp_path / "net.caffemodel")
            tensors = parser.parse(*paths, network, trt.float32)
        assert isinstance(tensors, trt.IBlobNameToTensor)
        assert network.num_outputs == 0 and network.num_inputs == 1
        assert tensors.find("none") is None
        assert tensors.find("data").name == "data" and tuple(tensors.find("conv").shape) == (2, 5, 4, 4)
        network.mark_output(tensors.find("prob"))
        config = builder.create_builder_config()
        plan = builder.build_serialized_network(network, config)
    model = carnot_load(plan)
    np.testing.assert_allclose(model(data=X)["prob"], probabilities(), rtol=1e-4)


def carnot_load(plan: trt.IHostMemory):
    return trt.load(bytes(plan))


def test_errors_are_reported(tmp_path: pathlib.Path) -> None:
    recorder = Recorder()
    builder = trt.Builder(trt.Logger(trt.Logger.INTERNAL_ERROR))
    parser = trt.CaffeParser()
    parser.error_recorder = recorder
    assert (
        parser.parse_buffer(PROTOTXT.replace("Softmax", "Foo").encode(), MODEL, builder.create_network(), trt.float32)
        is None
    )
    assert 'layer "prob" of type Foo' in recorder.messages[0]
    with pytest.raises(TypeError, match="INetworkDefinition"):
        parser.parse("a", "b", None, trt.float32)
    with pytest.raises(TypeError, match="INetworkDefinition"):
        parser.parse_buffer(b"a", b"b", None, trt.float32)
    with pytest.raises(ValueError, match="FLOAT or"):
        parser.parse("a", "b", builder.create_network(), trt.int32)
    assert parser.parse(str(tmp_path / "none"), str(tmp_path / "none"), builder.create_network(), trt.float32) is None


class Recorder(trt.IErrorRecorder):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list = []

    def report_error(self, code: trt.ErrorCodeTRT, msg: str) -> bool:
        self.messages.append(msg)
        return False


def test_the_mean_image(tmp_path: pathlib.Path) -> None:
    mean = R.standard_normal((1, 3, 4, 5)).astype("f4")
    legacy = b"".join(struct.pack("BB", i + 1 << 3, d) for i, d in enumerate(mean.shape)) + field(5, mean.tobytes())
    (tmp_path / "mean.binaryproto").write_bytes(legacy)
    parser = trt.CaffeParser()
    np.testing.assert_array_equal(parser.parse_binary_proto(str(tmp_path / "mean.binaryproto")), mean)
    (tmp_path / "mean.binaryproto").write_bytes(legacy[:-3])
    assert parser.parse_binary_proto(str(tmp_path / "mean.binaryproto")) is None


def test_properties() -> None:
    parser = trt.CaffeParser()
    assert (parser.plugin_namespace, parser.plugin_factory_v2) == ("", None)
    parser.plugin_namespace, parser.protobuf_buffer_size = "mine", 1 << 20
    assert parser.plugin_namespace == "mine" and parser.protobuf_buffer_size == 1 << 20
    factory = trt.ICaffePluginFactoryV2()
    network = trt.Builder(trt.Logger(trt.Logger.ERROR)).create_network()
    parser.plugin_factory_v2 = factory
    assert parser.plugin_factory_v2 is factory
    with pytest.raises(NotImplementedError, match="is_plugin_v2"):
        factory.is_plugin_v2("conv")
    with pytest.raises(NotImplementedError, match="create_plugin"):
        factory.create_plugin("conv", [])
    with pytest.raises(NotImplementedError, match="is_plugin_v2"):
        parser.parse_buffer(PROTOTXT.encode(), MODEL, network, trt.float32)
    with pytest.raises(TypeError, match="ICaffePluginFactoryV2, not int"):
        parser.plugin_factory_v2 = 3
    parser.plugin_factory_v2 = None
    assert parser.plugin_factory_v2 is None
