"""The small models of `make demo`: the digits network as a frozen graph of TensorFlow and as a network of Caffe."""

import pathlib
import subprocess
import sys

import numpy as np
import onnx
import pytest
from harness import ROOT, carnot
from onnx.reference import ReferenceEvaluator


@pytest.mark.parametrize("kind", ["tensorflow", "caffe"])
def test_results_are_those_of_the_onnx_model(tmp_path: pathlib.Path, kind: str) -> None:
    subprocess.run([sys.executable, ROOT / "demo/write_small_models.py", tmp_path], check=True)
    whole = onnx.load(ROOT / "demo/digits.onnx")
    network = onnx.utils.Extractor(onnx.shape_inference.infer_shapes(whole)).extract_model(["ink"], ["digit"])
    ink = np.random.default_rng(0).random((1, 1, 16, 16), np.float32)
    (expected,) = ReferenceEvaluator(network).run(None, {"ink": ink})
    np.save(tmp_path / "x.npy", ink.transpose(0, 2, 3, 1) if kind == "tensorflow" else ink)
    model = [tmp_path / "digits.pb"]
    if kind == "caffe":
        model = [tmp_path / "digits.prototxt", f"--model={tmp_path / 'digits.caffemodel'}"]
    done = carnot("run", *model, "--input", f"picture={tmp_path / 'x.npy'}", "--output-dir", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "out/digit.npy"), expected, rtol=1e-4, atol=1e-6)
