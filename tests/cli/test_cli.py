"""The command line: exit codes, reports, exports, errors. CARNOT names the binary."""
import json
import os
import pathlib
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
CARNOT = os.environ.get("CARNOT", str(ROOT / "build/bin/carnot"))
MODELS = pathlib.Path(os.environ.get("CARNOT_MODELS", ROOT / ".." / "shared" / "models"))
LABELS = ["Latency", "Enqueue Time", "H2D Latency", "GPU Compute Time", "D2H Latency"]


def carnot(*arguments: object, env: dict | None = None) -> subprocess.CompletedProcess:
    done = subprocess.run([CARNOT, *map(str, arguments)], capture_output=True, text=True, timeout=120, env=dict(os.environ, **(env or {})))
    assert done.returncode in (0, 1, 2), f"ended with {done.returncode}: {done.stderr}"
    return done


def fails(*arguments: object) -> str:
    done = carnot(*arguments)
    assert done.returncode == 1, done.stdout
    return done.stderr


def passes(*arguments: object) -> str:
    done = carnot(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def save(path: pathlib.Path, nodes: list, inputs: dict, outputs: dict) -> pathlib.Path:
    def values(of: dict) -> list:
        return [helper.make_tensor_value_info(k, TensorProto.FLOAT, v) for k, v in of.items()]

    graph = helper.make_graph(nodes, "test", values(inputs), values(outputs))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


@pytest.fixture
def model(tmp_path: pathlib.Path) -> pathlib.Path:
    nodes = [helper.make_node("Relu", ["x"], ["a"], "first"), helper.make_node("Softmax", ["a"], ["y/odd:0"], "second")]
    return save(tmp_path / "m.onnx", nodes, {"x": ["n", 8]}, {"y/odd:0": ["n", 8]})


@pytest.fixture
def plan(model: pathlib.Path) -> pathlib.Path:
    path = model.with_suffix(".plan")
    passes("build", model, "--output", path, "--minShapes=x:1x8", "--optShapes=x:4x8", "--maxShapes=x:16x8")
    return path


# ---- exec ----


def test_streams_share_the_threads(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    times = tmp_path / "times.json"
    text = passes("exec", f"--onnx={model}", "--shapes=x:4x8", "--infStreams=3", "--threads=3", "--iterations=20", "--duration=0", f"--exportTimes={times}")
    assert "1 threads for each stream" in text
    starts = [row["startComputeMs"] for row in json.loads(times.read_text())]
    assert len(starts) == 60 and starts == sorted(starts)
    assert "must be an integer in [1, 256]" in fails("exec", f"--onnx={model}", "--infStreams=0")


def test_report(model: pathlib.Path) -> None:
    out = passes("exec", f"--onnx={model}", "--shapes=x:3x8", "--duration=0.05", "--warmUp=5", "--percentile=90,99")
    number = r"[-+.e\d]+"
    for label in LABELS:
        found = re.search(rf"\[I\] {label}: min = ({number}) ms, max = ({number}) ms, mean = ({number}) ms, median = ({number}) ms, "
                          rf"percentile\(90%\) = ({number}) ms, percentile\(99%\) = ({number}) ms$", out, re.M)
        assert found, label
        low, high, mean, median, p90, p99 = map(float, found.groups())
        assert low <= median <= p90 <= p99 <= high and low <= mean <= high
    assert float(re.search(rf"Throughput: ({number}) qps", out)[1]) > 0
    assert re.search(rf"Total Host Walltime: {number} s", out) and re.search(rf"Total GPU Compute Time: {number} s", out)
    assert out.splitlines()[-1] == f"&&&& PASSED TensorRT.trtexec # exec --onnx={model} --shapes=x:3x8 --duration=0.05 --warmUp=5 --percentile=90,99"


def test_called_trtexec(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    link = tmp_path / "trtexec"
    link.symlink_to(CARNOT)
    done = subprocess.run([link, f"--onnx={model}", "--skipInference"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and f"&&&& PASSED TensorRT.trtexec # {link} --onnx={model}" in done.stdout


def test_exports(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    x = np.random.default_rng(0).standard_normal((2, 8)).astype(np.float32)
    x.tofile(tmp_path / "x.bin")
    names = {k: tmp_path / f"{k}.json" for k in ("Times", "Profile", "Output", "LayerInfo")}
    engine = tmp_path / "e.plan"
    passes("exec", f"--onnx={model}", "--shapes=x:2x8", f"--loadInputs='x':{tmp_path / 'x.bin'}", "--iterations=12", "--duration=0", f"--saveEngine={engine}",
           "--profilingVerbosity=detailed", *(f"--export{k}={v}" for k, v in names.items()))
    times, profile, output, layers = (json.loads(p.read_text()) for p in names.values())
    assert len(times) == 12 and list(times[0])[0] == "startEnqMs" and list(times[0])[-1] == "latencyMs"
    assert all(t["endComputeMs"] >= t["startComputeMs"] for t in times)
    assert profile[0] == {"count": 12} and list(profile[1]) == ["name", "timeMs", "averageMs", "medianMs", "percentage"]
    assert sum(p["percentage"] for p in profile[1:]) == pytest.approx(100)
    assert [o["name"] for o in output] == ["y/odd:0"] and output[0]["dimensions"] == "2x8"
    e = np.exp(np.maximum(x.astype(np.float64), 0))
    np.testing.assert_allclose(np.reshape(output[0]["values"], (2, 8)), e / e.sum(1, keepdims=True), rtol=1e-5)
    assert layers["Layers"][0]["TacticName"] and layers["Bindings"] == ["x", "y/odd:0"]
    assert "PASSED" in passes("exec", f"--loadEngine={engine}", "--duration=0.01", "--warmUp=0", "--shapes=x:2x8", "--dumpProfile", "--dumpOutput", "--dumpLayerInfo")


def test_missing_shape_is_one(model: pathlib.Path) -> None:
    done = carnot("exec", f"--onnx={model}", "--skipInference")
    assert done.returncode == 0 and "input x has dynamic dimensions" in done.stderr


def test_profiles(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    engine = tmp_path / "p.plan"
    out = passes("exec", f"--onnx={model}", f"--saveEngine={engine}", "--profile=0", "--minShapes=x:1x8", "--optShapes=x:2x8", "--maxShapes=x:4x8", "--profile=1",
                 "--minShapes=x:8x8", "--optShapes=x:8x8", "--maxShapes=x:32x8", "--skipInference", "--dumpOptimizationProfile")
    assert "Profile 0, input x: MIN 1x8, OPT 2x8, MAX 4x8" in out and "Profile 1, input x: MIN 8x8, OPT 8x8, MAX 32x8" in out
    passes("exec", f"--loadEngine={engine}", "--useProfile=1", "--shapes=x:32x8", "--duration=0.01", "--warmUp=0")
    assert "FAILED" in carnot("exec", f"--loadEngine={engine}", "--useProfile=0", "--shapes=x:32x8", "--duration=0.01").stdout


def test_timing_cache(model: pathlib.Path, tmp_path: pathlib.Path) -> None:
    cache = tmp_path / "t.cache"
    passes("exec", f"--onnx={model}", "--shapes=x:4x8", f"--timingCacheFile={cache}", "--skipInference")
    assert cache.read_text().startswith("carnot-timing-cache 1")
    cache.write_bytes(b"carnot-timing-cache 1\nnot a line\xff\n")
    assert str(cache) in fails("exec", f"--onnx={model}", "--shapes=x:4x8", f"--timingCacheFile={cache}", "--skipInference")
    cache.write_bytes(b"\x00" * 100)
    assert str(cache) in fails("build", model, "--output", tmp_path / "a.plan", "--shapes=x:4x8", "--timingCacheFile", cache)


@pytest.mark.parametrize(("flag", "said"), [
    ("--onx=a", "the nearest is --onnx"), ("--int8", "int8 is not there yet"), ("--backend=tpu", "must be cpu, cuda, cuda:N or cuda:sm_NN"),
    ("--shapes=x", "'x' is no shape"), ("--shapes=x:1xx8", "'1xx8' is no list of dimensions"), ("--shapes=z:1x8", "the model has no input z; it has x"),
    ("--shapes=x:1", "input x has 2 dimensions, the shape given has 1"), ("--shapes=x:1x9", "dimension 1 is 8 in the model, 9 was given"),
    ("--iterations=many", "--iterations is 'many', must be an integer"), ("--percentile=101", "must be numbers in [0, 100]"), ("--verbose=1", "takes no value"),
    ("--duration", "--duration needs a value"), ("--memPoolSize=workspace:x", "POOL:NUMBER"), ("--memPoolSize=heap:1M", "there is no pool 'heap'"),
    ("--profilingVerbosity=loud", "must be one of layer_names_only, detailed"), ("--inputIOFormats=fp16:hwc", "layout 'hwc' is not there yet"), ("word", "'word' is no flag")])
def test_exec_errors(model: pathlib.Path, flag: str, said: str) -> None:
    done = carnot("exec", f"--onnx={model}", "--skipInference", flag)
    assert done.returncode == 1 and said in done.stderr, done.stderr
    assert done.stdout.splitlines()[-1].startswith("&&&& FAILED TensorRT.trtexec # exec")


@pytest.mark.parametrize("flag", ["--useSpinWait", "--workspace=64", "--explicitBatch",
                                  "--hardwareCompatibilityLevel=none", "--device=3", "--memPoolSize=workspace:1.5G,dlaSRAM:1M"])
def test_without_effect(model: pathlib.Path, flag: str) -> None:
    done = carnot("exec", f"--onnx={model}", "--shapes=x:1x8", "--skipInference", flag)
    assert done.returncode == 0 and done.stderr.count("[W]") == 1, done.stderr


@pytest.mark.parametrize("flag", ["--useCudaGraph", "--noCudaGraph", "--noDataTransfers"])
def test_what_only_a_gpu_does(model: pathlib.Path, flag: str) -> None:
    done = carnot("exec", f"--onnx={model}", "--shapes=x:1x8", "--iterations=1", "--duration=0", "--warmUp=0", flag)
    assert done.returncode == 0 and f"{flag} has no effect" in done.stderr, done.stderr


def test_every_flag_does_what_help_says() -> None:
    working, without, refused = (re.findall(r"^  --(\w+)(=…)?", part, re.M) for part in re.split(r"\n(?:Taken|Refused)", passes("exec", "--help")))
    assert len(working) > 50 and len(without) > 45 and len(refused) > 40
    for flags, said in ((without, "has no effect"), (refused, "is not there yet")):
        for name, value in flags:
            done = carnot("exec", "--onnx=/none", f"--{name}=1" if value else f"--{name}")
            assert done.returncode == 1 and re.search(rf"--{name}\b.*{said}", done.stderr), name
            assert ("cannot open /none" in done.stderr) == (flags is without), name


@pytest.mark.parametrize("strip", [False, True])
def test_refit_and_strip(strip: bool, tmp_path: pathlib.Path) -> None:
    graph = helper.make_graph([helper.make_node("Gemm", ["x", "w"], ["y"], "fc")], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
                              [onnx.numpy_helper.from_array(np.ones((4, 3), np.float32), "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), tmp_path / "g.onnx")
    assert "Refittable: w" in passes("exec", f"--onnx={tmp_path / 'g.onnx'}", "--refit", "--dumpRefit", "--skipInference")
    if not strip:
        return
    done = carnot("exec", f"--onnx={tmp_path / 'g.onnx'}", "--stripAllWeights", f"--saveEngine={tmp_path / 's.plan'}")
    assert done.returncode == 0 and "no weights until it is refitted" in done.stderr


# ---- files ----

@pytest.mark.parametrize("data", [b"ftrt" + bytes(64), (20).to_bytes(4, "little") + b'{"stride": 32, "a":1' + b"ftrt" + bytes(64)])
def test_tensorrt_plan(tmp_path: pathlib.Path, data: bytes) -> None:
    path = tmp_path / "their.engine"
    path.write_bytes(data)
    for command in (["exec", f"--loadEngine={path}"], ["run", path, "--input", "x.npy"], ["bench", path], ["inspect", path]):
        assert "TensorRT engine; rebuild from ONNX" in fails(*command)


@pytest.mark.parametrize("ending", [".npy", ".png", ".jpg", ".pb", ".bin"])
@pytest.mark.parametrize("data", [b"", b"\x93NUMPY\x01\x00\xff\xff{'descr'", b"\x89PNG\r\n\x1a\n" + b"\xff" * 40, b"\xff\xd8\xff\xe0" + b"\x00" * 30,
                                  b"\x93NUMPY\x01\x00\x46\x00{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 8), }      \n", b"\xff" * 64])
def test_corrupt_inputs(plan: pathlib.Path, tmp_path: pathlib.Path, ending: str, data: bytes) -> None:
    path = tmp_path / f"bad{ending}"
    path.write_bytes(data)
    assert "bad" in fails("run", plan, "--input", f"x={path}")


@pytest.mark.parametrize("keep", [0, 7, 8, 40, 200, -1])
def test_corrupt_engine(plan: pathlib.Path, tmp_path: pathlib.Path, keep: int) -> None:
    path = tmp_path / "cut.plan"
    path.write_bytes(plan.read_bytes()[:keep])
    assert "cut.plan" in fails("inspect", path)


def test_top_and_labels(plan: pathlib.Path, tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(8, dtype=np.float32)[None])
    (tmp_path / "names.txt").write_text("\n".join("abcdefg"))
    out = passes("run", plan, "--input", tmp_path / "x.npy", "--top=3", "--labels", tmp_path / "names.txt")
    rows = [line.split() for line in out.splitlines()[1:]]
    assert [row[1] for row in rows] == ["7", "6", "5"] and [row[3:] for row in rows] == [[], ["g"], ["f"]]
    assert "cannot read" in fails("run", plan, "--input", tmp_path / "x.npy", "--top=3", "--labels", tmp_path / "none.txt")


def test_odd_names_and_folders(plan: pathlib.Path, tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((2, 8), np.float32))
    folder = tmp_path / "a" / "b"
    passes("run", plan, "--input", f"x={tmp_path / 'x.npy'}", "--output-dir", folder)
    np.testing.assert_allclose(np.load(folder / "y_odd_0.npy"), np.full((2, 8), 0.125), rtol=1e-6)


# ---- the others ----

def test_compare(model: pathlib.Path, plan: pathlib.Path, tmp_path: pathlib.Path) -> None:
    x = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    give = ["--input", f"x={tmp_path / 'x.npy'}"]
    assert "0 of 32 outside" in passes("compare", model, plan, *give)
    other = save(tmp_path / "other.onnx", [helper.make_node("Softmax", ["x"], ["y/odd:0"])], {"x": ["n", 8]}, {"y/odd:0": ["n", 8]})
    assert "elements differ by more than" in fails("compare", model, other, *give)
    passes("compare", model, other, *give, "--atol=1")
    passes("run", plan, *give, "--output-dir", tmp_path / "out")
    facts = json.loads(passes("compare", plan, tmp_path / "out", *give, "--json"))
    assert facts["passed"] and facts["outputs"][0]["max_abs"] == 0 and facts["outputs"][0]["count"] == 32
    assert "nothing.npy" in fails("compare", plan, tmp_path / "out", "--input", "x=nothing.npy")


def test_device() -> None:
    facts = json.loads(passes("device", "--json"))
    assert facts["processor"] and facts["measured"]["peaks"][0]["gops_one_thread"] > 0
    assert [i["name"] for i in facts["isas"]][:2] == ["scalar", "avx2"]
    limited = json.loads(carnot("device", "--json", "--no-measure", env={"CARNOT_ISA": "scalar"}).stdout)
    assert [i["usable"] for i in limited["isas"]][:2] == [True, False] and limited["isas"][1]["why_not"]


@pytest.mark.skipif(not (pathlib.Path(CARNOT).parent.parent / "lib/libcarnot_cuda.so").exists(), reason="built without the CUDA module")
def test_device_that_is_absent() -> None:
    facts = json.loads(passes("device", "--json", "--backend=cuda:sm_90"))
    assert facts["arch"] == "sm_90" and facts["multiprocessors"] == 0 and "measured" not in facts
    assert [entry["name"] for entry in facts["libraries"]] == ["CUDA driver", "NVRTC", "cuBLASLt", "cuDNN"]
    assert all(entry["version"] or entry["missing"] for entry in facts["libraries"])
    assert "sm_60" in fails("device", "--backend=cuda:sm_60")


def test_library_of_another_version(tmp_path: pathlib.Path, model: pathlib.Path) -> None:
    """A library that lacks what is called is named, and the build goes on without it."""
    subprocess.run(["cc", "-shared", "-x", "c", "/dev/null", "-o", tmp_path / "libcudnn.so.9"], check=True)
    old = {"LD_LIBRARY_PATH": str(tmp_path)}
    facts = json.loads(carnot("device", "--json", "--backend=cuda:sm_90", env=old).stdout)
    missing = next(entry["missing"] for entry in facts["libraries"] if entry["name"] == "cuDNN")
    assert "convolutions run by own kernels" in missing and "lacks cudnnCreate" in missing
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
    words = subprocess.run(["bash", "-c", f"source {script}; COMP_WORDS=(carnot exec --saveE); COMP_CWORD=2; _carnot; echo ${{COMPREPLY[@]}}"],
                           capture_output=True, text=True, timeout=10).stdout
    assert words.strip() == "--saveEngine"


def test_bench_contract(plan: pathlib.Path) -> None:
    facts = json.loads(passes("bench", plan, "--json", "--duration=0.05", "--threads=1", "--shapes=x:4x8"))
    for key in ("median_ms", "min_ms", "p90_ms", "build_ms", "load_ms", "peak_rss_mb", "gflop", "tactics", "times_ms"):
        assert key in facts
    assert facts["threads"] == 1


# ---- pictures ----

def picture(tmp_path: pathlib.Path, model: str) -> tuple[pathlib.Path, pathlib.Path, np.ndarray]:
    if not (MODELS / model).exists():
        pytest.skip(f"{model} is not in {MODELS}")
    data, io = pytest.importorskip("skimage.data"), pytest.importorskip("skimage.io")
    pixels = data.astronaut()
    io.imsave(tmp_path / "astronaut.png", pixels)
    return MODELS / model, tmp_path / "astronaut.png", pixels


def test_finds_the_face(tmp_path: pathlib.Path) -> None:
    model, file, _ = picture(tmp_path, "ultraface_rfb_320.onnx")
    passes("run", model, "--input", file, "--mean=127,127,127", "--scale=0.0078125,0.0078125,0.0078125", "--output-dir", tmp_path / "out")
    outputs = [np.load(p) for p in (tmp_path / "out").iterdir()]
    scores = next(o for o in outputs if o.shape[-1] == 2)[0, :, 1]
    boxes = next(o for o in outputs if o.shape[-1] == 4)[0] * 512  # the picture's side
    order = np.argsort(-scores)
    faces = []
    for i in order[scores[order] > 0.7]:
        def overlap(k: int) -> float:
            size = np.minimum(boxes[i, 2:], boxes[k, 2:]) - np.maximum(boxes[i, :2], boxes[k, :2])
            both = np.prod(np.maximum(size, 0))
            return both / (np.prod(boxes[i, 2:] - boxes[i, :2]) + np.prod(boxes[k, 2:] - boxes[k, :2]) - both)
        if all(overlap(k) < 0.5 for k in faces):
            faces.append(i)
    assert len(faces) == 1, boxes[faces]
    x0, y0, x1, y1 = boxes[faces[0]]
    assert abs((x0 + x1) / 2 - 224) < 25 and abs((y0 + y1) / 2 - 120) < 30, boxes[faces]


def test_paints_like_candy(tmp_path: pathlib.Path) -> None:
    model, file, pixels = picture(tmp_path, "candy.onnx")
    passes("run", model, "--input", file, "--output-dir", tmp_path / "out", "--png")
    io = pytest.importorskip("skimage.io")
    painted = io.imread(next((tmp_path / "out").glob("*.png")))
    assert painted.ndim == 3 and painted.shape[2] == 3 and painted.std() > 30
    rows = np.linspace(0, pixels.shape[0] - 1, painted.shape[0]).astype(int)
    columns = np.linspace(0, pixels.shape[1] - 1, painted.shape[1]).astype(int)
    likeness = np.corrcoef(painted.mean(2).ravel(), pixels[rows][:, columns].mean(2).ravel())[0, 1]
    assert 0.3 < likeness < 0.98  # the same scene, in another hand
