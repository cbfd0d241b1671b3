#!/usr/bin/env python3
"""Writes SavedModels of TensorFlow 1 with variables in parts. Needs tensorflow. Usage: write_partitioned.py DIR

DIR/NAME/saved_model.pb with variables, DIR/NAME.npz with x and y.
"""

import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

v1 = tf.compat.v1


def save(folder: pathlib.Path, parts: int, axis: int, resource: bool) -> None:
    """y = x @ kernel + bias, the kernel in |parts| along |axis|."""
    name = f"{parts}_of_axis_{axis}_{'resource' if resource else 'reference'}"
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 200], "x")
        split = v1.fixed_size_partitioner(parts, axis)
        kernel = v1.get_variable("kernel", [200, 70], partitioner=split, use_resource=resource)
        bias = v1.get_variable("bias", [70], use_resource=resource)
        y = tf.matmul(x, tf.convert_to_tensor(kernel)) + bias
        session.run(v1.global_variables_initializer())
        given = np.random.default_rng(parts).standard_normal((3, 200)).astype("f4")
        np.savez(folder / f"{name}.npz", x=given, y=session.run(y, {x: given}))
        v1.saved_model.simple_save(session, str(folder / name), {"x": x}, {"y": y})


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for parts, axis, resource in ((3, 0, True), (5, 1, True), (2, 0, False), (200, 0, False)):
        save(folder, parts, axis, resource)


if __name__ == "__main__":
    main()
