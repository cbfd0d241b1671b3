#!/usr/bin/env python3
"""Single operators on the processor beside ONNX Runtime, in turns in one run: docs/operators.md.

Usage: operators.py CARNOT [--threads N] [--only TEXT] [--rounds N]

Each line of operator_cases.py is a network of one operator over random inputs: floats in [-1, 1), integers in [0, 1000) or
[0, 100) of 8 bits. Both run it in alternating rounds. Prints a row of the table each: minima in ms and Carnot / ONNX Runtime.
"""
import argparse
import json
import math
import pathlib
import subprocess
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper, numpy_helper
from operator_cases import CASES

RNG = np.random.default_rng(3)
ROUND_S = 0.15
MOST = 1.05


def model(op: str, inputs: list, constants: list, settings: dict) -> onnx.ModelProto:
    settings = dict(settings)
    opset, outputs, first = settings.pop("opset", 20), settings.pop("outputs", 1), settings.pop("first", None)
    typed = [x if isinstance(x, tuple) else ("float32", x) for x in inputs]
    values = [helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(np.dtype(t)), d) for i, (t, d) in enumerate(typed)]
    constants = {f"c{i}": c for i, c in enumerate(constants)} | ({"first": first} if first is not None else {})
    operands = ["first"] * (first is not None) + [v.name for v in values]
    operands += ["" if c is None else name for name, c in constants.items() if name != "first"]
    node = helper.make_node(op, operands, [f"y{i}" for i in range(outputs)], **settings)
    weights = [numpy_helper.from_array(np.asarray(c), name) for name, c in constants.items() if c is not None]
    results = [helper.make_tensor_value_info(name, T.UNDEFINED, None) for name in node.output]
    graph = helper.make_graph([node], op, values, results, weights)
    made = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10))
    for result in made.graph.output:  # inference of onnx leaves a few open
        result.type.tensor_type.elem_type = result.type.tensor_type.elem_type or T.FLOAT
    return made


def random_input(dims: list, kind: str) -> np.ndarray:
    if kind == "tensor(bool)":
        return RNG.integers(0, 2, dims).astype(bool)
    if kind in ("tensor(float)", "tensor(double)"):
        return RNG.uniform(-1, 1, dims).astype(np.float32 if kind == "tensor(float)" else np.float64)
    kind = kind[len("tensor("):-1]
    return RNG.integers(0, 100 if kind.endswith("t8") else 1000, dims).astype(kind)


def runtime(path: str, threads: int):
    """What runs the model in ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {i.name: random_input(i.shape, i.type) for i in session.get_inputs()}
    return lambda: session.run(None, feeds)


def least_ms(call) -> float:
    least, count, end = math.inf, 0, time.monotonic() + ROUND_S
    while time.monotonic() < end or count < 5:
        begin = time.perf_counter()
        call()
        least, count = min(least, time.perf_counter() - begin), count + 1
    return least * 1e3


def compare(args, case: list, folder: pathlib.Path) -> tuple:
    """Minima of Carnot and of ONNX Runtime in ms."""
    path, engine = str(folder / "m.onnx"), str(folder / "engine")
    onnx.save(model(*case), path)
    call = runtime(path, args.threads)
    subprocess.run([args.carnot, "build", path, "--backend=cpu", f"--output={engine}", f"--threads={args.threads}"], check=True, capture_output=True)
    bench = [args.carnot, "bench", engine, "--json", f"--duration={ROUND_S}", "--iterations=5", f"--threads={args.threads}"]
    ours = theirs = math.inf
    for _ in range(args.rounds):
        theirs = min(theirs, least_ms(call))
        done = subprocess.run(bench, check=True, capture_output=True, text=True)
        ours = min(ours, json.loads(done.stdout.splitlines()[-1])["min_ms"])
    return ours, theirs


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("carnot")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--only", default="", help="text of a case's name")
    ap.add_argument("--rounds", type=int, default=3)
    args = ap.parse_args()
    ratios = {}
    print("| operator | Carnot ms | ONNX Runtime ms | ratio |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, *case in CASES:
            if args.only not in name:
                continue
            try:
                ours, theirs = compare(args, case, pathlib.Path(folder))
            except Exception as error:  # one that either cannot run leaves the others
                print(f"| {name} | failed: {str(error).splitlines()[0][:200]} |", flush=True)
                continue
            ratios[name] = ours / theirs
            print(f"| {name} | {ours:.3g} | {theirs:.3g} | {ours / theirs:.2f} |", flush=True)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        behind = sorted((n for n in ratios if ratios[n] > MOST), key=lambda n: -ratios[n])
        print(f"\nGeometric mean of the ratios over {len(ratios)} operators: {mean:.2f}; above {MOST}: {len(behind)}")
        print("\nFurthest behind: " + ("; ".join(f"{n} ({ratios[n]:.2f})" for n in behind) or "none") + ".")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
