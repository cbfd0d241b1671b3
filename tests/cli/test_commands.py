"""carnot run, compare, device, inspect, help and completion."""

import json
import os
import pathlib
import re
import subprocess

import numpy as np
import pytest
from harness import CARNOT, carnot, fails, passes, save
from onnx import helper

needs_cuda_module = pytest.mark.skipif(
    not (pathlib.Path(CARNOT).parent.parent / "lib/libcarnot_cuda.so").exists(), reason="built without the CUDA module"
)


def test_top_and_labels(plan: pathlib.Path, tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(8, dtype=np.float32)[None])
    (tmp_path / "names.txt").write_text("\n".join("abcdefg"))
    out = passes("run", plan, "--input", tmp_path / "x.npy", "--top=3", "--labels", tmp_path / "names.txt")
    rows = [line.split() for line in out.splitlines()[1:]]
    assert [row[1] for row in rows] == ["7", "6", "5"] and [row[3:] for row in rows] == [[], ["g"], ["f"]]
    assert "cannot read" in fails(
        "run", plan, "--input", tmp_path / "x.npy", "--top=3", "--labels", tmp_path / "none.txt"
    )


def test_compare(model: pathlib.Path, plan: pathlib.Path, tmp_path: pathlib.Path) -> None:
    x = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    give = ["--input", f"x={tmp_path / 'x.npy'}"]
    assert "0 of 32 outside" in passes("compare", model, plan, *give)
    other = save(
        tmp_path / "other.onnx",
        [helper.make_node("Softmax", ["x"], ["y/odd:0"])],
        {"x": ["n", 8]},
        {"y/odd:0": ["n", 8]},
    )
    assert "different: 32 of 32 elements by more than" in fails("compare", model, other, *give)
    passes("compare", model, other, *give, "--atol=1")
    passes("run", plan, *give, "--output-dir", tmp_path / "out")
    facts = json.loads(passes("compare", plan, tmp_path / "out", *give, "--json"))
    assert facts["passed"] and facts["outputs"][0]["max_abs"] == 0 and facts["outputs"][0]["count"] == 32
    assert "nothing.npy" in fails("compare", plan, tmp_path / "out", "--input", "x=nothing.npy", code=2)


@pytest.mark.parametrize("flag", ("--output=", "--output ", "-o=", "-o "))
def test_output(model: pathlib.Path, tmp_path: pathlib.Path, flag: str) -> None:
    passes("build", model, *f"{flag}{tmp_path / 'm.plan'}".split())
    assert (tmp_path / "m.plan").exists()


def test_output_of_exec_is_no_file() -> None:
    assert "unknown flag -o; use --saveEngine" in fails("exec", "--onnx=m.onnx", "-o", "x")


def test_device() -> None:
    facts = json.loads(passes("device", "--json"))
    assert facts["processor"] and facts["measured"]["peaks"][0]["gops_one_thread"] > 0
    assert [i["name"] for i in facts["isas"]][:2] == ["scalar", "avx2"]
    limited = json.loads(carnot("device", "--json", "--no-measure", env={"CARNOT_ISA": "scalar"}).stdout)
    assert [i["usable"] for i in limited["isas"]][:2] == [True, False] and limited["isas"][1]["why_not"]


@needs_cuda_module
def test_device_that_is_absent() -> None:
    facts = json.loads(passes("device", "--json", "--backend=cuda:sm_90"))
    assert facts["arch"] == "sm_90" and facts["multiprocessors"] == 0 and "measured" not in facts
    assert [entry["name"] for entry in facts["libraries"]] == ["CUDA driver", "NVRTC", "cuBLASLt", "cuDNN"]
    assert all(entry["version"] or entry["missing"] for entry in facts["libraries"])
    assert "sm_60" in fails("device", "--backend=cuda:sm_60")


@needs_cuda_module
def test_library_of_another_version(tmp_path: pathlib.Path, model: pathlib.Path) -> None:
    """A library without the required symbols is reported, and the build continues without it."""
    subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", "-o", tmp_path / "libcudnn.so.9"], check=True)
    old = {"LD_LIBRARY_PATH": str(tmp_path)}
    facts = json.loads(carnot("device", "--json", "--backend=cuda:sm_90", env=old).stdout)
    missing = next(entry["missing"] for entry in facts["libraries"] if entry["name"] == "cuDNN")
    assert "convolutions run by built-in kernels" in missing and "lacks cudnnCreate" in missing
    done = carnot("build", model, "--output", tmp_path / "m.plan", "--backend=cuda:sm_90", env=old)
    assert done.returncode == 0 and (tmp_path / "m.plan").stat().st_size, done.stderr


def test_inspect(model: pathlib.Path, plan: pathlib.Path) -> None:
    assert json.loads(passes("inspect", plan, "--json"))["Bindings"] == ["x", "y/odd:0"]
    assert json.loads(passes("inspect", model, "--json"))["Layers"]
    facts = json.loads(passes("inspect", plan, "--json", "--peaks"))
    assert facts["MeasuredUs"] > 0 and all(layer["LimitUs"] >= 0 for layer in facts["Layers"])


def test_help_version_completion(tmp_path: pathlib.Path) -> None:
    assert re.fullmatch(r"carnot \d+\.\d+\.\d+\n", passes("--version"))
    for command in ("exec", "run", "bench", "build", "inspect", "compare", "device", "completion"):
        assert "--" in passes("help", command) or command == "completion"
    assert "the nearest is bench" in carnot("bnech").stderr
    script = tmp_path / "completion"
    script.write_text(passes("completion", "bash"))
    words = subprocess.run(
        [
            "bash",
            "-c",
            f"source {script}; COMP_WORDS=(carnot exec --saveE); COMP_CWORD=2; _carnot; echo ${{COMPREPLY[@]}}",
        ],
        capture_output=True,
        text=True,
        timeout=10,
    ).stdout
    assert words.strip() == "--saveEngine="


def test_a_build_goes_on_without_timing_what_needs_too_much_memory(tmp_path: pathlib.Path) -> None:
    """The optimum of the profile takes more memory than any machine has; the engine runs at the sizes that fit."""
    nodes = [helper.make_node("Relu", ["x"], ["a"], "first"), helper.make_node("Softmax", ["a"], ["y"], "second")]
    model, plan = save(tmp_path / "m.onnx", nodes, {"x": ["n", 1024]}, {"y": ["n", 1024]}), tmp_path / "m.plan"
    most = "x:30000000000x1024"
    done = carnot("build", model, "--output", plan, "--minShapes=x:1x1024", f"--optShapes={most}", f"--maxShapes={most}")
    assert done.returncode == 0, done.stderr
    x = np.random.default_rng(1).standard_normal((3, 1024)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    passes("run", plan, "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", tmp_path)
    e = np.exp(np.maximum(x, 0).astype(np.float64))
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), e / e.sum(-1, keepdims=True), rtol=1e-5)


def test_a_busy_machine_is_reported(tmp_path: pathlib.Path) -> None:
    """Peaks measured beside busy programs are too low: that is said."""
    cores = len(os.sched_getaffinity(0))
    others = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(3 * cores)]
    try:
        done = carnot("device", "--threads=1", "--json")
    finally:
        for other in others:
            other.kill()
            other.wait()
    facts = json.loads(done.stdout)
    assert facts["measured"]["availability"] < 0.95 and "this machine was busy" in done.stderr, done


def test_reasons_are_grouped(model: pathlib.Path) -> None:
    """inspect --why gives each reason once and counts what the build does not allow."""
    shown = [line for line in passes("inspect", model, "--why").splitlines() if "not taken" in line]
    assert shown and max(map(len, shown)) < 200, shown
    assert any("of types or instruction sets that this build does not allow" in line for line in shown)
    assert not any("is not allowed here" in line for line in shown)


def test_far_names_are_not_proposed(tmp_path: pathlib.Path) -> None:
    node = helper.make_node("Mystery", ["x"], ["y"], "m", domain="com.example")
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", 1, [1])],
        [helper.make_tensor_value_info("y", 1, [1])],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.example", 1)]
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())
    said = fails("build", path, "--output", tmp_path / "m.plan")
    assert "no plugin Mystery version 1 is registered" in said and "nearest" not in said
