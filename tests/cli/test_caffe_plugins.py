"""Layers of Caffe networks that a registered plugin computes: their type is its name."""

import pathlib

import numpy as np
import pytest
from caffe_net import caffemodel, inputs_text, layer, run
from harness import LIBRARY, carnot

X = np.linspace(-6, 6, 24, dtype=np.float32).reshape(2, 3, 2, 2)
SCALE, BIAS = np.float32([0.5, 1, 2]), np.float32([1, -1, 0.25])
INPUT = inputs_text({"x": X.shape})


def swish(x: np.ndarray, shift: float = 0.5) -> np.ndarray:
    x = x.astype(np.float64)
    return x * (x / 6 + shift).clip(0, 1)


def instance_norm(x: np.ndarray, epsilon: float) -> np.ndarray:
    x = x.astype(np.float64)
    mean, var = x.mean((2, 3), keepdims=True), x.var((2, 3), keepdims=True)
    return (x - mean) / np.sqrt(var + epsilon) * SCALE[:, None, None] + BIAS[:, None, None]


@pytest.mark.parametrize(
    ("more", "shift"),
    [
        ("", 0.5),
        ("hard_swish_param { shift: 0.25 }", 0.25),
        ('my_param < shift: 2.5e-1 mode: MAX name: "a}" > loss_param { normalize: true } param { lr_mult: 1 }', 0.25),
        ("a_param { shift: 1 } b_param { other: 1 }", 1),
        ('my_param { plugin_version: "1" shift: 1 }', 1),
    ],
)
def test_library(tmp_path: pathlib.Path, more: str, shift: float) -> None:
    text = INPUT + layer("ExampleHardSwish", "x", more=more)
    found = run(tmp_path, text, caffemodel({"layer": []}), {"x": X}, f"--plugins={LIBRARY}")["y"]
    np.testing.assert_allclose(found, swish(X, shift), rtol=1e-5, atol=1e-6)


def test_blobs(tmp_path: pathlib.Path) -> None:
    text = INPUT + layer("InstanceNormalization_TRT", "x", more="instance_norm_param { epsilon: 0.5 }")
    found = run(tmp_path, text, caffemodel({"layer": [SCALE, BIAS]}), {"x": X})["y"]
    np.testing.assert_allclose(found, instance_norm(X, 0.5), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("ExampleHardSwishes", "x"), "no plugin of that name is registered; the nearest are: ExampleHardSwish"),
        (("ExampleHardSwish", "x", "y z"), "2 tops; the layer's plugin ExampleHardSwish has 1 outputs"),
        (("ExampleHardSwish", "x", "y", 'my_param { plugin_version: "7" }'), "no plugin ExampleHardSwish version 7 is registered"),
        (("ExampleHardSwish", "x", "y", "my_param { shift: MAX }"), '"MAX" is no number'),
        (("ExampleHardSwish", "x", "y", "my_param { shift: 1 shift: 2 }"), "shift"),
    ],
)
def test_refused(tmp_path: pathlib.Path, words: tuple, message: str) -> None:
    net = tmp_path / "net.prototxt"
    net.write_text(INPUT + layer(*words))
    done = carnot("build", net, "--output", tmp_path / "m.plan", f"--plugins={LIBRARY}")
    assert done.returncode == 1 and 'layer "layer"' in done.stderr and message in done.stderr, done.stderr
