"""Runs the command line. The environment variable CARNOT names the binary."""

import os
import pathlib
import subprocess

import onnx
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
CARNOT = os.environ.get("CARNOT", str(ROOT / "build/bin/carnot"))
LIBRARY = os.environ.get("CARNOT_PLUGIN_LIBRARY", str(ROOT / "build/lib/libplugin_hard_swish.so"))
MODELS = pathlib.Path(os.environ.get("CARNOT_MODELS", ROOT / ".." / "shared" / "models"))


def carnot(*arguments: object, env: dict | None = None) -> subprocess.CompletedProcess:
    done = subprocess.run(
        [CARNOT, *map(str, arguments)], capture_output=True, text=True, timeout=120, env=dict(os.environ, **(env or {}))
    )
    assert done.returncode in (0, 1, 2), f"ended with {done.returncode}: {done.stderr}"
    return done


def fails(*arguments: object, code: int = 1) -> str:
    done = carnot(*arguments)
    assert done.returncode == code, done.stdout
    return done.stderr


def passes(*arguments: object) -> str:
    done = carnot(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def save(path: pathlib.Path, nodes: list, inputs: dict, outputs: dict) -> pathlib.Path:
    def values(of: dict) -> list:
        return [helper.make_tensor_value_info(k, TensorProto.FLOAT, v) for k, v in of.items()]

    graph = helper.make_graph(nodes, "test", values(inputs), values(outputs))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path
