"""Expand, Tile, Pad, DepthToSpace and SpaceToDepth against NumPy, by the strided-copy tactics of the CPU."""

import pathlib

import numpy as np
import pytest
from single_op import numbers, run_op

TYPES = [np.float32, np.float16, np.int64, np.int8, np.bool_, np.float64]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("dims", "to"), [([3, 1, 5], [2, 3, 4, 5]), ([1], [7, 9]), ([4, 1], [4, 300]), ([2, 3], [2, 3]), ([], [3, 2])]
)
def test_expand(dims: list, to: list, dtype: type, tmp_path: pathlib.Path) -> None:
    x = numbers(dtype, *dims)
    found, tactic = run_op(tmp_path, "Expand", x, dims, [np.array(to)])
    assert np.array_equal(found, np.broadcast_to(x, to)) and found.dtype == x.dtype
    assert tactic == ("nothing" if dims == to else "cpu_expand")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(
    ("dims", "times"), [([3, 4], [2, 3]), ([2, 1, 5, 3], [1, 4, 2, 1]), ([6], [5]), ([2, 3, 2, 1, 3], [1, 2, 1, 3, 2])]
)
def test_tile(dims: list, times: list, dtype: type, tmp_path: pathlib.Path) -> None:
    x = numbers(dtype, *dims)
    found, tactic = run_op(tmp_path, "Tile", x, dims, [np.array(times)])
    assert np.array_equal(found, np.tile(x, times))
    assert tactic == ("cpu_tile" if len(dims) <= 4 else "reference")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize(
    ("dims", "begin", "end", "known"),
    [
        ([4, 5], [1, 2], [3, 0], True),
        ([2, 3, 7, 6], [0, 0, 3, 2], [0, 0, 6, 5], True),
        ([9], [8], [8], True),
        ([3, 4, 5, 3, 2], [1, 0, 2, 1, 0], [0, 3, 1, 2, 1], True),
        ([2, 3, 7, 6], [0, 0, 3, 2], [0, 0, 1, 5], False),
    ],
)
def test_pad(dims: list, begin: list, end: list, known: bool, mode: str, dtype: type, tmp_path: pathlib.Path) -> None:
    x = numbers(dtype, *dims)
    value = {"constant_values": x.flat[3]} if mode == "constant" else {}
    lists = [np.array(begin + end), *[np.array(v) for v in value.values()]]
    found, tactic = run_op(tmp_path, "Pad", x, dims if known else [None] * len(dims), lists, mode=mode)
    assert np.array_equal(found, np.pad(x, list(zip(begin, end)), mode=mode, **value))
    assert tactic == "cpu_pad"


def test_a_border_wider_than_what_it_mirrors(tmp_path: pathlib.Path) -> None:
    x = numbers(np.float32, 3, 3)
    found, tactic = run_op(tmp_path, "Pad", x, [3, 3], [np.array([0, 4, 0, 5])], mode="edge")
    assert np.array_equal(found, np.pad(x, [(0, 0), (4, 5)], mode="edge")) and tactic == "cpu_pad"
    found, tactic = run_op(tmp_path, "Pad", x, [3, 3], [np.array([-1, 0, 0, 2])])
    assert np.array_equal(found, np.pad(x[1:], [(0, 0), (0, 2)])) and tactic == "reference"


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("mode", ["DCR", "CRD", "back"])
@pytest.mark.parametrize(
    ("n", "depth", "rows", "columns", "size"), [(1, 3, 4, 5, 2), (2, 8, 37, 33, 3), (1, 1, 1, 1, 4), (3, 2, 5, 64, 1)]
)
def test_blocks(
    n: int, depth: int, rows: int, columns: int, size: int, mode: str, dtype: type, tmp_path: pathlib.Path
) -> None:
    deep = [n, size * size * depth, rows, columns]
    if mode == "back":
        x = numbers(dtype, n, depth, rows * size, columns * size)
        wanted = x.reshape(n, depth, rows, size, columns, size).transpose(0, 3, 5, 1, 2, 4).reshape(deep)
        found, tactic = run_op(tmp_path, "SpaceToDepth", x, list(x.shape), [], blocksize=size)
    else:
        x = numbers(dtype, *deep)
        parts = (
            x.reshape(n, depth, size, size, rows, columns).transpose(0, 1, 4, 2, 5, 3)
            if mode == "CRD"
            else x.reshape(n, size, size, depth, rows, columns).transpose(0, 3, 4, 1, 5, 2)
        )
        wanted = parts.reshape(n, depth, rows * size, columns * size)
        found, tactic = run_op(tmp_path, "DepthToSpace", x, deep, [], blocksize=size, mode=mode)
    assert np.array_equal(found, wanted) and tactic == "cpu_depth_space"
