"""The device of an engine: the configuration chooses it, absent and unsuitable devices are refused."""

import carnot
import numpy as np
import pytest


def small_network(logger):
    builder = carnot.Builder(logger)
    network = builder.create_network(0)
    x = network.add_input("x", carnot.float32, (2, 3))
    y = network.add_activation(x, carnot.ActivationType.RELU).get_output(0)
    y.name = "y"
    network.mark_output(y)
    return builder, network, builder.create_builder_config()


def test_processor(logger):
    builder, network, config = small_network(logger)
    config.backend = "cpu"
    engine = carnot.Runtime(logger).deserialize_cuda_engine(builder.build_serialized_network(network, config))
    assert engine.device == "cpu"
    x = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
    context, y = engine.create_execution_context(), np.empty_like(x)
    assert context.execute_v2([x.ctypes.data, y.ctypes.data]) and np.array_equal(y, np.maximum(x, 0))


def test_device_that_is_absent(logger):
    builder, network, config = small_network(logger)
    config.backend = "cuda:sm_90"
    plan = builder.build_serialized_network(network, config)
    if plan is None and "CUDA module" in logger.errors()[-1]:
        pytest.skip(logger.errors()[-1])
    engine = carnot.Runtime(logger).deserialize_cuda_engine(plan)
    assert engine.device == "cuda:sm_90"
    assert engine.create_execution_context() is None
    assert "the engine is for cuda:sm_90" in logger.errors()[-1]


def test_device_of_another_kind(logger):
    builder, network, config = small_network(logger)
    config.backend = "tpu"
    assert builder.build_serialized_network(network, config) is None
    assert "must be cpu, cuda, cuda:N or cuda:sm_NN" in logger.errors()[-1]


def test_tf32_is_for_a_gpu(logger):
    """The TF32 flag reaches the GEMM kernels of a GPU; the CPU computes in float32."""

    def build(backend, *flags):
        builder = carnot.Builder(logger)
        network = builder.create_network(0)
        x = network.add_input("x", carnot.float32, (64, 64))
        w = network.add_constant((64, 64), np.ones((64, 64), np.float32)).get_output(0)
        y = network.add_matrix_multiply(x, carnot.MatrixOperation.NONE, w, carnot.MatrixOperation.NONE).get_output(0)
        network.mark_output(y)
        config = builder.create_builder_config()
        config.backend, config.builder_optimization_level = backend, 0  # engines keep times
        for flag in flags:
            config.set_flag(flag)
        plan = builder.build_serialized_network(network, config)
        if plan is None and "CUDA module" in logger.errors()[-1]:
            pytest.skip(logger.errors()[-1])
        return bytes(plan)

    tf32 = carnot.BuilderFlag.TF32
    assert build("cpu") == build("cpu", tf32)
    assert build("cuda:sm_90") == build("cuda:sm_90") != build("cuda:sm_90", tf32)
