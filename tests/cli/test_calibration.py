"""INT8 by calibration on the command line: data folders, caches, and what is wrong with them."""

import json
import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
from harness import carnot, fails, passes
from onnx import helper as h
from onnx import numpy_helper as nh

RNG = np.random.default_rng(41)
SAMPLES = RNG.standard_normal((24, 3, 12, 12)).astype(np.float32)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> pathlib.Path:
    """Convolution, ReLU, convolution, addition of the first, mean, GEMM."""
    shapes = {"a": (8, 3, 3, 3), "b": (8, 8, 3, 3), "c": (8, 10), "d": (10,)}
    weights = [nh.from_array((RNG.standard_normal(s) / 4).astype(np.float32), k) for k, s in shapes.items()]
    nodes = [
        h.make_node("Conv", ["x", "a"], ["p"], name="first", pads=[1, 1, 1, 1]),
        h.make_node("Relu", ["p"], ["q"]),
        h.make_node("Conv", ["q", "b"], ["r"], name="second", pads=[1, 1, 1, 1]),
        h.make_node("Add", ["r", "q"], ["s"]),
        h.make_node("GlobalAveragePool", ["s"], ["t"]),
        h.make_node("Flatten", ["t"], ["u"]),
        h.make_node("Gemm", ["u", "c", "d"], ["y"], name="head"),
    ]
    graph = h.make_graph(
        nodes,
        "g",
        [h.make_tensor_value_info("x", 1, ["n", 3, 12, 12])],
        [h.make_tensor_value_info("y", 1, ["n", 10])],
        weights,
    )
    path = tmp_path_factory.mktemp("model") / "m.onnx"
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
    return path


def folder_of(path: pathlib.Path, **arrays: np.ndarray) -> pathlib.Path:
    path.mkdir()
    for name, array in arrays.items():
        np.save(path / f"{name}.npy", array)
    return path


def outputs(folder: pathlib.Path, plan: pathlib.Path) -> np.ndarray:
    np.save(folder / "in.npy", SAMPLES)
    passes("run", plan, "--input", f"x={folder / 'in.npy'}", "--output-dir", folder / "out")
    return np.load(folder / "out" / "y.npy")


FAST = ("--builderOptimizationLevel=0",)


def block_of_a_residual_network() -> onnx.ModelProto:
    """Convolution, max pooling, two branches of convolutions, addition, mean, GEMM."""
    rng = np.random.default_rng(3)
    shapes = {"a": (16, 3, 3, 3), "b": (16, 16, 3, 3), "c": (32, 16, 1, 1), "d": (32, 16, 1, 1), "e": (32, 10)}
    weights = [nh.from_array((rng.standard_normal(s) / 4).astype(np.float32), k) for k, s in shapes.items()]
    nodes = [
        h.make_node("Conv", ["x", "a"], ["p"], pads=[1, 1, 1, 1]),
        h.make_node("Relu", ["p"], ["q"]),
        h.make_node("MaxPool", ["q"], ["r"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        h.make_node("Conv", ["r", "b"], ["s"], pads=[1, 1, 1, 1]),
        h.make_node("Relu", ["s"], ["t"]),
        h.make_node("Conv", ["t", "c"], ["u"]),
        h.make_node("Conv", ["r", "d"], ["v"]),
        h.make_node("Add", ["u", "v"], ["w"]),
        h.make_node("Relu", ["w"], ["z"]),
        h.make_node("GlobalAveragePool", ["z"], ["m"]),
        h.make_node("Flatten", ["m"], ["f"]),
        h.make_node("MatMul", ["f", "e"], ["y"]),
    ]
    x = h.make_tensor_value_info("x", 1, ["n", 3, 12, 12])
    graph = h.make_graph(nodes, "g", [x], [h.make_tensor_value_info("y", 1, ["n", 10])], weights)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)


def test_bytes_flow_between_layers(tmp_path):
    """Pooling, branches and means between quantized layers read and write bytes: only the input is converted."""
    onnx.save(block_of_a_residual_network(), tmp_path / "m.onnx")
    data = folder_of(tmp_path / "data", x=SAMPLES)
    plan = tmp_path / "m.plan"
    passes("build", tmp_path / "m.onnx", "--output", plan, "--int8", f"--calibData={data}", *FAST)
    layers = json.loads(passes("inspect", plan, "--json"))["Layers"]
    converted = [layer["Name"] for layer in layers if layer["LayerType"] in ("QUANTIZE", "DEQUANTIZE")]
    assert len(converted) <= 1, converted
    kinds = {layer["LayerType"]: layer["Precision"] for layer in layers}
    assert kinds["POOLING"] == kinds["REDUCE"] == "uint8"
    got = outputs(tmp_path, plan)
    wanted = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, {"x": SAMPLES})[0]
    assert np.linalg.norm(got - wanted) < 0.02 * np.linalg.norm(wanted)


@pytest.mark.parametrize("method", ["mse", "entropy2", "entropy", "minmax", "percentile"])
def test_data_gives_a_cache_that_gives_the_same_engine(model, tmp_path, method):
    data, cache = folder_of(tmp_path / "data", x=SAMPLES), tmp_path / "cache"
    a, b, f = (tmp_path / f"{name}.plan" for name in "abf")
    done = carnot(
        "build", model, "--int8", "--calibData", data, "--calib", cache, f"--calibrator={method}", "--output", a, *FAST
    )
    assert done.returncode == 0, done.stderr
    lines = cache.read_text().splitlines()
    names = [line.rsplit(":", 1)[0] for line in lines[1:]]
    assert names == ["x", "p", "q", "r", "s", "t", "u", "y"]
    passes("build", model, "--int8", "--calib", cache, "--output", b, *FAST)
    passes("build", model, "--output", f, *FAST)
    assert a.read_bytes() == b.read_bytes()
    kinds = [layer["LayerType"].lower() for layer in json.loads(passes("inspect", a, "--json"))["Layers"]]
    assert any("quantize" in kind for kind in kinds), kinds
    got, want = outputs(tmp_path, a), outputs(tmp_path, f)
    error = np.linalg.norm(got - want) / np.linalg.norm(want)
    assert 1e-4 < error < 0.05, error


def test_the_number_of_threads_does_not_matter(model, tmp_path):
    data = folder_of(tmp_path / "data", x=SAMPLES)
    for threads in ("1", "2"):
        passes(
            "build", model, "--int8", "--calibData", data, "--calib", tmp_path / threads, f"--threads={threads}",
            "--output", tmp_path / "m.plan", *FAST,
        )  # fmt: skip
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_exec_takes_the_flags_of_trtexec(model, tmp_path):
    cache = tmp_path / "cache"
    cache.write_text("TRT-8203-EntropyCalibration2\nx: 3c8c8c8d\nq: 3c010a14\n")
    done = carnot("exec", f"--onnx={model}", "--int8", f"--calib={cache}", "--shapes=x:1x3x12x12", "--skipInference", *FAST)
    assert done.returncode == 0 and "1 layer without a range of its input stays in floating point: head" in done.stderr
    best = carnot("exec", f"--onnx={model}", "--best", f"--calib={cache}", "--shapes=x:1x3x12x12", "--skipInference", *FAST)
    assert best.returncode == 0 and "--best takes" not in best.stderr


def test_pictures(model, tmp_path):
    image = pytest.importorskip("PIL.Image", reason="Pillow writes the pictures")
    data = tmp_path / "pictures"
    data.mkdir()
    for i in range(3):
        image.fromarray(RNG.integers(0, 256, (20, 24, 3), np.uint8)).save(data / f"{i}.png")
    (data / "notes.txt").write_text("no picture")
    passes(
        "build", model, "--int8", "--calibData", data, "--calibScale=0.01,0.01,0.01", "--calib", tmp_path / "cache",
        "--calibrator=minmax", "--output", tmp_path / "m.plan", *FAST,
    )  # fmt: skip
    line = (tmp_path / "cache").read_text().splitlines()[1]
    scale = np.frombuffer(bytes.fromhex(line.split(": ")[1]), ">f4")[0]
    assert line.startswith("x: ") and 2.3 / 127 < scale <= 2.56 / 127


def test_ranges_without_a_tensor_are_listed(model, tmp_path):
    (tmp_path / "cache").write_text("TRT-8601-MinMaxCalibration\nx: 3c010a14\nold:1: 3c010a14\n")
    done = carnot("build", model, "--int8", "--calib", tmp_path / "cache", "--output", tmp_path / "m.plan", *FAST)
    assert done.returncode == 0
    assert "1 range of the calibration without a tensor in the network: old:1" in done.stderr
    assert "2 layers without a range of their input stay in floating point: second, head" in done.stderr


@pytest.mark.parametrize(
    ("ranges", "layers", "said"),
    [
        ("x: 3c010a14\nq: 3c010a14", "first:int8,second:int8", ""),
        ("x: 3c010a14", "first:int8,second:int8", "layer second cannot obey the request for int8: its input q has no range"),
        ("x: 3c010a14", "node_of_q:int8", "layer node_of_q cannot obey the request for int8: 8 bits are for convolutions"),
    ],
)
def test_layers_that_are_asked_to_compute_in_int8(model, tmp_path, ranges, layers, said):
    (tmp_path / "cache").write_text(f"TRT-8601-MinMaxCalibration\n{ranges}\n")
    given = ("--int8", "--calib", tmp_path / "cache", "--precisionConstraints=obey", f"--layerPrecisions={layers}")
    given = ("build", model, *given, "--output", tmp_path / "m.plan", *FAST)
    if said:
        assert said in fails(*given)
        return
    passes(*given)
    shown = json.loads(passes("inspect", tmp_path / "m.plan", "--json"))["Layers"]
    assert sum("u8s8" in layer["TacticName"] or "s8" in layer["TacticName"] for layer in shown) == 2, shown


NAN = SAMPLES.copy()
NAN[5, 0, 0, 0] = np.nan


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({}, "holds neither x.npy nor a picture"),
        ({"x": SAMPLES[:, :2]}, "has shape [24,2,12,12], must be [-1,3,12,12] with samples along axis 0 for input x"),
        ({"x": SAMPLES.astype(np.float64)}, "is float64, input x is float32"),
        ({"x": SAMPLES[:0]}, "holds 0 samples"),
        ({"x": NAN}, "sample 5, tensor x: element 0 is NaN"),
    ],
)
def test_data_that_does_not_fit(model, tmp_path, arrays, said):
    data = folder_of(tmp_path / "data", **arrays)
    text = fails("build", model, "--int8", "--calibData", data, "--output", tmp_path / "m.plan")
    assert said in text and not (tmp_path / "m.plan").exists()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--calib=CACHE"], "--calib and --calibData have no effect without --int8 or --best"),
        (["--int8", "--calib=CACHE", "--calibrator=mse"], "--calibrator has no effect without --calibData"),
        (["--int8", "--calibData=DATA", "--calibrator=best"], "--calibrator"),
        (["--int8", "--calibData=DATA", "--calibrator=percentile", "--calibQuantile=0"], "the quantile is 0"),
        (["--int8", "--calib=nowhere"], "nowhere"),
        (["--int8", "--calibData=nowhere"], "cannot open the folder nowhere"),
        (["--int8", "--calib=CACHE"], "line 2 of the calibration cache is 'x 3c010a14'"),
    ],
)
def test_wrong_flags_and_files(model, tmp_path, flags, said):
    (tmp_path / "cache").write_text("TRT-8601-MinMaxCalibration\nx 3c010a14\n")
    data = folder_of(tmp_path / "data", x=SAMPLES)
    flags = [flag.replace("CACHE", str(tmp_path / "cache")).replace("DATA", str(data)) for flag in flags]
    code = 2 if "has no effect" in said or "have no effect" in said else 1
    assert said in fails("build", model, *flags, "--output", tmp_path / "m.plan", code=code)
