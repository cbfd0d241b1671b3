#!/usr/bin/env python3
"""Writes recurrent networks with TensorFlow's own results. Needs tensorflow. Usage: write_recurrent.py DIR

DIR/NAME.pb and DIR/NAME.npz with "in:RUN:NAME" and "out:RUN:out_N". Networks NAME-v1 are in the manner of TensorFlow 1
(Switch, Merge, Enter, Exit, TensorArrayV3).
"""

import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from keras import layers as L  # noqa: E402, N812
from recurrent_cases import KERAS, OPEN_SIZES, OPEN_STEPS, V1  # noqa: E402
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2 as freeze  # noqa: E402

v1 = tf.compat.v1
TIME, BATCH, WIDTH = 7, 3, 5


def feeds(rng: np.random.Generator, name: str) -> list[dict]:
    if "masked" in name:
        tokens = rng.integers(1, 20, (BATCH, TIME)).astype(np.int32)
        tokens[1, 4:], tokens[2, 2:4], tokens[0, 0] = 0, 0, 0
        return [{"x": tokens}]
    sizes = [(BATCH, TIME)]
    if name in OPEN_SIZES:
        sizes += [(1, 4), (5, 1)]
    if name in OPEN_STEPS:
        sizes += [(BATCH, 1), (BATCH, 0)]
    return [{"x": rng.standard_normal((*size, WIDTH)).astype(np.float32)} for size in sizes]


def shape(name: str) -> list:
    """Of the input; None: open."""
    return [None if name in OPEN_SIZES else BATCH, None if name in OPEN_SIZES | OPEN_STEPS else TIME]


def model(name: str, layer: str) -> keras.Model:
    keras.utils.set_random_seed(1)
    if "masked" in name:
        x = i = L.Input((TIME,), dtype="int32")
        x = L.Embedding(20, WIDTH, mask_zero=True)(x)
    else:
        x = i = L.Input((shape(name)[1], WIDTH))
    made = keras.Model(i, eval(layer, {"L": L, "keras": keras, "x": x}))
    for weight in made.weights:  # biases are zeros otherwise
        weight.assign(weight + 0.1 * np.random.default_rng(2).standard_normal(weight.shape))
    return made


def write_keras(folder: pathlib.Path, name: str, layer: str) -> None:
    runs = feeds(np.random.default_rng(0), name)
    network, x = model(name, layer), runs[0]["x"]
    sizes = shape(name) + list(x.shape[2:])

    @tf.function
    def call(x):
        return [tf.identity(y, f"out_{n}") for n, y in enumerate(tf.nest.flatten(network(x)))]

    frozen = freeze(call.get_concrete_function(tf.TensorSpec(sizes, x.dtype, name="x")), lower_control_flow=False)
    (folder / f"{name}.pb").write_bytes(frozen.graph.as_graph_def().SerializeToString())
    arrays = {}
    for n, run in enumerate(runs):
        arrays |= {f"in:{n}:x": run["x"]}
        arrays |= {f"out:{n}:out_{k}": y.numpy() for k, y in enumerate(tf.nest.flatten(call(run["x"])))}
    np.savez(folder / f"{name}.npz", **arrays)


class Cell:
    """The cells of TensorFlow 1, over the input and the state side by side."""

    def __init__(self, kind: str, units: int) -> None:
        rng = np.random.default_rng(3)

        def make(columns):
            kernel = rng.standard_normal((WIDTH + units, columns)) / 3, rng.standard_normal(columns) / 5
            return [tf.constant(a.astype(np.float32)) for a in kernel]

        self.kind, self.units = kind, units
        self.gates = make(4 * units if kind == "lstm" else 2 * units if kind == "gru" else units)
        self.candidate = make(units) if kind == "gru" else None

    @property
    def state_size(self) -> object:
        return (self.units, self.units) if self.kind == "lstm" else (self.units,)

    def __call__(self, x, state):
        h = state[-1]
        z = tf.matmul(tf.concat([x, h], 1), self.gates[0]) + self.gates[1]
        if self.kind == "lstm":
            i, j, f, o = tf.split(z, 4, 1)
            c = state[0] * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
            h = tf.tanh(c) * tf.sigmoid(o)
            return h, (c, h)
        if self.kind == "gru":
            r, u = tf.split(tf.sigmoid(z), 2, 1)
            c = tf.tanh(tf.matmul(tf.concat([x, r * h], 1), self.candidate[0]) + self.candidate[1])
            h = u * h + (1 - u) * c
            return h, (h,)
        h = tf.tanh(z)
        return h, (h,)


def unroll(cell: Cell, x, backward: bool):
    """As tf.compat.v1.nn.dynamic_rnn does it."""
    x = tf.transpose(x, [1, 0, 2])
    if backward:
        x = tf.reverse(x, [0])
    time, batch = tf.shape(x)[0], tf.shape(x)[1]
    array = tf.TensorArray(tf.float32, time).unstack(x)
    results = tf.TensorArray(tf.float32, time, element_shape=(x.shape[1], cell.units))
    state = tuple(tf.zeros([batch, n]) for n in cell.state_size)

    def body(t, results, state):
        y, state = cell(array.read(t), state)
        return t + 1, results.write(t, y), state

    _, results, state = tf.while_loop(lambda t, *_: t < time, body, (tf.constant(0), results, state))
    return tf.transpose(results.stack(), [1, 0, 2]), state


def write_v1(folder: pathlib.Path, name: str, kind: str, backward: bool) -> None:
    runs = feeds(np.random.default_rng(0), name)
    v1.disable_control_flow_v2()
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [*shape(name), WIDTH], "x")
        results = tf.nest.flatten(unroll(Cell(kind, 4), x, backward))
        ys = [tf.identity(y, f"out_{n}").name for n, y in enumerate(results)]
    v1.enable_control_flow_v2()
    (folder / f"{name}.pb").write_bytes(graph.as_graph_def().SerializeToString())
    arrays = {}
    with v1.Session(graph=graph) as session:
        for n, run in enumerate(runs):
            arrays |= {f"in:{n}:x": run["x"]}
            arrays |= {f"out:{n}:out_{k}": y for k, y in enumerate(session.run(ys, {"x:0": run["x"]}))}
    np.savez(folder / f"{name}.npz", **arrays)


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    for name, layer in KERAS.items():
        print(name, flush=True)
        write_keras(folder, name, layer)
    for name, (kind, backward) in V1.items():
        print(name, flush=True)
        write_v1(folder, name, kind, backward)


if __name__ == "__main__":
    main()
