"""Runs one plugin node through the command line. CARNOT names the binary."""

import os
import pathlib
import subprocess

import numpy as np
import onnx
from onnx import helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
CARNOT = os.environ.get("CARNOT", str(ROOT / "build/bin/carnot"))
LIBRARY = os.environ.get("CARNOT_PLUGIN_LIBRARY", str(ROOT / "build/lib/libplugin_hard_swish.so"))


def carnot(*arguments: object) -> subprocess.CompletedProcess:
    done = subprocess.run([CARNOT, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 1, 2), f"ended with {done.returncode}: {done.stderr}"
    return done


def model(
    folder: pathlib.Path, nodes: list, inputs: dict, outputs: list, constants: dict | None = None, dynamic: bool = True
) -> pathlib.Path:
    """Writes a model of |nodes|; |dynamic|: all dimensions of the inputs are dynamic."""
    infos = []
    for name, array in inputs.items():
        dims = [f"{name}_{i}" for i in range(array.ndim)] if dynamic else list(array.shape)
        infos.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), dims))
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    initializers = [onnx.numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "plugins", infos, results, initializers)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("trt.plugins", 1)]
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


def run_model(folder: pathlib.Path, path: pathlib.Path, inputs: dict, outputs: list, *flags: str) -> list:
    words = []
    for name, array in inputs.items():
        np.save(folder / f"{name}.npy", array)
        words += ["--input", f"{name}={folder / name}.npy"]
    done = carnot("run", path, *words, "--output-dir", folder / "out", *flags)
    assert done.returncode == 0, done.stderr
    return [np.load(folder / "out" / f"{name}.npy") for name in outputs]


def plugin(
    folder: pathlib.Path,
    name: str,
    inputs: dict,
    count: int = 1,
    version: str = "1",
    dynamic: bool = True,
    **fields: object,
) -> list:
    """The outputs of plugin |name| for |inputs|."""
    outputs = [f"y{i}" for i in range(count)]
    attrs = {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in fields.items()}
    node = helper.make_node(name, list(inputs), outputs, "node", domain="trt.plugins", plugin_version=version, **attrs)
    return run_model(folder, model(folder, [node], inputs, outputs, dynamic=dynamic), inputs, outputs)


def refusal(folder: pathlib.Path, name: str, inputs: dict, count: int = 1, version: str = "1", **fields: object) -> str:
    """The error message of an invalid plugin node."""
    outputs = [f"y{i}" for i in range(count)]
    node = helper.make_node(name, list(inputs), outputs, "node", domain="trt.plugins", plugin_version=version, **fields)
    done = carnot("exec", f"--onnx={model(folder, [node], inputs, outputs)}", "--skipInference")
    assert done.returncode == 1, done.stdout
    return done.stderr + done.stdout
