"""Functions of a graph: calls, If and While, written without TensorFlow."""

import pathlib

import numpy as np
import pytest
from graph_writer import F32, Function, Type, add, constant, function, node, placeholder, write
from harness import close, refused, run

X = np.array([[1, -2, 3], [4, 5, -6]], np.float32)


def negate_and_add() -> bytes:
    nodes = [node("n", "Neg", "a", T=F32), node("s", "AddV2", "n:y:0", "b", T=F32)]
    return function("negate_and_add", {"a": "f4", "b": "f4"}, {"out": "f4"}, nodes, {"out": "s:z:0"})


def call(name: str, of: str, *inputs: str, op: str = "PartitionedCall") -> bytes:
    return node(name, op, *inputs, Tin=[F32] * len(inputs), Tout=[F32], f=Function(of))


@pytest.mark.parametrize("op", ["PartitionedCall", "StatefulPartitionedCall"])
def test_function_called_twice(tmp_path: pathlib.Path, op: str) -> None:
    nodes = [placeholder("x", (2, 3)), constant("c", 10)]
    nodes += [call("one", "negate_and_add", "x", "c", op=op), call("y", "negate_and_add", "one", "x", op=op)]
    path = write(tmp_path, *nodes, functions=[negate_and_add()])
    close(run(path, {"x": X}, tmp_path)["y"], X - 10 + X)


def test_function_called_by_its_name(tmp_path: pathlib.Path) -> None:
    path = write(
        tmp_path,
        placeholder("x", (2, 3)),
        constant("c", 10),
        node("y", "negate_and_add", "x", "c"),
        functions=[negate_and_add()],
    )
    close(run(path, {"x": X}, tmp_path)["y"], 10 - X)


def test_function_in_a_function(tmp_path: pathlib.Path) -> None:
    inner = call("i", "negate_and_add", "a", "a")
    outer = function(
        "outer", {"a": "f4"}, {"out": "f4"}, [inner, node("e", "Exp", "i:output:0", T=F32)], {"out": "e:y:0"}
    )
    path = write(tmp_path, placeholder("x", (2, 3)), call("y", "outer", "x"), functions=[negate_and_add(), outer])
    close(run(path, {"x": X}, tmp_path)["y"], np.ones((2, 3), "f4"))


def test_functions_that_are_refused(tmp_path: pathlib.Path) -> None:
    recursive = function("again", {"a": "f4"}, {"out": "f4"}, [call("c", "again", "a")], {"out": "c:output:0"})
    message = refused(write(tmp_path, placeholder("x", (2, 3)), call("y", "again", "x"), functions=[recursive]))
    assert "again" in message
    message = refused(write(tmp_path, placeholder("x", (2, 3)), call("caller", "nowhere", "x")))
    assert "caller" in message and "nowhere" in message


@pytest.mark.parametrize("op", ["If", "StatelessIf"])
def test_if(tmp_path: pathlib.Path, op: str) -> None:
    then = function("then", {"a": "f4"}, {"out": "f4"}, [node("n", "Neg", "a", T=F32)], {"out": "n:y:0"})
    other = function("other", {"a": "f4"}, {"out": "f4"}, [node("e", "Exp", "a", T=F32)], {"out": "e:y:0"})
    branches = {"then_branch": Function("then"), "else_branch": Function("other")}
    choose = node("y", op, "flag", "x", Tcond=Type("bool"), Tin=[F32], Tout=[F32], **branches)
    path = write(tmp_path, placeholder("x", (2, 3)), placeholder("flag", (), "bool"), choose, functions=[then, other])
    for flag, want in (True, -X), (False, np.exp(X)):
        close(run(path, {"x": X, "flag": np.array(flag)}, tmp_path / str(flag))["y"], want)


@pytest.mark.parametrize("op", ["While", "StatelessWhile"])
def test_while(tmp_path: pathlib.Path, op: str) -> None:
    kinds = {"i": "i4", "count": "i4", "v": "f4"}
    less = node("l", "Less", "i", "count", T=Type("i4"))
    cond = function("cond", kinds, {"out": "bool"}, [less], {"out": "l:z:0"})
    body = function(
        "body",
        kinds,
        {"i_out": "i4", "count_out": "i4", "v_out": "f4"},
        [constant("one", 1, "i4"), add("next", "i", "one:output:0", "i4"), node("square", "Mul", "v", "v", T=F32)],
        {"i_out": "next:z:0", "count_out": "count", "v_out": "square:z:0"},
    )
    types = [Type("i4"), Type("i4"), F32]
    loop = node("w", op, "zero", "count", "x", T=types, cond=Function("cond"), body=Function("body"))
    nodes = [placeholder("x", (2, 3)), placeholder("count", (), "i4"), constant("zero", 0, "i4"), loop]
    path = write(tmp_path, *nodes, node("y", "Identity", "w:2", T=F32), functions=[cond, body])
    x = np.float32(X / 4)
    for count in (0, 1, 3):
        got = run(path, {"x": x, "count": np.int32(count)}, tmp_path / str(count), "--outputs=y,w:0")
        close(got["y"], x ** np.float32(2**count))
        assert got["w"] == count


@pytest.mark.parametrize("count", [1, 2, 40])
def test_case(tmp_path: pathlib.Path, count: int) -> None:
    """Branch k multiplies by k; an index outside is the last branch's."""
    functions = []
    for k in range(count):
        body = [constant("k", k), node("m", "Mul", "a", "k:output:0", T=F32)]
        functions.append(function(f"f{k}", {"a": "f4", "b": "f4"}, {"out": "f4"}, body, {"out": "m:z:0"}))
    branches = [Function(f"f{k}") for k in range(count)]
    nodes = [placeholder("x", (2, 3)), placeholder("n", (), "i4")]
    nodes.append(node("y", "StatelessCase", "n", "x", "x", branches=branches, Tin=[F32, F32], Tout=[F32]))
    path = write(tmp_path, *nodes, functions=functions)
    for index, branch in ((0, 0), (count // 2, count // 2), (count - 1, count - 1), (-1, count - 1), (999, count - 1)):
        got = run(path, {"x": X, "n": np.array(index, "i4")}, tmp_path / str(index))
        close(got["y"], X * branch)


@pytest.mark.parametrize("count", [0, 257])
def test_case_of_too_many_branches(tmp_path: pathlib.Path, count: int) -> None:
    nodes = [placeholder("x", (2, 3)), placeholder("n", (), "i4")]
    nodes.append(node("y", "Case", "n", "x", branches=[Function("f")] * count))
    message = refused(write(tmp_path, *nodes))
    assert f"branches names {count} functions; 1 to 256 are required" in message
