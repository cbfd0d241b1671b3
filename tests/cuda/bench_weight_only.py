#!/usr/bin/env python3
"""Times GEMMs of few rows by packed INT4 or INT8 weights on a GPU: microseconds, GB/s, and the share of the memory's rate.

Usage: bench_weight_only.py CARNOT [--peak GB/S] [--bits 4] [--block 128] [--type fp16] [--sizes NxK,..] [--rows M,..]

A network holds as many layers side by side, with weights of their own, as exceed the caches, another one twice as many:
a layer's time is the difference of their runs, which the start of a run and its copies do not enter. Bytes: weights,
scales, operand and result of a layer.
"""

import argparse
import json
import math
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

CACHED = 256e6  # bytes of weights that no cache keeps from one run to the next


def network(n: int, k: int, rows: int, layers: int, bits: int, block: int, is_half: bool) -> onnx.ModelProto:
    rng = np.random.default_rng(1)
    dtype = T.FLOAT16 if is_half else T.FLOAT
    nodes, constants, outputs = [], [], []
    for i in range(layers):
        packed = rng.integers(0, 256, (n, k // block, block * bits // 8), np.uint8)
        scales = (rng.random(n * (k // block), np.float32) / 100).astype(np.float16 if is_half else np.float32)
        constants += [nh.from_array(packed, f"w{i}"), nh.from_array(scales, f"s{i}")]
        attributes = {"K": k, "N": n, "bits": bits, "block_size": block}
        nodes.append(
            h.make_node("MatMulNBits", ["x", f"w{i}", f"s{i}"], [f"y{i}"], domain="com.microsoft", **attributes)
        )
        outputs.append(h.make_tensor_value_info(f"y{i}", dtype, [rows, n]))
    x = h.make_tensor_value_info("x", dtype, [rows, k])
    graph = h.make_graph(nodes, "g", [x], outputs, constants)
    opsets = [h.make_opsetid("", 21), h.make_opsetid("com.microsoft", 1)]
    return h.make_model(graph, opset_imports=opsets, ir_version=10)


def run_ms(carnot: str, folder: pathlib.Path, model: onnx.ModelProto) -> tuple[float, set[str]]:
    """The median run, and the tactics."""
    plan = folder / "m.plan"
    onnx.save(model, folder / "m.onnx")
    flags = ["--backend=cuda", "--builderOptimizationLevel=3", f"--timingCacheFile={folder / 'timings'}"]
    subprocess.run([carnot, "build", folder / "m.onnx", "--output", plan, *flags], check=True, stdout=subprocess.DEVNULL)
    text = subprocess.run([carnot, "inspect", plan, "--json"], check=True, capture_output=True, text=True).stdout
    tactics = {layer["TacticName"] for layer in json.loads(text)["Layers"]}
    bench = [carnot, "bench", plan, "--backend=cuda", "--json", "--duration=0.3"]
    done = subprocess.run(bench, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])["median_ms"], tactics


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("carnot")
    parser.add_argument("--peak", type=float, default=4800, help="GB/s of the memory")
    parser.add_argument("--bits", type=int, default=4)
    parser.add_argument("--block", type=int, default=128)
    parser.add_argument("--type", choices=["fp16", "float32"], default="fp16")
    parser.add_argument("--sizes", default="4096x4096,11008x4096,28672x8192")
    parser.add_argument("--rows", default="1,4,16,64")
    options = parser.parse_args()
    is_half = options.type == "fp16"
    element = 2 if is_half else 4
    for size in options.sizes.split(","):
        n, k = map(int, size.split("x"))
        weights = n * k * options.bits / 8 + n * (k // options.block) * element
        layers = max(1, math.ceil(CACHED / weights))
        for rows in map(int, options.rows.split(",")):
            with tempfile.TemporaryDirectory() as name:
                path = pathlib.Path(name)
                runs = [
                    run_ms(options.carnot, path, network(n, k, rows, count, options.bits, options.block, is_half))
                    for count in (layers, 2 * layers)
                ]
            us = (runs[1][0] - runs[0][0]) * 1e3 / layers
            tactics = runs[0][1] | runs[1][1]
            rate = (weights + rows * (n + k) * element) / us / 1e3
            print(
                f"{n}x{k} INT{options.bits} block {options.block} M {rows:2}: {us:7.1f} us {rate:6.0f} GB/s "
                f"{100 * rate / options.peak:3.0f} %  {' '.join(sorted(tactics))}",
                flush=True,
            )


if __name__ == "__main__":
    main()
