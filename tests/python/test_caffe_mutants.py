"""Mutants of small Caffe networks and their weights: each is read or refused, in one process that ends by no signal."""

import os
import pathlib
import random
import resource
import subprocess
import sys

import carnot as trt

CLI = pathlib.Path(__file__).resolve().parents[1] / "cli"
SMALL_MODELS = 6
COUNT = int(os.environ.get("CARNOT_MUTANTS", "2000"))  # of each model


def models() -> tuple:
    """Text and weights of the models, and the text that all begin with."""
    sys.path.insert(0, str(CLI))
    import numpy as np
    from caffe_net import caffemodel, inputs_text, layer

    r = np.random.default_rng(0)

    def w(*dims: int) -> np.ndarray:
        return r.standard_normal(dims).astype("f4")

    start = inputs_text({"x": (1, 3, 6, 5)})
    window = "convolution_param { num_output: 4 kernel_size: 3 pad: 1 stride: 2 group: 1 }"
    prior = "prior_box_param { min_size: 4 max_size: 6 aspect_ratio: 2 variance: [0.1, 0.1, 0.2, 0.2] }"
    pool = layer("Pooling", "y", "z", "pooling_param { kernel_size: 2 stride: 1 }", "p")
    made = [
        (layer("Convolution", "x", "y", window) + pool, caffemodel({"layer": [w(4, 3, 3, 3), w(4)]})),
        (
            layer("InnerProduct", "x", "y", "inner_product_param { num_output: 4 }")
            + layer("Softmax", "y", "z", "", "s"),
            caffemodel({"layer": [w(4, 90), w(4)]}),
        ),
        (
            layer("BatchNorm", "x", "y", "batch_norm_param { eps: 0.01 }")
            + layer("Scale", "y", "z", "scale_param { bias_term: true axis: 1 }", "s"),
            caffemodel({"layer": [w(3), w(3) ** 2, w(1)], "s": [w(3), w(3)]}, "legacy"),
        ),
        (
            'input: "c" input_shape { dim: 1 dim: 3 }\n'
            + layer("LSTM", "x c", "y", "recurrent_param { num_output: 4 }"),
            caffemodel({"layer": [w(16, 30), w(16), w(16, 4)]}),
        ),
        (
            layer("PriorBox", "x x", "y", prior)
            + layer("Reshape", "x", "r", "reshape_param { shape { dim: 0 dim: -1 } }", "r")
            + layer("Concat", "r r", "c", "concat_param { axis: 1 }", "k"),
            caffemodel({"other": [w(1)]}),
        ),
        (
            layer("Deconvolution", "x", "y", "convolution_param { num_output: 2 kernel_size: 4 stride: 2 pad: 1 }")
            + layer("LRN", "y", "z", "lrn_param { local_size: 3 }", "l")
            + layer("Eltwise", "z z", "e", "eltwise_param { coeff: 1 coeff: -1 }", "e"),
            caffemodel({"layer": [w(3, 2, 4, 4), w(2)]}, "double"),
        ),
    ]
    return made, start


def mutate(r: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(r.randint(1, 3) if data else 0):
        i = r.randrange(max(len(out), 1))
        kind = r.randrange(5) if i < len(out) else 4
        if kind == 0:
            out[i] = r.randrange(256)
        elif kind == 1:
            out[i] ^= 1 << r.randrange(8)
        elif kind == 2:
            del out[i : i + r.randint(1, 20)]
        elif kind == 3:
            out[i:i] = out[i : i + r.randint(1, 40)]
        else:
            out[i : i + 1] = str(r.choice([0, -1, 2**31, 2**62, 7, 1e9])).encode()
    return bytes(out)


class Quiet(trt.ILogger):
    def log(self, severity: trt.ILogger.Severity, msg: str) -> None:
        pass


def read_mutants(count: int) -> None:
    """Prints how many originals and mutants could be read, and the growth of memory in KiB."""
    builder, parser, r, read = trt.Builder(Quiet()), trt.CaffeParser(), random.Random(0), 0
    given, start = models()
    originals = [
        parser.parse_buffer((start + text).encode(), model, builder.create_network(), trt.float32)
        for text, model in given
    ]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for i in range(count * len(given)):
        text, model = given[i % len(given)]
        data = mutate(r, (start + text).encode()) if r.random() < 0.6 else (start + text).encode()
        model = mutate(r, model) if r.random() < 0.5 else model
        read += parser.parse_buffer(data, model, builder.create_network(), trt.float32) is not None
    print(sum(o is not None for o in originals), read, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


def test_mutants() -> None:
    done = subprocess.run([sys.executable, __file__, str(COUNT)], capture_output=True, text=True, timeout=1000)
    assert done.returncode == 0, done.stderr
    originals, read, growth = map(int, done.stdout.split())
    assert originals == SMALL_MODELS
    assert 0 < read < SMALL_MODELS * COUNT
    assert growth < 256 * 1024


if __name__ == "__main__":
    read_mutants(int(sys.argv[1]))
