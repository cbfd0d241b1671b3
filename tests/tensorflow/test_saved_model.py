"""SavedModels written without TensorFlow: signatures, tags, variables in tensor bundles, and broken ones."""

import pathlib
import struct

import numpy as np
import pytest
from graph_writer import F32, Shape, Type, constant, graph, node, placeholder
from harness import close, refused, run
from saved_model_writer import MAGIC, meta_graph, signature, write_bundle, write_saved_model
from variables import SCALE, SHIFT, SIGNATURES, TENSORS, function_graph, reference_graph, resource_graph

GRAPHS = {"resource": resource_graph, "reference": reference_graph, "function": function_graph}
X = np.array([[1, -2, 3], [4, 5, -6]], np.float32)
WANT = X * SCALE + SHIFT


def saved(folder: pathlib.Path, kind: str = "resource", tensors: dict = TENSORS, **bundle: object) -> pathlib.Path:
    signatures = {key: SIGNATURES[key] for key in ("serving_default",) + ("other",) * (kind != "function")}
    restore = ("saver_filename:0" if kind == "function" else "save/Const:0", "save/restore_all")
    model = write_saved_model(folder / "model", meta_graph(GRAPHS[kind](), signatures, restore=restore))
    write_bundle(model / "variables/variables", tensors, **bundle)
    return model


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize("shards", [1, 2])
def test_variables_by_the_restore_graph(tmp_path: pathlib.Path, kind: str, shards: int) -> None:
    got = run(saved(tmp_path, kind, shards=shards), {"image": X}, tmp_path / "run")
    assert sorted(got) == ["result"]
    close(got["result"], WANT)


def test_many_entries_in_blocks(tmp_path: pathlib.Path) -> None:
    """Keys that share prefixes with their neighbours, in several blocks; most belong to no variable that is read."""
    more = {f"layers/{n:03}/kernel": np.full((n % 5, 3), n, "f4") for n in range(100)}
    got = run(saved(tmp_path, tensors={**more, **TENSORS}, shards=3), {"image": X}, tmp_path / "run")
    close(got["result"], WANT)


def test_signature(tmp_path: pathlib.Path) -> None:
    model = saved(tmp_path)
    got = run(model, {"image": X}, tmp_path / "run", "--signature=other")
    assert sorted(got) == ["product"]
    close(got["product"], X * SCALE)
    message = refused(model, "--signature=none")
    assert "none" in message and "serving_default" in message and "other" in message


def test_tags(tmp_path: pathlib.Path) -> None:
    def net(op: str) -> bytes:
        return graph(placeholder("x", (-1, 3)), node("y", op, "x", T=F32))

    keys = {"serving_default": signature({"x": ("x:0", "f4", (-1, 3))}, {"y": ("y:0", "f4", (-1, 3))})}
    graphs = [meta_graph(net("Neg"), keys, tags=("train",)), meta_graph(net("Abs"), keys, tags=("serve",))]
    model = write_saved_model(tmp_path / "model", *graphs, meta_graph(net("Exp"), keys, tags=("serve", "gpu")))
    close(run(model, {"x": X}, tmp_path / "serve", "--tags=serve")["y"], np.abs(X))
    close(run(model, {"x": X}, tmp_path / "train", "--tags=train")["y"], -X)
    close(run(model, {"x": X}, tmp_path / "gpu", "--tags=serve,gpu")["y"], np.exp(X))
    message = refused(model, "--tags=none")
    assert "none" in message and "train" in message


def test_one_graph_of_any_tags_is_taken(tmp_path: pathlib.Path) -> None:
    keys = {"serving_default": signature({"x": ("x:0", "f4", (-1, 3))}, {"y": ("y:0", "f4", (-1, 3))})}
    net = graph(placeholder("x", (-1, 3)), node("y", "Neg", "x", T=F32))
    model = write_saved_model(tmp_path / "model", meta_graph(net, keys))
    close(run(model, {"x": X}, tmp_path / "run")["y"], -X)
    close(run(model / "saved_model.pb", {"x": X}, tmp_path / "file")["y"], -X)


TEXT = """
saved_model_schema_version: 1
meta_graphs {
  meta_info_def { tags: "serve" }
  graph_def {
    node { name: "x" op: "Placeholder"
      attr { key: "dtype" value { type: DT_FLOAT } }
      attr { key: "shape" value { shape { dim { size: -1 } dim { size: 3 } } } } }
    node { name: "c" op: "Const"
      attr { key: "dtype" value { type: DT_FLOAT } }
      attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { dim { size: 3 } }
        tensor_content: "\\000\\000\\200?\\000\\000\\000@\\000\\000@@" } } } }
    node { name: "y" op: "Mul" input: "x" input: "c" attr { key: "T" value { type: DT_FLOAT } } }
  }
  signature_def { key: "serving_default" value {
    inputs { key: "image" value { name: "x:0" dtype: DT_FLOAT } }
    outputs { key: "result" value { name: "y:0" dtype: DT_FLOAT } } } }
}
"""


def test_text_form(tmp_path: pathlib.Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/saved_model.pbtxt").write_text(TEXT)
    got = run(tmp_path / "model", {"image": X}, tmp_path / "run")
    close(got["result"], X * np.array([1, 2, 3], "f4"))


def test_meta_graph_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.meta"
    net = graph(placeholder("x", (-1, 3)), constant("two", 2), node("y", "Mul", "x", "two", T=F32))
    path.write_bytes(meta_graph(net, {}))
    close(run(path, {"x": X}, tmp_path / "run")["y"], 2 * X)


# ---- what is refused ----


def index_of(model: pathlib.Path) -> pathlib.Path:
    return model / "variables/variables.index"


def shard_of(model: pathlib.Path) -> pathlib.Path:
    return model / "variables/variables.data-00000-of-00001"


def cut(path: pathlib.Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def change(path: pathlib.Path, at: int, data: bytes) -> None:
    old = bytearray(path.read_bytes())
    at %= len(old)
    old[at : at + len(data)] = data
    path.write_bytes(old)


DAMAGE = {
    "no_index": (lambda m: index_of(m).unlink(), "variables.index"),
    "empty_index": (lambda m: cut(index_of(m), 0), "variables.index"),
    "short_index": (lambda m: cut(index_of(m), 47), "variables.index"),
    "cut_index": (lambda m: cut(index_of(m), -20), "variables.index"),
    "magic": (lambda m: change(index_of(m), -8, struct.pack("<Q", MAGIC ^ 1)), "variables.index"),
    "block_outside": (lambda m: change(index_of(m), -48, b"\xff\xff\x7f\x05\xff\xff\x7f\x05"), "variables.index"),
    "huge_handle": (
        lambda m: change(index_of(m), -48, b"\xff" * 9 + b"\x01" + b"\xff" * 9 + b"\x01"),
        "variables.index",
    ),
    "no_shard": (lambda m: shard_of(m).unlink(), "data-00000-of-00001"),
    "short_shard": (lambda m: cut(shard_of(m), 20), "data-00000-of-00001"),
}


@pytest.mark.parametrize("case", DAMAGE)
def test_damaged_bundle(tmp_path: pathlib.Path, case: str) -> None:
    model = saved(tmp_path)
    damage, word = DAMAGE[case]
    damage(model)
    assert word in refused(model)


def test_index_cut_anywhere(tmp_path: pathlib.Path) -> None:
    model = saved(tmp_path)
    whole = index_of(model).read_bytes()
    for size in range(0, len(whole), 11):
        index_of(model).write_bytes(whole[:size])
        assert "variables.index" in refused(model)


def test_compressed_block(tmp_path: pathlib.Path) -> None:
    """TensorFlow writes its tables without compression."""
    assert "variables.index" in refused(saved(tmp_path, compression=1))


def test_variable_that_is_not_in_the_bundle(tmp_path: pathlib.Path) -> None:
    tensors = {key: value for key, value in TENSORS.items() if key != "z/0"}
    assert "z/0" in refused(saved(tmp_path, tensors=tensors))


def test_variable_of_other_sizes(tmp_path: pathlib.Path) -> None:
    message = refused(saved(tmp_path, tensors={**TENSORS, "z/0": np.ones(4, "f4")}))
    assert "z/0" in message or "shift" in message


def test_variable_of_another_type(tmp_path: pathlib.Path) -> None:
    message = refused(saved(tmp_path, tensors={**TENSORS, "z/0": SHIFT.astype("i4")}))
    assert "z/0" in message or "shift" in message


def test_checksum(tmp_path: pathlib.Path) -> None:
    """A flipped bit of the elements is found when weights are verified."""
    model = saved(tmp_path)
    change(shard_of(model), 3, b"\x7f")
    message = refused(model, "--verifyWeights")
    assert "shift/.ATTRIBUTES/VARIABLE_VALUE" in message or "scale" in message


def test_folder_without_a_model(tmp_path: pathlib.Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "empty" in refused(tmp_path / "empty")
    (tmp_path / "empty/saved_model.cpb").write_bytes(b"chunks")
    assert "saved_model.cpb" in refused(tmp_path / "empty")


def test_saved_model_cut_short(tmp_path: pathlib.Path) -> None:
    model = saved(tmp_path)
    whole = (model / "saved_model.pb").read_bytes()
    for size in (1, 5, 40, len(whole) // 2, len(whole) - 1):
        (model / "saved_model.pb").write_bytes(whole[:size])
        refused(model)


def test_signature_that_names_no_node(tmp_path: pathlib.Path) -> None:
    keys = {"serving_default": signature({"x": ("x:0", "f4", (3,))}, {"y": ("nowhere:0", "f4", (3,))})}
    net = graph(placeholder("x", (3,)), node("y", "Neg", "x", T=F32))
    assert "nowhere" in refused(write_saved_model(tmp_path / "model", meta_graph(net, keys)))


def test_rows_of_variables(tmp_path: pathlib.Path) -> None:
    """ResourceGather, a variable by reference of the first form, and whether they are initialized; keys are the
    nodes' names."""
    i64 = Type("i8")
    table, shift = np.arange(12, dtype="f4").reshape(4, 3), np.array([10, 20, 30], "f4")
    nodes = [
        placeholder("ids", (2,), "i8"),
        node("table", "VarHandleOp", dtype=F32, shape=Shape((4, 3)), shared_name="table"),
        node("rows", "ResourceGather", "table", "ids", dtype=F32, Tindices=i64),
        node("shift", "Variable", dtype=F32, shape=Shape((3,)), shared_name=""),
        node("y", "AddV2", "rows", "shift", T=F32),
        node("handle", "VarIsInitializedOp", "table"),
        node("reference", "IsVariableInitialized", "shift", dtype=F32),
    ]
    outputs = {"y": ("y:0", "f4", (2, 3)), "a": ("handle:0", "bool", ()), "b": ("reference:0", "bool", ())}
    keys = {"serving_default": signature({"ids": ("ids:0", "i8", (2,))}, outputs)}
    model = write_saved_model(tmp_path / "model", meta_graph(graph(*nodes), keys))
    write_bundle(model / "variables/variables", {"table": table, "shift": shift})
    got = run(model, {"ids": np.array([3, 1])}, tmp_path / "run")
    close(got["y"], table[[3, 1]] + shift)
    assert got["a"] and got["b"]
