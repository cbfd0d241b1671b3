"""Hash tables filled by constants and by vocabularies of SavedModels; those that change are refused by name."""

import pathlib

import numpy as np
import pytest
from graph_writer import Function, Type, constant, function, graph, node, part, placeholder, write
from harness import close, refused, run
from saved_model_writer import meta_graph, signature, write_saved_model

I64, TEXT = Type("i8"), Type("S")
RNG = np.random.default_rng(4)
KEYS = RNG.permutation(np.concatenate([RNG.integers(-(2**62), 2**62, 500), [0, -1, 2**63 - 1, -(2**63)]]))
WORDS = np.array([f"{'w' * (n % 7)}{n * 7919 % 1000}\u00e9".encode() for n in range(len(KEYS))])
ASKED = np.concatenate([KEYS[::7], [5, -5, 2**40]]).reshape(5, -1)


def table(name: str, key: Type, value: Type, op: str = "HashTableV2", **more: object) -> bytes:
    return node(name, op, key_dtype=key, value_dtype=value, shared_name="", container="", **more)


def fill(name: str, keys: np.ndarray, values: np.ndarray, op: str = "LookupTableImportV2") -> list[bytes]:
    types = [a.dtype if a.dtype.kind != "S" else "S" for a in (keys, values)]
    return [
        constant(f"{name}/keys", keys, types[0]),
        constant(f"{name}/values", values, types[1]),
        node(f"{name}/fill", op, name, f"{name}/keys", f"{name}/values", Tin=Type(types[0]), Tout=Type(types[1])),
    ]


def find(name: str, of: str, keys: str, absent: object, dtype: object, op: str = "LookupTableFindV2") -> list[bytes]:
    return [
        constant(f"{name}/absent", absent, dtype),
        node(name, op, of, keys, f"{name}/absent", Tin=I64, Tout=Type(dtype)),
    ]


def wanted(asked: np.ndarray, keys: np.ndarray, values: np.ndarray, absent: object) -> np.ndarray:
    by_key = dict(zip(keys.tolist(), values.tolist()))
    return np.array([by_key.get(k, absent) for k in asked.ravel().tolist()], values.dtype).reshape(asked.shape)


@pytest.mark.parametrize("op", ["LookupTableImport", "InitializeTable"])
@pytest.mark.parametrize("version", ["", "V2"])
@pytest.mark.parametrize("dtype", ["i8", "i4", "f4", "f8", "bool"])
def test_numbers(tmp_path: pathlib.Path, dtype: str, version: str, op: str) -> None:
    """Tables of TensorFlow 1 are references, those of version 2 resources."""
    values = RNG.integers(-100, 100, len(KEYS)).astype(dtype)
    nodes = [
        table("t", I64, Type(dtype), "HashTable" + version),
        *fill("t", KEYS, values, op + version),
        *find("y", "t", "x", 1, dtype, "LookupTableFind" + version),
        node("size", "LookupTableSize" + version, "t"),
    ]
    got = run(write(tmp_path, placeholder("x", (-1, ASKED.shape[1]), "i8"), *nodes), {"x": ASKED}, tmp_path / "run")
    np.testing.assert_array_equal(got["y"], wanted(ASKED, KEYS, values, np.dtype(dtype).type(1)))
    assert got["size"] == len(KEYS)


def test_narrow_keys(tmp_path: pathlib.Path) -> None:
    keys, values = np.arange(40, 0, -2, dtype="i4"), np.arange(20, dtype="i8")
    nodes = [table("t", Type("i4"), I64), *fill("t", keys, values), *find("y", "t", "x", -1, "i8")]
    asked = np.arange(-3, 45, dtype="i4")
    got = run(write(tmp_path, placeholder("x", asked.shape, "i4"), *nodes), {"x": asked}, tmp_path / "run")
    np.testing.assert_array_equal(got["y"], wanted(asked, keys, values, -1))


def test_texts(tmp_path: pathlib.Path) -> None:
    """From numbers to texts, and back through another table."""
    assert len(set(WORDS.tolist())) == len(WORDS)
    back = np.arange(len(WORDS), dtype="i8") * 3
    nodes = [
        table("words", I64, TEXT),
        *fill("words", KEYS, WORDS),
        *find("word", "words", "x", np.array(b"none"), "S"),
        table("numbers", TEXT, I64),
        *fill("numbers", WORDS, back),
        *find("y", "numbers", "word", -7, "i8"),
    ]
    got = run(write(tmp_path, placeholder("x", ASKED.shape, "i8"), *nodes), {"x": ASKED}, tmp_path / "run")
    np.testing.assert_array_equal(got["y"], wanted(ASKED, KEYS, back, -7))


def test_empty_table(tmp_path: pathlib.Path) -> None:
    none = np.zeros(0, "i8")
    nodes = [table("t", I64, I64), *fill("t", none, none), *find("y", "t", "x", 9, "i8")]
    got = run(write(tmp_path, placeholder("x", (3,), "i8"), *nodes), {"x": np.arange(3)}, tmp_path / "run")
    np.testing.assert_array_equal(got["y"], [9, 9, 9])


def test_filled_in_a_function(tmp_path: pathlib.Path) -> None:
    """As TensorFlow 2 saves it: the table, keys and values are arguments of an initializer and of the network."""
    call, resource = "StatefulPartitionedCall", Type(20)
    types = [resource, I64, I64]
    inner = [node("fill", "LookupTableImportV2", "t", "k", "v", Tin=I64, Tout=I64)]
    arguments = {"t": 20, "k": "i8", "v": "i8"}
    done = [*inner, node("done", "Identity", "k", "^fill", T=I64)]
    fills = function("initializer", arguments, {"r": "i8"}, done, {"r": "done:output:0"})
    asks = function(
        "network",
        {"x": "i8", "t": 20, "d": "i8"},
        {"r": "i8"},
        [node("find", "LookupTableFindV2", "t", "x", "d", Tin=I64, Tout=I64)],
        {"r": "find:values:0"},
    )
    nodes = [
        node("hash_table", "HashTableV2", key_dtype=I64, value_dtype=I64, shared_name="17", container=""),
        constant("k", KEYS, "i8"),
        constant("v", KEYS[::-1], "i8"),
        constant("d", 3, "i8"),
        placeholder("x", ASKED.shape, "i8"),
        node("y", call, "x", "hash_table", "d", Tin=types, Tout=[I64], f=Function("network")),
        node("init", call, "hash_table", "k", "v", Tin=types, Tout=[I64], f=Function("initializer")),
    ]
    keys = {"serving_default": signature({"x": ("x:0", "i8", ASKED.shape)}, {"y": ("y:0", "i8", ASKED.shape)})}
    model = write_saved_model(tmp_path / "m", meta_graph(graph(*nodes, functions=[fills, asks]), keys))
    got = run(model, {"x": ASKED}, tmp_path / "run")
    np.testing.assert_array_equal(got["y"], wanted(ASKED, KEYS, KEYS[::-1], 3))


# ---- vocabularies ----

LINES = b"zero\napple\r\n\nlast\tof\tthree"


def vocabulary(folder: pathlib.Path, text: bytes, key: tuple, value: tuple, **more: int) -> pathlib.Path:
    """From line numbers to the words and from these by |key| and |value| (type, column) to y."""
    attributes = {"vocab_size": -1, "offset": 0, "delimiter": "\t", **more}
    nodes = [
        placeholder("x", (4,), "i8"),
        constant("file", np.array(b"/somewhere/else/words.txt"), "S"),
        table("t", Type(key[0]), Type(value[0])),
        node(
            "fill", "InitializeTableFromTextFileV2", "t", "file", key_index=key[1], value_index=value[1], **attributes
        ),
        table("words", I64, TEXT),
        *fill("words", np.arange(4), np.array([b"zero", b"apple", b"", b"last\tof\tthree"])),
        *find("word", "words", "x", np.array(b"none"), "S"),
        *find("y", "t", "word" if key[0] == "S" else "x", -1, value[0]),
    ]
    keys = {"serving_default": signature({"x": ("x:0", "i8", (4,))}, {"y": ("y:0", value[0], (4,))})}
    asset = part(6, part(1, part(1, "file:0")) + part(2, "words.txt"))
    model = write_saved_model(folder / "m", meta_graph(graph(*nodes), keys) + asset)
    (model / "assets").mkdir()
    (model / "assets/words.txt").write_bytes(text)
    return model


@pytest.mark.parametrize(
    ("text", "key", "value", "more", "want"),
    [
        (LINES, ("S", -2), ("i8", -1), {}, [0, 1, 2, 3]),
        (LINES, ("S", -2), ("i8", -1), {"vocab_size": 2}, [0, 1, -1, -1]),
        (LINES, ("S", -2), ("i8", -1), {"offset": 1}, [-1, 0, 1, 2]),
        (b"zero,5\napple,-6\nmore,7", ("S", 0), ("i8", 1), {"delimiter": ","}, [5, -6, -1, -1]),
        (b"zero 1.5\napple -2e3\n", ("S", 0), ("f4", 1), {"delimiter": " "}, [1.5, -2000, -1, -1]),
        (b"30\n10\n20\n", ("i8", -1), ("i8", -2), {}, [30, 10, 20, -1]),
    ],
)
def test_vocabulary(tmp_path: pathlib.Path, text: bytes, key: tuple, value: tuple, more: dict, want: list) -> None:
    got = run(vocabulary(tmp_path, text, key, value, **more), {"x": np.arange(4)}, tmp_path / "run")
    close(got["y"], np.array(want, value[0]))


@pytest.mark.parametrize(
    ("text", "key", "value", "more", "words"),
    [
        (LINES, ("S", 1), ("i8", -1), {}, ["words.txt", "line 0", "column 1"]),
        (b"1\ntwo\n", ("S", -2), ("i8", -2), {}, ["words.txt", "line 1", "two", "no number"]),
        (b"a\nb\na\n", ("S", -2), ("i8", -1), {}, ['table "t"', "keys 0 and 2"]),
        (b"a\nb\n", ("S", -2), ("i8", -1), {"vocab_size": 3}, ["2 lines", "3 are required"]),
    ],
)
def test_broken_vocabulary(
    tmp_path: pathlib.Path, text: bytes, key: tuple, value: tuple, more: dict, words: list
) -> None:
    message = refused(vocabulary(tmp_path, text, key, value, **more))
    for word in ["y", "LookupTableFindV2", *words]:
        assert word in message, message


# ---- refused ----

ONE = np.array([1, 2], "i8")


def mutable(version: str) -> list[bytes]:
    nodes = [table("t", I64, I64, "MutableHashTable" + version), *fill("t", ONE, ONE, "LookupTableInsert" + version)]
    return [*nodes, *find("y", "t", "x", 0, "i8", "LookupTableFind" + version)]


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        (mutable("V2"), ['"t"', "MutableHashTableV2"]),
        (mutable(""), ['"t"', "MutableHashTable"]),
        ([table("t", I64, I64), *find("y", "t", "x", 0, "i8")], ['"y"', 'table "t"', "nothing fills"]),
        (
            [table("t", I64, I64), *fill("t", np.array([1, 1]), ONE), *find("y", "t", "x", 0, "i8")],
            ["y", 'table "t"', "two values"],
        ),
        (
            [table("t", I64, I64), *fill("t", ONE, np.array([1])), *find("y", "t", "x", 0, "i8")],
            ["y", 'table "t"', "2 keys and 1 values"],
        ),
        (
            [table("t", I64, I64), node("fill", "LookupTableImportV2", "t", "x", "x"), *find("y", "t", "x", 0, "i8")],
            ['"y"', "no constants"],
        ),
        ([table("t", I64, I64), *fill("t", ONE, ONE), *find("y", "t", "x", 0, "f4")], ["y", "default", "float"]),
        ([*find("y", "x", "x", 0, "i8")], ["y", "no table's handle"]),
    ],
)
def test_refused(tmp_path: pathlib.Path, nodes: list, words: list) -> None:
    message = refused(write(tmp_path, placeholder("x", (3,), "i8"), *nodes))
    for word in words:
        assert word in message, message


def test_vocabulary_outside_of_the_model(tmp_path: pathlib.Path) -> None:
    model = vocabulary(tmp_path, LINES, ("S", -2), ("i8", -1))
    text = (model / "saved_model.pb").read_bytes()
    (model / "saved_model.pb").write_bytes(text.replace(part(2, "words.txt"), part(2, "../w0.txt")))
    (model / "w0.txt").write_bytes(LINES)
    assert ".." in refused(model)
