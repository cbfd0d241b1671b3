"""carnot exec with the flags of trtexec 8.6 for frozen graphs: --uff, --uffInput, --uffNHWC, --output, --batch."""

import pathlib

import numpy as np
import pytest
from graph_writer import F32, constant, node, placeholder, write
from harness import carnot, run

RUN = ["--iterations=1", "--duration=0", "--warmUp=0", "--builderOptimizationLevel=0"]


@pytest.fixture
def frozen(tmp_path: pathlib.Path) -> pathlib.Path:
    conv = node("conv", "Conv2D", "image", "w", T=F32, strides=[1, 1, 1, 1], padding="SAME")
    weights = constant("w", [[[[0.5] * 4] * 3]])
    return write(tmp_path, placeholder("image", (-1, -1, -1, 3)), weights, conv, node("prob", "Relu", "conv", T=F32))


@pytest.mark.parametrize(
    ("flags", "shape", "axis"),
    [
        (["--uffInput=image,3,8,6"], (1, 3, 8, 6), 1),
        (["--uffInput=image,8,6,3", "--uffNHWC"], (1, 8, 6, 3), 3),
        (["--uffInput=image,3,8,6", "--batch=4"], (4, 3, 8, 6), 1),
    ],
)
def test_exec(frozen: pathlib.Path, tmp_path: pathlib.Path, flags: list, shape: tuple, axis: int) -> None:
    plan = frozen.with_suffix(".plan")
    done = carnot("exec", f"--uff={frozen}", "--output=prob", f"--saveEngine={plan}", *flags, *RUN)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Format: UFF" in done.stdout and f"Model: {frozen}" in done.stdout and "&&&& PASSED" in done.stdout
    x = np.random.default_rng(0).standard_normal(shape).astype("f4")
    sums = np.maximum(x.sum(axis, dtype="f8") / 2, 0)
    found = run(plan, {"image": x}, tmp_path / "run")["prob"]
    np.testing.assert_allclose(found, np.repeat(sums[..., None], 4, -1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--uffInput=image"], "--uffInput=image: NAME,C,H,W"),
        (["--uffInput=image,3,x,4"], "NAME,C,H,W"),
        (["--uffInput=image,3,0,4"], "NAME,C,H,W"),
        (["--uffInput=image,4,8,6"], "registered as [4,8,6]"),
        (["--uffInput=other,3,8,6"], "input other is registered"),
        (["--uffInput=image,3,8,6", "--uffNHWC"], "registered as [3,8,6]"),
        (["--onnx=model.onnx"], "--onnx and --uff were both given"),
        (["--deploy=net.prototxt"], "--deploy and --uff were both given"),
        (["--output=none"], "none"),
    ],
)
def test_errors(frozen: pathlib.Path, flags: list, message: str) -> None:
    done = carnot("exec", f"--uff={frozen}", *flags, *RUN)
    assert done.returncode == 1 and message in done.stdout + done.stderr, done.stdout + done.stderr


def test_inputs_need_a_graph() -> None:
    done = carnot("exec", "--onnx=model.onnx", "--uffInput=image,3,8,6")
    assert done.returncode == 1 and "of the model that --uff gives" in done.stdout + done.stderr


FILES = {
    "model.uff": (
        b"\x08\x01\x10\x01\x1a\x18\x0a\x14tensorflow_extension\x10\x01\x22\x00",
        "a UFF model (.uff): give the frozen TensorFlow graph",
    ),
    "model.tflite": (b"\x1c\0\0\0TFL3" + bytes(40), "a TensorFlow Lite model"),
    "model.h5": (b"\x89HDF\r\n\x1a\n" + bytes(40), "an HDF5 file, as Keras writes it (.h5): write a SavedModel"),
    "model.keras": (b"PK\x03\x04metadata.json config.json" + bytes(40), "a Keras model (.keras): write a SavedModel"),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("suffix", ["", ".pb"])
def test_files_of_other_kinds_are_named(tmp_path: pathlib.Path, name: str, suffix: str) -> None:
    path = tmp_path / (name + suffix)
    data, message = FILES[name]
    path.write_bytes(data)
    for command in (["exec", f"--uff={path}"], ["build", path, "--output", tmp_path / "a.plan"]):
        done = carnot(*command)
        assert done.returncode == 1 and message in done.stdout + done.stderr, done.stdout + done.stderr
