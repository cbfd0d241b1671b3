#!/usr/bin/env python3
"""Copies ONNX cases with every dimension of every input made symbolic: make_symbolic.py CASES OUT.

Left out: test_flexattention, whose bodies need sizes when they are imported (the error says so)."""
import argparse
import pathlib
import shutil

import onnx


def make_symbolic(model: onnx.ModelProto) -> bool:
    """Replaces the inputs' dimensions by names of their own; False when there is none."""
    held = {tensor.name for tensor in model.graph.initializer}
    changed = False
    for value in model.graph.input:
        if value.name in held or not value.type.HasField("tensor_type"):
            continue
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            dim.dim_param = f"{value.name}_{axis}"
            changed = True
    # What the model states of its results would contradict the names.
    for value in list(model.graph.output) + list(model.graph.value_info):
        if value.type.HasField("tensor_type"):
            for axis, dim in enumerate(value.type.tensor_type.shape.dim):
                dim.dim_param = f"{value.name}_out_{axis}"
    del model.graph.value_info[:]
    return changed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    arguments = parser.parse_args()
    for case in sorted(path for path in arguments.cases.iterdir() if path.is_dir()):
        model = onnx.load(str(case / "model.onnx"))
        if case.name.startswith("test_flexattention") or not make_symbolic(model):
            continue
        target = arguments.out / case.name
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(case, target)
        onnx.save(model, str(target / "model.onnx"))


if __name__ == "__main__":
    main()
