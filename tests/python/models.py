"""ONNX models of the tests, and the steps that build and run them."""

import carnot as trt
import numpy as np
import onnx
import onnxruntime
from conftest import Messages
from onnx import helper

rng = np.random.default_rng(3)
TRT_LOGGER = Messages()


def onnx_bytes(nodes, inputs, outputs, weights=(), opset=17):
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs],
        [helper.make_tensor_value_info(n, t, s) for n, t, s in outputs],
        [onnx.numpy_helper.from_array(w, n) for n, w in weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9).SerializeToString()


def conv_model(weights=None, batch="n"):
    w = rng.standard_normal((4, 3, 3, 3)).astype(np.float32) if weights is None else weights
    bn = [(n, (np.abs(rng.standard_normal(4)) + 0.5).astype(np.float32)) for n in ("scale", "bias", "mean", "var")]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1] * 4),
        helper.make_node("BatchNormalization", ["c", "scale", "bias", "mean", "var"], ["b"], name="bn"),
        helper.make_node("Relu", ["b"], ["y"], name="relu"),
    ]
    return onnx_bytes(nodes, [("x", 1, [batch, 3, 8, 8])], [("y", 1, [batch, 4, 8, 8])], [("w", w), *bn])


def ort_run(model, feeds):
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def build_plan(model, flags=(), profiles=(), cache=None, monitor=None):
    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH))
    parser = trt.OnnxParser(network, TRT_LOGGER)
    assert parser.parse(model), [parser.get_error(i).desc() for i in range(parser.num_errors)]
    config = builder.create_builder_config()
    config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, 1 << 30)
    config.builder_optimization_level = 1
    for flag in flags:
        config.set_flag(flag)
    for shapes in profiles:
        profile = builder.create_optimization_profile()
        profile.set_shape("x", *shapes)
        config.add_optimization_profile(profile)
    if cache is not None:
        config.set_timing_cache(cache, ignore_mismatch=False)
    if monitor is not None:
        config.progress_monitor = monitor
    return builder.build_serialized_network(network, config)


def infer(context, feeds):
    """Binds and runs all tensors, as every sample does."""
    engine = context.engine
    outputs, keep = {}, []
    for name, array in feeds.items():
        assert context.set_input_shape(name, array.shape)
        keep.append(np.ascontiguousarray(array))
        assert context.set_tensor_address(name, keep[-1].ctypes.data)
    for i in range(engine.num_io_tensors):
        name = engine.get_tensor_name(i)
        if engine.get_tensor_mode(name) == trt.TensorIOMode.OUTPUT:
            outputs[name] = np.empty(context.get_tensor_shape(name), dtype=trt.nptype(engine.get_tensor_dtype(name)))
            context.set_tensor_address(name, outputs[name].ctypes.data)
    context.buffers = keep, outputs  # the context borrows them for further runs
    assert context.execute_async_v3(0), TRT_LOGGER.errors()
    return outputs


def matmul_model(shape=(2, 4), dynamic=False, weight=None):
    w = np.eye(4, dtype=np.float32) if weight is None else weight
    dims = ["n", 4] if dynamic else list(shape)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"], "product"), helper.make_node("Relu", ["m"], ["y"], "relu")],
        "g",
        [helper.make_tensor_value_info("x", 1, dims)],
        [helper.make_tensor_value_info("y", 1, dims)],
        [onnx.numpy_helper.from_array(w, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


def build_engine(logger, data, *flags, profiles=()):
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    assert trt.OnnxParser(network, logger).parse(data)
    config = builder.create_builder_config()
    config.builder_optimization_level = 0
    for flag in flags:
        config.set_flag(flag)
    for shapes in profiles:
        profile = builder.create_optimization_profile()
        profile.set_shape("x", *shapes)
        config.add_optimization_profile(profile)
    engine = builder.build_engine_with_config(network, config)
    assert engine is not None, logger.errors()
    return engine
