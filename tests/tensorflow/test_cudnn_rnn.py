"""CudnnRNN, CudnnRNNV2 and CudnnRNNV3, which TensorFlow runs on GPUs only, against NumPy in float64."""

import pathlib

import numpy as np
import pytest
from graph_writer import F32, constant, node, placeholder, write
from harness import close, refused, run

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
TIME, BATCH, WIDTH, UNITS = 5, 3, 4, 6
Layers = list[list[list[np.ndarray]]]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def step(mode: str, weights: list, x: np.ndarray, h: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One step of a layer. |weights|: of the input, of the state, and their biases, all by gate."""
    w, r, bw, br = weights
    of_x, of_h = [x @ w[g].T + bw[g] for g in range(len(w))], [h @ r[g].T + br[g] for g in range(len(w))]
    if mode == "lstm":
        i, f, g, o = (a + b for a, b in zip(of_x, of_h))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c
    if mode == "gru":
        reset, update = sigmoid(of_x[0] + of_h[0]), sigmoid(of_x[1] + of_h[1])
        new = np.tanh(of_x[2] + reset * of_h[2])
        return (1 - update) * new + update * h, c
    total = of_x[0] + of_h[0]
    return np.tanh(total) if mode == "rnn_tanh" else np.maximum(total, 0), c


def network(mode: str, layers: Layers, x: np.ndarray, h: np.ndarray, c: np.ndarray, lengths: np.ndarray) -> tuple:
    h, c = h.astype("f8"), c.astype("f8")
    for number, layer in enumerate(layers):
        results = []
        for d, weights in enumerate(layer):
            at, y = number * len(layer) + d, np.zeros((*x.shape[:2], UNITS))
            for b, length in enumerate(lengths):
                for t in range(length)[:: -1 if d else 1]:
                    h[at, b], c[at, b] = step(mode, weights, x[t, b], h[at, b], c[at, b])
                    y[t, b] = h[at, b]
            results.append(y)
        x = np.concatenate(results, -1)
    return x, h, c


def random_layers(rng: np.random.Generator, mode: str, layers: int, directions: int) -> Layers:
    def layer(width: int) -> list:
        sizes = [(UNITS, width), (UNITS, UNITS), (UNITS,), (UNITS,)]
        return [[rng.normal(0, 0.5, (GATES[mode], *s)) for s in sizes] for _ in range(directions)]

    return [layer(WIDTH if number == 0 else directions * UNITS) for number in range(layers)]


def params(layers: Layers) -> np.ndarray:
    """All matrices, then all biases, each by layer, direction, input and state, and gate."""
    parts = [
        part.ravel() for kinds in ((0, 1), (2, 3)) for layer in layers for w in layer for part in (w[k] for k in kinds)
    ]
    return np.concatenate(parts).astype("f4")


def graph(folder: pathlib.Path, op: str, weights: np.ndarray, feeds: dict, **attributes: object) -> pathlib.Path:
    """The placeholders are called as |feeds|, the results out_0, out_1 and out_2."""
    inputs = ["x", "h", "c", "params", *(["lengths"] if op == "CudnnRNNV3" else [])]
    return write(
        folder,
        *(placeholder(key, a.shape, a.dtype) for key, a in feeds.items()),
        constant("params", weights),
        node("rnn", op, *inputs, T=F32, is_training=False, **attributes),
        *(node(f"out_{k}", "Identity", f"rnn:{k}", T=F32) for k in range(3)),
    )


@pytest.mark.parametrize("direction", ["unidirectional", "bidirectional"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("mode", GATES)
@pytest.mark.parametrize("op", ["CudnnRNN", "CudnnRNNV2", "CudnnRNNV3", "batch_first"])
def test_values(tmp_path: pathlib.Path, op: str, mode: str, layers: int, direction: str) -> None:
    rng = np.random.default_rng(7)
    directions, more = 2 if direction == "bidirectional" else 1, {}
    stack = random_layers(rng, mode, layers, directions)
    x = rng.normal(0, 1, (TIME, BATCH, WIDTH)).astype("f4")
    h, c = rng.normal(0, 1, (2, layers * directions, BATCH, UNITS)).astype("f4")
    lengths = np.array([5, 3, 1], "i4") if op in ("CudnnRNNV3", "batch_first") else np.full(BATCH, TIME, "i4")
    want = network(mode, stack, x, h, c, lengths)
    feeds = {"x": x, "h": h, "c": c}
    if op == "batch_first":
        op, more = "CudnnRNNV3", {"time_major": False}
        feeds = {key: np.ascontiguousarray(a.swapaxes(0, 1)) for key, a in feeds.items()}
        want = tuple(a.swapaxes(0, 1) for a in want)
    if op == "CudnnRNNV3":
        feeds["lengths"] = lengths
    path = graph(tmp_path, op, params(stack), feeds, rnn_mode=mode, direction=direction, **more)
    results = [0, 1, 2] if mode == "lstm" else [0, 1]
    got = run(path, feeds, tmp_path, "--outputs=" + ",".join(f"out_{k}" for k in results))
    for k in results:
        close(got[f"out_{k}"], want[k].astype("f4"))


REFUSED = {
    "skip_input": ({"input_mode": "skip_input"}, 0, "input_mode is skip_input; linear_input is required"),
    "projection": ({"num_proj": 2}, 0, "num_proj is not 0"),
    "mode": ({"rnn_mode": "elman"}, 0, "rnn_mode is none of"),
    "dropout": ({"dropout": 0.5, "is_training": True}, 0, "dropout while training"),
    "params": ({}, 3, "params has 285 elements; 288 are required"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(tmp_path: pathlib.Path, case: str) -> None:
    attributes, missing, reason = REFUSED[case]
    count = 4 * UNITS * (WIDTH + UNITS + 2) - missing
    path = write(
        tmp_path,
        placeholder("x", (TIME, BATCH, WIDTH)),
        placeholder("h", (1, BATCH, UNITS)),
        placeholder("c", (1, BATCH, UNITS)),
        constant("params", np.zeros(count)),
        node("rnn", "CudnnRNN", "x", "h", "c", "params", T=F32, **attributes),
        node("y", "Identity", "rnn", T=F32),
    )
    message = refused(path)
    assert "CudnnRNN" in message and reason in message, message


def test_open_batch_and_steps(tmp_path: pathlib.Path) -> None:
    rng = np.random.default_rng(8)
    stack = random_layers(rng, "gru", 1, 1)
    path = write(
        tmp_path,
        placeholder("x", (-1, -1, WIDTH)),
        placeholder("h", (1, -1, UNITS)),
        constant("params", params(stack)),
        node("rnn", "CudnnRNN", "x", "h", "h", "params", T=F32, rnn_mode="gru", is_training=False),
        node("out_0", "Identity", "rnn", T=F32),
    )
    for time, batch in ((1, 1), (4, 2), (0, 2)):
        x, h = (rng.normal(0, 1, s).astype("f4") for s in ((time, batch, WIDTH), (1, batch, UNITS)))
        want = network("gru", stack, x, h, h, np.full(batch, time))[0]
        got = run(path, {"x": x, "h": h}, tmp_path / f"{time}", "--outputs=out_0")
        close(got["out_0"], want.astype("f4"))
