"""Story C: layer normalization kept in float32 in an engine of half precision."""

import json
import os
import re
import subprocess

import numpy as np
import pytest
from onnx import helper

import carnot as trt

from story import CARNOT, command, run_script, save_model

rng = np.random.default_rng(3)
C = 64
W1, W2 = ((rng.standard_normal((C, C)) / 8).astype(np.float32) for _ in range(2))
SCALE, SHIFT = (rng.standard_normal(C).astype(np.float32) for _ in range(2))

# The user's lines, verbatim; only the import differs without the alias.
SNIPPET = """
config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS); config.set_flag(trt.BuilderFlag.FP16)
for i in range(network.num_layers):
    layer = network.get_layer(i)
    if layer.type == trt.LayerType.NORMALIZATION: layer.precision = trt.DataType.FLOAT
"""
SCRIPT = """
import sys
import numpy as np
IMPORT

TRT_LOGGER = trt.Logger(trt.Logger.WARNING)
builder = trt.Builder(TRT_LOGGER)
network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
parser = trt.OnnxParser(network, TRT_LOGGER)
assert parser.parse_from_file(sys.argv[1])
config = builder.create_builder_config()
CONSTRAINTS
engine_bytes = builder.build_serialized_network(network, config)
with open(sys.argv[2], "wb") as f:
    f.write(engine_bytes)
"""


def norm_nodes(kind):
    if kind == "decomposed":
        return [
            helper.make_node("ReduceMean", ["p"], ["mean"], "m1", axes=[-1]),
            helper.make_node("Sub", ["p", "mean"], ["centred"], "sub"),
            helper.make_node("Pow", ["centred", "two"], ["square"], "pow"),
            helper.make_node("ReduceMean", ["square"], ["variance"], "m2", axes=[-1]),
            helper.make_node("Add", ["variance", "epsilon"], ["shifted"], "eps"),
            helper.make_node("Sqrt", ["shifted"], ["deviation"], "sqrt"),
            helper.make_node("Div", ["centred", "deviation"], ["unit"], "div"),
            helper.make_node("Mul", ["unit", "scale"], ["scaled"], "mul"),
            helper.make_node("Add", ["scaled", "shift"], ["n"], "norm"),
        ]
    return [helper.make_node("LayerNormalization", ["p", "scale", "shift"], ["n"], "norm", axis=-1, epsilon=1e-5)]


KINDS = {"opset17": 17, "decomposed": 16, "opset18": 18}


@pytest.fixture(params=KINDS)
def model(request, tmp_path):
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["p"], "first"),
        *norm_nodes(request.param),
        helper.make_node("MatMul", ["n", "w2"], ["y"], "second"),
    ]
    weights = {"w1": W1, "w2": W2, "scale": SCALE, "shift": SHIFT, "two": np.float32(2), "epsilon": np.float32(1e-5)}
    return save_model(tmp_path / "model.onnx", nodes, {"x": [32, C]}, {"y": [32, C]}, weights, KINDS[request.param])


X = (rng.standard_normal((32, C)) * 3000).astype(np.float32)  # sums of squares overflow float16


def oracle():
    p = X.astype(np.float64) @ W1
    centred = p - p.mean(1, keepdims=True)
    return (centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * SCALE + SHIFT) @ W2.astype(np.float64)


def check(path, bound=2e-3):
    engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(path.read_bytes())
    got = trt.Model(engine)(x=X)["y"].astype(np.float64)
    wanted = oracle()
    assert np.linalg.norm(got - wanted) <= bound * np.linalg.norm(wanted)
    return engine


def precisions(engine):
    info = json.loads(engine.create_engine_inspector().get_engine_information(trt.LayerInformationFormat.JSON))
    return {layer["Name"]: layer["Precision"] for layer in info["Layers"]}


@pytest.mark.parametrize("alias", [False, True])
def test_the_snippet(model, tmp_path, alias):
    script = SCRIPT.replace("IMPORT", "import tensorrt as trt" if alias else "import carnot as trt")
    run_script(script.replace("CONSTRAINTS", SNIPPET), tmp_path, model, tmp_path / "m.plan", alias=alias)
    found = precisions(check(tmp_path / "m.plan"))
    (norm,) = [p for name, p in found.items() if "norm" in name]
    assert norm.lower() in ("f32", "fp32", "float32", "float"), found


def test_without_constraints(model, tmp_path):
    """Statistics are float32 in any case: the result is right, and the other layers run in half precision."""
    script = SCRIPT.replace("IMPORT", "import carnot as trt")
    script = script.replace("CONSTRAINTS", "config.set_flag(trt.BuilderFlag.FP16)")
    run_script(script, tmp_path, model, tmp_path / "m.plan")
    check(tmp_path / "m.plan")


def told_precisions(text):
    """The type of each layer of the log, under the name of each of its parts."""
    found = re.findall(r"Layer\(\w+\): (.+?), Precision: (\w+)", text)
    return {part: dtype for name, dtype in found for part in name.split(" + ")}


def test_the_command(model, tmp_path):
    """trtexec --fp16 --layerPrecisions="<layer name>":"fp32" --onnx=model.onnx --verbose"""
    (tmp_path / "trtexec").symlink_to(CARNOT)
    line = (
        'trtexec --fp16 --layerPrecisions="norm":"fp32" --onnx=model.onnx --verbose --saveEngine=m.plan --iterations=1'
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(line, shell=True, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0 and "&&&& PASSED" in done.stdout, done.stdout[-2000:] + done.stderr[-2000:]
    told = told_precisions(done.stdout + done.stderr)
    assert told["norm"] == "float32", told
    check(tmp_path / "m.plan")
    assert "float32" in command("inspect", tmp_path / "m.plan", "--json").stdout


@pytest.mark.parametrize(
    "flags, wanted",
    [
        (["--layerPrecisions=*:fp32"], {"first": "float32", "norm": "float32", "second": "float32"}),
        (
            ["--layerPrecisions=*:fp16,norm:fp32", "--precisionConstraints=obey"],
            {"first": "float16", "norm": "float32"},
        ),
        (
            ["--layerPrecisions=norm:fp32", "--layerOutputTypes=norm:fp32", "--precisionConstraints=prefer"],
            {"norm": "float32"},
        ),
        (["--layerPrecisions=*:fp16", "--precisionConstraints=none"], {}),
    ],
)
def test_constraints_by_command(model, tmp_path, flags, wanted):
    words = ["--fp16", *flags, f"--onnx={model}", "--verbose", "--skipInference", f"--saveEngine={tmp_path / 'm.plan'}"]
    done = command("exec", *words)
    told = told_precisions(done.stdout + done.stderr)
    assert {name: told.get(name) for name in wanted} == wanted, told
    check(tmp_path / "m.plan")


def test_obey_that_cannot_hold(model, logger):
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    assert trt.OnnxParser(network, logger).parse_from_file(str(model))
    network.get_layer(0).precision = trt.DataType.HALF
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
    assert builder.build_serialized_network(network, config) is None
    wanted = "layer first cannot obey the request for float16: the configuration does not allow it (FP16, --fp16)"
    assert wanted in logger.errors()[-1]
    config.clear_flag(trt.BuilderFlag.OBEY_PRECISION_CONSTRAINTS)
    config.set_flag(trt.BuilderFlag.PREFER_PRECISION_CONSTRAINTS)
    assert builder.build_serialized_network(network, config) is not None
    assert any("first" in msg for severity, msg in logger.lines if severity == trt.Logger.WARNING)
