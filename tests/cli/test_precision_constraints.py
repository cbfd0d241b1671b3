"""Weak typing on the command line: layer precisions, constraints, types of inputs and outputs."""

import pathlib
import re

import numpy as np
import onnx
import pytest
from harness import carnot, fails, passes
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(7)
C = 64
WEIGHT = RNG.standard_normal((C, C)).astype(np.float32) / 8
SCALE, SHIFT = RNG.standard_normal(C).astype(np.float32), RNG.standard_normal(C).astype(np.float32)


def norm_nodes(decomposed: bool) -> list:
    if not decomposed:
        return [helper.make_node("LayerNormalization", ["p", "scale", "shift"], ["n"], "norm", axis=-1, epsilon=1e-5)]
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


@pytest.fixture(params=[False, True], ids=["layer_norm", "decomposed"])
def block(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> pathlib.Path:
    """The reference: GEMM, layer norm, tanh GELU."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"], "product"),
        *norm_nodes(request.param),
        helper.make_node("Tanh", ["n"], ["y"], "tanh"),
    ]
    constants = {"w": WEIGHT, "scale": SCALE, "shift": SHIFT, "two": np.float32(2), "epsilon": np.float32(1e-5)}
    graph = helper.make_graph(
        nodes,
        "block",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, C])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, C])],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    path = tmp_path / "block.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def wanted(x: np.ndarray) -> np.ndarray:
    p = x.astype(np.float64) @ WEIGHT.astype(np.float64)
    centred = p - p.mean(-1, keepdims=True)
    return np.tanh(centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * SCALE + SHIFT)


def run(model: pathlib.Path, x: np.ndarray, *flags: str, name: str = "y") -> np.ndarray:
    source = model.with_name("x.npy")
    np.save(source, x)
    passes("run", model, "--input", f"x={source}", "--output-dir", model.parent / "out", *flags)
    return np.load(model.parent / "out" / f"{name}.npy")


def precisions(model: pathlib.Path, *flags: str) -> dict:
    text = passes("exec", f"--onnx={model}", "--skipInference", "--verbose", *flags)
    return {
        part: dtype
        for name, dtype in re.findall(r"Layer\(\w+\): (.+?), Precision: (\w+)", text)
        for part in name.split(" + ")
    }


@pytest.mark.parametrize(
    "flags",
    [
        ["--fp16"],
        ["--fp16", "--layerPrecisions=norm:fp32"],
        ["--fp16", "--layerPrecisions=*:fp16", "--precisionConstraints=obey"],
        ["--fp16", "--layerPrecisions=*:fp16,norm:fp32", "--precisionConstraints=obey"],
    ],
)
def test_squared_sums_past_the_range_of_float16(block: pathlib.Path, flags: list) -> None:
    x = (RNG.standard_normal((5, C)) * 3000).astype(np.float32)
    assert (np.float64(x @ WEIGHT) ** 2).sum(-1).min() > 65504
    assert np.abs(run(block, x, *flags) - wanted(x)).max() < 5e-3


def test_a_layer_kept_in_float32(block: pathlib.Path, tmp_path: pathlib.Path) -> None:
    shown = precisions(block, "--fp16", "--layerPrecisions=*:fp16,'norm':fp32")
    assert shown["product"] == "float16" and shown["norm"] == "float32", shown
    shown = precisions(block, "--fp16", "--layerPrecisions=norm:fp32,*:fp16")
    assert shown["norm"] == "float16", "later entries override"
    # Ignored requests change nothing: with the same timing cache the GEMM's type is the one without them.
    times = f"--timingCacheFile={tmp_path / 'times'}"
    shown = precisions(block, "--fp16", times, "--layerPrecisions=*:fp16", "--precisionConstraints=none")
    assert shown == precisions(block, "--fp16", times)
    assert {shown[name] for name in shown if name != "product"} == {"float32"}, shown


def test_requests_that_cannot_hold(block: pathlib.Path) -> None:
    assert (
        "layer product cannot obey the request for float16: the configuration does not allow it (FP16, --fp16)"
        in fails(
            "build",
            block,
            "--output",
            block.with_suffix(".plan"),
            "--layerPrecisions=*:fp16",
            "--precisionConstraints=obey",
        )
    )
    done = carnot("build", block, "--output", block.with_suffix(".plan"), "--layerPrecisions=*:fp16,nowhere:fp32")
    assert (
        done.returncode == 0
        and "layer product: the request for float16 is left out" in done.stderr
        and "there is no layer of that name" in done.stderr
    )
    assert "product cannot obey the request for int8: the configuration does not allow it (INT8, --int8," in fails(
        "build",
        block,
        "--output",
        block.with_suffix(".plan"),
        "--fp16",
        "--layerPrecisions=product:int8",
        "--precisionConstraints=obey",
    )
    assert "takes its types from the model" in fails(
        "build", block, "--output", block.with_suffix(".plan"), "--fp16", "--stronglyTyped"
    )
    # As trtexec, an entry without a type is a layer without a request: it is named.
    done = carnot("build", block, "--output", block.with_suffix(".plan"), "--fp16", "--layerPrecisions=product")
    assert done.returncode == 0 and "'product' has no effect: it names a layer but no type" in done.stderr
    assert "LAYER:TYPE is wanted" in fails(
        "build", block, "--output", block.with_suffix(".plan"), "--fp16", "--layerPrecisions=product:"
    )
    assert "'half' is no type" in fails(
        "build", block, "--output", block.with_suffix(".plan"), "--fp16", "--layerPrecisions=product:half"
    )


def test_a_half_layer_rounds_what_it_reads_and_gives(tmp_path: pathlib.Path) -> None:
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "c"], ["y"], "sum")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [257])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [257])],
        [numpy_helper.from_array(np.float32(0.1), "c")],
    )
    model = tmp_path / "sum.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), model)
    x = np.append(RNG.standard_normal(256), 70000).astype(np.float32)
    with np.errstate(over="ignore"):
        expected = (
            (x.astype(np.float16).astype(np.float32) + np.float32(np.float16(0.1)))
            .astype(np.float16)
            .astype(np.float32)
        )
    assert np.array_equal(
        run(model, x, "--fp16", "--layerPrecisions=sum:fp16", "--precisionConstraints=obey"), expected
    )
    assert np.array_equal(run(model, x), x + np.float32(0.1))
    with np.errstate(over="ignore"):
        half_out = (x + np.float32(0.1)).astype(np.float16)
    assert np.array_equal(run(model, x, "--fp16", "--layerOutputTypes=sum:fp16"), half_out)


def test_types_of_inputs_and_outputs(block: pathlib.Path) -> None:
    x = RNG.standard_normal((5, C)).astype(np.float16)
    got = run(block, x, "--fp16", "--inputIOFormats=fp16:chw", "--outputIOFormats=fp16:chw")
    assert got.dtype == np.float16 and np.abs(got - wanted(x)).max() < 2e-3
    assert "layout 'hwc4' is not available; chw, chw2," in fails(
        "build", block, "--output", block.with_suffix(".plan"), "--inputIOFormats=fp16:hwc4"
    )
    assert "tensor x: format hwc8 is for 3 to 7 dimensions, not for 2" in fails(
        "build", block, "--output", block.with_suffix(".plan"), "--inputIOFormats=fp16:hwc8"
    )
    assert "input x is float32 and cannot become int32" in fails(
        "build", block, "--output", block.with_suffix(".plan"), "--inputIOFormats=int32:chw"
    )
    assert "3 types for the 1 inputs" in fails(
        "build", block, "--output", block.with_suffix(".plan"), "--inputIOFormats=fp16:chw,fp16:chw,fp32:chw"
    )
