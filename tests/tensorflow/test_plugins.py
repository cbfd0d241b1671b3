"""Nodes of TensorFlow graphs that a registered plugin computes."""

import pathlib

import numpy as np
import pytest
from graph_writer import F32, Function, Shape, constant, function, node, placeholder, write
from harness import LIBRARY, carnot, run

X = np.linspace(-6, 6, 24, dtype=np.float32).reshape(2, 3, 2, 2)
SCALE, BIAS = np.float32([0.5, 1, 2]), np.float32([1, -1, 0.25])


def swish(x: np.ndarray, shift: float = 0.5) -> np.ndarray:
    x = x.astype(np.float64)
    return x * (x / 6 + shift).clip(0, 1)


def instance_norm(x: np.ndarray, epsilon: float) -> np.ndarray:
    x = x.astype(np.float64)
    mean, var = x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)
    return (x - mean) / np.sqrt(var + epsilon) * SCALE[:, None, None] + BIAS[:, None, None]


def graph_of(folder: pathlib.Path, op: str, *inputs: bytes, **attrs: object) -> pathlib.Path:
    names = [f"input_{i}" for i in range(len(inputs))]
    layer = node("layer", op, "x", *names, **attrs)
    return write(folder, placeholder("x", (-1, 3, 2, 2)), *map(constant, names, inputs), layer)


@pytest.mark.parametrize(
    ("attrs", "shift"),
    [({}, 0.5), ({"shift": 0.25, "T": F32, "_output_shapes": [Shape(None)]}, 0.25), ({"shift": 1, "plugin_version": "1"}, 1)],
)
def test_library(tmp_path: pathlib.Path, attrs: dict, shift: float) -> None:
    graph = graph_of(tmp_path, "ExampleHardSwish", **attrs)
    found = run(graph, {"x": X}, tmp_path / "run", f"--plugins={LIBRARY}")["layer"]
    np.testing.assert_allclose(found, swish(X, shift), rtol=1e-5, atol=1e-6)


def test_inputs(tmp_path: pathlib.Path) -> None:
    graph = graph_of(tmp_path, "InstanceNormalization_TRT", SCALE, BIAS, epsilon=0.5, plugin_namespace="")
    found = run(graph, {"x": X}, tmp_path / "run")["layer"]
    np.testing.assert_allclose(found, instance_norm(X, 0.5), rtol=1e-5, atol=1e-5)


def test_in_a_function(tmp_path: pathlib.Path) -> None:
    body = [node("inner", "ExampleHardSwish", "a", shift=0.25)]
    called = function("called", {"a": np.float32}, {"b": np.float32}, body, {"b": "inner:y:0"})
    call = node("layer", "PartitionedCall", "x", f=Function("called"), Tin=[F32], Tout=[F32])
    graph = write(tmp_path, placeholder("x", (-1, 3, 2, 2)), call, functions=[called])
    found = run(graph, {"x": X}, tmp_path / "run", f"--plugins={LIBRARY}")["layer"]
    np.testing.assert_allclose(found, swish(X, 0.25), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({}, "no such operator is known, and no plugin of that name is registered"),
        ({"plugin_version": "7"}, "no plugin of that name"),
        ({"shift": "text"}, "shift"),
        ({"shift": [Shape((2,)), Shape((3,))]}, "attribute shift holds neither a text nor numbers"),
    ],
)
def test_refused(tmp_path: pathlib.Path, attrs: dict, message: str) -> None:
    flags = [f"--plugins={LIBRARY}"] if attrs else []
    done = carnot("build", graph_of(tmp_path, "ExampleHardSwish", **attrs), "--output", tmp_path / "m.plan", *flags)
    assert done.returncode == 1 and "layer" in done.stderr and message in done.stderr, done.stderr


