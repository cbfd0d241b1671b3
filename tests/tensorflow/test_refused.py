"""Graphs that are refused: the message names the node, the operator and the reason."""

import pathlib
import re

import numpy as np
import pytest
from graph_writer import (
    F32,
    Function,
    Shape,
    Tensor,
    Type,
    add,
    constant,
    function,
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


def names_of(message: str) -> set[str]:
    return set(re.findall(r'node "([^"]+)"', message))


NONE = "no such operator is known"
BODY = function("body", {"a": "f4"}, {"r": "f4"}, [node("inside", "PyFunc", "a")], {"r": "inside:output:0"})
COND = function("cond", {"a": "f4"}, {"r": "bool"}, [node("test", "DecodePng", "a")], {"r": "test:image:0"})
GOOD = function("good", {"a": "f4"}, {"r": "bool"}, [node("less", "Less", "a", "a", T=F32)], {"r": "less:z:0"})
SHOWN = {"cond": Function("cond"), "body": Function("body")}


@pytest.mark.parametrize(
    "nodes,names",
    [
        (
            [node("bad", "NoSuch", "x"), node("call", "PartitionedCall", "bad", f=Function("body"))],
            {"bad", "call/inside"},
        ),
        ([node("call", "body", "x"), node("more", "NoSuch", "call")], {"call/inside", "more"}),
        ([node("loop", "While", "x", T=[F32], **SHOWN)], {"loop/test", "loop/inside"}),
        (
            [node("bad", "NoSuch", "x"), node("loop", "While", "bad", T=[F32], **SHOWN)],
            {"bad", "loop/test", "loop/inside"},
        ),
        (
            [node("loop", "While", "x", T=[F32], cond=Function("good"), body=Function("body"))],
            {"loop/inside"},
        ),
        (
            [
                placeholder("flag", (), "bool"),
                node("if", "If", "flag", "x", then_branch=Function("cond"), else_branch=Function("body")),
            ],
            {"if/test", "if/inside"},
        ),
        (
            [
                placeholder("n", (), "i4"),
                node("case", "Case", "n", "x", branches=[Function("good"), Function("cond"), Function("body")]),
            ],
            {"case/test", "case/inside"},
        ),
    ],
)
def test_operators_in_functions_are_all_named(tmp_path: pathlib.Path, nodes: list, names: set) -> None:
    path = write(tmp_path, placeholder("x", (2, 3)), *nodes, functions=[BODY, COND, GOOD])
    message = refused(path)
    assert names_of(message) == names
    assert f"{len(names)} node" in message and message.count("\n  node") == len(names), message


def test_operators_in_loops_of_tensorflow_1_are_all_named(tmp_path: pathlib.Path) -> None:
    frame = dict(T=F32, frame_name="frame")
    nodes = [
        node("bad", "NoSuch", "x"),
        node("enter", "Enter", "bad", **frame),
        node("merge", "Merge", "enter", "next", T=F32, N=2),
        node("test", "ReadFile", "merge"),
        node("loop", "LoopCond", "test"),
        node("switch", "Switch", "merge", "loop", T=F32),
        node("step", "DecodeGif", "switch:1"),
        node("next", "NextIteration", "step", T=F32),
        node("exit", "Exit", "switch", T=F32),
    ]
    assert names_of(refused(write(tmp_path, placeholder("x", (2, 3)), *nodes))) == {"bad", "test", "step"}


def test_message_is_bounded(tmp_path: pathlib.Path) -> None:
    nodes = [node(f"{i}_" + "n" * 5000, "NoSuch" + "o" * 5000, "x") for i in range(1000)]
    message = refused(write(tmp_path, placeholder("x", (2, 3)), *nodes))
    assert "1000 nodes of the model are not supported" in message
    assert 100 < message.count(NONE) < 200 and len(message) < 70000
    assert re.search(r"and \d+ more", message)


def test_same_message_in_c_and_python(tmp_path: pathlib.Path) -> None:
    carnot = pytest.importorskip("carnot", reason="the Python package is not built")
    path = write(tmp_path, placeholder("x", (2, 3)), node("a", "NoSuch", "x"), node("b", "PyFunc", "a"))
    with pytest.raises(Exception) as error:
        carnot.build(path)
    text = refused(path).split("carnot build: ")[1].strip()
    assert text in str(error.value)


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
    "reshape_overflows": (
        [placeholder("x", (2, 3)), constant("s", [1 << 40, 1 << 40], "i8"), node("y", "Reshape", "x", "s", T=F32)],
        ["y", "2^63"],
    ),
    "reshape_overflows_beside_an_open_dimension": (
        [placeholder("x", (-1, 3)), constant("s", [1 << 32, -1, 1 << 32], "i8"), node("y", "Reshape", "x", "s", T=F32)],
        ["y", "2^63"],
    ),
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


C64 = Type(8)


def pair(name: str) -> bytes:
    return node(name, "Complex", "x", "x", T=F32, Tout=C64)


@pytest.mark.parametrize(
    "nodes,words",
    [
        ([pair("z"), node("y", "Sqrt", "z", T=C64)], ['"y"', "Sqrt", "complex"]),
        ([node("y", "FFT", "x", Tcomplex=C64)], ["y", "FFT", "no complex number"]),
    ],
)
def test_complex_numbers(tmp_path: pathlib.Path, nodes: list, words: list) -> None:
    message = refused(write(tmp_path, placeholder("x", (2, 3)), *nodes))
    for word in words:
        assert word in message, message
