#!/usr/bin/env python3
"""Time from a ready CUDA context to the first result of an engine, and the device memory it takes.

A process of its own, so that nothing is loaded before. Usage: first_result.py RUNTIME PLAN INPUT ..
RUNTIME is libcarnot_runtime.so, an INPUT reads "x:float32:1x3x224x224".
"""

import ctypes
import pathlib
import sys
import time

import torch
from runtime import Context, Dims, Info, Runtime


def main(library: str, plan: str, inputs: list[str]) -> None:
    tensors, free = [], torch.cuda.mem_get_info
    for text in inputs:
        name, kind, dims = text.split(":")
        tensors.append((name, torch.ones([int(d) for d in dims.split("x")], dtype=getattr(torch, kind), device="cuda")))
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    before, start = free()[0], time.perf_counter()
    runtime = Runtime(library)
    engine = runtime.load(plan)
    context = Context(runtime, engine)
    for name, t in tensors:
        context.set(name, t, shape=True)
    runtime.call("carnot_context_infer_shapes", context.handle)
    for i in range(runtime.lib.carnot_engine_tensor_count(engine)):
        info = Info()
        runtime.call("carnot_engine_tensor_info", engine, i, ctypes.byref(info))
        if not info.is_input:
            dims = Dims()
            runtime.call("carnot_context_tensor_dims", context.handle, info.name, ctypes.byref(dims))
            outputs = info.name.decode(), tuple(dims.d[: dims.rank])
            y = torch.empty(outputs[1], device="cuda")
            context.set(outputs[0], y)
    context.enqueue(stream)
    stream.synchronize()
    took, taken = time.perf_counter() - start, before - free()[0]
    runtime.lib.carnot_engine_memory_bytes.restype = ctypes.c_uint64
    wanted = pathlib.Path(plan).stat().st_size + runtime.lib.carnot_engine_memory_bytes(engine)
    many = [torch.empty(outputs[1], device="cuda") for _ in range(24)]

    def host_us(tensors: list) -> float:
        start = time.perf_counter()
        for t in tensors:
            context.set(outputs[0], t)
            context.enqueue(stream)
        stream.synchronize()
        return (time.perf_counter() - start) * 1e6 / len(tensors)

    host_us(many)
    print(
        f"{took * 1e3:.0f} ms to the first result, {taken / 2**20:.0f} MiB of device memory; "
        f"the file and the activations of the plan {wanted / 2**20:.0f} MiB; "
        f"a run {host_us([many[0]] * 96):.0f} us, {host_us(many * 4):.0f} us when its output is a new tensor each time"
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
