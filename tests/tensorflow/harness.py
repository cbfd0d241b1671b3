"""Runs the command line on TensorFlow models. The environment variable CARNOT names the binary."""

import os
import pathlib
import re
import subprocess

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
CARNOT = os.environ.get("CARNOT", str(ROOT / "build/bin/carnot"))
LIBRARY = os.environ.get("CARNOT_PLUGIN_LIBRARY", str(ROOT / "build/lib/libplugin_hard_swish.so"))
Arrays = dict[str, np.ndarray]


def carnot(*arguments: object) -> subprocess.CompletedProcess:
    done = subprocess.run([CARNOT, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1, 2), f"ended with {done.returncode}: {done.stderr}"
    return done


def run(model: pathlib.Path, feeds: Arrays, folder: pathlib.Path, *flags: object) -> Arrays:
    """The outputs by the name of their file: a name's characters besides letters, digits, "." and "-" become "_"."""
    folder.mkdir(exist_ok=True)
    give = []
    for i, (name, value) in enumerate(feeds.items()):
        np.save(folder / f"in_{i}.npy", np.require(value, requirements="C"))
        give += ["--input", f"{name}={folder / f'in_{i}.npy'}"]
    done = carnot("run", model, *give, *flags, "--output-dir", folder / "out")
    assert done.returncode == 0, done.stderr
    return {path.stem: np.load(path) for path in (folder / "out").glob("*.npy")}


def refused(model: pathlib.Path, *flags: object) -> str:
    """What is printed when a model is refused."""
    done = carnot("build", model, "--output", pathlib.Path(model).parent / "refused.plan", *flags)
    assert done.returncode == 1, done.stdout
    assert done.stderr.strip()
    return done.stderr


def file_name(output: str) -> str:
    """The name of an output's file; TensorFlow's ":0" is left out."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", re.sub(r":0$", "", output))


def close(got: np.ndarray, want: np.ndarray, rel: float = 1e-4) -> None:
    """Floating point within |rel| of the largest finite magnitude; all else, infinities and NaN equal."""
    assert got.shape == want.shape, f"shape {got.shape}, want {want.shape}"
    assert got.dtype == want.dtype, f"{got.dtype}, want {want.dtype}"
    if want.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, want)
        return
    finite = np.isfinite(want)
    scale = np.abs(want[finite]).max(initial=0)
    rel = max(rel, 4 * np.finfo(want.dtype).eps)
    np.testing.assert_allclose(got, want, rtol=0, atol=rel * max(float(scale), 1e-30), equal_nan=True)
