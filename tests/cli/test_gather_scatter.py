"""GatherElements, ScatterElements and OneHot beside ONNX Runtime."""

import pathlib

import numpy as np
import pytest
from harness import carnot, fails
from ort_compare import normal, picks, same, write

ELEMENTS = [
    ([300, 130], [300, 130], 1),
    ([300, 130], [77, 40], 0),
    ([4, 60, 5, 70], [4, 33, 5, 70], 1),
    ([4, 60, 5, 70], [3, 60, 2, 9], -1),
    ([90000], [70000], 0),
    ([500, 40], [500, 1], 1),
    ([1, 40], [1, 9], 0),
    ([7, 5], [0, 5], 0),
    ([3, 2, 2, 3, 2, 2], [3, 1, 2, 2, 2, 2], 2),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.int8])
@pytest.mark.parametrize(("dims", "of", "axis"), ELEMENTS)
def test_gather_elements(dims: list, of: list, axis: int, dtype: type, tmp_path: pathlib.Path) -> None:
    inputs = {
        "x": normal(*dims, dtype=dtype),
        "i": picks(dims[axis], *of, dtype=np.int32 if dtype == np.int8 else np.int64),
    }
    same(tmp_path, "cpu_gather_elements", "GatherElements", inputs, axis=axis, symbolic=dtype == np.float16)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize(("dims", "of", "axis"), ELEMENTS)
def test_scatter_elements(dims: list, of: list, axis: int, reduction: str, tmp_path: pathlib.Path) -> None:
    inputs = {"x": normal(*dims), "i": picks(dims[axis], *of), "u": normal(*of) / 16}
    # Repeated indices give products of any magnitude.
    same(
        tmp_path,
        "cpu_scatter_elements",
        "ScatterElements",
        inputs,
        axis=axis,
        reduction=reduction,
        symbolic=reduction == "mul",
    )


@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.int8])
def test_scatter_elements_of_other_widths(dtype: type, tmp_path: pathlib.Path) -> None:
    inputs = {
        "x": normal(50, 60, dtype=dtype),
        "i": picks(60, 50, 30, dtype=np.int32),
        "u": normal(50, 30, dtype=dtype),
    }
    same(tmp_path, "cpu_scatter_elements", "ScatterElements", inputs, axis=1)


@pytest.mark.parametrize("op", ["GatherElements", "ScatterElements"])
def test_an_index_out_of_range(op: str, tmp_path: pathlib.Path) -> None:
    index = picks(60, 50, 30)
    index[40, 3] = 60
    inputs = {"x": normal(50, 60), "i": index, **({"u": normal(50, 30)} if op == "ScatterElements" else {})}
    assert "index 60 (number 1203) is outside [-60, 60)" in fails(*write(tmp_path, op, inputs, {}, False, axis=1))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.int8, np.bool_])
@pytest.mark.parametrize(
    ("dims", "depth", "axis"),
    [([1000], 500, -1), ([1000], 50, 0), ([30, 40], 60, 1), ([30, 1, 7], 9, -2), ([], 9, 0), ([0, 3], 5, 1)],
)
def test_one_hot(dims: list, depth: int, axis: int, dtype: type, tmp_path: pathlib.Path) -> None:
    index = picks(
        depth + 5, *dims, dtype=np.int32 if dtype == np.int8 else np.int64
    )  # indices out of range set nothing
    inputs, values = {"indices": index}, np.array([2, 1] if dtype != np.bool_ else [0, 1]).astype(dtype)
    done = carnot(
        *write(tmp_path, "OneHot", inputs, {"depth": np.array(depth), "values": values}, len(dims) == 2, axis=axis)
    )
    assert done.returncode == 0 and ("cpu_one_hot" in done.stderr or not index.size), done.stderr
    hot = np.expand_dims(np.where(index < 0, index + depth, index), axis) == np.arange(depth).reshape(
        [-1] + [1] * (np.ndim(index) - axis % (np.ndim(index) + 1))
    )
    assert np.array_equal(np.load(tmp_path / "y.npy"), np.where(hot, values[1], values[0]))
