"""The ONNX parser and its errors."""

import carnot as trt
import numpy as np
import onnx
from conftest import Messages
from models import infer, matmul_model
from onnx import helper


def test_parser(logger):
    network = trt.Builder(logger).create_network(0)
    parser = trt.OnnxParser(network, logger)
    assert parser.set_builder_config(network.builder.create_builder_config())
    assert not parser.parse_model_proto() and "load_model_proto" in logger.errors()[-1]
    assert parser.load_model_proto(matmul_model()) and parser.parse_model_proto()
    assert parser.get_layer_output_tensor("relu", 0).name == "y" and parser.get_layer_output_tensor("none", 0) is None
    assert parser.get_used_vc_plugin_libraries() == [] and parser.supports_model_v2(matmul_model())
    assert not parser.load_initializer("w", b"", 0) and "bytes" in logger.errors()[-1]
    other = trt.OnnxParser(trt.Builder(logger).create_network(0), logger)
    assert other.parse_with_weight_descriptors(matmul_model())
    assert not trt.OnnxParser(trt.Builder(logger).create_network(0), logger).parse(b"nothing")
    broken = onnx.load_from_string(matmul_model())
    broken.graph.node[1].op_type = "NoSuch"
    parser = trt.OnnxParser(trt.Builder(logger).create_network(0), logger)
    assert not parser.parse(broken.SerializeToString())
    error = parser.get_error(0)
    assert isinstance(error, trt.ParserError) and isinstance(error.code(), trt.ErrorCode)
    assert error.node() == 1 and "NoSuch" in str(error) and str(error) == repr(error)
    assert error.func() == "checkFallbackPluginImporter" and error.file() == "" and error.line() == 0
    assert error.local_function_stack() == [] and error.local_function_stack_size() == 0


def test_parser_errors():
    """Errors of the parser for an unsupported model."""

    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="fine"),
        helper.make_node("FancyOp", ["a"], ["b"], name="fancy", domain="my.domain"),
        helper.make_node("Exp", ["b"], ["y"], name="after"),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, [2])], [helper.make_tensor_value_info("y", 1, [2])]
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("my.domain", 1)], ir_version=9
    ).SerializeToString()
    logger = Messages()
    parser = trt.OnnxParser(trt.Builder(logger).create_network(0), logger)
    assert not parser.parse(model) and parser.num_errors == 1
    error = parser.get_error(0)
    assert error.code() == trt.ErrorCode.INVALID_NODE and error.node() == 1
    assert (error.node_name(), error.node_operator()) == ("fancy", "FancyOp") and "FancyOp" in logger.errors()[0]
    parser.clear_errors()
    supported, parts = parser.supports_model(model)
    assert not supported and parts == [([0], True), ([2], True)]
    assert parser.num_subgraphs == 2 and parser.get_subgraph_nodes(1) == [2] and parser.is_subgraph_supported(1)
    assert parser.get_subgraph_nodes(2) == [] and "no subgraph 2" in logger.errors()[-1]
    assert parser.get_error(7) is None and "no error 7" in logger.errors()[-1]
    assert parser.supports_operator("Conv") and not parser.supports_operator("FancyOp")
    assert not parser.parse(b"not a model") and not parser.parse_from_file("/nowhere/model.onnx")


def function_model():
    """A model whose function calls another one; three operators are not known, two of them inside functions."""

    def function(name, nodes, inputs, outputs):
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
        return helper.make_function("mine", name, inputs, outputs, nodes, imports)

    inner = function("Inner", [helper.make_node("Fake2", ["a"], ["b"], name="two")], ["a"], ["b"])
    outer_nodes = [
        helper.make_node("Inner", ["a"], ["t"], name="call_inner", domain="mine"),
        helper.make_node("Fake1", ["t"], ["b"], name="one"),
    ]
    outer = function("Outer", outer_nodes, ["a"], ["b"])
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node("Fake!", ["r"], ["s"]),
        helper.make_node("Outer", ["s"], ["y"], name="call", domain="mine"),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", 1, [2])], [helper.make_tensor_value_info("y", 1, [2])]
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    return helper.make_model(graph, opset_imports=imports, functions=[inner, outer], ir_version=9).SerializeToString()


def test_errors_name_operators_and_calls():
    """Each unsupported node is one error with its operator and the calls around it, and one line of the log."""
    logger = Messages()
    parser = trt.OnnxParser(trt.Builder(logger).create_network(0), logger)
    assert not parser.parse(function_model()) and parser.num_errors == 3
    errors = [parser.get_error(i) for i in range(3)]
    assert [(e.node_name(), e.node_operator(), e.local_function_stack()) for e in errors] == [
        ("", "Fake!", []),
        ("two", "Fake2", ["call (Outer)", "call_inner (Inner)"]),
        ("one", "Fake1", ["call (Outer)"]),
    ]
    assert [e.local_function_stack_size() for e in errors] == [0, 2, 1] and errors[0].node() == 1
    assert str(errors[2]) == (
        "In node 0 with name: one and operator: Fake1 (checkFallbackPluginImporter): INVALID_NODE: "
        'creator && "Plugin not found, are the plugin name, version, and namespace correct?"'
    )
    assert len(logger.errors()) == 3 and not any("\n" in line for line in logger.errors())


def test_supports_model_joins_neighbours(logger):
    """Subgraphs are runs of supported nodes; unsupported nodes are in none."""
    nodes = [helper.make_node(op, [f"t{i}"], [f"t{i + 1}"]) for i, op in enumerate(["Relu", "Exp", "No", "Abs", "Neg"])]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("t0", 1, [2])], [helper.make_tensor_value_info("t5", 1, [2])]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()
    parser = trt.OnnxParser(trt.Builder(logger).create_network(0), logger)
    assert parser.supports_model(model) == (False, [([0, 1], True), ([3, 4], True)])


def test_initializers_apart_from_the_model(logger):
    """load_initializer gives the elements of an initializer, to the parser and to the refitter."""
    data, weight, name = matmul_model(), np.random.default_rng(3).standard_normal((4, 4)).astype(np.float32), "w"
    builder = trt.Builder(logger)
    network, config = builder.create_network(0), builder.create_builder_config()
    config.set_flag(trt.BuilderFlag.REFIT)
    parser = trt.OnnxParser(network, logger)
    assert not parser.load_initializer(name, weight.ctypes.data, weight.nbytes)
    assert "load_model_proto first" in logger.errors()[-1]
    assert parser.load_model_proto(data)
    assert not parser.load_initializer("nothing", weight, weight.nbytes) and "nothing" in logger.errors()[-1]
    assert not parser.load_initializer(name, weight, weight.nbytes - 4) and str(weight.nbytes) in logger.errors()[-1]
    assert parser.load_initializer(name, weight.ctypes.data, weight.nbytes) and parser.parse_model_proto()
    plan = builder.build_serialized_network(network, config)
    engine = trt.Runtime(logger).deserialize_cuda_engine(plan)
    x = np.random.default_rng(4).standard_normal((2, 4)).astype(np.float32)
    got = infer(engine.create_execution_context(), {"x": x})["y"]
    np.testing.assert_allclose(got, np.maximum(x.astype(np.float64) @ weight, 0), rtol=1e-5, atol=1e-6)
    refitter = trt.Refitter(engine, logger)
    parser = trt.OnnxParserRefitter(refitter, logger)
    assert parser.load_model_proto(data) and parser.load_initializer(name, bytes(2 * weight), weight.nbytes)
    assert parser.refit_model_proto() and refitter.refit_cuda_engine()
    refitted = infer(engine.create_execution_context(), {"x": x})["y"]
    np.testing.assert_allclose(refitted, np.maximum(x.astype(np.float64) @ (2 * weight), 0), rtol=1e-5, atol=1e-6)


def test_operators_that_are_newer_than_the_opset(logger):
    """Einsum, which opset 12 introduced, in a model of opset 11."""
    graph = helper.make_graph(
        [helper.make_node("Einsum", ["x", "z"], ["y"], equation="ij,kj->ik")],
        "g",
        [helper.make_tensor_value_info(name, 1, [2, 3]) for name in "xz"],
        [helper.make_tensor_value_info("y", 1, [2, 2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6).SerializeToString()
    builder = trt.Builder(logger)
    network = builder.create_network(0)
    assert trt.OnnxParser(network, logger).parse(model), logger.errors()
    plan = builder.build_serialized_network(network, builder.create_builder_config())
    context = trt.Runtime(logger).deserialize_cuda_engine(plan).create_execution_context()
    x, z = np.random.default_rng(5).standard_normal((2, 2, 3)).astype(np.float32)
    np.testing.assert_allclose(infer(context, {"x": x, "z": z})["y"], x.astype(np.float64) @ z.T, rtol=1e-5)
