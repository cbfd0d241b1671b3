"""carnot exec: words and spellings that trtexec takes, what it prints, and flags that say that they have no effect."""

import re
import subprocess

import numpy as np
import onnx
import pytest
from harness import CARNOT, carnot, fails, passes
from onnx import TensorProto, helper, numpy_helper

FAST = ("--builderOptimizationLevel=0", "--iterations=1", "--duration=0", "--warmUp=0")


def save_model(path, nodes, inputs, outputs, weights=()):
    graph = helper.make_graph(
        nodes, "g", inputs, outputs, [numpy_helper.from_array(array, name) for name, array in weights]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.fixture
def gather(tmp_path):
    """Embeddings from a table of 40 rows and one of 2, reshaped by an input."""
    nodes = [
        helper.make_node("Gather", ["words", "ids"], ["a"]),
        helper.make_node("Gather", ["kinds", "kind"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["s"]),
        helper.make_node("Reshape", ["s", "shape"], ["y"]),
    ]
    ids = [helper.make_tensor_value_info(name, TensorProto.INT64, [1, "n"]) for name in ("ids", "kind")]
    shape = helper.make_tensor_value_info("shape", TensorProto.INT64, [2])
    rng = np.random.default_rng(0)
    weights = [("words", rng.standard_normal((40, 4), np.float32)), ("kinds", rng.standard_normal((2, 4), np.float32))]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["p", "q"])]
    return save_model(tmp_path / "g.onnx", nodes, [*ids, shape], outputs, weights)


@pytest.fixture
def product(tmp_path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    weights = [("w", np.arange(12, dtype=np.float32).reshape(4, 3))]
    return save_model(tmp_path / "p.onnx", [helper.make_node("MatMul", ["x", "w"], ["y"])], [x], [y], weights)


@pytest.fixture
def quantized(tmp_path):
    """The product with Q/DQ nodes around its input."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        helper.make_node("MatMul", ["d", "w"], ["y"]),
    ]
    weights = [
        ("w", np.ones((4, 3), np.float32)),
        ("scale", np.array(0.02, np.float32)),
        ("zero", np.array(0, np.int8)),
    ]
    return save_model(tmp_path / "q.onnx", nodes, [x], [y], weights)


# ---- made-up inputs ----


@pytest.mark.parametrize("command", ["exec", "bench"])
def test_indices_are_inside_of_what_they_index(gather, command):
    """Made-up integers that index a small table are made up again inside of it, and a warning says so."""
    shapes = "--shapes=ids:1x6,kind:1x6,shape:6x4"
    words = ["exec", f"--onnx={gather}", *FAST] if command == "exec" else ["bench", gather, "--duration=0"]
    done = carnot(*words, shapes)
    assert done.returncode == 0, done.stderr
    limits = dict(re.findall(r"input (\w+) is an index: its made-up values are in \[0, (\d+)\)", done.stderr))
    assert limits == {"ids": "32", "kind": "2"}


def test_other_failures_stay(product, tmp_path):
    """A run that fails for another reason fails with its own error."""
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"])]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [6])
    s = helper.make_tensor_value_info("s", TensorProto.INT64, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["p", "q"])
    model = save_model(tmp_path / "r.onnx", nodes, [x, s], [y])
    assert "6 elements do not fill" in fails("exec", f"--onnx={model}", "--shapes=s:4x4", *FAST)


def test_values_of_shape_inputs(gather, tmp_path):
    """--shapes and its like give the elements of a shape input; without them a profile's optimum is taken."""
    out = passes("exec", f"--onnx={gather}", "--shapes=ids:1x6,kind:1x6,shape:3x8", "--dumpOutput", *FAST)
    assert "y: (3x8)" in out
    engine = tmp_path / "g.plan"
    bounds = ["--minShapes=ids:1x1,kind:1x1,shape:1x1", "--maxShapes=ids:1x8,kind:1x8,shape:8x8"]
    opt = "--optShapes=ids:1x6,kind:1x6,shape:4x6"
    passes("exec", f"--onnx={gather}", *bounds, opt, f"--saveEngine={engine}", *FAST)
    out = passes("exec", f"--loadEngine={engine}", "--shapes=ids:1x6,kind:1x6", "--dumpOutput", *FAST[1:])
    assert "y: (4x6)" in out
    out = passes("exec", f"--loadEngine={engine}", "--shapes=ids:1x6,kind:1x6,shape:8x3", "--dumpOutput", *FAST[1:])
    assert "y: (8x3)" in out
    assert "8" in fails("exec", f"--loadEngine={engine}", "--shapes=ids:1x6,kind:1x6,shape:12x2", *FAST[1:])


# ---- spellings ----


@pytest.mark.parametrize(
    "flag, said",
    [
        ("--tacticSources=-cublasLt,+cublas", "tactic sources have no effect on a CPU"),
        ("--tacticSources=-CUDNN,-CUBLAS,+CUBLAS_LT", "tactic sources have no effect on a CPU"),
        ("--tacticSources=-edge_mask_convolutions", "tactic sources have no effect on a CPU"),
        ("--memPoolSize=workspace:1024MiB", "--memPoolSize has no effect"),
        ("--memPoolSize=workspace:1GiB,dlaSRAM:0.5MB", "--memPoolSize has no effect"),
        ("--memPoolSize=workspace:4096", "--memPoolSize has no effect"),
        ("--layerPrecisions=fp32", "--layerPrecisions: 'fp32' has no effect: it names a layer but no type"),
        ("--sparsity=enable", "--sparsity has no effect"),
        ("--sparsity=force", "--sparsity has no effect"),
        ("--best", "--best takes fp32, fp16 and bf16: int8 needs ranges by --calib or --calibData"),
        ("--plugins=libnvinfer_plugin.so", "TensorRT's plugins are built in"),
        ("--staticPlugins=/usr/lib/libnvinfer_plugin.so.10", "TensorRT's plugins are built in"),
        ("--setPluginsToSerialize=libnvinfer_plugin.so", "TensorRT's plugins are built in"),
    ],
)
def test_spellings_and_what_has_no_effect(product, flag, said):
    done = carnot("exec", f"--onnx={product}", flag, "--skipInference", *FAST)
    assert done.returncode == 0 and re.search(rf"^\[.*\] \[W\] .*{re.escape(said)}", done.stderr, re.M), done.stderr


@pytest.mark.parametrize("flag", ["--memPoolSize=workspace:1TiB", "--memPoolSize=workspace:1MiBi"])
def test_wrong_sizes(product, flag):
    assert "POOL:NUMBER" in fails("exec", f"--onnx={product}", flag)


@pytest.mark.parametrize("flag", ["--int8", "--fp8", "--int4"])
def test_quantized_types_are_permissions(product, quantized, tmp_path, flag):
    """Taken for a model that quantizes and with --loadEngine; the same refusal everywhere else."""
    engine = tmp_path / "q.plan"
    passes("exec", f"--onnx={quantized}", flag, f"--saveEngine={engine}", *FAST)
    passes("build", quantized, flag, "--output", tmp_path / "b.plan")
    done = carnot("exec", f"--loadEngine={engine}", flag, *FAST)
    assert done.returncode == 0 and f"{flag} has no effect with --loadEngine" in done.stderr
    refusals = [
        fails("exec", f"--onnx={product}", flag, *FAST),
        fails("build", product, flag, "--output", tmp_path / "n.plan"),
        fails("bench", product, flag, "--duration=0"),
    ]
    sentences = {re.search(r"nothing in the network is quantized: .*", text)[0] for text in refusals}
    assert len(sentences) == 1, sentences


def test_build_flags_with_an_engine(product, tmp_path):
    """Flags about building are named when there is nothing to build."""
    engine = tmp_path / "p.plan"
    passes("exec", f"--onnx={product}", f"--saveEngine={engine}", *FAST)
    flags = ["--fp16", "--best", "--minShapes=x:2x4", "--refit", "--timingCacheFile=t", "--noTF32"]
    done = carnot("exec", f"--loadEngine={engine}", *flags, *FAST[1:])
    assert done.returncode == 0
    for flag in flags:
        assert f"{flag.partition('=')[0]} has no effect with --loadEngine" in done.stderr


# ---- what is printed ----


def test_blocks_and_words(product, tmp_path):
    """The option blocks, the device, the version and the sentences that log readers look for."""
    engine = tmp_path / "p.plan"
    out = passes("exec", f"--onnx={product}", f"--saveEngine={engine}", "--fp16", *FAST)
    lines = [line.partition("] [I] ")[2] for line in out.splitlines()]
    for heading in ("Model", "Build", "System", "Inference", "Reporting"):
        assert f"=== {heading} Options ===" in lines
    assert lines.index("=== Model Options ===") < lines.index("=== Device Information ===")
    assert "Precision: FP32+FP16" in lines and f"Save engine: {engine}" in lines and "Refit: Disabled" in lines
    assert any(line.startswith("Selected Device: ") for line in lines) and "TensorRT version: 10.3.0" in lines
    assert re.search(r"\[I\] Engine built in [\d.e-]{1,10} sec\.", out)
    out = passes("exec", f"--loadEngine={engine}", *FAST[1:])
    assert re.search(r"\[I\] Engine deserialized in [\d.e-]{1,10} sec\.", out) and "Loaded engine with size: " in out


@pytest.mark.parametrize("version, number", [("8.6.1", "8601"), ("10.3.0", "100300"), ("11.1.0", "110100")])
def test_marker_holds_the_version(product, version, number):
    done = carnot("exec", f"--onnx={product}", *FAST, env={"CARNOT_TRT_VERSION": version})
    first, last = done.stdout.splitlines()[0], done.stdout.splitlines()[-1]
    assert first.startswith(f"&&&& RUNNING TensorRT.trtexec [TensorRT v{number}] # ")
    assert last.startswith(f"&&&& PASSED TensorRT.trtexec [TensorRT v{number}] # ")


def test_without_arguments_help_is_printed(tmp_path):
    link = tmp_path / "trtexec"
    link.symlink_to(CARNOT)
    done = subprocess.run([link], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stdout == passes("exec", "--help") and "--saveEngine" in done.stdout


def test_help_columns_are_straight():
    for line in passes("exec", "--help").splitlines():
        if line.startswith("  --"):
            assert line[38] == " " and line[39] != " ", line


# ---- refit ----


def test_stripped_weights_come_back(product, tmp_path):
    """--refitFromOnnx sets the weights of an engine that --stripWeights built."""
    engine, x = tmp_path / "s.plan", np.random.default_rng(1).standard_normal((2, 4)).astype(np.float32)
    x.tofile(tmp_path / "x.bin")
    passes("exec", f"--onnx={product}", "--stripWeights", f"--saveEngine={engine}", *FAST)
    done = carnot("exec", f"--loadEngine={engine}", *FAST[1:])
    assert done.returncode == 0 and "refitFromOnnx" in done.stderr and "Throughput" not in done.stdout
    run = [f"--loadInputs=x:{tmp_path / 'x.bin'}", "--dumpOutput", *FAST[1:]]
    out = passes("exec", f"--loadEngine={engine}", f"--refitFromOnnx={product}", *run)
    rows = [list(map(float, line.split())) for line in out.splitlines() if re.fullmatch(r"[-+.e\d ]+", line)]
    wanted = x.astype(np.float64) @ np.arange(12).reshape(4, 3)
    np.testing.assert_allclose(rows, wanted, rtol=1e-4, atol=1e-4)


def test_time_refit(product, gather, tmp_path):
    out = passes("exec", f"--onnx={product}", "--timeRefit", *FAST)
    assert re.search(r"Engine refitted with 1 weights of .* in [\d.e-]+ sec\.", out)
    engine = tmp_path / "p.plan"
    passes("exec", f"--onnx={product}", "--stripWeights", f"--saveEngine={engine}", *FAST)
    said = fails("exec", f"--loadEngine={engine}", f"--refitFromOnnx={gather}", *FAST[1:])
    assert "has no weights w, which the engine needs" in said
    assert "--timeRefit needs a model" in fails("exec", f"--loadEngine={engine}", "--timeRefit")
