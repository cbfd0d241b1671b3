"""Which libraries are taken, what is said of the others, and engines whose library is not there."""

import json
import pathlib

import numpy as np
import pytest
from harness import build, carnot, inspect, model, needs_library, stand_in, start
from onnx import helper

SEQUENTIAL, OPENMP, TBB, SYCL = 1, 2, 4, 512


@pytest.fixture
def net(tmp_path: pathlib.Path) -> pathlib.Path:
    rng = np.random.default_rng(3)
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1])
    weights = {"w": rng.standard_normal((24, 17, 3, 3)), "b": rng.standard_normal(24)}
    return model(tmp_path / "net.onnx", [1, 17, 13, 11], [node], weights)


def said_of(net: pathlib.Path, library: object) -> str:
    """Why the tactic was not taken."""
    plan = net.with_suffix(".plan")
    carnot("build", net, "--output", plan, library=library)
    why = " ".join(layer["Rejected"] for layer in inspect(plan)["Layers"])
    return why.split("cpu_conv_onednn_f32_avx2: ")[1].split("; cpu_")[0]


@pytest.mark.parametrize(
    "version, runtime, code, said",
    [
        ((2, 6, 3), OPENMP, "", "oneDNN is 2.6.3, 3.2 or a newer 3 is needed"),
        ((3, 1, 0), SEQUENTIAL, "", "oneDNN is 3.1.0, 3.2 or a newer 3 is needed"),
        ((4, 0, 0), SEQUENTIAL, "", "oneDNN is 4.0.0, 3.2 or a newer 3 is needed"),
        ((3, 13, 0), SYCL, "", "the runtime of this oneDNN 3.13.0 is SYCL, sequential or OpenMP is needed"),
        ((3, 5, 0), TBB, "", "the runtime of this oneDNN 3.5.0 is TBB, sequential or OpenMP is needed"),
        ((3, 5, 0), SEQUENTIAL, "", "oneDNN lacks the function dnnl_engine_create"),
        ((3, 5, 0), OPENMP, "int omp_get_max_threads(void) { return 1; }", "lacks the function omp_set_num_threads"),
    ],
)
def test_library_that_cannot_be_used(net, tmp_path, version, runtime, code, said):
    assert said in said_of(net, stand_in(tmp_path, version, runtime, code))


def test_device_tells_the_library(tmp_path):
    assert "oneDNN       oneDNN is 2.6.3, 3.2 or" in carnot("device", "--no-measure", library=stand_in(tmp_path, (2, 6, 3), 1))
    missing = json.loads(carnot("device", "--no-measure", "--json", library=tmp_path / "none.so"))["libraries"]
    assert missing[0]["name"] == "oneDNN" and "was not found" in missing[0]["missing"] and not missing[0]["version"]


def test_library_that_is_no_onednn(net, tmp_path):
    library = tmp_path / "none.so"
    assert "oneDNN was not found" in said_of(net, library)
    library.write_text("no library")
    assert "oneDNN was not found" in said_of(net, library)


@needs_library
@pytest.mark.parametrize("whole_ns, stays", [(999, True), (1000, False), (2000, False)])
def test_the_whole_engine_must_be_faster_with_it(net, whole_ns, stays):
    """Its layers are always the fastest alone."""
    plan = build(net, whole_ns=whole_ns)
    assert any("onednn" in layer["TacticName"] for layer in inspect(plan)["Layers"]) == stays


@needs_library
def test_engine_names_the_library(net):
    plan = build(net)
    assert inspect(plan)["Libraries"] == ["oneDNN"]
    assert [layer["TacticName"] for layer in inspect(plan)["Layers"]].count("cpu_conv_onednn_f32_avx2") == 1
    plan = build(net, "--tacticSources=-ONEDNN")
    assert inspect(plan)["Libraries"] == []


@needs_library
def test_engine_without_its_library(net, tmp_path):
    plan = build(net)
    arguments = ["exec", f"--loadEngine={plan}", "--duration=0", "--iterations=1", "--warmUp=0"]
    carnot(*arguments)
    said = carnot(*arguments, library=tmp_path / "none.so", ok=False)
    assert "the engine calls oneDNN 3." in said and "--tacticSources=-ONEDNN" in said
    said = carnot(*arguments, library=stand_in(tmp_path, (3, 99, 1), SEQUENTIAL), ok=False)
    assert "oneDNN lacks the function" in said


@needs_library
def test_engine_of_another_version(net):
    plan = build(net)
    data = plan.read_bytes()
    version = np.array([3, 2, 0], np.int32).tobytes()
    assert data.count(version) == 1, "the package of the tests is oneDNN 3.2.0"
    plan.write_bytes(data.replace(version, np.array([3, 2, 9], np.int32).tobytes()))
    said = carnot("exec", f"--loadEngine={plan}", "--iterations=1", ok=False)
    assert "the engine calls oneDNN 3.2.9, this machine has 3.2.0: build the engine again" in said
    layout = data.index(version) + 16
    plan.write_bytes(data[:layout] + bytes(8) + data[layout + 8 :])
    assert "build it again here" in carnot("exec", f"--loadEngine={plan}", "--iterations=1", ok=False)


def test_named_library_that_is_missing_is_said(net, tmp_path):
    done = start("build", net, "--output", tmp_path / "p", library=tmp_path / "none.so")
    assert done.returncode == 0 and "CARNOT_ONEDNN names a library that is not used: oneDNN was not" in done.stderr
