"""Command lines written for trtexec: none fails that TensorRT accepts, and no flag is dropped in silence."""

import pathlib
import re
import shlex
import subprocess

import numpy as np
import onnx
import pytest
from caffe_net import inputs_text, layer
from harness import CARNOT, passes
from onnx import TensorProto, helper, numpy_helper

LINES = [
    line
    for line in (pathlib.Path(__file__).parent / "trtexec_lines.txt").read_text().splitlines()
    if line and not line.startswith("#")
]
# Appended, so that no line takes the three seconds that are the default.
SHORT = ("--duration=0", "--iterations=2")


def write(path, nodes, inputs, outputs, weights):
    graph = helper.make_graph(
        nodes, "g", inputs, outputs, [numpy_helper.from_array(array, name) for name, array in weights.items()]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def tensor(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def make_models(folder):
    rng = np.random.default_rng(0)
    kernel = rng.standard_normal((4, 3, 3, 3)).astype(np.float32)
    conv = [
        helper.make_node("Conv", ["input", "k"], ["c"], "conv", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["output"], "relu"),
    ]
    for name, shape in (("static", [1, 3, 32, 32]), ("image", ["n", 3, "h", "w"])):
        outputs = [tensor("output", [shape[0], 4, *shape[2:]])]
        write(folder / f"{name}.onnx", conv, [tensor("input", shape)], outputs, {"k": kernel})
    scales = {"s": np.array(0.05, np.float32), "z": np.array(0, np.int8)}
    quantize = [
        helper.make_node("QuantizeLinear", ["input", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Conv", ["d", "k"], ["output"], "conv", pads=[1] * 4),
    ]
    outputs = [tensor("output", [1, 4, 32, 32])]
    write(folder / "qdq.onnx", quantize, [tensor("input", [1, 3, 32, 32])], outputs, {"k": kernel, **scales})
    words = ("input_ids", "attention_mask", "token_type_ids")
    tables = {"words": rng.standard_normal((30, 8)), "kinds": rng.standard_normal((2, 8))}
    bert = [
        helper.make_node("Gather", ["words", words[0]], ["w"]),
        helper.make_node("Gather", ["kinds", words[2]], ["t"]),
        helper.make_node("Add", ["w", "t"], ["e"]),
        helper.make_node("Cast", [words[1]], ["m"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["m", "last"], ["mm"]),
        helper.make_node("Mul", ["e", "mm"], ["output"]),
    ]
    weights = {**{name: table.astype(np.float32) for name, table in tables.items()}, "last": np.array([-1])}
    inputs = [tensor(name, ["n", "s"], TensorProto.INT64) for name in words]
    write(folder / "bert.onnx", bert, inputs, [tensor("output", ["n", "s", 8])], weights)
    rng.standard_normal((1, 3, 32, 32)).astype(np.float32).tofile(folder / "input.bin")


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trtexec")
    make_models(folder)
    (folder / "trtexec").symlink_to(CARNOT)
    caffe = inputs_text({"data": (4, 3, 8, 8)}) + layer("Softmax", "data", "prob")
    (folder / "GoogleNet_N2.prototxt").write_text(caffe)
    (folder / "m.uff").write_bytes(b"\x08\x01\x10\x01\x1a\x18\x0a\x14tensorflow_extension\x10\x01\x22\x00")
    for name in ("static", "image"):
        words = [f"--onnx={folder / name}.onnx", f"--saveEngine={folder / name}.plan", "--skipInference", "--refit"]
        bounds = ["--minShapes=input:1x3x8x8", "--optShapes=input:2x3x24x24", "--maxShapes=input:8x3x64x64"]
        passes("exec", *words, *(bounds if name == "image" else []), f"--timingCacheFile={folder / 'static.cache'}")
    return folder


def no_effect_flags():
    """Flags that the help lists as without effect."""
    section = passes("exec", "--help").partition("\nTaken without effect")[2].partition("\nRefused")[0]
    return set(re.findall(r"^  --(\w+)", section, re.M))


@pytest.mark.parametrize("line", LINES, ids=lambda line: " ".join(line.split()[1:4])[:60])
def test_line(models, line):
    is_refused = line.startswith("!")
    line, _, said = line.lstrip("!").partition(" # ")
    words = shlex.split(line)[1:]
    more = [] if not words or "--help" in words else SHORT
    done = subprocess.run(
        ["./trtexec", *words, *more], capture_output=True, text=True, cwd=models, timeout=120, check=False
    )
    if is_refused:
        assert done.returncode == 1 and said in done.stderr, done.stderr
        return
    assert done.returncode == 0, done.stderr
    given = {word.lstrip("-").partition("=")[0] for word in words if word.startswith("--")}
    for name in given & no_effect_flags():
        assert f"--{name} has no effect" in done.stderr, name


def test_there_are_enough_lines():
    assert sum(not line.startswith("!") for line in LINES) >= 80
