#!/usr/bin/env python3
"""Turns the records of a peers run into the table of docs/models.md.

Usage: models_table.py RECORDS.json CARNOT_RECORDS.json

RECORDS: the JSON lines that the peers script wrote (one record a model and runner, Carnot among them).
CARNOT_RECORDS: the JSON lines of `carnot bench … --json` for the same models, for build, load and memory.
"""
import json
import math
import sys


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    records = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")]
    own = {}
    for line in open(sys.argv[2]):
        if line.startswith("{"):
            record = json.loads(line)
            own[record["label"]] = record
    print("| model | Carnot ms | ONNX Runtime ms | ratio | GFLOP/s | build s | load ms | peak MB | weights + activations MB |")
    print("|---|---|---|---|---|---|---|---|---|")
    logs = []
    for label in dict.fromkeys(r["model"] for r in records):
        mine = next((r for r in records if r["model"] == label and r["runner"] == "carnot" and "error" not in r), None)
        theirs = next((r for r in records if r["model"] == label and r["runner"] == "ort" and "error" not in r), None)
        if not mine or not theirs:
            continue
        ratio = mine["median_ms"] / theirs["median_ms"]
        logs.append(math.log(ratio))
        extra = own.get(label, {})
        rate = mine["gflop"] / mine["median_ms"] * 1e3
        size = (extra.get("engine_bytes", 0) + extra.get("activation_bytes", 0)) / 1e6
        print(f"| {label} | {mine['median_ms']:.2f} | {theirs['median_ms']:.2f} | {ratio:.2f} | {rate:.0f} | "
              f"{extra.get('build_ms', 0) / 1e3:.2f} | {extra.get('load_ms', 0):.2f} | {extra.get('peak_rss_mb', 0):.0f} | {size:.0f} |")
    print(f"\nGeometric mean of the ratios over {len(logs)} models: {math.exp(sum(logs) / len(logs)):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
