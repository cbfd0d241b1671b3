"""Writes SavedModels without TensorFlow: saved_model.proto, meta_graph.proto, and tensor bundles (a LevelDB table of
BundleEntryProto with the elements in shards beside it)."""

import pathlib
import struct

import numpy as np
from graph_writer import Shape, Type, entry, number, part, shape, varint

MAGIC = 0xDB4775248B80FB57
Arrays = dict[str, np.ndarray]


def crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


CRC = crc_table()


def masked_crc(data: bytes) -> int:
    """CRC-32C, rotated and offset as LevelDB and the bundle store it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def block(entries: list[tuple[bytes, bytes]], restart_interval: int = 16) -> bytes:
    """Entries with the prefix that they share with the entry before them left out, except at restarts."""
    out, restarts, last = b"", [], b""
    for n, (key, value) in enumerate(entries):
        shared = 0
        if n % restart_interval == 0:
            restarts.append(len(out))
        else:
            while shared < min(len(key), len(last)) and key[shared] == last[shared]:
                shared += 1
        out += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        last = key
    restarts = restarts or [0]
    return out + struct.pack(f"<{len(restarts)}I", *restarts) + struct.pack("<I", len(restarts))


def table(entries: list[tuple[bytes, bytes]], block_entries: int = 8, compression: int = 0) -> bytes:
    """A LevelDB table: data blocks, an empty meta index, the index of blocks, the footer."""
    out, index = b"", []

    def write_block(data: bytes) -> bytes:
        nonlocal out
        handle = varint(len(out)) + varint(len(data))
        kind = bytes([compression])
        out += data + kind + struct.pack("<I", masked_crc(data + kind))
        return handle

    for at in range(0, len(entries), block_entries):
        some = entries[at : at + block_entries]
        index.append((some[-1][0], write_block(block(some, restart_interval=3))))
    handles = write_block(block([])) + write_block(block(index, restart_interval=1))
    return out + handles.ljust(40, b"\0") + struct.pack("<Q", MAGIC)


def bundle_entries(tensors: Arrays, shards: int, dtypes: dict) -> tuple[list, list[bytes]]:
    """The table's entries and the bytes of the shards; tensors go to the shards in turn."""
    data = [b""] * shards
    entries = [(b"", number(1, shards) + part(3, number(1, 1)))]
    for n, key in enumerate(sorted(tensors)):
        a, shard = tensors[key], n % shards
        raw = np.ascontiguousarray(a).tobytes()
        value = number(1, dtypes.get(key) or Type(a.dtype).number) + part(2, shape(Shape(a.shape)))
        value += (number(3, shard) if shard else b"") + number(4, len(data[shard])) + number(5, len(raw))
        entries.append((key.encode(), value + varint(6 << 3 | 5) + struct.pack("<I", masked_crc(raw))))
        data[shard] += raw
    return entries, data


def write_bundle(
    prefix: pathlib.Path, tensors: Arrays, shards: int = 1, dtypes: dict | None = None, **more: int
) -> None:
    """PREFIX.index and PREFIX.data-NNNNN-of-NNNNN. |dtypes|: numbers of types that NumPy does not have."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    entries, data = bundle_entries(tensors, shards, dtypes or {})
    pathlib.Path(f"{prefix}.index").write_bytes(table(entries, **more))
    for n, raw in enumerate(data):
        pathlib.Path(f"{prefix}.data-{n:05}-of-{shards:05}").write_bytes(raw)


def signature(inputs: dict, outputs: dict) -> bytes:
    """SignatureDef: keys with (tensor's name, type, sizes)."""

    def infos(field: int, of: dict) -> bytes:
        return b"".join(
            entry(field, key, part(1, name) + number(2, Type(dtype).number) + part(3, shape(Shape(sizes))))
            for key, (name, dtype, sizes) in of.items()
        )

    return infos(1, inputs) + infos(2, outputs) + part(3, "tensorflow/serving/predict")


def meta_graph(graph: bytes, signatures: dict, tags: tuple = ("serve",), restore: tuple | None = None) -> bytes:
    """MetaGraphDef. |restore|: the tensor with the bundle's prefix and the node that restores all variables."""
    file, node = restore or ("", "")
    saver = part(3, part(1, file) + part(2, file) + part(3, node)) if restore else b""
    return (
        part(1, b"".join(part(4, tag) for tag in tags))
        + part(2, graph)
        + saver
        + b"".join(entry(5, key, value) for key, value in signatures.items())
    )


def write_saved_model(folder: pathlib.Path, *meta_graphs: bytes) -> pathlib.Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "saved_model.pb").write_bytes(number(1, 1) + b"".join(part(2, m) for m in meta_graphs))
    return folder
