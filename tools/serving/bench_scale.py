#!/usr/bin/env python3
"""Times the examples of Ray and Spark with carnot.Predictor and with ONNX Runtime in its place.

Usage: bench_scale.py serve|data|spark|memory MODEL.onnx [ROWS]   with the Python of BUILD/scale, PYTHONPATH=BUILD/python

serve: MODEL takes pictures [batch, 3, 224, 224]; wrk sends them at concurrency 8 and 32 to two replicas of one thread.
data, spark: MODEL takes grey pictures [batch, 1, 28, 28]; ROWS (10,000) of them go through two workers of one thread.
Both kinds alternate, twice after a warm-up.
memory: PSS of one and of four workers that each ran one picture [1, 3, 224, 224]; workers are forked after the imports,
as Spark's daemon and servers that preload do, and spawned, where each has an interpreter of its own.
"""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import typing

import carnot
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))
os.environ["PYTHONPATH"] = f"{ROOT / 'examples'}:{ROOT / 'tools/serving'}:{pathlib.Path(carnot.__file__).parents[1]}"
os.environ["PYSPARK_PYTHON"] = sys.executable


class OrtPredictor:
    """ONNX Runtime in the forms of a call that the examples use."""

    def __init__(self, path: str, threads: int) -> None:
        self.path, self.threads, self.session = path, threads, None

    def __reduce__(self) -> typing.Any:
        return OrtPredictor, (self.path, self.threads)

    def __call__(self, batch: typing.Any) -> typing.Any:
        if self.session is None:
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = self.threads
            self.session = onnxruntime.InferenceSession(self.path, options, providers=["CPUExecutionProvider"])
            self.input, self.output = self.session.get_inputs()[0].name, self.session.get_outputs()[0].name
        rows = batch[self.input] if isinstance(batch, dict) else np.stack(batch) if isinstance(batch, list) else batch
        y = self.session.run(None, {self.input: rows})[0]
        if isinstance(batch, list):
            return [{self.output: row} for row in y]
        others = {name: value for name, value in batch.items() if name != self.input} if isinstance(batch, dict) else {}
        return {**others, self.output: y}


def build(
    model: pathlib.Path, shape: typing.Tuple[int, ...], rows: int, folder: pathlib.Path
) -> typing.Tuple[str, str]:
    """The plan for batches up to |rows|, and the name of the input."""
    import onnxruntime

    name = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"]).get_inputs()[0].name
    plan = folder / "model.plan"
    plan.write_bytes(bytes(carnot.build(str(model), shapes={name: ((1, *shape), (rows, *shape), (rows, *shape))})))
    return str(plan), name


def wrk(body: pathlib.Path, concurrency: int) -> float:
    script = body.with_suffix(".lua")
    script.write_text(f'local f = io.open("{body}", "rb"); wrk.method = "POST"; wrk.body = f:read("*a"); f:close()')
    command = ["wrk", "-t1", f"-c{concurrency}", "-d6s", "--timeout", "20s", "-s", script, "http://127.0.0.1:8000/"]
    printed = subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in printed:
        raise RuntimeError(printed)
    return float(re.search(r"Requests/sec: +([\d.]+)", printed)[1])


def serve(model: pathlib.Path, folder: pathlib.Path, rows: int) -> None:
    import ray
    import ray_serve
    from ray import serve as ray_serve_library

    shape = (3, 224, 224)
    plan, _ = build(model, shape, 8, folder)
    body = folder / "body"
    body.write_bytes(np.random.default_rng(1).random(shape, np.float32).tobytes())
    ray.init(num_cpus=4, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    for _ in range(2):
        for name, predictor in (("Carnot", carnot.Predictor(plan, 1)), ("ONNX Runtime", OrtPredictor(str(model), 1))):
            ray_serve.start(predictor, shape, 2)
            wrk(body, 8)
            print(f"Ray Serve + {name}: {wrk(body, 8):.1f}/s at 8, {wrk(body, 32):.1f}/s at 32", flush=True)
            ray_serve_library.delete("default")
    ray_serve_library.shutdown()


def write_pictures(folder: pathlib.Path, rows: int) -> str:
    from PIL import Image

    pictures = folder / "pictures"
    pictures.mkdir()
    for i, levels in enumerate(np.random.default_rng(2).integers(0, 256, (rows, 28, 28), np.uint8)):
        Image.fromarray(levels).save(pictures / f"{i:05}.png", compress_level=1)
    return str(pictures)


def report(kind: str, rows: int, run: typing.Callable[[typing.Any, str], int], plan: str, model: str) -> None:
    for counts in (False, True, True):  # the first round starts workers and warms Java up
        for name, predictor, path in (("Carnot", carnot.Predictor, plan), ("ONNX Runtime", OrtPredictor, model)):
            start = time.monotonic()
            assert run(predictor, path) == rows
            if counts:
                print(f"{kind} + {name}: {rows / (time.monotonic() - start):.0f} rows/s", flush=True)


def data(model: pathlib.Path, folder: pathlib.Path, rows: int) -> None:
    import ray
    import ray_data

    plan, name = build(model, (1, 28, 28), 256, folder)
    pictures = write_pictures(folder, rows)
    ray.init(num_cpus=4, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    report(
        "Ray Data", rows, lambda kind, path: len(ray_data.run(kind, (path, 1), name, pictures, 2).take_all()), plan,
        str(model),
    )  # fmt: skip


def spark(model: pathlib.Path, folder: pathlib.Path, rows: int) -> None:
    import spark as example
    from pyspark.sql import SparkSession

    plan, _ = build(model, (1, 28, 28), 256, folder)
    outputs = list(carnot.Predictor(plan, 1).model.outputs)
    pictures = write_pictures(folder, rows)
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.files.maxPartitionBytes", "2m").config("spark.sql.files.openCostInBytes", "1000")
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")

    def run(kind: typing.Any, path: str) -> int:
        predictor = kind(path, 1)
        return len(example.run(session, lambda: predictor, outputs, [1, 28, 28], pictures).collect())

    report("Spark local[2]", rows, run, plan, str(model))
    session.stop()


def pss(pid: int) -> float:
    """Proportional set size, MiB."""
    lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def _work(predictor: typing.Any, name: str, ready: typing.Any, done: typing.Any) -> None:
    predictor({name: np.zeros((1, 3, 224, 224), np.float32)})
    ready.release()
    done.wait()


def memory(model: pathlib.Path, folder: pathlib.Path, rows: int) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:  # a build leaves memory that forked workers would inherit
        plan, name = pool.apply(build, (model, (3, 224, 224), 1, folder))
    for kind, path in ((carnot.Predictor, plan), (OrtPredictor, str(model))):
        for start in ("fork", "spawn"):
            context = multiprocessing.get_context(start)
            found = []
            for count in (1, 4):
                ready, done = context.Semaphore(0), context.Event()
                workers = [context.Process(target=_work, args=(kind(path, 1), name, ready, done)) for _ in range(count)]
                for worker in workers:
                    worker.start()
                for _ in workers:
                    ready.acquire()
                found.append(sum(pss(worker.pid) for worker in workers))
                done.set()
                for worker in workers:
                    worker.join()
            print(f"{kind.__name__} {start}: 1 worker {found[0]:.0f} MiB, 4 workers {found[1]:.0f} MiB, {found[1] / found[0]:.2f}")


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        rows = int(sys.argv[3]) if len(sys.argv) > 3 else 10_000
        step = {"serve": serve, "data": data, "spark": spark, "memory": memory}[sys.argv[1]]
        step(pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(folder), rows)
    return 0


if __name__ == "__main__":
    import bench_scale  # workers find its class by this name

    sys.exit(bench_scale.main())
