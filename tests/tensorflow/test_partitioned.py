"""Variables that a bundle keeps in parts: as TensorFlow saves them, and put together otherwise than they are kept."""

import pathlib
import struct

import numpy as np
import pytest
from graph_writer import F32, Shape, constant, graph, node, number, part, placeholder, shape, varint
from harness import close, refused, run
from saved_model_writer import masked_crc, meta_graph, signature, table, write_saved_model
from tensorflow_python import write_cases

NAMES = "3_of_axis_0_resource 5_of_axis_1_resource 2_of_axis_0_reference 200_of_axis_0_reference".split()


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return write_cases("write_partitioned.py", tmp_path_factory.mktemp("partitioned"))


@pytest.mark.parametrize("name", NAMES)
def test_as_tensorflow_saves(folder: pathlib.Path, tmp_path: pathlib.Path, name: str) -> None:
    data = np.load(folder / f"{name}.npz")
    close(run(folder / name, {"x": data["x"]}, tmp_path, "--verifyWeights")["y"], data["y"])


# ---- without TensorFlow ----


def ordered(value: int) -> bytes:
    """A signed number whose bytes compare as it does."""
    bits = (value if value >= 0 else ~value).bit_length()
    size = bits // 7 + 1
    mark = ((1 << size) - 1) << (7 * size)
    return ((value & ((1 << 8 * size) - 1)) ^ mark).to_bytes(size, "big")


def part_key(name: str, where: list[tuple[int, int]]) -> bytes:
    return b"\0" + name.encode() + b"\0\1\1" + bytes([len(where)]) + b"".join(ordered(s) + ordered(n) for s, n in where)


def info(dtype: int, sizes: tuple, offset: int, raw: bytes) -> bytes:
    value = number(1, dtype) + part(2, shape(Shape(sizes))) + number(4, offset) + number(5, len(raw))
    return value + varint(6 << 3 | 5) + struct.pack("<I", masked_crc(raw))


WHOLE = np.arange(7 * 300, dtype="f4").reshape(7, 300)
PARTS = [[(0, 3), (0, -1)], [(3, 4), (0, 100)], [(3, 4), (100, 200)]]
MODEL = (("a", "7 300 -:-"), ("b", "7 300 2,4:50,100"), ("c", "7 300 3,4:0,100"), ("d", ""))


def region(where: list[tuple[int, int]]) -> tuple:
    return tuple(slice(s, None if n < 0 else s + n) for s, n in where)


def bundle(parts: list, whole: np.ndarray) -> tuple[bytes, bytes]:
    entries, data, slices = [], b"", b""
    for where in parts:
        a = np.ascontiguousarray(whole[region(where)])
        entries.append((part_key("w", where), info(1, a.shape, len(data), a.tobytes())))
        data += a.tobytes()
        extents = b"".join(part(1, b"" if n < 0 else number(1, s) + number(2, n)) for s, n in where)
        slices += part(7, extents)
    entries.append((b"w", number(1, 1) + part(2, shape(Shape(whole.shape))) + slices))
    return table([(b"", number(1, 1) + part(3, number(1, 1))), *sorted(entries)]), data


def model(folder: pathlib.Path, parts: list = PARTS, wanted: tuple = MODEL, whole: np.ndarray = WHOLE) -> pathlib.Path:
    """Each variable of |wanted| is an output, times x."""
    count = len(wanted)
    nodes = [
        placeholder("x", ()),
        constant("save/Const", np.array(b"model"), "S"),
        constant("names", np.array([b"w"] * count), "S"),
        constant("slices", np.array([text.encode() for _, text in wanted]), "S"),
        node("restore", "RestoreV2", "save/Const", "names", "slices", dtypes=[F32] * count),
    ]
    for n, (name, _) in enumerate(wanted):
        nodes += [
            node(name, "VarHandleOp", dtype=F32, shape=Shape(None), shared_name=name, container=""),
            node(f"assign_{n}", "AssignVariableOp", name, f"restore:{n}", dtype=F32),
            node(f"{name}/read", "ReadVariableOp", name, dtype=F32),
            node(f"{name}/times", "Mul", f"{name}/read", "x", T=F32),
        ]
    keys = {name: (f"{name}/times:0", "f4", None) for name, _ in wanted}
    graph_of = meta_graph(graph(*nodes), {"serving_default": signature({"x": ("x:0", "f4", ())}, keys)})
    saved = write_saved_model(folder / "model", graph_of)
    (saved / "variables").mkdir()
    index, data = bundle(parts, whole)
    (saved / "variables/variables.index").write_bytes(index)
    (saved / "variables/variables.data-00000-of-00001").write_bytes(data)
    return saved


def test_joined_and_cut(tmp_path: pathlib.Path) -> None:
    got = run(model(tmp_path), {"x": np.float32(2)}, tmp_path / "run", "--verifyWeights")
    close(got["a"], WHOLE * 2, 0)
    close(got["b"], WHOLE[2:6, 50:150] * 2, 0)
    close(got["c"], WHOLE[3:, :100] * 2, 0)
    close(got["d"], WHOLE * 2, 0)


def test_long_numbers_in_keys(tmp_path: pathlib.Path) -> None:
    whole = np.arange(300000, dtype="f4")
    starts = [0, 60, 70, 8100, 8200, 100000, 300000]
    parts = [[(a, b - a)] for a, b in zip(starts, starts[1:])]
    got = run(model(tmp_path, parts, (("a", ""),), whole), {"x": np.float32(1)}, tmp_path / "run")
    close(got["a"], whole, 0)


@pytest.mark.parametrize(
    ("parts", "wanted", "words"),
    [
        (PARTS[:2], (("a", ""),), ["parts hold 1300 elements of 2100"]),
        ([[(0, 7), (0, 300)]] * 2, (("a", "7 300 0,6:0,300"),), ["parts hold 3600 elements of 1800"]),
        (PARTS, (("a", "7 300 0,8:-"),), ["8 at 0 of dimension 0, which has 7"]),
        (PARTS, (("a", "7 300 -"),), ["7 300 -", "no part"]),
        (PARTS, (("a", "nonsense"),), ["nonsense", "no part"]),
        (PARTS, (("a", "7 -"),), ["1 dimensions of a tensor of 2"]),
    ],
)
def test_broken(tmp_path: pathlib.Path, parts: list, wanted: tuple, words: list) -> None:
    message = refused(model(tmp_path, parts, wanted))
    for word in ['variable "w"', *words]:
        assert word in message, message


def test_part_that_is_no_entry(tmp_path: pathlib.Path) -> None:
    saved = model(tmp_path, wanted=(("a", ""),))
    path = saved / "variables/variables.index"
    whole = number(1, 1) + part(2, shape(Shape(WHOLE.shape))) + part(7, part(1, b"") + part(1, b""))
    path.write_bytes(table([(b"", number(1, 1) + part(3, number(1, 1))), (b"w", whole)]))
    assert "part 0 of it is no entry" in refused(saved)


def test_huge_variable_of_few_bytes(tmp_path: pathlib.Path) -> None:
    """What is put together takes no more memory than the files."""
    saved = model(tmp_path, wanted=(("a", ""),))
    path = saved / "variables/variables.index"
    where = [(0, 1), (0, -1)]
    raw = np.zeros((1, 300), "f4").tobytes()
    whole = number(1, 1) + part(2, shape(Shape((1 << 26, 300)))) + part(7, part(1, number(2, 1)) + part(1, b""))
    entries = [
        (b"", number(1, 1) + part(3, number(1, 1))),
        (part_key("w", where), info(1, (1, 300), 0, raw)),
        (b"w", whole),
    ]
    path.write_bytes(table(entries))
    assert "more than the files hold" in refused(saved)
