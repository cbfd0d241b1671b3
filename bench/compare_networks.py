#!/usr/bin/env python3
"""Carnot beside ONNX Runtime on the networks of bench/networks.py: error against float64, and with --speed time.

Usage: compare_networks.py CARNOT [--int8 FORM] [--speed] [--threads N] [--only NAME,...] [--models FOLDER] [--json FILE]

The weights are random. Each network is exported to ONNX (kept in FOLDER if one is given) and run by PyTorch in float64,
Carnot and ONNX Runtime: the error is the L2 norm of the difference relative to that of the result. --int8 quantizes each by
onnxruntime.quantization, calibrated on the one input: u8s8 and s8s8 are Q/DQ files with uint8 or int8 activations and int8
weights a channel, dynamic is quantize_dynamic; of networks with one convolution or none the GEMMs are quantized. --speed
times Carnot, ONNX Runtime and, where Python has it, OpenVINO in alternating rounds and compares minima. A row of the table
each, geometric means below; the exit status is 1 if an error is over 1.5 x ONNX Runtime's and above 1e-7, or if the
geometric mean of those ratios is above 1. Needs torch, torchvision, transformers, onnx, onnxruntime.
"""
import argparse
import copy
import json
import math
import pathlib
import subprocess
import tempfile
import time
import warnings

import numpy as np
import onnxruntime
import torch
from networks import NETWORKS, network

FLOOR, MOST = 1e-7, 1.5
ROUNDS, ROUND_S = 5, 0.4


def export(module, inputs, path: pathlib.Path) -> None:
    names = [f"x{i}" for i in range(len(inputs))]
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, inputs, str(path), input_names=names, output_names=["y"], opset_version=18, dynamo=False)


def exact(module, inputs) -> np.ndarray:
    with torch.no_grad():
        return copy.deepcopy(module).double()(*(x.double() if x.is_floating_point() else x for x in inputs)).numpy()


def relative_error(got: np.ndarray, want: np.ndarray) -> float:
    return float(np.linalg.norm(got.astype(np.float64).ravel() - want.ravel()) / np.linalg.norm(want.ravel()))


def quantized(path: pathlib.Path, form: str, feeds: dict, folder: pathlib.Path) -> pathlib.Path:
    import onnx
    from onnxruntime import quantization as q
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class One(q.CalibrationDataReader):
        def __init__(self):
            self.left = iter([feeds])

        def get_next(self):
            return next(self.left, None)

    prepared, out = folder / "prepared.onnx", folder / "quantized.onnx"
    quant_pre_process(str(path), str(prepared), skip_symbolic_shape=True)
    if form == "dynamic":
        q.quantize_dynamic(str(prepared), str(out), weight_type=q.QuantType.QInt8, per_channel=True)
        return out
    convolutions = sum(node.op_type == "Conv" for node in onnx.load(str(prepared)).graph.node)
    q.quantize_static(str(prepared), str(out), One(), quant_format=q.QuantFormat.QDQ, per_channel=True,
                      op_types_to_quantize=None if convolutions > 1 else ["MatMul", "Gemm"],
                      activation_type=q.QuantType.QUInt8 if form == "u8s8" else q.QuantType.QInt8, weight_type=q.QuantType.QInt8,
                      extra_options={"ActivationSymmetric": form == "s8s8"})
    return out


def build_carnot(args, path: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """The engine with tactics by their times: without timing, as `carnot run MODEL` builds, others are taken."""
    engine = folder / "engine"
    command = [args.carnot, "build", str(path), "--backend=cpu", f"--output={engine}", f"--threads={args.threads}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return engine


def run_carnot(args, engine: pathlib.Path, feeds: dict, folder: pathlib.Path) -> np.ndarray:
    command = [args.carnot, "run", str(engine), "--backend=cpu", f"--threads={args.threads}", f"--output-dir={folder}"]
    for name, x in feeds.items():
        np.save(folder / f"{name}.npy", x)
        command += ["--input", f"{name}={folder / name}.npy"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return np.load(folder / "y.npy")


def runtime(path: pathlib.Path, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def least_ms(call) -> float:
    times, end = [], time.monotonic() + ROUND_S
    while time.monotonic() < end or len(times) < 3:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times) * 1e3


def openvino_call(path: pathlib.Path, feeds: dict, threads: int):
    """What runs the model in OpenVINO, or None without it."""
    try:
        import openvino
    except ImportError:
        return None
    core = openvino.Core()
    compiled = core.compile_model(str(path), "CPU", {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"})
    return lambda: compiled(feeds)


def speed(args, path: pathlib.Path, engine: pathlib.Path, session, feeds: dict) -> dict:
    bench = [args.carnot, "bench", str(engine), "--json", f"--duration={ROUND_S}", "--iterations=3", f"--threads={args.threads}"]
    peers = {"onnxruntime": lambda: session.run(None, feeds), "openvino": openvino_call(path, feeds, args.threads)}
    best: dict = {}
    for _ in range(ROUNDS):
        done = subprocess.run(bench, check=True, capture_output=True, text=True)
        record = json.loads(done.stdout.splitlines()[-1])
        found = {"carnot": record["min_ms"]}
        found |= {name: least_ms(call) for name, call in peers.items() if call}
        best = {name: min(ms, best.get(name, ms)) for name, ms in found.items()}
    return {f"{name}_ms": ms for name, ms in best.items()}


def compare(args, name: str) -> dict:
    module, inputs = network(name)
    feeds = {f"x{i}": x.numpy() for i, x in enumerate(inputs)}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        path = (pathlib.Path(args.models) if args.models else folder) / f"{name}.onnx"
        if not path.exists():
            export(module, inputs, path)
        want = exact(module, inputs)
        if args.int8:
            path = quantized(path, args.int8, feeds, folder)
        session = runtime(path, args.threads)
        engine = build_carnot(args, path, folder)
        record = {"network": name, "carnot": relative_error(run_carnot(args, engine, feeds, folder), want),
                  "onnxruntime": relative_error(session.run(None, feeds)[0], want)}
        if args.speed:
            record |= speed(args, path, engine, session, feeds)
    return record


def row(record: dict) -> str:
    ours, theirs = record["carnot"], record["onnxruntime"]
    cells = [record["network"], f"{ours:.2e}", f"{theirs:.2e}", f"{ours / theirs:.2f}"]
    if "carnot_ms" in record:
        peers = [record[k] for k in ("onnxruntime_ms", "openvino_ms") if k in record]
        cells += [f"{record['carnot_ms']:.2f}", *(f"{ms:.2f}" for ms in peers), f"{min(peers) / record['carnot_ms']:.2f}"]
    return "| " + " | ".join(cells) + " |"


def geometric_mean(values: list) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("carnot")
    ap.add_argument("--speed", action="store_true")
    ap.add_argument("--int8", default="", choices=["u8s8", "s8s8", "dynamic"])
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--only", default="", help="names, separated by commas")
    ap.add_argument("--models", default="", help="folder that keeps the ONNX files")
    ap.add_argument("--json", default="", help="file for the records, one a line")
    args = ap.parse_args()
    records = []
    for name in args.only.split(",") if args.only else NETWORKS:
        try:
            records.append(compare(args, name))
            print(row(records[-1]), flush=True)
        except Exception as error:  # one network that cannot be compared leaves the others
            print(f"| {name} | failed: {str(error).splitlines()[0][:200]} |", flush=True)
    if args.json:
        pathlib.Path(args.json).write_text("".join(json.dumps(r) + "\n" for r in records))
    counted = [r for r in records if max(r["carnot"], r["onnxruntime"]) > FLOOR]
    if not counted:
        return 1
    ratios = {r["network"]: r["carnot"] / r["onnxruntime"] for r in counted}
    print(f"\nError, geometric mean of the ratios over {len(ratios)} networks: {geometric_mean(list(ratios.values())):.2f}; "
          f"above {MOST}: {', '.join(n for n, x in ratios.items() if x > MOST) or 'none'}")
    if args.speed:
        gains = [min(r[k] for k in ("onnxruntime_ms", "openvino_ms") if k in r) / r["carnot_ms"] for r in records]
        print(f"Speed, geometric mean of best peer / Carnot over {len(gains)} networks: {geometric_mean(gains):.2f}; "
              f"below 1: {sum(x < 1 for x in gains)}")
    return int(geometric_mean(list(ratios.values())) > 1 or max(ratios.values()) > MOST)


if __name__ == "__main__":
    raise SystemExit(main())
