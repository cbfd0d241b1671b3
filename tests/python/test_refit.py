"""Refit: weights by name, by layer and role, from ONNX; stripped engines."""

import carnot as trt
import numpy as np
import onnx
from models import TRT_LOGGER, build_engine, build_plan, conv_model, infer, matmul_model, ort_run

rng = np.random.default_rng(21)


def test_refitter(logger, tmp_path):
    engine = build_engine(logger, matmul_model(), trt.BuilderFlag.REFIT)
    refitter = trt.Refitter(engine, logger)
    refitter.max_threads = 2
    assert refitter.max_threads == 2 and refitter.weights_validation in (True, False)
    assert refitter.get_missing() == ([], []) and refitter.get_tensors_with_dynamic_range() == []
    assert refitter.get_dynamic_range("x") == (0.0, 0.0) and not refitter.set_dynamic_range("x", (0, 1))
    assert (
        refitter.get_weights_prototype("w").size == 16 and refitter.get_weights_location("w") == trt.TensorLocation.HOST
    )
    twice = 2 * np.eye(4, dtype=np.float32)
    assert refitter.set_named_weights("w", twice) and refitter.get_named_weights("w").numpy().sum() == 8
    assert refitter.unset_named_weights("w") and not refitter.unset_named_weights("w")
    assert refitter.set_named_weights("w", twice) and refitter.refit_cuda_engine_async(0)
    x = rng.standard_normal((2, 4)).astype(np.float32)
    np.testing.assert_allclose(trt.Model(engine)(x=x)["y"], np.maximum(2 * x, 0))
    (tmp_path / "m.onnx").write_bytes(matmul_model(weight=3 * np.eye(4, dtype=np.float32)))
    parser = trt.OnnxParserRefitter(refitter, logger)
    assert parser.refit_from_file(str(tmp_path / "m.onnx")) and refitter.refit_cuda_engine()
    np.testing.assert_allclose(trt.Model(engine)(x=x)["y"], np.maximum(3 * x, 0))
    assert not parser.refit_model_proto() and not parser.load_initializer("w", b"", 0)
    assert parser.load_model_proto(matmul_model()) and parser.refit_model_proto() and refitter.refit_cuda_engine()
    np.testing.assert_allclose(trt.Model(engine)(x=x)["y"], np.maximum(x, 0))
    assert not parser.refit_from_file(str(tmp_path / "absent.onnx"))


def test_initializers_by_layer_and_role(logger):
    """get_all and get_missing list the initializers of an ONNX model, and set_weights takes what they list."""
    model = matmul_model()
    engine = build_engine(logger, model, trt.BuilderFlag.REFIT)
    refitter = trt.Refitter(engine, logger)
    layers, roles = refitter.get_all()
    assert layers == refitter.get_all_weights() != [] and set(roles) == {trt.WeightsRole.CONSTANT}
    at = layers.index("w")
    assert refitter.set_weights(layers[at], roles[at], 5 * np.eye(4, dtype=np.float32))
    assert refitter.refit_cuda_engine()
    x = rng.standard_normal((2, 4)).astype(np.float32)
    np.testing.assert_allclose(trt.Model(engine)(x=x)["y"], np.maximum(5 * x, 0))
    assert not refitter.set_weights("nowhere", trt.WeightsRole.CONSTANT, np.eye(4, dtype=np.float32))
    stripped = trt.Runtime(logger).deserialize_cuda_engine(build_plan(model, [trt.BuilderFlag.STRIP_PLAN]))
    assert "w" in trt.Refitter(stripped, logger).get_missing()[0]


def test_refit():
    """Refit by weight names, from an ONNX file, under a live context."""

    model = conv_model(batch=1)
    x = rng.standard_normal((1, 3, 8, 8)).astype(np.float32)
    engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(build_plan(model, [trt.BuilderFlag.REFIT]))
    assert engine.refittable
    context = engine.create_execution_context()
    np.testing.assert_allclose(infer(context, {"x": x})["y"], ort_run(model, {"x": x})[0], rtol=1e-4, atol=1e-4)
    refitter = trt.Refitter(engine, TRT_LOGGER)
    assert set(refitter.get_all_weights()) >= {"w", "scale", "bias", "mean", "var"}
    other = onnx.load_from_string(model)
    new = (rng.standard_normal((4, 3, 3, 3))).astype(np.float32)
    other.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(new, "w"))
    assert refitter.set_named_weights("w", trt.Weights(new))
    assert not refitter.set_named_weights("w", np.zeros(3, np.float32))
    assert refitter.get_missing_weights() == []
    assert refitter.refit_cuda_engine()
    np.testing.assert_allclose(
        infer(context, {"x": x})["y"], ort_run(other.SerializeToString(), {"x": x})[0], rtol=1e-4, atol=1e-4
    )
    back = trt.OnnxParserRefitter(refitter, TRT_LOGGER)
    assert back.refit_from_bytes(model) and refitter.refit_cuda_engine()
    np.testing.assert_allclose(infer(context, {"x": x})["y"], ort_run(model, {"x": x})[0], rtol=1e-4, atol=1e-4)


def test_refit_by_layer_and_role():
    """Refit by layer and role, of a network made by layers."""

    builder = trt.Builder(TRT_LOGGER)
    network = builder.create_network(0)
    x = network.add_input("x", trt.float32, (1, 2, 4, 4))
    w = rng.standard_normal((3, 2, 1, 1)).astype(np.float32)
    layer = network.add_convolution_nd(x, 3, (1, 1), w, np.zeros(3, np.float32))
    layer.name = "point"
    layer.get_output(0).name = "y"
    network.mark_output(layer.get_output(0))
    config = builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.REFIT)
    engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(builder.build_serialized_network(network, config))
    refitter = trt.Refitter(engine, TRT_LOGGER)
    assert ("point", trt.WeightsRole.KERNEL) in list(zip(*refitter.get_all()))
    assert refitter.set_weights("point", trt.WeightsRole.KERNEL, w * 2)
    assert refitter.set_weights("point", trt.WeightsRole.BIAS, np.ones(3, np.float32))
    assert refitter.refit_cuda_engine()
    a = rng.standard_normal((1, 2, 4, 4)).astype(np.float32)
    wanted = np.einsum("kc,nchw->nkhw", 2 * w[:, :, 0, 0].astype(np.float64), a) + 1
    np.testing.assert_allclose(infer(engine.create_execution_context(), {"x": a})["y"], wanted, rtol=1e-5, atol=1e-5)


def test_strip_weights():
    """Strips the weights and refits them."""

    model = conv_model(batch=1)
    x = rng.standard_normal((1, 3, 8, 8)).astype(np.float32)
    runtime = trt.Runtime(TRT_LOGGER)
    whole, stripped = (build_plan(model, [flag]) for flag in (trt.BuilderFlag.REFIT, trt.BuilderFlag.STRIP_PLAN))
    assert stripped.nbytes < whole.nbytes
    engine = runtime.deserialize_cuda_engine(stripped)
    refitter = trt.Refitter(engine, TRT_LOGGER)
    assert "w" in refitter.get_missing_weights()
    assert trt.OnnxParserRefitter(refitter, TRT_LOGGER).refit_from_bytes(model)
    assert refitter.refit_cuda_engine()
    full = runtime.deserialize_cuda_engine(engine.serialize())
    config = engine.create_serialization_config()
    config.set_flag(trt.SerializationFlag.EXCLUDE_WEIGHTS)
    assert len(engine.serialize_with_config(config)) < whole.nbytes
    for e in (engine, full):
        np.testing.assert_allclose(
            infer(e.create_execution_context(), {"x": x})["y"], ort_run(model, {"x": x})[0], rtol=1e-4, atol=1e-4
        )


def quantized_model(weight: np.ndarray, scale: float) -> bytes:
    """A GEMM of dequantized operands, quantized again: one step on integers."""
    h, f32 = onnx.helper, np.float32
    constants = {"xs": f32(0.02), "xz": np.uint8(7), "w": weight, "ws": f32(scale), "wz": np.int8(0), "ys": f32(0.4)}
    nodes = [
        h.make_node("DequantizeLinear", ["x", "xs", "xz"], ["a"]),
        h.make_node("DequantizeLinear", ["w", "ws", "wz"], ["b"]),
        h.make_node("MatMul", ["a", "b"], ["t"]),
        h.make_node("QuantizeLinear", ["t", "ys", "xz"], ["y"]),
    ]
    u8 = onnx.TensorProto.UINT8
    graph = h.make_graph(
        nodes,
        "g",
        [h.make_tensor_value_info("x", u8, [3, 24])],
        [h.make_tensor_value_info("y", u8, [3, 9])],
        [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 21)], ir_version=10).SerializeToString()


def test_refit_of_quantized_weights():
    """New integers and scales give what a build with them gives; weights that int8 does not hold are refused."""
    local = np.random.default_rng(3)
    old, new = (local.integers(-128, 128, (24, 9)).astype(np.int8) for _ in range(2))
    x = local.integers(0, 256, (3, 24)).astype(np.uint8)
    plan = build_plan(quantized_model(old, 0.01), [trt.BuilderFlag.REFIT])
    engine = trt.Runtime(TRT_LOGGER).deserialize_cuda_engine(plan)
    refitter = trt.Refitter(engine, TRT_LOGGER)
    assert refitter.set_named_weights("w", new) and refitter.set_named_weights("ws", np.array(0.02, np.float32))
    assert refitter.refit_cuda_engine()
    wanted = trt.load(quantized_model(new, 0.02))(x=x)["y"]
    assert np.array_equal(trt.Model(engine)(x=x)["y"], wanted)
    assert refitter.set_named_weights("ws", np.array(-1, np.float32)) and not refitter.refit_cuda_engine()
    assert np.array_equal(trt.Model(engine)(x=x)["y"], wanted)
