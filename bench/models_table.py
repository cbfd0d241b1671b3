#!/usr/bin/env python3
"""Turns the records of a peers run into the table of docs/models.md.

Usage: models_table.py PEERS_SCRIPT RECORDS.json CARNOT MODELS_DIR THREADS

RECORDS: the JSON lines that the peers script wrote, one record a model and runner. The engine of each model is then
built, loaded and run once more with `carnot bench`, for load time and memory.
"""
import importlib.util
import json
import math
import pathlib
import subprocess
import sys


def own_figures(peers, carnot: str, models: pathlib.Path, label: str, threads: str) -> dict:
    """What `carnot bench` tells of one case."""
    name, _, sizes = label.partition(":")
    path = peers.find_model(name, models)
    named = {k: int(v) for k, v in (part.split("=") for part in sizes.split(",") if part)}
    shapes = ",".join(f"{i}:{'x'.join(map(str, shape))}" for i, (shape, _) in peers.input_shapes(path, named).items())
    command = [carnot, "bench", str(path), f"--shapes={shapes}", f"--threads={threads}", "--duration=0.5", "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> int:
    if len(sys.argv) != 6:
        print(__doc__, file=sys.stderr)
        return 2
    script, records_path, carnot, models, threads = sys.argv[1:]
    spec = importlib.util.spec_from_file_location("peers", script)
    peers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(peers)
    records = [json.loads(line) for line in open(records_path) if line.startswith("{")]
    print("| model | Carnot ms | ONNX Runtime ms | ratio | OpenVINO ms | GFLOP/s | build s | load ms | peak MB | weights + activations MB |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    logs = []
    for label in dict.fromkeys(r["model"] for r in records):
        ran = {r["runner"]: r for r in records if r["model"] == label and "error" not in r}
        mine, theirs, third = (ran.get(runner) for runner in ("carnot", "ort", "ov"))
        if not mine or not theirs:
            continue
        ratio = mine["median_ms"] / theirs["median_ms"]
        logs.append(math.log(ratio))
        extra = own_figures(peers, carnot, pathlib.Path(models), label, threads)
        rate = mine["gflop"] / mine["median_ms"] * 1e3
        size = (extra.get("engine_bytes", 0) + extra.get("activation_bytes", 0)) / 1e6
        print(f"| {label} | {mine['median_ms']:.2f} | {theirs['median_ms']:.2f} | {ratio:.2f} | {f"{third['median_ms']:.2f}" if third else "-"} | {rate:.0f} | "
              f"{extra.get('build_ms', 0) / 1e3:.2f} | {extra.get('load_ms', 0):.2f} | {extra.get('peak_rss_mb', 0):.0f} | {size:.0f} |")
    print(f"\nGeometric mean of the ratios over {len(logs)} models: {math.exp(sum(logs) / len(logs)):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
