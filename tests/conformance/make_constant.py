#!/usr/bin/env python3
"""Copies ONNX cases with every input but the first made a constant of the model.

make_constant.py CASES OUT PART..., with PART of a case's name.
Most models hold axes, scales, counts and weights so, and rows of devices read them when shapes are set.
"""
import argparse
import pathlib
import shutil

import onnx


def make_constant(model: onnx.ModelProto, data: pathlib.Path) -> int:
    """Holds what |data| gives the inputs behind the first; how many these are."""
    held = {tensor.name for tensor in model.graph.initializer}
    given = [value for value in model.graph.input if value.name not in held]
    for index, value in enumerate(given[1:], 1):
        tensor = onnx.load_tensor(str(data / f"input_{index}.pb"))
        tensor.name = value.name
        model.graph.initializer.append(tensor)
        model.graph.input.remove(value)
    return len(given) - 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("parts", nargs="+")
    arguments = parser.parse_args()
    for case in sorted(path for path in arguments.cases.iterdir() if path.is_dir()):
        if not any(part in case.name for part in arguments.parts):
            continue
        model = onnx.load(str(case / "model.onnx"))
        sets = sorted(case.glob("test_data_set_*"))
        plain = all(value.type.HasField("tensor_type") for value in model.graph.input)
        if len(sets) != 1 or not plain or model.ir_version < 4 or not make_constant(model, sets[0]):
            continue
        target = arguments.out / case.name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(case, target)
        for path in (target / sets[0].name).glob("input_*.pb"):
            if path.name != "input_0.pb":
                path.unlink()
        onnx.save(model, str(target / "model.onnx"))


if __name__ == "__main__":
    main()
