"""Graphs that are refused: the message names the node, the operator and the reason."""

import pathlib

import numpy as np
import pytest
from graph_writer import (
    F32,
    Shape,
    Tensor,
    Type,
    add,
    constant,
    graph,
    listed,
    node,
    number,
    part,
    placeholder,
    shape,
    write,
)
from harness import refused


def test_unknown_operators_are_all_named(tmp_path: pathlib.Path) -> None:
    nodes = [
        placeholder("x", (2, 3)),
        node("first", "NoSuchOperator", "x", T=F32),
        node("second", "PyFunc", "x", token="t"),
        add("y", "first", "second"),
    ]
    message = refused(write(tmp_path, *nodes))
    for word in ("first", "NoSuchOperator", "second", "PyFunc"):
        assert word in message, message


NEG = node("y", "Neg", "x", T=F32)
TOO_SHORT = Tensor(number(1, 1) + part(2, shape(Shape((2, 3)))) + part(4, b"\0" * 20))
BROKEN = {
    "dangling": ([placeholder("x", (2, 3)), add("sum", "x", "nowhere")], ["sum", "nowhere"]),
    "no_such_output": ([placeholder("x", (2, 3)), node("y", "Neg", "x:7", T=F32)], ["y", "x:7"]),
    "cycle": (
        [placeholder("x", (2, 3)), add("a", "x", "b"), node("b", "Neg", "a", T=F32), add("y", "b", "x")],
        ["cycle"],
    ),
    "reads_itself": ([placeholder("x", (2, 3)), add("a", "x", "a"), add("y", "a", "x")], ["a"]),
    "same_name": ([placeholder("x", (2, 3)), NEG, node("y", "Abs", "x", T=F32)], ["y"]),
    "too_few_inputs": ([placeholder("x", (2, 3)), node("y", "AddV2", "x", T=F32)], ["y", "AddV2"]),
    "shapes": ([placeholder("x", (2, 3)), constant("c", np.ones((4, 5))), add("sum", "x", "c")], ["sum"]),
    "no_name": ([placeholder("x", (2, 3)), node("", "Neg", "x", T=F32)], ["node 1", "name"]),
    "zero_byte": ([placeholder("x", (2, 3)), node("\0y", "Neg", "x", T=F32)], ["node 1", "zero byte"]),
    "no_nodes": ([], []),
    "content_too_short": (
        [placeholder("x", (2, 3)), constant("c", TOO_SHORT), add("y", "x", "c")],
        ["c", "20"],
    ),
    "huge_constant": (
        [placeholder("x", (2, 3)), constant("c", listed("f4", (1 << 62, 4), [1])), add("y", "x", "c")],
        ["c"],
    ),
    "negative_size": ([placeholder("x", (2, 3)), constant("c", listed("f4", (-2, 3), [1])), add("y", "x", "c")], ["c"]),
    "no_value": ([placeholder("x", (2, 3)), node("c", "Const", dtype=F32), add("y", "x", "c")], ["c", "value"]),
    "huge_placeholder": ([placeholder("x", (1 << 62, 1 << 62)), NEG], ["x"]),
    "bad_padding": (
        [
            placeholder("x", (1, 8, 8, 3)),
            constant("w", np.ones((3, 3, 3, 4))),
            node("conv", "Conv2D", "x", "w", T=F32, strides=[1, 1, 1, 1], padding="SOME"),
        ],
        ["conv", "SOME"],
    ),
    "no_padding": (
        [
            placeholder("x", (1, 8, 8, 3)),
            constant("w", np.ones((3, 3, 3, 4))),
            node("conv", "Conv2D", "x", "w", T=F32, strides=[1, 1, 1, 1]),
        ],
        ["conv", "padding"],
    ),
    "bad_strides": (
        [
            placeholder("x", (1, 8, 8, 3)),
            constant("w", np.ones((3, 3, 3, 4))),
            node("conv", "Conv2D", "x", "w", T=F32, strides=[1, 0, 1, 1], padding="SAME"),
        ],
        ["conv", "stride"],
    ),
    "bad_axis": (
        [placeholder("x", (2, 3)), constant("axis", 5, "i4"), node("sum", "Sum", "x", "axis", T=F32, Tidx=Type("i4"))],
        ["sum", "5"],
    ),
    "attribute_of_wrong_kind": (
        [placeholder("x", (2, 3)), node("soft", "LeakyRelu", "x", T=F32, alpha="text")],
        ["soft", "alpha"],
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_graph(tmp_path: pathlib.Path, case: str) -> None:
    nodes, words = BROKEN[case]
    message = refused(write(tmp_path, *nodes))
    for word in words:
        assert word in message, message


@pytest.mark.parametrize(
    "op", ["ReadFile", "MutableHashTableV2", "QueueDequeueV2", "IteratorGetNext", "PyFunc", "DecodePng"]
)
def test_refused_by_name(tmp_path: pathlib.Path, op: str) -> None:
    message = refused(write(tmp_path, placeholder("x", (), "S"), node("culprit", op, "x")))
    assert "culprit" in message and op in message


def test_truncated_file(tmp_path: pathlib.Path) -> None:
    whole = graph(placeholder("x", (2, 3)), constant("c", np.ones((2, 3))), add("sum", "x", "c"))
    path = tmp_path / "graph.pb"
    starts, at = {0}, 0  # a file that ends between two nodes is a smaller graph
    for part_of in (placeholder("x", (2, 3)), constant("c", np.ones((2, 3))), add("sum", "x", "c")):
        at += len(part(1, part_of))
        starts.add(at)
    for size in range(1, len(whole), 5):
        if size not in starts:
            path.write_bytes(whole[:size])
            refused(path)
