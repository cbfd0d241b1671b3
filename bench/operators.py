#!/usr/bin/env python3
"""Single operators on the processor beside ONNX Runtime, in turns in one run: docs/operators.md.

Usage: operators.py CARNOT [--threads N] [--only TEXT]

Each line of CASES is an operator over inputs of random float32 in [1, 21), cast first where it says so (a cast is timed
with it, as it is in both). Prints a row of the table each: medians in ms and Carnot / ONNX Runtime.
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

RNG = np.random.default_rng(3)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def weight(*dims: int) -> np.ndarray:
    return RNG.standard_normal(dims).astype(np.float32)


def places(high: int, *dims: int) -> np.ndarray:
    return RNG.integers(0, high, dims)


def distinct(rows: int, high: int, count: int) -> np.ndarray:
    return np.stack([RNG.permutation(high)[:count] for _ in range(rows)])


# name of the case, operator, dimensions of inputs, constants, attributes; "cast" and "back" are types around it
CASES = [
    ("TopK, 5 of [128,1000]", "TopK", [[128, 1000]], [ints(5)], {"outputs": 2}),
    ("TopK, 300 of 100000", "TopK", [[1, 100000]], [ints(300)], {"outputs": 2}),
    ("NonZero [1000,1000]", "NonZero", [[1000, 1000]], [], {"back": T.FLOAT}),
    ("Compress half of [4096,256]", "Compress", [[4096, 256]], [np.arange(4096) % 2 == 0], {"axis": 0}),
    ("GatherND 4096 rows of [8192,64]", "GatherND", [[8192, 64]], [places(8192, 4096, 1)], {}),
    ("GatherElements [512,512]", "GatherElements", [[512, 512]], [places(512, 512, 512)], {"axis": 1}),
    ("ScatterND 4096 rows of [8192,64]", "ScatterND", [[8192, 64]], [distinct(1, 8192, 4096).T, weight(4096, 64)], {}),
    ("ScatterElements [512,64] in [512,512]", "ScatterElements", [[512, 512]], [distinct(512, 512, 64), weight(512, 64)], {"axis": 1}),
    ("CumSum [512,512]", "CumSum", [[512, 512]], [np.array(1)], {}),
    ("OneHot 1000 of 1000", "OneHot", [[1000]], [np.array(1000), np.array([0, 1], np.float32)], {"cast": T.INT64}),
    ("Hardmax [1000,1000]", "Hardmax", [[1000, 1000]], [], {}),
    ("ArgMax [1000,1000]", "ArgMax", [[1000, 1000]], [], {"axis": 1}),
    ("Einsum bij,bjk->bik, 8 of 128", "Einsum", [[8, 128, 128], [8, 128, 128]], [], {"equation": "bij,bjk->bik"}),
    ("Einsum bqhd,bkhd->bhqk, 128 by 12 by 64", "Einsum", [[1, 128, 12, 64], [1, 128, 12, 64]], [], {"equation": "bqhd,bkhd->bhqk"}),
    ("RoiAlign 200 of [1,64,50,50]", "RoiAlign", [[1, 64, 50, 50]],
     [(RNG.random((200, 4)) * 20 + [0, 0, 20, 20]).astype(np.float32), np.zeros(200, np.int64)],
     {"output_height": 7, "output_width": 7, "sampling_ratio": 2}),
    ("GridSample [1,16,64,64]", "GridSample", [[1, 16, 64, 64]], [(RNG.random((1, 64, 64, 2)) * 2 - 1).astype(np.float32)], {}),
    ("Resize linear, [1,16,64,64] twice", "Resize", [[1, 16, 64, 64]], [None, np.array([1, 1, 2, 2], np.float32)], {"mode": "linear"}),
    ("Resize cubic, [1,16,64,64] twice", "Resize", [[1, 16, 64, 64]], [None, np.array([1, 1, 2, 2], np.float32)], {"mode": "cubic"}),
    ("MaxPool 2x2x2 of [1,16,8,64,64]", "MaxPool", [[1, 16, 8, 64, 64]], [], {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]}),
    ("MaxPool 3x3/2 of uint8 [1,64,112,112]", "MaxPool", [[1, 64, 112, 112]], [],
     {"kernel_shape": [3, 3], "strides": [2, 2], "cast": T.UINT8, "back": T.FLOAT}),
    ("Conv 3x3x3, 16 to 16, [1,16,8,32,32]", "Conv", [[1, 16, 8, 32, 32]], [weight(16, 16, 3, 3, 3)], {"pads": [1] * 6}),
    ("Conv 3x3, 4 groups of 16, 56x56", "Conv", [[1, 64, 56, 56]], [weight(64, 16, 3, 3)], {"pads": [1] * 4, "group": 4}),
    ("ConvTranspose 4x4/2, 32 to 32, 32x32", "ConvTranspose", [[1, 32, 32, 32]], [weight(32, 32, 4, 4)], {"strides": [2, 2], "pads": [1] * 4}),
    ("DepthToSpace [1,64,64,64]", "DepthToSpace", [[1, 64, 64, 64]], [], {"blocksize": 2}),
    ("SpaceToDepth [1,16,128,128]", "SpaceToDepth", [[1, 16, 128, 128]], [], {"blocksize": 2}),
    ("Transpose 3210 of [16,32,32,16]", "Transpose", [[16, 32, 32, 16]], [], {"perm": [3, 2, 1, 0]}),
    ("Concat of two [128,512,8], last axis", "Concat", [[128, 512, 8], [128, 512, 8]], [], {"axis": 2}),
    ("Slice, every other of [1024,1024]", "Slice", [[1024, 1024]], [ints(0, 0), ints(1024, 1024), ints(0, 1), ints(2, 2)], {}),
    ("Add of int64 [512,512]", "Add", [[512, 512], [512, 512]], [], {"cast": T.INT64, "back": T.FLOAT}),
    ("Mod of int64 [512,512]", "Mod", [[512, 512]], [np.array(7)], {"cast": T.INT64, "back": T.FLOAT}),
    ("MatMul of float64 [256,256]", "MatMul", [[256, 256]], [weight(256, 256).astype(np.float64)], {"cast": T.DOUBLE, "back": T.FLOAT}),
    ("MatMul [1,1024] by [1024,1024]", "MatMul", [[1, 1024], [1024, 1024]], [], {}),
    ("MatMulInteger [128,512] by [512,512]", "MatMulInteger", [[128, 512]], [RNG.integers(-127, 127, (512, 512)).astype(np.int8)],
     {"cast": T.UINT8, "back": T.FLOAT}),
    ("ReduceMean of [1,64,56,56] but channels", "ReduceMean", [[1, 64, 56, 56]], [ints(0, 2, 3)], {}),
    ("ReduceSum [1000,512], first axis", "ReduceSum", [[1000, 512]], [ints(0)], {}),
    ("Softmax [16,64,256], middle axis", "Softmax", [[16, 64, 256]], [], {"axis": 1}),
    ("LogSoftmax [1000,512]", "LogSoftmax", [[1000, 512]], [], {}),
    ("InstanceNormalization [1,64,56,56]", "InstanceNormalization", [[1, 64, 56, 56]], [weight(64), weight(64)], {}),
    ("LRN [1,64,56,56]", "LRN", [[1, 64, 56, 56]], [], {"size": 5}),
    ("Erf [512,512]", "Erf", [[512, 512]], [], {}), ("Tan [512,512]", "Tan", [[512, 512]], [], {}),
    ("Mish [512,512]", "Mish", [[512, 512]], [], {}), ("Pow [512,512]", "Pow", [[512, 512], [512, 512]], [], {}),
    ("Add [64,1,256] and [1,64,256]", "Add", [[64, 1, 256], [1, 64, 256]], [], {}),
    ("GRU 32 steps, 64", "GRU", [[32, 1, 64]], [weight(1, 192, 64), weight(1, 192, 64), weight(1, 384)], {"hidden_size": 64, "outputs": 2}),
    ("LSTM 32 steps of 16, 128", "LSTM", [[32, 16, 128]], [weight(1, 512, 128), weight(1, 512, 128), weight(1, 1024)], {"hidden_size": 128, "outputs": 2}),
    ("DFT 64 of 512", "DFT", [[64, 512, 1]], [], {}),
]


def model(op: str, inputs: list, constants: list, settings: dict) -> onnx.ModelProto:
    settings = dict(settings)
    cast, back, outputs = settings.pop("cast", 0), settings.pop("back", 0), settings.pop("outputs", 1)
    names = [f"x{i}" for i in range(len(inputs))]
    operands = [f"{n}_cast" if cast else n for n in names]
    nodes = [helper.make_node("Cast", [n], [o], to=cast) for n, o in zip(names, operands) if cast]
    weights = [numpy_helper.from_array(c, f"c{i}") for i, c in enumerate(constants) if c is not None]
    operands += ["" if c is None else f"c{i}" for i, c in enumerate(constants)]
    nodes.append(helper.make_node(op, operands, [f"y{i}" for i in range(outputs)], **settings))
    result = f"y{outputs - 1}" if op in ("GRU", "LSTM") else "y0"
    if back:
        nodes.append(helper.make_node("Cast", [result], ["back"], to=back))
    graph = helper.make_graph(nodes, op, [helper.make_tensor_value_info(n, T.FLOAT, d) for n, d in zip(names, inputs)],
                              [helper.make_tensor_value_info("back" if back else result, back or T.UNDEFINED, None)], weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return onnx.shape_inference.infer_shapes(made)


def time_runtime(path: str, threads: int) -> float:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {i.name: (RNG.random(i.shape) * 20 + 1).astype(np.float32) for i in session.get_inputs()}
    times, end = [], time.monotonic() + 0.4
    while time.monotonic() < end or len(times) < 8:
        begin = time.perf_counter()
        session.run(None, feeds)
        times.append(time.perf_counter() - begin)
    return float(np.median(times[3:])) * 1e3


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("carnot")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--only", default="", help="text of a case's name")
    args = ap.parse_args()
    ratios = []
    print("| operator | Carnot ms | ONNX Runtime ms | ratio |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "m.onnx")
        for name, *case in CASES:
            if args.only not in name:
                continue
            onnx.save(model(*case), path)
            theirs = time_runtime(path, args.threads)
            done = subprocess.run([args.carnot, "bench", path, "--backend=cpu", "--json", "--duration=0.4", f"--threads={args.threads}"],
                                  check=True, capture_output=True, text=True)
            ours = json.loads(done.stdout.splitlines()[-1])["median_ms"]
            ratios.append(ours / theirs)
            print(f"| {name} | {ours:.3g} | {theirs:.3g} | {ours / theirs:.2f} |", flush=True)
    if ratios:
        print(f"\nGeometric mean of the ratios over {len(ratios)} operators: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
