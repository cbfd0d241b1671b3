"""How builds scale: chains of convolutions, matrix multiplications and attention blocks of 1,000 and 10,000 nodes.

build_scale.py CARNOT [--level=0] [--nodes=1000,10000] [--kinds=conv,matmul,attention,large]

Prints, for each chain, the CPU time of `carnot build`, its peak memory beside the size of the model, and the ratio of
the times of the longest and the shortest chain. "large" are 16 matrix multiplications with 16 MB of weights each.
"""

import argparse
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(1)


class Chain:
    """A model under construction; |value| is its last tensor."""

    def __init__(self, shape: list) -> None:
        self.nodes, self.weights, self.shape, self.value = [], [], shape, "x"

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        array = (RNG.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def add(self, op: str, *inputs: str, **attributes: object) -> str:
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [f"{name}_out"], name, **attributes))
        return f"{name}_out"

    def save(self, path: pathlib.Path) -> None:
        self.nodes.append(helper.make_node("Identity", [self.value], ["y"], "last"))
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "chain", [x], [y], self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def conv(count: int) -> Chain:
    chain = Chain([1, 16, 8, 8])
    while len(chain.nodes) < count:
        chain.value = chain.add("Conv", chain.value, chain.weight(16, 16, 3, 3), pads=[1] * 4)
    return chain


def matmul(count: int) -> Chain:
    chain = Chain([8, 64])
    while len(chain.nodes) < count:
        chain.value = chain.add("MatMul", chain.value, chain.weight(64, 64))
    return chain


def attention(count: int) -> Chain:
    """Blocks of self-attention with four heads and a residual, as exporters write them."""
    chain, width, heads, tokens = Chain([1, 16, 64]), 64, 4, 16
    split = numpy_helper.from_array(np.array([1, tokens, heads, width // heads], np.int64), "split")
    join = numpy_helper.from_array(np.array([1, tokens, width], np.int64), "join")
    scale = numpy_helper.from_array(np.float32(0.25), "scale")
    while len(chain.nodes) < count:
        x, heads_of = chain.value, []
        for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
            projected = chain.add("Reshape", chain.add("MatMul", x, chain.weight(width, width)), "split")
            heads_of.append(chain.add("Transpose", projected, perm=perm))
        scores = chain.add("Mul", chain.add("MatMul", heads_of[0], heads_of[1]), "scale")
        mixed = chain.add("MatMul", chain.add("Softmax", scores, axis=-1), heads_of[2])
        joined = chain.add("Reshape", chain.add("Transpose", mixed, perm=[0, 2, 1, 3]), "join")
        chain.value = chain.add("Add", x, chain.add("MatMul", joined, chain.weight(width, width)))
    chain.weights += [split, join, scale]
    return chain


def large(count: int) -> Chain:
    chain = Chain([1, 2048])
    while len(chain.nodes) < count:
        chain.value = chain.add("MatMul", chain.value, chain.weight(2048, 2048))
    return chain


KINDS = {"conv": conv, "matmul": matmul, "attention": attention, "large": large}


def make(kind: str, count: int, model: pathlib.Path) -> None:
    KINDS[kind](count).save(model)


def build(carnot: str, model: pathlib.Path, level: int) -> tuple:
    """CPU seconds and peak bytes of a build."""
    words = [
        carnot,
        "build",
        str(model),
        "--output",
        str(model.with_suffix(".plan")),
        f"--builderOptimizationLevel={level}",
    ]
    child = subprocess.Popen(words, env={**os.environ, "CARNOT_DEVICE": "cpu"}, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(words)} ended with {child.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("carnot")
    parser.add_argument("--level", type=int, default=0)
    parser.add_argument("--nodes", default="1000,10000")
    parser.add_argument("--kinds", default=",".join(KINDS))
    options = parser.parse_args()
    print(f"{'chain':10} {'nodes':>6} {'model MB':>9} {'CPU s':>7} {'peak MB':>8} {'peak/model':>10}  time ratio")
    with tempfile.TemporaryDirectory() as folder:
        for kind in options.kinds.split(","):
            times = []
            for count in [int(n) for n in options.nodes.split(",")] if kind != "large" else [16]:
                model = pathlib.Path(folder) / f"{kind}{count}.onnx"
                # A process of its own: a child's peak begins at that of its parent.
                maker = multiprocessing.get_context("fork").Process(target=make, args=(kind, count, model))
                maker.start()
                maker.join()
                seconds, peak = build(options.carnot, model, options.level)
                times.append(seconds)
                size = model.stat().st_size
                ratio = f"{times[-1] / times[0]:.1f}" if len(times) > 1 else ""
                row = f"{kind:10} {count:6} {size / 1e6:9.1f} {seconds:7.2f} {peak / 1e6:8.1f} {peak / size:10.2f}"
                print(f"{row}  {ratio}", flush=True)
                model.unlink()


if __name__ == "__main__":
    main()
