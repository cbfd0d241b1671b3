#!/usr/bin/env python3
"""Runs a model on random inputs by the CPU backend and by CUDA and compares the results.

Usage: compare_places.py CARNOT MODEL [DIM [LIMIT]]     DIM: what open dimensions become, 8 unless given
LIMIT: relative L2, 1e-4 unless given
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx


def inputs_of(path: str, open_dim: int, folder: pathlib.Path) -> list[str]:
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


def main() -> int:
    carnot, model = sys.argv[1:3]
    open_dim = int(sys.argv[3]) if len(sys.argv) > 3 else 8
    limit = float(sys.argv[4]) if len(sys.argv) > 4 else 1e-4
    worst = 0.0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        flags = inputs_of(model, open_dim, folder)
        for backend in "cpu", "cuda":
            command = [carnot, "run", model, *flags, f"--output-dir={folder / backend}", f"--backend={backend}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"FAILED {model} on {backend}: {done.stderr[-500:]}")
                return 1
        for wanted in sorted((folder / "cpu").glob("*.npy")):
            a, b = np.load(wanted).astype(np.float64), np.load(folder / "cuda" / wanted.name).astype(np.float64)
            same_shape = a.shape == b.shape
            norm = np.linalg.norm(a)
            worst = max(worst, np.linalg.norm(a - b) / (norm or 1.0) if same_shape else np.inf)
    good = bool(worst <= limit)
    print(f"{'passed' if good else 'FAILED'} {model} at {open_dim}: relative L2 {worst:.2e}, limit {limit:.0e}")
    return not good


if __name__ == "__main__":
    sys.exit(main())
