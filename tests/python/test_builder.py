"""The builder: properties, progress, cancellation, builds of whole models."""

import os
import pathlib
import subprocess
import sys

import carnot as trt
import numpy as np
import onnx
import pytest
from models import TRT_LOGGER, build_plan, conv_model, infer, ort_run
from onnx import helper, numpy_helper

rng = np.random.default_rng(3)


def test_builder(logger):
    builder = trt.Builder(logger)
    builder.max_batch_size = 4
    assert builder.max_batch_size == 4 and any("max_batch_size" in msg for _, msg in logger.lines)
    assert builder.max_DLA_batch_size == builder.num_DLA_cores == 0 and not builder.platform_has_tf32
    builder.max_threads = 2
    assert builder.max_threads == 2 and builder.gpu_allocator is None
    for thing in ("Builder", "INetworkDefinition", "IBuilderConfig", "OnnxParser", "Runtime", "ICudaEngine"):
        assert getattr(trt, thing).__enter__ and callable(getattr(trt, thing).__del__)
    assert trt.IExecutionContext.__enter__ and trt.IHostMemory.__enter__ and trt.Refitter.__del__


@pytest.mark.parametrize("name", ["ultraface_rfb_320.onnx", "squeezenet_fp16.onnx"])
def test_build_from_onnx_file(model, name, tmp_path):
    """Builds a real model from ONNX and runs it."""

    with (
        trt.Builder(TRT_LOGGER) as builder,
        builder.create_network(1) as network,
        trt.OnnxParser(network, TRT_LOGGER) as parser,
        builder.create_builder_config() as config,
    ):
        config.max_workspace_size = 1 << 28
        assert parser.parse_from_file(model(name))
        config.builder_optimization_level = 0
        plan = builder.build_serialized_network(network, config)
    (tmp_path / "m.plan").write_bytes(plan)
    with open(tmp_path / "m.plan", "rb") as f, trt.Runtime(TRT_LOGGER) as runtime:
        engine = runtime.deserialize_cuda_engine(f.read())
    x_name = engine.get_tensor_name(0)
    x = rng.standard_normal(tuple(max(1, d) for d in engine.get_tensor_shape(x_name)))
    x = x.astype(trt.nptype(engine.get_tensor_dtype(x_name)))
    got = infer(engine.create_execution_context(), {x_name: x})
    for y, wanted in zip(got.values(), ort_run(model(name), {x_name: x})):
        scale = np.abs(wanted.astype(np.float64)).max()
        assert np.abs(y.astype(np.float64) - wanted).max() <= (1e-4 if x.dtype == np.float32 else 4e-3) * scale


def test_progress_and_cancel():
    """Progress and cancellation of a build."""

    class Monitor(trt.IProgressMonitor):
        def __init__(self, stop_after=None):
            trt.IProgressMonitor.__init__(self)
            self.open, self.steps, self.stop_after = [], 0, stop_after

        def phase_start(self, phase_name, parent_phase, num_steps):
            assert num_steps >= 0
            self.open.append(phase_name)

        def step_complete(self, phase_name, step):
            self.steps += 1
            return self.stop_after is None or self.steps < self.stop_after

        def phase_finish(self, phase_name):
            self.open.remove(phase_name)

    monitor = Monitor()
    assert build_plan(conv_model(batch=1), monitor=monitor) is not None
    assert monitor.steps > 0 and monitor.open == []
    monitor = Monitor(stop_after=1)
    assert build_plan(conv_model(batch=1), monitor=monitor) is None and monitor.open == []

    class Broken(Monitor):
        def step_complete(self, phase_name, step):
            raise ValueError("stop")

    with pytest.raises(ValueError, match="stop"):
        build_plan(conv_model(batch=1), monitor=Broken())


def test_a_network_is_built_twice(tmp_path):
    """A build gives back the memory of weights that it packed; the network has them again afterwards."""
    rng = np.random.default_rng(4)
    weights = [rng.standard_normal((96, 96)).astype(np.float32) / 10 for _ in range(40)]
    nodes, value = [], "x"
    for i in range(len(weights)):  # names of different lengths: weights begin at any byte of the file
        out = "y" if i == len(weights) - 1 else f"value{'e' * (i % 5)}{i}"
        nodes.append(helper.make_node("MatMul", [value, f"w{'w' * (i % 7)}{i}"], [out]))
        value = out
    inits = [numpy_helper.from_array(w, f"w{'w' * (i % 7)}{i}") for i, w in enumerate(weights)]
    tensor = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [tensor("x", 1, [2, 96])], [tensor("y", 1, [2, 96])], inits)
    path = str(tmp_path / "m.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(0)
    assert trt.OnnxParser(network, TRT_LOGGER).parse_from_file(path)
    x = rng.standard_normal((2, 96)).astype(np.float32)
    wanted = x.astype(np.float64)
    for w in weights:
        wanted = wanted @ w.astype(np.float64)
    plans = []
    for _ in range(3):
        config = builder.create_builder_config()
        config.builder_optimization_level = 0
        plans.append(bytes(builder.build_serialized_network(network, config)))
        got = trt.load(plans[-1])(x)["y"]
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())
    assert plans[0] == plans[1] == plans[2]


THREADS = """
import sys
import carnot as trt

logger = trt.Logger(trt.Logger.ERROR)
builder = trt.Builder(logger)
network = builder.create_network()
network.mark_output(network.add_identity(network.add_input("x", trt.float32, (2,))).get_output(0))
builder.max_threads = int(sys.argv[1])
print(builder.build_serialized_network(network, builder.create_builder_config()) is not None)
"""


@pytest.mark.parametrize(
    ("variable", "threads", "built", "said"),
    [
        ("2", 0, "True", ""),
        ("2", 2, "True", ""),
        ("abc", 0, "False", "CARNOT_THREADS is 'abc', must be an integer in [0, 1024]"),
        ("2", -1, "False", "-1 threads"),
    ],
)
def test_thread_count_is_checked_by_the_library(variable, threads, built, said):
    """CARNOT_THREADS and max_threads: the error is the library's, as for the command line."""
    package = pathlib.Path(trt.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", THREADS, str(threads)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(package), "CARNOT_THREADS": variable},
    )
    assert done.returncode == 0 and done.stdout.strip() == built, done.stderr
    assert said in done.stdout + done.stderr and "Traceback" not in done.stderr
