"""Builds small networks with oneDNN, and libraries that stand in for one that cannot be used."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
CARNOT = os.environ.get("CARNOT", str(ROOT / "build/bin/carnot"))
# Installed beside the interpreter of the tests by the package onednn-cpu-gomp.
LIBRARY = pathlib.Path(sys.prefix) / "lib" / "libdnnl.so.3"
needs_library = pytest.mark.skipif(not LIBRARY.exists(), reason=f"{LIBRARY} is not installed")


def start(*arguments: object, library: object = LIBRARY) -> subprocess.CompletedProcess:
    env = dict(os.environ, CARNOT_ONEDNN=str(library), CARNOT_DEVICE="cpu")
    return subprocess.run([CARNOT, *map(str, arguments)], capture_output=True, text=True, timeout=120, env=env)


def carnot(*arguments: object, library: object = LIBRARY, ok: bool = True) -> str:
    """Standard output; with |ok| false the error."""
    done = start(*arguments, library=library)
    assert (done.returncode == 0) == ok, done.stderr
    return done.stdout if ok else done.stderr


def model(path: pathlib.Path, shape: list, nodes: list, weights: dict) -> pathlib.Path:
    """A network from x to y."""
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(w, np.float32), name) for name, w in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def inspect(plan: pathlib.Path) -> dict:
    return json.loads(carnot("inspect", plan, "--json"))


def build(onnx_file: pathlib.Path, *flags: str, library: object = LIBRARY, whole_ns: int = 1) -> pathlib.Path:
    """An engine in which oneDNN has every layer that it takes: its times and those of layout changes are made least.

    |whole_ns|: what the whole engine takes with it; without it 1000.
    """
    cache, plan = onnx_file.with_suffix(".cache"), onnx_file.with_suffix(".plan")
    cache.unlink(missing_ok=True)
    for _ in range(3):
        carnot("build", onnx_file, "--output", plan, f"--timingCacheFile={cache}", *flags, library=library)
        text = re.sub(r"(_onednn_\w+|cpu_reformat) \d+", r"\1 1", cache.read_text())
        text = re.sub(r" with \d+", f" with {whole_ns}", text)
        cache.write_text(re.sub(r" without \d+", " without 1000", text))
    return plan


def run(plan: pathlib.Path, x: np.ndarray, *flags: str) -> np.ndarray:
    source, folder = plan.with_suffix(".x.npy"), plan.with_suffix(".out")
    np.save(source, x)
    carnot("run", plan, "--input", f"x={source}", "--output-dir", folder, *flags)
    return np.load(folder / "y.npy")


def stand_in(folder: pathlib.Path, version: tuple, runtime: int, code: str = "") -> pathlib.Path:
    """A library that says its version and runtime, and has no more than |code|."""
    source, library = folder / "stand_in.c", folder / "libstand_in.so"
    source.write_text(
        "typedef struct { int major, minor, patch; const char* hash; unsigned cpu, gpu; } version_t;\n"
        f"static const version_t version = {{{version[0]}, {version[1]}, {version[2]}, \"\", {runtime}, 0}};\n"
        f"const version_t* dnnl_version(void) {{ return &version; }}\n{code}\n"
    )
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return library
