"""carnot quantize: ONNX files with Q/DQ nodes, beside ONNX's reference evaluator and ONNX Runtime."""

import json
import os
import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
from harness import fails, passes
from onnx import helper as h
from onnx import numpy_helper as nh
from onnx.reference import ReferenceEvaluator
from test_calibration import SAMPLES, block_of_a_residual_network, folder_of

RNG = np.random.default_rng(8)


def relative(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def save(model: onnx.ModelProto, path: pathlib.Path, opset: int) -> pathlib.Path:
    model.opset_import[0].version = opset
    model.ir_version = 10
    onnx.save(model, path)
    return path


def run(model: pathlib.Path, x: np.ndarray, folder: pathlib.Path) -> np.ndarray:
    np.save(folder / "in.npy", x)
    passes("run", model, "--input", f"x={folder / 'in.npy'}", "--output-dir", folder / f"of_{model.stem}")
    return np.load(folder / f"of_{model.stem}" / "y.npy")


def by_onnxruntime(model: pathlib.Path, x: np.ndarray, optimized: str = "") -> np.ndarray:
    """Exact: integers without saturation, and without the pass that leaves out Relu before FP8."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    if optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = optimized
    return onnxruntime.InferenceSession(model, options).run(None, {"x": x})[0]


def operators(path: pathlib.Path) -> list[str]:
    return [node.op_type for node in onnx.load(path).graph.node]


@pytest.fixture
def model(tmp_path: pathlib.Path) -> pathlib.Path:
    folder_of(tmp_path / "data", x=SAMPLES)
    return save(block_of_a_residual_network(), tmp_path / "m.onnx", 17)


@pytest.mark.parametrize(
    ("flags", "opset", "limit"),
    [((), 13, 0.02), (("--for=openvino",), 17, 0.02), (("--for=onnxruntime",), 17, 0.02), (("--types=fp8",), 19, 0.06)],
)
def test_the_file_computes_what_onnx_says(model, tmp_path, flags, opset, limit):
    wanted = onnxruntime.InferenceSession(model).run(None, {"x": SAMPLES})[0]
    save(onnx.load(model), model, opset)
    out = tmp_path / "q.onnx"
    assert "5 layers quantized" in passes("quantize", model, "--output", out, f"--calibData={tmp_path / 'data'}", *flags)
    onnx.checker.check_model(out, full_check=True)
    newer = save(onnx.load(out), tmp_path / "newer.onnx", 21)  # the evaluator has no old versions
    reference = ReferenceEvaluator(str(newer)).run(None, {"x": SAMPLES})[0]
    ours, theirs = run(out, SAMPLES, tmp_path), by_onnxruntime(out, SAMPLES)
    assert relative(ours, theirs) < 1e-2 * limit
    # A mean of bytes may lie half-way between two steps, where the order of the evaluator's sum decides: of one sample.
    differ = [s for s in range(len(SAMPLES)) if relative(ours[s], reference[s]) >= 1e-2 * limit]
    assert len(differ) <= 1 and relative(theirs, reference) < limit, differ
    assert relative(reference, wanted) < limit
    assert sorted(i.name for i in onnx.load(out).graph.initializer if i.name in "abcde") == []


def test_any_runtime_takes_symmetric_int8(model, tmp_path):
    passes("quantize", model, "--output", tmp_path / "q.onnx", f"--calibData={tmp_path / 'data'}")
    for tensor in onnx.load(tmp_path / "q.onnx").graph.initializer:
        if tensor.name.endswith("_zero_point"):
            assert tensor.data_type == onnx.TensorProto.INT8 and not nh.to_array(tensor).any()


def test_onnxruntime_fuses_all_of_its_form(model, tmp_path):
    out, optimized = tmp_path / "q.onnx", tmp_path / "o.onnx"
    passes("quantize", model, "--output", out, f"--calibData={tmp_path / 'data'}", "--for=onnxruntime")
    by_onnxruntime(out, SAMPLES, optimized=str(optimized))
    ops = operators(optimized)
    assert ops.count("QLinearConv") == 4 and "QLinearAdd" in ops and "Conv" not in ops and "FusedConv" not in ops


@pytest.mark.parametrize("flags", [(), ("--for=openvino",), ("--for=onnxruntime",)])
def test_carnot_runs_it_quantized(model, tmp_path, flags):
    passes("quantize", model, "--output", tmp_path / "q.onnx", f"--calibData={tmp_path / 'data'}", *flags)
    passes("build", tmp_path / "q.onnx", "--output", tmp_path / "q.plan", "--builderOptimizationLevel=0")
    layers = json.loads(passes("inspect", tmp_path / "q.plan", "--json"))["Layers"]
    kinds = [layer["LayerType"] for layer in layers]
    assert kinds.count("QUANTIZE") + kinds.count("DEQUANTIZE") <= 2, layers
    tactics = [layer["TacticName"] for layer in layers]
    assert sum("s8" in tactic for tactic in tactics) == 5 and sum("_bytes" in tactic for tactic in tactics) == 2, tactics


def test_a_cache_gives_the_same_file_and_layers_stay_out(model, tmp_path):
    data, cache = f"--calibData={tmp_path / 'data'}", f"--calib={tmp_path / 'cache'}"
    passes("quantize", model, "--output", tmp_path / "a.onnx", data, cache, "--calibrator=entropy2")
    passes("quantize", model, "--output", tmp_path / "b.onnx", cache)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    said = passes("quantize", model, "--output", tmp_path / "c.onnx", cache, "--layerPrecisions=node_of_[py]:fp32")
    assert "3 layers quantized" in said
    names = {i.name for i in onnx.load(tmp_path / "c.onnx").graph.initializer}
    assert {"a", "e"} <= names and not {"b", "c", "d"} & names


def gemms() -> onnx.ModelProto:
    """MatMul with K = 70, Gemm with transB, a weight that an If reads too."""
    w = (RNG.standard_normal((70, 48)) / 8).astype(np.float32)
    v = (RNG.standard_normal((32, 48)) / 7).astype(np.float32)
    then = h.make_graph([h.make_node("ReduceMax", ["v"], ["t"], keepdims=0)], "then", [], [h.make_tensor_value_info("t", 1, [])])
    other = h.make_graph([h.make_node("ReduceMin", ["v"], ["o"], keepdims=0)], "else", [], [h.make_tensor_value_info("o", 1, [])])
    nodes = [
        h.make_node("MatMul", ["x", "w"], ["a"], name="first"),
        h.make_node("Gelu", ["a"], ["b"]),
        h.make_node("Gemm", ["b", "v", "bias"], ["c"], name="second", transB=1),
        h.make_node("If", ["yes"], ["d"], then_branch=then, else_branch=other),
        h.make_node("Add", ["c", "d"], ["y"]),
    ]
    tensors = {"w": w, "v": v, "bias": RNG.standard_normal(32).astype(np.float32), "yes": np.array(True)}
    graph = h.make_graph(
        nodes,
        "g",
        [h.make_tensor_value_info("x", 1, ["n", 70])],
        [h.make_tensor_value_info("y", 1, ["n", 32])],
        [nh.from_array(t, k) for k, t in tensors.items()],
    )
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("block", [16, 32, 64])
def test_4_bit_weights(tmp_path, block):
    path, out = save(gemms(), tmp_path / "m.onnx", 21), tmp_path / "q.onnx"
    x = RNG.standard_normal((5, 70)).astype(np.float32)
    assert "2 layers quantized" in passes("quantize", path, "--types=int4", f"--blockSize={block}", "--output", out)
    onnx.checker.check_model(out, full_check=True)
    graph = onnx.load(out).graph
    tensors = {i.name: i for i in graph.initializer}
    assert "w" not in tensors and "v" in tensors  # the If reads it
    assert tensors["w_scale"].dims == [-(-70 // block), 48] and tensors["v_scale"].dims == [32, -(-48 // block)]
    assert tensors["w_quantized"].data_type == onnx.TensorProto.INT4
    wanted = onnxruntime.InferenceSession(path).run(None, {"x": x})[0]
    found = by_onnxruntime(out, x)
    assert relative(run(out, x, tmp_path), found) < 1e-5 and relative(found, wanted) < 0.12


def test_a_weight_of_two_layers_is_written_once(tmp_path):
    w = (RNG.standard_normal((16, 16)) / 4).astype(np.float32)
    nodes = [h.make_node("MatMul", ["x", "w"], ["a"]), h.make_node("Relu", ["a"], ["b"]), h.make_node("MatMul", ["b", "w"], ["y"])]
    graph = h.make_graph(
        nodes, "g", [h.make_tensor_value_info("x", 1, [2, 16])], [h.make_tensor_value_info("y", 1, [2, 16])], [nh.from_array(w, "w")]
    )
    path = save(h.make_model(graph), tmp_path / "m.onnx", 17)
    folder_of(tmp_path / "data", x=RNG.standard_normal((8, 16)).astype(np.float32))
    passes("quantize", path, "--output", tmp_path / "q.onnx", f"--calibData={tmp_path / 'data'}")
    names = [i.name for i in onnx.load(tmp_path / "q.onnx").graph.initializer]
    assert names.count("w_quantized") == 1 and not any(name.startswith("w_quantized_") for name in names)


def test_names_that_are_taken_get_numbers(model, tmp_path):
    taken = onnx.load(model)
    taken.graph.node.append(h.make_node("Identity", ["x"], ["x_quantized"]))
    taken.graph.output.append(h.make_tensor_value_info("x_quantized", 1, ["n", 3, 12, 12]))
    onnx.save(taken, model)
    passes("quantize", model, "--output", tmp_path / "q.onnx", f"--calibData={tmp_path / 'data'}")
    onnx.checker.check_model(tmp_path / "q.onnx", full_check=True)
    assert "x_quantized_1" in {o for node in onnx.load(tmp_path / "q.onnx").graph.node for o in node.output}


def test_external_data(model, tmp_path):
    (tmp_path / "other").mkdir()
    whole = onnx.load(model)
    path = tmp_path / "e.onnx"
    onnx.save(whole, path, save_as_external_data=True, location="e.data", size_threshold=0)
    flags = (f"--calibData={tmp_path / 'data'}", "--layerPrecisions=node_of_p:fp32")
    passes("quantize", path, "--output", tmp_path / "q.onnx", *flags)
    assert relative(run(tmp_path / "q.onnx", SAMPLES, tmp_path), run(path, SAMPLES, tmp_path)) < 0.02
    said = fails("quantize", path, "--output", tmp_path / "other" / "q.onnx", *flags)
    assert "initializer a is in a file beside the model" in said and not os.listdir(tmp_path / "other")


@pytest.mark.parametrize(
    ("flags", "opset", "said"),
    [
        (("DATA",), 12, "int8 needs opset 13, the model has 12"),
        (("DATA", "--types=fp8"), 17, "float8e4m3fn needs opset 19, the model has 17"),
        (("--types=int4",), 17, "int4 needs opset 21, the model has 17"),
        (("DATA", "--layerPrecisions=*:fp32"), 17, "no layer can be quantized"),
        (("--types=int2",), 17, "--types is 'int2', must be one of int8, fp8, int4"),
        (("--types=int4", "--blockSize=7"), 21, "--blockSize is '7', must be an integer in [16, 4096]"),
    ],
)
def test_models_that_do_not_fit(model, tmp_path, flags, opset, said):
    save(onnx.load(model), model, opset)
    given = [f"--calibData={tmp_path / 'data'}" if flag == "DATA" else flag for flag in flags]
    assert said in fails("quantize", model, "--output", tmp_path / "q.onnx", *given)
    assert not (tmp_path / "q.onnx").exists()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), "ranges are needed: give --calibData=DIR or --calib=CACHE"),
        (("--types=int4", "--calib=c"), "it takes no calibration"),
        (("--types=fp8", "--for=openvino", "--calib=c"), "--for has no effect without --types=int8"),
        (("--attention", "--calib=c"), "--attention has no effect without --types=fp8"),
        (("--blockSize=32", "--calib=c"), "--blockSize has no effect without --types=int4"),
    ],
)
def test_wrong_command_lines(model, tmp_path, flags, said):
    assert said in fails("quantize", model, "--output", tmp_path / "q.onnx", *flags, code=2)


def attention(guarded: bool, biased: bool) -> onnx.ModelProto:
    """Two heads of 16 over 24 rows: scales of queries and keys, or of the scores, and a guard against empty rows.
    |biased|: projections add a constant, values a large one."""
    tensors = {name: (RNG.standard_normal((32, 32)) / 5).astype(np.float32) for name in ("wq", "wk", "wv", "wo")}
    tensors |= {"shape": np.array([0, 24, 2, 16]), "joined": np.array([0, 24, 32]), "scale": np.float32(0.5 if guarded else 0.25)}
    nodes = [
        *(h.make_node("MatMul", ["x", f"w{i}"], [f"{i}{'m' if biased else '0'}"]) for i in "qkv"),
        *(h.make_node("Add", [f"b{i}", f"{i}m"], [f"{i}0"]) for i in ("qkv" if biased else "")),
        *(h.make_node("Reshape", [f"{i}0", "shape"], [f"{i}1"]) for i in "qkv"),
        *(h.make_node("Transpose", [f"{i}1"], [f"{i}2"], perm=[0, 2, 3, 1] if i == "k" else [0, 2, 1, 3]) for i in "qkv"),
    ]
    if biased:
        tensors |= {f"b{i}": (RNG.standard_normal(32) + 3 * (i == "v")).astype(np.float32) for i in "qkv"}
    if guarded:
        tensors["none"] = np.float32(0)
        nodes += [
            *(h.make_node("Mul", [f"{i}2", "scale"], [f"{i}3"]) for i in "qk"),
            h.make_node("MatMul", ["q3", "k3"], ["s"]),
            h.make_node("Softmax", ["s"], ["p0"], axis=-1),
            h.make_node("IsNaN", ["p0"], ["empty"]),
            h.make_node("Where", ["empty", "none", "p0"], ["p"]),
        ]
    else:
        nodes += [
            h.make_node("MatMul", ["q2", "k2"], ["s0"]),
            h.make_node("Mul", ["s0", "scale"], ["s"]),
            h.make_node("Softmax", ["s"], ["p"], axis=-1),
        ]
    nodes += [
        h.make_node("MatMul", ["p", "v2"], ["a"]),
        h.make_node("Transpose", ["a"], ["b"], perm=[0, 2, 1, 3]),
        h.make_node("Reshape", ["b", "joined"], ["c"]),
        h.make_node("MatMul", ["c", "wo"], ["y"]),
    ]
    x, y = (h.make_tensor_value_info(name, 1, [4, 24, 32]) for name in "xy")
    graph = h.make_graph(nodes, "g", [x], [y], [nh.from_array(np.asarray(w), name) for name, w in tensors.items()])
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 20)])


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("guarded", [False, True])
def test_attention_in_fp8(tmp_path, guarded, biased):
    x = RNG.standard_normal((4, 24, 32)).astype(np.float32)
    model, out = save(attention(guarded, biased), tmp_path / "m.onnx", 20), tmp_path / "q.onnx"
    folder_of(tmp_path / "data", x=x)
    flags = (f"--calibData={tmp_path / 'data'}", "--types=fp8", "--attention")
    assert "4 layers quantized" in passes("quantize", model, "--output", out, *flags)
    onnx.checker.check_model(out, full_check=True)
    graph = onnx.load(out).graph
    rounded = {node.input[0]: node.input[1] for node in graph.node if node.op_type == "QuantizeLinear"}
    assert set(rounded) == {"x", "q0", "k0", "v0", "p", "c"}  # queries, keys and values as their projections write them
    scales = {i.name: nh.to_array(i) for i in graph.initializer}
    assert scales[rounded["p"]] == np.float32(1 / 448)
    parts = {float(scales[rounded[f"{i}0"]]) for i in "qkv"}
    assert len(parts) == (1 if biased else 3)  # projections with a bias can become one GEMM, with one scale
    wanted, theirs = by_onnxruntime(model, x), by_onnxruntime(out, x)
    assert relative(run(out, x, tmp_path), theirs) < 1e-2
    assert 1e-2 < relative(theirs, wanted) < 0.15  # four roundings to three bits, one behind another


def test_files_that_are_no_model(tmp_path):
    (tmp_path / "m.onnx").write_text("no model")
    assert "m.onnx" in fails("quantize", tmp_path / "m.onnx", "--types=int4", "--output", tmp_path / "q.onnx")
    assert "the block size is 48, must be a power of two" in fails(
        "quantize", save(gemms(), tmp_path / "g.onnx", 21), "--types=int4", "--blockSize=48", "--output", tmp_path / "q.onnx"
    )
