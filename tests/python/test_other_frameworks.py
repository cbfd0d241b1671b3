"""carnot.load on models of TensorFlow and Caffe, written here byte by byte."""

import pathlib

import numpy as np
import pytest

import carnot

X = np.linspace(-2, 2, 24, dtype="f4").reshape(2, 3, 4)


def field(number: int, data: bytes) -> bytes:
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def node(name: str, op: str, *inputs: str, attributes: bytes = b"") -> bytes:
    body = field(1, name.encode()) + field(2, op.encode()) + b"".join(field(3, i.encode()) for i in inputs)
    return field(1, body + attributes)


def attribute(name: str, value: bytes) -> bytes:
    return field(5, field(1, name.encode()) + field(2, value))


def graph_def() -> bytes:
    shape = b"".join(field(2, bytes([8, d])) for d in X.shape)
    x = attribute("dtype", b"\x30\x01") + attribute("shape", field(7, shape))
    return node("x", "Placeholder", attributes=x) + node("y", "Relu", "x") + node("z", "Neg", "y")


@pytest.fixture
def graph(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "frozen.pb"
    path.write_bytes(graph_def())
    return path


def test_a_graph_of_tensorflow(graph: pathlib.Path) -> None:
    np.testing.assert_array_equal(carnot.load(graph, level=0)(x=X)["z"], -np.maximum(X, 0))
    found = carnot.load(str(graph), level=0, outputs=["y", "z"])(x=X)
    np.testing.assert_array_equal(found["y"], np.maximum(X, 0))


def test_a_network_of_caffe(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(
        'input: "x" input_shape { dim: 2 dim: 3 dim: 4 }\n'
        'layer { name: "y" type: "Power" bottom: "x" top: "y" power_param { scale: 2 shift: 1 } }'
    )
    np.testing.assert_allclose(carnot.load(path, level=0)(x=X)["y"], 2 * X + 1)
    with pytest.raises(carnot.CarnotError, match="none.caffemodel"):
        carnot.load(path, weights=tmp_path / "none.caffemodel")


def test_wrong_use(graph: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="weights are those of a Caffe network"):
        carnot.load(graph, weights="a.caffemodel")
    with pytest.raises(carnot.CarnotError, match="nothing"):
        carnot.load(graph, outputs=["nothing"])
    graph.write_bytes(graph_def().replace(b"Relu", b"Rexu"))
    with pytest.raises(carnot.CarnotError, match="operator Rexu"):
        carnot.load(graph)
    with pytest.raises(carnot.CarnotError):
        carnot.load(tmp_path)
