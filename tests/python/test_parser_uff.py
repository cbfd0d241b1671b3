"""The UFF parser: TensorRT 8.6's flow over frozen graphs of TensorFlow, and the package uff."""

import pathlib
import re
import sys

import numpy as np
import pytest

import carnot as trt
from carnot.alias import uff

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tensorflow"))
from graph_writer import F32, constant, graph, node, placeholder  # noqa: E402

R = np.random.default_rng(0)
W = R.standard_normal((1, 1, 3, 4)).astype("f4")
X = R.standard_normal((2, 3, 6, 5)).astype("f4")  # NCHW
SIZES = {"open": (-1, 6, 5, 3), "unknown": None, "all open": (-1, -1, -1, -1)}


def network(sizes: tuple | None = (-1, 6, 5, 3), data_format: str = "NHWC") -> bytes:
    """A convolution of 1 x 1 and a ReLU; |sizes| of the placeholder image."""
    conv = node("conv", "Conv2D", "image", "w", T=F32, strides=[1, 1, 1, 1], padding="VALID", data_format=data_format)
    return graph(placeholder("image", sizes), constant("w", W), conv, node("out", "Relu", "conv", T=F32))


def expected() -> np.ndarray:
    """The result for X, channels last."""
    return np.maximum(np.einsum("nchw,co->nhwo", X.astype("f8"), W[0, 0]), 0)


class Recorder(trt.IErrorRecorder):
    def __init__(self) -> None:
        super().__init__()
        self.messages: list = []

    def report_error(self, code: trt.ErrorCodeTRT, msg: str) -> bool:
        self.messages.append(msg)
        return False


def build(data: bytes, register: object) -> trt.Model:
    builder = trt.Builder(trt.Logger(trt.Logger.ERROR))
    made, parser = builder.create_network(), trt.UffParser()
    register(parser)
    assert parser.parse_buffer(data, made)
    config = builder.create_builder_config()
    profile = builder.create_optimization_profile()
    profile.set_shape("image", *[(2, *made.get_input(0).shape[1:])] * 3)
    config.add_optimization_profile(profile)
    return trt.load(bytes(builder.build_serialized_network(made, config)))


@pytest.mark.parametrize("sizes", SIZES)
def test_channels_first_data_for_a_graph_of_channels_last(sizes: str) -> None:
    def register(parser: trt.UffParser) -> None:
        assert parser.register_input("image", (3, 6, 5))
        assert parser.register_output("out")

    found = build(network(SIZES[sizes]), register)(image=X)["out"]
    np.testing.assert_allclose(found, expected(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", SIZES)
def test_channels_last_data(sizes: str) -> None:
    model = build(
        network(SIZES[sizes]), lambda parser: parser.register_input("image", (6, 5, 3), trt.UffInputOrder.NHWC)
    )
    np.testing.assert_allclose(model(image=X.transpose(0, 2, 3, 1))["out"], expected(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("sizes", [(-1, 3, 6, 5), (-1, -1, -1, -1)])
def test_a_graph_of_channels_first(sizes: tuple) -> None:
    model = build(network(sizes, "NCHW"), lambda parser: parser.register_input("image", trt.Dims3(3, 6, 5)))
    np.testing.assert_allclose(model(image=X)["out"], expected().transpose(0, 3, 1, 2), rtol=1e-4, atol=1e-5)


def test_vectors() -> None:
    data = graph(placeholder("image", (-1, -1)), node("out", "Relu", "image", T=F32))
    x = X[:, 0, :, 0]
    model = build(data, lambda parser: parser.register_input("image", (6,), trt.UffInputOrder.NC))
    np.testing.assert_array_equal(model(image=x)["out"], np.maximum(x, 0))


def test_files_and_outputs(tmp_path: pathlib.Path) -> None:
    (tmp_path / "frozen.pb").write_bytes(network())
    with (
        trt.Builder(trt.Logger(trt.Logger.ERROR)) as builder,
        builder.create_network() as made,
        trt.UffParser() as parser,
    ):
        assert parser.register_input("image", (3, 6, 5)) and parser.register_output("conv")
        assert parser.parse(str(tmp_path / "frozen.pb"), made, trt.DataType.HALF)
        assert [made.get_output(i).name for i in range(made.num_outputs)] == ["conv"]
        assert tuple(made.get_input(0).shape) == (-1, 3, 6, 5)


@pytest.mark.parametrize(
    ("register", "message"),
    [
        (lambda p: p.register_input("image", (4, 6, 5)), "registered as \\[4,6,5\\], and the placeholder is"),
        (lambda p: p.register_input("image", (6, 5)), "registered with 2 dimensions, and the placeholder has 4"),
        (lambda p: p.register_input("image", (3, 6, 5), trt.UffInputOrder.NHWC), "registered as \\[3,6,5\\]"),
        (lambda p: p.register_input("other", (3, 6, 5)), "input other is registered, but no placeholder"),
        (lambda p: p.register_output("none"), "none"),
    ],
)
def test_errors_are_reported(register: object, message: str) -> None:
    parser, recorder = trt.UffParser(), Recorder()
    parser.error_recorder = recorder
    assert parser.error_recorder is recorder and register(parser)
    assert parser.parse_buffer(network(), trt.Builder(trt.Logger(trt.Logger.INTERNAL_ERROR)).create_network()) is False
    assert re.search(message, recorder.messages[0])


def test_arguments() -> None:
    parser, recorder = trt.UffParser(), Recorder()
    parser.error_recorder = recorder
    assert parser.register_input("image", (3, -1, 5)) is False and "sizes of 1 or more" in recorder.messages[0]
    assert parser.register_output("") is False
    parser.plugin_namespace = "mine"
    assert parser.plugin_namespace == "mine"
    version = parser.uff_required_version_major, parser.uff_required_version_minor, parser.uff_required_version_patch
    assert version == (0, 6, 9)
    made = trt.Builder(trt.Logger(trt.Logger.INTERNAL_ERROR)).create_network()
    with pytest.raises(TypeError, match="UffInputOrder"):
        parser.register_input("image", (3, 6, 5), 0)
    with pytest.raises(TypeError, match="INetworkDefinition"):
        parser.parse_buffer(network(), None)
    with pytest.raises(ValueError, match="FLOAT or"):
        parser.parse_buffer(network(), made, trt.DataType.INT32)
    assert parser.parse("/none/frozen.pb", made) is False


def test_the_package_uff(tmp_path: pathlib.Path) -> None:
    data = network()
    (tmp_path / "frozen.pb").write_bytes(data)
    assert uff.from_tensorflow(data, ["out"]) == data
    written = uff.from_tensorflow_frozen_model(
        tmp_path / "frozen.pb", ["out"], output_filename=str(tmp_path / "made.pb")
    )
    assert written == data == (tmp_path / "made.pb").read_bytes()
    with pytest.raises(NotImplementedError, match="preprocessor"):
        uff.from_tensorflow(data, preprocessor="p.py")
    with pytest.raises(ValueError, match="no GraphDef"):
        uff.from_tensorflow(b"something")
    with pytest.raises(TypeError, match="GraphDef"):
        uff.from_tensorflow(3)
