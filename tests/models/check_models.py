#!/usr/bin/env python3
"""Runs real models through Carnot's command line and compares every output with ONNX Runtime.

Usage: check_models.py [--carnot CLI] [--models DIR] [--given DIR] [--precision fp16|bf16|best] [NAME ...]

--models: what export_models.py wrote ($CARNOT_MODELS or ~/.cache/carnot-models); --given: a folder of models with real
weights. A model that is not there is skipped with the reason. FP32: the largest difference must be within 1e-4 of the
largest value; a float16 model's error against float64 must be no larger than ONNX Runtime's or two float16 units of the
largest output. With --precision: every output's cosine to float32 must be 0.999 or more, or for bf16, which
loses more than that in deep networks of random weights, 1 - cosine at most a quarter more than ONNX Runtime's when it
rounds the operands of the same GEMMs to bfloat16. Ends with "N passed, M failed, K skipped".
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import float64
import numpy as np
import onnx
import onnxruntime as ort

# Sizes of the named dimensions, two sets where shapes are dynamic.
SIZES = {
    "resnet50": ({"batch": 1}, {"batch": 3}),
    "mobilenet_v2": ({"batch": 1}, {"batch": 2}),
    "efficientnet_b0": ({"batch": 1}, {"batch": 2}),
    "vit_b_16": ({"batch": 1}, {"batch": 2}),
    "bert_base": ({"batch": 1, "sequence": 128}, {"batch": 2, "sequence": 37}),
    "minilm": ({"batch": 1, "sequence": 128}, {"batch": 3, "sequence": 17}),
    "unet_gn": ({"batch": 1}, {"batch": 2}),
    "gpt2_small": ({"batch": 1, "past": 128}, {"batch": 2, "past": 5}),
    "lstm": ({"sequence": 128}, {"sequence": 7}),
    "ssdlite320": ({},),
    "candy": ({"None": 1},),
    "squeezenet_fp16": ({},),
    "ultraface_rfb_320": ({},),
}


def make_inputs(model, sizes, seed=0):
    rng = np.random.default_rng(seed)
    weights = {t.name for t in model.graph.initializer}
    feeds = {}
    for i in model.graph.input:
        if i.name in weights:
            continue
        shape = [d.dim_value or sizes.get(d.dim_param, 1) for d in i.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type)
        if "mask" in i.name:
            feeds[i.name] = np.ones(shape, dtype)
        elif np.issubdtype(dtype, np.integer):
            feeds[i.name] = rng.integers(0, 1000, shape).astype(dtype)
        elif "image" in i.name.lower():
            # Pixels: bytes for the restyler, whose means are those of bytes, else 0 to 1.
            feeds[i.name] = (rng.random(shape) * (255 if i.name == "inputImage" else 1)).astype(dtype)
        else:
            feeds[i.name] = rng.standard_normal(shape).astype(dtype)
    return feeds


def run_carnot(cli, engine, feeds, outputs, folder):
    command = [cli, "run", str(engine), "--output-dir", str(folder / "out")]
    for k, (name, value) in enumerate(feeds.items()):
        np.save(folder / f"in_{k}.npy", value)
        command += ["--input", f"{name}={folder / f'in_{k}.npy'}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-400:])

    def safe(name):
        return "".join(c if c.isalnum() and c.isascii() or c in ".-" else "_" for c in name)

    return [np.load(folder / "out" / f"{safe(name)}.npy") for name in outputs]


def difference(found, wanted):
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        raise RuntimeError(f"{found.dtype}{found.shape} came out, wanted {wanted.dtype}{wanted.shape}")
    if found.size == 0:
        return 0.0
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30))


HALF_NAMES = ["minilm", "bert_base", "resnet50", "mobilenet_v2", "lstm"]


def cosine(found, wanted):
    a, b = found.astype(np.float64).ravel(), wanted.astype(np.float64).ravel()
    return float(a @ b / np.sqrt((a @ a) * (b @ b))) if np.isfinite(a).all() else -1.0


def rounded_to_bf16(x):
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def with_bf16_operands(model):
    """The model with weights and inputs of GEMMs and convolutions rounded to bfloat16."""
    half = onnx.ModelProto()
    half.CopyFrom(model)
    weights = {t.name: t for t in half.graph.initializer}
    nodes = []
    for node in half.graph.node:
        t = weights.get(node.input[1]) if node.op_type in ("Conv", "Gemm", "MatMul") else None
        if t is not None and not (node.op_type == "Conv" and t.dims[1] < 8):  # a first layer, or depthwise
            t.CopyFrom(onnx.numpy_helper.from_array(rounded_to_bf16(onnx.numpy_helper.to_array(t)), t.name))
            name = f"{node.name or len(nodes)}/bf16"
            nodes += [
                onnx.helper.make_node("Cast", [node.input[0]], [name], to=onnx.TensorProto.BFLOAT16),
                onnx.helper.make_node("Cast", [name], [f"{name}/wide"], to=onnx.TensorProto.FLOAT),
            ]
            node.input[0] = f"{name}/wide"
        nodes.append(node)
    del half.graph.node[:]
    half.graph.node.extend(nodes)
    return half


def least_cosine_of_bf16(model, feeds, wanted):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    found = ort.InferenceSession(
        with_bf16_operands(model).SerializeToString(), options, providers=["CPUExecutionProvider"]
    ).run(None, feeds)
    return min(cosine(f, w) for f, w in zip(found, wanted))


def check(cli, path, sizes, folder, fixed, precision=None):
    """Checks one engine at one set of sizes: shapes fixed at build, or dynamic without a profile."""
    model = onnx.load(str(path))
    feeds = make_inputs(model, sizes)
    shapes = ",".join(f"{k}:{'x'.join(map(str, v.shape))}" for k, v in feeds.items())
    engine = folder / "model.plan"
    command = (
        [cli, "build", str(path), f"--output={engine}"]
        + ([f"--shapes={shapes}"] if fixed else [])
        + ([f"--{precision}"] if precision else [])
    )
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-400:])
    outputs = [o.name for o in model.graph.output]
    found = run_carnot(cli, engine, feeds, outputs, folder)
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = session.run(None, feeds)
    if precision:
        worst = min(cosine(f, w) for f, w in zip(found, wanted))
        words = f"least cosine in {precision} {worst:.6f}"
        if worst >= 0.999 or precision == "fp16":
            return worst >= 0.999, words
        theirs = least_cosine_of_bf16(model, feeds, wanted)
        return 1 - worst <= 1.25 * (1 - theirs), f"{words}, ONNX Runtime with such operands {theirs:.6f}"
    if any(t.data_type == onnx.TensorProto.FLOAT16 for t in model.graph.initializer):
        truth = float64.evaluate(model, feeds)
        worst = 0.0
        for f, w, t in zip(found, wanted, truth):
            mine, theirs = np.abs(f.astype(np.float64) - t).max(), np.abs(w.astype(np.float64) - t).max()
            unit = 2.0 ** (np.floor(np.log2(max(np.abs(t).max(), 1e-30))) - 10)
            worst = max(worst, mine / max(theirs, 2 * unit))
        return worst <= 1, f"error against float64 is {worst:.3f} of what is allowed"
    worst = max(difference(f, w) for f, w in zip(found, wanted))
    return worst <= 1e-4, f"largest difference {worst:.2e}"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("names", nargs="*")
    ap.add_argument("--precision", choices=["fp16", "bf16", "best"])
    ap.add_argument("--carnot", default="build/bin/carnot")
    ap.add_argument(
        "--models",
        type=pathlib.Path,
        default=os.environ.get("CARNOT_MODELS") or pathlib.Path.home() / ".cache" / "carnot-models",
    )
    ap.add_argument(
        "--given", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[3] / "shared" / "models"
    )
    args = ap.parse_args()
    passed = failed = skipped = 0
    for name in args.names or (HALF_NAMES if args.precision else SIZES):
        path = next((p for p in (args.models / f"{name}.onnx", args.given / f"{name}.onnx") if p.is_file()), None)
        if path is None:
            print(f"SKIPPED {name}: no file {name}.onnx in {args.models} or {args.given}")
            skipped += 1
            continue
        runs = [(sizes, True) for sizes in SIZES[name]]
        if len(SIZES[name]) > 1:
            runs += [(sizes, False) for sizes in SIZES[name]]
        for sizes, fixed in runs:
            label = f"{name}:{','.join(f'{k}={v}' for k, v in sizes.items())}{'' if fixed else ' (open shapes)'}"
            with tempfile.TemporaryDirectory() as folder:
                try:
                    good, words = check(args.carnot, path, sizes, pathlib.Path(folder), fixed, args.precision)
                except Exception as e:
                    good, words = False, str(e)
            print(f"{'passed' if good else 'FAILED'} {label}: {words}", flush=True)
            passed, failed = passed + good, failed + (not good)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
