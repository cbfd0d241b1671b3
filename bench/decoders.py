#!/usr/bin/env python3
"""Decoders with caches on the processor beside ONNX Runtime and OpenVINO, in alternating rounds.

Usage: decoders.py [--forms genai,concat,…] [--threads N] [--past 128,1024] [--rounds N] [--cpu-time] [--models FOLDER] [--layers N …]

Writes the decoders of decoder_graphs.py (kept in FOLDER if one is given), runs one token behind each past and a prompt
of 128 tokens, and prints milliseconds (minima), with the largest difference of the logits from ONNX Runtime's.
"shared" is Carnot with one buffer for each cache and its result, where the form has room in its caches. Needs carnot,
onnxruntime, openvino, and torch with transformers for PyTorch's forms, in one Python.
"""
import argparse
import pathlib
import tempfile
import time

import carnot
import decoder_graphs
import numpy as np
import onnxruntime
from carnot.engine.context import IExecutionContext, new_executor

ROOM = 16  # rows that the caches of forms with fixed caches have behind the past
PROMPT = 128


class Carnot:
    """An engine at one shape, its outputs allocated once."""

    def __init__(self, engine, feeds: dict, threads: int, shared: bool = False):
        self.context = IExecutionContext(engine, executor=new_executor(threads))
        self.inputs = {name: np.ascontiguousarray(x) for name, x in feeds.items()}
        self.outputs = {}
        for name, x in self.inputs.items():
            self.context.set_input_shape(name, x.shape)
            self.context.set_tensor_address(name, x.ctypes.data)
        for i in range(engine.num_io_tensors):
            name = engine.get_tensor_name(i)
            if name in self.inputs:
                continue
            past = self.inputs.get(name.replace("present", "past_key_values"))
            shape = tuple(self.context.get_tensor_shape(name))
            self.outputs[name] = past if shared and past is not None else np.empty(shape, np.float32)
            self.context.set_tensor_address(name, self.outputs[name].ctypes.data)

    def __call__(self) -> dict:
        assert self.context.execute_async_v3(0)
        return self.outputs


def onnxruntime_call(path: pathlib.Path, feeds: dict, threads: int):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, x in feeds.items():
        binding.bind_cpu_input(name, x)
    for output in session.get_outputs():
        binding.bind_output(output.name)

    def call() -> list:
        session.run_with_iobinding(binding)
        return binding

    return call


def openvino_call(path: pathlib.Path, feeds: dict, threads: int):
    import openvino

    settings = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
    request = openvino.Core().compile_model(str(path), "CPU", settings).create_infer_request()
    for name, x in feeds.items():
        request.set_tensor(name, openvino.Tensor(x, shared_memory=True))
    return request.infer


def profile(form: str, size: decoder_graphs.Size, longest: int) -> dict:
    """Minimum, usual (one token) and maximum shapes of every input."""
    ends = [decoder_graphs.feeds(form, size, *of) for of in ((0, 1), (longest // 2, 1), (longest, PROMPT))]
    return {name: tuple(x[name].shape for x in ends) for name in ends[0]}


def rounds(calls: dict, count: int, clock=time.perf_counter) -> dict:
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(count):
        for name, call in calls.items():
            call()
            for _ in range(3):
                begin = clock()
                call()
                best[name] = min(best[name], (clock() - begin) * 1e3)
            time.sleep(0.02)  # threads of the one before stop spinning
    return best


def compare(args, form: str, size, path: pathlib.Path, engine, past: int, length: int) -> None:
    feeds = decoder_graphs.feeds(form, size, past, length, capacity=past + length + ROOM)
    calls = {"carnot": Carnot(engine, feeds, args.threads)}
    if form.startswith(("scatter", "genai")):
        copies = {name: x.copy() for name, x in feeds.items()}
        calls["shared"] = Carnot(engine, copies, args.threads, shared=True)
    wanted = None
    for name, make in (("onnxruntime", onnxruntime_call), ("openvino", openvino_call)):
        try:
            call = make(path, feeds, args.threads)
            result = call()
            if name == "onnxruntime":
                wanted = result.copy_outputs_to_cpu()[0]
            calls[name] = call
        except Exception as error:
            print(f"  {name} does not run it: {str(error).strip().splitlines()[-1][:100]}")
    got = {name: call()["logits"].copy() for name, call in calls.items() if name in ("carnot", "shared")}
    best = rounds(calls, args.rounds, time.process_time if args.cpu_time else time.perf_counter)
    cells = "  ".join(f"{name} {ms:8.2f}" for name, ms in best.items())
    errors = "  ".join(f"{np.abs(y - wanted).max():.1e}" for y in got.values()) if wanted is not None else ""
    print(f"{form:12} past {past:5} tokens {length:4}  {cells}  difference {errors}", flush=True)


def main() -> None:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--forms", default=",".join(decoder_graphs.FORMS))
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--past", default="128,1024")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--models", default="", help="folder that keeps the ONNX files")
    ap.add_argument("--bf16", action="store_true")
    ap.add_argument("--cpu-time", action="store_true", help="processor time, for one thread on a machine that is not idle")
    for field, value in vars(decoder_graphs.Size()).items():
        ap.add_argument(f"--{field}", type=int, default=value)
    args = ap.parse_args()
    size = decoder_graphs.Size(**{field: getattr(args, field) for field in vars(decoder_graphs.Size())})
    pasts = [int(past) for past in args.past.split(",")]
    with tempfile.TemporaryDirectory() as temporary:
        for form in args.forms.split(","):
            path = pathlib.Path(args.models or temporary) / f"{form}.onnx"
            if not path.exists():
                decoder_graphs.FORMS[form](size, path)
            plan = carnot.build(str(path), shapes=profile(form, size, max(pasts) + PROMPT + ROOM), backend="cpu", bf16=args.bf16)
            engine = carnot.Runtime(carnot.Logger(carnot.Logger.ERROR)).deserialize_cuda_engine(plan)
            for past in pasts:
                compare(args, form, size, path, engine, past, 1)
            compare(args, form, size, path, engine, 0, PROMPT)
            if not args.models:
                path.unlink()


if __name__ == "__main__":
    main()
