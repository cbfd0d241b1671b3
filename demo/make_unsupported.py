#!/usr/bin/env python3
"""Writes a model with two nodes that Carnot has no operator for. Usage: make_unsupported.py OUTPUT"""
import sys

import onnx
from onnx import TensorProto, helper

nodes = [helper.make_node("Relu", ["x"], ["a"], "fine"), helper.make_node("FancyNorm", ["a"], ["b"], "block1/norm", domain="com.example"),
         helper.make_node("Mystery", ["b"], ["y"], "block1/mystery", domain="com.example")]
value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
graph = helper.make_graph(nodes, "unsupported", value[:1], value[1:])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.example", 1)], ir_version=9), sys.argv[1])
