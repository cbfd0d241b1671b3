"""In the manner of network_api_pytorch_mnist: a network by its layers from a model's weights.

WEIGHTS.npz X.npy OUT.npy
"""

import sys

import common
import numpy as np
import tensorrt as trt

TRT_LOGGER = trt.Logger(trt.Logger.WARNING)


class ModelData:
    INPUT_NAME = "data"
    INPUT_SHAPE = (1, 1, 28, 28)
    OUTPUT_NAME = "prob"
    DTYPE = trt.float32


def add_matmul_as_fc(net, input, outputs, w, b):
    assert len(input.shape) >= 3
    m = 1 if len(input.shape) == 3 else input.shape[0]
    k = trt.volume(input.shape) // m
    assert m == 1 and w.size // outputs == k
    input_reshape = net.add_shuffle(input)
    input_reshape.reshape_dims = trt.Dims2(m, k)
    filter_const = net.add_constant(trt.Dims2(outputs, k), w)
    mm = net.add_matrix_multiply(
        input_reshape.get_output(0),
        trt.MatrixOperation.NONE,
        filter_const.get_output(0),
        trt.MatrixOperation.TRANSPOSE,
    )
    bias_const = net.add_constant(trt.Dims2(m, outputs), b)
    bias_add = net.add_elementwise(mm.get_output(0), bias_const.get_output(0), trt.ElementWiseOperation.SUM)
    output_reshape = net.add_shuffle(bias_add.get_output(0))
    output_reshape.reshape_dims = trt.Dims4(m, outputs, 1, 1)
    return output_reshape


def populate_network(network, weights):
    input_tensor = network.add_input(name=ModelData.INPUT_NAME, dtype=ModelData.DTYPE, shape=ModelData.INPUT_SHAPE)
    tensor = input_tensor
    for name, maps in (("conv1", 20), ("conv2", 50)):
        conv = network.add_convolution_nd(
            input=tensor,
            num_output_maps=maps,
            kernel_shape=(5, 5),
            kernel=weights[name + ".weight"],
            bias=weights[name + ".bias"],
        )
        conv.stride_nd = (1, 1)
        pool = network.add_pooling_nd(input=conv.get_output(0), type=trt.PoolingType.MAX, window_size=(2, 2))
        pool.stride_nd = trt.Dims2(2, 2)
        tensor = pool.get_output(0)
    fc1 = add_matmul_as_fc(network, tensor, 500, weights["fc1.weight"], weights["fc1.bias"])
    relu1 = network.add_activation(input=fc1.get_output(0), type=trt.ActivationType.RELU)
    fc2 = add_matmul_as_fc(network, relu1.get_output(0), 10, weights["fc2.weight"], weights["fc2.bias"])
    fc2.get_output(0).name = ModelData.OUTPUT_NAME
    network.mark_output(tensor=fc2.get_output(0))


def main():
    weights = dict(np.load(sys.argv[1]))
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(0)
    config = builder.create_builder_config()
    runtime = trt.Runtime(TRT_LOGGER)
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, common.GiB(1))
    populate_network(network, weights)
    engine = runtime.deserialize_cuda_engine(builder.build_serialized_network(network, config))
    inputs, outputs, bindings, stream = common.allocate_buffers(engine)
    context = engine.create_execution_context()
    np.copyto(inputs[0].host, np.load(sys.argv[2]).ravel())
    [output] = common.do_inference(
        context, engine=engine, bindings=bindings, inputs=inputs, outputs=outputs, stream=stream
    )
    np.save(sys.argv[3], output)
    common.free_buffers(inputs, outputs, stream)
    print("Passed")


if __name__ == "__main__":
    main()
