#!/usr/bin/env python3
"""Times models in every precision on this machine and prints the table of docs/how-to-choose-precision.md.

Usage: precision_table.py [--carnot CLI] [--models DIR] [--given DIR] [--threads N] [--duration S] [--rounds N] [CASE ...]

CASE: model:dimension=size,… as in `make bench`. Each precision is built once and then run in alternating rounds, the
least median counts. The cosine is of the least similar output, against float32.
"""
import argparse
import datetime
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "models"))
from check_models import cosine, make_inputs, run_carnot  # noqa: E402

CASES = ["minilm:batch=1,sequence=128", "bert_base:batch=1,sequence=128", "resnet50:batch=1", "mobilenet_v2:batch=1", "lstm:sequence=128", "gpt2_small:batch=1,past=128",
         "squeezenet_fp16"]
PRECISIONS = {"fp32": [], "fp16": ["--fp16"], "bf16": ["--bf16"], "best": ["--best"]}


def processor() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown processor"


def call(*command: object) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-400:])
    return done.stdout


def measure(args: argparse.Namespace, path: pathlib.Path, sizes: dict, folder: pathlib.Path) -> tuple[dict, dict]:
    """Milliseconds and cosine by precision."""
    model = onnx.load(str(path))
    feeds = make_inputs(model, sizes)
    shapes = ",".join(f"{k}:{'x'.join(map(str, v.shape))}" for k, v in feeds.items())
    outputs = [o.name for o in model.graph.output]
    engines, results = {}, {}
    for name, flags in PRECISIONS.items():
        engines[name] = folder / f"{name}.plan"
        call(args.carnot, "build", path, f"--output={engines[name]}", f"--shapes={shapes}", f"--threads={args.threads}", *flags)
        results[name] = run_carnot(args.carnot, engines[name], feeds, outputs, folder)
    times = {name: math.inf for name in PRECISIONS}
    for _ in range(args.rounds):
        for name, engine in engines.items():
            record = json.loads(call(args.carnot, "bench", engine, f"--shapes={shapes}", f"--threads={args.threads}", f"--duration={args.duration}", "--json"))
            times[name] = min(times[name], record["median_ms"])
    same = {name: min(cosine(f, w) for f, w in zip(found, results["fp32"])) for name, found in results.items()}
    return times, same


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("cases", nargs="*", default=CASES)
    ap.add_argument("--carnot", default="build/bin/carnot")
    ap.add_argument("--models", type=pathlib.Path, default=os.environ.get("CARNOT_MODELS") or pathlib.Path.home() / ".cache" / "carnot-models")
    ap.add_argument("--given", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2] / "shared" / "models")
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--duration", type=float, default=1)
    ap.add_argument("--rounds", type=int, default=3)
    args = ap.parse_args()
    print(f"{datetime.date.today()}, {processor()}, {args.threads} thread{'s' if args.threads > 1 else ''}; milliseconds, in brackets float32's time over it and the cosine to it:\n")
    print("| model | fp32 | fp16 | bf16 | best |\n|---|---|---|---|---|")
    for case in args.cases:
        name, _, text = case.partition(":")
        sizes = {k: int(v) for k, v in (part.split("=") for part in text.split(",") if part)}
        path = next((p for p in (args.models / f"{name}.onnx", args.given / f"{name}.onnx") if p.is_file()), None)
        if path is None:
            print(f"{name}: no file {name}.onnx in {args.models} or {args.given}", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as folder:
            times, same = measure(args, path, sizes, pathlib.Path(folder))
        cells = [f"{times['fp32']:.2f}"] + [f"{times[p]:.2f} ({times['fp32'] / times[p]:.2f}, {same[p]:.5f})" for p in ("fp16", "bf16", "best")]
        print(f"| {case} | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
