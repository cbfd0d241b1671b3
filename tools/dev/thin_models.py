#!/usr/bin/env python3
"""Models without their weights' numbers, to be carried where 3 GB are too many, and back with numbers by a seed.

Usage: thin_models.py thin|thick FROM TO      both folders of .onnx files

Large float32 weights become mean and deviation, those of convolutions for each filter; small ones stay. What comes
back has the same shapes and takes the same time, and gives numbers of the same size: no answers.
"""
import concurrent.futures
import hashlib
import pathlib
import sys
from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

SMALL = 16384  # elements
MARK = "mean and deviation"


def tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield attribute.t
            elif attribute.type == onnx.AttributeProto.GRAPH:
                yield from tensors(attribute.g)


def thin(source: pathlib.Path, target: pathlib.Path) -> None:
    model = onnx.load(source)
    for t in tensors(model.graph):
        if t.data_type != TensorProto.FLOAT or np.prod(t.dims) <= SMALL:
            continue
        numbers = numpy_helper.to_array(t).astype(np.float64)
        rows = numbers.reshape(len(numbers) if numbers.ndim == 4 else 1, -1)
        stripped = onnx.TensorProto(name=t.name, dims=t.dims, data_type=t.data_type, doc_string=MARK)
        stripped.raw_data = np.stack([rows.mean(1), rows.std(1)]).astype(np.float32).tobytes()
        t.CopyFrom(stripped)
    del model.metadata_props[:], model.graph.metadata_props[:], model.graph.value_info[:]
    for node in model.graph.node:  # what exporters tell of their sources
        del node.metadata_props[:]
        node.ClearField("doc_string")
    onnx.save(model, target)


def thick(source: pathlib.Path, target: pathlib.Path) -> None:
    model = onnx.load(source)
    for t in tensors(model.graph):
        if t.doc_string != MARK:
            continue
        mean, deviation = np.frombuffer(t.raw_data, np.float32).reshape(2, -1)
        rng = np.random.default_rng(int.from_bytes(hashlib.sha256(t.name.encode()).digest()[:4], "little"))
        rows = rng.standard_normal((len(mean), int(np.prod(t.dims)) // len(mean)), dtype=np.float32)
        rows *= deviation[:, None]
        rows += mean[:, None]
        t.ClearField("doc_string")
        t.raw_data = rows.tobytes()
    onnx.save(model, target, save_as_external_data=model.ByteSize() > 1 << 30, location=f"{target.name}.data")


def main() -> int:
    if len(sys.argv) != 4 or sys.argv[1] not in ("thin", "thick"):
        print(__doc__)
        return 2
    change = thin if sys.argv[1] == "thin" else thick
    source, target = map(pathlib.Path, sys.argv[2:])
    target.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ProcessPoolExecutor(2 if change is thin else 8) as pool:
        jobs = [pool.submit(change, path, target / path.name) for path in sorted(source.glob("*.onnx"))]
        for job in jobs:
            job.result()
    return 0


if __name__ == "__main__":
    sys.exit(main())
