"""Graphs written without TensorFlow: constants in every form, names, edges, inputs and outputs."""

import pathlib

import numpy as np
import pytest
from graph_writer import BFLOAT16, F32, Shape, Type, add, constant, content, listed, node, placeholder, write
from harness import close, refused, run

X = np.array([[1, -2, 3], [4, 5, -6]], np.float32)
FORMS = {
    "content": (content(np.arange(6, dtype="f4").reshape(2, 3)), [[0, 1, 2], [3, 4, 5]]),
    "list": (listed("f4", (2, 3), [0, 1, 2, 3, 4, 5]), [[0, 1, 2], [3, 4, 5]]),
    "list_unpacked": (listed("f4", (2, 3), [0, 1, 2, 3, 4, 5], packed=False), [[0, 1, 2], [3, 4, 5]]),
    "last_repeated": (listed("f4", (2, 3), [7, 8]), [[7, 8, 8], [8, 8, 8]]),
    "one_for_all": (listed("f4", (2, 3), [2.5]), [[2.5] * 3] * 2),
    "no_value": (listed("f4", (2, 3), []), [[0] * 3] * 2),
    "scalar": (listed("f4", (), [3]), 3),
    "row": (listed("f4", (3,), [1, 2, 3]), [1, 2, 3]),
}


@pytest.mark.parametrize("form", FORMS)
def test_constant_of_float(tmp_path: pathlib.Path, form: str) -> None:
    tensor, want = FORMS[form]
    path = write(tmp_path, placeholder("x", (2, 3)), constant("c", tensor), add("y", "x", "c"))
    close(run(path, {"x": X}, tmp_path)["y"], X + np.float32(want))


@pytest.mark.parametrize("dtype", ["f8", "i4", "i8", "f2", "u1", "i1", "i2", "u2", "u4", "u8"])
@pytest.mark.parametrize("form", ["content", "list", "last_repeated"])
def test_constant_of_type(tmp_path: pathlib.Path, dtype: str, form: str) -> None:
    want = np.array([3, 1, 100, 100], dtype)
    if np.dtype(dtype).kind in "if":
        want[0] = -3
    values = want.view("u2") if dtype == "f2" else want
    tensor = {
        "content": content(want),
        "list": listed(dtype, (4,), values.tolist()),
        "last_repeated": listed(dtype, (4,), values[:3].tolist()),
    }[form]
    cast = node("wide", "Cast", "c", SrcT=Type(dtype), DstT=Type("f8"))
    path = write(
        tmp_path, placeholder("x", (4,), "f8"), constant("c", tensor, dtype), cast, add("y", "x", "wide", "f8")
    )
    close(run(path, {"x": np.ones(4)}, tmp_path)["y"], want.astype("f8") + 1)


def test_constant_of_bfloat16(tmp_path: pathlib.Path) -> None:
    cast = node("wide", "Cast", "c", SrcT=Type(BFLOAT16), DstT=F32)
    tensor = listed(BFLOAT16, (3,), [0x3F80, 0xC000, 0x3F00])
    path = write(tmp_path, placeholder("x", (3,)), constant("c", tensor, BFLOAT16), cast, add("y", "x", "wide"))
    close(run(path, {"x": np.zeros(3, "f4")}, tmp_path)["y"], np.array([1, -2, 0.5], "f4"))


@pytest.mark.parametrize("form", ["content", "list", "last_repeated"])
def test_constant_of_bool(tmp_path: pathlib.Path, form: str) -> None:
    want = np.array([False, True, True, True])
    tensor = {
        "content": content(want),
        "list": listed("bool", (4,), want.tolist()),
        "last_repeated": listed("bool", (4,), [0, 1]),
    }[form]
    path = write(
        tmp_path, placeholder("x", (4,), "bool"), constant("c", tensor, "bool"), node("y", "LogicalAnd", "x", "c")
    )
    close(run(path, {"x": np.array([1, 1, 0, 1], bool)}, tmp_path)["y"], np.array([0, 1, 0, 1], bool))


def test_constant_of_text_behind_an_assertion(tmp_path: pathlib.Path) -> None:
    """Assert and the text that it prints are reached by control edges only, which carry no state here."""
    path = write(
        tmp_path,
        placeholder("x", (2, 3)),
        constant("zero", 0),
        constant("axes", [0, 1], "i4"),
        node("any", "Max", "x", "axes", T=F32, Tidx=Type("i4")),
        node("is", "Greater", "any", "zero", T=F32),
        constant("text", np.array(b"x must be above zero"), "S"),
        node("check", "Assert", "is", "text", T=[Type("S")], summarize=3),
        node("group", "NoOp", "^check"),
        node("y", "Identity", "x", "^group", T=F32),
    )
    close(run(path, {"x": X}, tmp_path, "--outputs=y")["y"], X)


def test_only_what_the_outputs_need(tmp_path: pathlib.Path) -> None:
    """Of two outputs one is asked for; the other and its operator, unknown to every program, are left."""
    nodes = [placeholder("x", (2, 3)), placeholder("z", (2, 3)), node("y", "Neg", "x", T=F32)]
    nodes += [node("strange", "NoSuchOperator", "z", T=F32)]
    path = write(tmp_path, *nodes)
    close(run(path, {"x": X}, tmp_path, "--outputs=y")["y"], -X)
    assert "strange" in refused(path)


def test_nodes_without_results_are_no_outputs(tmp_path: pathlib.Path) -> None:
    path = write(
        tmp_path,
        placeholder("x", (2, 3)),
        constant("size", 2, "i4"),
        node("array", "TensorArrayV3", "size", dtype=F32),
        node("close", "TensorArrayCloseV3", "array"),
        constant("text", np.array(b"text"), "S"),
        node("file", "WriteFile", "text", "text"),
        node("y", "Neg", "x", "^file", "^close", T=F32),
    )
    got = run(path, {"x": X}, tmp_path)
    assert list(got) == ["y"]
    close(got["y"], -X)


def test_outputs_are_the_nodes_nobody_reads(tmp_path: pathlib.Path) -> None:
    path = write(
        tmp_path,
        placeholder("x", (2, 3)),
        node("a", "Neg", "x", T=F32),
        node("b", "Abs", "a", T=F32),
        node("c", "Exp", "a", T=F32),
    )
    got = run(path, {"x": X}, tmp_path)
    assert sorted(got) == ["b", "c"]
    close(got["b"], np.abs(X))
    close(got["c"], np.exp(-X))


def test_nodes_in_any_order(tmp_path: pathlib.Path) -> None:
    path = write(
        tmp_path,
        add("y", "b", "x"),
        node("b", "Neg", "a", T=F32),
        node("a", "Abs", "x", T=F32),
        placeholder("x", (2, 3)),
    )
    close(run(path, {"x": X}, tmp_path)["y"], X - np.abs(X))


def test_outputs_of_a_node_by_index(tmp_path: pathlib.Path) -> None:
    path = write(
        tmp_path,
        placeholder("x", (2, 3)),
        constant("axis", 1, "i4"),
        node("s", "Split", "axis", "x", T=F32, num_split=3),
        node("y", "Sub", "s:2", "s", T=F32),
    )
    close(run(path, {"x": X}, tmp_path, "--outputs=y:0")["y"], X[:, 2:] - X[:, :1])
    got = run(path, {"x": X}, tmp_path / "two", "--outputs=s:1,y")
    assert sorted(got) == ["s_1", "y"]
    close(got["s_1"], X[:, 1:2])


def test_inputs_cut_a_graph(tmp_path: pathlib.Path) -> None:
    """What an input is computed from is left out, with its own inputs."""
    path = write(
        tmp_path,
        placeholder("raw", (2, 3), "i4"),
        placeholder("names", (), "S"),
        node("x", "Cast", "raw", SrcT=Type("i4"), DstT=F32),
        node("scale", "PyFunc", "names", token="t"),
        node("scaled", "Mul", "x", "scale", T=F32),
        node("y", "Neg", "x", T=F32),
        node("z", "Abs", "scaled", T=F32),
    )
    got = run(path, {"x": X}, tmp_path, "--inputs=x", "--outputs=y")
    assert sorted(got) == ["y"]
    close(got["y"], -X)
    # The number of its dimensions is not known: what needs none of them runs.
    for x in (X, X[0], X[:, :, None]):
        close(run(path, {"scaled": x}, tmp_path / str(x.ndim), "--inputs=scaled", "--outputs=z")["z"], np.abs(x))


def test_cut_input_of_declared_type(tmp_path: pathlib.Path) -> None:
    """What computes it is not supported: types and shapes come from lists of attributes."""
    path = write(
        tmp_path,
        node("it", "OneShotIterator"),
        node(
            "get", "IteratorGetNext", "it", output_types=[F32, Type("i4")], output_shapes=[Shape((-1, 3)), Shape(None)]
        ),
        node("count", "Cast", "get:1", SrcT=Type("i4"), DstT=F32),
        node("y", "Mul", "get", "count", T=F32),
    )
    feeds = {"get": X, "get:1": np.arange(3, dtype="i4")}
    got = run(path, feeds, tmp_path / "run", "--inputs=get,get:1", "--outputs=y")
    close(got["y"], X * np.arange(3, dtype="f4"))
    assert "OneShotIterator" in refused(path, "--outputs=y")
    assert "get:1" in refused(path, "--inputs=get", "--outputs=y")


def test_placeholder_with_default(tmp_path: pathlib.Path) -> None:
    path = write(
        tmp_path,
        placeholder("x", (2, 3)),
        constant("two", 2),
        node("factor", "PlaceholderWithDefault", "two", dtype=F32, shape=Shape(())),
        node("y", "Mul", "x", "factor", T=F32),
    )
    close(run(path, {"x": X}, tmp_path)["y"], 2 * X)
    close(run(path, {"x": X, "factor": np.float32(5)}, tmp_path / "given", "--inputs=factor")["y"], 5 * X)


def test_placeholder_with_default_of_open_size(tmp_path: pathlib.Path) -> None:
    """As an input it has the sizes that it declares, not those of its default."""
    path = write(
        tmp_path,
        placeholder("x", (-1, 3)),
        constant("one", np.full((1, 3), 2)),
        node("factor", "PlaceholderWithDefault", "one", dtype=F32, shape=Shape((-1, 3))),
        node("y", "Mul", "x", "factor", T=F32),
    )
    close(run(path, {"x": X}, tmp_path)["y"], 2 * X)
    close(run(path, {"x": X, "factor": X}, tmp_path / "given", "--inputs=x,factor")["y"], X * X)


@pytest.mark.parametrize("sizes", [(-1, 3), (2, -1), (-1, -1)], ids=str)
def test_sizes_that_are_open(tmp_path: pathlib.Path, sizes: tuple) -> None:
    path = write(
        tmp_path,
        placeholder("x", sizes),
        constant("last", [-1], "i4"),
        node("y", "Reshape", "x", "last", T=F32, Tshape=Type("i4")),
    )
    for rows in (2, 5):
        x = np.arange(3 * rows, dtype="f4").reshape(rows, 3)
        if sizes[0] == -1 or rows == sizes[0]:
            close(run(path, {"x": x}, tmp_path / str(rows))["y"], x.ravel())


def test_defaults_of_attributes(tmp_path: pathlib.Path) -> None:
    """A writer may leave out attributes that have their default: keep_dims, alpha, transpose_a and transpose_b."""
    path = write(
        tmp_path,
        placeholder("x", (2, 3)),
        constant("w", np.ones((3, 2))),
        node("product", "MatMul", "x", "w", T=F32),
        node("leaky", "LeakyRelu", "product", T=F32),
        constant("axis", 1, "i4"),
        node("y", "Sum", "leaky", "axis", T=F32, Tidx=Type("i4")),
    )
    product = X @ np.ones((3, 2), "f4")
    close(run(path, {"x": X}, tmp_path)["y"], np.where(product > 0, product, 0.2 * product).sum(1).astype("f4"))


def test_complex_inputs_and_outputs(tmp_path: pathlib.Path) -> None:
    """Their parts are along a last axis of 2."""
    c64 = Type(8)
    path = write(
        tmp_path,
        node("z", "Placeholder", dtype=c64, shape=Shape((-1, 4))),
        node("inner", "Exp", "z", T=c64),
        node("y", "FFT", "inner", Tcomplex=c64),
        node("size", "ComplexAbs", "y", T=c64, Tout=F32),
    )
    z = (np.arange(8) / 8 + 1j * np.cos(np.arange(8))).reshape(2, 4).astype("c8")
    want = np.fft.fft(np.exp(z)).astype("c8")
    got = run(path, {"z": z.view("f4").reshape(2, 4, 2)}, tmp_path / "run", "--outputs=y,size")
    close(got["y"], want.view("f4").reshape(2, 4, 2))
    close(got["size"], np.abs(want))
    got = run(path, {"inner": z.view("f4").reshape(2, 4, 2)}, tmp_path / "cut", "--inputs=inner", "--outputs=y")
    close(got["y"], np.fft.fft(z).astype("c8").view("f4").reshape(2, 4, 2))


def test_operators_of_old_graphs(tmp_path: pathlib.Path) -> None:
    """TopK takes k as an attribute."""
    placed = node("x", "PlaceholderV2", dtype=F32, shape=Shape((2, 3)))
    path = write(tmp_path, placed, node("top", "TopK", "x", T=F32, k=2))
    got = run(path, {"x": X}, tmp_path / "run", "--outputs=top,top:1")
    close(got["top"], -np.sort(-X, axis=1)[:, :2])
    close(got["top_1"], np.argsort(-X, axis=1, kind="stable")[:, :2].astype("i4"))
