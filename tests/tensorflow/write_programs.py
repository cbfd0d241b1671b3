#!/usr/bin/env python3
"""Writes the programs with TensorFlow's own results. Needs tensorflow. Usage: write_programs.py DIR

DIR/NAME-FORM.pb, where FORM is functions (While, If, calls), lowered (Switch, Merge, Enter, Exit) or graph_v1 (a graph
in the manner of TensorFlow 1, with TensorArrayV3), and DIR/NAME.npz with "in:RUN:NAME" and "out:RUN:N".
Outputs are nodes out_N.
"""

import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from program_cases import PROGRAMS, Program  # noqa: E402
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2 as freeze  # noqa: E402

v1 = tf.compat.v1


def sizes(program: Program, key: str) -> list:
    """Sizes that all runs share; None where they differ."""
    return [d[0] if len(set(d)) == 1 else None for d in zip(*(run[key].shape for run in program.feeds))]


def outputs(results: object) -> list:
    return [tf.identity(r, f"out_{n}") for n, r in enumerate(tf.nest.flatten(results))]


def of_functions(program: Program, lowered: bool) -> bytes:
    spec = [tf.TensorSpec(sizes(program, k), a.dtype, name=k) for k, a in program.feeds[0].items()]
    concrete = tf.function(lambda *inputs: outputs(program.build(tf, *inputs)), autograph=False)
    return freeze(concrete.get_concrete_function(*spec), lower_control_flow=lowered).graph.as_graph_def()


def of_graph_v1(program: Program) -> tf.Graph:
    v1.disable_control_flow_v2()
    try:
        with tf.Graph().as_default() as graph:
            inputs = [v1.placeholder(a.dtype, sizes(program, k), k) for k, a in program.feeds[0].items()]
            outputs(program.build(tf, *inputs))
    finally:
        v1.enable_control_flow_v2()
    return graph


def write(program: Program, folder: pathlib.Path) -> None:
    graph = of_graph_v1(program)
    arrays, names = {}, [op.outputs[0].name for op in graph.get_operations() if op.name.startswith("out_")]
    with v1.Session(graph=graph) as session:
        for n, feeds in enumerate(program.feeds):
            results = session.run(names, {f"{key}:0": value for key, value in feeds.items()})
            arrays |= {f"in:{n}:{key}": value for key, value in feeds.items()}
            arrays |= {f"out:{n}:{name.split(':')[0]}": value for name, value in zip(names, results)}
    np.savez(folder / f"{program.name}.npz", **arrays)
    forms = {"functions": of_functions(program, False), "lowered": of_functions(program, True)}
    for form, definition in {**forms, "graph_v1": graph.as_graph_def()}.items():
        (folder / f"{program.name}-{form}.pb").write_bytes(definition.SerializeToString())


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for program in PROGRAMS:
        print(program.name, flush=True)
        write(program, folder)


if __name__ == "__main__":
    main()
