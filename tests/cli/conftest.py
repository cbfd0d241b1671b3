"""Fixtures: a small model and its engine."""

import pathlib

import pytest
from harness import passes, save
from onnx import helper


@pytest.fixture
def model(tmp_path: pathlib.Path) -> pathlib.Path:
    nodes = [helper.make_node("Relu", ["x"], ["a"], "first"), helper.make_node("Softmax", ["a"], ["y/odd:0"], "second")]
    return save(tmp_path / "m.onnx", nodes, {"x": ["n", 8]}, {"y/odd:0": ["n", 8]})


@pytest.fixture
def plan(model: pathlib.Path) -> pathlib.Path:
    path = model.with_suffix(".plan")
    passes("build", model, "--output", path, "--minShapes=x:1x8", "--optShapes=x:4x8", "--maxShapes=x:16x8")
    return path
