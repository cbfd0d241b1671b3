"""In the manner of onnx_custom_plugin: a node that a plugin library computes, text of any length.

LIBRARY MODEL X.npy OUT.npy PLAN
"""

import ctypes
import os
import sys

import common
import numpy as np
import tensorrt as trt

MAX_TEXT_LENGTH = 64
TRT_LOGGER = trt.Logger(trt.Logger.WARNING)


def load_plugin_lib(path):
    assert os.path.isfile(path), f"\n{path}\nFailed to load library."
    ctypes.CDLL(path)
    handle = trt.get_plugin_registry().load_library(path)
    assert handle is not None


def build_engine(model_path, engine_path):
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(0)
    config = builder.create_builder_config()
    config.set_tactic_sources(config.get_tactic_sources() | 1 << int(trt.TacticSource.CUBLAS))
    parser = trt.OnnxParser(network, TRT_LOGGER)
    runtime = trt.Runtime(TRT_LOGGER)
    with open(model_path, "rb") as model:
        if not parser.parse(model.read()):
            for error in range(parser.num_errors):
                print(parser.get_error(error))
            return None
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, common.GiB(1))
    profile = builder.create_optimization_profile()
    for i in range(network.num_inputs):
        input = network.get_input(i)
        assert input.shape[0] == -1
        rest = list(input.shape[1:])
        profile.set_shape(input.name, [1] + rest, [8] + rest, [MAX_TEXT_LENGTH] + rest)
    config.add_optimization_profile(profile)
    plan = builder.build_serialized_network(network, config)
    engine = runtime.deserialize_cuda_engine(plan)
    with open(engine_path, "wb") as f:
        f.write(plan)
    return engine


def main():
    library, model, text, out, engine_path = sys.argv[1:]
    load_plugin_lib(library)
    if os.path.exists(engine_path):
        with open(engine_path, "rb") as f:
            runtime = trt.Runtime(TRT_LOGGER)
            runtime.max_threads = 10
            engine = runtime.deserialize_cuda_engine(f.read())
        print("Loaded")
    else:
        engine = build_engine(model, engine_path)
    inputs, outputs, bindings, stream = common.allocate_buffers(engine, profile_idx=0)
    trt_context = engine.create_execution_context()
    x = np.load(text)
    trt_context.set_input_shape("x", x.shape)
    inputs[0].host = x
    trt_outputs = common.do_inference(
        trt_context, engine=engine, bindings=bindings, inputs=inputs, outputs=outputs, stream=stream
    )
    np.save(out, trt_outputs[0][: x.size].reshape(x.shape))
    common.free_buffers(inputs, outputs, stream)
    print("Passed")


if __name__ == "__main__":
    main()
