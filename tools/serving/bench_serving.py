#!/usr/bin/env python3
"""Times Triton with Carnot beside Triton with ONNX Runtime and with OpenVINO.

Usage: bench_serving.py STEP [--model NAME] …        steps: sweep, throughput, tail, overhead, memory

Each step writes its figures to BUILD/bench-serving/results.json; serving_table.py makes the page of them. Steps are
apart so that none takes more than some minutes; sweep comes first. All servers take their settings from the same sweep.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import os
import pathlib
import subprocess
import sys
import time
import typing

from peers import MEMORY, MODELS, SERVERS, SETTINGS, Model, Setting, build_plan, write, write_data
from triton_server import TritonServer


class Quiet:
    """Sees what other programs take of the processors while one measurement runs."""

    MOST = 0.06  # of all processors
    TICKS = os.sysconf("SC_CLK_TCK")

    def __init__(self, server_pid: int) -> None:
        self.pid = server_pid
        self.start, self.time = self._foreign(), time.monotonic()

    def _foreign(self) -> float:
        """Seconds of the processors that neither the server nor this program and its children took."""
        fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        busy = sum(int(fields[i]) for i in (0, 1, 2, 5, 6, 7)) / self.TICKS
        server = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        own = os.times()
        return busy - (int(server[11]) + int(server[12])) / self.TICKS - sum(own[:4])

    def share(self) -> float:
        elapsed = time.monotonic() - self.time
        return max(0.0, (self._foreign() - self.start) / elapsed / (os.cpu_count() or 1))


class Bench:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.work = options.build / "bench-serving"
        self.repository = self.work / "repository"
        self.repository.mkdir(parents=True, exist_ok=True)
        self.file = self.work / "results.json"
        self.results = json.loads(self.file.read_text()) if self.file.exists() else {}
        self.server: typing.Optional[TritonServer] = None

    def save(self, step: str, key: str, value: typing.Any) -> None:
        self.results.setdefault(step, {})[key] = value
        self.file.write_text(json.dumps(self.results, indent=1, sort_keys=True))

    def source(self, server: str, model: Model, setting: Setting) -> pathlib.Path:
        if server != "carnot":
            return self.options.models / f"{model.name}.onnx"
        plan = self.work / f"{model.name}_{setting.threads}.plan"
        if not plan.exists():
            build_plan(self.options.build / "bin/carnot", self.options.models, model, setting.threads, plan)
        return plan

    def start(self, *names: str) -> TritonServer:
        flags = ["--model-control-mode=explicit", *(f"--load-model={name}" for name in names)]
        return TritonServer(
            self.options.triton, self.repository, self.options.backends, self.work / "log", *flags, timeout_s=120,
            prefix=_pinned(self.options.server_processors),
        )  # fmt: skip

    def control(self, server: TritonServer, name: str, what: str) -> None:
        server.get(f"v2/repository/models/{name}/{what}", b"{}")

    def add(self, server: str, model: Model, setting: Setting) -> str:
        return write(self.repository, server, model, setting, self.source(server, model, setting))

    def perf(self, server: TritonServer, *arguments: typing.Any, **named: typing.Any) -> typing.Dict[str, float]:
        """A measurement on an otherwise idle machine: repeated where other programs took more than a little."""
        tries = []
        for _ in range(2):
            quiet = Quiet(server.process.pid)
            try:
                tries.append(self.perf_once(server, *arguments, **named))
            except RuntimeError as error:
                print(f"  {str(error)[:700]}", flush=True)
                continue
            tries[-1]["others"] = quiet.share()
            if tries[-1]["others"] <= Quiet.MOST:
                break
            print(f"  others took {tries[-1]['others']:.0%} of the processors; measured again", flush=True)
        if not tries:
            raise RuntimeError("perf_analyzer found no stable figure in two calls")
        return min(tries, key=lambda got: got["others"])

    def perf_once(
        self, server: TritonServer, name: str, model: typing.Optional[Model], protocol: str, load: typing.List[str],
        window_ms: int = 1500, export: typing.Optional[pathlib.Path] = None, memory: str = "none",
    ) -> typing.Dict[str, float]:
        """One call of perf_analyzer: three windows after one another; requests a second, percentiles in ms. |memory|:
        system, where client and server share the memory of tensors, or none, where messages hold them."""
        url = server.grpc if protocol == "grpc" else server.http
        report = self.work / "report.csv"
        report.unlink(missing_ok=True)
        command = [*_pinned(self.options.load_processors), self.options.perf_analyzer, "-m", name, "-u", url, "-i", protocol, "--shared-memory", memory]
        command += ["-p", str(window_ms), "-r", "6", "-s", "999", "-f", report, *load]
        if model is not None:
            data = self.work / f"{model.name}.data"
            write_data(data, model)
            command += ["--input-data", data]
            if memory != "none":
                command += ["--output-shared-memory-size", max(4 * math.prod(d) for _, d in model.outputs.values())]
            for tensor, (_, dims) in model.inputs.items():
                command += ["--shape", f"{tensor}:{','.join(map(str, dims))}"]
        if export is not None:
            export.unlink(missing_ok=True)  # which the program would not overwrite
            command += ["--profile-export-file", export]
        environment = {**os.environ, "LD_LIBRARY_PATH": str(self.options.perf_libraries or "")}
        self.command = " ".join(map(str, command))
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment, timeout=200)
        if not report.exists():
            raise RuntimeError(f"{self.command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        row = next(csv.DictReader(report.open()))
        return {
            "rate": float(row["Inferences/Second"]), "p50": float(row["p50 latency"]) / 1000,
            "p99": float(row["p99 latency"]) / 1000,
        }  # fmt: skip

    # ---- steps ----

    def sweep(self, model: Model) -> None:
        """Every setting of every server at concurrency 8 over gRPC; the fastest is kept."""
        with self.start() as server:
            for peer in SERVERS:
                found = {}
                for setting in SETTINGS:
                    name = self.add(peer, model, setting)
                    self.control(server, name, "load")
                    try:
                        got = self.perf(server, name, model, "grpc", ["--concurrency-range", "8:8"])
                        found[setting.slug] = got["rate"]
                    except RuntimeError as error:  # a backend that fails with this setting
                        print(str(error)[:700], flush=True)
                        found[setting.slug] = 0
                    self.control(server, name, "unload")
                    print(f"{model.name} {peer} {setting}: {found[setting.slug]:.1f}/s", flush=True)
                self.save("sweep", f"{model.name} {peer}", found)

    def best(self, model: Model, peer: str) -> Setting:
        found = self.results["sweep"][f"{model.name} {peer}"]
        return max(SETTINGS, key=lambda setting: found[setting.slug])

    def patient(self, model: Model, peer: str) -> Setting:
        """The fastest setting that does not gather requests, where it serves within 10 % of the fastest: in a queue each
        request waits for its own run alone. Else the fastest."""
        found = self.results["sweep"][f"{model.name} {peer}"]
        best = self.best(model, peer)
        single = max((s for s in SETTINGS if not s.batching), key=lambda setting: found[setting.slug])
        return single if found[single.slug] >= 0.9 * found[best.slug] else best

    def throughput(self, model: Model) -> None:
        """Each server at its best setting, alternating, the better of two rounds."""
        names = {peer: self.add(peer, model, self.best(model, peer)) for peer in SERVERS}
        best: typing.Dict[str, typing.Dict[str, float]] = {}
        with self.start(*names.values()) as server:
            for _ in range(2):
                for memory, protocol, concurrency in itertools.product(MEMORY, ("grpc", "http"), (8, 32)):
                    for peer, name in names.items():
                        load = ["--concurrency-range", f"{concurrency}:{concurrency}"]
                        got = self.perf(server, name, model, protocol, load, memory=memory)
                        key = f"{peer} {protocol} {memory} {concurrency}"
                        print(f"{model.name} {key}: {got['rate']:.1f}/s p99 {got['p99']:.1f} ms"
                              f" others {got['others']:.1%}", flush=True)
                        is_quiet = got["others"] <= Quiet.MOST
                        if key not in best or (is_quiet and got["rate"] > best[key]["rate"]):
                            best[key] = got
                            self.save("throughput", model.name, best)
        self.save("command", "throughput", self.command)
        self.engine(model)
        self.front(model)

    def engine(self, model: Model) -> None:
        """What the engine's own times say: rows a second of all instances, without a server."""
        setting = self.best(model, "carnot")
        plan = self.source("carnot", model, setting)
        shapes = ",".join(f"{name}:1x{'x'.join(map(str, dims))}" for name, (_, dims) in model.inputs.items())
        command = [
            *_pinned(self.options.server_processors), self.options.build / "bin/carnot", "bench", plan, f"--shapes={shapes}", f"--threads={setting.threads}",
            "--duration=4", "--json",
        ]  # fmt: skip
        runs = [
            subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
            for _ in range(setting.instances)
        ]
        medians = [json.loads(run.communicate()[0])["median_ms"] for run in runs]
        self.save("engine", model.name, sum(1000 / median for median in medians))

    def front(self, model: Model) -> None:
        """Requests a second of a plan that takes the model's inputs and reads one number of each: what Triton, its
        protocols and the backend leave of the processors, whatever computes."""
        import onnx
        from onnx import helper

        setting = self.best(model, "carnot")
        nodes, inputs, outputs = [], [], []
        kinds = {"FP32": onnx.TensorProto.FLOAT, "INT64": onnx.TensorProto.INT64}
        axes = max(len(dims) for _, dims in model.inputs.values())
        slices = {n: helper.make_tensor(n, 7, [axes], [v] * axes) for n, v in (("zero", 0), ("one", 1))}
        slices["axes"] = helper.make_tensor("axes", 7, [axes], range(1, axes + 1))
        small: typing.Dict[str, typing.Tuple[str, typing.List[int]]] = {}
        for name, (kind, dims) in model.inputs.items():
            nodes.append(helper.make_node("Slice", [name, "zero", "one", "axes"], [f"{name}_first"]))
            inputs.append(helper.make_tensor_value_info(name, kinds[kind], ["n", *dims]))
            outputs.append(helper.make_tensor_value_info(f"{name}_first", kinds[kind], ["n", *[1] * axes]))
            small[f"{name}_first"] = (kind, [1] * axes)
        graph = helper.make_graph(nodes, "first", inputs, outputs, list(slices.values()))
        onnx_file = self.work / f"{model.name}_first.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), onnx_file)
        first = Model(f"{model.name}_first", model.inputs, small)
        plan = self.work / f"{first.name}.plan"
        build_plan(self.options.build / "bin/carnot", self.work, first, setting.threads, plan)
        name = write(self.repository, "carnot", first, setting, plan)
        best: typing.Dict[str, float] = {}
        with self.start(name) as server:
            for _ in range(2):
                for memory, protocol in itertools.product(MEMORY, ("grpc", "http")):
                    got = self.perf(server, name, first, protocol, ["--concurrency-range", "8:8"], memory=memory)
                    key = f"{protocol} {memory}"
                    best[key] = max(best.get(key, 0), got["rate"])
                    print(f"{first.name} {key}: {got['rate']:.1f}/s", flush=True)
        self.save("front", model.name, best)

    def tail(self, model: Model, shares: typing.List[int], seconds: float) -> None:
        """Poisson arrivals at shares of what the better peer serves at concurrency 8 over gRPC."""
        found = self.results["throughput"][model.name]
        capacity = max(found[f"{peer} grpc none 8"]["rate"] for peer in SERVERS if peer != "carnot")
        names = {peer: self.add(peer, model, self.patient(model, peer)) for peer in SERVERS}
        with self.start(*names.values()) as server:
            for share in shares:
                rate = capacity * share / 100
                for peer, name in names.items():
                    export = self.work / "requests.json"
                    load = ["--request-rate-range", f"{rate:.1f}:{rate:.1f}", "--request-distribution", "poisson"]
                    load += ["--max-threads", "8", "--async"]
                    window = int(seconds * 1000 / 3)
                    got = self.perf(server, name, model, "grpc", load, window_ms=window, export=export)
                    times = sorted(_latencies(export))
                    value: typing.Dict[str, float] = {str(p): _percentile(times, p) for p in (50, 99, 99.9)}
                    value.update(count=len(times), rate=rate, others=got["others"])
                    print(f"{model.name} {peer} {share} %: {value}", flush=True)
                    self.save("tail", f"{model.name} {peer} {share}", value)
        self.save("command", "tail", self.command)

    def overhead(self, model: Model) -> None:
        """Latency at concurrency 1 of a plan that copies its input, beside Triton's identity backend."""
        names = self.identity_models()
        times: typing.Dict[str, typing.List[float]] = {}
        with self.start(*names.values()) as server:
            for _ in range(4):
                for protocol in ("grpc", "http"):
                    for kind, name in names.items():
                        got = self.perf(server, name, None, protocol, ["--concurrency-range", "1:1"], window_ms=1000)
                        times.setdefault(f"{kind} {protocol}", []).append(got["p50"])
        for key, values in times.items():
            print(f"{key}: p50 {min(values) * 1000:.0f} us of {[round(v * 1000) for v in values]}", flush=True)
            self.save("overhead", key, min(values))

    def identity_models(self) -> typing.Dict[str, str]:
        import onnx
        from onnx import helper

        value = {n: helper.make_tensor_value_info(n, 1, ["n", 64]) for n in ("INPUT0", "OUTPUT0")}
        graph = helper.make_graph(
            [helper.make_node("Identity", ["INPUT0"], ["OUTPUT0"])], "g", [value["INPUT0"]], [value["OUTPUT0"]]
        )
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), self.work / "i.onnx")
        for name in ("identity_carnot", "identity_triton"):
            (self.repository / name / "1").mkdir(parents=True, exist_ok=True)
        carnot, triton = self.repository / "identity_carnot", self.repository / "identity_triton"
        shapes = [f"--{k}Shapes=INPUT0:{n}x64" for k, n in (("min", 1), ("opt", 1), ("max", 8))]
        command = [self.options.build / "bin/carnot", "build", self.work / "i.onnx", "--quiet", *shapes]
        subprocess.run([*command, f"--output={carnot / '1/model.plan'}"], check=True)
        group = "instance_group [{kind: KIND_CPU count: 1}]\n"
        (carnot / "config.pbtxt").write_text('backend: "carnot"\nmax_batch_size: 1\n' + group)
        (triton / "config.pbtxt").write_text(
            'backend: "identity"\nmax_batch_size: 1\ninput [{name: "INPUT0" data_type: TYPE_FP32 dims: [64]}]\n'
            'output [{name: "OUTPUT0" data_type: TYPE_FP32 dims: [64]}]\n' + group
        )
        return {"carnot": "identity_carnot", "identity": "identity_triton"}

    def memory(self, model: Model) -> None:
        """PSS of the server with one and with four instances, after each has served."""
        for peer in SERVERS[:2]:
            for count in (1, 4):
                name = self.add(peer, model, Setting(count, 1, False))
                with self.start(name) as server:
                    self.perf(server, name, model, "grpc", ["--concurrency-range", "8:8"])
                    text = pathlib.Path(f"/proc/{server.process.pid}/smaps_rollup").read_text()
                    pss = next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:"))
                print(f"{model.name} {peer} {count} instances: {pss / 1024:.0f} MiB", flush=True)
                self.save("memory", f"{model.name} {peer} {count}", pss / 1024)


def _pinned(processors: str) -> typing.List[str]:
    """What starts a program on these processors alone; nothing where the text is empty."""
    return ["taskset", "--cpu-list", processors] if processors else []


def _latencies(path: pathlib.Path) -> typing.List[float]:
    """Milliseconds of each request of an exported profile."""
    requests = json.loads(path.read_text())["experiments"][0]["requests"]
    return [(r["response_timestamps"][-1] - r["timestamp"]) / 1e6 for r in requests if r["response_timestamps"]]


def _percentile(times: typing.List[float], percent: float) -> float:
    return times[min(len(times) - 1, int(len(times) * percent / 100))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["sweep", "throughput", "tail", "overhead", "memory"])
    parser.add_argument("--model", default="mobilenet_v2", choices=list(MODELS))
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--models", type=pathlib.Path, required=True, help="where export_models.py put the ONNX files")
    parser.add_argument("--backends", type=pathlib.Path, required=True, help="carnot, onnxruntime, openvino, identity")
    parser.add_argument("--perf-analyzer", type=pathlib.Path, required=True)
    parser.add_argument("--perf-libraries", type=pathlib.Path, help="where perf_analyzer finds libcudart")
    parser.add_argument("--server-processors", default="", help="0-1, say: those of the server and of the engine alone")
    parser.add_argument("--load-processors", default="", help="2-9, say: those of the load")
    parser.add_argument("--shares", type=int, nargs="+", default=[50, 70, 90], help="percent of capacity, of tail")
    parser.add_argument("--seconds", type=float, default=9, help="of each measurement of tail")
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.triton = options.build / "triton"
    bench, model = Bench(options), MODELS[options.model]
    start = time.monotonic()
    if options.step == "tail":
        bench.tail(model, options.shares, options.seconds)
    else:
        getattr(bench, options.step)(model)
    print(f"{options.step} took {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
