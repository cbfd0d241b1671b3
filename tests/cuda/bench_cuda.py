#!/usr/bin/env python3
"""Times Carnot in float16 on a GPU, and PyTorch on the same models in the same run, and prints the ratios.

Usage: bench_cuda.py CARNOT [--models DIR] [--peers SCRIPT] [--budget SECONDS] [--mode MODE] [--json FILE] [NAME ...]

DIR holds the exported benchmark models (<name>.onnx); those that it lacks are skipped by name. SCRIPT times PyTorch
and prints one JSON object a line: model, batch, and milliseconds of "graph" (CUDA graph) and "compile"
(torch.compile); without it no ratios are printed. Ratio: PyTorch's best time / Carnot's. Carnot is timed first,
because compiling in PyTorch takes minutes; when the time budget ends, the results so far are printed.
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator

# name: the peers' name, input shapes of one image or sequence
MODELS = {
    "resnet50": ("resnet50", {"input": "3x224x224"}),
    "mobilenet_v2": ("mobilenet_v2", {"input": "3x224x224"}),
    "efficientnet_b0": ("efficientnet_b0", {"input": "3x224x224"}),
    "vit_b_16": ("vit_b_16", {"input": "3x224x224"}),
    "bert_base": ("bert_base_128", {"input_ids": "128", "attention_mask": "128"}),
    "bert_large": ("bert_large_384", {"input_ids": "384", "attention_mask": "384"}),
    "unet_gn": ("unet_gn_64", {"input": "4x64x64"}),
}
BATCHES = (1, 32)


def time_carnot(carnot: str, path: pathlib.Path, shapes: dict[str, str], batch: int, cache: str) -> dict:
    wanted = ",".join(f"{name}:{batch}x{dims}" for name, dims in shapes.items())
    done = subprocess.run(
        [
            carnot,
            "bench",
            str(path),
            "--backend=cuda",
            "--fp16",
            f"--shapes={wanted}",
            "--json",
            "--duration=0.5",
            f"--timingCacheFile={cache}",
        ],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"FAILED {path} batch {batch}: {done.stderr[-500:]}")
    return json.loads(done.stdout.splitlines()[-1])


def time_peers(
    script: str, names: list[str], budget: float, mode: str, folder: str
) -> Iterator[tuple[str, int, float, str]]:
    """Model, batch, milliseconds of the best mode and its name, as the script prints them."""
    with subprocess.Popen(
        [
            sys.executable,
            script,
            *names,
            "--budget",
            str(budget),
            "--mode",
            mode,
            "--batches",
            ",".join(map(str, BATCHES)),
        ],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OUT": folder},
    ) as peers:
        for line in peers.stdout:
            record = json.loads(line)
            modes = [(record[m], m) for m in ("graph", "compile") if isinstance(record.get(m), float)]
            if modes:
                yield record["model"], record["batch"], *min(modes)
    if peers.returncode:
        print(f"{script} ended with {peers.returncode}: some peers are missing")


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("carnot")
    ap.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODELS))
    ap.add_argument(
        "--models",
        type=pathlib.Path,
        default=os.environ.get("CARNOT_MODELS") or pathlib.Path.home() / ".cache" / "carnot-models",
    )
    ap.add_argument("--peers", help="the script that times PyTorch")
    ap.add_argument("--budget", type=float, default=540, help="seconds for the peers")
    ap.add_argument(
        "--mode",
        default="reduce-overhead",
        help="of torch.compile; max-autotune takes 3 minutes and more for a model and batch",
    )
    ap.add_argument("--json", help="where to write all figures")
    args = ap.parse_intermixed_args()
    if subprocess.run("nvidia-smi", capture_output=True, shell=True).returncode:
        print("skipped: no device")
        return 0
    names = [n for n in args.names or MODELS if (args.models / f"{n}.onnx").exists()]
    for name in set(args.names or MODELS) - set(names):
        print(f"skipped: no {args.models / name}.onnx")
    rows = {}
    print(f"{'model':16} {'batch':>5} {'Carnot ms':>10} {'build s':>8} {'PyTorch ms':>11} {'mode':8} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            for batch in BATCHES:
                peer, shapes = MODELS[name]
                ours = time_carnot(args.carnot, args.models / f"{name}.onnx", shapes, batch, f"{folder}/times")
                row = dict(model=name, batch=batch, carnot_ms=ours["median_ms"], build_s=ours["build_ms"] * 1e-3)
                rows[peer, batch] = row
                print(f"{name:16} {batch:5} {row['carnot_ms']:10.3f} {row['build_s']:8.1f}", flush=True)
        peers = [MODELS[n][0] for n in names]
        for peer, batch, ms, mode in (
            time_peers(args.peers, peers, args.budget, args.mode, folder) if args.peers else ()
        ):
            row = rows[peer, batch]
            row |= dict(torch_ms=ms, mode=mode, ratio=ms / row["carnot_ms"])
            print(
                f"{row['model']:16} {batch:5} {row['carnot_ms']:10.3f} {row['build_s']:8.1f} {ms:11.3f} {mode:8} "
                f"{row['ratio']:6.2f}",
                flush=True,
            )
    for batch in BATCHES:
        ratios = [r["ratio"] for r in rows.values() if r["batch"] == batch and "ratio" in r]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"batch {batch}: geometric mean {mean:.2f}, least {min(ratios):.2f}, of {len(ratios)} models")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps([*rows.values()], indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
