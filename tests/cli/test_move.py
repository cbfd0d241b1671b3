"""Repetitions and borders against NumPy, by the processor's strided copies."""
import json
import pathlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_cli import passes

TYPES = [np.float32, np.float16, np.int64, np.int8, np.bool_, np.float64]


def run(folder: pathlib.Path, op: str, x: np.ndarray, dims: list, lists: list, **attributes: object) -> tuple[np.ndarray, str]:
    """The result and the tactic of one node whose further inputs are constant."""
    weights = [numpy_helper.from_array(a, f"c{i}") for i, a in enumerate(lists)]
    dtype = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph([helper.make_node(op, ["x", *[w.name for w in weights]], ["y"], op, **attributes)], "net",
                              [helper.make_tensor_value_info("x", dtype, dims)], [helper.make_tensor_value_info("y", dtype, None)], weights)
    model, plan = folder / "m.onnx", folder / "m.plan"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), model)
    np.save(folder / "x.npy", x)
    shape = "x".join(map(str, x.shape))
    passes("build", model, "--output", plan, *[f"--shapes=x:{shape}"] * (None in dims))
    passes("run", plan, f"--input=x={folder / 'x.npy'}", "--output-dir", folder / "out")
    layers = json.loads(passes("inspect", plan, "--json"))["Layers"]
    return np.load(folder / "out" / "y.npy"), next((layer["TacticName"] for layer in layers if layer["Name"] == op), "nothing")


def numbers(dtype: type, *dims: int) -> np.ndarray:
    return (np.random.default_rng(5).standard_normal(dims) * 20).astype(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("dims", "to"), [([3, 1, 5], [2, 3, 4, 5]), ([1], [7, 9]), ([4, 1], [4, 300]), ([2, 3], [2, 3]), ([], [3, 2])])
def test_expand(dims: list, to: list, dtype: type, tmp_path: pathlib.Path) -> None:
    x = numbers(dtype, *dims)
    found, tactic = run(tmp_path, "Expand", x, dims, [np.array(to)])
    assert np.array_equal(found, np.broadcast_to(x, to)) and found.dtype == x.dtype
    assert tactic == ("nothing" if dims == to else "cpu_expand")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("dims", "times"), [([3, 4], [2, 3]), ([2, 1, 5, 3], [1, 4, 2, 1]), ([6], [5]), ([2, 3, 2, 1, 3], [1, 2, 1, 3, 2])])
def test_tile(dims: list, times: list, dtype: type, tmp_path: pathlib.Path) -> None:
    x = numbers(dtype, *dims)
    found, tactic = run(tmp_path, "Tile", x, dims, [np.array(times)])
    assert np.array_equal(found, np.tile(x, times))
    assert tactic == ("cpu_tile" if len(dims) <= 4 else "reference")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize(("dims", "begin", "end", "known"), [
    ([4, 5], [1, 2], [3, 0], True), ([2, 3, 7, 6], [0, 0, 3, 2], [0, 0, 6, 5], True), ([9], [8], [8], True),
    ([3, 4, 5, 3, 2], [1, 0, 2, 1, 0], [0, 3, 1, 2, 1], True), ([2, 3, 7, 6], [0, 0, 3, 2], [0, 0, 1, 5], False)])
def test_pad(dims: list, begin: list, end: list, known: bool, mode: str, dtype: type, tmp_path: pathlib.Path) -> None:
    x = numbers(dtype, *dims)
    value = {"constant_values": x.flat[3]} if mode == "constant" else {}
    lists = [np.array(begin + end), *[np.array(v) for v in value.values()]]
    found, tactic = run(tmp_path, "Pad", x, dims if known else [None] * len(dims), lists, mode=mode)
    assert np.array_equal(found, np.pad(x, list(zip(begin, end)), mode=mode, **value))
    assert tactic == "cpu_pad"


def test_a_border_wider_than_what_it_mirrors(tmp_path: pathlib.Path) -> None:
    x = numbers(np.float32, 3, 3)
    found, tactic = run(tmp_path, "Pad", x, [3, 3], [np.array([0, 4, 0, 5])], mode="edge")
    assert np.array_equal(found, np.pad(x, [(0, 0), (4, 5)], mode="edge")) and tactic == "cpu_pad"
    found, tactic = run(tmp_path, "Pad", x, [3, 3], [np.array([-1, 0, 0, 2])])
    assert np.array_equal(found, np.pad(x[1:], [(0, 0), (0, 2)])) and tactic == "reference"


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("mode", ["DCR", "CRD", "back"])
@pytest.mark.parametrize(("n", "depth", "rows", "columns", "size"), [(1, 3, 4, 5, 2), (2, 8, 37, 33, 3), (1, 1, 1, 1, 4), (3, 2, 5, 64, 1)])
def test_blocks(n: int, depth: int, rows: int, columns: int, size: int, mode: str, dtype: type, tmp_path: pathlib.Path) -> None:
    deep = [n, size * size * depth, rows, columns]
    if mode == "back":
        x = numbers(dtype, n, depth, rows * size, columns * size)
        wanted = x.reshape(n, depth, rows, size, columns, size).transpose(0, 3, 5, 1, 2, 4).reshape(deep)
        found, tactic = run(tmp_path, "SpaceToDepth", x, list(x.shape), [], blocksize=size)
    else:
        x = numbers(dtype, *deep)
        parts = x.reshape(n, depth, size, size, rows, columns).transpose(0, 1, 4, 2, 5, 3) if mode == "CRD" else x.reshape(
            n, size, size, depth, rows, columns).transpose(0, 3, 4, 1, 5, 2)
        wanted = parts.reshape(n, depth, rows * size, columns * size)
        found, tactic = run(tmp_path, "DepthToSpace", x, deep, [], blocksize=size, mode=mode)
    assert np.array_equal(found, wanted) and tactic == "cpu_blocks"
