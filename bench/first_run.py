#!/usr/bin/env python3
"""Milliseconds from a ready CUDA context to the first result of an engine, in a process of its own.

Usage: first_run.py RUNTIME PLAN [--allow-code]     RUNTIME is libcarnot_runtime.so

Prints one JSON object: reading the file, making the context (weights are copied), the first run (steps are configured,
programs compiled, libraries started, a graph recorded), their sum, and a second run. Nothing else is loaded: no PyTorch.
"""

import argparse
import ctypes
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "cuda"))
from runtime import Dims, Info, Runtime  # noqa: E402


class Config(ctypes.Structure):
    _fields_ = [
        ("executor", ctypes.c_void_p),
        ("thread_count", ctypes.c_int),
        ("memory_limit_bytes", ctypes.c_uint64),
        ("host_tensors", ctypes.c_bool),
        ("device", ctypes.c_char_p),
    ]


def open_cuda() -> None:
    driver, context, device = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_int()
    for failed in (driver.cuInit(0), driver.cuDeviceGet(ctypes.byref(device), 0), driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)):
        if failed:
            raise RuntimeError(f"the driver gave error {failed}")
    driver.cuCtxSetCurrent(context)


def main() -> int:
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("runtime")
    ap.add_argument("plan")
    ap.add_argument("--allow-code", action="store_true")
    args = ap.parse_args()
    open_cuda()
    runtime = Runtime(args.runtime)
    runtime.lib.carnot_engine_tensor_count.restype = ctypes.c_uint32
    if args.allow_code:
        runtime.lib.carnot_plugin_allow_engine_code(True)
    times = [time.perf_counter()]
    engine, context, config = runtime.load(args.plan), ctypes.c_void_p(), Config(host_tensors=True)
    times.append(time.perf_counter())
    runtime.call("carnot_context_create", engine, ctypes.byref(config), ctypes.byref(context))
    times.append(time.perf_counter())
    kept = []
    for i in range(runtime.lib.carnot_engine_tensor_count(engine)):
        info, best = Info(), Dims()
        runtime.call("carnot_engine_tensor_info", engine, i, ctypes.byref(info))
        if not info.is_input:
            continue
        runtime.call("carnot_engine_profile_shapes", engine, 0, info.name, None, ctypes.byref(best), None)
        count = 1
        for d in best.d[: best.rank]:
            count *= d
        kept.append((ctypes.c_uint64 * count)())  # zeros, room for any type
        runtime.call("carnot_context_set_input", context, info.name, ctypes.byref(best), kept[-1])
    for _ in range(2):
        runtime.call("carnot_context_run", context)
        times.append(time.perf_counter())
    load, make, first, second = ((b - a) * 1e3 for a, b in zip(times, times[1:]))
    print(json.dumps({"read_ms": load, "context_ms": make, "first_ms": first, "sum_ms": load + make + first, "second_ms": second}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
