"""Operators with data-dependent output sizes (NonZero, Compress) against NumPy."""

import pathlib

import numpy as np
import pytest
from single_op import numbers, run_op


def sparse(dtype: type, *dims: int) -> np.ndarray:
    """Random values, a third of them zero, among floats also -0."""
    x = numbers(dtype, *dims)
    x = np.where(np.random.default_rng(6).random(dims) < 0.3, np.zeros((), dtype), x).astype(dtype)
    return np.where(np.random.default_rng(7).random(dims) < 0.5, -x, x) if x.dtype.kind == "f" else x


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, np.int64, np.int32, np.uint8, np.bool_])
@pytest.mark.parametrize("dims", [[7], [3, 5], [10000], [2, 9001], [4, 1, 3, 5, 2], [300, 17], [0], [3, 0, 2]])
def test_non_zero(dims: list, dtype: type, tmp_path: pathlib.Path) -> None:
    x = sparse(dtype, *dims)
    found, tactic = run_op(tmp_path, "NonZero", x, dims, [])
    assert np.array_equal(found, np.array(np.nonzero(x))) and tactic == "cpu_non_zero"


def test_non_zero_counts_what_is_no_number(tmp_path: pathlib.Path) -> None:
    x = np.array([[np.nan, -0.0, np.inf], [0, 1e-45, -1]], np.float32)
    assert np.array_equal(run_op(tmp_path, "NonZero", x, [2, 3], [])[0], np.array(np.nonzero(x)))


@pytest.mark.parametrize("rate", [0, 0.4, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64, np.bool_])
@pytest.mark.parametrize(
    ("dims", "axis", "tests"),
    [
        ([9, 5], 0, 9),
        ([9, 5], 1, 3),
        ([3, 300, 40], 1, 300),
        ([3, 4, 5], -1, 5),
        ([6, 7], None, 42),
        ([6, 7], None, 10),
        ([2, 3], 0, 9),
    ],
)
def test_compress(dims: list, axis: int | None, tests: int, dtype: type, rate: float, tmp_path: pathlib.Path) -> None:
    x = numbers(dtype, *dims)
    keep = np.random.default_rng(8).random(tests) < rate
    within = keep[: x.size if axis is None else dims[axis]]
    found, tactic = run_op(tmp_path, "Compress", x, dims, [keep], **({} if axis is None else {"axis": axis}))
    assert np.array_equal(found, np.compress(within, x, axis=axis)) and tactic == "cpu_compress"
