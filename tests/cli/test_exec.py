"""carnot exec: reports, exports, profiles, timing cache, flags, refit."""

import json
import pathlib
import re
import subprocess

import numpy as np
import onnx
import pytest
from harness import CARNOT, carnot, fails, passes
from onnx import TensorProto, helper

LABELS = ["Latency", "Enqueue Time", "H2D Latency", "GPU Compute Time", "D2H Latency"]


def test_streams_share_the_threads(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    times = tmp_path / "times.json"
    text = passes(
        "exec",
        f"--onnx={model}",
        "--shapes=x:4x8",
        "--infStreams=3",
        "--threads=3",
        "--iterations=20",
        "--duration=0",
        f"--exportTimes={times}",
    )
    assert "1 threads for each stream" in text
    starts = [row["startComputeMs"] for row in json.loads(times.read_text())]
    assert len(starts) == 60 and starts == sorted(starts)
    assert "must be an integer in [1, 256]" in fails("exec", f"--onnx={model}", "--infStreams=0")


def test_report(model: pathlib.Path) -> None:
    out = passes("exec", f"--onnx={model}", "--shapes=x:3x8", "--duration=0.05", "--warmUp=5", "--percentile=90,99")
    number = r"[-+.e\d]+"
    for label in LABELS:
        found = re.search(
            rf"\[I\] {label}: min = ({number}) ms, max = ({number}) ms, mean = ({number}) ms, median = ({number}) ms, "
            rf"percentile\(90%\) = ({number}) ms, percentile\(99%\) = ({number}) ms$",
            out,
            re.M,
        )
        assert found, label
        low, high, mean, median, p90, p99 = map(float, found.groups())
        assert low <= median <= p90 <= p99 <= high and low <= mean <= high
    assert float(re.search(rf"Throughput: ({number}) qps", out)[1]) > 0
    assert re.search(rf"Total Host Walltime: {number} s", out) and re.search(
        rf"Total GPU Compute Time: {number} s", out
    )
    flags = "--shapes=x:3x8 --duration=0.05 --warmUp=5 --percentile=90,99"
    assert out.splitlines()[-1] == f"&&&& PASSED TensorRT.trtexec [TensorRT v100300] # exec --onnx={model} {flags}"


def test_called_trtexec(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    link = tmp_path / "trtexec"
    link.symlink_to(CARNOT)
    done = subprocess.run([link, f"--onnx={model}", "--skipInference"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and f"&&&& PASSED TensorRT.trtexec [TensorRT v100300] # {link} --onnx={model}" in done.stdout


def test_exports(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    x = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)
    x.tofile(tmp_path / "x.bin")
    names = {k: tmp_path / f"{k}.json" for k in ("Times", "Profile", "Output", "LayerInfo")}
    engine = tmp_path / "e.plan"
    passes(
        "exec",
        f"--onnx={model}",
        "--shapes=x:2x8",
        f"--loadInputs='x':{tmp_path / 'x.bin'}",
        "--iterations=12",
        "--duration=0",
        f"--saveEngine={engine}",
        "--profilingVerbosity=detailed",
        *(f"--export{k}={v}" for k, v in names.items()),
    )
    times, profile, output, layers = (json.loads(p.read_text()) for p in names.values())
    assert len(times) == 12 and list(times[0])[0] == "startEnqMs" and list(times[0])[-1] == "latencyMs"
    assert all(t["endComputeMs"] >= t["startComputeMs"] for t in times)
    assert profile[0] == {"count": 12} and list(profile[1]) == ["name", "timeMs", "averageMs", "medianMs", "percentage"]
    assert sum(p["percentage"] for p in profile[1:]) == pytest.approx(100)
    assert [o["name"] for o in output] == ["y/odd:0"] and output[0]["dimensions"] == "2x8"
    e = np.exp(np.maximum(x.astype(np.float64), 0))
    np.testing.assert_allclose(np.reshape(output[0]["values"], (2, 8)), e / e.sum(1, keepdims=True), rtol=1e-5)
    assert layers["Layers"][0]["TacticName"] and layers["Bindings"] == ["x", "y/odd:0"]
    assert "PASSED" in passes(
        "exec",
        f"--loadEngine={engine}",
        "--duration=0.01",
        "--warmUp=0",
        "--shapes=x:2x8",
        "--dumpProfile",
        "--dumpOutput",
        "--dumpLayerInfo",
    )


def test_missing_shape_is_one(model: pathlib.Path) -> None:
    done = carnot("exec", f"--onnx={model}", "--skipInference")
    assert done.returncode == 0 and "[W] Dynamic dimensions required for input: x" in done.stderr
    assert "Automatically overriding shape to: 1x8" in done.stderr


def test_profiles(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    engine = tmp_path / "p.plan"
    out = passes(
        "exec",
        f"--onnx={model}",
        f"--saveEngine={engine}",
        "--profile=0",
        "--minShapes=x:1x8",
        "--optShapes=x:2x8",
        "--maxShapes=x:4x8",
        "--profile=1",
        "--minShapes=x:8x8",
        "--optShapes=x:8x8",
        "--maxShapes=x:32x8",
        "--skipInference",
        "--dumpOptimizationProfile",
    )
    assert (
        "Profile 0, input x: MIN 1x8, OPT 2x8, MAX 4x8" in out
        and "Profile 1, input x: MIN 8x8, OPT 8x8, MAX 32x8" in out
    )
    passes("exec", f"--loadEngine={engine}", "--useProfile=1", "--shapes=x:32x8", "--duration=0.01", "--warmUp=0")
    assert (
        "FAILED"
        in carnot("exec", f"--loadEngine={engine}", "--useProfile=0", "--shapes=x:32x8", "--duration=0.01").stdout
    )


def test_timing_cache(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    cache = tmp_path / "t.cache"
    passes("exec", f"--onnx={model}", "--shapes=x:4x8", f"--timingCacheFile={cache}", "--skipInference")
    assert cache.read_text().startswith("carnot-timing-cache 3")
    cache.write_bytes(b"carnot-timing-cache 3\nnot a line\xff\n")
    assert str(cache) in fails(
        "exec", f"--onnx={model}", "--shapes=x:4x8", f"--timingCacheFile={cache}", "--skipInference"
    )
    cache.write_bytes(b"\x00" * 100)
    assert str(cache) in fails(
        "build", model, "--output", tmp_path / "a.plan", "--shapes=x:4x8", "--timingCacheFile", cache
    )


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--onx=a", "the nearest is --onnx"),
        ("--int8", "nothing in the network is quantized"),
        ("--backend=tpu", "must be cpu, cuda, cuda:N or cuda:sm_NN"),
        ("--shapes=x", "'x' is no shape"),
        ("--shapes=x:1xx8", "'1xx8' is no list of dimensions"),
        ("--shapes=z:1x8", "the model has no input z; it has x"),
        ("--shapes=x:1", "input x has 2 dimensions, the shape given has 1"),
        ("--shapes=x:1x9", "dimension 1 is 8 in the model, 9 was given"),
        ("--iterations=many", "--iterations is 'many', must be an integer"),
        ("--percentile=101", "must be numbers in [0, 100]"),
        ("--verbose=1", "takes no value"),
        ("--duration", "--duration needs a value"),
        ("--memPoolSize=workspace:x", "POOL:NUMBER"),
        ("--memPoolSize=heap:1M", "there is no pool 'heap'"),
        ("--profilingVerbosity=loud", "must be one of layer_names_only, detailed"),
        ("--inputIOFormats=fp16:hwc", "format hwc is for 3 to 7 dimensions, not for 2"),
        ("word", "'word' is no flag"),
    ],
)
def test_exec_errors(model: pathlib.Path, flag: str, said: str) -> None:
    done = carnot("exec", f"--onnx={model}", "--skipInference", flag)
    assert done.returncode == 1 and said in done.stderr, done.stderr
    assert done.stdout.splitlines()[-1].startswith("&&&& FAILED TensorRT.trtexec [TensorRT v100300] # exec")


@pytest.mark.parametrize(
    "flag",
    [
        "--useSpinWait",
        "--workspace=64",
        "--explicitBatch",
        "--hardwareCompatibilityLevel=none",
        "--device=3",
        "--memPoolSize=workspace:1.5G,dlaSRAM:1M",
    ],
)
def test_without_effect(model: pathlib.Path, flag: str) -> None:
    done = carnot("exec", f"--onnx={model}", "--shapes=x:1x8", "--skipInference", flag)
    assert done.returncode == 0 and done.stderr.count("[W]") == 1, done.stderr


@pytest.mark.parametrize("flag", ["--useCudaGraph", "--noCudaGraph", "--noDataTransfers"])
def test_what_only_a_gpu_does(model: pathlib.Path, flag: str) -> None:
    done = carnot("exec", f"--onnx={model}", "--shapes=x:1x8", "--iterations=1", "--duration=0", "--warmUp=0", flag)
    assert done.returncode == 0 and f"{flag} has no effect" in done.stderr, done.stderr


def test_every_flag_does_what_help_says() -> None:
    working, without, refused = (
        re.findall(r"^  --(\w+)(=…)?", part, re.M)
        for part in re.split(r"\n(?:Taken|Refused)", passes("exec", "--help"))
    )
    assert len(working) > 50 and len(without) > 45 and len(refused) >= 30
    for flags, said in ((without, "has no effect"), (refused, "is not there yet")):
        for name, value in flags:
            done = carnot("exec", "--onnx=/none", f"--{name}=1" if value else f"--{name}")
            assert done.returncode == 1 and re.search(rf"--{name}\b.*{said}", done.stderr), name
            assert ("cannot open /none" in done.stderr) == (flags is without), name


@pytest.mark.parametrize("strip", [False, True])
def test_refit_and_strip(strip: bool, tmp_path: pathlib.Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w"], ["y"], "fc")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        [onnx.numpy_helper.from_array(np.ones((4, 3), np.float32), "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "g.onnx")
    assert "Refittable: w" in passes(
        "exec", f"--onnx={tmp_path / 'g.onnx'}", "--refit", "--dumpRefit", "--skipInference"
    )
    if not strip:
        return
    done = carnot("exec", f"--onnx={tmp_path / 'g.onnx'}", "--stripAllWeights", f"--saveEngine={tmp_path / 's.plan'}")
    assert done.returncode == 0 and "no weights until it is refitted" in done.stderr


def test_bench_contract(plan: pathlib.Path) -> None:
    facts = json.loads(passes("bench", plan, "--json", "--times", "--duration=0.05", "--threads=1", "--shapes=x:4x8"))
    for key in ("median_ms", "min_ms", "p90_ms", "build_ms", "load_ms", "peak_rss_mb", "gflop", "tactics", "times_ms"):
        assert key in facts
    assert facts["threads"] == 1
