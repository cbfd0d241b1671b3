"""Writes TensorFlow graphs in protobuf's wire form (graph.proto, node_def.proto, attr_value.proto, tensor.proto,
function.proto). TensorFlow is not needed."""

import dataclasses
import pathlib
import struct

import numpy as np

TYPES = {
    np.dtype(dtype): number
    for dtype, number in {
        "f4": 1,
        "f8": 2,
        "i4": 3,
        "u1": 4,
        "i2": 5,
        "i1": 6,
        "S": 7,
        "i8": 9,
        "bool": 10,
        "u2": 17,
        "f2": 19,
        "u4": 22,
        "u8": 23,
    }.items()
}
STRING, BFLOAT16, RESOURCE, VARIANT = 7, 14, 20, 21
VALUE_FIELDS = {1: 5, 2: 6, 3: 7, 4: 7, 5: 7, 6: 7, 7: 8, 9: 10, 10: 11, 14: 13, 17: 7, 19: 13, 22: 16, 23: 17}


@dataclasses.dataclass(frozen=True)
class Type:
    """An attribute that is a data type: a NumPy type or the number in types.proto."""

    of: object

    @property
    def number(self) -> int:
        if isinstance(self.of, int):
            return self.of
        dtype = np.dtype(self.of)
        return STRING if dtype.kind == "S" else TYPES[dtype]


F32 = Type(np.float32)


@dataclasses.dataclass(frozen=True)
class Shape:
    """An attribute that is a shape: sizes, -1 where a size is unknown; None: the rank is unknown."""

    sizes: tuple | None


@dataclasses.dataclass(frozen=True)
class Function:
    """An attribute that names a function of the library."""

    name: str


@dataclasses.dataclass(frozen=True)
class Tensor:
    """An attribute that is a TensorProto, given by its bytes."""

    data: bytes


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out) + bytes([value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def part(field: int, data: bytes | str) -> bytes:
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def entry(field: int, key: str, value: bytes) -> bytes:
    """One entry of a map from strings to messages."""
    return part(field, part(1, key) + part(2, value))


def shape(of: Shape) -> bytes:
    if of.sizes is None:
        return number(3, 1)
    return b"".join(part(2, number(1, size)) for size in of.sizes)


def content(a: np.ndarray) -> Tensor:
    """TensorProto with the elements as bytes (tensor_content), or as string_val."""
    a = np.asarray(a)
    head = number(1, Type(a.dtype).number) + part(2, shape(Shape(a.shape)))
    if a.dtype.kind == "S":
        return Tensor(head + b"".join(part(8, item) for item in a.ravel().tolist()))
    return Tensor(head + part(4, a.tobytes()))


def listed(dtype: object, sizes: tuple, values: list, packed: bool = True) -> Tensor:
    """TensorProto with the elements in the list of numbers of its type, which may be shorter than the tensor.

    |values| of float16 and bfloat16 are the bits.
    """
    kind = Type(dtype).number
    field, form = VALUE_FIELDS[kind], {1: "<f", 2: "<d"}.get(kind)
    items = [struct.pack(form, v) if form else varint(int(v)) for v in values]
    wire = {"<f": 5, "<d": 1, None: 0}[form]
    if packed:
        data = part(field, b"".join(items)) if items else b""
    else:
        data = b"".join(varint(field << 3 | wire) + item for item in items)
    return Tensor(number(1, kind) + part(2, shape(Shape(sizes))) + data)


def attribute_list(values: list) -> bytes:
    """AttrValue.ListValue; all values are of the first one's kind."""
    if not values:
        return b""
    first = values[0]
    if isinstance(first, (str, bytes)):
        return b"".join(part(2, v) for v in values)
    if isinstance(first, bool):
        return part(5, b"".join(varint(v) for v in values))
    if isinstance(first, int):
        return part(3, b"".join(varint(v) for v in values))
    if isinstance(first, float):
        return part(4, b"".join(struct.pack("<f", v) for v in values))
    if isinstance(first, Type):
        return part(6, b"".join(varint(v.number) for v in values))
    if isinstance(first, Shape):
        return b"".join(part(7, shape(v)) for v in values)
    return b"".join(part(9, part(1, v.name)) for v in values)


def attribute(value: object) -> bytes:
    """AttrValue."""
    if isinstance(value, (str, bytes)):
        return part(2, value)
    if isinstance(value, bool):
        return number(5, value)
    if isinstance(value, int):
        return number(3, value)
    if isinstance(value, float):
        return varint(4 << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, Type):
        return number(6, value.number)
    if isinstance(value, Shape):
        return part(7, shape(value))
    if isinstance(value, np.ndarray):
        return part(8, content(value).data)
    if isinstance(value, Tensor):
        return part(8, value.data)
    if isinstance(value, Function):
        return part(10, part(1, value.name))
    return part(1, attribute_list(list(value)))


def node(name: str, op: str, *inputs: str, **attributes: object) -> bytes:
    """NodeDef. Attributes: str, int, float, bool, Type, Shape, array (a tensor), Tensor, Function, lists of these."""
    return (
        part(1, name)
        + part(2, op)
        + b"".join(part(3, i) for i in inputs)
        + b"".join(entry(5, key, attribute(value)) for key, value in attributes.items())
    )


def placeholder(name: str, sizes: tuple | None, dtype: object = np.float32) -> bytes:
    return node(name, "Placeholder", dtype=Type(dtype), shape=Shape(sizes))


def constant(name: str, value: object, dtype: object = np.float32, *inputs: str) -> bytes:
    """|value| is an array or list, or a Tensor in a form of its own."""
    if not isinstance(value, Tensor):
        value = content(np.asarray(value, dtype))
    return node(name, "Const", *inputs, value=value, dtype=Type(dtype))


def function(name: str, inputs: dict, outputs: dict, nodes: list, results: dict) -> bytes:
    """FunctionDef. |inputs|, |outputs|: names with types; |results|: name of an output to "node:output:index".

    Nodes read arguments by name and other nodes as "node:output:index".
    """
    arguments = b"".join(part(2, part(1, k) + number(3, Type(v).number)) for k, v in inputs.items())
    arguments += b"".join(part(3, part(1, k) + number(3, Type(v).number)) for k, v in outputs.items())
    return (
        part(1, part(1, name) + arguments)
        + b"".join(part(3, n) for n in nodes)
        + b"".join(part(4, part(1, key) + part(2, value)) for key, value in results.items())
    )


def graph(*nodes: bytes, functions: tuple | list = (), producer: int = 1882) -> bytes:
    """GraphDef."""
    library = part(2, b"".join(part(1, f) for f in functions)) if functions else b""
    return b"".join(part(1, n) for n in nodes) + library + part(4, number(1, producer))


def add(name: str, a: str, b: str, dtype: object = np.float32) -> bytes:
    return node(name, "AddV2", a, b, T=Type(dtype))


def write(folder: pathlib.Path, *nodes: bytes, **more: object) -> pathlib.Path:
    """A frozen graph, graph.pb in |folder|."""
    path = folder / "graph.pb"
    path.write_bytes(graph(*nodes, **more))
    return path
