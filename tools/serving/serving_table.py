#!/usr/bin/env python3
"""Writes the tables of docs/performance-serving.md from the figures of bench_serving.py.

Usage: serving_table.py RESULTS PAGE        what is between the marks of PAGE is replaced
"""

from __future__ import annotations

import itertools
import json
import pathlib
import re
import sys
import typing

from peers import MEMORY, MODELS, SERVERS, SETTINGS

NAMES = {"carnot": "Carnot", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}
TENSORS = {"none": "messages", "system": "shared memory"}
MARK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(head: typing.List[str], rows: typing.List[typing.List[str]]) -> str:
    if not rows:
        return ""
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *rows])


def settings(results: typing.Any) -> str:
    """Requests a second at concurrency 8 for each setting; the one used is bold."""
    rows = []
    for key, found in results.get("sweep", {}).items():
        best = max(found.values())
        cells = [f"{found[s.slug]:.0f}" if found[s.slug] else "fails" for s in SETTINGS]
        model, server = key.split()
        rows.append([model, NAMES[server], *(f"**{c}**" if c == f"{best:.0f}" else c for c in cells)])
    return table(["model", "Triton with", *map(str, SETTINGS)], rows)


def disturbed(found: typing.Any) -> str:
    """A star where other programs took more than 6 % of the processors."""
    return "*" if found["others"] > 0.06 else ""


def throughput(results: typing.Any) -> str:
    rows = []
    for model, found in results.get("throughput", {}).items():
        for protocol, memory, concurrency in itertools.product(("grpc", "http"), MEMORY, (8, 32)):
            of = [found.get(f"{server} {protocol} {memory} {concurrency}") for server in SERVERS]
            if not all(of):
                continue
            rates = [f["rate"] for f in of]
            share = f"{rates[0] / max(rates[1:]):.2f}" if not any(map(disturbed, of)) else "-"
            alone = results.get("engine", {}).get(model)
            engine = f"{rates[0] / alone:.2f}" if alone and not disturbed(of[0]) else "-"
            cells = [f"{f['rate']:.1f}{disturbed(f)}" for f in of]
            rows.append([model, protocol, TENSORS[memory], str(concurrency), *cells, share, engine])
    servers = [NAMES[s] for s in SERVERS]
    return table(["model", "protocol", "tensors in", "concurrency", *servers, "of the better peer", "of the engine alone"], rows)


def tail(results: typing.Any) -> str:
    rows = []
    for key, found in sorted(results.get("tail", {}).items()):
        model, server, share = key.split()
        times = [f"{found[p]:.1f}{disturbed(found)}" for p in ("50", "99", "99.9")]
        rows.append([model, f"{share} %, {found['rate']:.0f}/s", NAMES[server], *times, str(found["count"])])
    return table(["model", "load", "Triton with", "p50 ms", "p99 ms", "p99.9 ms", "requests"], rows)


def overhead(results: typing.Any) -> str:
    found = results.get("overhead", {})
    rows = [
        [p, *(f"{found[f'{kind} {p}'] * 1000:.0f}" for kind in ("identity", "carnot"))]
        for p in ("grpc", "http")
        if f"carnot {p}" in found
    ]
    return table(["protocol", "identity backend, us", "Carnot, us"], rows)


def memory(results: typing.Any) -> str:
    found = results.get("memory", {})
    rows = []
    for model in MODELS:
        for server in SERVERS[:2]:
            sizes = [found.get(f"{model} {server} {count}") for count in (1, 4)]
            if all(sizes):
                cells = [f"{size:.0f}" for size in sizes]
                rows.append([model, NAMES[server], *cells, f"{sizes[1] / sizes[0]:.2f}"])
    return table(["model", "Triton with", "1 instance, MiB", "4 instances, MiB", "ratio"], rows)


def main() -> int:
    results = json.loads(pathlib.Path(sys.argv[1]).read_text())
    page = pathlib.Path(sys.argv[2])
    make = {f.__name__: f for f in (settings, throughput, tail, overhead, memory)}
    page.write_text(MARK.sub(lambda m: m[1] + "\n" + make[m[2]](results) + "\n" + m[3], page.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
