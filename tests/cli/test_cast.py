"""Cast against NumPy: floats are truncated and clamped to an integer's range, integers keep their low bits."""

import pathlib

import numpy as np
import onnx
import pytest
from harness import carnot
from onnx import helper
from ort_compare import normal, write
from single_op import run_op

TYPES = [np.float32, np.float64, np.bool_, *[np.dtype(f"{k}int{b}").type for k in ("", "u") for b in (8, 16, 32, 64)]]


def wanted(x: np.ndarray, to: type) -> np.ndarray:
    if x.dtype.kind != "f" or np.dtype(to).kind not in "iu":
        with np.errstate(over="ignore"):
            return x.astype(to)
    info = np.iinfo(to)
    whole = [
        0 if np.isnan(v) else info.max if v >= info.max else info.min if v <= info.min else int(v)
        for v in x.astype(np.float64)
    ]
    return np.array(whole, to)


@pytest.mark.parametrize("to", TYPES)
@pytest.mark.parametrize("dtype", TYPES)
def test_cast(dtype: type, to: type, tmp_path: pathlib.Path) -> None:
    rng = np.random.default_rng(3)
    if np.dtype(dtype).kind == "f":
        edges = [
            0.0,
            -0.0,
            0.9,
            -0.9,
            127.5,
            128,
            -128.7,
            255,
            256,
            32768,
            -65537,
            2**31,
            -(2**31),
            4294967040,
            2**63,
            -(2**63),
            2.0**64,
            1e30,
            -1e30,
            np.nan,
            np.inf,
            -np.inf,
            1e-42,
        ]
        x = np.concatenate([np.array(edges), rng.standard_normal(300) * 10.0 ** rng.integers(-2, 22, 300)]).astype(
            dtype
        )
    else:
        low, high = (0, 1) if dtype is np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        x = np.concatenate(
            [
                np.array([low, high, 0, 1], dtype),
                rng.integers(low, high, 300, np.uint64 if low == 0 else np.int64, endpoint=True).astype(dtype),
            ]
        )
    found, tactic = run_op(
        tmp_path, "Cast", x, list(x.shape), [], to=onnx.helper.np_dtype_to_tensor_dtype(np.dtype(to))
    )
    assert np.array_equal(found, wanted(x, to), equal_nan=np.dtype(to).kind == "f") and found.dtype == to
    assert tactic == ("nothing" if dtype == to else "cpu_cast")


def cast(x: np.ndarray, to: type) -> np.ndarray:
    if to == np.bool_ or x.dtype == np.int64:
        return x.astype(to)
    limits = np.iinfo(to)
    whole = [0 if np.isnan(v) else int(np.clip(np.trunc(np.float64(v)), -1e19, 1e19)) for v in x]
    return np.array([min(max(v, limits.min), limits.max) for v in whole], to)


@pytest.mark.parametrize("to", [np.int64, np.int32, np.bool_])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_casts_that_lose(dtype: type, to: type, tmp_path: pathlib.Path) -> None:
    odd = [
        np.nan,
        np.inf,
        -np.inf,
        3e38,
        -3e38,
        2.0**31,
        -(2.0**31),
        2.0**31 - 128,
        2.0**63,
        -(2.0**63),
        1.9,
        -1.9,
        0.0,
        -0.0,
        1e-40,
    ]
    x = np.concatenate(
        [np.array(odd if dtype == np.float32 else [2**40 + 5, -(2**31) - 1, 0], dtype), normal(70000, dtype=dtype)]
    )
    done = carnot(*write(tmp_path, "Cast", {"x": x}, {}, False, to=helper.np_dtype_to_tensor_dtype(np.dtype(to))))
    assert done.returncode == 0 and (dtype == to or "cpu_cast" in done.stderr), done.stderr
    assert np.array_equal(np.load(tmp_path / "y.npy"), cast(x, to))
