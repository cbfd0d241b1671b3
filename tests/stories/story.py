"""Helpers of the stories: models, references in float64, the command line, scripts run by the alias."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx import helper

import carnot as trt

ROOT = pathlib.Path(__file__).resolve().parents[2]
CARNOT = os.environ.get("CARNOT", str(ROOT / "build/bin/carnot"))


class Messages(trt.ILogger):
    """A logger that keeps all messages."""

    def __init__(self):
        trt.ILogger.__init__(self)
        self.lines = []

    def log(self, severity, msg):
        self.lines.append((severity, msg))

    def errors(self):
        return [msg for severity, msg in self.lines if severity.value <= trt.Logger.ERROR.value]


def save_model(path, nodes, inputs, outputs, weights=(), opset=17):
    """An ONNX file; |inputs| and |outputs| map names to shapes."""

    def infos(of):
        return [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in of.items()]

    graph = helper.make_graph(
        nodes,
        "story",
        infos(inputs),
        infos(outputs),
        [onnx.numpy_helper.from_array(np.asarray(w), n) for n, w in dict(weights).items()],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("trt.plugins", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


def command(*arguments, check=True):
    done = subprocess.run([CARNOT, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1, 2), done.stderr
    if check:
        assert done.returncode == 0, done.stderr + done.stdout
    return done


def run_script(text, folder, *arguments, alias=False):
    """Runs a script unchanged; with the alias `import tensorrt` imports carnot."""
    path = folder / ("script_alias.py" if alias else "script.py")
    path.write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(trt.__file__).parents[1])}
    words = [sys.executable, *(["-m", "carnot.alias"] if alias else []), path, *arguments]
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, env=environment, cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def build_and_load(network, config, logger):
    plan = network.builder.build_serialized_network(network, config)
    assert plan is not None, logger.errors()
    return trt.Runtime(logger).deserialize_cuda_engine(plan)
