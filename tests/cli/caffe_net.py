"""Writes Caffe networks: text of layers, and a caffemodel in Caffe's wire form (caffe.proto of BVLC/caffe)."""

import pathlib
import struct

import numpy as np
from harness import carnot

Blobs = dict[str, list[np.ndarray]]


def varint(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def blob(a: np.ndarray, form: str = "shape") -> bytes:
    """BlobProto. |form|: shape, legacy (num, channels, height, width), double, unpacked or half (of NVCaffe)."""
    if form == "legacy":
        dims = (1,) * (4 - a.ndim) + a.shape
        head = b"".join(varint(i + 1 << 3) + varint(d) for i, d in enumerate(dims))
    else:
        head = field(7, field(1, b"".join(varint(d) for d in a.shape)))
    if form == "double":
        return head + field(8, a.astype("<f8").tobytes())
    if form == "half":
        return head + varint(10 << 3) + varint(2) + field(12, a.astype("<f2").tobytes())
    if form == "unpacked":
        return head + b"".join(b"\x2d" + struct.pack("<f", v) for v in a.astype("f4").ravel())
    return head + field(5, a.astype("<f4").tobytes())


def caffemodel(blobs: Blobs, form: str = "shape", v1: bool = False) -> bytes:
    out = field(1, b"net")
    for name, arrays in blobs.items():
        if v1:
            out += field(2, field(4, name.encode()) + varint(5 << 3) + varint(4) + b"".join(field(6, blob(a, form)) for a in arrays))
        else:
            out += field(100, field(1, name.encode()) + b"".join(field(7, blob(a, form)) for a in arrays))
    return out


def inputs_text(inputs: dict[str, tuple]) -> str:
    return "".join(
        f'input: "{k}"\ninput_shape {{ {" ".join(f"dim: {d}" for d in v)} }}\n' for k, v in inputs.items()
    )


def layer(kind: str, bottoms: str, tops: str = "y", more: str = "", name: str = "layer") -> str:
    lines = "".join(f' bottom: "{b}"' for b in bottoms.split()) + "".join(f' top: "{t}"' for t in tops.split())
    return f'layer {{ name: "{name}" type: "{kind}"{lines} {more} }}\n'


def run(folder: pathlib.Path, text: str, model: bytes | None, feeds: dict[str, np.ndarray], *flags: str) -> dict:
    """The outputs by name; fails the test where the command does."""
    (folder / "net.prototxt").write_text(text)
    arguments = ["run", folder / "net.prototxt", "--output-dir", folder / "out", "--builderOptimizationLevel=0", *flags]
    if model is not None:
        (folder / "net.caffemodel").write_bytes(model)
        arguments.append(f"--model={folder / 'net.caffemodel'}")
    for name, array in feeds.items():
        np.save(folder / f"{name}.npy", array)
        arguments += ["--input", f"{name}={folder / name}.npy"]
    done = carnot(*arguments)
    assert done.returncode == 0, done.stderr
    return {p.stem: np.load(p) for p in (folder / "out").iterdir()}
