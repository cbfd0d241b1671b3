#!/usr/bin/env python3
"""Writes ONNX's backend test cases to a folder, for the conformance runner.

Usage: export_cases.py OUT

OUT/<set>/<case>/ then holds model.onnx, tolerance.txt (relative and absolute), and input_<i>.pb and output_<i>.pb of
each data set N in test_data_set_N/. Sets: node (collected from the operators' test cases), and the simple, light,
pytorch-converted and pytorch-operator sets that PyPI's onnx carries. Writes nothing when OUT is of this onnx already.
"""
import pathlib
import shutil
import sys
import warnings

warnings.filterwarnings("ignore")
import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases


def to_proto(value, name: str, kind: onnx.TypeProto):
    """The message that holds |value| as input or output |name| of this type."""
    if isinstance(value, (onnx.TensorProto, onnx.SequenceProto, onnx.OptionalProto)):
        return value
    which = kind.WhichOneof("value")
    if which == "sequence_type":
        return numpy_helper.from_list(list(value), name)
    if which == "optional_type":
        return numpy_helper.from_optional(value, name)
    dtype = kind.tensor_type.elem_type
    array = np.asarray(value)
    if array.dtype == object:
        return onnx.helper.make_tensor(name, onnx.TensorProto.STRING, array.shape,
                                       [s.encode() if isinstance(s, str) else s for s in array.ravel()])
    proto = numpy_helper.from_array(array, name)
    if proto.data_type != dtype:
        raise ValueError(f"{name} is {proto.data_type}, the model says {dtype}")
    return proto


def write_case(folder: pathlib.Path, model: onnx.ModelProto, data_sets, rtol: float, atol: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    (folder / "tolerance.txt").write_text(f"{rtol!r} {atol!r}\n")
    weights = {t.name for t in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in weights] if len(weights) else list(model.graph.input)
    for n, (given, wanted) in enumerate(data_sets):
        data = folder / f"test_data_set_{n}"
        data.mkdir(exist_ok=True)
        for kind, values, infos in (("input", given, inputs), ("output", wanted, model.graph.output)):
            for i, (value, info) in enumerate(zip(values, infos)):
                proto = to_proto(value, info.name, info.type)
                (data / f"{kind}_{i}.pb").write_bytes(proto.SerializeToString())


def write_node_cases(out: pathlib.Path) -> int:
    cases = list(collect_testcases())
    for case in cases:
        write_case(out / case.name, case.model, case.data_sets, case.rtol, case.atol)
    return len(cases)


def write_light_cases(source: pathlib.Path, out: pathlib.Path) -> None:
    """Models with made-up weights; the input counts up from 0 to 1, as ONNX's own runner has it."""
    for path in sorted(source.glob("*.onnx")):
        model = onnx.load(str(path))
        wanted = onnx.TensorProto()
        wanted.ParseFromString((source / f"{path.stem}_output_0.pb").read_bytes())
        weights = {t.name for t in model.graph.initializer}
        shape = [d.dim_value for d in next(i for i in model.graph.input if i.name not in weights).type.tensor_type.shape.dim]
        count = int(np.prod(shape))
        given = (np.arange(count).reshape(shape) / count).astype(np.float32)
        write_case(out / path.stem, model, [([given], [wanted])], 1e-3, 1e-5)


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    out = pathlib.Path(sys.argv[1])
    stamp = out / "onnx_version.txt"
    if stamp.exists() and stamp.read_text() == onnx.__version__:
        return 0
    shutil.rmtree(out, ignore_errors=True)
    count = write_node_cases(out / "node")
    data = pathlib.Path(onnx.__file__).parent / "backend" / "test" / "data"
    write_light_cases(data / "light", out / "light")
    for name in ("simple", "pytorch-converted", "pytorch-operator"):
        shutil.copytree(data / name, out / name)
        for folder in (out / name).iterdir():
            (folder / "tolerance.txt").write_text("0.001 1e-07\n")
    stamp.write_text(onnx.__version__)
    print(f"{count} node cases of onnx {onnx.__version__} written to {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
