#!/usr/bin/env python3
"""Writes the cases of single operators with TensorFlow's own results. Needs tensorflow. Usage: write_op_cases.py DIR

DIR/ID.pb and DIR/ID-open.pb (sizes of the inputs unknown), DIR/ID.npz with in_N and out_N.
Placeholders are called in_N, outputs out_N.
"""

import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import numpy as np  # noqa: E402
import op_cases  # noqa: E402
import tensorflow as tf  # noqa: E402
from op_case import Case, Constant  # noqa: E402

v1 = tf.compat.v1


def build(case: Case, sizes_known: bool) -> tuple[tf.Graph, dict, list]:
    """The graph, what is fed and the names of the outputs."""
    feeds: dict = {}

    def argument(value: object) -> object:
        if isinstance(value, list) and any(isinstance(v, (np.ndarray, Constant)) for v in value):
            return [argument(v) for v in value]
        if isinstance(value, Constant):
            return tf.constant(value.value)
        if not isinstance(value, (np.ndarray, np.generic)):
            return value
        sizes = value.shape if sizes_known else [None] * value.ndim
        name = f"in_{len(feeds)}"
        feeds[name] = np.asarray(value)
        return v1.placeholder(value.dtype, sizes, name)

    with tf.Graph().as_default() as graph:
        arguments = {key: argument(value) for key, value in case.arguments.items()}
        results = getattr(tf.raw_ops, case.op)(**arguments)
        results = [results] if tf.is_tensor(results) else list(results)
        wanted = range(len(results)) if case.outputs is None else case.outputs
        names = [tf.identity(results[n], f"out_{n}").name for n in wanted]
    return graph, feeds, names


def write(case: Case, folder: pathlib.Path) -> None:
    graph, feeds, names = build(case, True)
    with v1.Session(graph=graph) as session:
        results = session.run(names, {f"{key}:0": value for key, value in feeds.items()})
    (folder / f"{case.id}.pb").write_bytes(graph.as_graph_def().SerializeToString())
    if case.open_sizes:
        (folder / f"{case.id}-open.pb").write_bytes(build(case, False)[0].as_graph_def().SerializeToString())
    np.savez(folder / f"{case.id}.npz", **feeds, **{name.split(":")[0]: r for name, r in zip(names, results)})


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    failures = []
    for case in op_cases.CASES:
        try:
            write(case, folder)
        except Exception as error:  # a case that TensorFlow refuses is a mistake in the case
            failures.append(f"{case.id}: {str(error).splitlines()[0][:200]}")
    if failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
