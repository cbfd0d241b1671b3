"""Loops: swapped values, nested loops, growing sequences; memory does not grow with the iterations."""

import json
import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
from harness import passes
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh


def info(*names: str, of: int = T.FLOAT) -> list:
    return [h.make_tensor_value_info(name, of, None if of == T.FLOAT else []) for name in names]


def swap_loop(inner: bool) -> onnx.ModelProto:
    """(a, b) <- (b, sqrt((a + 1)²)), n times; |inner| adds a loop of three additions. The sums of b are stacked."""
    nodes = [h.make_node("Identity", ["c"], ["c_out"])]
    if inner:
        body = h.make_graph(
            [h.make_node("Identity", ["ic"], ["ic_out"]), h.make_node("Add", ["v", "third"], ["v_out"])],
            "inner",
            [*info("k", of=T.INT64), *info("ic", of=T.BOOL), *info("v")],
            [*info("ic_out", of=T.BOOL), *info("v_out")],
        )
        nodes.append(h.make_node("Loop", ["three", "", "a"], ["t1"], body=body))
    else:
        nodes.append(h.make_node("Add", ["a", "one"], ["t1"]))
    nodes += [
        h.make_node("Mul", ["t1", "t1"], ["t2"]),
        h.make_node("Sqrt", ["t2"], ["t3"]),
        h.make_node("Identity", ["b"], ["a_out"]),
        h.make_node("Identity", ["t3"], ["b_out"]),
        h.make_node("ReduceSum", ["t3"], ["s"], keepdims=0),
    ]
    body = h.make_graph(
        nodes,
        "body",
        [*info("i", of=T.INT64), *info("c", of=T.BOOL), *info("a", "b")],
        [*info("c_out", of=T.BOOL), *info("a_out", "b_out", "s")],
    )
    graph = h.make_graph(
        [h.make_node("Loop", ["n", "", "x", "y"], ["p", "q", "sums"], body=body)],
        "g",
        [
            h.make_tensor_value_info("n", T.INT64, []),
            *(h.make_tensor_value_info(k, T.FLOAT, [256, 1024]) for k in "xy"),
        ],
        info("p", "q", "sums"),
        [
            nh.from_array(np.float32(1), "one"),
            nh.from_array(np.float32(1 / 3), "third"),
            nh.from_array(np.int64(3), "three"),
        ],
    )
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=9)


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("n", [0, 1, 2, 301])
def test_memory_does_not_grow_with_iterations(tmp_path: pathlib.Path, inner: bool, n: int) -> None:
    rng = np.random.default_rng(n)
    feeds = {"n": np.array(n, np.int64), **{k: rng.random((256, 1024), np.float32) for k in "xy"}}
    path = tmp_path / "loop.onnx"
    onnx.save(swap_loop(inner), path)
    flags = []
    for name, value in feeds.items():
        np.save(tmp_path / f"{name}.npy", value)
        flags += ["--input", f"{name}={tmp_path / name}.npy"]
    passes("run", path, *flags, "--output-dir", tmp_path / "out")
    for name, want in zip("pq", onnxruntime.InferenceSession(path).run(None, feeds)):
        assert np.abs(np.load(tmp_path / "out" / f"{name}.npy") - want).max() <= 1e-5 * (1 + n)
    facts = json.loads(passes("bench", path, "--json", "--duration=0.1"))
    assert facts["peak_rss_mb"] < 120, "1 MB of temporaries an iteration, 1000 made-up iterations at most"


def test_sequences_grow_in_a_loop(tmp_path: pathlib.Path) -> None:
    body = h.make_graph(
        [
            h.make_node("Identity", ["c"], ["c_out"]),
            h.make_node("Cast", ["i"], ["f"], to=T.FLOAT),
            h.make_node("Mul", ["x", "f"], ["m"]),
            h.make_node("SequenceInsert", ["s", "m"], ["s_out"]),
        ],
        "body",
        [*info("i", of=T.INT64), *info("c", of=T.BOOL), h.make_tensor_sequence_value_info("s", T.FLOAT, None)],
        [*info("c_out", of=T.BOOL), h.make_tensor_sequence_value_info("s_out", T.FLOAT, None)],
    )
    after = h.make_graph(
        [h.make_node("Identity", ["d"], ["d_out"]), h.make_node("Add", ["w", "w"], ["w_out"])],
        "after",
        [*info("j", of=T.INT64), *info("d", of=T.BOOL), *info("w")],
        [*info("d_out", of=T.BOOL), *info("w_out")],
    )
    graph = h.make_graph(
        [
            h.make_node("SequenceEmpty", [], ["empty"]),
            h.make_node("Loop", ["n", "", "empty"], ["seq"], body=body),
            h.make_node("Loop", ["n", "", "x"], ["later"], body=after),
            h.make_node("ConcatFromSequence", ["seq"], ["y"], axis=0),
        ],
        "g",
        [h.make_tensor_value_info("x", T.FLOAT, [4])],
        info("y", "later"),
        [nh.from_array(np.int64(9), "n")],
    )
    path = tmp_path / "grow.onnx"
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=9), path)
    x = np.arange(4, dtype=np.float32) + 1
    np.save(tmp_path / "x.npy", x)
    passes("run", path, "--input", tmp_path / "x.npy", "--output-dir", tmp_path / "out")
    assert np.array_equal(np.load(tmp_path / "out/y.npy"), np.concatenate([x * i for i in range(9)]))
    assert np.array_equal(np.load(tmp_path / "out/later.npy"), x * 512)
