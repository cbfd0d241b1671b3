"""Engines: what they report, profiler and inspector, lifetime."""

import gc
import json
import os
import pathlib
import subprocess
import sys

import carnot as trt
import numpy as np
from models import TRT_LOGGER, build_engine, build_plan, conv_model, infer, matmul_model


def test_engine(logger):
    engine = build_engine(logger, matmul_model(dynamic=True), profiles=[((1, 4), (2, 4), (8, 4))] * 2)
    assert engine.num_bindings == len(engine) == 4 and engine[0] == "x" and engine["y"] == 1
    assert engine.get_binding_name(2) == "x [profile 1]" and engine.get_binding_index("y [profile 1]") == 3
    assert engine.get_binding_format(0) == engine.get_tensor_format("x") == trt.TensorFormat.LINEAR
    assert "linear" in engine.get_binding_format_desc(0) and "linear" in engine.get_tensor_format_desc("y")
    assert engine.get_binding_bytes_per_component(0) == engine.get_tensor_bytes_per_component("x") == 4
    assert engine.get_binding_components_per_element(0) == engine.get_tensor_components_per_element("x") == 1
    assert engine.get_binding_vectorized_dim(0) == engine.get_tensor_vectorized_dim("x") == -1
    assert engine.get_location("x") == trt.TensorLocation.DEVICE and engine.get_profile_shape(1, 0)[2] == (8, 4)
    assert engine.get_profile_shape_input(0, 0) == [] and engine.get_aliased_input_tensor("y") is None
    assert engine.get_device_memory_size_for_profile(0) == engine.get_device_memory_size_for_profile_v2(1)
    assert engine.device_memory_size_v2 == engine.device_memory_size and engine.max_batch_size == 1
    assert engine.hardware_compatibility_level == trt.HardwareCompatibilityLevel.NONE and engine.num_aux_streams == 0
    assert engine.streamable_weights_size == engine.minimum_weight_streaming_budget == engine.tactic_sources == 0
    assert engine.weight_streaming_scratch_memory_size == engine.get_weight_streaming_automatic_budget() == 0
    engine.weight_streaming_budget = engine.weight_streaming_budget_v2 = 0
    assert isinstance(engine.create_engine_inspector(), trt.EngineInspector)
    assert isinstance(engine.create_serialization_config(), trt.ISerializationConfig)
    assert engine.get_engine_stat(trt.EngineStat.TOTAL_WEIGHTS_SIZE) > 0
    config = engine.create_runtime_config()
    strategy = trt.ExecutionContextAllocationStrategy.USER_MANAGED
    config.set_execution_context_allocation_strategy(strategy)
    assert config.get_execution_context_allocation_strategy() == strategy
    assert engine.create_execution_context_without_device_memory() is not None
    assert engine.get_tensor_name(9) == "" and engine.get_tensor_profile_shape("none", 0) == []
    assert "there is no tensor none" in logger.errors()[-1]


def test_profiler_and_inspector():
    """Profiler and inspector."""

    class Times(trt.IProfiler):
        def __init__(self):
            trt.IProfiler.__init__(self)
            self.layers = {}

        def report_layer_time(self, layer_name, ms):
            self.layers[layer_name] = self.layers.get(layer_name, 0) + ms

    engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(build_plan(conv_model(batch=1)))
    context = engine.create_execution_context()
    context.profiler = Times()
    infer(context, {"x": np.ones((1, 3, 8, 8), np.float32)})
    inspector = engine.create_engine_inspector()
    inspector.execution_context = context
    info = json.loads(inspector.get_engine_information(trt.LayerInformationFormat.JSON))
    names = [layer["Name"] for layer in info["Layers"]]
    assert (
        names and set(context.profiler.layers) == set(names) and all(ms >= 0 for ms in context.profiler.layers.values())
    )
    assert info["Bindings"] == ["x", "y"] and len(names) == engine.num_layers
    one = json.loads(inspector.get_layer_information(0, trt.LayerInformationFormat.JSON))
    assert {"Name", "LayerType", "Inputs", "Outputs", "TacticValue"} <= set(one)
    assert names[0] in inspector.get_engine_information(trt.LayerInformationFormat.ONELINE)
    context.enqueue_emits_profile = False
    context.profiler.layers.clear()
    context.execute_async_v3(0)
    assert not context.profiler.layers
    assert context.report_to_profiler() and context.profiler.layers


def test_destroyed_in_any_order():

    for order in range(6):
        model = conv_model(batch=1)
        plan = build_plan(model)
        runtime = trt.Runtime(TRT_LOGGER)
        engine = runtime.deserialize_cuda_engine(plan)
        context = engine.create_execution_context()
        things = {"plan": plan, "runtime": runtime, "engine": engine}
        del plan, runtime, engine
        for name in [list(things)[(i + order) % 3] for i in range(3)]:
            del things[name]
            gc.collect()
        assert infer(context, {"x": np.ones((1, 3, 8, 8), np.float32)})["y"].shape == (1, 4, 8, 8)


GROWTH = """
import ctypes, gc, resource
import numpy as np
import carnot as trt

logger = trt.Logger(trt.Logger.ERROR)
builder = trt.Builder(logger)
config = builder.create_builder_config()
config.builder_optimization_level = 0


def cycle():
    network = builder.create_network(0)
    x = network.add_input("x", trt.float32, (64, 64))
    y = network.add_unary(x, trt.UnaryOperation.EXP).get_output(0)
    network.mark_output(y)
    engine = trt.Runtime(logger).deserialize_cuda_engine(builder.build_serialized_network(network, config))
    trt.Model(engine)(x=np.zeros((64, 64), np.float32))


def resident():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # returns free memory to the system
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


for _ in range(500):
    cycle()
before = resident()
for _ in range(1000):
    cycle()
print(resident() - before)
"""


def test_no_growth():
    """A thousand builds, runs and destructions do not grow the process."""
    package = pathlib.Path(trt.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", GROWTH],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(package), "CARNOT_THREADS": "1"},
        check=True,
    )
    assert int(done.stdout) < 1 << 20
