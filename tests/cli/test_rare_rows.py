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

    kind = attributes.get("to") or helper.np_dtype_to_tensor_dtype({**inputs, **constants}["values" if op == "OneHot" else "x"].dtype)
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


def boxes(count: int, height: int, width: int) -> np.ndarray:
    """Some beyond the map, some of less than an element, one the wrong way round."""
    corners = RNG.uniform(-3, [width + 3, height + 3], (count, 2, 2))
    boxes = np.concatenate([corners.min(1), corners.max(1)], 1)
    boxes[0], boxes[1], boxes[2] = [5, 5, 5.2, 5.1], [9, 8, 2, 3], [-9, -9, width + 9, height + 9]
    return boxes.astype(np.float32)


@pytest.mark.parametrize("channels", [3, 70])
@pytest.mark.parametrize("sampling", [0, 1, 3])
@pytest.mark.parametrize("place", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_roi_align(mode: str, place: str, sampling: int, channels: int, tmp_path: pathlib.Path) -> None:
    inputs = {"x": numbers(2, channels, 23, 31), "rois": boxes(40, 23 * 2, 31 * 2), "i": RNG.integers(0, 2, 40)}
    # ONNX Runtime's coordinates are float32.
    same(tmp_path, "cpu_roi_align_f32", "RoiAlign", inputs, limit=1e-5, symbolic=sampling == 1, mode=mode, output_height=5, output_width=7,
         sampling_ratio=sampling, spatial_scale=0.5, coordinate_transformation_mode=place)


def test_a_region_of_no_image(tmp_path: pathlib.Path) -> None:
    inputs = {"x": numbers(2, 3, 23, 31), "rois": boxes(4, 23, 31), "i": np.array([0, 1, 2, 0])}
    assert "a region names image 2 of 2" in fails(*write(tmp_path, "RoiAlign", inputs, {}, False))


@pytest.mark.parametrize("channels", [1, 20])
@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_grid_sample(mode: str, padding: str, align_corners: int, channels: int, tmp_path: pathlib.Path) -> None:
    # ONNX Runtime does not move places to the border before it lays four elements around them.
    far = 1 if (mode, padding) == ("cubic", "border") else 1.7
    inputs = {"x": numbers(2, channels, 23, 31), "grid": RNG.uniform(-far, far, (2, 40, 30, 2)).astype(np.float32)}
    same(tmp_path, "cpu_grid_sample_f32", "GridSample", inputs, limit=0 if mode == "nearest" else 1e-5, symbolic=padding == "border",
         mode=mode, padding_mode=padding, align_corners=align_corners)


def test_a_volume_is_sampled_by_the_reference(tmp_path: pathlib.Path) -> None:
    inputs = {"x": numbers(2, 3, 5, 6, 7), "grid": RNG.uniform(-1.2, 1.2, (2, 4, 5, 6, 3)).astype(np.float32)}
    same(tmp_path, "reference", "GridSample", inputs, limit=1e-5)


@pytest.mark.parametrize(("dims", "axis"), [([300, 333], 1), ([300, 333], 0), ([7, 40, 5, 11], -3), ([90000], 0), ([4, 0], 1), ([4, 0], 0)])
def test_hardmax(dims: list, axis: int, tmp_path: pathlib.Path) -> None:
    x = np.rint(numbers(*dims))
    if x.size > 100:
        x.flat[50] = np.nan
    found = same(tmp_path, "cpu_hardmax_f32", "Hardmax", {"x": np.nan_to_num(x, nan=1e9)}, axis=axis, symbolic=len(dims) == 4)
    # Of several largest elements the first one; NaN is the largest.
    assert carnot(*write(tmp_path, "Hardmax", {"x": x}, {}, False, axis=axis)).returncode == 0
    assert np.array_equal(np.load(tmp_path / "y.npy"), found)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int32])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize(("dims", "axis"), [([300, 333], 1), ([300, 333], 0), ([7, 40, 5, 21], -3), ([3, 200], -1), ([90000], 0), ([4, 0], 1)])
def test_cumsum(dims: list, axis: int, exclusive: int, reverse: int, dtype: type, tmp_path: pathlib.Path) -> None:
    x = numbers(*dims, dtype=dtype)
    found = same(tmp_path, "cpu_cumulative", "CumSum", {"x": x}, {"axis": np.array(axis)}, limit=1e-4 if dtype == np.float32 else 0,
                 exclusive=exclusive, reverse=reverse, symbolic=len(dims) == 4)
    if not reverse and not exclusive:  # float32 is added in double
        assert np.array_equal(found, np.cumsum(x, axis, np.float64 if dtype == np.float32 else dtype).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.int8, np.bool_])
@pytest.mark.parametrize(("dims", "depth", "axis"), [([1000], 500, -1), ([1000], 50, 0), ([30, 40], 60, 1), ([30, 1, 7], 9, -2), ([], 9, 0), ([0, 3], 5, 1)])
def test_one_hot(dims: list, depth: int, axis: int, dtype: type, tmp_path: pathlib.Path) -> None:
    index = picks(depth + 5, *dims, dtype=np.int32 if dtype == np.int8 else np.int64)  # those outside set nothing
    inputs, values = {"indices": index}, np.array([2, 1] if dtype != np.bool_ else [0, 1]).astype(dtype)
    done = carnot(*write(tmp_path, "OneHot", inputs, {"depth": np.array(depth), "values": values}, len(dims) == 2, axis=axis))
    assert done.returncode == 0 and ("cpu_one_hot" in done.stderr or not index.size), done.stderr
    hot = np.expand_dims(np.where(index < 0, index + depth, index), axis) == np.arange(depth).reshape([-1] + [1] * (np.ndim(index) - axis % (np.ndim(index) + 1)))
    assert np.array_equal(np.load(tmp_path / "y.npy"), np.where(hot, values[1], values[0]))


def cast(x: np.ndarray, to: type) -> np.ndarray:
    if to == np.bool_ or x.dtype == np.int64:
        return x.astype(to)
    limits = np.iinfo(to)
    whole = [0 if np.isnan(v) else int(np.clip(np.trunc(np.float64(v)), -1e19, 1e19)) for v in x]
    return np.array([min(max(v, limits.min), limits.max) for v in whole], to)


@pytest.mark.parametrize("to", [np.int64, np.int32, np.bool_])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_casts_that_lose(dtype: type, to: type, tmp_path: pathlib.Path) -> None:
    odd = [np.nan, np.inf, -np.inf, 3e38, -3e38, 2.0**31, -2.0**31, 2.0**31 - 128, 2.0**63, -2.0**63, 1.9, -1.9, 0.0, -0.0, 1e-40]
    x = np.concatenate([np.array(odd if dtype == np.float32 else [2**40 + 5, -2**31 - 1, 0], dtype), numbers(70000, dtype=dtype)])
    done = carnot(*write(tmp_path, "Cast", {"x": x}, {}, False, to=helper.np_dtype_to_tensor_dtype(np.dtype(to))))
    assert done.returncode == 0 and (dtype == to or "cpu_cast" in done.stderr), done.stderr
    assert np.array_equal(np.load(tmp_path / "y.npy"), cast(x, to))
