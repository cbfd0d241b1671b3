"""In the manner of engine_refit_onnx_bidaf: an engine refitted by names, wrong weights first.

MODEL WEIGHTS.npz X.npy OUT.npz
"""

import sys

import common
import numpy as np
import pycuda.autoinit  # noqa: F401 - the sample makes its context so
import tensorrt as trt

TRT_LOGGER = trt.Logger()


def get_engine(onnx_file_path):
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    parser = trt.OnnxParser(network, TRT_LOGGER)
    runtime = trt.Runtime(TRT_LOGGER)
    with open(onnx_file_path, "rb") as model:
        assert parser.parse(model.read())
    for i in range(network.num_inputs):
        tensor = network.get_input(i)
        print(tensor.name, trt.nptype(tensor.dtype), tensor.shape)
    network.get_input(0).shape = [10, 16]
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.REFIT)
    config.max_workspace_size = 1 << 28
    return runtime.deserialize_cuda_engine(builder.build_serialized_network(network, config))


def main():
    model, weights, x, out = sys.argv[1:]
    refit_weights = dict(np.load(weights))
    fake_weights = {name: np.ones_like(w) for name, w in refit_weights.items()}
    engine = get_engine(model)
    refitter = trt.Refitter(engine, TRT_LOGGER)
    found = []
    for weights_dict in (fake_weights, refit_weights):
        for name in weights_dict:
            assert refitter.set_named_weights(name, weights_dict[name])
        missing_weights = refitter.get_missing_weights()
        assert len(missing_weights) == 0, "Refitter found missing weights."
        assert refitter.refit_cuda_engine()
        inputs, outputs, bindings, stream = common.allocate_buffers(engine)
        inputs[0].host = np.load(x)
        context = engine.create_execution_context()
        result = common.do_inference(context, engine, bindings, inputs, outputs, stream)
        found.append(result[0].reshape(10, -1).copy())
        common.free_buffers(inputs, outputs, stream)
    np.savez(out, wrong=found[0], right=found[1])
    print("Passed")


if __name__ == "__main__":
    main()
