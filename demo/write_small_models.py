#!/usr/bin/env python3
"""Writes the digits network as a frozen graph of TensorFlow and as a network of Caffe, without either framework.

Usage: write_small_models.py FOLDER. The weights are those of demo/digits.onnx; the input is a picture of 16 x 16 pixels,
light on dark, from 0 to 1.
"""

import pathlib
import sys

import numpy as np
import onnx

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/tensorflow"), str(ROOT / "tests/cli")]
from caffe_net import caffemodel, inputs_text, layer  # noqa: E402
from graph_writer import F32, Type, constant, graph, node, placeholder  # noqa: E402

WINDOW = "convolution_param { num_output: %d kernel_size: 3 stride: 2 pad: 1 }"


def frozen_graph(w: dict) -> bytes:
    """Channels last, as TensorFlow has them; the weights are [H,W,C,M], and one row of the matrix for each channel of a pixel."""
    nodes = [placeholder("picture", (1, 16, 16, 1)), constant("pads", [[0, 0], [1, 1], [1, 1], [0, 0]], np.int32)]
    last = "picture"
    for i in ("1", "2"):
        nodes += [
            constant("w" + i, w["conv" + i].transpose(2, 3, 1, 0)),
            constant("b" + i, w["bias" + i]),
            node("pad" + i, "Pad", last, "pads", T=F32, Tpaddings=Type(np.int32)),
            node("conv" + i, "Conv2D", "pad" + i, "w" + i, T=F32, strides=[1, 2, 2, 1], padding="VALID"),
            node("biased" + i, "BiasAdd", "conv" + i, "b" + i, T=F32),
            node("relu" + i, "Relu", "biased" + i, T=F32),
        ]
        last = "relu" + i
    matrix = w["linear"].reshape(32, 16, 10).transpose(1, 0, 2).reshape(512, 10)
    nodes += [
        constant("shape", [1, 512], np.int32),
        constant("w3", matrix),
        constant("b3", w["bias3"]),
        node("flat", "Reshape", last, "shape", T=F32, Tshape=Type(np.int32)),
        node("product", "MatMul", "flat", "w3", T=F32),
        node("logits", "BiasAdd", "product", "b3", T=F32),
        node("digit", "Softmax", "logits", T=F32),
    ]
    return graph(*nodes)


def prototxt() -> str:
    text = 'name: "digits"\n' + inputs_text({"picture": (1, 1, 16, 16)})
    text += layer("Convolution", "picture", "c1", WINDOW % 16, "conv1") + layer("ReLU", "c1", "c1", "", "relu1")
    text += layer("Convolution", "c1", "c2", WINDOW % 32, "conv2") + layer("ReLU", "c2", "c2", "", "relu2")
    text += layer("InnerProduct", "c2", "logits", "inner_product_param { num_output: 10 }", "linear")
    return text + layer("Softmax", "logits", "digit", "", "digit")


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    model = onnx.load(ROOT / "demo/digits.onnx")
    w = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    (folder / "digits.pb").write_bytes(frozen_graph(w))
    (folder / "digits.prototxt").write_text(prototxt())
    blobs = {"conv1": [w["conv1"], w["bias1"]], "conv2": [w["conv2"], w["bias2"]], "linear": [w["linear"].T, w["bias3"]]}
    (folder / "digits.caffemodel").write_bytes(caffemodel(blobs))


if __name__ == "__main__":
    main()
