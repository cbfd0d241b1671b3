#!/usr/bin/env python3
"""ResNet-50 on this machine: built, loaded and timed by Carnot beside ONNX Runtime, and its costliest layers.

The network is light_resnet50.onnx of the onnx package; its weights, which that file leaves out, are made up here. The
two runtimes take turns, so that a slow spell of the machine falls on both.

Usage: compare_resnet50.py CARNOT FOLDER
"""
import json
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

ROUNDS = 3


def with_weights(output: pathlib.Path) -> None:
    """Replaces the constants that stand for weights by random ones of the usual size."""
    source = pathlib.Path(onnx.__file__).parent / "backend/test/data/light/light_resnet50.onnx"
    model = onnx.load(source)
    rng = np.random.default_rng(0)
    shapes = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    norms = {name: k for node in model.graph.node if node.op_type == "BatchNormalization" for k, name in enumerate(node.input)}
    kept = []
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        shape = tuple(int(d) for d in shapes[node.input[0]])
        values = rng.standard_normal(shape, dtype=np.float32) * np.float32(np.sqrt(1 / np.prod(shape[1:])) if len(shape) > 1 else 0.1)
        if norms.get(node.output[0]) == 4:  # a variance
            values = 1 + np.abs(values)
        if norms.get(node.output[0]) == 1:  # a scale
            values = 0.7 + values
        model.graph.initializer.append(numpy_helper.from_array(values, node.output[0]))
    del model.graph.node[:]
    model.graph.node.extend(kept)
    onnx.save(model, output)


def carnot_json(*arguments: object) -> dict:
    return json.loads(subprocess.run([str(a) for a in arguments], check=True, stdout=subprocess.PIPE).stdout)


def ort_median(session: ort.InferenceSession, feeds: dict) -> list[float]:
    session.run(None, feeds)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        session.run(None, feeds)
        times.append((time.perf_counter() - start) * 1e3)
    return times


def short(name: str) -> str:
    return name if len(name) <= 48 else name[:45] + "..."


def print_layers(carnot: str, plan: pathlib.Path) -> None:
    facts = carnot_json(carnot, "inspect", plan, "--peaks", "--json")
    print(f"\nThe five costliest of {len(facts['Layers'])} layers; all together {100 * facts['LimitUs'] / facts['MeasuredUs']:.0f} % of what this machine allows:")
    print(f"{'ms':>7} {'% of limit':>10}  layer, tactic, and why the others lost")
    for layer in sorted(facts["Layers"], key=lambda one: -one.get("MeasuredUs", 0))[:5]:
        print(f"{layer['MeasuredUs'] / 1e3:7.3f} {100 * layer['Efficiency']:10.0f}  {short(layer['Name'])}: {layer['TacticName']}")
        reasons = [r for r in layer["Rejected"].split("; ") if r]
        timed = [r for r in reasons if ": took " in r]  # those that could have run; else why none other could
        for reason in timed or reasons[:1]:
            print(f"{'':20}{reason}")


def main() -> int:
    carnot, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    model, plan = folder / "resnet50.onnx", folder / "resnet50.plan"
    if not model.exists():
        with_weights(model)
    start = time.perf_counter()
    subprocess.run([carnot, "build", model, "--output", plan, "--timingCacheFile", folder / "timing.cache"], check=True, stdout=subprocess.DEVNULL)
    build_s = time.perf_counter() - start
    start = time.perf_counter()
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    ort_load_ms = (time.perf_counter() - start) * 1e3
    x = np.random.default_rng(0).standard_normal((1, 3, 224, 224), dtype=np.float32)
    feeds = {session.get_inputs()[0].name: x}
    ours, theirs, load_ms = [], [], []
    for _ in range(ROUNDS):
        facts = carnot_json(carnot, "bench", plan, "--json", "--times", "--duration=0.4")
        ours += facts["times_ms"]
        load_ms.append(facts["load_ms"])
        theirs += ort_median(session, feeds)
    print(f"{'':14} {'prepare':>10} {'load':>10} {'best run':>12} {'median run':>12}")
    print(f"{'Carnot':14} {build_s:8.2f} s {statistics.median(load_ms):7.2f} ms {min(ours):9.2f} ms {statistics.median(ours):9.2f} ms")
    print(f"{'ONNX Runtime':14} {'-':>10} {ort_load_ms:7.2f} ms {min(theirs):9.2f} ms {statistics.median(theirs):9.2f} ms")
    np.save(folder / "x.npy", x)
    for value, output in zip(session.run(None, feeds), session.get_outputs()):
        (folder / "expected").mkdir(exist_ok=True)
        np.save(folder / "expected" / ("".join(c if c.isalnum() or c in ".-" else "_" for c in output.name) + ".npy"), value)
    subprocess.run([carnot, "compare", plan, folder / "expected", "--input", folder / "x.npy", "--rtol=1e-3", "--atol=1e-5"], check=True)
    spread = session.run(None, feeds)[0]
    assert np.isfinite(spread).all() and np.ptp(spread) > 0, "the comparison above would say nothing"
    print_layers(carnot, plan)
    return 0


if __name__ == "__main__":
    sys.exit(main())
