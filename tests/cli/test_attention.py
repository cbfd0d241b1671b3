"""The Attention operator (opset 23) runs on the attention kernels, whichever form the model uses."""

import json
import pathlib

import numpy as np
import onnx
import pytest
from harness import CARNOT, carnot, passes
from onnx import TensorProto, helper, numpy_helper

HEADS, SIZE, BATCH, QUERIES, KEYS = 4, 16, 2, 21, 37


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """[B,H,S,D] in float64; a query with all keys masked gives zeros."""
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    scores = q @ k.transpose(0, 1, 3, 2) * q.shape[-1] ** -0.5 + bias
    top = scores.max(-1, keepdims=True)
    p = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = p.sum(-1, keepdims=True)
    return np.where(total > 0, p / np.where(total > 0, total, 1), 0) @ v


def save(path: pathlib.Path, arrays: dict, **attributes: object) -> pathlib.Path:
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in arrays.items()
    ]
    node = helper.make_node("Attention", list(arrays), ["y"], "attention", **attributes)
    graph = helper.make_graph(
        [node], "test", inputs, [helper.make_tensor_value_info("y", inputs[0].type.tensor_type.elem_type, None)]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), path)
    return path


def tactics(plan: pathlib.Path) -> list:
    return [layer["TacticName"] for layer in json.loads(passes("inspect", plan, "--json"))["Layers"]]


@pytest.mark.parametrize("kv_heads", [HEADS, 2])
@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("mask", ["none", "causal", "bool", "float", "float and causal"])
def test_against_float64(mask: str, rank: int, kv_heads: int, tmp_path: pathlib.Path) -> None:
    rng = np.random.default_rng(3)
    q = rng.standard_normal((BATCH, HEADS, QUERIES, SIZE)).astype(np.float32)
    k, v = (rng.standard_normal((BATCH, kv_heads, KEYS, SIZE)).astype(np.float32) for _ in "kv")
    arrays, attributes, bias = {"q": q, "k": k, "v": v}, {}, np.zeros((QUERIES, KEYS))
    if mask == "bool":
        seen = rng.random((BATCH, 1, QUERIES, KEYS)) > 0.4
        seen[0, 0, 5] = False
        arrays["mask"], bias = seen, np.where(seen, 0, -np.inf)
    if "float" in mask:
        arrays["mask"] = rng.standard_normal((HEADS, QUERIES, KEYS)).astype(np.float32)
        bias = arrays["mask"].astype(np.float64)
    if "causal" in mask:
        attributes["is_causal"] = 1
        bias = bias + np.where(np.arange(KEYS) > np.arange(QUERIES)[:, None], -np.inf, 0)
    wanted = attention(*(x.astype(np.float64) for x in (q, k, v)), bias)
    if rank == 3:
        attributes |= {"q_num_heads": HEADS, "kv_num_heads": kv_heads}
        for name in "qkv":
            x = arrays[name]
            arrays[name] = np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(BATCH, x.shape[2], -1)
        wanted = wanted.transpose(0, 2, 1, 3).reshape(BATCH, QUERIES, -1)
    model, plan = save(tmp_path / "m.onnx", arrays, **attributes), tmp_path / "m.plan"
    passes("build", model, "--output", plan)
    assert any("attention" in tactic for tactic in tactics(plan)), tactics(plan)
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    passes("run", plan, *[f"--input={n}={tmp_path / n}.npy" for n in arrays], "--output-dir", tmp_path / "out")
    found = np.load(tmp_path / "out" / "y.npy")
    assert found.shape == wanted.shape and np.abs(found - wanted).max() <= 2e-5 * np.abs(wanted).max()


def test_on_a_gpu_that_is_absent(tmp_path: pathlib.Path) -> None:
    if not (pathlib.Path(CARNOT).parent.parent / "lib/libcarnot_cuda.so").exists():
        pytest.skip("built without the CUDA module")
    rng = np.random.default_rng(5)
    weights = [
        numpy_helper.from_array(rng.standard_normal((256, 256)).astype(np.float32), n) for n in ("wq", "wk", "wv")
    ]
    nodes = [helper.make_node("MatMul", ["x", "w" + n], [n], n) for n in "qkv"]
    nodes.append(helper.make_node("Attention", ["q", "k", "v"], ["y"], "attention", q_num_heads=4, kv_num_heads=4))
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 64, 256]) for n in "xy"]
    graph = helper.make_graph(nodes, "test", values[:1], values[1:], weights)
    model, plan = tmp_path / "m.onnx", tmp_path / "m.plan"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10), model)
    assert carnot("build", model, "--output", plan, "--backend=cuda:sm_90", "--fp16").returncode == 0
    assert "cuda_attention" in tactics(plan)
    plain = tmp_path / "plain.plan"
    assert (
        carnot("build", model, "--output", plain, "--backend=cuda:sm_90", "--fp16", "--disablePasses=decompose_attention").returncode
        == 0
    )
    assert "cuda_attention" not in tactics(plain)


@pytest.mark.parametrize(("size", "tactic"), [(64, "cuda_attention"), (20, "cuda_generic_attention")])
@pytest.mark.parametrize("mask", [False, True])
def test_halves_on_a_gpu_that_is_absent(mask: bool, size: int, tactic: str, tmp_path: pathlib.Path) -> None:
    """A half-precision Attention is decomposed only for a fused kernel, because its sums are float32."""
    if not (pathlib.Path(CARNOT).parent.parent / "lib/libcarnot_cuda.so").exists():
        pytest.skip("built without the CUDA module")
    arrays = {n: np.zeros((BATCH, HEADS, KEYS, size), np.float16) for n in "qkv"}
    if mask:
        arrays["mask"] = np.zeros((BATCH, 1, KEYS, KEYS), bool)
    model, plan = save(tmp_path / "m.onnx", arrays, is_causal=1), tmp_path / "m.plan"
    passes("build", model, "--output", plan, "--backend=cuda:sm_90")
    assert tactic in tactics(plan) and "cuda_softmax" not in tactics(plan)
