#!/usr/bin/env python3
"""Carnot in float16 on a GPU beside PyTorch on the networks of bench/zoo_networks.py, one at a time.

Usage: zoo.py CARNOT [--no-gpu] [--only NAME,..] [--exporters dynamo,script] [--peers graph,compile] [--batch N]
              [--seconds S] [--jobs N] [--models FOLDER] [--json FILE] [--profiles FOLDER]

Both of PyTorch's exporters write each network to ONNX (kept in FOLDER). Of each: milliseconds of Carnot and of PyTorch
in float16 (a CUDA graph, torch.compile with reduce-overhead), the ratio of the better to Carnot, steps on the host,
build seconds, milliseconds from loading to the first result, and relative L2 error to float32. Networks are exported
and compiled by PyTorch N at a time; what is timed runs alone. FILE keeps the records, one a line: networks that it
holds are not measured again, so that a run that --seconds ended is continued by the next.

--no-gpu builds for cuda:sm_90 and lists the steps on the host and the tactics; nothing is run.
"""

import argparse
import collections
import contextlib
import json
import math
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import warnings

TARGET = "cuda:sm_90"
TIMED_S = 0.3


def export(module, inputs, path: pathlib.Path, exporter: str) -> str:
    """Writes the network to |path|; why that failed, or an empty text."""
    import torch

    names = [f"x{i}" for i in range(len(inputs))]
    if path.exists():
        return ""
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            temporary = path.with_suffix(".part")
            settings = dict(dynamo=True, verbose=False) if exporter == "dynamo" else dict(dynamo=False)
            torch.onnx.export(
                module, inputs, str(temporary), input_names=names, output_names=["y"], opset_version=18,
                external_data=False, **settings
            )  # fmt: skip
            temporary.rename(path)
        return ""
    except Exception as error:
        return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]


def median_ms(call, seconds: float) -> float:
    import torch

    for _ in range(10):
        call()
    torch.cuda.synchronize()
    times, end = [], time.monotonic() + seconds
    while time.monotonic() < end or len(times) < 20:
        begin, done = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        done.record()
        done.synchronize()
        times.append(begin.elapsed_time(done))
    return sorted(times)[len(times) // 2]


def graphed(module, inputs):
    import torch

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            module(*inputs)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        module(*inputs)
    return graph.replay


def prepare_peers(module, inputs, peers: list, folder: pathlib.Path) -> tuple[dict, dict]:
    """Calls by mode, and failures by mode. Writes inputs and the float32 result to |folder|."""
    import numpy
    import torch

    torch.backends.cudnn.benchmark = True
    module, inputs = module.cuda(), tuple(x.cuda() for x in inputs)
    wanted = module(*inputs).float().cpu().numpy()
    for i, x in enumerate(inputs):
        numpy.save(folder / f"x{i}.npy", x.cpu().numpy())
    numpy.save(folder / "wanted.npy", wanted)
    module = module.half()
    inputs = tuple(x.half() if x.is_floating_point() else x for x in inputs)
    if any(isinstance(layer, torch.nn.Conv2d) for layer in module.modules()) and inputs[0].dim() == 4:
        module = module.to(memory_format=torch.channels_last)
        inputs = tuple(x.to(memory_format=torch.channels_last) if x.dim() == 4 else x for x in inputs)
    calls, failed = {}, {}
    for peer in peers:
        try:
            if peer == "graph":
                calls[peer] = graphed(module, inputs)
            else:
                compiled = torch.compile(module, mode="reduce-overhead")
                calls[peer] = lambda compiled=compiled: compiled(*inputs)
            calls[peer]()
        except Exception as error:
            calls.pop(peer, None)
            failed[peer] = str(error).strip()[:160]
    return calls, failed


def work(name: str, args, folder: str, pipe) -> None:
    """In a process of its own: prepares one network, then times its peers when it is told to."""
    os.setsid()  # it is paused with what it starts
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # as many networks are compiled at a time as there are processors
    try:
        import torch
        from zoo_networks import network

        torch.set_num_threads(1)
        if args.models:
            pathlib.Path(args.models).mkdir(parents=True, exist_ok=True)
        paths = {e: pathlib.Path(args.models or folder) / f"{name}-{e}-{args.batch}.onnx" for e in args.exporters}
        done = {"failed": {}, "paths": {e: str(path) for e, path in paths.items()}}
        if args.no_gpu and all(path.exists() for path in paths.values()):
            return pipe.send(done)
        module, inputs = network(name, args.batch)
        done["failed"] = {e: why for e, path in paths.items() if (why := export(module, inputs, path, e))}
        with torch.inference_mode():
            calls, failed = ({}, {}) if args.no_gpu else prepare_peers(module, inputs, args.peers, pathlib.Path(folder))
            done["failed"] |= failed
            pipe.send(done)
            while calls and pipe.recv() == "time":
                pipe.send({peer: median_ms(call, TIMED_S) for peer, call in calls.items()})
    except Exception as error:
        pipe.send({"error": f"{type(error).__name__}: {str(error)[:300]}"})


def carnot(args, *words: object) -> subprocess.CompletedProcess:
    return subprocess.run([args.carnot, *map(str, words)], capture_output=True, text=True, timeout=args.limit)


def is_host_step(layer: dict) -> bool:
    """Whether a step computes numbers on the host. Copies, views, and lists that decide shapes are not meant."""
    tactic = layer["TacticName"]
    sizes = all("int64" in v["Format/Datatype"] for v in layer["Outputs"])
    return not tactic.startswith("cuda_") and tactic != "view" and not sizes


def inspect(args, path: pathlib.Path) -> dict:
    """Steps on the host, lists of sizes computed there while running, and tactics by count."""
    done = carnot(args, "inspect", path, *([] if path.suffix == ".plan" else [f"--backend={TARGET}", "--fp16"]), "--json")
    if done.returncode:
        return {"error": done.stderr.strip()[-300:]}
    layers = json.loads(done.stdout)["Layers"]
    steps = [layer for layer in layers if not layer["TacticName"].startswith("cuda_") and layer["TacticName"] != "view"]
    host = [layer for layer in steps if is_host_step(layer)]
    return {
        "host": len(host),
        "host_steps": [f"{layer['TacticName']} {'+'.join(o['Operator'] for o in layer['Operators'])}" for layer in host],
        "size_steps": len(steps) - len(host),
        "steps": len(layers),
        "tactics": dict(collections.Counter(layer["TacticName"] for layer in layers).most_common()),
    }


def first_run(args, plan: pathlib.Path) -> dict:
    """Milliseconds from a ready CUDA context to the first result, in a process that loads nothing else."""
    library = pathlib.Path(args.carnot).resolve().parents[1] / "lib" / "libcarnot_runtime.so"
    command = [sys.executable, str(pathlib.Path(__file__).with_name("first_run.py")), str(library), str(plan)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=args.limit)
    return {"load_ms": json.loads(done.stdout)["sum_ms"]} if done.returncode == 0 else {"error": done.stderr.strip()[-300:]}


def measure(args, path: pathlib.Path, inputs: dict, folder: pathlib.Path) -> dict:
    import numpy

    plan = folder / "net.plan"
    begin = time.monotonic()
    done = carnot(args, "build", path, "--backend=cuda", "--fp16", f"--output={plan}")
    if done.returncode:
        return {"error": done.stderr.strip()[-300:]}
    record = {"build_s": time.monotonic() - begin} | inspect(args, plan)
    done = carnot(args, "bench", plan, "--json", f"--duration={TIMED_S}")
    if done.returncode:
        return record | {"error": done.stderr.strip()[-300:]}
    bench = json.loads(done.stdout.splitlines()[-1])
    record |= {"ms": bench["median_ms"]} | first_run(args, plan)
    if args.profiles:
        done = carnot(args, "bench", plan, "--dumpProfile", "--duration=0.1")
        (pathlib.Path(args.profiles) / f"{path.stem}.txt").write_text(done.stdout + done.stderr)
    flags = [f"--input={name}={file}" for name, file in inputs.items()]
    done = carnot(args, "run", plan, *flags, f"--output-dir={folder / 'out'}")
    if done.returncode:
        return record | {"error": done.stderr.strip()[-300:]}
    wanted = numpy.load(folder / "wanted.npy").astype(float)
    got = numpy.load(next((folder / "out").glob("*.npy"))).astype(float)
    return record | {"l2": float(numpy.linalg.norm(got.ravel() - wanted.ravel()) / numpy.linalg.norm(wanted.ravel()))}


class Worker:
    """A process that prepares one network, with all that it starts."""

    def __init__(self, args, name: str, folder: pathlib.Path):
        context = multiprocessing.get_context("spawn")
        folder.mkdir()
        self.folder, self.begin, self.used_s = folder, time.monotonic(), 0.0
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(name, args, str(folder), theirs), daemon=True)
        self.process.start()
        theirs.close()

    def signal(self, number: int) -> None:
        for kill, pid in ((os.killpg, self.process.pid), (os.kill, self.process.pid)):  # a group from work() on
            with contextlib.suppress(ProcessLookupError):
                kill(pid, number)

    def pause(self) -> None:
        self.used_s += time.monotonic() - self.begin
        self.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.begin = time.monotonic()
        self.signal(signal.SIGCONT)

    def seconds(self) -> float:
        return self.used_s + time.monotonic() - self.begin

    def end(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.join()

    def receive(self, limit: float) -> dict:
        try:
            return self.pipe.recv() if self.pipe.poll(limit) else {"error": f"no answer in {limit:.0f} s"}
        except EOFError:
            return {"error": "the process that prepares it ended"}

    def time_peers(self, limit: float) -> dict:
        try:
            self.pipe.send("time")
        except OSError:
            return {}
        found = self.receive(limit)
        return {} if "error" in found else found


def prepared_in_turns(args, names: list, folder: pathlib.Path):
    """Each name with its worker, once that has prepared it or has taken too long. All other workers stand still meanwhile."""
    left, busy, start = list(names), {}, time.monotonic()
    while left or busy:
        while left and len(busy) < args.jobs and time.monotonic() - start < args.seconds:
            name = left.pop(0)
            busy[name] = Worker(args, name, folder / name)
        if time.monotonic() - start >= args.seconds:
            break
        ready = [n for n, w in busy.items() if w.pipe.poll(0) or w.seconds() > args.limit]
        # Some at a time: who stands still loses what it did not finish.
        if len(ready) < min(len(busy), (args.jobs + 1) // 2):
            time.sleep(0.05)
            continue
        waiting = [w for n, w in busy.items() if n not in ready]
        for worker in waiting:
            worker.pause()
        for name in ready:
            if time.monotonic() - start < args.seconds:
                yield name, busy.pop(name)
        for worker in waiting:
            worker.go_on()
    for worker in busy.values():
        worker.end()


def look_at(args, name: str, worker: Worker) -> dict:
    """The record of one network, while nothing else is timed."""
    from zoo_networks import FAMILY

    record, folder = {"network": name, "family": FAMILY[name], "batch": args.batch, "exporters": {}}, worker.folder
    prepared = worker.receive(0) if worker.pipe.poll(0) else {"error": f"not prepared in {args.limit:.0f} s"}
    if "error" in prepared:
        return record | prepared
    record["failed"] = prepared["failed"]
    if not args.no_gpu:
        record["torch"] = worker.time_peers(args.limit)
        worker.end()  # its memory is free before Carnot is built
    for exporter, path in prepared["paths"].items():
        if exporter in prepared["failed"]:
            continue
        inputs = {f"x{i}": folder / f"x{i}.npy" for i in range(len(list(folder.glob("x?.npy"))))}
        try:
            found = inspect(args, pathlib.Path(path)) if args.no_gpu else measure(args, pathlib.Path(path), inputs, folder)
        except subprocess.TimeoutExpired:
            found = {"error": f"no end in {args.limit} s"}
        record["exporters"][exporter] = found
    return record


def ratio(record: dict, exporter: str) -> float:
    times, found = record.get("torch") or {}, record["exporters"].get(exporter, {})
    return min(times.values()) / found["ms"] if times and "ms" in found else math.nan


def rows(record: dict) -> list[str]:
    if "error" in record:
        return [f"{record['network']:22} {record['error'][:120]}"]
    lines = [f"{record['network']:22} {what}: {why[:100]}" for what, why in record["failed"].items()]
    torch = " ".join(f"{record['torch'][p]:8.3f}" if p in record["torch"] else f"{'-':>8}" for p in ("graph", "compile")) if "torch" in record else ""
    for exporter, found in record["exporters"].items():
        cells = f"{record['network']:22} {exporter:7}"
        if "ms" in found:
            cells += f"{found['ms']:8.3f} {torch} {ratio(record, exporter):6.2f} {found['build_s']:6.1f} {found['load_ms']:6.0f} {found.get('l2', math.nan):8.1e}"
        if "host" in found:
            cells += f" {found['steps']:5} {found['host']:4} {found['size_steps']:4}"
        named = collections.Counter(found.get("host_steps", []))
        lines.append(cells + "".join(f" {n}x {step};" for step, n in named.most_common(6)) + f" {found.get('error', '')}"[-160:])
    return lines


def summary(records: list, args) -> None:
    for exporter in args.exporters:
        ratios = {r["network"]: x for r in records if not math.isnan(x := ratio(r, exporter))}
        if ratios:
            mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
            slow = sorted((x, name) for name, x in ratios.items() if x < 1.2)
            print(f"{exporter}: geometric mean of {len(ratios)}: {mean:.2f}; below 1.2: " + (", ".join(f"{n} {x:.2f}" for x, n in slow) or "none"))
    found = [(r["network"], e, f) for r in records for e, f in r["exporters"].items()]
    print(f"{len(records)} networks; with steps on the host: " + (", ".join(f"{n} ({e})" for n, e, f in found if f.get("host")) or "none"))
    failed = [f"{r['network']} ({what})" for r in records for what in ([""] if "error" in r else [*r["failed"], *(e for e, f in r["exporters"].items() if "error" in f)])]
    print("failed: " + (", ".join(failed) or "none"))


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("carnot")
    ap.add_argument("--no-gpu", action="store_true")
    ap.add_argument("--only", default="")
    ap.add_argument("--exporters", default="dynamo,script")
    ap.add_argument("--peers", default="graph,compile")
    ap.add_argument("--batch", type=int, default=1)
    ap.add_argument("--seconds", type=float, default=math.inf, help="no network is begun later")
    ap.add_argument("--limit", type=float, default=240, help="seconds for one step of one network")
    ap.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2))
    ap.add_argument("--models", default="")
    ap.add_argument("--json", default="")
    ap.add_argument("--profiles", default="", help="folder for the times of each network's layers")
    args = ap.parse_args()
    from zoo_networks import MAKERS

    args.exporters, args.peers = args.exporters.split(","), [p for p in args.peers.split(",") if p]
    names = args.only.split(",") if args.only else list(MAKERS)
    unknown = [name for name in names if name not in MAKERS]
    if unknown:
        ap.error(f"--only {','.join(unknown)}: no network of bench/zoo_networks.py, which has {', '.join(MAKERS)}")
    file = pathlib.Path(args.json) if args.json else None
    records = [json.loads(line) for line in file.read_text().splitlines()] if file and file.exists() else []
    known = {(r["network"], r["batch"]) for r in records}
    names = [name for name in names if (name, args.batch) not in known]
    print(f"{'network':22} {'export':7}{'ms':>8} {'graph':>8} {'compile':>8} {'ratio':>6} {'build':>6} {'load':>6} {'L2':>8} {'steps':>5} host sizes")
    with tempfile.TemporaryDirectory() as temporary:
        for name, worker in prepared_in_turns(args, names, pathlib.Path(temporary)):
            records.append(look_at(args, name, worker))
            worker.end()
            if file:
                file.write_text("".join(json.dumps(r) + "\n" for r in records))
            print("\n".join(rows(records[-1])), flush=True)
    summary([r for r in records if r["batch"] == args.batch], args)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
