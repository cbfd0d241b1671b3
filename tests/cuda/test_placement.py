"""Whole models on random inputs: the CUDA backend against the CPU backend.

The models are the .onnx files of the folder CARNOT_MODELS; --only=NAME chooses some. Open dimensions become 1 and 5.
"""

import os
import pathlib
import tempfile

import numpy as np
import onnx
import pytest
from harness import Device

MODELS = pathlib.Path(os.environ.get("CARNOT_MODELS", pathlib.Path.home() / ".cache/carnot-models"))
LIMIT = 1e-4  # relative L2


def inputs_of(path: pathlib.Path, open_dim: int, folder: pathlib.Path) -> list[str]:
    """Writes random inputs; the flags that name them."""
    rng = np.random.default_rng(1)
    graph = onnx.load(path, load_external_data=False).graph
    constants = {t.name for t in graph.initializer}
    flags = []
    for value in graph.input:
        if value.name in constants:
            continue
        tensor = value.type.tensor_type
        dims = [d.dim_value or open_dim for d in tensor.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        numbers = rng.standard_normal(dims) if np.issubdtype(dtype, np.floating) else rng.integers(0, 2, dims)
        np.save(folder / f"{len(flags)}.npy", numbers.astype(dtype))
        flags.append(f"--input={value.name}={folder}/{len(flags)}.npy")
    return flags


def difference(wanted: np.ndarray, got: np.ndarray) -> float:
    if wanted.shape != got.shape:
        return float("inf")
    wide = wanted.astype(np.float64)
    return float(np.linalg.norm(wide - got.astype(np.float64)) / (np.linalg.norm(wide) or 1.0))


@pytest.mark.concurrent
@pytest.mark.parametrize("open_dim", [1, 5])
@pytest.mark.parametrize("model", sorted(MODELS.glob("*.onnx")), ids=lambda path: path.stem)
def test_model(device: Device, model: pathlib.Path, open_dim: int) -> str:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        flags = inputs_of(model, open_dim, folder)
        for backend in "cpu", "cuda":
            given = (f"--output-dir={folder / backend}", f"--backend={backend}")
            done = device.run("run", model, *flags, *given, timeout=None)
            assert done.returncode == 0, f"{model} on {backend}: {done.stderr[-500:]}"
        names = sorted(path.name for path in (folder / "cpu").glob("*.npy"))
        worst = max((difference(np.load(folder / "cpu" / n), np.load(folder / "cuda" / n)) for n in names), default=0.0)
    line = f"{model} at {open_dim}: relative L2 {worst:.2e}, limit {LIMIT:.0e}"
    assert worst <= LIMIT, line
    return line
