"""What is chosen by value, against NumPy: places that are not zero, rows by a condition, the first k in order, one of an axis."""
import pathlib

import numpy as np
import pytest
from test_move import numbers, run


def sparse(dtype: type, *dims: int) -> np.ndarray:
    """A third is zero, of floats some with a sign."""
    x = numbers(dtype, *dims)
    x = np.where(np.random.default_rng(6).random(dims) < 0.3, np.zeros((), dtype), x).astype(dtype)
    return np.where(np.random.default_rng(7).random(dims) < 0.5, -x, x) if x.dtype.kind == "f" else x


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, np.int64, np.int32, np.uint8, np.bool_])
@pytest.mark.parametrize("dims", [[7], [3, 5], [10000], [2, 9001], [4, 1, 3, 5, 2], [300, 17], [0], [3, 0, 2]])
def test_non_zero(dims: list, dtype: type, tmp_path: pathlib.Path) -> None:
    x = sparse(dtype, *dims)
    found, tactic = run(tmp_path, "NonZero", x, dims, [])
    assert np.array_equal(found, np.array(np.nonzero(x))) and tactic == "cpu_non_zero"


def test_non_zero_counts_what_is_no_number(tmp_path: pathlib.Path) -> None:
    x = np.array([[np.nan, -0.0, np.inf], [0, 1e-45, -1]], np.float32)
    assert np.array_equal(run(tmp_path, "NonZero", x, [2, 3], [])[0], np.array(np.nonzero(x)))


@pytest.mark.parametrize("rate", [0, 0.4, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64, np.bool_])
@pytest.mark.parametrize(("dims", "axis", "tests"), [
    ([9, 5], 0, 9), ([9, 5], 1, 3), ([3, 300, 40], 1, 300), ([3, 4, 5], -1, 5), ([6, 7], None, 42), ([6, 7], None, 10), ([2, 3], 0, 9)])
def test_compress(dims: list, axis: int | None, tests: int, dtype: type, rate: float, tmp_path: pathlib.Path) -> None:
    x = numbers(dtype, *dims)
    keep = np.random.default_rng(8).random(tests) < rate
    within = keep[: x.size if axis is None else dims[axis]]
    found, tactic = run(tmp_path, "Compress", x, dims, [keep], **({} if axis is None else {"axis": axis}))
    assert np.array_equal(found, np.compress(within, x, axis=axis)) and tactic == "cpu_compress"


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(("dims", "axis", "k"), [
    ([200], 0, 7), ([30, 500], 1, 1), ([30, 500], 1, 500), ([6, 90, 5], 1, 11), ([2, 3, 40], -1, 40), ([1, 20000], -1, 300)])
def test_top_k(dims: list, axis: int, k: int, largest: int, tmp_path: pathlib.Path) -> None:
    x = np.round(numbers(np.float32, *dims), 0 if dims[-1] < 100 else 3)  # many are equal
    x.flat[3], x.flat[5] = np.nan, -np.inf
    found, tactic = run(tmp_path, "TopK", x, dims, [np.array([k])], axis=axis, largest=largest)
    key = np.where(np.isnan(x), np.inf, x) if not largest else np.where(np.isnan(x), -np.inf, -x)
    order = np.argsort(key, axis=axis, kind="stable")  # NaN and what is infinite: only one of them is last or first
    wanted = np.take_along_axis(x, np.take(order, np.arange(k), axis=axis), axis=axis)
    assert np.array_equal(found, wanted, equal_nan=True) and tactic.startswith("cpu_top_k_f32")


@pytest.mark.parametrize("op", ["ReduceMean", "ReduceMax", "ReduceSumSquare"])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(("dims", "axes"), [
    ([1, 6, 5, 7], [0, 2, 3]), ([3, 1, 5, 1], [0, 2]), ([1, 1, 9], [0, 1]), ([4, 1, 3, 1, 5], [1, 3]), ([1, 8, 1, 130], [0, 1, 2])])
def test_reduce_around_ones(dims: list, axes: list, keepdims: int, op: str, tmp_path: pathlib.Path) -> None:
    x = numbers(np.float32, *dims)
    found, tactic = run(tmp_path, op, x, dims, [np.array(axes)], keepdims=keepdims)
    f = {"ReduceMean": np.mean, "ReduceMax": np.max, "ReduceSumSquare": lambda v, **k: np.sum(v * v, **k)}[op]
    wanted = f(x.astype(np.float64), axis=tuple(axes), keepdims=bool(keepdims))
    assert np.allclose(found, wanted, rtol=1e-6, atol=1e-5) and found.shape == wanted.shape and tactic.startswith("cpu_reduce_f32")
