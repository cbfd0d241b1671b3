"""Operators that networks hold rarely, on the processor's rows, against ONNX Runtime."""
import pathlib

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper
from test_cli import carnot, fails

RNG = np.random.default_rng(11)


def write(folder: pathlib.Path, op: str, inputs: dict, constants: dict, symbolic: bool, **attributes: object) -> list:
    """One node over |inputs| and |constants|, in this order; the arguments that run it."""
    def value(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim if symbolic else array.shape)

    kind = helper.np_dtype_to_tensor_dtype({**inputs, **constants}["values" if op == "OneHot" else "x"].dtype)
    graph = helper.make_graph([helper.make_node(op, [*inputs, *constants], ["y"], op, **attributes)], "net",
                              [value(k, v) for k, v in inputs.items()], [helper.make_tensor_value_info("y", kind, None)],
                              [numpy_helper.from_array(v, k) for k, v in constants.items()])
    model = folder / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), model)
    arguments = ["run", model, "--output-dir", folder, "--backend=cpu", "--dumpProfile", "--threads=2"]
    for name, array in inputs.items():
        np.save(folder / f"{name}.npy", array)
        arguments.append(f"--input={name}={folder / f'{name}.npy'}")
    return arguments


def same(folder: pathlib.Path, tactic: str, op: str, inputs: dict, constants: dict | None = None, symbolic: bool = False,
         limit: float = 0, **attributes: object) -> np.ndarray:
    """ONNX Runtime's result, and that |tactic| gave it: to the bit where |limit| is 0."""
    done = carnot(*write(folder, op, inputs, constants or {}, symbolic, **attributes))
    assert done.returncode == 0, done.stderr
    found = np.load(folder / "y.npy")
    wanted = ort.InferenceSession(folder / "m.onnx", providers=["CPUExecutionProvider"]).run(None, inputs)[0]
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=limit, atol=limit * float(np.abs(wanted).max(initial=0)))
    assert tactic in done.stderr or not found.size, done.stderr
    return found


def numbers(*dims: int, dtype: type = np.float32) -> np.ndarray:
    return (RNG.standard_normal(dims) * 20).astype(dtype)


def picks(limit: int, *dims: int, dtype: type = np.int64) -> np.ndarray:
    return RNG.integers(-limit, limit, dims).astype(dtype)


ELEMENTS = [([300, 130], [300, 130], 1), ([300, 130], [77, 40], 0), ([4, 60, 5, 70], [4, 33, 5, 70], 1), ([4, 60, 5, 70], [3, 60, 2, 9], -1),
            ([90000], [70000], 0), ([500, 40], [500, 1], 1), ([1, 40], [1, 9], 0), ([7, 5], [0, 5], 0), ([3, 2, 2, 3, 2, 2], [3, 1, 2, 2, 2, 2], 2)]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.int8])
@pytest.mark.parametrize(("dims", "of", "axis"), ELEMENTS)
def test_gather_elements(dims: list, of: list, axis: int, dtype: type, tmp_path: pathlib.Path) -> None:
    inputs = {"x": numbers(*dims, dtype=dtype), "i": picks(dims[axis], *of, dtype=np.int32 if dtype == np.int8 else np.int64)}
    same(tmp_path, "cpu_gather_elements", "GatherElements", inputs, axis=axis, symbolic=dtype == np.float16)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize(("dims", "of", "axis"), ELEMENTS)
def test_scatter_elements(dims: list, of: list, axis: int, reduction: str, tmp_path: pathlib.Path) -> None:
    inputs = {"x": numbers(*dims), "i": picks(dims[axis], *of), "u": numbers(*of) / 16}
    # Places that are met again give products of any size.
    same(tmp_path, "cpu_scatter_elements", "ScatterElements", inputs, axis=axis, reduction=reduction, symbolic=reduction == "mul")


@pytest.mark.parametrize("dtype", [np.float16, np.int64, np.int8])
def test_scatter_elements_of_other_widths(dtype: type, tmp_path: pathlib.Path) -> None:
    inputs = {"x": numbers(50, 60, dtype=dtype), "i": picks(60, 50, 30, dtype=np.int32), "u": numbers(50, 30, dtype=dtype)}
    same(tmp_path, "cpu_scatter_elements", "ScatterElements", inputs, axis=1)


@pytest.mark.parametrize("op", ["GatherElements", "ScatterElements"])
def test_an_index_out_of_range(op: str, tmp_path: pathlib.Path) -> None:
    index = picks(60, 50, 30)
    index[40, 3] = 60
    inputs = {"x": numbers(50, 60), "i": index, **({"u": numbers(50, 30)} if op == "ScatterElements" else {})}
    assert "index 60 (number 1203) is outside [-60, 60)" in fails(*write(tmp_path, op, inputs, {}, False, axis=1))
