#!/usr/bin/env python3
"""What open dimensions cost: an engine built without shapes beside engines built for the sizes that it runs, in turns.

Usage: open_dimensions.py CARNOT --models DIR [--threads N] [--rounds N] [--seconds S] [--flags=--bf16,..] [CASE ...]

A CASE is MODEL:dim=size+size+..,dim=size,...: the sizes that the model's named dimensions run at, one after the other for
those of several; `stack:rows=1+128` is 44 MatMuls of 4096x4096 with Relu (2.9 GB, made in a temporary folder). Prints a
row a size: least times in ms of both engines and their ratio. Needs numpy and onnx.
"""
import argparse
import itertools
import json
import pathlib
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper

CASES = """bert_base:batch=1,sequence=8+32+128 minilm:batch=1+8,sequence=64 resnet50:batch=1+8+32 mobilenet_v2:batch=1+8+32+128
gpt2_small:batch=1+8+32,past=128 stack:rows=1+8+32+128""".split()
LAYERS, WIDTH = 44, 4096


def make_stack(folder: pathlib.Path) -> pathlib.Path:
    """x [rows, 4096] through MatMuls and Relus; the weights are in a file beside the model."""
    rng, nodes, weights = np.random.default_rng(0), [], []
    with open(folder / "stack.bin", "wb") as data:
        for i in range(LAYERS):
            values = (rng.standard_normal((WIDTH, WIDTH), np.float32) * (2 / WIDTH) ** 0.5).astype(np.float32)
            weight = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[WIDTH, WIDTH], data_location=TensorProto.EXTERNAL)
            for key, value in (("location", "stack.bin"), ("offset", data.tell()), ("length", values.nbytes)):
                weight.external_data.add(key=key, value=str(value))
            data.write(values.tobytes())
            weights.append(weight)
            nodes += [helper.make_node("MatMul", [f"x{i}", f"w{i}"], [f"h{i}"]), helper.make_node("Relu", [f"h{i}"], [f"x{i + 1}"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", WIDTH]) for name in ("x0", f"x{LAYERS}")]
    graph = helper.make_graph(nodes, "stack", ends[:1], ends[1:], weights)
    path = folder / "stack.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10).SerializeToString())
    return path


def shapes_of(path: pathlib.Path, sizes: dict) -> str:
    """The text of --shapes."""
    graph, texts = onnx.load(str(path), load_external_data=False).graph, []
    weights = {w.name for w in graph.initializer}
    for i in graph.input:
        if i.name in weights:
            continue
        dims = [d.dim_value or sizes.get(d.dim_param) or size_of_sum(d.dim_param, sizes) for d in i.type.tensor_type.shape.dim]
        texts.append(f"{i.name}:{'x'.join(map(str, dims))}")
    return ",".join(texts)


def size_of_sum(name: str, sizes: dict) -> int:
    """Of a dimension whose name is a sum of others: "past + 1"."""
    try:
        return sum(sizes[part] if part in sizes else int(part) for part in name.replace(" ", "").split("+"))
    except ValueError:
        raise SystemExit(f"give a size to the dimension {name!r}") from None


def call(*command: object) -> str:
    return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True).stdout


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("carnot")
    ap.add_argument("--models", type=pathlib.Path, required=True)
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--seconds", type=float, default=0.4)
    ap.add_argument("--flags", default="", help="of carnot build, with commas between")
    ap.add_argument("cases", nargs="*", metavar="CASE", default=CASES)
    args = ap.parse_intermixed_args()
    common = ["--backend=cpu", f"--threads={args.threads}"]
    build = [args.carnot, "build", *common, *filter(None, args.flags.split(","))]
    print("| model | sizes | open ms | fixed ms | open / fixed |\n|---|---|---|---|---|")
    for case in args.cases:
        name, _, texts = case.partition(":")
        choices = {k: [int(s) for s in v.split("+")] for k, v in (t.split("=") for t in texts.split(","))}
        with tempfile.TemporaryDirectory() as folder:
            path = make_stack(pathlib.Path(folder)) if name == "stack" else args.models / f"{name}.onnx"
            opened, fixed = pathlib.Path(folder, "open"), pathlib.Path(folder, "fixed")
            call(*build, path, f"--output={opened}")
            for sizes in (dict(zip(choices, c)) for c in itertools.product(*choices.values())):
                shapes = f"--shapes={shapes_of(path, sizes)}"
                call(*build, path, shapes, f"--output={fixed}")
                least: dict = {opened: [], fixed: []}
                for _ in range(args.rounds):
                    for engine, times in least.items():
                        done = call(args.carnot, "bench", engine, *common, shapes, "--json", f"--duration={args.seconds}", "--iterations=3")
                        times.append(json.loads(done.splitlines()[-1])["min_ms"])
                a, b = min(least[opened]), min(least[fixed])
                told = ", ".join(f"{k} {v}" for k, v in sizes.items())
                print(f"| {name} | {told} | {a:.4g} | {b:.4g} | {a / b:.3f} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
