"""Operators along axes: TopK, reductions, Hardmax, CumSum."""

import pathlib

import numpy as np
import pytest
from harness import carnot, passes
from ort_compare import normal, same, write
from single_op import numbers, run_op
from small_net import Net, run_plan


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(
    ("dims", "axis", "k"),
    [
        ([200], 0, 7),
        ([30, 500], 1, 1),
        ([30, 500], 1, 500),
        ([6, 90, 5], 1, 11),
        ([2, 3, 40], -1, 40),
        ([1, 20000], -1, 300),
    ],
)
def test_top_k(dims: list, axis: int, k: int, largest: int, tmp_path: pathlib.Path) -> None:
    x = np.round(numbers(np.float32, *dims), 0 if dims[-1] < 100 else 3)  # with ties
    x.flat[3], x.flat[5] = np.nan, -np.inf
    found, tactic = run_op(tmp_path, "TopK", x, dims, [np.array([k])], axis=axis, largest=largest)
    key = np.where(np.isnan(x), np.inf, x) if not largest else np.where(np.isnan(x), -np.inf, -x)
    order = np.argsort(key, axis=axis, kind="stable")  # NaN and infinities
    wanted = np.take_along_axis(x, np.take(order, np.arange(k), axis=axis), axis=axis)
    assert np.array_equal(found, wanted, equal_nan=True) and tactic.startswith("cpu_top_k_f32")


@pytest.mark.parametrize("op", ["ReduceMean", "ReduceMax", "ReduceSumSquare"])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(
    ("dims", "axes"),
    [
        ([1, 6, 5, 7], [0, 2, 3]),
        ([3, 1, 5, 1], [0, 2]),
        ([1, 1, 9], [0, 1]),
        ([4, 1, 3, 1, 5], [1, 3]),
        ([1, 8, 1, 130], [0, 1, 2]),
    ],
)
def test_reduce_around_ones(dims: list, axes: list, keepdims: int, op: str, tmp_path: pathlib.Path) -> None:
    x = numbers(np.float32, *dims)
    found, tactic = run_op(tmp_path, op, x, dims, [np.array(axes)], keepdims=keepdims)
    f = {"ReduceMean": np.mean, "ReduceMax": np.max, "ReduceSumSquare": lambda v, **k: np.sum(v * v, **k)}[op]
    wanted = f(x.astype(np.float64), axis=tuple(axes), keepdims=bool(keepdims))
    assert (
        np.allclose(found, wanted, rtol=1e-6, atol=1e-5)
        and found.shape == wanted.shape
        and tactic.startswith("cpu_reduce_f32")
    )


@pytest.mark.parametrize(
    ("dims", "axis"), [([300, 333], 1), ([300, 333], 0), ([7, 40, 5, 11], -3), ([90000], 0), ([4, 0], 1), ([4, 0], 0)]
)
def test_hardmax(dims: list, axis: int, tmp_path: pathlib.Path) -> None:
    x = np.rint(normal(*dims))
    if x.size > 100:
        x.flat[50] = np.nan
    found = same(
        tmp_path, "cpu_hardmax_f32", "Hardmax", {"x": np.nan_to_num(x, nan=1e9)}, axis=axis, symbolic=len(dims) == 4
    )
    # Of several largest elements the first one; NaN is the largest.
    assert carnot(*write(tmp_path, "Hardmax", {"x": x}, {}, False, axis=axis)).returncode == 0
    assert np.array_equal(np.load(tmp_path / "y.npy"), found)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int32])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize(
    ("dims", "axis"),
    [([300, 333], 1), ([300, 333], 0), ([7, 40, 5, 21], -3), ([3, 200], -1), ([90000], 0), ([4, 0], 1)],
)
def test_cumsum(dims: list, axis: int, exclusive: int, reverse: int, dtype: type, tmp_path: pathlib.Path) -> None:
    x = normal(*dims, dtype=dtype)
    found = same(
        tmp_path,
        "cpu_cumulative",
        "CumSum",
        {"x": x},
        {"axis": np.array(axis)},
        limit=1e-4 if dtype == np.float32 else 0,
        exclusive=exclusive,
        reverse=reverse,
        symbolic=len(dims) == 4,
    )
    if not reverse and not exclusive:  # float32 accumulates in double
        assert np.array_equal(found, np.cumsum(x, axis, np.float64 if dtype == np.float32 else dtype).astype(dtype))


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(
    "axes", [axes for mask in range(1, 16) for axes in [[d for d in range(4) if mask >> d & 1]]], ids=str
)
def test_sums_of_what_stands_channels_last(axes: list, keepdims: int, tmp_path: pathlib.Path) -> None:
    """The remaining dimensions keep their order for all sets of reduced axes."""
    net = Net()
    y = net.add(
        "ReduceSum",
        net.add("Relu", net.add("Transpose", "x", perm=[0, 3, 1, 2])),
        net.constant(np.array(axes)),
        keepdims=keepdims,
    )
    model, plan = net.save(tmp_path / "m.onnx", y, x=[8, 5, 3, 4]), tmp_path / "m.plan"
    passes("build", model, "--output", plan)
    x = np.random.default_rng(2).standard_normal((8, 5, 3, 4)).astype(np.float32)
    wanted = np.maximum(x, 0).transpose(0, 3, 1, 2).sum(tuple(axes), keepdims=bool(keepdims), dtype=np.float64)
    assert np.abs(run_plan(plan, tmp_path, x=x) - wanted).max() <= 1e-5 * np.abs(wanted).max()
