"""In the manner of introductory_parser_samples: an ONNX classifier on one picture. MODEL IMAGE.npy OUT.npy"""

import sys

import common
import numpy as np
import tensorrt as trt

TRT_LOGGER = trt.Logger(trt.Logger.WARNING)


def build_engine_onnx(model_file):
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(0)
    config = builder.create_builder_config()
    parser = trt.OnnxParser(network, TRT_LOGGER)
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, common.GiB(1))
    with open(model_file, "rb") as model:
        if not parser.parse(model.read()):
            print("ERROR: Failed to parse the ONNX file.")
            for error in range(parser.num_errors):
                print(parser.get_error(error))
            return None
    engine_bytes = builder.build_serialized_network(network, config)
    runtime = trt.Runtime(TRT_LOGGER)
    return runtime.deserialize_cuda_engine(engine_bytes)


def main():
    engine = build_engine_onnx(sys.argv[1])
    inputs, outputs, bindings, stream = common.allocate_buffers(engine)
    context = engine.create_execution_context()
    np.copyto(inputs[0].host, np.load(sys.argv[2]).ravel())
    trt_outputs = common.do_inference(
        context, engine=engine, bindings=bindings, inputs=inputs, outputs=outputs, stream=stream
    )
    np.save(sys.argv[3], trt_outputs[0])
    common.free_buffers(inputs, outputs, stream)
    print("Passed")


if __name__ == "__main__":
    main()
