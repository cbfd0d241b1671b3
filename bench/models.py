#!/usr/bin/env python3
"""Times Carnot, ONNX Runtime and OpenVINO on the benchmark models, all in alternating rounds of one run.

Usage: models.py PEERS_SCRIPT CARNOT --models DIR --json FILE [--threads 1,2] [--rounds N] [--seconds S] [CASE ...]

PEERS_SCRIPT: peers_cpu.py, whose models, inputs and workers of ONNX Runtime and OpenVINO these are. A CASE is one of its
own: MODEL[:dim=size,...]. Runners: carnot, ort, ov; in BF16 carnot-bf16, ov-bf16; with --fp32=fast carnot-fast. Carnot
builds an engine once for each and runs it in every round. FILE gets a record a line for each case, number of threads and
runner, which models_table.py prints as tables:
  min_ms, median_ms, p90_ms, runs     over all rounds
  build_ms, load_ms, first_ms         of Carnot the command `carnot build`, the load and the first run of its engine (medians of
                                      the rounds); of the others the session, made once here, and its first run
  peak_mb, base_mb                    high-water mark of the process that runs, and its size before it loads the model
  relative_l2, cosine                 of the first output (up to 4,096 of its values) against float64 (tests/models/float64.py)
  limit_ms                            of Carnot: the sum over layers of FLOP / peak or bytes / bandwidth (`carnot inspect --peaks`)
Needs numpy, onnx, onnxruntime; without openvino its runners are left out.
"""
import argparse
import importlib.util
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "models"))
import float64  # noqa: E402
from check_models import cosine, run_carnot  # noqa: E402
from models_table import lines_of  # noqa: E402

CARNOT_FLAGS: dict = {"carnot": [], "carnot-fast": ["--fp32=fast"], "carnot-bf16": ["--bf16"]}
PAUSE_S = 0.05  # lets threads of the runner before go to sleep


def load_module(path: str):
    spec = importlib.util.spec_from_file_location("peers", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def call(*command: object) -> str:
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["ended early"])[-1])
    return done.stdout


class CarnotRunner:
    """An engine of the case, with the members of a Peer of the peers script."""

    def __init__(self, case: dict, flags: list) -> None:
        self.times: list = []
        self.starts: list = []
        self.case, self.folder = case, tempfile.TemporaryDirectory()
        self.engine = pathlib.Path(self.folder.name, "engine")
        shapes = ",".join(f"{name}:{'x'.join(map(str, shape))}" for name, (shape, _) in case["shapes"].items())
        begin = time.perf_counter()
        call(case["carnot"], "build", case["path"], "--backend=cpu", f"--shapes={shapes}", f"--threads={case['threads']}",
             f"--output={self.engine}", *flags)
        self.facts = {"build_ms": (time.perf_counter() - begin) * 1e3}

    def command(self, name: str, *more: str) -> dict:
        return json.loads(call(self.case["carnot"], name, self.engine, "--backend=cpu", f"--threads={self.case['threads']}", "--json", *more))

    def round(self, seconds: float) -> None:
        got = self.command("bench", f"--duration={seconds}", "--iterations=3", "--times")
        self.times += got["times_ms"]
        for key in ("base_mb", "peak_mb"):
            self.facts[key] = max(got[key], self.facts.get(key, 0))
        self.starts.append((got["load_ms"], got["first_ms"]))

    def finish(self, feeds: dict, output: str) -> np.ndarray:
        """Measures the limit; returns the first output."""
        for key, values in zip(("load_ms", "first_ms"), zip(*self.starts)):
            self.facts[key] = statistics.median(values)
        self.facts["limit_ms"] = self.command("inspect", "--peaks")["LimitUs"] / 1e3
        return run_carnot(self.case["carnot"], self.engine, feeds, [output], pathlib.Path(self.folder.name))[0]

    def end(self) -> None:
        self.folder.cleanup()


class Truth:
    """The case's inputs and its first output in float64, or why there is none."""

    def __init__(self, peers, path: pathlib.Path, shapes: dict) -> None:
        model = onnx.load(str(path))
        self.feeds, self.output, self.kept = peers.make_inputs(shapes), model.graph.output[0].name, peers.KEPT
        self.values = self.sample(float64.evaluate(model, self.feeds)[0])

    def sample(self, values) -> np.ndarray:
        """The values that a worker of the peers script sends."""
        values = np.asarray(values, np.float64).ravel()
        return values[:: max(1, values.size // self.kept)][: self.kept]

    def compare(self, values) -> dict:
        """|values|: a sample."""
        values = np.asarray(values, np.float64)
        if values.shape != self.values.shape:
            return {}
        return {"relative_l2": float(np.linalg.norm(values - self.values) / np.linalg.norm(self.values)), "cosine": cosine(values, self.values)}


def record_of(case: dict, runner: str, times: list, facts: dict, compared: dict) -> dict:
    times = sorted(times)
    record = {"model": case["label"], "runner": runner, "threads": case["threads"], "median_ms": statistics.median(times), "min_ms": times[0],
              "p90_ms": times[int(0.9 * (len(times) - 1))], "runs": len(times), "gflop": case["gflop"]}
    record |= {k: facts[k] for k in ("build_ms", "load_ms", "first_ms", "peak_mb", "base_mb", "limit_ms") if k in facts} | compared
    return {k: float(f"{v:.7g}") if isinstance(v, float) else v for k, v in record.items()}


def measure(peers, case: dict, runners: list, truth: Truth, args: argparse.Namespace):
    """Runs the case with all runners in turns; yields one record a runner."""
    started: dict = {}
    for runner in runners:
        try:
            flags = CARNOT_FLAGS.get(runner)
            started[runner] = peers.Peer(case | {"runner": runner}) if flags is None else CarnotRunner(case, flags)
        except RuntimeError as error:
            yield {"model": case["label"], "runner": runner, "threads": case["threads"], "error": str(error)[:200]}
    for _ in range(args.rounds):
        for peer in started.values():
            peer.round(args.seconds)
            time.sleep(PAUSE_S)
    for runner, peer in started.items():
        own = runner in CARNOT_FLAGS
        values = truth.sample(peer.finish(truth.feeds, truth.output)) if own else peer.facts["values"]
        peer.end()
        yield record_of(case, runner, peer.times, peer.facts, truth.compare(values))


def measure_label(peers, label: str, args: argparse.Namespace):
    name, _, dims = label.partition(":")
    sizes = {k: int(v) for k, v in (d.split("=") for d in dims.split(",") if d)}
    path = peers.find_model(name, args.models)
    shapes = peers.input_shapes(path, sizes)
    truth = Truth(peers, path, shapes)
    runners = ["carnot", "carnot-fast", "carnot-bf16", "ort"] + ["ov", "ov-bf16"] * (importlib.util.find_spec("openvino") is not None)
    for threads in map(int, args.threads.split(",")):
        case = {"label": label, "name": path.stem, "path": str(path), "sizes": sizes, "shapes": shapes, "threads": threads,
                "carnot": args.carnot, "gflop": round(peers.count_gflop(path, shapes), 4)}
        yield from measure(peers, case, runners, truth, args)


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("peers", metavar="PEERS_SCRIPT")
    ap.add_argument("carnot", metavar="CARNOT")
    ap.add_argument("cases", nargs="*", metavar="CASE")
    ap.add_argument("--models", type=pathlib.Path, required=True)
    ap.add_argument("--json", type=pathlib.Path, required=True)
    ap.add_argument("--threads", default="1,2")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--seconds", type=float, default=0.6, help="of runs, each round (3 runs at least)")
    args = ap.parse_intermixed_args()
    peers = load_module(args.peers)
    records = []
    with args.json.open("w") as out:
        for label in args.cases or peers.CASES:
            for record in measure_label(peers, label, args):
                records.append(record)
                out.write(json.dumps(record) + "\n")
                out.flush()
                words = record.get("error") or f"{record['min_ms']:.3f} ms, median {record['median_ms']:.3f}"
                print(f"{label}, {record['threads']} threads, {record['runner']}: {words}", file=sys.stderr, flush=True)
    print("\n".join(lines_of(records)))
    return int(any("error" in r for r in records))


if __name__ == "__main__":
    sys.exit(main())
