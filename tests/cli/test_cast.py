"""Casts between numbers against NumPy: floats are truncated and kept within an integer's range, integers keep low bits."""
import pathlib

import numpy as np
import onnx
import pytest
from test_move import run

TYPES = [np.float32, np.float64, np.bool_, *[np.dtype(f"{k}int{b}").type for k in ("", "u") for b in (8, 16, 32, 64)]]


def wanted(x: np.ndarray, to: type) -> np.ndarray:
    if x.dtype.kind != "f" or np.dtype(to).kind not in "iu":
        with np.errstate(over="ignore"):
            return x.astype(to)
    info = np.iinfo(to)
    whole = [0 if np.isnan(v) else info.max if v >= info.max else info.min if v <= info.min else int(v) for v in x.astype(np.float64)]
    return np.array(whole, to)


@pytest.mark.parametrize("to", TYPES)
@pytest.mark.parametrize("dtype", TYPES)
def test_cast(dtype: type, to: type, tmp_path: pathlib.Path) -> None:
    rng = np.random.default_rng(3)
    if np.dtype(dtype).kind == "f":
        edges = [0.0, -0.0, 0.9, -0.9, 127.5, 128, -128.7, 255, 256, 32768, -65537, 2**31, -(2**31), 4294967040, 2**63, -(2**63), 2.0**64,
                 1e30, -1e30, np.nan, np.inf, -np.inf, 1e-42]
        x = np.concatenate([np.array(edges), rng.standard_normal(300) * 10.0 ** rng.integers(-2, 22, 300)]).astype(dtype)
    else:
        low, high = (0, 1) if dtype is np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        x = np.concatenate([np.array([low, high, 0, 1], dtype), rng.integers(low, high, 300, np.uint64 if low == 0 else np.int64, endpoint=True).astype(dtype)])
    found, tactic = run(tmp_path, "Cast", x, list(x.shape), [], to=onnx.helper.np_dtype_to_tensor_dtype(np.dtype(to)))
    assert np.array_equal(found, wanted(x, to), equal_nan=np.dtype(to).kind == "f") and found.dtype == to
    assert tactic == ("nothing" if dtype == to else "cpu_cast")
