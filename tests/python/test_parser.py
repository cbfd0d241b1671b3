"""The ONNX parser and its errors."""

import carnot as trt
import onnx
from conftest import Messages
from models import matmul_model
from onnx import helper


def test_parser(logger):
    network = trt.Builder(logger).create_network(0)
    parser = trt.OnnxParser(network, logger)
    assert parser.set_builder_config(network.builder.create_builder_config())
    assert not parser.parse_model_proto() and "load_model_proto" in logger.errors()[-1]
    assert parser.load_model_proto(matmul_model()) and parser.parse_model_proto()
    assert parser.get_layer_output_tensor("relu", 0).name == "y" and parser.get_layer_output_tensor("none", 0) is None
    assert parser.get_used_vc_plugin_libraries() == [] and parser.supports_model_v2(matmul_model())
    assert not parser.load_initializer("w", b"", 0)
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
    assert error.func() == error.file() == "" and error.line() == 0
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
    assert error.code() == trt.ErrorCode.UNSUPPORTED_NODE and error.node() == 1
    assert (error.node_name(), error.node_operator()) == ("fancy", "FancyOp") and "FancyOp" in logger.errors()[0]
    parser.clear_errors()
    supported, parts = parser.supports_model(model)
    assert not supported and parts == [([0], True), ([1], False), ([2], True)]
    assert parser.num_subgraphs == 3 and parser.get_subgraph_nodes(1) == [1] and not parser.is_subgraph_supported(1)
    assert parser.supports_operator("Conv") and not parser.supports_operator("FancyOp")
    assert not parser.parse(b"not a model") and not parser.parse_from_file("/nowhere/model.onnx")
